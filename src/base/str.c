/* SPDX-License-Identifier: MIT */
/* String builder. */
#include "base/str.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void rx_str_finish(rx_str *s)
{
    rx_free(s->data);
    *s = (rx_str){0};
}

static bool reserve(rx_str *s, size_t n)
{
    if (!s->failed && !rx_grow(&s->data, &s->cap, s->n + n + 1, 1))
        s->failed = true;
    return !s->failed;
}

void rx_str_add(rx_str *s, const char *text, size_t n)
{
    if (!reserve(s, n))
        return;
    memcpy(s->data + s->n, text, n);
    s->n += n;
    s->data[s->n] = 0;
}

void rx_str_puts(rx_str *s, const char *text)
{
    rx_str_add(s, text, strlen(text));
}

void rx_str_printf(rx_str *s, const char *fmt, ...)
{
    va_list args, again;
    va_start(args, fmt);
    va_copy(again, args);
    int n = vsnprintf(NULL, 0, fmt, args);
    if (n > 0 && reserve(s, (size_t)n)) {
        vsnprintf(s->data + s->n, (size_t)n + 1, fmt, again);
        s->n += (size_t)n;
    }
    va_end(again);
    va_end(args);
}

void rx_str_quote(rx_str *s, const char *text)
{
    rx_str_puts(s, "\"");
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '"' || *p == '\\')
            rx_str_printf(s, "\\%c", *p);
        else if (*p == '\n')
            rx_str_puts(s, "\\n");
        else if (*p == '\t')
            rx_str_puts(s, "\\t");
        else if (*p < 0x20 || *p == 0x7f)
            rx_str_printf(s, "\\x%02x", *p);
        else
            rx_str_add(s, (const char *)p, 1);
    }
    rx_str_puts(s, "\"");
}

void rx_str_double(rx_str *s, double v)
{
    char text[40];
    if (isnan(v)) {
        rx_str_puts(s, "nan");
        return;
    }
    if (isinf(v)) {
        rx_str_puts(s, v < 0 ? "-inf" : "inf");
        return;
    }
    for (int digits = 6; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, v);
        if (strtod(text, NULL) == v)
            break;
    }
    char *point = strchr(text, *localeconv()->decimal_point); /* the program may set a locale */
    if (point)
        *point = '.';
    rx_str_puts(s, text);
}

rlx_status rx_str_take(rx_str *s, char **text, size_t *length, rlx_error *err)
{
    if (!reserve(s, 0)) {
        rx_str_finish(s);
        return rx_fail(err, RLX_NO_MEMORY, "out of memory while printing text");
    }
    s->data[s->n] = 0;
    *text = s->data;
    if (length)
        *length = s->n;
    *s = (rx_str){0};
    return RLX_OK;
}
