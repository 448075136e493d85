/* SPDX-License-Identifier: MIT */
/* QDQ fusion: a matmul or convolution of dequantised operands whose result is quantised again
 * becomes one integer operation,
 *     quantize(conv(dequantize(x), dequantize(w), dequantize(bias)))   qconv2d(x, w, scale, bias)
 * with scale = (scale of x * scale of w) / scale of the result, rounded as ONNX Runtime does. The
 * sums are exact, and the float product becomes dead code unless something else reads it. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

const rx_node *rx_onnx_made_by(const rx_onnx_call *c, rlx_value v, rx_op op)
{
    const rx_node *n = v.id && v.id < c->g->n_values ? rx_value_node(c->g, v.id) : NULL;
    return n && n->op == op ? n : NULL;
}

/* ---- Operands -------------------------------------------------------------------------------- */

typedef struct codes {
    rlx_value v, scale; /* scale: scalar, or [C] along `axis` */
    int64_t zero;
    int axis;           /* -1: per tensor */
} codes;

static bool known_float(rx_onnx_call *c, rlx_value v, double *out)
{
    float f;
    const void *p = rlx_value_dtype(c->g, v) == RLX_F32 && rx_onnx_elements(c, v) == 1
                        ? rx_onnx_value_data(c->b, v) : NULL;
    if (!p)
        return false;
    memcpy(&f, p, sizeof f);
    *out = (double)f;
    return true;
}

/* The zero point, when all elements of `zero` are equal; 0 when absent. */
static bool same_zero(rx_onnx_call *c, rlx_value zero, int64_t *out)
{
    const rlx_dtype t = zero.id ? rlx_value_dtype(c->g, zero) : RLX_I8;
    const int64_t n = zero.id ? rx_onnx_elements(c, zero) : 0;
    const unsigned char *p = n > 0 && (t == RLX_I8 || t == RLX_U8)
                                 ? rx_onnx_value_data(c->b, zero) : NULL;
    *out = 0;
    if (!zero.id)
        return true;
    for (int64_t i = 1; p && i < n; i++)
        if (p[i] != p[0])
            return false;
    if (p)
        *out = t == RLX_I8 ? (int8_t)p[0] : p[0];
    return p != NULL;
}

/* The DequantizeLinear of 8-bit codes that makes value `id`. */
static bool read_codes(rx_onnx_call *c, uint32_t id, codes *k)
{
    const rx_node *n = rx_onnx_made_by(c, (rlx_value){id}, RX_OP_dequantize);
    const rlx_quant_desc *d = n ? n->attr : NULL;
    if (!n || n->n_in < 2 || !n->in[1] || d->block)
        return false;
    *k = (codes){.v = {n->in[0]}, .scale = {n->in[1]}, .axis = -1};
    const rlx_dtype t = rlx_value_dtype(c->g, k->v);
    const rlx_shape s = rlx_value_shape(c->g, k->scale);
    if (s.rank == 1)
        k->axis = (int)d->axis;
    return (t == RLX_I8 || t == RLX_U8) && s.rank <= 1 &&
           same_zero(c, (rlx_value){n->n_in > 2 ? n->in[2] : 0}, &k->zero);
}

/* The i32 bias with the scale of the accumulator, or RLX_NONE when absent. False: a bias of another
 * kind. */
static bool read_bias(rx_onnx_call *c, uint32_t id, rlx_value scale, rlx_value *bias)
{
    *bias = RLX_NONE;
    if (!id)
        return true;
    const rx_node *n = rx_onnx_made_by(c, (rlx_value){id}, RX_OP_dequantize);
    if (!n || rlx_value_dtype(c->g, (rlx_value){n->in[0]}) != RLX_I32)
        return false;
    const rlx_value own = {n->n_in > 1 ? n->in[1] : 0};
    const float *a = own.id ? rx_onnx_value_data(c->b, own) : NULL;
    const float *b = rx_onnx_value_data(c->b, scale);
    const int64_t n_a = rx_onnx_elements(c, own), n_b = rx_onnx_elements(c, scale);
    if (!a || !b || (n_a != 1 && n_b != 1 && n_a != n_b))
        return false;
    for (int64_t i = 0; i < n_a || i < n_b; i++) {
        const float x = a[n_a == 1 ? 0 : i], y = b[n_b == 1 ? 0 : i];
        if (fabsf(x - y) > 1e-5F * fabsf(y))
            return false;
    }
    if (n->n_in > 2 && n->in[2]) {
        const rlx_value zero = {n->in[2]};
        const int32_t *z = rx_onnx_value_data(c->b, zero);
        for (int64_t i = 0; i < rx_onnx_elements(c, zero); i++)
            if (!z || z[i])
                return false;
    }
    *bias = (rlx_value){n->in[0]};
    return true;
}

/* ---- Clamps that saturation makes redundant
 * --------------------------------------------------- */

/* x before a relu or clamps whose range includes the whole range of the codes. */
static rlx_value without_limits(rx_onnx_call *c, rlx_value x, double low, double high)
{
    for (;;) {
        const rx_node *n = rx_value_node(c->g, x.id);
        double v;
        if (n->op == RX_OP_relu && low >= 0) {
            x = (rlx_value){n->in[0]};
        } else if (n->op == RX_OP_clamp) {
            const rx_clamp_attr *a = n->attr;
            if (a->lo - low > (double)FLT_EPSILON || high - a->hi > (double)FLT_EPSILON)
                return x;
            x = (rlx_value){n->in[0]};
        } else if (n->op == RX_OP_max && known_float(c, (rlx_value){n->in[1]}, &v) &&
                   v - low <= (double)FLT_EPSILON) {
            x = (rlx_value){n->in[0]};
        } else if (n->op == RX_OP_min && known_float(c, (rlx_value){n->in[1]}, &v) &&
                   high - v <= (double)FLT_EPSILON) {
            x = (rlx_value){n->in[0]};
        } else {
            return x;
        }
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

typedef struct target {
    rlx_value scale;
    int64_t zero;
    rlx_dtype to;
} target;

/* The node is a copy: nodes move when others are added. */
static rlx_value conv(rx_onnx_call *c, const rx_node n, const target *t)
{
    const rlx_conv_desc *d = n.attr;
    const bool line = n.op == RX_OP_conv1d;
    codes x, w;
    rlx_value bias;
    if (d->act != RLX_ACT_NONE || (n.n_in > 3 && n.in[3]) || !read_codes(c, n.in[0], &x) ||
        !read_codes(c, n.in[1], &w) || x.axis >= 0 || w.axis > 0)
        return RLX_NONE;
    const rlx_value scale = rlx_mul(c->g, x.scale, w.scale);
    if (!read_bias(c, n.n_in > 2 ? n.in[2] : 0, scale, &bias))
        return RLX_NONE;
    rlx_qconv_desc q = {RLX_INIT(rlx_qconv_desc), .stride = d->stride, .dilation = d->dilation,
                        .pads = d->pads, .groups = d->groups, .x_zero = x.zero,
                        .w_zero = w.zero, .y_zero = t->zero, .out = t->to};
    if (line) { /* 1-D as 2-D with a first axis of size one */
        rlx_ints *const lists[] = {&q.stride, &q.dilation};
        for (int i = 0; i < 2; i++)
            if (lists[i]->n)
                *lists[i] = (rlx_ints){2, {1, lists[i]->v[0]}};
        if (q.pads.n)
            q.pads = (rlx_ints){4, {0, q.pads.v[0], 0, q.pads.v[1]}};
        x.v = rlx_unsqueeze(c->g, x.v, 2);
        w.v = rlx_unsqueeze(c->g, w.v, 2);
    }
    const rlx_value y = rlx_qconv2d(c->g, x.v, w.v, rlx_div(c->g, scale, t->scale), bias, &q);
    return line ? rlx_squeeze(c->g, y, 2) : y;
}

static rlx_value product(rx_onnx_call *c, const rx_node *n, uint32_t bias_id, const target *t)
{
    const rlx_matmul_desc *d = n->attr;
    codes a, b;
    rlx_value bias;
    if (d->act != RLX_ACT_NONE || (n->n_in > 3 && n->in[3]) || (n->n_in > 2 && n->in[2]) ||
        d->out > RLX_F32 || !read_codes(c, n->in[0], &a) || !read_codes(c, n->in[1], &b) ||
        a.axis >= 0)
        return RLX_NONE;
    const int rank = rx_onnx_rank(c, b.v);
    if (rank < 2 || rx_onnx_rank(c, a.v) < 2 ||
        (b.axis >= 0 && (rank != 2 || b.axis != (d->trans_b ? 0 : 1))))
        return RLX_NONE;
    const rlx_value scale = rlx_mul(c->g, a.scale, b.scale);
    if (!read_bias(c, bias_id, scale, &bias) || (bias.id && rx_onnx_rank(c, bias) != 1))
        return RLX_NONE;
    const rlx_qmatmul_desc q = {RLX_INIT(rlx_qmatmul_desc), .a_zero = a.zero, .b_zero = b.zero,
                                .y_zero = t->zero, .out = t->to, .trans_b = d->trans_b};
    return rlx_qmatmul(c->g, a.v, b.v, rlx_div(c->g, scale, t->scale), bias, &q);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

rlx_value rx_onnx_quantized_sum(rx_onnx_call *c, const rlx_value a[3], const rlx_value b[3],
                                const rlx_value to[2], rlx_dtype dtype)
{
    rlx_graph *g = c->g;
    const rlx_value ra = rlx_div(g, a[1], to[0]), rb = rlx_div(g, b[1], to[0]);
    rlx_value rest = to[1].id ? rlx_cast(g, to[1], RLX_F32) : rlx_scalar(g, RLX_F32, 0);
    rlx_value less = RLX_NONE;
    if (a[2].id)
        less = rlx_mul(g, ra, rlx_cast(g, a[2], RLX_F32));
    if (b[2].id) {
        const rlx_value part = rlx_mul(g, rb, rlx_cast(g, b[2], RLX_F32));
        less = less.id ? rlx_add(g, less, part) : part;
    }
    rest = less.id ? rlx_sub(g, rest, less) : rest;
    const rlx_value left = rlx_mul(g, rlx_cast(g, a[0], RLX_F32), ra);
    const rlx_value right = rlx_mul(g, rlx_cast(g, b[0], RLX_F32), rb);
    const rlx_value y = rx_onnx_elements(c, b[0]) == 1
                            ? rlx_add(g, left, rlx_add(g, rest, right))
                            : rlx_add(g, rlx_add(g, left, rest), right);
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = dtype};
    return rlx_quantize(g, y, rlx_scalar(g, RLX_F32, 1), RLX_NONE, &d);
}

static bool read_sum_operand(rx_onnx_call *c, uint32_t id, rlx_value out[3])
{
    codes k;
    if (!read_codes(c, id, &k) || k.axis >= 0)
        return false;
    const rx_node *n = rx_value_node(c->g, id);
    for (uint32_t i = 0; i < 3; i++)
        out[i] = (rlx_value){i < n->n_in ? n->in[i] : 0};
    return true;
}

rlx_value rx_onnx_quantized_product(rx_onnx_call *c, rlx_value x, rlx_value scale, rlx_value zero,
                                    rlx_dtype to)
{
    target t = {.scale = scale, .to = to};
    double s;
    if (c->g->error.code || !known_float(c, scale, &s) || !same_zero(c, zero, &t.zero))
        return RLX_NONE;
    const double least = to == RLX_I8 ? -128 : 0, most = to == RLX_I8 ? 127 : 255;
    x = without_limits(c, x, (double)(float)(s * (least - (double)t.zero)),
                       (double)(float)(s * (most - (double)t.zero)));
    const rx_node *n = rx_value_node(c->g, x.id);
    if (n->op == RX_OP_conv2d || n->op == RX_OP_conv1d)
        return conv(c, *n, &t);
    if (n->op == RX_OP_matmul)
        return product(c, n, 0, &t);
    if (n->op == RX_OP_add) {
        rlx_value a[3], b[3];
        if (read_sum_operand(c, n->in[0], a) && read_sum_operand(c, n->in[1], b))
            return rx_onnx_quantized_sum(c, a, b, (rlx_value[]){scale, zero}, to);
        const rx_node *m = rx_onnx_made_by(c, (rlx_value){n->in[0]}, RX_OP_matmul);
        return m ? product(c, m, n->in[1], &t) : RLX_NONE;
    }
    return RLX_NONE;
}
