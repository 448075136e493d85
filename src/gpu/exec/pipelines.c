/* SPDX-License-Identifier: MIT */
/* The table of a device's pipelines: open addressing by key, with pointers, so that dispatches can
 * hold what they use. */
#include "gpu/exec/pipelines.h"

#include <stdatomic.h>

/* Unreferenced pipelines that are kept before the older half is destroyed. */
#define MAX_UNUSED 256

/* The slot of a key: its own or the empty one where it would go. There are empty slots. */
static rx_gpu_pipeline **find_slot(const rx_gpu_pipelines *p, const uint64_t key[2])
{
    for (size_t i = key[0];; i++) {
        rx_gpu_pipeline **s = &p->list[i & (p->cap - 1)];
        if (!*s || ((*s)->key[0] == key[0] && (*s)->key[1] == key[1]))
            return s;
    }
}

bool rx_gpu_pipelines_reserve(rx_gpu_pipelines *p, size_t more)
{
    size_t cap = p->cap ? p->cap : 64;
    while (cap < (p->n + more + 1) * 2)
        cap *= 2;
    if (cap == p->cap)
        return true;
    rx_gpu_pipelines bigger = {.cap = cap, .list = rx_alloc_array_zero(cap, sizeof *p->list)};
    if (!bigger.list)
        return false;
    for (size_t i = 0; i < p->cap; i++)
        if (p->list[i])
            *find_slot(&bigger, p->list[i]->key) = p->list[i];
    rx_free(p->list);
    p->list = bigger.list;
    p->cap = cap;
    return true;
}

rx_gpu_pipeline *rx_gpu_pipelines_find(const rx_gpu_pipelines *p, const uint64_t key[2])
{
    return p->cap ? *find_slot(p, key) : NULL;
}

void rx_gpu_pipelines_add(rx_gpu_pipelines *p, rx_gpu_pipeline *x)
{
    *find_slot(p, x->key) = x;
    x->used = p->n_gets;
    p->n++;
    p->n_unused++;
}

void rx_gpu_pipelines_hold(rx_gpu_pipelines *p, rx_gpu_pipeline *x)
{
    p->n_unused -= !x->refs;
    x->refs++;
    x->used = p->n_gets;
}

void rx_gpu_pipelines_drop(rx_gpu_pipelines *p, rx_gpu_pipeline *x)
{
    x->refs--;
    p->n_unused += !x->refs;
}

rx_gpu_pipeline *rx_gpu_pipelines_trim(rx_gpu_pipelines *p)
{
    rx_gpu_pipeline *out = NULL;
    if (p->n_unused <= MAX_UNUSED)
        return NULL;
    rx_gpu_pipelines next = {.cap = p->cap, .list = rx_alloc_array_zero(p->cap, sizeof *p->list)};
    if (!next.list)
        return NULL;
    uint64_t low = UINT64_MAX;
    for (size_t i = 0; i < p->cap; i++)
        if (p->list[i] && !p->list[i]->refs && p->list[i]->used < low)
            low = p->list[i]->used;
    const uint64_t middle = low + (p->n_gets - low) / 2;
    for (size_t i = 0; i < p->cap; i++) {
        rx_gpu_pipeline *x = p->list[i];
        if (x && (x->refs || x->used > middle)) {
            *find_slot(&next, x->key) = x;
        } else if (x) {
            x->next = out;
            out = x;
            p->n--;
            p->n_unused--;
        }
    }
    rx_free(p->list);
    p->list = next.list;
    return out;
}

/* ---- Making --------------------------------------------------------------------------------- */

#define MAX_THREADS 8

typedef struct batch {
    void (*make)(void *user, size_t i);
    void *user;
    size_t n;
    atomic_size_t next;
} batch;

static void *work_batch(void *user)
{
    batch *b = user;
    size_t i;
    while ((i = atomic_fetch_add(&b->next, 1)) < b->n)
        b->make(b->user, i);
    return NULL;
}

void rx_gpu_pipelines_make(size_t n, void (*make)(void *user, size_t i), void *user)
{
    batch b = {.make = make, .user = user, .n = n};
    rx_thread threads[MAX_THREADS];
    size_t n_threads = 0;
    while (n_threads < MAX_THREADS && n_threads + 1 < n &&
           rx_thread_start(&threads[n_threads], work_batch, &b))
        n_threads++;
    work_batch(&b);
    for (size_t i = 0; i < n_threads; i++)
        rx_thread_join(&threads[i]);
}
