/* SPDX-License-Identifier: MIT */
/* Unicode for the tokenizers: lookups in the generated ranges. */
#include "model/unicode.h"

#include "model/unicode_tables.h"

#define N_OF(a) (sizeof(a) / sizeof(a)[0])

/* ---- UTF-8 ----------------------------------------------------------------------------------- */

/* Bytes of a character that begins with this byte, and the range of its second byte; 0: none. */
static size_t lead_length(unsigned char c, unsigned char *low, unsigned char *high)
{
    *low = c == 0xe0 ? 0xa0 : c == 0xf0 ? 0x90 : 0x80;
    *high = c == 0xed ? 0x9f : c == 0xf4 ? 0x8f : 0xbf;
    if (c < 0x80)
        return 1;
    if (c < 0xc2 || c > 0xf4)
        return 0;
    return c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

/* Valid bytes at s, and in *want the length of the character; 0: no character starts here. */
static size_t good_length(const char *s, size_t n, size_t *want)
{
    const unsigned char *p = (const unsigned char *)s;
    unsigned char low, high;
    *want = lead_length(p[0], &low, &high);
    if (*want <= 1)
        return *want;
    if (n < 2 || p[1] < low || p[1] > high)
        return 1;
    size_t got = 2;
    while (got < *want && got < n && (p[got] & 0xc0) == 0x80)
        got++;
    return got;
}

size_t rx_utf8_get(const char *s, size_t n, uint32_t *code)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t want;
    if (p[0] < 0x80) {
        *code = p[0];
        return 1;
    }
    if (good_length(s, n, &want) != want || want == 0) {
        *code = RX_BAD_BYTE + p[0];
        return 1;
    }
    uint32_t v = p[0] & (0xffu >> (want + 1));
    for (size_t i = 1; i < want; i++)
        v = v << 6 | (p[i] & 0x3f);
    *code = v;
    return want;
}

size_t rx_utf8_put(char *out, uint32_t code)
{
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    if (code < 0x80 || code >= RX_BAD_BYTE) {
        out[0] = (char)code;
        return 1;
    }
    size_t n = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n; --i; code >>= 6)
        out[i] = (char)(0x80 | (code & 0x3f));
    out[0] = (char)(lead[n] | code);
    return n;
}

size_t rx_utf8_bad(const char *s, size_t n)
{
    size_t want, got = good_length(s, n, &want);
    if (want == 0)
        return 1;
    return got == want ? 0 : got;
}

size_t rx_utf8_open(const char *s, size_t n)
{
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        size_t want, got = good_length(s + n - back, back, &want);
        if (want > 1 && got == back && got < want)
            return back;
    }
    return 0;
}

/* ---- Categories ------------------------------------------------------------------------------ */

/* The last entry of a sorted list that is at most `value` in its upper bits. */
static size_t find_entry16(const uint16_t *list, size_t lo, size_t hi, uint32_t low)
{
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if ((uint32_t)(list[mid] >> 5) <= low)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

static rx_category find_category(uint32_t code)
{
    if (code >= RX_BAD_BYTE)
        return RX_SO;
    if (code < 0x20000) {
        const uint16_t *page = &category_pages[code >> 8];
        return category_entries[find_entry16(category_entries, page[0], page[1], code & 0xff)] & 31;
    }
    size_t i = N_OF(category_ranges);
    while (--i && category_ranges[i] >> 5 > code)
        ;
    return category_ranges[i] & 31;
}

bool rx_unicode_is_space(uint32_t code)
{
    if (code < 0x80)
        return code == ' ' || (code >= 9 && code <= 13);
    return code == 0x85 || code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) ||
           code == 0x2028 || code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

uint32_t rx_unicode_bits(uint32_t code)
{
    if (code < 0x80) {
        uint32_t upper = code & ~0x20u;
        if (upper >= 'A' && upper <= 'Z')
            return code == upper ? RX_IN(RX_LU) : RX_IN(RX_LL);
        if (code == ' ')
            return RX_IN(RX_ZS) | RX_IN_SPACE;
    }
    uint32_t bits = RX_IN(find_category(code));
    return rx_unicode_is_space(code) ? bits | RX_IN_SPACE : bits;
}

size_t rx_unicode_lower(uint32_t code, uint32_t out[2])
{
    out[0] = code;
    if (code < 0x80) {
        out[0] = code >= 'A' && code <= 'Z' ? code + 32 : code;
        return 1;
    }
    if (code == 0x130) {
        out[0] = 'i';
        out[1] = 0x307;
        return 2;
    }
    size_t lo = 0, hi = N_OF(lower_ranges) / 4;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if ((uint32_t)lower_ranges[4 * mid] <= code)
            lo = mid;
        else
            hi = mid;
    }
    const int32_t *r = &lower_ranges[4 * lo];
    int32_t c = (int32_t)code;
    if (c >= r[0] && c <= r[1] && (c - r[0]) % r[2] == 0)
        out[0] = (uint32_t)(c + r[3]);
    return 1;
}

/* ---- Normal forms ---------------------------------------------------------------------------- */

/* Hangul syllables are made by rule (chapter 3.12 of the standard). */
enum { S_BASE = 0xac00, L_BASE = 0x1100, V_BASE = 0x1161, T_BASE = 0x11a7, N_L = 19, N_V = 21,
       N_T = 28, N_S = N_L * N_V * N_T };

/* The record of `width` numbers with the greatest first number that is at most `key`. */
static const uint32_t *find_record(const uint32_t *list, size_t n, size_t width, uint32_t key)
{
    size_t lo = 0, hi = n / width;
    while (hi - lo > 1) {
        size_t mid = (lo + hi) / 2;
        if (list[width * mid] <= key)
            lo = mid;
        else
            hi = mid;
    }
    return &list[width * lo];
}

static size_t look_up(const uint32_t *runs, size_t n, uint32_t code,
                      uint32_t out[RX_MAX_DECOMPOSED])
{
    const uint32_t *r = find_record(runs, n, 4, code); /* first, count, length, place */
    if (code < r[0] || code - r[0] >= r[1])
        return 0;
    const uint32_t *letters = &decomposed_letters[r[3] + (code - r[0]) * r[2]];
    for (size_t i = 0; i < r[2]; i++)
        out[i] = letters[i];
    return r[2];
}

size_t rx_unicode_decompose(uint32_t code, bool compatible, uint32_t out[RX_MAX_DECOMPOSED])
{
    size_t n = 0;
    out[0] = code;
    if (code < 0xa0)
        return 1;
    if (code - S_BASE < (uint32_t)N_S) {
        uint32_t s = code - S_BASE;
        out[0] = L_BASE + s / (N_V * N_T);
        out[1] = V_BASE + s % (N_V * N_T) / N_T;
        out[2] = T_BASE + s % N_T;
        return s % N_T ? 3 : 2;
    }
    if (compatible)
        n = look_up(compatible_runs, N_OF(compatible_runs), code, out);
    if (!n)
        n = look_up(canonical_runs, N_OF(canonical_runs), code, out);
    return n ? n : 1;
}

int rx_unicode_class(uint32_t code)
{
    if (code < 0x300)
        return 0;
    const uint32_t *r = find_record(combining_ranges, N_OF(combining_ranges), 3, code);
    return code >= r[0] && code <= r[1] ? (int)r[2] : 0;
}

uint32_t rx_unicode_compose(uint32_t first, uint32_t second)
{
    if (first - L_BASE < (uint32_t)N_L && second - V_BASE < (uint32_t)N_V)
        return S_BASE + ((first - L_BASE) * N_V + (second - V_BASE)) * N_T;
    if (first - S_BASE < (uint32_t)N_S && (first - S_BASE) % N_T == 0 && second > T_BASE &&
        second < T_BASE + N_T)
        return first + (second - T_BASE);
    size_t lo = 0, hi = N_OF(composition_pairs) / 3;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        const uint32_t *p = &composition_pairs[3 * mid];
        if (p[0] == first && p[1] == second)
            return p[2];
        if (p[0] < first || (p[0] == first && p[1] < second))
            lo = mid + 1;
        else
            hi = mid;
    }
    return 0;
}
