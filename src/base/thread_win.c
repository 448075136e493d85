/* SPDX-License-Identifier: MIT */
/* base/thread.h on Windows: slim locks, condition variables, the performance counter. */
#include "base/thread.h"

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include "base/mem.h"

int64_t rx_now_ns(void)
{
    LARGE_INTEGER now, rate;
    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&rate);
    const int64_t whole = now.QuadPart / rate.QuadPart, part = now.QuadPart % rate.QuadPart;
    return whole * 1000000000 + part * 1000000000 / rate.QuadPart;
}

static SRWLOCK *lock_of(rx_mutex *m) { return (SRWLOCK *)&m->lock; }
static CONDITION_VARIABLE *condition_of(rx_cond *c) { return (CONDITION_VARIABLE *)&c->condition; }
static SRWLOCK *shared_lock_of(rx_rwlock *l) { return (SRWLOCK *)&l->lock; }

bool rx_mutex_init(rx_mutex *m)
{
    m->lock = NULL;
    return true;
}
void rx_mutex_finish(rx_mutex *m) { (void)m; }
void rx_mutex_lock(rx_mutex *m) { AcquireSRWLockExclusive(lock_of(m)); }
void rx_mutex_unlock(rx_mutex *m) { ReleaseSRWLockExclusive(lock_of(m)); }

bool rx_cond_init(rx_cond *c)
{
    c->condition = NULL;
    return true;
}
void rx_cond_finish(rx_cond *c) { (void)c; }
void rx_cond_wait(rx_cond *c, rx_mutex *m)
{
    SleepConditionVariableSRW(condition_of(c), lock_of(m), INFINITE, 0);
}
void rx_cond_signal(rx_cond *c) { WakeConditionVariable(condition_of(c)); }
void rx_cond_broadcast(rx_cond *c) { WakeAllConditionVariable(condition_of(c)); }

bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns)
{
    const int64_t left = deadline_ns - rx_now_ns();
    if (left <= 0)
        return false;
    const int64_t ms = (left + 999999) / 1000000;
    const DWORD wait = ms < 0x7fffffff ? (DWORD)ms : 0x7fffffff;
    return SleepConditionVariableSRW(condition_of(c), lock_of(m), wait, 0) ||
           rx_now_ns() < deadline_ns;
}

bool rx_rwlock_init(rx_rwlock *l)
{
    *l = (rx_rwlock){0};
    return true;
}
void rx_rwlock_finish(rx_rwlock *l) { (void)l; }
void rx_rwlock_read(rx_rwlock *l) { AcquireSRWLockShared(shared_lock_of(l)); }
void rx_rwlock_write(rx_rwlock *l)
{
    AcquireSRWLockExclusive(shared_lock_of(l));
    l->is_writing = true;
}

/* Who holds it for reading sees no writer; a writer sees itself. */
void rx_rwlock_unlock(rx_rwlock *l)
{
    if (!l->is_writing) {
        ReleaseSRWLockShared(shared_lock_of(l));
        return;
    }
    l->is_writing = false;
    ReleaseSRWLockExclusive(shared_lock_of(l));
}

typedef struct start {
    rx_thread_fn *fn;
    void *user;
} start;

static DWORD WINAPI run_thread(void *user)
{
    const start s = *(start *)user;
    rx_free(user);
    s.fn(s.user);
    return 0;
}

bool rx_thread_start(rx_thread *t, rx_thread_fn *fn, void *user)
{
    start *s = rx_alloc(sizeof *s);
    if (!s)
        return false;
    *s = (start){fn, user};
    t->handle = CreateThread(NULL, 8 << 20, run_thread, s, STACK_SIZE_PARAM_IS_A_RESERVATION,
                             NULL);
    if (!t->handle)
        rx_free(s);
    return t->handle != NULL;
}

void rx_thread_join(rx_thread *t)
{
    WaitForSingleObject(t->handle, INFINITE);
    CloseHandle(t->handle);
}

void rx_thread_yield(void) { SwitchToThread(); }
