/* SPDX-License-Identifier: MIT */
/* Many sequences at once: requests of any number of threads share the steps of one model.
 *
 *     rlx_engine *e;
 *     rlx_engine_create(model, NULL, &e, &err);
 *     rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = "Once upon a time",
 *                           .max_tokens = 64};
 *     rlx_request *r;
 *     rlx_engine_submit(e, &d, &r, &err);
 *     bool more = true;
 *     for (rlx_request_piece p; rlx_request_next(r, -1, &p, &more, &err) == RLX_OK && more;)
 *         fwrite(p.text, 1, p.length, stdout);
 *     rlx_request_destroy(r);
 *
 * A step computes one token of every sequence that generates and parts of the prompts of others, so
 * that nobody waits for a long prompt. Keys and values are in pages of one pool: a sequence takes
 * them as it grows, and prompts that begin with the same tokens share them. When the pool is full
 * the youngest request of the lowest priority gives its pages back and is computed again later;
 * nothing of what it has said changes.
 *
 * What a request generates does not depend on the others: token i of it is drawn with numbers made
 * from its own seed and i. Under RLX_POLICY_EXACT its log-probabilities are also the same bits,
 * alone or with others (docs/engine.md). */
#ifndef RLX_ENGINE_H
#define RLX_ENGINE_H

#include "model.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Engines --------------------------------------------------------------------------------- */

/* Thread-safe, as are its requests. */
typedef struct rlx_engine rlx_engine;

/* Zero means the default in each field. */
typedef struct rlx_engine_desc {
    size_t struct_size;
    int64_t sequences;    /* that run at once; others wait. Default 32, at most 512 */
    int64_t context;      /* tokens of a sequence with its prompt; default that of the model */
    int64_t page;         /* tokens of a page; default 32, at most 1024 */
    uint64_t cache_bytes; /* of the pool. Default: room for `sequences` whole contexts, but at most
                           * 1 GiB and at least one context */
    int64_t rows;         /* tokens computed in one step at most: a power of two up to 4096, at
                           * least `sequences`; default 512 */
    double step_ms;       /* how long a step may take while requests generate, in milliseconds: as
                           * much of the prompts is computed in it as fits. Default 50 */
    int64_t queue;        /* requests that may wait; default 4096 */
    bool no_sharing;      /* prompts share no pages */
    bool no_thread;       /* no thread of its own: the program calls rlx_engine_step */
    const rlx_adapter *const *adapters; /* that requests may use; open as long as the engine. Steps
                           * in which no request has one take the same time as without */
    size_t n_adapters;
    int64_t guesses;      /* tokens of a request that a step may guess from what its text repeats,
                           * at most 15, and compute beside its next one, while that makes the
                           * requests faster together. What they generate stays the same. 0: none;
                           * negative: so many, also where it is a loss, for measuring */
    rlx_model *draft;     /* a smaller model with the same vocabulary that makes the guesses, 4 by
                           * default, instead; open as long as the engine, which takes memory on its
                           * device for a cache of as many tokens. rlx_engine_step waits
                           * for its guesses, however short its timeout. NULL: none */
} rlx_engine_desc;

/* An engine on a model, which must be a decoder without recurrent state (RLX_UNSUPPORTED else) and
 * be closed after it. The type of the cache and the policy are the model's. Starts a thread, unless
 * there are none or `no_thread`. On success the caller owns *out; on failure *out is NULL. */
RLX_API rlx_status rlx_engine_create(rlx_model *m, const rlx_engine_desc *desc, rlx_engine **out,
                                     rlx_error *err);
/* Cancels what has not ended, ends the thread and frees the engine. Its requests stay valid until
 * they are destroyed, ended with RLX_FINISH_CALLER. Not from a callback. NULL is fine. */
RLX_API void rlx_engine_destroy(rlx_engine *e);

/* One step, for programs without threads. Waits up to `timeout_ms` (negative: without limit) for
 * the device: RLX_TIMEOUT means call again. *busy (may be NULL) is false when no request is left
 * to be computed. RLX_INVALID when the engine has a thread. */
RLX_API rlx_status rlx_engine_step(rlx_engine *e, int64_t timeout_ms, bool *busy, rlx_error *err);

typedef struct rlx_engine_info {
    size_t struct_size;
    int64_t sequences, context, page, rows; /* what the defaults came to */
    int64_t pages;            /* of the pool */
    int64_t held_pages;       /* by sequences */
    int64_t kept_pages;       /* by none, but with the keys and values of tokens that may come
                               * again; free when they are needed */
    uint64_t cache_bytes;     /* of the pool, on the device */
    int64_t running, waiting; /* requests */
    uint64_t steps, preemptions;
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /* of all requests; cached: prompt
                               * tokens that were not computed, since they were in the pool */
    double step_seconds;      /* in all steps together */
    uint64_t guessed_tokens, accepted_tokens; /* accepted: those guesses that were right */
} rlx_engine_info;
RLX_API rlx_status rlx_engine_get_info(rlx_engine *e, rlx_engine_info *out, rlx_error *err);

/* The session that computes the steps, for looking inside: memory, steps and their times. Owned by
 * the engine; to be used between the calls of rlx_engine_step. NULL for an engine with a thread. */
RLX_API rlx_session *rlx_engine_session(rlx_engine *e);

/* ---- Requests -------------------------------------------------------------------------------- */

typedef struct rlx_request rlx_request;

/* A number added to the logit of a token; -INFINITY forbids it. */
typedef struct rlx_token_bias {
    int32_t token;
    float add;
} rlx_token_bias; /* frozen */

/* A token and its log-probability. */
typedef struct rlx_token_prob {
    int32_t token;
    float log_prob;
} rlx_token_prob; /* frozen */

/* A piece of output, as rlx_piece has it. Text and list are valid during the callback, or until the
 * next piece is taken. */
typedef struct rlx_request_piece {
    int32_t token;              /* -1: text that was held back, at the end */
    const char *text;           /* whole characters; may be empty, is not terminated */
    size_t length;
    float log_prob;             /* of the token, 0 when not asked for: by the logits of the model,
                                 * before penalties, bias, mask and temperature */
    const rlx_token_prob *best; /* the most likely tokens, best first */
    size_t n_best;              /* 0 when not asked for */
} rlx_request_piece; /* frozen */

/* Called by the thread that steps the engine, one call at a time; p is NULL when the request has
 * ended: no call follows. A non-zero return ends the request. It may submit, cancel and destroy
 * requests, and must not wait for one. */
typedef int rlx_request_fn(void *user, rlx_request *r, const rlx_request_piece *p);

#define RLX_MAX_BEST 20
#define RLX_MAX_BIAS 300

typedef struct rlx_request_desc {
    size_t struct_size;
    const char *prompt;          /* text; special tokens in it are special unless plain */
    const int32_t *tokens;       /* or tokens, when prompt is NULL */
    size_t n_tokens;
    const rlx_message *messages; /* or a conversation, when both are NULL: rlx_chat_format */
    size_t n_messages;
    bool plain;
    const rlx_sampling_desc *sampling; /* NULL: greedy */
    double presence_penalty;     /* taken from the logits of tokens that were generated, */
    double frequency_penalty;    /* and this for each time; -100 to 100. Both and the repeat
                                  * penalty together look at 1,024 different tokens, the latest */
    const rlx_token_bias *bias;  /* up to RLX_MAX_BIAS */
    size_t n_bias;
    int64_t max_tokens;          /* 0: until the model ends or the context is full */
    const char *const *stop;     /* texts that end the generation; not part of the output */
    size_t n_stop;
    bool ignore_end;             /* go on after an end token */
    rlx_grammar *grammar;        /* the output is a text of it; needed until the request ends */
    bool log_probs;              /* pieces have the log-probability of their token */
    int64_t n_best;              /* and the n best ones; up to RLX_MAX_BEST */
    int64_t priority;            /* higher ones go first; default 0, may be negative */
    int64_t deadline_ms;         /* from now; then the request ends with RLX_FINISH_DEADLINE. 0:
                                  * none */
    rlx_request_fn *fn;          /* NULL: pieces wait for rlx_request_next */
    void *user;
    const rlx_adapter *adapter;  /* one of rlx_engine_desc.adapters; NULL: none */
    double adapter_scale;        /* how much of it; 0: 1, as its file asks for */
} rlx_request_desc;

/* Hands a request to the engine and returns; what `d` points to may be freed then, except the
 * grammar. RLX_TIMEOUT: the queue is full, call again later. RLX_INVALID, with a sentence, for what
 * can never run: a prompt that the pool or the context cannot hold. On success the caller ends *out
 * with rlx_request_destroy; on failure *out is NULL and nothing is called. */
RLX_API rlx_status rlx_engine_submit(rlx_engine *e, const rlx_request_desc *d, rlx_request **out,
                                     rlx_error *err);

/* Waits for the next piece up to `timeout_ms` (negative: without limit; RLX_TIMEOUT: call again).
 * *more is false when there is none left: rlx_request_get_result says how it ended. Returns the
 * status of a request that failed after its pieces. One thread at a time. Without a thread of the
 * engine's it runs steps. RLX_INVALID for requests with a callback. */
RLX_API rlx_status rlx_request_next(rlx_request *r, int64_t timeout_ms, rlx_request_piece *piece,
                                    bool *more, rlx_error *err);
/* Waits until the request has ended; otherwise as rlx_request_next. Also with a callback. */
RLX_API rlx_status rlx_request_wait(rlx_request *r, int64_t timeout_ms, rlx_error *err);
/* Ends the request soon, with RLX_FINISH_CALLER; pieces that were made can still be taken. */
RLX_API void rlx_request_cancel(rlx_request *r);
/* Cancels it where it has not ended, and frees it. Its callback runs no more when this returns
 * (except the one that calls this). NULL is fine. */
RLX_API void rlx_request_destroy(rlx_request *r);

typedef struct rlx_request_result {
    size_t struct_size;
    bool ended;
    rlx_status status;     /* of a request that failed: not RLX_OK */
    rlx_finish finish;     /* how it ended, when the status is RLX_OK */
    size_t n_prompt, n_cached, n_generated; /* tokens; cached: of the prompt, found in the pool */
    size_t n_preempted;    /* how often its pages were taken */
    double wait_seconds;   /* from the submission to its first step */
    double prompt_seconds; /* from there to its first token */
    double seconds;        /* from there to its last token */
    size_t n_guessed, n_accepted; /* tokens that were guessed, and right */
} rlx_request_result;
/* How far it is, or how it ended. */
RLX_API rlx_status rlx_request_get_result(rlx_request *r, rlx_request_result *out, rlx_error *err);

#ifdef __cplusplus
}
#endif
#endif
