#!/bin/sh
# SPDX-License-Identifier: MIT
# ops.sh OPTEST N [OPTION...]: each N-th case of the op suite on Vulkan; skipped where there is no
# such device. RLX_TEST_EVERY=1 runs all of them, which takes long on a software driver.
# RLX_TEST_LAVAPIPE=DIR: with the lavapipe that tools/fetch/lavapipe.sh puts there.
optest=$1 every=${RLX_TEST_EVERY:-$2}
shift 2
if [ -n "${RLX_TEST_LAVAPIPE:-}" ]; then
    sh "$RLX_SOURCE_DIR/tools/fetch/lavapipe.sh" "$RLX_TEST_LAVAPIPE" || exit $?
    export VK_DRIVER_FILES="$RLX_TEST_LAVAPIPE/icd.json"
    export VK_ICD_FILENAMES="$VK_DRIVER_FILES" LD_LIBRARY_PATH="$RLX_TEST_LAVAPIPE/lib"
fi
said=$("$optest" --device vulkan --filter "no case has this name" 2>&1)
case $said in *"is not available"*) echo "$said"; exit 77 ;; esac
exec "$optest" --device vulkan --every "$every" "$@"
