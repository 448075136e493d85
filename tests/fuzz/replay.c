/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target without libFuzzer, so that it can be a test with any compiler and sanitizer:
 * each file of a folder as it is, and `runs` changed versions of it. What a fuzzer has found goes
 * into the folder and stays mended.
 *   usage: fuzz_NAME FOLDER [RUNS [SEED]] */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/model_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static blob read_file(const char *path)
{
    blob b = {0};
    char piece[4096];
    FILE *f = fopen(path, "rb");
    for (size_t n; f && (n = fread(piece, 1, sizeof piece, f)) > 0;)
        blob_add(&b, piece, n);
    if (!f || ferror(f)) {
        printf("cannot read '%s'\n", path);
        exit(1);
    }
    fclose(f);
    return b;
}

/* Memory of the exact size, so that a sanitizer sees each step beyond. */
static void run_once(const unsigned char *data, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    if (!copy)
        exit(1);
    if (n)
        memcpy(copy, data, n);
    LLVMFuzzerTestOneInput(copy, n);
    free(copy);
}

static void run_changed(const blob *b, size_t runs, uint64_t *seed)
{
    unsigned char *copy = malloc(b->n + 1);
    if (!copy)
        exit(1);
    for (size_t i = 0; i < runs; i++) {
        size_t n = b->n;
        if (n)
            memcpy(copy, b->data, n);
        change_bytes(copy, &n, seed);
        run_once(copy, n);
    }
    free(copy);
}

int main(int argc, char **argv)
{
    const size_t runs = argc > 2 ? strtoul(argv[2], NULL, 10) : 200;
    const uint64_t first = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    size_t n_files = 0;
    DIR *folder = argc > 1 ? opendir(argv[1]) : NULL;
    if (!folder) {
        printf("usage: %s FOLDER [RUNS [SEED]]\n", argv[0]);
        return 2;
    }
    for (const struct dirent *d; (d = readdir(folder));) {
        char path[1024];
        uint64_t seed = first;
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%.700s/%.255s", argv[1], d->d_name);
        for (const char *s = d->d_name; *s; s++) /* the order of a folder does not matter */
            seed = seed * 131 + (unsigned char)*s;
        blob b = read_file(path);
        run_once(b.data, b.n);
        run_changed(&b, runs, &seed);
        blob_free(&b);
        n_files++;
    }
    closedir(folder);
    run_once(NULL, 0);
    printf("%zu files, %zu changed versions of each from seed %llu\n", n_files, runs,
           (unsigned long long)first);
    return n_files == 0;
}
