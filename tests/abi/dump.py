#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The ABI of the public headers as libabigail describes it (abidw, Debian: abigail-tools).

The headers, not a build of the library, are what is described: a shared object in which every
function they declare is empty, compiled with debug information. So the text does not depend on how
rlx is built, and a changed header shows in a second. That librlx.so has these functions is what
tests/check_symbols.sh checks, and the compiler that they have these types.

usage: dump.py [--refresh]     without: to standard output; with: to tests/abi/SONAME.abi
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CC = os.environ.get("CC", "cc")


def soname(include):
    """The rule of docs/abi.md: the minor version is part of the name before 1.0."""
    text = (Path(include) / "rlx/base.h").read_text(encoding="utf-8")
    major, minor = (re.search(rf"#define RLX_VERSION_{part} (\d+)", text).group(1)
                    for part in ("MAJOR", "MINOR"))
    return f"librlx.so.{major}" if int(major) else f"librlx.so.0.{minor}"


def compile_headers(include, folder):
    """A shared object with the functions of the headers; each traps, so none needs a result."""
    said = subprocess.run([CC, "-std=c11", "-E", "-P", "-I", include, "-x", "c", "-"], text=True,
                          input="#include <rlx/rlx.h>\n", capture_output=True, check=True).stdout
    source = re.sub(r"(__attribute__\(\(visibility\(\"default\"\)\)\)[^;{}]*\));",
                    r"\1 { __builtin_trap(); }", said)
    functions = source.count("__builtin_trap")
    if functions < 300:
        sys.exit(f"dump.py: only {functions} functions were found in {include}/rlx")
    # The types stay where they are declared: the headers are included, the functions follow.
    bodies = re.findall(r"__attribute__\(\(visibility[^;{}]*\{ __builtin_trap\(\); \}", source)
    stub, made = Path(folder, "stub.c"), Path(folder, soname(include))
    stub.write_text("#include <rlx/rlx.h>\n" + "\n".join(bodies) + "\n", encoding="utf-8")
    subprocess.run([CC, "-std=c11", "-g", "-O0", "-shared", "-fPIC", "-nostdlib", "-w", "-I",
                    include, f"-Wl,-soname,{made.name}", "-o", made.name, stub.name], check=True,
                   cwd=folder)
    return made


def abixml(include):
    """The text that abidw writes, without what differs between machines, and without indents."""
    with tempfile.TemporaryDirectory() as folder:
        made = compile_headers(include, folder)
        text = subprocess.run(
            ["abidw", "--headers-dir", str(Path(include, "rlx")), "--drop-private-types",
             "--no-corpus-path", "--no-comp-dir-path", "--no-show-locs", "--no-elf-needed",
             "--no-architecture", "--no-parameter-names", "--no-write-default-sizes",
             "--type-id-style", "hash", made], text=True, capture_output=True, check=True).stdout
    return re.sub(r"^ +| (visibility='default'|filepath='[^']*')", "", text, flags=re.M)


def main():
    include = str(ROOT / "include")
    if not shutil.which("abidw"):
        sys.exit("dump.py: abidw is not installed (Debian: abigail-tools)")
    if sys.argv[1:] == ["--refresh"]:
        target = HERE / (soname(include) + ".abi")
        target.write_text(abixml(include), encoding="utf-8")
        print(target.relative_to(ROOT))
    elif not sys.argv[1:]:
        sys.stdout.write(abixml(include))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
