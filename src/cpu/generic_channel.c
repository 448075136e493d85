/* SPDX-License-Identifier: MIT */
/* group_norm, instance_norm and batch_norm_inference of dense [N, C, ...]: statistics of a box of
 * neighbouring channels in double, or given ones, then a factor and a shift for each channel. */
#include "cpu/generic_channel.h"

#include <math.h>

#include "cpu/generic.h"
#include "cpu/ref/ref.h"

#define RUN 512

typedef struct channel_run {
    const rx_view *x, *y;
    const rx_view *gamma, *beta, *mean, *var; /* NULL: absent; mean, var: batch_norm only */
    double eps;
    int64_t channels, box, n; /* of x; channels of a box; elements of a channel */
} channel_run;

/* The sum of (x - mean)^power, as eight sums. */
static double run_sum(const float *x, int64_t n, double mean, bool square)
{
    double part[8] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        for (int k = 0; k < 8; k++) {
            const double d = x[i + k] - mean;
            part[k] += square ? d * d : d;
        }
    for (; i < n; i++) {
        const double d = x[i] - mean;
        sum += square ? d * d : d;
    }
    for (int k = 0; k < 8; k++)
        sum += part[k];
    return sum;
}

static double box_sum(const channel_run *r, int64_t first, int64_t n, double mean, bool square)
{
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype);
    float floats[RUN];
    double sum = 0;
    for (int64_t i = 0; i < n; i += RUN) {
        const int64_t k = n - i < RUN ? n - i : RUN;
        rx_load_lanes(r->x->dtype, r->x->data + (first + i) * size, 1, floats, k);
        sum += run_sum(floats, k, mean, square);
    }
    return sum;
}

/* y = (x - mean) * factor + shift for one channel; in double where the factor or differences could
 * leave f32. */
static void apply(const channel_run *r, int64_t first, double mean, double factor, double shift)
{
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype);
    const bool wide = !(fabs(factor) > 0x1p-100 && fabs(factor) < 0x1p100 && fabs(mean) < 0x1p100);
    const float m = (float)mean, f = (float)factor;
    /* with what rounding took from the mean */
    const float s = (float)(shift - (mean - m) * factor);
    float floats[RUN];
    for (int64_t i = 0; i < r->n; i += RUN) {
        const int64_t k = r->n - i < RUN ? r->n - i : RUN, at = (first + i) * size;
        rx_load_lanes(r->x->dtype, r->x->data + at, 1, floats, k);
        if (wide)
            for (int64_t j = 0; j < k; j++)
                floats[j] = (float)((floats[j] - mean) * factor + shift);
        else
            for (int64_t j = 0; j < k; j++)
                floats[j] = (floats[j] - m) * f + s;
        rx_store_lanes(r->y->dtype, r->y->data + at, 1, floats, k);
    }
}

/* Units: boxes. */
static void channel_boxes(void *user, int64_t begin, int64_t end)
{
    const channel_run *r = user;
    const int64_t n = r->box * r->n;
    for (; begin < end; begin++) {
        double mean = 0, var = 0;
        if (!r->var) {
            mean = box_sum(r, begin * n, n, 0, false) / (double)n;
            var = box_sum(r, begin * n, n, mean, true) / (double)n;
        }
        for (int64_t k = 0; k < r->box; k++) {
            const int64_t ch = (begin * r->box + k) % r->channels;
            if (r->var) {
                mean = rx_load(r->mean, ch);
                var = rx_load(r->var, ch);
            }
            const double gamma = r->gamma ? rx_load(r->gamma, ch) : 1;
            const double beta = r->beta ? rx_load(r->beta, ch) : 0;
            apply(r, begin * n + k * r->n, mean, gamma / sqrt(var + r->eps), beta);
        }
    }
}

rlx_status rx_generic_channel_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(x) == 0)
        return RLX_OK;
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *v = rx_call_in(c, i);
        if (v && (!rlx_dtype_is_float(v->dtype) || !rx_view_is_dense(v)))
            return RLX_UNSUPPORTED;
    }
    if (x->dtype != y->dtype)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    channel_run r = {.x = x, .y = y, .gamma = rx_call_in(c, 1), .beta = rx_call_in(c, 2),
                     .mean = rx_call_in(c, 3), .var = rx_call_in(c, 4), .eps = d->eps,
                     .channels = x->dim[1], .box = 1};
    if (c->op == RX_OP_group_norm)
        r.box = r.channels / d->groups;
    r.n = rx_view_elements(x) / x->dim[0] / r.channels;
    const int64_t n = r.box * r.n;
    rx_parallel(c->pool, rx_view_elements(x) / n, (RX_GRAIN + n - 1) / n, channel_boxes, &r);
    return RLX_OK;
}
