/* SPDX-License-Identifier: MIT */
/* Prompts: tokenised texts, conversations in the model's chat template, tools in them. */
#include <string.h>

#include "base/mem.h"
#include "model/template.h"
#include "serve/json_out.h"
#include "serve/server.h"

bool rx_api_fail_status(rx_api_error *e, rlx_status st, const rlx_error *err)
{
    const bool client = st == RLX_INVALID || st == RLX_PARSE || st == RLX_UNSUPPORTED;
    if (st == RLX_TIMEOUT)
        return rx_api_fail_as(e, 429, "queue_full", "%s", err->text);
    return rx_api_fail_as(e, client ? 400 : 500, NULL, "%s",
                          err->text[0] ? err->text : rlx_status_name(st));
}

bool rx_encode(const rx_served *m, const char *text, size_t n, bool special, int32_t **ids,
               size_t *n_ids, rx_api_error *e)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    rlx_error err = {0};
    rlx_token_list list = {.n = n + 8};
    rlx_status st;
    *ids = NULL;
    *n_ids = 0;
    if (!t)
        return rx_api_fail_as(e, 400, NULL, "the model has no tokenizer");
    const int32_t bos = rlx_tokenizer_special(t, RLX_SPECIAL_BOS);
    const char *mark = bos >= 0 ? rlx_token_text(t, bos, NULL) : NULL;
    /* a chat template may have written it already */
    const bool begins = special && mark && n >= strlen(mark) && !memcmp(text, mark, strlen(mark));
    const unsigned flags = special ? RLX_ENCODE_PARSE_SPECIAL |
                                     (begins ? 0u : RLX_ENCODE_ADD_SPECIAL) : 0u;
    do {
        list.cap = list.n;
        rx_free(list.ids);
        list.ids = rx_alloc_array(list.cap, sizeof *list.ids);
        if (!list.ids)
            return rx_api_fail_as(e, 500, "out_of_memory", "out of memory");
        st = rlx_tokenizer_encode(t, text, n, flags, &list, &err);
    } while (st == RLX_OK && list.n > list.cap);
    if (st != RLX_OK) {
        rx_free(list.ids);
        return rx_api_fail_status(e, st, &err);
    }
    if ((flags & RLX_ENCODE_ADD_SPECIAL) && rlx_tokenizer_adds_end(t) && list.n)
        list.n--; /* the text continues */
    *ids = list.ids;
    *n_ids = list.n;
    return true;
}

bool rx_fill_prompt(const rx_served *m, const rx_api_text *before, const char *after, char **text,
                    rx_api_error *e)
{
    static const char *const marks[][3] = {
        {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, /* Qwen, CodeGemma */
        {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       /* StarCoder, Granite */
        {"<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>",
         "<\uff5cfim\u2581end\uff5c>"},                        /* DeepSeek */
    };
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const size_t n_marks = sizeof marks / sizeof marks[0];
    size_t i = 0;
    while (t && i < n_marks && rlx_token_find(t, marks[i][0], strlen(marks[i][0])) < 0)
        i++;
    if (!t || i == n_marks)
        return rx_api_fail(e, "suffix", "'suffix': model '%s' has no tokens that mark a gap "
                           "(<|fim_prefix|>, ...)", m->id);
    rx_str s = {0};
    rx_str_puts(&s, marks[i][0]);
    rx_str_add(&s, before->text, before->length);
    rx_str_printf(&s, "%s%s%s", marks[i][1], after, marks[i][2]);
    if (s.failed) {
        rx_str_finish(&s);
        return rx_api_fail_as(e, 500, "out_of_memory", "out of memory");
    }
    *text = s.data;
    return true;
}

/* ---- Tools ----------------------------------------------------------------------------------- */

/* The template supports tools: they are passed as a variable. */
static bool render_with_tools(const rx_served *m, const rx_api_request *r, const char *source,
                              char **text, rx_api_error *e)
{
    rx_arena a = {0};
    rx_json tools = *r->tools_json;
    const rx_json extra = {.kind = RX_JSON_OBJECT, .first = &tools, .n = 1};
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const int32_t bos = rlx_tokenizer_special(t, RLX_SPECIAL_BOS);
    const int32_t eos = rlx_tokenizer_special(t, RLX_SPECIAL_EOS);
    rx_template_message *list = rx_arena_array(&a, r->n_messages, sizeof *list);
    rx_chat_template *template = NULL;
    rlx_error err = {0};
    size_t length;
    tools.key = "tools";
    tools.key_length = 5;
    tools.next = NULL;
    for (size_t i = 0; list && i < r->n_messages; i++)
        list[i] = (rx_template_message){r->messages[i].role, r->messages[i].content};
    const rx_template_chat chat = {.messages = list, .n_messages = r->n_messages,
                                   .add_generation_prompt = true,
                                   .bos_token = bos >= 0 ? rlx_token_text(t, bos, NULL) : NULL,
                                   .eos_token = eos >= 0 ? rlx_token_text(t, eos, NULL) : NULL,
                                   .extra = &extra};
    rlx_status st = list ? rx_template_parse(source, strlen(source), &template, &err)
                         : RLX_NO_MEMORY;
    if (st == RLX_OK)
        st = rx_template_render_chat(template, &chat, text, &length, &err);
    rx_template_free(template);
    rx_arena_finish(&a);
    return st == RLX_OK || rx_api_fail_status(e, st, &err);
}

/* Otherwise they are described to the model before all messages. */
static void describe_tools(const rx_api_request *r, const char *system, rx_str *s)
{
    if (system)
        rx_str_printf(s, "%s\n\n", system);
    rx_str_puts(s, "You may call one of these functions:\n<tools>\n");
    for (const rx_json *t = r->tools_json->first; t; t = t->next) {
        rx_put_json(s, t);
        rx_str_puts(s, "\n");
    }
    rx_str_puts(s, "</tools>\nTo call one, answer with nothing but\n<tool_call>\n{\"name\": NAME, "
                   "\"arguments\": ARGUMENTS}\n</tool_call>");
}

/* Rewrites messages that the template does not support. */
static bool rewrite(const rx_served *m, const rx_api_request *r, rx_arena *a, rlx_message *out,
                    size_t *n)
{
    const bool described = r->n_tools && r->choice != RX_TOOLS_NONE;
    const bool has_system = !strcmp(r->messages[0].role, "system");
    *n = 0;
    if (described) {
        rx_str s = {0};
        describe_tools(r, has_system ? r->messages[0].content : NULL, &s);
        const char *text = s.failed ? NULL : rx_arena_strdup(a, s.data);
        rx_str_finish(&s);
        if (!text)
            return false;
        out[(*n)++] = (rlx_message){"system", text};
    }
    for (size_t i = described && has_system ? 1 : 0; i < r->n_messages; i++) {
        rlx_message v = r->messages[i];
        if (!m->knows_tool_role && (!strcmp(v.role, "tool") || !strcmp(v.role, "function"))) {
            rx_str s = {0};
            rx_str_printf(&s, "<tool_response>\n%s\n</tool_response>", v.content);
            v = (rlx_message){"user", s.failed ? NULL : rx_arena_strdup(a, s.data)};
            rx_str_finish(&s);
            if (!v.content)
                return false;
        }
        out[(*n)++] = v;
    }
    return true;
}

bool rx_chat_prompt(const rx_served *m, const rx_api_request *r, char **text, rx_api_error *e)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m->model);
    const char *source = t ? rlx_tokenizer_chat_template(t, NULL) : NULL;
    rx_arena a = {0};
    rlx_error err = {0};
    size_t n;
    *text = NULL;
    if (source && m->knows_tools && r->n_tools && r->choice != RX_TOOLS_NONE)
        return render_with_tools(m, r, source, text, e);
    rlx_message *list = rx_arena_array(&a, r->n_messages + 1, sizeof *list);
    rlx_status st = list && rewrite(m, r, &a, list, &n) ? RLX_OK : RLX_NO_MEMORY;
    if (st == RLX_OK)
        st = rlx_chat_format(m->model, list, n, true, text, &err);
    rx_arena_finish(&a);
    return st == RLX_OK || rx_api_fail_status(e, st, &err);
}
