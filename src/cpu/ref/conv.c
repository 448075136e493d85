/* SPDX-License-Identifier: MIT */
/* Reference convolutions: each element of the result is one sum in double, over channels and then
 * over the taps of the filter. Integer convolutions use the same sums: products of 8-bit numbers
 * add up exactly in a double. */
#include "cpu/ref/window.h"

#include <math.h>

double *rx_load_all(const rx_call *c, const rx_view *v, double zero)
{
    const int64_t n = rx_view_elements(v);
    double *all = rx_call_array(c, n ? n : 1, sizeof *all);
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; all && i < n; i++, rx_next(at, v->dim, v->rank))
        all[i] = rx_load(v, rx_offset(v, at)) - zero;
    return all;
}

typedef struct conv {
    rx_slide slide;
    int64_t channels, filters; /* of a group: inputs, outputs */
    const double *x;           /* the first channel of an image and group */
    const double *w;           /* the first filter of a group */
} conv;

/* Element `at` of the result of filter o: w is [filters, channels, kernel..]. */
static double conv_at(const conv *p, int64_t o, const int64_t *at)
{
    const int64_t area = rx_product3(p->slide.in), taps = rx_product3(p->slide.kernel);
    double sum = 0;
    for (int64_t ch = 0; ch < p->channels; ch++) {
        const double *x = p->x + ch * area, *w = p->w + (o * p->channels + ch) * taps;
        int64_t tap[RX_SPATIAL] = {0};
        do {
            const int64_t i = rx_slide_index(&p->slide, at, tap);
            if (i >= 0)
                sum += x[i] * *w;
            w++;
        } while (rx_next(tap, p->slide.kernel, RX_SPATIAL));
    }
    return sum;
}

/* The element of x that contributes to element `at` of a transposed convolution through tap `tap`,
 * or -1. */
static int64_t transposed_index(const rx_slide *s, const int64_t *at, const int64_t *tap)
{
    int64_t index = 0;
    for (int i = 0; i < RX_SPATIAL; i++) {
        const int64_t p = at[i] + s->begin[i] - tap[i] * s->dilation[i];
        if (p < 0 || p % s->stride[i] != 0 || p / s->stride[i] >= s->in[i])
            return -1;
        index = index * s->in[i] + p / s->stride[i];
    }
    return index;
}

/* The same for a transposed convolution: w is [channels, filters, kernel..]. */
static double transposed_at(const conv *p, int64_t o, const int64_t *at)
{
    const int64_t area = rx_product3(p->slide.in), taps = rx_product3(p->slide.kernel);
    double sum = 0;
    for (int64_t ch = 0; ch < p->channels; ch++) {
        const double *x = p->x + ch * area, *w = p->w + (ch * p->filters + o) * taps;
        int64_t tap[RX_SPATIAL] = {0};
        do {
            const int64_t i = transposed_index(&p->slide, at, tap);
            if (i >= 0)
                sum += x[i] * *w;
            w++;
        } while (rx_next(tap, p->slide.kernel, RX_SPATIAL));
    }
    return sum;
}

/* Applies the epilogue to the sum for element i (row-major) of the result, of filter o. */
typedef void store_fn(const rx_call *c, int64_t i, int64_t o, double sum);

typedef struct job {
    const rx_slide *slide;
    int64_t groups;
    double x_zero, w_zero;
    double (*sum_at)(const conv *p, int64_t o, const int64_t *at);
    store_fn *store;
} job;

/* Walks over the result [N, O, spatial..]. */
static rlx_status run(const rx_call *c, const job *j)
{
    const rx_view *x = &c->in[0], *w = &c->in[1], *y = &c->out[0];
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    const double *all_x = rx_load_all(c, x, j->x_zero), *all_w = rx_load_all(c, w, j->w_zero);
    if (!all_x || !all_w)
        return RLX_NO_MEMORY;

    conv p = {.slide = *j->slide};
    p.channels = x->dim[1] / j->groups;
    p.filters = y->dim[1] / j->groups;
    const int64_t x_group = p.channels * rx_product3(p.slide.in);
    const int64_t w_group = p.channels * p.filters * rx_product3(p.slide.kernel);
    int64_t i = 0;
    for (int64_t group = 0; group < y->dim[0] * j->groups; group++) {
        p.x = all_x + group * x_group;
        p.w = all_w + group % j->groups * w_group;
        for (int64_t o = 0; o < p.filters; o++) {
            const int64_t filter = group % j->groups * p.filters + o;
            int64_t at[RX_SPATIAL] = {0};
            do
                j->store(c, i++, filter, j->sum_at(&p, o, at));
            while (rx_next(at, p.slide.out, RX_SPATIAL));
        }
    }
    return RLX_OK;
}

/* act(sum + bias) + residual, or act(sum + bias + residual). */
static void store_float(const rx_call *c, int64_t i, int64_t o, double sum)
{
    const rlx_conv_desc *d = c->attr;
    const rx_view *y = &c->out[0], *bias = rx_call_in(c, 2), *residual = rx_call_in(c, 3);
    double add = 0;
    if (bias)
        sum += rx_load(bias, o * bias->stride[0]);
    if (residual) {
        int64_t at[RLX_MAX_RANK];
        rx_unravel(i, y->dim, y->rank, at);
        add = rx_load(residual, rx_offset(residual, at));
    }
    rx_store(y, i, d->act_last ? rx_ref_act(d->act, sum + add) : rx_ref_act(d->act, sum) + add);
}

/* The sum wraps to i32. Requantisation is arithmetic of f32, as in qmatmul. */
static void store_quantised(const rx_call *c, int64_t i, int64_t o, double sum)
{
    const rlx_qconv_desc *d = c->attr;
    const rx_view *y = &c->out[0], *scale = rx_call_in(c, 2), *bias = rx_call_in(c, 3);
    int64_t total = (int64_t)sum;
    if (bias)
        total += rx_load_int(bias, o * bias->stride[0]);
    if (!scale) {
        rx_store_int(y, i, total);
        return;
    }
    const float factor = (float)rx_load(scale, scale->rank ? o * scale->stride[0] : 0);
    const float product = (float)rx_wrap_to(RLX_I32, total) * factor;
    rx_store(y, i, (double)rintf(product) + (double)d->y_zero);
}

/* conv1d, conv2d, conv3d */
rlx_status rx_ref_conv(const rx_call *c)
{
    const rlx_conv_desc *d = c->attr;
    const rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->pads};
    const rx_slide slide = rx_make_slide(&c->in[0], &c->out[0], c->in[1].dim + 2, lists);
    return run(c, &(job){&slide, d->groups, 0, 0, conv_at, store_float});
}

rlx_status rx_ref_conv_transpose2d(const rx_call *c)
{
    const rlx_conv_desc *d = c->attr;
    const rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->pads};
    const rx_slide slide = rx_make_slide(&c->in[0], &c->out[0], c->in[1].dim + 2, lists);
    return run(c, &(job){&slide, d->groups, 0, 0, transposed_at, store_float});
}

rlx_status rx_ref_qconv2d(const rx_call *c)
{
    const rlx_qconv_desc *d = c->attr;
    const rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->pads};
    const rx_slide slide = rx_make_slide(&c->in[0], &c->out[0], c->in[1].dim + 2, lists);
    return run(c, &(job){&slide, d->groups, (double)d->x_zero, (double)d->w_zero, conv_at,
                         store_quantised});
}

/* [N,C,H,W] -> [N, C*kh*kw, oh*ow]: row (c, i, j) has the element of channel c under tap (i, j) of
 * each window; 0 in the padding. */
rlx_status rx_ref_im2col(const rx_call *c)
{
    const rlx_im2col_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rlx_ints *const lists[] = {&d->stride, &d->dilation, &d->pads};
    rx_slide s = rx_make_slide(x, NULL, d->kernel.v, lists);
    if (rx_view_elements(y) == 0)
        return RLX_OK;
    for (int i = 1; i < RX_SPATIAL; i++) {
        const int64_t extent = s.dilation[i] * (s.kernel[i] - 1) + 1;
        s.out[i] = (s.in[i] + s.begin[i] + s.end[i] - extent) / s.stride[i] + 1;
    }
    const int64_t taps = rx_product3(s.kernel);
    int64_t to = 0;
    for (int64_t row = 0; row < x->dim[0] * x->dim[1] * taps; row++) {
        int64_t tap[RX_SPATIAL], at[RX_SPATIAL] = {0};
        rx_unravel(row % taps, s.kernel, RX_SPATIAL, tap);
        const int64_t channel = row / taps % x->dim[1], image = row / taps / x->dim[1];
        const int64_t first = image * x->stride[0] + channel * x->stride[1];
        do {
            if (rx_slide_index(&s, at, tap) < 0)
                rx_store_int(y, to++, 0);
            else
                rx_copy_element(y, to++, x,
                                first + rx_slide_place(&s, at, tap, 1) * x->stride[2] +
                                    rx_slide_place(&s, at, tap, 2) * x->stride[3]);
        } while (rx_next(at, s.out, RX_SPATIAL));
    }
    return RLX_OK;
}
