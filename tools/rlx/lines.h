/* SPDX-License-Identifier: MIT */
/* Texts that a command is given: lines of a file, or arguments. */
#ifndef LINES_H
#define LINES_H

#include <stdbool.h>
#include <stddef.h>

typedef struct lines {
    char *data;
    const char **v;
    size_t *number; /* in the file, from 1 */
    size_t n;
} lines;

/* The text is not copied. */
void lines_add(lines *l, const char *text, size_t number);
/* Adds the lines of a file ('-': standard input), with the empty ones if asked for; fails where
 * there is none. On failure the sentence is printed. */
int lines_read(const char *path, bool with_empty, lines *out);
void lines_free(lines *l);

#endif
