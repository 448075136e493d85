/* SPDX-License-Identifier: MIT */
/* Elementwise operations on integers and bool as SPIR-V. Types of up to 32 bits but u32 are
 * computed in 32 bits and wrapped; i64, u64 and u32 are computed in full on pairs of words. */
#include "spirv/expr.h"
#include "spirv/wide.h"

/* ---- 32 bits --------------------------------------------------------------------------------- */

/* Parameters of the operation, and its width in bits. */
typedef struct int_call {
    const rx_instr *in;
    uint32_t width;
} int_call;

typedef rx_id narrow_fn(rx_emit *e, const int_call *c, const rx_id *a);

#define NARROW(name) \
    static rx_id narrow_##name(rx_emit *e, const int_call *c, const rx_id *a)
#define NARROW_2(name, expr) \
    NARROW(name) { (void)c; return expr(e, a[0], a[1]); }

NARROW_2(add, i_add)
NARROW_2(sub, i_sub)
NARROW_2(mul, i_mul)
NARROW_2(and, i_and)
NARROW_2(or, i_or)
NARROW_2(xor, i_xor)

NARROW(neg) { (void)c; return i_sub(e, k_u(e, 0), a[0]); }
NARROW(relu)
{
    (void)c;
    return i_select(e, s_lt_k(e, a[0], 0), k_u(e, 0), a[0]);
}
NARROW(abs)
{
    (void)c;
    return i_select(e, s_lt_k(e, a[0], 0), i_sub(e, k_u(e, 0), a[0]), a[0]);
}
NARROW(sign)
{
    (void)c;
    const rx_id one = i_select(e, s_gt_k(e, a[0], 0), k_u(e, 1), k_u(e, 0));
    return i_select(e, s_lt_k(e, a[0], 0), k_u(e, 0xffffffffu), one);
}
NARROW(not)
{
    return c->in->dtype == RLX_BOOL ? i_xor_k(e, a[0], 1) : i_not(e, a[0]);
}
NARROW(max) { (void)c; return i_select(e, s_gt(e, a[0], a[1]), a[0], a[1]); }
NARROW(min) { (void)c; return i_select(e, s_lt(e, a[0], a[1]), a[0], a[1]); }

/* x / y truncated; y == 0 gives 0. -2^31 / -1 is kept away from the divider. */
NARROW(div)
{
    (void)c;
    const rx_id zero = i_eq_k(e, a[1], 0), minus = i_eq_k(e, a[1], 0xffffffffu);
    const rx_id y = i_select(e, b_or(e, zero, minus), k_u(e, 1), a[1]);
    const rx_id q = rx_spv_op(&e->m, SPV_S_DIV, e->t_u32, RX_ARGS(a[0], y));
    const rx_id z = i_select(e, minus, i_sub(e, k_u(e, 0), a[0]), q);
    return i_select(e, zero, k_u(e, 0), z);
}

/* From the quotient: drivers need not support remainders of negative numbers. */
NARROW(mod)
{
    const rx_id q = narrow_div(e, c, a);
    const rx_id any = i_sub(e, a[0], i_mul(e, q, a[1]));
    const rx_id r = i_select(e, i_eq_k(e, a[1], 0), k_u(e, 0), any);
    if (c->in->p[0] == 0)
        return r;
    const rx_id differ = b_and(e, i_ne_k(e, r, 0), s_lt_k(e, i_xor(e, r, a[1]), 0));
    return i_select(e, differ, i_add(e, r, a[1]), r);
}

/* 1 / base^n truncated, for negative exponents: 0 unless the base is 1 or -1. */
static rx_id inverse_power(rx_emit *e, rx_id base, rx_id odd)
{
    const rx_id sign = i_select(e, odd, k_u(e, 0xffffffffu), k_u(e, 1));
    const rx_id one = i_select(e, i_eq_k(e, base, 1), k_u(e, 1), k_u(e, 0));
    return i_select(e, i_eq_k(e, base, 0xffffffffu), sign, one);
}

static rx_id do_ipow(rx_emit *e, const rx_id *a)
{
    const rx_id odd = i_ne_k(e, i_and_k(e, a[1], 1), 0), negative = s_lt_k(e, a[1], 0);
    const rx_id inverse = inverse_power(e, a[0], odd);
    const rx_id y = var_new(e, e->t_u32, k_u(e, 1)), square = var_new(e, e->t_u32, a[0]);
    const rx_id left = var_new(e, e->t_u32, i_select(e, negative, k_u(e, 0), a[1]));
    const rx_loop l = loop_begin(e);
    const rx_id n = var_u(e, left);
    loop_while(e, l, i_ne_k(e, n, 0));
    const rx_id s = var_u(e, square), z = var_u(e, y);
    var_set(e, y, i_select(e, i_ne_k(e, i_and_k(e, n, 1), 0), i_mul(e, z, s), z));
    var_set(e, square, i_mul(e, s, s));
    var_set(e, left, u_shr_k(e, n, 1));
    loop_end(e, l);
    return i_select(e, negative, inverse, var_u(e, y));
}
static const rx_emit_fn fn_ipow = {"uuu", do_ipow, false};

NARROW(pow) { (void)c; return call2(e, &fn_ipow, a[0], a[1]); }

NARROW(shl)
{
    const rx_id inside = u_lt_k(e, a[1], c->width); /* negative counts are large */
    const rx_id y = i_shl(e, a[0], i_and_k(e, a[1], 31));
    return i_select(e, inside, y, k_u(e, 0));
}

NARROW(shr)
{
    const rx_id inside = u_lt_k(e, a[1], c->width);
    const rx_id y = s_shr(e, a[0], i_and_k(e, a[1], 31));
    const rx_id past = i_select(e, s_lt_k(e, a[1], 0), k_u(e, 0), s_shr_k(e, a[0], 31));
    return i_select(e, inside, y, past);
}

NARROW(clamp)
{
    int64_t lo, hi;
    rx_int_bounds(c->in, &lo, &hi);
    const rx_id low = k_u(e, (uint32_t)lo), high = k_u(e, (uint32_t)hi);
    const rx_id y = i_select(e, s_lt(e, a[0], low), low, a[0]);
    return i_select(e, s_gt(e, y, high), high, y);
}

#define N(name) [RX_OP_##name] = narrow_##name
static narrow_fn *const narrow_table[RX_N_OPS] = {
    N(relu), N(neg), N(abs), N(sign), N(not), N(clamp), N(add), N(sub), N(mul), N(div), N(max),
    N(min), N(pow), N(mod), N(and), N(or), N(xor), N(shl), N(shr),
};

/* ---- Comparisons ----------------------------------------------------------------------------- */

/* The instruction on signed words, that on the low words of equal high words. */
static const struct { uint16_t is_signed, is_unsigned; } compare_table[RX_N_OPS] = {
    [RX_OP_eq] = {SPV_I_EQUAL, SPV_I_EQUAL},
    [RX_OP_ne] = {SPV_I_NOT_EQUAL, SPV_I_NOT_EQUAL},
    [RX_OP_lt] = {SPV_S_LESS, SPV_U_LESS},
    [RX_OP_le] = {SPV_S_LESS_EQUAL, SPV_U_LESS_EQUAL},
    [RX_OP_gt] = {SPV_S_GREATER, SPV_U_GREATER},
    [RX_OP_ge] = {SPV_S_GREATER_EQUAL, SPV_U_GREATER_EQUAL},
};

static rx_id compare(rx_emit *e, uint16_t op, rlx_dtype t, const rx_emit_value *a)
{
    const uint32_t on_low = compare_table[op].is_unsigned;
    if (t == RLX_U32)
        return rx_spv_op(&e->m, on_low, e->t_bool, RX_ARGS(a[0].id, a[1].id));
    const uint32_t on_words = compare_table[op].is_signed;
    if (!rx_is_wide(t))
        return rx_spv_op(&e->m, on_words, e->t_bool, RX_ARGS(a[0].id, a[1].id));
    const uint32_t on_high = t == RLX_U64 ? on_low : on_words;
    const rx_id high = rx_spv_op(&e->m, on_high, e->t_bool, RX_ARGS(a[0].hi, a[1].hi));
    const rx_id low = rx_spv_op(&e->m, on_low, e->t_bool, RX_ARGS(a[0].id, a[1].id));
    const rx_id same = i_eq(e, a[0].hi, a[1].hi);
    /* same ? low : high */
    return b_or(e, b_and(e, same, low), b_and(e, b_not(e, same), high));
}

/* ---- All ------------------------------------------------------------------------------------- */

rx_id rx_emit_wrap(rx_emit *e, rlx_dtype t, rx_id x)
{
    const uint32_t bits = 8 * (uint32_t)rlx_dtype_block_bytes(t);
    if (t == RLX_I8 || t == RLX_I16)
        return rx_spv_op(&e->m, SPV_BIT_FIELD_S_EXTRACT, e->t_u32,
                         RX_ARGS(x, k_u(e, 0), k_u(e, bits)));
    return t == RLX_U8 || t == RLX_U16 ? i_and_k(e, x, (1u << bits) - 1) : x;
}

rx_emit_value rx_emit_int(rx_emit *e, const rx_instr *in, rlx_dtype arg, const rx_emit_value *a)
{
    if (compare_table[in->op].is_signed) {
        const rx_id y = compare(e, in->op, arg, a);
        return (rx_emit_value){i_select(e, y, k_u(e, 1), k_u(e, 0)), 0};
    }
    if (rx_is_wide(arg)) {
        const rx_emit_value y = rx_emit_wide(e, in, a);
        return arg == RLX_U32 ? (rx_emit_value){y.id, k_u(e, 0)} : y;
    }
    const int_call c = {in, 8 * (uint32_t)rlx_dtype_block_bytes(arg)};
    const rx_id args[3] = {a[0].id, a[1].id, a[2].id};
    return (rx_emit_value){rx_emit_wrap(e, in->dtype, narrow_table[in->op](e, &c, args)), 0};
}
