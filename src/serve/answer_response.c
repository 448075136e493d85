/* SPDX-License-Identifier: MIT */
/* Answers of OpenAI's /v1/responses: one item, a message or a function call, and the events of its
 * stream. Responses are stored for those that continue them. */
#include <string.h>

#include "serve/answer.h"
#include "serve/json_out.h"

static const char *serial_of(const rx_answer *a)
{
    return a->id + strlen(a->w->id);
}

/* ---- Objects --------------------------------------------------------------------------------- */

static const char *status_of(const rx_answer *a)
{
    const char *finish = a->n_choices ? a->choices[0].finish : NULL;
    return !finish ? "in_progress" : !strcmp(finish, "length") ? "incomplete" : "completed";
}

static void put_part(const rx_choice *c, bool whole, rx_str *s)
{
    rx_str_puts(s, "{\"type\":\"output_text\",\"annotations\":[],\"logprobs\":[],\"text\":");
    rx_put_text(s, whole && c->text.n ? c->text.data : "", whole ? c->text.n : 0);
    rx_str_puts(s, "}");
}

/* The item, complete or as it begins. */
static void put_item(const rx_answer *a, const rx_choice *c, bool whole, rx_str *s)
{
    rx_call_parts p = {0};
    const char *status = whole ? status_of(a) : "in_progress";
    if (c->mode == RX_MODE_CALL && rx_answer_split_call(c, &p)) {
        rx_str_printf(s, "{\"id\":\"fc_%s\",\"type\":\"function_call\",\"status\":\"%s\","
                      "\"call_id\":\"call_%s\",\"name\":", serial_of(a), status, serial_of(a));
        rx_put_text(s, p.name, p.n_name);
        rx_str_puts(s, ",\"arguments\":");
        rx_put_text(s, p.arguments, whole ? p.n_arguments : 0);
        rx_str_puts(s, "}");
        return;
    }
    rx_str_printf(s, "{\"id\":\"msg_%s\",\"type\":\"message\",\"status\":\"%s\","
                  "\"role\":\"assistant\",\"content\":[", serial_of(a), status);
    if (whole)
        put_part(c, true, s);
    rx_str_puts(s, "]}");
}

static void put_given(rx_str *s, const char *name, const rx_json *v, const char *otherwise)
{
    rx_str_printf(s, ",\"%s\":", name);
    if (v)
        rx_put_json(s, v);
    else
        rx_str_puts(s, otherwise);
}

static void put_settings(const rx_answer *a, rx_str *s)
{
    static const char *const choices[] = {"\"auto\"", "\"none\"", "\"required\""};
    const rx_api_request *r = &a->r;
    rx_str_puts(s, ",\"instructions\":");
    rx_put_string(s, r->system);
    rx_str_puts(s, ",\"previous_response_id\":");
    rx_put_string(s, r->previous);
    if (r->max_tokens > 0)
        rx_str_printf(s, ",\"max_output_tokens\":%lld", (long long)r->max_tokens);
    else
        rx_str_puts(s, ",\"max_output_tokens\":null");
    put_given(s, "metadata", r->metadata, "{}");
    put_given(s, "tools", r->given_tools, "[]");
    put_given(s, "tool_choice", r->given_choice, choices[r->choice]);
    put_given(s, "text", r->given_text, "{\"format\":{\"type\":\"text\"}}");
    rx_str_puts(s, ",\"temperature\":");
    rx_put_number(s, r->temperature);
    rx_str_puts(s, ",\"top_p\":");
    rx_put_number(s, r->top_p);
    rx_str_printf(s, ",\"parallel_tool_calls\":false,\"truncation\":\"disabled\",\"store\":%s,"
                  "\"reasoning\":{\"effort\":null,\"summary\":null}",
                  r->no_store ? "false" : "true");
}

static void put_response(const rx_answer *a, rx_str *s)
{
    const bool over = a->choices[0].finish != NULL;
    const bool cut = over && !strcmp(a->choices[0].finish, "length");
    rx_str_printf(s, "{\"id\":\"%s\",\"object\":\"response\",\"created_at\":%lld,\"status\":\"%s\","
                  "\"error\":null,\"incomplete_details\":%s,\"model\":", a->id,
                  (long long)a->created, status_of(a),
                  cut ? "{\"reason\":\"max_output_tokens\"}" : "null");
    rx_put_string(s, a->m->id);
    rx_str_puts(s, ",\"output\":[");
    if (over)
        put_item(a, &a->choices[0], true, s);
    rx_str_puts(s, "]");
    put_settings(a, s);
    if (over)
        rx_str_printf(s, ",\"usage\":{\"input_tokens\":%zu,\"input_tokens_details\":"
                      "{\"cached_tokens\":%zu},\"output_tokens\":%zu,\"output_tokens_details\":"
                      "{\"reasoning_tokens\":0},\"total_tokens\":%zu}}", a->n_prompt,
                      rx_answer_cached(a), a->n_generated, a->n_prompt + a->n_generated);
    else
        rx_str_puts(s, ",\"usage\":null}");
}

static void put_whole(rx_answer *a, rx_str *s)
{
    put_response(a, s);
    rx_answer_keep(a, s);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void begin_event(rx_answer *a, const char *name, rx_str *out)
{
    rx_str_printf(out, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%zu", name, name,
                  a->n_events++);
}

static void end_event(rx_str *out)
{
    rx_str_puts(out, "}\n\n");
}

static void put_state(rx_answer *a, const char *name, rx_str *out)
{
    begin_event(a, name, out);
    rx_str_puts(out, ",\"response\":");
    put_response(a, out);
    end_event(out);
}

static void put_begin(rx_answer *a, rx_choice *c, rx_str *out)
{
    (void)c;
    put_state(a, "response.created", out);
    put_state(a, "response.in_progress", out);
}

static void put_item_event(rx_answer *a, rx_choice *c, bool whole, rx_str *out)
{
    begin_event(a, whole ? "response.output_item.done" : "response.output_item.added", out);
    rx_str_puts(out, ",\"output_index\":0,\"item\":");
    put_item(a, c, whole, out);
    end_event(out);
}

/* The fields common to events of text and arguments. */
static void put_place(const rx_answer *a, const rx_choice *c, rx_str *out)
{
    const bool call = c->mode == RX_MODE_CALL;
    rx_str_printf(out, ",\"item_id\":\"%s_%s\",\"output_index\":0", call ? "fc" : "msg",
                  serial_of(a));
    rx_str_puts(out, call ? "" : ",\"content_index\":0");
}

static void put_part_event(rx_answer *a, rx_choice *c, bool whole, rx_str *out)
{
    begin_event(a, whole ? "response.content_part.done" : "response.content_part.added", out);
    put_place(a, c, out);
    rx_str_puts(out, ",\"part\":");
    put_part(c, whole, out);
    end_event(out);
}

static void open_item(rx_answer *a, rx_choice *c, rx_str *out)
{
    if (c->opened)
        return;
    c->opened = true;
    put_item_event(a, c, false, out);
    if (c->mode != RX_MODE_CALL)
        put_part_event(a, c, false, out);
}

static void put_text(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    if (!n)
        return;
    open_item(a, c, out);
    begin_event(a, "response.output_text.delta", out);
    put_place(a, c, out);
    rx_str_puts(out, ",\"logprobs\":[],\"delta\":");
    rx_put_text(out, text, n);
    end_event(out);
}

static void put_call(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    if (!rx_answer_split_call(c, &p))
        return;
    open_item(a, c, out);
    if (p.n_arguments <= c->call_sent)
        return;
    begin_event(a, "response.function_call_arguments.delta", out);
    put_place(a, c, out);
    rx_str_puts(out, ",\"delta\":");
    rx_put_text(out, p.arguments + c->call_sent, p.n_arguments - c->call_sent);
    end_event(out);
    c->call_sent = p.n_arguments;
}

static void put_finish(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    open_item(a, c, out);
    if (c->mode == RX_MODE_CALL) {
        begin_event(a, "response.function_call_arguments.done", out);
        put_place(a, c, out);
        const bool named = rx_answer_split_call(c, &p);
        rx_str_puts(out, ",\"name\":");
        rx_put_text(out, named ? p.name : "", named ? p.n_name : 0);
        rx_str_puts(out, ",\"arguments\":");
        rx_put_text(out, named ? p.arguments : "", named ? p.n_arguments : 0);
        end_event(out);
    } else {
        begin_event(a, "response.output_text.done", out);
        put_place(a, c, out);
        rx_str_puts(out, ",\"logprobs\":[],\"text\":");
        rx_put_text(out, c->text.n ? c->text.data : "", c->text.n);
        end_event(out);
        put_part_event(a, c, true, out);
    }
    put_item_event(a, c, true, out);
}

static void put_end(rx_answer *a, rx_str *out)
{
    rx_str body = {0};
    const bool cut = !strcmp(status_of(a), "incomplete");
    put_response(a, &body);
    rx_answer_keep(a, &body);
    begin_event(a, cut ? "response.incomplete" : "response.completed", out);
    rx_str_puts(out, ",\"response\":");
    rx_str_add(out, body.n ? body.data : "", body.n);
    end_event(out);
    out->failed |= body.failed;
    rx_str_finish(&body);
}

static void put_error(rx_answer *a, const rx_api_error *e, rx_str *out)
{
    begin_event(a, "error", out);
    rx_str_puts(out, ",\"code\":");
    rx_put_string(out, e->code ? e->code : e->type);
    rx_str_puts(out, ",\"message\":");
    rx_put_string(out, e->message);
    rx_str_puts(out, ",\"param\":");
    rx_put_string(out, e->param[0] ? e->param : NULL);
    end_event(out);
}

const rx_writer rx_writer_response = {
    .type = "text/event-stream", .id = "resp_", .keeps_text = true, .begin = put_begin,
    .text = put_text, .call = put_call, .finish = put_finish, .end = put_end, .error = put_error,
    .whole = put_whole};

/* ---- Kept responses -------------------------------------------------------------------------- */

void rx_answer_response(rx_server *s, const rx_call *c, rx_api_kind kind, rx_reply *r,
                        rx_api_error *e)
{
    const bool gone = !strcmp(c->method, "DELETE");
    (void)kind;
    if (gone ? !rx_history_remove(s->history, c->rest)
             : !rx_history_body(s->history, c->rest, &r->body)) {
        rx_api_fail_as(e, 404, "response_not_found", "there is no response '%.60s' here", c->rest);
    } else if (gone) {
        rx_str_puts(&r->body, "{\"id\":");
        rx_put_string(&r->body, c->rest);
        rx_str_puts(&r->body, ",\"object\":\"response\",\"deleted\":true}");
    }
}
