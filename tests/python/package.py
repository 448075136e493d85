# SPDX-License-Identifier: MIT
"""The Python package of this tree, on the library of this build: import this first."""
import os
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("RLX_BUILD_DIR") or SOURCE / "build-test")
SKIP = 77

if not os.environ.get("RLX_TEST_INSTALLED"):  # else the package that pip has installed
    os.environ.setdefault("RLX_LIBRARY", str(BUILD / "librlx.so"))
    os.environ.setdefault("RLX_TOOL", str(BUILD / "rlx"))
    sys.path.insert(0, str(SOURCE / "python"))
sys.dont_write_bytecode = True


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def need_numpy():
    try:
        import numpy  # noqa: F401
    except ImportError:
        skip("NumPy is missing; apt-get install python3-numpy")
