/* SPDX-License-Identifier: MIT */
/* Escapes of untrusted text for terminals: controls, broken UTF-8, bidirectional overrides. */
#include <stdio.h>
#include <string.h>

#include "rlx/base.h"

/* The character at s, of at most n bytes; its length, or 0 when it is no UTF-8. */
static size_t decode(const unsigned char *s, size_t n, uint32_t *out)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const size_t length = s[0] < 0x80 ? 1 : s[0] >> 5 == 6 ? 2 : s[0] >> 4 == 14 ? 3
                          : s[0] >> 3 == 30 ? 4 : 0;
    if (!length || length > n)
        return 0;
    uint32_t c = length == 1 ? s[0] : s[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if (s[i] >> 6 != 2)
            return 0;
        c = c << 6 | (s[i] & 63);
    }
    *out = c;
    return c >= least[length] && c <= 0x10ffff && (c < 0xd800 || c > 0xdfff) ? length : 0;
}

/* Controls, and the marks that reorder the text around them: embeddings, overrides, isolates. */
static bool is_plain(uint32_t c)
{
    return c >= 0x20 && (c < 0x7f || c > 0x9f) && (c < 0x202a || c > 0x202e) &&
           (c < 0x2066 || c > 0x2069);
}

/* The escaped form of the character at s, as `piece`; returns how many bytes of s it covers. */
static size_t next_piece(const unsigned char *s, size_t n, bool lines, char piece[8])
{
    uint32_t c = 0;
    const size_t length = decode(s, n, &c);
    if (length && (is_plain(c) || (lines && (c == '\n' || c == '\t')))) {
        memcpy(piece, s, length);
        piece[length] = 0;
    } else if (!length) {
        snprintf(piece, 8, "\\x%02x", s[0]);
    } else if (c == '\n' || c == '\t') {
        snprintf(piece, 8, "\\%c", c == '\n' ? 'n' : 't');
    } else {
        snprintf(piece, 8, c < 0x80 ? "\\x%02x" : "\\u%04x", (unsigned)c & 0xffff);
    }
    return length ? length : 1;
}

size_t rlx_escape_text(const char *text, size_t n, bool lines, char *out, size_t cap)
{
    size_t total = 0, used = 0;
    cap = out ? cap : 0;
    for (size_t at = 0; text && at < n;) {
        char piece[8];
        at += next_piece((const unsigned char *)text + at, n - at, lines, piece);
        const size_t m = strlen(piece);
        total += m;
        if (total < cap && used + m == total) { /* nothing after a truncation */
            memcpy(out + used, piece, m);
            used = total;
        }
    }
    if (cap)
        out[used] = 0;
    return total;
}
