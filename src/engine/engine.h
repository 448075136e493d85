/* SPDX-License-Identifier: MIT */
/* Internals of engines.
 *
 *   engine.c    creation, the thread, one step; statistics for rlx_engine_get_info
 *   request.c   submission; delivery of pieces; ends
 *   schedule.c  which rows the next step computes: admission, shares, preemption
 *   run.c       inputs of a step, the run, its results
 *   guess.c     tokens that are guessed and computed ahead
 *   draft.c     guesses of a draft model
 *   tokens.c    from a chosen token to pieces: grammar, ends, text
 *   pages.c     pages of the K/V cache
 *
 * The stepping thread owns the session, the pages, both lists of requests and all unmarked fields
 * of a request. rlx_engine.lock guards the marked fields, which other threads use too; it is never
 * held during a callback or a run. */
#ifndef RX_ENGINE_ENGINE_H
#define RX_ENGINE_ENGINE_H

#include <stdatomic.h>

#include "base/thread.h"
#include "engine/guess.h"
#include "engine/pages.h"
#include "model/model.h"
#include "model/output.h"
#include "rlx/engine.h"

/* A piece queued for rlx_request_next. */
typedef struct rx_piece {
    struct rx_piece *next;
    rlx_request_piece piece;    /* points past the end of this struct */
} rx_piece;

struct rlx_request {
    rlx_engine *e;
    uint64_t serial;            /* counts submissions */
    int64_t priority, max_tokens;
    int64_t deadline_ns;        /* -1: none */
    bool ignore_end, log_probs;
    size_t n_best;
    rlx_sampling_desc sampling;
    rx_sampler *sampler;        /* NULL: the graph samples */
    rx_sampler_state sampled;
    double presence, frequency;
    int32_t adapter;            /* number of its adapter; -1: none */
    float adapter_scale;
    rlx_token_bias *bias;
    size_t n_bias;
    rlx_request_fn *fn;
    void *user;
    rlx_grammar_state *grammar; /* NULL: none */
    uint32_t *mask;             /* what it allows next, of n_mask words or more */
    size_t n_mask;
    rx_text_output output;

    int32_t *tokens;            /* prompt, generated and forced ones */
    size_t n, cap_tokens;
    size_t limit;               /* tokens it may have */
    size_t n_prompt, n_given;   /* n_given: tokens whose pieces were delivered, including the prompt
                                 * */
    size_t computed;            /* how many of them are in the cache */
    rx_page_table table;
    size_t slot;                /* row of the page table, while it runs */
    size_t n_rows;              /* of the step that is planned */
    size_t n_guesses;           /* of them, guessed: tokens[n] and so on */
    size_t first_output;        /* its first row of the outputs that samples */
    double accept;              /* as rx_guess_share has it */
    size_t drafted;             /* the first tokens, which the draft model has computed */
    bool admitted;              /* at least once */

    atomic_bool cancelled;      /* by any thread */
    rlx_request *next;          /* of the inbox; marked, as all that follows */
    rx_cond news;
    int refs;                   /* the caller's and the engine's */
    bool dropped;               /* by the caller: no callbacks */
    bool in_call;
    rx_piece *first, *last;     /* the queue */
    rx_piece *taken;            /* the last one taken from it */
    rlx_request_result result;
    rlx_error error;            /* of a request that failed */
    int64_t submit_ns, begin_ns, first_ns, last_ns;
};

/* A row of a step whose logits are computed. */
typedef struct rx_output_row {
    rlx_request *r;
    size_t at;                  /* position of its token */
    bool samples;               /* the next token is not known */
    bool ranked;                /* its probabilities are computed too */
} rx_output_row;

/* Named dimensions of the graph. */
typedef enum rx_size { RX_ROWS, RX_OUTPUTS, RX_ADJUSTED, RX_MASKED, RX_RANKED, RX_ADAPTED,
    RX_ADAPTED_OUTPUTS, RX_N_SIZES } rx_size;

/* A graph that computes steps: without adapters, or with. Both write the same pages. */
typedef struct rx_stepper {
    rlx_session *session;
    rlx_session *front;         /* the first layers, where those are on the CPU */
    size_t n_sizes;             /* dimensions that it has, the first ones */
    size_t size[RX_N_SIZES];    /* as bound, with padding; SIZE_MAX: not yet */
    unsigned known_sizes;       /* powers of two of rows that have run */
} rx_stepper;

/* Rows that have an adapter; of all rows, or of the outputs. */
typedef struct rx_adapted_rows {
    int32_t *rows, *ids;
    float *scale;
} rx_adapted_rows;

/* Inputs of a step, [rows] or [outputs, ..]. */
typedef struct rx_step_inputs {
    int32_t *tokens, *positions, *places, *sequence, *lengths, *pages;
    int32_t *outputs, *adjust, *masked, *bits, *ranked, *targets;
    float *factor, *add, *sampling;
    int64_t *seed;
    rx_adapted_rows adapted[2];
    size_t n[RX_N_SIZES];       /* used */
} rx_step_inputs;

struct rlx_engine {
    rlx_model *model;
    rx_stepper plain, adapted;  /* adapted: only where there are adapters */
    rx_stepper draft;           /* of the draft model; its session is NULL without */
    rx_stepper *now;            /* of the run */
    rx_lora lora;
    rlx_buffer **pools;         /* the states, where both use them */
    size_t n_pools;
    rx_build_desc build;
    size_t sequences, vocabulary, words; /* words of a mask */
    size_t max_rows, limit;     /* limit: tokens of a sequence */
    double step_seconds;
    size_t max_queue;
    bool shares, has_thread;
    rx_arena arena;

    rx_pages *pages;
    rlx_request **waiting, **running; /* by priority, then serial */
    size_t n_waiting, cap_waiting, n_running;
    size_t *slots, n_slots;     /* that are free */

    rx_step_inputs in;
    rx_output_row *row;         /* [outputs] */
    float *hidden;              /* [rows, width], what the front gave; NULL: there is none */
    bool active;                /* a run was submitted */
    bool in_front;              /* of the front */
    uint64_t ticket;
    int64_t run_ns;
    int32_t *results, *best_ids;
    float *chosen, *lse, *best;
    uint32_t *seen;             /* by token: its entry + 1, 0 between uses */
    size_t max_guesses;         /* of a request; 0: none */
    bool always_guesses;        /* also where it is a loss */
    double pass_seconds;        /* of a guess of the draft model; 0: unknown, or there is none */
    uint64_t draft_runs;
    double decode_steps[16];    /* seconds of a step without prompts of 2^i rows; 0: unknown */
    double decode_seconds, row_seconds; /* of a step without prompts; of a prompt row. 0: unknown */
    size_t n_decoding, n_prompt_rows;   /* of the step */

    rx_thread thread;
    rx_mutex step_lock;         /* without a thread: one step at a time */
    rx_mutex lock;
    rx_cond work;               /* marked, as all that follows */
    bool stop;
    int refs;                   /* the caller's and one for each request */
    rlx_request *inbox, **inbox_end;
    size_t n_queued;            /* in inbox and waiting */
    uint64_t serial;
    rlx_engine_info info;
};

/* ---- engine.c -------------------------------------------------------------------------------- */

/* Nothing is bound yet. */
void rx_stepper_init(rx_stepper *s, bool adapts);
/* One step; see rlx_engine_step. The caller may step. */
rlx_status rx_engine_step(rlx_engine *e, int64_t timeout_ms, bool *busy, rlx_error *err);
/* Drops a reference, under the lock, which is released. */
void rx_engine_unref(rlx_engine *e);

/* ---- request.c ------------------------------------------------------------------------------- */

/* To the callback or the queue. */
rlx_status rx_request_give(rlx_request *r, const rlx_request_piece *p, rlx_error *err);
/* Notifies the receiver of the end and drops the engine's reference. The request has no pages, slot
 * or list entry any more. */
void rx_request_end(rlx_request *r, rlx_status st, rlx_finish finish, const rlx_error *why);

/* ---- schedule.c ------------------------------------------------------------------------------ */

/* Takes new requests, ends cancelled and expired ones, admits others, and plans the next step:
 * n_rows of the running ones. False: there is nothing to compute. */
bool rx_engine_plan(rlx_engine *e);
/* Ends a request of the running ones. */
void rx_end_running(rlx_engine *e, rlx_request *r, rlx_status st, rlx_finish finish,
                    const rlx_error *why);
/* Ends all requests: of the inbox, waiting, running. */
void rx_end_all(rlx_engine *e, rlx_status st, rlx_finish finish, const rlx_error *why);

/* ---- guess.c --------------------------------------------------------------------------------- */

/* Adds guesses to the planned step; removes from n_rows those that were wrong. */
void rx_guess_plan(rlx_engine *e);
void rx_guess_settle(rlx_engine *e);

/* ---- draft.c --------------------------------------------------------------------------------- */

rlx_status rx_draft_create(rlx_engine *e, rlx_model *m, rlx_error *err);
/* Makes n_guesses guesses of each running request, or none of those whose tokens it has not all
 * seen; their pages are there. */
rlx_status rx_draft_guess(rlx_engine *e, rlx_error *err);

/* ---- run.c ----------------------------------------------------------------------------------- */

rlx_status rx_inputs_create(rlx_engine *e, rlx_error *err);
/* Inputs of e->now one by one: none; the pages of a request; a row, whose number is returned; what
 * follows from the rows; then the session gets them. */
void rx_inputs_clear(rlx_engine *e);
void rx_inputs_add_pages(rlx_engine *e, const rlx_request *r);
size_t rx_inputs_add_row(rlx_engine *e, const rlx_request *r, size_t at);
void rx_inputs_finish(rlx_engine *e);
rlx_status rx_inputs_give(rlx_engine *e, rlx_error *err);
/* Submits the planned step. */
rlx_status rx_run_start(rlx_engine *e, rlx_error *err);
/* Waits, and delivers the results to the requests; RLX_TIMEOUT: call again. */
rlx_status rx_run_finish(rlx_engine *e, int64_t timeout_ms, rlx_error *err);

/* ---- tokens.c -------------------------------------------------------------------------------- */

/* Log-probabilities of an output row. */
typedef struct rx_probs {
    float log_prob;
    rlx_token_prob best[RLX_MAX_BEST];
} rx_probs;

/* Initialises the grammar state, with the tokens it forces at the start. */
rlx_status rx_tokens_begin(rlx_request *r, rlx_grammar *g, rlx_error *err);
/* Appends a chosen token and those that a grammar forces after it. */
rlx_status rx_tokens_add(rlx_request *r, int32_t token, rlx_error *err);
/* Delivers the piece of token n_given; `probs` may be NULL. *ended: it was the last one. */
rlx_status rx_tokens_give(rlx_request *r, const rx_probs *probs, bool *ended, rlx_finish *finish,
                          rlx_error *err);
/* The held-back text at the end. */
rlx_status rx_tokens_flush(rlx_request *r, rlx_finish *finish, rlx_error *err);

#endif
