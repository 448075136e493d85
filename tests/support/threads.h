/* SPDX-License-Identifier: MIT */
/* Threads of a test: what they find wrong is counted and checked when all have ended. */
#ifndef RLX_TESTS_SUPPORT_THREADS_H
#define RLX_TESTS_SUPPORT_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "check.h"

static atomic_int n_wrong;

static inline void expect(bool ok)
{
    if (!ok)
        atomic_fetch_add(&n_wrong, 1);
}

/* fn with 1, 2, ... n as its pointer, at once. */
static inline void run_threads(int n, void *(*fn)(void *))
{
    pthread_t threads[8];
    CHECK(n <= 8);
    for (intptr_t i = 0; i < n; i++)
        pthread_create(&threads[i], NULL, fn, (void *)(i + 1));
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    CHECK(atomic_exchange(&n_wrong, 0) == 0);
}

#endif
