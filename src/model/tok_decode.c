/* SPDX-License-Identifier: MIT */
/* Detokenizer, at once or streaming. The bytes of a token depend only on the token, on whether it
 * is the first, and on whether a space is pending. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* Output buffer and the state left by earlier tokens. */
typedef struct sink {
    char *data;
    size_t cap, n;
    bool is_first, blank_due;
} sink;

static void put(sink *out, const char *s, size_t n)
{
    size_t room = out->n < out->cap ? out->cap - out->n : 0;
    if (n && room)
        memcpy(out->data + out->n, s, n < room ? n : room);
    out->n += n;
}

/* ---- Kinds of vocabularies ------------------------------------------------------------------- */

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

static void put_spaces(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    const char *s = token->text;
    size_t n = token->length;
    if (token->kind == RLX_TOKEN_BYTE && n == 6) {
        char byte = (char)(hex_digit(s[3]) * 16 + hex_digit(s[4]));
        put(out, &byte, 1);
        return;
    }
    bool strip = out->is_first && t->strip_first_blank;
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

/* clean_up_tokenization_spaces: " ." becomes "." and so on. */
static bool drops_blank(const char *s, size_t n)
{
    static const char *const ends[] = {".", "?", "!", ",", "n't", "'m", "'s", "'ve", "'re"};
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (strlen(ends[i]) == n && !memcmp(ends[i], s, n))
            return true;
    return false;
}

static void put_wordpiece(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    size_t next = strlen(t->next_prefix), first = strlen(t->first_prefix);
    const char *s = token->text;
    size_t n = token->length;
    bool continues = next && n >= next && !memcmp(s, t->next_prefix, next);
    if (first && token->kind == RLX_TOKEN_NORMAL) { /* the prefix marks word starts only */
        continues = n < first || memcmp(s, t->first_prefix, first);
        if (!continues) {
            s += first;
            n -= first;
        }
    } else if (continues && !out->is_first) {
        s += next;
        n -= next;
    }
    if (!out->is_first && !continues && !(t->clean_up && drops_blank(s, n)))
        put(out, " ", 1);
    put(out, s, n);
}

static void put_suffix(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    size_t m = strlen(t->word_suffix), n = token->length;
    bool ends = m && n >= m && !memcmp(token->text + n - m, t->word_suffix, m);
    put(out, " ", out->blank_due);
    put(out, token->text, ends ? n - m : n);
    out->blank_due = ends;
}

static void put_text(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    switch (t->decode) {
    case RX_DECODE_BYTE_LEVEL:
        put_byte_level(out, token);
        return;
    case RX_DECODE_SPACES:
        put_spaces(out, t, token);
        return;
    case RX_DECODE_WORDPIECE:
        put_wordpiece(out, t, token);
        return;
    case RX_DECODE_SUFFIX:
        put_suffix(out, t, token);
        return;
    case RX_DECODE_WORDS:
        put(out, " ", !out->is_first);
        break;
    case RX_DECODE_FUSE:
        break;
    }
    put(out, token->text, token->length);
}

static void put_token(sink *out, const rlx_tokenizer *t, const rx_token *token)
{
    put_text(out, t, token);
    out->is_first = false;
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
    sink to = {.data = out->data, .cap = out->cap, .is_first = true};
    out->n = 0;
    for (size_t i = 0; i < n; i++) {
        if (rlx_token_get_kind(t, ids[i]) == RLX_TOKEN_NONE)
            return rx_fail(err, RLX_INVALID, "decode: id %d at place %zu: expected 0 to %zu, or no "
                           "token has it", ids[i], i, t->n_tokens - 1);
        const rx_token *token = &t->tokens[ids[i]];
        if (!is_skipped(token, flags))
            put_token(&to, t, token);
    }
    out->n = to.n;
    return RLX_OK;
}

/* ---- Streams --------------------------------------------------------------------------------- */

struct rlx_text_stream {
    const rlx_tokenizer *t;
    unsigned flags;
    sink raw;   /* bytes that wait and the newest */
    char *text; /* returned by the last call */
};

rlx_status rlx_text_stream_create(const rlx_tokenizer *t, unsigned flags, rlx_text_stream **out,
                                  rlx_error *err)
{
    if (!out || !t)
        return rx_fail(err, RLX_INVALID, "a text stream: expected a tokenizer, found none");
    /* 3 pending bytes, a space, the token; each byte may become U+FFFD (3 bytes). */
    size_t cap = (size_t)t->longest + 8;
    const uint64_t bytes = sizeof(rlx_text_stream) + 4 * (uint64_t)cap;
    rlx_text_stream *s = rx_alloc(bytes);
    *out = s;
    if (!s)
        return rx_fail_memory(err, "a text stream", bytes);
    *s = (rlx_text_stream){.t = t, .flags = flags};
    s->raw = (sink){.data = (char *)(s + 1), .cap = cap, .is_first = true};
    s->text = s->raw.data + cap;
    return RLX_OK;
}

void rlx_text_stream_destroy(rlx_text_stream *s)
{
    rx_free(s);
}

/* Returns n bytes of raw as valid UTF-8 and keeps the rest. */
static const char *give(rlx_text_stream *s, size_t n, size_t *length)
{
    size_t k = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t bad = rx_utf8_bad(s->raw.data + i, n - i);
        size_t step = bad ? bad : rx_utf8_get(s->raw.data + i, n - i, &code);
        k += rx_utf8_put(s->text + k, bad ? RX_REPLACEMENT : code);
        i += step;
    }
    memmove(s->raw.data, s->raw.data + n, s->raw.n - n);
    s->raw.n -= n;
    if (length)
        *length = k;
    return s->text;
}

/* The result for a NULL stream. */
static const char *give_nothing(size_t *length)
{
    if (length)
        *length = 0;
    return NULL;
}

const char *rlx_text_stream_push(rlx_text_stream *s, int32_t id, size_t *length)
{
    if (!s)
        return give_nothing(length);
    bool known = rlx_token_get_kind(s->t, id) != RLX_TOKEN_NONE;
    const rx_token *token = known ? &s->t->tokens[id] : NULL;
    if (token && !is_skipped(token, s->flags))
        put_token(&s->raw, s->t, token);
    return give(s, s->raw.n - rx_utf8_open(s->raw.data, s->raw.n), length);
}

const char *rlx_text_stream_finish(rlx_text_stream *s, size_t *length)
{
    if (!s)
        return give_nothing(length);
    s->raw.is_first = true;
    s->raw.blank_due = false;
    return give(s, s->raw.n, length);
}
