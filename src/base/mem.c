/* SPDX-License-Identifier: MIT */
/* Host memory through the process allocator, and arenas. */
#include "base/mem.h"

#include <stdlib.h>
#include <string.h>
#if defined(__linux__)
#include <sys/mman.h>
#endif

#define LARGE_PAGE ((size_t)2 << 20)

static void *libc_realloc(void *user, void *old, size_t n)
{
    (void)user;
    return realloc(old, n);
}

static void libc_free(void *user, void *p)
{
    (void)user;
    free(p);
}

/* Changed only while no object of the library exists (contract of rlx_set_allocator). */
static rlx_allocator allocator = {libc_realloc, libc_free, NULL};

void rlx_set_allocator(const rlx_allocator *a)
{
    allocator = a ? *a : (rlx_allocator){libc_realloc, libc_free, NULL};
}

/* The largest object, minus the overhead that the functions here add. */
#define MAX_BYTES ((uint64_t)PTRDIFF_MAX - 4096)

void *rx_realloc(void *old, uint64_t n)
{
    if (n > MAX_BYTES)
        return NULL;
    return allocator.realloc(allocator.user, old, n ? (size_t)n : 1);
}

void *rx_alloc(uint64_t n)
{
    return rx_realloc(NULL, n);
}

/* calloc: untouched zero pages of large states cost nothing. */
void *rx_alloc_zero(uint64_t n)
{
    if (n > MAX_BYTES)
        return NULL;
    if (allocator.realloc == libc_realloc)
        return calloc(1, n ? (size_t)n : 1);
    void *p = rx_alloc(n);
    if (p)
        memset(p, 0, (size_t)n);
    return p;
}

void *rx_alloc_array(uint64_t n, uint64_t item)
{
    return rx_alloc(rx_array_bytes(n, item));
}

void *rx_alloc_array_zero(uint64_t n, uint64_t item)
{
    return rx_alloc_zero(rx_array_bytes(n, item));
}

void *rx_realloc_array(void *old, uint64_t n, uint64_t item)
{
    return rx_realloc(old, rx_array_bytes(n, item));
}

void rx_free(void *p)
{
    if (p)
        allocator.free(allocator.user, p);
}

RLX_API void rlx_free(void *p);
void rlx_free(void *p)
{
    rx_free(p);
}

/* The pointer before an aligned block is the address that was allocated. */
static void *alloc_aligned(uint64_t n, bool zero)
{
    uint64_t whole;
    if (!rx_add_size(n, 64 + sizeof(void *), &whole))
        return NULL;
    char *raw = zero ? rx_alloc_zero(whole) : rx_alloc(whole);
    if (!raw)
        return NULL;
    char *p = (char *)(((uintptr_t)raw + sizeof(void *) + 63) & ~(uintptr_t)63);
    memcpy(p - sizeof(void *), &raw, sizeof raw);
    return p;
}

void *rx_alloc_aligned(uint64_t n)
{
    return alloc_aligned(n, false);
}

void *rx_alloc_aligned_zero(uint64_t n)
{
    return alloc_aligned(n, true);
}

void rx_free_aligned(void *p)
{
    if (!p)
        return;
    void *raw;
    memcpy(&raw, (char *)p - sizeof(void *), sizeof raw);
    rx_free(raw);
}

/* The whole large pages within the block. */
void rx_ask_large_pages(void *p, size_t n)
{
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    const uintptr_t begin = ((uintptr_t)p + LARGE_PAGE - 1) & ~(LARGE_PAGE - 1);
    const uintptr_t end = ((uintptr_t)p + n) & ~(LARGE_PAGE - 1);
    if (begin < end)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE);
#else
    (void)p;
    (void)n;
#endif
}

bool rx_grow(void *p, size_t *cap, size_t need, size_t item)
{
    if (need <= *cap)
        return true;
    size_t n = *cap ? *cap : 8;
    while (n < need)
        if (__builtin_mul_overflow(n, (size_t)2, &n))
            return false;
    void *old;
    memcpy(&old, p, sizeof old);
    void *grown = rx_realloc_array(old, n, item);
    if (!grown)
        return false;
    memcpy(p, &grown, sizeof grown);
    *cap = n;
    return true;
}

struct rx_arena_block {
    rx_arena_block *next;
    size_t pad; /* keeps the data 16-byte aligned */
};

#define ARENA_BLOCK ((size_t)64 * 1024)

void rx_arena_finish(rx_arena *a)
{
    rx_arena_block *b = a->block;
    while (b) {
        rx_arena_block *next = b->next;
        rx_free(b);
        b = next;
    }
    *a = (rx_arena){0};
}

void *rx_arena_alloc(rx_arena *a, uint64_t bytes)
{
    if (bytes > MAX_BYTES)
        return NULL;
    const size_t n = ((size_t)bytes + 15) & ~(size_t)15;
    if (!a->block || a->size - a->used < n) {
        size_t size = n > ARENA_BLOCK / 4 ? n : ARENA_BLOCK;
        rx_arena_block *b = rx_alloc(sizeof *b + size);
        if (!b)
            return NULL;
        b->next = a->block;
        b->pad = 0;
        a->block = b;
        a->used = 0;
        a->size = size;
    }
    char *p = (char *)(a->block + 1) + a->used;
    a->used += n;
    return p;
}

void *rx_arena_zero(rx_arena *a, uint64_t n)
{
    void *p = rx_arena_alloc(a, n);
    if (p)
        memset(p, 0, (size_t)n);
    return p;
}

void *rx_arena_copy(rx_arena *a, const void *src, uint64_t n)
{
    void *p = rx_arena_alloc(a, n);
    if (p && n)
        memcpy(p, src, (size_t)n);
    return p;
}

void *rx_arena_array(rx_arena *a, uint64_t n, uint64_t item)
{
    return rx_arena_alloc(a, rx_array_bytes(n, item));
}

void *rx_arena_array_zero(rx_arena *a, uint64_t n, uint64_t item)
{
    return rx_arena_zero(a, rx_array_bytes(n, item));
}

void *rx_arena_array_copy(rx_arena *a, const void *src, uint64_t n, uint64_t item)
{
    return rx_arena_copy(a, src, rx_array_bytes(n, item));
}

char *rx_arena_strndup(rx_arena *a, const char *s, size_t n)
{
    char *p = n < SIZE_MAX ? rx_arena_alloc(a, (uint64_t)n + 1) : NULL;
    if (p) {
        memcpy(p, s, n);
        p[n] = 0;
    }
    return p;
}

char *rx_arena_strdup(rx_arena *a, const char *s)
{
    return rx_arena_strndup(a, s, strlen(s));
}
