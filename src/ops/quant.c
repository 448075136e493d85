/* SPDX-License-Identifier: MIT */
/* Operations on quantised numbers: products with packed weights (dequant_matmul and its forms for
 * expert banks), i8 products, quantize and dequantize. Builders, shape rules, decompositions. */
#include "ops/matrix.h"
#include "ops/lower.h"

/* ---- Builders -------------------------------------------------------------------------------- */

rlx_value rlx_dequant_matmul(rlx_graph *g, rlx_value x, rlx_value w)
{
    rlx_value in[] = {x, w};
    return rx_graph_add(g, RX_OP_dequant_matmul, in, 2, NULL, NULL);
}

rlx_value rlx_dequant_matmul_ex(rlx_graph *g, rlx_value x, rlx_value w, rlx_value scale,
                                rlx_value zero, rlx_value bias, rlx_value residual,
                                const rlx_dequant_desc *d)
{
    rlx_value in[] = {x, w, scale, zero, bias, residual};
    return rx_graph_add(g, RX_OP_dequant_matmul, in, 6, d, NULL);
}

rlx_value rlx_dequant_grouped_matmul(rlx_graph *g, rlx_value x, rlx_value w, rlx_value ids)
{
    rlx_value in[] = {x, w, ids};
    return rx_graph_add(g, RX_OP_dequant_grouped_matmul, in, 3, NULL, NULL);
}

rlx_value rlx_dequant_moe_weights(rlx_graph *g, rlx_value w, rlx_value ids, rlx_dtype to)
{
    rlx_value in[] = {w, ids};
    rx_cast_attr d = {.to = to};
    return rx_graph_add(g, RX_OP_dequant_moe_weights, in, 2, &d, NULL);
}

rlx_value rlx_qmatmul(rlx_graph *g, rlx_value a, rlx_value b, rlx_value scale, rlx_value bias,
                      const rlx_qmatmul_desc *d)
{
    rlx_value in[] = {a, b, scale, bias};
    return rx_graph_add(g, RX_OP_qmatmul, in, 4, d, NULL);
}

rlx_value rlx_quantize(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zero,
                       const rlx_quant_desc *d)
{
    rlx_value in[] = {x, scale, zero};
    return rx_graph_add(g, RX_OP_quantize, in, 3, d, NULL);
}

rlx_value rlx_dequantize(rlx_graph *g, rlx_value x, rlx_value scale, rlx_value zero,
                         const rlx_quant_desc *d)
{
    rlx_value in[] = {x, scale, zero};
    return rx_graph_add(g, RX_OP_dequantize, in, 3, d, NULL);
}

/* ---- dequant_matmul -------------------------------------------------------------------------- */

rlx_status rx_check_blocks(rx_infer *c, size_t i, const char *what)
{
    const rx_value *v = c->in[i];
    int64_t block = rlx_dtype_block_size(v->dtype);
    rlx_dim k = v->shape.dim[v->shape.rank - 1];
    if (block == 1 || (rx_dim_is_number(k) && k % block == 0))
        return RLX_OK;
    char text[64];
    return rx_infer_fail(c, "%s: the last axis of %s must be a multiple of %lld, got %s", what,
                         rlx_dtype_name(v->dtype), (long long)block,
                         rx_dim_text(c->g, k, text, sizeof text));
}

static rlx_status check_no_operand(rx_infer *c, size_t i, const char *what, const char *why)
{
    if (!rx_in(c, i))
        return RLX_OK;
    return rx_infer_fail(c, "%s is not expected here: %s", what, why);
}

/* Weights of a packed type or of floats have no separate scales. */
static rlx_status check_packed_weight(rx_infer *c, const rlx_dequant_desc *d)
{
    const char *why = "w is neither i8 nor u8";
    RLX_TRY(check_no_operand(c, 2, "scale", why));
    RLX_TRY(check_no_operand(c, 3, "zero", why));
    if (d->bits || d->block)
        return rx_infer_fail(c, "bits and block are for a weight of type i8 or u8, got %s",
                             rlx_dtype_name(c->in[1]->dtype));
    return rx_check_blocks(c, 1, "w");
}

/* i8 and i4 schemes: w [N, K] or [N, K/2], scale and zero [N, K/block]. Fills in bits and block. */
static rlx_status check_block_scheme(rx_infer *c, rlx_dequant_desc *d)
{
    const rx_value *w = c->in[1];
    if (!d->bits)
        d->bits = 8;
    if (d->bits != 8 && d->bits != 4)
        return rx_infer_fail(c, "bits: expected 4 or 8, got %lld", (long long)d->bits);
    if (d->bits == 4)
        RLX_TRY(rx_check_type(c, 1, "w (bits = 4)", RX_T(RLX_U8)));
    if (!rx_shape_is_fixed(&w->shape))
        return rx_infer_fail(c, "w: expected fixed dimensions");

    int64_t k = w->shape.dim[1] * (8 / d->bits);
    if (!d->block)
        d->block = k ? k : 1;
    if (d->block < 0 || k % d->block)
        return rx_infer_fail(c, "block: expected a divisor of K = %lld, got %lld", (long long)k,
                             (long long)d->block);
    rlx_shape want = {.rank = 2, .dim = {w->shape.dim[0], k / d->block}};
    RLX_TRY(rx_check_type(c, 2, "scale", RX_FLOATS));
    RLX_TRY(rx_check_shape(c, 2, "scale", &want));
    if (!rx_in(c, 3))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, 3, "zero", RX_T(w->dtype)));
    return rx_check_shape(c, 3, "zero", &want);
}

rlx_status rx_infer_dequant(rx_infer *c)
{
    rlx_dequant_desc *d = c->attr;
    uint64_t small = RX_T(RLX_I8) | RX_T(RLX_U8);
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_type(c, 1, "w", RX_FLOATS | RX_PACKED | small));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    RLX_TRY(rx_check_rank(c, 1, "w", 2, 2));

    const rx_value *w = c->in[1];
    rlx_dim n = w->shape.dim[0], k = w->shape.dim[1];
    if (RX_T(w->dtype) & small)
        RLX_TRY(check_block_scheme(c, d));
    else
        RLX_TRY(check_packed_weight(c, d));
    if (d->bits == 4)
        k *= 2;
    rlx_shape s = c->in[0]->shape;
    RLX_TRY(rx_check_dim(c, 0, "x", s.rank - 1, k));
    s.dim[s.rank - 1] = n;
    rx_out(c, 0, c->in[0]->dtype, &s);
    RLX_TRY(rx_check_epilogue(c, 4, n, d->act));
    d->act_last = rx_act_is_last(d->act_last, d->act, rx_in(c, 5));
    return RLX_OK;
}

/* u8 [N, K/2], two nibbles a byte, low one first, to [N, K]: u8 from 0 to 15, or i8 from -8 to 7
 * when they are stored with an offset of 8. */
static rlx_value unpack_halves(rlx_graph *g, rlx_value w, bool offset)
{
    rlx_shape s = rlx_value_shape(g, w);
    rlx_dim pair[] = {s.dim[0], s.dim[1], 1}, whole[] = {s.dim[0], rlx_dim_mul(g, s.dim[1], 2)};
    rlx_value low = rlx_and(g, w, rlx_scalar(g, RLX_U8, 15));
    rlx_value high = rlx_shr(g, w, rlx_scalar(g, RLX_U8, 4));
    rlx_value halves[] = {rlx_reshape(g, low, 3, pair), rlx_reshape(g, high, 3, pair)};
    rlx_value v = rlx_reshape(g, rlx_concat(g, halves, 2, 2), 2, whole);
    return offset ? rlx_sub(g, rlx_cast(g, v, RLX_I8), rlx_scalar(g, RLX_I8, 8)) : v;
}

/* Dequantises the whole weight, then multiplies. Unless the types are equal already the product is
 * in f32, so that no weight is rounded; its result has the type of x. */
rlx_status rx_lower_dequant_matmul(rx_lower *c)
{
    const rlx_dequant_desc *d = c->attr;
    rlx_value in[6] = {{0}};
    for (uint32_t i = 0; i < c->node->n_in; i++)
        in[i] = c->in[i];
    rlx_value x = in[0], w = in[1];
    rlx_dtype tx = rlx_value_dtype(c->g, x), tw = rlx_value_dtype(c->g, w);

    if (d->bits == 4)
        w = unpack_halves(c->g, w, !in[3].id);
    if (d->bits)
        w = rlx_dequantize(c->g, w, in[2], in[3],
                           &(rlx_quant_desc){RLX_INIT(rlx_quant_desc), .axis = 1, .block = d->block,
                                             .to = RLX_F32});
    else if (rlx_dtype_is_packed(tw))
        w = rlx_dequantize(c->g, w, RLX_NONE, RLX_NONE, NULL);
    else if (tw != tx && tw != RLX_F32)
        w = rlx_cast(c->g, w, RLX_F32);
    if (rlx_value_dtype(c->g, w) != tx)
        x = rlx_cast(c->g, x, RLX_F32);
    c->out[0] = rlx_matmul_ex(
        c->g, x, w, in[4], in[5],
        &(rlx_matmul_desc){RLX_INIT(rlx_matmul_desc), .trans_b = true, .act = d->act,
                           .act_last = d->act_last, .out = tx});
    return RLX_OK;
}

/* ---- Expert banks ---------------------------------------------------------------------------- */

/* Operand i: a bank [E, N, K]. */
static rlx_status check_bank(rx_infer *c, size_t i)
{
    RLX_TRY(rx_check_type(c, i, "w", RX_FLOATS | RX_PACKED));
    RLX_TRY(rx_check_rank(c, i, "w", 3, 3));
    return rx_check_blocks(c, i, "w");
}

rlx_status rx_infer_dequant_grouped(rx_infer *c)
{
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    RLX_TRY(rx_check_rank(c, 0, "x", 2, 2));
    RLX_TRY(check_bank(c, 1));
    const rlx_shape *x = &c->in[0]->shape, *w = &c->in[1]->shape;
    RLX_TRY(rx_check_dim(c, 0, "x", 1, w->dim[2]));
    RLX_TRY(rx_check_expert_ids(c, 2, x->dim[0], w->dim[0]));
    rlx_shape s = {.rank = 2, .dim = {x->dim[0], w->dim[1]}};
    rx_out(c, 0, c->in[0]->dtype, &s);
    return RLX_OK;
}

rlx_status rx_infer_dequant_moe(rx_infer *c)
{
    rx_cast_attr *d = c->attr;
    RLX_TRY(check_bank(c, 0));
    RLX_TRY(rx_check_type(c, 1, "ids", RX_INDEX));
    RLX_TRY(rx_check_rank(c, 1, "ids", 1, 1));
    const rlx_shape *w = &c->in[0]->shape;
    rlx_dim m = c->in[1]->shape.dim[0];
    RLX_TRY(rx_check_expert_ids(c, 1, m, w->dim[0]));
    RLX_TRY(rx_default_type(c, &d->to, RLX_F32, RX_FLOATS));
    rlx_shape s = {.rank = 3, .dim = {m, w->dim[1], w->dim[2]}};
    rx_out(c, 0, d->to, &s);
    return RLX_OK;
}

/* ---- qmatmul --------------------------------------------------------------------------------- */

/* A zero point is within the range of its type. */
static rlx_status check_zero_point(rx_infer *c, const char *what, int64_t zero, rlx_dtype t)
{
    int64_t lo = t == RLX_I8 ? -128 : 0, hi = t == RLX_I8 ? 127 : 255;
    if (zero >= lo && zero <= hi)
        return RLX_OK;
    return rx_infer_fail(c, "%s: expected a number of type %s, got %lld", what, rlx_dtype_name(t),
                         (long long)zero);
}

/* scale: a scalar or one a column. */
static rlx_status check_column_scale(rx_infer *c, size_t i, rlx_dim n)
{
    RLX_TRY(rx_check_type(c, i, "scale", RX_T(RLX_F32)));
    if (c->in[i]->shape.rank == 0)
        return RLX_OK;
    return rx_check_shape(c, i, "scale", &(rlx_shape){.rank = 1, .dim = {n}});
}

rlx_status rx_infer_qmatmul(rx_infer *c)
{
    rlx_qmatmul_desc *d = c->attr;
    uint64_t small = RX_T(RLX_I8) | RX_T(RLX_U8);
    RLX_TRY(rx_check_type(c, 0, "a", small));
    RLX_TRY(rx_check_type(c, 1, "b", small));
    RLX_TRY(check_zero_point(c, "a_zero", d->a_zero, c->in[0]->dtype));
    RLX_TRY(check_zero_point(c, "b_zero", d->b_zero, c->in[1]->dtype));

    rlx_shape s;
    rlx_dim n;
    RLX_TRY(rx_matmul_shape(c, d->trans_b, &s, &n));
    if (rx_in(c, 2)) {
        RLX_TRY(check_column_scale(c, 2, n));
        RLX_TRY(rx_default_type(c, &d->out, c->in[0]->dtype, small));
        RLX_TRY(check_zero_point(c, "y_zero", d->y_zero, d->out));
    } else {
        RLX_TRY(rx_default_type(c, &d->out, RLX_I32, RX_T(RLX_I32)));
        if (d->y_zero)
            return rx_infer_fail(c, "y_zero needs a scale");
    }
    rx_out(c, 0, d->out, &s);
    if (!rx_in(c, 3))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, 3, "bias", RX_T(RLX_I32)));
    return rx_check_shape(c, 3, "bias", &(rlx_shape){.rank = 1, .dim = {n}});
}

/* ---- quantize, dequantize -------------------------------------------------------------------- */

/* Operands 1 and 2: scale and zero?, of the same shape, which is that of a scalar (per tensor), of
 * one axis of x (per channel) or of x with that axis divided by the block (per block). */
static rlx_status check_scales(rx_infer *c, rlx_quant_desc *d, rlx_dtype zero_type)
{
    const rlx_shape *x = &c->in[0]->shape;
    RLX_TRY(rx_check_type(c, 1, "scale", RX_FLOATS));
    if (x->rank || d->axis)
        RLX_TRY(rx_check_axis(c, &d->axis, x->rank));
    rlx_shape want = {.rank = 0};
    if (d->block) {
        want = *x;
        rlx_dim n = x->rank ? x->dim[d->axis] : 1;
        if (x->rank == 0 || !rx_dim_is_number(n))
            return rx_infer_fail(c, "block needs an axis with a fixed size");
        if (d->block < 0 || n % d->block)
            return rx_infer_fail(c, "block: expected a divisor of %lld, got %lld", (long long)n,
                                 (long long)d->block);
        want.dim[d->axis] = n / d->block;
    } else if (x->rank && c->in[1]->shape.rank) {
        want = (rlx_shape){.rank = 1, .dim = {x->dim[d->axis]}};
    }
    RLX_TRY(rx_check_shape(c, 1, "scale", &want));
    if (!rx_in(c, 2))
        return RLX_OK;
    RLX_TRY(rx_check_type(c, 2, "zero", RX_T(zero_type)));
    return rx_check_shape(c, 2, "zero", &want);
}

rlx_status rx_infer_quantize(rx_infer *c)
{
    rlx_quant_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_FLOATS));
    rlx_dtype dflt = rx_in(c, 2) ? c->in[2]->dtype : RLX_I8;
    RLX_TRY(rx_default_type(c, &d->to, dflt, RX_T(RLX_I8) | RX_T(RLX_U8) | RX_T(RLX_I32)));
    RLX_TRY(check_scales(c, d, d->to));
    rx_out(c, 0, d->to, &c->in[0]->shape);
    return RLX_OK;
}

rlx_status rx_infer_dequantize(rx_infer *c)
{
    rlx_quant_desc *d = c->attr;
    RLX_TRY(rx_check_type(c, 0, "x", RX_PACKED | RX_T(RLX_I8) | RX_T(RLX_U8) | RX_T(RLX_I32)));
    RLX_TRY(rx_default_type(c, &d->to, RLX_F32, RX_FLOATS));
    rx_out(c, 0, d->to, &c->in[0]->shape);
    if (!rlx_dtype_is_packed(c->in[0]->dtype))
        return check_scales(c, d, c->in[0]->dtype);

    const char *why = "x is of a packed type, which holds its scales";
    RLX_TRY(check_no_operand(c, 1, "scale", why));
    RLX_TRY(check_no_operand(c, 2, "zero", why));
    if (d->axis || d->block)
        return rx_infer_fail(c, "axis and block are not for x of the packed type %s",
                             rlx_dtype_name(c->in[0]->dtype));
    RLX_TRY(rx_check_rank(c, 0, "x", 1, RLX_MAX_RANK));
    return rx_check_blocks(c, 0, "x");
}
