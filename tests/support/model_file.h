/* SPDX-License-Identifier: MIT */
/* A tiny writer of model files in memory, an allocator that fails, and what the tests of the
 * readers share: looking at everything of an open file, and a mutation fuzz. */
#ifndef RLX_TESTS_SUPPORT_MODEL_FILE_H
#define RLX_TESTS_SUPPORT_MODEL_FILE_H

#include "import/file.h"

typedef struct blob {
    unsigned char *data;
    size_t n, cap;
} blob;

void blob_add(blob *b, const void *data, size_t n);
void blob_free(blob *b);
/* Little-endian, `width` bytes. */
void blob_number(blob *b, uint64_t v, int width);
/* Zeros up to a multiple of `alignment`. */
void blob_align(blob *b, size_t alignment);
bool blob_write(const blob *b, const char *path);

/* A safetensors file of this header and `data_bytes` bytes 0, 1, 2, ... */
blob safetensors_blob(const char *header, size_t data_bytes);

/* Reads every name, value and byte of a file; returns a sum, so that nothing is left out. */
uint64_t touch_all(const rlx_file *f);

/* Opens a copy of exactly these bytes, touches everything; RLX_OK or how it failed. */
rlx_status open_bytes(const void *data, size_t n, const char *path, rlx_error *err);

/* Changes *n bytes in one to three ways: bytes, numbers, cuts, pieces moved. */
void change_bytes(unsigned char *d, size_t *n, uint64_t *state);
/* Opens `runs` changed versions of a file. Prints the seed.
 * Returns how many were still good. */
size_t fuzz_blob(const blob *b, const char *path, uint64_t seed, size_t runs);

/* Opens the file with the first, second, ... allocation failing until none fails. True when all of
 * them gave RLX_NO_MEMORY and nothing leaked. */
bool open_without_memory(const char *path);

#endif
