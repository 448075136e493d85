#!/bin/sh
# SPDX-License-Identifier: MIT
# Without a library, with one that is none, or with adapters that are of no use WebGPU is not
# available, the reason says why, and nothing crashes.
set -eu
[ -x "$RLX_TOOL" ] || { echo "skipped: no $RLX_TOOL"; exit 77; }
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT
cache=$RLX_SOURCE_DIR/.cache

says() { # TEXT ENVIRONMENT...
    text=$1; shift
    env "$@" "$RLX_TOOL" devices >"$fake/said" 2>&1 || { cat "$fake/said"; exit 1; }
    tr -s '\n ' '  ' <"$fake/said" | grep -q "webgpu.*$text" || # lines are wrapped
        { echo "expected: $text"; cat "$fake/said"; exit 1; }
}

if RLX_WEBGPU_LIBRARY=/nonexistent "$RLX_TOOL" devices | grep -q "no WebGPU backend"; then
    echo "skipped: built without WebGPU"
    exit 77
fi
says "RLX_WEBGPU_LIBRARY: /nonexistent.so" RLX_WEBGPU_LIBRARY=/nonexistent.so
: >"$fake/empty.so"
says "RLX_WEBGPU_LIBRARY: " RLX_WEBGPU_LIBRARY="$fake/empty.so"
says "has no wgpu" RLX_WEBGPU_LIBRARY=libc.so.6

wgpu=$cache/wgpu/libwgpu_native-release.so
if [ -f "$wgpu" ]; then
    says "is not vulkan, metal, d3d12 or gl" RLX_WEBGPU_LIBRARY="$wgpu" RLX_WEBGPU_BACKEND=abacus
    says "no adapter" RLX_WEBGPU_LIBRARY="$wgpu" VK_ICD_FILENAMES=/nonexistent.json \
        VK_DRIVER_FILES=/nonexistent.json
else
    echo "no wgpu-native in .cache/wgpu: tools/fetch/webgpu.sh"
fi
dawn=$cache/dawn/libwebgpu_wrapper.so
if [ -f "$dawn" ]; then
    says "Null adapter" RLX_WEBGPU_LIBRARY="$dawn" VK_ICD_FILENAMES=/nonexistent.json \
        VK_DRIVER_FILES=/nonexistent.json
else
    echo "no Dawn in .cache/dawn: tools/fetch/webgpu.sh"
fi
