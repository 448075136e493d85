/* SPDX-License-Identifier: MIT */
/* The fast kernels for AVX2, FMA and F16C; compiled with the options for them. */
#include "cpu/fast/fast.h"

#define RX_VEC_AVX2 1
#include "cpu/vec.h"

#include "cpu/fast/kernels.inc"
#include "cpu/fast/kernels_int.inc"

const rx_fast_kernel rx_fast_avx2[] = {
#define KERNEL(op, name, fn, strided) {RX_OP_##op, name ".avx2", fn, strided, false, false},
#define KERNEL_INT(op, name, fn, strided) {RX_OP_##op, name ".avx2", fn, strided, true, false},
#define ELEMENTWISE(name, fn, strided) \
    {RX_ALL_ELEMENTWISE, name ".avx2", fn, strided, false, false},
#include "cpu/fast/kernels.def"
#include "cpu/fast/kernels_int.def"
#undef ELEMENTWISE
#undef KERNEL_INT
#undef KERNEL
    {0, NULL, NULL, 0, false, false}
};
