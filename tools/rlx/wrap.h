/* SPDX-License-Identifier: MIT */
/* Text that comes in pieces, on a terminal in rows that end between words: a word is held until
 * what follows shows that it is whole. Elsewhere text is passed on as it is. */
#ifndef WRAP_H
#define WRAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct wrap {
    FILE *f;
    bool on;             /* f is a terminal */
    char word[256];      /* with the styles in it */
    size_t n_word;       /* bytes */
    size_t width, column; /* columns of the word, and of the row before it */
} wrap;

void wrap_init(wrap *w, FILE *f);
/* `verbatim`: lines stay as they are, as in code. */
void wrap_text(wrap *w, const char *text, size_t n, bool verbatim);
/* An escape sequence, which takes no columns. */
void wrap_style(wrap *w, const char *sequence);
/* Writes what is held. */
void wrap_end(wrap *w);

#endif
