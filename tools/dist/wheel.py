#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs the Python wheel: the package of python/, librlx and the command line of a build.

usage: wheel.py BUILD OUT PLATFORM     (wheel.py build-dist/x86_64-linux-gnu dist
                                        manylinux_2_28_x86_64)

A wheel is a zip file with a list of its files: no build system is needed, so that it is also made
without a network, and its bytes depend on its contents only."""
import base64
import hashlib
import sys
from pathlib import Path

from common import SOURCE, SUMMARY, read, version, write_zip

LIBRARIES = ("librlx.so", "rlx.dll", "librlx.dll", "librlx.dylib")
PROGRAMS = ("rlx", "rlx.exe")

METADATA = """Metadata-Version: 2.1
Name: rlx
Version: {version}
Summary: {summary}
License: MIT
Classifier: License :: OSI Approved :: MIT License
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Requires-Python: >=3.9
Requires-Dist: numpy >=1.22
Description-Content-Type: text/markdown

{readme}"""


def contents(build):
    """name -> (bytes, is it a program?)"""
    files = {}
    for path in sorted((SOURCE / "python/rlx").iterdir()):
        if path.suffix in (".py", ".pyi") or path.name == "py.typed":
            files[f"rlx/{path.name}"] = read(path), False
    for name in LIBRARIES:
        if (build / name).exists():
            own = "rlx.dll" if name.endswith(".dll") else name
            files[f"rlx/lib/{own}"] = read(build / name), True
    for name in PROGRAMS:
        if (build / name).is_file():
            files[f"rlx/bin/{name}"] = read(build / name), True
    if not any(n.startswith("rlx/lib/") for n in files):
        sys.exit(f"wheel.py: there is no librlx in {build}")
    return files


def main():
    build, out, platform = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    info = f"rlx-{version()}.dist-info"
    files = contents(build)
    readme = (SOURCE / "python/README.md").read_text(encoding="utf-8")
    meta = METADATA.format(version=version(), summary=SUMMARY, readme=readme)
    files[f"{info}/METADATA"] = meta.encode(), False
    files[f"{info}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: rlx {version()}\n"
                              f"Root-Is-Purelib: false\nTag: py3-none-{platform}\n").encode(), False
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nrlx = rlx.__main__:main\n", False
    files[f"{info}/LICENSE"] = read(SOURCE / "LICENSE"), False
    rows = [f"{name},sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest())
            .decode().rstrip("=") + f",{len(data)}" for name, (data, _) in files.items()]
    files[f"{info}/RECORD"] = ("\n".join([*rows, f"{info}/RECORD,,"]) + "\n").encode(), False
    out.mkdir(parents=True, exist_ok=True)
    name = f"rlx-{version()}-py3-none-{platform}.whl"
    write_zip(out / name, files)
    print(out / name)


if __name__ == "__main__":
    main()
