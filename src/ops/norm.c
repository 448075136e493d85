/* SPDX-License-Identifier: MIT */
/* Norms, gated residuals, swiglu and softmax: builders, shape rules, decompositions. Weights may be
 * f32 beside f16 or bf16 activations. Decompositions compute in f32 and round once at the end, as
 * the kernels do. */
#include <float.h>
#include <math.h>

#include "ir/infer.h"
#include "ops/lower.h"

#define DEFAULT_EPS 1e-5

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_layer_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                         const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta};
    return rx_graph_add(g, RX_OP_layer_norm, in, 3, d, NULL);
}

rlx_value rlx_rms_norm(rlx_graph *g, rlx_value x, rlx_value gamma, const rlx_norm_desc *d)
{
    return rlx_rms_norm_ex(g, x, gamma, RLX_NONE, d);
}

rlx_value rlx_rms_norm_ex(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                          const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta};
    return rx_graph_add(g, RX_OP_rms_norm, in, 3, d, NULL);
}

rlx_value rlx_layer_norm2d(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                           const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta};
    return rx_graph_add(g, RX_OP_layer_norm2d, in, 3, d, NULL);
}

rlx_value rlx_group_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                         const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta};
    return rx_graph_add(g, RX_OP_group_norm, in, 3, d, NULL);
}

rlx_value rlx_instance_norm(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                            const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta};
    return rx_graph_add(g, RX_OP_instance_norm, in, 3, d, NULL);
}

rlx_value rlx_batch_norm_inference(rlx_graph *g, rlx_value x, rlx_value gamma, rlx_value beta,
                                   rlx_value mean, rlx_value var, const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, gamma, beta, mean, var};
    return rx_graph_add(g, RX_OP_batch_norm_inference, in, 5, d, NULL);
}

rlx_value rlx_ada_layer_norm(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value shift,
                             const rlx_norm_desc *d)
{
    const rlx_value in[] = {x, scale, shift};
    return rx_graph_add(g, RX_OP_ada_layer_norm, in, 3, d, NULL);
}

rlx_value rlx_gated_residual(rlx_graph *g, rlx_value x, rlx_value y, rlx_value gate)
{
    const rlx_value in[] = {x, y, gate};
    return rx_graph_add(g, RX_OP_gated_residual, in, 3, NULL, NULL);
}

rlx_value rlx_residual_norm(rlx_graph *g, rlx_value x, rlx_value residual, rlx_value gamma,
                            rlx_value beta, const rlx_residual_norm_desc *d, rlx_value *sum)
{
    const rlx_value in[] = {x, residual, gamma, beta};
    const rlx_value normed = rx_graph_add(g, RX_OP_residual_norm, in, 4, d, NULL);
    if (sum)
        *sum = rx_result(normed, 1);
    return normed;
}

rlx_value rlx_swiglu(rlx_graph *g, rlx_value gate, rlx_value up)
{
    const rlx_value in[] = {gate, up};
    return rx_graph_add(g, RX_OP_swiglu, in, 2, NULL, NULL);
}

rlx_value rlx_softmax(rlx_graph *g, rlx_value x, int64_t axis)
{
    const rx_axis_attr d = {axis};
    return rx_graph_add(g, RX_OP_softmax, &x, 1, &d, NULL);
}

rlx_value rlx_log_softmax(rlx_graph *g, rlx_value x, int64_t axis)
{
    const rx_axis_attr d = {axis};
    return rx_graph_add(g, RX_OP_log_softmax, &x, 1, &d, NULL);
}

/* ---- Checks shared by the rules -------------------------------------------------------------- */

static rlx_status check_eps(rx_infer *c, double *eps)
{
    if (*eps == 0)
        *eps = DEFAULT_EPS;
    if (*eps > 0 && isfinite(*eps))
        return RLX_OK;
    return rx_infer_fail(c, "eps must be a finite number above 0, got %g", *eps);
}

/* Rejects an attribute of the shared record that this operation does not use. */
static rlx_status check_unused(rx_infer *c, const char *what, int64_t value)
{
    if (value == 0)
        return RLX_OK;
    return rx_infer_fail(c, "has no attribute %s, got %s=%lld", what, what, (long long)value);
}

/* A weight is f32 or of the type of x. */
static rlx_status check_weight_type(rx_infer *c, size_t i, const char *what)
{
    return rx_check_type(c, i, what, RX_T(RLX_F32) | RX_T(rx_in(c, 0)->dtype));
}

/* Weight i, if there, has just this shape. */
static rlx_status check_weight(rx_infer *c, size_t i, const char *what, const rlx_shape *want)
{
    if (!rx_in(c, i))
        return RLX_OK;
    RLX_TRY(check_weight_type(c, i, what));
    return rx_check_shape(c, i, what, want);
}

/* The shape of the axes of x from `axis` on. */
static rlx_shape inner_shape(const rx_value *x, int axis)
{
    rlx_shape s = {.rank = x->shape.rank - axis};
    for (int i = 0; i < s.rank; i++)
        s.dim[i] = x->shape.dim[axis + i];
    return s;
}

/* [C] of x [N, C, ...]. */
static rlx_shape channel_shape(const rx_value *x)
{
    return (rlx_shape){.rank = 1, .dim = {x->shape.dim[1]}};
}

/* ---- Shape rules ----------------------------------------------------------------------------- */

/* Canonicalises the first normalised axis so that the rule is idempotent: 0 stands for the last
 * axis, so "all axes" stays -rank; any other axis becomes positive. */
static rlx_status check_norm_axis(rx_infer *c, int64_t *axis, int rank, int *first)
{
    int64_t a = *axis == 0 ? -1 : *axis;
    RLX_TRY(rx_check_axis(c, &a, rank));
    *first = (int)a;
    *axis = a == 0 && rank > 1 ? -rank : a;
    return RLX_OK;
}

/* layer_norm, rms_norm: x, gamma?, beta?. */
rlx_status rx_infer_layer_norm(rx_infer *c)
{
    rlx_norm_desc *d = c->attr;
    int first = 0;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(check_norm_axis(c, &d->axis, x->shape.rank, &first));
    RLX_TRY(check_eps(c, &d->eps));
    RLX_TRY(check_unused(c, "groups", d->groups));

    const rlx_shape inner = inner_shape(x, first);
    RLX_TRY(check_weight(c, 1, "gamma", &inner));
    RLX_TRY(check_weight(c, 2, "beta", &inner));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

static rlx_status check_groups(rx_infer *c, const rlx_norm_desc *d, rlx_dim channels)
{
    char text[64];
    if (c->op != RX_OP_group_norm)
        return check_unused(c, "groups", d->groups);
    if (d->groups < 1)
        return rx_infer_fail(c, "groups must be at least 1, got %lld", (long long)d->groups);
    if (d->groups == 1 || (rx_dim_is_number(channels) && channels % d->groups == 0))
        return RLX_OK;
    return rx_infer_fail(c, "groups must divide the number of channels, got groups=%lld and C=%s",
                         (long long)d->groups, rx_dim_text(c->g, channels, text, sizeof text));
}

/* layer_norm2d, group_norm, instance_norm: x [N, C, ...], gamma? [C], beta? [C]. */
rlx_status rx_infer_channel_norm(rx_infer *c)
{
    rlx_norm_desc *d = c->attr;
    const bool is_2d = c->op == RX_OP_layer_norm2d;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", is_2d ? 4 : 2, is_2d ? 4 : RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(check_eps(c, &d->eps));
    RLX_TRY(check_unused(c, "axis", d->axis));
    RLX_TRY(check_groups(c, d, x->shape.dim[1]));

    const rlx_shape channels = channel_shape(x);
    RLX_TRY(check_weight(c, 1, "gamma", &channels));
    RLX_TRY(check_weight(c, 2, "beta", &channels));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* x [N, C, ...], gamma? [C], beta? [C], mean [C], var [C]. */
rlx_status rx_infer_batch_norm(rx_infer *c)
{
    static const char *const what[] = {"x", "gamma", "beta", "mean", "var"};
    rlx_norm_desc *d = c->attr;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 2, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(check_eps(c, &d->eps));
    RLX_TRY(check_unused(c, "axis", d->axis));
    RLX_TRY(check_unused(c, "groups", d->groups));

    const rlx_shape channels = channel_shape(x);
    RLX_TRY(check_weight_type(c, 3, what[3]));
    RLX_TRY(check_weight_type(c, 4, what[4]));
    for (size_t i = 1; i < 5; i++)
        RLX_TRY(check_weight(c, i, what[i], &channels));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* x, scale, shift; the last two broadcast to x. */
rlx_status rx_infer_ada_layer_norm(rx_infer *c)
{
    rlx_norm_desc *d = c->attr;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(check_eps(c, &d->eps));
    RLX_TRY(check_unused(c, "axis", d->axis));
    RLX_TRY(check_unused(c, "groups", d->groups));
    RLX_TRY(check_weight_type(c, 1, "scale"));
    RLX_TRY(check_weight_type(c, 2, "shift"));
    RLX_TRY(rx_check_broadcasts_to(c, 1, "scale", &x->shape));
    RLX_TRY(rx_check_broadcasts_to(c, 2, "shift", &x->shape));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* x, y of the same shape, gate that broadcasts to it; one type. */
rlx_status rx_infer_gated_residual(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_type(c, 1, "y", RX_T(x->dtype)));
    RLX_TRY(rx_check_type(c, 2, "gate", RX_T(x->dtype)));
    RLX_TRY(rx_check_shape(c, 1, "y", &x->shape));
    RLX_TRY(rx_check_broadcasts_to(c, 2, "gate", &x->shape));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* x, residual, gamma?, beta? -> normed, sum. */
rlx_status rx_infer_residual_norm(rx_infer *c)
{
    rlx_residual_norm_desc *d = c->attr;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_type(c, 1, "residual", RX_T(x->dtype)));
    RLX_TRY(rx_check_shape(c, 1, "residual", &x->shape));
    RLX_TRY(check_eps(c, &d->eps));

    const rlx_shape inner = inner_shape(x, x->shape.rank - 1);
    RLX_TRY(check_weight(c, 2, "gamma", &inner));
    RLX_TRY(check_weight(c, 3, "beta", &inner));
    rx_out(c, 0, x->dtype, &x->shape);
    rx_out(c, 1, x->dtype, &x->shape);
    return RLX_OK;
}

/* gate, up of one shape; or gate [.., 2N] alone. */
rlx_status rx_infer_swiglu(rx_infer *c)
{
    char text[64];

    RLX_TRY(rx_check_type(c, 0, "gate", RX_REALS));
    const rx_value *gate = rx_in(c, 0);
    rlx_shape s = gate->shape;
    if (rx_in(c, 1)) {
        RLX_TRY(rx_check_type(c, 1, "up", RX_T(gate->dtype)));
        RLX_TRY(rx_check_shape(c, 1, "up", &s));
        rx_out(c, 0, gate->dtype, &s);
        return RLX_OK;
    }
    RLX_TRY(rx_check_rank(c, 0, "gate", 1, RLX_MAX_RANK));
    rlx_dim *last = &s.dim[s.rank - 1];
    if (!rx_dim_is_number(*last) || *last % 2 != 0)
        return rx_infer_fail(c, "without up, the last axis of gate must be an even number, got %s",
                             rx_dim_text(c->g, *last, text, sizeof text));
    *last /= 2;
    rx_out(c, 0, gate->dtype, &s);
    return RLX_OK;
}

/* softmax, log_softmax */
rlx_status rx_infer_softmax(rx_infer *c)
{
    rx_axis_attr *d = c->attr;

    RLX_TRY(rx_check_type(c, 0, "x", RX_REALS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_axis(c, &d->axis, x->shape.rank));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* ---- Decompositions -------------------------------------------------------------------------- */

static rlx_value operand(const rx_lower *c, uint32_t i)
{
    return i < c->node->n_in ? c->in[i] : RLX_NONE;
}

/* v in the type that the node is computed in: f32, or f64 when its first operand is. */
static rlx_value working(const rx_lower *c, rlx_value v)
{
    return rx_as_type(c->g, v, rx_working_type(rlx_value_dtype(c->g, c->in[0])));
}

/* The result `y` in the type of the node's first operand. */
static rlx_value as_result(const rx_lower *c, rlx_value y)
{
    return rx_as_type(c->g, y, rlx_value_dtype(c->g, c->in[0]));
}

/* y * gamma? + beta?, all of one type. */
static rlx_value affine(rlx_graph *g, rlx_value y, rlx_value gamma, rlx_value beta)
{
    if (gamma.id)
        y = rlx_mul(g, y, gamma);
    return beta.id ? rlx_add(g, y, beta) : y;
}

/* x - mean over these axes; a quarter of it in rows with elements so large that differences could
 * overflow. There eps is below every variance but 0, so that it need not follow. */
static rlx_value centred(rlx_graph *g, rlx_value x, const int64_t *axes, size_t n)
{
    const double large = rlx_value_dtype(g, x) == RLX_F64 ? 0x1p1022 : 0x1p126;
    const rlx_value most = rlx_reduce(g, RLX_REDUCE_MAX, rlx_abs(g, x), axes, n, true);
    const rlx_value share = rlx_where(g, rlx_gt(g, most, rx_number_like(g, x, large)),
                                      rx_number_like(g, x, 0.25), rx_number_like(g, x, 1));
    x = rlx_mul(g, x, share);
    return rlx_sub(g, x, rlx_reduce(g, RLX_REDUCE_MEAN, x, axes, n, true));
}

/* (x - mean) / sqrt(variance + eps) over the axes from `first` on, x f32 or f64; with `rms`, the
 * mean counts as 0. Two passes: the mean square of the differences, not a difference of mean
 * squares. Differences whose squares would overflow are divided by a unit, eps by its square. */
static rlx_value standardise(rlx_graph *g, rlx_value x, int first, double eps, bool rms)
{
    const int rank = rlx_value_shape(g, x).rank;
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    for (int i = first; i < rank; i++)
        axes[n++] = i;

    if (!rms)
        x = centred(g, x, axes, n);
    const rlx_value largest = rlx_reduce(g, RLX_REDUCE_MAX, rlx_abs(g, x), axes, n, true);
    const double most = rlx_value_dtype(g, x) == RLX_F64 ? 0x1p1000 : 0x1p100;
    const rlx_value size = rlx_mul(g, largest, rx_number_like(g, x, 0x1p-50));
    const rlx_value unit = rlx_clamp(g, size, 1, most);
    const rlx_value least = rlx_div(g, rlx_div(g, rx_number_like(g, x, eps), unit), unit);
    x = rlx_div(g, x, unit);
    const rlx_value var = rlx_reduce(g, RLX_REDUCE_MEAN, rlx_mul(g, x, x), axes, n, true);
    return rlx_mul(g, x, rlx_rsqrt(g, rlx_add(g, var, least)));
}

static rlx_status lower_last_axes(rx_lower *c, bool rms)
{
    const rlx_norm_desc *d = c->attr;
    const int rank = rlx_value_shape(c->g, c->in[0]).rank;
    const int first = (int)(d->axis < 0 ? d->axis + rank : d->axis);
    const rlx_value y = standardise(c->g, working(c, c->in[0]), first, d->eps, rms);
    c->out[0] = as_result(c, affine(c->g, y, working(c, operand(c, 1)), working(c, operand(c, 2))));
    return RLX_OK;
}

rlx_status rx_lower_layer_norm(rx_lower *c)
{
    return lower_last_axes(c, false);
}

rlx_status rx_lower_rms_norm(rx_lower *c)
{
    return lower_last_axes(c, true);
}

/* [N,C,H,W] -> [N,H,W,C], layer_norm, and back. */
rlx_status rx_lower_layer_norm2d(rx_lower *c)
{
    static const int channels_last[] = {0, 2, 3, 1}, channels_second[] = {0, 3, 1, 2};
    const rlx_norm_desc *d = c->attr;
    const rlx_norm_desc last = {RLX_INIT(rlx_norm_desc), .axis = -1, .eps = d->eps};
    rlx_value y = rlx_transpose(c->g, c->in[0], channels_last);
    y = rlx_layer_norm(c->g, y, operand(c, 1), operand(c, 2), &last);
    c->out[0] = rlx_transpose(c->g, y, channels_second);
    return RLX_OK;
}

/* A weight [C] as [C, 1, ...], to broadcast over [N, C, ...] of this rank. */
static rlx_value channel_weight(const rx_lower *c, rlx_value w, int rank)
{
    if (w.id == 0)
        return w;
    rlx_dim dims[RLX_MAX_RANK] = {rlx_value_shape(c->g, w).dim[0], 1, 1, 1, 1, 1, 1, 1};
    return rlx_reshape(c->g, working(c, w), rank - 1, dims);
}

/* group_norm and instance_norm: layer_norm of [N, groups, C / groups * spatial] without weights,
 * then the weights of each channel. */
rlx_status rx_lower_group_norm(rx_lower *c)
{
    const rlx_norm_desc *d = c->attr;
    const rlx_shape s = rlx_value_shape(c->g, c->in[0]);
    const bool instance = c->node->op == RX_OP_instance_norm;
    const rlx_norm_desc last = {RLX_INIT(rlx_norm_desc), .axis = -1, .eps = d->eps};

    rlx_dim inner = instance ? 1 : rlx_dim_div(c->g, s.dim[1], d->groups);
    for (int i = 2; i < s.rank; i++)
        inner = rlx_dim_mul(c->g, inner, s.dim[i]);
    const rlx_dim rows[] = {s.dim[0], instance ? s.dim[1] : d->groups, inner};

    rlx_value y = rlx_reshape(c->g, working(c, c->in[0]), 3, rows);
    y = rlx_layer_norm(c->g, y, RLX_NONE, RLX_NONE, &last);
    y = rlx_reshape(c->g, y, s.rank, s.dim);
    y = affine(c->g, y, channel_weight(c, operand(c, 1), s.rank),
               channel_weight(c, operand(c, 2), s.rank));
    c->out[0] = as_result(c, y);
    return RLX_OK;
}

/* (x - mean) * (rsqrt(var + eps) * gamma?) + beta? */
rlx_status rx_lower_batch_norm(rx_lower *c)
{
    const rlx_norm_desc *d = c->attr;
    rlx_graph *g = c->g;
    const int rank = rlx_value_shape(g, c->in[0]).rank;
    const rlx_value gamma = channel_weight(c, c->in[1], rank);
    const rlx_value beta = channel_weight(c, c->in[2], rank);
    const rlx_value mean = channel_weight(c, c->in[3], rank);
    const rlx_value var = channel_weight(c, c->in[4], rank);

    rlx_value scale = rlx_rsqrt(g, rlx_add(g, var, rx_number_like(g, var, d->eps)));
    if (gamma.id)
        scale = rlx_mul(g, scale, gamma);
    c->out[0] = as_result(c, affine(g, rlx_sub(g, working(c, c->in[0]), mean), scale, beta));
    return RLX_OK;
}

rlx_status rx_lower_ada_layer_norm(rx_lower *c)
{
    const rlx_norm_desc *d = c->attr;
    const rlx_norm_desc last = {RLX_INIT(rlx_norm_desc), .axis = -1, .eps = d->eps};
    rlx_graph *g = c->g;
    const rlx_value y = rlx_layer_norm(g, working(c, c->in[0]), RLX_NONE, RLX_NONE, &last);
    const rlx_value scale = rlx_add(g, working(c, c->in[1]), rx_number_like(g, y, 1));
    c->out[0] = as_result(c, affine(g, y, scale, working(c, c->in[2])));
    return RLX_OK;
}

rlx_status rx_lower_gated_residual(rx_lower *c)
{
    c->out[0] = rlx_fma(c->g, c->in[2], c->in[1], c->in[0]);
    return RLX_OK;
}

rlx_status rx_lower_residual_norm(rx_lower *c)
{
    const rlx_residual_norm_desc *d = c->attr;
    const rlx_norm_desc last = {RLX_INIT(rlx_norm_desc), .axis = -1, .eps = d->eps};
    const rlx_value sum = rlx_add(c->g, c->in[0], c->in[1]);
    c->out[0] = d->rms ? rlx_rms_norm_ex(c->g, sum, operand(c, 2), operand(c, 3), &last)
                       : rlx_layer_norm(c->g, sum, operand(c, 2), operand(c, 3), &last);
    c->out[1] = sum;
    return RLX_OK;
}

rlx_status rx_lower_swiglu(rx_lower *c)
{
    rlx_graph *g = c->g;
    rlx_value gate = c->in[0], up = operand(c, 1);
    if (up.id == 0) {
        const rlx_shape s = rlx_value_shape(g, gate);
        const rlx_dim half = s.dim[s.rank - 1] / 2;
        up = rlx_narrow(g, gate, -1, half, half);
        gate = rlx_narrow(g, gate, -1, 0, half);
    }
    c->out[0] = as_result(c, rlx_mul(g, rlx_silu(g, working(c, gate)), working(c, up)));
    return RLX_OK;
}

/* Sets *shifted = x - max and *sum = sum(exp(*shifted)) in f32 or f64; returns exp(*shifted). In a
 * row of all -inf the maximum counts as the lowest finite number, so exp is 0 and not NaN; and as
 * any other row has a term of exactly 1, a sum below 1 is that of such a row and may become 1. */
static rlx_value shifted_exp(rx_lower *c, rlx_value *shifted, rlx_value *sum)
{
    const int64_t axis = ((const rx_axis_attr *)c->attr)->axis;
    rlx_graph *g = c->g;
    const rlx_value x = working(c, c->in[0]);
    const rlx_value max = rlx_reduce(g, RLX_REDUCE_MAX, x, &axis, 1, true);
    const double lowest = rlx_value_dtype(g, x) == RLX_F64 ? -DBL_MAX : -FLT_MAX;
    *shifted = rlx_sub(g, x, rlx_clamp(g, max, lowest, INFINITY));
    const rlx_value e = rlx_exp(g, *shifted);
    *sum = rlx_clamp(g, rlx_reduce(g, RLX_REDUCE_SUM, e, &axis, 1, true), 1, INFINITY);
    return e;
}

rlx_status rx_lower_softmax(rx_lower *c)
{
    rlx_value shifted, sum;
    const rlx_value e = shifted_exp(c, &shifted, &sum);
    c->out[0] = as_result(c, rlx_div(c->g, e, sum));
    return RLX_OK;
}

rlx_status rx_lower_log_softmax(rx_lower *c)
{
    rlx_value shifted, sum;
    shifted_exp(c, &shifted, &sum);
    c->out[0] = as_result(c, rlx_sub(c->g, shifted, rlx_log(c->g, sum)));
    return RLX_OK;
}
