/* SPDX-License-Identifier: MIT */
/* The kernels that gain from 64-bit Arm's dot products of bytes (sdot); compiled with
 * the options for them. */
#include "cpu/fast/fast.h"

#define RX_VEC_NEON 1
#include "cpu/vec.h"

#include "cpu/fast/kernels_int.inc"

#define LEVEL ".dot"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_neondot[] = {
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
