/* SPDX-License-Identifier: MIT */
/* What the server requires of a text generator: submit a job, take its pieces, cancel it. The
 * protocols know nothing else of generating models. */
#ifndef RX_SERVE_BACKEND_H
#define RX_SERVE_BACKEND_H

#include "base/error.h"
#include "rlx/engine.h"

typedef struct rx_backend_bias {
    int32_t token;
    float add;
} rx_backend_bias;

typedef struct rx_backend_prob {
    int32_t token;
    float log_prob;
} rx_backend_prob;

typedef struct rx_backend_piece {
    int32_t token;    /* -1: held-back text at the end */
    const char *text; /* whole characters, not terminated; valid until the next piece is taken */
    size_t length;
    float log_prob;   /* of the token, if requested */
    const rx_backend_prob *best;
    size_t n_best;
} rx_backend_piece;

typedef struct rx_job_desc {
    const int32_t *tokens;    /* the prompt; copied */
    size_t n_tokens;
    rlx_sampling_desc sampling; /* its texts are copied too */
    double presence_penalty, frequency_penalty;
    const rx_backend_bias *bias;
    size_t n_bias;
    int64_t max_tokens;       /* 0: until the model ends or the context is full */
    const char *const *stop;  /* copied */
    size_t n_stop;
    bool ignore_end;
    rlx_grammar *grammar;     /* needed until the job is destroyed */
    bool log_probs;
    int64_t n_best;
    int64_t deadline_ms;      /* from now; 0: none */
    const rlx_adapter *adapter; /* NULL: none */
    double adapter_scale;
} rx_job_desc;

typedef struct rx_job_result {
    rlx_finish finish;
    bool timed_out;           /* it ended at its deadline */
    size_t n_prompt, n_cached, n_generated, n_guessed, n_accepted;
    double wait_seconds, prompt_seconds, seconds;
} rx_job_result;

typedef struct rx_job rx_job;

typedef struct rx_gen_backend rx_gen_backend;
struct rx_gen_backend {
    bool has_log_probs, has_penalties, has_bias; /* options of jobs that are supported */
    /* RLX_TIMEOUT: the queue is full. RLX_INVALID: the prompt does not fit. */
    rlx_status (*submit)(rx_gen_backend *b, const rx_job_desc *d, rx_job **out, rlx_error *err);
    /* Waits up to timeout_ms: RLX_TIMEOUT means call again. *more is false when none is left.
     * Returns the status of a job that failed after its pieces. */
    rlx_status (*next)(rx_job *j, int64_t timeout_ms, rx_backend_piece *piece, bool *more,
                       rlx_error *err);
    void (*result)(rx_job *j, rx_job_result *out);
    /* Cancels the job if it is still running, and frees it. */
    void (*end)(rx_job *j);
    void (*load)(rx_gen_backend *b, int64_t *running, int64_t *waiting);
    uint64_t (*bytes)(rx_gen_backend *b); /* of its cache; NULL: that of the model's info */
    void (*destroy)(rx_gen_backend *b); /* all jobs have ended */
};

/* Jobs share the steps of an engine. RLX_UNSUPPORTED: the model has a memory that engines cannot
 * page. */
rlx_status rx_backend_create_engine(rlx_model *m, const rlx_engine_desc *d, rx_gen_backend **out,
                                    rlx_error *err);
/* One job after the other on a context of the model; `queue` may wait. */
rlx_status rx_backend_create_context(rlx_model *m, int64_t queue, rx_gen_backend **out,
                                     rlx_error *err);

#endif
