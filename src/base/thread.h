/* SPDX-License-Identifier: MIT */
/* Threads, locks and the clock: a thin layer over POSIX threads, over those of Windows
 * (thread_win.c), or over the workers of a web page (thread_wasm.c). Where there are none locks do
 * nothing and rx_thread_start fails, so callers work inline. */
#ifndef RX_BASE_THREAD_H
#define RX_BASE_THREAD_H

#include "rlx/base.h"

#if defined(__wasm__) && defined(__wasm_atomics__)
#include <stdatomic.h>
#define RX_HAS_THREADS 1
#define RX_WASM_THREADS 1
typedef struct rx_mutex { atomic_int word; } rx_mutex;
#define RX_MUTEX_INIT {0}
typedef struct rx_cond { atomic_int news; } rx_cond;
typedef struct rx_rwlock { atomic_int word; } rx_rwlock;
typedef struct rx_thread { int server; } rx_thread;
/* How many workers of the page can run a thread. */
int rx_thread_room(void);
#elif defined(__wasm__)
#define RX_HAS_THREADS 0
#define RX_WASM_THREADS 0
typedef struct rx_mutex { char unused; } rx_mutex;
#define RX_MUTEX_INIT {0}
typedef struct rx_cond { char unused; } rx_cond;
typedef struct rx_rwlock { char unused; } rx_rwlock;
typedef struct rx_thread { char unused; } rx_thread;
#elif defined(_WIN32)
#define RX_HAS_THREADS 1
#define RX_WASM_THREADS 0
typedef struct rx_mutex { void *lock; } rx_mutex;
#define RX_MUTEX_INIT {0}
typedef struct rx_cond { void *condition; } rx_cond;
typedef struct rx_rwlock { void *lock; bool is_writing; } rx_rwlock;
typedef struct rx_thread { void *handle; } rx_thread;
#else
#define RX_HAS_THREADS 1
#define RX_WASM_THREADS 0
#include <pthread.h>
typedef struct rx_mutex { pthread_mutex_t m; } rx_mutex;
#define RX_MUTEX_INIT {PTHREAD_MUTEX_INITIALIZER}
typedef struct rx_cond { pthread_cond_t c; } rx_cond;
typedef struct rx_rwlock { pthread_rwlock_t l; } rx_rwlock;
typedef struct rx_thread { pthread_t t; } rx_thread;
#endif

/* RX_MUTEX_INIT is for mutexes that live as long as the process.
 * The initialisers return false when the system has no more of them. */
bool rx_mutex_init(rx_mutex *m);
void rx_mutex_finish(rx_mutex *m);
void rx_mutex_lock(rx_mutex *m);
void rx_mutex_unlock(rx_mutex *m);

bool rx_cond_init(rx_cond *c);
void rx_cond_finish(rx_cond *c);
void rx_cond_wait(rx_cond *c, rx_mutex *m);
/* Waits until rx_now_ns() passes `deadline_ns`; false when it did. */
bool rx_cond_wait_until(rx_cond *c, rx_mutex *m, int64_t deadline_ns);
void rx_cond_signal(rx_cond *c);
void rx_cond_broadcast(rx_cond *c);

bool rx_rwlock_init(rx_rwlock *l);
void rx_rwlock_finish(rx_rwlock *l);
void rx_rwlock_read(rx_rwlock *l);
void rx_rwlock_write(rx_rwlock *l);
void rx_rwlock_unlock(rx_rwlock *l);

typedef void *rx_thread_fn(void *user);
bool rx_thread_start(rx_thread *t, rx_thread_fn *fn, void *user);
void rx_thread_join(rx_thread *t);
/* Lets another thread run. */
void rx_thread_yield(void);

/* Nanoseconds of a clock that never goes back. */
int64_t rx_now_ns(void);
/* Deadline this many milliseconds from now; -1 (never) for a negative or huge number. */
int64_t rx_deadline(int64_t timeout_ms);

/* Spin-loop hint (PAUSE, YIELD). */
static inline void rx_spin_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

#endif
