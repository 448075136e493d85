#!/bin/sh
# SPDX-License-Identifier: MIT
# ops.sh OPTEST N: each N-th case of the op suite on WebGPU; skipped where there is no such device.
# RLX_TEST_EVERY=1 runs all of them, which takes long on a software driver.
said=$("$1" --device webgpu --filter "no case has this name" 2>&1)
case $said in *"is not available"*) echo "$said"; exit 77 ;; esac
exec "$1" --device webgpu --every "${RLX_TEST_EVERY:-$2}"
