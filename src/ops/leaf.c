/* SPDX-License-Identifier: MIT */
/* Shape rules of the leaves (input, param, constant, state) and of state_write, and the builder of
 * state_write. The builders of the leaves are in ir/graph.c, with the table of their names. */
#include "base/dtype.h"
#include "ir/infer.h"
#include "ops/lower.h"

/* ---- Leaves ---------------------------------------------------------------------------------- */

static rlx_status check_leaf_type(rx_infer *c, const rx_leaf_attr *a)
{
    if ((unsigned)a->dtype >= RLX_N_DTYPES || a->dtype == RLX_NO_TYPE)
        return rx_infer_fail(c, "expected an element type, got %s", rlx_dtype_name(a->dtype));
    if (!rlx_dtype_is_packed(a->dtype))
        return RLX_OK;
    if (c->op != RX_OP_param && c->op != RX_OP_constant)
        return rx_infer_fail(c, "expected a plain type, got %s: packed types are for weights",
                             rlx_dtype_name(a->dtype));
    const int64_t block = rlx_dtype_block_size(a->dtype);
    if (a->shape.rank < 1)
        return rx_infer_fail(c, "expected rank 1 or more for packed type %s, got a scalar",
                             rlx_dtype_name(a->dtype));
    const rlx_dim last = a->shape.dim[a->shape.rank - 1];
    if (last % block)
        return rx_infer_fail(c, "expected a last dimension that is a multiple of %lld for type %s, "
                             "got %lld", (long long)block, rlx_dtype_name(a->dtype),
                             (long long)last);
    return RLX_OK;
}

static rlx_status check_leaf_shape(rx_infer *c, const rlx_shape *s)
{
    if (s->rank < 0 || s->rank > RLX_MAX_RANK)
        return rx_infer_fail(c, "expected a rank from 0 to %d, got %d", RLX_MAX_RANK, s->rank);
    for (int i = 0; i < s->rank; i++) {
        const rlx_dim d = s->dim[i];
        if (!rx_dim_is_number(d) && (d == -1 || (uint64_t)(-(d + 2)) >= c->g->n_dims))
            return rx_infer_fail(c, "dimension %d: expected a number >= 0 or a named dimension of "
                                 "this graph, got %lld", i, (long long)d);
        if (!rx_dim_is_number(d) && c->op != RX_OP_input)
            return rx_infer_fail(c, "dimension %d: expected a number, got a named dimension", i);
    }
    int64_t n;
    if (!rx_shape_elements(c->g, s, &n))
        return rx_infer_fail(c, "expected at most 2^40 elements, got more");
    return RLX_OK;
}

static rlx_status check_leaf_data(rx_infer *c, const rx_leaf_attr *a)
{
    int64_t n;
    uint64_t bytes;
    if (!rx_shape_elements(c->g, &a->shape, &n) || !rx_dtype_bytes(a->dtype, n, &bytes))
        return rx_infer_fail(c, "the size of the data does not fit");
    if (a->bytes != bytes)
        return rx_infer_fail(c, "expected %llu bytes of data, got %llu", (unsigned long long)bytes,
                             (unsigned long long)a->bytes);
    if (bytes && !a->data)
        return rx_infer_fail(c, "expected data, got NULL");
    return RLX_OK;
}

rlx_status rx_infer_leaf(rx_infer *c)
{
    const rx_leaf_attr *a = c->attr;
    if (c->op != RX_OP_constant && (!a->name || !a->name[0]))
        return rx_infer_fail(c, "expected a name, got none");
    RLX_TRY(check_leaf_shape(c, &a->shape));
    RLX_TRY(check_leaf_type(c, a));
    if (c->op == RX_OP_constant)
        RLX_TRY(check_leaf_data(c, a));
    rx_out(c, 0, a->dtype, &a->shape);
    return RLX_OK;
}

/* ---- State ----------------------------------------------------------------------------------- */

rlx_value rlx_state_write(rlx_graph *g, rlx_value state, rlx_value update, rlx_value position,
                          int64_t axis)
{
    const rlx_value in[3] = {state, update, position};
    const rx_axis_attr d = {.axis = axis};
    return rx_graph_add(g, RX_OP_state_write, in, 3, &d, NULL);
}

/* The update has the shape of the state but for the length L along the axis. */
static rlx_status check_update(rx_infer *c, int axis)
{
    const rlx_shape *state = &c->in[0]->shape;
    const rlx_shape *update = &c->in[1]->shape;
    RLX_TRY(rx_check_rank(c, 1, "update", state->rank, state->rank));
    for (int i = 0; i < state->rank; i++)
        if (i != axis)
            RLX_TRY(rx_check_dim(c, 1, "update", i, state->dim[i]));
    const bool is_row = c->in[2]->shape.rank == 0;
    const rlx_dim length = update->dim[axis];
    if (is_row && rx_dim_is_number(length) && length > state->dim[axis])
        return rx_infer_fail(c, "update: expected at most %lld slices along axis %d of the state, "
                             "got %lld", (long long)state->dim[axis], axis, (long long)length);
    return RLX_OK;
}

/* Positions are a scalar, [L] or [B, L]. */
static rlx_status check_position(rx_infer *c, int axis)
{
    const rlx_shape *update = &c->in[1]->shape;
    const rlx_shape *position = &c->in[2]->shape;
    RLX_TRY(rx_check_rank(c, 2, "position", 0, 2));
    if (position->rank == 0)
        return RLX_OK;
    if (position->rank == 2) {
        if (axis == 0)
            return rx_infer_fail(c, "position: expected a scalar or rank 1 for axis 0, got rank 2");
        RLX_TRY(rx_check_dim(c, 2, "position", 0, update->dim[0]));
    }
    return rx_check_dim(c, 2, "position", position->rank - 1, update->dim[axis]);
}

/* The update has the type of the state, or is f32 for an f16 or bf16 state. */
static rlx_status check_update_type(rx_infer *c)
{
    const rlx_dtype state = c->in[0]->dtype;
    RLX_TRY(rx_check_type(c, 1, "update", RX_PLAIN));
    if (c->in[1]->dtype == RLX_F32 && rx_is_half(state))
        return RLX_OK;
    return rx_check_same_type(c, 0, 1);
}

rlx_status rx_infer_state_write(rx_infer *c)
{
    rx_axis_attr *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "state", RX_PLAIN));
    const rx_op maker = rx_value_node(c->g, c->ids[0])->op;
    if (maker != RX_OP_state && maker != RX_OP_state_write)
        return rx_infer_fail(c, "state: expected a state or the result of state_write, got the "
                             "result of %s", rx_ops[maker].name);
    RLX_TRY(check_update_type(c));
    RLX_TRY(rx_check_type(c, 2, "position", RX_INDEX));
    RLX_TRY(rx_check_rank(c, 0, "state", 1, RLX_MAX_RANK));
    RLX_TRY(rx_check_axis(c, &d->axis, c->in[0]->shape.rank));
    RLX_TRY(check_update(c, (int)d->axis));
    RLX_TRY(check_position(c, (int)d->axis));
    rx_out(c, 0, c->in[0]->dtype, &c->in[0]->shape);
    return RLX_OK;
}
