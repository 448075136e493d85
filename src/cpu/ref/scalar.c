/* SPDX-License-Identifier: MIT */
/* The meaning of each elementwise operation on one element: a table of functions on doubles and one
 * of functions on integers. Everything else that evaluates elementwise operations is compared with
 * these. Infinities go through the formulas as written, so x * sigmoid(x) at -inf is NaN. */
#include <math.h>

#include "cpu/ref/ref.h"

typedef double float_fn(const rx_instr *in, const double *a);
typedef int64_t int_fn(const rx_instr *in, const int64_t *a);

/* ---- Floats: pieces used by several functions ------------------------------------------------ */

static double sigmoid(double x)
{
    const double e = exp(-fabs(x));
    return (x < 0 ? e : 1) / (1 + e);
}

/* log(1 + exp(x)) without overflow and without loss for very negative x. */
static double softplus(double x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* tanh(softplus(x)) = ((1 + e)^2 - 1) / ((1 + e)^2 + 1) with e = exp(x); divided by e^2 when e is
 * large. */
static double tanh_softplus(double x)
{
    const double e = exp(-fabs(x));
    if (x > 0)
        return (1 + 2 * e) / (1 + 2 * e + 2 * e * e);
    return (e * e + 2 * e) / (e * e + 2 * e + 2);
}

static double limit(double x, double lo, double hi)
{
    const double y = x < lo ? lo : x; /* NaN fails both comparisons and stays */
    return y > hi ? hi : y;
}

/* The product of two f32 is exact in a double. The sum is rounded to odd: where it is not exact the
 * last bit is set, so that rounding it again to a smaller type gives what rounding once would. */
static double fma_once(double x, double y, double z)
{
    const double p = x * y, sum = p + z;
    if (!isfinite(sum))
        return sum;
    const double part = sum - p;
    const double rest = (p - (sum - part)) + (z - part);
    uint64_t bits;
    memcpy(&bits, &sum, sizeof bits);
    if (rest == 0 || bits & 1)
        return sum;
    return nextafter(sum, rest > 0 ? INFINITY : -INFINITY);
}

static double floored_mod(double x, double y)
{
    const double r = fmod(x, y);
    if (r == 0)
        return copysign(0, y);
    return (r < 0) != (y < 0) ? r + y : r;
}

/* ---- Floats ---------------------------------------------------------------------------------- */

#define SQRT_HALF 0.70710678118654752440
#define SQRT_2_OVER_PI 0.79788456080286535588

/* x, y, z are the arguments, alpha and beta the parameters. */
#define FLOAT(name, expr)                                                      \
    static double float_##name(const rx_instr *in, const double *a)            \
    {                                                                          \
        const double x = a[0], alpha = in->p[0], beta = in->p[1];              \
        (void)x, (void)alpha, (void)beta;                                      \
        return expr;                                                           \
    }
#define FLOAT2(name, expr)                                                     \
    static double float_##name(const rx_instr *in, const double *a)            \
    {                                                                          \
        const double x = a[0], y = a[1];                                       \
        (void)in;                                                              \
        return expr;                                                           \
    }

/* clang 14 for WebAssembly makes max(x, 0) of x < 0 ? 0 : x, and so +0 of -0. */
static const volatile double no_constant = 0;
FLOAT(relu, x < 0 ? no_constant : x)
FLOAT(gelu, 0.5 * x * erfc(-x * SQRT_HALF))
FLOAT(gelu_tanh, x * sigmoid(2 * SQRT_2_OVER_PI * (x + 0.044715 * x * x * x)))
FLOAT(silu, x * sigmoid(x))
FLOAT(sigmoid, sigmoid(x))
FLOAT(tanh, tanh(x))
FLOAT(exp, exp(x))
FLOAT(log, log(x))
FLOAT(sqrt, sqrt(x))
FLOAT(rsqrt, 1 / sqrt(x))
FLOAT(neg, -x)
FLOAT(abs, fabs(x))
FLOAT(sin, sin(x))
FLOAT(cos, cos(x))
FLOAT(tan, tan(x))
FLOAT(atan, atan(x))
FLOAT(round, nearbyint(x))
FLOAT(reciprocal, 1 / x)
FLOAT(floor, floor(x))
FLOAT(ceil, ceil(x))
FLOAT(sign, isnan(x) ? x : (x > 0) - (x < 0))
FLOAT(softplus, softplus(x))
FLOAT(elu, x > 0 ? x : alpha * expm1(x))
FLOAT(erf, erf(x))
FLOAT(hard_swish, x * limit(x / 6 + 0.5, 0, 1))
FLOAT(hard_sigmoid, limit(alpha * x + beta, 0, 1))
FLOAT(mish, x * tanh_softplus(x))
FLOAT(softsign, x / (1 + fabs(x)))
FLOAT(log_sigmoid, -softplus(-x))
FLOAT(asin, asin(x))
FLOAT(acos, acos(x))
FLOAT(sinh, sinh(x))
FLOAT(cosh, cosh(x))
FLOAT(asinh, asinh(x))
FLOAT(acosh, x < 1 ? NAN : acosh(x)) /* some C libraries give numbers there */
FLOAT(atanh, atanh(x))
FLOAT(exp2, exp2(x))
FLOAT(log2, log2(x))
FLOAT(leaky_relu, x < 0 ? alpha * x : x)
FLOAT(selu, beta * (x > 0 ? x : alpha * expm1(x)))
FLOAT(celu, x > 0 ? x : alpha * expm1(x / alpha))
FLOAT(is_nan, isnan(x))
FLOAT(is_inf, isinf(x) != 0)
FLOAT(clamp, limit(x, alpha, beta))
FLOAT(cast, rx_round_to(in->dtype, x))

FLOAT2(add, x + y)
FLOAT2(sub, x - y)
FLOAT2(mul, x * y)
FLOAT2(div, x / y)
FLOAT2(max, isnan(x) || x > y ? x : y)
FLOAT2(min, isnan(x) || x < y ? x : y)
FLOAT2(pow, pow(x, y))
FLOAT2(mod, in->p[0] != 0 ? floored_mod(x, y) : fmod(x, y))
FLOAT2(atan2, atan2(x, y))
FLOAT2(eq, x == y)
FLOAT2(ne, x != y)
FLOAT2(lt, x < y)
FLOAT2(le, x <= y)
FLOAT2(gt, x > y)
FLOAT2(ge, x >= y)
FLOAT2(where, x != 0 ? y : a[2])
FLOAT2(fma, fma_once(x, y, a[2]))

#define F(name) [RX_OP_##name] = float_##name
static float_fn *const float_table[RX_N_OPS] = {
    F(relu), F(gelu), F(gelu_tanh), F(silu), F(sigmoid), F(tanh), F(exp), F(log), F(sqrt),
    F(rsqrt), F(neg), F(abs), F(sin), F(cos), F(tan), F(atan), F(round), F(reciprocal), F(floor),
    F(ceil), F(sign), F(softplus), F(elu), F(erf), F(hard_swish), F(hard_sigmoid), F(mish),
    F(softsign), F(log_sigmoid), F(asin), F(acos), F(sinh), F(cosh), F(asinh), F(acosh), F(atanh),
    F(exp2), F(log2), F(leaky_relu), F(selu), F(celu), F(is_nan), F(is_inf), F(clamp), F(cast),
    F(add), F(sub), F(mul), F(div), F(max), F(min), F(pow), F(mod), F(atan2),
    F(eq), F(ne), F(lt), F(le), F(gt), F(ge), F(where), F(fma),
};

double rx_ref_eval(const rx_instr *in, const double *args)
{
    return float_table[in->op](in, args);
}

double rx_ref_act(rlx_act act, double x)
{
    static const uint16_t ops[] = {
        [RLX_ACT_RELU] = RX_OP_relu,       [RLX_ACT_GELU] = RX_OP_gelu,
        [RLX_ACT_GELU_TANH] = RX_OP_gelu_tanh, [RLX_ACT_SILU] = RX_OP_silu,
        [RLX_ACT_SIGMOID] = RX_OP_sigmoid, [RLX_ACT_TANH] = RX_OP_tanh,
        [RLX_ACT_HARD_SWISH] = RX_OP_hard_swish,
    };
    if (act == RLX_ACT_NONE)
        return x;
    const rx_instr in = {.op = ops[act], .dtype = RLX_F32};
    return rx_ref_eval(&in, &x);
}

/* ---- Integers and bool -------------------------------------------------------------------------
 * Arithmetic is done on uint64_t, where overflow wraps; the caller wraps on to the type. */

static int64_t wrap_pow(int64_t base, int64_t exponent)
{
    if (exponent < 0) { /* 1 / base^n, truncated; 1 / 0 is 0 as in div */
        if (base == -1)
            return exponent & 1 ? -1 : 1;
        return base == 1;
    }
    uint64_t y = 1, square = (uint64_t)base;
    for (; exponent; exponent >>= 1) {
        if (exponent & 1)
            y *= square;
        square *= square;
    }
    return (int64_t)y;
}

static int64_t wrap_div(int64_t x, int64_t y)
{
    if (y == 0)
        return 0;
    return y == -1 ? (int64_t)(0 - (uint64_t)x) : x / y;
}

static int64_t wrap_mod(int64_t x, int64_t y, bool floored)
{
    if (y == 0 || y == -1)
        return 0;
    const int64_t r = x % y;
    return floored && r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static int64_t shift_left(rlx_dtype t, int64_t x, int64_t count)
{
    const int64_t width = 8 * rlx_dtype_block_bytes(t);
    return count < 0 || count >= width ? 0 : (int64_t)((uint64_t)x << count);
}

static int64_t shift_right(rlx_dtype t, int64_t x, int64_t count)
{
    const int64_t width = 8 * rlx_dtype_block_bytes(t);
    if (count < 0)
        return 0;
    return count >= width ? (x < 0 ? -1 : 0) : x >> count;
}

/* A bound of clamp as the nearest number of the type. */
static int64_t int_bound(rlx_dtype t, double bound)
{
    int64_t room = 0;
    const rx_view one = {.data = (char *)&room, .dtype = t};
    rx_store(&one, 0, bound);
    return rx_load_int(&one, 0);
}

static int64_t int_clamp(const rx_instr *in, const int64_t *a)
{
    const int64_t lo = int_bound(in->dtype, in->p[0]), hi = int_bound(in->dtype, in->p[1]);
    const int64_t y = a[0] < lo ? lo : a[0];
    return y > hi ? hi : y;
}

#define INT(name, expr)                                                        \
    static int64_t int_##name(const rx_instr *in, const int64_t *a)            \
    {                                                                          \
        const int64_t x = a[0];                                                \
        (void)in;                                                              \
        return expr;                                                           \
    }
#define INT2(name, expr)                                                       \
    static int64_t int_##name(const rx_instr *in, const int64_t *a)            \
    {                                                                          \
        const int64_t x = a[0], y = a[1];                                      \
        (void)in;                                                              \
        return expr;                                                           \
    }

INT(relu, x < 0 ? 0 : x)
INT(neg, (int64_t)(0 - (uint64_t)x))
INT(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
INT(sign, (x > 0) - (x < 0))
INT(not, in->dtype == RLX_BOOL ? !x : ~x)
INT(cast, x)

INT2(add, (int64_t)((uint64_t)x + (uint64_t)y))
INT2(sub, (int64_t)((uint64_t)x - (uint64_t)y))
INT2(mul, (int64_t)((uint64_t)x * (uint64_t)y))
INT2(div, wrap_div(x, y))
INT2(max, x > y ? x : y)
INT2(min, x < y ? x : y)
INT2(pow, wrap_pow(x, y))
INT2(mod, wrap_mod(x, y, in->p[0] != 0))
INT2(and, x & y)
INT2(or, x | y)
INT2(xor, x ^ y)
INT2(shl, shift_left(in->dtype, x, y))
INT2(shr, shift_right(in->dtype, x, y))
INT2(eq, x == y)
INT2(ne, x != y)
INT2(lt, x < y)
INT2(le, x <= y)
INT2(gt, x > y)
INT2(ge, x >= y)
INT2(where, x ? y : a[2])

#define I(name) [RX_OP_##name] = int_##name
static int_fn *const int_table[RX_N_OPS] = {
    I(relu), I(neg), I(abs), I(sign), I(not), I(clamp), I(cast), I(add), I(sub), I(mul), I(div),
    I(max), I(min), I(pow), I(mod), I(and), I(or), I(xor), I(shl), I(shr),
    I(eq), I(ne), I(lt), I(le), I(gt), I(ge), I(where),
};

int64_t rx_ref_eval_int(const rx_instr *in, const int64_t *args)
{
    return int_table[in->op](in, args);
}
