/* SPDX-License-Identifier: MIT */
/* Breaks rows at blanks, and around characters of two columns, which need none between them. */
#include "wrap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "term.h"

void wrap_init(wrap *w, FILE *f)
{
    *w = (wrap){.f = f, .on = isatty(fileno(f))};
}

void wrap_end(wrap *w)
{
    const size_t columns = (size_t)term_columns(w->f);
    if (w->column && w->width && w->column + w->width > columns) {
        fputc('\n', w->f);
        w->column = 0;
    }
    fwrite(w->word, 1, w->n_word, w->f);
    w->column += w->width;
    if (w->column > columns) /* the terminal has broken a word longer than the row */
        w->column %= columns;
    w->n_word = w->width = 0;
}

/* A character that stands where it is, whatever the width. */
static void put_verbatim(wrap *w, const char *c, size_t n, size_t width)
{
    wrap_end(w);
    fwrite(c, 1, n, w->f);
    w->column += width;
}

static void add(wrap *w, const char *bytes, size_t n, size_t width)
{
    if (w->n_word + n > sizeof w->word)
        wrap_end(w);
    memcpy(w->word + w->n_word, bytes, n);
    w->n_word += n;
    w->width += width;
}

static void put_char(wrap *w, const char *c, size_t n, size_t width, bool verbatim)
{
    if (*c == '\n') {
        wrap_end(w);
        fputc('\n', w->f);
        w->column = 0;
    } else if (verbatim) {
        put_verbatim(w, c, n, width);
    } else if (*c == ' ') {
        wrap_end(w);
        if (w->column < (size_t)term_columns(w->f)) { /* else the row ends here */
            fputc(' ', w->f);
            w->column++;
        }
    } else {
        if (width > 1)
            wrap_end(w);
        add(w, c, n, width);
        if (width > 1)
            wrap_end(w);
    }
}

void wrap_text(wrap *w, const char *text, size_t n, bool verbatim)
{
    if (!w->on) {
        term_write(w->f, text, n);
        return;
    }
    char *safe = term_escape(text, n, true);
    size_t bytes;
    for (size_t at = 0, end = strlen(safe); at < end; at += bytes) {
        const size_t width = term_char_width(safe + at, end - at, &bytes);
        put_char(w, safe + at, bytes, width, verbatim);
    }
    free(safe);
}

void wrap_style(wrap *w, const char *sequence)
{
    if (w->on)
        add(w, sequence, strlen(sequence), 0);
    else
        fputs(sequence, w->f);
}
