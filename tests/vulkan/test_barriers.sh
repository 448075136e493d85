#!/bin/sh
# SPDX-License-Identifier: MIT
# Barriers that were left out change no bit: the results of a sample of the op cases with and
# without RLX_FULL_BARRIER=1, byte for byte.
set -eu
optest=$RLX_BUILD_DIR/tests/optest
[ -x "$optest" ] || { echo "skipped: no $optest"; exit 77; }
said=$("$optest" --device vulkan --filter "no case has this name" 2>&1) || true
case $said in *"is not available"*) echo "$said"; exit 77 ;; esac
results=$(mktemp -d)
trap 'rm -rf "$results"' EXIT
share="$RLX_SOURCE_DIR/tests/ops/share.sh"
sh "$share" "$optest" 130 --device vulkan --dump "$results/elided"
RLX_FULL_BARRIER=1 sh "$share" "$optest" 130 --device vulkan --dump "$results/full"
cmp "$results/elided/data.bin" "$results/full/data.bin"
cmp "$results/elided/cases.jsonl" "$results/full/cases.jsonl"
