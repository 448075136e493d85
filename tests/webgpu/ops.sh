#!/bin/sh
# SPDX-License-Identifier: MIT
# ops.sh OPTEST N [FAMILY...]: each N-th case of the op suite (of these families) on WebGPU; skipped
# where there is no such device. RLX_TEST_EVERY=1 runs all of them, which takes long on a software
# driver. RLX_TEST_OPTIONS: more options of optest.
optest=$1 every=${RLX_TEST_EVERY:-$2}
shift 2
said=$("$optest" --device webgpu --filter "no case has this name" 2>&1)
case $said in *"is not available"*) echo "$said"; exit 77 ;; esac
[ $# -gt 0 ] || exec "$optest" --device webgpu --every "$every" $RLX_TEST_OPTIONS
failed=0
for family; do
    "$optest" --device webgpu --every "$every" --family "$family" $RLX_TEST_OPTIONS || failed=1
done
exit $failed
