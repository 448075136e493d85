/* SPDX-License-Identifier: MIT */
/* Recursive descent over JSON with a depth limit, which bounds the stack. */
#include "import/json.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"

typedef struct parser {
    rx_arena *arena;
    const unsigned char *begin, *at, *end;
    const char *what;
    int depth;
    rlx_error *err;
} parser;

static rlx_status parse_value(parser *p, rx_json *v);

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Length of the sequence at s, or 0 when it is malformed: overlong, a surrogate, truncated. */
static size_t utf8_length(const unsigned char *s, size_t left)
{
    if (s[0] < 0x80)
        return 1;
    size_t n = s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
               : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

bool rx_utf8_valid(const unsigned char *s, size_t n)
{
    for (size_t i = 0, step; i < n; i += step)
        if (!(step = utf8_length(s + i, n - i)))
            return false;
    return true;
}

static size_t put_utf8(char *out, uint32_t code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    for (size_t i = n; --i; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

/* ---- Scalars --------------------------------------------------------------------------------- */

static rlx_status fail_at(const parser *p, const char *expected)
{
    char found[24] = "the end";
    if (p->at < p->end && *p->at > 0x20 && *p->at < 0x7f)
        snprintf(found, sizeof found, "'%c'", *p->at);
    else if (p->at < p->end)
        snprintf(found, sizeof found, "byte 0x%02x", *p->at);
    return rx_fail(p->err, RLX_PARSE, "%s: at byte %zu of the JSON text: expected %s, found %s",
                   p->what, (size_t)(p->at - p->begin), expected, found);
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
        p->at++;
}

static bool take(parser *p, char letter)
{
    skip_blanks(p);
    if (p->at == p->end || *p->at != (unsigned char)letter)
        return false;
    p->at++;
    return true;
}

static bool take_word(parser *p, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(p->end - p->at) < n || memcmp(p->at, word, n))
        return false;
    p->at += n;
    return true;
}

static bool take_hex(parser *p, uint32_t *out)
{
    uint32_t code = 0;
    if (p->end - p->at < 4)
        return false;
    for (int i = 0; i < 4; i++) {
        unsigned char c = p->at[i];
        int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
        if (digit < 0)
            return false;
        code = code << 4 | (uint32_t)digit;
    }
    p->at += 4;
    *out = code;
    return true;
}

/* p->at is after the backslash. Writes at most 4 bytes, never more than the escape is long. */
static rlx_status parse_escape(parser *p, char *out, size_t *n)
{
    static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    const char *name = p->at < p->end && *p->at ? strchr(names, *p->at) : NULL;
    if (name) {
        out[(*n)++] = values[name - names];
        p->at++;
        return RLX_OK;
    }
    uint32_t code, low;
    if (!take_word(p, "u"))
        return fail_at(p, "one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u");
    if (!take_hex(p, &code))
        return fail_at(p, "four hexadecimal digits");
    if (code >= 0xdc00 && code < 0xe000)
        return fail_at(p, "no second half of a surrogate pair before this place");
    if (code >= 0xd800 && code < 0xdc00) {
        if (!take_word(p, "\\u") || !take_hex(p, &low) || low < 0xdc00 || low >= 0xe000)
            return fail_at(p, "the second half of a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *n += put_utf8(out + *n, code);
    return RLX_OK;
}

/* The closing quote of a string whose first byte is at p->at, or p->end. */
static const unsigned char *find_quote(const parser *p)
{
    const unsigned char *s = p->at;
    while (s < p->end && *s != '"')
        s += *s == '\\' && p->end - s > 1 ? 2 : 1;
    return s;
}

static rlx_status parse_string(parser *p, const char **text, size_t *length)
{
    if (!take(p, '"'))
        return fail_at(p, "a string");
    size_t room = (size_t)(find_quote(p) - p->at), n = 0;
    char *out = rx_arena_alloc(p->arena, room + 1);
    if (!out)
        return rx_fail_memory(p->err, "a JSON string", room + 1);
    while (p->at < p->end && *p->at != '"') {
        size_t step = utf8_length(p->at, (size_t)(p->end - p->at));
        if (*p->at < 0x20)
            return fail_at(p, "an escape instead of a control character");
        if (!step)
            return fail_at(p, "UTF-8");
        if (*p->at == '\\') {
            p->at++;
            RLX_TRY(parse_escape(p, out, &n));
            continue;
        }
        memcpy(out + n, p->at, step);
        n += step;
        p->at += step;
    }
    if (p->at == p->end)
        return fail_at(p, "'\"' that ends a string");
    p->at++;
    out[n] = 0;
    *text = out;
    *length = n;
    return RLX_OK;
}

static bool take_digits(parser *p)
{
    const unsigned char *begin = p->at;
    while (p->at < p->end && *p->at >= '0' && *p->at <= '9')
        p->at++;
    return p->at > begin;
}

static rlx_status parse_number(parser *p, rx_json *v)
{
    const unsigned char *begin = p->at;
    take_word(p, "-");
    if (!take_word(p, "0") && !take_digits(p))
        return fail_at(p, "a value");
    if (take_word(p, ".") && !take_digits(p))
        return fail_at(p, "a digit");
    if (take_word(p, "e") || take_word(p, "E")) {
        if (!take_word(p, "+"))
            take_word(p, "-");
        if (!take_digits(p))
            return fail_at(p, "a digit");
    }
    v->kind = RX_JSON_NUMBER;
    v->length = (size_t)(p->at - begin);
    v->text = rx_arena_strndup(p->arena, (const char *)begin, v->length);
    return v->text ? RLX_OK : rx_fail_memory(p->err, "a JSON number", v->length + 1);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static rlx_status fail_twice(const parser *p, const char *key)
{
    return rx_fail(p->err, RLX_PARSE, "%s: before byte %zu of the JSON text: the key '%.80s' is "
                   "there twice; expected once", p->what, (size_t)(p->at - p->begin), key);
}

/* Rejects duplicate keys: pairwise while there are few, by a hash map when there are many. */
static rlx_status check_keys(const parser *p, const rx_json *object)
{
    rx_map keys = {0};
    rlx_status st = RLX_OK;
    for (const rx_json *m = object->first; m && st == RLX_OK; m = m->next) {
        if (object->n > 8) {
            if (rx_map_find(&keys, m->key, m->key_length))
                st = fail_twice(p, m->key);
            else if (!rx_map_add(&keys, m->key, m->key_length, 0))
                st = rx_fail_memory(p->err, "a JSON object", object->n * sizeof(rx_map_slot));
            continue;
        }
        for (const rx_json *k = object->first; k != m; k = k->next)
            if (k->key_length == m->key_length && !memcmp(k->key, m->key, m->key_length))
                st = fail_twice(p, m->key);
    }
    rx_map_finish(&keys);
    return st;
}

/* p->at is after the opening bracket of an array or object. */
static rlx_status parse_list(parser *p, rx_json *v, char close)
{
    rx_json **link = &v->first;
    if (take(p, close))
        return RLX_OK;
    do {
        rx_json *item = rx_arena_zero(p->arena, sizeof *item);
        if (!item)
            return rx_fail_memory(p->err, "a JSON value", sizeof *item);
        if (v->kind == RX_JSON_OBJECT) {
            RLX_TRY(parse_string(p, &item->key, &item->key_length));
            if (!take(p, ':'))
                return fail_at(p, "':'");
        }
        RLX_TRY(parse_value(p, item));
        *link = item;
        link = &item->next;
        v->n++;
    } while (take(p, ','));
    if (!take(p, close))
        return fail_at(p, close == ']' ? "',' or ']'" : "',' or '}'");
    return v->kind == RX_JSON_OBJECT ? check_keys(p, v) : RLX_OK;
}

static rlx_status parse_value(parser *p, rx_json *v)
{
    bool is_array = take(p, '[');
    if (is_array || take(p, '{')) {
        if (p->depth == RX_JSON_DEPTH)
            return rx_fail(p->err, RLX_PARSE, "%s: at byte %zu of the JSON text: nested deeper "
                           "than %d", p->what, (size_t)(p->at - p->begin), RX_JSON_DEPTH);
        p->depth++;
        v->kind = is_array ? RX_JSON_ARRAY : RX_JSON_OBJECT;
        RLX_TRY(parse_list(p, v, is_array ? ']' : '}'));
        p->depth--;
        return RLX_OK;
    }
    if (p->at < p->end && *p->at == '"') {
        v->kind = RX_JSON_STRING;
        return parse_string(p, &v->text, &v->length);
    }
    if (take_word(p, "null"))
        return RLX_OK;
    v->truth = take_word(p, "true");
    if (v->truth || take_word(p, "false")) {
        v->kind = RX_JSON_BOOL;
        return RLX_OK;
    }
    return parse_number(p, v);
}

rlx_status rx_json_parse(rx_arena *a, const char *what, const void *text, size_t n,
                         const rx_json **out, rlx_error *err)
{
    *out = NULL;
    if (n >= UINT32_MAX)
        return rx_fail(err, RLX_UNSUPPORTED, "%s: %zu bytes of JSON; expected less than 4 GiB",
                       what, n);
    parser p = {.arena = a, .begin = text, .at = text, .what = what, .err = err};
    p.end = p.begin + n;
    rx_json *v = rx_arena_zero(a, sizeof *v);
    if (!v)
        return rx_fail_memory(err, "a JSON value", sizeof *v);
    RLX_TRY(parse_value(&p, v));
    skip_blanks(&p);
    if (p.at != p.end)
        return fail_at(&p, "the end");
    *out = v;
    return RLX_OK;
}

/* ---- Access to the tree ---------------------------------------------------------------------- */

const rx_json *rx_json_member(const rx_json *v, const char *key)
{
    size_t length = strlen(key);
    if (!v || v->kind != RX_JSON_OBJECT)
        return NULL;
    for (const rx_json *m = v->first; m; m = m->next)
        if (m->key_length == length && !memcmp(m->key, key, length))
            return m;
    return NULL;
}

bool rx_json_u64(const rx_json *v, uint64_t *out)
{
    uint64_t n = 0;
    if (!v || v->kind != RX_JSON_NUMBER)
        return false;
    for (const char *s = v->text; *s; s++)
        if (*s < '0' || *s > '9' || !rx_mul_size(n, 10, &n) ||
            !rx_add_size(n, (uint64_t)(*s - '0'), &n))
            return false;
    *out = n;
    return true;
}

bool rx_json_real(const rx_json *v, double *out)
{
    char text[64], *end;
    if (!v || v->kind != RX_JSON_NUMBER || v->length >= sizeof text)
        return false;
    memcpy(text, v->text, v->length + 1);
    char *point = strchr(text, '.');
    if (point)
        *point = *localeconv()->decimal_point;
    *out = strtod(text, &end);
    return *end == 0 && isfinite(*out);
}

const char *rx_json_kind_name(const rx_json *v)
{
    static const char *const names[] = {
        [RX_JSON_NULL] = "null",      [RX_JSON_BOOL] = "true or false",
        [RX_JSON_NUMBER] = "a number", [RX_JSON_STRING] = "a string",
        [RX_JSON_ARRAY] = "an array", [RX_JSON_OBJECT] = "an object",
    };
    return v ? names[v->kind] : "nothing";
}
