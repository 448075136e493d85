/* SPDX-License-Identifier: MIT */
/* Quantised operators of ONNX. 8-bit types with f32 scales use rlx's quantised operations, all
 * others are decomposed into f32 arithmetic as ONNX defines them. */
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

/* ---- Scales ---------------------------------------------------------------------------------- */

/* Reshapes a scale or zero point to broadcast to x: per tensor, [C] along `axis`, or blocked. */
static rlx_value spread(rx_onnx_call *c, rlx_value s, rlx_value x, int axis, int64_t block)
{
    const rlx_shape shape = rlx_value_shape(c->g, s), sx = rlx_value_shape(c->g, x);
    rlx_shape to = {.rank = sx.rank};
    for (int i = 0; i < sx.rank; i++)
        to.dim[i] = 1;
    if (rx_onnx_elements(c, s) == 1)
        return rlx_reshape(c->g, s, 0, NULL);
    if (!block && shape.rank == 1) {
        to.dim[axis] = shape.dim[0];
        return rlx_reshape(c->g, s, to.rank, to.dim);
    }
    if (!block || shape.rank != sx.rank || sx.rank == RLX_MAX_RANK || !rx_shape_is_fixed(&sx))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "blocks of a tensor of %d dimensions with scales "
                            "of %d", sx.rank, shape.rank);
    rlx_shape wide = {.rank = sx.rank + 1};
    for (int i = 0; i < wide.rank; i++)
        wide.dim[i] = i <= axis ? shape.dim[i] : i == axis + 1 ? block : shape.dim[i - 1];
    rlx_value v = rlx_expand(c->g, rlx_unsqueeze(c->g, s, axis + 1), wide.rank, wide.dim);
    to = shape;
    to.dim[axis] *= block;
    v = rlx_reshape(c->g, v, to.rank, to.dim);
    return to.dim[axis] == sx.dim[axis] ? v : rlx_narrow(c->g, v, axis, 0, sx.dim[axis]);
}

typedef struct scales {
    int axis;
    int64_t block;
    rlx_value scale, zero; /* operands; zero may be RLX_NONE */
} scales;

static bool read_scales(rx_onnx_call *c, rlx_value x, scales *s)
{
    const int rank = rx_onnx_rank(c, x);
    *s = (scales){0, rx_onnx_int(c, "block_size", 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2)};
    if (rx_onnx_elements(c, s->scale) != 1)
        s->axis = rx_onnx_axis(c, rx_onnx_int(c, "axis", 1), rank);
    return s->axis >= 0 && s->block >= 0;
}

/* Whether rlx's operations for 8-bit types (and i32 biases) apply. */
static bool is_plain(rx_onnx_call *c, const scales *s, rlx_value q, rlx_dtype dtype)
{
    return !rx_onnx_narrow(c->b, q) && !s->block &&
           (dtype == RLX_I8 || dtype == RLX_U8 || dtype == RLX_I32) &&
           rlx_value_dtype(c->g, s->scale) == RLX_F32 &&
           (!s->zero.id || rlx_value_dtype(c->g, s->zero) == dtype);
}

static rlx_quant_desc quant_desc(rx_onnx_call *c, scales *s, rlx_dtype to)
{
    if (rx_onnx_elements(c, s->scale) == 1) {
        s->scale = rlx_reshape(c->g, s->scale, 0, NULL);
        s->zero = s->zero.id ? rlx_reshape(c->g, s->zero, 0, NULL) : s->zero;
    }
    return (rlx_quant_desc){RLX_INIT(rlx_quant_desc), .axis = s->axis, .to = to};
}

/* ---- QuantizeLinear, DequantizeLinear -------------------------------------------------------- */

static rlx_value limit(rlx_graph *g, rlx_value x, const rx_onnx_type *t)
{
    const int bits = t->bits ? t->bits : 8 * (int)rlx_dtype_block_bytes(t->dtype);
    const bool has_sign = t->dtype == RLX_I8 || t->dtype == RLX_I16;
    return rlx_clamp(g, x, has_sign ? -ldexp(1, bits - 1) : 0,
                     ldexp(1, has_sign ? bits - 1 : bits) - 1);
}

static rlx_value quantize_by_parts(rx_onnx_call *c, rlx_value x, const scales *s,
                                   const rx_onnx_type *to)
{
    rlx_graph *g = c->g;
    const rx_onnx_type *precision = rx_onnx_type_of(rx_onnx_int(c, "precision", 0));
    rlx_value scale = rx_onnx_widen(c, s->scale), y;
    scale = spread(c, scale, x, s->axis, s->block);
    const rlx_dtype by = precision ? precision->dtype
                         : rlx_dtype_is_float(rlx_value_dtype(g, x)) ? rlx_value_dtype(g, x)
                                                                     : rlx_value_dtype(g, scale);
    y = rlx_div(g, rlx_cast(g, x, by), rlx_cast(g, scale, by));
    y = rlx_cast(g, y, RLX_F32);
    const bool whole = to->dtype != RLX_U8 || !to->bits || to->number == 21 || to->number == 25;
    if (!whole && to->bits == 4 && s->zero.id)
        y = rlx_add(g, y, spread(c, rx_onnx_widen(c, s->zero), x, s->axis, s->block));
    if (!whole)
        return rx_onnx_convert(c, y, to, rx_onnx_int(c, "saturate", 1));
    y = rlx_round(g, y);
    if (s->zero.id)
        y = rlx_add(g, y, rlx_cast(g, spread(c, s->zero, x, s->axis, s->block), RLX_F32));
    y = rlx_cast(g, limit(g, y, to), to->dtype);
    rx_onnx_set_type(c->b, y, to->bits ? to->number : 0);
    return y;
}

rlx_value rx_onnx_quantize(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    scales s;
    if (!read_scales(c, x, &s))
        return RLX_NONE;
    const rx_onnx_type *to = s.zero.id ? rx_onnx_value_type(c->b, s.zero)
                                       : rx_onnx_type_of(rx_onnx_int(c, "output_dtype", 2));
    if (!to || to->dtype == RLX_NO_TYPE)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "its output_dtype is a type that rlx does not "
                            "have");
    if (to->bits || !is_plain(c, &s, x, to->dtype) || rlx_value_dtype(c->g, x) != RLX_F32)
        return quantize_by_parts(c, x, &s, to);
    const rlx_quant_desc d = quant_desc(c, &s, to->dtype);
    const rlx_value y = rx_onnx_quantized_product(c, x, s.scale, s.zero, to->dtype);
    return y.id ? y : rlx_quantize(c->g, x, s.scale, s.zero, &d);
}

rlx_value rx_onnx_dequantize(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    rlx_graph *g = c->g;
    scales s;
    if (!read_scales(c, x, &s))
        return RLX_NONE;
    const rx_onnx_type *to = rx_onnx_type_of(rx_onnx_int(c, "output_dtype", 0));
    const rx_onnx_type *narrow = rx_onnx_narrow(c->b, x);
    if (!to && is_plain(c, &s, x, rlx_value_dtype(g, x))) {
        const rlx_quant_desc d = quant_desc(c, &s, RLX_F32);
        return rlx_dequantize(g, x, s.scale, s.zero, &d);
    }
    const bool is_code = narrow && rlx_dtype_is_float(rlx_value_dtype(g, rx_onnx_widen(c, x)));
    const rlx_value scale = rx_onnx_widen(c, s.scale);
    const rlx_dtype result = to && to->dtype ? to->dtype : rlx_value_dtype(g, scale);
    rlx_value y = rlx_cast(g, rx_onnx_widen(c, x), RLX_F32);
    if (s.zero.id && !is_code)
        y = rlx_sub(g, y, rlx_cast(g, spread(c, s.zero, x, s.axis, s.block), RLX_F32));
    y = rlx_mul(g, y, rlx_cast(g, spread(c, scale, x, s.axis, s.block), RLX_F32));
    return rlx_cast(g, y, result);
}

/* DynamicQuantizeLinear: u8 with scale and zero point from the minimum and maximum of x. All zeros
 * have the scale 1, as in ONNX Runtime, so that silence is not divided by 0. */
rlx_value rx_onnx_dynamic_quantize(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0), zero = rlx_scalar(g, RLX_F32, 0);
    const rlx_value low = rlx_min(g, zero, rlx_reduce(g, RLX_REDUCE_MIN, x, NULL, 0, false));
    const rlx_value high = rlx_max(g, zero, rlx_reduce(g, RLX_REDUCE_MAX, x, NULL, 0, false));
    const rlx_value span = rlx_sub(g, high, low);
    const rlx_value scale = rlx_where(g, rlx_eq(g, span, zero), rlx_scalar(g, RLX_F32, 1),
                                      rlx_div(g, span, rlx_scalar(g, RLX_F32, 255)));
    const rlx_value place = rlx_clamp(g, rlx_round(g, rlx_neg(g, rlx_div(g, low, scale))), 0, 255);
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = RLX_U8};
    c->out[1] = scale;
    c->out[2] = rlx_cast(g, place, RLX_U8);
    return rlx_quantize(g, x, scale, c->out[2], &d);
}

/* ---- Integer products ------------------------------------------------------------------------ */

/* A zero point as i32 that broadcasts to operand `x`: a scalar, one per row of a (`rows`), or one
 * per column of b. */
static rlx_value zero_of(rx_onnx_call *c, rlx_value zero, bool rows)
{
    rlx_value z = rlx_cast(c->g, zero, RLX_I32);
    const rlx_shape s = rlx_value_shape(c->g, zero);
    if (rx_onnx_elements(c, zero) == 1)
        return rlx_reshape(c->g, z, 0, NULL);
    return rows && s.rank == 1 ? rlx_unsqueeze(c->g, z, 1) : z;
}

/* A known scalar zero point; false: unknown, or not a scalar. */
static bool known_zero(rx_onnx_call *c, rlx_value zero, int64_t *v)
{
    *v = 0;
    if (!zero.id)
        return true;
    const void *p = rx_onnx_value_data(c->b, zero);
    if (!p || rx_onnx_elements(c, zero) != 1)
        return false;
    *v = rlx_value_dtype(c->g, zero) == RLX_I8 ? *(const int8_t *)p : *(const uint8_t *)p;
    return true;
}

/* sum over k of b [.., K, N] - zb: computed while importing for weights, else in the graph. */
static rlx_value column_sums(rx_onnx_call *c, rlx_value b, int64_t zero)
{
    const rlx_shape s = rlx_value_shape(c->g, b);
    const bool has_sign = rlx_value_dtype(c->g, b) == RLX_I8;
    const unsigned char *data = s.rank == 2 ? rx_onnx_weight_data(c->b, b) : NULL;
    const int64_t axis = s.rank > 1 ? -2 : -1;
    int32_t *sums = data ? rx_arena_array_zero(&c->b->arena, (uint64_t)s.dim[1] + 1, sizeof *sums)
                         : NULL;
    if (!sums) {
        const rlx_value wide = rlx_cast(c->g, b, RLX_I32);
        const rlx_value less = zero ? rlx_sub(c->g, wide, rlx_scalar(c->g, RLX_I32, (double)zero))
                                    : wide;
        return rlx_reduce(c->g, RLX_REDUCE_SUM, less, &axis, 1, s.rank > 1);
    }
    for (int64_t k = 0; k < s.dim[0]; k++)
        for (int64_t i = 0; i < s.dim[1]; i++) {
            const unsigned char v = data[k * s.dim[1] + i];
            sums[i] += (has_sign ? (int8_t)v : v) - (int32_t)zero;
        }
    const rlx_dim dims[2] = {1, s.dim[1]};
    return rlx_constant(c->g, RLX_I32, 2, dims, sums, (size_t)s.dim[1] * sizeof *sums);
}

/* sum (a - za) * (b - zb), i32. Zero points that are unknown or per row or column are expanded: sum
 * ab - za sum b - zb sum a + K za zb. */
rlx_value rx_onnx_integer_product(rx_onnx_call *c, rlx_value a, rlx_value b, rlx_value za,
                                  rlx_value zb)
{
    rlx_graph *g = c->g;
    rlx_qmatmul_desc d = {RLX_INIT(rlx_qmatmul_desc)};
    const bool a_known = known_zero(c, za, &d.a_zero), b_known = known_zero(c, zb, &d.b_zero);
    const rlx_shape sa = rlx_value_shape(g, a);
    if (sa.rank < 1 || rx_onnx_rank(c, b) < 1)
        return rx_onnx_fail(c, RLX_INVALID, "a product with a scalar; expected matrices");
    rlx_value y = rlx_qmatmul(g, a, b, RLX_NONE, RLX_NONE, &d);
    const int64_t last = -1;
    rlx_value less_a = RLX_NONE;
    if (!a_known) {
        less_a = zero_of(c, za, true);
        y = rlx_sub(g, y, rlx_mul(g, less_a, column_sums(c, b, b_known ? d.b_zero : 0)));
    }
    if (b_known)
        return y;
    rlx_value rest = rlx_cast(g, a, RLX_I32);
    if (!a_known)
        rest = rlx_sub(g, rest, less_a);
    else if (d.a_zero)
        rest = rlx_sub(g, rest, rlx_scalar(g, RLX_I32, (double)d.a_zero));
    rest = rlx_reduce(g, RLX_REDUCE_SUM, rest, &last, 1, sa.rank > 1);
    return rlx_sub(g, y, rlx_mul(g, rest, zero_of(c, zb, false)));
}

rlx_value rx_onnx_matmul_integer(rx_onnx_call *c)
{
    return rx_onnx_integer_product(c, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2),
                                   rx_onnx_in(c, 3));
}

/* saturate(round(acc * scale) + zero) in the type of `zero`. */
static rlx_value requantize(rx_onnx_call *c, rlx_value acc, rlx_value scale, rlx_value zero)
{
    rlx_graph *g = c->g;
    const rx_onnx_type *t = rx_onnx_value_type(c->b, zero);
    const rlx_value real = rlx_cast(g, acc, RLX_F32);
    rlx_value y = rlx_round(g, rlx_mul(g, real, scale));
    y = rlx_add(g, y, rlx_cast(g, zero_of(c, zero, true), RLX_F32));
    return rlx_cast(g, limit(g, y, t), t->dtype);
}

static rlx_value real_scale(rx_onnx_call *c, size_t i, bool rows)
{
    const rlx_value s = rlx_cast(c->g, rx_onnx_in(c, i), RLX_F32);
    if (rx_onnx_elements(c, s) == 1)
        return rlx_reshape(c->g, s, 0, NULL);
    return rows && rx_onnx_rank(c, s) == 1 ? rlx_unsqueeze(c->g, s, 1) : s;
}

/* The codes of a result whose zero point is known: what qmatmul and qconv2d requantise to. False:
 * of another type, or not known. */
static bool known_codes(rx_onnx_call *c, rlx_value zero, int64_t *v, rlx_dtype *to)
{
    const rx_onnx_type *t = rx_onnx_value_type(c->b, zero);
    *to = t->dtype;
    return !t->bits && (t->dtype == RLX_I8 || t->dtype == RLX_U8) && known_zero(c, zero, v);
}

/* The product and its requantisation as one operation; RLX_NONE where zero points or scales are
 * per row or not known. */
static rlx_value requantized_product(rx_onnx_call *c)
{
    rlx_qmatmul_desc d = {RLX_INIT(rlx_qmatmul_desc)};
    const rlx_value a = rx_onnx_in(c, 0), b = rx_onnx_in(c, 3), sb = rx_onnx_in(c, 4);
    if (!known_zero(c, rx_onnx_in(c, 2), &d.a_zero) ||
        !known_zero(c, rx_onnx_in(c, 5), &d.b_zero) ||
        !known_codes(c, rx_onnx_in(c, 7), &d.y_zero, &d.out) ||
        rx_onnx_elements(c, rx_onnx_in(c, 1)) != 1 || rx_onnx_elements(c, rx_onnx_in(c, 6)) != 1 ||
        rx_onnx_rank(c, a) < 1 || rx_onnx_rank(c, b) < 1 ||
        (rx_onnx_elements(c, sb) != 1 && rx_onnx_rank(c, sb) != 1))
        return RLX_NONE;
    const rlx_value scale = rlx_div(c->g, rlx_mul(c->g, real_scale(c, 1, false),
                                                  real_scale(c, 4, false)),
                                    real_scale(c, 6, false));
    return rlx_qmatmul(c->g, a, b, scale, RLX_NONE, &d);
}

rlx_value rx_onnx_qlinear_matmul(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value whole = requantized_product(c);
    if (whole.id)
        return whole;
    const rlx_value acc = rx_onnx_integer_product(c, rx_onnx_in(c, 0), rx_onnx_in(c, 3),
                                                  rx_onnx_in(c, 2), rx_onnx_in(c, 5));
    const rlx_value scale = rlx_div(g, rlx_mul(g, real_scale(c, 1, true), real_scale(c, 4, false)),
                                    real_scale(c, 6, true));
    return requantize(c, acc, scale, rx_onnx_in(c, 7));
}

/* ---- Products with dequantised weights ------------------------------------------------------- */

/* A scale or zero point of weights [N, K] as [N, 1]: a scalar, or one per row. */
static rlx_value per_row(rx_onnx_call *c, uint32_t id, int64_t n)
{
    const rlx_value v = {id};
    const rlx_dim dims[2] = {n, 1};
    const rlx_shape s = rlx_value_shape(c->g, v);
    if (!id)
        return RLX_NONE;
    return s.rank ? rlx_reshape(c->g, v, 2, dims) : rlx_expand(c->g, v, 2, dims);
}

rlx_value rx_onnx_dequantized_product(rx_onnx_call *c, rlx_value x, rlx_value b)
{
    /* The transpose may come before or after the dequantisation. */
    const rx_node *turn = rx_onnx_made_by(c, b, RX_OP_transpose);
    const rlx_value codes = turn ? (rlx_value){turn->in[0]} : b;
    const rx_node *q = rx_onnx_made_by(c, codes, RX_OP_dequantize);
    const int64_t axis = turn ? 0 : 1;
    if (q && !turn)
        turn = rx_onnx_made_by(c, (rlx_value){q->in[0]}, RX_OP_transpose);
    if (!q || !turn || rlx_value_dtype(c->g, x) != RLX_F32 || rx_onnx_rank(c, b) != 2)
        return RLX_NONE;
    const rlx_value w = {axis ? turn->in[0] : q->in[0]}, scale = {q->in[1]};
    const rlx_shape s = rlx_value_shape(c->g, w), per = rlx_value_shape(c->g, scale);
    const rlx_quant_desc *by = q->attr;
    if (!rx_onnx_weight_data(c->b, w) || by->block ||
        (per.rank && (by->axis != axis || per.rank != 1)))
        return RLX_NONE;
    const uint32_t zero = q->n_in > 2 ? q->in[2] : 0;
    const rlx_value rows = per_row(c, scale.id, s.dim[0]), places = per_row(c, zero, s.dim[0]);
    return rlx_dequant_matmul_ex(c->g, x, w, rows, places, RLX_NONE, RLX_NONE, NULL);
}

/* ---- Integer convolutions -------------------------------------------------------------------- */

/* What follows the sums: codes with a zero point, by a scale that is a scalar or per filter. */
typedef struct requantisation {
    rlx_value scale;
    int64_t zero;
    rlx_dtype to;
    bool done;
} requantisation;

/* `r`: done with the sums where the zero points are known; or NULL. */
static rlx_value integer_conv(rx_onnx_call *c, rlx_value x, rlx_value w, rlx_value zx, rlx_value zw,
                              rlx_value bias, requantisation *r)
{
    rlx_qconv_desc d = {RLX_INIT(rlx_qconv_desc)};
    const rlx_shape sx = rlx_value_shape(c->g, x), sw = rlx_value_shape(c->g, w);
    rx_onnx_window k;
    const bool line = sx.rank == 3;
    if (sx.rank != sw.rank || (!line && sx.rank != 4))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "operands of %d and %d dimensions; expected 3 or "
                            "4", sx.rank, sw.rank);
    if (!rx_onnx_read_window(c, &sx, sw.dim + 2, &k))
        return RLX_NONE;
    if (line) { /* 1-D as 2-D with a first axis of size one */
        k.stride = (rlx_ints){2, {1, k.stride.v[0]}};
        k.dilation = (rlx_ints){2, {1, k.dilation.v[0]}};
        k.pads = (rlx_ints){4, {0, k.pads.v[0], 0, k.pads.v[1]}};
        x = rlx_unsqueeze(c->g, x, 2);
        w = rlx_unsqueeze(c->g, w, 2);
    }
    d.stride = k.stride;
    d.dilation = k.dilation;
    d.pads = k.pads;
    d.groups = rx_onnx_int(c, "group", 1);
    const bool w_known = known_zero(c, zw, &d.w_zero);
    if (known_zero(c, zx, &d.x_zero) && w_known) {
        if (r) {
            r->done = true;
            d.y_zero = r->zero;
            d.out = r->to;
        }
        const rlx_value sum = rlx_qconv2d(c->g, x, w, r ? r->scale : RLX_NONE, bias, &d);
        return line ? rlx_squeeze(c->g, sum, 2) : sum;
    }
    /* In f32, exact for sums below 2^24, since padding must be zero after subtracting the zero
     * point. */
    rlx_value wide = rlx_cast(c->g, x, RLX_I32);
    if (zx.id)
        wide = rlx_sub(c->g, wide, zero_of(c, zx, true));
    const rlx_conv_desc f = {RLX_INIT(rlx_conv_desc), .stride = d.stride, .dilation = d.dilation,
                             .pads = d.pads, .groups = d.groups};
    rlx_value real = rlx_cast(c->g, w, RLX_F32);
    if (zw.id)
        real = rlx_sub(c->g, real, spread(c, rlx_cast(c->g, zw, RLX_F32), w, 0, 0));
    const rlx_value y = rlx_conv2d(c->g, rlx_cast(c->g, wide, RLX_F32), real, RLX_NONE, &f);
    rlx_value sum = rlx_cast(c->g, rlx_round(c->g, y), RLX_I32);
    const rlx_dim channels[3] = {-1, 1, 1};
    if (bias.id)
        sum = rlx_add(c->g, sum, rlx_reshape(c->g, bias, 3, channels));
    return line ? rlx_squeeze(c->g, sum, 2) : sum;
}

rlx_value rx_onnx_conv_integer(rx_onnx_call *c)
{
    return integer_conv(c, rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2), rx_onnx_in(c, 3),
                        RLX_NONE, NULL);
}

rlx_value rx_onnx_qlinear_conv(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value zero = rx_onnx_in(c, 7);
    const bool one_scale = rx_onnx_elements(c, rx_onnx_in(c, 4)) == 1;
    requantisation r = {.done = false};
    const bool known = known_codes(c, zero, &r.zero, &r.to);
    rlx_value sw = rlx_cast(g, rx_onnx_in(c, 4), RLX_F32);
    const rlx_dim all = -1;
    sw = rlx_reshape(g, sw, one_scale ? 0 : 1, one_scale ? NULL : &all);
    r.scale = rlx_div(g, rlx_mul(g, real_scale(c, 1, false), sw), real_scale(c, 6, false));
    const rlx_value sum = integer_conv(c, rx_onnx_in(c, 0), rx_onnx_in(c, 3), rx_onnx_in(c, 2),
                                       rx_onnx_in(c, 5), rx_onnx_in(c, 8), known ? &r : NULL);
    if (r.done)
        return sum;
    if (!one_scale) {
        const rlx_dim to[3] = {-1, 1, 1};
        r.scale = rlx_reshape(g, r.scale, rx_onnx_rank(c, rx_onnx_in(c, 0)) - 1, to);
    }
    return requantize(c, sum, r.scale, zero);
}
