/* SPDX-License-Identifier: MIT */
/* Derivatives of convolutions, pools, im2col and resizing. Windows of pools and im2col are gathers
 * by constant indices; a resized axis is a product with the matrix of its weights. */
#include <math.h>

#include "ops/grad.h"
#include "ops/lower.h"
#include "ops/resize.h"

enum { MAX_SPATIAL = 3 };

/* ---- Convolutions ---------------------------------------------------------------------------- */

static rlx_conv_desc plain_desc(const rx_grad *c)
{
    rlx_conv_desc d = *(const rlx_conv_desc *)c->attr;
    d.struct_size = sizeof d;
    d.act = RLX_ACT_NONE;
    d.act_last = false;
    return d;
}

static bool is_empty(const rlx_graph *g, rlx_value v)
{
    const rlx_shape s = rlx_value_shape(g, v);
    bool empty = false;
    for (int i = 0; i < s.rank; i++)
        empty |= s.dim[i] == 0;
    return empty;
}

static rlx_value plain_conv(rx_grad *c)
{
    const rlx_conv_desc d = plain_desc(c);
    const int n = c->node->op == RX_OP_conv3d ? 3 : 2;
    return rlx_conv_ex(c->g, n, c->in[0], c->in[1], RLX_NONE, RLX_NONE, &d);
}

static rlx_value plain_transposed(rx_grad *c)
{
    const rlx_conv_desc d = plain_desc(c);
    return rlx_conv_transpose2d(c->g, c->in[0], c->in[1], RLX_NONE, &d);
}

/* Elements at the end of an axis that no window covers; -1 when that depends on a named
 * dimension. */
static int64_t unreached(const rlx_conv_desc *d, int i, int n, rlx_dim size, int64_t kernel)
{
    const int64_t extent = d->dilation.v[i] * (kernel - 1) + 1;
    if (d->stride.v[i] == 1)
        return 0;
    if (!rx_dim_is_number(size))
        return -1;
    return (size + d->pads.v[i] + d->pads.v[n + i] - extent) % d->stride.v[i];
}

/* dx of conv2d: the transposed convolution. */
static rlx_status conv2d_dx(rx_grad *c, rlx_conv_desc d)
{
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]), w = rlx_value_shape(c->g, c->in[1]);
    d.output_pad.n = 2;
    for (int i = 0; i < 2; i++) {
        d.output_pad.v[i] = unreached(&d, i, 2, x.dim[2 + i], w.dim[2 + i]);
        if (d.output_pad.v[i] < 0)
            return rx_grad_refuse(c, "has no derivative where a named axis has a stride");
    }
    const rlx_value dy = rx_as_type(c->g, c->dy[0], rlx_value_dtype(c->g, c->in[1]));
    c->dx[0] = rlx_conv_transpose2d(c->g, dy, c->in[1], RLX_NONE, &d);
    return RLX_OK;
}

/* v with step - 1 zeros between its elements along an axis. */
static rlx_value spread(rlx_graph *g, rlx_value v, int axis, int64_t step)
{
    rlx_shape s = rlx_value_shape(g, v);
    if (step == 1 || s.dim[axis] == 0)
        return v;
    const rlx_range_desc at = {RLX_INIT(rlx_range_desc), .step = (double)step, .n = s.dim[axis],
                               .out = RLX_I32};
    s.dim[axis] = (s.dim[axis] - 1) * step + 1;
    return rlx_scatter_add(g, rx_grad_fill(g, rlx_value_dtype(g, v), &s, 0), rlx_range(g, &at), v,
                           axis);
}

/* w [O, C/G, kernel] as [C, O/G, kernel], flipped along its spatial axes. */
static rlx_value flipped_filters(rlx_graph *g, rlx_value w, int64_t groups, int n)
{
    static const int64_t spatial[] = {2, 3, 4};
    static const int perm[] = {0, 2, 1, 3, 4, 5};
    const rlx_shape s = rlx_value_shape(g, w);
    rlx_dim split[2 + MAX_SPATIAL + 1] = {groups, s.dim[0] / groups, s.dim[1]};
    rlx_dim joined[2 + MAX_SPATIAL] = {groups * s.dim[1], s.dim[0] / groups};
    for (int i = 0; i < n; i++)
        split[3 + i] = joined[2 + i] = s.dim[2 + i];
    w = rlx_transpose(g, rlx_reshape(g, w, n + 3, split), perm);
    return rlx_reverse(g, rlx_reshape(g, w, n + 2, joined), spatial, (size_t)n);
}

/* dx of conv3d: dy, zero-stuffed by the strides and padded, convolved with the flipped filters. */
static rlx_status conv3d_dx(rx_grad *c, rlx_conv_desc d)
{
    rlx_graph *g = c->g;
    const rlx_shape x = rlx_value_shape(g, c->in[0]), w = rlx_value_shape(g, c->in[1]);
    int64_t before[5] = {0}, after[5] = {0};
    rlx_value dy = rx_as_type(g, c->dy[0], rlx_value_dtype(g, c->in[1]));
    for (int i = 0; i < 3; i++) {
        const int64_t reach = d.dilation.v[i] * (w.dim[2 + i] - 1);
        const int64_t rest = unreached(&d, i, 3, x.dim[2 + i], w.dim[2 + i]);
        if (rest < 0)
            return rx_grad_refuse(c, "has no derivative where a named axis has a stride");
        before[2 + i] = reach - d.pads.v[i];
        after[2 + i] = reach - d.pads.v[3 + i] + rest;
        dy = spread(g, dy, 2 + i, d.stride.v[i]);
    }
    dy = rlx_pad(g, dy, before, after, RLX_PAD_CONSTANT, 0);
    const rlx_conv_desc back = {RLX_INIT(rlx_conv_desc), .dilation = d.dilation,
                                .groups = d.groups};
    c->dx[0] = rlx_conv3d(g, dy, flipped_filters(g, c->in[1], d.groups, 3), RLX_NONE, &back);
    return RLX_OK;
}

/* dw [O, C/G, kh, kw]: dy [N, G, O/G, P] times the columns of x [N, G, C/G kh kw, P], summed over
 * N. */
static rlx_value conv2d_dw(rlx_graph *g, const rlx_conv_desc *d, rlx_value x, rlx_value dy,
                           const rlx_shape *w)
{
    const rlx_shape y = rlx_value_shape(g, dy);
    const rlx_im2col_desc windows = {RLX_INIT(rlx_im2col_desc), .kernel = {2, {w->dim[2],
        w->dim[3]}}, .stride = d->stride, .dilation = d->dilation, .pads = d->pads};
    const rlx_dim places = rlx_dim_mul(g, y.dim[2], y.dim[3]);
    const int64_t taps = w->dim[1] * w->dim[2] * w->dim[3];
    const rlx_dim columns[] = {y.dim[0], d->groups, taps, places};
    const rlx_dim rows[] = {y.dim[0], d->groups, w->dim[0] / d->groups, places};
    const rlx_matmul_desc transposed = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    x = rlx_reshape(g, rlx_im2col(g, x, &windows), 4, columns);
    const rlx_value dw = rlx_matmul_ex(g, rlx_reshape(g, dy, 4, rows), x, RLX_NONE, RLX_NONE,
                                       &transposed);
    const int64_t batch = 0;
    return rx_grad_reshape(g, rlx_reduce(g, RLX_REDUCE_SUM, dw, &batch, 1, false), w);
}

/* dw by a convolution of x, its batch as channels, with dy as filters; stride and dilation are
 * exchanged. */
static rlx_value conv3d_dw(rlx_graph *g, const rlx_conv_desc *d, rlx_value x, rlx_value dy,
                           const rlx_shape *w)
{
    static const int channels_first[] = {2, 1, 0, 3, 4, 5}, exchanged[] = {1, 0, 2, 3, 4};
    const rlx_shape s = rlx_value_shape(g, x);
    const rlx_dim split[] = {s.dim[0], d->groups, w->dim[1], s.dim[2], s.dim[3], s.dim[4]};
    const rlx_dim joined[] = {w->dim[1], rlx_dim_mul(g, s.dim[0], d->groups), s.dim[2], s.dim[3],
                              s.dim[4]};
    x = rlx_transpose(g, rlx_reshape(g, x, 6, split), channels_first);
    x = rlx_reshape(g, x, 5, joined);
    const rlx_conv_desc swapped = {RLX_INIT(rlx_conv_desc), .stride = d->dilation,
                                   .dilation = d->stride, .pads = d->pads, .groups = d->groups};
    rlx_value dw = rlx_conv3d(g, x, rlx_transpose(g, dy, exchanged), RLX_NONE, &swapped);
    for (int i = 0; i < 3; i++)
        dw = rlx_narrow(g, dw, 2 + i, 0, w->dim[2 + i]);
    return rlx_transpose(g, dw, exchanged);
}

rlx_status rx_grad_conv(rx_grad *c)
{
    const rlx_conv_desc *attr = c->attr, d = plain_desc(c);
    const bool is_3d = c->node->op == RX_OP_conv3d;
    if (rx_grad_epilogue(c, 2, is_3d ? -4 : -3, attr->act, attr->act_last, plain_conv))
        return RLX_OK;
    if (is_empty(c->g, c->in[0]) || is_empty(c->g, c->y))
        return RLX_OK;
    const rlx_shape w = rlx_value_shape(c->g, c->in[1]), x = rlx_value_shape(c->g, c->in[0]);
    if (is_3d && rx_grad_wants(c, 1) && !rx_shape_is_fixed(&x))
        return rx_grad_refuse(c, "has no derivative by its filters where an axis is named");
    if (rx_grad_wants(c, 1))
        c->dx[1] = (is_3d ? conv3d_dw : conv2d_dw)(c->g, &d, c->in[0], c->dy[0], &w);
    if (rx_grad_wants(c, 0))
        return is_3d ? conv3d_dx(c, d) : conv2d_dx(c, d);
    return RLX_OK;
}

/* The roles of x and y are exchanged. output_pad reduces the padding at the end; elements of y
 * beyond that belong to no window. */
rlx_status rx_grad_conv_transpose2d(rx_grad *c)
{
    rlx_graph *g = c->g;
    rlx_conv_desc d = plain_desc(c);
    if (rx_grad_epilogue(c, 2, -3, ((const rlx_conv_desc *)c->attr)->act, false, plain_transposed))
        return RLX_OK;
    if (is_empty(g, c->in[0]) || is_empty(g, c->y))
        return RLX_OK;
    const rlx_shape x = rlx_value_shape(g, c->in[0]), w = rlx_value_shape(g, c->in[1]);
    rlx_value dy = c->dy[0];
    for (int i = 0; i < 2; i++) {
        const rlx_dim n = rlx_value_shape(g, dy).dim[2 + i];
        int64_t *end = &d.pads.v[2 + i];
        *end -= d.output_pad.n ? d.output_pad.v[i] : 0;
        if (*end < 0)
            dy = rlx_narrow(g, dy, 2 + i, 0, rlx_dim_sub(g, n, -*end));
        *end = *end < 0 ? 0 : *end;
    }
    d.output_pad.n = 0;
    if (rx_grad_wants(c, 1))
        c->dx[1] = conv2d_dw(g, &d, dy, c->in[0], &w);
    if (rx_grad_wants(c, 0)) {
        c->dx[0] = rlx_conv2d(g, dy, c->in[1], RLX_NONE, &d);
        for (int i = 0; i < 2; i++)
            if (rlx_value_shape(g, c->dx[0]).dim[2 + i] != x.dim[2 + i])
                c->dx[0] = rlx_narrow(g, c->dx[0], 2 + i, 0, x.dim[2 + i]);
    }
    return RLX_OK;
}

/* ---- Windows --------------------------------------------------------------------------------- */

typedef struct windows {
    int n;
    int64_t in[MAX_SPATIAL], out[MAX_SPATIAL], kernel[MAX_SPATIAL];
    const int64_t *stride, *dilation, *before; /* after: before + n */
    int64_t taps, places;
    int32_t *index;  /* [taps, places]: element index, 0 where there is none */
    uint8_t *inside; /* [taps, places] */
    float *padded;   /* [places]: elements of x and its padding in the window */
} windows;

static void next_place(int64_t *at, const int64_t *size, int n)
{
    for (int i = n; i-- > 0;) {
        if (++at[i] < size[i])
            return;
        at[i] = 0;
    }
}

static void fill_windows(windows *w)
{
    int64_t tap[MAX_SPATIAL] = {0};
    for (int64_t t = 0; t < w->taps; t++, next_place(tap, w->kernel, w->n)) {
        int64_t place[MAX_SPATIAL] = {0};
        for (int64_t p = 0; p < w->places; p++, next_place(place, w->out, w->n)) {
            int64_t index = 0;
            bool inside = true, padded = true;
            for (int i = 0; i < w->n; i++) {
                const int64_t x = place[i] * w->stride[i] + tap[i] * w->dilation[i] - w->before[i];
                inside &= x >= 0 && x < w->in[i];
                padded &= x < w->in[i] + w->before[w->n + i];
                index = index * w->in[i] + x;
            }
            w->index[t * w->places + p] = inside ? (int32_t)index : 0;
            w->inside[t * w->places + p] = inside;
            w->padded[p] += padded;
        }
    }
}

/* The windows of x [N, C, spatial..] as [N, C, taps, places], `outside` where there is no
 * element. */
static rlx_value take_windows(rlx_graph *g, rlx_value x, const windows *w, double outside,
                              rlx_value *inside)
{
    const rlx_shape s = rlx_value_shape(g, x);
    int64_t area = 1;
    for (int i = 0; i < w->n; i++)
        area *= w->in[i];
    const rlx_dim flat[] = {s.dim[0], s.dim[1], area}, cut[] = {s.dim[0], s.dim[1], w->taps,
                                                                 w->places};
    const rlx_dim mask[] = {w->taps, w->places};
    const int64_t n = w->taps * w->places;
    x = rlx_gather(g, rlx_reshape(g, x, 3, flat), rx_grad_indices(g, w->index, n), 2);
    *inside = rlx_constant(g, RLX_BOOL, 2, mask, w->inside, (size_t)n);
    return rlx_where(g, *inside, rlx_reshape(g, x, 4, cut), rx_number_like(g, x, outside));
}

static rlx_status open_windows(rx_grad *c, windows *w, const rlx_shape *out, const rlx_ints *kernel)
{
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]);
    w->n = x.rank - 2;
    w->taps = w->places = 1;
    for (int i = 0; i < w->n; i++) {
        if (!rx_dim_is_number(x.dim[2 + i]))
            return rx_grad_refuse(c, "has no derivative where a spatial axis is named");
        w->in[i] = x.dim[2 + i];
        w->out[i] = out->dim[2 + i];
        w->kernel[i] = kernel->v[i];
        w->taps *= w->kernel[i];
        w->places *= w->out[i];
    }
    const int64_t n = w->taps * w->places;
    w->index = rx_alloc_array_zero(n + 1, sizeof *w->index);
    w->inside = rx_alloc_array_zero(n + 1, sizeof *w->inside);
    w->padded = rx_alloc_array_zero(w->places + 1, sizeof *w->padded);
    if (!w->index || !w->inside || !w->padded)
        return rx_graph_fail(c->g, RLX_NO_MEMORY, "rlx_grad: out of memory");
    fill_windows(w);
    return RLX_OK;
}

static void close_windows(windows *w)
{
    rx_free(w->index);
    rx_free(w->inside);
    rx_free(w->padded);
}

/* v [.., taps, places] of a pool, all of its elements in one window when global. */
static rlx_value pooled(rlx_graph *g, const rlx_pool_desc *d, rlx_value v, rlx_value inside,
                        rlx_value divisor)
{
    const int64_t taps = 2;
    if (d->kind == RLX_POOL_MAX)
        return rlx_reduce(g, RLX_REDUCE_MAX, v, &taps, 1, false);
    if (d->kind == RLX_POOL_AVERAGE)
        return rlx_div(g, rlx_reduce(g, RLX_REDUCE_SUM, v, &taps, 1, false), divisor);
    const double p = d->p ? (double)d->p : 2;
    v = rlx_pow(g, rlx_abs(g, v), rx_number_like(g, v, p));
    if (inside.id)
        v = rx_grad_keep(g, inside, v);
    v = rlx_reduce(g, RLX_REDUCE_SUM, v, &taps, 1, false);
    const rlx_value some = rlx_gt(g, v, rx_number_like(g, v, 0));
    v = rlx_where(g, some, v, rx_number_like(g, v, 1)); /* the root of 0 has no derivative */
    return rx_grad_keep(g, some, rlx_pow(g, v, rx_number_like(g, v, 1 / p)));
}

static rlx_value window_divisor(rlx_graph *g, const windows *w, bool with_padding, rlx_dtype t)
{
    const rlx_value padded = rlx_constant(g, RLX_F32, 1, (rlx_dim[]){w->places}, w->padded,
                                          (size_t)w->places * sizeof *w->padded);
    if (with_padding)
        return rx_as_type(g, padded, t);
    for (int64_t p = 0; p < w->places; p++) {
        w->padded[p] = 0;
        for (int64_t k = 0; k < w->taps; k++)
            w->padded[p] += w->inside[k * w->places + p];
        w->padded[p] = w->padded[p] > 0 ? w->padded[p] : 1;
    }
    const rlx_value n = rlx_constant(g, RLX_F32, 1, (rlx_dim[]){w->places}, w->padded,
                                     (size_t)w->places * sizeof *w->padded);
    return rx_as_type(g, n, t);
}

static void global_pool(rx_grad *c, const rlx_pool_desc *d)
{
    rlx_graph *g = c->g;
    const rlx_shape s = rlx_value_shape(g, c->in[0]), y = rlx_value_shape(g, c->y);
    const rlx_dim area = rx_shape_product(g, &s, 2, s.rank);
    const rlx_dim flat[] = {s.dim[0], s.dim[1], area};
    const rlx_value x = rlx_reshape(g, rx_widen_half(g, c->in[0]), 3, flat);
    const rlx_value n = rx_grad_size(g, area, rlx_value_dtype(g, x));
    const rlx_value v = pooled(g, d, x, RLX_NONE, n);
    c->via[0] = rx_as_type(g, rx_grad_reshape(g, v, &y), rlx_value_dtype(g, c->y));
}

rlx_status rx_grad_pool(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_pool_desc *d = c->attr;
    const rlx_shape y = rlx_value_shape(g, c->y);
    if (d->kernel.n == 0) {
        global_pool(c, d);
        return RLX_OK;
    }
    windows w = {.stride = d->stride.v, .dilation = d->dilation.v, .before = d->pads.v};
    rlx_status s = open_windows(c, &w, &y, &d->kernel);
    if (s == RLX_OK) {
        rlx_value inside;
        const rlx_value x = rx_widen_half(g, c->in[0]);
        const double outside = d->kind == RLX_POOL_MAX ? -INFINITY : 0;
        const rlx_value v = take_windows(g, x, &w, outside, &inside);
        const rlx_value n = window_divisor(g, &w, d->count_include_pad, rlx_value_dtype(g, x));
        c->via[0] = rx_as_type(g, rx_grad_reshape(g, pooled(g, d, v, inside, n), &y),
                               rlx_value_dtype(g, c->y));
    }
    close_windows(&w);
    return s;
}

rlx_status rx_grad_im2col(rx_grad *c)
{
    const rlx_im2col_desc *d = c->attr;
    const rlx_shape x = rlx_value_shape(c->g, c->in[0]), y = rlx_value_shape(c->g, c->y);
    rlx_shape out = {.rank = 4};
    for (int i = 0; i < 2; i++) {
        const int64_t extent = d->dilation.v[i] * (d->kernel.v[i] - 1) + 1;
        const int64_t room = x.dim[2 + i] + d->pads.v[i] + d->pads.v[2 + i] - extent;
        out.dim[2 + i] = room < 0 ? 0 : room / d->stride.v[i] + 1;
    }
    windows w = {.stride = d->stride.v, .dilation = d->dilation.v, .before = d->pads.v};
    const rlx_status s = open_windows(c, &w, &out, &d->kernel);
    if (s == RLX_OK) {
        rlx_value inside;
        c->via[0] = rx_grad_reshape(c->g, take_windows(c->g, c->in[0], &w, 0, &inside), &y);
    }
    close_windows(&w);
    return s;
}

/* ---- resize ---------------------------------------------------------------------------------- */

/* Weights [out, in] of one axis. */
static rlx_value axis_weights(rx_grad *c, const rx_resize_axis *m, rlx_dtype t)
{
    double *row = rx_alloc_array(m->in * m->out + 1, sizeof *row);
    if (!row) {
        rx_graph_fail(c->g, RLX_NO_MEMORY, "rlx_grad: out of memory");
        return RLX_NONE;
    }
    for (int64_t x = 0; x < m->out; x++)
        rx_resize_weights(m, x, row + x * m->in);
    const rlx_dim dims[] = {m->out, m->in};
    const rlx_value w = rlx_constant(c->g, RLX_F64, 2, dims, row,
                                     (size_t)(m->in * m->out) * sizeof *row);
    rx_free(row);
    return rx_as_type(c->g, w, t);
}

rlx_status rx_grad_resize(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_shape s = rlx_value_shape(g, c->in[0]), y = rlx_value_shape(g, c->y);
    const rlx_matmul_desc transposed = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_value v = rx_widen_half(g, c->in[0]);
    for (int i = 0; i < s.rank; i++) {
        const rx_resize_axis m = {c->attr, i, s.rank, s.dim[i], y.dim[i]};
        if (s.dim[i] == y.dim[i] && rx_resize_is_unchanged(&m))
            continue;
        if (!rx_dim_is_number(s.dim[i]) || !rx_dim_is_number(y.dim[i]))
            return rx_grad_refuse(c, "has no derivative where a resized axis is named");
        int perm[RLX_MAX_RANK];
        for (int k = 0; k < s.rank; k++)
            perm[k] = k == i ? s.rank - 1 : k == s.rank - 1 ? i : k;
        v = rlx_transpose(g, v, perm);
        if (s.rank == 1)
            v = rlx_unsqueeze(g, v, 0);
        v = rlx_matmul_ex(g, v, axis_weights(c, &m, rlx_value_dtype(g, v)), RLX_NONE, RLX_NONE,
                          &transposed);
        v = s.rank == 1 ? rlx_squeeze(g, v, 0) : rlx_transpose(g, v, perm);
    }
    c->via[0] = rx_as_type(g, v, rlx_value_dtype(g, c->y));
    return RLX_OK;
}
