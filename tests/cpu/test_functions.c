/* SPDX-License-Identifier: MIT */
/* Every elementwise function of floats on the reference and at each level of the CPU kernels, over
 * its whole domain: all f16, all bf16, f32 of every magnitude and sign, and numbers near the places
 * where functions change their ways; of two operands, pairs of such numbers. Expected are the
 * formulas of rlx/functions.def in long double, within the accuracy that the row states; the
 * derivatives of the rows are compared with slopes. Errors are in units in the last place of the
 * result's type, also where the result is subnormal; NaN, infinities and the sign of zeros have to
 * be equal. */
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/half.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/share.h"

typedef long double wide;

/* ---- The rows of rlx/functions.def in long double -------------------------------------------- */

static wide sigmoid(wide x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }
static wide softplus(wide x) { return x > 0 ? x + log1pl(expl(-x)) : log1pl(expl(x)); }
static wide limit(wide x, wide lo, wide hi) { return x < lo ? lo : x > hi ? hi : x; }
static wide larger(wide x, wide y) { return isnan(x) || x > y ? x : y; }
static wide smaller(wide x, wide y) { return isnan(x) || x < y ? x : y; }
static wide gelu(wide x) { return x / 2 * erfcl(-x * 0.70710678118654752440084436210485L); }
static wide sign(wide x) { return isnan(x) ? x : (wide)(x > 0) - (wide)(x < 0); }

static wide floored_mod(wide x, wide y)
{
    const wide r = fmodl(x, y);
    if (r == 0)
        return copysignl(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* What a function may be off by: units in the last place of f32, and parts of what half a unit of
 * x explains (exp of a polynomial of x has a large condition in its tail). */
typedef struct function {
    const char *name;
    rlx_value (*build)(rlx_graph *g, rlx_value x, rlx_value y);
    wide (*want)(wide x, wide y);
    wide (*by[2])(wide x, wide y); /* derivatives; NULL: none */
    wide lowest, highest;          /* the domain */
    bool two;                      /* operands */
    int flags;
    double units, tail;
    bool equal;                    /* either zero is right, unless the flags say otherwise */
} function;

/* Parameters are doubles on the reference and rounded to f32 elsewhere: these are both. */
#define ALPHA 0.5L
#define BETA 1.25L
#define X x
#define A x
#define B y
#define K(number) ((wide)number##L)
#include "ir/functions_operators.h"
#define MAX(a, b) larger(a, b)
#define MIN(a, b) smaller(a, b)
#define POW(a, b) powl(a, b)
#define ATAN2(a, b) atan2l(a, b)
#define LIMIT(v, lo, hi) limit(v, lo, hi)
#define ABS(v) fabsl(v)
#define SIGN(v) sign(v)
#define SQRT(v) sqrtl(v)
#define EXP(v) expl(v)
#define EXP2(v) exp2l(v)
#define EXPM1(v) expm1l(v)
#define LOG(v) logl(v)
#define LOG2(v) log2l(v)
#define SIN(v) sinl(v)
#define COS(v) cosl(v)
#define TAN(v) tanl(v)
#define ASIN(v) asinl(v)
#define ACOS(v) acosl(v)
#define ATAN(v) atanl(v)
#define SINH(v) sinhl(v)
#define COSH(v) coshl(v)
#define TANH(v) tanhl(v)
#define ASINH(v) asinhl(v)
#define ACOSH(v) acoshl(v)
#define ATANH(v) atanhl(v)
#define ERF(v) erfl(v)
#define GELU(v) gelu(v)
#define SIGMOID(v) sigmoid(v)
#define SOFTPLUS(v) softplus(v)
#define ROUND(v) nearbyintl(v)
#define FLOOR(v) floorl(v)
#define CEIL(v) ceill(v)

#define CALL_none(name) rlx_##name(g, x)
#define CALL_alpha(name) rlx_##name(g, x, (double)ALPHA)
#define CALL_alpha_beta(name) rlx_##name(g, x, (double)ALPHA, (double)BETA)
#define BUILD(name, expr)                                                     \
    static rlx_value build_##name(rlx_graph *g, rlx_value x, rlx_value y)     \
    {                                                                         \
        (void)y;                                                              \
        return expr;                                                          \
    }
#define WANT(name, expr) static wide want_##name(wide x, wide y) { (void)y; return expr; }
#define DERIVATIVE(name, operand, expr)                       \
    static wide by_##operand##_##name(wide x, wide y)         \
    {                                                         \
        const wide f = want_##name(x, y);                     \
        (void)f;                                              \
        return expr;                                          \
    }
#define F f
#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy,    \
                      formula, derivative)                                                         \
    BUILD(name, CALL_##params(name)) WANT(name, formula) DERIVATIVE(name, a, derivative)
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, formula, by_a, by_b)    \
    BUILD(name, rlx_##name(g, x, y)) WANT(name, formula) DERIVATIVE(name, a, by_a)                 \
    DERIVATIVE(name, b, by_b)
#include "rlx/functions.def"
#undef RLX_FUNCTION1
#undef RLX_FUNCTION2

/* Elementwise operations that have no row. */
BUILD(clamp, rlx_clamp(g, x, -1.5, 2))
BUILD(mod, rlx_mod(g, x, y, false))
BUILD(floored_mod, rlx_mod(g, x, y, true))
BUILD(fma, rlx_fma(g, x, y, x))
BUILD(where, rlx_where(g, rlx_lt(g, x, y), x, y))
WANT(clamp, limit(x, -1.5L, 2))
WANT(mod, fmodl(x, y))
WANT(floored_mod, floored_mod(x, y))
WANT(fma, x * y + x)
WANT(where, x < y ? x : y)

enum { SIGNED_ZERO = 1, IDEMPOTENT = 2, INVOLUTION = 4 };
#define REALS -INFINITY, INFINITY
#define FROM(lowest) lowest, INFINITY
#define WITHIN(lowest, highest) lowest, highest
#define BITS 0, 0, false
#define EQUAL 0, 0, true
#define ULPS(n) n, 0, false
#define ULPS_TAIL(n, tail) n, tail, false
#define OTHER(name, two, ...) \
    {#name, build_##name, want_##name, {NULL, NULL}, REALS, two, 0, __VA_ARGS__}
static const function functions[] = {
#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy,    \
                      formula, derivative)                                                         \
    {#name, build_##name, want_##name, {by_a_##name, NULL}, domain, false, flags, accuracy},
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, formula, by_a, by_b)    \
    {#name, build_##name, want_##name, {by_a_##name, by_b_##name}, domain, true, flags, accuracy},
#include "rlx/functions.def"
    OTHER(clamp, false, EQUAL), OTHER(mod, true, ULPS(0)), OTHER(floored_mod, true, ULPS(0.5)),
    OTHER(fma, true, ULPS(0.5)), OTHER(where, true, ULPS(0)),
};
#undef OTHER

/* ---- Derivatives ----------------------------------------------------------------------------- */

/* The slope along an operand, if those to both sides agree: no kink or jump is near. */
static bool slope_of(const function *f, int operand, wide x, wide y, wide *slope)
{
    const wide h = 0x1p-20L, dx = operand == 0 ? h : 0, dy = operand == 1 ? h : 0;
    const wide middle = f->want(x, y);
    const wide up = (f->want(x + dx, y + dy) - middle) / h;
    const wide down = (middle - f->want(x - dx, y - dy)) / h;
    *slope = (up + down) / 2;
    return fabsl(up - down) <= 1e-3L * (1 + fabsl(*slope));
}

/* Each derivative is the slope of the formula, over the part of the domain between -6 and 6. */
static void check_derivatives(const function *f)
{
    const wide lo = fmaxl(f->lowest, -6), hi = fminl(f->highest, 6);
    for (int operand = 0; operand < 2 && f->by[operand]; operand++) {
        int n = 0, bad = 0;
        for (int i = 1; i < 400; i++) {
            const wide x = lo + (hi - lo) * (i + 0.317L) / 401, y = 5 * sinl(7 * i);
            wide slope;
            if (!slope_of(f, operand, x, y, &slope))
                continue;
            const wide got = f->by[operand](x, y);
            const bool ok = fabsl(got - slope) <= 1e-6L * (1 + fabsl(slope));
            if (!ok && bad == 0)
                printf("    derivative %d of %s at (%Lg, %Lg): expected %Lg, got %Lg\n", operand,
                       f->name, x, y, slope, got);
            bad += !ok;
            n++;
        }
        CHECK(bad == 0 && n > 200);
    }
}

/* ---- Types ----------------------------------------------------------------------------------- */

typedef struct format {
    rlx_dtype type;
    int bits, min_exp, max_exp; /* of the mantissa; of the smallest normal; 2^max_exp: infinity */
} format;

static const format formats[] = {
    {RLX_F32, 24, -126, 128}, {RLX_F16, 11, -14, 16}, {RLX_BF16, 8, -126, 128},
};

/* A unit in the last place at this magnitude. */
static wide unit_of(const format *t, wide x)
{
    int e = t->min_exp + 1;
    if (x != 0)
        frexpl(x, &e);
    e = e - 1 < t->min_exp ? t->min_exp : e - 1 >= t->max_exp ? t->max_exp - 1 : e - 1;
    return ldexpl(1, e - t->bits + 1);
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

enum { HALVES = 65536, STEPS = 110000, NEAR = 24, N_SPECIAL = 32,
       MOST = 2 * STEPS + N_SPECIAL * NEAR };

/* Zero, ends of the range, and where functions switch, overflow or vanish. */
static const float special[N_SPECIAL] = {
    0, 0x1p-149f, FLT_MIN, FLT_MAX, INFINITY, 0.375f, 0.625f, 0.9375f, 1, 0.5f, 0.70710678f,
    2, 3, 4, 5.5f, 9.0109f, 10, 13.2f, 14.83f, 16.6f, 44, 87.33655f, 88.72284f, 90, 103.97208f,
    110, 149, 16384, 1.5707964f, 3.1415927f, 8388608, 12582912,
};

static float x[MOST], y[MOST], got[MOST];
static wide wants[MOST];
static uint32_t x_bytes[MOST], y_bytes[MOST], got_bytes[MOST];

static uint32_t next_random(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* All halves of a type, or floats evenly over all bit patterns and some beside special ones. */
static int64_t fill_first(const format *t)
{
    int64_t n = 0;
    for (uint32_t i = 0; t->type != RLX_F32 && i < HALVES; i++)
        x[n++] = t->type == RLX_F16 ? rx_f16_to_f32((uint16_t)i) : rx_bf16_to_f32((uint16_t)i);
    if (n)
        return n;
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t bits = (uint32_t)((uint64_t)i * 0x7f800000 / STEPS) + i % 7;
        x[n++] = rx_f32_from_bits(bits);
        x[n++] = rx_f32_from_bits(bits | 0x80000000);
    }
    for (int i = 0; i < N_SPECIAL; i++)
        for (int k = 0; k < NEAR; k++) { /* 0, 1, -1, 2, .. steps away, of both signs */
            const int64_t off = k % 2 ? (k + 3) / 4 : -(k / 4);
            const int64_t bits = (int64_t)rx_f32_bits(special[i]) + off;
            x[n++] = rx_f32_from_bits((uint32_t)(bits < 0 ? 0 : bits) | (k & 2 ? 0x80000000u : 0));
        }
    return n;
}

/* Second operands: any, near in magnitude, moderate, special. */
static void fill_second(const format *t, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const float unit = (float)next_random() * 0x1p-24f;
        const float sign = next_random() & 64 ? -1.0f : 1.0f;
        if (i % 4 == 0)
            y[i] = x[((int64_t)next_random() << 8 | (next_random() & 255)) % n];
        else if (i % 4 == 1)
            y[i] = x[i] * sign * (0.25f + 4 * unit);
        else if (i % 4 == 2)
            y[i] = sign * (next_random() & 3 ? 16 * unit : rintf(8 * unit));
        else
            y[i] = sign * special[next_random() % N_SPECIAL];
        if (t->type == RLX_F16)
            y[i] = rx_f16_to_f32(rx_f32_to_f16(y[i]));
        else if (t->type == RLX_BF16)
            y[i] = rx_bf16_to_f32(rx_f32_to_bf16(y[i]));
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static bool run(rlx_device *device, const function *f, rlx_dtype t, int64_t n)
{
    rlx_error err;
    rlx_session *s = NULL;
    const size_t bytes = (size_t)n * (size_t)rlx_dtype_block_bytes(t);
    rlx_graph *g = rlx_graph_create("function");
    const rlx_value a = rlx_input(g, "x", t, 1, (rlx_dim[]){n});
    const rlx_value b = f->two ? rlx_input(g, "y", t, 1, (rlx_dim[]){n}) : RLX_NONE;
    rlx_output(g, "got", f->build(g, a, b));
    const rlx_const_tensor in[] = {{"x", x_bytes, bytes}, {"y", y_bytes, bytes}};
    const rlx_tensor out = {"got", got_bytes, bytes};
    bool ok = CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err);
    ok = ok && CHECK_OK(rlx_run(s, in, f->two ? 2 : 1, &out, 1, &err), &err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return ok && CHECK(rlx_to_float(t, got_bytes, got, n) == RLX_OK);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* How far `have` is from what is expected, in units; infinite when it is of another kind. Infinity
 * counts as the number behind the largest, so that either may be right next to it. */
static double error_of(const format *t, wide want, float have, bool zeros_open)
{
    if (isnan(want) || isnan(have))
        return isnan(want) && isnan(have) ? 0 : INFINITY;
    if (!signbit(want) != !signbit(have))
        return zeros_open && want == 0 && have == 0 ? 0 : INFINITY;
    const wide top = ldexpl(1, t->max_exp);
    if (isinf(want))
        return isinf(have) ? 0 : INFINITY;
    const wide a = fminl(fabsl(want), top), b = fminl(fabsl((wide)have), top);
    return (double)(fabsl(a - b) / unit_of(t, a));
}

/* What half a unit of x, an f32, changes in the result, in units of f32. */
static double explained(const function *f, int64_t i)
{
    const wide step = 0x1p-24L * fabsl((wide)x[i]);
    const wide up = f->want(x[i] + step, y[i]), down = f->want(x[i] - step, y[i]);
    const wide change = fmaxl(fabsl(up - wants[i]), fabsl(down - wants[i]));
    return (double)(change / unit_of(&formats[0], wants[i]));
}

/* One rounding to the type at the end, and what the function may be off by in f32. */
static double allowed(const function *f, const format *t, int64_t i, bool exact)
{
    if (exact)
        return 0.5001;
    double units = f->units;
    if (f->tail > 0 && isfinite(x[i]) && isfinite(wants[i]))
        units += f->tail * explained(f, i);
    return t->type == RLX_F32 ? fmax(units, 0.5) : 0.5001 + units * exp2(t->bits - 24);
}

static void check_results(const function *f, const format *t, const char *level, int64_t n)
{
    const bool exact = !strcmp(level, "ref");
    const bool zeros_open = f->equal && !(f->flags & SIGNED_ZERO);
    int64_t bad = 0, worst_at = 0;
    double worst = 0;
    for (int64_t i = 0; i < n; i++) {
        const double error = error_of(t, wants[i], got[i], zeros_open);
        if (error <= 0.5 || error <= allowed(f, t, i, exact))
            continue;
        if (error > worst) {
            worst = error;
            worst_at = i;
        }
        bad++;
    }
    if (CHECK(bad == 0))
        return;
    printf("    %s of %s on %s: %lld of %lld; the worst is %s(%.9g", f->name,
           rlx_dtype_name(t->type), level, (long long)bad, (long long)n, f->name, x[worst_at]);
    if (f->two)
        printf(", %.9g", y[worst_at]);
    printf(") = %.9Lg, got %.9g, %.4g units, limit %.4g\n", wants[worst_at], got[worst_at], worst,
           allowed(f, t, worst_at, exact));
}

#ifdef RX_SANITIZED
enum { SHARE = 6 };
#else
enum { SHARE = 1 };
#endif

int main(void)
{
    /* A level above what the processor has is the highest that it has. */
    static const char *const levels[] = {"ref", "generic", "avx2", "avx512"};
    enum { N_LEVELS = sizeof levels / sizeof *levels };
    rlx_device *devices[N_LEVELS];
    rlx_error err;
    for (int i = 0; i < N_LEVELS; i++) {
        setenv("RLX_CPU", i ? levels[i] : "generic", 1);
        if (!CHECK_OK(rlx_device_open(i ? "cpu" : "ref", NULL, &devices[i], &err), &err))
            return check_done();
    }
    for (size_t j = 0; j < sizeof functions / sizeof *functions; j++)
        check_derivatives(&functions[j]);
    for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) {
        const format *t = &formats[k];
        const int64_t n = fill_first(t);
        fill_second(t, n);
        CHECK(rlx_from_float(t->type, x, x_bytes, n) == RLX_OK);
        CHECK(rlx_from_float(t->type, y, y_bytes, n) == RLX_OK);
        for (size_t j = 0; j < sizeof functions / sizeof *functions; j++) {
            if (!in_share(j + k, SHARE))
                continue;
            for (int64_t i = 0; i < n; i++)
                wants[i] = functions[j].want(x[i], y[i]);
            for (int i = 0; i < N_LEVELS; i++)
                if (run(devices[i], &functions[j], t->type, n))
                    check_results(&functions[j], t, levels[i], n);
        }
    }
    for (int i = 0; i < N_LEVELS; i++)
        rlx_device_close(devices[i]);
    return check_done();
}
