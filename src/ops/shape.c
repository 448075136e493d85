/* SPDX-License-Identifier: MIT */
/* The shape family: builders, shape rules and decompositions of the operations that move elements
 * without computing. Dimensions may be named, so all arithmetic on them goes through rlx_dim_*.
 * Rules are idempotent: they leave records that give the same result when the rule runs again. */
#include "ops/shape.h"

#include <inttypes.h>

#include "ops/lower.h"
#include "ops/view.h"

#define DIM_TEXT 96
/* Larger than any axis; sums of a few such numbers do not overflow. */
#define FAR ((int64_t)1 << 41)

/* ---- Helpers --------------------------------------------------------------------------------- */

static rlx_value add_unary(rlx_graph *g, rx_op op, rlx_value x, const void *attr)
{
    return rx_graph_add(g, op, &x, 1, attr, NULL);
}

/* Copies a caller's list; false, with an error in the graph, when it is too long or missing. */
static bool set_list(rlx_graph *g, const char *op, rlx_ints *list, const int64_t *v, int64_t n)
{
    if (n < 0 || n > RLX_MAX_INTS || (n && !v)) {
        rx_graph_fail(g, RLX_INVALID, "%s: expected 0 to %d entries, got %" PRId64 "%s", op,
                      RLX_MAX_INTS, n, v ? "" : " that are NULL");
        return false;
    }
    list->n = (int32_t)n;
    for (int64_t i = 0; i < n; i++)
        list->v[i] = v[i];
    return true;
}

static rlx_shape shape_of_list(const rlx_ints *list)
{
    rlx_shape s = {.rank = list->n};
    for (int i = 0; i < list->n; i++)
        s.dim[i] = list->v[i];
    return s;
}

/* d is a number or the handle of a dimension of the graph. */
static bool is_dim(const rlx_graph *g, rlx_dim d)
{
    return d >= 0 || (d <= -2 && (uint64_t)(-(d + 2)) < g->n_dims);
}

/* Checks a list of dimensions for a shape; -1 is allowed when `open`. */
static rlx_status check_dims(rx_infer *c, const char *what, const rlx_ints *list, bool open)
{
    if (list->n < 0 || list->n > RLX_MAX_RANK)
        return rx_infer_fail(c, "%s must have at most %d entries, got %d", what, RLX_MAX_RANK,
                             list->n);
    for (int i = 0; i < list->n; i++)
        if (!is_dim(c->g, list->v[i]) && !(open && list->v[i] == -1))
            return rx_infer_fail(c, "%s has a bad dimension %" PRId64 " at entry %d", what,
                                 list->v[i], i);
    return RLX_OK;
}

/* Normalises axes to 0 .. rank-1; no axis may occur twice. */
static rlx_status check_axes(rx_infer *c, rlx_ints *axes, int rank)
{
    unsigned seen = 0;
    for (int i = 0; i < axes->n; i++) {
        RLX_TRY(rx_check_axis(c, &axes->v[i], rank));
        if (seen >> axes->v[i] & 1)
            return rx_infer_fail(c, "axis %" PRId64 " is named twice", axes->v[i]);
        seen |= 1u << axes->v[i];
    }
    return RLX_OK;
}

rlx_status rx_check_at_most(rx_infer *c, const char *what, rlx_dim small, rlx_dim large)
{
    char a[DIM_TEXT], b[DIM_TEXT];
    if (small == large)
        return RLX_OK;
    if (rx_dim_is_number(small) && small > rx_dim_bound(c->g, large))
        return rx_infer_fail(c, "%s must be at most %s, got %s", what,
                             rx_dim_text(c->g, large, b, sizeof b),
                             rx_dim_text(c->g, small, a, sizeof a));
    if (rx_dim_is_number(large) && rx_dim_bound(c->g, small) <= large)
        return RLX_OK;
    rlx_dim_sub(c->g, large, small);
    return rlx_graph_status(c->g, NULL);
}

/* ---- reshape --------------------------------------------------------------------------------- */

/* A product of dimensions: num/den times atoms (expressions other than products). */
typedef struct factors {
    int64_t num, den;
    int n;
    rlx_dim atom[4 * RLX_MAX_RANK];
    bool bad; /* too large or too many */
} factors;

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void add_factor(const rlx_graph *g, factors *f, rlx_dim d)
{
    if (rx_dim_is_number(d)) {
        f->bad |= __builtin_mul_overflow(f->num, d, &f->num);
        return;
    }
    const rx_dim_expr *e = &g->dims[-d - 2];
    if (e->kind == RX_DIM_MUL) {
        add_factor(g, f, e->a);
        add_factor(g, f, e->b);
    } else if (f->n == (int)(sizeof f->atom / sizeof f->atom[0])) {
        f->bad = true;
    } else {
        f->atom[f->n++] = d;
    }
}

static factors factors_of(const rlx_graph *g, const rlx_shape *s)
{
    factors f = {.num = 1, .den = 1};
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] != -1)
            add_factor(g, &f, s->dim[i]);
    return f;
}

/* Binding fails when quotient d has a remainder: then d * divisor - dividend is negative. */
static void require_exact(rlx_graph *g, rlx_dim d)
{
    rlx_dim dividend = g->dims[-d - 2].a, divisor = g->dims[-d - 2].b;
    rlx_dim_sub(g, rlx_dim_mul(g, d, divisor), dividend);
}

static bool is_quotient(const rlx_graph *g, rlx_dim d)
{
    return !rx_dim_is_number(d) && g->dims[-d - 2].kind == RX_DIM_DIV;
}

/* Replaces quotients among the atoms by dividend over divisor. */
static void open_quotients(rlx_graph *g, factors *f)
{
    for (int i = 0; i < f->n && !f->bad; i++) {
        rlx_dim d = f->atom[i];
        if (!is_quotient(g, d))
            continue;
        require_exact(g, d);
        f->atom[i--] = f->atom[--f->n];
        f->bad |= __builtin_mul_overflow(f->den, g->dims[-d - 2].b, &f->den);
        add_factor(g, f, g->dims[-d - 2].a);
    }
}

/* Removes common atoms. */
static void cancel_atoms(factors *a, factors *b)
{
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n; j++) {
            if (a->atom[i] != b->atom[j])
                continue;
            a->atom[i--] = a->atom[--a->n];
            b->atom[j] = b->atom[--b->n];
            break;
        }
    }
}

/* a / b after removing common atoms; false when b keeps any, or is zero. */
static bool ratio_of(const factors *a, const factors *b, factors *q)
{
    *q = *a;
    if (a->bad || b->bad || b->n || __builtin_mul_overflow(a->num, b->den, &q->num) ||
        __builtin_mul_overflow(a->den, b->num, &q->den) || q->den == 0)
        return false;
    int64_t common = common_divisor(q->num, q->den);
    q->num /= common;
    q->den /= common;
    return true;
}

/* The ratio of the numbers of elements; quotients are expanded only if needed for an integer ratio,
 * since that requires them to be exact. */
static bool divide_shapes(rlx_graph *g, const rlx_shape *in, const rlx_shape *out, factors *q)
{
    factors a = factors_of(g, in), b = factors_of(g, out);
    cancel_atoms(&a, &b);
    if (a.num == 0 && b.num != 0) {
        *q = (factors){.num = 0, .den = 1};
        return !a.bad && !b.bad;
    }
    if (ratio_of(&a, &b, q) && q->den == 1)
        return true;
    open_quotients(g, &a);
    open_quotients(g, &b);
    cancel_atoms(&a, &b);
    return ratio_of(&a, &b, q) && (q->den == 1 || q->n > 0);
}

static rlx_dim dim_of_factors(rlx_graph *g, const factors *f)
{
    rlx_dim d = f->num;
    for (int i = 0; i < f->n; i++)
        d = rlx_dim_mul(g, d, f->atom[i]);
    if (f->den == 1)
        return d;
    d = rlx_dim_div(g, d, f->den);
    if (is_quotient(g, d))
        require_exact(g, d);
    return d;
}

static bool has_number_zero(const rlx_shape *s)
{
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] == 0)
            return true;
    return false;
}

/* Replaces -1 (at most one) and checks that the numbers of elements are equal. */
static rlx_status match_elements(rx_infer *c, const rlx_shape *in, rlx_shape *out)
{
    char want[RX_TYPE_TEXT], got[RX_TYPE_TEXT];
    int open = -1;
    factors q;
    for (int i = 0; i < out->rank; i++) {
        if (out->dim[i] != -1)
            continue;
        if (open >= 0)
            return rx_infer_fail(c, "shape may have -1 once, got it at entries %d and %d", open, i);
        open = i;
    }
    if (open < 0 && has_number_zero(in) && has_number_zero(out))
        return RLX_OK;
    bool ok = divide_shapes(c->g, in, out, &q);
    if (open >= 0 && !ok)
        return rx_infer_fail(c, "x is %s, which does not determine -1 at entry %d of the shape",
                             rx_type_text(c->g, c->in[0]->dtype, in, want), open);
    if (open < 0 && !(ok && q.num == 1 && q.den == 1 && q.n == 0))
        return rx_infer_fail(c, "x is %s, which has another number of elements than %s",
                             rx_type_text(c->g, c->in[0]->dtype, in, want),
                             rx_type_text(c->g, c->in[0]->dtype, out, got));
    if (open >= 0)
        out->dim[open] = dim_of_factors(c->g, &q);
    return rlx_graph_status(c->g, NULL);
}

rlx_status rx_infer_reshape(rx_infer *c)
{
    rx_shape_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN | RX_PACKED));
    RLX_TRY(check_dims(c, "shape", &a->shape, true));
    const rx_value *x = c->in[0];
    rlx_shape out = shape_of_list(&a->shape);
    RLX_TRY(match_elements(c, &x->shape, &out));
    for (int i = 0; i < out.rank; i++)
        a->shape.v[i] = out.dim[i];
    bool keeps_last = out.rank > 0 && x->shape.rank > 0 &&
                      out.dim[out.rank - 1] == x->shape.dim[x->shape.rank - 1];
    if (rlx_dtype_is_packed(x->dtype) && !keeps_last)
        return rx_infer_fail(c, "x has the packed type %s, so the last axis must keep its size",
                             rlx_dtype_name(x->dtype));
    rx_out(c, 0, x->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_reshape(rlx_graph *g, rlx_value x, int rank, const rlx_dim *dims)
{
    rx_shape_attr a = {{0}};
    if (!set_list(g, "reshape", &a.shape, dims, rank))
        return RLX_NONE;
    return add_unary(g, RX_OP_reshape, x, &a);
}

/* An axis of the convenience builders, out of `n` positions. */
static bool find_axis(rlx_graph *g, const char *op, int64_t *axis, int n)
{
    if (*axis >= -n && *axis < n) {
        *axis += *axis < 0 ? n : 0;
        return true;
    }
    rx_graph_fail(g, RLX_INVALID, "%s: axis must be from %d to %d, got %" PRId64, op, -n, n - 1,
                  *axis);
    return false;
}

rlx_value rlx_squeeze(rlx_graph *g, rlx_value x, int64_t axis)
{
    rlx_shape s = rlx_value_shape(g, x);
    char text[DIM_TEXT];
    if (!x.id)
        return add_unary(g, RX_OP_reshape, x, NULL); /* says that x is missing */
    if (!find_axis(g, "squeeze", &axis, s.rank))
        return RLX_NONE;
    if (s.dim[axis] != 1) {
        rx_graph_fail(g, RLX_INVALID, "squeeze: axis %" PRId64 " must have size 1, got %s", axis,
                      rx_dim_text(g, s.dim[axis], text, sizeof text));
        return RLX_NONE;
    }
    for (int i = (int)axis; i + 1 < s.rank; i++)
        s.dim[i] = s.dim[i + 1];
    return rlx_reshape(g, x, s.rank - 1, s.dim);
}

rlx_value rlx_unsqueeze(rlx_graph *g, rlx_value x, int64_t axis)
{
    rlx_shape s = rlx_value_shape(g, x);
    rlx_dim dims[RLX_MAX_RANK + 1];
    if (!x.id)
        return add_unary(g, RX_OP_reshape, x, NULL); /* says that x is missing */
    if (!find_axis(g, "unsqueeze", &axis, s.rank + 1))
        return RLX_NONE;
    for (int i = 0; i <= s.rank; i++)
        dims[i] = i == axis ? 1 : s.dim[i - (i > axis)];
    return rlx_reshape(g, x, s.rank + 1, dims);
}

rlx_value rlx_flatten(rlx_graph *g, rlx_value x, int64_t axis)
{
    rlx_shape s = rlx_value_shape(g, x);
    rlx_dim dims[2];
    if (!x.id)
        return add_unary(g, RX_OP_reshape, x, NULL);
    if (axis != s.rank && !find_axis(g, "flatten", &axis, s.rank))
        return RLX_NONE;
    dims[0] = rx_shape_product(g, &s, 0, (int)axis);
    dims[1] = rx_shape_product(g, &s, (int)axis, s.rank);
    return rlx_reshape(g, x, 2, dims);
}

/* ---- transpose, reverse, copy ---------------------------------------------------------------- */

rlx_status rx_infer_transpose(rx_infer *c)
{
    rx_perm_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    const rx_value *x = c->in[0];
    rlx_shape out = x->shape;
    if (a->perm.n == 0) {
        a->perm.n = out.rank;
        for (int i = 0; i < out.rank; i++)
            a->perm.v[i] = out.rank - 1 - i;
    }
    if (a->perm.n != out.rank)
        return rx_infer_fail(c, "perm must have one entry for each of the %d axes of x, got %d",
                             out.rank, a->perm.n);
    RLX_TRY(check_axes(c, &a->perm, out.rank));
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = x->shape.dim[a->perm.v[i]];
    rx_out(c, 0, x->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_transpose(rlx_graph *g, rlx_value x, const int *perm)
{
    rx_perm_attr a = {{0}};
    if (perm) {
        a.perm.n = rlx_value_shape(g, x).rank;
        for (int i = 0; i < a.perm.n; i++)
            a.perm.v[i] = perm[i];
    }
    return add_unary(g, RX_OP_transpose, x, &a);
}

rlx_status rx_infer_reverse(rx_infer *c)
{
    rx_axes_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(check_axes(c, &a->axes, c->in[0]->shape.rank));
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}

rlx_value rlx_reverse(rlx_graph *g, rlx_value x, const int64_t *axes, size_t n)
{
    rx_axes_attr a = {{0}};
    if (!set_list(g, "reverse", &a.axes, axes, (int64_t)n))
        return RLX_NONE;
    return add_unary(g, RX_OP_reverse, x, &a);
}

rlx_status rx_infer_copy(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN | RX_PACKED));
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}

rlx_value rx_copy_build(rlx_graph *g, rlx_value x)
{
    return add_unary(g, RX_OP_copy, x, NULL);
}

/* ---- narrow, slice, split -------------------------------------------------------------------- */

/* Packed tensors can be sliced between rows only. */
static rlx_status check_cut(rx_infer *c, int64_t *axis)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN | RX_PACKED));
    const rx_value *x = c->in[0];
    RLX_TRY(rx_check_axis(c, axis, x->shape.rank));
    if (rlx_dtype_is_packed(x->dtype) && *axis == x->shape.rank - 1)
        return rx_infer_fail(c, "x has the packed type %s, which cannot be cut along its last axis",
                             rlx_dtype_name(x->dtype));
    return RLX_OK;
}

rlx_status rx_infer_narrow(rx_infer *c)
{
    rx_narrow_attr *a = c->attr;
    RLX_TRY(check_cut(c, &a->axis));
    if (!is_dim(c->g, a->start) || !is_dim(c->g, a->length))
        return rx_infer_fail(c, "start and length must not be negative, got %" PRId64
                             " and %" PRId64, a->start, a->length);
    rlx_shape out = c->in[0]->shape;
    if (rx_dim_is_number(a->start)) /* so that the sum below cannot overflow */
        RLX_TRY(rx_check_at_most(c, "start", a->start, out.dim[a->axis]));
    if (rx_dim_is_number(a->length))
        RLX_TRY(rx_check_at_most(c, "length", a->length, out.dim[a->axis]));
    rlx_dim end = rlx_dim_add(c->g, a->start, a->length);
    RLX_TRY(rx_check_at_most(c, "start + length", end, out.dim[a->axis]));
    out.dim[a->axis] = a->length;
    rx_out(c, 0, c->in[0]->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_narrow(rlx_graph *g, rlx_value x, int64_t axis, rlx_dim start, rlx_dim length)
{
    rx_narrow_attr a = {axis, start, length};
    return add_unary(g, RX_OP_narrow, x, &a);
}

static int64_t clamp_int(int64_t x, int64_t lo, int64_t hi)
{
    return x < lo ? lo : x > hi ? hi : x;
}

/* NumPy's start:stop:step on n elements. Puts start into 0 .. n-1 (0 when nothing is left), the
 * step into -n .. n and returns the number of elements. A stop before element 0 is written as -n-1,
 * since -1 would mean the last element. */
static int64_t slice_axis(int64_t n, int64_t *start, int64_t *stop, int64_t *step)
{
    int64_t most = n > 0 ? n : 1, length;
    *start += *start < 0 ? n : 0;
    *stop += *stop < 0 ? n : 0;
    *step = clamp_int(*step, -most, most);
    if (*step > 0) {
        *start = clamp_int(*start, 0, n);
        *stop = clamp_int(*stop, 0, n);
        length = (*stop - *start + *step - 1) / *step;
    } else {
        *start = clamp_int(*start, -1, n - 1);
        *stop = clamp_int(*stop, -1, n - 1);
        length = (*start - *stop - *step - 1) / -*step;
        *stop = *stop < 0 ? -n - 1 : *stop;
    }
    if (length > 0)
        return length;
    *start = *stop = 0;
    return 0;
}

/* Lists of equal length; axes default to the first ones, steps to 1. */
static rlx_status check_slice_lists(rx_infer *c, rlx_slice_desc *a, int rank)
{
    if (a->axes.n == 0) {
        a->axes.n = a->starts.n;
        for (int i = 0; i < a->axes.n; i++)
            a->axes.v[i] = i;
    }
    if (a->starts.n != a->axes.n || a->stops.n != a->axes.n)
        return rx_infer_fail(c, "starts and stops must have one entry for each of %d axes, got %d "
                             "and %d", a->axes.n, a->starts.n, a->stops.n);
    RLX_TRY(check_axes(c, &a->axes, rank));
    RLX_TRY(rx_check_list(c, "steps", &a->steps, a->axes.n, 1, INT64_MIN));
    for (int i = 0; i < a->steps.n; i++)
        if (a->steps.v[i] == 0)
            return rx_infer_fail(c, "the step of axis %" PRId64 " must not be 0", a->axes.v[i]);
    return RLX_OK;
}

rlx_status rx_infer_slice(rx_infer *c)
{
    rlx_slice_desc *a = c->attr;
    char text[DIM_TEXT];
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    rlx_shape out = c->in[0]->shape;
    RLX_TRY(check_slice_lists(c, a, out.rank));
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        if (!rx_dim_is_number(out.dim[axis]))
            return rx_infer_fail(c, "axis %" PRId64 " of x has the named size %s; slice needs a "
                                 "number, narrow takes names", axis,
                                 rx_dim_text(c->g, out.dim[axis], text, sizeof text));
        out.dim[axis] = slice_axis(out.dim[axis], &a->starts.v[i], &a->stops.v[i], &a->steps.v[i]);
    }
    rx_out(c, 0, c->in[0]->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_slice(rlx_graph *g, rlx_value x, const rlx_slice_desc *d)
{
    return add_unary(g, RX_OP_slice, x, d);
}

rlx_status rx_infer_split(rx_infer *c)
{
    rx_split_attr *a = c->attr;
    rlx_dim sum = 0;
    char want[DIM_TEXT], got[DIM_TEXT];
    RLX_TRY(check_cut(c, &a->axis));
    if (a->sizes.n < 1)
        return rx_infer_fail(c, "sizes must have at least one entry, got none");
    rlx_shape out = c->in[0]->shape;
    rlx_dim whole = out.dim[a->axis];
    c->n_out = (size_t)a->sizes.n;
    for (int i = 0; i < a->sizes.n; i++) {
        if (!is_dim(c->g, a->sizes.v[i]))
            return rx_infer_fail(c, "size %d must not be negative, got %" PRId64, i,
                                 a->sizes.v[i]);
        sum = rlx_dim_add(c->g, sum, a->sizes.v[i]);
        out.dim[a->axis] = a->sizes.v[i];
        rx_out(c, (size_t)i, c->in[0]->dtype, &out);
    }
    RLX_TRY(rlx_graph_status(c->g, NULL));
    if (rx_dim_is_number(sum) && rx_dim_is_number(whole) && sum != whole)
        return rx_infer_fail(c, "sizes must add up to %s, the size of axis %" PRId64 ", got %s",
                             rx_dim_text(c->g, whole, want, sizeof want), a->axis,
                             rx_dim_text(c->g, sum, got, sizeof got));
    RLX_TRY(rx_check_at_most(c, "the sum of sizes", sum, whole));
    return rx_check_at_most(c, "the axis to split", whole, sum);
}

rlx_status rx_lower_split(rx_lower *c)
{
    const rx_split_attr *a = c->attr;
    rlx_dim start = 0;
    for (int i = 0; i < a->sizes.n; i++) {
        c->out[i] = rlx_narrow(c->g, c->in[0], a->axis, start, a->sizes.v[i]);
        start = rlx_dim_add(c->g, start, a->sizes.v[i]);
    }
    return RLX_OK;
}

rlx_value rlx_split(rlx_graph *g, rlx_value x, int64_t axis, const rlx_dim *sizes, size_t n,
                    rlx_value *out)
{
    rx_split_attr a = {.axis = axis};
    rlx_value first = RLX_NONE;
    if (set_list(g, "split", &a.sizes, sizes, (int64_t)n))
        first = add_unary(g, RX_OP_split, x, &a);
    for (size_t i = 0; out && i < n; i++)
        out[i] = rx_result(first, (uint32_t)i);
    return first;
}

/* ---- concat, expand, tile -------------------------------------------------------------------- */

rlx_status rx_infer_concat(rx_infer *c)
{
    rx_axis_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    rlx_shape out = c->in[0]->shape;
    RLX_TRY(rx_check_axis(c, &a->axis, out.rank));
    for (size_t i = 1; i < c->n_in; i++) {
        RLX_TRY(rx_check_same_type(c, 0, i));
        RLX_TRY(rx_check_rank(c, i, "x", out.rank, out.rank));
        for (int k = 0; k < out.rank; k++)
            if (k != a->axis)
                RLX_TRY(rx_check_dim(c, i, "x", k, out.dim[k]));
        out.dim[a->axis] = rlx_dim_add(c->g, out.dim[a->axis], c->in[i]->shape.dim[a->axis]);
    }
    rx_out(c, 0, c->in[0]->dtype, &out);
    return rlx_graph_status(c->g, NULL);
}

rlx_value rlx_concat(rlx_graph *g, const rlx_value *x, size_t n, int64_t axis)
{
    rx_axis_attr a = {axis};
    return rx_graph_add(g, RX_OP_concat, x, n, &a, NULL);
}

rlx_status rx_infer_expand(rx_infer *c)
{
    rx_shape_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(check_dims(c, "shape", &a->shape, false));
    rlx_shape out = shape_of_list(&a->shape);
    RLX_TRY(rx_check_broadcasts_to(c, 0, "x", &out));
    rx_out(c, 0, c->in[0]->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_expand(rlx_graph *g, rlx_value x, int rank, const rlx_dim *dims)
{
    rx_shape_attr a = {{0}};
    if (!set_list(g, "expand", &a.shape, dims, rank))
        return RLX_NONE;
    return add_unary(g, RX_OP_expand, x, &a);
}

rlx_status rx_infer_tile(rx_infer *c)
{
    rx_tile_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    rlx_shape out = c->in[0]->shape;
    RLX_TRY(rx_check_list(c, "repeats", &a->repeats, out.rank, 1, 0));
    for (int i = 0; i < out.rank; i++)
        out.dim[i] = rlx_dim_mul(c->g, out.dim[i], a->repeats.v[i]);
    rx_out(c, 0, c->in[0]->dtype, &out);
    return rlx_graph_status(c->g, NULL);
}

/* All axes at once: each repeated axis gets an axis of size 1 before it, which is expanded. */
static rlx_value tile_together(rlx_graph *g, rlx_value x, const rx_tile_attr *a)
{
    rlx_shape s = rlx_value_shape(g, x), apart = {.rank = 0}, wide = {.rank = 0}, out = s;
    for (int i = 0; i < s.rank; i++) {
        if (a->repeats.v[i] != 1) {
            apart.dim[apart.rank++] = 1;
            wide.dim[wide.rank++] = a->repeats.v[i];
        }
        apart.dim[apart.rank++] = s.dim[i];
        wide.dim[wide.rank++] = s.dim[i];
        out.dim[i] = rlx_dim_mul(g, s.dim[i], a->repeats.v[i]);
    }
    x = rlx_reshape(g, x, apart.rank, apart.dim);
    x = rlx_expand(g, x, wide.rank, wide.dim);
    return rlx_reshape(g, x, out.rank, out.dim);
}

/* One axis: as [outer, 1, this and inner axes], expanded in the middle. */
static rlx_value tile_axis(rlx_graph *g, rlx_value x, int axis, int64_t repeat)
{
    rlx_shape s = rlx_value_shape(g, x);
    rlx_dim dims[3] = {rx_shape_product(g, &s, 0, axis), 1, rx_shape_product(g, &s, axis, s.rank)};
    x = rlx_reshape(g, x, 3, dims);
    dims[1] = repeat;
    x = rlx_expand(g, x, 3, dims);
    s.dim[axis] = rlx_dim_mul(g, s.dim[axis], repeat);
    return rlx_reshape(g, x, s.rank, s.dim);
}

rlx_status rx_lower_tile(rx_lower *c)
{
    const rx_tile_attr *a = c->attr;
    int rank = a->repeats.n, n_repeated = 0;
    for (int i = 0; i < rank; i++)
        n_repeated += a->repeats.v[i] != 1;
    c->out[0] = c->in[0];
    if (n_repeated == 0)
        return RLX_OK;
    if (rank + n_repeated <= RLX_MAX_RANK) {
        c->out[0] = tile_together(c->g, c->in[0], a);
        return RLX_OK;
    }
    for (int i = 0; i < rank; i++)
        if (a->repeats.v[i] != 1)
            c->out[0] = tile_axis(c->g, c->out[0], i, a->repeats.v[i]);
    return RLX_OK;
}

rlx_value rlx_tile(rlx_graph *g, rlx_value x, const int64_t *repeats)
{
    rx_tile_attr a = {{0}};
    if (!set_list(g, "tile", &a.repeats, repeats, rlx_value_shape(g, x).rank))
        return RLX_NONE;
    return add_unary(g, RX_OP_tile, x, &a);
}

/* ---- pad, roll, trilu ------------------------------------------------------------------------ */

/* Crops first, then pads what is left; *d becomes the size of the result. */
static rlx_status pad_axis(rx_infer *c, const rx_pad_attr *a, int axis, rlx_dim *d)
{
    int64_t before = a->before.v[axis], after = a->after.v[axis];
    if (before < -FAR || before > FAR || after < -FAR || after > FAR)
        return rx_infer_fail(c, "padding of axis %d is out of range: %" PRId64 " and %" PRId64,
                             axis, before, after);
    int64_t crop = (before < 0 ? -before : 0) + (after < 0 ? -after : 0);
    before = before > 0 ? before : 0;
    after = after > 0 ? after : 0;
    int64_t most = before > after ? before : after;
    if (crop) {
        RLX_TRY(rx_check_at_most(c, "what negative padding removes", crop, *d));
        *d = rlx_dim_sub(c->g, *d, crop);
    }
    if (a->mode == RLX_PAD_REFLECT && most && rx_dim_bound(c->g, *d) <= most)
        return rx_infer_fail(c, "reflection by %" PRId64 " needs more elements than that on axis "
                             "%d, got %" PRId64, most, axis, rx_dim_bound(c->g, *d));
    if (a->mode == RLX_PAD_REFLECT && most)
        RLX_TRY(rx_check_at_most(c, "padding by reflection", most + 1, *d));
    if (a->mode != RLX_PAD_CONSTANT && most && *d == 0)
        return rx_infer_fail(c, "axis %d has no element to repeat", axis);
    *d = rlx_dim_add(c->g, *d, before + after);
    return rlx_graph_status(c->g, NULL);
}

rlx_status rx_infer_pad(rx_infer *c)
{
    rx_pad_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    rlx_shape out = c->in[0]->shape;
    RLX_TRY(rx_check_list(c, "before", &a->before, out.rank, 0, INT64_MIN));
    RLX_TRY(rx_check_list(c, "after", &a->after, out.rank, 0, INT64_MIN));
    if ((unsigned)a->mode > RLX_PAD_WRAP)
        return rx_infer_fail(c, "mode is unknown: %d", (int)a->mode);
    for (int i = 0; i < out.rank; i++)
        RLX_TRY(pad_axis(c, a, i, &out.dim[i]));
    rx_out(c, 0, c->in[0]->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_pad(rlx_graph *g, rlx_value x, const int64_t *before, const int64_t *after,
                  rlx_pad_mode mode, double value)
{
    rx_pad_attr a = {.mode = mode, .value = value};
    int rank = rlx_value_shape(g, x).rank;
    if (!set_list(g, "pad", &a.before, before, rank) || !set_list(g, "pad", &a.after, after, rank))
        return RLX_NONE;
    return add_unary(g, RX_OP_pad, x, &a);
}

rlx_status rx_infer_roll(rx_infer *c)
{
    rx_roll_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    const rlx_shape *s = &c->in[0]->shape;
    RLX_TRY(rx_check_axis(c, &a->axis, s->rank));
    int64_t n = s->dim[a->axis];
    if (n == 0)
        a->shift = 0;
    else if (n > 0)
        a->shift = (a->shift % n + n) % n;
    rx_out(c, 0, c->in[0]->dtype, s);
    return RLX_OK;
}

/* A named axis may be shorter than the shift, so the indices wrap around. */
static rlx_value roll_named(rlx_graph *g, rlx_value x, const rx_roll_attr *a)
{
    rlx_shape s = rlx_value_shape(g, x);
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    int64_t start = a->shift < 0 ? -a->shift : 0;
    before[a->axis] = a->shift > 0 ? a->shift : 0;
    after[a->axis] = start;
    x = rlx_pad(g, x, before, after, RLX_PAD_WRAP, 0);
    return rlx_narrow(g, x, a->axis, start, s.dim[a->axis]);
}

rlx_status rx_lower_roll(rx_lower *c)
{
    const rx_roll_attr *a = c->attr;
    rlx_value x = c->in[0];
    rlx_dim n = rlx_value_shape(c->g, x).dim[a->axis];
    c->out[0] = x;
    if (a->shift == 0)
        return RLX_OK;
    if (!rx_dim_is_number(n)) {
        c->out[0] = roll_named(c->g, x, a);
        return RLX_OK;
    }
    rlx_value parts[2] = {
        rlx_narrow(c->g, x, a->axis, n - a->shift, a->shift),
        rlx_narrow(c->g, x, a->axis, 0, n - a->shift)
    };
    c->out[0] = rlx_concat(c->g, parts, 2, a->axis);
    return RLX_OK;
}

rlx_value rlx_roll(rlx_graph *g, rlx_value x, int64_t axis, int64_t shift)
{
    rx_roll_attr a = {axis, shift};
    return add_unary(g, RX_OP_roll, x, &a);
}

rlx_status rx_infer_trilu(rx_infer *c)
{
    rx_trilu_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(rx_check_rank(c, 0, "x", 2, RLX_MAX_RANK));
    a->k = clamp_int(a->k, -FAR, FAR);
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}

rlx_value rlx_trilu(rlx_graph *g, rlx_value x, bool upper, int64_t k)
{
    rx_trilu_attr a = {upper, k};
    return add_unary(g, RX_OP_trilu, x, &a);
}
