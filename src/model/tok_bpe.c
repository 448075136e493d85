/* SPDX-License-Identifier: MIT */
/* Byte-pair encoding of one piece: a linked list of symbols and a heap of the merges that are
 * possible; n symbols take O(n log n). Merges come from the list of the vocabulary (by rank), or
 * are any two neighbours whose sum is a token (SentencePiece, by score). */
#include <string.h>

#include "base/hash.h"
#include "model/tok.h"
#include "model/unicode.h"

/* ---- The table of merges --------------------------------------------------------------------- */

static size_t hash_pair(int32_t left, int32_t right)
{
    return (size_t)rx_hash_number((uint64_t)(uint32_t)left << 32 | (uint32_t)right);
}

bool rx_merges_init(rx_merges *m, size_t n)
{
    size_t cap = 16;
    if (n > SIZE_MAX / 4)
        return false;
    while (cap < 2 * n)
        cap *= 2;
    m->slots = rx_alloc_array(cap, sizeof *m->slots);
    if (!m->slots)
        return false;
    memset(m->slots, 0xff, cap * sizeof *m->slots);
    m->cap = cap;
    return true;
}

void rx_merges_add(rx_merges *m, rx_merge merge)
{
    size_t i = hash_pair(merge.left, merge.right) & (m->cap - 1);
    while (m->slots[i].left >= 0) {
        if (m->slots[i].left == merge.left && m->slots[i].right == merge.right)
            return;
        i = (i + 1) & (m->cap - 1);
    }
    m->slots[i] = merge;
}

const rx_merge *rx_merges_find(const rx_merges *m, int32_t left, int32_t right)
{
    if (!m->cap || left < 0 || right < 0)
        return NULL;
    size_t i = hash_pair(left, right) & (m->cap - 1);
    while (m->slots[i].left >= 0) {
        if (m->slots[i].left == left && m->slots[i].right == right)
            return &m->slots[i];
        i = (i + 1) & (m->cap - 1);
    }
    return NULL;
}

/* ---- The heap -------------------------------------------------------------------------------- */

static bool comes_before(const rx_merge_candidate *a, const rx_merge_candidate *b)
{
    return a->cost != b->cost ? a->cost < b->cost : a->pos < b->pos;
}

static rlx_status push_candidate(rx_encoder *e, rx_merge_candidate c)
{
    if (!rx_grow(&e->heap, &e->cap_heap, e->n_heap + 1, sizeof c))
        return rx_encoder_no_memory(e);
    size_t i = e->n_heap++;
    for (; i && comes_before(&c, &e->heap[(i - 1) / 2]); i = (i - 1) / 2)
        e->heap[i] = e->heap[(i - 1) / 2];
    e->heap[i] = c;
    return RLX_OK;
}

static rx_merge_candidate pop_candidate(rx_encoder *e)
{
    rx_merge_candidate top = e->heap[0], last = e->heap[--e->n_heap];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->n_heap; i = child) {
        if (child + 1 < e->n_heap && comes_before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!comes_before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
    }
    e->heap[i] = last;
    return top;
}

/* ---- Merging --------------------------------------------------------------------------------- */

/* Maps scores to unsigned costs in reverse order. */
static uint32_t score_cost(double wide)
{
    uint32_t bits;
    float score = (float)wide;
    memcpy(&bits, &score, sizeof bits);
    bits = bits & 0x80000000u ? ~bits : bits | 0x80000000u;
    return ~bits;
}

/* Token kinds that SentencePiece merges can produce. */
static bool is_piece(const rx_token *token)
{
    return token->kind == RLX_TOKEN_NORMAL || token->kind == RLX_TOKEN_USER_DEFINED;
}

/* Pushes the merge of the symbol `left` with its neighbour, if there is one. */
static rlx_status offer_merge(rx_encoder *e, const char *word, int32_t left)
{
    const rlx_tokenizer *t = e->t;
    const rx_symbol *a = left < 0 ? NULL : &e->symbols[left];
    if (!a || a->next < 0)
        return RLX_OK;
    const rx_symbol *b = &e->symbols[a->next];
    if (t->model == RX_TOK_BPE) {
        const rx_merge *m = rx_merges_find(&t->merges, a->id, b->id);
        if (!m)
            return RLX_OK;
        return push_candidate(e, (rx_merge_candidate){m->rank, left, a->id, b->id, m->id});
    }
    uint32_t length = a->length + b->length;
    int32_t id = length > t->longest ? -1 : rx_tok_find(t, word + a->at, length);
    if (id < 0 || !is_piece(&t->tokens[id]))
        return RLX_OK;
    /* Symbols grow only to the right: a stale candidate is recognised by its length. */
    return push_candidate(e, (rx_merge_candidate){score_cost(t->tokens[id].score), left,
                                            (int32_t)a->length, (int32_t)b->length, id});
}

static bool is_still_true(const rx_encoder *e, const rx_merge_candidate *c)
{
    const rx_symbol *a = &e->symbols[c->pos];
    if (a->next < 0)
        return false;
    const rx_symbol *b = &e->symbols[a->next];
    if (e->t->model == RX_TOK_BPE)
        return a->id == c->left && b->id == c->right;
    return a->length == (uint32_t)c->left && b->length == (uint32_t)c->right;
}

static rlx_status merge_all(rx_encoder *e, const char *word, size_t n)
{
    e->n_heap = 0;
    for (size_t i = 0; i + 1 < n; i++)
        RLX_TRY(offer_merge(e, word, (int32_t)i));
    while (e->n_heap) {
        rx_merge_candidate c = pop_candidate(e);
        if (!is_still_true(e, &c))
            continue;
        rx_symbol *a = &e->symbols[c.pos], *b = &e->symbols[a->next];
        a->id = c.id;
        a->length += b->length;
        a->next = b->next;
        b->next = -2;
        if (a->next >= 0)
            e->symbols[a->next].prev = c.pos;
        RLX_TRY(offer_merge(e, word, a->prev));
        RLX_TRY(offer_merge(e, word, c.pos));
    }
    return RLX_OK;
}

/* ---- Symbols --------------------------------------------------------------------------------- */

static rlx_status add_symbol(rx_encoder *e, size_t i, rx_symbol s)
{
    if (i >= INT32_MAX - 1 || !rx_grow(&e->symbols, &e->cap_symbols, i + 1, sizeof s))
        return rx_encoder_no_memory(e);
    s.prev = (int32_t)i - 1;
    s.next = (int32_t)i + 1;
    e->symbols[i] = s;
    return RLX_OK;
}

/* The token of the character at s, as the vocabulary writes it in this place of a word. */
static int32_t find_letter(rx_encoder *e, const char *s, size_t n, bool is_first, bool is_last)
{
    const rlx_tokenizer *t = e->t;
    const char *prefix = is_first ? t->first_prefix : t->next_prefix;
    const char *suffix = is_last ? t->word_suffix : "";
    if (!*prefix && !*suffix)
        return rx_tok_find(t, s, n);
    rx_str *b = &e->stage[RX_MAX_STEPS];
    b->n = 0;
    rx_str_puts(b, prefix);
    rx_str_add(b, s, n);
    rx_str_puts(b, suffix);
    return b->failed ? -1 : rx_tok_find(t, b->data, b->n);
}

/* One symbol a character; characters outside of the vocabulary become byte tokens or keep id -1. */
static rlx_status add_letters(rx_encoder *e, const char *s, size_t n, size_t *count)
{
    const rlx_tokenizer *t = e->t;
    size_t k = 0;
    for (size_t i = 0, step; i < n; i += step) {
        uint32_t code;
        step = rx_utf8_get(s + i, n - i, &code);
        int32_t id = find_letter(e, s + i, step, i == 0, i + step == n);
        if (id >= 0 && t->model == RX_TOK_SCORES && !is_piece(&t->tokens[id]))
            id = -1;
        RLX_TRY(add_symbol(e, k++, (rx_symbol){.id = id, .at = (uint32_t)i,
                                               .length = (uint32_t)step}));
    }
    *count = k;
    return RLX_OK;
}

static rlx_status add_bytes(rx_encoder *e, const char *s, size_t n, size_t *count)
{
    for (size_t i = 0; i < n; i++)
        RLX_TRY(add_symbol(e, i, (rx_symbol){.id = e->t->byte_ids[(unsigned char)s[i]],
                                             .at = (uint32_t)i, .length = 1}));
    *count = n;
    return RLX_OK;
}

/* The id of the whole piece, for vocabularies with ignore_merges. */
static int32_t find_whole(rx_encoder *e, const char *s, size_t n)
{
    if (!e->t->byte_level)
        return rx_tok_find(e->t, s, n);
    if (n > e->t->longest)
        return -1;
    rx_str *b = &e->stage[RX_MAX_STEPS];
    b->n = 0;
    for (size_t i = 0; i < n; i++) {
        char letter[4];
        rx_str_add(b, letter, rx_utf8_put(letter, rx_letter_of_byte((unsigned char)s[i])));
    }
    return b->failed ? -1 : rx_tok_find(e->t, b->data, b->n);
}

rlx_status rx_tok_bpe(rx_encoder *e, const char *s, size_t n)
{
    const rlx_tokenizer *t = e->t;
    size_t count;
    if (n == 0)
        return RLX_OK;
    if (n >= INT32_MAX)
        return rx_encoder_no_memory(e);
    int32_t whole = t->ignore_merges ? find_whole(e, s, n) : -1;
    if (whole >= 0)
        return rx_encoder_push(e, whole);
    if (t->byte_level)
        RLX_TRY(add_bytes(e, s, n, &count));
    else
        RLX_TRY(add_letters(e, s, n, &count));
    if (e->stage[RX_MAX_STEPS].failed)
        return rx_encoder_no_memory(e);
    e->symbols[count - 1].next = -1;
    RLX_TRY(merge_all(e, s, count));
    for (int32_t i = 0; i >= 0; i = e->symbols[i].next) {
        const rx_symbol *a = &e->symbols[i];
        if (a->id >= 0)
            RLX_TRY(rx_encoder_push(e, a->id));
        else
            RLX_TRY(rx_encoder_unknown(e, s + a->at, a->length));
    }
    return RLX_OK;
}
