/* SPDX-License-Identifier: MIT */
/* The kernels that gain from 64-bit Arm's products of u8 and s8 (usdot); compiled with
 * the options for them. */
#include "cpu/fast/fast.h"

#define RX_VEC_NEON 1
#include "cpu/vec.h"

#include "cpu/fast/kernels_int.inc"

#define LEVEL ".i8mm"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_neoni8mm[] = {
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
