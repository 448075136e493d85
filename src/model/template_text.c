/* SPDX-License-Identifier: MIT */
/* Values of templates as text: as Python prints them, as JSON, and by "%" formats. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/template_value.h"
#include "model/unicode.h"

/* Python's repr: the fewest digits that read back, with an exponent below 1e-4 and from 1e16. */
static void print_real(rx_str *out, double v)
{
    char text[48], digits[24];
    if (isnan(v) || isinf(v)) {
        rx_str_puts(out, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    int n = 1;
    for (; n < 17; n++) {
        snprintf(text, sizeof text, "%.*e", n - 1, v);
        if (strtod(text, NULL) == v)
            break;
    }
    snprintf(text, sizeof text, "%.*e", n - 1, v);
    const char *p = text + (text[0] == '-');
    int used = 0, exponent = (int)strtol(strchr(p, 'e') + 1, NULL, 10);
    for (; *p != 'e'; p++)
        if (*p >= '0' && *p <= '9')
            digits[used++] = *p;
    if (text[0] == '-')
        rx_str_puts(out, "-");
    if (exponent < -4 || exponent >= 16) {
        rx_str_printf(out, "%c%s%.*se%c%02d", digits[0], used > 1 ? "." : "", used - 1, digits + 1,
                      exponent < 0 ? '-' : '+', abs(exponent));
        return;
    }
    if (exponent < 0)
        rx_str_printf(out, "0.%.*s%.*s", -exponent - 1, "000", used, digits);
    for (int i = 0; exponent >= 0 && (i < used || i <= exponent + 1); i++)
        rx_str_printf(out, "%s%c", i == exponent + 1 ? "." : "", i < used ? digits[i] : '0');
}

/* Charges n more bytes to the budgets of work and output; false when exceeded. */
static bool may_print(rx_env *e, const rx_str *out, size_t n)
{
    if (out->n > RX_TEMPLATE_OUTPUT)
        rx_env_fail(e, "gives more than %zu bytes", RX_TEMPLATE_OUTPUT);
    return rx_env_bytes(e, n);
}

/* Python's repr of a string: single quotes, or double ones if it contains single quotes only. */
static void print_quoted(rx_env *e, rx_str *out, rx_value v)
{
    if (!may_print(e, out, v.n))
        return;
    const bool twice = memchr(v.s, '\'', v.n) && !memchr(v.s, '"', v.n);
    const char quote = twice ? '"' : '\'';
    rx_str_add(out, &quote, 1);
    for (size_t i = 0; i < v.n; i++) {
        const unsigned char c = (unsigned char)v.s[i];
        if (c == (unsigned char)quote || c == '\\')
            rx_str_printf(out, "\\%c", c);
        else if (c == '\n' || c == '\t' || c == '\r')
            rx_str_printf(out, "\\%c", c == '\n' ? 'n' : c == '\t' ? 't' : 'r');
        else if (c < 0x20 || c == 0x7f)
            rx_str_printf(out, "\\x%02x", c);
        else
            rx_str_add(out, v.s + i, 1);
    }
    rx_str_add(out, &quote, 1);
}

static void print_inner(rx_env *e, rx_str *out, rx_value v);

static void print_list(rx_env *e, rx_str *out, const rx_list *l)
{
    rx_str_puts(out, l->is_tuple ? "(" : "[");
    for (size_t i = 0; i < l->n && rx_env_step(e, 1); i++) {
        rx_str_puts(out, i ? ", " : "");
        print_inner(e, out, l->items[i]);
    }
    rx_str_puts(out, l->is_tuple ? l->n == 1 ? ",)" : ")" : "]");
}

static void print_dict(rx_env *e, rx_str *out, const rx_dict *d)
{
    rx_str_puts(out, "{");
    for (size_t i = 0; i < d->n && rx_env_step(e, 1); i++) {
        rx_str_puts(out, i ? ", " : "");
        print_inner(e, out, d->items[i].key);
        rx_str_puts(out, ": ");
        print_inner(e, out, d->items[i].value);
    }
    rx_str_puts(out, "}");
}

/* Inside of lists and dictionaries strings are quoted. */
static void print_inner(rx_env *e, rx_str *out, rx_value v)
{
    if (v.kind == RX_V_STRING)
        print_quoted(e, out, v);
    else if (v.kind == RX_V_UNDEFINED)
        rx_str_puts(out, "Undefined");
    else
        rx_print_value(e, out, v);
}

void rx_print_value(rx_env *e, rx_str *out, rx_value v)
{
    if (++e->depth > RX_TEMPLATE_DEPTH)
        rx_env_fail(e, "a value is nested more than %d deep", RX_TEMPLATE_DEPTH);
    if (!may_print(e, out, v.kind == RX_V_STRING ? v.n : 0)) {
        e->depth--;
        return;
    }
    switch (v.kind) {
    case RX_V_UNDEFINED: break;
    case RX_V_NONE: rx_str_puts(out, "None"); break;
    case RX_V_BOOL: rx_str_puts(out, v.i ? "True" : "False"); break;
    case RX_V_INT: rx_str_printf(out, "%" PRId64, v.i); break;
    case RX_V_FLOAT: print_real(out, v.d); break;
    case RX_V_STRING: rx_str_add(out, v.s, v.n); break;
    case RX_V_LIST: print_list(e, out, v.list); break;
    case RX_V_DICT: print_dict(e, out, v.dict); break;
    default: rx_str_printf(out, "<%s>", rx_kind_name(v));
    }
    e->depth--;
}

rx_value rx_to_text(rx_env *e, rx_value v)
{
    rx_str s = {0};
    if (v.kind == RX_V_STRING)
        return v;
    rx_print_value(e, &s, v);
    return rx_take_text(e, &s);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void print_json_escape(rx_str *out, uint32_t code)
{
    static const char letters[] = "\b\f\n\r\t\"\\", names[] = "bfnrt\"\\";
    const char *known = code < 0x80 && code ? strchr(letters, (int)code) : NULL;
    if (known)
        rx_str_printf(out, "\\%c", names[known - letters]);
    else if (code > 0xffff)
        rx_str_printf(out, "\\u%04x\\u%04x", (unsigned)(0xd800 + ((code - 0x10000) >> 10)),
                      (unsigned)(0xdc00 + (code & 0x3ff)));
    else
        rx_str_printf(out, "\\u%04x", (unsigned)code);
}

static void print_json_text(rx_env *e, rx_str *out, rx_value v, bool ascii)
{
    if (!may_print(e, out, v.n))
        return;
    rx_str_puts(out, "\"");
    for (size_t at = 0, n; at < v.n; at += n) {
        uint32_t code;
        n = rx_utf8_get(v.s + at, v.n - at, &code);
        if (code < 0x20 || code == '"' || code == '\\' || (ascii && code > 0x7e && code < 0x110000))
            print_json_escape(out, code);
        else
            rx_str_add(out, v.s + at, n);
    }
    rx_str_puts(out, "\"");
}

static void print_break(rx_env *e, rx_str *out, const rx_json_style *s, int depth, bool first)
{
    if (!first && may_print(e, out, s->item.n))
        rx_str_add(out, s->item.s, s->item.n);
    if (s->indent < 0)
        return;
    rx_str_puts(out, "\n");
    for (int64_t i = 0; i < s->indent * depth && rx_env_step(e, 1); i++)
        rx_str_puts(out, " ");
}

static void print_json_list(rx_env *e, rx_str *out, const rx_list *l, const rx_json_style *s,
                            int depth)
{
    rx_str_puts(out, "[");
    for (size_t i = 0; i < l->n && rx_env_step(e, 1); i++) {
        print_break(e, out, s, depth + 1, i == 0);
        rx_print_json(e, out, l->items[i], s, depth + 1);
    }
    if (l->n && s->indent >= 0)
        print_break(e, out, s, depth, true);
    rx_str_puts(out, "]");
}

static int order_pairs(const void *a, const void *b)
{
    const rx_value x = ((const rx_pair *)a)->key, y = ((const rx_pair *)b)->key;
    if (x.kind != RX_V_STRING || y.kind != RX_V_STRING)
        return (x.kind > y.kind) - (x.kind < y.kind);
    int order = memcmp(x.s, y.s, x.n < y.n ? x.n : y.n);
    return order ? order : (x.n > y.n) - (x.n < y.n);
}

static const rx_pair *sorted_pairs(rx_env *e, const rx_dict *d)
{
    rx_pair *copy = rx_env_array(e, d->n, sizeof *copy);
    for (size_t i = 0; copy && i < d->n; i++) /* each key is compared a few times */
        rx_env_step(e, 4 + (d->items[i].key.kind == RX_V_STRING ? d->items[i].key.n / 8 : 0));
    if (!copy || !d->n || e->status != RLX_OK)
        return d->items;
    memcpy(copy, d->items, d->n * sizeof *copy);
    qsort(copy, d->n, sizeof *copy, order_pairs);
    return copy;
}

static void print_json_dict(rx_env *e, rx_str *out, const rx_dict *d, const rx_json_style *s,
                            int depth)
{
    const rx_pair *items = s->sorted ? sorted_pairs(e, d) : d->items;
    rx_str_puts(out, "{");
    for (size_t i = 0; i < d->n && rx_env_step(e, 1); i++) {
        print_break(e, out, s, depth + 1, i == 0);
        rx_env_bytes(e, s->key.n);
        if (items[i].key.kind == RX_V_STRING)
            print_json_text(e, out, items[i].key, s->ascii);
        else {
            rx_str_puts(out, "\"");
            rx_print_json(e, out, items[i].key, s, depth + 1);
            rx_str_puts(out, "\"");
        }
        rx_str_add(out, s->key.s, s->key.n);
        rx_print_json(e, out, items[i].value, s, depth + 1);
    }
    if (d->n && s->indent >= 0)
        print_break(e, out, s, depth, true);
    rx_str_puts(out, "}");
}

void rx_print_json(rx_env *e, rx_str *out, rx_value v, const rx_json_style *style, int depth)
{
    if (depth > RX_TEMPLATE_DEPTH || out->n > RX_TEMPLATE_OUTPUT) {
        rx_env_fail(e, "a value for tojson is nested too deep or too large");
        return;
    }
    switch (v.kind) {
    case RX_V_NONE: rx_str_puts(out, "null"); break;
    case RX_V_BOOL: rx_str_puts(out, v.i ? "true" : "false"); break;
    case RX_V_INT: rx_str_printf(out, "%" PRId64, v.i); break;
    case RX_V_FLOAT:
        if (isnan(v.d) || isinf(v.d))
            rx_str_puts(out, isnan(v.d) ? "NaN" : v.d < 0 ? "-Infinity" : "Infinity");
        else
            print_real(out, v.d);
        break;
    case RX_V_STRING: print_json_text(e, out, v, style->ascii); break;
    case RX_V_LIST: print_json_list(e, out, v.list, style, depth); break;
    case RX_V_DICT: print_json_dict(e, out, v.dict, style, depth); break;
    default: rx_env_fail(e, "%s cannot be written as JSON", rx_kind_name(v));
    }
}

/* ---- "%" formats ----------------------------------------------------------------------------- */

/* Toward zero, within the range of int64. */
static int64_t whole(double d)
{
    return d > -0x1p63 && d < 0x1p63 ? (int64_t)d : 0;
}

/* Flags, width and precision as C has them: "-05.2". */
static bool is_spec(const char *s, size_t n)
{
    size_t i = 0, digits = 0;
    while (i < n && i < 2 && strchr("-+ 0", s[i]))
        i++;
    for (; i < n && s[i] >= '0' && s[i] <= '9' && digits < 3; i++)
        digits++;
    if (i < n && s[i] == '.')
        for (i++, digits = 0; i < n && s[i] >= '0' && s[i] <= '9' && digits < 2; i++)
            digits++;
    return i == n;
}

/* One conversion: "5.2f" without the '%'. */
static void print_conversion(rx_env *e, rx_str *out, const char *spec, size_t n, rx_value v)
{
    const char letter = spec[n - 1];
    if (letter == 's') {
        rx_print_value(e, out, v);
        return;
    }
    if (letter == 'r') {
        print_inner(e, out, v);
        return;
    }
    if (!rx_is_number(v) || !is_spec(spec, n - 1)) {
        rx_env_fail(e, "'%%%.*s' of %s; expected a number", (int)n, spec, rx_kind_name(v));
        return;
    }
    const bool is_real = strchr("feg", letter) != NULL;
    char format[24], text[1400];
    snprintf(format, sizeof format, "%%%.*s%s%c", (int)n - 1, spec, is_real ? "" : "ll",
             letter == 'i' ? 'd' : letter);
    int used = is_real ? snprintf(text, sizeof text, format, rx_number(v))
                       : snprintf(text, sizeof text, format,
                                  v.kind == RX_V_FLOAT ? (long long)whole(v.d) : (long long)v.i);
    rx_str_add(out, text, used > 0 && used < (int)sizeof text ? (size_t)used : 0);
}

rx_value rx_percent(rx_env *e, rx_value format, rx_value values)
{
    rx_str s = {0};
    size_t next = 0;
    const bool many = values.kind == RX_V_LIST && values.list->is_tuple;
    for (size_t i = 0; i < format.n && rx_env_step(e, 1); i++) {
        if (format.s[i] != '%') {
            rx_str_add(&s, format.s + i, 1);
            continue;
        }
        size_t n = 0;
        while (i + 1 + n < format.n && n < 8 && strchr("0123456789.-+ ", format.s[i + 1 + n]))
            n++;
        const char letter = i + 1 + n < format.n ? format.s[i + 1 + n] : 0;
        if (letter == '%') {
            rx_str_puts(&s, "%");
        } else if (!letter || !strchr("srdifegx", letter)) {
            rx_env_fail(e, "a '%%' format that is none of %%s %%r %%d %%i %%f %%e %%g %%x");
        } else if (next >= (many ? values.list->n : 1)) {
            rx_env_fail(e, "a '%%' format has more conversions than values");
        } else {
            print_conversion(e, &s, format.s + i + 1, n + 1,
                             many ? values.list->items[next] : values);
            next++;
        }
        i += n + 1;
    }
    return rx_take_text(e, &s);
}
