/* SPDX-License-Identifier: MIT */
/* Pages of the K/V cache: a free list, reference counts, a hash table of pages by content, and an
 * LRU list of cached pages. */
#include "engine/pages.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"

#define NONE (-1)

typedef struct page {
    int32_t refs;       /* tables that hold it */
    int32_t older, newer; /* LRU list of cached pages; free list by `newer` */
    int32_t parent;     /* the known page before it; NONE: it is the first of a sequence */
    int32_t chained;    /* next page of the hash bucket */
    bool known;
    uint64_t salt;      /* what besides the tokens its content depends on; when known */
    uint64_t hash;      /* of its tokens, those of all pages before and the salt */
} page;

struct rx_pages {
    page *page;          /* [n] */
    int32_t *tokens;     /* [n, size], of known pages */
    int32_t *bucket;     /* [n_buckets], a power of two */
    size_t n, size, n_buckets;
    size_t n_free, n_kept;
    int32_t free;        /* list by `newer` */
    int32_t oldest, newest; /* of the kept pages */
};

/* ---- Creation -------------------------------------------------------------------------------- */

rx_pages *rx_pages_create(size_t n, size_t size)
{
    rx_pages *p = rx_alloc_zero(sizeof *p);
    if (!p)
        return NULL;
    p->n = p->n_free = n;
    p->size = size;
    for (p->n_buckets = 16; p->n_buckets < n; p->n_buckets *= 2)
        continue;
    p->page = rx_alloc_array_zero(n, sizeof *p->page);
    p->tokens = rx_alloc_array(n, rx_array_bytes(size, sizeof *p->tokens));
    p->bucket = rx_alloc_array(p->n_buckets, sizeof *p->bucket);
    if (!p->page || !p->tokens || !p->bucket) {
        rx_pages_destroy(p);
        return NULL;
    }
    memset(p->bucket, 0xff, p->n_buckets * sizeof *p->bucket);
    p->free = p->oldest = p->newest = NONE;
    for (size_t i = n; i-- > 0; p->free = (int32_t)i)
        p->page[i].newer = p->free;
    return p;
}

void rx_pages_destroy(rx_pages *p)
{
    if (!p)
        return;
    rx_free(p->page);
    rx_free(p->tokens);
    rx_free(p->bucket);
    rx_free(p);
}

/* ---- Known content --------------------------------------------------------------------------- */

static int32_t *bucket_of(const rx_pages *p, uint64_t hash)
{
    return &p->bucket[hash & (p->n_buckets - 1)];
}

static uint64_t hash_of(const rx_pages *p, uint64_t before, const int32_t *tokens)
{
    return rx_hash_keyed(before, tokens, p->size * sizeof *tokens);
}

/* Where content stands: after page `parent`, in sequences of a salt. */
typedef struct place {
    int32_t parent;
    uint64_t salt, hash;
} place;

/* The known page with these tokens at a place; NONE: there is none. */
static int32_t find_known(const rx_pages *p, const place *at, const int32_t *tokens)
{
    int32_t i = *bucket_of(p, at->hash);
    for (; i != NONE; i = p->page[i].chained)
        if (p->page[i].hash == at->hash && p->page[i].parent == at->parent &&
            p->page[i].salt == at->salt &&
            !memcmp(p->tokens + (size_t)i * p->size, tokens, p->size * sizeof *tokens))
            break;
    return i;
}

static void make_known(rx_pages *p, int32_t i, const place *at, const int32_t *tokens)
{
    int32_t *first = bucket_of(p, at->hash);
    page *g = &p->page[i];
    memcpy(p->tokens + (size_t)i * p->size, tokens, p->size * sizeof *tokens);
    g->known = true;
    g->parent = at->parent;
    g->salt = at->salt;
    g->hash = at->hash;
    g->chained = *first;
    *first = i;
}

static void make_unknown(rx_pages *p, int32_t i)
{
    int32_t *at = bucket_of(p, p->page[i].hash);
    while (*at != i)
        at = &p->page[*at].chained;
    *at = p->page[i].chained;
    p->page[i].known = false;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void unlink_kept(rx_pages *p, int32_t i)
{
    const page *g = &p->page[i];
    *(g->older == NONE ? &p->oldest : &p->page[g->older].newer) = g->newer;
    *(g->newer == NONE ? &p->newest : &p->page[g->newer].older) = g->older;
    p->n_kept--;
}

static void hold(rx_pages *p, int32_t i)
{
    if (p->page[i].refs++ == 0)
        unlink_kept(p, i);
}

static void put_free(rx_pages *p, int32_t i)
{
    p->page[i].newer = p->free;
    p->free = i;
    p->n_free++;
}

static void give_up(rx_pages *p, int32_t i)
{
    page *g = &p->page[i];
    if (--g->refs > 0)
        return;
    if (!g->known) {
        put_free(p, i);
        return;
    }
    g->older = p->newest;
    g->newer = NONE;
    *(p->newest == NONE ? &p->oldest : &p->page[p->newest].newer) = i;
    p->newest = i;
    p->n_kept++;
}

/* A free page, or else the least recently used cached one; one is available. */
static int32_t take(rx_pages *p)
{
    int32_t i = p->free;
    if (i != NONE) {
        p->free = p->page[i].newer;
        p->n_free--;
    } else {
        i = p->oldest;
        unlink_kept(p, i);
        make_unknown(p, i);
    }
    p->page[i].refs = 1;
    return i;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

size_t rx_pages_find(rx_pages *p, const int32_t *tokens, size_t n, rx_page_table *t)
{
    const size_t most = n ? (n - 1) / p->size : 0;
    place at = {NONE, t->salt, t->salt};
    while (t->n < most) {
        const int32_t *here = tokens + t->n * p->size;
        at.hash = hash_of(p, at.hash, here);
        at.parent = find_known(p, &at, here);
        if (at.parent == NONE || !rx_grow(&t->page, &t->cap, t->n + 1, sizeof *t->page))
            break;
        hold(p, at.parent);
        t->page[t->n++] = at.parent;
    }
    t->n_known = t->n;
    return t->n * p->size;
}

/* Whether the page of token `begin` has older content and another holder. */
static bool needs_copy(const rx_pages *p, const rx_page_table *t, size_t begin, size_t end)
{
    const size_t i = begin / p->size;
    return begin < end && i < t->n && p->page[t->page[i]].refs > 1;
}

size_t rx_pages_needed(const rx_pages *p, const rx_page_table *t, size_t begin, size_t end)
{
    const size_t whole = (end + p->size - 1) / p->size;
    return (whole > t->n ? whole - t->n : 0) + needs_copy(p, t, begin, end);
}

bool rx_pages_extend(rx_pages *p, rx_page_table *t, size_t begin, size_t end, rx_page_copy *copy)
{
    const size_t whole = (end + p->size - 1) / p->size;
    *copy = (rx_page_copy){NONE, NONE};
    if (rx_pages_needed(p, t, begin, end) > rx_pages_available(p) ||
        !rx_grow(&t->page, &t->cap, whole ? whole : 1, sizeof *t->page))
        return false;
    if (needs_copy(p, t, begin, end)) {
        int32_t *at = &t->page[begin / p->size];
        *copy = (rx_page_copy){*at, take(p)};
        give_up(p, *at);
        *at = copy->to;
    }
    while (t->n < whole)
        t->page[t->n++] = take(p);
    return true;
}

void rx_pages_learn(rx_pages *p, rx_page_table *t, const int32_t *tokens, size_t n)
{
    while (t->n_known < n / p->size) {
        const size_t i = t->n_known++;
        const int32_t *here = tokens + i * p->size, parent = i ? t->page[i - 1] : NONE;
        const uint64_t hash = hash_of(p, i ? p->page[parent].hash : t->salt, here);
        const place at = {parent, t->salt, hash};
        const int32_t same = find_known(p, &at, here);
        if (same == NONE) {
            make_known(p, t->page[i], &at, here);
        } else if (same != t->page[i]) {
            hold(p, same);
            give_up(p, t->page[i]);
            t->page[i] = same;
        }
    }
}

bool rx_pages_fork(rx_pages *p, const rx_page_table *from, rx_page_table *to)
{
    if (!rx_grow(&to->page, &to->cap, from->n ? from->n : 1, sizeof *to->page))
        return false;
    for (size_t i = 0; i < from->n; i++) {
        to->page[i] = from->page[i];
        hold(p, to->page[i]);
    }
    to->n = from->n;
    to->n_known = from->n_known;
    to->salt = from->salt;
    return true;
}

void rx_pages_release(rx_pages *p, rx_page_table *t)
{
    while (t->n)
        give_up(p, t->page[--t->n]);
    rx_free(t->page);
    *t = (rx_page_table){.salt = t->salt};
}

void rx_pages_forget(rx_pages *p)
{
    while (p->oldest != NONE) {
        const int32_t i = p->oldest;
        unlink_kept(p, i);
        make_unknown(p, i);
        put_free(p, i);
    }
}

/* ---- Looking inside -------------------------------------------------------------------------- */

size_t rx_pages_available(const rx_pages *p)
{
    return p->n_free + p->n_kept;
}

void rx_pages_get_info(const rx_pages *p, rx_pages_info *out)
{
    *out = (rx_pages_info){p->n, p->size, p->n_free, p->n_kept, p->n - p->n_free - p->n_kept};
}
