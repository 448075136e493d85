/* SPDX-License-Identifier: MIT */
/* Derivatives of operations that move elements: each gradient goes to the element it was copied
 * from; those of one element are summed. */
#include "ops/grad.h"
#include "ops/lower.h"

rlx_status rx_grad_reshape_op(rx_grad *c)
{
    const rlx_shape s = rlx_value_shape(c->g, c->in[0]);
    c->dx[0] = rx_grad_reshape(c->g, c->dy[0], &s);
    return RLX_OK;
}

rlx_status rx_grad_transpose(rx_grad *c)
{
    const rx_perm_attr *d = c->attr;
    int back[RLX_MAX_RANK];
    for (int i = 0; i < d->perm.n; i++)
        back[d->perm.v[i]] = i;
    c->dx[0] = rlx_transpose(c->g, c->dy[0], back);
    return RLX_OK;
}

/* expand and copy: the caller sums. */
rlx_status rx_grad_expand_op(rx_grad *c)
{
    c->dx[0] = c->dy[0];
    return RLX_OK;
}

/* v with zeros before and after it along an axis, so that it has `whole` elements. Sums of named
 * sizes cannot be proven equal, so those scatter instead. */
static rlx_value place(rlx_graph *g, rlx_value v, int64_t axis, rlx_dim start, rlx_dim whole)
{
    const rlx_shape s = rlx_value_shape(g, v);
    const rlx_dim rest = rlx_dim_sub(g, rlx_dim_sub(g, whole, start), s.dim[axis]);
    if (rx_dim_is_number(start) && rx_dim_is_number(rest)) {
        int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
        before[axis] = start;
        after[axis] = rest;
        return start || rest ? rlx_pad(g, v, before, after, RLX_PAD_CONSTANT, 0) : v;
    }
    rlx_shape full = s;
    full.dim[axis] = whole;
    const rlx_value at = rlx_add(g, rx_grad_iota(g, s.dim[axis], 0, 1),
                                 rx_grad_size(g, start, RLX_I32));
    return rlx_scatter_add(g, rx_grad_fill(g, rlx_value_dtype(g, v), &full, 0), at, v, axis);
}

rlx_status rx_grad_narrow(rx_grad *c)
{
    const rx_narrow_attr *d = c->attr;
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]);
    c->dx[0] = place(c->g, c->dy[0], d->axis, d->start, x.dim[d->axis]);
    return RLX_OK;
}

/* One axis after the other; a step other than 1 scatters. */
rlx_status rx_grad_slice(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_slice_desc *d = c->attr;
    const rlx_shape x = rlx_value_shape(g, c->in[0]), y = rlx_value_shape(g, c->y);
    rlx_value v = c->dy[0];
    for (int i = 0; i < d->axes.n; i++) {
        const int64_t axis = d->axes.v[i], step = d->steps.n ? d->steps.v[i] : 1;
        const int64_t start = d->starts.v[i];
        if (step == 1) {
            v = place(g, v, axis, y.dim[axis] ? start : 0, x.dim[axis]);
            continue;
        }
        const rlx_range_desc at = {RLX_INIT(rlx_range_desc), .start = (double)start,
                                   .step = (double)step, .n = y.dim[axis], .out = RLX_I32};
        rlx_shape s = rlx_value_shape(g, v);
        s.dim[axis] = x.dim[axis];
        v = rlx_scatter_add(g, rx_grad_fill(g, rlx_value_dtype(g, v), &s, 0), rlx_range(g, &at), v,
                            axis);
    }
    c->dx[0] = v;
    return RLX_OK;
}

rlx_status rx_grad_concat(rx_grad *c)
{
    const rx_axis_attr *d = c->attr;
    rlx_dim start = 0;
    for (uint32_t i = 0; i < c->node->n_in; i++) {
        const rlx_dim n = rlx_value_shape(c->g, c->in[i]).dim[d->axis];
        if (c->wants[i])
            c->dx[i] = rlx_narrow(c->g, c->dy[0], d->axis, start, n);
        start = rlx_dim_add(c->g, start, n);
    }
    return RLX_OK;
}

rlx_status rx_grad_reverse(rx_grad *c)
{
    const rx_axes_attr *d = c->attr;
    c->dx[0] = rlx_reverse(c->g, c->dy[0], d->axes.v, (size_t)d->axes.n);
    return RLX_OK;
}

rlx_status rx_grad_trilu(rx_grad *c)
{
    const rx_trilu_attr *d = c->attr;
    c->dx[0] = rlx_trilu(c->g, c->dy[0], d->upper, d->k);
    return RLX_OK;
}

/* ---- pad ------------------------------------------------------------------------------------- */

/* The index in 0 .. n-1 that padded index i copies. */
static int64_t source(rlx_pad_mode mode, int64_t i, int64_t n)
{
    if (mode == RLX_PAD_EDGE)
        return i < 0 ? 0 : i >= n ? n - 1 : i;
    const int64_t period = mode == RLX_PAD_WRAP ? n : n > 1 ? 2 * (n - 1) : 1;
    i = (i % period + period) % period;
    return i < n ? i : period - i;
}

/* One axis, padded by copies, as a gather of its elements. */
static rlx_value gather_axis(rx_grad *c, rlx_value v, int axis)
{
    const rx_pad_attr *d = c->attr;
    const int64_t n = rlx_value_shape(c->g, v).dim[axis];
    const int64_t out = rlx_value_shape(c->g, c->y).dim[axis];
    const int64_t before = d->before.v[axis], after = d->after.v[axis];
    const int64_t cut = before < 0 ? -before : 0, left = n - cut + (after < 0 ? after : 0);
    int32_t *index = rx_alloc_array(out + 1, sizeof *index);
    if (!index) {
        rx_graph_fail(c->g, RLX_NO_MEMORY, "rlx_grad: out of memory");
        return RLX_NONE;
    }
    for (int64_t i = 0; i < out; i++)
        index[i] = (int32_t)(cut + source(d->mode, i - (before > 0 ? before : 0), left));
    v = rlx_gather(c->g, v, rx_grad_indices(c->g, index, out), axis);
    rx_free(index);
    return v;
}

rlx_status rx_grad_pad(rx_grad *c)
{
    const rx_pad_attr *d = c->attr;
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]);
    int64_t before[RLX_MAX_RANK], after[RLX_MAX_RANK];
    for (int i = 0; i < x.rank; i++) {
        before[i] = -d->before.v[i];
        after[i] = -d->after.v[i];
    }
    if (d->mode == RLX_PAD_CONSTANT) {
        c->dx[0] = rlx_pad(c->g, c->dy[0], before, after, RLX_PAD_CONSTANT, 0);
        return RLX_OK;
    }
    rlx_value v = c->in[0];
    for (int i = 0; i < x.rank; i++) {
        if (!before[i] && !after[i])
            continue;
        if (!rx_dim_is_number(x.dim[i]))
            return rx_grad_refuse(c, "has no derivative where a named axis is padded by copies");
        v = gather_axis(c, v, i);
    }
    c->via[0] = v;
    return RLX_OK;
}
