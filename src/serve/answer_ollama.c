/* SPDX-License-Identifier: MIT */
/* Ollama's /api: answers as one object, or as a stream of JSON lines, and its model listings. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/posix.h"
#include "serve/answer.h"
#include "serve/json_out.h"

static void put_time(rx_str *s, const char *name, int64_t seconds)
{
    const time_t t = (time_t)seconds;
    struct tm tm;
    char text[40];
    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    rx_str_printf(s, ",\"%s\":\"%s\"", name, text);
}

/* ---- Answers --------------------------------------------------------------------------------- */

static void put_head(const rx_answer *a, rx_str *s)
{
    rx_str_puts(s, "{\"model\":");
    rx_put_string(s, a->m->id);
    put_time(s, "created_at", (int64_t)time(NULL));
}

/* The message of a chat, the response of a prompt. */
static void put_content(const rx_answer *a, const char *text, size_t n, const rx_call_parts *p,
                        rx_str *s)
{
    if (a->r.kind == RX_API_OLLAMA_GENERATE) {
        rx_str_puts(s, ",\"response\":");
        rx_put_text(s, text, n);
        return;
    }
    rx_str_puts(s, ",\"message\":{\"role\":\"assistant\",\"content\":");
    rx_put_text(s, text, n);
    if (p) {
        rx_str_puts(s, ",\"tool_calls\":[{\"function\":{\"name\":");
        rx_put_text(s, p->name, p->n_name);
        rx_str_puts(s, ",\"arguments\":");
        rx_str_add(s, p->arguments, p->n_arguments);
        rx_str_puts(s, "}}]");
    }
    rx_str_puts(s, "}");
}

/* A complete call, else NULL: partial arguments are not JSON. */
static const rx_call_parts *whole_call(const rx_choice *c, rx_call_parts *p)
{
    const bool whole = c->finish && !strcmp(c->finish, "tool_calls");
    return whole && rx_answer_split_call(c, p) ? p : NULL;
}

static void put_result(const rx_answer *a, const rx_choice *c, rx_str *s)
{
    const int64_t now = rx_now_ns(), first = a->first_ns ? a->first_ns : now;
    const char *reason = !c ? "load" : !strcmp(c->finish, "length") ? "length" : "stop";
    rx_str_printf(s, ",\"done\":true,\"done_reason\":\"%s\",\"total_duration\":%lld", reason,
                  (long long)(now - a->begin_ns));
    if (c)
        rx_str_printf(s, ",\"load_duration\":0,\"prompt_eval_count\":%zu,"
                      "\"prompt_eval_duration\":%lld,\"eval_count\":%zu,\"eval_duration\":%lld",
                      a->n_prompt, (long long)(first - a->begin_ns), a->n_generated,
                      (long long)(now - first));
    rx_str_puts(s, "}");
}

static void put_whole(rx_answer *a, rx_str *s)
{
    const rx_choice *c = a->n_choices ? &a->choices[0] : NULL;
    rx_call_parts p;
    put_head(a, s);
    put_content(a, c && c->text.n ? c->text.data : "", c ? c->text.n : 0,
                c ? whole_call(c, &p) : NULL, s);
    put_result(a, c, s);
}

static void put_begin(rx_answer *a, rx_choice *c, rx_str *out)
{
    (void)a, (void)c, (void)out;
}

static void put_text(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    (void)c;
    if (!n)
        return;
    put_head(a, out);
    put_content(a, text, n, NULL, out);
    rx_str_puts(out, ",\"done\":false}\n");
}

/* Calls are sent complete. */
static void put_call(rx_answer *a, rx_choice *c, rx_str *out)
{
    (void)a, (void)c, (void)out;
}

static void put_finish(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    if (!whole_call(c, &p))
        return;
    put_head(a, out);
    put_content(a, "", 0, &p, out);
    rx_str_puts(out, ",\"done\":false}\n");
}

static void put_end(rx_answer *a, rx_str *out)
{
    put_head(a, out);
    put_content(a, "", 0, NULL, out);
    put_result(a, a->n_choices ? &a->choices[0] : NULL, out);
    rx_str_puts(out, "\n");
}

static void put_error(rx_answer *a, const rx_api_error *e, rx_str *out)
{
    (void)a;
    rx_put_error(out, e, RX_SHAPE_OLLAMA);
    rx_str_puts(out, "\n");
}

const rx_writer rx_writer_ollama = {
    .type = "application/x-ndjson", .id = "ollama-", .begin = put_begin, .text = put_text,
    .call = put_call, .finish = put_finish, .end = put_end, .error = put_error, .whole = put_whole};

/* ---- Models ---------------------------------------------------------------------------------- */

/* The `details` of a model; unknown for models that are not loaded. */
static void put_details(const rx_served *m, rx_str *s)
{
    const bool loaded = rx_served_is_ready(m);
    rx_str_puts(s, ",\"details\":{\"parent_model\":\"\",\"format\":\"gguf\",\"family\":");
    rx_put_string(s, loaded ? m->info.architecture : "");
    rx_str_puts(s, ",\"families\":[");
    if (loaded)
        rx_put_string(s, m->info.architecture);
    rx_str_printf(s, "],\"parameter_size\":\"%.4gM\",\"quantization_level\":\"\"}",
                  loaded ? (double)m->info.parameters * 1e-6 : 0);
}

/* /api/tags: all models; /api/ps, whose kind is OLLAMA_SHOW: those that are loaded. */
void rx_answer_tags(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                    rx_api_error *e)
{
    rx_str *out = &r->body;
    const char *comma = "";
    (void)c, (void)e;
    rx_str_puts(out, "{\"models\":[");
    rx_mutex_lock(&s->lock);
    for (size_t i = 0; i < s->n_models; i++) {
        const rx_served *m = &s->models[i];
        if (kind && !rx_served_is_ready(m))
            continue;
        rx_str_printf(out, "%s{\"name\":", comma);
        rx_put_string(out, m->id);
        rx_str_puts(out, ",\"model\":");
        rx_put_string(out, m->id);
        put_time(out, "modified_at", s->created);
        rx_str_printf(out, ",\"size\":%llu,\"digest\":\"\"", (unsigned long long)m->bytes);
        put_details(m, out);
        rx_str_puts(out, "}");
        comma = ",";
    }
    rx_mutex_unlock(&s->lock);
    rx_str_puts(out, "]}");
}

static void put_show(rx_server *s, const rx_served *m, rx_str *out)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const char *source = t ? rlx_tokenizer_chat_template(t, NULL) : NULL;
    rx_str_puts(out, "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\",\"template\":");
    rx_put_string(out, source ? source : "");
    put_time(out, "modified_at", s->created);
    put_details(m, out);
    rx_str_puts(out, ",\"model_info\":{\"general.architecture\":");
    rx_put_string(out, m->info.architecture);
    rx_str_printf(out, ",\"general.parameter_count\":%lld,\"%s.context_length\":%lld,"
                  "\"%s.embedding_length\":%lld},\"capabilities\":[%s]}",
                  (long long)m->info.parameters, m->info.architecture,
                  (long long)m->info.context, m->info.architecture, (long long)m->info.width,
                  m->info.generates ? "\"completion\",\"tools\"" : "\"embedding\"");
}

void rx_answer_show(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                    rx_api_error *e)
{
    rx_arena a = {0};
    rx_api_request q;
    const bool ok = rx_api_parse(&a, kind, c->body, c->n_body, &q, e);
    rx_served *m = ok ? rx_server_take(s, q.model, e) : NULL;
    if (m)
        put_show(s, m, &r->body);
    rx_server_release(s, m);
    rx_str_finish(&q.unknown);
    rx_arena_finish(&a);
}

void rx_answer_version(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                       rx_api_error *e)
{
    (void)s, (void)c, (void)kind, (void)e;
    rx_str_printf(&r->body, "{\"version\":\"%d.%d.%d\"}", RLX_VERSION_MAJOR, RLX_VERSION_MINOR,
                  RLX_VERSION_PATCH);
}
