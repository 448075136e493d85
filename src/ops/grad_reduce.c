/* SPDX-License-Identifier: MIT */
/* Derivatives of reductions, scans and selections. */
#include "ops/grad.h"
#include "ops/lower.h"

static uint32_t axis_set(const rx_grad *c)
{
    const rx_reduce_attr *d = c->attr;
    const int rank = rlx_value_shape(c->g, c->in[0]).rank;
    uint32_t set = d->axes.n ? 0 : (1u << rank) - 1;
    for (int i = 0; i < d->axes.n; i++)
        set |= 1u << d->axes.v[i];
    return set;
}

/* v, a result of the reduction, with the reduced axes as size 1. */
static rlx_value keep(const rx_grad *c, rlx_value v)
{
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]);
    return rx_grad_keep_axes(c->g, v, &x, axis_set(c));
}

static rlx_value count(const rx_grad *c, rlx_dtype t)
{
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]);
    const uint32_t set = axis_set(c);
    rlx_value n = rlx_scalar(c->g, t, 1);
    for (int i = 0; i < x.rank; i++)
        if (set >> i & 1)
            n = rlx_mul(c->g, n, rx_grad_size(c->g, x.dim[i], t));
    return n;
}

rlx_status rx_grad_reduce_sum(rx_grad *c)
{
    rlx_graph *g = c->g;
    rlx_value dy = keep(c, rx_widen_half(g, c->dy[0]));
    if (c->node->op == RX_OP_reduce_mean)
        dy = rlx_div(g, dy, count(c, rlx_value_dtype(g, dy)));
    c->dx[0] = dy;
    return RLX_OK;
}

/* Elements that equal the result share the derivative. */
rlx_status rx_grad_reduce_max(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rx_reduce_attr *d = c->attr;
    const rlx_value dy = keep(c, rx_widen_half(g, c->dy[0]));
    const rlx_value hit = rlx_eq(g, c->in[0], keep(c, c->y));
    const rlx_value n = rlx_reduce(g, RLX_REDUCE_SUM, rlx_cast(g, hit, rlx_value_dtype(g, dy)),
                                   d->axes.v, (size_t)d->axes.n, true);
    c->dx[0] = rx_grad_keep(g, hit, rlx_div(g, dy, n));
    return RLX_OK;
}

/* dy x / y, zero where the norm is. */
rlx_status rx_grad_reduce_l2(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_value y = keep(c, rx_widen_half(g, c->y)), dy = keep(c, rx_widen_half(g, c->dy[0]));
    const rlx_value some = rlx_gt(g, y, rx_number_like(g, y, 0));
    const rlx_value by = rlx_where(g, some, y, rx_number_like(g, y, 1));
    c->dx[0] = rlx_mul(g, rx_widen_half(g, c->in[0]), rlx_div(g, rx_grad_keep(g, some, dy), by));
    return RLX_OK;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* Moves the axes of `set` to the end; back[] is the inverse permutation. */
static rlx_value axes_last(rlx_graph *g, rlx_value v, uint32_t set, int back[RLX_MAX_RANK])
{
    const int rank = rlx_value_shape(g, v).rank;
    int perm[RLX_MAX_RANK], n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < rank; i++)
            if ((int)(set >> i & 1) == pass)
                perm[n++] = i;
    for (int i = 0; i < rank; i++)
        back[perm[i]] = i;
    return rlx_transpose(g, v, perm);
}

/* For each element the product of all others: exclusive prefix times exclusive suffix. */
static rlx_value others(rlx_graph *g, rlx_value x)
{
    rlx_cum_desc d = {RLX_INIT(rlx_cum_desc), .axis = -1, .exclusive = true};
    const rlx_value before = rlx_cumprod(g, x, &d);
    d.reverse = true;
    return rlx_mul(g, before, rlx_cumprod(g, x, &d));
}

rlx_status rx_grad_reduce_prod(rx_grad *c)
{
    rlx_graph *g = c->g;
    int back[RLX_MAX_RANK];
    const uint32_t set = axis_set(c);
    rlx_value x = axes_last(g, rx_widen_half(g, c->in[0]), set, back);
    const rlx_shape moved = rlx_value_shape(g, x);
    const int kept = moved.rank - __builtin_popcount(set);
    rlx_shape flat = {.rank = kept + 1};
    for (int i = 0; i < kept; i++)
        flat.dim[i] = moved.dim[i];
    flat.dim[kept] = rx_shape_product(g, &moved, kept, moved.rank);
    if (flat.rank > RLX_MAX_RANK)
        return rx_grad_refuse(c, "has no derivative by 0 of 8 axes");
    x = rx_grad_reshape(g, others(g, rx_grad_reshape(g, x, &flat)), &moved);
    c->dx[0] = rlx_mul(g, keep(c, rx_widen_half(g, c->dy[0])), rlx_transpose(g, x, back));
    return RLX_OK;
}

rlx_status rx_grad_cumsum(rx_grad *c)
{
    rlx_cum_desc d = *(const rlx_cum_desc *)c->attr;
    d.struct_size = sizeof d;
    d.reverse = !d.reverse;
    c->dx[0] = rlx_cumsum(c->g, c->dy[0], &d);
    return RLX_OK;
}

/* Each result is the product of a row of [n, n] in which later elements count as 1. */
rlx_status rx_grad_cumprod(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_cum_desc *d = c->attr;
    int back[RLX_MAX_RANK];
    const rlx_value x = axes_last(g, rx_widen_half(g, c->in[0]), 1u << d->axis, back);
    const rlx_shape s = rlx_value_shape(g, x);
    if (s.rank == RLX_MAX_RANK)
        return rx_grad_refuse(c, "has no derivative for tensors of %d axes", RLX_MAX_RANK);
    const rlx_value i = rx_grad_iota(g, s.dim[s.rank - 1], 0, 2);
    const rlx_value j = rx_grad_iota(g, s.dim[s.rank - 1], 1, 2);
    const rlx_value from = d->reverse ? i : j, to = d->reverse ? j : i;
    const rlx_value seen = d->exclusive ? rlx_lt(g, from, to) : rlx_le(g, from, to);
    const rlx_value rows = rlx_where(g, seen, rlx_unsqueeze(g, x, -2), rx_number_like(g, x, 1));
    const int64_t last = -1;
    const rlx_value y = rlx_reduce(g, RLX_REDUCE_PROD, rows, &last, 1, false);
    c->via[0] = rx_as_type(g, rlx_transpose(g, y, back), rlx_value_dtype(g, c->y));
    return RLX_OK;
}

/* ---- Selections ------------------------------------------------------------------------------ */

/* The derivative goes to the element that was largest so far: the last of equal ones. */
rlx_status rx_grad_cummax(rx_grad *c)
{
    rlx_graph *g = c->g;
    rlx_cum_desc d = *(const rlx_cum_desc *)c->attr;
    const rlx_value x = c->in[0];
    const rlx_shape s = rlx_value_shape(g, x);
    const rlx_dim n = s.dim[d.axis], rest = rlx_dim_sub(g, n, d.exclusive ? 1 : 0);
    rlx_value dy = rx_widen_half(g, c->dy[0]);
    const bool exclusive = d.exclusive;
    d.struct_size = sizeof d;
    d.exclusive = false;
    rlx_value place = rx_grad_iota(g, n, (int)d.axis, s.rank);
    place = d.reverse ? rlx_neg(g, place) : place;
    const rlx_value hit = rlx_eq(g, x, exclusive ? rlx_cummax(g, x, &d) : c->y);
    place = rlx_where(g, hit, place, rlx_scalar(g, RLX_I32, -0x40000000));
    place = rlx_abs(g, rlx_cummax(g, place, &d));
    if (exclusive) {
        dy = rlx_narrow(g, dy, d.axis, d.reverse ? 0 : 1, rest);
        place = rlx_narrow(g, place, d.axis, d.reverse ? 1 : 0, rest);
    }
    const rlx_value zeros = rx_grad_fill(g, rlx_value_dtype(g, dy), &s, 0);
    c->dx[0] = rlx_scatter_elements(g, zeros, place, dy, d.axis, RLX_SCATTER_ADD);
    return RLX_OK;
}

static rlx_status scatter_back(rx_grad *c, int64_t axis)
{
    if (c->dy[0].id)
        c->dx[0] = rlx_scatter_elements(c->g, rx_grad_zeros_like(c->g, c->in[0]),
                                        rx_result(c->y, 1), c->dy[0], axis, RLX_SCATTER_ADD);
    return RLX_OK;
}

rlx_status rx_grad_top_k(rx_grad *c)
{
    return scatter_back(c, ((const rlx_topk_desc *)c->attr)->axis);
}

rlx_status rx_grad_knn(rx_grad *c)
{
    return scatter_back(c, 1);
}
