/* SPDX-License-Identifier: MIT */
/* Reductions, orders and indices of ONNX. */
#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Reductions ------------------------------------------------------------------------------ */

static rlx_value reduce(rx_onnx_call *c, rlx_reduce_kind kind)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int rank = rx_onnx_rank(c, x);
    rlx_ints axes;
    bool given;
    if (!rx_onnx_axes(c, "axes", 1, &axes, &given))
        return RLX_NONE;
    if (!axes.n && rx_onnx_int(c, "noop_with_empty_axes", 0)) {
        rlx_shape s = rlx_value_shape(c->g, x);
        if (rank == RLX_MAX_RANK || kind == RLX_REDUCE_SUM || kind == RLX_REDUCE_MAX ||
            kind == RLX_REDUCE_MIN || kind == RLX_REDUCE_MEAN || kind == RLX_REDUCE_PROD)
            return x;
        /* No axes: reduces a new axis of size one, which applies the elementwise part (abs, square,
         * log). */
        s.dim[s.rank++] = 1;
        const int64_t last = rank;
        return rlx_reduce(c->g, kind, rlx_reshape(c->g, x, s.rank, s.dim), &last, 1, false);
    }
    for (int i = 0; i < axes.n; i++)
        if ((axes.v[i] = rx_onnx_axis(c, axes.v[i], rank)) < 0)
            return RLX_NONE;
    if (rlx_value_dtype(c->g, x) == RLX_BOOL)
        kind = kind == RLX_REDUCE_MAX ? RLX_REDUCE_ANY : kind == RLX_REDUCE_MIN ? RLX_REDUCE_ALL
                                                                               : kind;
    return rlx_reduce(c->g, kind, x, axes.v, (size_t)axes.n, rx_onnx_int(c, "keepdims", 1));
}

#define REDUCE(name, kind) \
    rlx_value rx_onnx_reduce_##name(rx_onnx_call *c) { return reduce(c, RLX_REDUCE_##kind); }
REDUCE(sum, SUM)
REDUCE(mean, MEAN)
REDUCE(max, MAX)
REDUCE(min, MIN)
REDUCE(prod, PROD)
REDUCE(l1, L1)
REDUCE(l2, L2)
REDUCE(log_sum, LOG_SUM)
REDUCE(log_sum_exp, LOG_SUM_EXP)
REDUCE(sum_square, SUM_SQUARE)

static rlx_arg_desc arg_desc(const rx_onnx_call *c)
{
    return (rlx_arg_desc){RLX_INIT(rlx_arg_desc), .axis = rx_onnx_int(c, "axis", 0),
                          .keepdims = rx_onnx_int(c, "keepdims", 1),
                          .last = rx_onnx_int(c, "select_last_index", 0)};
}

rlx_value rx_onnx_argmax(rx_onnx_call *c)
{
    const rlx_arg_desc d = arg_desc(c);
    return rlx_argmax(c->g, rx_onnx_in(c, 0), &d);
}

rlx_value rx_onnx_argmin(rx_onnx_call *c)
{
    const rlx_arg_desc d = arg_desc(c);
    return rlx_argmin(c->g, rx_onnx_in(c, 0), &d);
}

/* Axis and direction of CumSum and CumProd. */
static bool cum_desc(rx_onnx_call *c, rlx_cum_desc *d)
{
    rlx_ints axis;
    if (!rx_onnx_known_ints(c, 1, "axis", &axis))
        return false;
    *d = (rlx_cum_desc){RLX_INIT(rlx_cum_desc), .axis = axis.v[0],
                        .exclusive = rx_onnx_int(c, "exclusive", 0),
                        .reverse = rx_onnx_int(c, "reverse", 0)};
    return true;
}

rlx_value rx_onnx_cumsum(rx_onnx_call *c)
{
    rlx_cum_desc d;
    return cum_desc(c, &d) ? rlx_cumsum(c->g, rx_onnx_in(c, 0), &d) : RLX_NONE;
}

rlx_value rx_onnx_cumprod(rx_onnx_call *c)
{
    rlx_cum_desc d;
    return cum_desc(c, &d) ? rlx_cumprod(c->g, rx_onnx_in(c, 0), &d) : RLX_NONE;
}

rlx_value rx_onnx_topk(rx_onnx_call *c)
{
    rlx_ints k = {1, {rx_onnx_int(c, "k", 1)}};
    if (c->opset >= 10 && !rx_onnx_known_ints(c, 1, "k", &k))
        return RLX_NONE;
    const rlx_topk_desc d = {RLX_INIT(rlx_topk_desc), .k = k.v[0],
                             .axis = rx_onnx_int(c, "axis", -1),
                             .smallest = !rx_onnx_int(c, "largest", 1)};
    if (!d.k) {
        const rlx_value none = rlx_narrow(c->g, rx_onnx_in(c, 0), d.axis, 0, 0);
        c->out[1] = rlx_cast(c->g, none, RLX_I64);
        return none;
    }
    return rlx_top_k(c->g, rx_onnx_in(c, 0), &d, &c->out[1]);
}

/* Softmax up to opset 12 flattens all axes from `axis` on. */
static rlx_value softmax(rx_onnx_call *c, rlx_value (*f)(rlx_graph *, rlx_value, int64_t))
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (c->opset >= 13)
        return f(c->g, x, rx_onnx_int(c, "axis", -1));
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 1), s.rank);
    if (axis < 0)
        return RLX_NONE;
    const rlx_dim dims[2] = {rx_shape_product(c->g, &s, 0, axis),
                             rx_shape_product(c->g, &s, axis, s.rank)};
    return rlx_reshape(c->g, f(c->g, rlx_reshape(c->g, x, 2, dims), 1), s.rank, s.dim);
}

rlx_value rx_onnx_softmax(rx_onnx_call *c) { return softmax(c, rlx_softmax); }
rlx_value rx_onnx_log_softmax(rx_onnx_call *c) { return softmax(c, rlx_log_softmax); }

static rlx_value hardmax(rlx_graph *g, rlx_value x, int64_t axis)
{
    const rlx_shape s = rlx_value_shape(g, x);
    const int64_t a = axis < 0 ? axis + s.rank : axis;
    if (a < 0 || a >= s.rank)
        return RLX_NONE;
    const rlx_arg_desc arg = {RLX_INIT(rlx_arg_desc), .axis = a};
    const rlx_one_hot_desc d = {RLX_INIT(rlx_one_hot_desc), .depth = s.dim[a], .axis = a,
                                .out = rlx_value_dtype(g, x)};
    return rlx_one_hot(g, rlx_argmax(g, x, &arg), &d);
}

rlx_value rx_onnx_hardmax(rx_onnx_call *c) { return softmax(c, hardmax); }

/* ---- Indices --------------------------------------------------------------------------------- */

rlx_value rx_onnx_gather(rx_onnx_call *c)
{
    return rlx_gather(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_int(c, "axis", 0));
}

rlx_value rx_onnx_gather_elements(rx_onnx_call *c)
{
    return rlx_gather_elements(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1),
                               rx_onnx_int(c, "axis", 0));
}

rlx_value rx_onnx_gather_nd(rx_onnx_call *c)
{
    return rlx_gather_nd(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1),
                         rx_onnx_int(c, "batch_dims", 0));
}

static rlx_scatter_mode scatter_mode(const rx_onnx_call *c)
{
    static const char *const names[] = {"none", "add", "mul", "min", "max"};
    for (int i = 1; i < 5; i++)
        if (rx_onnx_is(c, "reduction", names[i], "none"))
            return (rlx_scatter_mode)i;
    return RLX_SCATTER_NONE;
}

rlx_value rx_onnx_scatter_elements(rx_onnx_call *c)
{
    return rlx_scatter_elements(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2),
                                rx_onnx_int(c, "axis", 0), scatter_mode(c));
}

rlx_value rx_onnx_scatter_nd(rx_onnx_call *c)
{
    return rlx_scatter_nd(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2),
                          scatter_mode(c));
}

/* The on and off values are operands, so a select follows rlx's one_hot. */
rlx_value rx_onnx_one_hot(rx_onnx_call *c)
{
    double depth;
    size_t n;
    const rlx_value values = rx_onnx_in(c, 2);
    if (!rx_onnx_known_reals(c, 1, "depth", &depth, 1, &n))
        return RLX_NONE;
    const rlx_value index = rlx_cast(c->g, rx_onnx_in(c, 0), RLX_I64);
    const rlx_one_hot_desc d = {RLX_INIT(rlx_one_hot_desc), .depth = rx_onnx_whole(depth),
                                .axis = rx_onnx_int(c, "axis", -1), .out = RLX_BOOL};
    const rlx_value off = rlx_reshape(c->g, rlx_narrow(c->g, values, 0, 0, 1), 0, NULL);
    const rlx_value on = rlx_reshape(c->g, rlx_narrow(c->g, values, 0, 1, 1), 0, NULL);
    return rlx_where(c->g, rlx_one_hot(c->g, index, &d), on, off);
}

/* Row t of sequence b moves to lengths[b] - 1 - t while t is below lengths[b]. */
rlx_value rx_onnx_reverse_sequence(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int batch = rx_onnx_axis(c, rx_onnx_int(c, "batch_axis", 1), s.rank);
    const int time = rx_onnx_axis(c, rx_onnx_int(c, "time_axis", 0), s.rank);
    rlx_dim along[RLX_MAX_RANK], across[RLX_MAX_RANK];
    if (batch < 0 || time < 0)
        return RLX_NONE;
    for (int i = 0; i < s.rank; i++) {
        along[i] = i == time ? s.dim[i] : 1;
        across[i] = i == batch ? s.dim[i] : 1;
    }
    const rlx_range_desc r = {RLX_INIT(rlx_range_desc), .n = s.dim[time], .out = RLX_I64};
    const rlx_value t = rlx_reshape(c->g, rlx_range(c->g, &r), s.rank, along);
    const rlx_value length = rlx_reshape(c->g, rlx_cast(c->g, rx_onnx_in(c, 1), RLX_I64), s.rank,
                                         across);
    const rlx_value turned = rlx_sub(c->g, rlx_sub(c->g, length, t), rlx_scalar(c->g, RLX_I64, 1));
    const rlx_value from = rlx_where(c->g, rlx_lt(c->g, t, length), turned, t);
    return rlx_gather_elements(c->g, x, rlx_expand(c->g, from, s.rank, s.dim), time);
}
