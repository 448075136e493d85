/* SPDX-License-Identifier: MIT */
/* The kernels that gain from AVX-512 VNNI; compiled with the options for it. */
#include "cpu/fast/fast.h"

#define RX_VEC_AVX512 1
#include "cpu/vec.h"

#include "cpu/fast/kernels_int.inc"

#define LEVEL ".vnni"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_avx512vnni[] = {
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
