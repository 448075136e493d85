/* SPDX-License-Identifier: MIT */
/* How far a result may be from the reference, by operation and type, and the comparison. Errors are
 * scaled by max(1, |expected|); long sums may grow with the square root of their length. */
#include <math.h>
#include <string.h>

#include "ops/optest.h"

/* ---- The table ------------------------------------------------------------------------------ */

/* What decides the length of a sum. */
typedef enum length_kind {
    LENGTH_NONE,
    LENGTH_LAST,   /* last axis of operand 0 */
    LENGTH_KERNEL, /* all axes of operand 1 but the first: convolutions */
    LENGTH_RATIO,  /* elements of operand 0 for each element of the result */
    LENGTH_ALL     /* elements of operand 0 */
} length_kind;

typedef struct row {
    const char *ops; /* with a blank before and after each name */
    ot_class class;
    length_kind length;
} row;

static const row rows[] = {
    {" reshape transpose narrow slice expand copy concat split tile pad reverse roll trilu"
     " gather gather_elements gather_nd sort nonzero one_hot range top_k cummax im2col"
     " resize_nearest_2x random_uniform where cast neg abs state_write quantize ",
     OT_BITS, LENGTH_NONE},
    {" relu floor ceil round sign max min clamp not is_nan is_inf and or xor shl shr"
     " eq ne lt le gt ge argmax argmin argsort histogram knn sample reduce_max reduce_min"
     " reduce_any reduce_all ",
     OT_EQUAL, LENGTH_NONE},
    {" cumsum cumprod ", OT_ELEMENT, LENGTH_ALL},
    {" matmul dot_general lora_matmul grouped_matmul dequant_matmul dequant_grouped_matmul"
     " qmatmul ",
     OT_LONG, LENGTH_LAST},
    {" conv1d conv2d conv3d conv_transpose2d qconv2d ", OT_LONG, LENGTH_KERNEL},
    {" reduce_sum reduce_mean reduce_prod reduce_l1 reduce_l2 reduce_log_sum reduce_log_sum_exp"
     " reduce_sum_square ",
     OT_LONG, LENGTH_RATIO},
    {" layer_norm rms_norm layer_norm2d group_norm instance_norm batch_norm_inference"
     " ada_layer_norm residual_norm attention lstm gru rnn selective_scan mamba2 gated_delta_net"
     " log_mel welch_peaks ",
     OT_LONG, LENGTH_NONE},
    {" fft ifft rfft irfft stft ", OT_LONG, LENGTH_ALL},
    {" scatter_add scatter_elements scatter_nd ", OT_ELEMENT, LENGTH_NONE},
};

static const row *find_row(const char *op)
{
    static const row elementwise = {"", OT_ELEMENT, LENGTH_NONE};
    char word[48];
    snprintf(word, sizeof word, " %s ", op);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (strstr(rows[i].ops, word)) return &rows[i];
    }
    return &elementwise;
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
    if (n_in > 1) {
        for (int i = 1; i < in[1].rank; i++) length *= (double)in[1].dims[i];
    }
    return length;
}

static double base_limit(ot_class class, rlx_dtype t)
{
    if (class == OT_ELEMENT) return t == RLX_F32 ? 1e-5 : t == RLX_F16 ? 2e-3 : 1.6e-2;
    return t == RLX_F32 ? 1e-4 : t == RLX_F16 ? 4e-3 : 3e-2;
}

/* The least precise float type that takes part; packed weights do not count. */
static rlx_dtype coarsest(const ot_tensor *in, size_t n_in, const ot_tensor *out)
{
    rlx_dtype worst = rlx_dtype_is_float(out->dtype) ? out->dtype : RLX_F32;
    for (size_t i = 0; i < n_in; i++) {
        const rlx_dtype t = in[i].dtype;
        if (!rlx_dtype_is_float(t)) continue;
        if (t == RLX_BF16 || (t == RLX_F16 && worst == RLX_F32)) worst = t;
    }
    return worst;
}

ot_tolerance ot_tolerance_of(const char *op, const ot_tensor *in, size_t n_in,
                             const ot_tensor *out)
{
    const row *r = find_row(op);
    if (r->class == OT_BITS || !rlx_dtype_is_float(out->dtype)) return (ot_tolerance){OT_BITS, 0};
    if (r->class == OT_EQUAL) return (ot_tolerance){OT_EQUAL, 0};
    const double length = sum_length(r->length, in, n_in, out) / 1024;
    const double growth = length > 1 ? sqrt(length) : 1;
    return (ot_tolerance){r->class, base_limit(r->class, coarsest(in, n_in, out)) * growth};
}

static bool all_finite(const ot_tensor *t)
{
    for (int64_t i = 0; rlx_dtype_is_float(t->dtype) && i < t->elements; i++) {
        if (!isfinite(ot_element(t, i)) || fabs(ot_element(t, i)) > 60000) return false;
    }
    return true;
}

/* Root mean square of a tensor, which may be packed. */
static double rms_of(const ot_tensor *t)
{
    double squares = 0;
    float values[256];
    const int64_t size = rlx_dtype_block_size(t->dtype), bytes = rlx_dtype_block_bytes(t->dtype);
    for (int64_t i = 0; i < t->elements / size; i++) {
        if (size == 1) {
            values[0] = (float)ot_element(t, i);
        } else {
            rlx_to_float(t->dtype, (const char *)t->data + i * bytes, values, size);
        }
        for (int64_t k = 0; k < size; k++) squares += (double)values[k] * values[k];
    }
    return sqrt(squares / fmax(1, (double)t->elements));
}

bool ot_widen_tolerance(ot_tolerance *t, const char *op, const ot_tensor *in, size_t n_in,
                        const ot_tensor *out)
{
    if (t->class != OT_LONG) return true;
    for (size_t i = 0; i < n_in; i++) {
        if (!all_finite(&in[i])) return false;
    }
    if (!all_finite(out)) return false;
    const length_kind kind = find_row(op)->length;
    double scale = rms_of(out);
    if (kind == LENGTH_LAST && n_in > 1) {
        const double length = sum_length(kind, in, n_in, out);
        scale = fmax(scale, sqrt(length) * rms_of(&in[0]) * rms_of(&in[1]));
    }
    t->limit = fmax(t->limit, 0.05 * scale);
    return true;
}

ot_tolerance ot_tolerance_of_graph(const ot_tensor *out)
{
    if (!rlx_dtype_is_float(out->dtype)) return (ot_tolerance){OT_BITS, 0};
    return (ot_tolerance){OT_LONG, out->dtype == RLX_F32 ? 1e-3 : 2e-2};
}

/* ---- Comparison ----------------------------------------------------------------------------- */

static double float_error(double expected, double got, ot_class class)
{
    if (isnan(expected) || isnan(got)) return isnan(expected) && isnan(got) ? 0 : INFINITY;
    if (class == OT_BITS && signbit(expected) != signbit(got)) return INFINITY;
    if (expected == got) return 0;
    if (isinf(expected) || isinf(got) || class == OT_BITS || class == OT_EQUAL) return INFINITY;
    return fabs(got - expected) / fmax(1, fabs(expected));
}

ot_difference ot_compare(const ot_tensor *expected, const ot_tensor *got, ot_tolerance tolerance)
{
    ot_difference d = {.first = -1};
    const bool is_float = rlx_dtype_is_float(expected->dtype);
    const size_t size = (size_t)rlx_dtype_block_bytes(expected->dtype);
    const int64_t n = expected->elements / rlx_dtype_block_size(expected->dtype);
    for (int64_t i = 0; i < n; i++) { /* elements, or blocks of a packed type */
        const char *a = (const char *)expected->data + (size_t)i * size;
        const char *b = (const char *)got->data + (size_t)i * size;
        if (memcmp(a, b, size) == 0) continue;
        const double x = ot_element(expected, i), y = ot_element(got, i);
        const double error = is_float ? float_error(x, y, tolerance.class) : INFINITY;
        if (error > d.worst) d.worst = error;
        if (error <= tolerance.limit) continue;
        if (d.n_bad++ == 0) {
            d.first = i;
            d.expected = x;
            d.got = y;
        }
    }
    return d;
}
