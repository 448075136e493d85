/* SPDX-License-Identifier: MIT */
/* Host memory: the only allocation functions of the library, and arenas. All may return NULL. */
#ifndef RX_BASE_MEM_H
#define RX_BASE_MEM_H

#include "rlx/base.h"

#if defined(__GNUC__)
#define RX_MALLOC_LIKE __attribute__((malloc))
#else
#define RX_MALLOC_LIKE
#endif

/* n == 0 gives a pointer that may be freed. */
void *rx_alloc(size_t n) RX_MALLOC_LIKE;
void *rx_alloc_zero(size_t n) RX_MALLOC_LIKE;
/* On failure `old` stays valid. */
void *rx_realloc(void *old, size_t n);
void rx_free(void *p);
/* Memory aligned to 64 bytes, freed with rx_free_aligned. */
void *rx_alloc_aligned(size_t n) RX_MALLOC_LIKE;
void *rx_alloc_aligned_zero(size_t n) RX_MALLOC_LIKE;
void rx_free_aligned(void *p);
/* Asks the system for large pages in a block: with pages of 4 KiB half of the time of a loop that
 * is as fast as memory goes into finding pages. Before the block is used first. */
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

/* Makes room for `need` items of `item` bytes in a growing array: *p and *cap change together.
 * False when out of memory, with both as they were. */
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
void *rx_arena_alloc(rx_arena *a, size_t n);
void *rx_arena_zero(rx_arena *a, size_t n);
void *rx_arena_copy(rx_arena *a, const void *src, size_t n);
char *rx_arena_strdup(rx_arena *a, const char *s);
char *rx_arena_strndup(rx_arena *a, const char *s, size_t n);

#endif
