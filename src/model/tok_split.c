/* SPDX-License-Identifier: MIT */
/* The splitting steps: each splits or rewrites a piece of text and passes the results to the next;
 * the last passes words to the model. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

static rlx_status (*const models[])(rx_encoder *e, const char *s, size_t n) = {
    [RX_TOK_BPE] = rx_tok_bpe,
    [RX_TOK_SCORES] = rx_tok_bpe,
    [RX_TOK_UNIGRAM] = rx_tok_unigram,
    [RX_TOK_WORDPIECE] = rx_tok_wordpiece,
    [RX_TOK_WORDLEVEL] = rx_tok_wordlevel,
};

/* ---- Matches --------------------------------------------------------------------------------- */

static bool is_bert_mark(uint32_t code)
{
    bool ascii = (code >= 33 && code <= 47) || (code >= 58 && code <= 64) ||
                 (code >= 91 && code <= 96) || (code >= 123 && code <= 126);
    return ascii || rx_unicode_bits(code) & RX_IN_P;
}

/* Bytes of the match at s; 0: none begins in the next *skip bytes. */
static size_t match(const rx_step *step, const char *s, size_t n, size_t *skip)
{
    uint32_t code;
    if (step->kind == RX_SPLIT_PATTERN)
        return rx_pattern_find(step->pattern, s, n, skip);
    size_t letter = rx_utf8_get(s, n, &code);
    *skip = letter;
    if (step->kind == RX_SPLIT_TEXT) {
        bool same = n >= step->text_bytes && !memcmp(s, step->text, step->text_bytes);
        return same ? step->text_bytes : 0;
    }
    if (step->kind == RX_SPLIT_BERT)
        return is_bert_mark(code) ? letter : 0;
    return rx_unicode_bits(code) & step->flags ? letter : 0;
}

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* The piece being assembled. */
typedef struct splitter {
    rx_encoder *e;
    size_t stage;
    const char *s;
    size_t begin, end;
    bool any, was_match;
} splitter;

static rlx_status flush(splitter *p)
{
    size_t n = p->end - p->begin;
    return n ? rx_tok_split(p->e, p->stage + 1, p->s + p->begin, n) : RLX_OK;
}

/* Adds the text up to `end` (a match or the text between matches) to the current piece or starts a
 * new one. */
static rlx_status add_part(splitter *p, const rx_step *step, size_t end, bool is_match)
{
    bool joins = false;
    if (end == p->end)
        return RLX_OK;
    is_match = is_match != step->invert;
    if (p->any && step->behaviour == RX_WITH_PREVIOUS)
        joins = is_match && !p->was_match;
    else if (p->any && step->behaviour == RX_WITH_NEXT)
        joins = !is_match && p->was_match;
    else if (p->any && step->behaviour == RX_CONTIGUOUS)
        joins = is_match == p->was_match;
    if (!joins) {
        RLX_TRY(flush(p));
        p->begin = p->end;
    }
    p->end = end;
    p->any = true;
    p->was_match = is_match;
    if (step->behaviour == RX_REMOVED && is_match)
        p->begin = end;
    return RLX_OK;
}

static rlx_status split_by_matches(rx_encoder *e, size_t stage, const rx_step *step, const char *s,
                                   size_t n)
{
    splitter p = {.e = e, .stage = stage, .s = s};
    for (size_t at = 0, skip; at < n;) {
        size_t length = match(step, s + at, n - at, &skip);
        if (!length) {
            at += skip;
            continue;
        }
        RLX_TRY(add_part(&p, step, at, false));
        at += length;
        RLX_TRY(add_part(&p, step, at, true));
    }
    RLX_TRY(add_part(&p, step, n, false));
    return flush(&p);
}

/* ---- Steps that rewrite ---------------------------------------------------------------------- */

static rlx_status split_metaspace(rx_encoder *e, size_t stage, const rx_step *step, const char *s,
                                  size_t n)
{
    rx_str *out = &e->stage[stage];
    bool starts = (n >= step->text_bytes && !memcmp(s, step->text, step->text_bytes)) || *s == ' ';
    out->n = 0;
    if (!starts && (step->flags & RX_META_ALWAYS || (step->flags & RX_META_FIRST && e->at_start)))
        rx_str_add(out, step->text, step->text_bytes);
    for (size_t i = 0; i < n; i++)
        rx_str_add(out, s[i] == ' ' ? step->text : s + i, s[i] == ' ' ? step->text_bytes : 1);
    e->at_start = false;
    if (out->failed)
        return rx_encoder_no_memory(e);
    if (!(step->flags & RX_META_SPLIT))
        return rx_tok_split(e, stage + 1, out->data, out->n);
    rx_step by_text = *step;
    by_text.kind = RX_SPLIT_TEXT;
    by_text.behaviour = RX_WITH_NEXT;
    return split_by_matches(e, stage, &by_text, out->data, out->n);
}

static rlx_status split_prefix(rx_encoder *e, size_t stage, const char *s, size_t n)
{
    rx_str *out = &e->stage[stage];
    if (*s == ' ')
        return rx_tok_split(e, stage + 1, s, n);
    out->n = 0;
    rx_str_add(out, " ", 1);
    rx_str_add(out, s, n);
    return out->failed ? rx_encoder_no_memory(e) : rx_tok_split(e, stage + 1, out->data, out->n);
}

/* No token crosses these boundaries, so splitting does not change the ids. */
static rlx_status split_space(rx_encoder *e, size_t stage, const char *s, size_t n)
{
    size_t begin = 0;
    e->base_score = 0;
    for (size_t i = 1; i + RX_SPACE_BYTES <= n; i++) {
        if (memcmp(s + i, RX_SPACE, RX_SPACE_BYTES))
            continue;
        bool follows = i >= RX_SPACE_BYTES &&
                       !memcmp(s + i - RX_SPACE_BYTES, RX_SPACE, RX_SPACE_BYTES);
        if (!follows) {
            RLX_TRY(rx_tok_split(e, stage + 1, s + begin, i - begin));
            begin = i;
        }
        i += RX_SPACE_BYTES - 1;
    }
    return rx_tok_split(e, stage + 1, s + begin, n - begin);
}

rlx_status rx_tok_split(rx_encoder *e, size_t stage, const char *s, size_t n)
{
    if (n == 0)
        return RLX_OK;
    if (stage == e->t->n_splits) {
        e->after_unknown = false;
        if (stage == 0 || e->t->splits[stage - 1].kind != RX_SPLIT_SPACE)
            e->base_score = 0;
        return models[e->t->model](e, s, n);
    }
    const rx_step *step = &e->t->splits[stage];
    switch (step->kind) {
    case RX_SPLIT_METASPACE:
        return split_metaspace(e, stage, step, s, n);
    case RX_SPLIT_PREFIX:
        return split_prefix(e, stage, s, n);
    case RX_SPLIT_SPACE:
        return split_space(e, stage, s, n);
    default:
        return split_by_matches(e, stage, step, s, n);
    }
}
