/* SPDX-License-Identifier: MIT */
/* Gated delta net in place of attention (Qwen3-Next): a convolution over q, k and v, a recurrent
 * state for each head, a gated norm of its output. */
#include <math.h>

#include "model/build.h"

#define UNIT_EPS 1e-6 /* eps of the norms of q and k */

typedef struct projections {
    rlx_value qkv, z; /* [B, S, channels], [B, S, heads, head size] */
} projections;

/* Fused projection, interleaved by key head: q, k, then v and z of its value heads. */
static projections split_joined(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t groups = f->ssm_groups, n = f->ssm_state, r = f->ssm_inner / groups;
    const rlx_value all = rx_build_heads(b, rx_build_linear(b, l, x, RX_T_DELTA_IN, RLX_NONE,
                                                            RLX_NONE), groups, 2 * n + 2 * r);
    const rlx_dim keys[] = {b->batch, b->seq, groups * n};
    const rlx_dim values[] = {b->batch, b->seq, groups * r};
    const rlx_dim heads[] = {b->batch, b->seq, f->ssm_rank, f->ssm_inner / f->ssm_rank};
    const rlx_value parts[] = {rlx_reshape(g, rlx_narrow(g, all, 3, 0, n), 3, keys),
                               rlx_reshape(g, rlx_narrow(g, all, 3, n, n), 3, keys),
                               rlx_reshape(g, rlx_narrow(g, all, 3, 2 * n, r), 3, values)};
    return (projections){rlx_concat(g, parts, 3, 2),
                         rlx_reshape(g, rlx_narrow(g, all, 3, 2 * n + r, r), 4, heads)};
}

static projections build_projections(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rx_facts *f = b->f;
    if (l->parts & RX_HAS_DELTA_JOINED)
        return split_joined(b, l, x);
    const rlx_value z = rx_build_linear(b, l, x, RX_T_DELTA_Z, RLX_NONE, RLX_NONE);
    return (projections){rx_build_linear(b, l, x, RX_T_DELTA_QKV, RLX_NONE, RLX_NONE),
                         rx_build_heads(b, z, f->ssm_rank, f->ssm_inner / f->ssm_rank)};
}

/* q or k [B, S, groups * n] as vectors of length 1, for each value head: [B, S, heads, n] */
static rlx_value build_unit(rx_builder *b, rlx_value x)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t groups = f->ssm_groups, n = f->ssm_state, r = f->ssm_rank / groups;
    const rlx_dim one[] = {b->batch, b->seq, groups, 1, n};
    const rlx_dim each[] = {b->batch, b->seq, groups, r, n};
    const rlx_dim heads[] = {b->batch, b->seq, f->ssm_rank, n};
    const rlx_norm_desc d = {RLX_INIT(rlx_norm_desc), .eps = UNIT_EPS / (double)n};
    x = rlx_rms_norm(g, rx_build_heads(b, x, groups, n), RLX_NONE, &d);
    x = rlx_mul(g, x, rlx_scalar(g, RLX_F32, 1 / sqrt((double)n)));
    return rlx_reshape(g, rlx_expand(g, rlx_reshape(g, x, 5, one), 5, each), 4, heads);
}

/* beta and the logarithm of the decay, [B, S, heads] */
static rlx_value build_gates(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value *decay)
{
    rlx_graph *g = b->g;
    const int64_t heads = b->f->ssm_rank, groups = b->f->ssm_groups, r = heads / groups;
    const rlx_dim flat[] = {b->batch, b->seq, heads};
    const rlx_value ba = rx_build_heads(b, rx_build_linear(b, l, x, RX_T_DELTA_BA, RLX_NONE,
                                                           RLX_NONE), groups, 2 * r);
    rlx_value a = rlx_reshape(g, rlx_narrow(g, ba, 3, r, r), 3, flat);
    a = rlx_softplus(g, rlx_add(g, a, rx_build_vector(b, l, RX_T_DELTA_DT_BIAS)));
    *decay = rlx_mul(g, a, rx_build_vector(b, l, RX_T_DELTA_A));
    return rlx_sigmoid(g, rlx_reshape(g, rlx_narrow(g, ba, 3, 0, r), 3, flat));
}

rlx_value rx_build_delta(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t heads = f->ssm_rank, n = f->ssm_state, size = f->ssm_inner / heads;
    const int64_t keys = f->ssm_groups * n;
    const projections p = build_projections(b, l, x);
    const rlx_value qkv = rx_build_conv(b, p.qkv, rx_build_vector(b, l, RX_T_DELTA_CONV),
                                        RLX_NONE, l);
    const rlx_value v = rx_build_heads(b, rlx_narrow(g, qkv, 2, 2 * keys, f->ssm_inner), heads,
                                       size);
    rlx_value decay, last;
    const rlx_value beta = build_gates(b, l, x, &decay);
    const rlx_shape shape = {4, {b->d->sequences, heads, n, size}};
    const rx_memory m = rx_build_recalled(b, l, "ssm", &shape);
    const rlx_value operands[6] = {build_unit(b, rlx_narrow(g, qkv, 2, 0, keys)),
                                   build_unit(b, rlx_narrow(g, qkv, 2, keys, keys)), v, decay,
                                   beta, m.now};
    rlx_value y = rlx_gated_delta_net(g, operands, &last);
    rx_build_remembered(b, &m, last);
    y = rx_build_rms_norm(b, y, rx_build_vector(b, l, RX_T_DELTA_NORM));
    return rlx_reshape(g, rlx_swiglu(g, p.z, y), 3, (rlx_dim[]){b->batch, b->seq, f->ssm_inner});
}
