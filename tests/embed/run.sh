#!/bin/sh
# SPDX-License-Identifier: MIT
# Builds and runs each small project of this folder the way a user of rlx would. The install is
# moved once before it is used, so nothing in it may know where it was made.
# usage: run.sh CMAKE GENERATOR CC [CXX]   (RLX_SOURCE_DIR and RLX_BUILD_DIR are set)
set -eu
cmake=$1 generator=$2 cc=$3 cxx=${4:-}
here=$(cd "$(dirname "$0")" && pwd)
work=$RLX_BUILD_DIR/embed
prefix=$work/moved
log=$work/log
export CC="$cc"

# quiet COMMAND...: shows the output only when the command fails
quiet() {
    "$@" >"$log" 2>&1 || { cat "$log"; echo "failed: $*"; exit 1; }
}

# project NAME OPTION...: configures and builds tests/embed/NAME
project() {
    name=$1; shift
    echo "-- $name"
    quiet "$cmake" -S "$here/$name" -B "$work/$name" -G "$generator" -DCMAKE_BUILD_TYPE=Debug "$@"
    quiet "$cmake" --build "$work/$name" --parallel 2
}

rm -rf "$work"
mkdir -p "$work"
quiet "$cmake" --install "$RLX_BUILD_DIR" --prefix "$work/installed"
mv "$work/installed" "$prefix"

project package -DCMAKE_PREFIX_PATH="$prefix"
"$work/package/app_rlx"
"$work/package/app_static"

pc=$(find "$prefix" -name rlx.pc)
if command -v pkg-config >/dev/null; then
    echo "-- pkgconfig"
    mkdir -p "$work/pkgconfig"
    PKG_CONFIG_PATH=${pc%/*} sh "$here/pkgconfig/build.sh" "$cc" "$here/app.c" "$work/pkgconfig"
else
    echo "-- pkgconfig: skipped, pkg-config is not installed"
fi

if command -v "$cxx" >/dev/null; then
    CXX=$cxx project cxx -DCMAKE_PREFIX_PATH="$prefix"
    "$work/cxx/app"
else
    echo "-- cxx: skipped, no C++ compiler"
fi

project subdirectory -DRLX_SOURCE_DIR="$RLX_SOURCE_DIR" -DRLX_SIMD= \
    -DCMAKE_C_FLAGS_DEBUG=-O0 # both compile faster
"$work/subdirectory/app"
