/* SPDX-License-Identifier: MIT */
/* Answers of Anthropic's /v1/messages: a message of one block, text or the use of a tool, and the
 * events of its stream. */
#include <string.h>

#include "serve/answer.h"
#include "serve/json_out.h"

static const char *reason_of(const rx_choice *c)
{
    return c->mode == RX_MODE_CALL && !strcmp(c->finish, "tool_calls") ? "tool_use"
           : !strcmp(c->finish, "length") ? "max_tokens"
           : c->stopped ? "stop_sequence" : "end_turn";
}

static void put_reason(const rx_answer *a, const rx_choice *c, rx_str *s)
{
    rx_str_printf(s, "\"stop_reason\":\"%s\",\"stop_sequence\":", reason_of(c));
    /* The API does not tell which of several stop strings it was. */
    rx_put_string(s, c->stopped && a->r.n_stop == 1 ? a->r.stop[0] : NULL);
}

static void put_use_head(const rx_answer *a, const rx_call_parts *p, rx_str *s)
{
    rx_str_printf(s, "{\"type\":\"tool_use\",\"id\":\"toolu_%s\",\"name\":",
                  a->id + strlen(a->w->id));
    rx_put_text(s, p->name, p->n_name);
}

static void put_head(const rx_answer *a, rx_str *s)
{
    rx_str_printf(s, "{\"id\":\"%s\",\"type\":\"message\",\"role\":\"assistant\",\"model\":",
                  a->id);
    rx_put_string(s, a->m->id);
}

/* Usage as Anthropic counts it: cached prompt tokens apart. */
static void put_usage(const rx_answer *a, rx_str *s)
{
    const size_t cached = rx_answer_cached(a);
    rx_str_printf(s, ",\"usage\":{\"input_tokens\":%zu,\"cache_creation_input_tokens\":0,"
                  "\"cache_read_input_tokens\":%zu,\"output_tokens\":%zu}", a->n_prompt - cached,
                  cached, a->n_generated);
}

static void put_whole(rx_answer *a, rx_str *s)
{
    const rx_choice *c = &a->choices[0];
    rx_call_parts p;
    put_head(a, s);
    rx_str_puts(s, ",\"content\":[");
    if (c->mode != RX_MODE_CALL || !rx_answer_split_call(c, &p)) {
        rx_str_puts(s, "{\"type\":\"text\",\"text\":");
        rx_put_text(s, c->text.n ? c->text.data : "", c->text.n);
        rx_str_puts(s, "}");
    } else {
        const bool cut = !strcmp(c->finish, "length"); /* truncated: not a complete object */
        put_use_head(a, &p, s);
        rx_str_puts(s, ",\"input\":");
        rx_str_add(s, cut ? "{}" : p.arguments, cut ? 2 : p.n_arguments);
        rx_str_puts(s, "}");
    }
    rx_str_puts(s, "],");
    put_reason(a, c, s);
    put_usage(a, s);
    rx_str_puts(s, "}");
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void begin_event(const char *name, rx_str *out)
{
    rx_str_printf(out, "event: %s\ndata: {\"type\":\"%s\"", name, name);
}

static void put_begin(rx_answer *a, rx_choice *c, rx_str *out)
{
    (void)c;
    begin_event("message_start", out);
    rx_str_puts(out, ",\"message\":");
    put_head(a, out);
    rx_str_puts(out, ",\"content\":[],\"stop_reason\":null,\"stop_sequence\":null");
    put_usage(a, out);
    rx_str_puts(out, "}}\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n");
}

static void open_block(const rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    if (c->opened)
        return;
    c->opened = true;
    begin_event("content_block_start", out);
    rx_str_puts(out, ",\"index\":0,\"content_block\":");
    if (c->mode == RX_MODE_CALL && rx_answer_split_call(c, &p)) {
        put_use_head(a, &p, out);
        rx_str_puts(out, ",\"input\":{}}}\n\n");
    } else {
        rx_str_puts(out, "{\"type\":\"text\",\"text\":\"\"}}\n\n");
    }
}

static void put_delta(const char *type, const char *member, const char *text, size_t n, rx_str *out)
{
    begin_event("content_block_delta", out);
    rx_str_printf(out, ",\"index\":0,\"delta\":{\"type\":\"%s\",\"%s\":", type, member);
    rx_put_text(out, text, n);
    rx_str_puts(out, "}}\n\n");
}

static void put_text(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    if (!n)
        return;
    open_block(a, c, out);
    put_delta("text_delta", "text", text, n, out);
}

static void put_call(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    if (!rx_answer_split_call(c, &p))
        return;
    open_block(a, c, out);
    if (p.n_arguments <= c->call_sent)
        return;
    put_delta("input_json_delta", "partial_json", p.arguments + c->call_sent,
              p.n_arguments - c->call_sent, out);
    c->call_sent = p.n_arguments;
}

static void put_finish(rx_answer *a, rx_choice *c, rx_str *out)
{
    open_block(a, c, out);
    begin_event("content_block_stop", out);
    rx_str_puts(out, ",\"index\":0}\n\n");
    begin_event("message_delta", out);
    rx_str_puts(out, ",\"delta\":{");
    put_reason(a, c, out);
    rx_str_puts(out, "}");
    put_usage(a, out);
    rx_str_puts(out, "}\n\n");
}

static void put_end(rx_answer *a, rx_str *out)
{
    (void)a;
    begin_event("message_stop", out);
    rx_str_puts(out, "}\n\n");
}

static void put_error(rx_answer *a, const rx_api_error *e, rx_str *out)
{
    (void)a;
    rx_str_puts(out, "event: error\ndata: ");
    rx_put_error(out, e, RX_SHAPE_ANTHROPIC);
    rx_str_puts(out, "\n\n");
}

const rx_writer rx_writer_message = {
    .type = "text/event-stream", .id = "msg_", .begin = put_begin, .text = put_text,
    .call = put_call, .finish = put_finish, .end = put_end, .error = put_error, .whole = put_whole};
