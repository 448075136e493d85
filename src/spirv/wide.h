/* SPDX-License-Identifier: MIT */
/* 64-bit integers as pairs of words (rx_emit_value: id is the low word). u32 is such a pair too, of
 * high word 0: what i64 gives for it is right when wrapped. */
#ifndef RX_SPIRV_WIDE_H
#define RX_SPIRV_WIDE_H

#include "spirv/emit.h"

static inline bool rx_is_wide(rlx_dtype t)
{
    return t == RLX_I64 || t == RLX_U64 || t == RLX_U32;
}

rx_emit_value rx_wide_neg(rx_emit *e, rx_emit_value x);
/* cond ? a : b */
rx_emit_value rx_wide_select(rx_emit *e, rx_id cond, rx_emit_value a, rx_emit_value b);
/* One instruction on i64 or, if its result is of that type, u64; comparisons are in emit_int.c. */
rx_emit_value rx_emit_wide(rx_emit *e, const rx_instr *in, const rx_emit_value *a);

/* Wraps a word to an integer type of at most 32 bits. */
rx_id rx_emit_wrap(rx_emit *e, rlx_dtype t, rx_id x);
/* The bounds of an integer clamp, saturated to the type of the result. */
void rx_int_bounds(const rx_instr *in, int64_t *lo, int64_t *hi);

#endif
