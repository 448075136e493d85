/* SPDX-License-Identifier: MIT */
/* Derivatives of matrix products. Packed weights are constants: only x has a derivative, by the
 * product with the decoded weight. */
#include "ops/grad.h"
#include "ops/lower.h"
#include "ops/matrix.h"

static rlx_value product(rlx_graph *g, rlx_value a, rlx_value b, bool trans_b)
{
    const rlx_matmul_desc d = {RLX_INIT(rlx_matmul_desc), .trans_b = trans_b};
    return rlx_matmul_ex(g, a, b, RLX_NONE, RLX_NONE, &d);
}

/* All axes but the last merged into one. */
static rlx_value as_matrix(rlx_graph *g, rlx_value v)
{
    const rlx_shape s = rlx_value_shape(g, v);
    const rlx_dim dims[] = {rx_shape_product(g, &s, 0, s.rank - 1), s.dim[s.rank - 1]};
    return s.rank == 2 ? v : rlx_reshape(g, v, 2, dims);
}

static rlx_value plain_matmul(rx_grad *c)
{
    rlx_matmul_desc d = *(const rlx_matmul_desc *)c->attr;
    d.struct_size = sizeof d;
    d.act = RLX_ACT_NONE;
    d.act_last = false;
    return rlx_matmul_ex(c->g, c->in[0], c->in[1], RLX_NONE, RLX_NONE, &d);
}

/* da = dy b^T and db = a^T dy. A matrix b under batches of a is one product over all rows. */
rlx_status rx_grad_matmul(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_matmul_desc *d = c->attr;
    if (rx_grad_epilogue(c, 2, -1, d->act, d->act_last, plain_matmul))
        return RLX_OK;
    rlx_value dy = c->dy[0], a = c->in[0], b = c->in[1];
    const rlx_dtype ta = rlx_value_dtype(g, a);
    const rlx_dtype t = ta == rlx_value_dtype(g, dy) ? ta : RLX_F32;
    const rlx_shape sa = rlx_value_shape(g, a), sb = rlx_value_shape(g, b);
    const bool vector_a = sa.rank == 1, vector_b = sb.rank == 1;
    a = rx_as_type(g, a, t);
    b = rx_as_type(g, b, t);
    dy = rx_as_type(g, dy, t);
    if (vector_b)
        dy = rlx_unsqueeze(g, dy, -1);
    if (vector_a)
        dy = rlx_unsqueeze(g, dy, -2);
    a = vector_a ? rlx_unsqueeze(g, a, 0) : a;
    b = vector_b ? rlx_unsqueeze(g, b, 1) : b;
    if (rx_grad_wants(c, 0)) {
        rlx_value da = product(g, dy, b, !d->trans_b);
        if (vector_a) {
            const rlx_shape row = {.rank = 2, .dim = {1, sa.dim[0]}};
            da = rx_grad_reshape(g, rx_grad_sum_to(g, da, &row), &sa);
        }
        c->dx[0] = da;
    }
    if (!rx_grad_wants(c, 1))
        return RLX_OK;
    if (sb.rank <= 2 && sa.rank > 2) {
        a = as_matrix(g, a);
        dy = as_matrix(g, dy);
    }
    rlx_value db = d->trans_b ? product(g, rx_grad_flip(g, dy), a, false)
                              : product(g, rx_grad_flip(g, a), dy, false);
    if (vector_b) {
        const rlx_shape column = {.rank = 2, .dim = {sb.dim[0], 1}};
        db = rx_grad_reshape(g, rx_grad_sum_to(g, db, &column), &sb);
    }
    c->dx[1] = db;
    return RLX_OK;
}

rlx_status rx_grad_grouped_matmul(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rx_grouped_attr *d = c->attr;
    const rlx_value x = c->in[0], w = c->in[1], ids = c->in[2], dy = c->dy[0];
    if (rx_grad_wants(c, 0))
        c->dx[0] = rlx_grouped_matmul(g, dy, w, ids, !d->trans_b);
    if (rx_grad_wants(c, 1)) {
        const rlx_value column = rlx_unsqueeze(g, d->trans_b ? dy : x, 2);
        const rlx_value row = rlx_unsqueeze(g, d->trans_b ? x : dy, 1);
        c->dx[1] = rlx_scatter_add(g, rx_grad_zeros_like(g, w), ids, rlx_mul(g, column, row), 0);
    }
    return RLX_OK;
}

/* ---- Packed weights -------------------------------------------------------------------------- */

static rlx_value plain_dequant(rx_grad *c)
{
    return rlx_dequant_matmul(c->g, c->in[0], c->in[1]);
}

/* The weight as floats of type t. */
static rlx_value decoded(rlx_graph *g, rlx_value w, rlx_dtype t)
{
    if (!rlx_dtype_is_packed(rlx_value_dtype(g, w)))
        return rx_as_type(g, w, t);
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = t};
    return rlx_dequantize(g, w, RLX_NONE, RLX_NONE, &d);
}

rlx_status rx_grad_dequant_matmul(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_dequant_desc *d = c->attr;
    const rlx_value w = c->in[1], scale = rx_grad_in(c, 2);
    if (scale.id || rx_grad_wants(c, 1))
        return rx_grad_lower(c);
    if (rx_grad_epilogue(c, 4, -1, d->act, d->act_last, plain_dequant))
        return RLX_OK;
    if (rx_grad_wants(c, 0))
        c->dx[0] = product(g, rx_as_type(g, c->dy[0], RLX_F32), decoded(g, w, RLX_F32), false);
    return RLX_OK;
}

rlx_status rx_grad_dequant_grouped(rx_grad *c)
{
    rlx_graph *g = c->g;
    if (rx_grad_wants(c, 1))
        return rx_grad_refuse(c, "has no derivative by its weights; grouped_matmul has");
    const rlx_value w = rlx_dequant_moe_weights(g, c->in[1], c->in[2], RLX_F32);
    const rlx_value dy = rlx_unsqueeze(g, rx_as_type(g, c->dy[0], RLX_F32), 1);
    c->dx[0] = rlx_squeeze(g, product(g, dy, w, false), 1);
    return RLX_OK;
}

rlx_status rx_grad_dequant_moe(rx_grad *c)
{
    const rlx_value w = rlx_gather(c->g, c->in[0], c->in[1], 0);
    c->via[0] = rx_as_type(c->g, w, rlx_value_dtype(c->g, c->y));
    return RLX_OK;
}

/* (x - zero) * scale, each scale spread over its block or axis. Only scales have derivatives. */
rlx_status rx_grad_dequantize(rx_grad *c)
{
    rlx_graph *g = c->g;
    const rlx_quant_desc *d = c->attr;
    const rlx_shape s = rlx_value_shape(g, c->in[0]);
    rlx_value operands[2] = {rx_grad_in(c, 1), rx_grad_in(c, 2)};
    for (int i = 0; i < 2; i++) {
        rlx_value v = operands[i];
        const int rank = rlx_value_shape(g, v).rank;
        rlx_dim dims[RLX_MAX_RANK + 1] = {1, 1, 1, 1, 1, 1, 1, 1};
        if (!v.id)
            continue;
        v = rx_as_type(g, v, RLX_F32);
        if (d->block > 0) {
            if (rank == RLX_MAX_RANK)
                return rx_grad_refuse(c, "has no derivative by blocks of %d axes", rank);
            v = rlx_unsqueeze(g, v, d->axis + 1);
            rlx_shape wide = rlx_value_shape(g, v);
            wide.dim[d->axis + 1] = d->block;
            v = rx_grad_reshape(g, rx_grad_expand(g, v, &wide), &s);
        } else if (rank == 1 && s.rank) {
            dims[d->axis] = s.dim[d->axis];
            v = rlx_reshape(g, v, s.rank, dims);
        }
        operands[i] = v;
    }
    rlx_value x = rlx_cast(g, c->in[0], RLX_F32);
    if (operands[1].id)
        x = rlx_sub(g, x, operands[1]);
    c->via[0] = rx_as_type(g, rlx_mul(g, x, operands[0]), rlx_value_dtype(g, c->y));
    return RLX_OK;
}
