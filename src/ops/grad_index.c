/* SPDX-License-Identifier: MIT */
/* Derivatives of gathering and scattering. Indices have no derivative; gradients of one element are
 * summed in f32. */
#include "ops/grad.h"
#include "ops/lower.h"

static rlx_value zeros_for(rx_grad *c, rlx_value x)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    return rx_grad_fill(c->g, rx_working_type(rlx_value_dtype(c->g, x)), &s, 0);
}

static rlx_value working(rx_grad *c, rlx_value v)
{
    return rx_widen_half(c->g, v);
}

/* Gathers whole slices, with the axes of the index merged into one. */
rlx_status rx_grad_gather(rx_grad *c)
{
    rlx_graph *g = c->g;
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    const rlx_shape index = rlx_value_shape(g, c->in[1]);
    rlx_shape s = rlx_value_shape(g, c->in[0]);
    s.dim[axis] = rx_shape_product(g, &index, 0, index.rank);
    const rlx_value at = rlx_reshape(g, c->in[1], 1, &s.dim[axis]);
    const rlx_value dy = rx_grad_reshape(g, working(c, c->dy[0]), &s);
    c->dx[0] = rlx_scatter_add(g, zeros_for(c, c->in[0]), at, dy, axis);
    return RLX_OK;
}

rlx_status rx_grad_gather_elements(rx_grad *c)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    c->dx[0] = rlx_scatter_elements(c->g, zeros_for(c, c->in[0]), c->in[1], working(c, c->dy[0]),
                                    axis, RLX_SCATTER_ADD);
    return RLX_OK;
}

/* With batch axes, the batch number is prepended to the index. */
rlx_status rx_grad_gather_nd(rx_grad *c)
{
    rlx_graph *g = c->g;
    const int n_batch = (int)((const rx_gather_nd_attr *)c->attr)->batch_dims;
    rlx_value parts[RLX_MAX_RANK + 1];
    rlx_shape s = rlx_value_shape(g, c->in[1]);
    s.dim[s.rank - 1] = 1;
    for (int i = 0; i < n_batch; i++)
        parts[i] = rx_as_type(g, rx_grad_expand(g, rx_grad_iota(g, s.dim[i], i, s.rank), &s),
                              rlx_value_dtype(g, c->in[1]));
    parts[n_batch] = c->in[1];
    const rlx_value index = n_batch ? rlx_concat(g, parts, (size_t)n_batch + 1, s.rank - 1)
                                    : c->in[1];
    c->dx[0] = rlx_scatter_nd(g, zeros_for(c, c->in[0]), index, working(c, c->dy[0]),
                              RLX_SCATTER_ADD);
    return RLX_OK;
}

/* ---- scatter_elements, scatter_nd ------------------------------------------------------------ */

static rlx_value take(rx_grad *c, rlx_value v)
{
    const rx_scatter_attr *d = c->attr;
    if (c->node->op == RX_OP_scatter_nd)
        return rlx_gather_nd(c->g, v, c->in[1], 0);
    return rlx_gather_elements(c->g, v, c->in[1], d->axis);
}

static rlx_value put(rx_grad *c, rlx_value v, rlx_value update, rlx_scatter_mode mode)
{
    const rx_scatter_attr *d = c->attr;
    if (c->node->op == RX_OP_scatter_nd)
        return rlx_scatter_nd(c->g, v, c->in[1], update, mode);
    return rlx_scatter_elements(c->g, v, c->in[1], update, d->axis, mode);
}

/* Only the update that was written last has a derivative; updates are numbered to find it. */
static void by_replacing(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_shape x = rlx_value_shape(g, c->in[0]), u = rlx_value_shape(g, c->in[2]);
    const rlx_dim n = rx_shape_product(g, &u, 0, u.rank);
    const rlx_value ids = rx_grad_reshape(g, rx_grad_iota(g, n, 0, 1), &u);
    if (c->wants[0])
        c->dx[0] = put(c, c->dy[0], rx_grad_zeros_like(g, c->in[2]), RLX_SCATTER_NONE);
    if (!c->wants[2])
        return;
    const rlx_value owner = put(c, rx_grad_fill(g, RLX_I32, &x, -1), ids, RLX_SCATTER_NONE);
    c->dx[2] = rx_grad_keep(g, rlx_eq(g, take(c, owner), ids), take(c, c->dy[0]));
}

/* min, max: updates equal to the result share the derivative. */
static void by_choosing(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_value dy = working(c, c->dy[0]);
    const rlx_dtype t = rlx_value_dtype(g, dy);
    const rlx_value hit_x = rlx_cast(g, rlx_eq(g, c->in[0], c->y), t);
    const rlx_value hit_u = rlx_cast(g, rlx_eq(g, c->in[2], take(c, c->y)), t);
    const rlx_value share = rlx_div(g, dy, put(c, hit_x, hit_u, RLX_SCATTER_ADD));
    c->dx[0] = rlx_mul(g, hit_x, share);
    c->dx[2] = rlx_mul(g, hit_u, take(c, share));
}

/* The product of the others at the place: without zeros among them, the result over the update;
 * beside one zero it is that of the others for this zero, and 0 for the others. */
static void by_multiplying(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_value dy = working(c, c->dy[0]), x = working(c, c->in[0]), u = working(c, c->in[2]);
    const rlx_dtype t = rlx_value_dtype(g, dy);
    if (c->wants[0])
        c->dx[0] = put(c, dy, u, RLX_SCATTER_MUL);
    if (!c->wants[2])
        return;
    const rlx_value zero = rlx_scalar(g, t, 0), one = rlx_scalar(g, t, 1);
    const rlx_value zero_x = rlx_eq(g, x, zero), zero_u = rlx_eq(g, u, zero);
    const rlx_value other = rlx_where(g, zero_u, one, u);
    const rlx_value product = put(c, rlx_where(g, zero_x, one, x), other, RLX_SCATTER_MUL);
    const rlx_value own = rlx_cast(g, zero_u, t);
    const rlx_value zeros = put(c, rlx_cast(g, zero_x, t), own, RLX_SCATTER_ADD);
    const rlx_value d = rlx_div(g, take(c, rlx_mul(g, dy, product)), other);
    c->dx[2] = rx_grad_keep(g, rlx_eq(g, take(c, zeros), own), d);
}

rlx_status rx_grad_scatter(rx_grad *c)
{
    const rx_scatter_attr *d = c->attr;
    if (d->mode == RLX_SCATTER_NONE) {
        by_replacing(c);
    } else if (d->mode == RLX_SCATTER_ADD) {
        c->dx[0] = c->dy[0];
        if (c->wants[2])
            c->dx[2] = take(c, c->dy[0]);
    } else if (d->mode == RLX_SCATTER_MUL) {
        by_multiplying(c);
    } else {
        by_choosing(c);
    }
    return RLX_OK;
}

rlx_status rx_grad_scatter_add(rx_grad *c)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    c->dx[0] = c->dy[0];
    if (c->wants[2])
        c->dx[2] = rlx_gather(c->g, c->dy[0], c->in[1], axis);
    return RLX_OK;
}
