/* SPDX-License-Identifier: MIT */
/* Model files for the tests of their readers. */
#include "support/model_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/memory.h"
#include "support/temp_file.h"

#include "rlx/rlx.h"

/* ---- Writing --------------------------------------------------------------------------------- */

void blob_add(blob *b, const void *data, size_t n)
{
    if (b->n + n > b->cap) {
        b->cap = 2 * (b->n + n);
        b->data = realloc(b->data, b->cap);
        if (!b->data)
            abort();
    }
    if (n)
        memcpy(b->data + b->n, data, n);
    b->n += n;
}

void blob_free(blob *b)
{
    free(b->data);
    *b = (blob){0};
}

void blob_number(blob *b, uint64_t v, int width)
{
    for (int i = 0; i < width; i++) {
        unsigned char byte = (unsigned char)(v >> 8 * i);
        blob_add(b, &byte, 1);
    }
}

void blob_align(blob *b, size_t alignment)
{
    while (b->n % alignment)
        blob_add(b, "", 1);
}

bool blob_write(const blob *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool ok = fwrite(b->data, 1, b->n, f) == b->n;
    return !fclose(f) && ok;
}

blob safetensors_blob(const char *header, size_t data_bytes)
{
    blob b = {0};
    blob_number(&b, strlen(header), 8);
    blob_add(&b, header, strlen(header));
    for (size_t i = 0; i < data_bytes; i++)
        blob_number(&b, i, 1);
    return b;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static uint64_t touch_bytes(const void *data, size_t n)
{
    uint64_t sum = n;
    for (size_t i = 0; i < n; i++)
        sum = sum * 31 + ((const unsigned char *)data)[i];
    return sum;
}

static uint64_t touch_meta(const rlx_meta *m)
{
    uint64_t sum = touch_bytes(m->key, strlen(m->key));
    for (size_t i = 0; i < m->n; i++) {
        uint64_t u = 0;
        int64_t s = 0;
        double d = 0;
        bool b = false;
        const char *text;
        size_t length;
        sum += rlx_meta_u64(m, i, &u) ? u : 0;
        sum += rlx_meta_i64(m, i, &s) ? (uint64_t)s : 0;
        sum += rlx_meta_f64(m, i, &d) && d > 0;
        sum += rlx_meta_bool(m, i, &b) && b;
        if (rlx_meta_string(m, i, &text, &length))
            sum += touch_bytes(text, length);
    }
    return sum;
}

uint64_t touch_all(const rlx_file *f)
{
    rlx_file_tensor t, found;
    rlx_meta m, same;
    uint64_t sum = 0;
    for (size_t i = 0; rlx_file_meta_at(f, i, &m); i++) {
        sum += touch_meta(&m);
        if (!rlx_file_find_meta(f, m.key, &same) || same.values != m.values)
            abort();
    }
    for (size_t i = 0; rlx_file_tensor_at(f, i, &t); i++) {
        const void *data;
        void *owned;
        if (rx_file_load(f, &t, &data, &owned, NULL) != RLX_OK)
            abort();
        sum += touch_bytes(data, t.bytes) + touch_bytes(t.type_name, strlen(t.type_name));
        rx_free(owned);
        if (!rlx_file_find_tensor(f, t.name, &found) || found.data != t.data)
            abort();
        if (rlx_file_get_tensor(f, t.name, &found, NULL) != RLX_OK && t.dtype != RLX_NO_TYPE)
            abort();
    }
    return sum;
}

#if defined(__wasi__) /* no files to write */
static void open_streamed(const void *data, size_t n, const char *path, rlx_status want,
                          const char *text, uint64_t sum)
{
    (void)data, (void)n, (void)path, (void)want, (void)text, (void)sum;
}
#else
/* A sentence from the name of the file on, without its folder. */
static const char *without_folder(const char *text, const char *name)
{
    const char *at = strstr(text, name);
    return at ? at : text;
}

/* Read in parts the file has the same content, or the same mistake. */
static void open_streamed(const void *data, size_t n, const char *path, rlx_status want,
                          const char *text, uint64_t sum)
{
    char full[1024];
    rlx_file *f;
    rlx_error err = {0};
    snprintf(full, sizeof full, "%s/%s", temp_folder(), path);
    write_bytes(full, data, n);
    const rlx_status st = rx_file_open_streamed(full, &f, &err);
    if (st != want || strcmp(without_folder(err.text, path), without_folder(text, path)) ||
        (st == RLX_OK && touch_all(f) != sum)) {
        fprintf(stderr, "%s: mapped: %s, %s; in parts: %s, %s\n", path, rlx_status_name(want), text,
               rlx_status_name(st), err.text);
        abort();
    }
    rlx_file_close(f);
}
#endif

/* The bytes get memory of their exact size, so that a sanitizer sees each step beyond. Of many
 * calls some also read a file in parts. */
rlx_status open_bytes(const void *data, size_t n, const char *path, rlx_error *err)
{
    static size_t calls;
    rlx_error why = {0};
    uint64_t sum = 0;
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy)
        abort();
    if (n)
        memcpy(copy, data, n);
    rlx_file *f;
    rlx_status st = rx_file_from_memory(copy, n, path, &f, &why);
    if (st == RLX_OK)
        sum = touch_all(f);
    rlx_file_close(f);
    free(copy);
    if (calls < 1000 || calls % 16 == 0)
        open_streamed(data, n, path, st, why.text, sum);
    calls++;
    if (st != RLX_OK && err)
        *err = why;
    return st;
}

/* ---- Fuzzing --------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static void mutate(unsigned char *d, size_t *n, uint64_t *state)
{
    static const uint64_t numbers[] = {0, 1, 2, 7, 9, 12, 13, 31, 255, 65535, 1u << 31, UINT32_MAX,
                                       1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX};
    if (*n == 0)
        return;
    size_t at = (size_t)(next_random(state) % *n), left = *n - at;
    uint64_t value = numbers[next_random(state) % (sizeof numbers / sizeof numbers[0])];
    switch (next_random(state) % 6) {
    case 0:
        d[at] ^= (unsigned char)(1u << next_random(state) % 8);
        break;
    case 1:
        d[at] = (unsigned char)next_random(state);
        break;
    case 2:
        for (size_t i = 0; i < 4 && i < left; i++)
            d[at + i] = (unsigned char)(value >> 8 * i);
        break;
    case 3:
        for (size_t i = 0; i < 8 && i < left; i++)
            d[at + i] = (unsigned char)(value >> 8 * i);
        break;
    case 4: { /* a piece over another place */
        size_t from = (size_t)(next_random(state) % *n), most = *n - from < left ? *n - from : left;
        memmove(d + at, d + from, (size_t)(next_random(state) % (most < 32 ? most : 32)));
        break;
    }
    default:
        if (next_random(state) % 4 == 0)
            *n = at;
    }
}

void change_bytes(unsigned char *d, size_t *n, uint64_t *state)
{
    for (uint64_t k = 1 + next_random(state) % 3; k--;)
        mutate(d, n, state);
}

size_t fuzz_blob(const blob *b, const char *path, uint64_t seed, size_t runs)
{
    size_t good = 0;
    unsigned char *copy = malloc(b->n);
    if (!copy)
        abort();
    printf("%zu runs from seed %llu: ", runs, (unsigned long long)seed);
    for (size_t i = 0; i < runs; i++) {
        rlx_error err = {0};
        size_t n = b->n;
        memcpy(copy, b->data, n);
        change_bytes(copy, &n, &seed);
        rlx_status st = open_bytes(copy, n, path, &err);
        good += st == RLX_OK;
        if (st != RLX_OK && !err.text[0])
            abort(); /* no failure without a sentence */
    }
    printf("%zu still good\n", good);
    free(copy);
    return good;
}

/* ---- Failing allocations --------------------------------------------------------------------- */

bool open_without_memory(const char *path)
{
    for (long at = 1; at < 10000; at++) {
        rlx_file *f;
        rlx_error err = {0};
        memory_fail(at, false);
        rlx_set_allocator(&counting);
        rlx_status st = rlx_file_open(path, &f, &err);
        rlx_file_close(f);
        rlx_set_allocator(NULL);
        if (memory_live() || (st == RLX_OK) != (memory_calls() < at) ||
            (st != RLX_OK && st != RLX_NO_MEMORY)) {
            printf("allocation %ld: %s, %ld live: %s\n", at, rlx_status_name(st),
                   memory_live(), err.text);
            return false;
        }
        if (st == RLX_OK)
            return true;
    }
    return false;
}
