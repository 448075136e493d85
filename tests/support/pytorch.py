# SPDX-License-Identifier: MIT
"""For tests that compare with PyTorch: finds a Python that has it, and skips without one."""
import os
import subprocess
import sys


def has(python, modules):
    return subprocess.run([python, "-c", "import " + modules], capture_output=True).returncode == 0


def need(modules="torch"):
    """Returns where the modules can be imported: here, or after this script has begun again in
    RLX_PYTORCH_PYTHON (Debian's python3-torch is for /usr/bin/python3)."""
    if has(sys.executable, modules):
        return
    other = os.environ.get("RLX_PYTORCH_PYTHON", "/usr/bin/python3")
    if other != sys.executable and os.access(other, os.X_OK) and has(other, modules):
        os.execv(other, [other, *sys.argv])
    print(f"skipped: no Python with {modules} here; RLX_PYTORCH_PYTHON can name one")
    sys.exit(77)
