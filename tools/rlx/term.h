/* SPDX-License-Identifier: MIT */
/* Terminal output: styles, aligned tables, and numbers in short form. */
#ifndef TERM_H
#define TERM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "cli.h"

#define TERM_PLAIN "0"
#define TERM_BOLD "1"
#define TERM_DIM "2"
#define TERM_RED "31"
#define TERM_GREEN "32"
#define TERM_YELLOW "33"
#define TERM_BLUE "34"

/* The escape sequence of a style, or "" when `f` is no terminal or NO_COLOR is set. */
const char *term_style(FILE *f, const char *style);

/* Text from files (names, metadata, tokens, what a model says) must not command the terminal: it is
 * escaped as rlx_escape_text says, newlines and tabs only where `lines` keeps them. Freed with
 * free. */
char *term_escape(const char *text, size_t n, bool lines);
/* Prints one line that may hold names from files, escaped, and its end; on a terminal in rows that
 * are cut between words. */
void term_line(FILE *f, const char *format, ...) CLI_PRINTF(2, 3);
/* The text without an end, not escaped, where the row has `used` columns already. */
void term_rows(FILE *f, const char *text, int used);
/* The same, dim. */
void term_dim_line(FILE *f, const char *format, ...) CLI_PRINTF(2, 3);
/* Prints text of any length: escaped when `f` is a terminal, else as it is. */
void term_write(FILE *f, const char *text, size_t n);

/* Prints text and its end in lines that fit a terminal of 80 columns, cut between words; the first
 * stands after what is printed already, the others after `indent` blanks. */
void term_wrap(FILE *f, const char *text, size_t indent);

/* Columns of the terminal that `f` is; 80 where that is not known. */
int term_columns(FILE *f);
/* Columns of the character that begins at s, of n bytes; *bytes becomes its length. */
size_t term_char_width(const char *s, size_t n, size_t *bytes);
/* Columns that a text takes, and bytes of it that fit into so many. */
int term_width(const char *s);
size_t term_cut(const char *s, int columns);

/* A table: cells, which are escaped, are added left to right; a column is as wide as its widest
 * cell. */
typedef struct table {
    int n_columns;
    const char *align; /* one letter a column: 'l' or 'r' */
    char **cells;      /* the first row is the heading */
    const char **styles;
    size_t n_cells, cap;
} table;

/* `headings` are separated by '|'. */
void table_init(table *t, const char *align, const char *headings);
void table_cell(table *t, const char *format, ...) CLI_PRINTF(2, 3);
/* The same with a style for the whole cell. */
void table_styled(table *t, const char *style, const char *format, ...) CLI_PRINTF(3, 4);
/* Prints to standard output with `indent` blanks before each row, and frees the table. */
void table_print(table *t, int indent);
void table_free(table *t);

/* Short forms in a buffer of the caller, which is returned. */
#define SHORT_TEXT 32
char *short_bytes(double bytes, char out[SHORT_TEXT]);   /* 1.50 MiB */
char *short_seconds(double s, char out[SHORT_TEXT]);     /* 12.3 us */
char *short_count(double n, char out[SHORT_TEXT]);       /* 2.15 G */
/* "f32[2,3]" */
#define TYPE_TEXT 200
char *type_text(rlx_dtype t, const rlx_shape *s, char out[TYPE_TEXT]);

#endif
