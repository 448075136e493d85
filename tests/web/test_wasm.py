#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in WebAssembly under node: every op case on the CPU device, the JavaScript API, and
the size of the module."""
import gzip
import shutil
import subprocess
import sys
from pathlib import Path

import wasm

HERE = Path(__file__).resolve().parent
MAX_GZIP = 3 << 19  # bytes of rlx.wasm as a server sends it


def node(script, *args):
    command = [shutil.which("node"), HERE / script, *args]
    return subprocess.run([str(part) for part in command], check=False).returncode


def main():
    if not shutil.which("node"):
        wasm.skip("node is missing; apt-get install nodejs")
    build = wasm.build()
    data = (build / "rlx.wasm").read_bytes()
    packed = len(gzip.compress(data, 9))
    print(f"rlx.wasm: {len(data)} bytes, {packed} compressed")
    failed = packed > MAX_GZIP
    failed |= node("api_node.mjs", build / "rlx.wasm") != 0
    failed |= node("optest_node.mjs", build / "optest.wasm", "--device", "cpu") != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
