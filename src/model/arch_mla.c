/* SPDX-License-Identifier: MIT */
/* Multi-head latent attention (DeepSeek): keys and values of all heads are projections of one
 * latent, plus one rotary key part. Files with separate up-projections for keys and values run in
 * absorbed form: queries are projected into the latent, the attention output back out of it, and
 * only the latent is cached. Otherwise keys and values of each head are computed and cached. */
#include "model/build.h"

typedef struct parts {
    rlx_value q, q_rot; /* [B, S, heads, key - n_rot], [B, S, heads, n_rot] */
    rlx_value c, k_rot; /* [B, S, rank], [B, S, 1, n_rot] */
} parts;

static rlx_value build_queries(rx_builder *b, const rx_layer *l, rlx_value x)
{
    if (l->parts & RX_HAS_FULL_Q)
        return rx_build_linear(b, l, x, RX_T_MLA_Q, RLX_NONE, RLX_NONE);
    x = rx_build_linear(b, l, x, RX_T_Q_DOWN, RLX_NONE, RLX_NONE);
    x = rx_build_rms_norm(b, x, rx_build_vector(b, l, RX_T_Q_DOWN_NORM));
    return rx_build_linear(b, l, x, RX_T_Q_UP, RLX_NONE, RLX_NONE);
}

static parts build_parts(rx_builder *b, const rx_layer *l, rlx_value x)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t n_rot = f->n_rot, plain = f->mla_key - n_rot;
    const rlx_value q = rx_build_heads(b, build_queries(b, l, x), l->heads, f->mla_key);
    const rlx_value kv = rx_build_linear(b, l, x, RX_T_KV_DOWN, RLX_NONE, RLX_NONE);
    const rlx_value k_rot = rx_build_heads(b, rlx_narrow(g, kv, 2, f->kv_rank, n_rot), 1, n_rot);
    const rlx_value norm = rx_build_vector(b, l, RX_T_KV_DOWN_NORM);
    return (parts){.q = rlx_narrow(g, q, 3, 0, plain),
                   .q_rot = rx_build_rotated(b, l, rlx_narrow(g, q, 3, plain, n_rot)),
                   .c = rx_build_rms_norm(b, rlx_narrow(g, kv, 2, 0, f->kv_rank), norm),
                   .k_rot = rx_build_rotated(b, l, k_rot)};
}

/* Multiplies each head of x [B, S, heads, n] by its matrix of a bank [heads, m, n]. */
static rlx_value by_head(rx_builder *b, const rx_layer *l, rlx_value x, rx_role role, int64_t m)
{
    rlx_graph *g = b->g;
    const rlx_shape s = rlx_value_shape(g, x);
    const rlx_dim rows = rlx_dim_mul(g, b->rows, l->heads), flat[] = {rows, s.dim[3]};
    const rlx_dim all[] = {b->rows, l->heads}, whole[] = {b->batch, b->seq, l->heads, m};
    const rlx_range_desc d = {RLX_INIT(rlx_range_desc), .n = l->heads, .out = RLX_I32};
    const rlx_value ids = rlx_reshape(g, rlx_expand(g, rlx_range(g, &d), 2, all), 1, &rows);
    x = rlx_reshape(g, x, 2, flat);
    rx_build_noted_bank(b, l, role, x, ids, l->heads);
    const rlx_value y = rx_build_grouped(b, x, rx_build_weight(b, l, role), ids);
    return rlx_reshape(g, y, 4, whole);
}

/* Absorbed form: one key head, whose leading part is the values. */
static rlx_value attend_latent(rx_builder *b, const rx_layer *l, const parts *p)
{
    rlx_graph *g = b->g;
    const int64_t rank = b->f->kv_rank;
    const rlx_value q[] = {by_head(b, l, p->q, RX_T_K_UP, rank), p->q_rot};
    const rlx_value k[] = {rx_build_heads(b, p->c, 1, rank), p->k_rot};
    const rlx_value keys = rx_build_kept(b, l, true, rlx_concat(g, k, 2, 3));
    const int axis = rlx_value_shape(g, keys).rank - 1;
    const rlx_value values = rlx_narrow(g, keys, axis, 0, rank);
    const rlx_value y = rx_build_attend(b, l, rlx_concat(g, q, 2, 3), keys, values);
    const rlx_dim dims[] = {b->batch, b->seq, l->heads, rank};
    return by_head(b, l, rlx_reshape(g, y, 4, dims), RX_T_V_UP, b->f->mla_value);
}

/* Expanded form: each head has its own keys and values and shares the rotary key part. */
static rlx_value attend_heads(rx_builder *b, const rx_layer *l, const parts *p)
{
    rlx_graph *g = b->g;
    const rx_facts *f = b->f;
    const int64_t plain = f->mla_key - f->n_rot;
    const rlx_dim rot[] = {b->batch, b->seq, l->heads, f->n_rot};
    const rlx_value kv = rx_build_heads(b, rx_build_linear(b, l, p->c, RX_T_KV_UP, RLX_NONE,
                                                           RLX_NONE),
                                        l->heads, plain + f->mla_value);
    const rlx_value q[] = {p->q, p->q_rot};
    const rlx_value k[] = {rlx_narrow(g, kv, 3, 0, plain), rlx_expand(g, p->k_rot, 4, rot)};
    const rlx_value v = rlx_narrow(g, kv, 3, plain, f->mla_value);
    return rx_build_attend(b, l, rlx_concat(g, q, 2, 3),
                           rx_build_kept(b, l, true, rlx_concat(g, k, 2, 3)),
                           rx_build_kept(b, l, false, v));
}

rlx_value rx_build_mla(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const parts p = build_parts(b, l, x);
    const rlx_value y = l->parts & RX_HAS_MLA_SPLIT ? attend_latent(b, l, &p)
                                                     : attend_heads(b, l, &p);
    const rlx_dim dims[] = {b->batch, b->seq, l->heads * b->f->mla_value};
    return rlx_reshape(b->g, y, 3, dims);
}
