#!/bin/sh
# SPDX-License-Identifier: MIT
# arm_levels.sh EMULATOR TOOL: which kernels processors of 64-bit Arm get, and that RLX_CPU takes
# some away.
emulator=$1 tool=$2 status=0

# expect PROCESSOR LIMIT KERNELS
expect() {
    said=$(QEMU_CPU=$1 RLX_CPU=$2 $emulator "$tool" devices)
    case $said in
    *" $3;"*) ;;
    *) echo "$1, RLX_CPU='$2': expected '$3', got: $said"; status=1 ;;
    esac
}

expect cortex-a53 '' 'NEON kernels'
expect neoverse-n1 '' 'NEON and dot-product kernels'
expect max '' 'NEON and i8mm kernels'
expect max dotprod 'NEON and dot-product kernels'
expect max neon 'NEON kernels'
expect max generic 'portable kernels'
expect cortex-a53 i8mm 'NEON kernels'
exit $status
