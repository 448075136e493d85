/* SPDX-License-Identifier: MIT */
/* The backend over rlx_context: a queue served by one thread, one job after the other. The common
 * prefix with the previous job's prompt is not computed again. */
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/thread.h"
#include "serve/backend.h"

typedef struct kept_piece {
    int32_t token;
    size_t begin, length; /* range of the job's text */
} kept_piece;

typedef struct queue queue;
struct rx_job {
    queue *q;
    rx_job *next;
    rx_job_desc d;         /* with copies of its own */
    int32_t *tokens;
    char **stop, **breakers;
    /* Under the lock of the queue: */
    rx_str text;           /* of all pieces */
    kept_piece *pieces;
    size_t n_pieces, cap_pieces, taken;
    bool over, cancelled, abandoned; /* abandoned: the worker frees it */
    rlx_status status;
    rlx_error err;
    rx_job_result result;
    rx_str given;          /* the text of the piece last taken */
    int64_t submitted_ns, deadline_ns;
};

struct queue {
    rx_gen_backend base;
    rlx_context *context;
    rx_mutex lock;
    rx_cond work, news;    /* for the worker; for those waiting for pieces */
    rx_job *first, *last, *running;
    int64_t n_waiting, limit;
    int64_t room;          /* tokens of the context */
    bool stopping;
    rx_thread thread;
};

static void free_texts(char **texts, size_t n)
{
    for (size_t i = 0; texts && i < n; i++)
        rx_free(texts[i]);
    rx_free(texts);
}

/* Room for one more, so that an empty list is one too. */
static char **copy_texts(const char *const *texts, size_t n)
{
    char **copy = rx_alloc_array_zero(n + 1, sizeof *copy);
    for (size_t i = 0; copy && i < n; i++) {
        const size_t bytes = strlen(texts[i]) + 1;
        copy[i] = rx_alloc(bytes);
        if (!copy[i]) {
            free_texts(copy, n);
            return NULL;
        }
        memcpy(copy[i], texts[i], bytes);
    }
    return copy;
}

static void free_job(rx_job *j)
{
    free_texts(j->stop, j->d.n_stop);
    free_texts(j->breakers, j->d.sampling.n_dry_breakers);
    rx_free(j->tokens);
    rx_free(j->pieces);
    rx_str_finish(&j->text);
    rx_str_finish(&j->given);
    rx_free(j);
}

/* ---- The worker ------------------------------------------------------------------------------ */

static bool keep_piece(rx_job *j, const rlx_piece *p)
{
    const size_t begin = j->text.n;
    rx_str_add(&j->text, p->text, p->length);
    if (j->text.failed || !rx_grow(&j->pieces, &j->cap_pieces, j->n_pieces + 1, sizeof *j->pieces))
        return false;
    j->pieces[j->n_pieces++] = (kept_piece){p->token, begin, p->length};
    return true;
}

/* Queues a piece; returns whether the job is to continue. */
static bool take_piece(queue *q, rx_job *j, const rlx_piece *p)
{
    rx_mutex_lock(&q->lock);
    bool ok = keep_piece(j, p);
    if (!ok)
        j->status = rx_fail_memory(&j->err, "the text of a job", j->text.n);
    j->result.timed_out = j->deadline_ns && rx_now_ns() > j->deadline_ns;
    ok = ok && !j->cancelled && !q->stopping && !j->result.timed_out;
    rx_cond_broadcast(&q->news);
    rx_mutex_unlock(&q->lock);
    return ok;
}

static rlx_status generate(queue *q, rx_job *j, rlx_generation *g)
{
    rlx_piece piece;
    bool more = true, wanted = true;
    rlx_error err = {0};
    rlx_status st = RLX_OK;
    while (st == RLX_OK && more && wanted) {
        st = rlx_generation_next(g, -1, &piece, &more, &err);
        if (st == RLX_OK && more)
            wanted = take_piece(q, j, &piece);
    }
    rlx_generate_result r = {RLX_INIT(rlx_generate_result)};
    rlx_generation_get_result(g, &r, NULL);
    rx_mutex_lock(&q->lock);
    j->result.finish = wanted ? r.finish : RLX_FINISH_CALLER;
    j->result.n_prompt = r.n_prompt;
    j->result.n_cached = r.n_reused;
    j->result.n_generated = r.n_generated;
    j->result.prompt_seconds = r.prompt_seconds;
    j->result.seconds = r.seconds;
    if (st != RLX_OK && st != RLX_CANCELLED)
        j->err = err;
    rx_mutex_unlock(&q->lock);
    return st == RLX_CANCELLED ? RLX_OK : st;
}

static void run_job(queue *q, rx_job *j)
{
    rlx_generation *g = NULL;
    rlx_error err = {0};
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .tokens = j->tokens,
                                 .n_tokens = j->d.n_tokens, .max_tokens = j->d.max_tokens,
                                 .sampling = &j->d.sampling,
                                 .stop = (const char *const *)j->stop, .n_stop = j->d.n_stop,
                                 .ignore_end = j->d.ignore_end, .grammar = j->d.grammar};
    j->result.wait_seconds = (double)(rx_now_ns() - j->submitted_ns) * 1e-9;
    rlx_status st = rlx_generation_create(q->context, &d, &g, &err);
    if (st == RLX_OK)
        st = generate(q, j, g);
    else
        j->err = err;
    rlx_generation_destroy(g);
    rx_mutex_lock(&q->lock);
    if (j->status == RLX_OK)
        j->status = st;
    rx_mutex_unlock(&q->lock);
}

/* The next job, or NULL when the backend shuts down. Called with the lock. */
static rx_job *take_job(queue *q)
{
    while (!q->first && !q->stopping)
        rx_cond_wait(&q->work, &q->lock);
    rx_job *j = q->stopping ? NULL : q->first;
    if (j) {
        q->first = j->next;
        q->n_waiting--;
        q->running = j;
    }
    return j;
}

static void *work(void *user)
{
    queue *q = user;
    rx_mutex_lock(&q->lock);
    for (rx_job *j; (j = take_job(q));) {
        rx_mutex_unlock(&q->lock);
        run_job(q, j);
        rx_mutex_lock(&q->lock);
        j->over = true;
        q->running = NULL;
        if (j->abandoned)
            free_job(j);
        rx_cond_broadcast(&q->news);
    }
    rx_mutex_unlock(&q->lock);
    return NULL;
}

/* ---- Jobs ------------------------------------------------------------------------------------ */

static bool copy_desc(rx_job *j, const rx_job_desc *d)
{
    j->d = *d;
    j->tokens = rx_alloc_array(d->n_tokens + 1, sizeof *j->tokens);
    j->stop = copy_texts(d->stop, d->n_stop);
    j->breakers = copy_texts(d->sampling.dry_breakers, d->sampling.n_dry_breakers);
    if (!j->tokens || !j->stop || !j->breakers)
        return false;
    if (d->sampling.dry_breakers)
        j->d.sampling.dry_breakers = (const char *const *)j->breakers;
    if (d->n_tokens)
        memcpy(j->tokens, d->tokens, d->n_tokens * sizeof *j->tokens);
    return true;
}

static rlx_status submit(rx_gen_backend *b, const rx_job_desc *d, rx_job **out, rlx_error *err)
{
    queue *q = (queue *)b;
    *out = NULL;
    if (!d->n_tokens || (int64_t)d->n_tokens >= q->room)
        return rx_fail(err, RLX_INVALID, "the prompt has %zu tokens; expected 1 to %lld, one less "
                       "than the context", d->n_tokens, (long long)(q->room - 1));
    rx_job *j = rx_alloc_zero(sizeof *j);
    if (!j || !copy_desc(j, d)) {
        if (j)
            free_job(j);
        return rx_fail_memory(err, "a job", sizeof *j);
    }
    j->q = q;
    j->submitted_ns = rx_now_ns();
    j->deadline_ns = d->deadline_ms ? j->submitted_ns + d->deadline_ms * 1000000 : 0;
    rx_mutex_lock(&q->lock);
    const bool full = q->n_waiting >= q->limit;
    if (!full) {
        *(q->first ? &q->last->next : &q->first) = j;
        q->last = j;
        q->n_waiting++;
        rx_cond_signal(&q->work);
    }
    rx_mutex_unlock(&q->lock);
    if (full) {
        free_job(j);
        return rx_fail(err, RLX_TIMEOUT, "the queue is full: %lld requests wait",
                       (long long)q->limit);
    }
    *out = j;
    return RLX_OK;
}

static bool unlink_job(queue *q, const rx_job *j)
{
    rx_job *before = NULL;
    for (rx_job *i = q->first; i; before = i, i = i->next)
        if (i == j) {
            *(before ? &before->next : &q->first) = j->next;
            if (q->last == j)
                q->last = before;
            q->n_waiting--;
            return true;
        }
    return false;
}

/* Takes the next piece if there is one. Called with the lock. */
static bool give_piece(rx_job *j, rx_backend_piece *piece)
{
    if (j->taken == j->n_pieces)
        return false;
    const kept_piece *k = &j->pieces[j->taken++];
    j->given.n = 0;
    rx_str_add(&j->given, j->text.data + k->begin, k->length);
    *piece = (rx_backend_piece){.token = k->token, .text = j->given.failed ? "" : j->given.data,
                                .length = j->given.failed ? 0 : k->length};
    return true;
}

static rlx_status next_piece(rx_job *j, int64_t timeout_ms, rx_backend_piece *piece, bool *more,
                             rlx_error *err)
{
    queue *q = j->q;
    const int64_t until = rx_deadline(timeout_ms);
    rlx_status st = RLX_OK;
    bool in_time = true;
    rx_mutex_lock(&q->lock);
    for (;;) {
        *more = give_piece(j, piece);
        if (*more || j->over || !in_time)
            break;
        if (j->deadline_ns && rx_now_ns() > j->deadline_ns && unlink_job(q, j)) {
            j->over = j->result.timed_out = true; /* it never ran */
            j->result.n_prompt = j->d.n_tokens;
            continue;
        }
        if (until < 0)
            rx_cond_wait(&q->news, &q->lock);
        else
            in_time = rx_cond_wait_until(&q->news, &q->lock, until);
    }
    if (!*more && !j->over)
        st = RLX_TIMEOUT;
    else if (!*more && (st = j->status) != RLX_OK && err)
        *err = j->err;
    rx_mutex_unlock(&q->lock);
    return st;
}

static void get_result(rx_job *j, rx_job_result *out)
{
    rx_mutex_lock(&j->q->lock);
    *out = j->result;
    rx_mutex_unlock(&j->q->lock);
}

static void end_job(rx_job *j)
{
    queue *q = j->q;
    rx_mutex_lock(&q->lock);
    const bool mine = j->over || unlink_job(q, j);
    j->cancelled = true;
    if (!mine && j->d.grammar) /* the grammar belongs to the caller: wait until it is unused */
        while (!j->over)
            rx_cond_wait(&q->news, &q->lock);
    const bool done = mine || j->over;
    j->abandoned = !done;
    rx_mutex_unlock(&q->lock);
    if (done)
        free_job(j);
}

static void get_load(rx_gen_backend *b, int64_t *running, int64_t *waiting)
{
    queue *q = (queue *)b;
    rx_mutex_lock(&q->lock);
    *running = q->running != NULL;
    *waiting = q->n_waiting;
    rx_mutex_unlock(&q->lock);
}

/* ---- The backend ----------------------------------------------------------------------------- */

static void destroy(rx_gen_backend *b)
{
    queue *q = (queue *)b;
    rx_mutex_lock(&q->lock);
    q->stopping = true;
    rx_cond_broadcast(&q->work);
    rx_mutex_unlock(&q->lock);
    rx_thread_join(&q->thread);
    rx_cond_finish(&q->work);
    rx_cond_finish(&q->news);
    rx_mutex_finish(&q->lock);
    rlx_context_destroy(q->context);
    rx_free(q);
}

rlx_status rx_backend_create_context(rlx_model *m, int64_t limit, rx_gen_backend **out,
                                     rlx_error *err)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    queue *q = rx_alloc_zero(sizeof *q);
    *out = NULL;
    if (!q)
        return rx_fail_memory(err, "a queue", sizeof *q);
    rlx_model_get_info(m, &info, NULL);
    q->base = (rx_gen_backend){.submit = submit, .next = next_piece, .result = get_result,
                               .end = end_job, .load = get_load, .destroy = destroy};
    q->limit = limit;
    q->room = info.context;
    rlx_status st = rlx_context_create(m, &q->context, err);
    if (st != RLX_OK) {
        rx_free(q);
        return st;
    }
    const bool ready = rx_mutex_init(&q->lock) && rx_cond_init(&q->work) &&
                       rx_cond_init(&q->news) && rx_thread_start(&q->thread, work, q);
    if (!ready) {
        rlx_context_destroy(q->context);
        rx_free(q);
        return rx_fail(err, RLX_NO_MEMORY, "the thread of a model cannot be started");
    }
    *out = &q->base;
    return RLX_OK;
}
