#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Runs files_node.mjs: files that the WebAssembly module reads in parts."""
import shutil
import subprocess
import sys
from pathlib import Path

if not shutil.which("node"):
    print("skipped: node is missing; apt-get install nodejs")
    sys.exit(77)
command = ["node", Path(__file__).with_name("files_node.mjs")]
sys.exit(subprocess.run(command, timeout=60).returncode)
