/* SPDX-License-Identifier: MIT */
/* Sorting and indices: top_k, sort, argsort, histogram, one_hot, range, nonzero. Builders, shape
 * rules, decompositions. */
#include <math.h>

#include "ir/infer.h"
#include "ops/lower.h"

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_top_k(rlx_graph *g, rlx_value x, const rlx_topk_desc *d, rlx_value *indices)
{
    rlx_value first = rx_graph_add(g, RX_OP_top_k, &x, 1, d, NULL);
    if (indices)
        *indices = rx_result(first, 1);
    return first;
}

rlx_value rlx_sort(rlx_graph *g, rlx_value x, const rlx_sort_desc *d)
{
    return rx_graph_add(g, RX_OP_sort, &x, 1, d, NULL);
}

rlx_value rlx_argsort(rlx_graph *g, rlx_value x, const rlx_sort_desc *d)
{
    return rx_graph_add(g, RX_OP_argsort, &x, 1, d, NULL);
}

rlx_value rlx_histogram(rlx_graph *g, rlx_value x, const rlx_histogram_desc *d)
{
    return rx_graph_add(g, RX_OP_histogram, &x, 1, d, NULL);
}

rlx_value rlx_one_hot(rlx_graph *g, rlx_value index, const rlx_one_hot_desc *d)
{
    return rx_graph_add(g, RX_OP_one_hot, &index, 1, d, NULL);
}

rlx_value rlx_range(rlx_graph *g, const rlx_range_desc *d)
{
    return rx_graph_add(g, RX_OP_range, NULL, 0, d, NULL);
}

rlx_value rlx_nonzero(rlx_graph *g, rlx_value x, rlx_value *count)
{
    rlx_value first = rx_graph_add(g, RX_OP_nonzero, &x, 1, NULL, NULL);
    if (count)
        *count = rx_result(first, 1);
    return first;
}

/* ---- Shape rules ----------------------------------------------------------------------------- */

rlx_status rx_infer_top_k(rx_infer *c)
{
    rlx_topk_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_NUMBERS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_axis(c, &d->axis, x->shape.rank));
    RLX_TRY(rx_default_type(c, &d->out, RLX_I64, RX_INDEX));
    const int64_t size = rx_dim_bound(c->g, x->shape.dim[d->axis]);
    if (d->k < 1 || d->k > size)
        return rx_infer_fail(c, "k must be from 1 to %lld, the size of axis %d of x, got %lld",
                             (long long)size, (int)d->axis, (long long)d->k);
    rlx_shape s = x->shape;
    s.dim[d->axis] = d->k;
    rx_out(c, 0, x->dtype, &s);
    rx_out(c, 1, d->out, &s);
    return RLX_OK;
}

rlx_status rx_infer_sort(rx_infer *c)
{
    rlx_sort_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_NUMBERS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    const rx_value *x = rx_in(c, 0);
    RLX_TRY(rx_check_axis(c, &d->axis, x->shape.rank));
    if (c->op == RX_OP_argsort) {
        RLX_TRY(rx_default_type(c, &d->out, RLX_I64, RX_INDEX));
        rx_out(c, 0, d->out, &x->shape);
        return RLX_OK;
    }
    if (d->out != RLX_NO_TYPE)
        return rx_infer_fail(c, "out is the type of argsort's indices; sort gives the type of x");
    rx_out(c, 0, x->dtype, &x->shape);
    return RLX_OK;
}

rlx_status rx_infer_histogram(rx_infer *c)
{
    const rlx_histogram_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_NUMBERS));
    if (d->bins < 1 || d->bins > INT32_MAX)
        return rx_infer_fail(c, "bins must be from 1 to %d, got %lld", INT32_MAX,
                             (long long)d->bins);
    if (!(d->lo < d->hi) || !isfinite(d->hi - d->lo))
        return rx_infer_fail(c, "lo and hi must be finite with lo < hi, got lo = %g and hi = %g",
                             d->lo, d->hi);
    const rlx_shape s = {.rank = 1, .dim = {d->bins}};
    rx_out(c, 0, RLX_I64, &s);
    return RLX_OK;
}

rlx_status rx_infer_one_hot(rx_infer *c)
{
    rlx_one_hot_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "index", RX_INTS));
    RLX_TRY(rx_check_rank(c, 0, "index", 0, RLX_MAX_RANK - 1));
    const rlx_shape *x = &rx_in(c, 0)->shape;
    RLX_TRY(rx_check_axis(c, &d->axis, x->rank + 1));
    if (d->depth < 1)
        return rx_infer_fail(c, "depth must be at least 1, got %lld", (long long)d->depth);
    RLX_TRY(rx_default_type(c, &d->out, RLX_F32, RX_PLAIN));
    if (d->on == 0 && d->off == 0)
        d->on = 1;
    rlx_shape s = {.rank = x->rank + 1};
    for (int i = 0, j = 0; i < s.rank; i++)
        s.dim[i] = i == d->axis ? d->depth : x->dim[j++];
    rx_out(c, 0, d->out, &s);
    return RLX_OK;
}

/* Whether x is an integer that i64 holds exactly as a double. */
static bool is_integral(double x)
{
    return fabs(x) <= 0x1p53 && x == trunc(x);
}

rlx_status rx_infer_range(rx_infer *c)
{
    rlx_range_desc *d = c->attr;
    RLX_TRY(rx_default_type(c, &d->out, RLX_F32, RX_NUMBERS));
    if (d->step == 0)
        d->step = 1;
    if (!isfinite(d->start) || !isfinite(d->step))
        return rx_infer_fail(c, "start and step must be finite, got %g and %g", d->start, d->step);
    if (!rlx_dtype_is_float(d->out) && !(is_integral(d->start) && is_integral(d->step)))
        return rx_infer_fail(c, "start and step must be integers for type %s, got %g and %g",
                             rlx_dtype_name(d->out), d->start, d->step);
    if (d->n == -1 || (d->n < -1 && (uint64_t)(-(d->n + 2)) >= c->g->n_dims))
        return rx_infer_fail(c, "n must be at least 0 or a named dimension, got %lld",
                             (long long)d->n);
    const rlx_shape s = {.rank = 1, .dim = {d->n}};
    rx_out(c, 0, d->out, &s);
    return RLX_OK;
}

rlx_status rx_infer_nonzero(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    const rlx_shape *x = &rx_in(c, 0)->shape;
    const rlx_shape scalar = {0};
    const rlx_shape s = {.rank = 2, .dim = {x->rank, rx_shape_product(c->g, x, 0, x->rank)}};
    rx_out(c, 0, RLX_I64, &s);
    rx_out(c, 1, RLX_I64, &scalar);
    return RLX_OK;
}

/* ---- Decompositions -------------------------------------------------------------------------- */

/* sort as top_k of the whole axis. For a named axis k is its upper bound: top_k puts missing
 * elements last, and narrow drops them. */
rlx_status rx_lower_sort(rx_lower *c)
{
    rlx_graph *g = c->g;
    const rlx_sort_desc *d = c->attr;
    const bool places = c->node->op == RX_OP_argsort;
    const rlx_dim size = rlx_value_shape(g, c->in[0]).dim[d->axis];
    const rlx_topk_desc k = {RLX_INIT(rlx_topk_desc), .k = rx_dim_bound(g, size), .axis = d->axis,
                             .smallest = !d->descending, .out = d->out};
    if (k.k == 0) { /* nothing to sort */
        c->out[0] = places ? rlx_cast(g, c->in[0], d->out) : c->in[0];
        return RLX_OK;
    }
    rlx_value indices, y = rlx_top_k(g, c->in[0], &k, &indices);
    y = places ? indices : y;
    c->out[0] = rx_dim_is_number(size) ? y : rlx_narrow(g, y, d->axis, 0, size);
    return RLX_OK;
}
