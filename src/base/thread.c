/* SPDX-License-Identifier: MIT */
/* Threads, locks and the clock over POSIX. Conditions use the monotonic clock. */
#include "base/thread.h"

#include <sched.h>
#include <time.h>

#if !defined(_WIN32)
int64_t rx_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}
#endif

int64_t rx_deadline(int64_t timeout_ms)
{
    int64_t ns;
    if (timeout_ms < 0 || __builtin_mul_overflow(timeout_ms, (int64_t)1000000, &ns) ||
        __builtin_add_overflow(ns, rx_now_ns(), &ns))
        return -1;
    return ns;
}

#if RX_WASM_THREADS || defined(_WIN32)
/* thread_wasm.c, thread_win.c */
#elif RX_HAS_THREADS

bool rx_mutex_init(rx_mutex *m) { return !pthread_mutex_init(&m->m, NULL); }
void rx_mutex_finish(rx_mutex *m) { pthread_mutex_destroy(&m->m); }
void rx_mutex_lock(rx_mutex *m) { pthread_mutex_lock(&m->m); }
void rx_mutex_unlock(rx_mutex *m) { pthread_mutex_unlock(&m->m); }

#if defined(__APPLE__) /* has no other clock than that of the day, but waits for so long */

bool rx_cond_init(rx_cond *c) { return !pthread_cond_init(&c->c, NULL); }

bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns)
{
    const int64_t now = rx_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                         .tv_nsec = (long)(left % 1000000000)};
    return pthread_cond_timedwait_relative_np(&c->c, &m->m, &t) == 0;
}

#else

bool rx_cond_init(rx_cond *c)
{
    pthread_condattr_t attr;
    if (pthread_condattr_init(&attr))
        return false;
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    bool ok = !pthread_cond_init(&c->c, &attr);
    pthread_condattr_destroy(&attr);
    return ok;
}

bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns)
{
    struct timespec t = {.tv_sec = (time_t)(deadline_ns / 1000000000),
                         .tv_nsec = (long)(deadline_ns % 1000000000)};
    return pthread_cond_timedwait(&c->c, &m->m, &t) == 0;
}

#endif

void rx_cond_finish(rx_cond *c) { pthread_cond_destroy(&c->c); }
void rx_cond_wait(rx_cond *c, rx_mutex *m) { pthread_cond_wait(&c->c, &m->m); }
void rx_cond_signal(rx_cond *c) { pthread_cond_signal(&c->c); }
void rx_cond_broadcast(rx_cond *c) { pthread_cond_broadcast(&c->c); }

bool rx_rwlock_init(rx_rwlock *l) { return !pthread_rwlock_init(&l->l, NULL); }
void rx_rwlock_finish(rx_rwlock *l) { pthread_rwlock_destroy(&l->l); }
void rx_rwlock_read(rx_rwlock *l) { pthread_rwlock_rdlock(&l->l); }
void rx_rwlock_write(rx_rwlock *l) { pthread_rwlock_wrlock(&l->l); }
void rx_rwlock_unlock(rx_rwlock *l) { pthread_rwlock_unlock(&l->l); }

bool rx_thread_start(rx_thread *t, rx_thread_fn *fn, void *user)
{
    return !pthread_create(&t->t, NULL, fn, user);
}

void rx_thread_join(rx_thread *t) { pthread_join(t->t, NULL); }
void rx_thread_yield(void) { sched_yield(); }

#else

bool rx_mutex_init(rx_mutex *m) { (void)m; return true; }
void rx_mutex_finish(rx_mutex *m) { (void)m; }
void rx_mutex_lock(rx_mutex *m) { (void)m; }
void rx_mutex_unlock(rx_mutex *m) { (void)m; }
bool rx_cond_init(rx_cond *c) { (void)c; return true; }
void rx_cond_finish(rx_cond *c) { (void)c; }
void rx_cond_wait(rx_cond *c, rx_mutex *m) { (void)c, (void)m; }
void rx_cond_signal(rx_cond *c) { (void)c; }
void rx_cond_broadcast(rx_cond *c) { (void)c; }

bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns)
{
    (void)c, (void)m;
    return rx_now_ns() < deadline_ns;
}

bool rx_rwlock_init(rx_rwlock *l) { (void)l; return true; }
void rx_rwlock_finish(rx_rwlock *l) { (void)l; }
void rx_rwlock_read(rx_rwlock *l) { (void)l; }
void rx_rwlock_write(rx_rwlock *l) { (void)l; }
void rx_rwlock_unlock(rx_rwlock *l) { (void)l; }

bool rx_thread_start(rx_thread *t, rx_thread_fn *fn, void *user)
{
    (void)t, (void)fn, (void)user;
    return false;
}

void rx_thread_join(rx_thread *t) { (void)t; }
void rx_thread_yield(void) {}

#endif
