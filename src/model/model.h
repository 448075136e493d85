/* SPDX-License-Identifier: MIT */
/* Inside of models and contexts.
 *
 *   load.c          paths and settings of a model, weights to the device
 *   model.c         open, close, facts; lends sessions to contexts
 *   split.c         layers divided between the device and the CPU
 *   context.c       sequences of tokens: set, append, cut, sampling, logits
 *   context_step.c  the runs of a step: prompts in chunks, then all sequences together
 *   context_file.c  save and restore of a sequence
 *   generate.c      from a prompt to pieces of text
 *   output.c        text of tokens, stop strings
 *   draw.c          drawing a token on the host
 *   sampler.c       by rules that only the host has
 *   constrain.c     tokens under a grammar
 *   beam.c          beam search over the sequences of a context
 *   chat.c          conversations
 *   embed.c         vectors of texts
 *   rerank.c        scores of documents for a query
 *   imatrix.c       importance matrices
 *   convert.c       safetensors to GGUF (convert.h)
 *   score.c         log-probabilities of tokens */
#ifndef RX_MODEL_MODEL_H
#define RX_MODEL_MODEL_H

#include <stdatomic.h>

#include "base/error.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"
#include "model/arch.h"
#include "model/sampler.h"

struct rx_json;

/* The sessions of a model's graph. */
typedef struct rx_parts {
    rlx_session *front;   /* leading layers on the CPU; NULL: none */
    rlx_session *session;
} rx_parts;

struct rlx_model {
    rlx_file *file;
    char *path;               /* path for messages; "memory" */
    rlx_tokenizer *tokenizer; /* NULL: the model has none */
    rx_facts *facts;
    rx_model_facts known;
    rx_build_desc build;      /* of the session */
    rlx_policy policy;
    rlx_pooling pooling;      /* of embeddings: never RLX_POOLING_DEFAULT */
    int64_t max_text;         /* tokens of a text to be embedded */
    int64_t parameters;
    rlx_device *device;
    rlx_session *session;     /* the compiled graph with the weights */
    bool is_prepared;         /* rx_model_divide has compiled the session's kernels */
    int64_t host_layers;      /* leading layers on the CPU */
    rlx_device *host;         /* the CPU, where it has layers */
    rlx_session *front;       /* of those layers; `session` takes their result */
    bool weights_in_file;     /* the device, or the CPU beside it, uses the mapped file */

    rx_mutex lock;            /* guards what follows */
    bool session_lent;        /* a context uses the session itself; others use clones */
    rx_parts scorer;          /* of rlx_score, made when first asked for */
    rlx_session *embedder;    /* of rlx_embed with a decoder, as well */
    uint64_t fingerprint;     /* 0: not yet computed */
    rlx_vocabulary *vocabulary; /* of grammars, made when first asked for */
    rx_mutex run_lock;        /* rlx_score and rlx_embed: one run at a time; guards what follows */
    bool has_embedded;
};

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Fills file, path, tokenizer, facts, pooling and max_text. `data` NULL: reads `path`. */
rlx_status rx_model_read(rlx_model *m, const char *path, rx_bytes data, const rlx_model_desc *d,
                         rlx_error *err);
/* folder/name; freed with rx_free. */
rlx_status rx_join_path(const char *folder, size_t n, const char *name, char **out,
                        rlx_error *err);
bool rx_is_folder(const char *path);
/* Parses a JSON file next to the weights; *out is NULL when there is none. The strings live in the
 * arena. */
rlx_status rx_json_beside(const char *weights, const char *name, rx_arena *arena,
                          const struct rx_json **out, rlx_error *err);
/* Sets all params of a session that are not yet set. */
rlx_status rx_model_set_weights(rlx_model *m, rlx_session *s, const rx_build_desc *build,
                                const rlx_model_desc *desc, rlx_error *err);
/* The same for the session of the model just opened; its kernels are compiled meanwhile. */
rlx_status rx_model_upload(rlx_model *m, const rlx_model_desc *desc, rlx_error *err);
/* Where the device uses packed copies of the weights, drops the file's pages that were only read to
 * make them; later reads fault them in again. */
void rx_model_release_pages(rlx_model *m);

/* ---- split.c --------------------------------------------------------------------------------- */

typedef struct rx_bindings { /* of buffers */
    const rlx_binding *list;
    size_t n;
} rx_bindings;
rlx_status rx_model_compile(rlx_model *m, rlx_device *device, const rx_build_desc *build,
                            const rx_bindings *buffers, rlx_session *weights_of, rlx_session **out,
                            rlx_error *err);
/* rx_model_divide decides which layers the device gets and compiles them as m->session, without
 * weights; it may fall back to the CPU for all. rx_model_make_front compiles the rest, with
 * weights, as m->front. */
rlx_status rx_model_divide(rlx_model *m, const rlx_model_desc *d, rlx_error *err);
rlx_status rx_model_make_front(rlx_model *m, rlx_error *err);
/* Binds a prompt chunk of one sequence, or one token of each sequence. */
rlx_status rx_model_bind(rlx_session *s, const rx_build_desc *b, bool prompt, rlx_error *err);
/* The part of a graph for the device. Bytes of all tensors. */
rx_build_desc rx_model_back(const rlx_model *m, const rx_build_desc *build);
uint64_t rx_model_file_bytes(const rlx_model *m);
/* The device's session of another graph of the model, with weights and these buffers (NULL: none);
 * sessions of both parts. */
rlx_status rx_model_make_session(rlx_model *m, const rx_build_desc *build,
                                 const rx_bindings *buffers, rlx_session **out, rlx_error *err);
rlx_status rx_model_make_parts(rlx_model *m, const rx_build_desc *build, rx_parts *out,
                               rlx_error *err);
void rx_parts_destroy(rx_parts *p);
/* RLX_UNSUPPORTED for a model split between device and CPU. */
rlx_status rx_model_need_whole(const rlx_model *m, const char *what, rlx_error *err);
/* Submits a run of the first layers; then reads their result [rows, width]. */
rlx_status rx_front_submit(rlx_session *front, const rlx_const_tensor *in, size_t n,
                           uint64_t *ticket, rlx_error *err);
rlx_status rx_front_read(const rlx_model *m, rlx_session *front, size_t rows, float *out,
                         rlx_error *err);

/* ---- model.c --------------------------------------------------------------------------------- */

/* Sessions for a context: the model's own, or clones; rx_model_return takes them back. */
rlx_status rx_model_lend(rlx_model *m, rx_parts *out, rlx_error *err);
void rx_model_return(rlx_model *m, rx_parts *p);
/* The vocabulary for grammars, owned by the model. RLX_INVALID: it has no tokenizer. */
rlx_status rx_model_vocabulary(rlx_model *m, const rlx_vocabulary **out, rlx_error *err);
/* Fingerprint of the model: hash of names, shapes and the first bytes of each tensor. */
uint64_t rx_model_fingerprint(rlx_model *m);

/* ---- context.c ------------------------------------------------------------------------------- */

typedef struct rx_sequence {
    int32_t *tokens;  /* [context] */
    size_t n;         /* tokens held */
    size_t computed;  /* leading tokens that are in the cache */
    int32_t sampled;  /* by the current step, not yet appended; -1: none */
    bool in_step;
    bool has_logits;  /* it took part in the last step */
    size_t row;       /* row of its logits in the last run, or RX_ROW_* */
    size_t sampling;  /* index in rlx_context.samplings */
    rx_sampler_state sampler;
} rx_sequence;

/* Sampling parameters, of the context or of one generation. */
typedef struct rx_sampling {
    rlx_sampling_desc options;
    rx_sampler *sampler; /* NULL: the graph samples */
    uint64_t n_steps;    /* since it was set; selects random numbers */
    float penalty, values[4]; /* inputs of the graph */
} rx_sampling;

#define RX_ROW_KEPT SIZE_MAX       /* they are in kept_logits */
#define RX_ROW_LOST (SIZE_MAX - 1) /* overwritten by a speculative run: recomputed on demand */

/* A run of the session: `n_tokens` of one sequence after `padding` rows, or one token of
 * `n_members`. */
typedef struct rx_context_run {
    bool active; /* submitted and not yet waited for */
    bool in_front; /* the CPU layers are running */
    bool samples;
    const rx_sampling *sampling; /* of all members */
    size_t n_members, n_tokens, padding;
    uint64_t ticket;
} rx_context_run;

/* The speculative next run: submitted before the host knows the sampled token, which the device
 * feeds from the output of this run to the input of the next. Dropping it needs no rollback. */
typedef struct rx_ahead_run {
    bool active;
    size_t sequence, at; /* position of that token */
    uint64_t step;       /* n_steps of its sampling before its step */
    uint64_t ticket;
} rx_ahead_run;

#define RX_MAX_RUN_INPUTS 9

struct rlx_context {
    rlx_model *model;
    rlx_session *session;
    rlx_session *front;        /* as in rx_parts */
    float *hidden;             /* [rows, width], result of the front */
    size_t n_sequences, context, prompt_chunk, vocabulary;
    rx_sequence *sequences;
    rx_sampling *samplings;    /* [1 + sequences]: of the context, then of the generation of each
                                * sequence */

    bool stepping;             /* a step is in progress */
    size_t only;               /* of that step; as in rx_context_step */
    unsigned released;         /* sizes of runs after which pages of the file were dropped: bit i
                                * for 2^i rows and more */
    size_t unreleased;         /* tokens computed since then */
    rx_context_run run;
    rx_ahead_run ahead;
    size_t n_steady;           /* runs of one token since dimensions were bound */
    unsigned misses;           /* runs whose token was overwritten by a speculative run */
    size_t bound_batch, bound_seq; /* bound in the session; 0: not yet */
    size_t bound_recent;       /* 0 or RX_RECENT; SIZE_MAX: not yet */
    size_t recent_given;       /* rows of `recent` that the session has, without positions; 0:
                                * none */
    const rx_sampling *given;  /* currently set in the session, or NULL */
    size_t *members;           /* [sequences] of the run */
    int32_t *tokens, *positions, *places; /* [max(prompt_chunk, sequences)] */
    int32_t *lengths, *slots, *results;   /* [sequences] */
    int32_t *recent;           /* [sequences, RX_RECENT] */
    int64_t seed;
    float *kept_logits;        /* [sequences, vocabulary], made when first needed */
    rx_arena arena;
    atomic_bool cancelled;
    rx_lora lora;              /* adapters in the session's graph; n 0: none */
};

/* Sets the sampling of sequence `seq`, or of all with SIZE_MAX; NULL: greedy. */
rlx_status rx_context_set_sampling(rlx_context *c, size_t seq, const rlx_sampling_desc *s,
                                   rlx_error *err);
/* One step of one sequence, or of all with SIZE_MAX; as rlx_context_step. goes_on: hint that the
 * same step will follow, unless its token ends the generation. */
rlx_status rx_context_step(rlx_context *c, size_t only, bool goes_on, int64_t timeout_ms,
                           int32_t *tokens, rlx_error *err);
/* Forgets which inputs the session has, after a failure or a change of session. */
void rx_context_distrust_session(rlx_context *c);
/* Waits for the run in flight and ends the step; called before tokens change. */
rlx_status rx_context_settle(rlx_context *c, rlx_error *err);
/* Recomputes the last token of a sequence for its logits; between steps only. */
rlx_status rx_context_compute_again(rlx_context *c, size_t seq, rlx_error *err);
/* Fingerprint of the model with the adapters. */
uint64_t rx_context_fingerprint(const rlx_context *c);
/* Saves the logits of all members outside of the run in kept_logits. */
rlx_status rx_context_keep_logits(rlx_context *c, rlx_error *err);
rlx_status rx_check_sequence(const rlx_context *c, size_t seq, rlx_error *err);

/* Milliseconds until `deadline_ns`, rounded up, at least 0; deadline -1: none (-1). */
int64_t rx_ms_left(int64_t deadline_ns);

/* ---- context_file.c -------------------------------------------------------------------------- */

/* rlx_context_save and _restore with a note, bytes of the caller. */
rlx_status rx_context_save(rlx_context *c, size_t seq, rx_bytes note, const char *path,
                           rlx_error *err);
/* Called before the sequence changes; a failure leaves it as it was. */
typedef rlx_status rx_note_fn(void *user, rx_bytes note, rlx_error *err);
rlx_status rx_context_restore(rlx_context *c, size_t seq, rx_note_fn *fn, void *user,
                              const char *path, rlx_error *err);

/* ---- generate.c ------------------------------------------------------------------------------ */

/* Encodes a text that will be continued; freed with rx_free. special: parses control tokens in the
 * text. */
rlx_status rx_encode_prompt(const rlx_tokenizer *t, const char *text, bool special, int32_t **ids,
                            size_t *n, rlx_error *err);

/* ---- embed.c --------------------------------------------------------------------------------- */

/* rlx_embed for callers that cannot block (web/bridge). No other run of the model in between.
 * `texts` is used by begin only, `out` until the end. */
typedef struct rx_embedding rx_embedding;
rlx_status rx_embedding_begin(rlx_model *m, const char *const *texts, size_t n, float *out,
                              rx_embedding **result, rlx_error *err);
/* Runs a batch; RLX_TIMEOUT: still running, call again. *more: texts remain. */
rlx_status rx_embedding_next(rx_embedding *e, int64_t timeout_ms, bool *more, rlx_error *err);
void rx_embedding_end(rx_embedding *e);

/* Texts of max_text tokens that an encoder, or a decoder as one, takes in a run. */
int64_t rx_embed_texts(const rlx_model *m);
/* Tokens for rx_pool_tokens, of which those from `second` on belong to the second of two texts. */
typedef struct rx_pooled {
    int32_t *ids;
    size_t n, second;
} rx_pooled;
/* One vector [width] of each list, not scaled, to out. */
rlx_status rx_pool_tokens(rlx_model *m, const rx_pooled *lists, size_t n, rlx_pooling pooling,
                          float *out, rlx_error *err);
/* RLX_INVALID: the model has no tokenizer, or layers on the CPU beside a device. */
rlx_status rx_check_embed(const rlx_model *m, rlx_error *err);

/* ---- context.c: states ----------------------------------------------------------------------- */

/* Per-sequence layout of a state: one row a position, or one row a sequence. */
typedef struct rx_state_part {
    const char *name;
    rlx_session *session; /* that owns it */
    size_t row_bytes;   /* of a position, or of a slot */
    bool by_place;      /* rows are slot * context + position; else rows are slots */
} rx_state_part;
bool rx_context_state(rlx_context *c, size_t i, rx_state_part *out);
/* Zeroes the recurrent state of a sequence. */
rlx_status rx_context_forget(rlx_context *c, size_t seq, rlx_error *err);

#endif
