/* SPDX-License-Identifier: MIT */
/* The backend over rlx_engine: many texts share the steps of a model and common prompt prefixes. */
#include "base/mem.h"
#include "rlx/engine.h"
#include "serve/backend.h"

typedef struct engine_backend {
    rx_gen_backend base;
    rlx_engine *engine;
} engine_backend;

struct rx_job {
    rlx_request *request;
    rx_backend_prob best[RLX_MAX_BEST]; /* of the piece last taken */
};

static rlx_status submit(rx_gen_backend *b, const rx_job_desc *d, rx_job **out, rlx_error *err)
{
    rlx_token_bias bias[RLX_MAX_BIAS];
    const size_t n_bias = d->n_bias < RLX_MAX_BIAS ? d->n_bias : RLX_MAX_BIAS;
    for (size_t i = 0; i < n_bias; i++)
        bias[i] = (rlx_token_bias){d->bias[i].token, d->bias[i].add};
    const rlx_request_desc r = {RLX_INIT(rlx_request_desc), .tokens = d->tokens,
                                .n_tokens = d->n_tokens, .sampling = &d->sampling,
                                .presence_penalty = d->presence_penalty,
                                .frequency_penalty = d->frequency_penalty, .bias = bias,
                                .n_bias = n_bias, .max_tokens = d->max_tokens, .stop = d->stop,
                                .n_stop = d->n_stop, .ignore_end = d->ignore_end,
                                .grammar = d->grammar, .log_probs = d->log_probs,
                                .n_best = d->n_best, .deadline_ms = d->deadline_ms,
                                .adapter = d->adapter, .adapter_scale = d->adapter_scale};
    rx_job *j = rx_alloc_zero(sizeof *j);
    *out = NULL;
    if (!j)
        return rx_fail_memory(err, "a job", sizeof *j);
    const rlx_status st = rlx_engine_submit(((engine_backend *)b)->engine, &r, &j->request, err);
    if (st == RLX_OK)
        *out = j;
    else
        rx_free(j);
    return st;
}

static rlx_status next_piece(rx_job *j, int64_t timeout_ms, rx_backend_piece *piece, bool *more,
                             rlx_error *err)
{
    rlx_request_piece p = {0};
    *more = false;
    const rlx_status st = rlx_request_next(j->request, timeout_ms, &p, more, err);
    if (st != RLX_OK || !*more)
        return st;
    const size_t n = p.n_best < RLX_MAX_BEST ? p.n_best : RLX_MAX_BEST;
    for (size_t i = 0; i < n; i++)
        j->best[i] = (rx_backend_prob){p.best[i].token, p.best[i].log_prob};
    *piece = (rx_backend_piece){p.token, p.text, p.length, p.log_prob, j->best, n};
    return RLX_OK;
}

static void get_result(rx_job *j, rx_job_result *out)
{
    rlx_request_result r = {RLX_INIT(rlx_request_result)};
    rlx_request_get_result(j->request, &r, NULL);
    *out = (rx_job_result){.finish = r.finish, .timed_out = r.finish == RLX_FINISH_DEADLINE,
                           .n_prompt = r.n_prompt, .n_cached = r.n_cached,
                           .n_generated = r.n_generated, .n_guessed = r.n_guessed,
                           .n_accepted = r.n_accepted, .wait_seconds = r.wait_seconds,
                           .prompt_seconds = r.prompt_seconds, .seconds = r.seconds};
}

/* The engine may be in a step with the job: what it points to is needed until that has ended. */
static void end_job(rx_job *j)
{
    rlx_request_cancel(j->request);
    rlx_request_wait(j->request, -1, NULL);
    rlx_request_destroy(j->request);
    rx_free(j);
}

static void get_load(rx_gen_backend *b, int64_t *running, int64_t *waiting)
{
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_engine_get_info(((engine_backend *)b)->engine, &info, NULL);
    *running = info.running;
    *waiting = info.waiting;
}

static uint64_t cache_bytes(rx_gen_backend *b)
{
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_engine_get_info(((engine_backend *)b)->engine, &info, NULL);
    return info.cache_bytes;
}

static void destroy(rx_gen_backend *b)
{
    rlx_engine_destroy(((engine_backend *)b)->engine);
    rx_free(b);
}

rlx_status rx_backend_create_engine(rlx_model *m, const rlx_engine_desc *d, rx_gen_backend **out,
                                    rlx_error *err)
{
    engine_backend *b = rx_alloc_zero(sizeof *b);
    *out = NULL;
    if (!b)
        return rx_fail_memory(err, "an engine", sizeof *b);
    b->base = (rx_gen_backend){.has_log_probs = true, .has_penalties = true, .has_bias = true,
                               .submit = submit, .next = next_piece, .result = get_result,
                               .end = end_job, .load = get_load, .bytes = cache_bytes,
                               .destroy = destroy};
    const rlx_status st = rlx_engine_create(m, d, &b->engine, err);
    if (st == RLX_OK)
        *out = &b->base;
    else
        rx_free(b);
    return st;
}
