/* SPDX-License-Identifier: MIT */
/* Reference kernel of sample: the definition for every device. It uses only 32-bit integer products
 * and single f32 subtractions, so that each device gives the same tokens.
 *
 * One row of logits, with temperature T, top-k K, top-p P and min-p M as f32 numbers:
 * 1. The tokens are put in order: larger logit first, then smaller index. NaN counts as -infinity.
 * 2. T below the smallest normal f32 (2^-126) or NaN: the first token is the result (greedy).
 * 3. 1 <= K < V keeps the first K tokens.
 * 4. Each token gets an integer weight w = 2^31 * exp(-(l0 - l) / T), l0 the first logit; all
 *    tokens with that logit have 2^31 (even if it is infinite), those below 2^-31 of it have 0.
 *    The arithmetic is given at token_weight.
 * 5. M > 0 keeps the tokens with w >= ceil(M * 2^31), and the first.
 * 6. With S the sum of the weights kept, 0 < P < 1 keeps the shortest start of the list whose sum
 *    is at least S * p / 2^24, where p = ceil(P * 2^24).
 * 7. x is word 0 of Philox block `row` of the seed, or of block 0 where each row has its own, and
 *    S the sum of the weights that are left: the answer is the first token at which the running
 *    sum exceeds floor(x * S / 2^32).
 * Sums of integers do not depend on their order, so no device has to sort all tokens. */
#include <math.h>

#include "base/philox.h"
#include "cpu/ref/sample.h"

uint64_t rx_load_seed(const rx_view *seed, int64_t attribute)
{
    return (uint64_t)(seed ? rx_load_int(seed, 0) : attribute);
}

/* A positive normal float as mantissa * 2^(exponent - 23) with 2^23 <= mantissa < 2^24. */
static uint32_t split_float(float x, int *exponent)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    *exponent = (int)(bits >> 23 & 0xff) - 127;
    return (bits & 0x7fffff) | 0x800000;
}

#define LOG2_E_Q30 1549082005u /* log2(e) * 2^30 */

rx_sampler rx_sampler_make(const rx_call *c, int64_t row)
{
    const rlx_sample_desc *d = c->attr;
    const rx_view *seed = rx_call_in(c, 1), *params = rx_call_in(c, 2);
    const bool own_seed = seed && seed->rank == 1;
    rx_sampler s = {.seed = own_seed ? (uint64_t)rx_load_int(seed, row * seed->stride[0])
                                     : rx_load_seed(seed, d->seed),
                    .block = own_seed ? 0 : (uint64_t)row,
                    .temperature = (float)d->temperature, .top_p = (float)d->top_p,
                    .min_p = (float)d->min_p, .top_k = d->top_k};
    if (params) {
        const int64_t stride = params->stride[params->rank - 1];
        const int64_t at = params->rank == 2 ? row * params->stride[0] : 0;
        const float k = (float)rx_load(params, at + stride);
        s.temperature = (float)rx_load(params, at);
        s.top_k = k >= 1 && k < 0x1p31f ? (int64_t)k : 0;
        s.top_p = (float)rx_load(params, at + 2 * stride);
        s.min_p = (float)rx_load(params, at + 3 * stride);
    }
    if (s.temperature >= 0x1p-126f && isfinite(s.temperature)) {
        const uint32_t mantissa = split_float(s.temperature, &s.rate_exp);
        s.rate = (uint32_t)(((uint64_t)LOG2_E_Q30 << 24) / mantissa);
    }
    return s;
}

/* High half of a 32-bit product. */
static uint32_t mul_high(uint32_t a, uint32_t b)
{
    return (uint32_t)((uint64_t)a * b >> 32);
}

/* 2^31 * 2^-x for x = fraction / 2^32: the series of exp(-x ln 2), nested so that every partial
 * result is in [0, 1). Coefficients ln(2)^k / k! * 2^32; error below 2^-29. */
static uint32_t exp2_fraction(uint32_t fraction)
{
    static const uint32_t series[] = {2977044472u, 1031764991u, 238388332u, 41309550u, 5726720u,
                                      661577u,     65510u,      5676u,      437u,      30u};
    uint32_t sum = 0;
    for (int k = 9; k >= 0; k--)
        sum = series[k] - mul_high(fraction, sum);
    return 0x80000000u - (mul_high(fraction, sum) >> 1);
}

/* The weight of a logit `below` the first one (f32, >= 0). The exponent to base 2 is
 * below / T * log2(e) = m * rate * 2^(e - rate_exp - 54) with below = m * 2^(e - 23), kept as a
 * fixed-point number with 24 bits of fraction, rounded down. */
uint32_t rx_token_weight(const rx_sampler *s, float below)
{
    if (!s->rate) /* T is infinite: all weights are equal */
        return isfinite(below) ? 0x80000000u : 0;
    if (!isfinite(below))
        return 0;
    if (below < 0x1p-126f)
        return 0x80000000u;
    int e;
    const uint64_t product = (uint64_t)split_float(below, &e) * s->rate; /* 2^53 to 2^56 */
    const int shift = 30 - (e - s->rate_exp);
    if (shift < 24)
        return 0;
    const uint64_t exponent = shift > 63 ? 0 : product >> shift;
    if (exponent >> 24 > 31)
        return 0;
    return exp2_fraction((uint32_t)exponent << 8) >> (exponent >> 24);
}

/* floor(sum * x / 2^bits) for x <= 2^bits and bits <= 32, without a 128-bit product. */
uint64_t rx_scale_sum(uint64_t sum, uint64_t x, int bits, uint64_t *remainder)
{
    const uint64_t mask = ((uint64_t)1 << bits) - 1, low = (sum & mask) * x;
    *remainder = low & mask;
    return (sum >> bits) * x + (low >> bits);
}

/* The number of tokens that top-k, min-p and top-p keep. Sets the weights in keys[].i. */
static int64_t cut_tokens(const rx_sampler *s, rx_key *keys, int64_t n)
{
    if (s->top_k >= 1 && s->top_k < n)
        n = s->top_k;
    const float first = (float)keys[0].f;
    const uint64_t least = s->min_p > 0 ? (uint64_t)ceil((double)s->min_p * 0x1p31) : 0;
    uint64_t sum = 0;
    int64_t kept = 0;
    for (; kept < n; kept++) {
        const float logit = (float)keys[kept].f;
        const uint32_t w = logit == first ? 0x80000000u : rx_token_weight(s, first - logit);
        if (kept && w < least)
            break;
        keys[kept].i = (int64_t)w;
        sum += w;
    }
    if (!(s->top_p > 0 && s->top_p < 1))
        return kept;
    uint64_t remainder, running = 0;
    uint64_t need = rx_scale_sum(sum, (uint64_t)ceil((double)s->top_p * 0x1p24), 24, &remainder);
    need += remainder != 0;
    for (int64_t i = 0; i < kept; i++) {
        running += (uint64_t)keys[i].i;
        if (running >= need)
            return i + 1;
    }
    return kept;
}

int64_t rx_draw_token(const rx_sampler *s, rx_key *keys, int64_t n)
{
    if (!(s->temperature >= 0x1p-126f))
        return keys[0].place;
    n = cut_tokens(s, keys, n);
    uint64_t sum = 0, running = 0, remainder;
    for (int64_t i = 0; i < n; i++)
        sum += (uint64_t)keys[i].i;
    const uint32_t x = rx_philox_block(s->seed, s->block).v[0];
    const uint64_t mark = rx_scale_sum(sum, x, 32, &remainder);
    for (int64_t i = 0; i < n; i++) {
        running += (uint64_t)keys[i].i;
        if (running > mark)
            return keys[i].place;
    }
    return keys[0].place; /* not reached: mark < sum */
}

rlx_status rx_ref_sample(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t rows = rx_view_elements(y), n = x->dim[x->rank - 1];
    rx_key *keys = rx_scratch_keys(c, n);
    if (!keys)
        return RLX_NO_MEMORY;
    int64_t at[RLX_MAX_RANK] = {0};
    for (int64_t row = 0; row < rows; row++) {
        const int64_t from = rx_offset(x, at);
        const rx_sampler s = rx_sampler_make(c, row);
        for (int64_t i = 0; i < n; i++) {
            keys[i] = rx_load_key(x, from + i * x->stride[x->rank - 1], i);
            if (isnan(keys[i].f))
                keys[i].f = -INFINITY;
        }
        rx_sort_keys(keys, keys + n, n, true);
        rx_store_int(y, row, n ? rx_draw_token(&s, keys, n) : 0);
        rx_next(at, y->dim, y->rank);
    }
    return RLX_OK;
}
