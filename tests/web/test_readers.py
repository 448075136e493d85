#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What reads files and texts, in 32 bits: its tests and its fuzz targets over their seeds, compiled
to WebAssembly, under node."""
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import wasm

HERE = Path(__file__).resolve().parent
RUNS = "200"  # changed versions of each seed


def run(program, *args):
    """The exit status; what it prints is shown with its name."""
    with tempfile.TemporaryDirectory() as folder:
        command = [shutil.which("node"), HERE / "readers_node.mjs", folder,
                   wasm.SOURCE, program, *args]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              check=False)
    print(f"{program.stem}: {done.stdout}{done.stderr}".rstrip(), flush=True)
    return done.returncode


def main():
    if not shutil.which("node"):
        wasm.skip("node is missing; apt-get install nodejs")
    programs = sorted((wasm.build() / "tests").glob("*.wasm"))
    failed = []
    for program in programs:
        name = program.stem
        seeds = [f"/source/tests/fuzz/seeds/{name[5:]}", RUNS] if name.startswith("fuzz_") else []
        if run(program, *seeds):
            failed.append(name)
    print(f"{len(programs)} programs, failed: {', '.join(failed) or 'none'}")
    return int(bool(failed) or not programs)


if __name__ == "__main__":
    sys.exit(main())
