/* SPDX-License-Identifier: MIT */
/* What the tools that compile and pack kernels share: the table of kernels, bytes, files. */
#ifndef RLX_TOOLS_KERNELS_COMMON_H
#define RLX_TOOLS_KERNELS_COMMON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/needs.h"

typedef struct row {
    const char *name, *file, *defines, *family;
    unsigned needs;
} row;

static const row rows[] = {
#define KERNEL(name, file, defines, family, needs) {#name, file, defines, #family, needs},
#include "gpu/kernels.def"
    {NULL, NULL, NULL, NULL, 0},
};

typedef struct text {
    char *data;
    size_t n, cap;
} text;

static void die(const char *what, const char *detail)
{
    fprintf(stderr, "kernels: %s: %s\n", what, detail ? detail : "");
    exit(1);
}

static void append(text *t, const void *data, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        t->cap = (t->n + n + 1) * 2;
        t->data = realloc(t->data, t->cap);
        if (!t->data)
            die("out of memory", "");
    }
    memcpy(t->data + t->n, data, n);
    t->n += n;
    t->data[t->n] = 0;
}

static text read_file(const char *path)
{
    text t = {0};
    char buffer[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        die("cannot open", path);
    append(&t, "", 0);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;)
        append(&t, buffer, n);
    fclose(f);
    return t;
}

/* Writes a file unless it is as it should be. */
static void write_if_new(const char *path, const text *t)
{
    FILE *f = fopen(path, "rb");
    text old = {0};
    if (f) {
        fclose(f);
        old = read_file(path);
    }
    if (!f || old.n != t->n || memcmp(old.data, t->data, t->n)) {
        f = fopen(path, "wb");
        if (!f || fwrite(t->data, 1, t->n, f) != t->n || fclose(f))
            die("cannot write", path);
    }
    free(old.data);
}

#endif
