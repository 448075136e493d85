#!/bin/sh
# SPDX-License-Identifier: MIT
# Fetches the two native WebGPU implementations that the tests use, pinned by version and digest:
#   .cache/wgpu/libwgpu_native-release.so   wgpu-native 29 with naga, from PyPI's wgpu
#   .cache/dawn/libwebgpu_wrapper.so        Dawn with Tint, from npm's bun-webgpu-linux-x64
# Does nothing where both are there. Exit status 1: one of them could not be had; the other is.
# usage: tools/fetch/webgpu.sh [wgpu|dawn]
set -eu
cd "$(dirname "$0")/../.."

wgpu=wgpu-0.32.0-py3-none-manylinux_2_28_x86_64.whl
wgpu_sha=6499a31b5a29a10b4f1089fea4a0806411f42605fa86b6c0b543a07ca0de8568
dawn=bun-webgpu-linux-x64-0.1.7.tgz
dawn_sha=8badfecdad4e726ac12be4f29771f4cbd7ce7683b4418316a547c5bda94fb798

say() { echo "fetch/webgpu: $*" >&2; }

# right FILE SHA256
right() { echo "$2  $1" | sha256sum -c >/dev/null 2>&1; }

# place FILE FOLDER: into .cache at once, so that nobody sees half of it
place() {
    mkdir -p ".cache/$2"
    mv "$1" ".cache/$2/.new.$$"
    mv ".cache/$2/.new.$$" ".cache/$2/$(basename "$1")"
}

get_wgpu() {
    [ ! -f .cache/wgpu/libwgpu_native-release.so ] || return 0
    python3 -m pip download -q --retries 1 --no-deps --only-binary=:all: \
        --platform manylinux_2_28_x86_64 -d "$work" wgpu==0.32.0 >&2 ||
        { say "pip cannot fetch wgpu 0.32.0"; return 1; }
    right "$work/$wgpu" $wgpu_sha || { say "$wgpu is not what it was"; return 1; }
    python3 -m zipfile -e "$work/$wgpu" "$work/wgpu"
    for file in libwgpu_native-release.so webgpu.h wgpu.h; do
        place "$work/wgpu/wgpu/resources/$file" wgpu
    done
}

get_dawn() {
    [ ! -f .cache/dawn/libwebgpu_wrapper.so ] || return 0
    (cd "$work" && npm pack --silent --fetch-retries=1 bun-webgpu-linux-x64@0.1.7 >/dev/null) ||
        { say "npm cannot fetch bun-webgpu-linux-x64 0.1.7"; return 1; }
    right "$work/$dawn" $dawn_sha || { say "$dawn is not what it was"; return 1; }
    tar -xzf "$work/$dawn" -C "$work"
    place "$work/package/libwebgpu_wrapper.so" dawn
}

[ "$(uname -sm)" = "Linux x86_64" ] || { say "only for Linux on x86-64"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
status=0
for part in ${1:-wgpu dawn}; do
    "get_$part" || status=1
done
exit $status
