/* SPDX-License-Identifier: MIT */
/* The fast kernels for WebAssembly with 128-bit SIMD; compiled there only. */
#include "cpu/fast/fast.h"

#define RX_VEC_WASM 1
#include "cpu/vec.h"

#include "cpu/fast/kernels.inc"
#include "cpu/fast/kernels_int.inc"

#define LEVEL ".wasm"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_fast_wasm[] = {
#include "cpu/fast/kernels.def"
#include "cpu/fast/kernels_int.def"
    {0, NULL, NULL, 0, false, false}
};
