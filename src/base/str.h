/* SPDX-License-Identifier: MIT */
/* String builder. After running out of memory all later appends do nothing. */
#ifndef RX_BASE_STR_H
#define RX_BASE_STR_H

#include "base/error.h"

typedef struct rx_str {
    char *data; /* always ends in 0 once something was appended */
    size_t n, cap;
    bool failed;
} rx_str;

void rx_str_finish(rx_str *s);
void rx_str_add(rx_str *s, const char *text, size_t n);
void rx_str_puts(rx_str *s, const char *text);
void rx_str_printf(rx_str *s, const char *fmt, ...) RX_PRINTF(2, 3);
/* Appends "text" in double quotes with \" \\ \n \t \xNN escapes. */
void rx_str_quote(rx_str *s, const char *text);
/* Appends the shortest decimal number that reads back as the same double: "0.1", "1e-05", "inf". */
void rx_str_double(rx_str *s, double v);
/* Hands the text over (freed with rx_free); RLX_NO_MEMORY if any append failed. */
rlx_status rx_str_take(rx_str *s, char **text, size_t *length, rlx_error *err);

#endif
