/* SPDX-License-Identifier: MIT */
/* The share of a long test program that is run, as ops/share.sh takes it. */
#ifndef RLX_TESTS_SUPPORT_SHARE_H
#define RLX_TESTS_SUPPORT_SHARE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Whether part `i` is of the share: each `every`-th, beginning with the one that RLX_TEST_SEED
 * chooses. RLX_TEST_EVERY replaces `every`. */
static inline bool in_share(uint64_t i, uint64_t every)
{
    static bool told;
    const char *seed_text = getenv("RLX_TEST_SEED"), *every_text = getenv("RLX_TEST_EVERY");
    const uint64_t seed = seed_text ? strtoull(seed_text, NULL, 10) : 0;
    if (every_text && *every_text)
        every = strtoull(every_text, NULL, 10);
    if (every <= 1)
        return true;
    if (!told)
        printf("share: each %lluth part from %llu, RLX_TEST_SEED=%llu\n",
               (unsigned long long)every, (unsigned long long)(seed % every),
               (unsigned long long)seed);
    told = true;
    return i % every == seed % every;
}

#endif
