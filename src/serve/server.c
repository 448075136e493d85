/* SPDX-License-Identifier: MIT */
/* The models of a server, and which request is answered by what. */
#include "serve/server.h"

#include <poll.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "serve/json_out.h"

/* ---- Models ---------------------------------------------------------------------------------- */

static rlx_status open_model(rx_served *m, const rx_server_model *from, const rx_server_desc *d,
                             rlx_error *err)
{
    const rlx_tokenizer *t;
    m->id = from->id;
    if (!rx_mutex_init(&m->lock))
        return rx_fail(err, RLX_NO_MEMORY, "a lock cannot be made");
    RLX_TRY(rlx_model_open(from->path, &d->model, &m->model, err));
    m->info = RLX_DEFAULT(rlx_model_info);
    RLX_TRY(rlx_model_get_info(m->model, &m->info, err));
    t = rlx_model_tokenizer(m->model);
    const char *source = t ? rlx_tokenizer_chat_template(t, NULL) : NULL;
    m->knows_tools = source && strstr(source, "tools");
    m->knows_tool_role = source && strstr(source, "\"tool\"");
    m->knows_tool_role = m->knows_tool_role || (source && strstr(source, "'tool'"));
    if (!m->info.generates)
        return RLX_OK;
    if (!t)
        return rx_fail(err, RLX_INVALID, "'%s' has no tokenizer", from->path);
    const rlx_status st = rx_backend_create_engine(m->model, d->sequences, d->queue, &m->backend,
                                                   err);
    if (st != RLX_UNSUPPORTED)
        return st;
    return rx_backend_create_context(m->model, d->queue, &m->backend, err);
}

rlx_status rx_server_create(const rx_server_desc *d, rx_server **out, rlx_error *err)
{
    rx_server *s = rx_alloc_zero(sizeof *s);
    rlx_status st = RLX_OK;
    *out = NULL;
    if (!s || !(s->models = rx_alloc_array_zero(d->n_models + 1, sizeof *s->models))) {
        rx_free(s);
        return rx_fail_memory(err, "a server", sizeof *s);
    }
    s->created = (int64_t)time(NULL);
    s->max_seconds = d->max_seconds;
    s->max_tokens = d->max_tokens;
    while (s->n_models < d->n_models && st == RLX_OK) {
        st = open_model(&s->models[s->n_models], &d->models[s->n_models], d, err);
        s->n_models++;
    }
    if (st == RLX_OK)
        *out = s;
    else
        rx_server_destroy(s);
    return st;
}

void rx_server_destroy(rx_server *s)
{
    for (size_t i = 0; s && i < s->n_models; i++) {
        if (s->models[i].backend)
            s->models[i].backend->destroy(s->models[i].backend);
        rlx_model_close(s->models[i].model);
        rx_mutex_finish(&s->models[i].lock);
    }
    if (s)
        rx_free(s->models);
    rx_free(s);
}

rx_served *rx_server_model_of(rx_server *s, const char *id, rx_api_error *e)
{
    for (size_t i = 0; i < s->n_models; i++)
        if (!id || !strcmp(s->models[i].id, id))
            return &s->models[i];
    if (!e->status)
        memcpy(e->param, "model", sizeof "model");
    rx_api_fail_as(e, 404, "model_not_found", "there is no model '%.100s' here", id ? id : "");
    return NULL;
}

/* ---- Replies --------------------------------------------------------------------------------- */

void rx_reply_error(rx_reply *r, const rx_api_error *e)
{
    r->status = e->status;
    r->type = "application/json";
    r->body.n = 0;
    rx_str_puts(&r->body, "{\"error\":{\"message\":");
    rx_put_string(&r->body, e->message);
    rx_str_puts(&r->body, ",\"type\":");
    rx_put_string(&r->body, e->type);
    rx_str_puts(&r->body, ",\"param\":");
    rx_put_string(&r->body, e->param[0] ? e->param : NULL);
    rx_str_puts(&r->body, ",\"code\":");
    rx_put_string(&r->body, e->code);
    rx_str_puts(&r->body, "}}");
}

bool rx_client_is_gone(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void answer_health(rx_server *s, rx_reply *r)
{
    const bool draining = atomic_load(&s->draining);
    r->status = draining ? 503 : 200;
    rx_str_printf(&r->body, "{\"status\":\"%s\"}", draining ? "draining" : "ok");
}

static const struct route {
    const char *method, *path;
    rx_api_kind kind; /* of a body */
} routes[] = {
    {"GET", "/health", 0},
    {"GET", "/metrics", 0},
    {"GET", "/v1/models", 0},
    {"POST", "/v1/chat/completions", RX_API_CHAT},
    {"POST", "/v1/completions", RX_API_COMPLETION},
    {"POST", "/v1/embeddings", RX_API_EMBEDDING},
    {"POST", "/tokenize", RX_API_TOKENIZE},
    {"POST", "/detokenize", RX_API_DETOKENIZE},
    {"POST", "/apply-template", RX_API_TEMPLATE},
};

static const struct route *find_route(const rx_call *c, rx_api_error *e)
{
    bool known = false;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++)
        if (!strcmp(routes[i].path, c->path)) {
            if (!strcmp(routes[i].method, c->method))
                return &routes[i];
            known = true;
        }
    if (known)
        rx_api_fail_as(e, 405, "method_not_allowed", "%.10s is not a method of %.100s", c->method,
                       c->path);
    else
        rx_api_fail_as(e, 404, "not_found", "there is no %.10s %.100s", c->method, c->path);
    return NULL;
}

static void answer_get(rx_server *s, const rx_call *c, rx_reply *r, rx_api_error *e)
{
    if (!strcmp(c->path, "/health"))
        answer_health(s, r);
    else if (!strcmp(c->path, "/metrics"))
        rx_answer_metrics(s, r);
    else
        rx_answer_models(s, NULL, r, e);
}

static void answer_post(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                        rx_api_error *e)
{
    if (kind & (RX_API_CHAT | RX_API_COMPLETION))
        rx_answer_generate(s, c, kind, r, e);
    else if (kind == RX_API_EMBEDDING)
        rx_answer_embeddings(s, c, r, e);
    else
        rx_answer_tokens(s, c, kind, r, e);
}

void rx_server_answer(rx_server *s, const rx_call *c, rx_reply *r)
{
    static const char one_model[] = "/v1/models/";
    rx_api_error e = {0};
    *r = (rx_reply){.status = 200, .type = "application/json"};
    if (!strcmp(c->method, "GET") && !strncmp(c->path, one_model, sizeof one_model - 1)) {
        rx_answer_models(s, c->path + sizeof one_model - 1, r, &e);
    } else {
        const struct route *route = find_route(c, &e);
        if (route && route->kind)
            answer_post(s, c, route->kind, r, &e);
        else if (route)
            answer_get(s, c, r, &e);
    }
    if (!e.status && r->body.failed)
        rx_api_fail_as(&e, 500, "out_of_memory", "out of memory");
    if (e.status)
        rx_reply_error(r, &e);
    r->retry_after = r->status == 429 || r->status == 503 ? 1 : 0;
    atomic_fetch_add(&s->metrics.requests, 1);
    if (r->status >= 400)
        atomic_fetch_add(&s->metrics.errors, 1);
}
