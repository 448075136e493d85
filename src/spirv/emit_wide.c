/* SPDX-License-Identifier: MIT */
/* 64-bit integer arithmetic on pairs of 32-bit words. */
#include "spirv/wide.h"

#include "spirv/expr.h"

typedef rx_emit_value pair;
typedef pair wide_fn(rx_emit *e, const rx_instr *in, const pair *a);

/* ---- Pieces ---------------------------------------------------------------------------------- */

static pair wide_k(rx_emit *e, int64_t x)
{
    return (pair){k_u(e, (uint32_t)x), k_u(e, (uint32_t)((uint64_t)x >> 32))};
}

rx_emit_value rx_wide_select(rx_emit *e, rx_id cond, rx_emit_value a, rx_emit_value b)
{
    return (pair){i_select(e, cond, a.id, b.id), i_select(e, cond, a.hi, b.hi)};
}

static pair add(rx_emit *e, pair a, pair b)
{
    const rx_id low = i_add(e, a.id, b.id);
    const rx_id carry = i_select(e, u_lt(e, low, a.id), k_u(e, 1), k_u(e, 0));
    return (pair){low, i_add(e, i_add(e, a.hi, b.hi), carry)};
}

static pair sub(rx_emit *e, pair a, pair b)
{
    const rx_id borrow = i_select(e, u_lt(e, a.id, b.id), k_u(e, 1), k_u(e, 0));
    return (pair){i_sub(e, a.id, b.id), i_sub(e, i_sub(e, a.hi, b.hi), borrow)};
}

static pair mul(rx_emit *e, pair a, pair b)
{
    const pair p = u_mul_wide(e, a.id, b.id);
    const rx_id cross = i_add(e, i_mul(e, a.id, b.hi), i_mul(e, a.hi, b.id));
    return (pair){p.id, i_add(e, p.hi, cross)};
}

rx_emit_value rx_wide_neg(rx_emit *e, rx_emit_value x) { return sub(e, wide_k(e, 0), x); }

static rx_id is_zero(rx_emit *e, pair x) { return i_eq_k(e, i_or(e, x.id, x.hi), 0); }
static rx_id is_negative(rx_emit *e, pair x) { return s_lt_k(e, x.hi, 0); }

static rx_id is_all_ones(rx_emit *e, pair x)
{
    return i_eq_k(e, i_and(e, x.id, x.hi), 0xffffffffu);
}

static rx_id less_unsigned(rx_emit *e, pair a, pair b)
{
    const rx_id same = i_eq(e, a.hi, b.hi);
    return b_or(e, u_lt(e, a.hi, b.hi), b_and(e, same, u_lt(e, a.id, b.id)));
}

static rx_id less(rx_emit *e, pair a, pair b)
{
    const rx_id same = i_eq(e, a.hi, b.hi);
    return b_or(e, s_lt(e, a.hi, b.hi), b_and(e, same, u_lt(e, a.id, b.id)));
}

static pair magnitude(rx_emit *e, pair x)
{
    return rx_wide_select(e, is_negative(e, x), rx_wide_neg(e, x), x);
}

static rx_id component(rx_emit *e, rx_id vector, uint32_t i)
{
    return rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(vector, i));
}

/* A variable of a pair. */
typedef struct pair_var {
    rx_id id, hi;
} pair_var;

static pair_var new_var(rx_emit *e, pair x)
{
    return (pair_var){var_new(e, e->t_u32, x.id), var_new(e, e->t_u32, x.hi)};
}

static pair get(rx_emit *e, pair_var v) { return (pair){var_u(e, v.id), var_u(e, v.hi)}; }

static void set(rx_emit *e, pair_var v, pair x)
{
    var_set(e, v.id, x.id);
    var_set(e, v.hi, x.hi);
}

/* ---- Division and powers --------------------------------------------------------------------- */

/* Quotient and remainder of unsigned numbers, bit by bit: uvec4(q, q.hi, r, r.hi). */
static rx_id do_divide(rx_emit *e, const rx_id *a)
{
    const pair y = {a[2], a[3]};
    const pair_var q = new_var(e, (pair){a[0], a[1]}), r = new_var(e, wide_k(e, 0));
    const rx_id left = var_new(e, e->t_u32, k_u(e, 64));
    const rx_loop l = loop_begin(e);
    const rx_id n = var_u(e, left);
    loop_while(e, l, i_ne_k(e, n, 0));
    /* The bits of x leave q at the top and enter r; those of the quotient enter q. */
    const pair q0 = get(e, q), r0 = get(e, r);
    const pair r1 = {i_or(e, i_shl_k(e, r0.id, 1), u_shr_k(e, q0.hi, 31)),
                     i_or(e, i_shl_k(e, r0.hi, 1), u_shr_k(e, r0.id, 31))};
    const rx_id lost = s_lt_k(e, r0.hi, 0); /* a 65th bit of r1 */
    const rx_id fits = b_or(e, lost, b_not(e, less_unsigned(e, r1, y)));
    const rx_id bit = i_select(e, fits, k_u(e, 1), k_u(e, 0));
    set(e, q, (pair){i_or(e, i_shl_k(e, q0.id, 1), bit),
                     i_or(e, i_shl_k(e, q0.hi, 1), u_shr_k(e, q0.id, 31))});
    set(e, r, rx_wide_select(e, fits, sub(e, r1, y), r1));
    var_set(e, left, i_sub_k(e, n, 1));
    loop_end(e, l);
    const pair q1 = get(e, q), r2 = get(e, r);
    return rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, e->t_u32x4,
                     RX_ARGS(q1.id, q1.hi, r2.id, r2.hi));
}
static const rx_emit_fn fn_divide = {"wuuuu", do_divide, false};

/* Quotient truncated and remainder with the sign of x; 0 and 0 for y == 0. */
static void divide_signed(rx_emit *e, pair x, pair y, pair *q, pair *r)
{
    const pair mx = magnitude(e, x), my = magnitude(e, y), none = wide_k(e, 0);
    const rx_id by_zero = is_zero(e, y);
    const rx_id v = rx_emit_call(e, &fn_divide, (rx_id[]){mx.id, mx.hi, my.id, my.hi});
    const pair q0 = {component(e, v, 0), component(e, v, 1)};
    const pair r0 = {component(e, v, 2), component(e, v, 3)};
    const rx_id differ = s_lt_k(e, i_xor(e, x.hi, y.hi), 0);
    const pair q1 = rx_wide_select(e, differ, rx_wide_neg(e, q0), q0);
    const pair r1 = rx_wide_select(e, is_negative(e, x), rx_wide_neg(e, r0), r0);
    *q = rx_wide_select(e, by_zero, none, q1);
    *r = rx_wide_select(e, by_zero, none, r1);
}

static void divide_unsigned(rx_emit *e, pair x, pair y, pair *q, pair *r)
{
    const rx_id by_zero = is_zero(e, y);
    const rx_id v = rx_emit_call(e, &fn_divide, (rx_id[]){x.id, x.hi, y.id, y.hi});
    *q = rx_wide_select(e, by_zero, y, (pair){component(e, v, 0), component(e, v, 1)});
    *r = rx_wide_select(e, by_zero, y, (pair){component(e, v, 2), component(e, v, 3)});
}

/* By squares; the exponent is unsigned. */
static pair power(rx_emit *e, pair base, pair exponent)
{
    const pair_var y = new_var(e, wide_k(e, 1)), square = new_var(e, base);
    const pair_var left = new_var(e, exponent);
    const rx_loop l = loop_begin(e);
    const pair n = get(e, left);
    loop_while(e, l, b_not(e, is_zero(e, n)));
    const pair s = get(e, square), z = get(e, y);
    const rx_id takes = i_ne_k(e, i_and_k(e, n.id, 1), 0);
    set(e, y, rx_wide_select(e, takes, mul(e, z, s), z));
    set(e, square, mul(e, s, s));
    set(e, left, (pair){i_or(e, u_shr_k(e, n.id, 1), i_shl_k(e, n.hi, 31)), u_shr_k(e, n.hi, 1)});
    loop_end(e, l);
    return get(e, y);
}

static rx_id do_unsigned_pow(rx_emit *e, const rx_id *a)
{
    const pair y = power(e, (pair){a[0], a[1]}, (pair){a[2], a[3]});
    return rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, e->t_u32x2, RX_ARGS(y.id, y.hi));
}
static const rx_emit_fn fn_unsigned_pow = {"vuuuu", do_unsigned_pow, false};

static rx_id do_signed_pow(rx_emit *e, const rx_id *a)
{
    const pair base = {a[0], a[1]}, exponent = {a[2], a[3]};
    const rx_id negative = is_negative(e, exponent);
    const rx_id odd = i_ne_k(e, i_and_k(e, exponent.id, 1), 0);
    const rx_id is_one = b_and(e, i_eq_k(e, base.id, 1), i_eq_k(e, base.hi, 0));
    const pair one = wide_k(e, 1), none = wide_k(e, 0);
    const pair sign = rx_wide_select(e, odd, wide_k(e, -1), one);
    const pair inverse = rx_wide_select(e, is_all_ones(e, base), sign,
                                        rx_wide_select(e, is_one, one, none));
    const pair y = power(e, base, rx_wide_select(e, negative, none, exponent));
    const pair w = rx_wide_select(e, negative, inverse, y);
    return rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, e->t_u32x2, RX_ARGS(w.id, w.hi));
}
static const rx_emit_fn fn_signed_pow = {"vuuuu", do_signed_pow, false};

/* ---- Operations ------------------------------------------------------------------------------ */

static bool is_unsigned(const rx_instr *in) { return in->dtype == RLX_U64; }

static rx_id in_order(rx_emit *e, const rx_instr *in, pair a, pair b)
{
    return is_unsigned(in) ? less_unsigned(e, a, b) : less(e, a, b);
}

static void divide(rx_emit *e, const rx_instr *in, const pair *a, pair *q, pair *r)
{
    (is_unsigned(in) ? divide_unsigned : divide_signed)(e, a[0], a[1], q, r);
}

#define WIDE(name) static pair wide_##name(rx_emit *e, const rx_instr *in, const pair *a)
#define WIDE_1(name, expr) WIDE(name) { (void)in; pair x = a[0]; return expr; }
#define WIDE_2(name, expr) WIDE(name) { (void)in; pair x = a[0], y = a[1]; return expr; }

WIDE_1(neg, rx_wide_neg(e, x))
WIDE_1(abs, is_unsigned(in) ? x : magnitude(e, x))
WIDE_1(relu, is_unsigned(in) ? x : rx_wide_select(e, is_negative(e, x), wide_k(e, 0), x))
WIDE_1(not, ((pair){i_not(e, x.id), i_not(e, x.hi)}))
WIDE_2(add, add(e, x, y))
WIDE_2(sub, sub(e, x, y))
WIDE_2(mul, mul(e, x, y))
WIDE_2(max, rx_wide_select(e, in_order(e, in, y, x), x, y))
WIDE_2(min, rx_wide_select(e, in_order(e, in, x, y), x, y))
WIDE_2(and, ((pair){i_and(e, x.id, y.id), i_and(e, x.hi, y.hi)}))
WIDE_2(or, ((pair){i_or(e, x.id, y.id), i_or(e, x.hi, y.hi)}))
WIDE_2(xor, ((pair){i_xor(e, x.id, y.id), i_xor(e, x.hi, y.hi)}))

WIDE(sign)
{
    const pair y = rx_wide_select(e, is_zero(e, a[0]), a[0], wide_k(e, 1));
    return is_unsigned(in) ? y : rx_wide_select(e, is_negative(e, a[0]), wide_k(e, -1), y);
}

WIDE(div)
{
    pair q, r;
    divide(e, in, a, &q, &r);
    return q;
}

WIDE(mod)
{
    pair q, r;
    divide(e, in, a, &q, &r);
    if (is_unsigned(in) || in->p[0] == 0)
        return r;
    const rx_id differ = s_lt_k(e, i_xor(e, r.hi, a[1].hi), 0);
    const rx_id moves = b_and(e, differ, b_not(e, is_zero(e, r)));
    return rx_wide_select(e, moves, add(e, r, a[1]), r);
}

WIDE(pow)
{
    const rx_id v = rx_emit_call(e, is_unsigned(in) ? &fn_unsigned_pow : &fn_signed_pow,
                                 (rx_id[]){a[0].id, a[0].hi, a[1].id, a[1].hi});
    return (pair){component(e, v, 0), component(e, v, 1)};
}

/* Whether the count is in 0 .. 63. */
static rx_id count_fits(rx_emit *e, pair count)
{
    return b_and(e, i_eq_k(e, count.hi, 0), u_lt_k(e, count.id, 64));
}

WIDE(shl)
{
    (void)in;
    const rx_id n = i_and_k(e, a[1].id, 31), far = i_ne_k(e, i_and_k(e, a[1].id, 32), 0);
    const rx_id low = i_shl(e, a[0].id, n);
    const rx_id rest = u_shr(e, u_shr_k(e, a[0].id, 1), i_sub(e, k_u(e, 31), n));
    const pair near = {low, i_or(e, i_shl(e, a[0].hi, n), rest)};
    const pair y = rx_wide_select(e, far, (pair){k_u(e, 0), low}, near);
    return rx_wide_select(e, count_fits(e, a[1]), y, wide_k(e, 0));
}

WIDE(shr)
{
    const rx_id n = i_and_k(e, a[1].id, 31), far = i_ne_k(e, i_and_k(e, a[1].id, 32), 0);
    const rx_id high = is_unsigned(in) ? u_shr(e, a[0].hi, n) : s_shr(e, a[0].hi, n);
    const rx_id sign = is_unsigned(in) ? k_u(e, 0) : s_shr_k(e, a[0].hi, 31);
    const rx_id rest = i_shl(e, i_shl_k(e, a[0].hi, 1), i_sub(e, k_u(e, 31), n));
    const pair near = {i_or(e, u_shr(e, a[0].id, n), rest), high};
    const pair y = rx_wide_select(e, far, (pair){high, sign}, near);
    const pair past = rx_wide_select(e, is_negative(e, a[1]), wide_k(e, 0), (pair){sign, sign});
    return rx_wide_select(e, count_fits(e, a[1]), y, past);
}

WIDE(clamp)
{
    int64_t lo, hi;
    rx_int_bounds(in, &lo, &hi);
    const pair low = wide_k(e, lo), high = wide_k(e, hi);
    const pair y = rx_wide_select(e, in_order(e, in, a[0], low), low, a[0]);
    return rx_wide_select(e, in_order(e, in, high, y), high, y);
}

#define W(name) [RX_OP_##name] = wide_##name
static wide_fn *const table[RX_N_OPS] = {
    W(relu), W(neg), W(abs), W(sign), W(not), W(clamp), W(add), W(sub), W(mul), W(div), W(max),
    W(min), W(pow), W(mod), W(and), W(or), W(xor), W(shl), W(shr),
};

rx_emit_value rx_emit_wide(rx_emit *e, const rx_instr *in, const rx_emit_value *a)
{
    return table[in->op](e, in, a);
}
