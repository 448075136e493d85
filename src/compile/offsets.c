/* SPDX-License-Identifier: MIT */
/* Offset assignment: slots with lifetimes into one arena (dynamic storage allocation, which is
 * NP-hard). Several greedy orders are tried and the best is kept: by time with a free list, then by
 * size, by size times duration, by duration, and by size again with feedback. Most networks reach
 * the lower bound, which ends the search. Each attempt has a work budget, so the total is close to
 * linear even for degenerate graphs. */
#include <stdlib.h>
#include <string.h>

#include "compile/plan.h"

#define NONE 0xffffffffu
#define MAX_ROUNDS 48      /* iterations of the last attempt, which adjusts its order */
#define MAX_IMPROVED 4096  /* slots; with more, the last attempt is skipped */

/* Elementary operations an attempt may take: enough for all pairs of 3,000 slots. */
static uint64_t work_budget(size_t n)
{
    return 10000000u + 256u * (uint64_t)n;
}

bool rx_live_peak(const rx_slot *slots, size_t n, size_t n_steps, uint64_t *bound)
{
    uint64_t *change = rx_alloc_array_zero(n_steps + 2, sizeof *change);
    if (!change)
        return false;
    for (size_t i = 0; i < n; i++) {
        change[slots[i].first] += slots[i].bytes;
        change[slots[i].last + 1] -= slots[i].bytes; /* modulo 2^64; the prefix sum is right */
    }
    uint64_t live = 0, peak = 0;
    for (size_t i = 0; i <= n_steps; i++) {
        live += change[i];
        if (live > peak)
            peak = live;
    }
    rx_free(change);
    *bound = peak;
    return true;
}

/* ---- In order of time ----------------------------------------------------------------------- */

typedef struct block {
    uint64_t offset, bytes;
} block;

typedef struct free_list {
    block *blocks; /* by offset, no two adjacent */
    size_t n, cap;
    uint64_t top;  /* end of the highest slot so far */
    uint64_t work;
} free_list;

static size_t place_of(const free_list *f, uint64_t offset)
{
    size_t lo = 0, hi = f->n;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (f->blocks[mid].offset < offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void remove_block(free_list *f, size_t i)
{
    memmove(&f->blocks[i], &f->blocks[i + 1], (f->n - i - 1) * sizeof *f->blocks);
    f->n--;
}

static bool give_back(free_list *f, uint64_t offset, uint64_t bytes)
{
    size_t i = place_of(f, offset);
    bool after = i > 0 && f->blocks[i - 1].offset + f->blocks[i - 1].bytes == offset;
    bool before = i < f->n && offset + bytes == f->blocks[i].offset;
    f->work += 1 + (f->n - i) / 16;
    if (after && before) {
        f->blocks[i - 1].bytes += bytes + f->blocks[i].bytes;
        remove_block(f, i);
    } else if (after) {
        f->blocks[i - 1].bytes += bytes;
    } else if (before) {
        f->blocks[i].offset = offset;
        f->blocks[i].bytes += bytes;
    } else {
        if (!rx_grow(&f->blocks, &f->cap, f->n + 1, sizeof *f->blocks))
            return false;
        memmove(&f->blocks[i + 1], &f->blocks[i], (f->n - i) * sizeof *f->blocks);
        f->blocks[i] = (block){offset, bytes};
        f->n++;
    }
    return true;
}

static uint64_t take(free_list *f, uint64_t bytes)
{
    size_t best = f->n;
    for (size_t i = 0; i < f->n; i++)
        if (f->blocks[i].bytes >= bytes &&
            (best == f->n || f->blocks[i].bytes < f->blocks[best].bytes))
            best = i;
    f->work += f->n + 1;
    uint64_t offset;
    if (best < f->n) {
        offset = f->blocks[best].offset;
        f->blocks[best].offset += bytes;
        f->blocks[best].bytes -= bytes;
        if (!f->blocks[best].bytes)
            remove_block(f, best);
        return offset;
    }
    const block *high = f->n ? &f->blocks[f->n - 1] : NULL;
    offset = f->top;
    if (high && high->offset + high->bytes == f->top) {
        offset = high->offset;
        f->n--;
    }
    f->top = offset + bytes;
    return offset;
}

/* Slots by the step at which they end, as linked lists: heads[step], next[slot]. */
static void list_ends(const rx_slot *slots, size_t n, size_t n_steps, uint32_t *heads,
                      uint32_t *next)
{
    memset(heads, 0xff, (n_steps + 1) * sizeof *heads);
    for (size_t i = 0; i < n; i++) {
        next[i] = heads[slots[i].last];
        heads[slots[i].last] = (uint32_t)i;
    }
}

/* Best fit in order of time. *total is UINT64_MAX when the budget was spent. */
static bool place_by_time(const rx_slot *slots, size_t n, size_t n_steps, uint64_t *offsets,
                         uint64_t *total)
{
    free_list f = {0};
    uint32_t *heads = rx_alloc_array(n_steps + 1, sizeof *heads);
    uint32_t *next = rx_alloc_array(n + 1, sizeof *next);
    bool ok = heads && next;
    size_t at = 0;
    if (ok)
        list_ends(slots, n, n_steps, heads, next);
    for (size_t step = 0; ok && step < n_steps && f.work <= work_budget(n); step++) {
        for (uint32_t i = step ? heads[step - 1] : NONE; ok && i != NONE; i = next[i])
            ok = !slots[i].bytes || give_back(&f, offsets[i], slots[i].bytes);
        for (; at < n && slots[at].first == step; at++)
            offsets[at] = slots[at].bytes ? take(&f, slots[at].bytes) : 0;
    }
    *total = at == n ? f.top : UINT64_MAX;
    rx_free(f.blocks);
    rx_free(heads);
    rx_free(next);
    return ok;
}

/* ---- In order of size ----------------------------------------------------------------------- */

/* The slots placed so far, indexed by time: a segment tree over the steps; each slot is entered in
 * the nodes that cover its lifetime. */
typedef struct entry {
    uint32_t slot, next;
} entry;

typedef struct placer {
    const rx_slot *slots;
    size_t n;
    uint64_t *offsets;
    bool *placed;
    size_t width;       /* of the tree: a power of two above n_steps */
    uint32_t *heads;    /* by node of the tree: its first entry or NONE */
    entry *entries;
    size_t n_entries, cap_entries;
    block *taken;       /* ranges that overlap the current slot in time */
    size_t n_taken, cap_taken;
    uint64_t work;
} placer;

static bool enter_node(placer *p, size_t node, uint32_t slot)
{
    if (!rx_grow(&p->entries, &p->cap_entries, p->n_entries + 1, sizeof *p->entries))
        return false;
    p->entries[p->n_entries] = (entry){slot, p->heads[node]};
    p->heads[node] = (uint32_t)p->n_entries++;
    return true;
}

static bool enter(placer *p, uint32_t slot)
{
    size_t lo = p->slots[slot].first + p->width, hi = p->slots[slot].last + p->width + 1;
    bool ok = true;
    p->placed[slot] = true;
    for (; ok && lo < hi; lo /= 2, hi /= 2) {
        if (lo & 1)
            ok = enter_node(p, lo++, slot);
        if (ok && hi & 1)
            ok = enter_node(p, --hi, slot);
    }
    return ok;
}

static bool note_taken(placer *p, uint32_t slot)
{
    if (!rx_grow(&p->taken, &p->cap_taken, p->n_taken + 1, sizeof *p->taken))
        return false;
    p->taken[p->n_taken++] = (block){p->offsets[slot], p->slots[slot].bytes};
    return true;
}

/* Collects the placed slots with overlapping lifetimes: those live when it begins, and those that
 * begin during its life. */
static bool find_taken(placer *p, uint32_t slot)
{
    const rx_slot *s = &p->slots[slot];
    bool ok = true;
    p->n_taken = 0;
    for (size_t node = s->first + p->width; node; node /= 2)
        for (uint32_t e = p->heads[node]; ok && e != NONE; e = p->entries[e].next)
            ok = note_taken(p, p->entries[e].slot);
    size_t lo = slot;
    while (lo < p->n && p->slots[lo].first == s->first)
        lo++;
    for (size_t i = lo; ok && i < p->n && p->slots[i].first <= s->last; i++, p->work++)
        if (p->placed[i])
            ok = note_taken(p, (uint32_t)i);
    p->work += p->n_taken + 16;
    return ok;
}

static int compare_blocks(const void *a, const void *b)
{
    const block *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* The smallest gap that is large enough, or the end of the occupied ranges. */
static uint64_t best_gap(placer *p, uint64_t bytes)
{
    if (p->n_taken)
        qsort(p->taken, p->n_taken, sizeof *p->taken, compare_blocks);
    uint64_t end = 0, best = UINT64_MAX, best_bytes = UINT64_MAX;
    for (size_t i = 0; i < p->n_taken; i++) {
        const block *b = &p->taken[i];
        if (b->offset > end && b->offset - end >= bytes && b->offset - end < best_bytes) {
            best = end;
            best_bytes = b->offset - end;
        }
        if (b->offset + b->bytes > end)
            end = b->offset + b->bytes;
    }
    return best != UINT64_MAX ? best : end;
}

/* A slot and its priority: the highest key is placed first. */
typedef struct ranked {
    double key;
    uint32_t slot;
} ranked;

static int compare_ranked(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key > y->key ? -1 : 1;
    return x->slot < y->slot ? -1 : 1;
}

static bool place_all(placer *p, const ranked *order, uint64_t *total)
{
    uint64_t top = 0;
    *total = UINT64_MAX;
    for (size_t i = 0; i < p->n; i++) {
        uint32_t slot = order[i].slot;
        uint64_t bytes = p->slots[slot].bytes;
        if (p->work > work_budget(p->n))
            return true;
        p->offsets[slot] = 0;
        if (!bytes)
            continue;
        if (!find_taken(p, slot))
            return false;
        p->offsets[slot] = best_gap(p, bytes);
        if (!enter(p, slot))
            return false;
        if (p->offsets[slot] + bytes > top)
            top = p->offsets[slot] + bytes;
    }
    *total = top;
    return true;
}

/* Places the slots in the order of `keys` (by slot). */
static bool place_by_key(const rx_slot *slots, size_t n, size_t n_steps, const double *keys,
                        uint64_t *offsets, uint64_t *total)
{
    placer p = {.slots = slots, .n = n, .offsets = offsets, .width = 1};
    while (p.width < n_steps + 1)
        p.width *= 2;
    ranked *order = rx_alloc_array(n + 1, sizeof *order);
    p.heads = rx_alloc_array(2 * p.width, sizeof *p.heads);
    p.placed = rx_alloc_zero(n + 1);
    bool ok = order && p.heads && p.placed;
    if (ok) {
        memset(p.heads, 0xff, 2 * p.width * sizeof *p.heads);
        for (size_t i = 0; i < n; i++)
            order[i] = (ranked){keys[i], (uint32_t)i};
        qsort(order, n, sizeof *order, compare_ranked);
        ok = place_all(&p, order, total);
    }
    rx_free(order);
    rx_free(p.heads);
    rx_free(p.placed);
    rx_free(p.entries);
    rx_free(p.taken);
    return ok;
}

/* ---- The best of all ------------------------------------------------------------------------ */

/* No reuse at all: valid, and the fallback when all budgets are spent. */
static uint64_t place_in_line(rx_slot *slots, size_t n)
{
    uint64_t top = 0;
    for (size_t i = 0; i < n; i++) {
        slots[i].offset = top;
        top += slots[i].bytes;
    }
    return top;
}

typedef struct search {
    rx_slot *slots;  /* with the best offsets so far */
    size_t n, n_steps;
    uint64_t total;  /* of the best */
    uint64_t *offsets;
    double *keys;    /* by slot */
} search;

static void keep_if_better(search *k, uint64_t total)
{
    if (total >= k->total)
        return;
    k->total = total;
    for (size_t i = 0; i < k->n; i++)
        k->slots[i].offset = k->offsets[i];
}

static bool try_keys(search *k, uint64_t *total)
{
    *total = UINT64_MAX;
    if (!place_by_key(k->slots, k->n, k->n_steps, k->keys, k->offsets, total))
        return false;
    keep_if_better(k, *total);
    return true;
}

static void set_keys(search *k, int order)
{
    for (size_t i = 0; i < k->n; i++) {
        const rx_slot *s = &k->slots[i];
        double life = (double)s->last - s->first + 1, bytes = (double)s->bytes;
        k->keys[i] = order == 0 ? bytes : order == 1 ? bytes * life : life;
    }
}

/* Repeats by size; each time the slots that ended highest are placed earlier. */
static bool improve(search *k, uint64_t bound)
{
    double front = 0;
    uint64_t total = 0;
    set_keys(k, 0);
    for (size_t i = 0; i < k->n; i++)
        front = k->keys[i] > front ? k->keys[i] : front;
    for (int round = 0; round < MAX_ROUNDS && k->total > bound && total != UINT64_MAX; round++) {
        if (!try_keys(k, &total))
            return false;
        front += 1;
        for (size_t i = 0; i < k->n; i++)
            if (k->slots[i].bytes && k->offsets[i] + k->slots[i].bytes == total)
                k->keys[i] = front;
    }
    return true;
}

bool rx_assign_offsets(rx_slot *slots, size_t n, size_t n_steps, uint64_t bound, uint64_t *total)
{
    search k = {.slots = slots, .n = n, .n_steps = n_steps};
    uint64_t got = UINT64_MAX;
    k.total = place_in_line(slots, n);
    k.offsets = rx_alloc_array(n + 1, sizeof *k.offsets);
    k.keys = rx_alloc_array(n + 1, sizeof *k.keys);
    bool ok = k.offsets && k.keys;
    if (ok && k.total > bound) {
        ok = place_by_time(slots, n, n_steps, k.offsets, &got);
        if (ok)
            keep_if_better(&k, got);
    }
    for (int order = 0; ok && order < 3 && k.total > bound; order++) {
        set_keys(&k, order);
        ok = try_keys(&k, &got);
    }
    if (ok && n <= MAX_IMPROVED)
        ok = improve(&k, bound);
    rx_free(k.offsets);
    rx_free(k.keys);
    *total = k.total;
    return ok;
}
