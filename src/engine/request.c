/* SPDX-License-Identifier: MIT */
/* Requests: submission from any thread, pieces to callbacks or queues, cancelling, ends. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "base/sized.h"
#include "engine/engine.h"
#include "model/adapter.h"
#include "model/draw.h"

/* The request whose callback this thread is running. */
static _Thread_local const rlx_request *calling;

/* ---- Prompts --------------------------------------------------------------------------------- */

static rlx_status check_prompt(const rlx_engine *e, const int32_t *ids, size_t n, rlx_error *err)
{
    if (!n)
        return rx_fail(err, RLX_INVALID, "the prompt has no tokens: the model needs at least one");
    RLX_TRY(rx_need(ids, "the tokens of a prompt", err));
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (size_t)ids[i] >= e->vocabulary)
            return rx_fail(err, RLX_INVALID, "token %zu is %d; expected 0 to %zu, the vocabulary "
                           "of the model", i, (int)ids[i], e->vocabulary - 1);
    if (n < e->limit)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the prompt has %zu tokens: a sequence of the engine holds %zu"
                   " and needs room for at least one more (context %lld, %lld pages of %lld)", n,
                   e->limit, (long long)e->build.context, (long long)e->build.pages - 1,
                   (long long)e->build.page);
}

static rlx_status take_prompt(rlx_request *r, const int32_t *ids, size_t n, rlx_error *err)
{
    RLX_TRY(check_prompt(r->e, ids, n, err));
    if (!rx_grow(&r->tokens, &r->cap_tokens, n + 1, sizeof *r->tokens))
        return rx_fail_memory(err, "the tokens of a request", n * sizeof *r->tokens);
    memcpy(r->tokens, ids, n * sizeof *ids);
    r->n = r->n_prompt = r->n_given = n;
    r->result.n_prompt = n;
    return RLX_OK;
}

static rlx_status encode_text(rlx_request *r, const char *text, bool special, rlx_error *err)
{
    const rlx_model *m = r->e->model;
    int32_t *ids;
    size_t n;
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer: give tokens instead of text, "
                       "or a tokenizer.json (rlx_model_desc.tokenizer)", m->path);
    RLX_TRY(rx_encode_prompt(m->tokenizer, text, special, &ids, &n, err));
    const rlx_status st = take_prompt(r, ids, n, err);
    rx_free(ids);
    return st;
}

static rlx_status set_prompt(rlx_request *r, const rlx_request_desc *d, rlx_error *err)
{
    char *text;
    if (d->prompt)
        return encode_text(r, d->prompt, !d->plain, err);
    if (d->tokens || !d->messages)
        return take_prompt(r, d->tokens, d->n_tokens, err);
    RLX_TRY(rlx_chat_format(r->e->model, d->messages, d->n_messages, true, &text, err));
    const rlx_status st = encode_text(r, text, true, err);
    rlx_free(text);
    return st;
}

/* ---- Submission ------------------------------------------------------------------------------ */

static rlx_status check_penalty(const char *what, double v, rlx_error *err)
{
    if (v >= -100 && v <= 100)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the %s penalty is %g; expected -100 to 100", what, v);
}

static rlx_status take_bias(rlx_request *r, const rlx_request_desc *d, rlx_error *err)
{
    if (d->n_bias > RLX_MAX_BIAS)
        return rx_fail(err, RLX_INVALID, "%zu tokens have a bias; expected at most %d", d->n_bias,
                       RLX_MAX_BIAS);
    if (!d->n_bias)
        return RLX_OK;
    RLX_TRY(rx_need(d->bias, "the list of biases", err));
    for (size_t i = 0; i < d->n_bias; i++)
        if (d->bias[i].token < 0 || (size_t)d->bias[i].token >= r->e->vocabulary ||
            isnan(d->bias[i].add))
            return rx_fail(err, RLX_INVALID, "bias %zu adds %g to token %d; expected a number and "
                           "a token from 0 to %zu", i, (double)d->bias[i].add,
                           (int)d->bias[i].token, r->e->vocabulary - 1);
    r->bias = rx_alloc_array(d->n_bias, sizeof *r->bias);
    if (!r->bias)
        return rx_fail_memory(err, "the biases of a request", d->n_bias * sizeof *r->bias);
    memcpy(r->bias, d->bias, d->n_bias * sizeof *r->bias);
    r->n_bias = d->n_bias;
    return RLX_OK;
}

/* What is in the cache depends on it. */
static rlx_status take_adapter(rlx_request *r, const rlx_request_desc *d, rlx_error *err)
{
    const rx_lora *l = &r->e->lora;
    const double scale = d->adapter_scale == 0 ? 1 : d->adapter_scale;
    r->adapter = -1;
    if (!d->adapter)
        return RLX_OK;
    RLX_TRY(rx_check_adapter(r->e->model, d->adapter, scale, err));
    for (size_t i = 0; i < l->n; i++)
        if (l->adapters[i] == d->adapter)
            r->adapter = (int32_t)i;
    if (r->adapter < 0)
        return rx_fail(err, RLX_INVALID, "the engine was not created with the adapter of the "
                       "request (rlx_engine_desc.adapters)");
    r->adapter_scale = (float)scale;
    r->table.salt = rx_hash(rx_hash(1, &r->adapter, sizeof r->adapter), &r->adapter_scale,
                            sizeof r->adapter_scale);
    return RLX_OK;
}

static rlx_status take_options(rlx_request *r, const rlx_request_desc *d, rlx_error *err)
{
    RLX_TRY(RX_DESC_READ(rlx_sampling_desc, &r->sampling, d->sampling, err));
    RLX_TRY(rx_check_sampling(&r->sampling, err));
    RLX_TRY(check_penalty("presence", d->presence_penalty, err));
    RLX_TRY(check_penalty("frequency", d->frequency_penalty, err));
    if (d->max_tokens < 0 || d->deadline_ms < 0)
        return rx_fail(err, RLX_INVALID, "max_tokens is %lld and deadline_ms %lld; expected 0 or "
                       "more", (long long)d->max_tokens, (long long)d->deadline_ms);
    if (d->n_best < 0 || d->n_best > RLX_MAX_BEST)
        return rx_fail(err, RLX_INVALID, "the %lld best tokens are asked for; expected at most %d",
                       (long long)d->n_best, RLX_MAX_BEST);
    if (!r->sampling.repeat_last)
        r->sampling.repeat_last = 64;
    r->priority = d->priority;
    r->max_tokens = d->max_tokens;
    r->ignore_end = d->ignore_end;
    r->log_probs = d->log_probs || d->n_best;
    r->n_best = (size_t)d->n_best < r->e->vocabulary ? (size_t)d->n_best : r->e->vocabulary;
    r->presence = d->presence_penalty;
    r->frequency = d->frequency_penalty;
    r->fn = d->fn;
    r->user = d->user;
    r->limit = r->e->limit;
    r->deadline_ns = d->deadline_ms ? rx_deadline(d->deadline_ms) : -1;
    const rx_sampler_sizes sizes = {r->e->model->tokenizer, r->e->vocabulary, r->limit};
    RLX_TRY(rx_sampler_create(&r->sampling, &sizes, &r->sampler, err));
    r->sampling.dry_breakers = NULL; /* the caller's */
    RLX_TRY(take_adapter(r, d, err));
    return take_bias(r, d, err);
}

static void free_request(rlx_request *r)
{
    for (rx_piece *p = r->first, *next; p; p = next) {
        next = p->next;
        rx_free(p);
    }
    rx_free(r->taken);
    rlx_grammar_state_destroy(r->grammar);
    rx_free(r->mask);
    rx_text_output_finish(&r->output);
    rx_free(r->tokens);
    rx_sampler_destroy(r->sampler);
    rx_free(r->bias);
    rx_cond_finish(&r->news);
    rx_free(r);
}

/* Queues it in the inbox; the engine gets its reference. */
static rlx_status hand_over(rlx_engine *e, rlx_request *r, rlx_error *err)
{
    rlx_status st = RLX_OK;
    rx_mutex_lock(&e->lock);
    if (e->stop)
        st = rx_fail(err, RLX_INVALID, "the engine is being destroyed");
    else if (e->n_queued >= e->max_queue)
        st = rx_fail(err, RLX_TIMEOUT, "the queue of the engine is full: %zu requests wait "
                     "(rlx_engine_desc.queue)", e->n_queued);
    if (st == RLX_OK) {
        r->serial = e->serial++;
        r->refs = 2;
        e->refs++;
        e->n_queued++;
        *e->inbox_end = r;
        e->inbox_end = &r->next;
        rx_cond_signal(&e->work);
    }
    rx_mutex_unlock(&e->lock);
    return st;
}

rlx_status rlx_engine_submit(rlx_engine *e, const rlx_request_desc *d, rlx_request **out,
                             rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_engine_submit: out", err));
    *out = NULL;
    RLX_TRY(rx_need(e, "rlx_engine_submit: e", err));
    RLX_TRY(rx_need(d, "rlx_engine_submit: d", err));
    rlx_request_desc full;
    RLX_TRY(RX_DESC_READ(rlx_request_desc, &full, d, err));
    rlx_request *r = rx_alloc_zero(sizeof *r);
    if (!r || !rx_cond_init(&r->news)) {
        rx_free(r);
        return rx_fail_memory(err, "a request", sizeof *r);
    }
    r->e = e;
    r->submit_ns = rx_now_ns();
    r->accept = 0.6;
    atomic_init(&r->cancelled, false);
    rlx_status st = take_options(r, &full, err);
    if (st == RLX_OK)
        st = rx_text_output_init(&r->output, e->model->tokenizer, full.stop, full.n_stop, err);
    if (st == RLX_OK)
        st = set_prompt(r, &full, err);
    if (st == RLX_OK && full.grammar)
        st = rx_tokens_begin(r, full.grammar, err);
    if (st == RLX_OK) {
        *out = r; /* before a callback can see it */
        st = hand_over(e, r, err);
    }
    if (st == RLX_OK)
        return RLX_OK;
    *out = NULL;
    free_request(r);
    return st;
}

/* ---- Pieces and ends ------------------------------------------------------------------------- */

/* Calls back, unless the request was dropped. */
static void call_back(rlx_request *r, const rlx_request_piece *p)
{
    rlx_engine *e = r->e;
    rx_mutex_lock(&e->lock);
    const bool calls = !r->dropped;
    r->in_call = calls;
    rx_mutex_unlock(&e->lock);
    if (!calls)
        return;
    const rlx_request *outer = calling;
    calling = r;
    if (r->fn(r->user, r, p))
        atomic_store(&r->cancelled, true);
    calling = outer;
    rx_mutex_lock(&e->lock);
    r->in_call = false;
    rx_cond_broadcast(&r->news);
    rx_mutex_unlock(&e->lock);
}

static rx_piece *copy_piece(const rlx_request_piece *p)
{
    const size_t best = p->n_best * sizeof *p->best;
    rx_piece *q = rx_alloc((uint64_t)sizeof *q + best + p->length);
    if (!q)
        return NULL;
    char *behind = (char *)(q + 1);
    *q = (rx_piece){.piece = *p};
    if (best)
        memcpy(behind, p->best, best);
    if (p->length)
        memcpy(behind + best, p->text, p->length);
    q->piece.best = (const rlx_token_prob *)(const void *)behind;
    q->piece.text = behind + best;
    return q;
}

rlx_status rx_request_give(rlx_request *r, const rlx_request_piece *p, rlx_error *err)
{
    if (r->fn) {
        call_back(r, p);
        return RLX_OK;
    }
    rx_piece *q = copy_piece(p);
    if (!q)
        return rx_fail_memory(err, "a piece of output", p->length);
    rx_mutex_lock(&r->e->lock);
    *(r->last ? &r->last->next : &r->first) = q;
    r->last = q;
    rx_cond_broadcast(&r->news);
    rx_mutex_unlock(&r->e->lock);
    return RLX_OK;
}

/* Gives up a reference, under the lock, which is released. */
static void unref(rlx_request *r)
{
    rlx_engine *e = r->e;
    const bool last = --r->refs == 0;
    if (!last) {
        rx_mutex_unlock(&e->lock);
        return;
    }
    rx_engine_unref(e);
    free_request(r);
}

void rx_request_end(rlx_request *r, rlx_status st, rlx_finish finish, const rlx_error *why)
{
    rlx_engine *e = r->e;
    rlx_grammar_state_destroy(r->grammar); /* the grammar is no longer needed */
    r->grammar = NULL;
    rx_mutex_lock(&e->lock);
    r->result.ended = true;
    r->result.status = st;
    r->result.finish = finish;
    if (st != RLX_OK && why)
        r->error = *why;
    rx_cond_broadcast(&r->news);
    rx_mutex_unlock(&e->lock);
    if (r->fn)
        call_back(r, NULL);
    rx_mutex_lock(&e->lock);
    unref(r);
}

/* ---- Receiving ------------------------------------------------------------------------------- */

/* Takes the first queued piece, under the lock. */
static bool take_piece(rlx_request *r, rlx_request_piece *piece)
{
    rx_piece *q = r->first;
    if (!q)
        return false;
    rx_free(r->taken);
    r->taken = q;
    r->first = q->next;
    if (!r->first)
        r->last = NULL;
    *piece = q->piece;
    return true;
}

/* Waits for a piece (if wanted) or the end, under the lock, which is released meanwhile. Without a
 * thread it steps. */
static rlx_status wait_for_news(rlx_request *r, bool wants_piece, int64_t deadline, rlx_error *err)
{
    rlx_engine *e = r->e;
    while (!r->result.ended && !(wants_piece && r->first)) {
        bool in_time = deadline < 0 || rx_now_ns() < deadline;
        if (!e->has_thread && in_time) {
            rx_mutex_unlock(&e->lock);
            const rlx_status st = rlx_engine_step(e, rx_ms_left(deadline), NULL, err);
            rx_mutex_lock(&e->lock);
            if (st != RLX_OK && st != RLX_TIMEOUT && !r->result.ended)
                return st;
        } else if (deadline < 0) {
            rx_cond_wait(&r->news, &e->lock);
        } else if (in_time) {
            rx_cond_wait_until(&r->news, &e->lock, deadline);
        } else {
            return rx_fail(err, RLX_TIMEOUT, "the request has no new piece yet");
        }
    }
    return RLX_OK;
}

/* The status of a request that failed; RLX_OK of others. */
static rlx_status ended_status(const rlx_request *r, rlx_error *err)
{
    if (r->result.status == RLX_OK)
        return RLX_OK;
    return rx_fail(err, r->result.status, "%s", r->error.text);
}

rlx_status rlx_request_next(rlx_request *r, int64_t timeout_ms, rlx_request_piece *piece,
                            bool *more, rlx_error *err)
{
    RLX_TRY(rx_need(r, "rlx_request_next: r", err));
    RLX_TRY(rx_need(piece, "rlx_request_next: piece", err));
    RLX_TRY(rx_need(more, "rlx_request_next: more", err));
    *piece = (rlx_request_piece){.token = -1, .text = ""};
    *more = false;
    if (r->fn)
        return rx_fail(err, RLX_INVALID, "the request gives its pieces to its callback: none "
                       "are queued");
    rx_mutex_lock(&r->e->lock);
    rlx_status st = wait_for_news(r, true, rx_deadline(timeout_ms), err);
    if (st == RLX_OK) {
        *more = take_piece(r, piece);
        if (!*more)
            st = ended_status(r, err);
    }
    rx_mutex_unlock(&r->e->lock);
    return st;
}

rlx_status rlx_request_wait(rlx_request *r, int64_t timeout_ms, rlx_error *err)
{
    RLX_TRY(rx_need(r, "rlx_request_wait: r", err));
    rx_mutex_lock(&r->e->lock);
    rlx_status st = wait_for_news(r, false, rx_deadline(timeout_ms), err);
    if (st == RLX_OK)
        st = ended_status(r, err);
    rx_mutex_unlock(&r->e->lock);
    return st;
}

void rlx_request_cancel(rlx_request *r)
{
    if (r)
        atomic_store(&r->cancelled, true);
}

void rlx_request_destroy(rlx_request *r)
{
    if (!r)
        return;
    atomic_store(&r->cancelled, true);
    rx_mutex_lock(&r->e->lock);
    r->dropped = true;
    while (r->in_call && calling != r)
        rx_cond_wait(&r->news, &r->e->lock);
    unref(r);
}

static double seconds_between(int64_t a, int64_t b)
{
    return a && b ? (double)(b - a) * 1e-9 : 0;
}

rlx_status rlx_request_get_result(rlx_request *r, rlx_request_result *out, rlx_error *err)
{
    RLX_TRY(rx_need(r, "rlx_request_get_result: r", err));
    rx_mutex_lock(&r->e->lock);
    rlx_request_result result = r->result;
    result.wait_seconds = seconds_between(r->submit_ns, r->begin_ns);
    result.prompt_seconds = seconds_between(r->begin_ns, r->first_ns);
    result.seconds = seconds_between(r->first_ns, r->last_ns);
    rx_mutex_unlock(&r->e->lock);
    return RX_INFO_WRITE(rlx_request_result, out, &result, err);
}
