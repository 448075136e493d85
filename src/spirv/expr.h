/* SPDX-License-Identifier: MIT */
/* Short names for the expressions of the emitter. f_: floats, i_: 32-bit integers, of which s_ have
 * a sign and u_ have none, b_: conditions. Every float operation is marked as not to be contracted,
 * which also keeps drivers from rearranging it. */
#ifndef RX_SPIRV_EXPR_H
#define RX_SPIRV_EXPR_H

#include <string.h>

#include "spirv/emit.h"

/* ---- Constants ------------------------------------------------------------------------------- */

static inline rx_id k_u(rx_emit *e, uint32_t x)
{
    return rx_spv_intern(&e->m, SPV_CONSTANT, e->t_u32, &x, 1);
}

static inline rx_id k_bits(rx_emit *e, uint32_t bits)
{
    return rx_spv_intern(&e->m, SPV_CONSTANT, e->t_f32, &bits, 1);
}

static inline rx_id k_f(rx_emit *e, double x)
{
    const float f = (float)x;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return k_bits(e, bits);
}

#define F_INF 0x7f800000u
#define F_NAN 0x7fc00000u
#define F_SIGN 0x80000000u
#define F_ABS 0x7fffffffu
#define F_ONE 0x3f800000u

/* ---- Operations ------------------------------------------------------------------------------ */

static inline rx_id f_exact(rx_emit *e, uint32_t op, rx_id a, rx_id b)
{
    const rx_id y = rx_spv_op(&e->m, op, e->t_f32, RX_ARGS(a, b));
    rx_spv_decorate(&e->m, SPV_DECORATE, RX_ARGS(y, SPV_NO_CONTRACTION));
    return y;
}

#define RX_EXPR_1(name, op, type) \
    static inline rx_id name(rx_emit *e, rx_id a) \
    { return rx_spv_op(&e->m, op, e->type, RX_ARGS(a)); }
#define RX_EXPR_2(name, op, type) \
    static inline rx_id name(rx_emit *e, rx_id a, rx_id b) \
    { return rx_spv_op(&e->m, op, e->type, RX_ARGS(a, b)); }
#define RX_EXPR_F(name, op) \
    static inline rx_id name(rx_emit *e, rx_id a, rx_id b) { return f_exact(e, op, a, b); }
#define RX_EXPR_GLSL(name, inst) \
    static inline rx_id name(rx_emit *e, rx_id a) \
    { return rx_spv_glsl(&e->m, inst, e->t_f32, RX_ARGS(a)); }

RX_EXPR_F(f_add, SPV_F_ADD)
RX_EXPR_F(f_sub, SPV_F_SUB)
RX_EXPR_F(f_mul, SPV_F_MUL)
RX_EXPR_F(f_over, SPV_F_DIV) /* inexact outside of moderate divisors: see divide in emit_math.c */
RX_EXPR_GLSL(f_round, GLSL_ROUND_EVEN)
RX_EXPR_GLSL(f_floor, GLSL_FLOOR)
RX_EXPR_GLSL(f_ceil, GLSL_CEIL)
RX_EXPR_GLSL(f_exp2, GLSL_EXP2) /* good for 16-bit results only */
RX_EXPR_GLSL(f_sqrt, GLSL_SQRT)
RX_EXPR_GLSL(f_rsqrt, GLSL_INVERSE_SQRT)
RX_EXPR_1(f_bits, SPV_BITCAST, t_u32)   /* float to bits */
RX_EXPR_1(f_from_bits, SPV_BITCAST, t_f32)
RX_EXPR_1(f_to_s, SPV_CONVERT_F_TO_S, t_u32)
RX_EXPR_1(s_to_f, SPV_CONVERT_S_TO_F, t_f32)
RX_EXPR_1(u_to_f, SPV_CONVERT_U_TO_F, t_f32)
RX_EXPR_2(f_lt, SPV_F_LESS, t_bool)
RX_EXPR_2(f_gt, SPV_F_GREATER, t_bool)

RX_EXPR_2(i_add, SPV_I_ADD, t_u32)
RX_EXPR_2(i_sub, SPV_I_SUB, t_u32)
RX_EXPR_2(i_mul, SPV_I_MUL, t_u32)
RX_EXPR_2(u_div, SPV_U_DIV, t_u32)
RX_EXPR_2(u_mod, SPV_U_MOD, t_u32)
RX_EXPR_2(i_and, SPV_AND, t_u32)
RX_EXPR_2(i_or, SPV_OR, t_u32)
RX_EXPR_2(i_xor, SPV_XOR, t_u32)
RX_EXPR_1(i_not, SPV_NOT, t_u32)
RX_EXPR_2(i_shl, SPV_SHIFT_LEFT, t_u32)
RX_EXPR_2(u_shr, SPV_SHIFT_RIGHT, t_u32)
RX_EXPR_2(s_shr, SPV_SHIFT_RIGHT_SIGNED, t_u32)
RX_EXPR_2(i_eq, SPV_I_EQUAL, t_bool)
RX_EXPR_2(i_ne, SPV_I_NOT_EQUAL, t_bool)
RX_EXPR_2(u_lt, SPV_U_LESS, t_bool)
RX_EXPR_2(u_le, SPV_U_LESS_EQUAL, t_bool)
RX_EXPR_2(u_gt, SPV_U_GREATER, t_bool)
RX_EXPR_2(u_ge, SPV_U_GREATER_EQUAL, t_bool)
RX_EXPR_2(s_lt, SPV_S_LESS, t_bool)
RX_EXPR_2(s_le, SPV_S_LESS_EQUAL, t_bool)
RX_EXPR_2(s_gt, SPV_S_GREATER, t_bool)
RX_EXPR_2(s_ge, SPV_S_GREATER_EQUAL, t_bool)
RX_EXPR_2(b_and, SPV_LOGICAL_AND, t_bool)
RX_EXPR_2(b_or, SPV_LOGICAL_OR, t_bool)
RX_EXPR_1(b_not, SPV_LOGICAL_NOT, t_bool)

static inline rx_id f_select(rx_emit *e, rx_id cond, rx_id a, rx_id b)
{
    return rx_spv_op(&e->m, SPV_SELECT, e->t_f32, RX_ARGS(cond, a, b));
}

static inline rx_id i_select(rx_emit *e, rx_id cond, rx_id a, rx_id b)
{
    return rx_spv_op(&e->m, SPV_SELECT, e->t_u32, RX_ARGS(cond, a, b));
}

/* a * b + c, rounded once or twice: for polynomials. */
static inline rx_id f_fma(rx_emit *e, rx_id a, rx_id b, rx_id c)
{
    return rx_spv_glsl(&e->m, GLSL_FMA, e->t_f32, RX_ARGS(a, b, c));
}

static inline rx_id f_clamp(rx_emit *e, rx_id x, double lo, double hi)
{
    const rx_id a = k_f(e, lo), b = k_f(e, hi);
    return rx_spv_glsl(&e->m, GLSL_FCLAMP, e->t_f32, RX_ARGS(x, a, b));
}

/* Index of the highest set bit; of 0 it is all ones. */
static inline rx_id u_msb(rx_emit *e, rx_id x)
{
    return rx_spv_glsl(&e->m, GLSL_FIND_U_MSB, e->t_u32, RX_ARGS(x));
}

/* Low and high word of the product of two words. */
static inline rx_emit_value u_mul_wide(rx_emit *e, rx_id a, rx_id b)
{
    const rx_id pair = rx_spv_op(&e->m, SPV_U_MUL_EXTENDED, e->t_pair, RX_ARGS(a, b));
    return (rx_emit_value){
        rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(pair, 0)),
        rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(pair, 1))};
}

/* The same with a constant on the right: most shifts and masks. */
#define RX_EXPR_K(name, of) \
    static inline rx_id name(rx_emit *e, rx_id a, uint32_t k) { return of(e, a, k_u(e, k)); }
#define RX_EXPR_KF(name, of) \
    static inline rx_id name(rx_emit *e, rx_id a, double k) { return of(e, a, k_f(e, k)); }
RX_EXPR_K(i_add_k, i_add)
RX_EXPR_K(i_sub_k, i_sub)
RX_EXPR_K(i_mul_k, i_mul)
RX_EXPR_K(i_and_k, i_and)
RX_EXPR_K(i_or_k, i_or)
RX_EXPR_K(i_xor_k, i_xor)
RX_EXPR_K(i_shl_k, i_shl)
RX_EXPR_K(u_shr_k, u_shr)
RX_EXPR_K(s_shr_k, s_shr)
RX_EXPR_K(i_eq_k, i_eq)
RX_EXPR_K(i_ne_k, i_ne)
RX_EXPR_K(u_lt_k, u_lt)
RX_EXPR_K(u_gt_k, u_gt)
RX_EXPR_K(u_ge_k, u_ge)
RX_EXPR_K(s_lt_k, s_lt)
RX_EXPR_K(s_gt_k, s_gt)
RX_EXPR_K(s_ge_k, s_ge)
RX_EXPR_KF(f_add_k, f_add)
RX_EXPR_KF(f_sub_k, f_sub)
RX_EXPR_KF(f_mul_k, f_mul)
RX_EXPR_KF(f_gt_k, f_gt)
RX_EXPR_KF(f_lt_k, f_lt)

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* c[0] + c[1] x + ... + c[n-1] x^(n-1) */
static inline rx_id f_poly(rx_emit *e, rx_id x, const double *c, size_t n)
{
    rx_id y = k_f(e, c[n - 1]);
    for (size_t i = n - 1; i-- > 0;)
        y = f_fma(e, y, x, k_f(e, c[i]));
    return y;
}
#define F_POLY(e, x, ...) f_poly(e, x, (const double[]){__VA_ARGS__}, \
                                 sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static inline rx_id f_abs(rx_emit *e, rx_id x)
{
    return f_from_bits(e, i_and_k(e, f_bits(e, x), F_ABS));
}

static inline rx_id f_neg(rx_emit *e, rx_id x)
{
    return f_from_bits(e, i_xor_k(e, f_bits(e, x), F_SIGN));
}

/* |x| with the sign of s; x is not negative. */
static inline rx_id f_with_sign(rx_emit *e, rx_id x, rx_id s)
{
    return f_from_bits(e, i_or(e, f_bits(e, x), i_and_k(e, f_bits(e, s), F_SIGN)));
}

static inline rx_id f_is_nan(rx_emit *e, rx_id x)
{
    return u_gt_k(e, i_and_k(e, f_bits(e, x), F_ABS), F_INF);
}

/* A signed integer in the order of the floats, equal for both zeros. NaN lies beyond infinity. */
static inline rx_id f_key(rx_emit *e, rx_id x)
{
    const rx_id u = f_bits(e, x);
    return i_select(e, s_lt_k(e, u, 0), i_sub(e, k_u(e, F_SIGN), u), u);
}

/* 2^n for n in -126 .. 127. */
static inline rx_id f_power_of_2(rx_emit *e, rx_id n)
{
    return f_from_bits(e, i_shl_k(e, i_add_k(e, n, 127), 23));
}

static inline rx_id call1(rx_emit *e, const rx_emit_fn *fn, rx_id a)
{
    return rx_emit_call(e, fn, &a);
}

static inline rx_id call2(rx_emit *e, const rx_emit_fn *fn, rx_id a, rx_id b)
{
    return rx_emit_call(e, fn, (rx_id[]){a, b});
}

/* ---- Control flow and variables -------------------------------------------------------------- */

static inline rx_id var_new(rx_emit *e, rx_id type, rx_id value)
{
    const rx_id v = rx_spv_local(&e->m, type);
    rx_spv_op(&e->m, SPV_STORE, 0, RX_ARGS(v, value));
    return v;
}

static inline void var_set(rx_emit *e, rx_id v, rx_id value)
{
    rx_spv_op(&e->m, SPV_STORE, 0, RX_ARGS(v, value));
}

static inline rx_id var_u(rx_emit *e, rx_id v)
{
    return rx_spv_op(&e->m, SPV_LOAD, e->t_u32, RX_ARGS(v));
}

/* Opens a block that runs when cond; if_end takes what this returns. */
static inline rx_id if_begin(rx_emit *e, rx_id cond)
{
    const rx_id then = rx_spv_new_id(&e->m), merge = rx_spv_new_id(&e->m);
    rx_spv_op(&e->m, SPV_SELECTION_MERGE, 0, RX_ARGS(merge, 0));
    rx_spv_op(&e->m, SPV_BRANCH_CONDITIONAL, 0, RX_ARGS(cond, then, merge));
    rx_spv_label(&e->m, then);
    return merge;
}

static inline void if_end(rx_emit *e, rx_id merge)
{
    rx_spv_op(&e->m, SPV_BRANCH, 0, RX_ARGS(merge));
    rx_spv_label(&e->m, merge);
}

typedef struct rx_loop {
    rx_id head, next, merge;
} rx_loop;

/* loop_begin, the condition, loop_while, the body, loop_end. */
static inline rx_loop loop_begin(rx_emit *e)
{
    rx_loop l = {rx_spv_new_id(&e->m), rx_spv_new_id(&e->m), rx_spv_new_id(&e->m)};
    const rx_id test = rx_spv_new_id(&e->m);
    rx_spv_op(&e->m, SPV_BRANCH, 0, RX_ARGS(l.head));
    rx_spv_label(&e->m, l.head);
    rx_spv_op(&e->m, SPV_LOOP_MERGE, 0, RX_ARGS(l.merge, l.next, 0));
    rx_spv_op(&e->m, SPV_BRANCH, 0, RX_ARGS(test));
    rx_spv_label(&e->m, test);
    return l;
}

static inline void loop_while(rx_emit *e, rx_loop l, rx_id cond)
{
    const rx_id body = rx_spv_new_id(&e->m);
    rx_spv_op(&e->m, SPV_BRANCH_CONDITIONAL, 0, RX_ARGS(cond, body, l.merge));
    rx_spv_label(&e->m, body);
}

static inline void loop_end(rx_emit *e, rx_loop l)
{
    rx_spv_op(&e->m, SPV_BRANCH, 0, RX_ARGS(l.next));
    rx_spv_label(&e->m, l.next);
    rx_spv_op(&e->m, SPV_BRANCH, 0, RX_ARGS(l.head));
    rx_spv_label(&e->m, l.merge);
}

#endif
