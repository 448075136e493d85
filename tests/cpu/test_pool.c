/* SPDX-License-Identifier: MIT */
/* The thread pool: every index once, fixed chunk borders, nested and concurrent use, sleep. */
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "base/thread.h"
#include "check.h"
#include "cpu/kernel.h"
#include "cpu/pool.h"

typedef struct counts {
    atomic_int *seen;
    int64_t n, chunk;
    rx_pool *nested;
    atomic_int bad;
    int n_threads;
} counts;

static void count_range(void *user, int64_t begin, int64_t end)
{
    counts *c = user;
    if (begin % c->chunk || end - begin > c->chunk || (end < c->n && end % c->chunk))
        atomic_fetch_add(&c->bad, 1);
    if (rx_pool_slot() < 0 || rx_pool_slot() >= c->n_threads)
        atomic_fetch_add(&c->bad, 1);
    for (int64_t i = begin; i < end; i++)
        atomic_fetch_add(&c->seen[i], 1);
}

static bool covers_once(rx_pool *pool, int64_t n, int64_t chunk)
{
    counts c = {calloc((size_t)n + 1, sizeof(atomic_int)), n, chunk, NULL, 0,
                rx_pool_n_threads(pool)};
    rx_parallel(pool, n, chunk, count_range, &c);
    bool ok = !atomic_load(&c.bad);
    for (int64_t i = 0; i < n; i++)
        ok = ok && atomic_load(&c.seen[i]) == 1;
    free(c.seen);
    return ok;
}

static void test_cover(rx_pool *pool)
{
    static const int64_t sizes[] = {0, 1, 2, 7, 64, 1000, 4096};
    static const int64_t chunks[] = {1, 3, 64, 5000};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        for (size_t k = 0; k < sizeof chunks / sizeof chunks[0]; k++)
            CHECK(covers_once(pool, sizes[i], chunks[k]));
    bool ok = true;
    for (int i = 0; i < 2000; i++)
        ok = ok && covers_once(pool, 37, 2);
    CHECK(ok);
}

static void nested_range(void *user, int64_t begin, int64_t end)
{
    counts *c = user;
    for (int64_t i = begin; i < end; i++)
        if (!covers_once(c->nested, 100, 7))
            atomic_fetch_add(&c->bad, 1);
}

static void test_nested(rx_pool *pool)
{
    counts c = {.nested = pool};
    rx_parallel(pool, 32, 1, nested_range, &c);
    CHECK(!atomic_load(&c.bad));
}

static void *use_pool(void *user)
{
    bool ok = true;
    for (int i = 0; i < 500; i++)
        ok = ok && covers_once(user, 200, 3);
    return ok ? user : NULL;
}

static void test_concurrent(rx_pool *pool)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, use_pool, pool);
    for (int i = 0; i < 4; i++) {
        void *result;
        pthread_join(threads[i], &result);
        CHECK(result == pool);
    }
}

typedef struct delays {
    atomic_int done[64], n_done;
    atomic_int away; /* 1: a worker has begun its chunk and does not end it */
    atomic_int late; /* 1: the others did not do the rest */
    atomic_int wide; /* 1: a call had more than one chunk */
} delays;

/* The first chunk that a worker takes stays unfinished until all others are done: a thread that has
 * lost its core. */
static void delay_worker(void *user, int64_t begin, int64_t end)
{
    delays *d = user;
    if (end != begin + 1)
        atomic_store(&d->wide, 1);
    if (rx_pool_slot() && !atomic_exchange(&d->away, 1)) {
        const int64_t limit = rx_now_ns() + 5000000000;
        while (atomic_load(&d->n_done) < 63 && rx_now_ns() < limit)
            rx_thread_yield();
        if (atomic_load(&d->n_done) < 63)
            atomic_store(&d->late, 1);
    }
    atomic_fetch_add(&d->done[begin], 1);
    atomic_fetch_add(&d->n_done, 1);
}

/* Others take the chunks that were a delayed thread's, and the job ends when it comes back. */
static void test_delayed(rx_pool *pool)
{
    for (int i = 0; i < 20; i++) {
        delays d = {0};
        rx_parallel(pool, 64, 1, delay_worker, &d);
        bool once = true;
        for (int k = 0; k < 64; k++)
            once = once && atomic_load(&d.done[k]) == 1;
        CHECK(once && !atomic_load(&d.late) && !atomic_load(&d.wide));
        CHECK(atomic_load(&d.n_done) == 64);
    }
}

static void sleep_in_worker(void *user, int64_t begin, int64_t end)
{
    (void)begin, (void)end;
    if (rx_pool_slot())
        nanosleep(&(struct timespec){0, 50000000}, NULL);
    else
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    atomic_fetch_add((atomic_int *)user, 1);
}

/* An owner that waits for a thread that does not run takes no time of the processor. */
static void test_waiting_owner(rx_pool *pool)
{
    atomic_int n = 0;
    const clock_t before = clock();
    for (int i = 0; i < 5; i++)
        rx_parallel(pool, 6, 1, sleep_in_worker, &n);
    CHECK(atomic_load(&n) == 30);
    CHECK((double)(clock() - before) / CLOCKS_PER_SEC < 0.1);
}

/* Idle workers must sleep: the process uses next to no time of the processor while it waits. */
static void test_idle(rx_pool *pool)
{
    CHECK(covers_once(pool, 100, 1));
    struct timespec pause = {0, 200000000};
    clock_t before = clock();
    nanosleep(&pause, NULL);
    double used = (double)(clock() - before) / CLOCKS_PER_SEC;
    CHECK(used < 0.1);
}

static void test_pools(void)
{
    rlx_error err;
    rx_pool *a, *b, *one;
    CHECK_OK(rx_pool_create(3, &a, &err), &err);
    CHECK_OK(rx_pool_create(6, &b, &err), &err);
    CHECK_OK(rx_pool_create(1, &one, &err), &err);
    CHECK(rx_pool_n_threads(a) == 3 && rx_pool_n_threads(b) == 6 && rx_pool_n_threads(one) == 1);
    CHECK(rx_pool_n_threads(NULL) == 1);
    test_cover(a);
    test_cover(b);
    test_cover(one);
    test_cover(NULL);
    test_nested(b);
    test_concurrent(b);
    rx_pool_destroy(a);
    test_concurrent(b);
    test_delayed(b);
    test_waiting_owner(b);
    test_idle(b);
    rx_pool_destroy(b);
    rx_pool_destroy(one);
    rx_pool_destroy(NULL);
    CHECK_OK(rx_pool_create(0, &a, &err), &err);
    CHECK(rx_pool_n_threads(a) >= 1);
    test_cover(a);
    rx_pool_destroy(a);
}

int main(void)
{
    CHECK(rx_cpu_cores() >= 1);
    test_pools();
    return check_done();
}
