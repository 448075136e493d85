/* SPDX-License-Identifier: MIT */
/* Attention with a state instead of a cache: linear attention with its update rules, and the causal
 * convolution that precedes it. */
#include <math.h>

#include "import/onnx_build.h"

/* [B, T, H * D] as [B, T, H, D] in f32. */
static rlx_value heads(rx_onnx_call *c, rlx_value x, int64_t n)
{
    const rlx_shape s = rlx_value_shape(c->g, x);
    if (s.rank != 3)
        return rx_onnx_fail(c, RLX_INVALID, "an operand of %d dimensions; expected 3", s.rank);
    const rlx_dim dims[4] = {s.dim[0], s.dim[1], n, rlx_dim_div(c->g, s.dim[2], n)};
    return rlx_cast(c->g, rlx_reshape(c->g, x, 4, dims), RLX_F32);
}

/* Repeats each head on `axis` `times` times; x has rank below RLX_MAX_RANK. */
static rlx_value repeat_heads(rx_onnx_call *c, rlx_value x, int axis, int64_t times)
{
    rlx_shape s = rlx_value_shape(c->g, x), wide = {.rank = s.rank + 1};
    if (times == 1)
        return x;
    for (int i = 0; i < wide.rank; i++)
        wide.dim[i] = i <= axis ? s.dim[i] : i == axis + 1 ? times : s.dim[i - 1];
    s.dim[axis] = rlx_dim_mul(c->g, s.dim[axis], times);
    const rlx_value y = rlx_expand(c->g, rlx_unsqueeze(c->g, x, axis + 1), wide.rank, wide.dim);
    return rlx_reshape(c->g, y, s.rank, s.dim);
}

typedef struct linear {
    rlx_value q, k, v;     /* [B, T, H, D], k and v with the heads of the state */
    rlx_value decay, beta; /* [B, T, H, 1 or D], [B, T, H or 1, 1], or RLX_NONE */
    rlx_value state;       /* [B, H, D, Dv] */
    int64_t groups;        /* query heads per state head */
} linear;

static rlx_value at_step(rx_onnx_call *c, rlx_value x, int64_t t)
{
    return rlx_squeeze(c->g, rlx_narrow(c->g, x, 1, t, 1), 1);
}

/* One time step: updates the state and returns the output for q: [B, H, Dv]. */
static rlx_value linear_step(rx_onnx_call *c, linear *l, int64_t t)
{
    rlx_graph *g = c->g;
    const rlx_value k = rlx_unsqueeze(g, at_step(c, l->k, t), -1);
    rlx_value v = rlx_unsqueeze(g, at_step(c, l->v, t), -2);
    if (l->decay.id)
        l->state = rlx_mul(g, l->state, rlx_exp(g, rlx_unsqueeze(g, at_step(c, l->decay, t), -1)));
    if (l->beta.id) {
        static const int turn[RLX_MAX_RANK] = {0, 1, 3, 2};
        const rlx_value seen = rlx_matmul(g, rlx_transpose(g, k, turn), l->state);
        v = rlx_mul(g, rlx_unsqueeze(g, at_step(c, l->beta, t), -1), rlx_sub(g, v, seen));
    }
    l->state = rlx_add(g, l->state, rlx_mul(g, k, v));
    const rlx_value q = rlx_unsqueeze(g, at_step(c, l->q, t), -2);
    return rlx_matmul(g, q, repeat_heads(c, l->state, 1, l->groups));
}

static bool read_linear(rx_onnx_call *c, linear *l)
{
    const int64_t hq = rx_onnx_int(c, "q_num_heads", 0), hk = rx_onnx_int(c, "kv_num_heads", 0);
    const rlx_value decay = rx_onnx_in(c, 4), beta = rx_onnx_in(c, 5);
    if (hq < 1 || hk < 1 || hq % hk) {
        rx_onnx_fail(c, RLX_INVALID, "q_num_heads is %lld and kv_num_heads %lld; expected a "
                     "multiple", (long long)hq, (long long)hk);
        return false;
    }
    *l = (linear){.q = heads(c, rx_onnx_in(c, 0), hq), .k = heads(c, rx_onnx_in(c, 1), hk),
                  .v = heads(c, rx_onnx_in(c, 2), hk), .groups = hq / hk};
    if (!l->q.id || !l->k.id || !l->v.id)
        return false;
    if (decay.id)
        l->decay = heads(c, decay, hk);
    if (beta.id)
        l->beta = heads(c, beta, rlx_value_shape(c->g, beta).dim[2] == 1 ? 1 : hk);
    const rlx_shape q = rlx_value_shape(c->g, l->q), v = rlx_value_shape(c->g, l->v);
    const rlx_dim dims[4] = {q.dim[0], hk, q.dim[3], v.dim[3]};
    l->state = rx_onnx_in(c, 3).id ? rlx_cast(c->g, rx_onnx_in(c, 3), RLX_F32)
                                   : rlx_expand(c->g, rlx_scalar(c->g, RLX_F32, 0), 4, dims);
    return true;
}

#define MAX_STEPS 4096

rlx_value rx_onnx_linear_attention(rx_onnx_call *c)
{
    linear l;
    rlx_value y[MAX_STEPS];
    if (!read_linear(c, &l))
        return RLX_NONE;
    const rlx_shape q = rlx_value_shape(c->g, l.q);
    const double given = rx_onnx_float(c, "scale", 0);
    const double scale = given != 0 ? given : 1 / sqrt((double)q.dim[3]);
    const rlx_dtype t = rlx_value_dtype(c->g, rx_onnx_in(c, 0));
    const rlx_value past = rx_onnx_in(c, 3);
    const rlx_dtype kept = past.id ? rlx_value_dtype(c->g, past) : t;
    if (q.dim[1] < 1 || q.dim[1] > MAX_STEPS || q.dim[3] < 1)
        return rx_onnx_fail(c, RLX_UNSUPPORTED, "expected a fixed number of 1 to %d steps",
                            MAX_STEPS);
    l.q = rlx_mul(c->g, l.q, rlx_scalar(c->g, RLX_F32, scale));
    for (int64_t i = 0; i < q.dim[1]; i++)
        y[i] = linear_step(c, &l, i); /* [B, H, 1, Dv] */
    static const int perm[RLX_MAX_RANK] = {0, 2, 1, 3};
    rlx_value all = rlx_transpose(c->g, rlx_concat(c->g, y, (size_t)q.dim[1], 2), perm);
    const rlx_shape s = rlx_value_shape(c->g, all);
    const rlx_dim dims[3] = {s.dim[0], s.dim[1], rlx_dim_mul(c->g, s.dim[2], s.dim[3])};
    all = rlx_reshape(c->g, all, 3, dims);
    c->out[1] = rlx_cast(c->g, l.state, kept);
    return rlx_cast(c->g, all, t);
}

/* x [B, C, L], w [C, 1, k], bias? [C], past? [B, C, k - 1]: a depthwise convolution over past and
 * x; the last k - 1 columns are the next state. */
rlx_value rx_onnx_causal_conv(rx_onnx_call *c)
{
    rlx_graph *g = c->g;
    const rlx_value x = rx_onnx_in(c, 0), w = rx_onnx_in(c, 1), past = rx_onnx_in(c, 3);
    const rlx_shape sx = rlx_value_shape(g, x), sw = rlx_value_shape(g, w);
    if (sx.rank != 3 || sw.rank != 3 || sw.dim[2] < 1 || sx.dim[1] < 1)
        return rx_onnx_fail(c, RLX_INVALID, "expected x [B, C, L] and weights [C, 1, k]");
    const int64_t k = sw.dim[2], before[3] = {0, 0, k - 1}, none[3] = {0};
    const rlx_value parts[2] = {past, x};
    const rlx_value wide = past.id && k > 1 ? rlx_concat(g, parts, 2, 2)
                                  : rlx_pad(g, x, before, none, RLX_PAD_CONSTANT, 0);
    const rlx_conv_desc d = {RLX_INIT(rlx_conv_desc), .groups = sx.dim[1]};
    const rlx_value y = rlx_conv1d(g, wide, w, rx_onnx_in(c, 2), &d);
    c->out[1] = rlx_narrow(g, wide, 2, sx.dim[2], k - 1);
    return rx_onnx_is(c, "activation", "none", "none") ? y : rlx_silu(g, y);
}
