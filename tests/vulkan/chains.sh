#!/bin/sh
# SPDX-License-Identifier: MIT
# chains.sh TEST_DECODER OPTEST: dispatches that wait for one another inside of kernels, on the
# newer lavapipe, which runs them in order as the devices do that chain by themselves.
sh "$RLX_SOURCE_DIR/tools/fetch/lavapipe.sh" "$RLX_TEST_LAVAPIPE" || exit $?
export VK_DRIVER_FILES="$RLX_TEST_LAVAPIPE/icd.json"
export VK_ICD_FILENAMES="$VK_DRIVER_FILES" LD_LIBRARY_PATH="$RLX_TEST_LAVAPIPE/lib"
RLX_TEST_CHAINS=1 "$1" || exit $?
exec env RLX_CHAIN=1 sh "$RLX_SOURCE_DIR/tests/ops/share.sh" "$2" 24 --device vulkan --once \
    --family graphs
