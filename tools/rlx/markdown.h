/* SPDX-License-Identifier: MIT */
/* Markdown in colour, as the pieces of an answer come: headings and **strong** text bold, `code`
 * and fenced blocks in another colour, bullets as dots. Marks are left out only where a style takes
 * their place. On a terminal rows end between words, except in fenced blocks. */
#ifndef MARKDOWN_H
#define MARKDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "wrap.h"

typedef struct markdown {
    wrap out;
    bool styled;              /* false: text is passed on as it is */
    bool fence, code, strong; /* inside of such */
    bool heading;             /* on the line of one */
    bool text_began;          /* on this line */
    char held[8];             /* marks that may go on with the next piece */
    size_t n_held;
} markdown;

void markdown_init(markdown *m, FILE *f);
void markdown_write(markdown *m, const char *text, size_t n);
/* Writes what is held and ends all styles. */
void markdown_end(markdown *m);

#endif
