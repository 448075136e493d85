/* SPDX-License-Identifier: MIT */
/* Models from files: text generation, chat and embeddings.
 *
 *     rlx_model *m;
 *     rlx_model_open("model.gguf", NULL, &m, &err);
 *     rlx_chat *c;
 *     rlx_chat_create(m, "You are terse.", &c, &err);
 *     rlx_chat_say(c, "Why is the sky blue?", NULL, on_piece, NULL, NULL, &err);
 *
 * A model holds the file, its tokenizer and the weights on a device. A context holds what a model
 * remembers: one or more sequences of tokens with their K/V cache, on the device. */
#ifndef RLX_MODEL_H
#define RLX_MODEL_H

#include "grammar.h"
#include "session.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Models ---------------------------------------------------------------------------------- */

/* An open model. Thread-safe: contexts of one model may be used by different threads. */
typedef struct rlx_model rlx_model;

/* Called from time to time during long work ("weights", done and total in bytes). A non-zero return
 * stops the work: RLX_CANCELLED. */
typedef int rlx_progress_fn(void *user, const char *what, uint64_t done, uint64_t total);

enum { RLX_GPU_LAYERS_NONE = -1 };

/* Zero means the default in each field. */
typedef struct rlx_model_desc {
    size_t struct_size;
    const char *device;      /* as in rlx_device_open */
    uint32_t threads;        /* of the CPU device */
    rlx_policy policy;       /* auto: fast for packed or half precision weights, else exact */
    int64_t context;         /* tokens a sequence can hold; default what the model was trained for,
                              * at most 4096 */
    int64_t sequences;       /* sequences of a context, default 1; of an encoder: texts in a run */
    int64_t prompt_chunk;    /* prompt tokens computed at once; default 512 */
    rlx_dtype cache;         /* of the K/V cache: f16 (default), f32, q8_0 */
    const char *tokenizer;   /* path of a tokenizer.json; default: in the file, or beside it */
    rlx_progress_fn *progress;
    void *progress_user;
    bool no_map;             /* read the file instead of mapping it, tensor by tensor: no more than
                              * one is in memory on its way to a GPU. On the CPU the weights are
                              * copied. Not for rlx_model_open_memory */
    int64_t gpu_layers;      /* of a decoder on a GPU: so many of its last layers, with the output,
                              * are there; those before stay on the CPU, whose weights are used in
                              * the mapped file. 0: as many as the memory of the GPU holds;
                              * RLX_GPU_LAYERS_NONE: none, which is the CPU device */
} rlx_model_desc;

/* Opens a GGUF file, or a safetensors file (or a folder that holds one) with its config.json and
 * tokenizer.json. On success the caller ends *out with rlx_model_close; on failure *out is NULL. */
RLX_API rlx_status rlx_model_open(const char *path, const rlx_model_desc *desc, rlx_model **out,
                                  rlx_error *err);
/* The same from memory that stays valid until the model is closed. */
RLX_API rlx_status rlx_model_open_memory(const void *data, size_t bytes, const rlx_model_desc *desc,
                                         rlx_model **out, rlx_error *err);
/* Contexts must be destroyed before. NULL is fine. */
RLX_API void rlx_model_close(rlx_model *m);

typedef struct rlx_model_info {
    size_t struct_size;
    const char *architecture, *name; /* owned by the model */
    bool generates, embeds;          /* a decoder, an encoder */
    int64_t parameters, layers, width, vocabulary;
    int64_t trained_context, context, sequences;
    int64_t embedding_width;         /* of rlx_embed */
    rlx_policy policy;               /* exact or fast: what auto came to */
    uint64_t weight_bytes, cache_bytes, work_bytes; /* on the device */
    int64_t host_layers;             /* the first layers, on the CPU beside a GPU; 0: none */
    uint64_t host_weight_bytes, host_cache_bytes;
} rlx_model_info;
RLX_API rlx_status rlx_model_get_info(const rlx_model *m, rlx_model_info *out, rlx_error *err);
/* The device it is on, open as long as the model. */
RLX_API rlx_device *rlx_model_device(const rlx_model *m);
/* Owned by the model; NULL when it has none. */
RLX_API const rlx_tokenizer *rlx_model_tokenizer(const rlx_model *m);

/* ---- Adapters -------------------------------------------------------------------------------- */

/* A LoRA adapter of a model: small matrices that change products, x w^T becomes
 * x w^T + scale (x a^T) b^T. Nothing is merged into the weights: contexts and requests of an engine
 * with different adapters, or none, share them. Thread-safe. */
typedef struct rlx_adapter rlx_adapter;

/* Opens a GGUF adapter, as llama.cpp writes them, or PEFT's adapter_model.safetensors with its
 * adapter_config.json (the file or the folder). RLX_INVALID for an adapter of another model,
 * RLX_UNSUPPORTED for one that changes what rlx cannot adapt: embeddings, experts, norms. On
 * success the caller ends *out with rlx_adapter_close; on failure *out is NULL. */
RLX_API rlx_status rlx_adapter_open(rlx_model *m, const char *path, rlx_adapter **out,
                                    rlx_error *err);
/* Before the model, and after the contexts and engines that were given it. NULL is fine. */
RLX_API void rlx_adapter_close(rlx_adapter *a);

typedef struct rlx_adapter_info {
    size_t struct_size;
    const char *path;    /* owned by the adapter */
    int64_t rank;        /* the largest */
    int64_t products;    /* that it changes */
    int64_t parameters;
    double scale;        /* that the file asks for: alpha over the rank */
} rlx_adapter_info;
RLX_API rlx_status rlx_adapter_get_info(const rlx_adapter *a, rlx_adapter_info *out,
                                        rlx_error *err);

/* An adapter and how much of it: 1 is what its file asks for. */
typedef struct rlx_adapter_use {
    const rlx_adapter *adapter;
    double scale;
} rlx_adapter_use; /* frozen */

/* ---- Contexts: the tokens of sequences and their cache ------------------------------------- */

/* One thread at a time, except rlx_context_cancel. */
typedef struct rlx_context rlx_context;

RLX_API rlx_status rlx_context_create(rlx_model *m, rlx_context **out, rlx_error *err);
RLX_API void rlx_context_destroy(rlx_context *c);
/* From now on the sum of these adapters is part of the model, in all sequences; n 0: none is. What
 * is in the cache is computed again. The adapters stay open as long as the context has them. */
RLX_API rlx_status rlx_context_set_adapters(rlx_context *c, const rlx_adapter_use *uses, size_t n,
                                            rlx_error *err);

typedef struct rlx_sampling_desc {
    size_t struct_size;
    double temperature;    /* 0: the most likely token (greedy) */
    int64_t top_k;         /* 0: all */
    double top_p, min_p;   /* 0: off */
    double repeat_penalty; /* divides the logits of recent tokens; 0 or 1: off */
    int64_t repeat_last;   /* how many tokens are recent; default 64, at most 256 */
    uint64_t seed;
    /* With any of those that follow the host draws the token, from logits that it reads after each
     * step. */
    double typical_p;      /* the tokens whose surprise is nearest to the mean and which together
                            * have this probability; 0 or 1: off */
    double xtc_probability; /* of leaving out all tokens of at least xtc_threshold but the least
                            * likely of them; 0: off */
    double xtc_threshold;  /* default 0.1; above 0.5 there is nothing to leave out */
    double dry_multiplier; /* takes dry_multiplier * dry_base ^ (n - dry_allowed_length) from the
                            * logit of a token that would repeat n tokens or more of the sequence
                            * and itself; 0: off */
    double dry_base;       /* default 1.75 */
    int64_t dry_allowed_length; /* default 2 */
    int64_t dry_last;      /* how many tokens are looked at; 0: all */
    const char *const *dry_breakers; /* no repetition goes past a token with one of these texts;
                            * NULL: newline, ':', '"' and '*'. Copied */
    size_t n_dry_breakers;
    int64_t mirostat;      /* 2: Mirostat 2.0 in place of top_k, top_p, min_p, typical_p and XTC;
                            * 0: off */
    double mirostat_tau;   /* surprise in bits to keep; default 5 */
    double mirostat_eta;   /* how fast it gets there; default 0.1 */
} rlx_sampling_desc;
/* For the steps to come, of all sequences. NULL: greedy. A generation has its own for its sequence,
 * which stays until this is called or the next one begins there. */
RLX_API rlx_status rlx_context_set_sampling(rlx_context *c, const rlx_sampling_desc *s,
                                            rlx_error *err);

/* Makes sequence `seq` hold just these tokens. What it has in common with them from the start is
 * kept; the rest, at least the last one, waits for the next step. n 0 empties it: it takes no part
 * in steps. */
RLX_API rlx_status rlx_context_set_tokens(rlx_context *c, size_t seq, const int32_t *tokens,
                                          size_t n, rlx_error *err);
/* Adds tokens after those it holds. RLX_INVALID when the context is too small for them. */
RLX_API rlx_status rlx_context_append(rlx_context *c, size_t seq, const int32_t *tokens, size_t n,
                                      rlx_error *err);
/* The tokens the sequence holds, owned by the context and valid until it changes. */
RLX_API const int32_t *rlx_context_tokens(const rlx_context *c, size_t seq, size_t *n);
/* Tokens whose keys and values are in the cache. */
RLX_API size_t rlx_context_computed(const rlx_context *c, size_t seq);

/* Computes the waiting tokens of every sequence that has some, samples the next token of each,
 * adds it to the sequence and writes it to tokens[seq]; -1 for sequences that had none waiting.
 * Waits up to `timeout_ms` (negative: without limit): RLX_TIMEOUT means call again with the same
 * arguments. RLX_INVALID when a sequence is full, or none has a token that waits. `tokens` has room
 * for all sequences of the context; it may be NULL. */
RLX_API rlx_status rlx_context_step(rlx_context *c, int64_t timeout_ms, int32_t *tokens,
                                    rlx_error *err);
/* Logits of the last step, `vocabulary` floats, before penalties and sampling. In a generation they
 * are computed again where its next run has taken their place. */
RLX_API rlx_status rlx_context_logits(rlx_context *c, size_t seq, float *out, size_t n,
                                      rlx_error *err);
/* Makes the step that runs or the next one return RLX_CANCELLED, once. From any thread. */
RLX_API void rlx_context_cancel(rlx_context *c);
/* Writes a sequence with its cache to a file and reads it back; the model and the type of the
 * cache must be the same, the context at least as large as the tokens. An older file stays until
 * the new one is whole; one of another kind (a model) is never replaced: RLX_INVALID. */
RLX_API rlx_status rlx_context_save(rlx_context *c, size_t seq, const char *path, rlx_error *err);
RLX_API rlx_status rlx_context_load(rlx_context *c, size_t seq, const char *path,
                                       rlx_error *err);
/* The session that computes it, for looking inside: memory, steps and their times; of a model with
 * layers on the CPU too, the part on the GPU. Owned by the context. A generation may have submitted
 * its next run already. */
RLX_API rlx_session *rlx_context_session(rlx_context *c);

/* ---- Generation ------------------------------------------------------------------------------ */

typedef struct rlx_generate_desc {
    size_t struct_size;
    const char *prompt;        /* text; special tokens in it are special unless plain */
    const int32_t *tokens;     /* or tokens, when prompt is NULL */
    size_t n_tokens;
    bool plain;
    size_t sequence;
    int64_t max_tokens;        /* 0: until the model ends or the context is full */
    const rlx_sampling_desc *sampling; /* NULL: greedy */
    const char *const *stop;   /* texts that end the generation; not part of the output */
    size_t n_stop;
    bool ignore_end;           /* go on after an end token */
    bool shift;                /* when the context is full, drop the older half of it and go on */
    bool prompt_only;          /* compute the prompt and generate nothing: a later generation that
                                * begins with it, and rlx_context_logits, find it computed */
    rlx_grammar *grammar;      /* the output is a text of it, or the begin of one where max_tokens
                                * or the context ends it; needed until the generation ends */
} rlx_generate_desc;

/* A piece of output. The text has whole characters only, may be empty, is not terminated by a zero
 * byte and is valid during the call or until the next piece. */
typedef struct rlx_piece {
    int32_t token; /* -1: text that was held back, at the end */
    const char *text;
    size_t length;
} rlx_piece; /* frozen */
/* A non-zero return ends the generation. */
typedef int rlx_piece_fn(void *user, const rlx_piece *p);

typedef enum rlx_finish {
    RLX_FINISH_END = 0, RLX_FINISH_STOP, RLX_FINISH_LENGTH, RLX_FINISH_CONTEXT, RLX_FINISH_CALLER,
    RLX_FINISH_DEADLINE /* of requests of an engine */
} rlx_finish;

typedef struct rlx_generate_result {
    size_t struct_size;
    rlx_finish finish;
    size_t n_prompt, n_reused, n_generated; /* tokens; reused: from the cache */
    double prompt_seconds, seconds;         /* to the first token; of the tokens after it */
} rlx_generate_result;

/* Generates from a prompt. `fn` and `result` may be NULL. The tokens stay in the sequence; other
 * sequences of the context are left alone. An end token is no piece and is not counted. */
RLX_API rlx_status rlx_generate(rlx_context *c, const rlx_generate_desc *d, rlx_piece_fn *fn,
                                void *user, rlx_generate_result *result, rlx_error *err);

/* The same piece by piece, for programs that cannot wait (a browser). */
typedef struct rlx_generation rlx_generation;
RLX_API rlx_status rlx_generation_create(rlx_context *c, const rlx_generate_desc *d,
                                        rlx_generation **out, rlx_error *err);
/* Writes the next piece; *more is false when there was none left. RLX_TIMEOUT: call again. */
RLX_API rlx_status rlx_generation_next(rlx_generation *n, int64_t timeout_ms, rlx_piece *piece,
                                       bool *more, rlx_error *err);
/* How far it is, or how it ended. */
RLX_API rlx_status rlx_generation_get_result(const rlx_generation *n, rlx_generate_result *result,
                                             rlx_error *err);
/* Frees it; NULL is fine. */
RLX_API void rlx_generation_destroy(rlx_generation *n);

/* Beam search: with as many continuations of the prompt as the context has sequences, in all of
 * which each step goes on with the likeliest tokens of all of them together. Ends when that many
 * have ended, at max_tokens, or when the context is full. */
typedef struct rlx_beam_desc {
    size_t struct_size;
    const int32_t *tokens; /* the prompt */
    size_t n_tokens;
    int64_t max_tokens;    /* 0: until the context is full */
    bool ignore_end;       /* end tokens are tokens like others */
} rlx_beam_desc;
/* The continuation with the largest mean log-probability, with its end token where it has one, goes
 * to out, which has room for `cap` tokens; *n is its length (also where that is more than cap) and
 * *mean (may be NULL) that mean. The sequences of the context hold other tokens afterwards. */
RLX_API rlx_status rlx_beam_search(rlx_context *c, const rlx_beam_desc *d, int32_t *out, size_t cap,
                                   size_t *n, double *mean, rlx_error *err);

/* Log-probability of tokens[i] given those before it, for i from 1; out[0] is 0. Any number of
 * tokens up to the context. */
RLX_API rlx_status rlx_score(rlx_model *m, const int32_t *tokens, size_t n, float *out,
                             rlx_error *err);

/* ---- Chat ------------------------------------------------------------------------------------ */

typedef struct rlx_message {
    const char *role, *content; /* "system", "user", "assistant", ... */
} rlx_message; /* frozen */

/* The messages in the form the model was trained on: by the chat template of the file, else one
 * known for the architecture, else ChatML. add_reply: ends where the assistant begins to speak.
 * *text is terminated by a zero byte and freed with rlx_free. */
RLX_API rlx_status rlx_chat_format(const rlx_model *m, const rlx_message *messages, size_t n,
                                   bool add_reply, char **text, rlx_error *err);

/* A conversation with a context of its own. */
typedef struct rlx_chat rlx_chat;
/* `system` may be NULL. */
RLX_API rlx_status rlx_chat_create(rlx_model *m, const char *system, rlx_chat **out,
                                   rlx_error *err);
RLX_API void rlx_chat_destroy(rlx_chat *c);
/* Adds what the user says and generates the answer, which is remembered. prompt, tokens and
 * sequence of `d` (may be NULL: greedy) are not used. */
RLX_API rlx_status rlx_chat_say(rlx_chat *c, const char *text, const rlx_generate_desc *d,
                                rlx_piece_fn *fn, void *user, rlx_generate_result *result,
                                rlx_error *err);
/* Forgets all but the system message. */
RLX_API rlx_status rlx_chat_reset(rlx_chat *c, rlx_error *err);
/* Forgets the last question and its answer; RLX_NOT_FOUND when there is none. */
RLX_API rlx_status rlx_chat_undo(rlx_chat *c, rlx_error *err);
RLX_API size_t rlx_chat_n_messages(const rlx_chat *c);
/* How many messages after the system's the model no longer sees because the context was full. */
RLX_API size_t rlx_chat_n_left_out(const rlx_chat *c);
/* Message `i`, owned by the chat; false when there is none. */
RLX_API bool rlx_chat_message(const rlx_chat *c, size_t i, rlx_message *out);
RLX_API rlx_context *rlx_chat_context(rlx_chat *c);
/* Writes the messages and the cache to a file, as rlx_context_save does, and reads them back, for
 * the same model. */
RLX_API rlx_status rlx_chat_save(rlx_chat *c, const char *path, rlx_error *err);
RLX_API rlx_status rlx_chat_load(rlx_chat *c, const char *path, rlx_error *err);

/* ---- Embeddings ------------------------------------------------------------------------------ */

typedef enum rlx_pooling {
    RLX_POOLING_DEFAULT = 0, RLX_POOLING_MEAN, RLX_POOLING_FIRST, RLX_POOLING_LAST
} rlx_pooling;
typedef struct rlx_embed_desc {
    size_t struct_size;
    rlx_pooling pooling; /* default: what the file says, else the mean, of decoders the last
                          * token */
    bool no_normalize;   /* default: vectors of length 1 */
} rlx_embed_desc;

/* One vector of `embedding_width` floats for each of n texts, to out [n, embedding_width]. Texts
 * longer than the model takes are cut; *n_cut (may be NULL) says how many were. */
RLX_API rlx_status rlx_embed(rlx_model *m, const char *const *texts, size_t n,
                             const rlx_embed_desc *d, float *out, size_t *n_cut, rlx_error *err);

typedef struct rlx_rerank_desc {
    size_t struct_size;
    const char *instruction; /* to a decoder: what the query is for; default: a web search */
} rlx_rerank_desc;

/* How well each of n documents answers a query, to scores [n]; larger is better. A cross-encoder
 * (an encoder with a classifier: bge-reranker, ms-marco-MiniLM) gives its logit, or the probability
 * of the second of two classes; a decoder (Qwen3-Reranker) the probability of the answer "yes";
 * models of embeddings the cosine of the vectors. What is longer than the model takes is cut;
 * *n_cut (may be NULL) says in how many pairs. `d` may be NULL. */
RLX_API rlx_status rlx_rerank(rlx_model *m, const char *query, const char *const *documents,
                              size_t n, const rlx_rerank_desc *d, double *scores, size_t *n_cut,
                              rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
