/* SPDX-License-Identifier: MIT */
/* Internal interface of the graph builders (arch*.c): the shared context and the parts of a model.
 * The first error stays in the graph, so none of these returns a status. */
#ifndef RX_MODEL_BUILD_H
#define RX_MODEL_BUILD_H

#include "model/facts.h"

/* Inputs that say which rows have which adapter. */
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
    rlx_value cos[2], sin[2];    /* of all layers; of those with a window, where they differ */
    rlx_value near;              /* which keys layers see whose window is a mask */
    rlx_value embed;             /* the table of tokens, also the output of tied models */
    rlx_value sequence, outputs; /* of rows (arch_rows.c) */
    rx_lora_rows adapted[2];     /* of rows; of outputs */
    bool at_outputs;             /* what is built now has the rows of the outputs */
    rlx_value *trained;          /* training: the states, with room for those of all products */
    size_t n_trained;
    rlx_value fresh;             /* recurrent models: bool [B], the run begins its sequence */
} rx_builder;

/* The tensor as a param: in the type of the file, or (vectors and small tables) in f32. RLX_NONE
 * when the model has none. Each tensor once. */
rlx_value rx_build_weight(rx_builder *b, const rx_layer *l, rx_role role);
rlx_value rx_build_vector(rx_builder *b, const rx_layer *l, rx_role role);
/* x . weight^T + bias? + residual?; the first without adapters. */
rlx_value rx_build_product(rx_builder *b, rlx_value x, rlx_value w, rlx_value bias,
                           rlx_value residual);
/* Row i of x [rows, k] . bank[ids[i]]^T of a bank [n, m, k]. */
rlx_value rx_build_grouped(rx_builder *b, rlx_value x, rlx_value bank, rlx_value ids);
rlx_value rx_build_linear(rx_builder *b, const rx_layer *l, rlx_value x, rx_role weight,
                          rlx_value bias, rlx_value residual);
rlx_value rx_build_rms_norm(rx_builder *b, rlx_value x, rlx_value gamma);
/* The norm that the architecture has; `bias` may be RX_N_ROLES. */
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
/* x [B, S, width] -> the same; residual? is added where that costs nothing more. */
rlx_value rx_build_ffn(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
rlx_value rx_build_experts(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
/* What attention does, of latents and by a recurrent state. */
rlx_value rx_build_mla(rx_builder *b, const rx_layer *l, rlx_value x);
rlx_value rx_build_delta(rx_builder *b, const rx_layer *l, rlx_value x);
/* Of attention: x [B, S, heads, size] rotated by its positions; keys or values with those of the
 * cache (decoders); q [B, S, heads, size] with keys and values as rx_build_kept gives them. */
rlx_value rx_build_rotated(rx_builder *b, const rx_layer *l, rlx_value x);
rlx_value rx_build_kept(rx_builder *b, const rx_layer *l, bool is_key, rlx_value x);
rlx_value rx_build_attend(rx_builder *b, const rx_layer *l, rlx_value q, rlx_value k, rlx_value v);
/* act(gate) * up */
rlx_value rx_build_gated(rx_builder *b, rlx_value gate, rlx_value up);
/* A state with a slot for each sequence, the first axis of `shape`; writing it. */
typedef struct rx_memory {
    rlx_value state, now; /* the state, none in training, where each run begins all of its texts;
                           * what it is for the sequences of this run: [B, ..] */
} rx_memory;
rx_memory rx_build_recalled(rx_builder *b, const rx_layer *l, const char *what,
                            const rlx_shape *shape);
void rx_build_remembered(rx_builder *b, const rx_memory *m, rlx_value update);
/* A convolution over the last inputs of each channel, x [B, S, channels], w [channels, k]; y: a
 * bias or RLX_NONE. */
rlx_value rx_build_conv(rx_builder *b, rlx_value x, rlx_value w, rlx_value y, const rx_layer *l);
rlx_value rx_build_mamba(rx_builder *b, const rx_layer *l, rlx_value x, rlx_value residual);
/* Makes the params of the rotary embedding. */
void rx_build_rope_tables(rx_builder *b);
/* Data of such a param; RLX_NOT_FOUND when `name` is none of them. */
rlx_status rx_rope_table(const rx_facts *f, const rx_build_desc *d, const char *name, float **data,
                         size_t *bytes, rlx_error *err);
/* x [.., width] -> logits [.., vocabulary] */
rlx_value rx_build_logits(rx_builder *b, rlx_value x);
/* Rows of many sequences: dimensions and inputs; attention over the pool, q [N, 1, heads, size];
 * [N, 1, n] -> the rows that get logits [M, 1, n]; what comes after the logits, of x [M, 1,
 * width]. */
void rx_build_row_inputs(rx_builder *b);
rlx_value rx_build_row_attention(rx_builder *b, rlx_value q, rlx_value k, rlx_value v,
                                 rlx_value sinks, const rlx_attention_desc *d);
rlx_value rx_build_output_rows(rx_builder *b, rlx_value x);
void rx_build_row_heads(rx_builder *b, rlx_value x);
/* Adapters: their inputs; y = x . weight^T with what they add to it. */
void rx_build_lora_inputs(rx_builder *b);
rlx_value rx_build_adapted(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x,
                           rlx_value y);
/* Training: inputs; y with what the adapter that is trained adds to it; loss and optimiser. */
size_t rx_most_trained(const rx_facts *f); /* states, for the room in `trained` */
void rx_build_train_inputs(rx_builder *b);
/* Whether weights are states, and the state that a tensor of the file is. */
bool rx_learns_all(const rx_builder *b);
rlx_value rx_build_learned(rx_builder *b, const rx_layer *l, rx_role role);
rlx_value rx_build_trained(rx_builder *b, const rx_layer *l, rx_role role, rlx_value x,
                           rlx_value y);
/* Of the last layer's rows, or of an encoder's hidden states. */
void rx_build_loss(rx_builder *b, rlx_value x);
void rx_build_contrast(rx_builder *b, rlx_value hidden);
/* An encoder after its inputs: the hidden states [B, S, width]. */
rlx_value rx_build_encoder(rx_builder *b);

#endif
