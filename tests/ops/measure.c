/* SPDX-License-Identifier: MIT */
/* The measure: how far each element of a result may be from the reference. Nothing is absolute: an
 * element may be wrong by some units in its own last place, and by some times what the rounding of
 * the operands explains. The latter is measured, not assumed: the reference runs again with each
 * float operand moved by a small relative step of random sign, and the spread of an element is how
 * far it moved, for a step of one. A result that is right on the whole but for a factor is seen by
 * the slope of the regression of the result on the reference. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ops/optest.h"

/* ---- The table ------------------------------------------------------------------------------ */

/* What decides the length of a sum. */
typedef enum length_kind {
    LENGTH_NONE,
    LENGTH_LAST,   /* last axis of operand 0 */
    LENGTH_KERNEL, /* all axes of operand 1 but the first: convolutions */
    LENGTH_RATIO,  /* elements of operand 0 for each element of the result */
    LENGTH_AXIS,   /* longest axis of operands 0 and 1 */
    LENGTH_ALL     /* elements of operand 0 */
} length_kind;

typedef struct rule {
    const char *ops; /* with a blank before and after each name */
    ot_class class;
    length_kind length;
    double chain;  /* sums that follow one another, or what a fast algorithm adds to one */
    double ulps;   /* f32: units in the last place of the element itself; shorter types: 1 */
    double rounds; /* intermediates that are rounded to the type of the result */
    double row;    /* f32 units in the last place of the largest element of the row */
    double one;    /* f32 units in the last place of 1: logarithms */
    bool narrow;   /* policy fast may round operands */
    bool weights;  /* the elements of a row share their weights */
} rule;

static const rule rules[] = {
    {" reshape transpose narrow slice expand copy concat split tile pad reverse roll trilu"
     " gather gather_elements gather_nd sort nonzero one_hot range top_k cummax im2col"
     " resize_nearest_2x random_uniform where cast state_write quantize stop_gradient ",
     OT_BITS, LENGTH_NONE, 0, 0, 0, 0, 0, false, false},
    {" clamp not is_nan is_inf and or xor shl shr eq ne lt le gt ge argmax argmin argsort"
     " histogram knn sample reduce_max reduce_min reduce_any reduce_all ",
     OT_EQUAL, LENGTH_NONE, 0, 0, 0, 0, 0, false, false},
    {" cumsum cumprod ", OT_NEAR, LENGTH_AXIS, 1, 4, 0, 0, 0, false, false},
    {" matmul dot_general lora_matmul grouped_matmul qmatmul ",
     OT_NEAR, LENGTH_LAST, 1, 4, 0, 0, 0, true, false},
    {" dequant_matmul dequant_grouped_matmul ", /* decoding rounds too */
     OT_NEAR, LENGTH_LAST, 2, 4, 0, 0, 0, true, false},
    {" conv1d conv2d conv3d conv_transpose2d qconv2d ", /* Winograd's tiles add to the errors */
     OT_NEAR, LENGTH_KERNEL, 2, 4, 0, 0, 0, true, false},
    {" reduce_sum reduce_mean reduce_prod reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp"
     " reduce_sum_square ",
     OT_NEAR, LENGTH_RATIO, 1, 4, 0, 0, 0, false, false},
    {" attention ragged_attention ", /* weights of the values */
     OT_NEAR, LENGTH_AXIS, 1, 4, 2, 0, 0, true, true},
    {" lstm gru rnn ", OT_NEAR, LENGTH_AXIS, 4, 8, 1, 0, 0, true, false}, /* states between steps */
    {" residual_norm ", /* the sum is a result too */
     OT_NEAR, LENGTH_LAST, 1, 8, 1, 0, 0, false, false},
    {" selective_scan mamba2 gated_delta_net ", OT_NEAR, LENGTH_AXIS, 2, 8, 0, 0, 0, false, false},
    {" fft ifft rfft irfft stft welch_peaks ", /* lengths with large factors take three */
     OT_NEAR, LENGTH_AXIS, 3, 4, 0, 2, 0, false, false},
    {" log_mel ", OT_NEAR, LENGTH_AXIS, 3, 4, 0, 2, 0, true, false}, /* powers times filters */
    {" softmax layer_norm rms_norm layer_norm2d group_norm instance_norm batch_norm_inference"
     " ada_layer_norm pool1d pool2d pool3d scatter_add resize rope swiglu region ",
     OT_NEAR, LENGTH_AXIS, 1, 8, 0, 0, 0, false, false},
    {" dequantize dequant_moe_weights random_normal ",
     OT_NEAR, LENGTH_NONE, 1, 4, 0, 4, 0, false, false},
    {" log_softmax ", OT_NEAR, LENGTH_LAST, 1, 8, 0, 0, 2, false, false},
};

/* Functions of rlx/functions.def: whether the sign of a zero is part of the result, and the class
 * that their accuracy is of. */
enum { SIGNED_ZERO = 1, IDEMPOTENT = 2, INVOLUTION = 4 };
#define BITS OT_BITS
#define EQUAL OT_EQUAL
#define ULPS(n) OT_NEAR
#define ULPS_TAIL(n, tail) OT_NEAR
static const struct function {
    const char *op;
    int flags;
    ot_class class;
} functions[] = {
#define RLX_FUNCTION1(name, params, alpha, beta, meaning, types, kind, flags, domain, accuracy, \
                      formula, derivative)                                                      \
    {#name, flags, accuracy},
#define RLX_FUNCTION2(name, meaning, types, kind, flags, domain, accuracy, ...) \
    {#name, flags, accuracy},
#include "rlx/functions.def"
#undef RLX_FUNCTION1
#undef RLX_FUNCTION2
};

static const struct function *find_function(const char *op)
{
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!strcmp(functions[i].op, op)) return &functions[i];
    }
    return NULL;
}

static bool is_listed(const char *list, const char *op)
{
    char word[48];
    snprintf(word, sizeof word, " %s ", op);
    return strstr(list, word) != NULL;
}

static const rule *find_rule(const char *op)
{
    static const rule other = {"", OT_NEAR, LENGTH_NONE, 1, 8, 0, 0, 0, false, false};
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        if (is_listed(rules[i].ops, op)) return &rules[i];
    }
    return &other;
}

static double sum_length(length_kind kind, const ot_tensor *in, size_t n_in, const ot_tensor *out)
{
    if (kind == LENGTH_NONE || n_in == 0 || !in[0].data) return 1;
    if (kind == LENGTH_LAST) return in[0].rank ? (double)in[0].dims[in[0].rank - 1] : 1;
    if (kind == LENGTH_ALL) return (double)in[0].elements;
    if (kind == LENGTH_RATIO) {
        return out->elements ? (double)in[0].elements / (double)out->elements : 1;
    }
    double length = 1;
    if (kind == LENGTH_AXIS) {
        for (size_t k = 0; k < n_in && k < 2; k++) {
            for (int i = 0; i < in[k].rank; i++) length = fmax(length, (double)in[k].dims[i]);
        }
        return length;
    }
    if (n_in > 1) {
        for (int i = 1; i < in[1].rank; i++) length *= (double)in[1].dims[i];
    }
    return length;
}

/* ---- Float types ---------------------------------------------------------------------------- */

/* Bits of the significand after the point, exponent of the smallest normal number. */
static int fraction_bits(rlx_dtype t)
{
    return t == RLX_F64 ? 52 : t == RLX_F32 ? 23 : t == RLX_F16 ? 10 : 7;
}

static int least_exponent(rlx_dtype t)
{
    return t == RLX_F64 ? -1022 : t == RLX_F16 ? -14 : -126;
}

/* Half of a unit in the last place, relative: the largest error of one rounding. */
static double unit_roundoff(rlx_dtype t)
{
    return ldexp(1, -fraction_bits(t) - 1);
}

/* The unit in the last place of x. */
static double ulp_of(rlx_dtype t, double x)
{
    int exponent;
    frexp(x, &exponent);
    exponent = x == 0 || exponent - 1 < least_exponent(t) ? least_exponent(t) : exponent - 1;
    return ldexp(1, exponent - fraction_bits(t));
}

static double largest(rlx_dtype t)
{
    return t == RLX_F64 ? DBL_MAX : t == RLX_F16 ? 65504 : t == RLX_BF16 ? 0x1.fep127 : FLT_MAX;
}

/* The coarsest float type among the operands, f32 when there is none; packed ones do not count. */
static rlx_dtype coarsest(const ot_tensor *in, size_t n_in)
{
    rlx_dtype worst = RLX_NO_TYPE;
    for (size_t i = 0; i < n_in; i++) {
        const rlx_dtype t = in[i].dtype;
        if (!in[i].data || !rlx_dtype_is_float(t) || rlx_dtype_is_packed(t)) continue;
        if (!worst || fraction_bits(t) < fraction_bits(worst)) worst = t;
    }
    return worst ? worst : RLX_F32;
}

/* ---- Operands moved by a step --------------------------------------------------------------- */

double ot_step_of(const ot_tensor *in, size_t n_in)
{
    const rlx_dtype t = coarsest(in, n_in);
    return t == RLX_F64 ? 0x1p-26 : t == RLX_F32 ? 0x1p-18 : t == RLX_F16 ? 0x1p-10 : 0x1p-7;
}

static double row_maximum(const ot_tensor *t, int64_t at, int64_t n)
{
    double most = 0;
    for (int64_t i = at; i < at + n; i++) {
        const double x = fabs(ot_element(t, i));
        if (x > most && isfinite(x)) most = x;
    }
    return most;
}

static int64_t row_length(const ot_tensor *t)
{
    return t->rank && t->dims[t->rank - 1] > 0 ? t->dims[t->rank - 1] : 1;
}

/* A row of complex numbers has two axes. */
static int64_t complex_row_length(const ot_tensor *t)
{
    const bool pairs = t->rank > 1 && t->dims[t->rank - 1] == 2 && t->dims[t->rank - 2] > 0;
    return pairs ? 2 * t->dims[t->rank - 2] : row_length(t);
}

void ot_move_operand(ot_tensor *t, double step, bool by_row, uint64_t seed)
{
    if (!rlx_dtype_is_float(t->dtype) || rlx_dtype_is_packed(t->dtype)) return;
    const int64_t n = row_length(t);
    double most = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        if (by_row && i % n == 0) most = row_maximum(t, i, n);
        const double x = ot_element(t, i);
        const double unit = (double)(ot_random(&seed) >> 11) * 0x1p-52 - 1; /* -1 to 1 */
        const double part = step * (unit + (unit < 0 ? -1 : 1)) / 2;
        const double by = part * (by_row ? most : x);
        const double moved = fabs(x + by) > largest(t->dtype) ? x - by : x + by;
        if (x != 0 && isfinite(x)) ot_put_float(t, i, moved);
    }
}

/* Types whose weights are a scale times an integer minus a minimum, each rounded to f16. */
static bool has_minima(rlx_dtype t)
{
    return t == RLX_Q4_1 || t == RLX_Q5_1 || t == RLX_Q2_K || t == RLX_Q4_K || t == RLX_Q5_K;
}

void ot_narrow_operand(ot_tensor *t)
{
    if (has_minima(t->dtype)) memset(t->data, 0, t->bytes);
    if (!rlx_dtype_is_float(t->dtype) || rlx_dtype_is_packed(t->dtype)) return;
    const int64_t n = row_length(t);
    double least = 0;
    for (int64_t i = 0; i < t->elements; i++) {
        if (i % n == 0) least = fmax(0x1p-24, row_maximum(t, i, n) * 0x1p-16);
        if (fabs(ot_element(t, i)) < least) ot_put_float(t, i, 0);
    }
}

/* ---- Limits --------------------------------------------------------------------------------- */

ot_measure ot_measure_of(const char *op, const ot_tensor *out, bool fast)
{
    const rule *r = find_rule(op);
    const struct function *f = find_function(op);
    ot_measure m = {.class = f ? f->class : r->class, .dtype = out->dtype};
    if (!rlx_dtype_is_float(out->dtype) || rlx_dtype_is_packed(out->dtype)) m.class = OT_BITS;
    m.fast = fast && r->narrow && m.class == OT_NEAR;
    m.signed_zero = m.class == OT_BITS || (f && f->flags & SIGNED_ZERO);
    return m;
}

ot_measure ot_measure_exact(void)
{
    return (ot_measure){.class = OT_BITS, .signed_zero = true};
}

void ot_measure_finish(ot_measure *m)
{
    free(m->limit);
    *m = (ot_measure){0};
}

static bool ready(ot_measure *m, const ot_tensor *expected)
{
    m->elements = expected->elements;
    if (!m->limit) m->limit = calloc((size_t)m->elements + 1, sizeof *m->limit);
    return m->limit != NULL;
}

bool ot_measure_add(ot_measure *m, const ot_tensor *expected, const ot_tensor *moved, double step)
{
    if (m->class != OT_NEAR) return true;
    if (!ready(m, expected)) return false;
    m->step = step;
    for (int64_t i = 0; i < m->elements; i++) {
        const double spread = fabs(ot_element(moved, i) - ot_element(expected, i)) / step;
        if (isfinite(spread) && spread > m->limit[i]) m->limit[i] = spread;
    }
    return true;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The spread of an element of t relative to it. */
static double relative_spread(const ot_measure *m, const ot_tensor *t, int64_t i)
{
    const double x = fabs(ot_element(t, i));
    return x > 0 && isfinite(x) ? m->limit[i] / x : 0;
}

/* A few steps of random signs may by chance cancel in a sum: an element is taken for half of the
 * median of its row, but for no more than 64 times its own spread, which chance does not hide; nor
 * does rounding to the result's type, which hides half a unit in the last place. Rows whose
 * elements share their weights move by the same part of each, so there the median of the relative
 * spread counts too. Zeros that an activation made of negative numbers do not move at all: they
 * are taken for the median of what does. */
static bool smooth_rows(ot_measure *m, const rule *r, const ot_tensor *t)
{
    const int64_t n = row_length(t);
    double *row = malloc((size_t)n * sizeof *row);
    if (!row) return false;
    for (int64_t at = 0; n > 1 && at + n <= m->elements; at += n) {
        for (int64_t i = 0; r->weights && i < n; i++) row[i] = relative_spread(m, t, at + i);
        if (r->weights) qsort(row, (size_t)n, sizeof *row, by_value);
        const double share = r->weights ? 0.5 * row[n / 2] : 0;
        memcpy(row, m->limit + at, (size_t)n * sizeof *row);
        qsort(row, (size_t)n, sizeof *row, by_value);
        int64_t still = 0;
        while (m->flat && still < n - 1 && row[still] == 0) still++;
        const double middle = row[still + (n - still) / 2], least = 0.5 * middle;
        for (int64_t i = at; i < at + n; i++) {
            const double x = ot_element(t, i);
            if (m->flat && x == 0) m->limit[i] = fmax(m->limit[i], middle);
            const double hidden = isfinite(x) ? ulp_of(m->dtype, x) / 2 / m->step : 0;
            const double alike = isfinite(x) ? fmax(least, share * fabs(x)) : least;
            m->limit[i] = fmax(m->limit[i], fmin(alike, 64 * fmax(m->limit[i], hidden)));
        }
    }
    free(row);
    return true;
}

/* The type that sums of results of type t are computed in. */
static rlx_dtype working_type(rlx_dtype t)
{
    return t == RLX_F64 ? RLX_F64 : RLX_F32;
}

/* What an element may differ by for each unit of its spread. The spread of a sum of n terms of
 * random signs is that of sqrt(n) of them; a sum in f32, one term after the other, rounds n partial
 * sums that grow to the same size, which is sqrt(n) times as much; chance never reaches 6 of it. */
static double spread_factor(const rule *r, const ot_measure *m, double length)
{
    if (m->fast) return OT_FAST_ROUNDOFF;
    return 6 * r->chain * (1 + sqrt(length)) * unit_roundoff(working_type(m->dtype))
           + r->rounds * unit_roundoff(m->dtype);
}

/* Independent errors of a quarter of their limits change the slope by 0.25 / sqrt(weight). */
static void set_bias(ot_measure *m, const ot_tensor *expected)
{
    double weight = 0;
    int64_t n = 0;
    for (int64_t i = 0; i < m->elements; i++) {
        const double x = ot_element(expected, i);
        if (!isfinite(x) || fabs(x) < 4 * m->limit[i]) continue;
        weight += (x / m->limit[i]) * (x / m->limit[i]);
        n++;
    }
    m->bias = INFINITY;
    if (n < 8) return;
    double least = unit_roundoff(m->dtype) / 2;
    if (m->dtype == RLX_F32) least = 1e-5;
    if (m->dtype == RLX_F64) least = 1e-13;
    m->bias = fmax(least, 1 / sqrt(weight));
    if (m->fast) m->bias = fmax(m->bias, 1e-3);
}

bool ot_measure_end(ot_measure *m, const char *op, const ot_tensor *in, size_t n_in,
                    const ot_tensor *expected)
{
    if (m->class != OT_NEAR) return true;
    if (!ready(m, expected)) return false;
    const rule *r = find_rule(op);
    if (r->length != LENGTH_NONE && m->step > 0 && !smooth_rows(m, r, expected)) return false;
    const double length = sum_length(r->length, in, n_in, expected);
    const double factor = spread_factor(r, m, length);
    const double least = m->dtype == RLX_F64 ? DBL_MIN : FLT_MIN;
    const double lost = m->flush ? (1 + sqrt(length)) * least : least; /* terms of a sum */
    const double row = r->row + (m->fast ? 16 : 0); /* also where all taps are padding */
    const int bits = fraction_bits(working_type(m->dtype));
    const double ulps = working_type(m->dtype) == m->dtype ? r->ulps : 1;
    const int64_t n = complex_row_length(expected);
    double most = 0;
    for (int64_t i = 0; i < m->elements; i++) {
        const double x = ot_element(expected, i);
        if (row > 0 && i % n == 0) most = row_maximum(expected, i, n);
        m->limit[i] = factor * m->limit[i] + ldexp(row * most + r->one, -bits) + lost;
        if (isfinite(x)) m->limit[i] += ulps * ulp_of(m->dtype, x);
    }
    set_bias(m, expected);
    return true;
}

bool ot_measure_may_lose(const ot_measure *m, const ot_tensor *expected)
{
    if (!m->fast) return false;
    for (int64_t i = 0; i < expected->elements; i++) {
        if (isinf(ot_element(expected, i))) return true;
    }
    return false;
}

void ot_measure_lose(ot_measure *m, const ot_tensor *expected, const ot_tensor *narrowed)
{
    for (int64_t i = 0; i < m->elements; i++) {
        if (isinf(ot_element(expected, i)) && isnan(ot_element(narrowed, i))) {
            m->limit[i] = INFINITY;
        }
    }
}

bool ot_measure_graph(ot_measure *m, const ot_tensor *expected)
{
    *m = (ot_measure){.class = OT_NEAR, .dtype = expected->dtype, .bias = INFINITY};
    if (!rlx_dtype_is_float(expected->dtype)) m->class = OT_BITS;
    if (m->class == OT_BITS) return true;
    if (!ready(m, expected)) return false;
    const int64_t n = row_length(expected);
    const double units = working_type(expected->dtype) == expected->dtype ? 1024 : 8;
    double most = 0;
    for (int64_t i = 0; i < m->elements; i++) {
        if (i % n == 0) most = row_maximum(expected, i, n);
        m->limit[i] = unit_roundoff(expected->dtype) * (units * most + 8);
    }
    return true;
}

/* ---- Comparison ----------------------------------------------------------------------------- */

/* In units of the limit; more than 1 is wrong. */
static double float_error(double expected, double got, const ot_measure *m, int64_t i)
{
    /* A factor may be rounded to 0, and an infinity times that is NaN. */
    if (isinf(expected) && isnan(got) && m->limit && isinf(m->limit[i])) return 0;
    if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got) ? 0 : INFINITY;
    if (expected == got) {
        return expected == 0 && m->signed_zero && signbit(expected) != signbit(got) ? INFINITY : 0;
    }
    if (isinf(expected) || isinf(got) || m->class != OT_NEAR) return INFINITY;
    return fabs(got - expected) / m->limit[i];
}

/* The least-squares factor between result and reference, each element weighted by its limit. */
static double slope_of(const ot_tensor *expected, const ot_tensor *got, const ot_measure *m)
{
    double both = 0, squares = 0;
    for (int64_t i = 0; i < expected->elements; i++) {
        const double x = ot_element(expected, i), y = ot_element(got, i);
        if (!isfinite(x) || !isfinite(y) || fabs(x) < 4 * m->limit[i]) continue;
        both += (x / m->limit[i]) * (y / m->limit[i]);
        squares += (x / m->limit[i]) * (x / m->limit[i]);
    }
    return squares > 0 ? both / squares : 1;
}

ot_difference ot_compare(const ot_tensor *expected, const ot_tensor *got, const ot_measure *m)
{
    ot_difference d = {.first = -1, .slope = 1};
    const bool is_float = rlx_dtype_is_float(expected->dtype);
    const size_t size = (size_t)rlx_dtype_block_bytes(expected->dtype);
    const int64_t n = expected->elements / rlx_dtype_block_size(expected->dtype);
    for (int64_t i = 0; i < n; i++) { /* elements, or blocks of a packed type */
        const char *a = (const char *)expected->data + (size_t)i * size;
        const char *b = (const char *)got->data + (size_t)i * size;
        if (memcmp(a, b, size) == 0) continue;
        const double x = ot_element(expected, i), y = ot_element(got, i);
        const double error = is_float ? float_error(x, y, m, i) : INFINITY;
        if (error > d.worst) d.worst = error;
        if (error <= 1) continue;
        if (d.n_bad++ == 0) {
            d.first = i;
            d.expected = x;
            d.got = y;
            d.limit = m->limit ? m->limit[i] : 0;
        }
    }
    if (m->class == OT_NEAR && isfinite(m->bias)) {
        d.slope = slope_of(expected, got, m);
        d.biased = fabs(d.slope - 1) > m->bias;
    }
    return d;
}
