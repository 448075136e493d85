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

/* The activation of fused operators. */
static rlx_value activate(rx_onnx_call *c, rlx_value x)
{
    const rx_onnx_attr *p = rx_onnx_attr_find(c, "activation_params");
    const float *v = p && p->type == RX_ONNX_FLOATS ? p->floats : NULL;
    const bool two = v && p->n >= 2, one = v && p->n >= 1;
    if (rx_onnx_is(c, "activation", "", ""))
        return x;
    if (rx_onnx_is(c, "activation", "Relu", ""))
        return rlx_relu(c->g, x);
    if (rx_onnx_is(c, "activation", "Sigmoid", ""))
        return rlx_sigmoid(c->g, x);
    if (rx_onnx_is(c, "activation", "Tanh", ""))
        return rlx_tanh(c->g, x);
    if (rx_onnx_is(c, "activation", "LeakyRelu", "") && one)
        return rlx_leaky_relu(c->g, x, v[0] == 0 ? RLX_ZERO : (double)v[0]);
    if (rx_onnx_is(c, "activation", "Clip", "") && two)
        return rlx_clamp(c->g, x, (double)v[0], (double)v[1]);
    if (rx_onnx_is(c, "activation", "HardSigmoid", "") && two)
        return rlx_hard_sigmoid(c->g, x, v[0] == 0 ? RLX_ZERO : (double)v[0],
                                v[1] == 0 ? RLX_ZERO : (double)v[1]);
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

/* Swaps the last two axes; with `batch`, all but the last move so that the first is before it. */
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
    return alpha == 1 ? y : rlx_mul(c->g, y, like(c, y, alpha));
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

/* x f32, b, scale of b, zero of b?, bias?: x is quantised by its range. */
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

/* x [.., K] times weights of 4 or 8 bits: b [N, K / block, bytes of a block], scales [N, K / block]
 * and zero points of the same, packed like b. */
rlx_value rx_onnx_matmul_nbits(rx_onnx_call *c)
{
    const rlx_value x = rx_onnx_in(c, 0), b = rx_onnx_in(c, 1), zero = rx_onnx_in(c, 3);
    const int64_t k = rx_onnx_int(c, "K", 0), n = rx_onnx_int(c, "N", 0);
    const int64_t bits = rx_onnx_int(c, "bits", 4), block = rx_onnx_int(c, "block_size", 0);
    if ((bits != 4 && bits != 8) || block < 1 || k < 1 || n < 1 || k % block ||
        rx_onnx_in(c, 4).id || rlx_value_dtype(c->g, b) != RLX_U8)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "%lld bits in blocks of %lld of %lld; expected 4 "
                            "or 8 bits in whole blocks without g_idx", (long long)bits,
                            (long long)block, (long long)k);
    const rlx_dim dims[2] = {n, k * bits / 8}, blocks[2] = {n, k / block};
    const rlx_value scale = rlx_reshape(c->g, rx_onnx_in(c, 2), 2, blocks);
    const rlx_dequant_desc d = {RLX_INIT(rlx_dequant_desc), .block = block, .bits = bits};
    rlx_value places = RLX_NONE;
    if (zero.id && bits == 8) {
        places = rlx_reshape(c->g, zero, 2, blocks);
    } else if (zero.id) { /* two in a byte, rows begin at whole bytes */
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

/* ---- Norms with a sum before ----------------------------------------------------------------- */

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

/* ---- Attention ------------------------------------------------------------------------------- */

/* [B, S, H * D] as [B, H, S, D]; a tensor of four axes is so already. */
static rlx_value split(rx_onnx_call *c, rlx_value x, int64_t heads)
{
    static const int perm[RLX_MAX_RANK] = {0, 2, 1, 3};
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (s.rank == 4)
        return x;
    if (s.rank != 3 || heads < 1)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "an operand of %d dimensions and %lld heads",
                            s.rank, (long long)heads);
    const rlx_dim dims[4] = {s.dim[0], s.dim[1], heads, rlx_dim_div(c->g, s.dim[2], heads)};
    return rlx_transpose(c->g, rlx_reshape(c->g, x, 4, dims), perm);
}

static rlx_value join(rx_onnx_call *c, rlx_value y)
{
    static const int perm[RLX_MAX_RANK] = {0, 2, 1, 3};
    const rlx_shape s = rlx_value_shape(c->g, y);
    const rlx_dim dims[3] = {s.dim[0], s.dim[2], rlx_dim_mul(c->g, s.dim[1], s.dim[3])};
    return rlx_reshape(c->g, rlx_transpose(c->g, y, perm), 3, dims);
}

/* The past and the new part along the third axis. */
static rlx_value extend(rx_onnx_call *c, rlx_value past, rlx_value x)
{
    const rlx_value parts[2] = {past, x};
    return past.id ? rlx_concat(c->g, parts, 2, 2) : x;
}

/* q, k, v [B, S, H * D], bias? [3 * H * D], key mask?, bias of scores?, past key?, past value? */
rlx_value rx_onnx_multi_head(rx_onnx_call *c)
{
    const int64_t heads = rx_onnx_int(c, "num_heads", 0);
    rlx_value in[3] = {rx_onnx_in(c, 0), rx_onnx_in(c, 1), rx_onnx_in(c, 2)};
    const rlx_value bias = rx_onnx_in(c, 3);
    if (!in[1].id || !in[2].id || rx_onnx_in(c, 4).id)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "packed operands or a mask of keys; expected q, k "
                            "and v without one");
    rlx_dim at = 0;
    for (int i = 0; i < 3; i++) {
        const rlx_shape s = rlx_value_shape(c->g, in[i]);
        if (bias.id && s.rank == 3) {
            in[i] = rlx_add(c->g, in[i], rlx_narrow(c->g, bias, 0, at, s.dim[2]));
            at = rlx_dim_add(c->g, at, s.dim[2]);
        }
        if (!(in[i] = split(c, in[i], heads)).id)
            return RLX_NONE;
    }
    const rlx_value k = extend(c, rx_onnx_in(c, 6), in[1]), v = extend(c, rx_onnx_in(c, 7), in[2]);
    c->out[1] = k;
    c->out[2] = v;
    const double scale = rx_onnx_float(c, "scale", 0);
    const rlx_attention_desc d = {RLX_INIT(rlx_attention_desc), .scale = scale,
                                  .causal = rx_onnx_int(c, "unidirectional", 0)};
    return join(c, rlx_attention(c->g, in[0], k, v, rx_onnx_in(c, 5), &d));
}

/* ---- Elementwise operators on codes ---------------------------------------------------------- */

/* Operands i (codes), i + 1 (scale) and i + 2 (zero point?) as numbers. */
static rlx_value decoded(rx_onnx_call *c, size_t i)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc)};
    return rlx_dequantize(c->g, rx_onnx_in(c, i), rx_onnx_in(c, i + 1), rx_onnx_in(c, i + 2), &d);
}

/* Back to codes by operands i (scale) and i + 1 (zero point?). */
static rlx_value encoded(rx_onnx_call *c, rlx_value y, size_t i)
{
    const rlx_quant_desc d = {RLX_INIT(rlx_quant_desc), .to = rlx_value_dtype(c->g, c->in[0])};
    return rlx_quantize(c->g, y, rx_onnx_in(c, i), rx_onnx_in(c, i + 1), &d);
}

rlx_value rx_onnx_qlinear_add(rx_onnx_call *c)
{
    return encoded(c, rlx_add(c->g, decoded(c, 0), decoded(c, 3)), 6);
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
