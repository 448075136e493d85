/* SPDX-License-Identifier: MIT */
/* Reading texts: graphs, prompts, lines. A path may be "-" (standard input), a regular file, a pipe
 * that someone writes to, or a terminal; anything else is refused without waiting for it. */
#ifndef INPUT_H
#define INPUT_H

#include <stdbool.h>
#include <stddef.h>

/* All of it with a zero byte after; NULL after printing why not. Freed with free. */
char *input_read(const char *path, size_t *length);
/* The same without zero bytes inside: text. */
char *input_read_text(const char *path);
/* Whether it is a regular file that begins with this text; prints nothing. */
bool input_begins(const char *path, const char *text);
/* The first bytes of a regular file; false after printing why not. */
bool input_peek(const char *path, void *bytes, size_t cap, size_t *n);

#endif
