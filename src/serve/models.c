/* SPDX-License-Identifier: MIT */
/* The models of a server. Without a memory budget all are open from start to end. With one they are
 * loaded when a request asks for them; to make room the least recently used idle model is closed,
 * and where all are in use a request waits for one. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/posix.h"
#include "serve/server.h"

#define WAIT_FOR_ROOM_MS 60000

/* ---- One model ------------------------------------------------------------------------------- */

bool rx_served_is_ready(const rx_served *m)
{
    return (m->base ? m->base : m)->state == RX_SERVED_READY;
}

/* The adapters of a model that was opened, for its engine; *out is freed with rx_free. */
static rlx_status open_adapters(rx_server *s, const rx_served *m, const rlx_adapter ***out,
                                size_t *n, rlx_error *err)
{
    const rlx_adapter **list = rx_alloc_array(s->n_models, sizeof *list);
    *out = list;
    *n = 0;
    if (!list)
        return rx_fail_memory(err, "the adapters of a model", s->n_models * sizeof *list);
    for (size_t i = 0; i < s->n_models; i++) {
        rx_served *a = &s->models[i];
        if (a->base != m)
            continue;
        RLX_TRY(rlx_adapter_open(m->model, a->path, &a->adapter, err));
        list[(*n)++] = a->adapter;
    }
    return RLX_OK;
}

static rlx_status create_backend(rx_server *s, rx_served *m, rlx_error *err)
{
    const rlx_adapter **adapters = NULL;
    size_t n = 0;
    rlx_status st = open_adapters(s, m, &adapters, &n, err);
    if (st == RLX_OK && s->draft && m == s->models)
        st = rlx_model_open(s->draft, &s->model, &m->draft, err);
    const rlx_engine_desc d = {RLX_INIT(rlx_engine_desc), .sequences = s->sequences,
                               .queue = s->queue, .guesses = s->guesses, .draft = m->draft,
                               .adapters = adapters, .n_adapters = n};
    if (st == RLX_OK)
        st = rx_backend_create_engine(m->model, &d, &m->backend, err);
    rx_free((void *)(uintptr_t)adapters);
    if (st != RLX_UNSUPPORTED || n || m->draft)
        return st;
    return rx_backend_create_context(m->model, s->queue, &m->backend, err);
}

static rlx_status start_backend(rx_server *s, rx_served *m, rlx_error *err)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const char *source = t ? rlx_tokenizer_chat_template(t, NULL) : NULL;
    m->knows_tools = source && strstr(source, "tools");
    m->knows_tool_role = source && (strstr(source, "\"tool\"") || strstr(source, "'tool'"));
    if (!m->info.generates)
        return RLX_OK;
    if (!t)
        return rx_fail(err, RLX_INVALID, "'%s' has no tokenizer", m->path);
    return create_backend(s, m, err);
}

static void close_model(rx_server *s, rx_served *m)
{
    if (m->base)
        return;
    if (m->backend)
        m->backend->destroy(m->backend);
    for (size_t i = 0; i < s->n_models; i++)
        if (s->models[i].base == m) {
            rlx_adapter_close(s->models[i].adapter);
            s->models[i].adapter = NULL;
        }
    rlx_model_close(m->draft);
    rlx_model_close(m->model);
    m->draft = NULL;
    m->backend = NULL;
    m->model = NULL;
}

static rlx_status open_model(rx_server *s, rx_served *m, rlx_error *err)
{
    rlx_status st = rlx_model_open(m->path, &s->model, &m->model, err);
    m->info = RLX_DEFAULT(rlx_model_info);
    if (st == RLX_OK)
        st = rlx_model_get_info(m->model, &m->info, err);
    if (st == RLX_OK)
        st = start_backend(s, m, err);
    if (st != RLX_OK) {
        close_model(s, m);
        return st;
    }
    for (size_t i = 0; i < s->n_models; i++) { /* nobody holds them */
        rx_served *a = &s->models[i];
        if (a->base != m)
            continue;
        a->model = m->model;
        a->info = m->info;
        a->backend = m->backend;
        a->knows_tools = m->knows_tools;
        a->knows_tool_role = m->knows_tool_role;
    }
    const uint64_t cache = m->backend && m->backend->bytes ? m->backend->bytes(m->backend)
                                                           : m->info.cache_bytes;
    rlx_model_info draft = {RLX_INIT(rlx_model_info)};
    if (m->draft)
        rlx_model_get_info(m->draft, &draft, NULL);
    m->bytes = m->info.weight_bytes + m->info.work_bytes + cache + draft.weight_bytes;
    atomic_fetch_add(&s->metrics.loads, 1);
    return RLX_OK;
}

/* The size of a file, or of the weights in a folder: an estimate of a model's memory before it was
 * loaded. */
static uint64_t file_bytes(const char *path)
{
    static const char *const names[] = {"", "/model.safetensors"};
    char full[4096];
    struct stat st;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const int n = snprintf(full, sizeof full, "%s%s", path, names[i]);
        if (n > 0 && (size_t)n < sizeof full && !rx_stat(full, &st) && S_ISREG(st.st_mode))
            return (uint64_t)st.st_size;
    }
    return 0;
}

/* ---- Room ------------------------------------------------------------------------------------ */

/* Bytes of the models that are loaded or being loaded. Called with the lock. */
static uint64_t loaded_bytes(const rx_server *s)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < s->n_models; i++)
        sum += s->models[i].state == RX_SERVED_OUT ? 0 : s->models[i].bytes;
    return sum;
}

static rx_served *oldest_idle(const rx_server *s)
{
    rx_served *found = NULL;
    for (size_t i = 0; i < s->n_models; i++) {
        rx_served *m = &s->models[i];
        if (m->state == RX_SERVED_READY && !m->users && (!found || m->used < found->used))
            found = m;
    }
    return found;
}

static bool others_are_loaded(const rx_server *s, const rx_served *but)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (&s->models[i] != but && s->models[i].state != RX_SERVED_OUT)
            return true;
    return false;
}

/* Closes models until m fits; a single model always does. False: it does not after `wait_ms`.
 * Called with the lock, which is released while it closes or waits. */
static bool make_room(rx_server *s, const rx_served *m, int64_t wait_ms)
{
    const int64_t until = rx_deadline(wait_ms);
    while (s->budget && loaded_bytes(s) > s->budget && others_are_loaded(s, m)) {
        rx_served *old = oldest_idle(s);
        if (!old) {
            if (!rx_cond_wait_until(&s->moved, &s->lock, until))
                return false;
            continue;
        }
        old->state = RX_SERVED_MOVES;
        rx_mutex_unlock(&s->lock);
        close_model(s, old);
        rx_log(RLX_LOG_INFO, "model '%s' was closed to make room", old->id);
        atomic_fetch_add(&s->metrics.evictions, 1);
        rx_mutex_lock(&s->lock);
        old->state = RX_SERVED_OUT;
        rx_cond_broadcast(&s->moved);
    }
    return true;
}

/* Called with the lock, for a model that is not loaded. */
static bool load(rx_server *s, rx_served *m, rx_api_error *e)
{
    rlx_error err = {0};
    bool ok = true;
    m->state = RX_SERVED_MOVES;
    s->loading = true;
    if (!make_room(s, m, WAIT_FOR_ROOM_MS))
        ok = rx_api_fail_as(e, 503, "model_busy", "model '%s' does not fit beside those that are "
                            "used now (--memory)", m->id);
    rx_mutex_unlock(&s->lock);
    if (ok) {
        const rlx_status st = open_model(s, m, &err);
        ok = st == RLX_OK || rx_api_fail_as(e, 500, "model_not_loaded", "%s", err.text);
    }
    rx_mutex_lock(&s->lock);
    m->state = ok ? RX_SERVED_READY : RX_SERVED_OUT;
    m->users += ok; /* so that the next line does not close it */
    if (ok)
        make_room(s, m, 0); /* it may need more than its file */
    m->users -= ok;
    s->loading = false;
    rx_cond_broadcast(&s->moved);
    return ok;
}

rx_served *rx_server_find(rx_server *s, const char *id, rx_api_error *e)
{
    static const char latest[] = ":latest"; /* Ollama's model names have a tag */
    const size_t n = id ? strlen(id) : 0, tail = sizeof latest - 1;
    const size_t bare = n > tail && !strcmp(id + n - tail, latest) ? n - tail : n;
    for (size_t i = 0; i < s->n_models; i++) {
        const char *name = s->models[i].id;
        if (!id || !strcmp(name, id) || (strlen(name) == bare && !strncmp(name, id, bare)))
            return &s->models[i];
    }
    if (!e->status)
        memcpy(e->param, "model", sizeof "model");
    rx_api_fail_as(e, 404, "model_not_found", "there is no model '%.100s' here", id ? id : "");
    return NULL;
}

rx_served *rx_server_take(rx_server *s, const char *id, rx_api_error *e)
{
    rx_served *found = rx_server_find(s, id, e), *m = found && found->base ? found->base : found;
    if (!m)
        return NULL;
    rx_mutex_lock(&s->lock);
    while (m->state == RX_SERVED_MOVES || (m->state == RX_SERVED_OUT && s->loading))
        rx_cond_wait(&s->moved, &s->lock);
    const bool ok = m->state == RX_SERVED_READY || load(s, m, e);
    if (ok) {
        m->users++;
        m->used = ++s->tick;
    }
    rx_mutex_unlock(&s->lock);
    return ok ? found : NULL;
}

void rx_server_release(rx_server *s, rx_served *m)
{
    if (!m)
        return;
    rx_mutex_lock(&s->lock);
    (m->base ? m->base : m)->users--;
    rx_cond_broadcast(&s->moved);
    rx_mutex_unlock(&s->lock);
}

/* ---- The server ------------------------------------------------------------------------------ */

static rlx_status open_first(rx_server *s, rlx_error *err)
{
    for (size_t i = 0; i < (s->budget ? 1 : s->n_models); i++) {
        if (s->models[i].base)
            continue;
        RLX_TRY(open_model(s, &s->models[i], err));
        s->models[i].state = RX_SERVED_READY;
    }
    return RLX_OK;
}

rlx_status rx_server_create(const rx_server_desc *d, rx_server **out, rlx_error *err)
{
    rx_server *s = rx_alloc_zero(sizeof *s);
    *out = NULL;
    if (!s || !(s->models = rx_alloc_array_zero(d->n_models + 1, sizeof *s->models)) ||
        !(s->history = rx_history_create()) || !rx_mutex_init(&s->lock) ||
        !rx_cond_init(&s->moved)) {
        rx_history_destroy(s ? s->history : NULL);
        rx_free(s ? s->models : NULL);
        rx_free(s);
        return rx_fail_memory(err, "a server", sizeof *s);
    }
    s->created = (int64_t)time(NULL);
    s->max_seconds = d->max_seconds;
    s->max_tokens = d->max_tokens;
    s->budget = d->budget;
    s->model = d->model;
    s->sequences = d->sequences;
    s->queue = d->queue;
    s->guesses = d->guesses;
    s->draft = d->draft;
    for (; s->n_models < d->n_models; s->n_models++) {
        rx_served *m = &s->models[s->n_models];
        *m = (rx_served){.id = d->models[s->n_models].id, .path = d->models[s->n_models].path};
        if (d->models[s->n_models].is_adapter) {
            m->base = s->models;
            m->scale = d->models[s->n_models].scale;
        }
        m->bytes = file_bytes(m->path);
        if (!rx_mutex_init(&m->lock)) {
            rx_server_destroy(s);
            return rx_fail(err, RLX_NO_MEMORY, "a lock cannot be made");
        }
    }
    const rlx_status st = open_first(s, err);
    if (st == RLX_OK)
        *out = s;
    else
        rx_server_destroy(s);
    return st;
}

void rx_server_destroy(rx_server *s)
{
    for (size_t i = 0; s && i < s->n_models; i++) {
        close_model(s, &s->models[i]);
        rx_mutex_finish(&s->models[i].lock);
    }
    if (!s)
        return;
    rx_history_destroy(s->history);
    rx_cond_finish(&s->moved);
    rx_mutex_finish(&s->lock);
    rx_free(s->models);
    rx_free(s);
}
