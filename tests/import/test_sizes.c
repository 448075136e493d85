/* SPDX-License-Identifier: MIT */
/* Numbers in files that are larger than what follows, or than what this machine can count: refused
 * before anything is allocated for them. Parts of it matter only where size_t has 32 bits, so this
 * program also runs as WebAssembly. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/model_file.h"

static rlx_error err;

/* Counts that, times an item of `item` bytes, are 0 to item - 1 in a size_t. */
static uint64_t wrapping(uint64_t item)
{
    return (uint64_t)(SIZE_MAX / item) + 1;
}

/* A file that says that it is as long as a process could map. What is behind `b` is never read:
 * room for so much is not there, and a small block must not be taken for it. */
static void check_claim(const blob *b, const char *path)
{
    rlx_file *f;
    memory_limit(32 << 20);
    rlx_set_allocator(&counting);
    rlx_status st = rx_file_from_memory(b->data, SIZE_MAX / 2 - 4096, path, &f, &err);
    rlx_set_allocator(NULL);
    memory_limit(SIZE_MAX);
    CHECK(st != RLX_OK);
    bool counted = strstr(err.text, "too many") || strstr(err.text, "out of memory");
    if (!CHECK(counted))
        printf("    the text is: %s\n", err.text);
    rlx_file_close(f);
}

/* A header with these counts: of tensors, and of the strings in an array. */
static void check_counts(int version, uint64_t n_tensors, uint64_t n_strings)
{
    const int width = version == 1 ? 4 : 8;
    blob b = {0};
    blob_add(&b, "GGUF", 4);
    blob_number(&b, (uint64_t)version, 4);
    blob_number(&b, n_tensors, width);
    blob_number(&b, n_strings ? 1 : 0, width);
    if (n_strings) {
        blob_number(&b, 1, width);
        blob_add(&b, "k", 1);
        blob_number(&b, RX_META_ARRAY, 4);
        blob_number(&b, RX_META_STRING, 4);
        blob_number(&b, n_strings, width);
    }
    for (int i = 0; i < 512; i++)
        blob_number(&b, 0, 1);
    check_claim(&b, "claim.gguf");
    blob_free(&b);
}

static void test_gguf(void)
{
    const int first = sizeof(size_t) == 4 ? 1 : 2; /* counts of version 1 have 32 bits */
    for (int version = first; version <= 3; version++) {
        for (uint64_t item = 48; item <= 256; item += 4)
            check_counts(version, wrapping(item), 0);
        for (uint64_t item = 4; item <= 32; item += 4)
            check_counts(version, 0, wrapping(item));
    }
}

/* What a reader asks for is bounded by the bytes that are there. */
static void test_requests(void)
{
    static const uint64_t counts[] = {1, 30, 39, 40, 41, 60, 100, 1000, 1u << 16, 1u << 31,
                                      1ull << 32, 1ull << 63};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        blob b = {0};
        blob_add(&b, "GGUF", 4);
        blob_number(&b, 3, 4);
        blob_number(&b, counts[i], 8);
        blob_number(&b, 0, 8);
        for (int k = 0; k < 1000; k++)
            blob_number(&b, 1, 1);
        memory_fail(0, false);
        rlx_set_allocator(&counting);
        CHECK(open_bytes(b.data, b.n, "counts.gguf", &err) != RLX_OK);
        rlx_set_allocator(NULL);
        CHECK(memory_largest() <= 65536 + 4096); /* a block of an arena */
        blob_free(&b);
    }
}

/* ---- NumPy ----------------------------------------------------------------------------------- */

static void check_npy(const char *shape, const char *type, rlx_status want, const char *part)
{
    char path[] = "test_sizes_XXXXXX", header[200];
    blob b = {0};
    rlx_npy out;
    snprintf(header, sizeof header, "{'descr': '%s', 'shape': (%s)}", type, shape);
    blob_add(&b, "\x93NUMPY\x02\x00", 8);
    blob_number(&b, strlen(header), 4);
    blob_add(&b, header, strlen(header));
    blob_number(&b, 7, 8);
    int fd = mkstemp(path);
    CHECK(fd >= 0 && !close(fd) && blob_write(&b, path));
    rlx_status st = rlx_npy_load(path, &out, &err);
    if (want == RLX_OK)
        CHECK_OK(st, &err);
    else
        CHECK_FAILS(st, want, &err, part);
    rlx_free(out.data);
    unlink(path);
    blob_free(&b);
}

static void test_npy(void)
{
    /* 2^32 + 1 elements of 1 byte, and products that leave 1 in 32 or in 64 bits */
    check_npy("4294967297,", "<i1", RLX_PARSE, "cut short");
    check_npy("65537, 65537", "<i1", RLX_PARSE, "cut short");
    check_npy("4294967297, 4294967297", "<i1", RLX_PARSE, "too large");
    check_npy("1073741825,", "<f4", RLX_PARSE, "cut short");
    check_npy("4611686018427387905,", "<f4", RLX_PARSE, "too large");
    check_npy("9223372036854775808,", "<i1", RLX_PARSE, "not a number");
    /* no elements, however large the other dimensions are; in another byte order each is walked */
    check_npy("0, 9223372036854775807, 9223372036854775807", "<f4", RLX_OK, "");
    check_npy("0, 9223372036854775807, 9223372036854775807", ">f4", RLX_OK, "");
}

int main(void)
{
    test_gguf();
    test_requests();
    test_npy();
    return check_done();
}
