#!/bin/sh
# SPDX-License-Identifier: MIT
# The fast kernels of other processors compile without warnings: NEON with clang and the headers of
# libc6-dev-arm64-cross, WebAssembly with those of wasi-libc; and so does what the CPU device has
# besides. Exit status 77 when no target could be tried.
set -u

root=${RLX_SOURCE_DIR:-$(cd "$(dirname "$0")/../.." && pwd)}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
tried=0 failed=0

command -v clang > /dev/null || { echo "skipped: no clang"; exit 77; }

compile() { # TARGET FILE FLAGS...
    target=$1 file=$2
    shift 2
    if ! clang --target="$target" -std=c11 -D_GNU_SOURCE -ffp-contract=off -Wall -Wextra -Wshadow \
        -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes -Werror -I"$root/include" \
        -I"$root/src" "$@" "$root/$file"; then
        echo "failed: $file for $target"
        failed=1
    fi
}

check_target() { # TARGET HEADER PACKAGE KERNELS FLAGS...
    target=$1 header=$2 package=$3 kernels=$4
    shift 4
    if ! [ -f "$header" ]; then
        echo "skipped: $target, no $header (package $package)"
        return
    fi
    tried=$((tried + 1))
    compile "$target" "$kernels" "$@"
    for path in "$root"/src/base/*.c "$root"/src/cpu/*.c; do
        case $path in *_win.c) continue ;; esac
        compile "$target" "${path#"$root"/}" "$@" -fsyntax-only
    done
}

check_target aarch64-linux-gnu /usr/aarch64-linux-gnu/include/stdio.h libc6-dev-arm64-cross \
    src/cpu/fast/neon.c -isystem /usr/aarch64-linux-gnu/include -O2 -c -o "$out/kernels.o"
# Only read: the tests of tests/web compile it.
check_target wasm32-wasi /usr/include/wasm32-wasi/stdio.h wasi-libc \
    src/cpu/fast/wasm.c -isystem /usr/include/wasm32-wasi -msimd128 \
    -fsyntax-only

[ "$tried" -gt 0 ] || exit 77
[ "$failed" = 0 ] && echo "ok: $tried targets"
exit "$failed"
