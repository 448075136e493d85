/* SPDX-License-Identifier: MIT */
/* Lexer of templates: text and tags, and tags into tokens. White space follows Jinja with
 * trim_blocks and lstrip_blocks: a newline right after a tag or comment is dropped, and so is white
 * space before one that is first on its line; '-' beside a bracket strips all white space on that
 * side, '+' keeps it. */
#include <stdlib.h>
#include <string.h>

#include "model/template_ast.h"
#include "model/unicode.h"

typedef struct lexer {
    rx_arena *arena;
    const char *at, *end;
    int line;
    bool line_start; /* only stripped text precedes on this line */
    rx_token *tokens;
    size_t n, cap;
    rlx_error *err;
} lexer;

static rlx_status fail(const lexer *l, const char *what)
{
    return rx_fail(l->err, RLX_PARSE, "chat template, line %d: %s", l->line, what);
}

static rlx_status add(lexer *l, rx_token t)
{
    if (!rx_grow(&l->tokens, &l->cap, l->n + 1, sizeof t))
        return rx_fail_memory(l->err, "the tokens of a template", (l->n + 1) * sizeof t);
    t.line = t.line ? t.line : l->line;
    l->tokens[l->n++] = t;
    return RLX_OK;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\v' || c == '\f';
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static bool looking_at(const lexer *l, const char *what)
{
    size_t n = strlen(what);
    return (size_t)(l->end - l->at) >= n && !memcmp(l->at, what, n);
}

/* Advances, counting lines. */
static void skip(lexer *l, size_t n)
{
    for (; n; n--)
        l->line += *l->at++ == '\n';
}

static void skip_blanks(lexer *l)
{
    while (l->at < l->end && is_blank(*l->at))
        skip(l, 1);
}

/* ---- Text between tags ----------------------------------------------------------------------- */

/* Adds the text before a tag, right-stripped as the tag requires: `sign` is the character after the
 * opening bracket, `is_print` is true for {{. */
static rlx_status add_text(lexer *l, const char *begin, const char *end, char sign, bool is_print)
{
    const char *stop = end;
    if (sign == '-') {
        while (stop > begin && is_blank(stop[-1]))
            stop--;
    } else if (sign != '+' && !is_print) {
        const char *line = end;
        while (line > begin && is_blank(line[-1]) && line[-1] != '\n')
            line--;
        bool first = line > begin ? line[-1] == '\n' : l->line_start;
        if (first)
            stop = line;
    }
    if (stop > begin)
        return add(l, (rx_token){.kind = RX_T_TEXT, .text = begin,
                                 .length = (size_t)(stop - begin)});
    return RLX_OK;
}

/* Sets the stripping after a closing bracket; `c` is the character before it. */
static void after_close(lexer *l, char c, bool is_print)
{
    const char *begin = l->at;
    if (c == '-')
        skip_blanks(l);
    else if (c != '+' && !is_print && l->at < l->end && *l->at == '\n')
        skip(l, 1);
    l->line_start = l->at > begin && l->at[-1] == '\n';
}

static rlx_status skip_comment(lexer *l)
{
    while (l->at < l->end && !looking_at(l, "#}"))
        skip(l, 1);
    if (l->at == l->end)
        return fail(l, "a comment '{#' does not end with '#}'");
    char before = l->at[-1];
    skip(l, 2);
    after_close(l, before, false);
    return RLX_OK;
}

/* ---- Inside tags ----------------------------------------------------------------------------- */

static int hex_value(char c)
{
    if (is_digit(c))
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* \xHH, \uHHHH, \UHHHHHHHH at s (after the letter); returns the digits used, 0 when malformed. */
static size_t read_hex(const char *s, const char *end, size_t digits, uint32_t *code)
{
    *code = 0;
    if ((size_t)(end - s) < digits)
        return 0;
    for (size_t i = 0; i < digits; i++) {
        int v = hex_value(s[i]);
        if (v < 0)
            return 0;
        *code = *code << 4 | (uint32_t)v;
    }
    return *code <= 0x10ffff ? digits : 0;
}

/* Decodes the escape at s (after the backslash); returns the bytes it takes. */
static size_t read_escape(const char *s, const char *end, char *out, size_t *n)
{
    static const char letters[] = "ntrabfv\\'\"", values[] = "\n\t\r\a\b\f\v\\'\"";
    const char *known = strchr(letters, *s);
    uint32_t code = 0;
    size_t digits = *s == 'x' ? 2 : *s == 'u' ? 4 : *s == 'U' ? 8 : 0, used = 0;
    if (*s == '\n')
        return 1;
    if (known && *s) {
        out[(*n)++] = values[known - letters];
        return 1;
    }
    if (digits && (used = read_hex(s + 1, end, digits, &code)) != 0) {
        *n += rx_utf8_put(out + *n, code);
        return used + 1;
    }
    while (used < 3 && s + used < end && s[used] >= '0' && s[used] <= '7')
        code = code << 3 | (uint32_t)(s[used++] - '0');
    if (used) {
        *n += rx_utf8_put(out + *n, code);
        return used;
    }
    out[(*n)++] = '\\';
    return 0;
}

static rlx_status read_string(lexer *l)
{
    const char quote = *l->at, *s = l->at + 1;
    const int line = l->line;
    while (s < l->end && *s != quote)
        s += *s == '\\' && s + 1 < l->end ? 2 : 1;
    if (s >= l->end)
        return fail(l, "a string does not end");
    const size_t room = (size_t)(s - l->at) + 8; /* decoding never grows */
    char *out = rx_arena_alloc(l->arena, room);
    size_t n = 0;
    if (!out)
        return rx_fail_memory(l->err, "a string of a template", room);
    for (const char *p = l->at + 1; p < s;) {
        if (*p == '\\' && p + 1 < s)
            p += 1 + read_escape(p + 1, s, out, &n);
        else
            out[n++] = *p++;
    }
    skip(l, (size_t)(s + 1 - l->at));
    return add(l, (rx_token){.kind = RX_T_STRING, .line = line, .text = out, .length = n});
}

static rlx_status read_number(lexer *l)
{
    char digits[64];
    size_t n = 0;
    bool real = false;
    const char *s = l->at;
    for (; s < l->end && n + 1 < sizeof digits; s++) {
        bool dot = *s == '.' && !real && s + 1 < l->end && is_digit(s[1]);
        bool exponent = (*s == 'e' || *s == 'E') && s + 1 < l->end &&
                        (is_digit(s[1]) || ((s[1] == '-' || s[1] == '+') && s + 2 < l->end &&
                                            is_digit(s[2])));
        bool sign = (*s == '-' || *s == '+') && n && (digits[n - 1] | 0x20) == 'e';
        if (!is_digit(*s) && *s != '_' && !dot && !exponent && !sign)
            break;
        real = real || dot || exponent;
        if (*s != '_')
            digits[n++] = *s;
    }
    digits[n] = 0;
    rx_token t = {.kind = real ? RX_T_FLOAT : RX_T_INT};
    for (size_t i = 0; i < n && !real; i++)
        if (__builtin_mul_overflow(t.number, (int64_t)10, &t.number) ||
            __builtin_add_overflow(t.number, (int64_t)(digits[i] - '0'), &t.number))
            return fail(l, "a number is too large; expected less than 2^63");
    if (real)
        t.real = strtod(digits, NULL);
    l->at = s;
    return add(l, t);
}

/* Signs, longer ones first. */
static const char *const signs[] = {"**", "//", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%",
                                    "~", "<", ">", "=", "(", ")", "[", "]", "{", "}", ",", ":",
                                    ".", "|", ";"};

static rlx_status read_token(lexer *l)
{
    const char c = *l->at;
    if (c == '\'' || c == '"')
        return read_string(l);
    if (is_digit(c))
        return read_number(l);
    if (is_letter(c)) {
        const char *begin = l->at;
        while (l->at < l->end && (is_letter(*l->at) || is_digit(*l->at)))
            l->at++;
        return add(l, (rx_token){.kind = RX_T_NAME, .text = begin,
                                 .length = (size_t)(l->at - begin)});
    }
    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++)
        if (looking_at(l, signs[i])) {
            l->at += strlen(signs[i]);
            return add(l, (rx_token){.kind = RX_T_SIGN, .text = signs[i],
                                     .length = strlen(signs[i])});
        }
    return rx_fail(l->err, RLX_PARSE, "chat template, line %d: unexpected character 0x%02x in a "
                   "tag", l->line, (unsigned char)c);
}

/* Change of bracket depth: inside brackets "}}" does not close a tag. */
static int bracket_step(const rx_token *t)
{
    if (t->kind != RX_T_SIGN || t->length != 1)
        return 0;
    return strchr("([{", t->text[0]) ? 1 : strchr(")]}", t->text[0]) ? -1 : 0;
}

/* Tokens up to `close` ("}}" or "%}"), which may have '-' or '+' before it. */
static rlx_status read_tag(lexer *l, const char *close, bool is_print)
{
    const int line = l->line;
    int open = 0;
    for (;;) {
        skip_blanks(l);
        if (l->at == l->end) {
            l->line = line;
            return fail(l, "a tag does not end");
        }
        const char sign = *l->at == '-' || *l->at == '+' ? *l->at : 0;
        l->at += sign != 0;
        if (open <= 0 && looking_at(l, close) && !(sign == '+' && is_print)) {
            RLX_TRY(add(l, (rx_token){.kind = is_print ? RX_T_END_PRINT : RX_T_END_TAG}));
            skip(l, 2);
            after_close(l, sign, is_print);
            return RLX_OK;
        }
        l->at -= sign != 0;
        RLX_TRY(read_token(l));
        open += bracket_step(&l->tokens[l->n - 1]);
    }
}

/* ---- raw ------------------------------------------------------------------------------------- */

/* Length of "{%- NAME -%}" at the current place, or 0; the signs beside the brackets in *first and
 * *last. */
static size_t match_simple_tag(const lexer *l, const char *name, char *first, char *last)
{
    const char *s = l->at, *end = l->end;
    if (!looking_at(l, "{%"))
        return 0;
    s += 2;
    *first = s < end && (*s == '-' || *s == '+') ? *s++ : 0;
    while (s < end && is_blank(*s))
        s++;
    size_t n = strlen(name);
    if ((size_t)(end - s) < n || memcmp(s, name, n))
        return 0;
    s += n;
    while (s < end && is_blank(*s))
        s++;
    *last = s < end && (*s == '-' || *s == '+') ? *s++ : 0;
    return end - s >= 2 && s[0] == '%' && s[1] == '}' ? (size_t)(s + 2 - l->at) : 0;
}

static rlx_status read_raw(lexer *l, size_t length, char sign)
{
    char first = 0, last = 0;
    size_t n = 0;
    skip(l, length);
    after_close(l, sign, false);
    const char *begin = l->at;
    while (l->at < l->end && !(n = match_simple_tag(l, "endraw", &first, &last)))
        skip(l, 1);
    if (!n)
        return fail(l, "a 'raw' tag has no 'endraw'");
    RLX_TRY(add_text(l, begin, l->at, first, false));
    skip(l, n);
    after_close(l, last, false);
    return RLX_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static rlx_status read_piece(lexer *l)
{
    const char *begin = l->at;
    while (l->at < l->end && !looking_at(l, "{{") && !looking_at(l, "{%") && !looking_at(l, "{#"))
        skip(l, 1);
    if (l->at == l->end)
        return add_text(l, begin, l->end, '+', true);
    const char *open = l->at;
    const char sign = l->end - open > 2 ? open[2] : 0;
    const bool is_print = open[1] == '{';
    char first = 0, last = 0;
    RLX_TRY(add_text(l, begin, open, sign, is_print));
    size_t raw = match_simple_tag(l, "raw", &first, &last);
    if (raw)
        return read_raw(l, raw, last);
    skip(l, 2);
    if (l->at < l->end && (sign == '-' || (sign == '+' && !is_print)))
        l->at++;
    if (open[1] == '#')
        return skip_comment(l);
    RLX_TRY(add(l, (rx_token){.kind = is_print ? RX_T_BEGIN_PRINT : RX_T_BEGIN_TAG}));
    return read_tag(l, is_print ? "}}" : "%}", is_print);
}

rlx_status rx_template_lex(rx_arena *a, const char *text, size_t n, const rx_token **out,
                           rlx_error *err)
{
    lexer l = {.arena = a, .at = text, .end = text + n, .line = 1, .line_start = true, .err = err};
    rlx_status st = RLX_OK;
    if (n && l.end[-1] == '\n') /* Jinja drops one newline at the end */
        l.end--;
    while (l.at < l.end && st == RLX_OK)
        st = read_piece(&l);
    if (st == RLX_OK)
        st = add(&l, (rx_token){.kind = RX_T_END});
    if (st == RLX_OK && !(*out = rx_arena_array_copy(a, l.tokens, l.n, sizeof *l.tokens)))
        st = rx_fail_memory(err, "the tokens of a template", l.n * sizeof *l.tokens);
    rx_free(l.tokens);
    return st;
}
