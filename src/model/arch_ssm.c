/* SPDX-License-Identifier: MIT */
/* Layers of state space models: Mamba and Mamba-2. Recurrent states (the last inputs of the
 * convolution, the state of the scan) have a slot per sequence; a run that starts a sequence reads
 * zeros. In training and for
 * embeddings every run starts its texts. */
#include <string.h>

#include "model/build.h"

/* ---- States by slot -------------------------------------------------------------------------- */

rx_memory rx_build_recalled(rx_builder *b, const rx_layer *l, const char *what,
                            const rlx_shape *shape)
{
    rlx_graph *g = b->g;
    char name[RX_STATE_NAME];
    rlx_dim wide[RLX_MAX_RANK] = {b->batch, 1, 1, 1, 1, 1, 1, 1};
    rx_memory m = {0};
    if (rx_is_cacheless(b)) {
        memcpy(wide, shape->dim, sizeof wide);
        wide[0] = b->batch;
        m.now = rlx_expand(g, rlx_scalar(g, RLX_F32, 0), shape->rank, wide);
        return m;
    }
    m.state = rlx_state(g, rx_build_name(b, l, what, name), RLX_F32, shape->rank, shape->dim);
    m.now = m.state;
    if (b->slots.id)
        m.now = rlx_gather(g, m.state, rlx_reshape(g, b->slots, 1, &b->batch), 0);
    const rlx_value fresh = rlx_reshape(g, b->fresh, shape->rank, wide);
    m.now = rlx_where(g, fresh, rlx_scalar(g, RLX_F32, 0), m.now);
    return m;
}

void rx_build_remembered(rx_builder *b, const rx_memory *m, rlx_value update)
{
    rlx_graph *g = b->g;
    if (rx_is_cacheless(b))
        return;
    const rlx_value place = b->slots.id ? rlx_reshape(g, b->slots, 1, &b->batch)
                                        : rlx_scalar(g, RLX_I32, 0);
    rlx_state_write(g, m->state, update, place, 0);
}

/* ---- The convolution ------------------------------------------------------------------------- */

/* silu(y? + sum over j of w[:, j] * x[t - k + 1 + j]) for x [B, S, channels]: a causal depthwise
 * convolution over the last k inputs. */
rlx_value rx_build_conv(rx_builder *b, rlx_value x, rlx_value w, rlx_value y, const rx_layer *l)
{
    rlx_graph *g = b->g;
    const int64_t k = b->f->ssm_conv;
    const rlx_dim channels = rlx_value_shape(g, x).dim[2];
    const rlx_shape shape = {3, {b->d->sequences, k - 1, channels}};
    const rx_memory m = rx_build_recalled(b, l, "conv", &shape);
    const rlx_value both[] = {m.now, x};
    const rlx_value all = rlx_concat(g, both, 2, 1);
    for (int64_t j = 0; j < k; j++) {
        const rlx_value tap = rlx_reshape(g, rlx_narrow(g, w, 1, j, 1), 1, &channels);
        const rlx_value term = rlx_mul(g, rlx_narrow(g, all, 1, j, b->seq), tap);
        y = y.id ? rlx_add(g, term, y) : term;
    }
    rx_build_remembered(b, &m, rlx_narrow(g, all, 1, b->seq, k - 1));
    return rlx_silu(g, y);
}

static rlx_value build_conv(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rlx_value bias = rx_build_vector(b, l, RX_T_SSM_CONV_BIAS);
    return rx_build_conv(b, x, rx_build_vector(b, l, RX_T_SSM_CONV), bias, l);
}

/* ---- Mamba ----------------------------------------------------------------------------------- */

static rlx_value part(rx_builder *b, rlx_value x, int64_t *at, int64_t n)
{
    *at += n;
    return rlx_narrow(b->g, x, 2, *at - n, n);
}

static rlx_value norm_plain(rx_builder *b, rlx_value x)
{
    return b->f->ssm_norms ? rx_build_rms_norm(b, x, RLX_NONE) : x;
}

/* x, z [B, S, inner] -> [B, S, inner] */
static rlx_value build_mamba1(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value z)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    int64_t at = 0;
    x = build_conv(b, l, x);
    const rlx_value all = rx_build_linear(b, l, x, RX_T_SSM_X, RLX_NONE, RLX_NONE);
    rlx_value dt = norm_plain(b, part(b, all, &at, f->ssm_rank));
    const rlx_value in = norm_plain(b, part(b, all, &at, f->ssm_state));
    const rlx_value out = norm_plain(b, part(b, all, &at, f->ssm_state));
    const rlx_value bias = rx_build_vector(b, l, RX_T_SSM_DT_BIAS);
    dt = rlx_softplus(g, rx_build_linear(b, l, dt, RX_T_SSM_DT, bias, RLX_NONE));
    const rlx_shape shape = {3, {b->d->sequences, f->ssm_inner, f->ssm_state}};
    const rx_memory m = rx_build_recalled(b, l, "ssm", &shape);
    const rlx_value operands[7] = {x, dt, rx_build_vector(b, l, RX_T_SSM_A), in, out,
                                   rx_build_vector(b, l, RX_T_SSM_D), m.now};
    rlx_value last;
    const rlx_value y = rlx_selective_scan(g, operands, &last);
    rx_build_remembered(b, &m, last);
    return rlx_swiglu(g, z, y);
}

/* ---- Mamba-2 --------------------------------------------------------------------------------- */

/* Norm of silu(z) * y over each group. */
static rlx_value build_group_norm(rx_builder *b, const rx_layer *l, rlx_value y, rlx_value z)
{
    rlx_graph *g = b->g;
    const int64_t groups = b->f->ssm_groups, inner = b->f->ssm_inner;
    const rlx_value gamma = rx_build_vector(b, l, RX_T_SSM2_NORM);
    y = rx_build_heads(b, rlx_swiglu(g, z, y), groups, inner / groups);
    y = rlx_mul(g, rx_build_rms_norm(b, y, RLX_NONE), gamma);
    return rlx_reshape(g, y, 3, (rlx_dim[]){b->batch, b->seq, inner});
}

/* xbc [B, S, inner + 2 * groups * state], z [B, S, inner], dt [B, S, heads] -> [B, S, inner] */
static rlx_value build_mamba2(rx_builder *b, const rx_layer *l, rlx_value xbc, rlx_value z,
                              rlx_value dt)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t heads = f->ssm_rank, size = f->ssm_inner / heads, n = f->ssm_state;
    const int64_t groups = f->ssm_groups;
    const rlx_dim per_head[] = {heads};
    int64_t at = 0;
    xbc = build_conv(b, l, xbc);
    const rlx_value x = rx_build_heads(b, part(b, xbc, &at, f->ssm_inner), heads, size);
    const rlx_value in = rx_build_heads(b, part(b, xbc, &at, groups * n), groups, n);
    const rlx_value out = rx_build_heads(b, part(b, xbc, &at, groups * n), groups, n);
    dt = rlx_softplus(g, rlx_add(g, dt, rx_build_vector(b, l, RX_T_SSM2_DT_BIAS)));
    const rlx_value a = rlx_reshape(g, rx_build_vector(b, l, RX_T_SSM2_A), 1, per_head);
    const rlx_value skip = rlx_reshape(g, rx_build_vector(b, l, RX_T_SSM2_D), 1, per_head);
    const rlx_shape shape = {4, {b->d->sequences, heads, size, n}};
    const rx_memory m = rx_build_recalled(b, l, "ssm", &shape);
    const rlx_value operands[7] = {x, dt, a, in, out, skip, m.now};
    rlx_value last;
    rlx_value y = rlx_mamba2(g, operands, &last);
    rx_build_remembered(b, &m, last);
    y = rlx_reshape(g, y, 3, (rlx_dim[]){b->batch, b->seq, f->ssm_inner});
    return build_group_norm(b, l, y, z);
}

rlx_value rx_build_mamba(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual)
{
    const rx_facts *f = b->f;
    const int64_t inner = f->ssm_inner;
    int64_t at = 0;
    rlx_value y;
    const rlx_value all = rx_build_linear(b, l, x, RX_T_SSM_IN, RLX_NONE, RLX_NONE);
    if (l->parts & RX_HAS_MAMBA1) {
        x = part(b, all, &at, inner);
        y = build_mamba1(b, l, x, part(b, all, &at, inner));
    } else {
        const rlx_value z = part(b, all, &at, inner);
        x = part(b, all, &at, inner + 2 * f->ssm_groups * f->ssm_state);
        y = build_mamba2(b, l, x, z, part(b, all, &at, f->ssm_rank));
    }
    return rx_build_linear(b, l, y, RX_T_SSM_OUT, RLX_NONE, residual);
}
