/* SPDX-License-Identifier: MIT */
/* Reference pools. A window without elements inside the input gives the lowest value (max) or 0. */
#include <math.h>

#include "cpu/ref/window.h"

/* Whether a tap is inside the padded input, where averages that include the padding count it. */
static bool is_in_padded(const rx_slide *s, const int64_t *at, const int64_t *tap)
{
    for (int i = 0; i < RX_SPATIAL; i++) {
        const int64_t p = rx_slide_place(s, at, tap, i);
        if (p < -s->begin[i] || p >= s->in[i] + s->end[i])
            return false;
    }
    return true;
}

static double average_at(const rx_slide *s, const double *x, const int64_t *at, bool with_pad)
{
    int64_t tap[RX_SPATIAL] = {0}, n = 0;
    double sum = 0;
    do {
        const int64_t i = rx_slide_index(s, at, tap);
        if (i >= 0)
            sum += x[i];
        if (i >= 0 || (with_pad && is_in_padded(s, at, tap)))
            n++;
    } while (rx_next(tap, s->kernel, RX_SPATIAL));
    return n ? sum / (double)n : 0;
}

/* NaN if any element is NaN. */
static double max_at(const rx_slide *s, const double *x, const int64_t *at)
{
    int64_t tap[RX_SPATIAL] = {0};
    double best = -INFINITY;
    do {
        const int64_t i = rx_slide_index(s, at, tap);
        if (i >= 0 && (x[i] > best || isnan(x[i])))
            best = x[i];
        if (isnan(best))
            break;
    } while (rx_next(tap, s->kernel, RX_SPATIAL));
    return best;
}

/* max (sum (|x| / max)^p)^(1/p): scaled by the maximum, powers do not overflow and the sum is at
 * least 1. */
static double lp_at(const rx_slide *s, const double *x, const int64_t *at, double p)
{
    int64_t tap[RX_SPATIAL] = {0};
    double sum = 0, max = 0;
    do {
        const int64_t i = rx_slide_index(s, at, tap);
        if (i >= 0 && (fabs(x[i]) > max || isnan(x[i])))
            max = fabs(x[i]);
        if (isnan(max))
            return max;
    } while (rx_next(tap, s->kernel, RX_SPATIAL));
    if (max == 0 || isinf(max))
        return max;
    do {
        const int64_t i = rx_slide_index(s, at, tap);
        if (i >= 0)
            sum += pow(fabs(x[i]) / max, p);
    } while (rx_next(tap, s->kernel, RX_SPATIAL));
    return max * pow(sum, 1 / p);
}

static double pool_at(const rlx_pool_desc *d, const rx_slide *s, const double *x, const int64_t *at)
{
    switch (d->kind) {
    case RLX_POOL_AVERAGE: return average_at(s, x, at, d->count_include_pad);
    case RLX_POOL_LP: return lp_at(s, x, at, (double)d->p);
    default: return max_at(s, x, at);
    }
}

/* pool1d, pool2d, pool3d */
rlx_status rx_ref_pool(const rx_call *c)
{
    const rlx_pool_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->pads};
    const bool global = d->kernel.n == 0;
    const rx_slide s = rx_make_slide(x, y, global ? x->dim + 2 : d->kernel.v, lists);
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    const double *all = rx_load_all(c, x, 0);
    if (!all)
        return RLX_NO_MEMORY;
    const int64_t area = rx_product3(s.in);
    int64_t to = 0;
    for (int64_t channel = 0; channel < y->dim[0] * y->dim[1]; channel++) {
        int64_t at[RX_SPATIAL] = {0};
        do
            rx_store(y, to++, pool_at(d, &s, all + channel * area, at));
        while (rx_next(at, s.out, RX_SPATIAL));
    }
    return RLX_OK;
}
