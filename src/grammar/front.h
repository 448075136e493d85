/* SPDX-License-Identifier: MIT */
/* The front ends: regular expressions to terms, grammars to programs of the machine. */
#ifndef RX_GRAMMAR_FRONT_H
#define RX_GRAMMAR_FRONT_H

#include "grammar/machine.h"
#include "import/json.h"

/* A regular expression of ECMA 262. whole: all of the text must match; else a part of it, as in
 * JSON Schema. `what` names it in errors. */
rlx_status rx_regex_parse(rx_exprs *x, const char *what, const char *s, size_t n, bool whole,
                          rx_ex *out, rlx_error *err);

/* Decimal numbers as JSON writes them, without an exponent. */
rx_ex rx_number_plain(rx_exprs *x);
rx_ex rx_number_any(rx_exprs *x); /* also with an exponent */
/* Of those: at least (least) or at most the number that `text` writes, or more, or less (strict).
 * minus_zero: -0 counts as well where 0 does. */
typedef struct rx_bound {
    const char *text;
    bool least, strict, minus_zero;
} rx_bound;
rlx_status rx_number_bound(rx_exprs *x, rx_bound b, rx_ex *out, rlx_error *err);
rlx_status rx_number_equal(rx_exprs *x, const char *text, bool fraction, rx_ex *out,
                           rlx_error *err);
rlx_status rx_number_multiple(rx_exprs *x, const char *text, rx_ex *out, rlx_error *err);
/* Integers; fraction: also as 1.0. */
rx_ex rx_number_integer(rx_exprs *x, bool fraction);

/* Whether `name` is a format that is known here, and its texts. */
rlx_status rx_format_parse(rx_exprs *x, const char *name, bool *known, rx_ex *out,
                           rlx_error *err);

rlx_status rx_gbnf_compile(rx_program *p, const char *text, size_t n, rlx_error *err);
rlx_status rx_schema_compile(rx_program *p, const char *text, size_t n, rlx_json_form form,
                             rlx_error *err);

#endif
