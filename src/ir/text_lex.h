/* SPDX-License-Identifier: MIT */
/* Lexer of the text form: words, numbers and strings, with line and column for messages. */
#ifndef RX_IR_TEXT_LEX_H
#define RX_IR_TEXT_LEX_H

#include "ir/graph.h"

typedef struct rx_lexer {
    const char *text, *at, *end;
    rlx_error *err;
} rx_lexer;

/* Fails with RLX_PARSE and "line 3, column 7: ...". */
rlx_status rx_lex_fail(const rx_lexer *l, const char *fmt, ...) RX_PRINTF(2, 3);
/* RLX_OK, or the error recorded in the graph with its own status and the position in the text. */
rlx_status rx_lex_graph_status(const rx_lexer *l, const rlx_graph *g);
/* Skips blanks, newlines and comments. */
void rx_lex_skip(rx_lexer *l);
/* Consumes `token` if it is next, after blanks; false otherwise. */
bool rx_lex_take(rx_lexer *l, const char *token);
rlx_status rx_lex_expect(rx_lexer *l, const char *token);
/* Letters, digits, '_' and '.'; at least one. */
rlx_status rx_lex_word(rx_lexer *l, const char **word, size_t *length, const char *what);
rlx_status rx_lex_int(rx_lexer *l, int64_t *v);
/* An integer from 0 to 2^64 - 1; false, and nothing consumed, when none is next. */
bool rx_lex_unsigned(rx_lexer *l, uint64_t *v);
/* Decimal, "inf", "-inf" or "nan"; too large for a double is an error. */
rlx_status rx_lex_double(rx_lexer *l, double *v);
/* Two hexadecimal digits, with no blanks before them; -1 when there are none. */
int rx_lex_hex_byte(rx_lexer *l);
/* How many of the n characters of a word a message shows, as the precision of %.*s. */
static inline int rx_lex_shown(size_t n)
{
    return n < 60 ? (int)n : 60;
}
/* A quoted string; the result is in the graph's arena. */
rlx_status rx_lex_string(rx_lexer *l, rlx_graph *g, const char **s);
/* A number, a named dimension or (a+b), (a-b), (a*b), (a/b). */
rlx_status rx_lex_dim(rx_lexer *l, rlx_graph *g, int depth, rlx_dim *d);
/* "f32" */
rlx_status rx_lex_dtype(rx_lexer *l, rlx_dtype *t);
/* "f32[2,seq]" */
rlx_status rx_lex_type(rx_lexer *l, rlx_graph *g, rlx_dtype *t, rlx_shape *s);

#endif
