/* SPDX-License-Identifier: MIT */
/* Normalisations of ONNX. A batch norm after a convolution is folded into its weights. */
#include <math.h>
#include <string.h>

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

/* Whether w (gamma or beta, may be RLX_NONE) has the shape of the normalised axes, which kernels
 * need. */
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

/* Scale and bias are per group before opset 21, per channel since. */
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

/* Training mode: statistics of the batch; the updated running statistics are results. */
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

/* ---- Batch norms after convolutions ---------------------------------------------------------- */


/* The convolution that makes x when nothing is fused into it; NULL: none. */
static const rx_node *plain_conv(rx_onnx_call *c, rlx_value x)
{
    const rx_node *n = x.id ? rx_value_node(c->g, x.id) : NULL;
    if (!n || (n->op != RX_OP_conv1d && n->op != RX_OP_conv2d && n->op != RX_OP_conv3d) ||
        (n->n_in > 3 && n->in[3]) || ((const rlx_conv_desc *)n->attr)->act)
        return NULL;
    return n;
}

static float real_at(const void *data, int64_t i)
{
    float v = 0;
    if (data)
        memcpy(&v, (const char *)data + i * (int64_t)sizeof v, sizeof v); /* of any alignment */
    return v;
}

/* w * scale and (bias - mean) * scale + beta with scale = gamma / sqrt(var + eps). `in` has gamma,
 * beta, mean, var, bias (or NULL). */
static void fold_norm(const void *w, const void *const in[5], const int64_t size[2], double eps,
                      float *to, float *bias)
{
    for (int64_t i = 0; i < size[0]; i++) {
        const double scale = (double)real_at(in[0], i) / sqrt((double)real_at(in[3], i) + eps);
        for (int64_t k = 0; k < size[1]; k++)
            to[i * size[1] + k] = (float)((double)real_at(w, i * size[1] + k) * scale);
        bias[i] = (float)(((double)real_at(in[4], i) - (double)real_at(in[2], i)) * scale +
                          (double)real_at(in[1], i));
    }
}

/* The convolution before x with the norm folded into its weights; RLX_NONE: no convolution, or
 * weights unknown or above RX_ONNX_MAX_COPIED. */
static rlx_value conv_with_norm(rx_onnx_call *c, double eps)
{
    const rx_node *n = plain_conv(c, rx_onnx_in(c, 0));
    if (!n)
        return RLX_NONE;
    const rlx_value x = {n->in[0]}, w = {n->in[1]}, b = {n->n_in > 2 ? n->in[2] : 0};
    const rlx_conv_desc d = *(const rlx_conv_desc *)n->attr;
    const rlx_shape s = rlx_value_shape(c->g, w);
    const int64_t all = rx_onnx_elements(c, w), size[2] = {s.dim[0], s.dim[0] ? all / s.dim[0] : 0};
    const void *from = rx_onnx_weight_data(c->b, w), *in[5] = {0};
    for (size_t i = 0; i < 5; i++) {
        const rlx_value v = i < 4 ? rx_onnx_in(c, 1 + i) : b;
        in[i] = rx_onnx_weight_data(c->b, v);
        if (v.id ? !in[i] || rlx_value_dtype(c->g, v) != RLX_F32 ||
                       rx_onnx_elements(c, v) != s.dim[0] : i < 4)
            return RLX_NONE;
    }
    const uint64_t bytes = (uint64_t)all * sizeof(float);
    if (!from || all < 1 || rlx_value_dtype(c->g, w) != RLX_F32 ||
        bytes > RX_ONNX_MAX_COPIED - c->b->n_copied)
        return RLX_NONE;
    float *to = rx_arena_alloc(&c->b->m->arena, bytes);
    float *bias = rx_arena_array(&c->b->m->arena, (uint64_t)s.dim[0], sizeof *bias);
    rlx_value weights;
    if (!to || !bias)
        return rx_onnx_fail(c, RLX_NO_MEMORY, "out of memory");
    c->b->n_copied += bytes;
    fold_norm(from, in, size, eps, to, bias);
    if (rx_onnx_add_param(c->b, "", RLX_F32, &s, (rx_bytes){to, bytes}, &weights) != RLX_OK)
        return RLX_NONE;
    const rlx_value added = rlx_constant(c->g, RLX_F32, 1, s.dim, bias,
                                         (size_t)s.dim[0] * sizeof *bias);
    return rlx_conv_ex(c->g, s.rank - 2, x, weights, added, RLX_NONE, &d);
}

rlx_value rx_onnx_batch_norm(rx_onnx_call *c)
{
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-5)};
    if (rx_onnx_int(c, "training_mode", 0))
        return batch_norm_training(c, &d);
    const rlx_value conv = conv_with_norm(c, rx_onnx_float(c, "epsilon", 1e-5));
    if (conv.id || c->b->status != RLX_OK)
        return conv;
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
 * pool with channels as a spatial axis. */
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
