#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""mypy --strict accepts the package and its examples, and the examples run. mypy takes ten seconds:
only ./run test-all runs it."""
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import package

package.need_numpy()
EXAMPLES = sorted((package.SOURCE / "examples/python").glob("*.py"))


def run_examples():
    failed = not EXAMPLES
    for path in EXAMPLES:
        done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False,
                              cwd=package.SOURCE,
                              env={**os.environ, "PYTHONPATH": str(package.SOURCE / "python")})
        ok = done.returncode == 0 and not done.stderr and done.stdout
        print(f"{'ok  ' if ok else 'FAIL'} {path.name}: {done.stderr}")
        failed |= not ok
    return failed


def check_types():
    with tempfile.TemporaryDirectory() as folder:
        got = subprocess.run(["sh", package.SOURCE / "tools/fetch/get.sh", folder, "mypy",
                              "mypy-extensions", "typing_extensions"], check=False)
        if got.returncode:
            print("skip mypy: it cannot be fetched")
            return got.returncode == 2
        for wheel in list(Path(folder).glob("*.whl")):
            zipfile.ZipFile(wheel).extractall(folder)
        return subprocess.run(
            [sys.executable, "-m", "mypy", "--strict", "--cache-dir", os.path.join(folder, "cache"),
             *EXAMPLES, package.SOURCE / "python/rlx"], check=False,
            env={**os.environ, "PYTHONPATH": folder,
                 "MYPYPATH": str(package.SOURCE / "python")}).returncode != 0


failures = run_examples()
if os.environ.get("RLX_TEST_EVERY") == "1":
    failures |= check_types()
sys.exit(failures)
