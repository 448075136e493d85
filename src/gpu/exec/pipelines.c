/* SPDX-License-Identifier: MIT */
/* The pipelines of a device: a hash table with open addressing, of pointers, which dispatches
 * hold. */
#include "gpu/exec/pipelines.h"

#include <stdatomic.h>
#include <string.h>

#include "base/posix.h"

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

/* Reserves room for `more` pipelines; false: out of memory. */
static bool reserve(rx_gpu_pipelines *p, size_t more)
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

/* NULL: there is none. */
static rx_gpu_pipeline *find(const rx_gpu_pipelines *p, const uint64_t key[2])
{
    return p->cap ? *find_slot(p, key) : NULL;
}

/* Inserts a pipeline with a new key, for which room was reserved; its reference count is 0. */
static void add(rx_gpu_pipelines *p, rx_gpu_pipeline *x)
{
    *find_slot(p, x->key) = x;
    x->used = p->n_gets;
    p->n++;
    p->n_unused++;
}

static void hold(rx_gpu_pipelines *p, rx_gpu_pipeline *x)
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

/* Takes the older half of the unused pipelines out of the table when there are too many of them.
 * Returns them as a list. */
static rx_gpu_pipeline *trim(rx_gpu_pipelines *p)
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

#define MAX_THREADS 32

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

/* In a browser the device belongs to one thread. */
void rx_gpu_pipelines_make(size_t n, void (*make)(void *user, size_t i), void *user)
{
    batch b = {.make = make, .user = user, .n = n};
    rx_thread threads[MAX_THREADS];
    const size_t processors = RX_WASM_THREADS ? 1 : (size_t)rx_processors();
    const size_t most = processors < MAX_THREADS ? processors : MAX_THREADS;
    size_t n_threads = 0;
    while (n_threads + 1 < most && n_threads + 1 < n &&
           rx_thread_start(&threads[n_threads], work_batch, &b))
        n_threads++;
    work_batch(&b);
    for (size_t i = 0; i < n_threads; i++)
        rx_thread_join(&threads[i]);
}

/* ---- The pipelines of a list of dispatches -------------------------------------------------- */

static rlx_status list_missing(const rx_gpu_pipelines *p, const rx_gpu_pipeline_maker *m, size_t n,
                               rx_gpu_missing *list, size_t *n_missing, rlx_error *err)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t key[2];
        m->key(m->user, i, key);
        bool known = find(p, key);
        for (size_t k = 0; k < *n_missing && !known; k++)
            known = !memcmp(list[k].made->key, key, sizeof key);
        if (known)
            continue;
        rx_gpu_pipeline *x = rx_alloc_zero(m->bytes);
        if (!x)
            return rx_fail_memory(err, "a pipeline", m->bytes);
        memcpy(x->key, key, sizeof key);
        list[(*n_missing)++] = (rx_gpu_missing){.dispatch = i, .made = x};
    }
    return RLX_OK;
}

static rlx_status make_missing(rx_gpu_pipelines *p, const rx_gpu_pipeline_maker *m, size_t n,
                               rx_gpu_missing *list, rlx_error *err)
{
    size_t n_missing = 0;
    if (!reserve(p, n))
        return rx_fail_memory(err, "the table of pipelines", n * sizeof *p->list);
    rlx_status st = list_missing(p, m, n, list, &n_missing, err);
    if (st == RLX_OK && n_missing)
        st = m->make(m->user, list, n_missing, err);
    for (size_t i = 0; i < n_missing; i++) {
        if (list[i].ok)
            add(p, list[i].made);
        else
            m->destroy(m->user, list[i].made);
    }
    return st;
}

static void give(rx_gpu_pipelines *p, const rx_gpu_pipeline_maker *m, size_t dispatch)
{
    uint64_t key[2];
    m->key(m->user, dispatch, key);
    rx_gpu_pipeline *x = find(p, key);
    hold(p, x);
    m->give(m->user, dispatch, x);
}

rlx_status rx_gpu_pipelines_get(rx_gpu_pipelines *p, const rx_gpu_pipeline_maker *m, size_t n,
                                rlx_error *err)
{
    rx_gpu_missing *list = rx_alloc_array_zero(n + 1, sizeof *list);
    if (!list)
        return rx_fail_memory(err, "new pipelines", n * sizeof *list);
    rx_mutex_lock(&p->lock);
    p->n_gets++;
    rlx_status st = make_missing(p, m, n, list, err);
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        give(p, m, i);
    for (rx_gpu_pipeline *next, *x = trim(p); x; x = next) {
        next = x->next;
        m->destroy(m->user, x);
    }
    rx_mutex_unlock(&p->lock);
    rx_free(list);
    return st;
}
