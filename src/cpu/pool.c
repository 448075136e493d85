/* SPDX-License-Identifier: MIT */
/* The thread pool. One job runs on the workers at a time; its chunks are claimed one by one from an
 * atomic word that holds how many are left. A second rx_parallel at the same time, or one inside a
 * chunk, runs inline on its caller. Workers without a job spin for a moment, then sleep. Where
 * other processes take the cores, a worker may lose its core in the middle of a chunk and the job
 * waits for it; after that the owner works alone for some time. */
#include "cpu/pool.h"

#include <stdatomic.h>

#include "base/env.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cpu/kernel.h"

#define MAX_WORKERS 1023
#define SPINS 2000 /* some ten microseconds: a step of a small model follows at once */
#define LATE_NS 50000        /* to wait this and four chunks longer is to have lost a core */
#define ALONE 8              /* times what was lost */
#define MAX_ALONE_NS 200000000

/* word: chunks left in the low half, threads allowed in the high half. A worker that lowers the
 * word by one owns a chunk of the job that is published at that moment, and this job's fields stay
 * as they are until `done` has counted that chunk. */
typedef struct rx_job {
    rx_range_fn *fn;
    void *user;
    int64_t n, chunk, n_chunks;
    int64_t group; /* chunks claimed at once: 1 unless there are 2^31 of them */
} rx_job;

typedef struct rx_workers {
    rx_mutex lock;
    rx_cond wake, finished;
    atomic_uint_fast64_t word;
    atomic_int_fast64_t done;  /* claims of the job that are finished */
    atomic_int sleepers;
    atomic_bool waiting;       /* the owner of the job sleeps on `finished` */
    atomic_bool busy;          /* a job has the workers */
    atomic_bool stop;
    rx_job job;
    int64_t alone_until;       /* rx_now_ns(); used by the owner of the job */
    int n_workers, refs;
    rx_thread threads[MAX_WORKERS];
    struct rx_worker_arg {
        struct rx_workers *w;
        int index;
    } args[MAX_WORKERS];
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

static uint64_t word_left(uint64_t word)
{
    return word & 0xffffffffu;
}

static bool has_work(rx_workers *w, int slot)
{
    uint64_t word = atomic_load(&w->word);
    return word_left(word) && (uint64_t)slot < word >> 32;
}

/* Takes one claim of the current job; its place counted from the end, 0 when there is none. */
static uint64_t take_claim(rx_workers *w, int slot)
{
    uint_fast64_t word = atomic_load(&w->word);
    while (word_left(word) && (uint64_t)slot < word >> 32)
        if (atomic_compare_exchange_weak(&w->word, &word, word - 1))
            return word_left(word);
    return 0;
}

static void run_chunks(const rx_job *job, int64_t first, int64_t last)
{
    for (int64_t i = first; i < last; i++) {
        int64_t begin = i * job->chunk;
        int64_t end = job->n - begin < job->chunk ? job->n : begin + job->chunk;
        job->fn(job->user, begin, end);
    }
}

static int64_t job_claims(const rx_job *job)
{
    return (job->n_chunks + job->group - 1) / job->group;
}

/* Runs claims until none is left; returns how many. The last one to finish wakes the owner. */
static int64_t work(rx_workers *w, int slot)
{
    for (int64_t n = 0;; n++) {
        uint64_t left = take_claim(w, slot);
        if (!left)
            return n;
        const rx_job *job = &w->job;
        int64_t n_claims = job_claims(job);
        int64_t first = (n_claims - (int64_t)left) * job->group;
        int64_t last = job->n_chunks - first < job->group ? job->n_chunks : first + job->group;
        run_chunks(job, first, last);
        /* After the last count the owner may publish another job: *job is not read again. */
        if (atomic_fetch_add(&w->done, 1) + 1 == n_claims && atomic_load(&w->waiting)) {
            rx_mutex_lock(&w->lock);
            rx_cond_broadcast(&w->finished);
            rx_mutex_unlock(&w->lock);
        }
    }
}

static void sleep_until_work(rx_workers *w, int slot)
{
    rx_mutex_lock(&w->lock);
    atomic_fetch_add(&w->sleepers, 1);
    while (!has_work(w, slot) && !atomic_load(&w->stop))
        rx_cond_wait(&w->wake, &w->lock);
    atomic_fetch_sub(&w->sleepers, 1);
    rx_mutex_unlock(&w->lock);
}

static void *worker_main(void *user)
{
    struct rx_worker_arg *arg = user;
    rx_workers *w = arg->w;
    int slot = arg->index + 1;
    thread_slot = slot;
    while (!atomic_load(&w->stop)) {
        work(w, slot);
        int spins = 0;
        while (spins < SPINS && !has_work(w, slot)) {
            rx_spin_pause();
            spins++;
        }
        if (spins == SPINS)
            sleep_until_work(w, slot);
    }
    return NULL;
}

/* ---- Running a job --------------------------------------------------------------------------- */

static void wait_done(rx_workers *w, int64_t n_claims)
{
    for (int spins = 0; spins < SPINS; spins++) {
        if (atomic_load(&w->done) == n_claims)
            return;
        rx_spin_pause();
    }
    rx_mutex_lock(&w->lock);
    atomic_store(&w->waiting, true);
    while (atomic_load(&w->done) != n_claims)
        rx_cond_wait(&w->finished, &w->lock);
    atomic_store(&w->waiting, false);
    rx_mutex_unlock(&w->lock);
}

static void run_on_workers(rx_workers *w, const rx_job *job, int n_threads, int64_t begin)
{
    w->job = *job;
    int64_t n_claims = job_claims(job);
    atomic_store(&w->done, 0);
    atomic_store(&w->word, (uint64_t)n_threads << 32 | (uint64_t)n_claims);
    if (atomic_load(&w->sleepers)) {
        rx_mutex_lock(&w->lock);
        rx_cond_broadcast(&w->wake);
        rx_mutex_unlock(&w->lock);
    }
    int64_t n = work(w, thread_slot);
    if (atomic_load(&w->done) == n_claims)
        return;
    int64_t end = rx_now_ns(), each = (end - begin) / (n + 1);
    wait_done(w, n_claims);
    int64_t now = rx_now_ns(), late = now - end;
    if (late > 4 * each + LATE_NS)
        w->alone_until = now + (late < MAX_ALONE_NS / ALONE ? ALONE * late : MAX_ALONE_NS);
}

void rx_parallel(rx_pool *pool, int64_t n, int64_t chunk, rx_range_fn *fn, void *user)
{
    if (n <= 0)
        return;
    if (chunk < 1)
        chunk = 1;
    rx_job job = {fn, user, n, chunk, (n - 1) / chunk + 1, 1};
    job.group = ((job.n_chunks - 1) >> 31) + 1;
    rx_workers *w = pool ? pool->workers : NULL;
    if (!w || job.n_chunks == 1 || thread_slot || atomic_exchange(&w->busy, true)) {
        run_chunks(&job, 0, job.n_chunks);
        return;
    }
    int64_t now = rx_now_ns();
    if (now < w->alone_until)
        run_chunks(&job, 0, job.n_chunks);
    else
        run_on_workers(w, &job, pool->n_threads, now);
    atomic_store(&w->busy, false);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static rx_workers *workers_create(void)
{
    rx_workers *w = rx_alloc_zero(sizeof *w);
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
    rx_free(w);
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
    rx_free(w);
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
    return (uint32_t)rx_env_number(RX_ENV_THREADS, 1, rx_cpu_cores());
}

rlx_status rx_pool_create(uint32_t n_threads, rx_pool **out, rlx_error *err)
{
    *out = NULL;
    if (!n_threads)
        n_threads = default_threads();
    if (n_threads > MAX_WORKERS + 1)
        n_threads = MAX_WORKERS + 1;
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
