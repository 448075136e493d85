/* SPDX-License-Identifier: MIT */
/* Regular expressions of ECMA 262 (with Unicode) as terms. Alternatives that begin with ^ or end
 * with $ are anchored there; anchors elsewhere become the symbols beyond the code points. Features
 * that are not regular, or depend on the position of a match, are rejected by name. */
#include <string.h>

#include "grammar/front.h"
#include "model/unicode.h"

#define MAX_NESTING 200
#define MAX_COUNT 100000

typedef struct parser {
    rx_exprs *x;
    const char *what, *s;
    size_t at, n;
    unsigned nesting;
    bool inner;     /* an anchor that is not at an end of an alternative of the top */
    bool symbols;   /* anchors are symbols */
    bool anchored;  /* the atom just read was an anchor */
    rx_ex_list *terms; /* of the sequences and alternatives that are being read */
    rlx_error *err;
} parser;

static rlx_status refuse(parser *p, const char *why)
{
    return rx_fail(p->err, RLX_UNSUPPORTED, "%s '%.*s': %s at byte %zu cannot be decided by a "
                   "regular language", p->what, (int)(p->n < 100 ? p->n : 100), p->s, why, p->at);
}

static rlx_status wrong(parser *p, const char *expected)
{
    return rx_fail(p->err, RLX_PARSE, "%s '%.*s': expected %s at byte %zu", p->what,
                   (int)(p->n < 100 ? p->n : 100), p->s, expected, p->at);
}

static int peek(const parser *p, size_t ahead)
{
    return p->at + ahead < p->n ? (unsigned char)p->s[p->at + ahead] : -1;
}

static bool take(parser *p, const char *text)
{
    size_t n = strlen(text);
    if (p->n - p->at < n || memcmp(p->s + p->at, text, n))
        return false;
    p->at += n;
    return true;
}

static int hex_digit(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool take_hex(parser *p, size_t digits, uint32_t *out)
{
    uint32_t v = 0;
    for (size_t i = 0; i < digits; i++) {
        int d = hex_digit(peek(p, i));
        if (d < 0)
            return false;
        v = v * 16 + (uint32_t)d;
    }
    p->at += digits;
    *out = v;
    return true;
}

/* ---- Sets ------------------------------------------------------------------------------------ */

static bool add_all(rx_ranges *to, const rx_range *r, size_t n)
{
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        ok = rx_ranges_add(to, r[i].lo, r[i].hi);
    return ok;
}

/* Adds the set of \d \w \s, or all but it. */
static bool add_shorthand(rx_ranges *to, int letter)
{
    static const rx_range digit[] = {{'0', '9'}};
    static const rx_range word[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
    static const rx_range space[] = {{9, 13}, {32, 32}, {0xa0, 0xa0}, {0x1680, 0x1680},
                                     {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f},
                                     {0x205f, 0x205f}, {0x3000, 0x3000}, {0xfeff, 0xfeff}};
    const int lower = letter | 0x20;
    const rx_range *r = lower == 'd' ? digit : lower == 'w' ? word : space;
    const size_t n = lower == 'd' ? 1 : lower == 'w' ? 4 : 10;
    rx_ranges set = {0};
    bool ok = add_all(&set, r, n) && (letter == lower || rx_ranges_invert(&set)) &&
              add_all(to, set.r, set.n);
    rx_free(set.r);
    return ok;
}

/* General categories by their short and long names. */
static const struct {
    const char *name, *other;
    uint32_t bits;
} categories[] = {
    {"L", "Letter", RX_IN_L}, {"M", "Mark", RX_IN_M}, {"N", "Number", RX_IN_N},
    {"P", "Punctuation", RX_IN_P}, {"S", "Symbol", RX_IN_S},
    {"Z", "Separator", RX_IN(RX_ZS) | RX_IN(RX_ZL) | RX_IN(RX_ZP)},
    {"C", "Other", RX_IN(RX_CC) | RX_IN(RX_CF) | RX_IN(RX_CS) | RX_IN(RX_CO) | RX_IN(RX_CN)},
    {"Lu", "Uppercase_Letter", RX_IN(RX_LU)}, {"Ll", "Lowercase_Letter", RX_IN(RX_LL)},
    {"Lt", "Titlecase_Letter", RX_IN(RX_LT)}, {"Lm", "Modifier_Letter", RX_IN(RX_LM)},
    {"Lo", "Other_Letter", RX_IN(RX_LO)}, {"Mn", "Nonspacing_Mark", RX_IN(RX_MN)},
    {"Mc", "Spacing_Mark", RX_IN(RX_MC)}, {"Me", "Enclosing_Mark", RX_IN(RX_ME)},
    {"Nd", "Decimal_Number", RX_IN(RX_ND)}, {"digit", "digit", RX_IN(RX_ND)},
    {"Nl", "Letter_Number", RX_IN(RX_NL)}, {"No", "Other_Number", RX_IN(RX_NO)},
    {"Pc", "Connector_Punctuation", RX_IN(RX_PC)}, {"Pd", "Dash_Punctuation", RX_IN(RX_PD)},
    {"Ps", "Open_Punctuation", RX_IN(RX_PS)}, {"Pe", "Close_Punctuation", RX_IN(RX_PE)},
    {"Pi", "Initial_Punctuation", RX_IN(RX_PI)}, {"Pf", "Final_Punctuation", RX_IN(RX_PF)},
    {"Po", "Other_Punctuation", RX_IN(RX_PO)}, {"Sm", "Math_Symbol", RX_IN(RX_SM)},
    {"Sc", "Currency_Symbol", RX_IN(RX_SC)}, {"Sk", "Modifier_Symbol", RX_IN(RX_SK)},
    {"So", "Other_Symbol", RX_IN(RX_SO)}, {"Zs", "Space_Separator", RX_IN(RX_ZS)},
    {"Zl", "Line_Separator", RX_IN(RX_ZL)}, {"Zp", "Paragraph_Separator", RX_IN(RX_ZP)},
    {"Cc", "Control", RX_IN(RX_CC)}, {"Cf", "Format", RX_IN(RX_CF)},
};

static bool add_category(rx_ranges *to, uint32_t bits, bool negative)
{
    bool ok = true, in = false;
    uint32_t from = 0;
    for (uint32_t cp = 0; cp <= RX_CP_MAX + 1 && ok; cp++) {
        bool now = cp <= RX_CP_MAX && !(rx_unicode_bits(cp) & bits) == negative;
        if (now && !in)
            from = cp;
        if (!now && in)
            ok = rx_ranges_add(to, from, cp - 1);
        in = now;
    }
    return ok;
}

/* \p{...} after its letter. */
static rlx_status parse_property(parser *p, bool negative, rx_ranges *to)
{
    if (!take(p, "{"))
        return wrong(p, "'{' after \\p");
    const char *name = p->s + p->at, *end = memchr(name, '}', p->n - p->at);
    if (!end)
        return wrong(p, "'}' after the name of a property");
    size_t n = (size_t)(end - name);
    static const char *const prefixes[] = {"General_Category=", "gc="};
    for (size_t i = 0; i < 2; i++) {
        size_t m = strlen(prefixes[i]);
        if (n > m && !memcmp(name, prefixes[i], m))
            name += m, n -= m;
    }
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        const char *const both[] = {categories[i].name, categories[i].other};
        for (size_t k = 0; k < 2; k++)
            if (strlen(both[k]) == n && !memcmp(both[k], name, n)) {
                p->at = (size_t)(end - p->s) + 1;
                return add_category(to, categories[i].bits, negative)
                           ? RLX_OK : rx_fail_memory(p->err, "a set of characters", 1);
            }
    }
    return rx_fail(p->err, RLX_UNSUPPORTED, "%s: the property of characters \\p{%.*s} is not known",
                   p->what, (int)(n < 60 ? n : 60), name);
}

/* \u after its letter: four digits, two surrogates, or {digits}. */
static rlx_status parse_unicode(parser *p, uint32_t *cp)
{
    if (take(p, "{")) {
        uint32_t v = 0, d;
        size_t digits = 0;
        while (take_hex(p, 1, &d) && v <= RX_CP_MAX)
            v = v * 16 + d, digits++;
        if (!digits || v > RX_CP_MAX || !take(p, "}"))
            return wrong(p, "a code point and '}'");
        *cp = v;
        return RLX_OK;
    }
    if (!take_hex(p, 4, cp))
        return wrong(p, "four hexadecimal digits after \\u");
    uint32_t low;
    size_t before = p->at;
    if (*cp >= 0xd800 && *cp < 0xdc00 && take(p, "\\u")) {
        if (take_hex(p, 4, &low) && low >= 0xdc00 && low < 0xe000)
            *cp = 0x10000 + ((*cp - 0xd800) << 10) + (low - 0xdc00);
        else
            p->at = before;
    }
    return RLX_OK;
}

/* An escape after its backslash that stands for one character. */
static rlx_status parse_char_escape(parser *p, bool in_class, uint32_t *cp)
{
    static const char from[] = "tnvfr0", to[] = "\t\n\v\f\r\0";
    int c = peek(p, 0);
    const char *known = c > 0 ? strchr(from, c) : NULL;
    if (c < 0)
        return wrong(p, "a character after '\\'");
    if (c == '0' && peek(p, 1) >= '0' && peek(p, 1) <= '9')
        return wrong(p, "no digit after \\0");
    if (known || (in_class && c == 'b')) {
        p->at++;
        *cp = known ? (unsigned char)to[known - from] : 8;
        return RLX_OK;
    }
    if (c == 'c' && ((peek(p, 1) | 0x20) >= 'a' && (peek(p, 1) | 0x20) <= 'z')) {
        *cp = (uint32_t)peek(p, 1) & 31;
        p->at += 2;
        return RLX_OK;
    }
    if (c == 'x' || c == 'u') {
        p->at++;
        if (c == 'u')
            return parse_unicode(p, cp);
        return take_hex(p, 2, cp) ? RLX_OK : wrong(p, "two hexadecimal digits after \\x");
    }
    if ((c >= '0' && c <= '9') || (c == 'k' && !in_class))
        return refuse(p, "a backreference");
    if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'))
        return wrong(p, "a known escape");
    p->at += rx_utf8_get(p->s + p->at, p->n - p->at, cp);
    return RLX_OK;
}

/* Adds a set that an escape after its backslash stands for; *is_set false: it is no such. */
static rlx_status parse_set_escape(parser *p, rx_ranges *to, bool *is_set)
{
    int c = peek(p, 0);
    *is_set = c > 0 && strchr("dDwWsSpP", c);
    if (!*is_set)
        return RLX_OK;
    p->at++;
    if ((c | 0x20) == 'p')
        return parse_property(p, c == 'P', to);
    return add_shorthand(to, c) ? RLX_OK : rx_fail_memory(p->err, "a set of characters", 1);
}

/* One end of a range in a class; *is_set: a set was added instead. */
static rlx_status parse_class_atom(parser *p, rx_ranges *to, uint32_t *cp, bool *is_set)
{
    *is_set = false;
    if (take(p, "\\")) {
        RLX_TRY(parse_set_escape(p, to, is_set));
        return *is_set ? RLX_OK : parse_char_escape(p, true, cp);
    }
    p->at += rx_utf8_get(p->s + p->at, p->n - p->at, cp);
    return RLX_OK;
}

static rlx_status parse_class_items(parser *p, rx_ranges *set)
{
    while (!take(p, "]")) {
        uint32_t lo, hi;
        bool is_set, other;
        if (p->at >= p->n)
            return wrong(p, "']'");
        RLX_TRY(parse_class_atom(p, set, &lo, &is_set));
        hi = lo;
        if (!is_set && peek(p, 0) == '-' && peek(p, 1) != ']' && peek(p, 1) >= 0) {
            p->at++;
            RLX_TRY(parse_class_atom(p, set, &hi, &other));
            if (other) { /* [a-\d]: the dash is itself */
                hi = lo;
                if (!rx_ranges_add(set, '-', '-'))
                    return rx_fail_memory(p->err, "a set of characters", 1);
            }
        }
        if (lo > hi && !is_set)
            return wrong(p, "a range in order before here");
        if (!is_set && !rx_ranges_add(set, lo, hi))
            return rx_fail_memory(p->err, "a set of characters", 1);
    }
    return RLX_OK;
}

static rlx_status parse_class(parser *p, rx_ex *out)
{
    rx_ranges set = {0};
    bool negative = take(p, "^");
    rlx_status st = parse_class_items(p, &set);
    if (st == RLX_OK && negative && !rx_ranges_invert(&set))
        st = rx_fail_memory(p->err, "a set of characters", 1);
    *out = st == RLX_OK ? rx_ex_set(p->x, &set) : RX_EX_NONE;
    rx_free(set.r);
    return st;
}

/* ---- Terms ----------------------------------------------------------------------------------- */

static rlx_status parse_either(parser *p, rx_ex *out);

static rlx_status push(parser *p, rx_ex e)
{
    return rx_ex_push(p->terms, e) ? RLX_OK : rx_fail_memory(p->err, "a regular expression",
                                                             sizeof e);
}

static rlx_status parse_group(parser *p, rx_ex *out)
{
    static const struct { const char *text, *name; } refused[] = {
        {"?=", "lookahead (?=)"}, {"?!", "negative lookahead (?!)"},
        {"?<=", "lookbehind (?<=)"}, {"?<!", "negative lookbehind (?<!)"},
    };
    for (size_t i = 0; i < 4; i++) {
        size_t n = strlen(refused[i].text);
        if (p->n - p->at >= n && !memcmp(p->s + p->at, refused[i].text, n))
            return refuse(p, refused[i].name);
    }
    if (take(p, "?<")) {
        while (peek(p, 0) >= 0 && peek(p, 0) != '>')
            p->at++;
        if (!take(p, ">"))
            return wrong(p, "'>' after the name of a group");
    } else if (!take(p, "?:") && peek(p, 0) == '?') {
        return refuse(p, "a group with flags");
    }
    if (++p->nesting > MAX_NESTING)
        return refuse(p, "nesting of more than 200 groups");
    RLX_TRY(parse_either(p, out));
    p->nesting--;
    return take(p, ")") ? RLX_OK : wrong(p, "')'");
}

static rlx_status parse_escape(parser *p, rx_ex *out)
{
    rx_ranges set = {0};
    bool is_set;
    uint32_t cp = 0;
    if (peek(p, 0) == 'b' || peek(p, 0) == 'B')
        return refuse(p, "a word boundary (\\b)");
    rlx_status st = parse_set_escape(p, &set, &is_set);
    if (st == RLX_OK && is_set)
        *out = rx_ex_set(p->x, &set);
    rx_free(set.r);
    if (st != RLX_OK || is_set)
        return st;
    RLX_TRY(parse_char_escape(p, false, &cp));
    *out = rx_ex_range(p->x, cp, cp);
    return RLX_OK;
}

static rlx_status parse_anchor(parser *p, rx_ex *out)
{
    const char c = p->s[p->at];
    p->anchored = true;
    while (peek(p, 0) == c)
        p->at++;
    p->inner = true;
    const uint32_t symbol = c == '^' ? RX_CP_BEGIN : RX_CP_END;
    *out = p->symbols ? rx_ex_range(p->x, symbol, symbol) : RX_EX_EPS;
    return RLX_OK;
}

static rlx_status parse_atom(parser *p, rx_ex *out)
{
    static const rx_range not_dot[] = {{10, 10}, {13, 13}, {0x2028, 0x2029}};
    uint32_t cp;
    p->anchored = false;
    if (take(p, "("))
        return parse_group(p, out);
    if (take(p, "["))
        return parse_class(p, out);
    if (take(p, "\\"))
        return parse_escape(p, out);
    if (peek(p, 0) == '^' || peek(p, 0) == '$')
        return parse_anchor(p, out);
    if (peek(p, 0) == '*' || peek(p, 0) == '+' || peek(p, 0) == '?')
        return wrong(p, "something to repeat");
    if (take(p, ".")) {
        rx_ranges set = {0};
        bool ok = add_all(&set, not_dot, 3) && rx_ranges_invert(&set);
        *out = ok ? rx_ex_set(p->x, &set) : RX_EX_NONE;
        rx_free(set.r);
        return ok ? RLX_OK : rx_fail_memory(p->err, "a set of characters", 1);
    }
    p->at += rx_utf8_get(p->s + p->at, p->n - p->at, &cp);
    *out = rx_ex_range(p->x, cp, cp);
    return RLX_OK;
}

static bool take_number(parser *p, uint32_t *out)
{
    uint64_t v = 0;
    size_t digits = 0;
    for (; peek(p, 0) >= '0' && peek(p, 0) <= '9'; p->at++, digits++)
        v = v > MAX_COUNT ? v : v * 10 + (uint64_t)(peek(p, 0) - '0');
    *out = (uint32_t)v;
    return digits > 0;
}

/* {n}, {n,}, {n,m}; a brace that begins none of them is itself. */
static bool take_counts(parser *p, uint32_t *lo, uint32_t *hi)
{
    size_t before = p->at;
    p->at++;
    if (take_number(p, lo)) {
        *hi = *lo;
        if (take(p, ",") && !take_number(p, hi))
            *hi = RX_INF;
        if (take(p, "}"))
            return true;
    }
    p->at = before;
    return false;
}

static rlx_status parse_repeat(parser *p, rx_ex *out)
{
    uint32_t lo = 0, hi = RX_INF;
    int c = peek(p, 0);
    RLX_TRY(parse_atom(p, out));
    bool anchor = p->anchored && (c == '^' || c == '$');
    c = peek(p, 0);
    if (c == '*' || c == '+' || c == '?') {
        lo = c == '+';
        hi = c == '?' ? 1 : RX_INF;
        p->at++;
    } else if (c != '{' || !take_counts(p, &lo, &hi)) {
        return RLX_OK;
    }
    take(p, "?"); /* lazy: the same language */
    if (anchor)
        return refuse(p, "a repeated anchor");
    if (lo > hi)
        return wrong(p, "counts in order before here");
    if (lo > MAX_COUNT || (hi > MAX_COUNT && hi != RX_INF))
        return refuse(p, "a count above 100000");
    *out = rx_ex_repeat(p->x, *out, lo, hi);
    return RLX_OK;
}

/* One alternative. At the top, without symbols, anchors at its ends decide about what may stand
 * around it. */
static rlx_status parse_sequence(parser *p, rx_ex *out)
{
    const size_t from = p->terms->n;
    rx_ex e;
    bool top = !p->nesting && !p->symbols, first = false, last = false;
    if (top && peek(p, 0) == '^') {
        while (take(p, "^"))
            ;
        first = true;
    }
    while (p->at < p->n && peek(p, 0) != '|' && !(peek(p, 0) == ')' && p->nesting)) {
        if (top && peek(p, 0) == '$' && (peek(p, 1) < 0 || peek(p, 1) == '|')) {
            p->at++;
            last = true;
            break;
        }
        if (peek(p, 0) == ')')
            return wrong(p, "no ')' without a '('");
        RLX_TRY(parse_repeat(p, &e));
        RLX_TRY(push(p, e));
    }
    e = rx_ex_pop_cat(p->x, p->terms, from);
    if (top && !first)
        e = rx_ex_cat(p->x, RX_EX_ALL, e);
    if (top && !last)
        e = rx_ex_cat(p->x, e, RX_EX_ALL);
    *out = e;
    return RLX_OK;
}

static rlx_status parse_either(parser *p, rx_ex *out)
{
    const size_t from = p->terms->n;
    do {
        RLX_TRY(parse_sequence(p, out));
        RLX_TRY(push(p, *out));
    } while (take(p, "|"));
    *out = rx_ex_pop_or(p->x, p->terms, from);
    return RLX_OK;
}

/* All of the text: as a search for ^(?:...)$. */
static rlx_status parse_whole(parser *p, rx_ex *out)
{
    p->nesting = 1;
    RLX_TRY(parse_either(p, out));
    if (p->at < p->n)
        return wrong(p, "no ')' without a '('");
    if (!p->inner)
        return RLX_OK;
    parser again = {.x = p->x, .what = p->what, .s = p->s, .n = p->n, .nesting = 1,
                    .symbols = true, .terms = p->terms, .err = p->err};
    RLX_TRY(parse_either(&again, out));
    /* The anchors that the expression has itself take the symbols, or the ones around it. */
    const rx_ex begin = rx_ex_range(p->x, RX_CP_BEGIN, RX_CP_BEGIN);
    const rx_ex end = rx_ex_range(p->x, RX_CP_END, RX_CP_END);
    const rx_ex from = rx_ex_or(p->x, begin, RX_EX_EPS), to = rx_ex_or(p->x, end, RX_EX_EPS);
    *out = rx_ex_whole(p->x, rx_ex_cat(p->x, from, rx_ex_cat(p->x, *out, to)));
    return RLX_OK;
}

static rlx_status parse(parser *p, bool whole, rx_ex *out)
{
    if (whole)
        return parse_whole(p, out);
    RLX_TRY(parse_either(p, out));
    if (!p->inner)
        return RLX_OK;
    parser again = {.x = p->x, .what = p->what, .s = p->s, .n = p->n, .symbols = true,
                    .terms = p->terms, .err = p->err};
    RLX_TRY(parse_either(&again, out));
    *out = rx_ex_search(p->x, *out);
    return RLX_OK;
}

rlx_status rx_regex_parse(rx_exprs *x, const char *what, const char *s, size_t n, bool whole,
                          rx_ex *out, rlx_error *err)
{
    rx_ex_list terms = {0};
    parser p = {.x = x, .what = what, .s = s, .n = n, .terms = &terms, .err = err};
    if (!rx_utf8_valid((const unsigned char *)s, n))
        return rx_fail(err, RLX_PARSE, "%s: expected UTF-8", what);
    const rlx_status st = parse(&p, whole, out);
    rx_free(terms.e);
    return st ? st : rx_exprs_check(x, what, err);
}
