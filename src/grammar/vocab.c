/* SPDX-License-Identifier: MIT */
/* Builds the tries of a vocabulary: the bytes that each token adds to a text, sorted. */
#include "grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "model/unicode.h"

typedef struct entry {
    const char *bytes;
    uint32_t length;
    int32_t token;
} entry;

/* ---- Bytes of tokens ------------------------------------------------------------------------- */

static bool has_text(const rlx_tokenizer *t, int32_t id)
{
    rlx_token_kind kind = rlx_token_get_kind(t, id);
    return kind == RLX_TOKEN_NORMAL || kind == RLX_TOKEN_USER_DEFINED || kind == RLX_TOKEN_BYTE;
}

static size_t decode(const rlx_tokenizer *t, const int32_t *ids, size_t n, char *out, size_t cap)
{
    rlx_text text = {out, cap, 0};
    return rlx_tokenizer_decode(t, ids, n, 0, &text, NULL) == RLX_OK ? text.n : 0;
}

/* A token before the one that is asked for, since the first one of a text may lose its blank. */
static int32_t find_first(const rlx_tokenizer *t, int32_t n)
{
    for (int32_t id = 0; id < n; id++)
        if (rlx_token_get_kind(t, id) == RLX_TOKEN_NORMAL && decode(t, &id, 1, NULL, 0))
            return id;
    return 0;
}

static bool read_tokens(rlx_vocabulary *v)
{
    const rlx_tokenizer *t = v->tokenizer;
    const int32_t n = (int32_t)v->n_tokens, first = find_first(t, n);
    size_t cap = 0, used = 0, skip = decode(t, &first, 1, NULL, 0);
    for (int32_t id = 0; id < n; id++) {
        const int32_t both[] = {first, id};
        size_t length = has_text(t, id) ? decode(t, both, 2, NULL, 0) : 0;
        v->offsets[id] = (uint32_t)used;
        if (length <= skip)
            continue;
        if (!rx_grow(&v->bytes, &cap, used + length, 1))
            return false;
        /* what the first token gives goes where this one begins, and is moved over */
        decode(t, both, 2, v->bytes + used, length);
        memmove(v->bytes + used, v->bytes + used + skip, length - skip);
        used += length - skip;
        v->longest = length - skip > v->longest ? length - skip : v->longest;
    }
    v->offsets[n] = (uint32_t)used;
    return true;
}

/* ---- Tries ----------------------------------------------------------------------------------- */

static int compare_entries(const void *a, const void *b)
{
    const entry *p = a, *q = b;
    size_t n = p->length < q->length ? p->length : q->length;
    int c = memcmp(p->bytes, q->bytes, n);
    if (c)
        return c;
    if (p->length != q->length)
        return p->length < q->length ? -1 : 1;
    return p->token < q->token ? -1 : p->token > q->token;
}

static size_t common(const entry *a, const entry *b)
{
    size_t n = 0;
    while (n < a->length && n < b->length && a->bytes[n] == b->bytes[n])
        n++;
    return n;
}

/* From sorted entries. `path` has room for the nodes on the way to the deepest. */
static bool build_trie(rx_vocab_trie *trie, const entry *e, size_t n, uint32_t *path)
{
    size_t cap = 0, depth = 0;
    for (size_t i = 0; i < n; i++) {
        size_t keep = i ? common(&e[i - 1], &e[i]) : 0;
        while (depth > keep)
            trie->nodes[path[--depth]].end = (uint32_t)trie->n;
        for (; depth < e[i].length; depth++) {
            if (!rx_grow(&trie->nodes, &cap, trie->n + 1, sizeof *trie->nodes))
                return false;
            path[depth] = (uint32_t)trie->n;
            trie->nodes[trie->n++] = (rx_vocab_node){-1, 0, (uint16_t)(depth + 1),
                                                     (uint8_t)e[i].bytes[depth]};
        }
        if (trie->nodes[path[depth - 1]].token < 0)
            trie->nodes[path[depth - 1]].token = e[i].token;
    }
    while (depth)
        trie->nodes[path[--depth]].end = (uint32_t)trie->n;
    return true;
}

/* The code points of a plain token, or 0. */
static size_t plain_length(const entry *e)
{
    size_t n = 0;
    for (size_t i = 0; i < e->length; n++) {
        uint32_t cp;
        i += rx_utf8_get(e->bytes + i, e->length - i, &cp);
        if (cp < 0x20 || cp == '"' || cp == '\\' || cp > 0x10ffff || n == RX_PLAIN_LENGTH)
            return 0;
    }
    return n;
}

static size_t list_entries(rlx_vocabulary *v, entry *list)
{
    size_t n = 0;
    for (size_t id = 0; id < v->n_tokens; id++) {
        uint32_t length = v->offsets[id + 1] - v->offsets[id];
        v->same[id] = -1;
        if (rlx_tokenizer_is_end(v->tokenizer, (int32_t)id))
            v->ends[id / 32] |= 1u << (id % 32);
        else if (length && length < UINT16_MAX)
            list[n++] = (entry){v->bytes + v->offsets[id], length, (int32_t)id};
    }
    if (n)
        qsort(list, n, sizeof *list, compare_entries);
    for (size_t i = n; i-- > 1;)
        if (list[i].length == list[i - 1].length && common(&list[i], &list[i - 1]) ==
                                                        list[i].length)
            v->same[list[i - 1].token] = list[i].token;
    return n;
}

static bool build(rlx_vocabulary *v, entry *list, uint32_t *path)
{
    size_t n = list_entries(v, list), rest = 0;
    if (!build_trie(&v->all, list, n, path))
        return false;
    for (size_t i = 0; i < n; i++) {
        size_t length = plain_length(&list[i]);
        for (size_t k = length; length && k <= RX_PLAIN_LENGTH; k++)
            v->plain[k * v->n_words + (size_t)list[i].token / 32] |= 1u << (list[i].token % 32);
        if (!length)
            list[rest++] = list[i];
    }
    return build_trie(&v->rest, list, rest, path);
}

rlx_status rlx_vocabulary_create(const rlx_tokenizer *t, rlx_vocabulary **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_vocabulary_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(t, "rlx_vocabulary_create: t", err));
    rlx_vocabulary *v = rx_alloc_zero(sizeof *v);
    if (!v)
        return rx_fail_memory(err, "a vocabulary", sizeof *v);
    v->tokenizer = t;
    v->n_tokens = (size_t)rlx_tokenizer_n_tokens(t);
    v->n_words = (v->n_tokens + 31) / 32;
    v->offsets = rx_alloc_array_zero(v->n_tokens + 1, sizeof *v->offsets);
    v->same = rx_alloc_array(v->n_tokens + 1, sizeof *v->same);
    v->plain = rx_alloc_array_zero((RX_PLAIN_LENGTH + 1) * (v->n_words + 1), sizeof *v->plain);
    v->ends = rx_alloc_array_zero(v->n_words + 1, sizeof *v->ends);
    bool ok = v->offsets && v->same && v->plain && v->ends && read_tokens(v);
    entry *list = ok ? rx_alloc_array(v->n_tokens + 1, sizeof *list) : NULL;
    uint32_t *path = ok ? rx_alloc_array(v->longest + 1, sizeof *path) : NULL;
    ok = ok && list && path && build(v, list, path);
    rx_free(list);
    rx_free(path);
    if (!ok) {
        size_t n = v->n_tokens;
        rlx_vocabulary_destroy(v);
        return rx_fail_memory(err, "the trie of a vocabulary", n * 64);
    }
    *out = v;
    return RLX_OK;
}

void rlx_vocabulary_destroy(rlx_vocabulary *v)
{
    if (!v)
        return;
    rx_free(v->bytes);
    rx_free(v->offsets);
    rx_free(v->same);
    rx_free(v->all.nodes);
    rx_free(v->rest.nodes);
    rx_free(v->plain);
    rx_free(v->ends);
    rx_free(v);
}

size_t rlx_vocabulary_mask_words(const rlx_vocabulary *v)
{
    return v ? v->n_words : 0;
}
