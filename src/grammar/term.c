/* SPDX-License-Identifier: MIT */
/* Terminals over bytes: UTF-8 and, inside of JSON strings, escapes. A partial code point is kept as
 * the value of its bits or digits so far, and is alive while some completion of it has a live
 * derivative. */
#include "grammar/machine.h"

/* mid: kind << 28 and what was read. */
enum { UTF8 = 1, ESCAPE, HEX, LOW_ESCAPE, LOW_U, LOW_HEX };

static uint32_t mid_of(unsigned kind, uint32_t count, uint32_t value)
{
    return (uint32_t)kind << 28 | count << 25 | value;
}

static bool finish(rx_exprs *x, rx_term *t, uint32_t cp)
{
    t->q = rx_ex_derive(x, t->q, cp);
    t->mid = 0;
    return !rx_ex_is_empty(x, t->q);
}

static bool can_step(rx_exprs *x, rx_ex q, uint32_t lo, uint32_t hi)
{
    if (hi < 0xd800 || lo > 0xdfff)
        return rx_ex_can_step(x, q, lo, hi);
    return (lo < 0xd800 && rx_ex_can_step(x, q, lo, 0xd7ff)) ||
           (hi > 0xdfff && rx_ex_can_step(x, q, 0xe000, hi));
}

/* `left` bytes of a sequence of `n` are missing after the bits of `value`. */
static bool utf8_part(rx_exprs *x, rx_term *t, uint32_t n, uint32_t left, uint32_t value)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    static const uint32_t most[] = {0, 0, 0x7ff, 0xffff, RX_CP_MAX};
    uint32_t lo = value << (6 * left), hi = lo | ((1u << (6 * left)) - 1);
    lo = lo < least[n] ? least[n] : lo;
    hi = hi > most[n] ? most[n] : hi;
    if (!left)
        return lo == hi && (lo < 0xd800 || lo > 0xdfff) && finish(x, t, lo);
    t->mid = mid_of(UTF8, n, left << 21 | value);
    return can_step(x, t->q, lo, hi);
}

static bool utf8_lead(rx_exprs *x, rx_term *t, unsigned char byte)
{
    if (byte < 0x80)
        return finish(x, t, byte);
    if (byte < 0xc2 || byte > 0xf4)
        return false;
    uint32_t n = byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return utf8_part(x, t, n, n - 1, byte & (0x7fu >> n));
}

static bool utf8_next(rx_exprs *x, rx_term *t, unsigned char byte)
{
    uint32_t n = t->mid >> 25 & 7, left = t->mid >> 21 & 15, value = t->mid & 0x1fffff;
    if ((byte & 0xc0) != 0x80)
        return false;
    return utf8_part(x, t, n, left - 1, value << 6 | (byte & 0x3f));
}

static int hex_digit(unsigned char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Control characters that have no short escape: \u00XX is the only way to write them. */
static bool needs_hex(uint32_t cp)
{
    return cp < 0x20 && cp != '\b' && cp != '\f' && cp != '\n' && cp != '\r' && cp != '\t';
}

static bool can_step_needed(rx_exprs *x, rx_ex q, uint32_t lo, uint32_t hi)
{
    for (uint32_t cp = lo; cp <= hi && cp < 0x20; cp++)
        if (needs_hex(cp) && rx_ex_can_step(x, q, cp, cp))
            return true;
    return false;
}

static bool backslash(rx_exprs *x, rx_term_mode mode, rx_term *t)
{
    t->mid = mid_of(ESCAPE, 0, 0);
    if (mode == RX_TERM_JSON)
        return can_step(x, t->q, 0, RX_CP_MAX);
    return rx_ex_can_step(x, t->q, 0, 0x1f) || rx_ex_can_step(x, t->q, '"', '"') ||
           rx_ex_can_step(x, t->q, '\\', '\\');
}

static bool escape(rx_exprs *x, rx_term_mode mode, rx_term *t, unsigned char byte)
{
    static const char from[] = "\"\\bfnrt/", to[] = "\"\\\b\f\n\r\t/";
    const bool needed = mode == RX_TERM_WRITTEN;
    for (size_t i = 0; i < sizeof from - 1 - needed; i++)
        if (byte == (unsigned char)from[i])
            return finish(x, t, (unsigned char)to[i]);
    t->mid = mid_of(HEX, 0, 0);
    if (byte != 'u')
        return false;
    return needed ? can_step_needed(x, t->q, 0, 0x1f) : can_step(x, t->q, 0, RX_CP_MAX);
}

/* Code points past 0xffff whose high surrogates are lo..hi. */
static bool can_step_high(rx_exprs *x, rx_ex q, uint32_t lo, uint32_t hi)
{
    lo = lo < 0xd800 ? 0xd800 : lo;
    hi = hi > 0xdbff ? 0xdbff : hi;
    return lo <= hi && rx_ex_can_step(x, q, 0x10000 + ((lo - 0xd800) << 10),
                                      0x10000 + ((hi - 0xd800) << 10) + 0x3ff);
}

static bool hex(rx_exprs *x, rx_term_mode mode, rx_term *t, unsigned char byte)
{
    int digit = hex_digit(byte);
    if (digit < 0)
        return false;
    uint32_t count = (t->mid >> 25 & 7) + 1, value = (t->mid & 0xffff) << 4 | (uint32_t)digit;
    uint32_t lo = value << (4 * (4 - count)), hi = lo | ((1u << (4 * (4 - count))) - 1);
    t->mid = mid_of(HEX, count, value);
    if (mode == RX_TERM_WRITTEN)
        return count < 4 ? can_step_needed(x, t->q, lo, hi)
                         : needs_hex(value) && finish(x, t, value);
    if (count < 4)
        return can_step(x, t->q, lo, hi) || can_step_high(x, t->q, lo, hi);
    if (value >= 0xd800 && value < 0xdc00) {
        t->mid = mid_of(LOW_ESCAPE, 0, value & 0x3ff);
        return can_step_high(x, t->q, value, value);
    }
    return (value < 0xd800 || value > 0xdfff) && finish(x, t, value);
}

/* The low surrogate: ten bits of the high one above twelve of its digits. */
static bool low_hex(rx_exprs *x, rx_term *t, unsigned char byte)
{
    int digit = hex_digit(byte);
    uint32_t count = (t->mid >> 25 & 7) + 1, high = t->mid & 0x3ff;
    uint32_t value = (t->mid >> 10 & 0xfff) << 4 | (uint32_t)digit;
    if (digit < 0)
        return false;
    uint32_t shift = 4 * (4 - count), lo = value << shift, hi = lo | ((1u << shift) - 1);
    lo = lo < 0xdc00 ? 0xdc00 : lo;
    hi = hi > 0xdfff ? 0xdfff : hi;
    if (lo > hi)
        return false;
    uint32_t base = 0x10000 + (high << 10);
    if (count == 4)
        return finish(x, t, base + (value - 0xdc00));
    t->mid = mid_of(LOW_HEX, count, value << 10 | high);
    return rx_ex_can_step(x, t->q, base + (lo - 0xdc00), base + (hi - 0xdc00));
}

bool rx_term_step(rx_exprs *x, rx_term_mode mode, rx_term *t, unsigned char byte)
{
    switch (t->mid >> 28) {
    case UTF8:
        return utf8_next(x, t, byte);
    case ESCAPE:
        return escape(x, mode, t, byte);
    case HEX:
        return hex(x, mode, t, byte);
    case LOW_ESCAPE:
        t->mid = mid_of(LOW_U, 0, t->mid & 0x3ff);
        return byte == '\\';
    case LOW_U:
        t->mid = mid_of(LOW_HEX, 0, t->mid & 0x3ff);
        return byte == 'u';
    case LOW_HEX:
        return low_hex(x, t, byte);
    default:
        break;
    }
    if (mode == RX_TERM_TEXT)
        return utf8_lead(x, t, byte);
    if (byte < 0x20 || byte == '"')
        return false;
    return byte == '\\' ? backslash(x, mode, t) : utf8_lead(x, t, byte);
}
