/* SPDX-License-Identifier: MIT */
/* Derivatives of norms and softmax, computed in f32 for halves. Other norms follow from their
 * decompositions. */
#include "ops/grad.h"
#include "ops/lower.h"

static rlx_value mean(rlx_graph *g, rlx_value v, const int64_t *axes, size_t n)
{
    return rlx_reduce(g, RLX_REDUCE_MEAN, v, axes, n, true);
}

/* With h = (x - mean) r and u = dy gamma: dx = r (u - mean(u) - h mean(u h)); in rms_norm no mean
 * is subtracted. */
rlx_status rx_grad_layer_norm(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_norm_desc *d = c->attr;
    const bool rms = c->node->op == RX_OP_rms_norm;
    const int rank = rlx_value_shape(g, c->in[0]).rank;
    const int first = (int)(d->axis < 0 ? d->axis + rank : d->axis);
    const rlx_dtype t = rx_working_type(rlx_value_dtype(g, c->in[0]));
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    for (int i = first; i < rank; i++)
        axes[n++] = i;

    rlx_value x = rx_as_type(g, c->in[0], t), dy = rx_as_type(g, c->dy[0], t);
    const rlx_value gamma = rx_as_type(g, rx_grad_in(c, 1), t);
    if (!rms)
        x = rlx_sub(g, x, mean(g, x, axes, n));
    const rlx_value var = mean(g, rlx_mul(g, x, x), axes, n);
    const rlx_value r = rlx_rsqrt(g, rlx_add(g, var, rx_number_like(g, var, d->eps)));
    const rlx_value h = rlx_mul(g, x, r);
    if (rx_grad_wants(c, 2))
        c->dx[2] = dy;
    if (rx_grad_wants(c, 1))
        c->dx[1] = rlx_mul(g, dy, h);
    if (!rx_grad_wants(c, 0))
        return RLX_OK;
    if (gamma.id)
        dy = rlx_mul(g, dy, gamma);
    const rlx_value along = rlx_mul(g, h, mean(g, rlx_mul(g, dy, h), axes, n));
    if (!rms)
        dy = rlx_sub(g, dy, mean(g, dy, axes, n));
    c->dx[0] = rlx_mul(g, r, rlx_sub(g, dy, along));
    return RLX_OK;
}

static rlx_value row_sum(rlx_graph *g, rlx_value v, int64_t axis)
{
    return rlx_reduce(g, RLX_REDUCE_SUM, v, &axis, 1, true);
}

/* y (dy - sum(dy y)) */
rlx_status rx_grad_softmax(rx_grad *c)
{
    rlx_graph *g = c->g;
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rlx_value y = rx_widen_half(g, c->y), dy = rx_widen_half(g, c->dy[0]);
    c->dx[0] = rlx_mul(g, y, rlx_sub(g, dy, row_sum(g, rlx_mul(g, dy, y), axis)));
    return RLX_OK;
}

/* dy - exp(y) sum(dy) */
rlx_status rx_grad_log_softmax(rx_grad *c)
{
    rlx_graph *g = c->g;
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rlx_value y = rx_widen_half(g, c->y), dy = rx_widen_half(g, c->dy[0]);
    c->dx[0] = rlx_sub(g, dy, rlx_mul(g, rlx_exp(g, y), row_sum(g, dy, axis)));
    return RLX_OK;
}
