# SPDX-License-Identifier: MIT
"""Builds the WebAssembly modules for the tests, once; tests that run at the same time wait."""
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("RLX_SOURCE_DIR") or Path(__file__).resolve().parents[2])
BUILD = Path(os.environ.get("RLX_BUILD_DIR") or SOURCE / "build") / "wasm"
SKIP = 77


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def check_compiler():
    names = [f"clang-{n}" for n in range(19, 13, -1)] + ["clang"]
    clang = next(filter(None, map(shutil.which, names)), None)
    sysroot = Path(os.environ.get("RLX_WASI_SYSROOT", "/usr"))
    runtime = clang and subprocess.run(
        [clang, "--target=wasm32-wasi", "-print-libgcc-file-name"], capture_output=True, text=True,
        check=False).stdout.strip()
    linker = (clang or "clang").replace("clang", "wasm-ld")
    missing = []
    if not clang:
        missing.append("clang-19")
    if not (sysroot / "include/wasm32-wasi/stdlib.h").exists():
        missing.append("wasi-libc")
    if not any(map(shutil.which, [linker, "wasm-ld"])):
        missing.append("lld-19")
    if runtime and not Path(runtime).exists():
        missing.append("libclang-rt-19-dev-wasm32")
    if missing:
        skip(f"WebAssembly needs {', '.join(missing)}; apt-get install clang-19 lld-19 wasi-libc "
             "libclang-rt-19-dev-wasm32")


def build():
    """The folder of rlx.wasm, rlx-threads.wasm and optest.wasm, up to date."""
    check_compiler()
    BUILD.mkdir(parents=True, exist_ok=True)
    with open(BUILD / ".lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (BUILD / "CMakeCache.txt").exists():
            generator = "Ninja" if shutil.which("ninja") else "Unix Makefiles"
            run("cmake", "-G", generator, "-S", SOURCE, "-B", BUILD, "-DRLX_BUILD_TESTS=ON",
                f"-DCMAKE_TOOLCHAIN_FILE={SOURCE}/cmake/wasm.cmake")
        run("cmake", "--build", BUILD, "--parallel", os.cpu_count() or 2)
    return BUILD


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                          check=False)
    if done.returncode:
        print(done.stdout[-4000:], done.stderr[-4000:], sep="\n")
        sys.exit(f"failed: {' '.join(map(str, command))}")
