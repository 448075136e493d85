/* SPDX-License-Identifier: MIT */
/* Reference kernels of the shape family, which move elements. Packed types move in whole blocks. */
#include "base/dtype.h"
#include "cpu/ref/ref.h"

/* A packed tensor as one whose elements are blocks: the last axis and the strides shrink. */
static rx_view view_of_blocks(const rx_view *v)
{
    rx_view w = *v;
    int64_t size = rx_dtype_info(v->dtype)->block_size;
    if (size == 1 || v->rank == 0)
        return w;
    w.dim[w.rank - 1] /= size;
    for (int i = 0; i + 1 < w.rank; i++)
        w.stride[i] /= size;
    return w;
}

/* Copies all elements of `from` in row-major order to consecutive elements of `to`. */
static void copy_in_order(const rx_view *to, const rx_view *from)
{
    int64_t at[RLX_MAX_RANK] = {0}, j = 0;
    rx_view blocks = view_of_blocks(from);
    if (rx_view_elements(&blocks) == 0)
        return;
    do
        rx_copy_element(to, j++, &blocks, rx_offset(&blocks, at));
    while (rx_next(at, blocks.dim, blocks.rank));
}

/* copy, and view operations whose result gets memory of its own. A reshape keeps the row-major
 * order, so it never needs the view. */
rlx_status rx_ref_copy(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y)
        return RLX_OK;
    rx_view v = *y;
    if (c->op == RX_OP_copy || c->op == RX_OP_reshape)
        v = *x;
    else
        rx_view_apply(c->op, c->attr, x, &v); /* strides are right even when packed and not dense */
    if (rx_view_elements(&v) != rx_view_elements(y))
        return RLX_INVALID;
    copy_in_order(y, &v);
    return RLX_OK;
}

rlx_status rx_ref_concat(const rx_call *c)
{
    const rx_axis_attr *a = c->attr;
    const rx_view *y = rx_call_out(c, 0);
    int64_t place = 0; /* along the axis */
    if (!y)
        return RLX_OK;
    for (size_t i = 0; i < c->n_in; i++) {
        const rx_view *x = &c->in[i];
        int64_t at[RLX_MAX_RANK] = {0};
        int64_t base = place * y->stride[a->axis];
        place += x->dim[a->axis];
        if (rx_view_elements(x) == 0)
            continue;
        do
            rx_copy_element(y, base + rx_offset(y, at), x, rx_offset(x, at));
        while (rx_next(at, x->dim, x->rank));
    }
    return RLX_OK;
}

/* Result coordinate to input coordinate; -1: no element there. */
typedef int64_t place_fn(const void *attr, const rx_view *x, int axis, int64_t i);

/* Copies to each element of the result the input element given by `place`, or `fill`. */
static rlx_status move_elements(const rx_call *c, place_fn *place, double fill)
{
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    int64_t at[RLX_MAX_RANK] = {0}, j = 0;
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    do {
        int64_t o = 0;
        bool there = true;
        for (int k = 0; k < y->rank; k++) {
            int64_t i = place(c->attr, x, k, at[k]);
            there &= i >= 0;
            o += i * x->stride[k];
        }
        if (there)
            rx_copy_element(y, j++, x, o);
        else
            rx_store(y, j++, fill);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

static int64_t tile_place(const void *attr, const rx_view *x, int axis, int64_t i)
{
    (void)attr;
    return i % x->dim[axis];
}

rlx_status rx_ref_tile(const rx_call *c)
{
    return move_elements(c, tile_place, 0);
}

/* Maps coordinate i, which may be out of range, to 0 .. n-1. */
static int64_t pad_inside(rlx_pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    if (n == 0 || mode == RLX_PAD_CONSTANT)
        return -1;
    if (mode == RLX_PAD_EDGE)
        return i < 0 ? 0 : n - 1;
    if (mode == RLX_PAD_WRAP)
        return (i % n + n) % n;
    i = i < 0 ? -i : 2 * (n - 1) - i;
    return i >= 0 && i < n ? i : -1;
}

/* Negative padding crops first; positive padding then repeats what is left. */
int64_t rx_ref_pad_place(const void *attr, const rx_view *x, int axis, int64_t i)
{
    const rx_pad_attr *a = attr;
    int64_t before = a->before.v[axis], after = a->after.v[axis];
    int64_t first = before < 0 ? -before : 0;
    int64_t n = x->dim[axis] - first + (after < 0 ? after : 0);
    int64_t inside = pad_inside(a->mode, i - (before > 0 ? before : 0), n);
    return inside < 0 ? -1 : first + inside;
}

rlx_status rx_ref_pad(const rx_call *c)
{
    const rx_pad_attr *a = c->attr;
    return move_elements(c, rx_ref_pad_place, a->value);
}

static int64_t roll_place(const void *attr, const rx_view *x, int axis, int64_t i)
{
    const rx_roll_attr *a = attr;
    int64_t n = x->dim[axis];
    return axis == a->axis ? ((i - a->shift % n) % n + n) % n : i;
}

rlx_status rx_ref_roll(const rx_call *c)
{
    return move_elements(c, roll_place, 0);
}

/* Elementwise, so the result may alias x. */
rlx_status rx_ref_trilu(const rx_call *c)
{
    const rx_trilu_attr *a = c->attr;
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    int64_t at[RLX_MAX_RANK] = {0}, j = 0;
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    do {
        int64_t diagonal = at[y->rank - 1] - at[y->rank - 2];
        if (a->upper ? diagonal >= a->k : diagonal <= a->k)
            rx_copy_element(y, j++, x, rx_offset(x, at));
        else
            rx_store_int(y, j++, 0);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}
