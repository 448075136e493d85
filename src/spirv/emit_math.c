/* SPDX-License-Identifier: MIT */
/* Elementwise operations on floats as SPIR-V: what the formulas of rlx/functions.def become, on
 * the functions of emit_func.c, and hand-tuned versions. The meaning is that of cpu/ref/scalar.c.
 * Where results must be equal, not close, numbers are compared and moved by their bits, because
 * drivers may flush subnormals and assume that there is no NaN. */
#include "ir/functions.h"
#include "spirv/expr.h"
#include "spirv/func.h"

/* A function of arguments and parameters (in->p), or one that is written in place. */
#define DEFINE_FN(name, sig) static const rx_emit_fn fn_##name = {sig, do_##name, false}
#define DEFINE_IN_PLACE(name, sig) static const rx_emit_fn fn_##name = {sig, do_##name, true}

/* ---- Arithmetic and order -------------------------------------------------------------------- */

/* a where it is NaN or comes first in the order and b is not NaN, else b. */
static rx_id pick(rx_emit *e, rx_id a, rx_id b, uint32_t order)
{
    const rx_id first = rx_spv_op(&e->m, order, e->t_bool, RX_ARGS(f_key(e, a), f_key(e, b)));
    const rx_id sure = b_and(e, first, b_not(e, f_is_nan(e, b)));
    return f_select(e, b_or(e, f_is_nan(e, a), sure), a, b);
}

static rx_id limit(rx_emit *e, rx_id x, rx_id lo, rx_id hi)
{
    const rx_id kx = f_key(e, x), k_lo = f_key(e, lo), k_hi = f_key(e, hi);
    const rx_id below = s_lt(e, kx, k_lo), key = i_select(e, below, k_lo, kx);
    const rx_id y = f_select(e, s_gt(e, key, k_hi), hi, f_select(e, below, lo, x));
    return f_select(e, f_is_nan(e, x), x, y);
}

static rx_id do_clamp(rx_emit *e, const rx_id *a) { return limit(e, a[0], a[1], a[2]); }
DEFINE_IN_PLACE(clamp, "ffff");

/* x, or 0 where it is below -0 and not NaN: bits F_SIGN + 1 to those of -infinity. */
static rx_id emit_relu(rx_emit *e, rx_id x)
{
    const rx_id below = u_lt_k(e, i_sub_k(e, f_bits(e, x), F_SIGN + 1), F_INF);
    return f_select(e, below, k_f(e, 0), x);
}

static rx_id emit_sign(rx_emit *e, rx_id x)
{
    const rx_id mag = i_and_k(e, f_bits(e, x), F_ABS);
    const rx_id one = f_with_sign(e, k_f(e, 1), x);
    const rx_id y = f_select(e, i_eq_k(e, mag, 0), k_f(e, 0), one);
    return f_select(e, u_gt_k(e, mag, F_INF), x, y);
}

static rx_id emit_round(rx_emit *e, rx_id x)
{
    return f_select(e, f_is_nan(e, x), x, f_round(e, x));
}

/* y, but `towards` where x lies strictly between 0 and it: also where x would be flushed to 0. */
static rx_id whole(rx_emit *e, rx_id x, rx_id y, double towards)
{
    const rx_id u = f_bits(e, towards < 0 ? x : f_neg(e, x));
    const rx_id between = u_lt_k(e, i_sub_k(e, u, F_SIGN + 1), F_ONE - 1);
    y = f_select(e, between, k_f(e, towards), y);
    return f_select(e, f_is_nan(e, x), x, y);
}

static rx_id emit_floor(rx_emit *e, rx_id x)
{
    return whole(e, x, f_floor(e, x), -1);
}
static rx_id emit_ceil(rx_emit *e, rx_id x) { return whole(e, x, f_ceil(e, x), 1); }

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

/* x q q times 2^64, which does not vanish before the result does. Drivers reassociate x q q to
 * x (q q), so one q is scaled through its exponent; divisors are scaled too. */
static rx_id times_square(rx_emit *e, rx_id x, rx_id q)
{
    const rx_id scaled = f_from_bits(e, i_add_k(e, f_bits(e, q), 64u << 23));
    return f_mul(e, f_mul(e, x, q), scaled);
}

/* x * sigmoid(w), where both have one sign. */
static rx_id gate(rx_emit *e, rx_id x, rx_id w)
{
    const rx_id q = call1(e, &rx_fn_exp, f_mul_k(e, f_abs(e, w), -0.5));
    const rx_id below = f_lt_k(e, w, 0);
    const rx_id unit = f_select(e, below, k_f(e, 0x1p64), k_f(e, 1));
    const rx_id above = f_select(e, below, times_square(e, x, q), x);
    return f_over(e, above, f_fma(e, unit, f_mul(e, q, q), unit));
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

/* x * tanh(softplus(x)) = x * n / (n + c) with p = exp(-|x|): n = 1 + 2 p, c = 2 p^2 for x > 0, n
 * = (2 + p) p, c = 2 below, where p is multiplied as the square of its root, to vanish last. */
static rx_id do_mish(rx_emit *e, const rx_id *a)
{
    const rx_id q = call1(e, &rx_fn_exp, f_mul_k(e, f_abs(e, a[0]), -0.5));
    const rx_id p = f_mul(e, q, q), up = f_gt_k(e, a[0], 0);
    const rx_id n = f_select(e, up, f_add_k(e, f_add(e, p, p), 1), f_add_k(e, p, 2));
    const rx_id x = f_select(e, up, a[0], times_square(e, a[0], q));
    const rx_id below = f_select(e, up, f_mul(e, f_add(e, p, p), p), k_f(e, 2));
    const rx_id sum = f_add(e, f_select(e, up, n, f_mul(e, n, p)), below);
    const rx_id unit = f_select(e, up, k_f(e, 1), k_f(e, 0x1p64));
    return f_over(e, f_mul(e, x, n), f_mul(e, sum, unit));
}
DEFINE_FN(mish, "ff");

static rx_id emit_hard_swish(rx_emit *e, rx_id x)
{
    const rx_id inner = f_mul_k(e, f_add_k(e, x, 3), 1.0 / 6); /* no loss near -3 */
    return f_mul(e, x, limit_unit(e, inner));
}

/* Some compilers make a saturating product of this, which turns NaN into 0: hence the choice. */
static rx_id emit_hard_sigmoid(rx_emit *e, rx_id x, rx_id alpha, rx_id beta)
{
    const rx_id y = limit_unit(e, f_add(e, f_mul(e, x, alpha), beta));
    return f_select(e, f_is_nan(e, x), x, y);
}

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
static rx_id significand_of(rx_emit *e, rx_id mag, rx_id *exponent)
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
    const rx_id mx = significand_of(e, x, &ex), my_any = significand_of(e, y, &ey);
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

/* ---- Functions from their formulas ----------------------------------------------------------- */

#define X a[0]
#define A a[0]
#define B a[1]
#define ALPHA a[1]
#define BETA a[2]
#define K(c) k_f(e, c)
#define ADD(a, b) f_add(e, a, b)
#define SUB(a, b) f_sub(e, a, b)
#define MUL(a, b) f_mul(e, a, b)
#define DIV(a, b) call2(e, &rx_fn_div, a, b)
#define MAX(a, b) pick(e, a, b, SPV_S_GREATER)
#define MIN(a, b) pick(e, a, b, SPV_S_LESS)
#define POW(a, b) call2(e, &rx_fn_pow, a, b)
#define ATAN2(a, b) call2(e, &rx_fn_atan2, a, b)
#define LT(a, b) f_lt(e, a, b)
#define GT(a, b) f_gt(e, a, b)
#define SELECT(c, a, b) f_select(e, c, a, b)
#define LIMIT(x, lo, hi) limit(e, x, lo, hi)
#define NEG(x) f_neg(e, x)
#define ABS(x) f_abs(e, x)
#define SIGN(x) emit_sign(e, x)
#define SQRT(x) call1(e, &rx_fn_sqrt, x)
#define EXP(x) call1(e, &rx_fn_exp, x)
#define EXP2(x) call1(e, &rx_fn_exp2, x)
#define EXPM1(x) rx_emit_expm1(e, x)
#define LOG(x) call1(e, &rx_fn_log, x)
#define LOG2(x) call1(e, &rx_fn_log2, x)
#define SIN(x) call1(e, &rx_fn_sin, x)
#define COS(x) call1(e, &rx_fn_cos, x)
#define TAN(x) call1(e, &rx_fn_tan, x)
#define ASIN(x) call1(e, &rx_fn_asin, x)
#define ACOS(x) call1(e, &rx_fn_acos, x)
#define ATAN(x) call1(e, &rx_fn_atan, x)
#define SINH(x) call1(e, &rx_fn_sinh, x)
#define COSH(x) call1(e, &rx_fn_cosh, x)
#define TANH(x) call1(e, &rx_fn_tanh, x)
#define ASINH(x) call1(e, &rx_fn_asinh, x)
#define ACOSH(x) call1(e, &rx_fn_acosh, x)
#define ATANH(x) call1(e, &rx_fn_atanh, x)
#define ERF(x) call1(e, &rx_fn_erf, x)
#define GELU(x) call1(e, &rx_fn_gelu, x)
#define SIGMOID(x) call1(e, &fn_sigmoid, x)
#define SOFTPLUS(x) call1(e, &fn_softplus, x)
#define ROUND(x) emit_round(e, x)
#define FLOOR(x) emit_floor(e, x)
#define CEIL(x) emit_ceil(e, x)

#define TUNED_relu INSTEAD emit_relu(e, X)
#define TUNED_gelu_tanh INSTEAD call1(e, &fn_gelu_tanh, X)
#define TUNED_silu INSTEAD call1(e, &fn_silu, X)
#define TUNED_rsqrt INSTEAD call1(e, &rx_fn_rsqrt, X)
#define TUNED_reciprocal INSTEAD call1(e, &rx_fn_reciprocal, X)
#define TUNED_hard_swish INSTEAD emit_hard_swish(e, X)
#define TUNED_hard_sigmoid INSTEAD emit_hard_sigmoid(e, X, ALPHA, BETA)
#define TUNED_mish INSTEAD call1(e, &fn_mish, X)

/* A formula becomes a function of the module; one primitive and what is tuned, in place. */
#define IN_PLACE_primitive true
#define IN_PLACE_formula false
#define IN_PLACE_fuses false
#define SIGNATURE_none "ff"
#define SIGNATURE_alpha "fff"
#define SIGNATURE_alpha_beta "ffff"
#define DEFINE_ROW(name, signature, kind, formula)                                                 \
    static rx_id row_##name(rx_emit *e, const rx_id *a) { return RX_FORMULA(name, formula); }      \
    static const rx_emit_fn row_fn_##name = {signature, row_##name,                                \
                                             IN_PLACE_##kind || RX_IS_TUNED(name)};
#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy,    \
                      formula, derivative)                                                         \
    DEFINE_ROW(name, SIGNATURE_##params, kind, formula)
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, formula, by_a, by_b)    \
    DEFINE_ROW(name, "fff", kind, formula)
#include "rlx/functions.def"
#include "ir/functions_end.h"

/* ---- The table ------------------------------------------------------------------------------- */

#define RLX_FUNCTION1(name, ...) [RX_OP_##name] = &row_fn_##name,
#define RLX_FUNCTION2(name, ...) [RX_OP_##name] = &row_fn_##name,
static const rx_emit_fn *const table[RX_N_OPS] = {
#include "rlx/functions.def"
    [RX_OP_clamp] = &fn_clamp, [RX_OP_mod] = &fn_mod, [RX_OP_fma] = &fn_fma,
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
