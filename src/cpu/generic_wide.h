/* SPDX-License-Identifier: MIT */
/* Portable kernels that compute on lanes of 64 bits: integers, bool and f64. */
#ifndef RX_CPU_GENERIC_WIDE_H
#define RX_CPU_GENERIC_WIDE_H

#include "cpu/kernel.h"

/* n elements from `from`, `stride` elements apart, as 64-bit integers (u64 by its bits, bool as 0
 * or 1) and as doubles. Plain types; integers only, and floats only. */
void rx_load_ints(rlx_dtype t, const char *from, int64_t stride, int64_t *to, int64_t n);
void rx_load_reals(rlx_dtype t, const char *from, int64_t stride, double *to, int64_t n);

rlx_status rx_generic_wide(const rx_call *c);        /* elementwise operations and regions */
rlx_status rx_generic_wide_matmul(const rx_call *c); /* generic_wide_matmul.c */

#endif
