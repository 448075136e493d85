#!/bin/sh
# SPDX-License-Identifier: MIT
# Without a loader or a driver Vulkan is not available, the reason says why, and nothing crashes.
set -eu
[ -x "$RLX_TOOL" ] || exit 77
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT

says() { # TEXT ENVIRONMENT...
    text=$1; shift
    env "$@" "$RLX_TOOL" devices >"$fake/said" 2>&1 || { cat "$fake/said"; exit 1; }
    grep -q "vulkan.*$text" "$fake/said" || { echo "expected: $text"; cat "$fake/said"; exit 1; }
}

if "$RLX_TOOL" devices | grep -q "no Vulkan backend"; then exit 77; fi
: >"$fake/libvulkan.so.1"
: >"$fake/libvulkan.so"
says "there is no Vulkan loader" LD_LIBRARY_PATH="$fake"
says "found no d" VK_ICD_FILENAMES=/nonexistent.json VK_DRIVER_FILES=/nonexistent.json
