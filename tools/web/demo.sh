#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds rlx.wasm and rlx-threads.wasm, fetches the demo's models where that is possible, and
# serves the demo page.
# Arguments go to tools/web/serve.py: --port N, --host ADDRESS, --open.
set -eu
cd "$(dirname "$0")/../.."

say() { echo "web-demo: $*" >&2; }

need() {
    say "rlx.wasm cannot be built: $1 is missing; apt-get install clang-19 lld-19 wasi-libc" \
        "libclang-rt-19-dev-wasm32 cmake"
    exit 1
}

command -v cmake >/dev/null || need cmake
command -v clang-19 >/dev/null || command -v clang-14 >/dev/null || command -v clang >/dev/null ||
    need clang-19
[ -f "${RLX_WASI_SYSROOT:-/usr}/include/wasm32-wasi/stdlib.h" ] || need wasi-libc
command -v python3 >/dev/null || { say "python3 is missing: it serves the page"; exit 1; }

say "building build-wasm/rlx.wasm and rlx-threads.wasm"
generator=$(command -v ninja >/dev/null && echo Ninja || echo "Unix Makefiles")
[ -f build-wasm/CMakeCache.txt ] || cmake -G "$generator" -B build-wasm -S . \
    -DCMAKE_TOOLCHAIN_FILE=cmake/wasm.cmake -DRLX_BUILD_TESTS=OFF >/dev/null
cmake --build build-wasm --target rlx_wasm rlx-threads_wasm \
    -j "$(nproc 2>/dev/null || echo 2)" >/dev/null

say "models in .cache/models"
sh tools/fetch/models.sh || say "not every model could be fetched; the page says which is missing"

exec python3 tools/web/serve.py "$@"
