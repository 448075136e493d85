/* SPDX-License-Identifier: MIT */
/* What of the command line differs between POSIX (system.c) and Windows (system_win.c): arguments,
 * signals, the terminal. */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/posix.h"

/* First thing in main: arguments in UTF-8, streams without changed line ends, a console that knows
 * UTF-8 and escape sequences. */
void system_start(int *argc, char ***argv);

/* Calls fn at Ctrl-C; other calls go on where it interrupted them. */
void system_on_interrupt(void (*fn)(int));
/* Calls fn once when the process shall end, unless that is ignored; what comes next ends it. */
void system_on_end(void (*fn)(int));

/* Columns and rows of the terminal behind a stream, or 0. */
void system_screen(FILE *f, int *columns, int *rows);
/* Keys as bytes, with escape sequences, at once and unseen. */
bool system_raw_begin(void);
void system_raw_end(void);
/* The next byte of a key, or -1; whether one waits already. */
int system_read_key(void);
bool system_key_waits(void);
/* Columns of a character: 0 for one that combines, -1 for one that is not printed. */
int system_char_width(unsigned c);

/* Whether a text matches a pattern of a shell: *, ?, [a-z], [!a-z]. */
bool system_matches(const char *pattern, const char *text);

/* A stream into memory; end closes it and gives its bytes, to be freed. */
FILE *system_memory_begin(char **data, size_t *n);
bool system_memory_end(FILE *f, char **data, size_t *n);

#endif
