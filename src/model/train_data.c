/* SPDX-License-Identifier: MIT */
/* Examples from files: JSON Lines with conversations, completions, texts or pairs, or plain text.
 * What is longer than the context is cut: texts into pieces, others at their end. */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/philox.h"
#include "import/json.h"
#include "model/train.h"

typedef struct reader {
    const rlx_model *m;
    rx_examples *out;
    const char *path;
    size_t line; /* from 1; 0: plain text */
} reader;

/* ---- Examples -------------------------------------------------------------------------------- */

static rlx_status add_row(reader *r, const int32_t *tokens, const bool *counts, size_t n,
                          rlx_error *err)
{
    rx_examples *out = r->out;
    rx_example e = {.tokens = rx_arena_array_zero(&out->arena, n, sizeof *tokens),
                    .counts = rx_arena_array_zero(&out->arena, n, sizeof *counts), .n = n};
    if (!e.tokens || !e.counts || !rx_grow(&out->list, &out->cap, out->n + 1, sizeof e))
        return rx_fail_memory(err, "the examples", n * sizeof *tokens);
    memcpy(e.tokens, tokens, n * sizeof *tokens);
    if (counts)
        memcpy(e.counts, counts, n * sizeof *counts);
    e.counts[0] = false;
    out->list[out->n++] = e;
    out->longest = n > out->longest ? n : out->longest;
    return RLX_OK;
}

/* Those of pairs have two or three texts, of which none may be among others. */
static rlx_status check_texts(reader *r, size_t texts, rlx_error *err)
{
    static const char *const names[] = {"", "a text", "a pair", "a pair with \"negative\""};
    if (!r->out->texts)
        r->out->texts = texts;
    if (r->out->texts == texts)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "'%.200s', line %zu is %s; expected %s as in the lines before",
                   r->path, r->line, names[texts], names[r->out->texts]);
}

/* Cut at the end of the context. */
static rlx_status add_example(reader *r, const int32_t *tokens, const bool *counts, size_t n,
                              rlx_error *err)
{
    const size_t most = (size_t)r->m->build.context, kept = n < most ? n : most;
    size_t counted = 0;
    RLX_TRY(check_texts(r, 1, err));
    for (size_t i = 1; i < kept; i++)
        counted += counts[i];
    if (!counted && kept < n)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has %zu tokens, of which the first to "
                       "learn comes behind the %lld of the context (rlx_model_desc.context, --ctx)",
                       r->path, r->line, n, (long long)most);
    if (!counted)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has no tokens to learn from", r->path,
                       r->line);
    r->out->cut += kept < n;
    return add_row(r, tokens, counts, kept, err);
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

/* The common prefix, in tokens, of the first n messages and of the whole conversation. */
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

/* The loss mask: each message of the assistant, with its end. */
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

/* In chunks of the context that overlap by a token, so that all but the first are predicted. */
static rlx_status add_pieces(reader *r, const int32_t *ids, const bool *counts, size_t n,
                             rlx_error *err)
{
    const size_t most = (size_t)r->m->build.context;
    if (n <= most || most < 2)
        return add_example(r, ids, counts, n, err);
    r->out->cut += r->line > 0;
    for (size_t at = 0; at + 1 < n; at += most - 1)
        RLX_TRY(add_example(r, ids + at, counts, n - at < most ? n - at : most, err));
    return RLX_OK;
}

/* The tokens of a text with an end token; those from `first` on are in the loss. */
static rlx_status add_text(reader *r, const char *text, size_t first, rlx_error *err)
{
    const rlx_tokenizer *t = r->m->tokenizer;
    const int32_t end = rlx_tokenizer_special(t, RLX_SPECIAL_EOS);
    int32_t *ids;
    size_t n;
    RLX_TRY(rx_encode_prompt(t, text, false, &ids, &n, err));
    int32_t *more = rx_realloc_array(ids, n + 1, sizeof *ids);
    bool *counts = rx_alloc_array(n + 1, sizeof *counts);
    rlx_status st = more && counts ? RLX_OK : rx_fail_memory(err, "the tokens of a text", n);
    ids = more ? more : ids;
    if (st == RLX_OK && end >= 0)
        ids[n++] = end;
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        counts[i] = i >= first;
    if (st == RLX_OK)
        st = first ? add_example(r, ids, counts, n, err) : add_pieces(r, ids, counts, n, err);
    rx_free(counts);
    rx_free(ids);
    return st;
}

static rlx_status read_text(reader *r, const char *text, rlx_error *err)
{
    if (*text)
        return add_text(r, text, 0, err);
    return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has an empty text", r->path, r->line);
}

/* The loss begins where the tokens differ from those of the prompt alone. */
static rlx_status read_completion(reader *r, const rx_json *prompt, const rx_json *completion,
                                  rlx_error *err)
{
    const rlx_tokenizer *t = r->m->tokenizer;
    const size_t n = prompt->length + completion->length;
    int32_t *ids = NULL, *whole = NULL;
    size_t n_ids = 0, n_whole = 0, common = 0;
    if (!completion->length)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu has an empty completion", r->path,
                       r->line);
    char *both = rx_alloc(n + 1);
    if (!both)
        return rx_fail_memory(err, "an example", n);
    memcpy(both, prompt->text, prompt->length);
    memcpy(both + prompt->length, completion->text, completion->length + 1);
    rlx_status st = rx_encode_prompt(t, prompt->text, false, &ids, &n_ids, err);
    if (st == RLX_OK)
        st = rx_encode_prompt(t, both, false, &whole, &n_whole, err);
    while (common < n_ids && common < n_whole && ids[common] == whole[common])
        common++;
    rx_free(ids);
    rx_free(whole);
    if (st == RLX_OK)
        st = add_text(r, both, common ? common : 1, err);
    rx_free(both);
    return st;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static rlx_status add_pair_text(reader *r, const rx_json *v, rlx_error *err)
{
    const size_t most = (size_t)r->m->max_text;
    const unsigned flags = RLX_ENCODE_ADD_SPECIAL;
    rlx_token_list list = {.ids = rx_alloc_array(most, sizeof(int32_t)), .cap = most};
    if (!list.ids)
        return rx_fail_memory(err, "the tokens of a text", most * sizeof *list.ids);
    rlx_status st = rlx_tokenizer_encode(r->m->tokenizer, v->text, v->length, flags, &list, err);
    if (st == RLX_OK && list.n > most) {
        r->out->cut++;
        st = rlx_tokenizer_encode(r->m->tokenizer, v->text, v->length,
                                  flags | RLX_ENCODE_TRUNCATE, &list, err);
    }
    if (st == RLX_OK && !list.n)
        st = rx_fail(err, RLX_INVALID, "'%.200s', line %zu has a text without tokens", r->path,
                     r->line);
    if (st == RLX_OK)
        st = add_row(r, list.ids, NULL, list.n < most ? list.n : most, err);
    rx_free(list.ids);
    return st;
}

static rlx_status read_pair(reader *r, const rx_json *v, rlx_error *err)
{
    static const char *const keys[] = {"query", "positive", "negative"};
    const size_t texts = rx_json_member(v, keys[2]) ? 3 : 2;
    for (size_t i = 0; i < texts; i++)
        if (!is_text(rx_json_member(v, keys[i])))
            return rx_fail(err, RLX_INVALID, "'%.200s', line %zu expected as {\"query\": .., "
                           "\"positive\": ..}, with \"negative\" or without, of texts", r->path,
                           r->line);
    RLX_TRY(check_texts(r, texts, err));
    for (size_t i = 0; i < texts; i++)
        RLX_TRY(add_pair_text(r, rx_json_member(v, keys[i]), err));
    return RLX_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static rlx_status read_decoder_line(reader *r, const rx_json *v, rlx_error *err)
{
    const rx_json *messages = rx_json_member(v, "messages"), *text = rx_json_member(v, "text");
    const rx_json *prompt = rx_json_member(v, "prompt");
    const rx_json *completion = rx_json_member(v, "completion");
    if (messages && messages->kind == RX_JSON_ARRAY)
        return read_chat(r, messages, err);
    if (is_text(prompt) && is_text(completion))
        return read_completion(r, prompt, completion, err);
    if (is_text(text))
        return read_text(r, text->text, err);
    return rx_fail(err, RLX_INVALID, "'%.200s', line %zu expected as {\"messages\": [..]}, "
                   "{\"prompt\": .., \"completion\": ..} or {\"text\": ..}", r->path, r->line);
}

static rlx_status read_line(reader *r, const char *text, size_t n, rlx_error *err)
{
    char what[300];
    rx_arena arena = {0};
    const rx_json *v;
    while (n && (text[n - 1] == '\r' || text[n - 1] == ' ' || text[n - 1] == '\t'))
        n--;
    if (!n)
        return rx_fail(err, RLX_INVALID, "'%.200s', line %zu is empty; expected %s", r->path,
                       r->line, r->m->known.is_decoder ? "{\"messages\": [..]} or {\"text\": ..}"
                                              : "{\"query\": .., \"positive\": ..}");
    snprintf(what, sizeof what, "'%.200s', line %zu", r->path, r->line);
    rlx_status st = rx_json_parse(&arena, what, text, n, &v, err);
    if (st == RLX_OK)
        st = r->m->known.is_decoder ? read_decoder_line(r, v, err) : read_pair(r, v, err);
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
    if (!lines && !m->known.is_decoder) {
        rx_file_close(&f);
        return rx_fail(err, RLX_INVALID, "'%.200s': an encoder learns from pairs, one in each line "
                       "of a file NAME.jsonl", path);
    }
    rlx_status st = !f.bytes ? rx_fail(err, RLX_INVALID, "'%.200s' is empty: expected examples",
                                       path)
                    : lines ? read_lines(&r, text, f.bytes, err)
                            : read_plain(&r, text, f.bytes, err);
    rx_file_close(&f);
    return st;
}

rlx_status rx_examples_hold(rx_examples *e, double share, uint64_t seed, rx_examples *held,
                            rlx_error *err)
{
    const size_t n = e->n / e->texts, texts = e->texts;
    size_t want = (size_t)((double)n * share + 0.5), left = 0;
    want = want ? want : 1;
    if (want >= n)
        return rx_fail(err, RLX_INVALID, "%zu of %zu examples for the validation leave none to "
                       "learn from", want, n);
    held->texts = texts;
    for (size_t i = 0; i < n; i++) {
        /* Selection sampling: `open` of the n - i that are left, each as likely as the others. */
        const size_t open = want - held->n / texts;
        const bool chosen = rx_philox_word(~seed, i) % (n - i) < open;
        if (chosen && !rx_grow(&held->list, &held->cap, held->n + texts, sizeof *held->list))
            return rx_fail_memory(err, "the validation", want * sizeof *held->list);
        rx_example *to = chosen ? held->list + held->n : e->list + left;
        memmove(to, e->list + i * texts, texts * sizeof *to);
        held->n += chosen ? texts : 0;
        left += chosen ? 0 : texts;
    }
    e->n = left;
    return RLX_OK;
}

/* ---- Packing --------------------------------------------------------------------------------- */

/* Concatenates all examples: tokens and loss mask. */
static rlx_status join(const rx_examples *e, rx_example *all, rlx_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n; i++)
        n += e->list[i].n;
    all->tokens = rx_alloc_array(n, sizeof *all->tokens);
    all->counts = rx_alloc_array(n, sizeof *all->counts);
    if (!all->tokens || !all->counts)
        return rx_fail_memory(err, "the examples", n * sizeof *all->tokens);
    for (size_t i = 0; i < e->n; i++) {
        const rx_example *it = &e->list[i];
        memcpy(all->tokens + all->n, it->tokens, it->n * sizeof *it->tokens);
        memcpy(all->counts + all->n, it->counts, it->n * sizeof *it->counts);
        all->n += it->n;
    }
    return RLX_OK;
}

/* Rows overlap by a token, so that each is predicted once. */
static rlx_status cut_rows(reader *r, const rx_example *all, rlx_error *err)
{
    const size_t most = (size_t)r->m->build.context;
    for (size_t at = 0; at + 1 < all->n; at += most - 1) {
        const size_t n = all->n - at < most ? all->n - at : most;
        if (memchr(all->counts + at + 1, true, n - 1))
            RLX_TRY(add_row(r, all->tokens + at, all->counts + at, n, err));
    }
    return RLX_OK;
}

rlx_status rx_examples_pack(const rlx_model *m, rx_examples *e, rlx_error *err)
{
    rx_examples rows = {.arena = e->arena, .texts = 1, .cut = e->cut}; /* also of those held out */
    rx_example all = {0};
    reader r = {.m = m, .out = &rows};
    if (e->texts != 1 || m->build.context < 2)
        return rx_fail(err, RLX_INVALID, "texts are packed into rows of a context of at least 2 "
                       "tokens, pairs are not");
    rlx_status st = join(e, &all, err);
    if (st == RLX_OK)
        st = cut_rows(&r, &all, err);
    rx_free(all.tokens);
    rx_free(all.counts);
    e->arena = rows.arena;
    rx_free(st == RLX_OK ? e->list : rows.list);
    if (st == RLX_OK)
        *e = rows;
    return st;
}

void rx_examples_finish(rx_examples *e)
{
    rx_free(e->list);
    rx_arena_finish(&e->arena);
    *e = (rx_examples){0};
}
