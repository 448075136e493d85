/* SPDX-License-Identifier: MIT */
/* Sets of numbers as terms over their decimal text: ranges, multiples, single values. Bounds are
 * decimal texts and compared digit by digit, so that nothing is rounded. */
#include <string.h>

#include "grammar/front.h"

#define MAX_DIGITS 800
#define MAX_MODULUS 200000

/* sign * whole.fraction, without leading and trailing zeros; whole is "0" at least. */
typedef struct decimal {
    bool negative;
    char whole[MAX_DIGITS + 1], fraction[MAX_DIGITS + 1];
} decimal;

static rx_ex digits(rx_exprs *x, uint32_t lo, uint32_t hi)
{
    return rx_ex_repeat(x, rx_ex_range(x, '0', '9'), lo, hi);
}

static rx_ex literal(rx_exprs *x, const char *s, size_t n)
{
    return rx_ex_text(x, s, n);
}

static rx_ex optional(rx_exprs *x, rx_ex e)
{
    return rx_ex_or(x, e, RX_EX_EPS);
}

static rx_ex any_fraction(rx_exprs *x)
{
    return optional(x, rx_ex_cat(x, literal(x, ".", 1), digits(x, 1, RX_INF)));
}

static rx_ex zero_fraction(rx_exprs *x)
{
    rx_ex zeros = rx_ex_repeat(x, literal(x, "0", 1), 1, RX_INF);
    return optional(x, rx_ex_cat(x, literal(x, ".", 1), zeros));
}

static rx_ex whole_part(rx_exprs *x)
{
    rx_ex more = rx_ex_cat(x, rx_ex_range(x, '1', '9'), digits(x, 0, RX_INF));
    return rx_ex_or(x, literal(x, "0", 1), more);
}

static rx_ex with_sign(rx_exprs *x, rx_ex e)
{
    return rx_ex_cat(x, optional(x, literal(x, "-", 1)), e);
}

rx_ex rx_number_plain(rx_exprs *x)
{
    return with_sign(x, rx_ex_cat(x, whole_part(x), any_fraction(x)));
}

rx_ex rx_number_any(rx_exprs *x)
{
    rx_ex e = rx_ex_or(x, literal(x, "e", 1), literal(x, "E", 1));
    rx_ex sign = optional(x, rx_ex_or(x, literal(x, "+", 1), literal(x, "-", 1)));
    rx_ex exponent = rx_ex_cat(x, e, rx_ex_cat(x, sign, digits(x, 1, RX_INF)));
    return rx_ex_cat(x, rx_number_plain(x), optional(x, exponent));
}

rx_ex rx_number_integer(rx_exprs *x, bool fraction)
{
    rx_ex e = with_sign(x, whole_part(x));
    return fraction ? rx_ex_cat(x, e, zero_fraction(x)) : e;
}

/* ---- Decimals -------------------------------------------------------------------------------- */

/* Places the point after `point` of the n digits and drops zeros at both ends. */
static rlx_status place_point(decimal *d, const char *digit, size_t n, int64_t point,
                              const char *text, rlx_error *err)
{
    size_t whole = 0, fraction = 0;
    if (point > MAX_DIGITS || (int64_t)n - point > MAX_DIGITS)
        return rx_fail(err, RLX_UNSUPPORTED, "the number '%.60s' has more than %d digits", text,
                       MAX_DIGITS);
    for (int64_t i = 0; i < point; i++) {
        char c = i < (int64_t)n ? digit[i] : '0';
        if (whole || c != '0')
            d->whole[whole++] = c;
    }
    if (!whole)
        d->whole[whole++] = '0';
    for (int64_t i = point; i < (int64_t)n; i++)
        d->fraction[fraction++] = i < 0 ? '0' : digit[i];
    while (fraction && d->fraction[fraction - 1] == '0')
        fraction--;
    d->whole[whole] = d->fraction[fraction] = 0;
    return RLX_OK;
}

/* A number of JSON. */
static rlx_status read_decimal(const char *text, decimal *d, rlx_error *err)
{
    char digit[MAX_DIGITS + 1];
    size_t n = 0;
    int64_t point = -1, exponent = 0;
    const char *s = text;
    *d = (decimal){.negative = *s == '-'};
    s += *s == '-';
    for (; (*s >= '0' && *s <= '9') || *s == '.'; s++) {
        if (*s == '.')
            point = (int64_t)n;
        else if (n < MAX_DIGITS)
            digit[n++] = *s;
        else
            return rx_fail(err, RLX_UNSUPPORTED, "the number '%.60s' has more than %d digits",
                           text, MAX_DIGITS);
    }
    if (point < 0)
        point = (int64_t)n;
    if (*s == 'e' || *s == 'E') {
        bool minus = s[1] == '-';
        for (s += s[1] == '-' || s[1] == '+' ? 2 : 1; *s >= '0' && *s <= '9'; s++)
            exponent = exponent > 100000 ? exponent : exponent * 10 + (*s - '0');
        exponent = minus ? -exponent : exponent;
    }
    bool zero = true;
    for (size_t i = 0; i < n; i++)
        zero = zero && digit[i] == '0';
    if (zero)
        point = (int64_t)n, exponent = 0, d->negative = false;
    return place_point(d, digit, n, point + exponent, text, err);
}

static bool is_zero(const decimal *d)
{
    return d->whole[0] == '0' && !d->fraction[0];
}

/* ---- Ranges ---------------------------------------------------------------------------------- */

/* prefix, a digit from lo to hi, any digits. */
static rx_ex below_at(rx_exprs *x, const char *prefix, size_t n, int lo, int hi, rx_ex rest)
{
    if (lo > hi)
        return RX_EX_NONE;
    rx_ex digit = rx_ex_range(x, (uint32_t)lo, (uint32_t)hi);
    return rx_ex_cat(x, literal(x, prefix, n), rx_ex_cat(x, digit, rest));
}

/* Fractions that keep a number with the bound's integer part below the bound (or equal). */
static rx_ex fraction_below(rx_exprs *x, const char *f, bool strict)
{
    const size_t n = strlen(f);
    rx_ex e = RX_EX_NONE;
    if (!n)
        return strict ? RX_EX_NONE : zero_fraction(x);
    for (size_t i = 0; i < n; i++) {
        e = rx_ex_or(x, e, below_at(x, f, i, '0', f[i] - 1, digits(x, 0, RX_INF)));
        if (i)
            e = rx_ex_or(x, e, literal(x, f, i));
    }
    if (!strict) {
        rx_ex zeros = rx_ex_repeat(x, literal(x, "0", 1), 0, RX_INF);
        e = rx_ex_or(x, e, rx_ex_cat(x, literal(x, f, n), zeros));
    }
    return optional(x, rx_ex_cat(x, literal(x, ".", 1), e));
}

/* Texts without a sign whose value is below that of d without its sign, or equal. */
static rx_ex magnitude_below(rx_exprs *x, const decimal *d, bool strict)
{
    const size_t n = strlen(d->whole);
    const rx_ex fraction = any_fraction(x);
    rx_ex e = RX_EX_NONE;
    if (n > 1) {
        rx_ex shorter = rx_ex_cat(x, rx_ex_range(x, '1', '9'), digits(x, 0, (uint32_t)n - 2));
        e = rx_ex_cat(x, rx_ex_or(x, literal(x, "0", 1), shorter), fraction);
    }
    for (size_t i = 0; i < n; i++) {
        const int lowest = i == 0 && n > 1 ? '1' : '0';
        rx_ex rest = rx_ex_cat(x, digits(x, (uint32_t)(n - 1 - i), (uint32_t)(n - 1 - i)),
                               fraction);
        e = rx_ex_or(x, e, below_at(x, d->whole, i, lowest, d->whole[i] - 1, rest));
    }
    rx_ex equal = rx_ex_cat(x, literal(x, d->whole, n), fraction_below(x, d->fraction, strict));
    return rx_ex_or(x, e, equal);
}

static rx_ex magnitude(rx_exprs *x)
{
    return rx_ex_cat(x, whole_part(x), any_fraction(x));
}

static rx_ex magnitude_above(rx_exprs *x, const decimal *d, bool strict)
{
    return rx_ex_and(x, magnitude(x), rx_ex_not(x, magnitude_below(x, d, !strict)));
}

static rx_ex minus(rx_exprs *x, rx_ex e)
{
    return rx_ex_cat(x, literal(x, "-", 1), e);
}

rlx_status rx_number_bound(rx_exprs *x, rx_bound b, rx_ex *out, rlx_error *err)
{
    decimal d;
    RLX_TRY(read_decimal(b.text, &d, err));
    /* Same sign as the bound: on the far side of it when the sign and the direction agree. */
    const bool away = b.least != d.negative;
    rx_ex same = away ? magnitude_above(x, &d, b.strict) : magnitude_below(x, &d, b.strict);
    rx_ex e = d.negative ? minus(x, same) : same;
    rx_ex zero = rx_ex_cat(x, literal(x, "0", 1), zero_fraction(x));
    if (is_zero(&d)) {
        e = b.least ? magnitude_above(x, &d, b.strict)
                    : minus(x, rx_ex_and(x, magnitude(x), rx_ex_not(x, zero)));
        if (!b.strict)
            e = rx_ex_or(x, e, b.minus_zero ? with_sign(x, zero) : zero);
    } else if (b.least && d.negative) {
        e = rx_ex_or(x, e, magnitude(x));
    } else if (!b.least && !d.negative) {
        e = rx_ex_or(x, e, minus(x, magnitude(x)));
    }
    *out = e;
    return rx_exprs_check(x, "a bound of numbers", err);
}

rlx_status rx_number_equal(rx_exprs *x, const char *text, bool fraction, rx_ex *out,
                           rlx_error *err)
{
    decimal d;
    RLX_TRY(read_decimal(text, &d, err));
    rx_ex e = literal(x, d.whole, strlen(d.whole));
    rx_ex zeros = rx_ex_repeat(x, literal(x, "0", 1), 0, RX_INF);
    if (d.fraction[0]) {
        e = rx_ex_cat(x, e, literal(x, ".", 1));
        e = rx_ex_cat(x, e, literal(x, d.fraction, strlen(d.fraction)));
        e = fraction ? rx_ex_cat(x, e, zeros) : e;
    } else if (fraction) {
        e = rx_ex_cat(x, e, zero_fraction(x));
    }
    if (d.negative)
        e = minus(x, e);
    else if (is_zero(&d) && fraction)
        e = with_sign(x, e);
    *out = e;
    return rx_exprs_check(x, "a number", err);
}

rlx_status rx_number_multiple(rx_exprs *x, const char *text, rx_ex *out, rlx_error *err)
{
    decimal d;
    uint64_t modulus = 0;
    RLX_TRY(read_decimal(text, &d, err));
    const char *const parts[] = {d.whole, d.fraction};
    if (d.negative || is_zero(&d))
        return rx_fail(err, RLX_PARSE, "\"multipleOf\" is '%.60s'; expected a number above 0",
                       text);
    for (size_t i = 0; i < 2; i++)
        for (const char *s = parts[i]; *s && modulus <= MAX_MODULUS; s++)
            modulus = modulus * 10 + (uint64_t)(*s - '0');
    if (modulus > MAX_MODULUS)
        return rx_fail(err, RLX_UNSUPPORTED, "\"multipleOf\" %.60s: more than %d remainders", text,
                       MAX_MODULUS);
    *out = rx_ex_multiple(x, (uint32_t)modulus, (uint32_t)strlen(d.fraction));
    return rx_exprs_check(x, "\"multipleOf\"", err);
}
