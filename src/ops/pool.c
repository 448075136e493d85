/* SPDX-License-Identifier: MIT */
/* Pooling and resizing: builders, shape rules, decompositions. The batch and the spatial axes may
 * be named dimensions. */
#include <math.h>

#include "ops/lower.h"
#include "ops/window.h"

#define DEFAULT_CUBIC_A (-0.75)

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_pool1d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d)
{
    return rx_graph_add(g, RX_OP_pool1d, &x, 1, d, NULL);
}

rlx_value rlx_pool2d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d)
{
    return rx_graph_add(g, RX_OP_pool2d, &x, 1, d, NULL);
}

rlx_value rlx_pool3d(rlx_graph *g, rlx_value x, const rlx_pool_desc *d)
{
    return rx_graph_add(g, RX_OP_pool3d, &x, 1, d, NULL);
}

rlx_value rlx_resize_nearest_2x(rlx_graph *g, rlx_value x)
{
    return rx_graph_add(g, RX_OP_resize_nearest_2x, &x, 1, NULL, NULL);
}

rlx_value rlx_resize(rlx_graph *g, rlx_value x, const rlx_resize_desc *d)
{
    return rx_graph_add(g, RX_OP_resize, &x, 1, d, NULL);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

/* The kind, the types it takes and the attributes that only some kinds have. */
static rlx_status check_pool_kind(rx_infer *c, rlx_pool_desc *d)
{
    uint64_t types = RX_REALS;
    if ((int)d->kind < RLX_POOL_MAX || d->kind > RLX_POOL_LP)
        return rx_infer_fail(c, "kind expected one of rlx_pool_kind, got %d", (int)d->kind);
    if (d->kind == RLX_POOL_MAX)
        types |= RX_T(RLX_I8) | RX_T(RLX_U8);
    RLX_TRY(rx_check_type(c, 0, "x", types));
    if (d->kind != RLX_POOL_AVERAGE)
        d->count_include_pad = false;
    if (d->kind == RLX_POOL_LP && d->p == 0)
        d->p = 2;
    if (d->kind == RLX_POOL_LP ? d->p >= 1 : d->p == 0)
        return RLX_OK;
    return rx_infer_fail(c, "p expected %s, got %lld",
                         d->kind == RLX_POOL_LP ? "to be at least 1" : "only with kind=lp",
                         (long long)d->p);
}

/* Global pooling: the result has size 1 on each spatial axis. */
static rlx_status infer_global_pool(rx_infer *c, rlx_pool_desc *d, int n)
{
    if (d->stride.n || d->dilation.n || d->pads.n)
        return rx_infer_fail(c, "stride, dilation and pads expected only with a kernel: without "
                             "one the pool is global");
    rlx_shape s = c->in[0]->shape;
    for (int i = 0; i < n; i++)
        s.dim[2 + i] = 1;
    d->ceil_mode = d->count_include_pad = false;
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

/* x [N, C, spatial..] */
rlx_status rx_infer_pool(rx_infer *c)
{
    rlx_pool_desc *d = c->attr;
    const int n = c->op == RX_OP_pool1d ? 1 : c->op == RX_OP_pool2d ? 2 : 3;

    RLX_TRY(check_pool_kind(c, d));
    RLX_TRY(rx_check_rank(c, 0, "x", n + 2, n + 2));
    if (d->kernel.n == 0)
        return infer_global_pool(c, d, n);
    RLX_TRY(rx_check_list(c, "kernel", &d->kernel, n, 1, 1));
    const rx_window window = {n, d->kernel.v, &d->stride, &d->dilation, &d->pads, d->ceil_mode};
    RLX_TRY(rx_check_window(c, &window));
    for (int i = 0; i < 2 * n; i++) {
        const int64_t extent = d->dilation.v[i % n] * (d->kernel.v[i % n] - 1) + 1;
        if (d->pads.v[i] >= extent)
            return rx_infer_fail(c, "pads entry %d expected to be less than the %lld elements of "
                                 "the window, got %lld", i, (long long)extent,
                                 (long long)d->pads.v[i]);
    }
    rlx_shape s = c->in[0]->shape;
    RLX_TRY(rx_window_sizes(c, &window, s.dim + 2));
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

/* [N, C, W] is [N, C, 1, W]. */
rlx_status rx_lower_pool1d(rx_lower *c)
{
    const rlx_pool_desc *from = c->attr;
    rlx_pool_desc d = *from;
    d.kernel = rx_add_axis(&from->kernel, 1);
    d.stride = rx_add_axis(&from->stride, 1);
    d.dilation = rx_add_axis(&from->dilation, 1);
    d.pads = rx_add_axis(&from->pads, 0);
    const rlx_value y = rlx_pool2d(c->g, rlx_unsqueeze(c->g, c->in[0], 2), &d);
    c->out[0] = rlx_squeeze(c->g, y, 2);
    return RLX_OK;
}

/* ---- Resizing -------------------------------------------------------------------------------- */

rlx_status rx_infer_resize_2x(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(rx_check_rank(c, 0, "x", 4, 4));
    rlx_shape s = c->in[0]->shape;
    s.dim[2] = rlx_dim_mul(c->g, s.dim[2], 2);
    s.dim[3] = rlx_dim_mul(c->g, s.dim[3], 2);
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

/* [N,C,H,W] as [N,C,H,1,W,1], expanded to [N,C,H,2,W,2], read as [N,C,2H,2W]. */
rlx_status rx_lower_resize_2x(rx_lower *c)
{
    const rlx_shape s = rlx_value_shape(c->g, c->in[0]);
    rlx_dim split[] = {s.dim[0], s.dim[1], s.dim[2], 1, s.dim[3], 1};
    const rlx_dim joined[] = {s.dim[0], s.dim[1], rlx_dim_mul(c->g, s.dim[2], 2),
                              rlx_dim_mul(c->g, s.dim[3], 2)};
    const rlx_value x = rlx_reshape(c->g, c->in[0], 6, split);
    split[3] = split[5] = 2;
    c->out[0] = rlx_reshape(c->g, rlx_expand(c->g, x, 6, split), 4, joined);
    return RLX_OK;
}

static rlx_status check_choice(rx_infer *c, const char *what, int got, int last)
{
    if (got >= 0 && got <= last)
        return RLX_OK;
    return rx_infer_fail(c, "%s expected from 0 to %d, got %d", what, last, got);
}

/* Enumerators, and attributes that only some modes have. */
static rlx_status check_resize_mode(rx_infer *c, rlx_resize_desc *d)
{
    RLX_TRY(check_choice(c, "mode", (int)d->mode, RLX_RESIZE_CUBIC));
    RLX_TRY(check_choice(c, "coord", (int)d->coord, RLX_COORD_TF_CROP_AND_RESIZE));
    RLX_TRY(check_choice(c, "nearest", (int)d->nearest, RLX_NEAREST_CEIL));
    if (d->mode == RLX_RESIZE_CUBIC && d->cubic_a == 0)
        d->cubic_a = DEFAULT_CUBIC_A;
    if (d->mode == RLX_RESIZE_CUBIC ? !isfinite(d->cubic_a) : d->cubic_a != 0)
        return rx_infer_fail(c, "cubic_a expected to be finite and only with mode=cubic, got %g",
                             d->cubic_a);
    if (d->mode == RLX_RESIZE_NEAREST && d->antialias)
        return rx_infer_fail(c, "antialias expected only with mode=linear or mode=cubic");
    if (d->mode == RLX_RESIZE_NEAREST)
        d->exclude_outside = false;
    return RLX_OK;
}

/* Scales are positive; starts and ends of the region are there for tf_crop_and_resize alone, and
 * are 0 and 1 where both are 0. */
static rlx_status check_resize_numbers(rx_infer *c, rlx_resize_desc *d, int rank)
{
    for (int i = 0; i < RLX_MAX_RANK; i++)
        if (!(d->scale[i] >= 0) || !isfinite(d->scale[i]) || (i >= rank && d->scale[i] != 0))
            return rx_infer_fail(c, "scale expected as %d finite numbers above 0, got %g for axis "
                                 "%d", rank, d->scale[i], i);
    const bool crop = d->coord == RLX_COORD_TF_CROP_AND_RESIZE;
    for (int i = 0; i < 2 * RLX_MAX_RANK; i++)
        if (!isfinite(d->roi[i]) || ((!crop || i >= 2 * rank) && d->roi[i] != 0))
            return rx_infer_fail(c, "roi expected as %d finite numbers, only with "
                                 "coord=tf_crop_and_resize, got entry %d = %g", 2 * rank, i,
                                 d->roi[i]);
    if (!crop && d->extrapolation != 0)
        return rx_infer_fail(c, "extrapolation expected only with coord=tf_crop_and_resize, got %g",
                             d->extrapolation);
    for (int i = 0; crop && i < rank; i++)
        if (d->roi[i] == 0 && d->roi[rank + i] == 0)
            d->roi[rank + i] = 1;
    return RLX_OK;
}

rlx_status rx_infer_resize(rx_infer *c)
{
    rlx_resize_desc *d = c->attr;

    RLX_TRY(check_resize_mode(c, d));
    RLX_TRY(rx_check_type(c, 0, "x", d->mode == RLX_RESIZE_NEAREST ? RX_PLAIN : RX_REALS));
    const rx_value *x = c->in[0];
    RLX_TRY(check_resize_numbers(c, d, x->shape.rank));
    if (d->sizes.n != x->shape.rank)
        return rx_infer_fail(c, "sizes expected with %d entries, one for each axis of x, got %d",
                             x->shape.rank, d->sizes.n);
    rlx_shape s = {.rank = x->shape.rank};
    for (int i = 0; i < s.rank; i++) {
        s.dim[i] = d->sizes.v[i];
        if (s.dim[i] == -1)
            return rx_infer_fail(c, "sizes entry %d expected to be at least 0, got -1", i);
        if (x->shape.dim[i] == 0 && s.dim[i] != 0)
            return rx_infer_fail(c, "sizes entry %d expected to be 0, as axis %d of x is empty", i,
                                 i);
    }
    rx_out(c, 0, x->dtype, &s);
    return RLX_OK;
}
