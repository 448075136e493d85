/* SPDX-License-Identifier: MIT */
/* Elementwise operations on floats as SPIR-V: the table from operations to the functions of
 * emit_func.c, and those that are made of a few of them. The meaning is that of cpu/ref/scalar.c.
 * Where results must be equal, not close, numbers are compared and moved by their bits, because
 * drivers may flush subnormals and assume that there is no NaN. */
#include "spirv/expr.h"
#include "spirv/func.h"

/* A function of arguments and parameters (in->p), or one that is written in place. */
#define DEFINE_FN(name, sig) static const rx_emit_fn fn_##name = {sig, do_##name, false}
#define DEFINE_IN_PLACE(name, sig) static const rx_emit_fn fn_##name = {sig, do_##name, true}

/* ---- Arithmetic and order -------------------------------------------------------------------- */

static rx_id do_add(rx_emit *e, const rx_id *a) { return f_add(e, a[0], a[1]); }
DEFINE_IN_PLACE(add, "fff");
static rx_id do_sub(rx_emit *e, const rx_id *a) { return f_sub(e, a[0], a[1]); }
DEFINE_IN_PLACE(sub, "fff");
static rx_id do_mul(rx_emit *e, const rx_id *a) { return f_mul(e, a[0], a[1]); }
DEFINE_IN_PLACE(mul, "fff");
static rx_id do_neg(rx_emit *e, const rx_id *a) { return f_neg(e, a[0]); }
DEFINE_IN_PLACE(neg, "ff");
static rx_id do_abs(rx_emit *e, const rx_id *a) { return f_abs(e, a[0]); }
DEFINE_IN_PLACE(abs, "ff");

/* a[0] where it is NaN or comes first in the order and a[1] is not NaN. */
static rx_id pick(rx_emit *e, const rx_id *a, uint32_t order)
{
    const rx_id first = rx_spv_op(&e->m, order, e->t_bool,
                                  RX_ARGS(f_key(e, a[0]), f_key(e, a[1])));
    const rx_id sure = b_and(e, first, b_not(e, f_is_nan(e, a[1])));
    return f_select(e, b_or(e, f_is_nan(e, a[0]), sure), a[0], a[1]);
}

static rx_id do_max(rx_emit *e, const rx_id *a) { return pick(e, a, SPV_S_GREATER); }
DEFINE_IN_PLACE(max, "fff");
static rx_id do_min(rx_emit *e, const rx_id *a) { return pick(e, a, SPV_S_LESS); }
DEFINE_IN_PLACE(min, "fff");

static rx_id do_clamp(rx_emit *e, const rx_id *a)
{
    const rx_id x = f_key(e, a[0]), lo = f_key(e, a[1]), hi = f_key(e, a[2]);
    const rx_id below = s_lt(e, x, lo), key = i_select(e, below, lo, x);
    const rx_id y = f_select(e, s_gt(e, key, hi), a[2], f_select(e, below, a[1], a[0]));
    return f_select(e, f_is_nan(e, a[0]), a[0], y);
}
DEFINE_IN_PLACE(clamp, "ffff");

/* x, or 0 where it is below -0 and not NaN: bits F_SIGN + 1 to those of -infinity. */
static rx_id do_relu(rx_emit *e, const rx_id *a)
{
    const rx_id below = u_lt_k(e, i_sub_k(e, f_bits(e, a[0]), F_SIGN + 1), F_INF);
    return f_select(e, below, k_f(e, 0), a[0]);
}
DEFINE_IN_PLACE(relu, "ff");

static rx_id do_sign(rx_emit *e, const rx_id *a)
{
    const rx_id mag = i_and_k(e, f_bits(e, a[0]), F_ABS);
    const rx_id one = f_with_sign(e, k_f(e, 1), a[0]);
    const rx_id y = f_select(e, i_eq_k(e, mag, 0), k_f(e, 0), one);
    return f_select(e, u_gt_k(e, mag, F_INF), a[0], y);
}
DEFINE_IN_PLACE(sign, "ff");

static rx_id do_round(rx_emit *e, const rx_id *a)
{
    return f_select(e, f_is_nan(e, a[0]), a[0], f_round(e, a[0]));
}
DEFINE_IN_PLACE(round, "ff");

/* y, but `towards` where x lies strictly between 0 and it: also where x would be flushed to 0. */
static rx_id whole(rx_emit *e, rx_id x, rx_id y, double towards)
{
    const rx_id u = f_bits(e, towards < 0 ? x : f_neg(e, x));
    const rx_id between = u_lt_k(e, i_sub_k(e, u, F_SIGN + 1), F_ONE - 1);
    y = f_select(e, between, k_f(e, towards), y);
    return f_select(e, f_is_nan(e, x), x, y);
}

static rx_id do_floor(rx_emit *e, const rx_id *a)
{
    return whole(e, a[0], f_floor(e, a[0]), -1);
}
DEFINE_IN_PLACE(floor, "ff");
static rx_id do_ceil(rx_emit *e, const rx_id *a) { return whole(e, a[0], f_ceil(e, a[0]), 1); }
DEFINE_IN_PLACE(ceil, "ff");

/* ---- Activations ----------------------------------------------------------------------------- */

static rx_id limit_unit(rx_emit *e, rx_id x)
{
    const rx_id y = f_select(e, f_lt_k(e, x, 0), k_f(e, 0), x); /* NaN fails both and stays */
    return f_select(e, f_gt_k(e, y, 1), k_f(e, 1), y);
}

static rx_id do_sigmoid(rx_emit *e, const rx_id *a)
{
    const rx_id p = call1(e, &rx_fn_exp, f_neg(e, f_abs(e, a[0])));
    const rx_id above = f_select(e, f_lt_k(e, a[0], 0), p, k_f(e, 1));
    return f_over(e, above, f_add_k(e, p, 1));
}
DEFINE_FN(sigmoid, "ff");

/* x * sigmoid(w), where both have one sign. With q = exp(-|w| / 2), x q q does not vanish before
 * the result does. */
static rx_id gate(rx_emit *e, rx_id x, rx_id w)
{
    const rx_id q = call1(e, &rx_fn_exp, f_mul_k(e, f_abs(e, w), -0.5));
    const rx_id above = f_select(e, f_lt_k(e, w, 0), f_mul(e, f_mul(e, x, q), q), x);
    return f_over(e, above, f_add_k(e, f_mul(e, q, q), 1));
}

static rx_id do_silu(rx_emit *e, const rx_id *a) { return gate(e, a[0], a[0]); }
DEFINE_FN(silu, "ff");

static rx_id do_gelu_tanh(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], cube = f_mul(e, f_mul(e, x, x), x);
    const rx_id inner = f_add(e, x, f_mul_k(e, cube, 0.044715));
    return gate(e, x, f_mul_k(e, inner, 2 * 0.79788456080286535588));
}
DEFINE_FN(gelu_tanh, "ff");

/* max(x, 0) + log(1 + exp(-|x|)) */
static rx_id do_softplus(rx_emit *e, const rx_id *a)
{
    const rx_id p = call1(e, &rx_fn_exp, f_neg(e, f_abs(e, a[0])));
    const rx_id top = f_select(e, f_gt_k(e, a[0], 0), a[0], k_f(e, 0));
    return f_select(e, f_is_nan(e, a[0]), a[0], f_add(e, top, call1(e, &rx_fn_log1p, p)));
}
DEFINE_FN(softplus, "ff");

static rx_id do_log_sigmoid(rx_emit *e, const rx_id *a)
{
    return f_neg(e, call1(e, &fn_softplus, f_neg(e, a[0])));
}
DEFINE_FN(log_sigmoid, "ff");

/* x * tanh(softplus(x)) = x * (n / (n + c)) with p = exp(-|x|): n = 1 + 2 p, c = 2 p^2 for x > 0, n
 * = (2 + p) p, c = 2 below, where p is multiplied as the square of its root, to vanish last. */
static rx_id do_mish(rx_emit *e, const rx_id *a)
{
    const rx_id q = call1(e, &rx_fn_exp, f_mul_k(e, f_abs(e, a[0]), -0.5));
    const rx_id p = f_mul(e, q, q), up = f_gt_k(e, a[0], 0);
    const rx_id n = f_select(e, up, f_add_k(e, f_add(e, p, p), 1), f_add_k(e, p, 2));
    const rx_id x = f_select(e, up, a[0], f_mul(e, f_mul(e, a[0], q), q));
    const rx_id below = f_select(e, up, f_mul(e, f_add(e, p, p), p), k_f(e, 2));
    const rx_id sum = f_add(e, f_select(e, up, n, f_mul(e, n, p)), below);
    return f_mul(e, x, f_over(e, n, sum));
}
DEFINE_FN(mish, "ff");

static rx_id do_hard_swish(rx_emit *e, const rx_id *a)
{
    const rx_id inner = f_mul_k(e, f_add_k(e, a[0], 3), 1.0 / 6); /* no loss near -3 */
    return f_mul(e, a[0], limit_unit(e, inner));
}
DEFINE_IN_PLACE(hard_swish, "ff");

/* Some compilers make a saturating product of this, which turns NaN into 0: hence the choice. */
static rx_id do_hard_sigmoid(rx_emit *e, const rx_id *a)
{
    const rx_id y = limit_unit(e, f_add(e, f_mul(e, a[0], a[1]), a[2]));
    return f_select(e, f_is_nan(e, a[0]), a[0], y);
}
DEFINE_IN_PLACE(hard_sigmoid, "ffff");

static rx_id do_softsign(rx_emit *e, const rx_id *a)
{
    return call2(e, &rx_fn_div, a[0], f_add_k(e, f_abs(e, a[0]), 1));
}
DEFINE_IN_PLACE(softsign, "ff");

static rx_id do_leaky_relu(rx_emit *e, const rx_id *a)
{
    return f_select(e, f_lt_k(e, a[0], 0), f_mul(e, a[0], a[1]), a[0]);
}
DEFINE_IN_PLACE(leaky_relu, "fff");

static rx_id do_elu(rx_emit *e, const rx_id *a)
{
    const rx_id low = f_mul(e, a[1], rx_emit_expm1(e, a[0]));
    return f_select(e, f_gt_k(e, a[0], 0), a[0], low);
}
DEFINE_FN(elu, "fff");

static rx_id do_selu(rx_emit *e, const rx_id *a)
{
    return f_mul(e, a[2], call2(e, &fn_elu, a[0], a[1]));
}
DEFINE_FN(selu, "ffff");

static rx_id do_celu(rx_emit *e, const rx_id *a)
{
    const rx_id inner = call2(e, &rx_fn_div, a[0], a[1]);
    const rx_id low = f_mul(e, a[1], rx_emit_expm1(e, inner));
    return f_select(e, f_gt_k(e, a[0], 0), a[0], low);
}
DEFINE_FN(celu, "fff");

/* ---- Remainder ------------------------------------------------------------------------------- */

/* The float with these sign bits and the value r * 2^(exponent - 150), r below 2^24. */
static rx_id assemble(rx_emit *e, rx_id sign, rx_id r, rx_id exponent)
{
    const rx_id lead = i_sub(e, k_u(e, 23), u_msb(e, i_or_k(e, r, 1)));
    const rx_id normal = s_gt(e, exponent, lead);
    const rx_id shift = i_select(e, normal, lead, i_sub_k(e, exponent, 1));
    const rx_id m = i_shl(e, r, shift);
    const rx_id top = i_shl_k(e, i_sub(e, exponent, lead), 23);
    const rx_id bits = i_select(e, normal, i_or(e, i_and_k(e, m, 0x7fffffu), top), m);
    return i_select(e, i_eq_k(e, r, 0), sign, i_or(e, bits, sign));
}

/* Significand and biased exponent (1 for subnormals) of a magnitude. */
static rx_id significand(rx_emit *e, rx_id mag, rx_id *exponent)
{
    const rx_id biased = u_shr_k(e, mag, 23), is_small = i_eq_k(e, biased, 0);
    *exponent = i_select(e, is_small, k_u(e, 1), biased);
    return i_select(e, is_small, mag, i_or_k(e, i_and_k(e, mag, 0x7fffffu), 0x800000u));
}

/* fmod, exact: long division of the significands, eight bits at a time. */
static rx_id do_fmod(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), x = i_and_k(e, u, F_ABS);
    const rx_id y = i_and_k(e, f_bits(e, a[1]), F_ABS);
    rx_id ex, ey;
    const rx_id mx = significand(e, x, &ex), my_any = significand(e, y, &ey);
    const rx_id my = i_select(e, i_eq_k(e, y, 0), k_u(e, 1), my_any);
    const rx_id less = u_lt(e, x, y);
    const rx_id bad = b_or(e, u_ge_k(e, x, F_INF),
                           b_or(e, i_eq_k(e, y, 0), u_gt_k(e, y, F_INF)));
    const rx_id skip = b_or(e, less, bad);
    const rx_id r = var_new(e, e->t_u32, u_mod(e, mx, my));
    const rx_id left = var_new(e, e->t_u32, i_select(e, skip, k_u(e, 0), i_sub(e, ex, ey)));
    const rx_loop l = loop_begin(e);
    const rx_id n = var_u(e, left);
    loop_while(e, l, i_ne_k(e, n, 0));
    const rx_id step = i_select(e, u_lt_k(e, n, 8), n, k_u(e, 8));
    var_set(e, r, u_mod(e, i_shl(e, var_u(e, r), step), my));
    var_set(e, left, i_sub(e, n, step));
    loop_end(e, l);
    const rx_id bits = assemble(e, i_and_k(e, u, F_SIGN), var_u(e, r), ey);
    const rx_id z = f_select(e, less, a[0], f_from_bits(e, bits));
    return f_select(e, bad, k_bits(e, F_NAN), z);
}
DEFINE_FN(fmod, "fff");

/* a[2] is 1 when the result takes the sign of a[1]. */
static rx_id do_mod(rx_emit *e, const rx_id *a)
{
    const rx_id r = call2(e, &fn_fmod, a[0], a[1]);
    const rx_id ur = f_bits(e, r), uy = f_bits(e, a[1]);
    const rx_id is_zero = i_eq_k(e, i_and_k(e, ur, F_ABS), 0);
    const rx_id differ = s_lt_k(e, i_xor(e, ur, uy), 0);
    rx_id z = f_select(e, differ, f_add(e, r, a[1]), r);
    z = f_select(e, is_zero, f_from_bits(e, i_and_k(e, uy, F_SIGN)), z);
    return f_select(e, f_gt_k(e, a[2], 0.5), z, r);
}
DEFINE_FN(mod, "ffff");

/* ---- Fused multiply-add ---------------------------------------------------------------------- */

/* sum = a + b rounded, *rest what rounding took away. */
static rx_id two_sum(rx_emit *e, rx_id a, rx_id b, rx_id *rest)
{
    const rx_id sum = f_add(e, a, b), part = f_sub(e, sum, a);
    *rest = f_add(e, f_sub(e, a, f_sub(e, sum, part)), f_sub(e, b, part));
    return sum;
}

/* product = a * b rounded, *rest what rounding took away. */
static rx_id two_product(rx_emit *e, rx_id a, rx_id b, rx_id *rest)
{
    const rx_id product = f_mul(e, a, b);
    const rx_id ah = f_from_bits(e, i_and_k(e, f_bits(e, a), 0xfffff000u)), al = f_sub(e, a, ah);
    const rx_id bh = f_from_bits(e, i_and_k(e, f_bits(e, b), 0xfffff000u)), bl = f_sub(e, b, bh);
    rx_id r = f_sub(e, f_mul(e, ah, bh), product);
    r = f_add(e, r, f_mul(e, ah, bl));
    r = f_add(e, r, f_mul(e, al, bh));
    *rest = f_add(e, r, f_mul(e, al, bl));
    return product;
}

/* x, or its neighbour with an odd last bit towards `rest` where rest is not zero. */
static rx_id round_to_odd(rx_emit *e, rx_id x, rx_id rest)
{
    const rx_id u = f_bits(e, x), r = f_bits(e, rest);
    const rx_id exact = i_eq_k(e, i_and_k(e, r, F_ABS), 0);
    const rx_id keeps = b_or(e, exact, i_ne_k(e, i_and_k(e, u, 1), 0));
    const rx_id outward = s_ge_k(e, i_xor(e, u, r), 0); /* away from zero: the bits grow */
    const rx_id moved = i_add(e, u, i_select(e, outward, k_u(e, 1), k_u(e, 0xffffffffu)));
    const rx_id is_zero = i_eq_k(e, i_and_k(e, u, F_ABS), 0);
    return f_from_bits(e, i_select(e, b_or(e, keeps, is_zero), u, moved));
}

/* a * b + c rounded once (Boldo and Melquiond), on numbers scaled so that no step overflows. */
static rx_id do_fma(rx_emit *e, const rx_id *a)
{
    const rx_id ua = i_and_k(e, f_bits(e, a[0]), F_ABS), ub = i_and_k(e, f_bits(e, a[1]), F_ABS);
    const rx_id exponents = i_add(e, u_shr_k(e, ua, 23), u_shr_k(e, ub, 23));
    const rx_id uc = i_and_k(e, f_bits(e, a[2]), F_ABS);
    const rx_id large = b_or(e, u_gt_k(e, exponents, 254 + 60), u_gt_k(e, uc, 0x71800000u));
    const rx_id down = f_select(e, large, k_f(e, 0x1p-64), k_f(e, 1));
    const rx_id first = u_ge(e, ua, ub); /* the larger factor is scaled */
    const rx_id x = f_mul(e, f_select(e, first, a[0], a[1]), down);
    const rx_id y = f_select(e, first, a[1], a[0]), z = f_mul(e, a[2], down);
    rx_id product_rest, sum_rest, rest_rest;
    const rx_id product = two_product(e, x, y, &product_rest);
    const rx_id sum = two_sum(e, product, z, &sum_rest);
    const rx_id rest = two_sum(e, sum_rest, product_rest, &rest_rest);
    const rx_id scaled = f_add(e, sum, round_to_odd(e, rest, rest_rest));
    const rx_id up = f_select(e, large, k_f(e, 0x1p64), k_f(e, 1));
    const rx_id exact = f_mul(e, scaled, up);

    const rx_id naive = f_add(e, f_mul(e, a[0], a[1]), a[2]);
    const rx_id factors = b_and(e, u_lt_k(e, ua, F_INF), u_lt_k(e, ub, F_INF));
    const rx_id finite = b_and(e, factors, u_lt_k(e, uc, F_INF));
    const rx_id far = u_ge_k(e, exponents, 254 + 130); /* infinite whatever c is */
    const rx_id special = f_select(e, b_and(e, factors, b_not(e, finite)), a[2], naive);
    return f_select(e, b_and(e, finite, b_not(e, far)), exact, special);
}
DEFINE_FN(fma, "ffff");

/* ---- The table ------------------------------------------------------------------------------- */

#define F(name) [RX_OP_##name] = &fn_##name
#define G(name) [RX_OP_##name] = &rx_fn_##name
static const rx_emit_fn *const table[RX_N_OPS] = {
    F(relu), G(gelu), F(gelu_tanh), F(silu), F(sigmoid), G(tanh), G(exp), G(log), G(sqrt),
    G(rsqrt), F(neg), F(abs), G(sin), G(cos), G(tan), G(atan), F(round), G(reciprocal), F(floor),
    F(ceil), F(sign), F(softplus), F(elu), G(erf), F(hard_swish), F(hard_sigmoid), F(mish),
    F(softsign), F(log_sigmoid), G(asin), G(acos), G(sinh), G(cosh), G(asinh), G(acosh), G(atanh),
    G(exp2), G(log2), F(leaky_relu), F(selu), F(celu), F(clamp), F(add), F(sub), F(mul), G(div),
    F(max), F(min), G(pow), F(mod), G(atan2), F(fma),
};

/* Those that are cheaper for results of 16 bits. */
static const rx_emit_fn *const short_table[RX_N_OPS] = {[RX_OP_gelu] = &rx_fn_gelu_short};

rx_id rx_emit_float(rx_emit *e, const rx_instr *in, const rx_id *a)
{
    const bool is_short = in->dtype != RLX_F32 && short_table[in->op];
    const rx_emit_fn *fn = (is_short ? short_table : table)[in->op];
    const size_t n = rx_ops[in->op].min_in;
    rx_id args[5] = {0};
    memcpy(args, a, n * sizeof *a);
    args[n] = k_f(e, in->p[0]); /* parameters follow; the signature says how many are used */
    args[n + 1] = k_f(e, in->p[1]);
    return rx_emit_call(e, fn, args);
}

/* ---- Tests ----------------------------------------------------------------------------------- */

typedef rx_id test_fn(rx_emit *e, const rx_id *a);

static rx_id ordered(rx_emit *e, const rx_id *a, uint32_t order)
{
    const rx_id y = rx_spv_op(&e->m, order, e->t_bool, RX_ARGS(f_key(e, a[0]), f_key(e, a[1])));
    return b_and(e, y, b_not(e, b_or(e, f_is_nan(e, a[0]), f_is_nan(e, a[1]))));
}

static rx_id test_eq(rx_emit *e, const rx_id *a) { return ordered(e, a, SPV_I_EQUAL); }
static rx_id test_ne(rx_emit *e, const rx_id *a) { return b_not(e, test_eq(e, a)); }
static rx_id test_lt(rx_emit *e, const rx_id *a) { return ordered(e, a, SPV_S_LESS); }
static rx_id test_le(rx_emit *e, const rx_id *a) { return ordered(e, a, SPV_S_LESS_EQUAL); }
static rx_id test_gt(rx_emit *e, const rx_id *a) { return ordered(e, a, SPV_S_GREATER); }
static rx_id test_ge(rx_emit *e, const rx_id *a) { return ordered(e, a, SPV_S_GREATER_EQUAL); }
static rx_id test_is_nan(rx_emit *e, const rx_id *a) { return f_is_nan(e, a[0]); }
static rx_id test_is_inf(rx_emit *e, const rx_id *a)
{
    return i_eq_k(e, i_and_k(e, f_bits(e, a[0]), F_ABS), F_INF);
}

#define T(name) [RX_OP_##name] = test_##name
static test_fn *const tests[RX_N_OPS] = {
    T(eq), T(ne), T(lt), T(le), T(gt), T(ge), T(is_nan), T(is_inf),
};

rx_id rx_emit_float_test(rx_emit *e, const rx_instr *in, const rx_id *a)
{
    return i_select(e, tests[in->op](e, a), k_u(e, 1), k_u(e, 0));
}
