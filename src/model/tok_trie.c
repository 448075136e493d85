/* SPDX-License-Identifier: MIT */
/* Tries over bytes, built level by level from sorted keys: children of a node are contiguous. */
#include <stdlib.h>
#include <string.h>

#include "model/tok.h"

static int compare_keys(const void *pa, const void *pb)
{
    const rx_trie_key *a = pa, *b = pb;
    size_t n = a->length < b->length ? a->length : b->length;
    int order = n ? memcmp(a->text, b->text, n) : 0;
    if (order)
        return order;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

/* The keys [lo, hi) go through a node and share their first `depth` bytes. */
typedef struct span {
    uint32_t lo, hi, depth;
} span;

/* Adds the children of node `at`; false when out of memory. */
static bool add_children(rx_trie *trie, size_t *cap, span **spans, const rx_trie_key *keys,
                         size_t at)
{
    span s = (*spans)[at];
    while (s.lo < s.hi && keys[s.lo].length == s.depth) { /* sorted: these come first */
        if (trie->nodes[at].id < 0)
            trie->nodes[at].id = keys[s.lo].id;
        s.lo++;
    }
    trie->nodes[at].first = (uint32_t)trie->n;
    while (s.lo < s.hi) {
        unsigned char label = (unsigned char)keys[s.lo].text[s.depth];
        uint32_t end = s.lo;
        while (end < s.hi && (unsigned char)keys[end].text[s.depth] == label)
            end++;
        size_t span_cap = *cap;
        if (!rx_grow(&trie->nodes, cap, trie->n + 1, sizeof *trie->nodes) ||
            !rx_grow(spans, &span_cap, *cap, sizeof **spans))
            return false;
        trie->nodes[trie->n] = (rx_trie_node){.id = -1, .label = label};
        (*spans)[trie->n++] = (span){s.lo, end, s.depth + 1};
        trie->nodes[at].n++;
        s.lo = end;
    }
    return true;
}

bool rx_trie_build(rx_trie *trie, rx_trie_key *keys, size_t n)
{
    size_t cap = 64;
    bool ok = false;
    *trie = (rx_trie){0};
    if (n == 0)
        return true;
    qsort(keys, n, sizeof *keys, compare_keys);
    span *spans = rx_alloc_array(cap, sizeof *spans);
    trie->nodes = rx_alloc_array(cap, sizeof *trie->nodes);
    if (!spans || !trie->nodes)
        goto out;
    trie->nodes[0] = (rx_trie_node){.id = -1};
    spans[0] = (span){0, (uint32_t)n, 0};
    trie->n = 1;
    for (size_t at = 0; at < trie->n; at++)
        if (!add_children(trie, &cap, &spans, keys, at))
            goto out;
    ok = true;
out:
    rx_free(spans);
    if (!ok)
        rx_trie_finish(trie);
    return ok;
}

void rx_trie_finish(rx_trie *trie)
{
    rx_free(trie->nodes);
    *trie = (rx_trie){0};
}

uint32_t rx_trie_step(const rx_trie *trie, uint32_t node, unsigned char label)
{
    uint32_t lo = trie->nodes[node].first, hi = lo + trie->nodes[node].n;
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        unsigned char found = trie->nodes[mid].label;
        if (found == label)
            return mid;
        if (found < label)
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}
