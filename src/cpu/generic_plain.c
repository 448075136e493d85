/* SPDX-License-Identifier: MIT */
/* The kernels of cpu/fast/kernels_plain.def without an instruction set. */
#include "base/quant.h"
#include "cpu/fast/fast.h"

#define elem_load rx_load_lanes
#define elem_store rx_store_lanes

static void quant_decode_blocks(rlx_dtype t, const uint8_t *from, float *to, int64_t n)
{
    rx_decode_row(t, from, to, n);
}

#include "cpu/fast/kernels_plain.inc"

#define LEVEL ".generic"
#include "cpu/fast/rows.h"

const rx_fast_kernel rx_plain_kernels[] = {
#include "cpu/fast/kernels_plain.def"
    {0, NULL, NULL, 0, false, false}
};
