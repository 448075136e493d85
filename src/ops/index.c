/* SPDX-License-Identifier: MIT */
/* The index family: builders and shape rules of gather and scatter. Indices are i32 or i64 tensors;
 * constant ones are checked here, the others when they are used. */
#include <inttypes.h>
#include <string.h>

#include "ops/shape.h"

/* ---- Checks ---------------------------------------------------------------------------------- */

static int64_t constant_at(const void *data, rlx_dtype t, int64_t i)
{
    int32_t x;
    int64_t y;
    if (t == RLX_I32) {
        memcpy(&x, (const char *)data + i * (int64_t)sizeof x, sizeof x);
        return x;
    }
    memcpy(&y, (const char *)data + i * (int64_t)sizeof y, sizeof y);
    return y;
}

/* Each element of the index operand is within its axis. Element e of the index addresses an axis of
 * size sizes[e % n]; a named size counts with its bound. */
static rlx_status check_index_values(rx_infer *c, const rlx_dim *sizes, int n)
{
    const rx_value *index = c->in[1];
    int64_t count;
    const void *data = rx_constant_data(c, 1);
    if (!rx_shape_elements(c->g, &index->shape, &count) || count == 0)
        return RLX_OK;
    for (int k = 0; k < n && rx_shape_is_fixed(&index->shape); k++)
        if (sizes[k] == 0)
            return rx_infer_fail(c, "the indexed axis of x expected with at least one element, got "
                                 "none");
    for (int64_t i = 0; data && i < count; i++) {
        int64_t value = constant_at(data, index->dtype, i);
        int64_t size = rx_dim_bound(c->g, sizes[i % n]);
        if (value < -size || value >= size)
            return rx_infer_fail(c, "index %" PRId64 " expected from %" PRId64 " to %" PRId64
                                 ", got %" PRId64, i, -size, size - 1, value);
    }
    return RLX_OK;
}

/* index has the rank of x and is not larger on the other axes, so that no element is addressed
 * outside of x. */
static rlx_status check_elements_index(rx_infer *c, int64_t *axis)
{
    const rlx_shape *x = &c->in[0]->shape;
    RLX_TRY(rx_check_axis(c, axis, x->rank));
    RLX_TRY(rx_check_type(c, 1, "index", RX_INDEX));
    RLX_TRY(rx_check_rank(c, 1, "index", x->rank, x->rank));
    for (int i = 0; i < x->rank; i++) {
        if (i == *axis)
            continue;
        char what[48] = "the size of index on axis ?";
        what[strlen(what) - 1] = (char)('0' + i);
        RLX_TRY(rx_check_at_most(c, what, c->in[1]->shape.dim[i], x->dim[i]));
    }
    return check_index_values(c, &x->dim[*axis], 1);
}

/* Index tuples are the last axis of index, of a fixed size from 1 to the axes of x left after
 * `batch`; *n gets it. */
static rlx_status check_tuples(rx_infer *c, int batch, int *n)
{
    const rlx_shape *x = &c->in[0]->shape;
    char text[RX_TYPE_TEXT];
    RLX_TRY(rx_check_type(c, 1, "index", RX_INDEX));
    RLX_TRY(rx_check_rank(c, 1, "index", 1 + batch, RLX_MAX_RANK));
    const rlx_shape *index = &c->in[1]->shape;
    rlx_dim size = index->dim[index->rank - 1];
    if (size < 1 || size > x->rank - batch)
        return rx_infer_fail(c, "index expected with a last axis of size 1 to %d, got %s",
                             x->rank - batch, rx_type_text(c->g, c->in[1]->dtype, index, text));
    *n = (int)size;
    return check_index_values(c, x->dim + batch, *n);
}

/* Appends axes first .. last-1 of `from`; fails when the result has too many. */
static rlx_status append_axes(rx_infer *c, rlx_shape *to, const rlx_shape *from, int first,
                              int last)
{
    if (last > first && to->rank + last - first > RLX_MAX_RANK)
        return rx_infer_fail(c, "the result would have %d axes, expected at most %d",
                             to->rank + last - first, RLX_MAX_RANK);
    for (int i = first; i < last; i++)
        to->dim[to->rank++] = from->dim[i];
    return RLX_OK;
}

/* Update and x have the same type, a number when values are combined. */
static rlx_status check_update(rx_infer *c, rlx_scatter_mode mode)
{
    if ((unsigned)mode > RLX_SCATTER_MAX)
        return rx_infer_fail(c, "mode is unknown: %d", (int)mode);
    RLX_TRY(rx_check_type(c, 0, "x", mode == RLX_SCATTER_NONE ? RX_PLAIN : RX_NUMBERS));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    RLX_TRY(rx_check_type(c, 1, "index", RX_INDEX));
    return rx_check_same_type(c, 0, 2);
}

/* ---- gather ---------------------------------------------------------------------------------- */

rlx_status rx_infer_gather(rx_infer *c)
{
    rx_axis_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN | RX_PACKED));
    RLX_TRY(rx_check_type(c, 1, "index", RX_INDEX));
    const rx_value *x = c->in[0];
    const rlx_shape *index = &c->in[1]->shape;
    bool packed = rlx_dtype_is_packed(x->dtype);
    RLX_TRY(rx_check_axis(c, &a->axis, x->shape.rank));
    if (packed && (x->shape.rank != 2 || a->axis != 0))
        return rx_infer_fail(c, "x has the packed type %s, expected rank 2 and axis 0, got rank %d "
                             "and axis %" PRId64, rlx_dtype_name(x->dtype), x->shape.rank, a->axis);
    RLX_TRY(check_index_values(c, &x->shape.dim[a->axis], 1));
    rlx_shape out = {.rank = 0};
    RLX_TRY(append_axes(c, &out, &x->shape, 0, (int)a->axis));
    RLX_TRY(append_axes(c, &out, index, 0, index->rank));
    RLX_TRY(append_axes(c, &out, &x->shape, (int)a->axis + 1, x->shape.rank));
    rx_out(c, 0, packed ? RLX_F32 : x->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_gather(rlx_graph *g, rlx_value x, rlx_value index, int64_t axis)
{
    rx_axis_attr a = {axis};
    return rx_graph_add(g, RX_OP_gather, (rlx_value[]){x, index}, 2, &a, NULL);
}

rlx_status rx_infer_gather_elements(rx_infer *c)
{
    rx_axis_attr *a = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    RLX_TRY(check_elements_index(c, &a->axis));
    rx_out(c, 0, c->in[0]->dtype, &c->in[1]->shape);
    return RLX_OK;
}

rlx_value rlx_gather_elements(rlx_graph *g, rlx_value x, rlx_value index, int64_t axis)
{
    rx_axis_attr a = {axis};
    return rx_graph_add(g, RX_OP_gather_elements, (rlx_value[]){x, index}, 2, &a, NULL);
}

rlx_status rx_infer_gather_nd(rx_infer *c)
{
    rx_gather_nd_attr *a = c->attr;
    int n;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PLAIN));
    const rlx_shape *x = &c->in[0]->shape;
    if (a->batch_dims < 0 || a->batch_dims >= x->rank)
        return rx_infer_fail(c, "batch_dims expected from 0 to %d, got %" PRId64, x->rank - 1,
                             a->batch_dims);
    int batch = (int)a->batch_dims;
    RLX_TRY(check_tuples(c, batch, &n));
    for (int i = 0; i < batch; i++)
        RLX_TRY(rx_check_dim(c, 1, "index", i, x->dim[i]));
    rlx_shape out = {.rank = 0};
    RLX_TRY(append_axes(c, &out, &c->in[1]->shape, 0, c->in[1]->shape.rank - 1));
    RLX_TRY(append_axes(c, &out, x, batch + n, x->rank));
    rx_out(c, 0, c->in[0]->dtype, &out);
    return RLX_OK;
}

rlx_value rlx_gather_nd(rlx_graph *g, rlx_value x, rlx_value index, int64_t batch_dims)
{
    rx_gather_nd_attr a = {batch_dims};
    return rx_graph_add(g, RX_OP_gather_nd, (rlx_value[]){x, index}, 2, &a, NULL);
}

/* ---- scatter --------------------------------------------------------------------------------- */

rlx_status rx_infer_scatter_elements(rx_infer *c)
{
    rx_scatter_attr *a = c->attr;
    RLX_TRY(check_update(c, a->mode));
    RLX_TRY(check_elements_index(c, &a->axis));
    RLX_TRY(rx_check_shape(c, 2, "update", &c->in[1]->shape));
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}

rlx_value rlx_scatter_elements(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                               int64_t axis, rlx_scatter_mode mode)
{
    rx_scatter_attr a = {axis, mode};
    return rx_graph_add(g, RX_OP_scatter_elements, (rlx_value[]){x, index, update}, 3, &a, NULL);
}

rlx_status rx_infer_scatter_nd(rx_infer *c)
{
    rx_scatter_attr *a = c->attr;
    int n;
    RLX_TRY(check_update(c, a->mode));
    if (a->axis != 0)
        return rx_infer_fail(c, "axis is not used and expected to be 0, got %" PRId64, a->axis);
    RLX_TRY(check_tuples(c, 0, &n));
    const rlx_shape *x = &c->in[0]->shape, *index = &c->in[1]->shape;
    rlx_shape want = {.rank = 0};
    RLX_TRY(append_axes(c, &want, index, 0, index->rank - 1));
    RLX_TRY(append_axes(c, &want, x, n, x->rank));
    RLX_TRY(rx_check_shape(c, 2, "update", &want));
    rx_out(c, 0, c->in[0]->dtype, x);
    return RLX_OK;
}

rlx_value rlx_scatter_nd(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                         rlx_scatter_mode mode)
{
    rx_scatter_attr a = {0, mode};
    return rx_graph_add(g, RX_OP_scatter_nd, (rlx_value[]){x, index, update}, 3, &a, NULL);
}

rlx_status rx_infer_scatter_add(rx_infer *c)
{
    rx_axis_attr *a = c->attr;
    RLX_TRY(check_update(c, RLX_SCATTER_ADD));
    RLX_TRY(rx_check_rank(c, 1, "index", 1, 1));
    rlx_shape want = c->in[0]->shape;
    RLX_TRY(rx_check_axis(c, &a->axis, want.rank));
    RLX_TRY(check_index_values(c, &c->in[0]->shape.dim[a->axis], 1));
    want.dim[a->axis] = c->in[1]->shape.dim[0];
    RLX_TRY(rx_check_shape(c, 2, "update", &want));
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}

rlx_value rlx_scatter_add(rlx_graph *g, rlx_value x, rlx_value index, rlx_value update,
                          int64_t axis)
{
    rx_axis_attr a = {axis};
    return rx_graph_add(g, RX_OP_scatter_add, (rlx_value[]){x, index, update}, 3, &a, NULL);
}
