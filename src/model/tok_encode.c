/* SPDX-License-Identifier: MIT */
/* Tokenizer: finds added tokens, runs the text between them through the steps, and adds the ids of
 * the template around it. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* ---- Output of ids --------------------------------------------------------------------------- */

rlx_status rx_encoder_no_memory(rx_encoder *e)
{
    return rx_fail_memory(e->err, "encoding a text", e->n * sizeof *e->ids);
}

rlx_status rx_encoder_push(rx_encoder *e, int32_t id)
{
    if (!rx_grow(&e->ids, &e->cap, e->n + 1, sizeof *e->ids))
        return rx_encoder_no_memory(e);
    e->ids[e->n++] = id;
    e->after_unknown = false;
    return RLX_OK;
}

static bool has_bytes(const rlx_tokenizer *t, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (t->byte_ids[(unsigned char)s[i]] < 0)
            return false;
    return t->byte_fallback;
}

rlx_status rx_encoder_unknown(rx_encoder *e, const char *s, size_t n)
{
    const rlx_tokenizer *t = e->t;
    int32_t unknown = t->special[RLX_SPECIAL_UNK];
    if (has_bytes(t, s, n)) {
        for (size_t i = 0; i < n; i++)
            RLX_TRY(rx_encoder_push(e, t->byte_ids[(unsigned char)s[i]]));
        return RLX_OK;
    }
    if (unknown < 0 || t->drop_unknown || (t->fuse_unknown && e->after_unknown))
        return RLX_OK;
    RLX_TRY(rx_encoder_push(e, unknown));
    e->after_unknown = true;
    return RLX_OK;
}

/* ---- Added tokens ---------------------------------------------------------------------------- */

typedef struct hit {
    size_t begin, end; /* including stripped white space */
    int32_t id;        /* -1: none is left */
} hit;

static bool is_word_code(uint32_t code)
{
    return code == '_' || rx_unicode_bits(code) &
                              (RX_IN_L | RX_IN_M | RX_IN(RX_ND) | RX_IN(RX_NL) | RX_IN(RX_PC));
}

static size_t letter_before(const char *s, size_t at, uint32_t *code)
{
    for (size_t back = 4; back > 1; back--)
        if (back <= at && rx_utf8_get(s + at - back, back, code) == back)
            return back;
    return rx_utf8_get(s + at - 1, 1, code);
}

static bool is_single(const char *s, size_t n, size_t begin, size_t end)
{
    uint32_t code;
    if (begin > 0 && (letter_before(s, begin, &code), is_word_code(code)))
        return false;
    return end == n || (rx_utf8_get(s + end, n - end, &code), !is_word_code(code));
}

/* The longest added token at s + at; its length goes to *length. */
static int32_t match_added(const rx_trie *trie, const char *s, size_t n, size_t at, size_t *length)
{
    int32_t id = -1;
    uint32_t node = 0;
    for (size_t i = at; i < n && (node = rx_trie_step(trie, node, (unsigned char)s[i])); i++)
        if (trie->nodes[node].id >= 0) {
            id = trie->nodes[node].id;
            *length = i + 1 - at;
        }
    return id;
}

/* The first added token from `from` on. */
static hit find_added(const rx_encoder *e, const rx_trie *trie, const char *s, size_t n,
                      size_t from)
{
    size_t length = 0, step;
    uint32_t code;
    for (size_t at = from; trie->n && at < n; at++) {
        int32_t id = match_added(trie, s, n, at, &length);
        if (id < 0)
            continue;
        unsigned flags = e->t->tokens[id].flags;
        hit h = {at, at + length, id};
        bool hidden = flags & RX_TOK_SPECIAL && !(e->flags & RLX_ENCODE_PARSE_SPECIAL);
        if (hidden || (flags & RX_TOK_SINGLE && !is_single(s, n, h.begin, h.end))) {
            at += length - 1;
            continue;
        }
        while (flags & RX_TOK_LSTRIP && h.begin > from &&
               (step = letter_before(s, h.begin, &code), rx_unicode_is_space(code)))
            h.begin -= step;
        while (flags & RX_TOK_RSTRIP && h.end < n &&
               (step = rx_utf8_get(s + h.end, n - h.end, &code), rx_unicode_is_space(code)))
            h.end += step;
        return h;
    }
    return (hit){n, n, -1};
}

/* Calls `between` for the text between the added tokens of a trie. */
static rlx_status split_added(rx_encoder *e, const rx_trie *trie, const char *s, size_t n,
                              rlx_status (*between)(rx_encoder *e, const char *s, size_t n))
{
    for (size_t from = 0; from < n;) {
        hit h = find_added(e, trie, s, n, from);
        if (h.begin > from)
            RLX_TRY(between(e, s + from, h.begin - from));
        if (h.id < 0)
            return RLX_OK;
        RLX_TRY(rx_encoder_push(e, h.id));
        e->at_start = false;
        from = h.end;
    }
    return RLX_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static rlx_status encode_normalised(rx_encoder *e, const char *s, size_t n)
{
    RLX_TRY(rx_tok_split(e, 0, s, n));
    e->at_start = false;
    return RLX_OK;
}

static rlx_status encode_raw(rx_encoder *e, const char *s, size_t n)
{
    RLX_TRY(rx_tok_normalise(e, &s, &n));
    return split_added(e, &e->t->added_normal, s, n, encode_normalised);
}

/* Broken UTF-8 becomes U+FFFD. */
static rlx_status repair(rx_encoder *e, const char **s, size_t *n, rx_str *out)
{
    size_t from = 0;
    for (size_t i = 0, bad; i < *n; i += bad) {
        uint32_t code;
        bad = (unsigned char)(*s)[i] < 0x80 ? 0 : rx_utf8_bad(*s + i, *n - i);
        if (!bad) {
            bad = rx_utf8_get(*s + i, *n - i, &code);
            continue;
        }
        rx_str_add(out, *s + from, i - from);
        rx_str_puts(out, "\xef\xbf\xbd");
        from = i + bad;
    }
    if (from == 0)
        return RLX_OK;
    rx_str_add(out, *s + from, *n - from);
    *s = out->data;
    *n = out->n;
    return out->failed ? rx_encoder_no_memory(e) : RLX_OK;
}

/* Copies the ids with the template's ids around them; n becomes the total, which may exceed cap. */
static void write_ids(const rx_encoder *e, rlx_token_list *out)
{
    const rlx_tokenizer *t = e->t;
    bool add = e->flags & RLX_ENCODE_ADD_SPECIAL;
    size_t before = add ? t->n_before : 0, after = add ? t->n_after : 0, n = e->n, at = 0;
    if (e->flags & RLX_ENCODE_TRUNCATE) {
        if (before > out->cap)
            before = out->cap;
        if (after > out->cap - before)
            after = out->cap - before;
        if (n > out->cap - before - after)
            n = out->cap - before - after;
    }
    const struct {
        const int32_t *ids;
        size_t n;
    } parts[] = {{t->before, before}, {e->ids, n}, {t->after, after}};
    for (size_t p = 0; p < 3; p++) {
        size_t room = at < out->cap ? out->cap - at : 0;
        size_t k = parts[p].n < room ? parts[p].n : room;
        if (k)
            memcpy(out->ids + at, parts[p].ids, k * sizeof *out->ids);
        at += parts[p].n;
    }
    out->n = at;
}

static void finish_encoder(rx_encoder *e)
{
    rx_free(e->ids);
    rx_free(e->codes);
    rx_free(e->symbols);
    rx_free(e->heap);
    rx_free(e->path);
    rx_str_finish(&e->norm[0]);
    rx_str_finish(&e->norm[1]);
    for (size_t i = 0; i <= RX_MAX_STEPS; i++)
        rx_str_finish(&e->stage[i]);
}

rlx_status rlx_tokenizer_encode(const rlx_tokenizer *t, const char *text, size_t length,
                                unsigned flags, rlx_token_list *out, rlx_error *err)
{
    if (!t || !out || (!text && length) || (!out->ids && out->cap))
        return rx_fail(err, RLX_INVALID, "encode: expected a tokenizer, a text and a list, found "
                       "no %s", !t ? "tokenizer" : !text && length ? "text" : "list");
    rx_encoder e = {.t = t, .flags = flags, .err = err, .at_start = true};
    rx_str repaired = {0};
    rlx_status st = RLX_OK;
    out->n = 0;
    if (!text)
        text = "";
    if (!t->byte_level && !t->byte_fallback)
        st = repair(&e, &text, &length, &repaired);
    if (st == RLX_OK)
        st = split_added(&e, &t->added, text, length, encode_raw);
    if (st == RLX_OK)
        write_ids(&e, out);
    rx_str_finish(&repaired);
    finish_encoder(&e);
    return st;
}
