/* SPDX-License-Identifier: MIT */
/* Reference kernels of gather and scatter. An index out of range is clamped and flagged; on an axis
 * of size 0 gather gives zeros and scatter writes nothing. Scattered floats are combined in double
 * and rounded once. */
#include <math.h>

#include "cpu/ref/order.h"
#include "rlx/session.h"

/* ---- gather ---------------------------------------------------------------------------------- */

/* Element j of y from element o of x; zero when there is no such element. */
static void take(const rx_view *y, int64_t j, const rx_view *x, int64_t o, bool there)
{
    if (there)
        rx_copy_element(y, j, x, o);
    else
        rx_store_int(y, j, 0);
}

/* Rows of a packed matrix [rows, n], decoded to f32. */
static rlx_status gather_packed(const rx_call *c, const rx_view *y)
{
    const rx_view *x = &c->in[0], *index = &c->in[1];
    int64_t at[RLX_MAX_RANK] = {0}, n = x->dim[1], j = 0;
    double *row = rx_call_array(c, n, sizeof *row);
    if (!row)
        return RLX_NO_MEMORY;
    do {
        int64_t i = rx_load_index(c, index, rx_offset(index, at), x->dim[0]);
        if (x->dim[0])
            rx_load_row(x, i, row);
        else
            memset(row, 0, (size_t)n * sizeof *row);
        for (int64_t k = 0; k < n; k++)
            rx_store(y, j++, row[k]);
    } while (rx_next(at, index->dim, index->rank));
    return RLX_OK;
}

/* y [outer.., index.., inner..] = x [outer.., index[..], inner..] */
rlx_status rx_ref_gather(const rx_call *c)
{
    const rx_axis_attr *a = c->attr;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = rx_call_out(c, 0);
    int axis = (int)a->axis, inner = axis + index->rank;
    int64_t at[RLX_MAX_RANK] = {0}, j = 0, n = x->dim[axis];
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (rlx_dtype_is_packed(x->dtype))
        return gather_packed(c, y);
    do {
        int64_t i = rx_load_index(c, index, rx_offset(index, at + axis), n);
        int64_t o = i * x->stride[axis];
        for (int k = 0; k < axis; k++)
            o += at[k] * x->stride[k];
        for (int k = inner; k < y->rank; k++)
            o += at[k] * x->stride[k - inner + axis + 1];
        take(y, j++, x, o, n > 0);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

/* Offset of x[at] with the coordinate of one axis replaced. */
static int64_t offset_at(const rx_view *x, const int64_t *at, int64_t axis, int64_t i)
{
    return rx_offset(x, at) + (i - at[axis]) * x->stride[axis];
}

rlx_status rx_ref_gather_elements(const rx_call *c)
{
    const rx_axis_attr *a = c->attr;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = rx_call_out(c, 0);
    int64_t at[RLX_MAX_RANK] = {0}, j = 0, n = x->dim[a->axis];
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    do {
        int64_t i = rx_load_index(c, index, rx_offset(index, at), n);
        take(y, j++, x, offset_at(x, at, a->axis, i), n > 0);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

/* Reads the index tuple at `at` (last axis of index) for axes first .. of x: the offset that it
 * addresses; false when one of these axes is empty. */
static bool tuple_offset(const rx_call *c, const int64_t *at, int first, int64_t *offset)
{
    const rx_view *x = &c->in[0], *index = &c->in[1];
    int last = index->rank - 1;
    int64_t base = 0;
    bool there = true;
    *offset = 0;
    for (int k = 0; k < last; k++)
        base += at[k] * index->stride[k];
    for (int k = 0; k < index->dim[last]; k++) {
        int64_t n = x->dim[first + k];
        there &= n > 0;
        *offset += x->stride[first + k] *
                   rx_load_index(c, index, base + k * index->stride[last], n);
    }
    return there;
}

rlx_status rx_ref_gather_nd(const rx_call *c)
{
    const rx_gather_nd_attr *a = c->attr;
    const rx_view *x = &c->in[0], *index = &c->in[1], *y = rx_call_out(c, 0);
    int batch = (int)a->batch_dims, outer = index->rank - 1;
    int inner = batch + (int)index->dim[outer]; /* first axis of x not addressed by tuples */
    int64_t at[RLX_MAX_RANK] = {0}, j = 0, o;
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    do {
        bool there = tuple_offset(c, at, batch, &o);
        for (int k = 0; k < batch; k++)
            o += at[k] * x->stride[k];
        for (int k = outer; k < y->rank; k++)
            o += at[k] * x->stride[k - outer + inner];
        take(y, j++, x, o, there);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

/* ---- scatter --------------------------------------------------------------------------------- */

/* Destination of updates. Float sums and products accumulate in `sum`. */
typedef struct target {
    const rx_view *y;
    rlx_scatter_mode mode;
    double *sum; /* one for each element of y, or NULL */
} target;

/* y = x, and room for sums where they are needed. */
static rlx_status target_init(const rx_call *c, const rx_view *y, rlx_scatter_mode mode, target *t)
{
    const rx_view *x = &c->in[0];
    int64_t at[RLX_MAX_RANK] = {0}, n = rx_view_elements(y), j = 0;
    *t = (target){.y = y, .mode = mode};
    if (n == 0)
        return RLX_OK;
    if (rlx_dtype_is_float(y->dtype) && (mode == RLX_SCATTER_ADD || mode == RLX_SCATTER_MUL)) {
        t->sum = rx_call_array(c, n, sizeof *t->sum);
        if (!t->sum)
            return RLX_NO_MEMORY;
    }
    do {
        int64_t o = rx_offset(x, at);
        if (t->sum)
            t->sum[j++] = rx_load(x, o);
        else
            rx_copy_element(y, j++, x, o);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

static void target_finish(const target *t)
{
    int64_t n = t->sum ? rx_view_elements(t->y) : 0;
    for (int64_t i = 0; i < n; i++)
        rx_store(t->y, i, t->sum[i]);
}

/* The smaller or larger of two numbers; NaN if either is NaN. */
static void put_extreme(const target *t, int64_t j, const rx_view *update, int64_t o)
{
    bool less, want_less = t->mode == RLX_SCATTER_MIN;
    if (rlx_dtype_is_float(update->dtype)) {
        double old = rx_load(t->y, j), new = rx_load(update, o);
        if (isnan(old) || new == old)
            return;
        less = isnan(new) ? want_less : new < old;
    } else {
        less = rx_load_key(update, o, 0).i < rx_load_key(t->y, j, 0).i;
    }
    if (less == want_less)
        rx_copy_element(t->y, j, update, o);
}

/* Combines element o of the update with element j of the result. Integers wrap. */
static void put(const target *t, int64_t j, const rx_view *update, int64_t o)
{
    if (t->mode == RLX_SCATTER_NONE) {
        rx_copy_element(t->y, j, update, o);
    } else if (t->mode >= RLX_SCATTER_MIN) {
        put_extreme(t, j, update, o);
    } else if (t->sum) {
        double new = rx_load(update, o);
        t->sum[j] = t->mode == RLX_SCATTER_ADD ? t->sum[j] + new : t->sum[j] * new;
    } else {
        uint64_t old = (uint64_t)rx_load_int(t->y, j), new = (uint64_t)rx_load_int(update, o);
        rx_store_int(t->y, j, (int64_t)(t->mode == RLX_SCATTER_ADD ? old + new : old * new));
    }
}

rlx_status rx_ref_scatter_elements(const rx_call *c)
{
    const rx_scatter_attr *a = c->attr;
    const rx_view *index = &c->in[1], *update = &c->in[2], *y = rx_call_out(c, 0);
    int64_t at[RLX_MAX_RANK] = {0};
    target t;
    if (!y)
        return RLX_OK;
    RLX_TRY(target_init(c, y, a->mode, &t));
    if (rx_view_elements(index) > 0) {
        int64_t n = y->dim[a->axis];
        do {
            int64_t i = rx_load_index(c, index, rx_offset(index, at), n);
            if (n > 0)
                put(&t, offset_at(y, at, a->axis, i), update, rx_offset(update, at));
        } while (rx_next(at, index->dim, index->rank));
    }
    target_finish(&t);
    return RLX_OK;
}

rlx_status rx_ref_scatter_nd(const rx_call *c)
{
    const rx_scatter_attr *a = c->attr;
    const rx_view *index = &c->in[1], *update = &c->in[2], *y = rx_call_out(c, 0);
    int outer = index->rank - 1, inner = (int)index->dim[outer];
    int64_t at[RLX_MAX_RANK] = {0};
    target t;
    if (!y)
        return RLX_OK;
    RLX_TRY(target_init(c, y, a->mode, &t));
    rx_call on_y = *c; /* tuples address the result, which has the shape of x and is dense */
    rx_view in[2] = {*y, *index};
    on_y.in = in;
    if (rx_view_elements(update) > 0) {
        do {
            int64_t j;
            bool there = tuple_offset(&on_y, at, 0, &j);
            for (int k = outer; k < update->rank; k++)
                j += at[k] * y->stride[k - outer + inner];
            if (there)
                put(&t, j, update, rx_offset(update, at));
        } while (rx_next(at, update->dim, update->rank));
    }
    target_finish(&t);
    return RLX_OK;
}

rlx_status rx_ref_scatter_add(const rx_call *c)
{
    const rx_axis_attr *a = c->attr;
    const rx_view *index = &c->in[1], *update = &c->in[2], *y = rx_call_out(c, 0);
    int64_t at[RLX_MAX_RANK] = {0};
    target t;
    if (!y)
        return RLX_OK;
    RLX_TRY(target_init(c, y, RLX_SCATTER_ADD, &t));
    if (rx_view_elements(update) > 0) {
        int64_t n = y->dim[a->axis];
        do {
            int64_t i = rx_load_index(c, index, at[a->axis] * index->stride[0], n);
            if (n > 0)
                put(&t, offset_at(y, at, a->axis, i), update, rx_offset(update, at));
        } while (rx_next(at, update->dim, update->rank));
    }
    target_finish(&t);
    return RLX_OK;
}
