/* SPDX-License-Identifier: MIT */
/* Reference kernels of the norms and of the patterns around them. A tensor is divided into boxes
 * (the elements that share statistics), which are read as doubles, normalised and written back:
 *   y = (x - mean) / sqrt(mean of (x - mean)^2 + eps) * gamma? + beta? */
#include <math.h>

#include "cpu/ref/ref.h"

/* Standardises n numbers in place; rms: the mean counts as 0. */
static void standardise(double *x, int64_t n, double eps, bool rms)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < n && !rms; i++)
        mean += x[i] / (double)n;
    for (int64_t i = 0; i < n; i++)
        var += (x[i] - mean) * (x[i] - mean) / (double)n;
    const double factor = 1 / sqrt(var + eps);
    for (int64_t i = 0; i < n; i++)
        x[i] = (x[i] - mean) * factor;
}

/* All elements of a weight as doubles in row-major order; n times `absent` when it is not there.
 * NULL when out of memory. */
static double *load_weight(const rx_call *c, size_t i, int64_t n, double absent)
{
    const rx_view *w = rx_call_in(c, i);
    double *all = rx_call_array(c, n, sizeof *all);
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t j = 0; all && j < n; j++) {
        all[j] = w ? rx_load(w, rx_offset(w, at)) : absent;
        if (w)
            rx_next(at, w->dim, w->rank);
    }
    return all;
}

/* ---- Norms by box ---------------------------------------------------------------------------- */

typedef struct norm {
    int64_t size[RLX_MAX_RANK]; /* of a box, for each axis; divides the tensor */
    double eps;
    bool rms;
    bool by_channel;            /* weights are per channel (axis 1), else per element of a box */
} norm;

/* Normalises the box whose first element is at `origin`. */
static void norm_box(const rx_call *c, const norm *p, const int64_t *origin, double *box,
                     const double *weights[2])
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t x_origin = rx_offset(x, origin), y_origin = rx_offset(y, origin);
    int64_t at[RLX_MAX_RANK] = {0}, n = 0;

    do
        box[n++] = rx_load(x, x_origin + rx_offset(x, at));
    while (rx_next(at, p->size, x->rank));
    standardise(box, n, p->eps, p->rms);

    n = 0;
    do {
        const int64_t w = p->by_channel ? origin[1] + at[1] : n;
        rx_store(y, y_origin + rx_offset(y, at), box[n] * weights[0][w] + weights[1][w]);
        n++;
    } while (rx_next(at, p->size, x->rank));
}

static rlx_status norm_boxes(const rx_call *c, const norm *p)
{
    const rx_view *x = &c->in[0];
    if (rx_view_elements(x) == 0)
        return RLX_OK;

    int64_t n_boxes[RLX_MAX_RANK], origin[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    int64_t n = 1;
    for (int i = 0; i < x->rank; i++) {
        n_boxes[i] = x->dim[i] / p->size[i];
        n *= p->size[i];
    }
    const int64_t n_weights = p->by_channel ? x->dim[1] : n;
    double *box = rx_call_array(c, n, sizeof *box);
    const double *weights[2] = {load_weight(c, 1, n_weights, 1), load_weight(c, 2, n_weights, 0)};
    if (!box || !weights[0] || !weights[1])
        return RLX_NO_MEMORY;
    do {
        for (int i = 0; i < x->rank; i++)
            origin[i] = at[i] * p->size[i];
        norm_box(c, p, origin, box, weights);
    } while (rx_next(at, n_boxes, x->rank));
    return RLX_OK;
}

/* layer_norm, rms_norm: a box is all axes from `axis` on. */
rlx_status rx_ref_layer_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    const int64_t first = d->axis < 0 ? d->axis + x->rank : d->axis;
    norm p = {.eps = d->eps, .rms = c->op == RX_OP_rms_norm};
    for (int i = 0; i < x->rank; i++)
        p.size[i] = i < first ? 1 : x->dim[i];
    return norm_boxes(c, &p);
}

/* A box is, of [N, C, ...]: layer_norm2d all channels of a pixel; group_norm the channels of a
 * group, instance_norm one channel, each with all that follows. */
rlx_status rx_ref_channel_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    norm p = {.eps = d->eps, .by_channel = true};
    p.size[0] = 1;
    p.size[1] = c->op == RX_OP_layer_norm2d ? x->dim[1]
              : c->op == RX_OP_group_norm   ? x->dim[1] / d->groups
                                            : 1;
    for (int i = 2; i < x->rank; i++)
        p.size[i] = c->op == RX_OP_layer_norm2d ? 1 : x->dim[i];
    return norm_boxes(c, &p);
}

/* ---- The others ------------------------------------------------------------------------------ */

/* x [N, C, ...], gamma?, beta?, mean, var: [C]. */
rlx_status rx_ref_batch_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t n = rx_view_elements(x), channels = x->dim[1];
    const double *gamma = load_weight(c, 1, channels, 1), *beta = load_weight(c, 2, channels, 0);
    const double *mean = load_weight(c, 3, channels, 0), *var = load_weight(c, 4, channels, 1);
    if (!gamma || !beta || !mean || !var)
        return RLX_NO_MEMORY;

    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, x->dim, x->rank)) {
        const int64_t ch = at[1];
        const double centred = rx_load(x, rx_offset(x, at)) - mean[ch];
        rx_store(y, i, centred / sqrt(var[ch] + d->eps) * gamma[ch] + beta[ch]);
    }
    return RLX_OK;
}

/* layer_norm(x) * (1 + scale) + shift over the last axis. */
rlx_status rx_ref_ada_layer_norm(const rx_call *c)
{
    const rlx_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const rx_view scale = rx_broadcast_view(&c->in[1], x), shift = rx_broadcast_view(&c->in[2], x);
    if (rx_view_elements(x) == 0)
        return RLX_OK;

    const int64_t n = x->dim[x->rank - 1], rows = rx_view_elements(x) / n;
    double *row = rx_call_array(c, n, sizeof *row);
    if (!row)
        return RLX_NO_MEMORY;
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t r = 0; r < rows; r++) {
        rx_load_row(x, r, row);
        standardise(row, n, d->eps, false);
        for (int64_t i = 0; i < n; i++, rx_next(at, x->dim, x->rank)) {
            const double factor = 1 + rx_load(&scale, rx_offset(&scale, at));
            rx_store(y, r * n + i, row[i] * factor + rx_load(&shift, rx_offset(&shift, at)));
        }
    }
    return RLX_OK;
}

/* x + gate * y. The result may alias an operand: each element is read before the same one is
 * written. */
rlx_status rx_ref_gated_residual(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->in[1], *out = &c->out[0];
    const rx_view gate = rx_broadcast_view(&c->in[2], x);
    const int64_t n = rx_view_elements(x);
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, x->dim, x->rank)) {
        const double gated = rx_load(&gate, rx_offset(&gate, at)) * rx_load(y, rx_offset(y, at));
        rx_store(out, i, rx_load(x, rx_offset(x, at)) + gated);
    }
    return RLX_OK;
}

/* sum = x + residual, rounded to its type; normed = norm(sum) over the last axis. */
rlx_status rx_ref_residual_norm(const rx_call *c)
{
    const rlx_residual_norm_desc *d = c->attr;
    const rx_view *x = &c->in[0], *normed = rx_call_out(c, 0), *sum = rx_call_out(c, 1);
    if (rx_view_elements(x) == 0)
        return RLX_OK;

    const int64_t n = x->dim[x->rank - 1], rows = rx_view_elements(x) / n;
    double *row = rx_call_array(c, n, sizeof *row);
    double *residual = rx_call_array(c, n, sizeof *residual);
    const double *gamma = load_weight(c, 2, n, 1), *beta = load_weight(c, 3, n, 0);
    if (!row || !residual || !gamma || !beta)
        return RLX_NO_MEMORY;
    for (int64_t r = 0; r < rows; r++) {
        rx_load_row(x, r, row);
        rx_load_row(&c->in[1], r, residual);
        for (int64_t i = 0; i < n; i++) {
            row[i] = rx_round_to(x->dtype, row[i] + residual[i]);
            if (sum)
                rx_store(sum, r * n + i, row[i]);
        }
        standardise(row, n, d->eps, d->rms);
        for (int64_t i = 0; i < n && normed; i++)
            rx_store(normed, r * n + i, row[i] * gamma[i] + beta[i]);
    }
    return RLX_OK;
}

/* silu(gate) * up; without up, the two halves of the last axis of gate. */
rlx_status rx_ref_swiglu(const rx_call *c)
{
    const rx_view *out = &c->out[0];
    rx_view gate = c->in[0], up = gate;
    if (rx_call_in(c, 1)) {
        up = c->in[1];
    } else {
        const int last = gate.rank - 1;
        const int64_t half = out->dim[last] * gate.stride[last];
        up.data += half * rlx_dtype_block_bytes(gate.dtype);
    }
    const int64_t n = rx_view_elements(out);
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t i = 0; i < n; i++, rx_next(at, out->dim, out->rank)) {
        const double silu = rx_ref_act(RLX_ACT_SILU, rx_load(&gate, rx_offset(&gate, at)));
        rx_store(out, i, silu * rx_load(&up, rx_offset(&up, at)));
    }
    return RLX_OK;
}
