/* SPDX-License-Identifier: MIT */
/* Kernels that work row by row: softmax and log_softmax on any axis, layer_norm and rms_norm. A row
 * is read to f32 lanes of the thread that works on it, so results may overwrite operands. */
#include <math.h>

#include "cpu/generic.h"
#include "cpu/generic_math.h"
#include "cpu/pool.h"
#include "cpu/ref/ref.h"

/* Sums in eight parts: a fixed order, so the result does not depend on vectorisation. */
#define PARTS 8

static double sum_lanes(const float *x, int64_t n)
{
    double part[PARTS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++)
            part[k] += x[i + k];
    for (; i < n; i++)
        part[0] += x[i];
    for (int k = 0; k < PARTS; k++)
        sum += part[k];
    return sum;
}

static double sum_squares(const float *x, float mean, int64_t n)
{
    double part[PARTS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++) {
            const double d = x[i + k] - mean;
            part[k] += d * d;
        }
    for (; i < n; i++)
        part[0] += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int k = 0; k < PARTS; k++)
        sum += part[k];
    return sum;
}

/* Rows handed to a thread at a time: about RX_GRAIN elements. */
static int64_t row_grain(int64_t n)
{
    int64_t rows = RX_GRAIN / (n > 0 ? n : 1);
    return rows > 0 ? rows : 1;
}

/* A row of lanes for each thread, n floats each, each on its own cache lines. */
static float *thread_rows(const rx_call *c, int64_t n, int64_t *stride)
{
    *stride = (n + 15) & ~(int64_t)15;
    return rx_call_array(c, *stride * rx_pool_n_threads(c->pool), sizeof(float));
}

/* ---- Softmax --------------------------------------------------------------------------------- */

typedef struct softmax_run {
    rx_view x, y;              /* without the axis */
    rlx_dtype dtype;
    int64_t n, x_step, y_step; /* along the axis */
    bool logarithm;
    float *rows;
    int64_t row_stride;
} softmax_run;

/* The maximum; a NaN wins, and so makes the whole row NaN. */
static float largest(const float *x, int64_t n)
{
    float part[PARTS], max;
    for (int k = 0; k < PARTS; k++)
        part[k] = -INFINITY;
    int64_t i = 0;
    for (; i + PARTS <= n; i += PARTS)
        for (int k = 0; k < PARTS; k++)
            part[k] = x[i + k] > part[k] || x[i + k] != x[i + k] ? x[i + k] : part[k];
    for (; i < n; i++)
        part[0] = x[i] > part[0] || x[i] != x[i] ? x[i] : part[0];
    max = part[0];
    for (int k = 1; k < PARTS; k++)
        max = isnan(max) || part[k] <= max ? max : part[k];
    return max;
}

/* The sum of exponentials without one of those equal to 1 (the maximum), which would absorb small
 * ones. */
static double sum_of_others(float *e, int64_t n)
{
    int64_t n_ones = 0;
    for (int64_t i = 0; i < n; i++) {
        n_ones += e[i] == 1;
        e[i] = e[i] == 1 ? 0 : e[i];
    }
    return sum_lanes(e, n) + (double)(n_ones - 1);
}

static void softmax_lanes(float *x, float *e, int64_t n, bool logarithm)
{
    const float max = largest(x, n);
    if (max == -INFINITY) {
        for (int64_t i = 0; i < n; i++)
            x[i] = logarithm ? -INFINITY : 0;
        return;
    }
    for (int64_t i = 0; i < n; i++)
        e[i] = rx_lane_exp(x[i] - max);
    if (logarithm) {
        const float log_sum = (float)log1p(sum_of_others(e, n));
        for (int64_t i = 0; i < n; i++)
            x[i] = x[i] - max - log_sum;
        return;
    }
    const float factor = (float)(1 / sum_lanes(e, n));
    for (int64_t i = 0; i < n; i++)
        x[i] = e[i] * factor;
}

static void softmax_range(void *user, int64_t begin, int64_t end)
{
    const softmax_run *r = user;
    int64_t size = rlx_dtype_block_bytes(r->dtype), at[RLX_MAX_RANK];
    float *row = r->rows + rx_pool_slot() * r->row_stride;
    float *room = r->logarithm ? row + r->row_stride / 2 : row;
    rx_unravel(begin, r->x.dim, r->x.rank, at);
    for (; begin < end; begin++) {
        rx_load_lanes(r->dtype, r->x.data + rx_offset(&r->x, at) * size, r->x_step, row, r->n);
        softmax_lanes(row, room, r->n, r->logarithm);
        rx_store_lanes(r->dtype, r->y.data + rx_offset(&r->y, at) * size, r->y_step, row, r->n);
        rx_next(at, r->x.dim, r->x.rank);
    }
}

rlx_status rx_generic_softmax(const rx_call *c)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(x) == 0)
        return RLX_OK;
    softmax_run r = {.x = *x, .y = *y, .dtype = x->dtype, .n = x->dim[axis],
                     .x_step = x->stride[axis], .y_step = y->stride[axis],
                     .logarithm = c->op == RX_OP_log_softmax};
    if (!rlx_dtype_is_float(x->dtype) || x->dtype != y->dtype)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    r.x.dim[axis] = r.y.dim[axis] = 1;
    /* log_softmax keeps the row beside its exponentials. */
    r.rows = thread_rows(c, r.logarithm ? 2 * ((r.n + 15) & ~(int64_t)15) : r.n, &r.row_stride);
    if (!r.rows)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, rx_view_elements(&r.x), row_grain(r.n), softmax_range, &r);
    return RLX_OK;
}

/* ---- layer_norm, rms_norm -------------------------------------------------------------------- */

typedef struct norm_run {
    const rx_view *x, *y;
    const float *gamma, *beta; /* NULL: absent */
    int64_t n;
    double eps;
    bool rms;
    float *rows;
    int64_t row_stride;
} norm_run;

/* In double: a row whose squares, differences or factor over- or underflow f32. */
static void norm_lanes_wide(const norm_run *r, float *x)
{
    const double n = (double)r->n;
    double mean = 0, var = 0;
    for (int64_t i = 0; !r->rms && i < r->n; i++)
        mean += x[i] / n;
    for (int64_t i = 0; i < r->n; i++)
        var += (x[i] - mean) * (x[i] - mean) / n;
    const double factor = 1 / sqrt(var + r->eps);
    for (int64_t i = 0; i < r->n; i++) {
        const double v = (x[i] - mean) * factor * (r->gamma ? r->gamma[i] : 1);
        x[i] = (float)(v + (r->beta ? r->beta[i] : 0));
    }
}

static void norm_lanes(const norm_run *r, float *x)
{
    const double exact = r->rms ? 0 : sum_lanes(x, r->n) / (double)r->n;
    const float mean = (float)exact;
    const double lost = exact - mean; /* by rounding the mean */
    const double var = sum_squares(x, mean, r->n) / (double)r->n - lost * lost + r->eps;
    if (!(var > 0x1p-100 && var < 0x1p200)) {
        norm_lanes_wide(r, x);
        return;
    }
    const float factor = (float)(1 / sqrt(var)), rest = (float)(lost / sqrt(var));
    for (int64_t i = 0; i < r->n; i++)
        x[i] = (x[i] - mean) * factor - rest;
    for (int64_t i = 0; r->gamma && i < r->n; i++)
        x[i] *= r->gamma[i];
    for (int64_t i = 0; r->beta && i < r->n; i++)
        x[i] += r->beta[i];
}

static void norm_range(void *user, int64_t begin, int64_t end)
{
    const norm_run *r = user;
    int64_t x_size = rlx_dtype_block_bytes(r->x->dtype);
    int64_t y_size = rlx_dtype_block_bytes(r->y->dtype);
    float *row = r->rows + rx_pool_slot() * r->row_stride;
    for (; begin < end; begin++) {
        rx_load_lanes(r->x->dtype, r->x->data + begin * r->n * x_size, 1, row, r->n);
        norm_lanes(r, row);
        rx_store_lanes(r->y->dtype, r->y->data + begin * r->n * y_size, 1, row, r->n);
    }
}

/* Operand i as floats, in *to; NULL stays NULL for an absent one. */
static rlx_status load_weight(const rx_call *c, size_t i, int64_t n, const float **to)
{
    const rx_view *w = rx_call_in(c, i);
    if (!w)
        return RLX_OK;
    if (!rlx_dtype_is_float(w->dtype) || !rx_view_is_dense(w))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    float *lanes = rx_call_array(c, n, sizeof *lanes);
    if (!lanes)
        return RLX_NO_MEMORY;
    rx_load_lanes(w->dtype, w->data, 1, lanes, n);
    *to = lanes;
    return RLX_OK;
}

rlx_status rx_generic_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(x) == 0)
        return RLX_OK;
    if (!rlx_dtype_is_float(x->dtype) || !rlx_dtype_is_float(y->dtype) || !rx_view_is_dense(x))
        return RLX_UNSUPPORTED;
    norm_run r = {.x = x, .y = y, .n = 1, .eps = d->eps, .rms = c->op == RX_OP_rms_norm};
    int first = (int)(d->axis < 0 ? d->axis + x->rank : d->axis);
    for (int i = first; i < x->rank; i++)
        r.n *= x->dim[i];
    RLX_TRY(load_weight(c, 1, r.n, &r.gamma));
    RLX_TRY(load_weight(c, 2, r.n, &r.beta));
    if (c->probe)
        return RLX_OK;
    r.rows = thread_rows(c, r.n, &r.row_stride);
    if (!r.rows)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, rx_view_elements(x) / r.n, row_grain(r.n), norm_range, &r);
    return RLX_OK;
}
