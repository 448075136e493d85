/* SPDX-License-Identifier: MIT */
/* Tensors in host memory and the numbers in them: the same seed gives the same bytes everywhere.
 * Packed blocks are random bytes whose scales are replaced by moderate finite ones, so that decoded
 * elements are about 1 at most. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/little.h"
#include "ops/optest.h"

#define MAX_ELEMENTS (INT64_C(1) << 28)

/* ---- Random numbers: splitmix64 ------------------------------------------------------------- */

typedef struct generator {
    uint64_t state;
} generator;

uint64_t ot_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t next_bits(generator *g)
{
    return ot_random(&g->state);
}

/* In [0, 1). */
static double next_unit(generator *g)
{
    return (double)(next_bits(g) >> 11) * 0x1p-53;
}

/* In 0 .. n - 1. */
static int64_t next_below(generator *g, int64_t n)
{
    return n > 0 ? (int64_t)(next_bits(g) % (uint64_t)n) : 0;
}

/* Irwin and Hall: the sum of twelve uniform numbers is near enough to normal for tests, and needs
 * no function that C libraries round in different ways. */
static double next_normal(generator *g)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) sum += next_unit(g);
    return sum;
}

uint64_t ot_hash(const char *text, uint64_t seed)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325) ^ seed;
    for (; *text; text++) h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return h;
}

/* ---- Tensors -------------------------------------------------------------------------------- */

bool ot_tensor_init(ot_tensor *t, rlx_dtype dtype, int rank, const int64_t *dims)
{
    *t = (ot_tensor){.dtype = dtype, .rank = rank, .elements = 1};
    for (int i = 0; i < rank; i++) {
        t->dims[i] = dims[i] < 0 ? 0 : dims[i];
        t->elements *= t->dims[i];
        if (t->elements > MAX_ELEMENTS) return false;
    }
    const int64_t size = rlx_dtype_block_size(dtype);
    if (size > 0) t->bytes = (size_t)(t->elements / size * rlx_dtype_block_bytes(dtype));
    t->data = calloc(t->bytes ? t->bytes : 1, 1);
    return t->data != NULL;
}

void ot_tensor_finish(ot_tensor *t)
{
    free(t->data);
    *t = (ot_tensor){0};
}

/* X(ENUMERATOR, C type) of the types that C has. */
#define C_TYPES(X)                                                              \
    X(F32, float) X(F64, double) X(I8, int8_t) X(U8, uint8_t) X(BOOL, uint8_t)  \
    X(I16, int16_t) X(U16, uint16_t) X(I32, int32_t) X(U32, uint32_t)           \
    X(I64, int64_t) X(U64, uint64_t)

static float half_element(const ot_tensor *t, int64_t i)
{
    float x = NAN;
    if (t->dtype == RLX_F16 || t->dtype == RLX_BF16) {
        rlx_to_float(t->dtype, (const uint16_t *)t->data + i, &x, 1);
    }
    return x;
}

double ot_element(const ot_tensor *t, int64_t i)
{
    switch (t->dtype) {
#define X(ID, TYPE) case RLX_##ID: return (double)((const TYPE *)t->data)[i];
    C_TYPES(X)
#undef X
    default: return half_element(t, i);
    }
}

static void put_int(ot_tensor *t, int64_t i, int64_t x)
{
    switch (t->dtype) {
#define X(ID, TYPE) case RLX_##ID: ((TYPE *)t->data)[i] = (TYPE)x; break;
    C_TYPES(X)
#undef X
    default: break;
    }
    if (t->dtype == RLX_BOOL) ((uint8_t *)t->data)[i] = x != 0;
}

void ot_put_float(ot_tensor *t, int64_t i, double x)
{
    const float f = (float)x;
    if (t->dtype == RLX_F64) {
        ((double *)t->data)[i] = x;
    } else {
        rlx_from_float(t->dtype, &f, (char *)t->data + i * rlx_dtype_block_bytes(t->dtype), 1);
    }
}

static void put(ot_tensor *t, int64_t i, double x)
{
    if (rlx_dtype_is_float(t->dtype)) {
        ot_put_float(t, i, x);
    } else {
        put_int(t, i, (int64_t)x);
    }
}

static bool is_unsigned(rlx_dtype t)
{
    return t == RLX_U8 || t == RLX_U16 || t == RLX_U32 || t == RLX_U64;
}

/* ---- Fills of the plain types --------------------------------------------------------------- */

/* Limits of a float type: the largest number, the smallest normal one, the smallest of all. */
static void float_limits(rlx_dtype t, double *huge, double *tiny, double *least)
{
    *huge = t == RLX_F32 ? 0x1.fffffep127 : t == RLX_F16 ? 65504 : 0x1.fep127;
    *tiny = t == RLX_F16 ? 0x1p-14 : 0x1p-126;
    *least = t == RLX_F32 ? 0x1p-149 : t == RLX_F16 ? 0x1p-24 : 0x1p-133;
    if (t != RLX_F64) return;
    *huge = DBL_MAX;
    *tiny = DBL_MIN;
    *least = 0x1p-1074;
}

static double extreme_float(generator *g, rlx_dtype t)
{
    double huge, tiny, least;
    float_limits(t, &huge, &tiny, &least);
    /* Vulkan lets a driver take subnormal numbers for 0; the tests of such a driver say so. */
    const bool flushes = getenv("RLX_TEST_FLUSHES") != NULL;
    const double small = flushes ? tiny : tiny / 4;
    if (flushes) least = tiny;
    const double values[] = {INFINITY, -INFINITY, NAN,   0.0,   -0.0, huge, -huge, tiny,
                             -tiny,    least,     -least, 1.0, -1.0, 0.5,  small, huge / 4};
    return values[next_below(g, 16)];
}

static int64_t extreme_int(generator *g, rlx_dtype t)
{
    const int bits = 8 * (int)rlx_dtype_block_bytes(t);
    const bool plus = is_unsigned(t);
    const uint64_t most = UINT64_MAX >> ((plus ? 64 : 65) - bits);
    const int64_t least = plus ? 0 : -(int64_t)most - 1, next = plus ? (int64_t)(most - 1) : -1;
    const int64_t values[] = {least, (int64_t)most, 0, 1, next, (int64_t)(most / 2)};
    return values[next_below(g, 6)];
}

static void fill_extreme(ot_tensor *t, generator *g)
{
    const bool is_float = rlx_dtype_is_float(t->dtype);
    for (int64_t i = 0; i < t->elements; i++) {
        const double normal = next_normal(g);
        const bool plain = next_below(g, 2) == 0;
        if (is_float) {
            put(t, i, plain ? normal * 2 : extreme_float(g, t->dtype));
        } else {
            put_int(t, i, plain ? (int64_t)(fabs(normal) * 20) : extreme_int(g, t->dtype));
        }
    }
}

/* A random permutation of 0 .. n-1, times scale, plus shift. */
static void fill_permutation(ot_tensor *t, generator *g, double scale, double shift)
{
    int64_t *order = malloc((size_t)(t->elements ? t->elements : 1) * sizeof *order);
    if (!order) return;
    for (int64_t i = 0; i < t->elements; i++) order[i] = i;
    for (int64_t i = t->elements - 1; i > 0; i--) {
        const int64_t j = next_below(g, i + 1), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
    for (int64_t i = 0; i < t->elements; i++) put(t, i, (double)order[i] * scale + shift);
    free(order);
}

static double default_element(generator *g, rlx_dtype t)
{
    if (t == RLX_BOOL) return next_below(g, 2) == 0;
    if (is_unsigned(t)) return (double)next_below(g, 11);
    if (rlx_dtype_is_int(t)) return (double)(next_below(g, 11) - 5);
    return next_normal(g);
}

/* 2^x within a millionth: a polynomial, since C libraries round exp2 in different ways. */
static double power_of_two(double x)
{
    const double whole = floor(x), t = (x - whole) * 0.6931471805599453;
    double sum = 1, term = 1;
    for (int i = 1; i < 12; i++) {
        term *= t / i;
        sum += term;
    }
    return ldexp(sum, (int)whole);
}

/* Log-uniform between 2^lo and 2^hi. */
static double next_magnitude(generator *g, double lo, double hi)
{
    return power_of_two(lo + (hi - lo) * next_unit(g));
}

static double next_poison(generator *g)
{
    const double values[] = {NAN, INFINITY, -INFINITY};
    return values[next_below(g, 3)];
}

static double next_zero(generator *g, rlx_dtype t)
{
    double huge, tiny, least;
    float_limits(t, &huge, &tiny, &least);
    const double values[] = {0.0, -0.0, least, -tiny / 4};
    return values[next_below(g, getenv("RLX_TEST_FLUSHES") ? 2 : 4)];
}

/* Elements of magnitudes far from 1; the limits leave f16 room for sums of some hundred terms. */
static double scaled_element(generator *g, ot_fill_kind kind, rlx_dtype t)
{
    const bool half = t == RLX_F16;
    const double sign = next_below(g, 2) ? 1 : -1;
    switch (kind) {
    case OT_WIDE: return sign * next_magnitude(g, half ? -8 : -24, half ? 8 : 24);
    case OT_HUGE: return sign * next_magnitude(g, half ? 11 : 57, half ? 14.2 : 68);
    case OT_TINY: return sign * next_magnitude(g, half ? -16.5 : -86, half ? -13 : -80);
    default: return next_below(g, 2) ? next_zero(g, t) : (double)(next_below(g, 7) - 3);
    }
}

/* Rows of the last axis: magnitudes of their own, or wholly NaN or infinite with a probability. */
static void fill_rows(ot_tensor *t, const ot_fill *fill, generator *g)
{
    const int64_t n = t->rank ? t->dims[t->rank - 1] : 1;
    const double lo = t->dtype == RLX_F16 ? -10 : -30, hi = t->dtype == RLX_F16 ? 8 : 30;
    for (int64_t at = 0; n > 0 && at < t->elements; at += n) {
        const double magnitude = fill->kind == OT_ROWS ? next_magnitude(g, lo, hi) : 1;
        const bool poisoned = fill->kind == OT_POISON_ROWS && next_unit(g) < fill->a;
        const double poison = next_poison(g);
        for (int64_t i = 0; i < n; i++) {
            const double x = next_normal(g);
            put(t, at + i, poisoned ? poison : x * magnitude);
        }
    }
}

static double fill_element(generator *g, const ot_fill *f, rlx_dtype t)
{
    switch (f->kind) {
    case OT_INTS: return f->a + (double)next_below(g, (int64_t)(f->b - f->a));
    case OT_RANGE: return f->a + (f->b - f->a) * next_unit(g);
    case OT_NORMAL: return f->a + f->b * next_normal(g);
    case OT_TIES: return (double)(next_below(g, 4) - (is_unsigned(t) || t == RLX_BOOL ? 0 : 1));
    case OT_BOOLS: return next_unit(g) < f->a;
    case OT_VALUE: return f->a;
    case OT_MASK: return next_unit(g) < f->a ? 0 : -INFINITY;
    case OT_POISON: return next_unit(g) < f->a ? next_poison(g) : next_normal(g);
    case OT_WIDE:
    case OT_HUGE:
    case OT_TINY:
    case OT_ZEROS: return scaled_element(g, f->kind, t);
    default: return default_element(g, t);
    }
}

/* ---- Packed blocks -------------------------------------------------------------------------- */

typedef enum scale_kind { SCALE_F16, SCALE_F32, SCALE_E8M0, SCALE_UE4M3, SCALE_IQ1_M } scale_kind;

/* Where a block has a scale and how large the integers are that it multiplies. */
typedef struct scale_field {
    rlx_dtype dtype;
    scale_kind kind;
    int offset, count;
    double amplitude;
} scale_field;

static const scale_field scale_fields[] = {
    {RLX_Q4_0, SCALE_F16, 0, 1, 8},       {RLX_Q4_1, SCALE_F16, 0, 1, 15},
    {RLX_Q4_1, SCALE_F16, 2, 1, 1},       {RLX_Q5_0, SCALE_F16, 0, 1, 16},
    {RLX_Q5_1, SCALE_F16, 0, 1, 31},      {RLX_Q5_1, SCALE_F16, 2, 1, 1},
    {RLX_Q8_0, SCALE_F16, 0, 1, 128},     {RLX_IQ4_NL, SCALE_F16, 0, 1, 127},
    {RLX_Q2_K, SCALE_F16, 80, 1, 45},     {RLX_Q2_K, SCALE_F16, 82, 1, 15},
    {RLX_Q3_K, SCALE_F16, 108, 1, 128},   {RLX_Q4_K, SCALE_F16, 0, 1, 945},
    {RLX_Q4_K, SCALE_F16, 2, 1, 63},      {RLX_Q5_K, SCALE_F16, 0, 1, 1953},
    {RLX_Q5_K, SCALE_F16, 2, 1, 63},      {RLX_Q6_K, SCALE_F16, 208, 1, 4096},
    {RLX_Q8_K, SCALE_F32, 0, 1, 128},     {RLX_IQ4_XS, SCALE_F16, 0, 1, 4064},
    {RLX_MXFP4, SCALE_E8M0, 0, 1, 6},     {RLX_IQ1_S, SCALE_F16, 0, 1, 17},
    {RLX_IQ1_M, SCALE_IQ1_M, 48, 1, 17},  {RLX_IQ2_XXS, SCALE_F16, 0, 1, 167},
    {RLX_IQ2_XS, SCALE_F16, 0, 1, 167},   {RLX_IQ2_S, SCALE_F16, 0, 1, 167},
    {RLX_IQ3_XXS, SCALE_F16, 0, 1, 480},  {RLX_IQ3_S, SCALE_F16, 0, 1, 465},
    {RLX_TQ1_0, SCALE_F16, 52, 1, 1},     {RLX_TQ2_0, SCALE_F16, 64, 1, 2},
    {RLX_NVFP4, SCALE_UE4M3, 0, 4, 6},
};

/* The power of two by which scales of this kind are larger than those of numbers up to 1: near the
 * ends of what the kind holds, or one for each row. */
static int scale_power(const ot_fill *fill, scale_kind kind, int row_power)
{
    const bool wide = kind == SCALE_F32 || kind == SCALE_E8M0;
    if (fill->kind == OT_HUGE) return wide ? 60 : kind == SCALE_UE4M3 ? 9 : 15;
    if (fill->kind == OT_TINY) return wide ? -80 : kind == SCALE_UE4M3 ? -3 : -18;
    return fill->kind == OT_ROWS ? (kind == SCALE_UE4M3 ? row_power / 8 : row_power) : 0;
}

static void put_scale(uint8_t *block, const scale_field *f, int power, generator *g)
{
    const float sign = next_below(g, 4) == 0 ? -1.0f : 1.0f;
    const bool is_end = power == 15 || power == -18; /* of f16: whatever it multiplies */
    const double size = (0.5 + 0.5 * next_unit(g)) / (is_end ? 1 : f->amplitude);
    const float scale = sign * (float)ldexp(size, power);
    uint8_t *at = block + f->offset;
    uint16_t half;
    rlx_from_float(RLX_F16, &scale, &half, 1);
    switch (f->kind) {
    case SCALE_F16: rx_little_copy(RLX_F16, &half, at, 2); break;
    case SCALE_F32: rx_little_copy(RLX_F32, &scale, at, 4); break;
    case SCALE_E8M0: *at = (uint8_t)(122 + power + (int)next_below(g, 4)); break; /* 2^-5 .. 2^-2 */
    case SCALE_UE4M3: /* exponents 2^-4 .. 2^-2 */
        for (int i = 0; i < f->count; i++) {
            at[i] = (uint8_t)(24 + 8 * power + (int)next_below(g, 24));
        }
        break;
    case SCALE_IQ1_M: /* the top nibble of each of four u16 has four bits of the f16 */
        for (int i = 0; i < 4; i++) {
            at[2 * i + 1] = (uint8_t)((at[2 * i + 1] & 15) | (half >> 4 * i & 15) << 4);
        }
        break;
    }
}

/* q8_k blocks carry the sum of each 16 elements, which dot products may rely on. */
static void put_q8_k_sums(uint8_t *block)
{
    for (int group = 0; group < 16; group++) {
        int16_t sum = 0;
        for (int i = 0; i < 16; i++) sum = (int16_t)(sum + (int8_t)block[4 + group * 16 + i]);
        rx_little_copy(RLX_I16, &sum, block + 260 + group * 2, 2);
    }
}

static void fill_packed(ot_tensor *t, const ot_fill *fill, generator *g)
{
    const size_t size = (size_t)rlx_dtype_block_bytes(t->dtype);
    const int64_t line = t->rank ? t->dims[t->rank - 1] : 1;
    const size_t row = (size_t)(line / rlx_dtype_block_size(t->dtype)) * size;
    uint8_t *data = t->data;
    int row_power = 0;
    for (size_t i = 0; i < t->bytes; i++) data[i] = (uint8_t)next_bits(g);
    for (size_t at = 0; at + size <= t->bytes; at += size) {
        if (fill->kind == OT_ROWS && at % row == 0) row_power = (int)next_below(g, 25) - 10;
        for (size_t k = 0; k < sizeof scale_fields / sizeof scale_fields[0]; k++) {
            const scale_field *f = &scale_fields[k];
            if (f->dtype != t->dtype) continue;
            put_scale(data + at, f, scale_power(fill, f->kind, row_power), g);
        }
        if (t->dtype == RLX_Q8_K) put_q8_k_sums(data + at);
    }
}

void ot_fill_tensor(ot_tensor *t, const ot_fill *fill, uint64_t seed, int run)
{
    generator g = {seed};
    if (rlx_dtype_is_packed(t->dtype)) {
        if (fill->kind != OT_VALUE) fill_packed(t, fill, &g);
    } else if (fill->kind == OT_EXTREME) {
        fill_extreme(t, &g);
    } else if (fill->kind == OT_PERM) {
        fill_permutation(t, &g, 1, 0);
    } else if (fill->kind == OT_DISTINCT) {
        const bool is_float = rlx_dtype_is_float(t->dtype);
        fill_permutation(t, &g, is_float ? 0.125 : 1,
                         is_float ? -(double)t->elements / 16 : -(double)(t->elements / 2));
    } else if (fill->kind == OT_ROWS || fill->kind == OT_POISON_ROWS) {
        fill_rows(t, fill, &g);
    } else if (fill->kind == OT_COUNT) {
        for (int64_t i = 0; i < t->elements; i++) put(t, i, fill->a + fill->b * run + (double)i);
    } else {
        for (int64_t i = 0; i < t->elements; i++) put(t, i, fill_element(&g, fill, t->dtype));
    }
}

void ot_flush_tensor(ot_tensor *t)
{
    if (t->dtype != RLX_F32 && t->dtype != RLX_BF16) return;
    for (int64_t i = 0; i < t->elements; i++) {
        const double value = ot_element(t, i);
        if (value != 0 && fabs(value) < FLT_MIN) put(t, i, 0);
    }
}
