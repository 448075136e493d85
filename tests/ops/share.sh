#!/bin/sh
# SPDX-License-Identifier: MIT
# share.sh OPTEST N OPTION...: a share of the op suite: each N-th case, beginning with the one that
# RLX_TEST_SEED (a number, 0 without it) chooses, so that runs with other seeds see the others.
# RLX_TEST_EVERY replaces N; 1 runs all cases. The seed also chooses the random graphs, of which
# RLX_TEST_RANDOM says how many there are before shares are taken. Skipped where there is no such
# device.
# A case of a share runs in one of its modes, those of one case by turns.
# RLX_EMULATOR: what runs programs of another machine.
# RLX_TEST_LAVAPIPE=DIR: with the lavapipe that tools/fetch/lavapipe.sh puts there.
optest=$1 every=${RLX_TEST_EVERY:-$2} seed=${RLX_TEST_SEED:-0}
shift 2
if [ -n "${RLX_TEST_LAVAPIPE:-}" ]; then
    sh "$RLX_SOURCE_DIR/tools/fetch/lavapipe.sh" "$RLX_TEST_LAVAPIPE" || exit $?
    export VK_DRIVER_FILES="$RLX_TEST_LAVAPIPE/icd.json"
    export VK_ICD_FILENAMES="$VK_DRIVER_FILES" LD_LIBRARY_PATH="$RLX_TEST_LAVAPIPE/lib"
fi
said=$(${RLX_EMULATOR:-} "$optest" "$@" --filter "no case has this name" 2>&1)
case $said in *"is not available"*) echo "skipped: $said"; exit 77 ;; esac
from=$((seed % every))
[ "$every" = 1 ] || echo "share: each ${every}th case from $from, RLX_TEST_SEED=$seed"
[ "$every" = 1 ] || set -- "$@" --turn $((seed / every + 1))
exec ${RLX_EMULATOR:-} "$optest" --random "${RLX_TEST_RANDOM:-200}:$seed" "$@" --every "$every" \
    --from "$from"
