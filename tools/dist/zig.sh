#!/bin/sh
# SPDX-License-Identifier: MIT
# zig.sh TARGET...: the compiler that packages are built with, which has the C libraries of many
# platforms in it: clang as PyPI's ziglang brings it, in the version and with the SHA-256 of
# tools/fetch/pins.txt. Leaves .cache/zig/TARGET/{cc,ar,ranlib} for cmake/zig.cmake.
# Exit status: as tools/fetch/get.sh.
set -eu
cd "$(dirname "$0")/../.."
root=$PWD/.cache/zig

if [ ! -x "$root/ziglang/zig" ]; then
    mkdir -p "$root"
    work=$(mktemp -d "$root/get.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    sh tools/fetch/get.sh "$work" ziglang || exit $?
    (cd "$work" && python3 -m zipfile -e ./*.whl . && chmod +x ziglang/zig)
    [ -x "$root/ziglang/zig" ] || mv "$work/ziglang" "$root/"
fi

for target; do
    mkdir -p "$root/$target"
    for tool in cc ar ranlib; do
        arguments=''
        [ $tool != cc ] || arguments=" -target $target"
        cat >"$root/$target/$tool.new" <<EOF
#!/bin/sh
ZIG_GLOBAL_CACHE_DIR="\${ZIG_GLOBAL_CACHE_DIR:-$root/cache}"
ZIG_LOCAL_CACHE_DIR="\$ZIG_GLOBAL_CACHE_DIR"
export ZIG_GLOBAL_CACHE_DIR ZIG_LOCAL_CACHE_DIR
exec "$root/ziglang/zig" $tool$arguments "\$@"
EOF
        chmod +x "$root/$target/$tool.new"
        if cmp -s "$root/$target/$tool.new" "$root/$target/$tool"; then
            rm "$root/$target/$tool.new"
        else
            mv "$root/$target/$tool.new" "$root/$target/$tool"
        fi
    done
done
