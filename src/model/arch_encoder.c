/* SPDX-License-Identifier: MIT */
/* Graph builder of encoders: bidirectional attention, post-norm (BERT) or pre-norm (ModernBERT,
 * T5). */
#include "model/build.h"

/* norm(x + residual) with weight and bias. */
static rlx_value add_norm(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual,
                          rx_role role)
{
    const rlx_value gamma = rx_build_vector(b, l, role);
    const rlx_value beta = rx_build_vector(b, l, (rx_role)(role + 1));
    const rlx_residual_norm_desc d = {RLX_INIT(rlx_residual_norm_desc), .eps = b->f->eps};
    return rlx_residual_norm(b->g, x, residual, gamma, beta, &d, NULL);
}

static rlx_value to_f32(rx_builder *b, rlx_value x)
{
    return rlx_value_dtype(b->g, x) == RLX_F32 ? x : rlx_cast(b->g, x, RLX_F32);
}

/* Token + token type, and position: [B, S, width] in f32. */
static rlx_value build_embeddings(rx_builder *b)
{
    rlx_graph *g = b->g;
    const rlx_dim token[] = {b->batch, b->seq};
    rlx_value x = to_f32(b, rlx_gather(g, rx_build_weight(b, NULL, RX_T_EMBED), b->tokens, 0));
    if (b->f->types > 0) {
        const rlx_value types = rlx_input(g, "types", RLX_I32, 2, token);
        const rlx_value table = rx_build_weight(b, NULL, RX_T_TYPES);
        x = rlx_add(g, x, to_f32(b, rlx_gather(g, table, types, 0)));
    }
    if (!(b->f->arch->parts & RX_HAS_EMBED_NORM))
        return x;
    const rlx_value gamma = rx_build_vector(b, NULL, RX_T_EMBED_NORM);
    const rlx_value beta = rx_build_vector(b, NULL, RX_T_EMBED_NORM_BIAS);
    if (b->f->arch->parts & RX_HAS_POSITIONS) {
        const rlx_value table = rx_build_vector(b, NULL, RX_T_POSITIONS);
        x = rlx_add(g, x, rlx_narrow(g, table, 0, b->f->first_position, b->seq));
    }
    return rlx_layer_norm(g, x, gamma, beta, &(rlx_norm_desc){RLX_INIT(rlx_norm_desc),
                                                              .eps = b->f->eps});
}

static rlx_value build_post_norm(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const rlx_value bias = rx_build_vector(b, l, RX_T_O_BIAS);
    rlx_value y = rx_build_attention(b, l, x);
    y = rx_build_linear(b, l, y, RX_T_O, bias, RLX_NONE);
    x = add_norm(b, l, y, x, RX_T_ATTN_OUT_NORM);
    return add_norm(b, l, rx_build_ffn(b, l, x, RLX_NONE), x, RX_T_LAYER_NORM);
}

/* The first layer has no norm before its attention: the embeddings were just normalised. */
static rlx_value build_pre_norm(rx_builder *b, const rx_layer *l, rlx_value x)
{
    const bool normed = l->tensor[RX_T_ATTN_NORM] == RX_NO_TENSOR;
    const rlx_value h = normed ? x : rx_build_norm(b, l, x, RX_T_ATTN_NORM, RX_N_ROLES);
    const rlx_value bias = rx_build_vector(b, l, RX_T_O_BIAS);
    x = rx_build_linear(b, l, rx_build_attention(b, l, h), RX_T_O, bias, x);
    return rx_build_ffn(b, l, rx_build_norm(b, l, x, RX_T_FFN_NORM, RX_N_ROLES), x);
}

rlx_value rx_build_encoder(rx_builder *b)
{
    const bool post = b->f->arch->parts & RX_HAS_OUT_NORMS;
    rlx_value x = build_embeddings(b);
    for (int64_t i = 0; i < b->f->layers; i++)
        x = post ? build_post_norm(b, &b->f->layer[i], x) : build_pre_norm(b, &b->f->layer[i], x);
    return post ? x : rx_build_norm(b, NULL, x, RX_T_OUT_NORM, RX_N_ROLES);
}
