/* SPDX-License-Identifier: MIT */
/* Examples from files: JSON Lines with conversations or texts, or plain text in pieces. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "import/json.h"
#include "model/train.h"

typedef struct reader {
    const rlx_model *m;
    rx_examples *out;
    const char *path;
    size_t line; /* from 1; 0: plain text */
} reader;

/* ---- Examples -------------------------------------------------------------------------------- */

static rlx_status add_example(reader *r, const int32_t *tokens, const bool *counts, size_t n,
                              rlx_error *err)
{
    rx_examples *out = r->out;
    size_t counted = 0;
    for (size_t i = 1; i < n; i++)
        counted += counts[i];
    if (!counted)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has no tokens to learn from", r->path,
                       r->line);
    if (n > (size_t)r->m->build.context)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has %zu tokens; the context holds "
                       "%lld (rlx_model_desc.context, --ctx)", r->path, r->line, n,
                       (long long)r->m->build.context);
    rx_example e = {.tokens = rx_arena_array_zero(&out->arena, n, sizeof *tokens),
                    .counts = rx_arena_array_zero(&out->arena, n, sizeof *counts), .n = n};
    if (!e.tokens || !e.counts || !rx_grow(&out->list, &out->cap, out->n + 1, sizeof e))
        return rx_fail_memory(err, "the examples", n * sizeof *tokens);
    memcpy(e.tokens, tokens, n * sizeof *tokens);
    memcpy(e.counts, counts, n * sizeof *counts);
    e.counts[0] = false;
    out->list[out->n++] = e;
    out->longest = n > out->longest ? n : out->longest;
    return RLX_OK;
}

/* ---- Conversations --------------------------------------------------------------------------- */

static rlx_status encode_chat(const reader *r, const rlx_message *list, size_t n, bool reply,
                              int32_t **ids, size_t *n_ids, rlx_error *err)
{
    char *text = NULL;
    *ids = NULL;
    RLX_TRY(rlx_chat_format(r->m, list, n, reply, &text, err));
    const rlx_status st = rx_encode_prompt(r->m->tokenizer, text, true, ids, n_ids, err);
    rlx_free(text);
    return st;
}

/* How many tokens the first messages have in common with all of them. */
static rlx_status count_common(const reader *r, const rlx_message *list, size_t n, bool reply,
                               const int32_t *all, size_t n_all, size_t *common, rlx_error *err)
{
    int32_t *ids;
    size_t n_ids;
    RLX_TRY(encode_chat(r, list, n, reply, &ids, &n_ids, err));
    *common = 0;
    while (*common < n_ids && *common < n_all && ids[*common] == all[*common])
        (*common)++;
    rx_free(ids);
    return RLX_OK;
}

static bool is_answer(const rlx_message *m)
{
    return !strcmp(m->role, "assistant");
}

/* Tokens count from where the assistant begins to speak to the end of its message. */
static rlx_status mark_answers(const reader *r, const rlx_message *list, size_t n,
                               const int32_t *all, size_t n_all, bool *counts, rlx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        size_t begin, end;
        if (!is_answer(&list[i]))
            continue;
        RLX_TRY(count_common(r, list, i, true, all, n_all, &begin, err));
        RLX_TRY(count_common(r, list, i + 1, false, all, n_all, &end, err));
        for (size_t k = begin; k < end; k++)
            counts[k] = true;
    }
    return RLX_OK;
}

static rlx_status add_chat(reader *r, const rlx_message *list, size_t n, rlx_error *err)
{
    int32_t *ids;
    size_t n_ids;
    while (n && !is_answer(&list[n - 1]))
        n--;
    if (!n)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has no message of the assistant",
                       r->path, r->line);
    RLX_TRY(encode_chat(r, list, n, false, &ids, &n_ids, err));
    bool *counts = rx_alloc_zero(n_ids + 1);
    rlx_status st = counts ? RLX_OK : rx_fail_memory(err, "an example", n_ids);
    if (st == RLX_OK)
        st = mark_answers(r, list, n, ids, n_ids, counts, err);
    if (st == RLX_OK)
        st = add_example(r, ids, counts, n_ids, err);
    rx_free(counts);
    rx_free(ids);
    return st;
}

static bool is_text(const rx_json *v)
{
    return v && v->kind == RX_JSON_STRING && !memchr(v->text, 0, v->length);
}

static rlx_status read_chat(reader *r, const rx_json *messages, rlx_error *err)
{
    rlx_message *list = rx_alloc_array_zero(messages->n + 1, sizeof *list);
    rlx_status st = list ? RLX_OK : rx_fail_memory(err, "messages", messages->n);
    size_t n = 0;
    for (const rx_json *v = messages->first; v && st == RLX_OK; v = v->next) {
        const rx_json *role = rx_json_member(v, "role"), *text = rx_json_member(v, "content");
        if (is_text(role) && is_text(text))
            list[n++] = (rlx_message){role->text, text->text};
        else
            st = rx_fail(err, RLX_INVALID, "'%.200s', line %zu: message %zu expected with a role "
                         "and a content that are texts", r->path, r->line, n);
    }
    if (st == RLX_OK)
        st = add_chat(r, list, n, err);
    rx_free(list);
    return st;
}

/* ---- Texts ----------------------------------------------------------------------------------- */

/* The tokens of a text, all of which count, with an end. */
static rlx_status read_text(reader *r, const char *text, rlx_error *err)
{
    const rlx_tokenizer *t = r->m->tokenizer;
    const int32_t end = rlx_tokenizer_special(t, RLX_SPECIAL_EOS);
    const size_t most = (size_t)r->m->build.context;
    int32_t *ids;
    size_t n;
    if (!*text)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has an empty text", r->path, r->line);
    RLX_TRY(rx_encode_prompt(t, text, false, &ids, &n, err));
    int32_t *more = rx_realloc_array(ids, n + 1, sizeof *ids);
    bool *counts = rx_alloc_array(n + 1, sizeof *counts);
    rlx_status st = more && counts ? RLX_OK : rx_fail_memory(err, "the tokens of a text", n);
    ids = more ? more : ids;
    if (st == RLX_OK && end >= 0)
        ids[n++] = end;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        counts[i] = true;
    /* Pieces share a token, so that all but the first are predicted. */
    if (r->line || n <= most) {
        st = st == RLX_OK ? add_example(r, ids, counts, n, err) : st;
    } else {
        for (size_t at = 0; at + 1 < n && st == RLX_OK; at += most - 1)
            st = add_example(r, ids + at, counts, n - at < most ? n - at : most, err);
    }
    rx_free(counts);
    rx_free(ids);
    return st;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static rlx_status read_line(reader *r, const char *text, size_t n, rlx_error *err)
{
    char what[300];
    rx_arena arena = {0};
    const rx_json *v;
    while (n && (text[n - 1] == '\r' || text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    if (!n)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu is empty; expected {\"messages\": [..]"
                       "} or {\"text\": ..}", r->path, r->line);
    snprintf(what, sizeof what, "'%.200s', line %zu", r->path, r->line);
    rlx_status st = rx_json_parse(&arena, what, text, n, &v, err);
    if (st == RLX_OK) {
        const rx_json *messages = rx_json_member(v, "messages"), *one = rx_json_member(v, "text");
        if (messages && messages->kind == RX_JSON_ARRAY)
            st = read_chat(r, messages, err);
        else if (is_text(one))
            st = read_text(r, one->text, err);
        else
            st = rx_fail(err, RLX_INVALID, "%s expected as {\"messages\": [..]} or {\"text\": ..}",
                         what);
    }
    rx_arena_finish(&arena);
    return st;
}

static rlx_status read_lines(reader *r, const char *text, size_t n, rlx_error *err)
{
    for (size_t at = 0; at < n;) {
        const char *end = memchr(text + at, '\n', n - at);
        const size_t length = end ? (size_t)(end - text) - at : n - at;
        r->line++;
        RLX_TRY(read_line(r, text + at, length, err));
        at += length + 1;
    }
    return RLX_OK;
}

static rlx_status read_plain(reader *r, const char *text, size_t n, rlx_error *err)
{
    if (memchr(text, 0, n))
        return rx_fail(err, RLX_INVALID, "'%.200s' is no text: it has a zero byte", r->path);
    char *copy = rx_alloc(n + 1);
    if (!copy)
        return rx_fail_memory(err, r->path, n);
    memcpy(copy, text, n);
    copy[n] = 0;
    const rlx_status st = read_text(r, copy, err);
    rx_free(copy);
    return st;
}

rlx_status rx_examples_read(const rlx_model *m, const char *path, rx_examples *out, rlx_error *err)
{
    rx_file f;
    reader r = {.m = m, .out = out, .path = path};
    const size_t length = strlen(path), end = strlen(".jsonl");
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer", m->path);
    RLX_TRY(rx_file_open(path, &f, err));
    const char *text = (const char *)f.data;
    const bool lines = length > end && !strcmp(path + length - end, ".jsonl");
    rlx_status st = !f.bytes ? rx_fail(err, RLX_INVALID, "'%.200s' is empty: expected examples",
                                       path)
                    : lines ? read_lines(&r, text, f.bytes, err)
                            : read_plain(&r, text, f.bytes, err);
    rx_file_close(&f);
    return st;
}

void rx_examples_finish(rx_examples *e)
{
    rx_free(e->list);
    rx_arena_finish(&e->arena);
    *e = (rx_examples){0};
}
