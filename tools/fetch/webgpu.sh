#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the two native WebGPU implementations that the tests use, pinned in pins.txt:
#   .cache/wgpu/libwgpu_native-release.so   wgpu-native 29 with naga, from PyPI's wgpu
#   .cache/dawn/libwebgpu_wrapper.so        Dawn with Tint, from npm's bun-webgpu-linux-x64
# Does nothing where both are there. Exit status 1: one of them could not be had; the other is.
# 2: a download is not the one that was pinned.
# usage: tools/fetch/webgpu.sh [wgpu|dawn]
set -eu
cd "$(dirname "$0")/../.."

# place FILE FOLDER: into .cache at once, so that nobody sees half of it
place() {
    mkdir -p ".cache/$2"
    mv "$1" ".cache/$2/.new.$$"
    mv ".cache/$2/.new.$$" ".cache/$2/$(basename "$1")"
}

get_wgpu() {
    [ ! -f .cache/wgpu/libwgpu_native-release.so ] || return 0
    sh tools/fetch/get.sh "$work" wgpu || return $?
    python3 -m zipfile -e "$work"/wgpu-*.whl "$work/wgpu"
    for file in webgpu.h wgpu.h libwgpu_native-release.so; do
        place "$work/wgpu/wgpu/resources/$file" wgpu
    done
}

get_dawn() {
    [ ! -f .cache/dawn/libwebgpu_wrapper.so ] || return 0
    sh tools/fetch/get.sh "$work" bun-webgpu-linux-x64 || return $?
    tar -xzf "$work"/bun-webgpu-*.tgz -C "$work"
    place "$work/package/libwebgpu_wrapper.so" dawn
}

if [ "$(uname -sm)" != "Linux x86_64" ]; then
    echo "fetch: WebGPU implementations are pinned for Linux on x86-64 only" >&2
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for part in ${1:-wgpu dawn}; do
    "get_$part" || { got=$?; [ $got -le $status ] || status=$got; }
done
exit $status
