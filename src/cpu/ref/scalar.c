/* SPDX-License-Identifier: MIT */
/* The meaning of each elementwise operation on one element: on doubles the formulas of
 * rlx/functions.def and the operations that are not there, and a table of functions on integers.
 * Everything else that evaluates elementwise operations is compared with these. Infinities go
 * through the formulas as written, so x * sigmoid(x) at -inf is NaN. */
#include <math.h>

#include "base/dtype.h"
#include "cpu/ref/ref.h"
#include "ir/functions.h"

typedef double float_fn(const rx_instr *in, const double *a);
typedef int64_t int_fn(const rx_instr *in, const int64_t *a);

/* ---- Floats: shared helpers ----------------- ------------------------------------------------ */

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

static double limit(double x, double lo, double hi)
{
    const double y = x < lo ? lo : x; /* NaN fails both comparisons and stays */
    return y > hi ? hi : y;
}

/* The product of two f32 is exact in a double. The sum is rounded to odd: where it is not exact the
 * last bit is set, so that rounding it again to a smaller type gives what rounding once would. f64
 * is rounded once by the fma of C. */
static double fma_once(rlx_dtype t, double x, double y, double z)
{
    if (t == RLX_F64)
        return fma(x, y, z);
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

static double larger(double x, double y) { return isnan(x) || x > y ? x : y; }
static double smaller(double x, double y) { return isnan(x) || x < y ? x : y; }
static double sign(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }

/* Some C libraries give numbers below 1. */
static double arcosh(double x)
{
    return x < 1 ? NAN : acosh(x);
}

/* ---- Floats ---------------------------------------------------------------------------------- */

#define FLOAT(name, expr)                                                      \
    static double float_##name(const rx_instr *in, const double *a)            \
    {                                                                          \
        (void)in;                                                              \
        return expr;                                                           \
    }

#define X a[0]
#define A a[0]
#define B a[1]
#define ALPHA in->p[0]
#define BETA in->p[1]
#define K(c) ((double)(c))
#include "ir/functions_operators.h"
#define MAX(a, b) larger(a, b)
#define MIN(a, b) smaller(a, b)
#define POW(a, b) pow(a, b)
#define ATAN2(a, b) atan2(a, b)
#define LIMIT(x, lo, hi) limit(x, lo, hi)
#define ABS(x) fabs(x)
#define SIGN(x) sign(x)
#define SQRT(x) sqrt(x)
#define EXP(x) exp(x)
#define EXP2(x) exp2(x)
#define EXPM1(x) expm1(x)
#define LOG(x) log(x)
#define LOG2(x) log2(x)
#define SIN(x) sin(x)
#define COS(x) cos(x)
#define TAN(x) tan(x)
#define ASIN(x) asin(x)
#define ACOS(x) acos(x)
#define ATAN(x) atan(x)
#define SINH(x) sinh(x)
#define COSH(x) cosh(x)
#define TANH(x) tanh(x)
#define ASINH(x) asinh(x)
#define ACOSH(x) arcosh(x)
#define ATANH(x) atanh(x)
#define ERF(x) erf(x)
#define GELU(x) gelu(x)
#define SIGMOID(x) sigmoid(x)
#define SOFTPLUS(x) softplus(x)
#define ROUND(x) nearbyint(x)
#define FLOOR(x) floor(x)
#define CEIL(x) ceil(x)

/* clang 14 for WebAssembly makes max(x, 0) of x < 0 ? 0 : x, and so +0 of -0. */
static const volatile double no_constant = 0;
#define TUNED_relu INSTEAD X < 0 ? no_constant : X

#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy,    \
                      formula, derivative)                                                         \
    FLOAT(name, RX_FORMULA(name, formula))
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, formula, by_a, by_b)    \
    FLOAT(name, RX_FORMULA(name, formula))
#include "rlx/functions.def"
#include "ir/functions_end.h"

FLOAT(is_nan, isnan(a[0]))
FLOAT(is_inf, isinf(a[0]) != 0)
FLOAT(clamp, limit(a[0], in->p[0], in->p[1]))
FLOAT(cast, rx_round_to(in->dtype, a[0]))
FLOAT(mod, in->p[0] != 0 ? floored_mod(a[0], a[1]) : fmod(a[0], a[1]))
FLOAT(eq, a[0] == a[1])
FLOAT(ne, a[0] != a[1])
FLOAT(lt, a[0] < a[1])
FLOAT(le, a[0] <= a[1])
FLOAT(gt, a[0] > a[1])
FLOAT(ge, a[0] >= a[1])
FLOAT(where, a[0] != 0 ? a[1] : a[2])
FLOAT(fma, fma_once(in->dtype, a[0], a[1], a[2]))

#define F(name) [RX_OP_##name] = float_##name
#define RLX_FUNCTION1(name, ...) F(name),
#define RLX_FUNCTION2(name, ...) F(name),
static float_fn *const float_table[RX_N_OPS] = {
#include "rlx/functions.def"
    F(is_nan), F(is_inf), F(clamp), F(cast), F(mod), F(eq), F(ne), F(lt), F(le), F(gt), F(ge),
    F(where), F(fma),
};

double rx_ref_eval(const rx_instr *in, const double *args)
{
    return float_table[in->op](in, args);
}

double rx_ref_act(rlx_act act, double x)
{
    static const uint16_t ops[] = {
#define ACT(op, ACT_ID) [ACT_ID] = RX_OP_##op,
#include "compile/fuse.def"
#undef ACT
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

static int64_t int_clamp(const rx_instr *in, const int64_t *a)
{
    const int64_t lo = rx_double_to_int(in->dtype, in->p[0]);
    const int64_t hi = rx_double_to_int(in->dtype, in->p[1]);
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

/* ---- u64: the operations that depend on the sign --------------------------------------------- */

#define UINT(name, expr)                                                       \
    static int64_t uint_##name(const rx_instr *in, const int64_t *a)           \
    {                                                                          \
        const uint64_t x = (uint64_t)a[0], y = (uint64_t)a[1];                 \
        (void)in;                                                              \
        (void)y;                                                               \
        return (int64_t)(expr);                                                \
    }

static uint64_t unsigned_pow(uint64_t base, uint64_t exponent)
{
    uint64_t y = 1;
    for (; exponent; exponent >>= 1, base *= base)
        y *= exponent & 1 ? base : 1;
    return y;
}

static int64_t uint_clamp(const rx_instr *in, const int64_t *a)
{
    const uint64_t lo = (uint64_t)rx_double_to_int(RLX_U64, in->p[0]);
    const uint64_t hi = (uint64_t)rx_double_to_int(RLX_U64, in->p[1]);
    const uint64_t x = (uint64_t)a[0], y = x < lo ? lo : x;
    return (int64_t)(y > hi ? hi : y);
}

UINT(relu, x)
UINT(abs, x)
UINT(sign, x != 0)
UINT(div, y ? x / y : 0)
UINT(mod, y ? x % y : 0)
UINT(max, x > y ? x : y)
UINT(min, x < y ? x : y)
UINT(pow, unsigned_pow(x, y))
UINT(shl, y < 64 ? x << y : 0)
UINT(shr, y < 64 ? x >> y : 0)
UINT(lt, x < y)
UINT(le, x <= y)
UINT(gt, x > y)
UINT(ge, x >= y)

#define U(name) [RX_OP_##name] = uint_##name
static int_fn *const uint_table[RX_N_OPS] = {
    U(relu), U(abs), U(sign), U(clamp), U(div), U(mod), U(max), U(min), U(pow), U(shl), U(shr),
    U(lt), U(le), U(gt), U(ge),
};

int64_t rx_ref_eval_int(const rx_instr *in, rlx_dtype t, const int64_t *args)
{
    if (t == RLX_U64 && uint_table[in->op])
        return uint_table[in->op](in, args);
    return int_table[in->op](in, args);
}
