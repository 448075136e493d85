#!/bin/sh
# SPDX-License-Identifier: MIT
# fuzz.sh PROGRAM NAME: libFuzzer changes the files of seeds/NAME and what earlier runs found for
# RLX_FUZZ_SECONDS (20), beginning with RLX_TEST_SEED. An input that crashes, leaks or hangs is kept
# under the build folder.
program=$1 name=$2 seconds=${RLX_FUZZ_SECONDS:-20} seed=$((${RLX_TEST_SEED:-0} % 2147483647 + 1))
found=$RLX_BUILD_DIR/fuzz
mkdir -p "$found/corpus-$name"
log=$found/$name.log
if ! "$program" -max_total_time="$seconds" -seed="$seed" -max_len=4400 -timeout=30 \
    -print_final_stats=1 -artifact_prefix="$found/$name-" "$found/corpus-$name" \
    "$RLX_SOURCE_DIR/tests/fuzz/seeds/$name" 2>"$log"; then
    tail -n 60 "$log"
    echo "$name: the input is above as $found/$name-*; again: $program FILE"
    exit 1
fi
inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
new=$(sed -n 's/^stat::new_units_added: *//p' "$log")
echo "$name: ${inputs:-0} inputs in $seconds s from seed $seed, ${new:-0} of them new"
[ "${inputs:-0}" -gt 0 ]
