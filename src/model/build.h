/* SPDX-License-Identifier: MIT */
/* Internal interface of the graph builders (arch*.c): the shared context and the parts of a model.
 * The first error stays in the graph, so none of these returns a status. */
#ifndef RX_MODEL_BUILD_H
#define RX_MODEL_BUILD_H

#include "model/facts.h"

/* Inputs that assign adapters to rows. */
typedef struct rx_lora_rows {
    rlx_value rows, ids, scale;
    rlx_dim n;
} rx_lora_rows;

typedef struct rx_builder {
    const rx_facts *f;
    const rx_build_desc *d;
    rlx_graph *g;
    rlx_dim batch, seq, rows;    /* rows: batch * seq */
    rlx_value tokens, positions, places, lengths, slots; /* inputs, as in arch.h */
    rlx_value cos[2], sin[2];    /* [0]: all layers; [1]: windowed layers, where they differ */
    rlx_value near;              /* mask of layers whose window is one */
    rlx_value embed;             /* embedding table, also the output of tied models */
    rlx_value sequence, outputs; /* of rows (arch_rows.c) */
    rx_lora_rows adapted[2];     /* of rows; of outputs */
    bool at_outputs;             /* currently building for the output rows */
    rlx_value *trained;          /* training: the states, room for rx_most_trained */
    size_t n_trained;
    rlx_value fresh;             /* recurrent models: bool [B], the run starts its sequence */
} rx_builder;

/* The param of a tensor: in the type of the file, or (vectors and small tables) in f32. RLX_NONE
 * when the model has none. Repeated calls return the same param. */
rlx_value rx_build_weight(rx_builder *b, const rx_layer *l, rx_role role);
rlx_value rx_build_vector(rx_builder *b, const rx_layer *l, rx_role role);
/* x . weight^T + bias? + residual?; rx_build_product ignores adapters. */
rlx_value rx_build_product(rx_builder *b, rlx_value x, rlx_value w, rlx_value bias,
                           rlx_value residual);
/* Row i of x [rows, k] . bank[ids[i]]^T of a bank [n, m, k]. */
rlx_value rx_build_grouped(rx_builder *b, rlx_value x, rlx_value bank, rlx_value ids);
rlx_value rx_build_linear(rx_builder *b, const rx_layer *l, rlx_value x, rx_role weight,
                          rlx_value bias, rlx_value residual);
/* x is multiplied by a tensor, or row i of x [rows, k] by the matrix ids[i] of a bank of n: outputs
 * of importance matrices, where they are asked for. */
void rx_build_noted(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x);
void rx_build_noted_bank(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x, rlx_value ids,
                         int64_t n);
rlx_value rx_build_rms_norm(rx_builder *b, rlx_value x, rlx_value gamma);
/* Layer norm or RMS norm, as the architecture has it; `bias` may be RX_N_ROLES. */
rlx_value rx_build_norm(rx_builder *b, const rx_layer *l, rlx_value x, rx_role weight,
                        rx_role bias);
/* Splits the last axis: x [B, S, n * size] -> [B, S, n, size]. */
rlx_value rx_build_heads(rx_builder *b, rlx_value x, int64_t n, int64_t size);
/* "k.3": a name of layer l. */
#define RX_STATE_NAME 24
const char *rx_build_name(const rx_builder *b, const rx_layer *l, const char *what,
                          char text[RX_STATE_NAME]);

/* x [B, S, width] -> the sum over heads [B, S, heads * value size]: q, k, v, rotary embedding, K/V
 * cache (decoders), attention. */
rlx_value rx_build_attention(rx_builder *b, const rx_layer *l, rlx_value x);
/* x [B, S, width] -> the same; residual? is added if the last product can take it as epilogue. */
rlx_value rx_build_ffn(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
rlx_value rx_build_experts(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
/* Replacements of attention: multi-head latent attention, gated delta net. */
rlx_value rx_build_mla(rx_builder *b, const rx_layer *l, rlx_value x);
rlx_value rx_build_delta(rx_builder *b, const rx_layer *l, rlx_value x);
/* Parts of attention: rotary embedding of x [B, S, heads, size]; keys or values written to the
 * cache (decoders), returned with the cached ones; attention of q [B, S, heads, size] over
 * those. */
rlx_value rx_build_rotated(rx_builder *b, const rx_layer *l, rlx_value x);
rlx_value rx_build_kept(rx_builder *b, const rx_layer *l, bool is_key, rlx_value x);
rlx_value rx_build_attend(rx_builder *b, const rx_layer *l, rlx_value q, rlx_value k, rlx_value v);
/* act(gate) * up */
rlx_value rx_build_gated(rx_builder *b, rlx_value gate, rlx_value up);
/* Whether texts begin in each run, and nothing of them is kept: training, embeddings. */
static inline bool rx_is_cacheless(const rx_builder *b)
{
    return b->d->train || b->d->embed;
}
/* A recurrent state with a slot per sequence, the first axis of `shape`. */
typedef struct rx_memory {
    rlx_value state, now; /* the state, none in training, where each run begins all of its texts;
                           * what it is for the sequences of this run: [B, ..] */
} rx_memory;
rx_memory rx_build_recalled(rx_builder *b, const rx_layer *l, const char *what,
                            const rlx_shape *shape);
void rx_build_remembered(rx_builder *b, const rx_memory *m, rlx_value update);
/* A causal depthwise convolution, x [B, S, channels], w [channels, k]; y: a bias or RLX_NONE. */
rlx_value rx_build_conv(rx_builder *b, rlx_value x, rlx_value w, rlx_value y, const rx_layer *l);
rlx_value rx_build_mamba(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
/* Makes the params of the rotary embedding. */
void rx_build_rope_tables(rx_builder *b);
/* Data of such a param; RLX_NOT_FOUND when `name` is no rotary table. */
rlx_status rx_rope_table(const rx_facts *f, const rx_build_desc *d, const char *name, float **data,
                         size_t *bytes, rlx_error *err);
/* x [.., width] -> logits [.., vocabulary] */
rlx_value rx_build_logits(rx_builder *b, rlx_value x);
/* Ragged batches: dimensions and inputs; attention over the pool, q [N, 1, heads, size]; selection
 * of the output rows, [N, 1, n] -> [M, 1, n]; logits and sampling of x [M, 1, width]. */
void rx_build_row_inputs(rx_builder *b);
rlx_value rx_build_row_attention(rx_builder *b, rlx_value q, rlx_value k, rlx_value v,
                                 rlx_value sinks, const rlx_attention_desc *d);
rlx_value rx_build_output_rows(rx_builder *b, rlx_value x);
void rx_build_row_heads(rx_builder *b, rlx_value x);
/* Adapters: their inputs; y = x . weight^T plus their contribution. */
void rx_build_lora_inputs(rx_builder *b);
rlx_value rx_build_adapted(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x,
                           rlx_value y);
/* Training: inputs; y plus the contribution of the trained adapter; loss and optimiser. */
size_t rx_most_trained(const rx_facts *f); /* upper bound of states, for `trained` */
void rx_build_train_inputs(rx_builder *b);
/* Full fine-tuning: whether weights are states, and the state of a tensor. */
bool rx_learns_all(const rx_builder *b);
rlx_value rx_build_learned(rx_builder *b, const rx_layer *l, rx_role role);
rlx_value rx_build_trained(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x,
                           rlx_value y);
/* Loss of the last layer's rows, or of an encoder's hidden states. */
void rx_build_loss(rx_builder *b, rlx_value x);
void rx_build_contrast(rx_builder *b, rlx_value hidden);
/* An encoder after its inputs: the hidden states [B, S, width]. */
rlx_value rx_build_encoder(rx_builder *b);

#endif
