/* SPDX-License-Identifier: MIT */
/* Ids to text, at once or one by one. A token gives bytes that depend on it and on whether it is
 * the first; nothing else is remembered. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* Where the bytes of a token go. */
typedef struct sink {
    char *data;
    size_t cap, n;
} sink;

static void put(sink *out, const char *s, size_t n)
{
    size_t room = out->n < out->cap ? out->cap - out->n : 0;
    if (n && room)
        memcpy(out->data + out->n, s, n < room ? n : room);
    out->n += n;
}

/* ---- Kinds of vocabularies ------------------------------------------------------------------ */

static void put_byte_level(sink *out, const rx_token *token)
{
    bool as_is = token->flags & RX_TOK_ADDED;
    for (size_t i = 0, step; i < token->length; i += step) {
        uint32_t code;
        step = rx_utf8_get(token->text + i, token->length - i, &code);
        int byte = as_is ? -1 : rx_byte_of_letter(code);
        char c = (char)byte;
        put(out, byte < 0 ? token->text + i : &c, byte < 0 ? step : 1);
    }
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void put_spaces(sink *out, const rlx_tokenizer *t, const rx_token *token, bool is_first)
{
    const char *s = token->text;
    size_t n = token->length;
    if (token->kind == RLX_TOKEN_BYTE && n == 6) {
        char byte = (char)(hex_digit(s[3]) * 16 + hex_digit(s[4]));
        put(out, &byte, 1);
        return;
    }
    bool strip = is_first && t->strip_first_blank;
    for (size_t i = 0; i < n;) {
        if (n - i >= RX_SPACE_BYTES && !memcmp(s + i, RX_SPACE, RX_SPACE_BYTES)) {
            put(out, " ", !(strip && i == 0));
            i += RX_SPACE_BYTES;
        } else {
            put(out, s + i, !(strip && i == 0 && s[i] == ' '));
            i++;
        }
    }
}

/* " ." becomes "." and so on, as the tokens stand for it. */
static bool drops_blank(const char *s, size_t n)
{
    static const char *const ends[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strlen(ends[i]) == n && !memcmp(ends[i], s, n))
            return true;
    return false;
}

static void put_wordpiece(sink *out, const rlx_tokenizer *t, const rx_token *token, bool is_first)
{
    size_t next = strlen(t->next_prefix), first = strlen(t->first_prefix);
    const char *s = token->text;
    size_t n = token->length;
    bool continues = next && n >= next && !memcmp(s, t->next_prefix, next);
    if (first && token->kind == RLX_TOKEN_NORMAL) { /* only the begin of a word is marked */
        continues = n < first || memcmp(s, t->first_prefix, first);
        if (!continues) {
            s += first;
            n -= first;
        }
    } else if (continues && !is_first) {
        s += next;
        n -= next;
    }
    if (!is_first && !continues && !(t->clean_up && drops_blank(s, n)))
        put(out, " ", 1);
    put(out, s, n);
}

static void put_suffix(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    size_t m = strlen(t->word_suffix), n = token->length;
    bool ends = m && n >= m && !memcmp(token->text + n - m, t->word_suffix, m);
    put(out, token->text, ends ? n - m : n);
    if (ends)
        put(out, " ", 1);
}

static void put_token(sink *out, const rlx_tokenizer *t, const rx_token *token, bool is_first)
{
    switch (t->decode) {
    case RX_DECODE_BYTE_LEVEL:
        put_byte_level(out, token);
        return;
    case RX_DECODE_SPACES:
        put_spaces(out, t, token, is_first);
        return;
    case RX_DECODE_WORDPIECE:
        put_wordpiece(out, t, token, is_first);
        return;
    case RX_DECODE_SUFFIX:
        put_suffix(out, t, token);
        return;
    case RX_DECODE_WORDS:
        put(out, " ", !is_first);
        break;
    case RX_DECODE_FUSE:
        break;
    }
    put(out, token->text, token->length);
}

static bool is_skipped(const rx_token *token, unsigned flags)
{
    return flags & RLX_DECODE_SKIP_SPECIAL &&
           (token->kind == RLX_TOKEN_CONTROL || token->kind == RLX_TOKEN_UNKNOWN);
}

rlx_status rlx_tokenizer_decode(const rlx_tokenizer *t, const int32_t *ids, size_t n,
                                unsigned flags, rlx_text *out, rlx_error *err)
{
    if (!t || !out || (!ids && n) || (!out->data && out->cap))
        return rx_fail(err, RLX_INVALID, "decode: expected a tokenizer, ids and a text, found no "
                       "%s", !t ? "tokenizer" : !ids && n ? "ids" : "text");
    sink to = {out->data, out->cap, 0};
    bool is_first = true;
    out->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (rlx_token_get_kind(t, ids[i]) == RLX_TOKEN_NONE)
            return rx_fail(err, RLX_INVALID, "decode: id %d at place %zu: expected 0 to %zu, or no "
                           "token has it", ids[i], i, t->n_tokens - 1);
        const rx_token *token = &t->tokens[ids[i]];
        if (is_skipped(token, flags))
            continue;
        put_token(&to, t, token, is_first);
        is_first = false;
    }
    out->n = to.n;
    return RLX_OK;
}

/* ---- Streams -------------------------------------------------------------------------------- */

struct rlx_text_stream {
    const rlx_tokenizer *t;
    unsigned flags;
    bool is_first;
    char *raw, *text;  /* bytes that wait and the newest; what the last call gave */
    size_t cap, n_raw;
};

rlx_status rlx_text_stream_create(const rlx_tokenizer *t, unsigned flags, rlx_text_stream **out,
                                  rlx_error *err)
{
    if (!out || !t)
        return rx_fail(err, RLX_INVALID, "a text stream: expected a tokenizer, found none");
    /* 3 bytes that wait, a blank, the token; each byte may become the 3 of U+FFFD. */
    size_t cap = (size_t)t->longest + 8;
    rlx_text_stream *s = rx_alloc(sizeof *s + 4 * cap);
    *out = s;
    if (!s)
        return rx_fail_memory(err, "a text stream", sizeof *s + 4 * cap);
    *s = (rlx_text_stream){.t = t, .flags = flags, .is_first = true, .cap = cap};
    s->raw = (char *)(s + 1);
    s->text = s->raw + cap;
    return RLX_OK;
}

void rlx_text_stream_destroy(rlx_text_stream *s)
{
    rx_free(s);
}

/* Gives `n` bytes of raw as valid UTF-8 and keeps the rest. */
static const char *give(rlx_text_stream *s, size_t n, size_t *length)
{
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t bad = rx_utf8_bad(s->raw + i, n - i);
        size_t step = bad ? bad : rx_utf8_get(s->raw + i, n - i, &code);
        k += rx_utf8_put(s->text + k, bad ? RX_REPLACEMENT : code);
        i += step;
    }
    memmove(s->raw, s->raw + n, s->n_raw - n);
    s->n_raw -= n;
    if (length)
        *length = k;
    return s->text;
}

const char *rlx_text_stream_push(rlx_text_stream *s, int32_t id, size_t *length)
{
    bool known = rlx_token_get_kind(s->t, id) != RLX_TOKEN_NONE;
    const rx_token *token = known ? &s->t->tokens[id] : NULL;
    if (token && !is_skipped(token, s->flags)) {
        sink to = {s->raw, s->cap, s->n_raw};
        put_token(&to, s->t, token, s->is_first);
        s->n_raw = to.n < s->cap ? to.n : s->cap;
        s->is_first = false;
    }
    return give(s, s->n_raw - rx_utf8_open(s->raw, s->n_raw), length);
}

const char *rlx_text_stream_finish(rlx_text_stream *s, size_t *length)
{
    s->is_first = true;
    return give(s, s->n_raw, length);
}
