#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Packs the npm package: web/ and the WebAssembly modules of a build.

usage: npm.py WASM_BUILD OUT      (npm.py build-wasm dist)

What package.json lists in "files" is packed, as `npm pack` would, so that no npm is needed and the
bytes depend on the contents only."""
import json
import sys
from pathlib import Path

from common import SOURCE, gzip_bytes, read, tar_bytes, version


def contents(build):
    web = SOURCE / "web"
    package = json.loads((web / "package.json").read_text(encoding="utf-8"))
    if package["version"] != version():
        sys.exit(f"web/package.json has version {package['version']}, not {version()}")
    package.pop("scripts", None)
    files = {"package.json": (json.dumps(package, indent=2) + "\n").encode(),
             "README.md": read(web / "README.md"), "LICENSE": read(SOURCE / "LICENSE")}
    for name in package["files"]:
        path = web / name
        if name.endswith(".wasm"):
            if not (build / name).exists():
                if name == "rlx.wasm":
                    sys.exit(f"npm.py: there is no rlx.wasm in {build}")
                continue
            files[name] = read(build / name)
        elif path.is_dir():
            files.update({f"{name}/{p.name}": read(p) for p in sorted(path.iterdir())})
        else:
            files[name] = read(path)
    return {name: (data, False) for name, data in files.items()}


def main():
    build, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"rlx-{version()}.tgz"
    path.write_bytes(gzip_bytes(tar_bytes(contents(build), "package/")))
    print(path)


if __name__ == "__main__":
    main()
