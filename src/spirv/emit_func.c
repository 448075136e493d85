/* SPDX-License-Identifier: MIT */
/* Functions of floats as SPIR-V: powers, logarithms, circular functions and the like. Results
 * are good to about 2e-7 relative on any driver, because nothing but + - * / and square roots of
 * moderate numbers is left to it: what GLSL promises for exp, sin or pow is far less.
 * Infinities, NaN, zeros and subnormals, which drivers may flush, are told apart by their bits. */
#include "spirv/expr.h"
#include "spirv/func.h"

#define DEFINE_FN(name, sig) const rx_emit_fn rx_fn_##name = {sig, do_##name, false}
#define DEFINE_LOCAL(name, sig) static const rx_emit_fn fn_##name = {sig, do_##name, false}
#define DEFINE_INLINE(name, sig) const rx_emit_fn rx_fn_##name = {sig, do_##name, true}

#define LN2_HI 0.693359375 /* few bits: products with exponents are exact */
#define LN2_LO (-2.12194440054690583e-4)
#define LN2 0.69314718055994530942
#define LOG2_E 1.44269504088896340736
#define PI 3.14159265358979323846

/* ---- Division -------------------------------------------------------------------------------- */

/* x * 2^64 for |x| < 2^64, exact also where x is subnormal. */
static rx_id scale_up(rx_emit *e, rx_id x)
{
    const rx_id u = f_bits(e, x), mantissa = i_and_k(e, u, 0x7fffffu);
    const rx_id tiny = f_with_sign(e, f_mul_k(e, u_to_f(e, mantissa), 0x1p-85), x);
    const rx_id is_small = i_eq_k(e, i_and_k(e, u, F_INF), 0);
    return f_select(e, is_small, tiny, f_mul_k(e, x, 0x1p64));
}

/* Drivers may give 0 for x / y where |y| > 2^126, and flush a subnormal y. */
static rx_id do_div(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], y = a[1];
    const rx_id exponent = i_and_k(e, u_shr_k(e, f_bits(e, y), 23), 0xff);
    const rx_id result = var_new(e, e->t_f32, f_over(e, x, y));
    const rx_id merge = if_begin(e, u_gt_k(e, i_sub_k(e, exponent, 64), 126));
    const rx_id small_y = scale_up(e, y);
    const rx_id x_is_large = u_ge_k(e, i_and_k(e, f_bits(e, x), F_ABS), F_ONE);
    const rx_id low = f_select(e, x_is_large, f_mul_k(e, f_over(e, x, small_y), 0x1p64),
                               f_over(e, scale_up(e, x), small_y));
    const rx_id high = f_mul_k(e, f_over(e, x, f_mul_k(e, y, 0x1p-64)), 0x1p-64);
    var_set(e, result, f_select(e, u_lt_k(e, exponent, 64), low, high));
    if_end(e, merge);
    return rx_spv_op(&e->m, SPV_LOAD, e->t_f32, RX_ARGS(result));
}
DEFINE_FN(div, "fff");

static rx_id do_reciprocal(rx_emit *e, const rx_id *a)
{
    return call2(e, &rx_fn_div, k_f(e, 1), a[0]);
}
DEFINE_INLINE(reciprocal, "ff");

/* ---- Powers of e and 2 ----------------------------------------------------------------------- */

/* p * 2^n for n in -252 .. 254: in two steps, so that the result may overflow or vanish. */
static rx_id scale_by(rx_emit *e, rx_id p, rx_id n)
{
    const rx_id half = s_shr_k(e, n, 1);
    const rx_id step = f_mul(e, p, f_power_of_2(e, half));
    return f_mul(e, step, f_power_of_2(e, i_sub(e, n, half)));
}

/* (exp(r) - 1 - r) / r^2 for |r| <= 0.35 */
static rx_id exp_tail(rx_emit *e, rx_id r)
{
    return F_POLY(e, r, 0.5000000028584992, 0.16666573361043877, 0.041666363453142403,
                  0.008363776144267176, 0.00139421610968866);
}

static rx_id do_exp(rx_emit *e, const rx_id *a)
{
    const rx_id x = f_clamp(e, a[0], -104, 89);
    const rx_id n = f_round(e, f_mul_k(e, x, LOG2_E));
    const rx_id r = f_sub(e, f_sub(e, x, f_mul_k(e, n, LN2_HI)), f_mul_k(e, n, LN2_LO));
    const rx_id p = f_add_k(e, f_fma(e, f_mul(e, r, r), exp_tail(e, r), r), 1);
    return f_select(e, f_is_nan(e, a[0]), a[0], scale_by(e, p, f_to_s(e, n)));
}
DEFINE_FN(exp, "ff");

rx_id rx_emit_expm1(rx_emit *e, rx_id x)
{
    const rx_id is_small = f_lt_k(e, f_abs(e, x), 0.35);
    const rx_id near = f_mul(e, x, f_fma(e, x, exp_tail(e, x), k_f(e, 1))); /* keeps -0 */
    return f_select(e, is_small, near, f_sub_k(e, call1(e, &rx_fn_exp, x), 1));
}

static rx_id exp2_fraction(rx_emit *e, rx_id r)
{
    return F_POLY(e, r, 1.0, 0.6931472057368145, 0.24022646889229973, 0.05550328777692478,
                  0.009618489107960612, 0.0013399930986008376, 0.00015345771605108826);
}

static rx_id do_exp2(rx_emit *e, const rx_id *a)
{
    const rx_id x = f_clamp(e, a[0], -151, 129);
    const rx_id n = f_round(e, x);
    const rx_id p = exp2_fraction(e, f_sub(e, x, n));
    return f_select(e, f_is_nan(e, a[0]), a[0], scale_by(e, p, f_to_s(e, n)));
}
DEFINE_FN(exp2, "ff");

/* ---- Logarithms ------------------------------------------------------------------------------ */

/* A positive finite number, given by its bits, is 2^exponent * (1 + f) with f in -0.293 ..
 * 0.414. */
typedef struct log_parts {
    rx_id exponent, f;
} log_parts;

static log_parts split_log(rx_emit *e, rx_id u)
{
    const rx_id is_small = u_lt_k(e, u, 0x00800000u);
    const rx_id up = f_bits(e, u_to_f(e, u)); /* a subnormal is its bits times 2^-149 */
    const rx_id v = i_select(e, is_small, up, u);
    const rx_id bias = i_select(e, is_small, k_u(e, 127 + 149), k_u(e, 127));
    const rx_id m = i_or_k(e, i_and_k(e, v, 0x7fffffu), F_ONE);
    const rx_id halve = i_select(e, u_gt_k(e, m, 0x3fb504f3u), k_u(e, 1), k_u(e, 0));
    const rx_id exponent = i_add(e, i_sub(e, u_shr_k(e, v, 23), bias), halve);
    const rx_id one_plus_f = f_from_bits(e, i_sub(e, m, i_shl_k(e, halve, 23)));
    return (log_parts){s_to_f(e, exponent), f_sub_k(e, one_plus_f, 1)};
}

/* (atanh(q) - q) / q^3 with t = q^2, q <= 0.172 */
static rx_id atanh_tail(rx_emit *e, rx_id t)
{
    return F_POLY(e, t, 0.33333333275, 0.20000062298, 0.14275264709, 0.11669002987);
}

/* log(1 + f) = 2 atanh(q), q = f / (2 + f), for f in -0.293 .. 0.415. Only 2 q is used: half of f
 * may be subnormal. */
static rx_id log_near_1(rx_emit *e, rx_id f)
{
    const rx_id twice = f_over(e, f_add(e, f, f), f_add_k(e, f, 2));
    const rx_id t = f_mul_k(e, f_mul(e, twice, twice), 0.25);
    return f_fma(e, f_mul(e, twice, t), atanh_tail(e, t), twice);
}

/* y, or what log gives where x is zero, negative, infinite or NaN. */
static rx_id log_special(rx_emit *e, rx_id x, rx_id y)
{
    const rx_id u = f_bits(e, x);
    const rx_id is_zero = i_eq_k(e, i_and_k(e, u, F_ABS), 0);
    y = f_select(e, u_ge_k(e, u, F_INF), x, y);
    y = f_select(e, u_gt_k(e, u, F_SIGN), k_bits(e, F_NAN), y);
    return f_select(e, is_zero, k_bits(e, F_INF | F_SIGN), y);
}

static rx_id do_log(rx_emit *e, const rx_id *a)
{
    const log_parts p = split_log(e, f_bits(e, a[0]));
    const rx_id low = f_fma(e, p.exponent, k_f(e, LN2_LO), log_near_1(e, p.f));
    return log_special(e, a[0], f_add(e, f_mul_k(e, p.exponent, LN2_HI), low));
}
DEFINE_FN(log, "ff");

static rx_id do_log2(rx_emit *e, const rx_id *a)
{
    const log_parts p = split_log(e, f_bits(e, a[0]));
    const rx_id y = f_add(e, p.exponent, f_mul_k(e, log_near_1(e, p.f), LOG2_E));
    return log_special(e, a[0], y);
}
DEFINE_FN(log2, "ff");

/* log(1 + x) for x >= 0 */
static rx_id do_log1p(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], near = log_near_1(e, x);
    return f_select(e, f_lt_k(e, x, 0.414), near, call1(e, &rx_fn_log, f_add_k(e, x, 1)));
}
DEFINE_FN(log1p, "ff");

/* ---- Roots ----------------------------------------------------------------------------------- */

static rx_id do_sqrt(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], u = f_bits(e, x), mag = i_and_k(e, u, F_ABS);
    const rx_id special = b_or(e, i_eq_k(e, mag, 0), u_ge_k(e, u, F_INF));
    const rx_id y = f_select(e, special, x, f_sqrt(e, x)); /* zeros, infinity, NaN */
    return f_select(e, u_gt_k(e, u, F_SIGN), k_bits(e, F_NAN), y);
}
DEFINE_INLINE(sqrt, "ff");

static rx_id do_rsqrt(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], u = f_bits(e, x);
    const rx_id is_small = u_lt_k(e, u, 0x00800000u);
    const rx_id from_small = f_mul_k(e, f_rsqrt(e, u_to_f(e, u)), 0x1.6a09e667f3bcdp74);
    rx_id y = f_select(e, is_small, from_small, f_rsqrt(e, x)); /* the factor is 2^74.5 */
    y = f_select(e, i_eq_k(e, i_and_k(e, u, F_ABS), 0),
                 f_from_bits(e, i_or_k(e, u, F_INF)), y);
    y = f_select(e, i_eq_k(e, u, F_INF), k_f(e, 0), y);
    const rx_id bad = b_or(e, u_gt_k(e, u, F_SIGN), f_is_nan(e, x));
    return f_select(e, bad, k_bits(e, F_NAN), y);
}
DEFINE_FN(rsqrt, "ff");

/* ---- Circular functions ---------------------------------------------------------------------- */

/* The first 192 bits of 2 / pi. */
static const uint32_t two_over_pi[6] = {0xa2f9836eu, 0x4e441529u, 0xfc2757d1u,
                                        0xf534ddc0u, 0xdb629599u, 0x3c439041u};

/* words[0..3] by index 0..3 */
static rx_id pick_word(rx_emit *e, const rx_id *words, rx_id index)
{
    const rx_id odd = i_ne_k(e, i_and_k(e, index, 1), 0);
    const rx_id low = i_select(e, odd, words[1], words[0]);
    const rx_id high = i_select(e, odd, words[3], words[2]);
    return i_select(e, u_ge_k(e, index, 2), high, low);
}

/* The 32 bits of the pair that follow its first `shift` (below 32) bits. */
static rx_id funnel(rx_emit *e, rx_id high, rx_id low, rx_id shift)
{
    const rx_id rest = u_shr(e, u_shr_k(e, low, 1), i_sub(e, k_u(e, 31), shift));
    return i_or(e, i_shl(e, high, shift), rest);
}

/* Payne and Hanek: the bits of |x| * 2 / pi around its binary point, from the product of the
 * significand with 192 bits of 2 / pi. Gives the remainder in units of quarter turns as |r| and
 * whether it is negative, and the quarter. */
static void reduce_far(rx_emit *e, rx_id mag, rx_id r_var, rx_id q_var)
{
    const rx_id m = i_shl_k(e, i_or_k(e, i_and_k(e, mag, 0x7fffffu), 0x800000u), 8);
    rx_id w[7], carry = k_u(e, 0);
    for (int i = 5; i >= 0; i--) {
        const rx_emit_value p = u_mul_wide(e, m, k_u(e, two_over_pi[i]));
        w[i + 1] = i_add(e, p.id, carry);
        carry = i_add(e, p.hi, i_select(e, u_lt(e, w[i + 1], carry), k_u(e, 1), k_u(e, 0)));
    }
    w[0] = carry;
    /* The point lies after bit exponent - 127 of w, counted from the top. */
    const rx_id first = i_and_k(e, i_sub_k(e, u_shr_k(e, mag, 23), 128), 127);
    const rx_id index = u_shr_k(e, first, 5), shift = i_and_k(e, first, 31);
    const rx_id wa = pick_word(e, w, index), wb = pick_word(e, w + 1, index);
    const rx_id wc = pick_word(e, w + 2, index);
    const rx_id high = funnel(e, wa, wb, shift), low = funnel(e, wb, wc, shift);
    const rx_id fraction = funnel(e, high, low, k_u(e, 2)), fraction_low = i_shl_k(e, low, 2);
    /* To the nearest quarter: fractions from one half on become negative. */
    const rx_id up = s_lt_k(e, fraction, 0);
    const rx_id f = i_select(e, up, i_not(e, fraction), fraction);
    const rx_id f_low = i_select(e, up, i_not(e, fraction_low), fraction_low);
    const rx_id zeros = i_and_k(e, i_sub(e, k_u(e, 31), u_msb(e, i_or_k(e, f, 1))), 31);
    const rx_id top = funnel(e, f, f_low, zeros);
    const rx_id unit = f_power_of_2(e, i_sub(e, k_u(e, (uint32_t)-32), zeros));
    const rx_id r = f_mul_k(e, f_mul(e, u_to_f(e, top), unit), PI / 2);
    var_set(e, r_var, i_select(e, up, f_bits(e, f_neg(e, r)), f_bits(e, r)));
    var_set(e, q_var, i_add(e, u_shr_k(e, high, 30), i_select(e, up, k_u(e, 1), k_u(e, 0))));
}

/* x = q * pi / 2 + r with |r| <= pi / 4: the bits of r and q. */
static rx_id do_reduce(rx_emit *e, const rx_id *a)
{
    const rx_id u = f_bits(e, a[0]), mag = i_and_k(e, u, F_ABS), x = f_from_bits(e, mag);
    const rx_id n = f_round(e, f_mul_k(e, x, 2 / PI));
    rx_id r = f_sub(e, x, f_mul_k(e, n, 1.5706787109375)); /* pi / 2 as 14 + 14 + 24 bits */
    r = f_sub(e, r, f_mul_k(e, n, 0.00011761486530303955));
    r = f_sub(e, r, f_mul_k(e, n, 9.920935796805404e-10));
    const rx_id r_var = var_new(e, e->t_u32, f_bits(e, r));
    const rx_id q_var = var_new(e, e->t_u32, f_to_s(e, n));
    const rx_id merge = if_begin(e, u_gt_k(e, mag, 0x44c80000u)); /* 1600: n has up to 10 bits */
    reduce_far(e, mag, r_var, q_var);
    if_end(e, merge);
    const rx_id sign = i_and_k(e, u, F_SIGN), q = var_u(e, q_var);
    const rx_id signed_r = i_xor(e, var_u(e, r_var), sign);
    const rx_id signed_q = i_select(e, i_ne_k(e, sign, 0), i_sub(e, k_u(e, 0), q), q);
    return rx_spv_op(&e->m, SPV_COMPOSITE_CONSTRUCT, e->t_u32x2, RX_ARGS(signed_r, signed_q));
}
DEFINE_LOCAL(reduce, "vf");

typedef struct turned {
    rx_id sin, cos, quarter, bad;
} turned;

/* Sine and cosine of the remainder. `bad`: x is infinite or NaN. */
static turned turn(rx_emit *e, rx_id x)
{
    const rx_id pair = call1(e, &fn_reduce, x);
    const rx_id bits = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(pair, 0));
    const rx_id q = rx_spv_op(&e->m, SPV_COMPOSITE_EXTRACT, e->t_u32, RX_ARGS(pair, 1));
    const rx_id r = f_from_bits(e, bits), t = f_mul(e, r, r);
    const rx_id s = F_POLY(e, t, -0.16666654828, 0.00833215915, -0.00019513791);
    const rx_id c = F_POLY(e, t, -0.5, 4.16666511429e-02, -1.38875285392e-03, 2.44529948486e-05);
    return (turned){.sin = f_mul(e, r, f_fma(e, t, s, k_f(e, 1))), /* keeps -0 */
                    .cos = f_fma(e, t, c, k_f(e, 1)),
                    .quarter = q,
                    .bad = u_ge_k(e, i_and_k(e, f_bits(e, x), F_ABS), F_INF)};
}

static rx_id sine(rx_emit *e, rx_id x, uint32_t quarters_ahead)
{
    const turned t = turn(e, x);
    const rx_id q = i_add_k(e, t.quarter, quarters_ahead);
    const rx_id y = f_select(e, i_ne_k(e, i_and_k(e, q, 1), 0), t.cos, t.sin);
    const rx_id sign = i_shl_k(e, i_and_k(e, q, 2), 30);
    const rx_id z = f_from_bits(e, i_xor(e, f_bits(e, y), sign));
    return f_select(e, t.bad, k_bits(e, F_NAN), z);
}

static rx_id do_sin(rx_emit *e, const rx_id *a) { return sine(e, a[0], 0); }
DEFINE_FN(sin, "ff");
static rx_id do_cos(rx_emit *e, const rx_id *a) { return sine(e, a[0], 1); }
DEFINE_FN(cos, "ff");

static rx_id do_tan(rx_emit *e, const rx_id *a)
{
    const turned t = turn(e, a[0]);
    const rx_id odd = i_ne_k(e, i_and_k(e, t.quarter, 1), 0);
    const rx_id above = f_select(e, odd, f_neg(e, t.cos), t.sin);
    const rx_id y = call2(e, &rx_fn_div, above, f_select(e, odd, t.sin, t.cos));
    return f_select(e, t.bad, k_bits(e, F_NAN), y);
}
DEFINE_FN(tan, "ff");

/* ---- Inverse circular functions -------------------------------------------------------------- */

/* atan of t in 0 .. 1 */
static rx_id do_atan_unit(rx_emit *e, const rx_id *a)
{
    const rx_id t = a[0], is_large = f_gt_k(e, t, 0.41421356);
    const rx_id turned_t = f_over(e, f_sub_k(e, t, 1), f_add_k(e, t, 1));
    const rx_id x = f_select(e, is_large, turned_t, t), z = f_mul(e, x, x);
    const rx_id p = F_POLY(e, z, -0.33333323928, 0.1999890742, -0.14250602401, 0.106400915,
                           -0.06184181564);
    const rx_id y = f_fma(e, f_mul(e, x, z), p, x);
    return f_add(e, y, f_select(e, is_large, k_f(e, PI / 4), k_f(e, 0)));
}
DEFINE_LOCAL(atan_unit, "ff");

static rx_id do_atan(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]), is_large = f_gt_k(e, mag, 1);
    const rx_id t = f_select(e, is_large, call2(e, &rx_fn_div, k_f(e, 1), mag), mag);
    const rx_id y = call1(e, &fn_atan_unit, t);
    const rx_id z = f_select(e, is_large, f_sub(e, k_f(e, PI / 2), y), y);
    return f_select(e, f_is_nan(e, a[0]), a[0], f_with_sign(e, z, a[0]));
}
DEFINE_FN(atan, "ff");

static rx_id do_atan2(rx_emit *e, const rx_id *a)
{
    const rx_id ua = i_and_k(e, f_bits(e, a[0]), F_ABS), ub = i_and_k(e, f_bits(e, a[1]), F_ABS);
    const rx_id steep = u_gt(e, ua, ub);
    const rx_id low = f_from_bits(e, i_select(e, steep, ub, ua));
    const rx_id high = f_from_bits(e, i_select(e, steep, ua, ub));
    rx_id t = call2(e, &rx_fn_div, low, high);
    t = f_select(e, i_eq(e, ua, ub), k_f(e, 1), t); /* also both infinite */
    t = f_select(e, i_eq_k(e, ua, 0), k_f(e, 0), t);
    rx_id y = call1(e, &fn_atan_unit, t);
    y = f_select(e, steep, f_sub(e, k_f(e, PI / 2), y), y);
    const rx_id behind = s_lt_k(e, f_bits(e, a[1]), 0);
    y = f_with_sign(e, f_select(e, behind, f_sub(e, k_f(e, PI), y), y), a[0]);
    const rx_id bad = b_or(e, u_gt_k(e, ua, F_INF), u_gt_k(e, ub, F_INF));
    return f_select(e, bad, k_bits(e, F_NAN), y);
}
DEFINE_FN(atan2, "fff");

/* asin(x) for x in 0 .. 0.5 */
static rx_id asin_near(rx_emit *e, rx_id x)
{
    const rx_id z = f_mul(e, x, x);
    const rx_id p = F_POLY(e, z, 0.1666672463, 0.07496206431, 0.04537247797, 0.02460903589,
                           0.04150341767);
    return f_fma(e, f_mul(e, x, z), p, x);
}

/* NaN for |x| above 1 and for NaN. */
static rx_id unit_only(rx_emit *e, rx_id x, rx_id y)
{
    const rx_id bad = u_gt_k(e, i_and_k(e, f_bits(e, x), F_ABS), F_ONE);
    return f_select(e, bad, k_bits(e, F_NAN), y);
}

/* asin of |x| up to 1/2; beyond, that of sqrt((1 - |x|) / 2), which is (pi / 2 - asin|x|) / 2. */
static rx_id do_asin_part(rx_emit *e, const rx_id *a)
{
    const rx_id far = f_mul_k(e, f_sub(e, k_f(e, 1), a[0]), 0.5);
    const rx_id root = f_select(e, f_gt_k(e, far, 0), f_sqrt(e, far), k_f(e, 0));
    return asin_near(e, f_select(e, f_gt_k(e, a[0], 0.5), root, a[0]));
}
DEFINE_LOCAL(asin_part, "ff");

static rx_id do_asin(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]), part = call1(e, &fn_asin_part, mag);
    const rx_id far = f_sub(e, k_f(e, PI / 2), f_add(e, part, part));
    const rx_id y = f_select(e, f_gt_k(e, mag, 0.5), far, part);
    return unit_only(e, a[0], f_with_sign(e, y, a[0]));
}
DEFINE_FN(asin, "ff");

static rx_id do_acos(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]), part = call1(e, &fn_asin_part, mag);
    const rx_id twice = f_add(e, part, part), is_negative = s_lt_k(e, f_bits(e, a[0]), 0);
    const rx_id far = f_select(e, is_negative, f_sub(e, k_f(e, PI), twice), twice);
    const rx_id near = f_sub(e, k_f(e, PI / 2), f_with_sign(e, part, a[0]));
    return unit_only(e, a[0], f_select(e, f_gt_k(e, mag, 0.5), far, near));
}
DEFINE_FN(acos, "ff");

/* ---- Hyperbolic functions -------------------------------------------------------------------- */

static rx_id do_tanh(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], mag = f_abs(e, x), z = f_mul(e, x, x);
    const rx_id p = F_POLY(e, z, -0.33333294937, 0.1333172467, -0.05375978908, 0.02069680439,
                           -0.0057630876);
    const rx_id near = f_fma(e, f_mul(e, mag, z), p, mag);
    const rx_id power = call1(e, &rx_fn_exp, f_add(e, mag, mag));
    const rx_id far = f_sub(e, k_f(e, 1), f_over(e, k_f(e, 2), f_add_k(e, power, 1)));
    const rx_id y = f_select(e, f_lt_k(e, mag, 0.625), near, far);
    return f_select(e, f_is_nan(e, x), x, f_with_sign(e, y, x));
}
DEFINE_FN(tanh, "ff");

/* exp(|x|) / 2, which overflows later than exp(|x|): one root is halved through its exponent, so
 * that drivers do not multiply the roots first. */
static rx_id half_exp(rx_emit *e, rx_id mag)
{
    const rx_id root = call1(e, &rx_fn_exp, f_mul_k(e, mag, 0.5));
    return f_mul(e, root, f_from_bits(e, i_sub_k(e, f_bits(e, root), 1u << 23)));
}

static rx_id do_sinh(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]), z = f_mul(e, mag, mag), h = half_exp(e, mag);
    const rx_id p = F_POLY(e, z, 1.66666664987e-01, 8.33335007897e-03, 1.98361474380e-04,
                           2.81704452115e-06);
    const rx_id near = f_fma(e, f_mul(e, mag, z), p, mag);
    const rx_id far = f_sub(e, h, f_over(e, k_f(e, 0.25), h));
    const rx_id y = f_select(e, f_lt_k(e, mag, 1), near, far);
    return f_select(e, f_is_nan(e, a[0]), a[0], f_with_sign(e, y, a[0]));
}
DEFINE_FN(sinh, "ff");

static rx_id do_cosh(rx_emit *e, const rx_id *a)
{
    const rx_id h = half_exp(e, f_abs(e, a[0]));
    return f_add(e, h, f_over(e, k_f(e, 0.25), h));
}
DEFINE_FN(cosh, "ff");

static rx_id do_asinh(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]), z = f_mul(e, mag, mag);
    const rx_id below = f_add_k(e, f_sqrt(e, f_add_k(e, z, 1)), 1);
    const rx_id near = call1(e, &rx_fn_log1p, f_add(e, mag, f_over(e, z, below)));
    const rx_id far = f_add_k(e, call1(e, &rx_fn_log, mag), LN2);
    const rx_id y = f_select(e, f_lt_k(e, mag, 4096), near, far);
    return f_select(e, f_is_nan(e, a[0]), a[0], f_with_sign(e, y, a[0]));
}
DEFINE_FN(asinh, "ff");

static rx_id do_acosh(rx_emit *e, const rx_id *a)
{
    const rx_id t = f_sub_k(e, a[0], 1), inside = f_mul(e, t, f_add_k(e, t, 2));
    const rx_id root = f_select(e, f_gt_k(e, inside, 0), f_sqrt(e, inside), k_f(e, 0));
    const rx_id near = call1(e, &rx_fn_log1p, f_add(e, t, root));
    const rx_id far = f_add_k(e, call1(e, &rx_fn_log, a[0]), LN2);
    const rx_id y = f_select(e, f_lt_k(e, a[0], 4096), near, far);
    const rx_id u = f_bits(e, a[0]); /* numbers from 1 to infinity have bits in one range */
    const rx_id bad = u_gt_k(e, i_sub_k(e, u, F_ONE), F_INF - F_ONE);
    return f_select(e, bad, k_bits(e, F_NAN), y);
}
DEFINE_FN(acosh, "ff");

static rx_id do_atanh(rx_emit *e, const rx_id *a)
{
    const rx_id mag = f_abs(e, a[0]);
    const rx_id ratio = f_over(e, f_add(e, mag, mag), f_sub(e, k_f(e, 1), mag));
    rx_id y = f_mul_k(e, call1(e, &rx_fn_log1p, ratio), 0.5);
    y = f_select(e, i_eq_k(e, f_bits(e, mag), F_ONE), k_bits(e, F_INF), y);
    return unit_only(e, a[0], f_with_sign(e, y, a[0]));
}
DEFINE_FN(atanh, "ff");

/* ---- Error function -------------------------------------------------------------------------- */

/* exp(z^2) erfc(z) for z >= 0, from t = 1 / (1 + 0.47 z). */
static rx_id erfc_share(rx_emit *e, rx_id t)
{
    return F_POLY(e, t, 8.227972830411472e-06, 0.26492823849370223, 0.26820013361650985,
                  0.21433054083493452, 0.2728993147666807, -0.17556552364928404,
                  0.5309766145624778, -0.6142908751488183, 0.28972483817348355,
                  -0.051211490521374164);
}

/* erfc(z) for z >= 0 */
static rx_id do_erfc(rx_emit *e, const rx_id *a)
{
    const rx_id z = f_clamp(e, a[0], 0, 12);
    const rx_id t = f_over(e, k_f(e, 1), f_fma(e, z, k_f(e, 0.47), k_f(e, 1)));
    return f_mul(e, erfc_share(e, t), call1(e, &rx_fn_exp, f_neg(e, f_mul(e, z, z))));
}
DEFINE_LOCAL(erfc, "ff");

static rx_id do_erf(rx_emit *e, const rx_id *a)
{
    const rx_id x = a[0], mag = f_abs(e, x), z = f_mul(e, x, x);
    const rx_id p = F_POLY(e, z, 1.1283791657266389, -0.37612625823732687, 0.11283585142904962,
                           -0.026853811695663247, 0.005188327229332649, -0.0008010189608234319,
                           7.85384807026075e-05);
    const rx_id far = f_sub(e, k_f(e, 1), call1(e, &fn_erfc, mag));
    const rx_id y = f_select(e, f_lt_k(e, mag, 1), f_mul(e, mag, p), far);
    return f_select(e, f_is_nan(e, x), x, f_with_sign(e, y, x));
}
DEFINE_FN(erf, "ff");

/* gelu(x) = x - z h for x > 0 and -z h below, where z = |x| and h = erfc(z / sqrt 2) / 2. `low` is
 * z h, which may be 0 where x is far away; at -infinity the formula gives NaN. */
static rx_id finish_gelu(rx_emit *e, rx_id x, rx_id low)
{
    const rx_id u = f_bits(e, x);
    const rx_id bad = b_or(e, f_is_nan(e, x), i_eq_k(e, u, F_INF | F_SIGN));
    const rx_id y = f_select(e, s_lt_k(e, u, 0), f_neg(e, low), f_sub(e, x, low));
    return f_select(e, bad, k_bits(e, F_NAN), y);
}

static rx_id do_gelu(rx_emit *e, const rx_id *a)
{
    const rx_id z = f_clamp(e, f_abs(e, a[0]), 0, 14.5);
    const rx_id t = f_over(e, k_f(e, 1),
                           f_fma(e, z, k_f(e, 0.47 * 0.70710678118654752440), k_f(e, 1)));
    const rx_id product = f_mul(e, z, erfc_share(e, t));
    /* exp(-z^2 / 2), times 2^28 so that it is a normal number */
    const rx_id w = f_mul(e, f_mul_k(e, z, -LOG2_E / 2), z), n = f_round(e, w);
    const rx_id p = f_bits(e, exp2_fraction(e, f_sub(e, w, n)));
    const rx_id power = i_add(e, p, i_shl_k(e, i_add_k(e, f_to_s(e, n), 28), 23));
    const rx_id low = f_mul(e, product, f_from_bits(e, power));
    return finish_gelu(e, a[0], f_mul_k(e, low, 0x1p-29));
}
DEFINE_FN(gelu, "ff");

/* The same from a polynomial for log2(16 h), within 2^-14 up to z = 4.3 and 2^-11 beyond. No
 * quotient: this is as fast as memory. */
static rx_id do_gelu_short(rx_emit *e, const rx_id *a)
{
    const rx_id z = f_clamp(e, f_abs(e, a[0]), 0, 13.5);
    const rx_id log = F_POLY(e, z, -1.00007358 + 4, -1.15026427, -0.460569618, -0.0522864333,
                             0.00789455372, -0.000824572102, 5.5007074e-05, -2.08278076e-06,
                             3.38155859e-08);
    const rx_id power = f_exp2(e, f_clamp(e, log, -126, 4));
    /* z times 16 h first: neither z nor h is small enough there to be flushed */
    return finish_gelu(e, a[0], f_mul_k(e, f_mul(e, z, power), 0.0625));
}
DEFINE_FN(gelu_short, "ff");

/* ---- Powers ---------------------------------------------------------------------------------- */

/* x with 12 bits of significand: products of two such numbers are exact. */
static rx_id trim(rx_emit *e, rx_id x)
{
    return f_from_bits(e, i_and_k(e, f_bits(e, x), 0xfffff000u));
}

/* log2 of the positive number with bits u, as the sum of two: the first trimmed. */
static void log2_wide(rx_emit *e, rx_id u, rx_id *high, rx_id *low)
{
    const double c = 2 * LOG2_E, c_high = 2.884765625;
    const log_parts p = split_log(e, u);
    /* q = f / (2 + f) = qh + ql */
    const rx_id d = f_add_k(e, p.f, 2), d_rest = f_sub(e, p.f, f_sub_k(e, d, 2));
    const rx_id q = f_over(e, p.f, d), qh = trim(e, q), dh = trim(e, d);
    const rx_id dl = f_add(e, f_sub(e, d, dh), d_rest);
    const rx_id rest = f_sub(e, f_sub(e, p.f, f_mul(e, qh, dh)), f_mul(e, qh, dl));
    const rx_id ql = f_over(e, rest, d), t = f_mul(e, q, q);
    const rx_id tail = f_mul(e, f_mul(e, q, t), atanh_tail(e, t));
    /* 2 / ln 2 * (q + tail) */
    const rx_id first = f_mul_k(e, qh, c_high);
    rx_id second = f_add(e, f_mul_k(e, ql, c), f_mul_k(e, qh, c - c_high));
    second = f_add(e, second, f_mul_k(e, tail, c));
    const rx_id sum = f_add(e, p.exponent, first);
    second = f_add(e, second, f_sub(e, first, f_sub(e, sum, p.exponent)));
    *high = trim(e, f_add(e, sum, second));
    *low = f_add(e, f_sub(e, sum, *high), second);
}

/* |x|^y for positive finite |x| with bits u and |y| up to 2^40 */
static rx_id do_pow_plain(rx_emit *e, const rx_id *a)
{
    rx_id log_high, log_low;
    log2_wide(e, a[0], &log_high, &log_low);
    const rx_id y = a[1], yh = trim(e, y), yl = f_sub(e, y, yh);
    const rx_id wh = f_mul(e, log_high, yh);
    const rx_id wl = f_add(e, f_mul(e, yl, log_high), f_mul(e, y, log_low));
    const rx_id w = f_add(e, wh, wl), n = f_round(e, f_clamp(e, w, -160, 160));
    const rx_id r = f_clamp(e, f_add(e, f_sub(e, wh, n), wl), -1, 1);
    const rx_id z = scale_by(e, exp2_fraction(e, r), f_to_s(e, n));
    const rx_id over = f_select(e, f_gt_k(e, w, 129), k_bits(e, F_INF), z);
    return f_select(e, f_lt_k(e, w, -151), k_f(e, 0), over);
}
DEFINE_LOCAL(pow_plain, "fuf");

/* Whether y, with bits u below infinity, is whole and whether it is odd. From 2^24 on all are
 * even. */
static void test_whole(rx_emit *e, rx_id u, rx_id *whole, rx_id *odd)
{
    const rx_id mag = i_and_k(e, u, F_ABS), exponent = u_shr_k(e, mag, 23);
    const rx_id is_large = u_ge_k(e, exponent, 151), is_small = u_lt_k(e, mag, F_ONE);
    const rx_id outside = b_or(e, is_large, is_small);
    const rx_id shift = i_select(e, outside, k_u(e, 0), i_sub(e, k_u(e, 150), exponent));
    const rx_id m = i_or_k(e, i_and_k(e, u, 0x7fffffu), 0x800000u);
    const rx_id unit = i_shl(e, k_u(e, 1), shift);
    const rx_id no_rest = i_eq_k(e, i_and(e, m, i_sub_k(e, unit, 1)), 0);
    const rx_id has_unit = i_ne_k(e, i_and(e, m, unit), 0);
    const rx_id is_zero = i_eq_k(e, mag, 0);
    *whole = b_or(e, is_large, b_or(e, is_zero, b_and(e, b_not(e, is_small), no_rest)));
    *odd = b_and(e, b_and(e, no_rest, has_unit), b_not(e, outside));
}

static rx_id do_pow(rx_emit *e, const rx_id *a)
{
    const rx_id ux = f_bits(e, a[0]), uy = f_bits(e, a[1]);
    const rx_id x = i_and_k(e, ux, F_ABS), y = i_and_k(e, uy, F_ABS);
    const rx_id limit = k_u(e, 0x53800000u); /* 2^40 */
    const rx_id y_near = i_select(e, u_gt(e, y, limit), limit, y);
    const rx_id y_sign = i_and_k(e, uy, F_SIGN), y_negative = i_ne_k(e, y_sign, 0);
    rx_id whole, odd;
    test_whole(e, uy, &whole, &odd);

    rx_id z = call2(e, &fn_pow_plain, x, f_from_bits(e, i_or(e, y_near, y_sign)));
    const rx_id zero = k_f(e, 0), inf = k_bits(e, F_INF), one = k_f(e, 1);
    const rx_id x_zero = i_eq_k(e, x, 0), x_inf = i_eq_k(e, x, F_INF);
    z = f_select(e, x_zero, f_select(e, y_negative, inf, zero), z);
    z = f_select(e, x_inf, f_select(e, y_negative, zero, inf), z);
    z = f_select(e, i_eq_k(e, x, F_ONE), one, z);
    const rx_id x_negative = s_lt_k(e, ux, 0);
    z = f_select(e, b_and(e, x_negative, odd), f_neg(e, z), z);
    const rx_id inside = b_and(e, b_not(e, x_zero), b_not(e, x_inf));
    const rx_id no_root = b_and(e, b_and(e, x_negative, inside), b_not(e, whole));
    const rx_id any_nan = b_or(e, u_gt_k(e, x, F_INF), u_gt_k(e, y, F_INF));
    z = f_select(e, b_or(e, no_root, any_nan), k_bits(e, F_NAN), z);
    return f_select(e, b_or(e, i_eq_k(e, y, 0), i_eq_k(e, ux, F_ONE)), one, z);
}
DEFINE_FN(pow, "fff");
