#!/bin/sh
# SPDX-License-Identifier: MIT
# The committed kernels are what the pinned compiler makes of the shaders, byte for byte; skipped
# where that compiler cannot be had.
cd "$RLX_SOURCE_DIR" || exit 1
made=$RLX_BUILD_DIR/blob.c
if ! said=$(./run kernels "$made" 2>&1); then
    case $said in
        *"does not compile"* | *"expected SHA-256"*) echo "$said"; exit 1 ;;
        *) echo "skipped: $said"; exit 77 ;;
    esac
fi
cmp "$made" src/gpu/blob.c || { echo "src/gpu/blob.c is stale: ./run kernels"; exit 1; }
