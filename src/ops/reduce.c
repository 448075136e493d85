/* SPDX-License-Identifier: MIT */
/* Reductions over sets of axes (reduce_*), argmax and argmin, and running sums, products and maxima
 * (cum*). Builders, shape rules, decompositions. */
#include "ir/infer.h"
#include "ops/lower.h"

/* ---- Builders -------------------------------------------------------------------------------- */

static const rx_op reduce_ops[] = {
    [RLX_REDUCE_SUM] = RX_OP_reduce_sum,
    [RLX_REDUCE_MEAN] = RX_OP_reduce_mean,
    [RLX_REDUCE_MAX] = RX_OP_reduce_max,
    [RLX_REDUCE_MIN] = RX_OP_reduce_min,
    [RLX_REDUCE_PROD] = RX_OP_reduce_prod,
    [RLX_REDUCE_L1] = RX_OP_reduce_l1,
    [RLX_REDUCE_L2] = RX_OP_reduce_l2,
    [RLX_REDUCE_LOG_SUM] = RX_OP_reduce_log_sum,
    [RLX_REDUCE_LOG_SUM_EXP] = RX_OP_reduce_log_sum_exp,
    [RLX_REDUCE_SUM_SQUARE] = RX_OP_reduce_sum_square,
    [RLX_REDUCE_ANY] = RX_OP_reduce_any,
    [RLX_REDUCE_ALL] = RX_OP_reduce_all,
};
#define N_REDUCE_OPS (sizeof reduce_ops / sizeof *reduce_ops)

rlx_value rlx_reduce(rlx_graph *g, rlx_reduce_kind kind, rlx_value x, const int64_t *axes, size_t n,
                     bool keepdims)
{
    if ((size_t)kind >= N_REDUCE_OPS) {
        rx_graph_fail(g, RLX_INVALID, "reduce: expected a kind from 0 to %zu, got %d",
                      N_REDUCE_OPS - 1, (int)kind);
        return RLX_NONE;
    }
    if (n > RLX_MAX_RANK || (n && !axes)) {
        rx_graph_fail(g, RLX_INVALID, "%s: expected at most %d axes, got %zu%s",
                      rx_ops[reduce_ops[kind]].name, RLX_MAX_RANK, n, axes ? "" : " that are NULL");
        return RLX_NONE;
    }
    rx_reduce_attr d = {.axes.n = (int32_t)n, .keepdims = keepdims};
    for (size_t i = 0; i < n; i++)
        d.axes.v[i] = axes[i];
    return rx_graph_add(g, reduce_ops[kind], &x, 1, &d, NULL);
}

rlx_value rlx_argmax(rlx_graph *g, rlx_value x, const rlx_arg_desc *d)
{
    return rx_graph_add(g, RX_OP_argmax, &x, 1, d, NULL);
}

rlx_value rlx_argmin(rlx_graph *g, rlx_value x, const rlx_arg_desc *d)
{
    return rx_graph_add(g, RX_OP_argmin, &x, 1, d, NULL);
}

rlx_value rlx_cumsum(rlx_graph *g, rlx_value x, const rlx_cum_desc *d)
{
    return rx_graph_add(g, RX_OP_cumsum, &x, 1, d, NULL);
}

rlx_value rlx_cumprod(rlx_graph *g, rlx_value x, const rlx_cum_desc *d)
{
    return rx_graph_add(g, RX_OP_cumprod, &x, 1, d, NULL);
}

rlx_value rlx_cummax(rlx_graph *g, rlx_value x, const rlx_cum_desc *d)
{
    return rx_graph_add(g, RX_OP_cummax, &x, 1, d, NULL);
}

/* ---- Shape rules ----------------------------------------------------------------------------- */

/* Canonicalises the list of axes: sorted, non-negative, complete; *set has bit i for axis i. */
static rlx_status normalise_axes(rx_infer *c, rlx_ints *axes, int rank, unsigned *set)
{
    *set = axes->n ? 0 : (1u << rank) - 1;
    if (axes->n < 0 || axes->n > RLX_MAX_INTS)
        return rx_infer_fail(c, "expected at most %d axes, got %d", RLX_MAX_INTS, (int)axes->n);
    for (int i = 0; i < axes->n; i++) {
        int64_t axis = axes->v[i];
        RLX_TRY(rx_check_axis(c, &axis, rank));
        if (*set >> axis & 1)
            return rx_infer_fail(c, "axes: axis %d is there twice", (int)axis);
        *set |= 1u << axis;
    }
    *axes = (rlx_ints){0};
    for (int i = 0; i < rank; i++)
        if (*set >> i & 1)
            axes->v[axes->n++] = i;
    return RLX_OK;
}

/* s with the axes of the set removed, or of size 1. */
static rlx_shape reduced_shape(const rlx_shape *s, unsigned set, bool keepdims)
{
    rlx_shape r = {0};
    for (int i = 0; i < s->rank; i++) {
        const bool reduced = set >> i & 1;
        if (reduced && !keepdims)
            continue;
        r.dim[r.rank++] = reduced ? 1 : s->dim[i];
    }
    return r;
}

static rlx_status infer_reduce(rx_infer *c, uint64_t types)
{
    rx_reduce_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", types));
    const rx_value *x = rx_in(c, 0);
    unsigned set;
    RLX_TRY(normalise_axes(c, &d->axes, x->shape.rank, &set));
    const rlx_shape s = reduced_shape(&x->shape, set, d->keepdims);
    rx_out(c, 0, x->dtype, &s);
    return RLX_OK;
}

rlx_status rx_infer_reduce(rx_infer *c)
{
    return infer_reduce(c, RX_NUMBERS);
}

rlx_status rx_infer_reduce_floats(rx_infer *c)
{
    return infer_reduce(c, RX_REALS);
}

rlx_status rx_infer_reduce_bools(rx_infer *c)
{
    return infer_reduce(c, RX_T(RLX_BOOL));
}

rlx_status rx_infer_arg(rx_infer *c)
{
    rlx_arg_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_NUMBERS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_axis(c, &d->axis, x->shape.rank));
    if (x->shape.dim[d->axis] == 0)
        return rx_infer_fail(c, "x: axis %d must have at least 1 element, got 0", (int)d->axis);
    RLX_TRY(rx_default_type(c, &d->out, RLX_I64, RX_INDEX));
    const rlx_shape s = reduced_shape(&x->shape, 1u << d->axis, d->keepdims);
    rx_out(c, 0, d->out, &s);
    return RLX_OK;
}

rlx_status rx_infer_cum(rx_infer *c)
{
    rlx_cum_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_NUMBERS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_axis(c, &d->axis, x->shape.rank));
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

/* ---- Decompositions -------------------------------------------------------------------------- */

static rlx_value reduce_as(rx_lower *c, rlx_reduce_kind kind, rlx_value x, bool keepdims)
{
    const rx_reduce_attr *d = c->attr;
    return rlx_reduce(c->g, kind, x, d->axes.v, (size_t)d->axes.n, keepdims);
}

/* Removes the reduced axes, which have size 1 in y, unless keepdims. */
static rlx_value drop_axes(rx_lower *c, rlx_value x, rlx_value y)
{
    const rx_reduce_attr *d = c->attr;
    if (d->keepdims)
        return y;
    const rlx_shape xs = rlx_value_shape(c->g, x);
    unsigned set = 0;
    for (int i = 0; i < d->axes.n; i++)
        set |= 1u << d->axes.v[i];
    const rlx_shape s = reduced_shape(&xs, set, false);
    return rlx_reshape(c->g, y, s.rank, s.dim);
}

/* log(sum(exp(x - m))) + m with m the maximum, or 0 where that is infinite: then the sum is 0 or
 * infinite too, and x - m would be NaN. x is f32 or f64. */
static rlx_value log_sum_exp(rx_lower *c, rlx_value x)
{
    rlx_graph *g = c->g;
    rlx_value m = reduce_as(c, RLX_REDUCE_MAX, x, true);
    m = rlx_where(g, rlx_is_inf(g, m), rx_number_like(g, x, 0), m);
    rlx_value sum = reduce_as(c, RLX_REDUCE_SUM, rlx_exp(g, rlx_sub(g, x, m)), true);
    return drop_axes(c, x, rlx_add(g, rlx_log(g, sum), m));
}

/* m * sqrt(sum((x / m)^2)) with m the largest magnitude, so that no square overflows; 1 where m is
 * 0 or infinite. x is f32 or f64. */
static rlx_value l2_norm(rx_lower *c, rlx_value x)
{
    rlx_graph *g = c->g;
    rlx_value m = reduce_as(c, RLX_REDUCE_MAX, rlx_abs(g, x), true);
    rlx_value bad = rlx_or(g, rlx_is_inf(g, m), rlx_eq(g, m, rx_number_like(g, x, 0)));
    m = rlx_where(g, bad, rx_number_like(g, x, 1), m);
    rlx_value q = rlx_div(g, x, m);
    rlx_value sum = reduce_as(c, RLX_REDUCE_SUM, rlx_mul(g, q, q), true);
    return drop_axes(c, x, rlx_mul(g, rlx_sqrt(g, sum), m));
}

static rlx_value sum_of_magnitudes(rx_lower *c, rlx_value x)
{
    const rx_reduce_attr *d = c->attr;
    return reduce_as(c, RLX_REDUCE_SUM, rlx_abs(c->g, x), d->keepdims);
}

static rlx_value sum_of_squares(rx_lower *c, rlx_value x)
{
    const rx_reduce_attr *d = c->attr;
    return reduce_as(c, RLX_REDUCE_SUM, rlx_mul(c->g, x, x), d->keepdims);
}

static rlx_value log_of_sum(rx_lower *c, rlx_value x)
{
    const rx_reduce_attr *d = c->attr;
    return rlx_log(c->g, reduce_as(c, RLX_REDUCE_SUM, x, d->keepdims));
}

/* Half types are widened first: squares and sums of f16 overflow soon. */
static rlx_status widened(rx_lower *c, rlx_value (*formula)(rx_lower *c, rlx_value x))
{
    const rlx_dtype t = rlx_value_dtype(c->g, c->in[0]);
    if (rx_is_half(t))
        c->out[0] = rlx_cast(c->g, formula(c, rlx_cast(c->g, c->in[0], RLX_F32)), t);
    else
        c->out[0] = formula(c, c->in[0]);
    return RLX_OK;
}

rlx_status rx_lower_reduce_l1(rx_lower *c)
{
    return widened(c, sum_of_magnitudes);
}

rlx_status rx_lower_reduce_l2(rx_lower *c)
{
    return widened(c, l2_norm);
}

rlx_status rx_lower_reduce_sum_square(rx_lower *c)
{
    return widened(c, sum_of_squares);
}

rlx_status rx_lower_reduce_log_sum(rx_lower *c)
{
    return widened(c, log_of_sum);
}

rlx_status rx_lower_reduce_log_sum_exp(rx_lower *c)
{
    return widened(c, log_sum_exp);
}
