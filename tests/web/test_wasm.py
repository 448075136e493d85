#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The library in WebAssembly under node: every op case on the CPU device, the JavaScript API, and
the size of the module."""
import gzip
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import wasm

HERE = Path(__file__).resolve().parent
MAX_GZIP = 5 << 18  # bytes of rlx.wasm as a server sends it


def check_version():
    header = (wasm.SOURCE / "include/rlx/base.h").read_text(encoding="utf-8")
    version = ".".join(re.findall(r"#define RLX_VERSION_\w+ (\d+)", header))
    package = json.loads((wasm.SOURCE / "web/package.json").read_text(encoding="utf-8"))
    if package["version"] != version:
        print(f"FAIL web/package.json has version {package['version']}, not {version}")
    return package["version"] == version


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
    failed = packed > MAX_GZIP or not check_version()
    failed |= node("api_node.mjs", build / "rlx.wasm") != 0
    failed |= node("optest_node.mjs", build / "optest.wasm", "--device", "cpu") != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
