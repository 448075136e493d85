/* SPDX-License-Identifier: MIT */
/* The thread pool. One job runs on the workers at a time. Its chunks are divided among the threads
 * in order, so that each thread walks through consecutive memory and finds the data of its last run
 * in its cache; a thread without chunks steals from the ends of others. A second rx_parallel at the
 * same time, or one inside a chunk, runs inline on its caller. A waiting thread spins for a moment,
 * then yields to other processes, so that its own time slice is left for work, then sleeps.
 * Sleeping at once was measured to be slower beside busy processes. */
#include "cpu/pool.h"

#include <stdatomic.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/kernel.h"

#define MAX_WORKERS (RX_MAX_THREADS - 1)
#define SPINS 2000         /* about ten microseconds: the next step of a small model follows at once
                            * */
#define YIELDS 10          /* time slices of others */
#define CONTENDED_NS 50000 /* a longer yield means that another process has run */

#define MAX_CLAIMS (1 << 24)

typedef struct rx_job {
    rx_range_fn *fn;
    void *user;
    int64_t n, chunk;
    int64_t group; /* chunks claimed at once: 1 unless there are MAX_CLAIMS of them */
} rx_job;

/* The part of a job that belongs to one thread, in one cache line: cores may be far apart, and a
 * cache line transfer takes as long as a thousand additions. */
typedef struct rx_share {
    /* Claims that are left: the first in bits 0 to 23, the end in bits 24 to 47, and above them how
     * many threads the job has. Who changes this to take a claim has one of the job that is
     * published at that moment, and that job stays as it is until its thread has counted the claim
     * in its own `finished`. */
    atomic_uint_fast64_t word;
    atomic_uint_fast64_t finished; /* claims that this thread has run */
    atomic_uint_fast64_t news;     /* changes with each job of this thread */
    rx_job job;
    char apart[64];
} rx_share;

typedef struct rx_workers {
    rx_share shares[MAX_WORKERS + 1]; /* of the owner of the job, then of the workers */
    rx_mutex lock;
    rx_cond wake, finished;
    atomic_int sleepers;
    atomic_bool stop;
    int n_workers, refs;
    rx_thread threads[MAX_WORKERS];
    struct rx_worker_arg {
        struct rx_workers *w;
        int index;
    } args[MAX_WORKERS];
    atomic_int waiting;        /* 1: the owner of the job sleeps on `finished` */
    char apart[128];
    atomic_bool busy;          /* a job has the workers */
    uint64_t n_jobs;           /* used by the owner of the job */
} rx_workers;

struct rx_pool {
    rx_workers *workers; /* NULL: one thread */
    int n_threads;
};

/* The workers of the process: made with the first pool, joined with the last. */
static rx_mutex shared_lock = RX_MUTEX_INIT;
static rx_workers *shared;

static _Thread_local int thread_slot;

int rx_pool_slot(void)
{
    return thread_slot;
}

int rx_pool_n_threads(const rx_pool *p)
{
    return p ? p->n_threads : 1;
}

/* ---- Claiming chunks ------------------------------------------------------------------------- */

#define FIRST(word) ((int64_t)((word) & (MAX_CLAIMS - 1)))
#define END(word) ((int64_t)((word) >> 24 & (MAX_CLAIMS - 1)))
#define N_SHARES(word) ((int)((word) >> 48))

/* Takes the first claim of a share, or the last of another thread's; -1 when there is none. */
static int64_t take_claim(rx_share *s, int slot, bool own)
{
    uint_fast64_t word = atomic_load(&s->word);
    while (FIRST(word) < END(word) && slot < N_SHARES(word)) {
        const uint64_t less = own ? word + 1 : word - MAX_CLAIMS;
        if (atomic_compare_exchange_weak(&s->word, &word, less))
            return own ? FIRST(word) : END(word) - 1;
    }
    return -1;
}

static void run_claim(const rx_job *job, int64_t claim)
{
    int64_t begin = claim * job->group * job->chunk;
    for (int64_t i = 0; i < job->group && begin < job->n; i++, begin += job->chunk)
        job->fn(job->user, begin, job->n - begin < job->chunk ? job->n : begin + job->chunk);
}

/* After this the owner may publish another job. */
static void count_claims(rx_share *own, uint64_t n)
{
    const uint64_t before = atomic_load_explicit(&own->finished, memory_order_relaxed);
    if (n)
        atomic_store_explicit(&own->finished, before + n, memory_order_release);
}

/* Runs the claims of a thread, `n` of which are done already, then steals claims of others. */
static void work(rx_workers *w, int slot, int n_shares, uint64_t n)
{
    rx_share *own = &w->shares[slot];
    uint64_t more = 0;
    int64_t claim;
    while ((claim = take_claim(own, slot, true)) >= 0) {
        run_claim(&own->job, claim);
        n++;
    }
    count_claims(own, n);
    for (int i = 1; i < n_shares; i++) {
        rx_share *other = &w->shares[(slot + i) % n_shares];
        while ((claim = take_claim(other, slot, false)) >= 0) {
            run_claim(&other->job, claim);
            more++;
        }
    }
    count_claims(own, more);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

typedef bool rx_ready_fn(void *user);

/* Waits without sleeping until ready(user); false on timeout. Where no other process wants the core
 * a yield returns at once, and sleeping is next. */
static inline bool wait_awake(rx_ready_fn *ready, void *user)
{
    for (int i = 0; i < SPINS; i++) {
        if (ready(user))
            return true;
        rx_spin_pause();
    }
    for (int i = 0; i < YIELDS; i++) {
        const int64_t before = rx_now_ns();
        rx_thread_yield();
        if (ready(user))
            return true;
        if (rx_now_ns() - before < CONTENDED_NS)
            break;
    }
    return false;
}

/* ---- Workers --------------------------------------------------------------------------------- */

typedef struct rx_listener {
    rx_share *own;
    uint64_t seen; /* the news of the last job */
} rx_listener;

static bool has_news(void *user)
{
    rx_listener *l = user;
    const uint64_t before = l->seen;
    l->seen = atomic_load(&l->own->news);
    return l->seen != before;
}

static bool sleep_until_news(rx_workers *w, rx_listener *l)
{
    bool found = false;
    rx_mutex_lock(&w->lock);
    atomic_fetch_add(&w->sleepers, 1);
    while (!(found = has_news(l)) && !atomic_load(&w->stop))
        rx_cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->sleepers, 1);
    rx_mutex_unlock(&w->lock);
    return found;
}

static void wake_owner(rx_workers *w)
{
    /* A read-modify-write on both sides, so that either the owner sees the count or this thread
     * sees the owner. */
    if (!atomic_fetch_add(&w->waiting, 0))
        return;
    rx_mutex_lock(&w->lock);
    rx_cond_broadcast(&w->finished);
    rx_mutex_unlock(&w->lock);
}

static void *worker_main(void *user)
{
    struct rx_worker_arg *arg = user;
    rx_workers *w = arg->w;
    const int slot = arg->index + 1;
    rx_listener l = {&w->shares[slot], 0};
    thread_slot = slot;
    while (!atomic_load(&w->stop)) {
        if (!wait_awake(has_news, &l) && !sleep_until_news(w, &l))
            continue;
        work(w, slot, (int)(l.seen & 0xffff), 0);
        wake_owner(w);
    }
    return NULL;
}

/* ---- Running a job --------------------------------------------------------------------------- */

typedef struct rx_goal {
    rx_workers *w;
    int n_shares;
    uint64_t n_claims;
} rx_goal;

static bool is_done(void *user)
{
    const rx_goal *g = user;
    uint64_t left = g->n_claims;
    for (int i = 0; i < g->n_shares; i++)
        left -= atomic_load(&g->w->shares[i].finished);
    return left == 0;
}

static void sleep_until_done(rx_goal *g)
{
    rx_workers *w = g->w;
    rx_mutex_lock(&w->lock);
    atomic_fetch_add(&w->waiting, 1);
    while (!is_done(g))
        rx_cond_wait(&w->finished, &w->lock);
    atomic_fetch_sub(&w->waiting, 1);
    rx_mutex_unlock(&w->lock);
}

/* The owner has already taken the first claim of share 0. Nothing here waits for other cores. A
 * worker that is about to sleep may miss the wake-up; then the others steal its claims. */
static void publish(rx_workers *w, const rx_job *job, int n_shares, int64_t n_claims)
{
    w->n_jobs++;
    for (int i = 0; i < n_shares; i++) {
        w->shares[i].job = *job;
        atomic_store_explicit(&w->shares[i].finished, 0, memory_order_relaxed);
    }
    for (int64_t i = 0; i < n_shares; i++) {
        const int64_t first = n_claims * i / n_shares + !i, end = n_claims * (i + 1) / n_shares;
        atomic_store_explicit(&w->shares[i].word, (uint64_t)first | (uint64_t)end << 24 |
                              (uint64_t)n_shares << 48, memory_order_release);
        atomic_store_explicit(&w->shares[i].news, w->n_jobs << 16 | (uint64_t)n_shares,
                              memory_order_release);
    }
    if (atomic_load_explicit(&w->sleepers, memory_order_relaxed)) {
        rx_mutex_lock(&w->lock);
        rx_cond_broadcast(&w->wake);
        rx_mutex_unlock(&w->lock);
    }
}

static void run_on_workers(rx_workers *w, const rx_job *job, int n_threads, int64_t n_claims)
{
    const int n_shares = n_claims < n_threads ? (int)n_claims : n_threads;
    rx_goal goal = {w, n_shares, (uint64_t)n_claims};
    publish(w, job, n_shares, n_claims);
    run_claim(job, 0);
    work(w, 0, n_shares, 1);
    if (!wait_awake(is_done, &goal))
        sleep_until_done(&goal);
}

void rx_parallel(rx_pool *pool, int64_t n, int64_t chunk, rx_range_fn *fn, void *user)
{
    if (n <= 0)
        return;
    if (chunk < 1)
        chunk = 1;
    const int64_t n_chunks = (n - 1) / chunk + 1;
    const int64_t group = (n_chunks - 1) / (MAX_CLAIMS - 1) + 1;
    const rx_job job = {fn, user, n, chunk, group}, alone = {fn, user, n, chunk, n_chunks};
    rx_workers *w = pool ? pool->workers : NULL;
    if (!w || n_chunks == 1 || thread_slot || atomic_exchange(&w->busy, true)) {
        run_claim(&alone, 0);
        return;
    }
    run_on_workers(w, &job, pool->n_threads, (n_chunks - 1) / group + 1);
    atomic_store_explicit(&w->busy, false, memory_order_release);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static rx_workers *workers_create(void)
{
    rx_workers *w = rx_alloc_aligned_zero(sizeof *w);
    if (!w)
        return NULL;
    if (!rx_mutex_init(&w->lock))
        goto no_lock;
    if (!rx_cond_init(&w->wake))
        goto no_wake;
    if (!rx_cond_init(&w->finished))
        goto no_finished;
    return w;
no_finished:
    rx_cond_finish(&w->wake);
no_wake:
    rx_mutex_finish(&w->lock);
no_lock:
    rx_free_aligned(w);
    return NULL;
}

static void workers_destroy(rx_workers *w)
{
    rx_mutex_lock(&w->lock);
    atomic_store(&w->stop, true);
    rx_cond_broadcast(&w->wake);
    rx_mutex_unlock(&w->lock);
    for (int i = 0; i < w->n_workers; i++)
        rx_thread_join(&w->threads[i]);
    rx_cond_finish(&w->finished);
    rx_cond_finish(&w->wake);
    rx_mutex_finish(&w->lock);
    rx_free_aligned(w);
}

/* Starts workers until there are n; shared_lock is held. */
static void workers_grow(rx_workers *w, int n)
{
    while (w->n_workers < n) {
        int i = w->n_workers;
        w->args[i] = (struct rx_worker_arg){w, i};
        if (!rx_thread_start(&w->threads[i], worker_main, &w->args[i]))
            return;
        w->n_workers++;
    }
}

static uint32_t default_threads(void)
{
    return (uint32_t)rx_env_number(RX_ENV_THREADS, 1, RX_MAX_THREADS, rx_cpu_cores());
}

rlx_status rx_pool_create(uint32_t n_threads, rx_pool **out, rlx_error *err)
{
    *out = NULL;
    if (!n_threads)
        n_threads = default_threads();
    if (n_threads > RX_MAX_THREADS)
        n_threads = RX_MAX_THREADS;
    rx_pool *p = rx_alloc_zero(sizeof *p);
    if (!p)
        return rx_fail_memory(err, "the thread pool", sizeof *p);
    p->n_threads = 1;
    *out = p;
    if (n_threads == 1)
        return RLX_OK;

    rx_mutex_lock(&shared_lock);
    if (!shared)
        shared = workers_create();
    if (shared) {
        workers_grow(shared, (int)n_threads - 1);
        shared->refs++;
        p->workers = shared;
        p->n_threads = shared->n_workers + 1 < (int)n_threads ? shared->n_workers + 1
                                                              : (int)n_threads;
    }
    rx_mutex_unlock(&shared_lock);
    if (p->workers)
        return RLX_OK;
    rx_free(p);
    *out = NULL;
    return rx_fail_memory(err, "the worker threads", sizeof(rx_workers));
}

void rx_pool_destroy(rx_pool *p)
{
    if (!p)
        return;
    rx_workers *last = NULL;
    rx_mutex_lock(&shared_lock);
    if (p->workers && --p->workers->refs == 0) {
        last = shared;
        shared = NULL;
    }
    rx_mutex_unlock(&shared_lock);
    if (last)
        workers_destroy(last);
    rx_free(p);
}
