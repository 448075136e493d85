/* SPDX-License-Identifier: MIT */
/* Operators of ONNX that move data: shapes, views, slices, concatenation, constants. */
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Constants ------------------------------------------------------------------------------- */

static rlx_value constant_list(rx_onnx_call *c, const rx_onnx_attr *a)
{
    const int64_t n = (int64_t)a->n;
    if (a->type == RX_ONNX_INTS)
        return rlx_constant(c->g, RLX_I64, 1, &n, a->ints, a->n * sizeof a->ints[0]);
    return rlx_constant(c->g, RLX_F32, 1, &n, a->floats, a->n * sizeof a->floats[0]);
}

rlx_value rx_onnx_constant_op(rx_onnx_call *c)
{
    const rx_onnx_attr *a;
    rlx_value v;
    if ((a = rx_onnx_attr_find(c, "value")) && a->t) {
        const rlx_status st = rx_onnx_constant(c->b, a->t, true, &v);
        if (st != RLX_OK)
            c->b->status = st;
        return st == RLX_OK ? v : RLX_NONE;
    }
    if ((a = rx_onnx_attr_find(c, "value_int")))
        return rlx_constant(c->g, RLX_I64, 0, NULL, &a->i, sizeof a->i);
    if ((a = rx_onnx_attr_find(c, "value_float")))
        return rlx_constant(c->g, RLX_F32, 0, NULL, &a->f, sizeof a->f);
    if ((a = rx_onnx_attr_find(c, "value_ints")) || (a = rx_onnx_attr_find(c, "value_floats")))
        return constant_list(c, a);
    return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a value that is a tensor or numbers");
}

rlx_value rx_onnx_constant_of_shape(rx_onnx_call *c)
{
    rlx_ints shape;
    const rx_onnx_attr *a = rx_onnx_attr_find(c, "value");
    rlx_value v = RLX_NONE;
    if (!rx_onnx_known_ints(c, 0, "shape", &shape))
        return RLX_NONE;
    if (!a || !a->t) {
        v = rlx_scalar(c->g, RLX_F32, 0);
    } else if ((c->b->status = rx_onnx_constant(c->b, a->t, false, &v)) != RLX_OK) {
        return RLX_NONE;
    } else {
        v = rlx_reshape(c->g, v, 0, NULL);
    }
    return rlx_expand(c->g, v, shape.n, shape.v);
}

rlx_value rx_onnx_eye_like(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int64_t k = rx_onnx_int(c, "k", 0);
    const rx_onnx_type *t = rx_onnx_type_of(rx_onnx_int(c, "dtype", 0));
    const rlx_dtype type = t && t->dtype ? t->dtype : rlx_value_dtype(c->g, x);
    if (s.rank != 2 || !rx_shape_is_fixed(&s))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a matrix of fixed size");
    const rlx_dim tall[2] = {s.dim[0], 1};
    const rlx_range_desc rows = {RLX_INIT(rlx_range_desc), .start = (double)k, .n = s.dim[0],
                                 .out = RLX_I64};
    const rlx_range_desc columns = {RLX_INIT(rlx_range_desc), .n = s.dim[1], .out = RLX_I64};
    return rlx_cast(c->g, rlx_eq(c->g, rlx_reshape(c->g, rlx_range(c->g, &rows), 2, tall),
                                 rlx_range(c->g, &columns)), type);
}

/* start, limit and delta must be known. */
rlx_value rx_onnx_range(rx_onnx_call *c)
{
    double v[3];
    size_t n;
    static const char *const names[3] = {"start", "limit", "delta"};
    for (size_t i = 0; i < 3; i++)
        if (!rx_onnx_known_reals(c, i, names[i], &v[i], 1, &n))
            return RLX_NONE;
    const double count = v[2] == 0 ? 0 : ceil((v[1] - v[0]) / v[2]);
    if (!(count >= -1e15 && count < 1e12))
        return rx_onnx_fail(c, RLX_INVALID, "a range of %g elements", count);
    const rlx_dtype t = rlx_value_dtype(c->g, rx_onnx_in(c, 0));
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .start = v[0], .step = v[2],
                              .n = count > 0 ? (rlx_dim)count : 0, .out = t};
    return rlx_range(c->g, &d);
}

/* ---- Shapes as values ------------------------------------------------------------------------ */

rlx_value rx_onnx_shape(rx_onnx_call *c)
{
    const rlx_shape s = rlx_value_shape(c->g, rx_onnx_in(c, 0));
    int64_t start = rx_onnx_int(c, "start", 0), end = rx_onnx_int(c, "end", s.rank);
    start = start < 0 ? start + s.rank : start;
    end = end < 0 ? end + s.rank : end;
    start = start < 0 ? 0 : start > s.rank ? s.rank : start;
    end = end > s.rank ? s.rank : end;
    for (int64_t i = start; i < end; i++)
        if (!rx_dim_is_number(s.dim[i]))
            return rx_onnx_fail(c, RLX_UNSUPPORTED, "axis %lld of its operand has no fixed size; "
                                "give the size of that dimension", (long long)i);
    return rx_onnx_i64s(c->g, s.dim + start, end > start ? end - start : 0);
}

rlx_value rx_onnx_size(rx_onnx_call *c)
{
    const int64_t n = rx_onnx_elements(c, rx_onnx_in(c, 0));
    if (n < 0)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "its operand has no fixed size");
    return rlx_constant(c->g, RLX_I64, 0, NULL, &n, sizeof n);
}

/* ---- Views ----------------------------------------------------------------------------------- */

rlx_value rx_onnx_reshape(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const bool zero = rx_onnx_int(c, "allowzero", 0);
    rlx_ints shape;
    bool given;
    if (!rx_onnx_axes(c, "shape", 1, &shape, &given))
        return RLX_NONE;
    if (shape.n > RLX_MAX_RANK)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "%d dimensions; expected at most %d", shape.n,
                            RLX_MAX_RANK);
    for (int i = 0; i < shape.n; i++) {
        if (shape.v[i] == 0 && !zero && i < s.rank)
            shape.v[i] = s.dim[i];
        else if (shape.v[i] < -1)
            return rx_onnx_fail(c, RLX_INVALID, "size %lld for axis %d", (long long)shape.v[i], i);
    }
    return rlx_reshape(c->g, x, shape.n, shape.v);
}

rlx_value rx_onnx_flatten(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    int64_t axis = rx_onnx_int(c, "axis", 1);
    axis = axis < 0 ? axis + s.rank : axis;
    if (axis < 0 || axis > s.rank)
        return rx_onnx_fail(c, RLX_INVALID, "axis %lld of %d", (long long)axis, s.rank);
    const rlx_dim dims[2] = {rx_shape_product(c->g, &s, 0, (int)axis),
                             rx_shape_product(c->g, &s, (int)axis, s.rank)};
    return rlx_reshape(c->g, x, 2, dims);
}

/* Marks the axes of a list; false after rx_onnx_fail. */
static bool mark_axes(rx_onnx_call *c, const rlx_ints *axes, int rank, bool *marked)
{
    for (int i = 0; i < axes->n; i++) {
        const int axis = rx_onnx_axis(c, axes->v[i], rank);
        if (axis < 0)
            return false;
        marked[axis] = true;
    }
    return true;
}

rlx_value rx_onnx_squeeze(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_ints axes;
    rlx_shape to = {0};
    bool given, marked[RLX_MAX_RANK] = {0};
    if (!rx_onnx_axes(c, "axes", 1, &axes, &given) || !mark_axes(c, &axes, s.rank, marked))
        return RLX_NONE;
    for (int i = 0; i < s.rank; i++)
        if (given ? !marked[i] : s.dim[i] != 1)
            to.dim[to.rank++] = s.dim[i];
    return rlx_reshape(c->g, x, to.rank, to.dim);
}

rlx_value rx_onnx_unsqueeze(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_ints axes;
    rlx_shape to = {0};
    bool given, marked[RLX_MAX_RANK] = {0};
    if (!rx_onnx_axes(c, "axes", 1, &axes, &given))
        return RLX_NONE;
    if (s.rank + axes.n > RLX_MAX_RANK)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "a result of %d dimensions; expected at most %d",
                            s.rank + axes.n, RLX_MAX_RANK);
    if (!mark_axes(c, &axes, s.rank + axes.n, marked))
        return RLX_NONE;
    for (int i = 0, k = 0; i < s.rank + axes.n; i++)
        to.dim[to.rank++] = marked[i] ? 1 : k < s.rank ? s.dim[k++] : 1;
    return rlx_reshape(c->g, x, to.rank, to.dim);
}

rlx_value rx_onnx_transpose(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int rank = rx_onnx_rank(c, x);
    rlx_ints perm;
    int order[RLX_MAX_RANK];
    if (!rx_onnx_ints(c, "perm", &perm))
        return rlx_transpose(c->g, x, NULL);
    if (perm.n != rank)
        return rx_onnx_fail(c, RLX_INVALID, "perm has %d axes; expected %d", perm.n, rank);
    for (int i = 0; i < rank; i++)
        if ((order[i] = rx_onnx_axis(c, perm.v[i], rank)) < 0)
            return RLX_NONE;
    return rlx_transpose(c->g, x, order);
}

/* Both shapes broadcast: a 1 in the given shape keeps the axis of x. */
rlx_value rx_onnx_expand(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    rlx_ints to;
    if (!rx_onnx_known_ints(c, 1, "shape", &to))
        return RLX_NONE;
    const int rank = to.n > s.rank ? to.n : s.rank;
    rlx_dim dims[RLX_MAX_INTS];
    for (int i = 0; i < rank; i++) {
        const int own = i - (rank - s.rank), other = i - (rank - to.n);
        dims[i] = other < 0 || (own >= 0 && to.v[other] == 1) ? s.dim[own] : to.v[other];
    }
    return rlx_expand(c->g, x, rank, dims);
}

/* ---- Slices and concatenation ---------------------------------------------------------------- */

rlx_value rx_onnx_concat(rx_onnx_call *c)
{
    return rlx_concat(c->g, c->in, c->n_in, rx_onnx_int(c, "axis", c->opset < 4 ? 1 : 0));
}

/* Sizes of the slices: given, or equal with a smaller last one. */
static bool split_sizes(rx_onnx_call *c, rlx_dim whole, size_t n, rlx_ints *sizes)
{
    bool given;
    if (!rx_onnx_axes(c, "split", 1, sizes, &given))
        return false;
    if (given && (size_t)sizes->n == n && rx_dim_is_number(whole))
        return true;
    if (given || n > RLX_MAX_INTS || !n || !rx_dim_is_number(whole)) {
        rx_onnx_fail(c, RLX_UNSUPPORTED, "%zu parts of an axis of %lld; expected 1 to %d of a "
                     "fixed size", n, (long long)whole, RLX_MAX_INTS);
        return false;
    }
    const int64_t part = (whole + (int64_t)n - 1) / (int64_t)n;
    sizes->n = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        sizes->v[i] = whole < part ? whole : part;
        whole -= sizes->v[i];
    }
    return true;
}

rlx_value rx_onnx_split(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 0), s.rank);
    rlx_ints sizes;
    if (axis < 0 || !split_sizes(c, s.dim[axis], c->n_out, &sizes))
        return RLX_NONE;
    int64_t at = 0;
    for (int i = 0; i < sizes.n; i++) {
        c->out[i] = rlx_narrow(c->g, x, axis, at, sizes.v[i]);
        at += sizes.v[i];
    }
    if (at != s.dim[axis])
        return rx_onnx_fail(c, RLX_INVALID, "parts of %lld elements; expected %lld in all",
                            (long long)at, (long long)s.dim[axis]);
    return c->out[0];
}

static bool slice_lists(rx_onnx_call *c, int rank, rlx_slice_desc *d)
{
    bool given;
    if (!rx_onnx_axes(c, "starts", 1, &d->starts, &given) ||
        !rx_onnx_axes(c, "ends", 2, &d->stops, &given) ||
        !rx_onnx_axes(c, "axes", 3, &d->axes, &given))
        return false;
    if (!given) {
        d->axes.n = d->starts.n;
        for (int i = 0; i < d->axes.n; i++)
            d->axes.v[i] = i;
    }
    for (int i = 0; i < d->axes.n; i++)
        if ((d->axes.v[i] = rx_onnx_axis(c, d->axes.v[i], rank)) < 0)
            return false;
    if (rx_onnx_in(c, 4).id && !rx_onnx_known_ints(c, 4, "steps", &d->steps))
        return false;
    if (!rx_onnx_in(c, 4).id) {
        d->steps.n = d->axes.n;
        for (int i = 0; i < d->axes.n; i++)
            d->steps.v[i] = 1;
    }
    return true;
}

rlx_value rx_onnx_slice(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    rlx_slice_desc d = {RLX_INIT(rlx_slice_desc)};
    if (!slice_lists(c, rx_onnx_rank(c, x), &d))
        return RLX_NONE;
    return d.axes.n ? rlx_slice(c->g, x, &d) : x;
}

rlx_value rx_onnx_tile(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    rlx_ints repeats;
    if (!rx_onnx_known_ints(c, 1, "repeats", &repeats))
        return RLX_NONE;
    if (repeats.n != rx_onnx_rank(c, x))
        return rx_onnx_fail(c, RLX_INVALID, "%d repeats; expected %d", repeats.n,
                            rx_onnx_rank(c, x));
    return rlx_tile(c->g, x, repeats.v);
}

static rlx_pad_mode pad_mode(const rx_onnx_call *c)
{
    return rx_onnx_is(c, "mode", "reflect", "constant") ? RLX_PAD_REFLECT
           : rx_onnx_is(c, "mode", "edge", "constant") ? RLX_PAD_EDGE
           : rx_onnx_is(c, "mode", "wrap", "constant") ? RLX_PAD_WRAP : RLX_PAD_CONSTANT;
}

rlx_value rx_onnx_pad(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const int rank = rx_onnx_rank(c, x);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    rlx_ints pads, axes = {0};
    bool given;
    double value = rx_onnx_float(c, "value", 0);
    size_t n;
    if (!rx_onnx_axes(c, c->opset < 2 ? "paddings" : "pads", 1, &pads, &given) ||
        (rx_onnx_in(c, 2).id && !rx_onnx_known_reals(c, 2, "constant_value", &value, 1, &n)) ||
        (rx_onnx_in(c, 3).id && !rx_onnx_known_ints(c, 3, "axes", &axes)))
        return RLX_NONE;
    const int count = rx_onnx_in(c, 3).id ? axes.n : rank;
    if (pads.n != 2 * count)
        return rx_onnx_fail(c, RLX_INVALID, "%d pads; expected %d", pads.n, 2 * count);
    for (int i = 0; i < count; i++) {
        const int axis = rx_onnx_in(c, 3).id ? rx_onnx_axis(c, axes.v[i], rank) : i;
        if (axis < 0)
            return RLX_NONE;
        before[axis] = pads.v[i];
        after[axis] = pads.v[count + i];
    }
    return rlx_pad(c->g, x, before, after, pad_mode(c), value);
}

rlx_value rx_onnx_trilu(rx_onnx_call *c)
{
    rlx_ints k = {1, {0}};
    if (rx_onnx_in(c, 1).id && !rx_onnx_known_ints(c, 1, "k", &k))
        return RLX_NONE;
    return rlx_trilu(c->g, rx_onnx_in(c, 0), rx_onnx_int(c, "upper", 1), k.v[0]);
}

/* ---- Blocks of pixels ------------------------------------------------------------------------ */

rlx_value rx_onnx_depth_to_space(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int64_t b = rx_onnx_int(c, "blocksize", 0);
    const bool crd = rx_onnx_is(c, "mode", "CRD", "DCR");
    if (s.rank != 4 || b < 1 || !rx_dim_is_number(s.dim[1]) || s.dim[1] % (b * b))
        return rx_onnx_fail(c, RLX_INVALID, "expected 4 axes and channels that blocks of %lld "
                            "divide", (long long)b);
    const rlx_dim depth = s.dim[1] / (b * b);
    const rlx_dim dcr[6] = {s.dim[0], b, b, depth, s.dim[2], s.dim[3]};
    const rlx_dim crds[6] = {s.dim[0], depth, b, b, s.dim[2], s.dim[3]};
    static const int dcr_perm[6] = {0, 3, 4, 1, 5, 2}, crd_perm[6] = {0, 1, 4, 2, 5, 3};
    const rlx_value t = rlx_transpose(c->g, rlx_reshape(c->g, x, 6, crd ? crds : dcr),
                                      crd ? crd_perm : dcr_perm);
    const rlx_dim to[4] = {s.dim[0], depth, rlx_dim_mul(c->g, s.dim[2], b),
                           rlx_dim_mul(c->g, s.dim[3], b)};
    return rlx_reshape(c->g, t, 4, to);
}

rlx_value rx_onnx_space_to_depth(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    const int64_t b = rx_onnx_int(c, "blocksize", 0);
    const bool crd = rx_onnx_is(c, "mode", "CRD", "DCR");
    static const int dcr_perm[6] = {0, 3, 5, 1, 2, 4}, crd_perm[6] = {0, 1, 3, 5, 2, 4};
    if (s.rank != 4 || b < 1)
        return rx_onnx_fail(c, RLX_INVALID, "expected 4 axes and a blocksize");
    const rlx_dim h = rlx_dim_div(c->g, s.dim[2], b), w = rlx_dim_div(c->g, s.dim[3], b);
    const rlx_dim parts[6] = {s.dim[0], s.dim[1], h, b, w, b};
    const rlx_dim to[4] = {s.dim[0], rlx_dim_mul(c->g, s.dim[1], b * b), h, w};
    return rlx_reshape(c->g, rlx_transpose(c->g, rlx_reshape(c->g, x, 6, parts),
                                           crd ? crd_perm : dcr_perm), 4, to);
}
