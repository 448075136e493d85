/* SPDX-License-Identifier: MIT */
/* Engines: creation, the thread that steps, one step. */
#include "engine/engine.h"

#include <string.h>

#include "base/sized.h"
#include "model/adapter.h"

#define DEFAULT_SEQUENCES 32
#define DEFAULT_PAGE 32
#define DEFAULT_ROWS 512
#define DEFAULT_STEP_MS 50.0
#define DEFAULT_QUEUE 4096
#define MAX_SEQUENCES 512
#define DRAFT_GUESSES 4
#define GUESS_OUTPUTS 32 /* rows of logits, where there are guesses */
#define MAX_PAGE 1024
#define MAX_ROWS 4096
#define DEFAULT_CACHE ((uint64_t)1 << 30)

/* ---- Choices --------------------------------------------------------------------------------- */

static rlx_status check_count(const char *what, int64_t v, int64_t most, rlx_error *err)
{
    if (v >= 0 && v <= most)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "the %s of an engine is %lld; expected 1 to %lld, or 0 for "
                   "the default", what, (long long)v, (long long)most);
}

static int64_t power_from(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static rlx_status check_desc(const rlx_model *m, const rlx_engine_desc *d, rlx_error *err)
{
    RLX_TRY(check_count("number of sequences", d->sequences, MAX_SEQUENCES, err));
    RLX_TRY(check_count("page", d->page, MAX_PAGE, err));
    RLX_TRY(check_count("number of rows", d->rows, MAX_ROWS, err));
    RLX_TRY(check_count("context", d->context, m->build.context, err));
    RLX_TRY(check_count("queue", d->queue, 1 << 24, err));
    if (d->guesses < -RX_MAX_GUESSES || d->guesses > RX_MAX_GUESSES)
        return rx_fail(err, RLX_INVALID, "an engine that guesses %lld tokens; expected up to %d",
                       (long long)d->guesses, RX_MAX_GUESSES);
    if (d->rows && d->rows != power_from(d->rows))
        return rx_fail(err, RLX_INVALID, "the rows of an engine are %lld; expected a power of two",
                       (long long)d->rows);
    if (d->rows && d->sequences > d->rows)
        return rx_fail(err, RLX_INVALID, "%lld sequences do not fit a step of %lld rows",
                       (long long)d->sequences, (long long)d->rows);
    if (!(d->step_ms >= 0 && d->step_ms <= 1e6))
        return rx_fail(err, RLX_INVALID, "the step_ms of an engine is %g; expected up to 1e6",
                       d->step_ms);
    return RLX_OK;
}

/* Bytes of a token in the cache: from a graph with a pool of one page. */
static rlx_status token_bytes(const rlx_model *m, rx_build_desc b, uint64_t *bytes, rlx_error *err)
{
    rlx_graph *g = NULL;
    rlx_leaf_info leaf;
    b.pages = 1;
    RLX_TRY(rx_arch_build(m->facts, &b, &g, err));
    *bytes = 0;
    for (size_t i = 0; rlx_graph_leaf(g, RLX_LEAF_STATE, i, &leaf); i++) {
        uint64_t n = (uint64_t)rlx_dtype_block_bytes(leaf.dtype);
        for (int k = 1; k < leaf.shape.rank; k++)
            n *= (uint64_t)leaf.shape.dim[k];
        *bytes += n;
    }
    rlx_graph_destroy(g);
    if (!*bytes)
        *bytes = 1;
    return RLX_OK;
}

static rlx_status choose_build(rlx_engine *e, const rlx_engine_desc *d, rlx_error *err)
{
    const rlx_model *m = e->model;
    rx_build_desc *b = &e->build;
    uint64_t each;
    *b = m->build;
    b->prompt_chunk = 1;
    b->sequences = d->sequences ? d->sequences : DEFAULT_SEQUENCES;
    if (d->rows && !d->sequences && b->sequences > d->rows)
        b->sequences = d->rows;
    b->context = d->context ? d->context : m->build.context;
    b->page = d->page ? d->page : DEFAULT_PAGE;
    b->rows = d->rows ? d->rows : DEFAULT_ROWS;
    b->outputs = power_from(b->sequences);
    e->max_guesses = (size_t)(d->guesses < 0 ? -d->guesses : d->guesses);
    if (d->draft && !d->guesses)
        e->max_guesses = DRAFT_GUESSES;
    if (e->max_guesses && b->outputs < GUESS_OUTPUTS)
        b->outputs = GUESS_OUTPUTS < b->rows ? GUESS_OUTPUTS : b->rows;
    e->always_guesses = d->guesses < 0;
    RLX_TRY(token_bytes(m, *b, &each, err));
    const uint64_t one = (uint64_t)((b->context + b->page - 1) / b->page);
    uint64_t pages = d->cache_bytes / each / (uint64_t)b->page;
    if (!d->cache_bytes) {
        const uint64_t fitting = DEFAULT_CACHE / each / (uint64_t)b->page;
        pages = one * (uint64_t)b->sequences;
        pages = pages < fitting ? pages : fitting;
        pages = pages > one ? pages : one;
    }
    if (!pages || pages >= (uint64_t)(INT32_MAX / b->page))
        return rx_fail(err, RLX_INVALID, "a cache of %llu bytes has %llu pages of %lld tokens, each"
                       " of %llu bytes; expected at least one page and less than 2^31 tokens",
                       (unsigned long long)d->cache_bytes, (unsigned long long)pages,
                       (long long)b->page, (unsigned long long)each);
    b->pages = (int64_t)pages + 1; /* padding writes to the last one */
    e->info.cache_bytes = pages * each * (uint64_t)b->page;
    return RLX_OK;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static rlx_status make_lists(rlx_engine *e, rlx_error *err)
{
    e->pages = rx_pages_create((size_t)e->build.pages - 1, (size_t)e->build.page);
    e->running = rx_arena_array_zero(&e->arena, e->sequences, sizeof(rlx_request *));
    e->slots = rx_arena_array(&e->arena, e->sequences, sizeof *e->slots);
    if (!e->pages || !e->running || !e->slots)
        return rx_fail_memory(err, "the pages of an engine", (uint64_t)e->build.pages * 64);
    for (size_t i = e->sequences; i-- > 0;)
        e->slots[e->n_slots++] = i;
    return RLX_OK;
}

static rlx_status take_adapters(rlx_engine *e, const rlx_engine_desc *d, rlx_error *err)
{
    if (!d->n_adapters)
        return RLX_OK;
    RLX_TRY(rx_need(d->adapters, "rlx_engine_desc: adapters", err));
    for (size_t i = 0; i < d->n_adapters; i++)
        RLX_TRY(rx_check_adapter(e->model, d->adapters[i], 1, err));
    const rlx_adapter **list = rx_arena_array_copy(&e->arena, d->adapters, d->n_adapters,
                                                   sizeof *list);
    if (!list)
        return rx_fail_memory(err, "the adapters of an engine", d->n_adapters * sizeof *list);
    e->lora = (rx_lora){.adapters = list, .n = d->n_adapters, .by_row = true};
    return RLX_OK;
}

/* The states in buffers, so that two sessions use them. */
static rlx_status make_pools(rlx_engine *e, const rlx_graph *g, rx_bindings *out, rlx_error *err)
{
    rlx_leaf_info leaf;
    size_t n = 0;
    while (rlx_graph_leaf(g, RLX_LEAF_STATE, n, &leaf))
        n++;
    rlx_binding *list = rx_arena_array_zero(&e->arena, n, sizeof *list);
    e->pools = rx_arena_array_zero(&e->arena, n, sizeof *e->pools);
    if (!list || !e->pools)
        return rx_fail_memory(err, "the pools of an engine", n * sizeof *list);
    for (; e->n_pools < n; e->n_pools++) {
        rlx_graph_leaf(g, RLX_LEAF_STATE, e->n_pools, &leaf);
        const rlx_buffer_desc d = {RLX_INIT(rlx_buffer_desc), .dtype = leaf.dtype,
                                   .shape = leaf.shape};
        RLX_TRY(rlx_buffer_create(e->model->device, &d, &e->pools[e->n_pools], err));
        list[e->n_pools] = (rlx_binding){RLX_LEAF_STATE,
                                         rx_arena_strdup(&e->arena, leaf.name),
                                         e->pools[e->n_pools]};
        if (!list[e->n_pools].name)
            return rx_fail_memory(err, "the pools of an engine", n * sizeof *list);
    }
    *out = (rx_bindings){list, n};
    return RLX_OK;
}

void rx_stepper_init(rx_stepper *s, bool adapts)
{
    *s = (rx_stepper){.n_sizes = adapts ? RX_N_SIZES : RX_ADAPTED};
    for (size_t i = 0; i < RX_N_SIZES; i++)
        s->size[i] = SIZE_MAX;
}

static rlx_status make_stepper(rlx_engine *e, const rx_bindings *buffers, rx_stepper *s,
                               rlx_error *err)
{
    rx_stepper_init(s, e->build.lora != NULL);
    if (e->model->host_layers) {
        rx_parts parts;
        RLX_TRY(rx_model_make_parts(e->model, &e->build, &parts, err));
        s->front = parts.front;
        s->session = parts.session;
        return RLX_OK;
    }
    return rx_model_make_session(e->model, &e->build, buffers, &s->session, err);
}

static rlx_status make_steppers(rlx_engine *e, rlx_error *err)
{
    rx_bindings buffers = {0};
    rlx_graph *g;
    if (e->lora.n)
        RLX_TRY(rx_model_need_whole(e->model, "an engine with adapters", err));
    if (!e->lora.n)
        return make_stepper(e, NULL, &e->plain, err);
    RLX_TRY(rx_arch_build(e->model->facts, &e->build, &g, err));
    rlx_status st = make_pools(e, g, &buffers, err);
    rlx_graph_destroy(g);
    if (st == RLX_OK)
        st = make_stepper(e, &buffers, &e->plain, err);
    e->build.lora = &e->lora;
    if (st == RLX_OK)
        st = make_stepper(e, &buffers, &e->adapted, err);
    e->build.lora = NULL;
    return st;
}

static rlx_status set_up(rlx_engine *e, const rlx_engine_desc *d, rlx_error *err)
{
    const rx_build_desc *b = &e->build;
    RLX_TRY(check_desc(e->model, d, err));
    RLX_TRY(choose_build(e, d, err));
    e->sequences = (size_t)b->sequences;
    e->max_rows = (size_t)b->rows;
    e->vocabulary = (size_t)e->model->known.vocabulary;
    e->words = (e->vocabulary + 31) / 32;
    const size_t pool = (size_t)((b->pages - 1) * b->page);
    e->limit = pool < (size_t)b->context ? pool : (size_t)b->context;
    e->step_seconds = (d->step_ms > 0 ? d->step_ms : DEFAULT_STEP_MS) * 1e-3;
    e->max_queue = (size_t)(d->queue ? d->queue : DEFAULT_QUEUE);
    e->shares = !d->no_sharing;
    RLX_TRY(take_adapters(e, d, err));
    RLX_TRY(make_lists(e, err));
    RLX_TRY(rx_inputs_create(e, err));
    RLX_TRY(make_steppers(e, err));
    if (d->draft)
        RLX_TRY(rx_draft_create(e, d->draft, err));
    e->info.sequences = b->sequences;
    e->info.context = b->context;
    e->info.page = b->page;
    e->info.rows = b->rows;
    e->info.pages = b->pages - 1;
    return RLX_OK;
}

static void free_engine(rlx_engine *e)
{
    rlx_session_destroy(e->plain.front);
    rlx_session_destroy(e->plain.session);
    rlx_session_destroy(e->adapted.session);
    rlx_session_destroy(e->draft.session);
    for (size_t i = 0; i < e->n_pools; i++)
        rlx_buffer_destroy(e->pools[i]);
    e->n_pools = 0;
    rx_pages_destroy(e->pages);
    rx_free(e->waiting);
    rx_arena_finish(&e->arena);
    e->plain.front = e->plain.session = e->adapted.session = e->draft.session = NULL;
    e->pages = NULL;
    e->waiting = NULL;
}

static bool init_locks(rlx_engine *e)
{
    if (!rx_mutex_init(&e->lock))
        return false;
    if (rx_mutex_init(&e->step_lock)) {
        if (rx_cond_init(&e->work))
            return true;
        rx_mutex_finish(&e->step_lock);
    }
    rx_mutex_finish(&e->lock);
    return false;
}

void rx_engine_unref(rlx_engine *e)
{
    const bool last = --e->refs == 0;
    rx_mutex_unlock(&e->lock);
    if (!last)
        return;
    rx_cond_finish(&e->work);
    rx_mutex_finish(&e->step_lock);
    rx_mutex_finish(&e->lock);
    rx_free(e);
}

/* ---- The thread ------------------------------------------------------------------------------ */

/* Waits for work; false: the engine is shutting down. */
static bool wait_for_work(rlx_engine *e)
{
    rx_mutex_lock(&e->lock);
    while (!e->stop && !e->inbox && !e->n_waiting && !e->n_running)
        rx_cond_wait(&e->work, &e->lock);
    const bool goes_on = !e->stop;
    rx_mutex_unlock(&e->lock);
    return goes_on;
}

static void *thread_main(void *user)
{
    rlx_engine *e = user;
    while (wait_for_work(e))
        rx_engine_step(e, -1, NULL, NULL);
    return NULL;
}

rlx_status rlx_engine_create(rlx_model *m, const rlx_engine_desc *desc, rlx_engine **out,
                             rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_engine_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_engine_create: m", err));
    rlx_engine_desc d;
    RLX_TRY(RX_DESC_READ(rlx_engine_desc, &d, desc, err));
    if (!m->known.is_decoder || m->known.recurrent)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' (%s) %s: an engine needs a decoder whose "
                       "memory is a K/V cache", m->path, m->known.architecture,
                       m->known.is_decoder ? "has recurrent states" : "is no decoder");
    rlx_engine *e = rx_alloc_zero(sizeof *e);
    if (!e || !init_locks(e)) {
        rx_free(e);
        return rx_fail_memory(err, "the engine", sizeof *e);
    }
    e->model = m;
    e->refs = 1;
    e->inbox_end = &e->inbox;
    rlx_status st = set_up(e, &d, err);
    if (st == RLX_OK && !d.no_thread)
        e->has_thread = rx_thread_start(&e->thread, thread_main, e);
    if (st == RLX_OK)
        *out = e;
    else
        rlx_engine_destroy(e);
    return st;
}

void rlx_engine_destroy(rlx_engine *e)
{
    if (!e)
        return;
    rx_mutex_lock(&e->lock);
    e->stop = true;
    rx_cond_signal(&e->work);
    rx_mutex_unlock(&e->lock);
    if (e->has_thread)
        rx_thread_join(&e->thread);
    rx_mutex_lock(&e->step_lock);
    if (e->now && e->now->front)
        rlx_session_wait(e->now->front, 0, -1, NULL);
    if (e->now)
        rlx_session_wait(e->now->session, 0, -1, NULL);
    if (e->pages)
        rx_end_all(e, RLX_OK, RLX_FINISH_CALLER, NULL);
    free_engine(e);
    rx_mutex_unlock(&e->step_lock);
    rx_mutex_lock(&e->lock);
    rx_engine_unref(e);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* Updates what rlx_engine_get_info returns. */
static void publish(rlx_engine *e)
{
    rx_pages_info p;
    rx_pages_get_info(e->pages, &p);
    rx_mutex_lock(&e->lock);
    e->info.held_pages = (int64_t)p.n_held;
    e->info.kept_pages = (int64_t)p.n_kept;
    e->info.running = (int64_t)e->n_running;
    rx_mutex_unlock(&e->lock);
}

static void count_step(rlx_engine *e)
{
    const double seconds = (double)(rx_now_ns() - e->run_ns) * 1e-9;
    rx_mutex_lock(&e->lock);
    e->info.steps++;
    e->info.step_seconds += seconds;
    rx_mutex_unlock(&e->lock);
}

rlx_status rx_engine_step(rlx_engine *e, int64_t timeout_ms, bool *busy, rlx_error *err)
{
    rlx_error why = {0};
    rlx_status st = RLX_OK;
    const bool runs = e->active || rx_engine_plan(e);
    if (runs && !e->active)
        st = rx_run_start(e, &why);
    if (runs && st == RLX_OK) {
        st = rx_run_finish(e, timeout_ms, &why);
        if (st == RLX_TIMEOUT)
            return rx_fail(err, st, "%s", why.text);
        count_step(e);
    }
    if (st != RLX_OK) { /* the contents of the pages are undefined */
        e->active = e->in_front = false;
        rx_end_all(e, st, RLX_FINISH_CALLER, &why);
        rx_pages_forget(e->pages);
        rx_fail(err, st, "%s", why.text);
    }
    publish(e);
    if (busy) {
        rx_mutex_lock(&e->lock);
        *busy = e->inbox || e->n_waiting || e->n_running;
        rx_mutex_unlock(&e->lock);
    }
    return st;
}

rlx_status rlx_engine_step(rlx_engine *e, int64_t timeout_ms, bool *busy, rlx_error *err)
{
    RLX_TRY(rx_need(e, "rlx_engine_step: e", err));
    if (e->has_thread)
        return rx_fail(err, RLX_INVALID, "the engine steps on its own thread: create it with "
                       "rlx_engine_desc.no_thread to step it");
    rx_mutex_lock(&e->step_lock);
    const rlx_status st = rx_engine_step(e, timeout_ms, busy, err);
    rx_mutex_unlock(&e->step_lock);
    return st;
}

rlx_status rlx_engine_get_info(rlx_engine *e, rlx_engine_info *out, rlx_error *err)
{
    RLX_TRY(rx_need(e, "rlx_engine_get_info: e", err));
    rx_mutex_lock(&e->lock);
    rlx_engine_info info = e->info;
    info.waiting = (int64_t)e->n_queued;
    rx_mutex_unlock(&e->lock);
    return RX_INFO_WRITE(rlx_engine_info, out, &info, err);
}

rlx_session *rlx_engine_session(rlx_engine *e)
{
    return e && !e->has_thread ? e->plain.session : NULL;
}
