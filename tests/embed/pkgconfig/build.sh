#!/bin/sh
# SPDX-License-Identifier: MIT
# Uses an installed rlx through pkg-config and a plain compiler call: shared, then static.
# usage: build.sh CC SOURCE OUT   (PKG_CONFIG_PATH points to the installed rlx.pc)
set -eu
cc=$1 source=$2 out=$3
lib=$(pkg-config --variable=libdir rlx)
"$cc" -std=c11 $(pkg-config --cflags rlx) -o "$out/app" "$source" $(pkg-config --libs rlx) \
    -Wl,-rpath,"$lib"
"$cc" -std=c11 $(pkg-config --cflags rlx) -o "$out/app_static" "$source" \
    -Wl,-Bstatic $(pkg-config --libs rlx) -Wl,-Bdynamic -pthread -lm -ldl
"$out/app"
"$out/app_static"
