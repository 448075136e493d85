#!/bin/sh
# SPDX-License-Identifier: MIT
# The ONNX cases in onnx-cases/, on the CPU and as the reference computes them: all must pass, and
# one of them can be measured.
tool=${RLX_TOOL:-build/rlx}
status=0
for device in cpu ref; do
    result=$("$tool" verify --suite "$(dirname "$0")/onnx-cases" --device $device --quiet)
    echo "$device: $result"
    case $result in *' passed, 0 failed, 0 skipped') ;; *) status=1 ;; esac
done
"$tool" bench "$(dirname "$0")/onnx-cases/gelu/model.onnx" --device cpu --min-time 0.01 |
    grep 'on cpu: median .* runs; ready after' || status=1
"$tool" bench matmul:f32:8x8x8 --dim n=1 2>&1 | grep -q 'goes with an ONNX model' || status=1
# Weights that are put together from others are computed while importing.
"$tool" explain "$(dirname "$0")/onnx-cases/lstm_of_parts/model.onnx" | grep concat && status=1
exit $status
