/* SPDX-License-Identifier: MIT */
/* Threads and locks in WebAssembly. The page makes the threads: workers with an instance of the
 * module each over one shared memory, that wait in rx_thread_serve until a thread is started, since
 * a worker cannot begin while the one that makes it is inside a call. Without workers
 * rx_thread_start fails and nothing waits. wasi-libc knows nothing of threads: its functions for
 * memory take a lock here where rlx-threads.wasm is linked (--wrap). */
#include "base/thread.h"

#if RX_WASM_THREADS

#include <limits.h>
#include <stdlib.h>

/* Functions that only rlx-threads.wasm has. */
#define ABSENT_WITHOUT_SHARING __attribute__((weak))

/* No sleep is longer than this; whoever wakes looks again at what it waits for. */
#define LONGEST_SLEEP_NS 20000000

/* Sleeps while the word has this value, at most so long (-1: no limit), or shorter. Who is alone
 * would not be woken, and may not sleep. */
static void sleep_while(atomic_int *word, int value, int64_t ns)
{
    if (ns < 0 || ns > LONGEST_SLEEP_NS)
        ns = LONGEST_SLEEP_NS;
    if (rx_thread_room())
        __builtin_wasm_memory_atomic_wait32((int *)word, value, ns);
}

/* All who wait on a word: a count for notify. */
#define EVERY INT_MAX

static void wake(atomic_int *word, unsigned n)
{
    __builtin_wasm_memory_atomic_notify((int *)word, n);
}

/* ---- Locks ----------------------------------------------------------------------------------- */

enum { FREE, HELD, WANTED };

bool rx_mutex_init(rx_mutex *m)
{
    atomic_store(&m->word, FREE);
    return true;
}

void rx_mutex_finish(rx_mutex *m) { (void)m; }

void rx_mutex_lock(rx_mutex *m)
{
    int free = FREE;
    if (atomic_compare_exchange_strong(&m->word, &free, HELD))
        return;
    while (atomic_exchange(&m->word, WANTED) != FREE)
        sleep_while(&m->word, WANTED, -1);
}

void rx_mutex_unlock(rx_mutex *m)
{
    if (atomic_exchange(&m->word, FREE) == WANTED)
        wake(&m->word, 1);
}

bool rx_cond_init(rx_cond *c)
{
    atomic_store(&c->news, 0);
    return true;
}

void rx_cond_finish(rx_cond *c) { (void)c; }

bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns)
{
    const int seen = atomic_load(&c->news);
    const int64_t left = deadline_ns < 0 ? -1 : deadline_ns - rx_now_ns();
    if (deadline_ns >= 0 && left <= 0)
        return false;
    rx_mutex_unlock(m);
    sleep_while(&c->news, seen, left);
    rx_mutex_lock(m);
    return deadline_ns < 0 || rx_now_ns() < deadline_ns;
}

void rx_cond_wait(rx_cond *c, rx_mutex *m) { rx_cond_wait_until(c, m, -1); }

void rx_cond_signal(rx_cond *c)
{
    atomic_fetch_add(&c->news, 1);
    wake(&c->news, 1);
}

void rx_cond_broadcast(rx_cond *c)
{
    atomic_fetch_add(&c->news, 1);
    wake(&c->news, EVERY);
}

/* ---- Locks of many readers or one writer: the number of readers, or -1 ----------------------- */

bool rx_rwlock_init(rx_rwlock *l)
{
    atomic_store(&l->word, 0);
    return true;
}

void rx_rwlock_finish(rx_rwlock *l) { (void)l; }

void rx_rwlock_read(rx_rwlock *l)
{
    for (int n = atomic_load(&l->word);;) {
        if (n < 0) {
            sleep_while(&l->word, n, -1);
            n = atomic_load(&l->word);
        } else if (atomic_compare_exchange_weak(&l->word, &n, n + 1)) {
            return;
        }
    }
}

void rx_rwlock_write(rx_rwlock *l)
{
    for (int n = 0; !atomic_compare_exchange_strong(&l->word, &n, -1); n = 0)
        sleep_while(&l->word, n, -1);
}

void rx_rwlock_unlock(rx_rwlock *l)
{
    if (atomic_load(&l->word) < 0)
        atomic_store(&l->word, 0);
    else if (atomic_fetch_sub(&l->word, 1) > 1)
        return;
    wake(&l->word, EVERY);
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* What a worker of the page does: it is not there, waits, has been chosen, runs, has ended. */
enum { ABSENT, IDLE, CHOSEN, RUNNING, ENDED };

#define MAX_SERVERS 64

static struct server {
    atomic_int state;
    rx_thread_fn *fn;
    void *user;
} servers[MAX_SERVERS];

static atomic_int n_servers;

int rx_thread_room(void) { return atomic_load(&n_servers); }

static void set_state(struct server *s, int state)
{
    atomic_store(&s->state, state);
    wake(&s->state, EVERY);
}

/* The page has a worker with this number, which is in rx_thread_serve or about to be. */
__attribute__((export_name("rx_thread_offer"))) void rx_thread_offer(int i);
void rx_thread_offer(int i)
{
    if (i < 0 || i >= MAX_SERVERS || atomic_load(&servers[i].state) != ABSENT)
        return;
    set_state(&servers[i], IDLE);
    atomic_fetch_add(&n_servers, 1);
}

ABSENT_WITHOUT_SHARING void __wasm_init_tls(void *data);

/* Runs the threads that are given to this worker; does not return. */
__attribute__((export_name("rx_thread_serve"))) void rx_thread_serve(int i);
void rx_thread_serve(int i)
{
    for (struct server *s = &servers[i];;) {
        const int state = atomic_load(&s->state);
        if (state != RUNNING) {
            __builtin_wasm_memory_atomic_wait32((int *)&s->state, state, LONGEST_SLEEP_NS);
            continue;
        }
        s->fn(s->user);
        __wasm_init_tls(__builtin_wasm_tls_base()); /* the next thread begins with fresh data */
        set_state(s, ENDED);
    }
}

bool rx_thread_start(rx_thread *t, rx_thread_fn *fn, void *user)
{
    for (int i = 0; i < MAX_SERVERS; i++) {
        int idle = IDLE;
        if (!atomic_compare_exchange_strong(&servers[i].state, &idle, CHOSEN))
            continue;
        servers[i].fn = fn;
        servers[i].user = user;
        t->server = i;
        set_state(&servers[i], RUNNING);
        return true;
    }
    return false;
}

void rx_thread_join(rx_thread *t)
{
    struct server *s = &servers[t->server];
    while (atomic_load(&s->state) != ENDED)
        sleep_while(&s->state, RUNNING, -1);
    set_state(s, IDLE);
}

/* A worker cannot give its core away. */
void rx_thread_yield(void) {}

/* ---- Memory ---------------------------------------------------------------------------------- */

static rx_mutex memory_lock = RX_MUTEX_INIT;

ABSENT_WITHOUT_SHARING void *__real_malloc(size_t n);
ABSENT_WITHOUT_SHARING void *__real_calloc(size_t n, size_t size);
ABSENT_WITHOUT_SHARING void *__real_realloc(void *p, size_t n);
ABSENT_WITHOUT_SHARING void *__real_aligned_alloc(size_t alignment, size_t n);
ABSENT_WITHOUT_SHARING void __real_free(void *p);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
void __wrap_free(void *p);

#define LOCKED(call)               \
    rx_mutex_lock(&memory_lock);   \
    void *p_ = (call);             \
    rx_mutex_unlock(&memory_lock); \
    return p_

void *__wrap_malloc(size_t n) { LOCKED(__real_malloc(n)); }
void *__wrap_calloc(size_t n, size_t size) { LOCKED(__real_calloc(n, size)); }
void *__wrap_realloc(void *p, size_t n) { LOCKED(__real_realloc(p, n)); }
void *__wrap_aligned_alloc(size_t to, size_t n) { LOCKED(__real_aligned_alloc(to, n)); }

void __wrap_free(void *p)
{
    rx_mutex_lock(&memory_lock);
    __real_free(p);
    rx_mutex_unlock(&memory_lock);
}

#endif
