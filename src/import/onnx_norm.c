/* SPDX-License-Identifier: MIT */
/* Normalisations of ONNX. */
#include "import/onnx_build.h"
#include "ir/graph.h"

static rlx_value number(rx_onnx_call *c, rlx_value like, double v)
{
    return rlx_scalar(c->g, rlx_value_dtype(c->g, like), v);
}

static rlx_value over_axes(rx_onnx_call *c, rlx_reduce_kind kind, rlx_value x, int first)
{
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    for (int i = first; i < rx_onnx_rank(c, x); i++)
        axes[n++] = i;
    return rlx_reduce(c->g, kind, x, axes, n, true);
}

static rlx_value inverse_deviation(rx_onnx_call *c, rlx_value variance, double eps)
{
    return rlx_rsqrt(c->g, rlx_add(c->g, variance, number(c, variance, eps)));
}

/* gamma and beta of the shape of the normalised axes, or RLX_NONE when they broadcast otherwise. */
static bool has_shape_of_tail(rx_onnx_call *c, rlx_value x, int axis, rlx_value w)
{
    const rlx_shape s = rlx_value_shape(c->g, x), t = rlx_value_shape(c->g, w);
    if (!w.id)
        return true;
    if (t.rank != s.rank - axis)
        return false;
    for (int i = 0; i < t.rank; i++)
        if (t.dim[i] != s.dim[axis + i])
            return false;
    return true;
}

rlx_value rx_onnx_layer_norm(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), gamma = rx_onnx_in(c, 1), beta = rx_onnx_in(c, 2);
    const int rank = rx_onnx_rank(c, x);
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", -1), rank);
    const double eps = rx_onnx_float_set(c, "epsilon", 1e-5);
    if (axis < 0)
        return RLX_NONE;
    if (rx_onnx_wants(c, 1) || rx_onnx_wants(c, 2)) {
        const rlx_value mean = over_axes(c, RLX_REDUCE_MEAN, x, axis);
        const rlx_value d = rlx_sub(c->g, x, mean);
        c->out[1] = mean;
        c->out[2] = inverse_deviation(c, over_axes(c, RLX_REDUCE_MEAN, rlx_mul(c->g, d, d), axis),
                                      eps);
    }
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc), .axis = axis - rank, .eps = eps};
    if (has_shape_of_tail(c, x, axis, gamma) && has_shape_of_tail(c, x, axis, beta))
        return rlx_layer_norm(c->g, x, gamma, beta, &d);
    rlx_value y = rlx_layer_norm(c->g, x, RLX_NONE, RLX_NONE, &d);
    y = gamma.id ? rlx_mul(c->g, y, gamma) : y;
    return beta.id ? rlx_add(c->g, y, beta) : y;
}

rlx_value rx_onnx_rms_norm(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), gamma = rx_onnx_in(c, 1);
    const int rank = rx_onnx_rank(c, x);
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", -1), rank);
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc), .axis = axis - rank,
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-5)};
    if (axis < 0)
        return RLX_NONE;
    if (has_shape_of_tail(c, x, axis, gamma))
        return rlx_rms_norm(c->g, x, gamma, &d);
    return rlx_mul(c->g, rlx_rms_norm(c->g, x, RLX_NONE, &d), gamma);
}

rlx_value rx_onnx_instance_norm(rx_onnx_call *c)
{
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-5)};
    return rlx_instance_norm(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2), &d);
}

/* A vector of [groups] for each channel of its group. */
static rlx_value per_channel(rx_onnx_call *c, rlx_value v, int64_t groups, rlx_dim channels)
{
    const rlx_dim tall[2] = {groups, 1}, wide[2] = {groups, channels / groups};
    const rlx_dim flat[1] = {channels};
    return rlx_reshape(c->g, rlx_expand(c->g, rlx_reshape(c->g, v, 2, tall), 2, wide), 1, flat);
}

/* Scale and bias are those of groups before opset 21, of channels since. */
rlx_value rx_onnx_group_norm(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_value gamma = rx_onnx_in(c, 1), beta = rx_onnx_in(c, 2);
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-5),
                             .groups = rx_onnx_int(c, "num_groups", 0)};
    if (s.rank < 2 || d.groups < 1 || !rx_dim_is_number(s.dim[1]) || s.dim[1] % d.groups)
        return rx_onnx_fail(c, RLX_INVALID, "%lld groups; expected a divisor of the channels",
                            (long long)d.groups);
    if (c->opset < 21) {
        gamma = per_channel(c, gamma, d.groups, s.dim[1]);
        beta = per_channel(c, beta, d.groups, s.dim[1]);
    }
    return rlx_group_norm(c->g, x, gamma, beta, &d);
}

/* In training mode the statistics are those of the batch, and running ones are results. */
static rlx_value batch_norm_training(rx_onnx_call *c, const rlx_norm_desc *d)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const double momentum = rx_onnx_float(c, "momentum", 0.9);
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    for (int i = 0; i < rx_onnx_rank(c, x); i++)
        if (i != 1)
            axes[n++] = i;
    const rlx_value kept = rlx_reduce(c->g, RLX_REDUCE_MEAN, x, axes, n, true);
    const rlx_value diff = rlx_sub(c->g, x, kept);
    const rlx_value mean = rlx_reduce(c->g, RLX_REDUCE_MEAN, x, axes, n, false);
    const rlx_value var = rlx_reduce(c->g, RLX_REDUCE_MEAN, rlx_mul(c->g, diff, diff), axes, n,
                                     false);
    for (size_t i = 0; i < 2; i++) {
        const rlx_value now = i ? var : mean, old = rx_onnx_in(c, 3 + i);
        c->out[1 + i] = rlx_add(c->g, rlx_mul(c->g, old, number(c, old, momentum)),
                                rlx_mul(c->g, now, number(c, now, 1 - momentum)));
    }
    return rlx_batch_norm_inference(c->g, x, rx_onnx_in(c, 1), rx_onnx_in(c, 2), mean, var, d);
}

rlx_value rx_onnx_batch_norm(rx_onnx_call *c)
{
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-5)};
    if (rx_onnx_int(c, "training_mode", 0))
        return batch_norm_training(c, &d);
    return rlx_batch_norm_inference(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2),
                                    rx_onnx_in(c, 3), rx_onnx_in(c, 4), &d);
}

rlx_value rx_onnx_lp_norm(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int64_t axis = rx_onnx_int(c, "axis", -1);
    const rlx_reduce_kind kind = rx_onnx_int(c, "p", 2) == 1 ? RLX_REDUCE_L1 : RLX_REDUCE_L2;
    const rlx_value norm = rlx_reduce(c->g, kind, x, &axis, 1, true), zero = number(c, norm, 0);
    const rlx_value safe = rlx_where(c->g, rlx_eq(c->g, norm, zero), number(c, norm, 1), norm);
    return rlx_div(c->g, x, safe);
}

rlx_value rx_onnx_mean_variance_norm(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    rlx_ints axes;
    if (!rx_onnx_ints(c, "axes", &axes))
        axes = (rlx_ints){3, {0, 2, 3}};
    const rlx_value d = rlx_sub(c->g, x, rlx_reduce(c->g, RLX_REDUCE_MEAN, x, axes.v,
                                                    (size_t)axes.n, true));
    const rlx_value v = rlx_reduce(c->g, RLX_REDUCE_MEAN, rlx_mul(c->g, d, d), axes.v,
                                   (size_t)axes.n, true);
    return rlx_div(c->g, d, rlx_add(c->g, rlx_sqrt(c->g, v), number(c, v, 1e-9)));
}

/* x / (bias + alpha / size * sum of squares of neighbouring channels)^beta: the sum is an average
 * pool over the channels as an axis of space. */
rlx_value rx_onnx_lrn(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int64_t size = rx_onnx_int(c, "size", 1);
    if (s.rank < 3 || size < 1 || size > INT32_MAX)
        return rx_onnx_fail(c, RLX_INVALID, "expected 3 axes or more and a size");
    const rlx_dim flat[4] = {s.dim[0], 1, s.dim[1], rx_shape_product(c->g, &s, 2, s.rank)};
    const rlx_pool_desc d = {RLX_INIT(rlx_pool_desc), .kind = RLX_POOL_AVERAGE,
                             .kernel = {2, {size, 1}}, .count_include_pad = true,
                             .pads = {4, {(size - 1) / 2, 0, size - 1 - (size - 1) / 2, 0}}};
    const rlx_value squares = rlx_reshape(c->g, rlx_mul(c->g, x, x), 4, flat);
    const rlx_value mean = rlx_reshape(c->g, rlx_pool2d(c->g, squares, &d), s.rank, s.dim);
    const rlx_value base = rlx_add(c->g, rlx_mul(c->g, mean, number(c, mean, rx_onnx_float(
                                       c, "alpha", 1e-4))),
                                   number(c, mean, rx_onnx_float(c, "bias", 1)));
    return rlx_div(c->g, x, rlx_pow(c->g, base, number(c, base, rx_onnx_float(c, "beta", 0.75))));
}
