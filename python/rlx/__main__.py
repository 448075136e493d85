# SPDX-License-Identifier: MIT
"""`python -m rlx COMMAND ...`: the command line of rlx, which is in this package."""
from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def tool() -> str:
    """The program: RLX_TOOL, else the one of this package."""
    name = "rlx.exe" if sys.platform == "win32" else "rlx"
    path = os.environ.get("RLX_TOOL") or str(Path(__file__).resolve().parent / "bin" / name)
    if not os.path.exists(path):
        sys.exit(f"rlx: error: the command line is not here: '{path}' does not exist")
    return path


def main() -> int:
    """Runs it in place of this process."""
    command = [tool(), *sys.argv[1:]]
    if os.name == "posix":
        sys.stdout.flush()
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
