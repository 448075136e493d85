/* SPDX-License-Identifier: MIT */
/* Convolutions and im2col: builders, shape rules, decompositions. The batch and the spatial axes
 * may be named dimensions; channels and filters have fixed sizes. */
#include "ops/lower.h"
#include "ops/matrix.h"
#include "ops/window.h"

/* Largest stride, dilation, padding or kernel: keeps the arithmetic on sizes far from overflow. */
#define MAX_STEP ((int64_t)1 << 30)

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_conv_ex(rlx_graph *g, int n_spatial, rlx_value x, rlx_value w, rlx_value bias,
                      rlx_value residual, const rlx_conv_desc *d)
{
    static const rx_op ops[] = {RX_OP_conv1d, RX_OP_conv2d, RX_OP_conv3d};
    const rlx_value in[] = {x, w, bias, residual};
    if (n_spatial < 1 || n_spatial > 3) {
        rx_graph_fail(g, RLX_INVALID, "conv: expected 1 to 3 spatial axes, got %d", n_spatial);
        return RLX_NONE;
    }
    return rx_graph_add(g, ops[n_spatial - 1], in, 4, d, NULL);
}

rlx_value rlx_conv1d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                     const rlx_conv_desc *d)
{
    return rlx_conv_ex(g, 1, x, w, bias, RLX_NONE, d);
}

rlx_value rlx_conv2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                     const rlx_conv_desc *d)
{
    return rlx_conv_ex(g, 2, x, w, bias, RLX_NONE, d);
}

rlx_value rlx_conv3d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                     const rlx_conv_desc *d)
{
    return rlx_conv_ex(g, 3, x, w, bias, RLX_NONE, d);
}

rlx_value rlx_conv_transpose2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value bias,
                               const rlx_conv_desc *d)
{
    const rlx_value in[] = {x, w, bias};
    return rx_graph_add(g, RX_OP_conv_transpose2d, in, 3, d, NULL);
}

rlx_value rlx_qconv2d(rlx_graph *g, rlx_value x, rlx_value w, rlx_value scale, rlx_value bias,
                      const rlx_qconv_desc *d)
{
    const rlx_value in[] = {x, w, scale, bias};
    return rx_graph_add(g, RX_OP_qconv2d, in, 4, d, NULL);
}

rlx_value rlx_im2col(rlx_graph *g, rlx_value x, const rlx_im2col_desc *d)
{
    return rx_graph_add(g, RX_OP_im2col, &x, 1, d, NULL);
}

/* ---- Windows --------------------------------------------------------------------------------- */

static rlx_status check_steps(rx_infer *c, const char *what, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++)
        if (v[i] > MAX_STEP)
            return rx_infer_fail(c, "%s entry %d expected to be at most %lld, got %lld", what, i,
                                 (long long)MAX_STEP, (long long)v[i]);
    return RLX_OK;
}

rlx_status rx_check_window(rx_infer *c, const rx_window *w)
{
    RLX_TRY(rx_check_list(c, "stride", w->stride, w->n, 1, 1));
    RLX_TRY(rx_check_list(c, "dilation", w->dilation, w->n, 1, 1));
    RLX_TRY(rx_check_list(c, "pads", w->pads, 2 * w->n, 0, 0));
    RLX_TRY(check_steps(c, "stride", w->stride->v, w->n));
    RLX_TRY(check_steps(c, "dilation", w->dilation->v, w->n));
    RLX_TRY(check_steps(c, "pads", w->pads->v, 2 * w->n));
    for (int i = 0; i < w->n; i++)
        if (w->kernel[i] < 1)
            return rx_infer_fail(c, "kernel expected with sizes of at least 1, got %lld on spatial "
                                 "axis %d", (long long)w->kernel[i], i);
    return check_steps(c, "kernel", w->kernel, w->n);
}

/* Dilated extent of the kernel on spatial axis i. */
static int64_t window_extent(const rx_window *w, int i)
{
    return w->dilation->v[i] * (w->kernel[i] - 1) + 1;
}

/* Number of windows on an axis of fixed size. */
static rlx_status count_windows(rx_infer *c, const rx_window *w, int i, rlx_dim *size)
{
    const int64_t in = c->in[0]->shape.dim[2 + i], begin = w->pads->v[i];
    const int64_t stride = w->stride->v[i], extent = window_extent(w, i);
    const int64_t room = in + begin + w->pads->v[w->n + i] - extent;
    if (room < 0 && in == 0) {
        *size = 0;
        return RLX_OK;
    }
    if (room < 0)
        return rx_infer_fail(c, "kernel expected to fit into the padded input, but it covers %lld "
                             "elements of spatial axis %d, which has %lld", (long long)extent, i,
                             (long long)(room + extent));
    *size = (room + (w->ceil_mode ? stride - 1 : 0)) / stride + 1;
    if (w->ceil_mode && (*size - 1) * stride >= in + begin)
        --*size; /* the last window would start in the padding at the end */
    return RLX_OK;
}

/* (in + pads - extent [+ stride - 1]) / stride + 1 as one quotient, so that an empty axis gives 0
 * where valid, and an unchanged size keeps its named dimension. */
static rlx_status name_windows(rx_infer *c, const rx_window *w, int i, rlx_dim *size)
{
    const int64_t stride = w->stride->v[i], extent = window_extent(w, i);
    const int64_t end = w->pads->v[w->n + i];
    if (w->ceil_mode && stride + end > extent)
        return rx_infer_fail(c, "ceil_mode on a named axis expected with stride + end padding of "
                             "at most the %lld elements of the window, got %lld (spatial axis %d)",
                             (long long)extent, (long long)(stride + end), i);
    const int64_t more = w->pads->v[i] + end + stride + (w->ceil_mode ? stride - 1 : 0);
    const rlx_dim in = c->in[0]->shape.dim[2 + i];
    const rlx_dim room = more >= extent ? rlx_dim_add(c->g, in, more - extent)
                                        : rlx_dim_sub(c->g, in, extent - more);
    *size = rlx_dim_div(c->g, room, stride);
    return RLX_OK;
}

rlx_status rx_window_sizes(rx_infer *c, const rx_window *w, rlx_dim *size)
{
    for (int i = 0; i < w->n; i++) {
        if (rx_dim_is_number(c->in[0]->shape.dim[2 + i]))
            RLX_TRY(count_windows(c, w, i, &size[i]));
        else
            RLX_TRY(name_windows(c, w, i, &size[i]));
    }
    return RLX_OK;
}

/* ---- Checks shared by the convolutions ------------------------------------------------------- */

/* x [N, C, spatial..] and w [.., .., kernel..] of the right ranks, w and C of fixed sizes. */
static rlx_status check_operands(rx_infer *c, int n)
{
    char text[RX_TYPE_TEXT];
    RLX_TRY(rx_check_rank(c, 0, "x", n + 2, n + 2));
    RLX_TRY(rx_check_rank(c, 1, "w", n + 2, n + 2));
    const rx_value *x = c->in[0], *w = c->in[1];
    if (!rx_dim_is_number(x->shape.dim[1]))
        return rx_infer_fail(c, "operand 0 (x) expected with a fixed number of channels, got %s",
                             rx_type_text(c->g, x->dtype, &x->shape, text));
    if (!rx_shape_is_fixed(&w->shape))
        return rx_infer_fail(c, "operand 1 (w) expected with fixed sizes, got %s",
                             rx_type_text(c->g, w->dtype, &w->shape, text));
    return RLX_OK;
}

/* groups divides `channels`. */
static rlx_status check_groups(rx_infer *c, int64_t *groups, const char *what, rlx_dim channels)
{
    if (*groups == 0)
        *groups = 1;
    if (*groups >= 1 && channels % *groups == 0)
        return RLX_OK;
    return rx_infer_fail(c, "groups expected to divide the %lld %s channels, got %lld",
                         (long long)channels, what, (long long)*groups);
}

/* x [N, C, ..], w [O, C/groups, ..]. */
static rlx_status check_filters(rx_infer *c, int64_t *groups)
{
    const rlx_shape *x = &c->in[0]->shape, *w = &c->in[1]->shape;
    RLX_TRY(check_groups(c, groups, "input", x->dim[1]));
    RLX_TRY(check_groups(c, groups, "output", w->dim[0]));
    return rx_check_dim(c, 1, "w", 1, x->dim[1] / *groups);
}

/* ---- conv1d, conv2d, conv3d ------------------------------------------------------------------ */

rlx_status rx_infer_conv(rx_infer *c)
{
    rlx_conv_desc *d = c->attr;
    const int n = c->op == RX_OP_conv1d ? 1 : c->op == RX_OP_conv2d ? 2 : 3;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_type(c, 1, "w", RX_T(c->in[0]->dtype)));
    RLX_TRY(check_operands(c, n));
    RLX_TRY(check_filters(c, &d->groups));
    if (d->output_pad.n)
        return rx_infer_fail(c, "has no attribute output_pad, that is for conv_transpose2d");

    const rlx_shape *w = &c->in[1]->shape;
    const rx_window window = {n, w->dim + 2, &d->stride, &d->dilation, &d->pads, false};
    RLX_TRY(rx_check_window(c, &window));
    rlx_shape s = {.rank = n + 2, .dim = {c->in[0]->shape.dim[0], w->dim[0]}};
    RLX_TRY(rx_window_sizes(c, &window, s.dim + 2));
    rx_out(c, 0, c->in[0]->dtype, &s);
    RLX_TRY(rx_check_epilogue(c, 2, w->dim[0], d->act));
    if (rx_in(c, 3))
        RLX_TRY(rx_check_shape(c, 3, "residual", &s));
    d->act_last = rx_act_is_last(d->act_last, d->act, rx_in(c, 3));
    return RLX_OK;
}

/* [N, C, W] is [N, C, 1, W]. */
rlx_status rx_lower_conv1d(rx_lower *c)
{
    const rlx_conv_desc *from = c->attr;
    const uint32_t n_in = c->node->n_in;
    rlx_graph *g = c->g;
    rlx_conv_desc d = *from;
    d.stride = rx_add_axis(&from->stride, 1);
    d.dilation = rx_add_axis(&from->dilation, 1);
    d.pads = rx_add_axis(&from->pads, 0);
    const rlx_value bias = n_in > 2 ? c->in[2] : RLX_NONE;
    rlx_value residual = n_in > 3 ? c->in[3] : RLX_NONE;
    if (residual.id)
        residual = rlx_unsqueeze(g, residual, 2);
    const rlx_value y = rlx_conv_ex(g, 2, rlx_unsqueeze(g, c->in[0], 2),
                                    rlx_unsqueeze(g, c->in[1], 2), bias, residual, &d);
    c->out[0] = rlx_squeeze(g, y, 2);
    return RLX_OK;
}

/* ---- conv_transpose2d ------------------------------------------------------------------------ */

/* (in - 1) * stride - pads + extent + output_pad, as written as in * stride + more - less. */
static rlx_status transposed_size(rx_infer *c, const rx_window *w, const rlx_conv_desc *d, int i,
                                  rlx_dim *size)
{
    const int64_t stride = w->stride->v[i];
    const int64_t more = window_extent(w, i) + d->output_pad.v[i];
    const int64_t less = stride + w->pads->v[i] + w->pads->v[w->n + i];
    const rlx_dim in = c->in[0]->shape.dim[2 + i], wide = rlx_dim_mul(c->g, in, stride);
    if (more >= less) {
        *size = rlx_dim_add(c->g, wide, more - less);
        return RLX_OK;
    }
    if (rx_dim_is_number(in) && wide + more <= less) {
        *size = 0;
        return in == 0 ? RLX_OK
                       : rx_infer_fail(c, "pads expected to leave something of spatial axis %d, "
                                       "which has %lld elements without them, got %lld and %lld", i,
                                       (long long)(wide + more - stride),
                                       (long long)w->pads->v[i], (long long)w->pads->v[w->n + i]);
    }
    *size = rlx_dim_sub(c->g, wide, less - more);
    return RLX_OK;
}

static rlx_status check_output_pad(rx_infer *c, rlx_conv_desc *d)
{
    RLX_TRY(rx_check_list(c, "output_pad", &d->output_pad, 2, 0, 0));
    for (int i = 0; i < 2; i++) {
        const int64_t stride = d->stride.v[i], dilation = d->dilation.v[i];
        const int64_t end = stride > dilation ? stride : dilation;
        if (d->output_pad.v[i] >= end)
            return rx_infer_fail(c, "output_pad entry %d expected below %lld, the larger of stride "
                                 "and dilation, got %lld", i, (long long)end,
                                 (long long)d->output_pad.v[i]);
    }
    return RLX_OK;
}

/* x [N, C, H, W], w [C, O/groups, kh, kw], bias? [O]. */
rlx_status rx_infer_conv_transpose2d(rx_infer *c)
{
    rlx_conv_desc *d = c->attr;
    int64_t filters = 0;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_type(c, 1, "w", RX_T(c->in[0]->dtype)));
    RLX_TRY(check_operands(c, 2));
    const rlx_shape *x = &c->in[0]->shape, *w = &c->in[1]->shape;
    RLX_TRY(check_groups(c, &d->groups, "input", x->dim[1]));
    RLX_TRY(rx_check_dim(c, 1, "w", 0, x->dim[1]));
    if (__builtin_mul_overflow(w->dim[1], d->groups, &filters))
        return rx_infer_fail(c, "groups expected to be small, got %lld", (long long)d->groups);

    const rx_window window = {2, w->dim + 2, &d->stride, &d->dilation, &d->pads, false};
    RLX_TRY(rx_check_window(c, &window));
    RLX_TRY(check_output_pad(c, d));
    rlx_shape s = {.rank = 4, .dim = {x->dim[0], filters}};
    for (int i = 0; i < 2; i++)
        RLX_TRY(transposed_size(c, &window, d, i, &s.dim[2 + i]));
    rx_out(c, 0, c->in[0]->dtype, &s);
    d->act_last = false;
    return rx_check_epilogue(c, 2, filters, d->act);
}

/* ---- qconv2d --------------------------------------------------------------------------------- */

/* A zero point is within the range of its type. */
static rlx_status check_zero_point(rx_infer *c, const char *what, int64_t zero, rlx_dtype t)
{
    const int64_t lo = t == RLX_I8 ? -128 : 0, hi = t == RLX_I8 ? 127 : 255;
    if (zero >= lo && zero <= hi)
        return RLX_OK;
    return rx_infer_fail(c, "%s expected to be a number of type %s, got %lld", what,
                         rlx_dtype_name(t), (long long)zero);
}

/* scale? f32, scalar or [O]; bias? i32 [O]. Sets the type of the result. */
static rlx_status check_requantisation(rx_infer *c, rlx_qconv_desc *d, rlx_dim filters)
{
    const rlx_shape per_filter = {.rank = 1, .dim = {filters}};
    if (rx_in(c, 2)) {
        RLX_TRY(rx_check_type(c, 2, "scale", RX_T(RLX_F32)));
        if (c->in[2]->shape.rank)
            RLX_TRY(rx_check_shape(c, 2, "scale", &per_filter));
        RLX_TRY(rx_default_type(c, &d->out, c->in[0]->dtype, RX_T(RLX_I8) | RX_T(RLX_U8)));
        RLX_TRY(check_zero_point(c, "y_zero", d->y_zero, d->out));
    } else {
        RLX_TRY(rx_default_type(c, &d->out, RLX_I32, RX_T(RLX_I32)));
        if (d->y_zero)
            return rx_infer_fail(c, "y_zero needs a scale, got y_zero=%lld without one",
                                 (long long)d->y_zero);
    }
    if (!rx_in(c, 3))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, 3, "bias", RX_T(RLX_I32)));
    return rx_check_shape(c, 3, "bias", &per_filter);
}

/* x [N, C, H, W], w [O, C/groups, kh, kw], scale?, bias?. */
rlx_status rx_infer_qconv2d(rx_infer *c)
{
    rlx_qconv_desc *d = c->attr;
    const uint64_t small = RX_T(RLX_I8) | RX_T(RLX_U8);

    RLX_TRY(rx_check_type(c, 0, "x", small));
    RLX_TRY(rx_check_type(c, 1, "w", small));
    RLX_TRY(check_operands(c, 2));
    RLX_TRY(check_filters(c, &d->groups));
    RLX_TRY(check_zero_point(c, "x_zero", d->x_zero, c->in[0]->dtype));
    RLX_TRY(check_zero_point(c, "w_zero", d->w_zero, c->in[1]->dtype));

    const rlx_shape *w = &c->in[1]->shape;
    const rx_window window = {2, w->dim + 2, &d->stride, &d->dilation, &d->pads, false};
    RLX_TRY(rx_check_window(c, &window));
    rlx_shape s = {.rank = 4, .dim = {c->in[0]->shape.dim[0], w->dim[0]}};
    RLX_TRY(rx_window_sizes(c, &window, s.dim + 2));
    RLX_TRY(check_requantisation(c, d, w->dim[0]));
    rx_out(c, 0, d->out, &s);
    return RLX_OK;
}

/* ---- im2col ---------------------------------------------------------------------------------- */

/* x [N, C, H, W] -> [N, C*kh*kw, oh*ow]. */
rlx_status rx_infer_im2col(rx_infer *c)
{
    rlx_im2col_desc *d = c->attr;
    rlx_dim size[2];

    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(rx_check_rank(c, 0, "x", 4, 4));
    if (d->kernel.n != 2)
        return rx_infer_fail(c, "kernel expected with 2 entries, got %d", d->kernel.n);
    const rx_window window = {2, d->kernel.v, &d->stride, &d->dilation, &d->pads, false};
    RLX_TRY(rx_check_window(c, &window));
    RLX_TRY(rx_window_sizes(c, &window, size));

    const rx_value *x = c->in[0];
    const int64_t taps = d->kernel.v[0] * d->kernel.v[1];
    const rlx_shape s = {.rank = 3, .dim = {x->shape.dim[0],
                                            rlx_dim_mul(c->g, x->shape.dim[1], taps),
                                            rlx_dim_mul(c->g, size[0], size[1])}};
    rx_out(c, 0, x->dtype, &s);
    return RLX_OK;
}
