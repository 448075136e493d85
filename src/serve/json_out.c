/* SPDX-License-Identifier: MIT */
/* Writing JSON into a string. */
#include "serve/json_out.h"

#include <math.h>
#include <string.h>

/* The length of the UTF-8 character at s, 0 when it is invalid. */
static size_t character(const unsigned char *s, size_t n)
{
    for (size_t length = 1; length <= 4 && length <= n; length++)
        if (rx_utf8_valid(s, length))
            return length;
    return 0;
}

void rx_put_text(rx_str *s, const char *text, size_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    rx_str_puts(s, "\"");
    for (size_t at = 0; at < n;) {
        const size_t length = character(p + at, n - at);
        if (!length)
            rx_str_puts(s, "\xef\xbf\xbd");
        else if (p[at] == '"' || p[at] == '\\')
            rx_str_printf(s, "\\%c", p[at]);
        else if (p[at] == '\n')
            rx_str_puts(s, "\\n");
        else if (p[at] < 0x20 || p[at] == 0x7f)
            rx_str_printf(s, "\\u%04x", p[at]);
        else
            rx_str_add(s, text + at, length);
        at += length ? length : 1;
    }
    rx_str_puts(s, "\"");
}

void rx_put_string(rx_str *s, const char *text)
{
    if (text)
        rx_put_text(s, text, strlen(text));
    else
        rx_str_puts(s, "null");
}

void rx_put_number(rx_str *s, double v)
{
    if (isfinite(v))
        rx_str_printf(s, "%.9g", v);
    else
        rx_str_puts(s, "null");
}

void rx_put_json(rx_str *s, const rx_json *v)
{
    const bool object = v->kind == RX_JSON_OBJECT;
    switch (v->kind) {
    case RX_JSON_NULL: rx_str_puts(s, "null"); return;
    case RX_JSON_BOOL: rx_str_puts(s, v->truth ? "true" : "false"); return;
    case RX_JSON_NUMBER: rx_str_add(s, v->text, v->length); return;
    case RX_JSON_STRING: rx_put_text(s, v->text, v->length); return;
    case RX_JSON_ARRAY:
    case RX_JSON_OBJECT: break;
    }
    rx_str_puts(s, object ? "{" : "[");
    for (const rx_json *i = v->first; i; i = i->next) {
        if (i != v->first)
            rx_str_puts(s, ",");
        if (object) {
            rx_put_text(s, i->key, i->key_length);
            rx_str_puts(s, ":");
        }
        rx_put_json(s, i);
    }
    rx_str_puts(s, object ? "}" : "]");
}

void rx_put_base64(rx_str *s, const void *data, size_t n)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    rx_str_puts(s, "\"");
    for (size_t i = 0; i < n; i += 3) {
        const size_t left = n - i;
        const uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                           (left > 2 ? p[i + 2] : 0);
        const char four[4] = {digits[v >> 18], digits[v >> 12 & 63],
                              left > 1 ? digits[v >> 6 & 63] : '=',
                              left > 2 ? digits[v & 63] : '='};
        rx_str_add(s, four, 4);
    }
    rx_str_puts(s, "\"");
}
