/* SPDX-License-Identifier: MIT */
/* Strided views: reshape, transpose, narrow, slice, expand and reverse change strides and start of
 * a tensor instead of moving its elements. Shapes were checked by the rules in ops/shape.c; here
 * all dimensions are numbers. */
#include "ops/view.h"

#include <string.h>

#include "base/dtype.h"

int64_t rx_view_elements(const rx_view *v)
{
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++)
        n *= v->dim[i];
    return n;
}

bool rx_view_is_dense(const rx_view *v)
{
    int64_t want = 1;
    if (rx_view_elements(v) == 0)
        return true;
    for (int i = v->rank - 1; i >= 0; i--) {
        if (v->dim[i] != 1 && v->stride[i] != want)
            return false;
        want *= v->dim[i];
    }
    return true;
}

static void set_dense_strides(rx_view *v)
{
    int64_t stride = 1;
    for (int i = v->rank - 1; i >= 0; i--) {
        v->stride[i] = stride;
        stride *= v->dim[i];
    }
}

void rx_view_set_dense(rx_view *v, rlx_dtype t, int rank, const int64_t *dim)
{
    v->dtype = t;
    v->rank = rank;
    for (int i = 0; i < rank; i++)
        v->dim[i] = dim[i];
    set_dense_strides(v);
}

/* Moves the start by `n` elements; whole blocks for packed types. Integer arithmetic, since data
 * may be a byte offset rather than an address. */
static void move_start(rx_view *v, int64_t n)
{
    const rx_dtype_desc *t = rx_dtype_info(v->dtype);
    int64_t bytes = n / t->block_size * t->block_bytes;
    v->data = (char *)((uintptr_t)v->data + (uintptr_t)bytes);
}

/* Strides for dims out[first..last) over the contiguous run of axes that ends with `stride`. */
static void split_run(rx_view *out, int first, int last, int64_t stride)
{
    for (int i = last - 1; i >= first; i--) {
        out->stride[i] = stride;
        stride *= out->dim[i];
    }
}

/* Axes [a, b) of v, none of size 1, can be walked as one axis. */
static bool is_one_run(const rx_view *v, int a, int b)
{
    for (int i = a + 1; i < b && i < RLX_MAX_RANK; i++)
        if (v->stride[i - 1] != v->stride[i] * v->dim[i])
            return false;
    return true;
}

/* Pairs the shortest groups of axes of both shapes that have equal products; each group of the
 * input must be contiguous, and is then split anew. Tensors here have elements. */
static bool view_reshape(const void *attr, const rx_view *in, rx_view *out)
{
    (void)attr;
    rx_view v = {0}; /* `in` without axes of size 1 */
    for (int i = 0; i < in->rank; i++) {
        if (in->dim[i] == 1)
            continue;
        v.dim[v.rank] = in->dim[i];
        v.stride[v.rank++] = in->stride[i];
    }
    int i = 0, j = 0;
    while (i < v.rank) {
        int first_in = i, first_out = j;
        int64_t n_in = v.dim[i++], n_out = 1;
        while (n_in != n_out) {
            if (n_out < n_in && j < out->rank)
                n_out *= out->dim[j++];
            else if (n_out > n_in && i < v.rank)
                n_in *= v.dim[i++];
            else
                return false;
        }
        if (!is_one_run(&v, first_in, i))
            return false;
        split_run(out, first_out, j, v.stride[i - 1]);
    }
    split_run(out, j, out->rank, 1); /* trailing axes of size 1 */
    return true;
}

static bool view_transpose(const void *attr, const rx_view *in, rx_view *out)
{
    const rx_perm_attr *a = attr;
    for (int i = 0; i < out->rank; i++)
        out->stride[i] = in->stride[a->perm.v[i]];
    return true;
}

static bool view_narrow(const void *attr, const rx_view *in, rx_view *out)
{
    const rx_narrow_attr *a = attr;
    move_start(out, a->start * in->stride[a->axis]);
    return true;
}

static bool view_slice(const void *attr, const rx_view *in, rx_view *out)
{
    const rlx_slice_desc *a = attr;
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        move_start(out, a->starts.v[i] * in->stride[axis]);
        out->stride[axis] = in->stride[axis] * a->steps.v[i];
    }
    return true;
}

static bool view_expand(const void *attr, const rx_view *in, rx_view *out)
{
    (void)attr;
    int added = out->rank - in->rank;
    for (int i = 0; i < out->rank; i++) {
        bool repeated = i < added || in->dim[i - added] != out->dim[i];
        out->stride[i] = repeated ? 0 : in->stride[i - added];
    }
    return true;
}

static bool view_reverse(const void *attr, const rx_view *in, rx_view *out)
{
    const rx_axes_attr *a = attr;
    for (int i = 0; i < a->axes.n; i++) {
        int64_t axis = a->axes.v[i];
        move_start(out, (in->dim[axis] - 1) * in->stride[axis]);
        out->stride[axis] = -in->stride[axis];
    }
    return true;
}

/* Sets strides and start of `out`, whose shape is set; false when no strides can express it. */
static bool (*const views[RX_N_OPS])(const void *attr, const rx_view *in, rx_view *out) = {
    [RX_OP_reshape] = view_reshape, [RX_OP_transpose] = view_transpose,
    [RX_OP_narrow] = view_narrow,   [RX_OP_slice] = view_slice,
    [RX_OP_expand] = view_expand,   [RX_OP_reverse] = view_reverse,
};

/* Strides of operations that keep the axes start from those of the input. */
static void keep_strides(const rx_view *in, rx_view *out)
{
    for (int i = 0; i < in->rank && i < out->rank; i++)
        out->stride[i] = in->stride[i];
}

bool rx_view_apply(rx_op op, const void *attr, const rx_view *in, rx_view *out)
{
    out->dtype = in->dtype;
    out->data = in->data;
    if (rx_view_elements(out) == 0) {
        set_dense_strides(out);
        return op != RX_OP_reshape || rx_view_elements(in) == 0;
    }
    keep_strides(in, out);
    return views[op] && views[op](attr, in, out) &&
           (!rlx_dtype_is_packed(out->dtype) || rx_view_is_dense(out));
}
