/* SPDX-License-Identifier: MIT */
/* Models that look tokens up in a trie: unigram (the path with the greatest sum of scores, by
 * Viterbi's algorithm), WordPiece (the longest token first); and word lists. */
#include <string.h>

#include "model/tok.h"
#include "model/unicode.h"

/* ---- Unigram --------------------------------------------------------------------------------- */

#define NOT_REACHED (-1e300)

static void improve(rx_path *to, double score, size_t from, int32_t id, bool single)
{
    if (single)
        score = (double)(float)score;
    if (score > to->score)
        *to = (rx_path){score, (uint32_t)from, id};
}

/* All tokens that begin at byte `at`; any character can be an unknown token. */
static void extend_paths(rx_encoder *e, const char *s, size_t n, size_t at)
{
    const rlx_tokenizer *t = e->t;
    const rx_trie *trie = &t->words;
    double here = e->path[at].score;
    uint32_t code, node = 0;
    size_t letter = rx_utf8_get(s + at, n - at, &code);
    bool is_token = false;
    for (size_t i = at; trie->n && i < n; i++) {
        node = rx_trie_step(trie, node, (unsigned char)s[i]);
        if (!node)
            break;
        int32_t id = trie->nodes[node].id;
        if (id < 0)
            continue;
        improve(&e->path[i + 1], here + t->tokens[id].score, at, id,
                t->single_scores);
        is_token = is_token || i + 1 == at + letter;
    }
    if (!is_token)
        improve(&e->path[at + letter], here + t->unknown_score, at, -1, t->single_scores);
}

/* Reverses the links of the best path: path[i] becomes the end of the token at i. */
static void turn_path(rx_path *path, size_t n)
{
    rx_path after = {.from = (uint32_t)n, .id = -1};
    for (size_t at = n; at;) {
        rx_path here = path[at];
        path[at] = after;
        after = (rx_path){.from = (uint32_t)at, .id = here.id};
        at = here.from;
    }
    path[0] = after;
}

rlx_status rx_tok_unigram(rx_encoder *e, const char *s, size_t n)
{
    if (n == 0)
        return RLX_OK;
    if (n >= UINT32_MAX || !rx_grow(&e->path, &e->cap_path, n + 1, sizeof *e->path))
        return rx_encoder_no_memory(e);
    for (size_t i = 0; i <= n; i++)
        e->path[i] = (rx_path){.score = NOT_REACHED};
    e->path[0].score = e->base_score;
    for (size_t at = 0; at < n; at++)
        if (e->path[at].score > NOT_REACHED)
            extend_paths(e, s, n, at);
    e->base_score = e->path[n].score;
    turn_path(e->path, n);
    for (size_t at = 0; at < n; at = e->path[at].from) {
        if (e->path[at].id >= 0)
            RLX_TRY(rx_encoder_push(e, e->path[at].id));
        else
            RLX_TRY(rx_encoder_unknown(e, s + at, e->path[at].from - at));
    }
    return RLX_OK;
}

/* ---- WordPiece ------------------------------------------------------------------------------- */

static uint32_t walk_text(const rx_trie *trie, uint32_t node, const char *text)
{
    for (; *text; text++)
        if (!(node = rx_trie_step(trie, node, (unsigned char)*text)))
            return UINT32_MAX;
    return node;
}

/* The longest token after `prefix` at s: its id, or -1; *used bytes of s. */
static int32_t longest_token(const rx_trie *trie, const char *prefix, const char *s, size_t n,
                             size_t *used)
{
    int32_t id = -1;
    uint32_t node = trie->n ? walk_text(trie, 0, prefix) : UINT32_MAX;
    for (size_t i = 0; node != UINT32_MAX && i < n; i++) {
        node = rx_trie_step(trie, node, (unsigned char)s[i]);
        if (!node)
            break;
        if (trie->nodes[node].id >= 0) {
            id = trie->nodes[node].id;
            *used = i + 1;
        }
    }
    return id;
}

static size_t count_letters(const char *s, size_t n)
{
    size_t k = 0;
    uint32_t code;
    for (size_t i = 0; i < n; k++)
        i += rx_utf8_get(s + i, n - i, &code);
    return k;
}

rlx_status rx_tok_wordpiece(rx_encoder *e, const char *s, size_t n)
{
    const rlx_tokenizer *t = e->t;
    size_t begin = e->n, used = 0, first = strlen(t->first_prefix);
    if (n == 0)
        return RLX_OK;
    if (n > t->max_word && count_letters(s, n) > t->max_word)
        return rx_encoder_unknown(e, s, n);
    for (size_t at = 0; at < n; at += used) {
        const char *prefix = at ? t->next_prefix : t->first_prefix;
        bool marked = at && first && n - at >= first && !memcmp(s + at, t->first_prefix, first);
        int32_t id = marked ? -1 : longest_token(&t->words, prefix, s + at, n - at, &used);
        if (id < 0) { /* an unknown part makes the whole word unknown */
            e->n = begin;
            return rx_encoder_unknown(e, s, n);
        }
        RLX_TRY(rx_encoder_push(e, id));
    }
    return RLX_OK;
}

/* ---- Word lists ------------------------------------------------------------------------------ */

rlx_status rx_tok_wordlevel(rx_encoder *e, const char *s, size_t n)
{
    int32_t id = n ? rx_tok_find(e->t, s, n) : -1;
    if (n == 0)
        return RLX_OK;
    return id >= 0 ? rx_encoder_push(e, id) : rx_encoder_unknown(e, s, n);
}
