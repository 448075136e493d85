/* SPDX-License-Identifier: MIT */
/* Host memory: the only allocation functions of the library, and arenas. All may return NULL, also
 * for more bytes than an object can have. Sizes and counts are 64-bit on every machine and passed
 * without a cast, so that a number from a file is not truncated where size_t has 32 bits. */
#ifndef RX_BASE_MEM_H
#define RX_BASE_MEM_H

#include "rlx/base.h"

#if defined(__GNUC__)
#define RX_MALLOC_LIKE __attribute__((malloc))
#else
#define RX_MALLOC_LIKE
#endif

/* n == 0 gives a pointer that may be freed. */
void *rx_alloc(uint64_t n) RX_MALLOC_LIKE;
void *rx_alloc_zero(uint64_t n) RX_MALLOC_LIKE;
/* On failure `old` stays valid. */
void *rx_realloc(void *old, uint64_t n);
void rx_free(void *p);
/* Memory aligned to 64 bytes, freed with rx_free_aligned. */
void *rx_alloc_aligned(uint64_t n) RX_MALLOC_LIKE;
void *rx_alloc_aligned_zero(uint64_t n) RX_MALLOC_LIKE;
void rx_free_aligned(void *p);
/* Arrays of n items: the product is checked. */
void *rx_alloc_array(uint64_t n, uint64_t item) RX_MALLOC_LIKE;
void *rx_alloc_array_zero(uint64_t n, uint64_t item) RX_MALLOC_LIKE;
void *rx_realloc_array(void *old, uint64_t n, uint64_t item);
/* Asks the system for huge pages in a block, before its first use: with pages of 4 KiB half of the
 * time of a bandwidth-bound loop goes into TLB misses. */
void rx_ask_large_pages(void *p, size_t n);

/* False when the result does not fit. */
static inline bool rx_mul_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool rx_add_size(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
/* The bytes of an array; UINT64_MAX, which no allocation gives, where the product does not fit. */
static inline uint64_t rx_array_bytes(uint64_t n, uint64_t item)
{
    uint64_t bytes;
    return rx_mul_size(n, item, &bytes) ? bytes : UINT64_MAX;
}

/* Grows an array to `need` items of `item` bytes: *p and *cap change together. False when out of
 * memory, with both as they were. */
bool rx_grow(void *p, size_t *cap, size_t need, size_t item);

/* ---- Arenas: many small objects with one end ------------------------------------------------ */

typedef struct rx_arena_block rx_arena_block;
typedef struct rx_arena {
    rx_arena_block *block;
    size_t used, size; /* in the newest block */
} rx_arena;

/* A zero-initialised rx_arena is empty and ready. */
void rx_arena_finish(rx_arena *a);
/* 16-byte aligned, not cleared. */
void *rx_arena_alloc(rx_arena *a, uint64_t n);
void *rx_arena_zero(rx_arena *a, uint64_t n);
void *rx_arena_copy(rx_arena *a, const void *src, uint64_t n);
char *rx_arena_strdup(rx_arena *a, const char *s);
char *rx_arena_strndup(rx_arena *a, const char *s, size_t n);
/* Arrays of n items, as above. */
void *rx_arena_array(rx_arena *a, uint64_t n, uint64_t item);
void *rx_arena_array_zero(rx_arena *a, uint64_t n, uint64_t item);
void *rx_arena_array_copy(rx_arena *a, const void *src, uint64_t n, uint64_t item);

#endif
