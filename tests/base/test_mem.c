/* SPDX-License-Identifier: MIT */
/* Allocation of arrays: products that do not fit give NULL instead of a small block, on machines
 * of 32 and of 64 bits. */
#include "base/mem.h"
#include "check.h"

#define BITS (8 * sizeof(size_t))

/* Counts whose product with `item` is just past 2^32 or 2^64: in size_t it would be a few bytes. */
static void check_wrap(uint64_t item, unsigned bits)
{
    const uint64_t n = (bits == 64 ? UINT64_MAX : UINT32_MAX) / item + 1;
    rx_arena a = {0};
    char bytes[16] = {0};
    void *old = rx_alloc(8);
    CHECK(old != NULL);
    CHECK(!rx_alloc_array(n, item));
    CHECK(!rx_alloc_array_zero(n, item));
    CHECK(!rx_realloc_array(old, n, item)); /* which stays as it is */
    CHECK(!rx_arena_array(&a, n, item));
    CHECK(!rx_arena_array_zero(&a, n, item));
    CHECK(!rx_arena_array_copy(&a, bytes, n, item));
    rx_arena_finish(&a);
    rx_free(old);
}

static void test_arrays(void)
{
    static const uint64_t items[] = {2, 3, 8, 12, 80, 112, 4096};
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        check_wrap(items[i], 64);
        if (BITS == 32) /* with 64 bits that is a block of 4 GiB, which may be there */
            check_wrap(items[i], 32);
    }
    char *zero = rx_alloc_array_zero(10, 7);
    bool clear = zero != NULL;
    for (int i = 0; clear && i < 70; i++)
        clear = zero[i] == 0;
    CHECK(clear);
    rx_free(zero);
    void *none = rx_alloc_array(0, 8);
    CHECK(none != NULL); /* may be freed */
    rx_free(none);
}

/* Sizes past what an object can have, which size_t may not even hold. */
static void test_large(void)
{
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 63, (uint64_t)PTRDIFF_MAX + 1,
                              (uint64_t)SIZE_MAX, (uint64_t)SIZE_MAX - 15};
    rx_arena a = {0};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(!rx_alloc(sizes[i]));
        CHECK(!rx_alloc_zero(sizes[i]));
        CHECK(!rx_alloc_aligned(sizes[i]));
        CHECK(!rx_alloc_aligned_zero(sizes[i]));
        CHECK(!rx_arena_alloc(&a, sizes[i]));
        CHECK(!rx_arena_zero(&a, sizes[i]));
    }
    if (BITS == 32) /* cut to 32 bits this is 16 */
        CHECK(!rx_alloc((1ull << 32) + 16) && !rx_arena_alloc(&a, (1ull << 32) + 16));
    CHECK(!rx_arena_strndup(&a, "", SIZE_MAX));
    rx_arena_finish(&a);
}

static void test_grow(void)
{
    uint64_t *list = NULL;
    size_t cap = 0;
    CHECK(rx_grow(&list, &cap, 9, sizeof *list) && cap == 16);
    uint64_t *before = list;
    CHECK(!rx_grow(&list, &cap, SIZE_MAX / 8, sizeof *list));
    CHECK(!rx_grow(&list, &cap, SIZE_MAX, sizeof *list));
    CHECK(list == before && cap == 16);
    rx_free(list);
}

int main(void)
{
    test_arrays();
    test_large();
    test_grow();
    return check_done();
}
