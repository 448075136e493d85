#!/bin/sh
# SPDX-License-Identifier: MIT
# The ONNX cases in onnx-cases/, on the CPU and as the reference computes them; all must pass.
tool=${RLX_TOOL:-build/rlx}
status=0
for device in cpu ref; do
    result=$("$tool" verify --suite "$(dirname "$0")/onnx-cases" --device $device --quiet)
    echo "$device: $result"
    case $result in *' passed, 0 failed, 0 skipped') ;; *) status=1 ;; esac
done
exit $status
