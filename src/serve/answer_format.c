/* SPDX-License-Identifier: MIT */
/* Answers of /v1/chat/completions and /v1/completions: JSON objects, and server-sent events with
 * parts of them. */
#include <math.h>
#include <string.h>

#include "serve/answer.h"
#include "serve/json_out.h"

static bool is_chat(const rx_answer *a)
{
    return a->r.kind == RX_API_CHAT;
}

/* ---- Log-probabilities ----------------------------------------------------------------------- */

/* The bytes of a token. */
static size_t token_bytes(const rx_answer *a, int32_t id, char *out, size_t cap)
{
    rlx_text text = {out, cap, 0};
    if (rlx_tokenizer_decode(rlx_model_tokenizer(a->m->model), &id, 1, 0, &text, NULL) != RLX_OK)
        return 0;
    return text.n < cap ? text.n : cap;
}

static void put_chat_prob(const rx_answer *a, int32_t id, double log_prob, rx_str *s)
{
    char bytes[256];
    const size_t n = token_bytes(a, id, bytes, sizeof bytes);
    rx_str_puts(s, "{\"token\":");
    rx_put_text(s, bytes, n);
    rx_str_puts(s, ",\"logprob\":");
    rx_put_number(s, log_prob > -9999 ? log_prob : -9999);
    rx_str_puts(s, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++)
        rx_str_printf(s, "%s%u", i ? "," : "", (unsigned char)bytes[i]);
    rx_str_puts(s, "]");
}

static void add_chat_prob(rx_answer *a, rx_choice *c, const rx_backend_piece *p)
{
    rx_str *s = &c->probs[0];
    rx_str_puts(s, s->n ? "," : "");
    put_chat_prob(a, p->token, p->log_prob, s);
    rx_str_puts(s, ",\"top_logprobs\":[");
    for (size_t i = 0; i < p->n_best; i++) {
        rx_str_puts(s, i ? "," : "");
        put_chat_prob(a, p->best[i].token, p->best[i].log_prob, s);
        rx_str_puts(s, "}");
    }
    rx_str_puts(s, "]}");
}

static void add_completion_prob(rx_answer *a, rx_choice *c, const rx_backend_piece *p)
{
    char bytes[256];
    const char *comma = c->probs[0].n ? "," : "";
    for (size_t i = 0; i < 4; i++)
        rx_str_puts(&c->probs[i], comma);
    rx_put_text(&c->probs[0], bytes, token_bytes(a, p->token, bytes, sizeof bytes));
    rx_put_number(&c->probs[1], p->log_prob > -9999 ? p->log_prob : -9999);
    rx_str_puts(&c->probs[2], "{");
    for (size_t i = 0; i < p->n_best; i++) {
        rx_str_puts(&c->probs[2], i ? "," : "");
        rx_put_text(&c->probs[2], bytes, token_bytes(a, p->best[i].token, bytes, sizeof bytes));
        rx_str_puts(&c->probs[2], ":");
        rx_put_number(&c->probs[2], p->best[i].log_prob);
    }
    rx_str_puts(&c->probs[2], "}");
    rx_str_printf(&c->probs[3], "%zu", c->length);
}

void rx_answer_add_probs(rx_answer *a, rx_choice *c, const rx_backend_piece *p)
{
    if (!a->r.log_probs || p->token < 0)
        return;
    if (is_chat(a))
        add_chat_prob(a, c, p);
    else
        add_completion_prob(a, c, p);
}

static const char *text_of(const rx_str *s)
{
    return s->n ? s->data : "";
}

/* The accumulated probabilities, or null. */
static void put_probs(const rx_answer *a, const rx_choice *c, rx_str *s)
{
    static const char *const names[] = {"tokens", "token_logprobs", "top_logprobs", "text_offset"};
    rx_str_puts(s, ",\"logprobs\":");
    if (!a->r.log_probs) {
        rx_str_puts(s, "null");
    } else if (is_chat(a)) {
        rx_str_printf(s, "{\"content\":[%s],\"refusal\":null}", text_of(&c->probs[0]));
    } else {
        for (size_t i = 0; i < 4; i++)
            rx_str_printf(s, "%c\"%s\":[%s]", i ? ',' : '{', names[i], text_of(&c->probs[i]));
        rx_str_puts(s, "}");
    }
}

void rx_answer_drop_probs(rx_choice *c)
{
    for (size_t i = 0; i < 4; i++)
        c->probs[i].n = 0;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void put_head(const rx_answer *a, bool chunk, rx_str *s)
{
    rx_str_printf(s, "{\"id\":\"%s\",\"object\":\"%s%s\",\"created\":%lld,\"model\":", a->id,
                  is_chat(a) ? "chat.completion" : "text_completion",
                  chunk && is_chat(a) ? ".chunk" : "", (long long)a->created);
    rx_put_string(s, a->m->id);
    rx_str_puts(s, ",\"system_fingerprint\":null");
}

/* Choices of the same prompt find it again: limited to its length. */
size_t rx_answer_cached(const rx_answer *a)
{
    return a->n_cached < a->n_prompt ? a->n_cached : a->n_prompt;
}

static void put_usage(const rx_answer *a, rx_str *s)
{
    rx_str_printf(s, ",\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":%zu,"
                  "\"total_tokens\":%zu,\"prompt_tokens_details\":{\"cached_tokens\":%zu}}",
                  a->n_prompt, a->n_generated, a->n_prompt + a->n_generated, rx_answer_cached(a));
}

bool rx_answer_split_call(const rx_choice *c, rx_call_parts *out)
{
    static const char begin[] = "{\"name\":\"", middle[] = "\",\"arguments\":";
    const size_t m = sizeof begin - 1, k = sizeof middle - 1;
    const char *text = text_of(&c->call);
    const char *found = c->call.n > m ? strstr(text + m, middle) : NULL;
    if (!found)
        return false;
    out->name = text + m;
    out->n_name = (size_t)(found - out->name);
    out->arguments = found + k;
    out->n_arguments = c->call.n - (size_t)(out->arguments - text);
    /* the closing brace of the call is not part of the arguments; it is missing when truncated */
    const bool whole = c->finish && !strcmp(c->finish, "tool_calls");
    if (out->n_arguments && (whole || !c->finish))
        --out->n_arguments;
    return true;
}

static void put_call_head(const rx_answer *a, const rx_choice *c, const rx_call_parts *p,
                          rx_str *s)
{
    rx_str_printf(s, "\"id\":\"call_%s_%zu\",\"type\":\"function\",\"function\":{\"name\":",
                  a->id + strlen(a->w->id), (size_t)(c - a->choices));
    rx_put_text(s, p->name, p->n_name);
    rx_str_puts(s, ",\"arguments\":");
}

/* ---- Streams --------------------------------------------------------------------------------- */

static void begin_chunk(const rx_answer *a, const rx_choice *c, rx_str *out)
{
    rx_str_puts(out, "data: ");
    put_head(a, true, out);
    rx_str_printf(out, ",\"choices\":[{\"index\":%zu,%s", (size_t)(c - a->choices),
                  is_chat(a) ? "\"delta\":{" : "");
}

static void end_chunk(const rx_answer *a, rx_choice *c, const char *finish, rx_str *out)
{
    rx_str_puts(out, is_chat(a) ? "}" : "");
    put_probs(a, c, out);
    rx_answer_drop_probs(c);
    rx_str_puts(out, ",\"finish_reason\":");
    rx_put_string(out, finish);
    rx_str_puts(out, a->r.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n");
}

static void put_begin(rx_answer *a, rx_choice *c, rx_str *out)
{
    if (!is_chat(a))
        return;
    begin_chunk(a, c, out);
    rx_str_puts(out, "\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                     "\"finish_reason\":null}]");
    rx_str_puts(out, a->r.include_usage ? ",\"usage\":null}\n\n" : "}\n\n");
}

static void put_text(rx_answer *a, rx_choice *c, const char *text, size_t n, rx_str *out)
{
    if (!n)
        return;
    begin_chunk(a, c, out);
    rx_str_puts(out, is_chat(a) ? "\"content\":" : "\"text\":");
    rx_put_text(out, text, n);
    end_chunk(a, c, NULL, out);
}

static void put_call(rx_answer *a, rx_choice *c, rx_str *out)
{
    rx_call_parts p;
    if (!rx_answer_split_call(c, &p))
        return;
    if (!c->opened) {
        begin_chunk(a, c, out);
        rx_str_puts(out, "\"tool_calls\":[{\"index\":0,");
        put_call_head(a, c, &p, out);
        rx_str_puts(out, "\"\"}}]");
        end_chunk(a, c, NULL, out);
        c->opened = true;
    }
    if (p.n_arguments <= c->call_sent)
        return;
    begin_chunk(a, c, out);
    rx_str_puts(out, "\"tool_calls\":[{\"index\":0,\"function\":{\"arguments\":");
    rx_put_text(out, p.arguments + c->call_sent, p.n_arguments - c->call_sent);
    rx_str_puts(out, "}}]");
    end_chunk(a, c, NULL, out);
    c->call_sent = p.n_arguments;
}

static void put_finish(rx_answer *a, rx_choice *c, rx_str *out)
{
    begin_chunk(a, c, out);
    rx_str_puts(out, is_chat(a) ? "" : "\"text\":\"\"");
    end_chunk(a, c, c->finish, out);
}

static void put_end(rx_answer *a, rx_str *out)
{
    if (a->r.include_usage) {
        rx_str_puts(out, "data: ");
        put_head(a, true, out);
        rx_str_puts(out, ",\"choices\":[]");
        put_usage(a, out);
        rx_str_puts(out, "}\n\n");
    }
    rx_str_puts(out, "data: [DONE]\n\n");
}

static void put_error(rx_answer *a, const rx_api_error *e, rx_str *out)
{
    (void)a;
    rx_str_puts(out, "data: ");
    rx_put_error(out, e, RX_SHAPE_OPENAI);
    rx_str_puts(out, "\n\n");
}

/* ---- Whole answers --------------------------------------------------------------------------- */

static void put_message(const rx_answer *a, const rx_choice *c, rx_str *s)
{
    rx_call_parts p;
    rx_str_puts(s, ",\"message\":{\"role\":\"assistant\",\"content\":");
    if (c->mode == RX_MODE_CALL && rx_answer_split_call(c, &p)) {
        rx_str_puts(s, "null,\"refusal\":null,\"tool_calls\":[{");
        put_call_head(a, c, &p, s);
        rx_put_text(s, p.arguments, p.n_arguments);
        rx_str_puts(s, "}}]}");
        return;
    }
    rx_put_text(s, text_of(&c->text), c->text.n);
    rx_str_puts(s, ",\"refusal\":null}");
}

static void put_whole(rx_answer *a, rx_str *s)
{
    put_head(a, false, s);
    rx_str_puts(s, ",\"choices\":[");
    for (size_t i = 0; i < a->n_choices; i++) {
        const rx_choice *c = &a->choices[i];
        rx_str_printf(s, "%s{\"index\":%zu", i ? "," : "", i);
        if (is_chat(a)) {
            put_message(a, c, s);
        } else {
            rx_str_puts(s, ",\"text\":");
            rx_put_text(s, text_of(&c->text), c->text.n);
        }
        put_probs(a, c, s);
        rx_str_puts(s, ",\"finish_reason\":");
        rx_put_string(s, c->finish);
        rx_str_puts(s, "}");
    }
    rx_str_puts(s, "]");
    put_usage(a, s);
    rx_str_puts(s, "}");
}

const rx_writer rx_writer_chat = {
    .type = "text/event-stream", .id = "chatcmpl-", .begin = put_begin, .text = put_text,
    .call = put_call, .finish = put_finish, .end = put_end, .error = put_error, .whole = put_whole};
const rx_writer rx_writer_completion = {
    .type = "text/event-stream", .id = "cmpl-", .begin = put_begin, .text = put_text,
    .call = put_call, .finish = put_finish, .end = put_end, .error = put_error, .whole = put_whole};
