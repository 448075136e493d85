/* SPDX-License-Identifier: MIT */
/* The fast kernels for 64-bit Arm; compiled there only. */
#include "cpu/fast/fast.h"

#define RX_VEC_NEON 1
#include "cpu/vec.h"

#include "cpu/fast/kernels.inc"
#include "cpu/fast/kernels_int.inc"

#define LEVEL ".neon"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_neon[] = {
#include "cpu/fast/kernels.def"
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
