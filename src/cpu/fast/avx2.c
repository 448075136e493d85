/* SPDX-License-Identifier: MIT */
/* The fast kernels for AVX2, FMA and F16C; compiled with the options for them. */
#include "cpu/fast/fast.h"

#define RX_VEC_AVX2 1
#include "cpu/vec.h"

#include "cpu/fast/kernels.inc"
#include "cpu/fast/kernels_int.inc"

#define LEVEL ".avx2"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_avx2[] = {
#include "cpu/fast/kernels.def"
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
