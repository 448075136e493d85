/* SPDX-License-Identifier: MIT */
/* A report for people or other programs (a picture, a trace): made in memory, then written as a
 * whole, so that an older one stays until the new one is complete. */
#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct report {
    FILE *f; /* what is printed here becomes the file */
    const char *path, *kind;
    char *data;
    size_t n;
} report;

/* `kind` names such files in errors: "an SVG picture". False after printing why there can be no
 * such file. */
bool report_open(report *r, const char *path, const char *kind);
/* Writes the file over an older one that begins with the same `magic_bytes` bytes; false after
 * printing why not. */
bool report_close(report *r, size_t magic_bytes);

#endif
