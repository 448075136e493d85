/* SPDX-License-Identifier: MIT */
/* Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw ("Parallel random
 * numbers: as easy as 1, 2, 3", 2011), with the constants of Random123, and how numbers are made
 * from its 32-bit words. Every device computes just this: only 32-bit integer products, sums and
 * exclusive ors, and floats that are exact.
 *
 * Element `index` of a random tensor is word index % 4 of the block
 *   counter = (low 32 bits of index / 4, high 32 bits of index / 4, 0, 0),
 *   key     = (low 32 bits of the seed, high 32 bits of the seed). */
#ifndef RX_BASE_PHILOX_H
#define RX_BASE_PHILOX_H

#include <stdint.h>

#define RX_PHILOX_M0 0xD2511F53u /* multipliers of the two halves */
#define RX_PHILOX_M1 0xCD9E8D57u
#define RX_PHILOX_W0 0x9E3779B9u /* the key grows by these after each round */
#define RX_PHILOX_W1 0xBB67AE85u
#define RX_PHILOX_ROUNDS 10

typedef struct rx_philox {
    uint32_t v[4];
} rx_philox;

static inline rx_philox rx_philox4x32(rx_philox counter, uint32_t key0, uint32_t key1)
{
    for (int round = 0; round < RX_PHILOX_ROUNDS; round++) {
        const uint64_t a = (uint64_t)RX_PHILOX_M0 * counter.v[0];
        const uint64_t b = (uint64_t)RX_PHILOX_M1 * counter.v[2];
        counter = (rx_philox){{(uint32_t)(b >> 32) ^ counter.v[1] ^ key0, (uint32_t)b,
                               (uint32_t)(a >> 32) ^ counter.v[3] ^ key1, (uint32_t)a}};
        key0 += RX_PHILOX_W0;
        key1 += RX_PHILOX_W1;
    }
    return counter;
}

/* The four words of block `index` of the stream of a seed. */
static inline rx_philox rx_philox_block(uint64_t seed, uint64_t index)
{
    const rx_philox counter = {{(uint32_t)index, (uint32_t)(index >> 32), 0, 0}};
    return rx_philox4x32(counter, (uint32_t)seed, (uint32_t)(seed >> 32));
}

/* The word of element `index`. */
static inline uint32_t rx_philox_word(uint64_t seed, uint64_t index)
{
    return rx_philox_block(seed, index / 4).v[index % 4];
}

/* A multiple of 2^-24 in [0, 1): the upper 24 bits, exact in f32. */
static inline float rx_philox_unit(uint32_t word)
{
    return (float)(word >> 8) * 0x1p-24f;
}

/* A multiple of 2^-24 in (0, 1]: never 0, so that it has a logarithm; exact in f32, and so is its
 * distance from 1, which log1p needs for small results. */
static inline float rx_philox_positive(uint32_t word)
{
    return (float)((word >> 8) + 1) * 0x1p-24f;
}

#endif
