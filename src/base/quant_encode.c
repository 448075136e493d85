/* SPDX-License-Identifier: MIT */
/* Encoders of the packed types with one scale for 32 elements, and the entry points for all packed
 * types. The layouts are in quant_blocks.h. */
#include "base/quant_encode.h"

#include <assert.h>
#include <math.h>

#include "base/quant_blocks.h"
#include "base/quant_fit.h"

/* ---- Dispatch -------------------------------------------------------------------------------- */

static rx_encode_fn *const encoders[RLX_N_DTYPES] = {
#define X(ID, NAME) [RLX_##ID] = rx_encode_##NAME,
    RX_ENCODED_DTYPES(X)
#undef X
};

rx_encode_fn *rx_encoder(rlx_dtype t)
{
    return (unsigned)t < RLX_N_DTYPES ? encoders[t] : NULL;
}

/* Weights are far below this; above it squares in float would overflow. */
#define LARGEST 1e15f

#define EIGHT 1, 1, 1, 1, 1, 1, 1, 1
#define SIXTY_FOUR EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT, EIGHT
static const float alike[RX_MAX_BLOCK] = {SIXTY_FOUR, SIXTY_FOUR, SIXTY_FOUR, SIXTY_FOUR};

int64_t rx_encode_row(rlx_dtype t, const float *src, const float *w, void *dst, int64_t n)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    rx_encode_fn *encode = rx_encoder(t);
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(src[i]))
            return i;
    if (!encode) {
        rlx_from_float(t, src, dst, n);
        return n;
    }
    assert(n % d->block_size == 0);
    unsigned char *block = dst;
    for (int64_t i = 0; i < n; i += d->block_size, block += d->block_bytes) {
        float x[RX_MAX_BLOCK];
        for (int k = 0; k < d->block_size; k++) {
            float v = src[i + k];
            x[k] = v > LARGEST ? LARGEST : v < -LARGEST ? -LARGEST : v;
        }
        encode(x, w ? w + i : alike, block);
    }
    return n;
}

/* ---- q4_0, q5_0, q8_0: a scale --------------------------------------------------------------- */

static void store_f16(uint8_t out[2], float v)
{
    uint16_t h = rx_f32_to_f16(v);
    out[0] = (uint8_t)(h & 255);
    out[1] = (uint8_t)(h >> 8);
}

/* Integers 0 to 15: element i in the low, i + 16 in the high half of byte i. */
static void store_nibbles(uint8_t out[16], const int8_t q[32])
{
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)((q[i] & 15) | (q[i + 16] & 15) << 4);
}

/* Bit 4 of each integer. */
static void store_fifth_bits(uint8_t out[4], const int8_t q[32])
{
    for (int b = 0; b < 4; b++) {
        out[b] = 0;
        for (int i = 0; i < 8; i++)
            out[b] = (uint8_t)(out[b] | (q[8 * b + i] >> 4 & 1) << i);
    }
}

/* Returns d, a value of f16, with the integers in q. */
static float encode_scale(const float *x, const float *w, rx_levels levels, int8_t q[32])
{
    const rx_points p = {x, w, 32};
    float d = rx_polish_scale(p, levels, rx_fit_scale(p, levels));
    rx_round_scale(x, 32, levels, d, q);
    return d;
}

void rx_encode_q4_0(const float *src, const float *w, void *block)
{
    rx_block_q4_0 *b = block;
    int8_t q[32];
    store_f16(b->d, encode_scale(src, w, (rx_levels){-8, 7}, q));
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + 8);
    store_nibbles(b->qs, q);
}

void rx_encode_q5_0(const float *src, const float *w, void *block)
{
    rx_block_q5_0 *b = block;
    int8_t q[32];
    store_f16(b->d, encode_scale(src, w, (rx_levels){-16, 15}, q));
    for (int i = 0; i < 32; i++)
        q[i] = (int8_t)(q[i] + 16);
    store_nibbles(b->qs, q);
    store_fifth_bits(b->qh, q);
}

void rx_encode_q8_0(const float *src, const float *w, void *block)
{
    rx_block_q8_0 *b = block;
    int8_t q[32];
    store_f16(b->d, encode_scale(src, w, (rx_levels){-128, 127}, q));
    for (int i = 0; i < 32; i++)
        b->qs[i] = (uint8_t)q[i];
}

/* ---- q4_1, q5_1: a line ---------------------------------------------------------------------- */

static rx_line encode_line(const float *x, const float *w, int top, int8_t q[32])
{
    const rx_points p = {x, w, 32};
    rx_line l = rx_polish_line(p, top, rx_fit_line(p, top, 0));
    rx_round_line(x, 32, top, l, q);
    return l;
}

void rx_encode_q4_1(const float *src, const float *w, void *block)
{
    rx_block_q4_1 *b = block;
    int8_t q[32];
    rx_line l = encode_line(src, w, 15, q);
    store_f16(b->d, l.d);
    store_f16(b->m, l.m);
    store_nibbles(b->qs, q);
}

void rx_encode_q5_1(const float *src, const float *w, void *block)
{
    rx_block_q5_1 *b = block;
    int8_t q[32];
    rx_line l = encode_line(src, w, 31, q);
    store_f16(b->d, l.d);
    store_f16(b->m, l.m);
    store_nibbles(b->qs, q);
    store_fifth_bits(b->qh, q);
}

/* ---- iq4_nl, mxfp4: levels from a table ------------------------------------------------------ */

typedef struct level_fit {
    float xl, ll, error; /* sums: element * level, level^2, squared error at the scale asked for */
} level_fit;

/* The nearest of 16 rising levels for each of 8 numbers: its number is how many midpoints of
 * neighbouring levels lie at or below. */
static void nearest_levels(const float v[8], const float levels[16], float at[8], int number[8])
{
    for (int i = 0; i < 8; i++) {
        at[i] = levels[0];
        number[i] = 0;
    }
    for (int k = 0; k < 15; k++) {
        const float middle = 0.5f * (levels[k] + levels[k + 1]), step = levels[k + 1] - levels[k];
        for (int i = 0; i < 8; i++) {
            at[i] += v[i] >= middle ? step : 0.0f;
            number[i] += v[i] >= middle;
        }
    }
}

static level_fit fit_levels(const float *x, const float *w, const float levels[16], float d,
                            uint8_t q[32])
{
    const float inv = fabsf(d) > 1e-30f ? 1.0f / d : 0.0f;
    level_fit f = {0};
    for (int i = 0; i < 32; i += 8) {
        float v[8], at[8];
        int number[8];
        for (int k = 0; k < 8; k++)
            v[k] = x[i + k] * inv;
        nearest_levels(v, levels, at, number);
        for (int k = 0; k < 8; k++) {
            float e = x[i + k] - d * at[k];
            const float wl = w[i + k] * at[k];
            f.xl += x[i + k] * wl;
            f.ll += at[k] * wl;
            f.error += w[i + k] * e * e;
            q[i + k] = (uint8_t)number[k];
        }
    }
    return f;
}

static float largest(const float *x)
{
    float best = 0.0f;
    for (int i = 0; i < 32; i++)
        best = fabsf(x[i]) > fabsf(best) ? x[i] : best;
    return best;
}

static void store_codes(uint8_t out[16], const uint8_t q[32])
{
    for (int i = 0; i < 16; i++)
        out[i] = (uint8_t)(q[i] | q[i + 16] << 4);
}

/* The scale whose levels explain most of the sum of squares, among those that put the extreme at
 * 0.8 to 1.2 of either end. */
static float guess_level_scale(const float *x, const float *w, const float levels[16])
{
    const float top = largest(x);
    float best = 0.0f, best_gain = 0.0f;
    uint8_t q[32];
    for (int k = 0; k < 2 * 8; k++) {
        float d = top / (levels[k % 2 ? 15 : 0] * (0.8f + 0.057f * (float)(k / 2)));
        level_fit f = fit_levels(x, w, levels, d, q);
        if (f.xl * f.xl > best_gain * f.ll) {
            best_gain = f.xl * f.xl / f.ll;
            best = f.xl / f.ll;
        }
    }
    return best;
}

void rx_encode_iq4_nl(const float *src, const float *w, void *block)
{
    rx_block_iq4_nl *b = block;
    float levels[16], best = 0.0f;
    uint8_t q[32];
    for (int i = 0; i < 16; i++)
        levels[i] = (float)rx_iq4_levels[i];
    /* no level is 0, only the scale can be */
    float least = fit_levels(src, w, levels, 0.0f, q).error;
    float d = rx_f16_scale(guess_level_scale(src, w, levels));
    for (int turn = 0; turn < 3; turn++) {
        level_fit f = fit_levels(src, w, levels, d, q);
        if (f.error < least) {
            least = f.error;
            best = d;
        }
        d = rx_f16_scale(f.ll > 0.0f ? f.xl / f.ll : 0.0f);
    }
    fit_levels(src, w, levels, best, q);
    store_f16(b->d, best);
    store_codes(b->qs, q);
}

void rx_encode_mxfp4(const float *src, const float *w, void *block)
{
    /* Twice the e2m1 values in rising order, and their codes; -0 is not used. */
    static const float levels[16] = {-12, -8, -6, -4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12, 12};
    static const uint8_t codes[16] = {15, 14, 13, 12, 11, 10, 9, 0, 1, 2, 3, 4, 5, 6, 7, 7};
    rx_block_mxfp4 *b = block;
    uint8_t q[32];
    int exponent = 0;
    frexpf(largest(src), &exponent); /* largest is in [2^(exponent - 1), 2^exponent) */
    float least = INFINITY;
    int best = 0;
    for (int e = exponent + 127 - 4; e <= exponent + 127 + 1; e++) {
        if (e < 0 || e > 254)
            continue;
        float error = fit_levels(src, w, levels, rx_e8m0_half_scale((uint8_t)e), q).error;
        if (error < least) {
            least = error;
            best = e;
        }
    }
    fit_levels(src, w, levels, rx_e8m0_half_scale((uint8_t)best), q);
    for (int i = 0; i < 32; i++)
        q[i] = codes[q[i]];
    b->e = (uint8_t)best;
    store_codes(b->qs, q);
}
