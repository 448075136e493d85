# SPDX-License-Identifier: MIT
"""Python packages that tests compare with, pinned in tools/fetch/pins.txt. Where one cannot be had
the program ends with status 77, where it is not the pinned one with 1."""
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR", Path(__file__).resolve().parents[2]))
BUILD = Path(os.environ.get("RLX_BUILD_DIR", "build"))
MODELS = Path(os.environ.get("RLX_MODELS", SOURCE / ".cache" / "models"))
SMOLLM2 = MODELS / "smollm2-135m-instruct.gguf"
TINY = SOURCE / "models" / "tiny-stories.gguf"


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def fetch(*packages, label=None):
    """A folder with the files of the packages, and wheels unpacked in its folder `site`; `label`
    names it where they are many."""
    folder = BUILD / ("packages-" + (label or "-".join(packages)))
    if folder.exists():
        return folder
    new = folder.with_suffix(f".{os.getpid()}")
    got = subprocess.run(["sh", str(SOURCE / "tools/fetch/get.sh"), str(new), *packages],
                         check=False, timeout=600, stderr=subprocess.PIPE, text=True)
    if got.returncode == 2:
        sys.exit(got.stderr)
    if got.returncode:
        skip(got.stderr.strip())
    for wheel in new.glob("*.whl"):  # zip files
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(new / "site")],
                       check=True)
    try:
        new.rename(folder)
    except OSError:  # another test was first
        shutil.rmtree(new)
    return folder


def import_wheels(*packages):
    """Makes wheels importable."""
    sys.path.insert(0, str(fetch(*packages) / "site"))


def schema_suite():
    """The folder of the JSON-Schema-Test-Suite inside of jsonschema's source package."""
    folder = fetch("jsonschema")
    tests = folder / "jsonschema-4.26.0" / "json" / "tests"
    if not tests.exists():
        with tarfile.open(folder / "jsonschema-4.26.0.tar.gz") as tar:
            members = [m for m in tar.getmembers()
                       if m.name.startswith("jsonschema-4.26.0/json/tests/") and m.isfile()]
            tar.extractall(folder, members)
    return tests
