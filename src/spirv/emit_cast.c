/* SPDX-License-Identifier: MIT */
/* Conversions: stored bits to values of a kernel and back, and cast. Every rounding is done on
 * integers, to nearest even, because drivers may round and flush as they like; the bits are those
 * of cpu/ref. */
#include "base/dtype.h"
#include "spirv/expr.h"
#include "spirv/wide.h"

/* ---- Small floats ---------------------------------------------------------------------------- */

static rx_id do_to_f16(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), x = i_and_k(e, u, F_ABS);
    const rx_id sign = i_and_k(e, u_shr_k(e, u, 16), 0x8000u);
    const rx_id odd = i_and_k(e, u_shr_k(e, x, 13), 1);
    const rx_id even_up = i_add(e, i_add_k(e, x, 0xfffu - 0x38000000u), odd);
    rx_id y = u_shr_k(e, even_up, 13);
    /* Below 2^-14: units of 2^-24. The adder rounds there when 0.5 is added. */
    const rx_id shifted = f_add_k(e, f_from_bits(e, x), 0.5);
    y = i_select(e, u_lt_k(e, x, 0x38800000u), i_sub_k(e, f_bits(e, shifted), 0x3f000000u), y);
    y = i_select(e, u_ge_k(e, x, 0x477ff000u), k_u(e, 0x7c00), y);
    y = i_select(e, u_gt_k(e, x, F_INF), k_u(e, 0x7e00), y);
    return i_or(e, y, sign);
}
static const rx_emit_fn fn_to_f16 = {"uf", do_to_f16, false};

static rx_id do_to_bf16(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), top = u_shr_k(e, u, 16);
    const rx_id up = i_add(e, i_add_k(e, u, 0x7fff), i_and_k(e, top, 1));
    return i_select(e, f_is_nan(e, a[0]), i_or_k(e, top, 0x40), u_shr_k(e, up, 16));
}
static const rx_emit_fn fn_to_bf16 = {"uf", do_to_bf16, false};

/* ---- Stored bits ----------------------------------------------------------------------------- */

rx_emit_value rx_emit_decode(rx_emit *e, rlx_dtype t, rx_emit_value bits)
{
    const rx_id x = bits.id;
    rx_id y = x;
    if (t == RLX_F32)
        y = f_from_bits(e, x);
    if (t == RLX_BF16)
        y = f_from_bits(e, i_shl_k(e, x, 16));
    if (t == RLX_F16) {
        const rx_id both = rx_spv_glsl(&e->m, GLSL_UNPACK_HALF_2X16, e->t_f32x2, RX_ARGS(x));
        y = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_f32, RX_ARGS(both, 0));
    }
    if (rlx_dtype_is_int(t))
        y = rx_emit_wrap(e, t, x);
    if (t == RLX_BOOL)
        y = i_select(e, i_ne_k(e, i_and_k(e, x, 0xff), 0), k_u(e, 1), k_u(e, 0));
    return (rx_emit_value){y, t == RLX_U32 ? k_u(e, 0) : bits.hi};
}

rx_emit_value rx_emit_encode(rx_emit *e, rlx_dtype t, rx_emit_value x)
{
    rx_id y = x.id;
    if (t == RLX_F32)
        y = f_bits(e, y);
    if (t == RLX_F16)
        y = call1(e, &fn_to_f16, y);
    if (t == RLX_BF16)
        y = call1(e, &fn_to_bf16, y);
    if (t == RLX_I8 || t == RLX_I16)
        y = i_and_k(e, y, t == RLX_I8 ? 0xff : 0xffff);
    return (rx_emit_value){y, x.hi};
}

/* ---- Floats to integers ---------------------------------------------------------------------- */

void rx_int_bounds(const rx_instr *in, int64_t *lo, int64_t *hi)
{
    *lo = rx_double_to_int(in->dtype, in->p[0]);
    *hi = rx_double_to_int(in->dtype, in->p[1]);
}

/* Truncates and saturates; NaN gives 0. For types whose numbers are signed words. */
static rx_id float_to_word(rx_emit *e, rlx_dtype t, rx_id x)
{
    const rx_int_range range = rx_dtype_range(t);
    const int64_t lo = range.lo, hi = (int64_t)range.hi;
    const rx_id above = b_not(e, f_lt_k(e, x, (double)hi)), below = f_lt_k(e, x, (double)lo);
    const rx_id inside = f_select(e, b_or(e, above, below), k_f(e, 0), x);
    rx_id y = i_select(e, above, k_u(e, (uint32_t)hi), f_to_s(e, inside));
    y = i_select(e, below, k_u(e, (uint32_t)lo), y);
    return i_select(e, f_is_nan(e, x), k_u(e, 0), y);
}

/* The 24-bit significand of a float with these bits but for the sign, shifted to its place among 64
 * bits. Right below 2^64. */
static rx_emit_value float_magnitude(rx_emit *e, rx_id mag)
{
    const rx_id exponent = u_shr_k(e, mag, 23);
    const rx_id m = i_or_k(e, i_and_k(e, mag, 0x7fffffu), 0x800000u);
    const rx_id left = i_and_k(e, i_sub_k(e, exponent, 150), 63); /* when exponent >= 150 */
    const rx_id near = i_and_k(e, left, 31);
    const rx_id low_near = i_shl(e, m, near);
    const rx_id high_near = u_shr(e, u_shr_k(e, m, 1), i_sub(e, k_u(e, 31), near));
    const rx_id far = u_ge_k(e, left, 32);
    const rx_id right = i_and_k(e, i_sub(e, k_u(e, 150), exponent), 31); /* when below */
    const rx_id is_large = u_ge_k(e, exponent, 150), is_small = u_lt_k(e, exponent, 127);
    rx_id low = i_select(e, is_large, i_select(e, far, k_u(e, 0), low_near), u_shr(e, m, right));
    const rx_id high = i_select(e, is_large, i_select(e, far, low_near, high_near), k_u(e, 0));
    low = i_select(e, is_small, k_u(e, 0), low);
    return (rx_emit_value){low, high};
}

static rx_id join_words(rx_emit *e, rx_emit_value x)
{
    return rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, e->t_u32x2, RX_ARGS(x.id, x.hi));
}

static rx_id do_float_to_wide(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), mag = i_and_k(e, u, F_ABS);
    const rx_id negative = s_lt_k(e, u, 0), zero = k_u(e, 0);
    rx_emit_value y = float_magnitude(e, mag);
    y = rx_wide_select(e, negative, rx_wide_neg(e, y), y);
    const rx_emit_value least = {zero, k_u(e, 0x80000000u)};
    const rx_emit_value most = {k_u(e, 0xffffffffu), k_u(e, 0x7fffffffu)};
    const rx_id outside = u_ge_k(e, mag, 190u << 23); /* 2^63 */
    y = rx_wide_select(e, outside, rx_wide_select(e, negative, least, most), y);
    y = rx_wide_select(e, u_gt_k(e, mag, F_INF), (rx_emit_value){zero, zero}, y);
    return join_words(e, y);
}
static const rx_emit_fn fn_float_to_wide = {"vf", do_float_to_wide, false};

static rx_id do_float_to_unsigned(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), mag = i_and_k(e, u, F_ABS), ones = k_u(e, 0xffffffffu);
    const rx_id none = b_or(e, s_lt_k(e, u, 0), u_gt_k(e, mag, F_INF)), zero = k_u(e, 0);
    rx_emit_value y = float_magnitude(e, mag);
    y = rx_wide_select(e, u_ge_k(e, mag, 191u << 23), (rx_emit_value){ones, ones}, y);
    return join_words(e, rx_wide_select(e, none, (rx_emit_value){zero, zero}, y));
}
static const rx_emit_fn fn_float_to_unsigned = {"vf", do_float_to_unsigned, false};

static rx_emit_value float_to_int(rx_emit *e, rlx_dtype to, rx_id x)
{
    if (!rx_is_wide(to))
        return (rx_emit_value){float_to_word(e, to, x), 0};
    const rx_id v = call1(e, to == RLX_I64 ? &fn_float_to_wide : &fn_float_to_unsigned, x);
    const rx_id low = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(v, 0));
    const rx_id high = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(v, 1));
    if (to != RLX_U32)
        return (rx_emit_value){low, high};
    const rx_id most = k_u(e, 0xffffffffu);
    return (rx_emit_value){i_select(e, i_ne_k(e, high, 0), most, low), k_u(e, 0)};
}

/* ---- Integers to floats ---------------------------------------------------------------------- */

/* The magnitude (a[0], a[1] high) as a float with the sign bit a[2]: to nearest even, or with a[3]
 * set to odd, so that rounding it once more to a smaller type is right. */
static rx_id do_wide_to_float(rx_emit *e, const rx_id *a)
{
    const rx_id no_high = i_eq_k(e, a[1], 0);
    const rx_id first = i_select(e, no_high, a[0], a[1]);
    const rx_id second = i_select(e, no_high, k_u(e, 0), a[0]);
    const rx_id msb = u_msb(e, i_or_k(e, first, 1)), zeros = i_sub(e, k_u(e, 31), msb);
    const rx_id rest = u_shr(e, u_shr_k(e, second, 1), i_sub(e, k_u(e, 31), zeros));
    const rx_id top = i_or(e, i_shl(e, first, zeros), rest); /* the leading 32 bits */
    const rx_id lost = i_shl(e, second, zeros);
    const rx_id sticky = i_or(e, top, i_select(e, i_ne_k(e, lost, 0), k_u(e, 1), k_u(e, 0)));
    const rx_id m = u_shr_k(e, sticky, 8), low = i_and_k(e, sticky, 0xff);
    const rx_id odd = i_and_k(e, m, 1);
    const rx_id up = u_gt_k(e, i_add(e, low, odd), 0x80);
    const rx_id nearest = i_add(e, m, i_select(e, up, k_u(e, 1), k_u(e, 0)));
    const rx_id to_odd = i_or(e, m, i_select(e, i_ne_k(e, low, 0), k_u(e, 1), k_u(e, 0)));
    const rx_id rounded = i_select(e, i_ne_k(e, a[3], 0), to_odd, nearest);
    const rx_id bias = i_select(e, no_high, k_u(e, 126), k_u(e, 158));
    const rx_id exponent = i_shl_k(e, i_add(e, msb, bias), 23); /* the leading bit adds one */
    const rx_id bits = i_or(e, i_add(e, exponent, rounded), a[2]);
    return f_from_bits(e, i_select(e, i_eq_k(e, first, 0), k_u(e, 0), bits));
}
static const rx_emit_fn fn_wide_to_float = {"fuuuu", do_wide_to_float, false};

static rx_id int_to_float(rx_emit *e, rlx_dtype from, rlx_dtype to, rx_emit_value x)
{
    if (from != RLX_I32 && !rx_is_wide(from))
        return s_to_f(e, x.id); /* exact */
    if (from == RLX_I32)
        x.hi = s_shr_k(e, x.id, 31);
    rx_emit_value mag = x;
    rx_id sign = k_u(e, 0), odd = k_u(e, to != RLX_F32);
    if (from == RLX_I32 || from == RLX_I64) {
        mag = rx_wide_select(e, s_lt_k(e, x.hi, 0), rx_wide_neg(e, x), x);
        sign = i_and_k(e, x.hi, F_SIGN);
    }
    return rx_emit_call(e, &fn_wide_to_float, (rx_id[]){mag.id, mag.hi, sign, odd});
}

/* ---- Cast ------------------------------------------------------------------------------------ */

static rx_emit_value to_bool(rx_emit *e, rlx_dtype from, rx_emit_value x)
{
    rx_id bits = x.id;
    if (rlx_dtype_is_float(from))
        bits = i_and_k(e, f_bits(e, x.id), F_ABS);
    if (rx_is_wide(from))
        bits = i_or(e, x.id, x.hi);
    return (rx_emit_value){i_select(e, i_ne_k(e, bits, 0), k_u(e, 1), k_u(e, 0)), 0};
}

rx_emit_value rx_emit_cast(rx_emit *e, rlx_dtype from, rlx_dtype to, rx_emit_value x)
{
    if (from == to && !rlx_dtype_is_float(to)) /* a float value may have more precision than its
                                                * type */
        return x;
    if (to == RLX_BOOL)
        return to_bool(e, from, x);
    if (rlx_dtype_is_float(to)) {
        rx_id y = rlx_dtype_is_float(from) ? x.id : int_to_float(e, from, to, x);
        const rx_emit_value wide = {y, 0};
        return to == RLX_F32 ? wide : rx_emit_decode(e, to, rx_emit_encode(e, to, wide));
    }
    if (rlx_dtype_is_float(from))
        return float_to_int(e, to, x.id);
    if (to == RLX_U32)
        return (rx_emit_value){x.id, k_u(e, 0)};
    if (rx_is_wide(to))
        return (rx_emit_value){x.id, rx_is_wide(from) ? x.hi : s_shr_k(e, x.id, 31)};
    return (rx_emit_value){rx_emit_wrap(e, to, x.id), 0};
}
