#!/bin/sh
# SPDX-License-Identifier: MIT
# whole.sh OPTEST [OPTION...]: all op cases on Vulkan, in pieces of neighbours that many processes
# take in turn. On a driver that is slow to make kernels this is many times faster than one process:
# neighbours share kernels. Prints what fails as it comes, and in the end, also if it is stopped
# before, the counts of each family. WHOLE_DEVICE chooses another device, WHOLE_FROM the first case.
optest=$1
shift
pieces=300 processes=$(nproc)
total=$("$optest" --count "$@" | tail -n 1)
size=$(((total + pieces - 1) / pieces))
folder=$(mktemp -d)
report() {
    grep -hE '^[a-z]+ +[0-9]+ passed' "$folder"/* | awk '
        {passed[$1] += $2; failed[$1] += $4; p += $2; f += $4}
        END {for (k in passed) printf "%-14s %d passed, %d failed\n", k, passed[k], failed[k]
             printf "%d of %d passed, %d failed\n", p, total, f
             exit f || p != total}' total="$total"
    status=$?
    rm -rf "$folder"
    exit $status
}
trap report EXIT
trap exit INT TERM
run='"$0" --device "$DEVICE" --once --jobs 1 --range @@ "$@" >"$OUT/@@" 2>&1
    grep -A 2 "^FAIL" "$OUT/@@"'
export OUT="$folder" DEVICE="${WHOLE_DEVICE:-vulkan}"
i=${WHOLE_FROM:-0}
while [ $i -lt "$total" ]; do
    echo "$i:$((i + size))"
    i=$((i + size))
done | xargs -P "$processes" -I @@ sh -c "$run" "$optest" "$@" &
wait $!
