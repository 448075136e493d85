/* SPDX-License-Identifier: MIT */
/* Writes JSON. */
#include "json.h"

#include <math.h>

/* Length of the UTF-8 sequence at s, or 0 when it is malformed: cut, longer than needed, half of a
 * pair of UTF-16 (ed a0 to ed bf) or past U+10FFFF. */
static int utf8_length(const unsigned char *s)
{
    int n = s[0] < 0x80 ? 1 : s[0] >= 0xc2 && s[0] < 0xe0 ? 2 : s[0] >= 0xe0 && s[0] < 0xf0 ? 3
            : s[0] >= 0xf0 && s[0] < 0xf5 ? 4 : 0;
    for (int i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80)
            return 0;
    if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] >= 0xa0) ||
        (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] >= 0x90))
        return 0;
    return n;
}

/* Characters that JSON may hold but a terminal should not get: C1 (c2 80 to c2 9f) and the marks
 * that reorder text, U+202A to U+202E and U+2066 to U+2069. 0: none. */
static unsigned hidden_code(const unsigned char *s)
{
    if (s[0] == 0xc2 && s[1] < 0xa0)
        return s[1];
    if (s[0] == 0xe2 && s[1] == 0x80 && s[2] >= 0xaa && s[2] <= 0xae)
        return 0x2000 + (s[2] & 0x3fu);
    if (s[0] == 0xe2 && s[1] == 0x81 && s[2] >= 0xa6 && s[2] <= 0xa9)
        return 0x2040 + (s[2] & 0x3fu);
    return 0;
}

static void put_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (const unsigned char *s = (const unsigned char *)text; *s;) {
        int n = utf8_length(s);
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (*s < 0x20 || *s == 0x7f)
            fprintf(f, "\\u%04x", *s);
        else if (n && hidden_code(s))
            fprintf(f, "\\u%04x", hidden_code(s));
        else if (n)
            fwrite(s, 1, (size_t)n, f);
        else
            fputs("\\ufffd", f);
        s += n ? n : 1;
    }
    fputc('"', f);
}

static void begin(json *j, const char *key)
{
    if (j->depth) {
        bool flat = j->flat[j->depth];
        fputs(j->used[j->depth] ? (flat ? ", " : ",") : "", j->f);
        if (!flat)
            fprintf(j->f, "\n%*s", 2 * j->depth, "");
        j->used[j->depth] = true;
    }
    if (key) {
        put_text(j->f, key);
        fputs(": ", j->f);
    }
}

static void open_level(json *j, const char *key, const char *brackets, bool flat)
{
    begin(j, key);
    fputc(brackets[0], j->f);
    if (j->depth + 1 >= JSON_DEPTH)
        return;
    bool inside = j->depth && j->flat[j->depth];
    j->depth++;
    j->used[j->depth] = false;
    j->flat[j->depth] = flat || inside;
    j->close[j->depth] = brackets[1];
}

void json_object(json *j, const char *key)
{
    open_level(j, key, "{}", false);
}

void json_row(json *j, const char *key)
{
    open_level(j, key, "{}", true);
}

void json_array(json *j, const char *key)
{
    open_level(j, key, "[]", false);
}

void json_list(json *j, const char *key)
{
    open_level(j, key, "[]", true);
}

void json_end(json *j)
{
    bool broken = j->used[j->depth] && !j->flat[j->depth];
    char close = j->close[j->depth];
    j->depth--;
    if (broken)
        fprintf(j->f, "\n%*s", 2 * j->depth, "");
    fputc(close, j->f);
    if (!j->depth)
        fputc('\n', j->f);
}

void json_text(json *j, const char *key, const char *value)
{
    begin(j, key);
    if (value)
        put_text(j->f, value);
    else
        fputs("null", j->f);
}

void json_int(json *j, const char *key, int64_t value)
{
    begin(j, key);
    fprintf(j->f, "%lld", (long long)value);
}

void json_real(json *j, const char *key, double value)
{
    begin(j, key);
    if (isfinite(value))
        fprintf(j->f, "%.9g", value);
    else
        fputs("null", j->f);
}

void json_bool(json *j, const char *key, bool value)
{
    begin(j, key);
    fputs(value ? "true" : "false", j->f);
}
