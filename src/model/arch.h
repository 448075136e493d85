/* SPDX-License-Identifier: MIT */
/* Architectures: the facts of a model file and the graph that computes it.
 *
 * A decoder's graph has
 *   inputs   tokens i32 [B, S], positions i32 [B, S] (from 0 in each sequence),
 *            places i32 [B * S] (row of the cache: slot * context + position),
 *            lengths i32 [B] (tokens of the sequence with those of this run),
 *            slots i32 [B, 1] (only when sequences > 1; the place of each sequence in the cache),
 *            recent i32 [B, R] (tokens to be penalised, again and again), penalty f32 [],
 *            sampling f32 [4] (temperature, top_k, top_p, min_p), seed i64 []
 *   outputs  token i32 [B], sampled from the last position; logits f32 [B, vocabulary], of the last
 *            position, before the penalty; with `scores` instead of both: scores f32 [B, S], the
 *            log-probability of input targets i32 [B, S]
 *   states   by layer: k.<i>, v.<i> [sequences * context, kv heads, head size], with a cache of
 *            q8_0 also k.scale.<i>, v.scale.<i>; of recurrent models conv.<i>, ssm.<i>
 *            [sequences, ..], which a run that starts at position 0 does not read. All have the
 *            slot in the outermost axis
 * B is the named dimension "batch" up to `sequences` (1 when that is 1), S the named dimension
 * "seq" up to `prompt_chunk`, R the named dimension "recent" up to RX_RECENT. Prompts run with
 * B = 1, or all sequences have as many tokens. Rows of padding may be in front, with the token,
 * position and place of the first one (not in recurrent models).
 *
 * With `page` > 0 the graph has rows of any mix of sequences instead of [B, S]: one token of some,
 * parts of the prompts of others. Sizes are rounded up, so that they recur: there is padding.
 *   inputs   tokens, positions i32 [N, 1]; places i32 [N] (row of the pool);
 *            sequence i32 [N] (row of pages), lengths i32 [N] (position + 1; 0: padding),
 *            pages i32 [sequences, ceil(context / page)]; outputs i32 [M] (rows that get logits);
 *            adjust i32 [M, A], factor, add f32 [M, A]: logits of these tokens become
 *            (x > 0 ? x / factor : x * factor) + add; a token may occur again with equal numbers;
 *            masked i32 [C] (rows of the outputs), bits i32 [C, ceil(vocabulary / 32)]: their
 *            tokens without a bit cannot be chosen; sampling f32 [M, 4] (temperature, top_k, top_p,
 *            min_p), seed i64 [M]; ranked, targets i32 [R] (rows of the outputs whose
 *            probabilities are asked for, of this token; -1: of the chosen one)
 *   outputs  logits f32 [M, vocabulary]; adjusted, the same after that; token i32 [M];
 *            chosen f32 [R] (logit of the target), lse f32 [R] (logarithm of the sum of
 *            exponentials), best f32 [R, K] and best_ids i32 [R, K], the largest logits
 *   states   k.<i>, v.<i> [pages * page, kv heads, head size], ..
 * With `lora` by row also
 *   inputs   adapted i32 [D] (rows), adapter i32 [D] (its number), adapter.scale f32 [D, 1];
 *            adapted.outputs, adapter.outputs i32 [E], adapter.scale.outputs f32 [E, 1], the same
 *            of rows of the outputs. A row may occur again with equal numbers
 * D and E are the named dimensions "adapted" and "adapted_outputs", up to `rows` and `outputs`.
 * N, M, A, C, R are the named dimensions "rows", "outputs" (up to `rows`, `outputs`), "adjust" (up
 * to RX_ADJUST), "masked" and "ranked" (up to `outputs`); K is RLX_MAX_BEST or the vocabulary.
 *
 * An encoder's graph has inputs tokens i32 [B, S], types i32 [B, S] (when the model has token
 * types), lengths i32 [B] (tokens that are no padding) and output hidden f32 [B, S, width].
 *
 * Params have the names of the file's tensors, except those that rx_arch_param makes: the tables
 * rope.cos, rope.sin, rope.local.cos, rope.local.sin, vectors <tensor>:f32, and with adapters
 * <tensor>.lora_a [rank, K] and <tensor>.lora_b [N, rank], by row [adapters, ..]. */
#ifndef RX_MODEL_ARCH_H
#define RX_MODEL_ARCH_H

#include "rlx/engine.h"
#include "rlx/file.h"
#include "rlx/train.h"

#define RX_RECENT 256
#define RX_ADJUST 1024

typedef struct rx_facts rx_facts;

/* Reads and checks the facts: sizes, tensors that must be there with their shapes. `config` is the
 * text of config.json for safetensors, else NULL. Freed with rx_facts_destroy. */
rlx_status rx_facts_read(const rlx_file *f, const char *config, size_t config_bytes,
                         rx_facts **out, rlx_error *err);
void rx_facts_destroy(rx_facts *facts);

typedef struct rx_model_facts { /* what the engine needs to know */
    const char *architecture, *name;
    bool is_decoder;
    int64_t layers, width, vocabulary, trained_context, embedding_width;
    bool has_types;        /* token types (encoders) */
    rlx_pooling pooling;   /* what the file says */
    bool recurrent;        /* recurrent states: a sequence cannot be truncated */
} rx_model_facts;
void rx_facts_get(const rx_facts *facts, rx_model_facts *out);

/* Adapters in a graph: in all rows all of them, with their scales, or in each row up to one. */
typedef struct rx_lora {
    const rlx_adapter *const *adapters;
    const double *scales;  /* NULL: 1 each */
    size_t n;
    bool by_row;
} rx_lora;
/* Sizes of the matrices that change a weight [n, k]; rank 0: none does. By row: the largest rank,
 * others are padded with zeros; else the sum. */
typedef struct rx_lora_sizes {
    int64_t n, k, rank;
} rx_lora_sizes;
rx_lora_sizes rx_lora_sizes_of(const rx_lora *l, const char *weight);

/* A graph that trains: each run is a step of the optimiser, or (`optimizer` NULL) gives the loss
 * only. Texts see no cache, and may end in padding. R is batch * texts, T the named dimension
 * "tokens" up to `tokens`; of recurrent models it is `tokens`.
 *   inputs   tokens i32 [R, T]
 *            decoders: positions i32 [R, T]; labels i32 [R, T] (-1: not counted)
 *            encoders: lengths i32 [R]; types i32 [R, T] (when the model has token types); labels
 *            i32 [batch] (the row among the second texts and further ones that belongs to the
 *            query; -1: not counted). Rows are the queries, their texts, then others
 *   outputs  loss f32, the mean over the labels that count
 *   states   of an adapter: <tensor>.lora_a [rank, K] and <tensor>.lora_b [N, rank] f32 of the
 *            products of attention, feed-forward and state spaces; `full`: all tensors of the file
 *            that the graph uses, by their names, in f32; those of the optimiser */
typedef struct rx_train_build {
    int64_t batch, tokens, rank;
    int64_t texts;      /* of an example of an encoder: 2 or 3; else 1 */
    double scale;       /* of what the adapter adds */
    double temperature; /* encoders */
    rlx_pooling pooling;
    bool full;
    const rlx_optimizer_desc *optimizer;
    uint64_t memory_budget; /* of the session */
} rx_train_build;

typedef struct rx_build_desc {
    int64_t sequences, context, prompt_chunk;
    rlx_dtype cache;       /* f16, f32, q8_0 */
    bool scores;
    bool embed;            /* of a decoder: texts without a cache, which may end in padding; inputs
                            * tokens and positions i32 [B, S], output hidden f32 [B, S, width]
                            * behind the last norm */
    bool importance;       /* with scores: also outputs <tensor>.in_sum2 and <tensor>.counts
                            * (arch_imatrix.c) */
    int64_t page;          /* > 0: rows of a page of the pool; the fields below are used then */
    int64_t pages;         /* of the pool */
    int64_t rows, outputs; /* of a run, at most */
    int64_t begin, end;    /* of a decoder: the layers that the graph has; end 0: up to the last.
                            * The layers before are elsewhere, and instead of tokens there is input
                            * hidden f32, what the last of them gave; those after are elsewhere,
                            * and the only output is hidden f32 [B, S, width] ([N, 1, width]) */
    const rx_lora *lora;   /* NULL: no adapters */
    const rx_train_build *train; /* NULL: no training */
} rx_build_desc;
/* The graph; the caller destroys it. */
rlx_status rx_arch_build(const rx_facts *facts, const rx_build_desc *d, rlx_graph **out,
                         rlx_error *err);
/* The data of param `name` of such a graph: in the file (*owned false), or computed here (*owned
 * true, freed with rx_free), such as rotary embedding tables. */
rlx_status rx_arch_param(const rx_facts *facts, const rx_build_desc *d, const char *name,
                         const void **data, size_t *bytes, bool *owned, rlx_error *err);

#endif
