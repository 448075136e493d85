/* SPDX-License-Identifier: MIT */
/* Hashes: the key is made once in a process, by whichever thread asks first. */
#include "base/hash.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/posix.h"
#include "base/thread.h"

uint64_t rx_hash(uint64_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    uint64_t h = seed ^ 0xcbf29ce484222325ull;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ull;
    h ^= h >> 32;
    h *= 0x9e3779b97f4a7c15ull;
    return h ^ (h >> 29);
}

/* ---- The key --------------------------------------------------------------------------------- */

static _Atomic uint64_t key0, key1; /* key0 is odd once both are set, key1 before it */

/* Fallback where the system gives no random bits: values that differ between processes. */
static void weak_bits(uint64_t bits[2])
{
    const int64_t now = rx_now_ns();
#if defined(__wasi__)
    const uint64_t process = 0;
#else
    const uint64_t process = (uint64_t)getpid();
#endif
    const uint64_t seen[] = {(uint64_t)now, (uint64_t)time(NULL), (uint64_t)(uintptr_t)&now,
                             (uint64_t)(uintptr_t)&key0, process};
    bits[0] = rx_hash(1, seen, sizeof seen);
    bits[1] = rx_hash(2, seen, sizeof seen);
}

static void make_key(void)
{
    uint64_t bits[2], none = 0;
    if (rx_random_bytes(bits, sizeof bits))
        weak_bits(bits);
    atomic_compare_exchange_strong(&key1, &none, bits[1] | 1);
    none = 0;
    atomic_compare_exchange_strong(&key0, &none, bits[0] | 1);
}

static uint64_t first_key(void)
{
    uint64_t k = atomic_load_explicit(&key0, memory_order_acquire);
    if (k)
        return k;
    make_key();
    return atomic_load(&key0);
}

void rx_hash_set_key(uint64_t k0, uint64_t k1)
{
    atomic_store(&key1, k1 | 1);
    atomic_store(&key0, k0 | 1);
}

/* ---- Keyed hashes ---------------------------------------------------------------------------- */

static inline uint64_t rotate(uint64_t x, int n)
{
    return x << n | x >> (64 - n);
}

static inline void sip_round(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

uint64_t rx_hash_keyed(uint64_t seed, const void *data, size_t n)
{
    const unsigned char *p = data;
    const uint64_t k0 = first_key(), k1 = atomic_load_explicit(&key1, memory_order_relaxed);
    uint64_t v[4] = {k0 ^ 0x736f6d6570736575ull, k1 ^ 0x646f72616e646f6dull,
                     k0 ^ 0x6c7967656e657261ull, k1 ^ 0x7465646279746573ull};
    uint64_t word, last = (uint64_t)(n + sizeof seed) << 56;
    sip_word(v, seed);
    size_t left = n;
    for (; left >= sizeof word; left -= sizeof word, p += sizeof word) {
        memcpy(&word, p, sizeof word);
        sip_word(v, word);
    }
    for (size_t i = 0; i < left; i++)
        last |= (uint64_t)p[i] << 8 * i;
    sip_word(v, last);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        sip_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Multiplication by secret odd numbers: which keys collide depends on the key. */
uint64_t rx_hash_number(uint64_t x)
{
    const uint64_t k0 = first_key(), k1 = atomic_load_explicit(&key1, memory_order_relaxed);
    x = (x ^ k1) * k0;
    x = (x ^ x >> 32) * k1;
    x = (x ^ x >> 29) * k0;
    return x ^ x >> 32;
}

uint64_t rx_hash_ids(const uint32_t *ids, size_t n)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = rx_hash_number(h * 0x9e3779b97f4a7c15u + ids[i]);
    return h;
}
