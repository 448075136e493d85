/* SPDX-License-Identifier: MIT */
/* Reading words, numbers and strings of the text form. */
#include "ir/text_lex.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 256 /* no expression of the graph is deeper: see MAX_PARTS in dims.c */

rlx_status rx_lex_fail(const rx_lexer *l, const char *fmt, ...)
{
    int line = 1, column = 1;
    for (const char *p = l->text; p < l->at; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n';
    }
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return rx_fail(l->err, RLX_PARSE, "line %d, column %d: %s", line, column, text);
}

rlx_status rx_lex_graph_status(const rx_lexer *l, const rlx_graph *g)
{
    if (g->error.code == RLX_OK)
        return RLX_OK;
    rx_lex_fail(l, "%.440s", g->error.text);
    if (l->err)
        l->err->code = g->error.code;
    return g->error.code;
}

/* The token at the cursor, for "got ...": printable characters, or a byte. */
static const char *found(const rx_lexer *l, char text[32])
{
    if (l->at >= l->end)
        return "the end of the text";
    size_t n = 0;
    while (n < 20 && l->at + n < l->end && l->at[n] >= ' ' && l->at[n] <= '~')
        n++;
    if (n)
        snprintf(text, 32, "'%.*s'", (int)n, l->at);
    else
        snprintf(text, 32, "byte 0x%02x", (unsigned char)*l->at);
    return text;
}

void rx_lex_skip(rx_lexer *l)
{
    while (l->at < l->end) {
        if (*l->at == '#')
            while (l->at < l->end && *l->at != '\n')
                l->at++;
        else if (*l->at == ' ' || *l->at == '\t' || *l->at == '\n' || *l->at == '\r')
            l->at++;
        else
            return;
    }
}

static bool is_word_char(char ch)
{
    return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') || (ch >= '0' && ch <= '9') ||
           ch == '_' || ch == '.';
}

bool rx_lex_take(rx_lexer *l, const char *token)
{
    rx_lex_skip(l);
    size_t n = strlen(token);
    if ((size_t)(l->end - l->at) < n || memcmp(l->at, token, n))
        return false;
    if (is_word_char(token[n - 1]) && l->at + n < l->end && is_word_char(l->at[n]))
        return false;
    l->at += n;
    return true;
}

rlx_status rx_lex_expect(rx_lexer *l, const char *token)
{
    char text[32];
    if (rx_lex_take(l, token))
        return RLX_OK;
    return rx_lex_fail(l, "expected '%s', got %s", token, found(l, text));
}

rlx_status rx_lex_word(rx_lexer *l, const char **word, size_t *length, const char *what)
{
    char text[32];
    rx_lex_skip(l);
    const char *start = l->at;
    while (l->at < l->end && is_word_char(*l->at))
        l->at++;
    *word = start;
    *length = (size_t)(l->at - start);
    return *length ? RLX_OK : rx_lex_fail(l, "expected %s, got %s", what, found(l, text));
}

#define NUMBER_TEXT 64

/* Copies the characters of a number into a buffer so that strtod sees an end; `point` stands for
 * '.'. Returns their count, or 0 when there are none or too many. */
static size_t copy_number(rx_lexer *l, char point, char text[NUMBER_TEXT])
{
    rx_lex_skip(l);
    size_t n = 0;
    for (; l->at + n < l->end; n++) {
        char ch = l->at[n];
        bool is_sign = ch == '-' || ch == '+';
        bool in_exponent = n && (l->at[n - 1] == 'e' || l->at[n - 1] == 'E');
        if (!is_word_char(ch) && !(is_sign && (!n || in_exponent)))
            break;
        if (n == NUMBER_TEXT - 1)
            return 0;
        text[n] = ch == '.' ? point : ch;
    }
    text[n] = 0;
    return n;
}

rlx_status rx_lex_int(rx_lexer *l, int64_t *v)
{
    char text[NUMBER_TEXT], got[32], *end;
    size_t n = copy_number(l, '.', text);
    errno = 0;
    *v = n ? strtoll(text, &end, 10) : 0;
    if (!n || *end || errno)
        return rx_lex_fail(l, "expected an integer of 64 bits, got %s", found(l, got));
    l->at += n;
    return RLX_OK;
}

bool rx_lex_unsigned(rx_lexer *l, uint64_t *v)
{
    char text[NUMBER_TEXT], *end;
    size_t n = copy_number(l, '.', text);
    if (!n || text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    *v = strtoull(text, &end, 10);
    if (*end || errno)
        return false;
    l->at += n;
    return true;
}

rlx_status rx_lex_double(rx_lexer *l, double *v)
{
    char text[NUMBER_TEXT], got[32], *end;
    size_t n = copy_number(l, *localeconv()->decimal_point, text);
    errno = 0;
    *v = n ? strtod(text, &end) : 0;
    if (!n || *end || (errno == ERANGE && isinf(*v)))
        return rx_lex_fail(l, "expected a number of at most %d characters and about 1.8e308, "
                              "got %s", NUMBER_TEXT - 1, found(l, got));
    l->at += n;
    return RLX_OK;
}

static int hex_digit(char ch)
{
    if (ch >= '0' && ch <= '9')
        return ch - '0';
    if (ch >= 'A' && ch <= 'F')
        return ch - 'A' + 10;
    return ch >= 'a' && ch <= 'f' ? ch - 'a' + 10 : -1;
}

int rx_lex_hex_byte(rx_lexer *l)
{
    if (l->end - l->at < 2)
        return -1;
    int high = hex_digit(l->at[0]), low = hex_digit(l->at[1]);
    if (high < 0 || low < 0)
        return -1;
    l->at += 2;
    return high * 16 + low;
}

/* One character of a string, which may be an escape. Returns its value or -1. */
static int take_char(rx_lexer *l)
{
    int ch = (unsigned char)*l->at++;
    if (ch != '\\')
        return ch;
    if (l->at >= l->end)
        return -1;
    switch (*l->at++) {
    case 'n': return '\n';
    case 't': return '\t';
    case '"': return '"';
    case '\\': return '\\';
    case 'x': return rx_lex_hex_byte(l);
    default: return -1;
    }
}

rlx_status rx_lex_string(rx_lexer *l, rlx_graph *g, const char **s)
{
    RLX_TRY(rx_lex_expect(l, "\""));
    size_t longest = 0;
    while (l->at + longest < l->end && l->at[longest] != '"' && l->at[longest] != '\n')
        longest += l->at[longest] == '\\' && l->at + longest + 1 < l->end ? 2 : 1;
    char *out = rx_arena_alloc(&g->arena, longest + 1);
    if (!out)
        return rx_fail_memory(l->err, "a string", longest);
    size_t n = 0;
    char got[32];
    while (l->at < l->end && *l->at != '"' && *l->at != '\n') {
        const char *start = l->at;
        int ch = take_char(l);
        if (ch <= 0) {
            l->at = start;
            return rx_lex_fail(l, "expected a character that is not zero or one of the escapes "
                                  "\\n \\t \\\" \\\\ \\xNN, got %s", found(l, got));
        }
        out[n++] = (char)ch;
    }
    if (l->at >= l->end || *l->at != '"')
        return rx_lex_fail(l, "expected '\"' at the end of a string, got %s", found(l, got));
    l->at++;
    out[n] = 0;
    *s = out;
    return RLX_OK;
}

static rlx_status lex_expression(rx_lexer *l, rlx_graph *g, int depth, rlx_dim *d)
{
    rlx_dim a, b;
    RLX_TRY(rx_lex_dim(l, g, depth + 1, &a));
    rx_lex_skip(l);
    char got[32], op = l->at < l->end ? *l->at : 0;
    if (!op || !strchr("+-*/", op))
        return rx_lex_fail(l, "expected + - * or / in a dimension, got %s", found(l, got));
    l->at++;
    RLX_TRY(rx_lex_dim(l, g, depth + 1, &b));
    RLX_TRY(rx_lex_expect(l, ")"));
    *d = op == '+' ? rlx_dim_add(g, a, b)
       : op == '-' ? rlx_dim_sub(g, a, b)
       : op == '*' ? rlx_dim_mul(g, a, b)
                   : rlx_dim_div(g, a, b);
    return rx_lex_graph_status(l, g);
}

rlx_status rx_lex_dim(rx_lexer *l, rlx_graph *g, int depth, rlx_dim *d)
{
    if (depth > MAX_DEPTH)
        return rx_lex_fail(l, "dimension expression nested more than %d deep", MAX_DEPTH);
    if (rx_lex_take(l, "("))
        return lex_expression(l, g, depth, d);
    rx_lex_skip(l);
    if (l->at < l->end && ((*l->at >= '0' && *l->at <= '9') || *l->at == '-')) {
        RLX_TRY(rx_lex_int(l, d));
        return *d >= -1 ? RLX_OK
                        : rx_lex_fail(l, "expected a dimension of 0 or more, got %lld",
                                      (long long)*d);
    }
    const char *word;
    size_t n;
    RLX_TRY(rx_lex_word(l, &word, &n, "a dimension"));
    *d = rx_dim_find(g, word, n);
    if (*d)
        return RLX_OK;
    l->at = word;
    return rx_lex_fail(l, "unknown dimension '%.*s'; expected a number or one declared with 'dim'",
                       rx_lex_shown(n), word);
}

rlx_status rx_lex_dtype(rx_lexer *l, rlx_dtype *t)
{
    const char *word;
    size_t n;
    char name[16];
    RLX_TRY(rx_lex_word(l, &word, &n, "a type"));
    snprintf(name, sizeof name, "%.*s", (int)(n < 15 ? n : 15), word);
    *t = rlx_dtype_from_name(name);
    if (*t != RLX_NO_TYPE)
        return RLX_OK;
    l->at = word;
    return rx_lex_fail(l, "unknown type '%s'; expected f32, f16, i64, q4_0, ...", name);
}

rlx_status rx_lex_type(rx_lexer *l, rlx_graph *g, rlx_dtype *t, rlx_shape *s)
{
    *s = (rlx_shape){0};
    RLX_TRY(rx_lex_dtype(l, t));
    RLX_TRY(rx_lex_expect(l, "["));
    if (rx_lex_take(l, "]"))
        return RLX_OK;
    do {
        if (s->rank == RLX_MAX_RANK)
            return rx_lex_fail(l, "expected at most %d dimensions", RLX_MAX_RANK);
        RLX_TRY(rx_lex_dim(l, g, 0, &s->dim[s->rank++]));
        if (s->dim[s->rank - 1] == -1)
            return rx_lex_fail(l, "expected a dimension of 0 or more, got -1");
    } while (rx_lex_take(l, ","));
    return rx_lex_expect(l, "]");
}
