#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The source files of a build (a share of them) under the second compiler: clang reads each with
the flags of the build and must have nothing to say. Nothing is compiled: warnings come before that.

usage: check_clang.py BUILD; exit status 77: there is no clang (skipped)
"""
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "support"))
from share import share  # noqa: E402


def clang_command(entry):
    """The compiler's command for a file, as clang's, without output."""
    words = shlex.split(entry["command"])
    while words and not words[0].startswith("-"):  # the compiler, perhaps with a launcher before
        words.pop(0)
    for option in ("-o", "-MF", "-MT"):
        if option in words:
            at = words.index(option)
            del words[at:at + 2]
    return ["clang", *(w for w in words if w not in ("-c", "-MD")), "-fsyntax-only", "-Werror"]


def main():
    if not shutil.which("clang"):
        print("skipped: there is no clang")
        return 77
    entries = json.loads((Path(sys.argv[1]) / "compile_commands.json").read_text(encoding="utf-8"))
    every, first = share(3)
    entries = entries[first::every]
    failed = 0
    for entry in entries:
        done = subprocess.run(clang_command(entry), cwd=entry["directory"], check=False,
                              capture_output=True, text=True)
        if done.returncode:
            failed += 1
            print(done.stderr)
    print(f"{len(entries)} files, {failed} with warnings")
    return int(failed > 0 or not entries)


if __name__ == "__main__":
    sys.exit(main())
