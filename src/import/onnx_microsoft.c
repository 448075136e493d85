/* SPDX-License-Identifier: MIT */
/* Operators of com.microsoft, which ONNX Runtime's optimisers and quantisers write. */
#include <math.h>

#include "import/onnx_build.h"
#include "ir/graph.h"

static rlx_value like(rx_onnx_call *c, rlx_value x, double v)
{
    return rlx_scalar(c->g, rlx_value_dtype(c->g, x), v);
}

/* ---- Activations ----------------------------------------------------------------------------- */

rlx_value rx_onnx_ms_gelu(rx_onnx_call *c)
{
    return rlx_gelu(c->g, rx_onnx_in(c, 0));
}

rlx_value rx_onnx_bias_gelu(rx_onnx_call *c)
{
    return rlx_gelu(c->g, rlx_add(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1)));
}

rlx_value rx_onnx_fast_gelu(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), bias = rx_onnx_in(c, 1);
    return rlx_gelu_tanh(c->g, bias.id ? rlx_add(c->g, x, bias) : x);
}

rlx_value rx_onnx_quick_gelu(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0);
    const double alpha = rx_onnx_float(c, "alpha", 1.702);
    return rlx_mul(c->g, x, rlx_sigmoid(c->g, rlx_mul(c->g, x, like(c, x, alpha))));
}

/* An activation of fused operators with its parameters: alpha and beta, or a list. */
typedef struct activation {
    const rx_onnx_attr *list;
    const char *const *names;
} activation;

static double parameter(rx_onnx_call *c, const activation *a, size_t i, double absent)
{
    const double v = rx_onnx_float(c, a->names[i], absent);
    return a->list && a->list->type == RX_ONNX_FLOATS && i < a->list->n
               ? (double)a->list->floats[i] : v;
}

/* The same, where 0 is meant as 0. */
static double slope(rx_onnx_call *c, const activation *a, size_t i, double absent)
{
    const double v = parameter(c, a, i, absent);
    return v == 0 ? RLX_ZERO : v;
}

static rlx_value activate(rx_onnx_call *c, rlx_value x)
{
    static const char *const names[] = {"activation_alpha", "activation_beta"};
    static const struct {
        const char *name;
        rlx_value (*f)(rlx_graph *g, rlx_value x);
    } plain[] = {{"Relu", rlx_relu}, {"Sigmoid", rlx_sigmoid}, {"Tanh", rlx_tanh},
                 {"HardSwish", rlx_hard_swish}, {"Softplus", rlx_softplus},
                 {"Softsign", rlx_softsign}, {"Gelu", rlx_gelu}, {"FastGelu", rlx_gelu_tanh}};
    const activation a = {rx_onnx_attr_find(c, "activation_params"), names};
    if (rx_onnx_is(c, "activation", "", ""))
        return x;
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (rx_onnx_is(c, "activation", plain[i].name, ""))
            return plain[i].f(c->g, x);
    if (rx_onnx_is(c, "activation", "LeakyRelu", ""))
        return rlx_leaky_relu(c->g, x, slope(c, &a, 0, 0.01));
    if (rx_onnx_is(c, "activation", "Elu", ""))
        return rlx_elu(c->g, x, slope(c, &a, 0, 1));
    if (rx_onnx_is(c, "activation", "Clip", ""))
        return rlx_clamp(c->g, x, parameter(c, &a, 0, -INFINITY), parameter(c, &a, 1, INFINITY));
    if (rx_onnx_is(c, "activation", "HardSigmoid", ""))
        return rlx_hard_sigmoid(c->g, x, slope(c, &a, 0, 0.2), slope(c, &a, 1, 0.5));
    return rx_onnx_fail(c, RLX_UNSUPPORTED, "an activation that rlx does not know");
}

rlx_value rx_onnx_fused_conv(rx_onnx_call *c)
{
    rlx_value y = rx_onnx_conv(c);
    if (y.id && rx_onnx_in(c, 3).id)
        y = rlx_add(c->g, y, rx_onnx_in(c, 3));
    return y.id ? activate(c, y) : y;
}

rlx_value rx_onnx_fused_gemm(rx_onnx_call *c)
{
    const rlx_value y = rx_onnx_gemm(c);
    return y.id ? activate(c, y) : y;
}

/* ---- Products -------------------------------------------------------------------------------- */

/* transA/transB swap the last two axes; transBatchA/B rotate all but the last so that the first
 * comes just before it. */
static rlx_value turn(rx_onnx_call *c, rlx_value x, bool last, bool batch)
{
    const int rank = rx_onnx_rank(c, x);
    int perm[RLX_MAX_RANK];
    if (rank < 2 || (!last && !batch))
        return x;
    for (int i = 0; i < rank; i++)
        perm[i] = batch && i < rank - 1 ? (i + 1) % (rank - 1) : i;
    if (last) {
        const int k = perm[rank - 1];
        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = k;
    }
    return rlx_transpose(c->g, x, perm);
}

rlx_value rx_onnx_fused_matmul(rx_onnx_call *c)
{
    const rlx_value a = turn(c, rx_onnx_in(c, 0), rx_onnx_int(c, "transA", 0),
                             rx_onnx_int(c, "transBatchA", 0));
    const rlx_value b = turn(c, rx_onnx_in(c, 1), rx_onnx_int(c, "transB", 0),
                             rx_onnx_int(c, "transBatchB", 0));
    const rlx_value y = rlx_matmul(c->g, a, b);
    const double alpha = rx_onnx_float(c, "alpha", 1);
    return activate(c, alpha == 1 ? y : rlx_mul(c->g, y, like(c, y, alpha)));
}

/* x + bias + residual */
rlx_value rx_onnx_bias_add(rx_onnx_call *c)
{
    const rlx_value x = rlx_add(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1));
    return rx_onnx_in(c, 2).id ? rlx_add(c->g, x, rx_onnx_in(c, 2)) : x;
}

/* GEGLU: the first half of the last axis times the gelu of the second. */
rlx_value rx_onnx_bias_split_gelu(rx_onnx_call *c)
{
    const rlx_value x = rlx_add(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1));
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (s.rank < 1)
        return rx_onnx_fail(c, RLX_INVALID, "a scalar; expected rows");
    const rlx_dim half = rlx_dim_div(c->g, s.dim[s.rank - 1], 2);
    return rlx_mul(c->g, rlx_narrow(c->g, x, -1, 0, half),
                   rlx_gelu(c->g, rlx_narrow(c->g, x, -1, half, half)));
}

/* a, b, scale of a, scale of b, zero of a?, zero of b?, bias? */
rlx_value rx_onnx_integer_to_float(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value sum = rx_onnx_integer_product(c, rx_onnx_in(c, 0), rx_onnx_in(c, 1),
                                                  rx_onnx_in(c, 4), rx_onnx_in(c, 5));
    const rlx_value scale = rlx_mul(g, rx_onnx_in(c, 2), rx_onnx_in(c, 3));
    const rlx_value y = rlx_mul(g, rlx_cast(g, sum, rlx_value_dtype(g, scale)), scale);
    return rx_onnx_in(c, 6).id ? rlx_add(g, y, rx_onnx_in(c, 6)) : y;
}

/* x f32, b, scale of b, zero of b?, bias?: x is quantised by its minimum and maximum. */
rlx_value rx_onnx_dynamic_matmul(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    rlx_value parts[8] = {{0}};
    rx_onnx_call by = *c;
    by.out = parts;
    const rlx_value q = rx_onnx_dynamic_quantize(&by);
    const rlx_value sum = rx_onnx_integer_product(c, q, rx_onnx_in(c, 1), parts[2],
                                                  rx_onnx_in(c, 3));
    const rlx_value y = rlx_mul(g, rlx_cast(g, sum, RLX_F32),
                                rlx_mul(g, parts[1], rx_onnx_in(c, 2)));
    return rx_onnx_in(c, 4).id ? rlx_add(g, y, rx_onnx_in(c, 4)) : y;
}

static rlx_value pad_last(rx_onnx_call *c, rlx_value x, int64_t n)
{
    int64_t before[RLX_MAX_RANK] = {0}, after[RLX_MAX_RANK] = {0};
    const int rank = rx_onnx_rank(c, x);
    if (!n || rank < 1)
        return x;
    after[rank - 1] = n;
    return rlx_pad(c->g, x, before, after, RLX_PAD_CONSTANT, 0);
}

/* x [.., K] times weights of 4 or 8 bits: b [N, K / block, bytes of a block], scales [N, K / block]
 * and zero points of the same, packed like b. */
rlx_value rx_onnx_matmul_nbits(rx_onnx_call *c)
{
    const rlx_value b = rx_onnx_in(c, 1), zero = rx_onnx_in(c, 3);
    const int64_t given = rx_onnx_int(c, "K", 0), n = rx_onnx_int(c, "N", 0);
    const int64_t bits = rx_onnx_int(c, "bits", 4), block = rx_onnx_int(c, "block_size", 0);
    if ((bits != 4 && bits != 8) || block < 1 || given < 1 || n < 1 || block > 1 << 20 ||
        given > INT32_MAX || rx_onnx_in(c, 4).id || rlx_value_dtype(c->g, b) != RLX_U8 ||
        (zero.id && rlx_value_dtype(c->g, zero) != RLX_U8))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "%lld bits in blocks of %lld of %lld; expected 4 "
                            "or 8 bits without g_idx, with zero points of u8", (long long)bits,
                            (long long)block, (long long)given);
    const int64_t k = (given + block - 1) / block * block;
    const rlx_value x = pad_last(c, rx_onnx_in(c, 0), k - given);
    const rlx_dim dims[2] = {n, k * bits / 8}, blocks[2] = {n, k / block};
    const rlx_value scale = rlx_reshape(c->g, rx_onnx_in(c, 2), 2, blocks);
    const rlx_dequant_desc d = {RLX_INIT(rlx_dequant_desc), .block = block, .bits = bits};
    rlx_value places = RLX_NONE;
    if (zero.id && bits == 8) {
        places = rlx_reshape(c->g, zero, 2, blocks);
    } else if (zero.id) { /* two per byte, rows byte-aligned */
        const rlx_dim packed[3] = {n, (k / block + 1) / 2, 1};
        const rlx_dim wide[2] = {n, (k / block + 1) / 2 * 2};
        const rlx_value z = rlx_reshape(c->g, zero, 3, packed);
        const rlx_value pair[2] = {rlx_and(c->g, z, rlx_scalar(c->g, RLX_U8, 15)),
                                   rlx_shr(c->g, z, rlx_scalar(c->g, RLX_U8, 4))};
        places = rlx_reshape(c->g, rlx_concat(c->g, pair, 2, 2), 2, wide);
        places = rlx_narrow(c->g, places, 1, 0, k / block);
    } else if (bits == 8) {
        places = rlx_expand(c->g, rlx_scalar(c->g, RLX_U8, 128), 2, blocks);
    }
    return rlx_dequant_matmul_ex(c->g, x, rlx_reshape(c->g, b, 2, dims), scale, places,
                                 rx_onnx_in(c, 5), RLX_NONE, &d);
}

/* ---- Norms with a residual addition ---------------------------------------------------------- */

static rlx_value skip_norm(rx_onnx_call *c, bool rms)
{
    const rlx_value gamma = rx_onnx_in(c, 2), beta = rms ? RLX_NONE : rx_onnx_in(c, 3);
    const rlx_value bias = rx_onnx_in(c, rms ? 3 : 4);
    rlx_value sum = rlx_add(c->g, rx_onnx_in(c, 0), rx_onnx_in(c, 1));
    if (bias.id)
        sum = rlx_add(c->g, sum, bias);
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc),
                             .eps = rx_onnx_float_set(c, "epsilon", 1e-12)};
    if (rx_onnx_wants(c, 1) || rx_onnx_wants(c, 2))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "results for training; expected none");
    c->out[3] = sum;
    return rms ? rlx_rms_norm(c->g, sum, gamma, &d) : rlx_layer_norm(c->g, sum, gamma, beta, &d);
}

rlx_value rx_onnx_skip_layer_norm(rx_onnx_call *c) { return skip_norm(c, false); }
rlx_value rx_onnx_skip_rms_norm(rx_onnx_call *c) { return skip_norm(c, true); }

/* ---- Elementwise operators on codes ---------------------------------------------------------- */

/* Dequantises operands i (codes), i + 1 (scale) and i + 2 (zero point?). */
static rlx_value decoded(rx_onnx_call *c, size_t i)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc)};
    return rlx_dequantize(c->g, rx_onnx_in(c, i), rx_onnx_in(c, i + 1), rx_onnx_in(c, i + 2), &d);
}

/* Quantises y by operands i (scale) and i + 1 (zero point?). */
static rlx_value encoded(rx_onnx_call *c, rlx_value y, size_t i)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = rlx_value_dtype(c->g, c->in[0])};
    return rlx_quantize(c->g, y, rx_onnx_in(c, i), rx_onnx_in(c, i + 1), &d);
}

rlx_value rx_onnx_qlinear_add(rx_onnx_call *c)
{
    const rlx_value a[3] = {rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2)};
    const rlx_value b[3] = {rx_onnx_in(c, 3), rx_onnx_in(c, 4), rx_onnx_in(c, 5)};
    const rlx_value to[2] = {rx_onnx_in(c, 6), rx_onnx_in(c, 7)};
    return rx_onnx_quantized_sum(c, a, b, to, rlx_value_dtype(c->g, a[0]));
}

rlx_value rx_onnx_qlinear_mul(rx_onnx_call *c)
{
    return encoded(c, rlx_mul(c->g, decoded(c, 0), decoded(c, 3)), 6);
}

rlx_value rx_onnx_qlinear_sigmoid(rx_onnx_call *c)
{
    return encoded(c, rlx_sigmoid(c->g, decoded(c, 0)), 3);
}

rlx_value rx_onnx_qlinear_leaky_relu(rx_onnx_call *c)
{
    const double alpha = rx_onnx_float_set(c, "alpha", 0.01);
    return encoded(c, rlx_leaky_relu(c->g, decoded(c, 0), alpha), 3);
}

rlx_value rx_onnx_qlinear_global_pool(rx_onnx_call *c)
{
    const rlx_value x = decoded(c, 0);
    const rlx_shape s = rlx_value_shape(c->g, x);
    int64_t axes[RLX_MAX_RANK];
    size_t n = 0;
    if (rx_onnx_int(c, "channels_last", 0) || s.rank < 3)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected [N, C, ..] with channels first");
    for (int i = 2; i < s.rank; i++)
        axes[n++] = i;
    return encoded(c, rlx_reduce(c->g, RLX_REDUCE_MEAN, x, axes, n, true), 3);
}

/* scale, zero point, then codes, scale and zero point of each operand. */
rlx_value rx_onnx_qlinear_concat(rx_onnx_call *c)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = rlx_value_dtype(c->g,
                                                                             rx_onnx_in(c, 1))};
    const size_t n = c->n_in < 2 ? 0 : (c->n_in - 2) / 3;
    rlx_value *parts = rx_arena_array_zero(&c->b->arena, (uint64_t)n + 1, sizeof *parts);
    if (!n || !parts)
        return rx_onnx_fail(c, RLX_INVALID, "%zu operands; expected 2 and 3 for each tensor",
                            c->n_in);
    for (size_t i = 0; i < n; i++)
        parts[i] = decoded(c, 2 + 3 * i);
    const rlx_value y = rlx_concat(c->g, parts, n, rx_onnx_int(c, "axis", 0));
    return rlx_quantize(c->g, y, rx_onnx_in(c, 0), rx_onnx_in(c, 1), &d);
}

/* a, scale and zero of a, b, scale and zero of b, c? (i32), scale and zero of y? (absent: f32) */
rlx_value rx_onnx_qgemm(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value a = turn(c, rx_onnx_in(c, 0), rx_onnx_int(c, "transA", 0), false);
    const rlx_value b = turn(c, rx_onnx_in(c, 3), rx_onnx_int(c, "transB", 0), false);
    const double alpha = rx_onnx_float(c, "alpha", 1);
    rlx_value sum = rx_onnx_integer_product(c, a, b, rx_onnx_in(c, 2), rx_onnx_in(c, 5));
    rlx_value scale = rlx_mul(g, rx_onnx_in(c, 1), rx_onnx_in(c, 4));
    if (!sum.id)
        return sum;
    if (rx_onnx_in(c, 6).id)
        sum = rlx_add(g, sum, rx_onnx_in(c, 6));
    if (alpha != 1)
        scale = rlx_mul(g, scale, like(c, scale, alpha));
    const rlx_value y = rlx_mul(g, rlx_cast(g, sum, RLX_F32), scale);
    return rx_onnx_in(c, 7).id ? encoded(c, y, 7) : y;
}

/* Runs the float builder on the dequantised operand 0. */
static rlx_value by_value(rx_onnx_call *c, rx_onnx_fn *builder)
{
    const rlx_value x = decoded(c, 0);
    rx_onnx_call by = *c;
    by.in = &x;
    by.n_in = 1;
    by.opset = rx_onnx_int(c, "opset", 22);
    return builder(&by);
}

rlx_value rx_onnx_qlinear_average_pool(rx_onnx_call *c)
{
    if (rx_onnx_int(c, "channels_last", 0))
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "channels last; expected [N, C, ..]");
    return encoded(c, by_value(c, rx_onnx_average_pool), 3);
}

rlx_value rx_onnx_qlinear_softmax(rx_onnx_call *c)
{
    return encoded(c, by_value(c, rx_onnx_softmax), 3);
}

/* cond, x, scale, zero, y, scale, zero, scale and zero of the result */
rlx_value rx_onnx_qlinear_where(rx_onnx_call *c)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = rlx_value_dtype(c->g,
                                                                              rx_onnx_in(c, 1))};
    const rlx_value y = rlx_where(c->g, rx_onnx_in(c, 0), decoded(c, 1), decoded(c, 4));
    return rlx_quantize(c->g, y, rx_onnx_in(c, 7), rx_onnx_in(c, 8), &d);
}
