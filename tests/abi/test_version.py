#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""SONAME and CMake's version rule follow the table of docs/abi.md, for this version and for those
to come; the installed package and rlx.pc have the version of the header."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

root, build = Path(os.environ["RLX_SOURCE_DIR"]), Path(os.environ["RLX_BUILD_DIR"])
failed = 0

# version of the library, end of its SONAME, versions that find it, versions that do not
RULES = [
    ("0.1.0", "0.1", "0.1 0.1.0", "0.0 0.2 1.0"),
    ("0.12.3", "0.12", "0.12 0.12.2", "0.11 0.12.4 0.13 12.0"),
    ("1.0.0", "1", "1.0 1", "0.9 1.1 2.0"),
    ("2.5.1", "2", "2.0 2.4.9 2.5.1", "2.6 1.9 3.0"),
]

SCRIPT = """
cmake_minimum_required(VERSION 3.22)
include("{root}/cmake/RlxVersion.cmake")
include(CMakePackageConfigHelpers)
rlx_compatibility({version} soversion rule)
message("soversion ${{soversion}}")
set(CMAKE_SIZEOF_VOID_P 8)
write_basic_package_version_file("{folder}/rule.cmake" VERSION {version} COMPATIBILITY ${{rule}}
                                 ARCH_INDEPENDENT)
foreach(PACKAGE_FIND_VERSION IN ITEMS {wanted})
    string(REPLACE "." ";" parts "${{PACKAGE_FIND_VERSION}}.0")
    list(GET parts 0 PACKAGE_FIND_VERSION_MAJOR)
    list(GET parts 1 PACKAGE_FIND_VERSION_MINOR)
    unset(PACKAGE_VERSION_COMPATIBLE)
    include("{folder}/rule.cmake")
    if(PACKAGE_VERSION_COMPATIBLE)
        message("finds ${{PACKAGE_FIND_VERSION}}")
    endif()
endforeach()
"""


def check(ok, text):
    global failed
    if not ok:
        failed += 1
        print(text)


def check_rule(version, soversion, finds, refuses):
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "script.cmake")
        script.write_text(SCRIPT.format(root=root, folder=folder, version=version,
                                        wanted=f"{finds} {refuses}"), encoding="utf-8")
        done = subprocess.run(["cmake", "-P", script], text=True, capture_output=True, check=False)
    said = done.stderr.split("\n")
    check(f"soversion {soversion}" in said, f"{version}: no 'soversion {soversion}': {said}")
    found = {line.split()[1] for line in said if line.startswith("finds ")}
    check(found == set(finds.split()), f"{version}: {sorted(found)} find it, not {finds}")


def check_build():
    """What this build installs says the version of the header."""
    text = (root / "include/rlx/base.h").read_text(encoding="utf-8")
    version = ".".join(re.search(rf"#define RLX_VERSION_{part} (\d+)", text).group(1)
                       for part in ("MAJOR", "MINOR", "PATCH"))
    package = (build / "rlx-config-version.cmake").read_text(encoding="utf-8")
    check(f'set(PACKAGE_VERSION "{version}")' in package, f"rlx-config-version.cmake: no {version}")
    pc = (build / "rlx.pc").read_text(encoding="utf-8")
    check(f"\nVersion: {version}\n" in pc, f"rlx.pc: no {version}")


if not shutil.which("cmake"):
    print("skipped: cmake is not on the PATH")
    sys.exit(77)
for rule in RULES:
    check_rule(*rule)
check_build()
print(f"{failed} failed" if failed else f"{len(RULES)} versions follow the policy")
sys.exit(bool(failed))
