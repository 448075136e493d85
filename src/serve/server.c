/* SPDX-License-Identifier: MIT */
/* Routes of requests, and the forms of errors. */
#include "serve/server.h"

#if !defined(_WIN32)
#include <poll.h>
#endif
#include <stdio.h>
#include <string.h>

#include "serve/json_out.h"

/* ---- Replies --------------------------------------------------------------------------------- */

rx_shape rx_shape_of(const char *path)
{
    return !strncmp(path, "/v1/messages", 12) || !strncmp(path, "/messages", 9)
               ? RX_SHAPE_ANTHROPIC
           : !strncmp(path, "/api/", 5) ? RX_SHAPE_OLLAMA : RX_SHAPE_OPENAI;
}

/* Anthropic's error types by status. */
static const char *anthropic_type(int status)
{
    return status == 401 ? "authentication_error" : status == 404 ? "not_found_error"
           : status == 413 ? "request_too_large" : status == 429 ? "rate_limit_error"
           : status == 503 ? "overloaded_error" : status >= 500 ? "api_error"
           : "invalid_request_error";
}

void rx_put_error(rx_str *out, const rx_api_error *e, rx_shape shape)
{
    if (shape == RX_SHAPE_OLLAMA) {
        rx_str_puts(out, "{\"error\":");
        rx_put_string(out, e->message);
        rx_str_puts(out, "}");
        return;
    }
    const bool anthropic = shape == RX_SHAPE_ANTHROPIC;
    rx_str_puts(out, anthropic ? "{\"type\":\"error\",\"error\":{\"message\":"
                               : "{\"error\":{\"message\":");
    rx_put_string(out, e->message);
    rx_str_puts(out, ",\"type\":");
    rx_put_string(out, anthropic ? anthropic_type(e->status) : e->type);
    if (!anthropic) {
        rx_str_puts(out, ",\"param\":");
        rx_put_string(out, e->param[0] ? e->param : NULL);
        rx_str_puts(out, ",\"code\":");
        rx_put_string(out, e->code);
    } else if (e->code) {
        rx_str_puts(out, ",\"details\":{\"error_code\":");
        rx_put_string(out, e->code);
        rx_str_puts(out, "}");
    }
    rx_str_puts(out, "}}");
}

void rx_reply_error(rx_reply *r, const rx_api_error *e, rx_shape shape)
{
    r->status = e->status;
    r->type = "application/json";
    r->body.n = 0;
    rx_put_error(&r->body, e, shape);
}

bool rx_client_is_gone(int fd)
{
#if defined(POLLRDHUP)
    struct pollfd p = {.fd = fd, .events = POLLRDHUP};
    return fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
#else
    return (void)fd, false; /* seen when an answer cannot be sent */
#endif
}

/* ---- Requests -------------------------------------------------------------------------------- */

static void answer_health(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                          rx_api_error *e)
{
    const bool draining = atomic_load(&s->draining);
    (void)c, (void)kind, (void)e;
    r->status = draining ? 503 : 200;
    rx_str_printf(&r->body, "{\"status\":\"%s\"}", draining ? "draining" : "ok");
}

/* A route that ends in '/' matches all longer paths with that prefix. */
static const struct route {
    const char *method, *path;
    rx_api_kind kind; /* of a body */
    rx_answer_fn *answer;
} routes[] = {
    {"GET", "/", 0, rx_answer_page},
    {"GET", "/page/", 0, rx_answer_page},
    {"GET", "/health", 0, answer_health},
    {"GET", "/metrics", 0, rx_answer_metrics},
    {"GET", "/v1/models", 0, rx_answer_models},
    {"GET", "/v1/models/", 0, rx_answer_model},
    {"POST", "/v1/chat/completions", RX_API_CHAT, rx_answer_generate},
    {"POST", "/v1/completions", RX_API_COMPLETION, rx_answer_generate},
    {"POST", "/v1/responses", RX_API_RESPONSE, rx_answer_generate},
    {"GET", "/v1/responses/", 0, rx_answer_response},
    {"DELETE", "/v1/responses/", 0, rx_answer_response},
    {"POST", "/v1/embeddings", RX_API_EMBEDDING, rx_answer_embeddings},
    {"POST", "/v1/rerank", RX_API_RERANK, rx_answer_embeddings},
    {"POST", "/v2/rerank", RX_API_RERANK, rx_answer_embeddings}, /* Cohere's */
    {"POST", "/v1/messages", RX_API_MESSAGE, rx_answer_generate},
    {"POST", "/v1/messages/count_tokens", RX_API_COUNT, rx_answer_tokens},
    {"POST", "/api/chat", RX_API_OLLAMA_CHAT, rx_answer_generate},
    {"POST", "/api/generate", RX_API_OLLAMA_GENERATE, rx_answer_generate},
    {"POST", "/api/embed", RX_API_OLLAMA_EMBED, rx_answer_embeddings},
    {"POST", "/api/embeddings", RX_API_OLLAMA_EMBEDDING, rx_answer_embeddings},
    {"POST", "/api/show", RX_API_OLLAMA_SHOW, rx_answer_show},
    {"GET", "/api/tags", 0, rx_answer_tags},
    {"GET", "/api/ps", RX_API_OLLAMA_SHOW, rx_answer_tags},
    {"GET", "/api/version", 0, rx_answer_version},
    {"POST", "/tokenize", RX_API_TOKENIZE, rx_answer_tokens},
    {"POST", "/detokenize", RX_API_DETOKENIZE, rx_answer_tokens},
    {"POST", "/apply-template", RX_API_TEMPLATE, rx_answer_tokens},
};

/* The part of a path after the route; NULL: no match. A '/' at the end of a path is nothing. */
static const char *match(const char *route, const char *path)
{
    const size_t n = strlen(route);
    if (strncmp(route, path, n))
        return NULL;
    const bool goes_on = path[n] && strcmp(path + n, "/");
    return n > 1 && route[n - 1] == '/' ? goes_on ? path + n : NULL : goes_on ? NULL : path + n;
}

/* The same; clients whose base address has no /v1 leave it out. */
static const char *match_any(const char *route, const char *path)
{
    const char *rest = match(route, path);
    return rest || strncmp(route, "/v1/", 4) ? rest : match(route + 3, path);
}

static void add_method(rx_reply *r, const char *method)
{
    const size_t n = strlen(r->allow);
    snprintf(r->allow + n, sizeof r->allow - n, "%s%s", n ? ", " : "", method);
}

/* HEAD is GET whose body the transport leaves out. */
static const struct route *find_route(rx_call *c, rx_reply *r, rx_api_error *e)
{
    const char *method = strcmp(c->method, "HEAD") ? c->method : "GET";
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        c->rest = match_any(routes[i].path, c->path);
        if (c->rest && !strcmp(routes[i].method, method)) {
            r->allow[0] = 0;
            return &routes[i];
        }
        if (c->rest)
            add_method(r, routes[i].method);
    }
    if (r->allow[0])
        rx_api_fail_as(e, 405, "method_not_allowed", "%.10s is not a method of %.100s", c->method,
                       c->path);
    else
        rx_api_fail_as(e, 404, "not_found", "there is no %.10s %.100s", c->method, c->path);
    return NULL;
}

void rx_server_answer(rx_server *s, const rx_call *call, rx_reply *r)
{
    rx_call c = *call;
    rx_api_error e = {0};
    *r = (rx_reply){.status = 200, .type = "application/json"};
    const struct route *route = find_route(&c, r, &e);
    if (route)
        route->answer(s, &c, route->kind, r, &e);
    if (!e.status && r->body.failed)
        rx_api_fail_as(&e, 500, "out_of_memory", "out of memory");
    if (e.status)
        rx_reply_error(r, &e, rx_shape_of(c.path));
    r->retry_after = r->status == 429 || r->status == 503 ? 1 : 0;
    atomic_fetch_add(&s->metrics.requests, 1);
    if (r->status >= 400)
        atomic_fetch_add(&s->metrics.errors, 1);
}
