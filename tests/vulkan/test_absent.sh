#!/bin/sh
# SPDX-License-Identifier: MIT
# Without a loader, a driver or a device, or with a loader that is too old, Vulkan is not available,
# the reason says why, and nothing crashes.
set -eu
[ -x "$RLX_TOOL" ] || { echo "skipped: no $RLX_TOOL"; exit 77; }
fake=$(mktemp -d)
trap 'rm -rf "$fake"' EXIT

says() { # TEXT ENVIRONMENT...
    text=$1; shift
    env "$@" "$RLX_TOOL" devices >"$fake/said" 2>&1 || { cat "$fake/said"; exit 1; }
    tr -s '\n ' '  ' <"$fake/said" | grep -q "vulkan.*$text" || # lines are wrapped
        { echo "expected: $text"; cat "$fake/said"; exit 1; }
}

if "$RLX_TOOL" devices | grep -q "no Vulkan backend"; then
    echo "skipped: built without Vulkan"
    exit 77
fi
: >"$fake/libvulkan.so.1"
: >"$fake/libvulkan.so"
says "there is no Vulkan loader" LD_LIBRARY_PATH="$fake"
says "found no driver" VK_ICD_FILENAMES=/nonexistent.json VK_DRIVER_FILES=/nonexistent.json

fakes=$RLX_BUILD_DIR/tests/vulkan/fake
[ -e "$fakes/libvulkan.so.1" ] || exit 0
says "only knows Vulkan 1.0 and 1.1 is needed" LD_LIBRARY_PATH="$fakes" RLX_TEST_LOADER=old
says "has no vkGetPhysicalDeviceFeatures2" LD_LIBRARY_PATH="$fakes" RLX_TEST_LOADER=broken
says "made no instance (VK_ERROR_INIT" LD_LIBRARY_PATH="$fakes" RLX_TEST_LOADER=refusing
says "found no device: install" LD_LIBRARY_PATH="$fakes" RLX_TEST_LOADER=empty
says "listed no devices (VK_ERROR_INIT" LD_LIBRARY_PATH="$fakes" RLX_TEST_LOADER=failing
