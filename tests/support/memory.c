/* SPDX-License-Identifier: MIT */
#include "support/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_long n_calls, n_live, fail_at;
static atomic_bool fail_onward;
static atomic_size_t largest, limit = SIZE_MAX;

static void *counting_realloc(void *user, void *old, size_t n)
{
    (void)user;
    long call = atomic_fetch_add(&n_calls, 1) + 1, at = atomic_load(&fail_at);
    for (size_t most = atomic_load(&largest);
         n > most && !atomic_compare_exchange_weak(&largest, &most, n);)
        continue;
    if (n > atomic_load(&limit))
        return NULL;
    if (at && (call == at || (call > at && atomic_load(&fail_onward))))
        return NULL;
    void *p = realloc(old, n);
    if (p && !old)
        atomic_fetch_add(&n_live, 1);
    return p;
}

static void counting_free(void *user, void *p)
{
    (void)user;
    if (p)
        atomic_fetch_sub(&n_live, 1);
    free(p);
}

const rlx_allocator counting = {counting_realloc, counting_free, NULL};

void memory_fail(long at, bool onward)
{
    atomic_store(&n_calls, 0);
    atomic_store(&largest, 0);
    atomic_store(&fail_onward, onward);
    atomic_store(&fail_at, at);
}

long memory_calls(void)
{
    return atomic_load(&n_calls);
}

long memory_live(void)
{
    return atomic_load(&n_live);
}

void memory_limit(size_t most)
{
    atomic_store(&limit, most);
}

size_t memory_largest(void)
{
    return atomic_load(&largest);
}
