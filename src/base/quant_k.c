/* SPDX-License-Identifier: MIT */
/* Decoders of the packed types with two levels of scales over 256 elements (q2_k to q8_k, iq4_xs)
 * and of the ternary types (tq1_0, tq2_0). A block is cut into groups of 16 or 32 elements, each
 * with a small integer scale that is a factor of the block's own scale d. */
#include "base/quant.h"

#include "base/quant_blocks.h"

/* ---- q2_k, q3_k: groups of 16 ---------------------------------------------------------------- */

void rx_decode_q2_k(const void *block, float *dst)
{
    const rx_block_q2_k *b = block;
    const float d = rx_load_f16(b->d), dmin = rx_load_f16(b->dmin);
    for (int g = 0; g < 16; g++, dst += 16) {
        const float scale = d * (float)(b->scales[g] & 15);
        const float min = dmin * (float)(b->scales[g] >> 4);
        const uint8_t *qs = b->qs + rx_crumb_byte(g);
        for (int i = 0; i < 16; i++) {
            dst[i] = scale * (float)(qs[i] >> rx_crumb_shift(g) & 3) - min;
        }
    }
}

/* Bits 0 to 3 are nibbles of bytes 0 to 7, bits 4 and 5 are 2-bit fields of bytes 8 to 11. */
static int q3_k_scale(const uint8_t scales[12], int g)
{
    int low = scales[g % 8] >> g / 8 * 4 & 15;
    int high = scales[8 + g % 4] >> g / 4 * 2 & 3;
    return low | high << 4;
}

void rx_decode_q3_k(const void *block, float *dst)
{
    const rx_block_q3_k *b = block;
    const float d = rx_load_f16(b->d);
    for (int g = 0; g < 16; g++, dst += 16) {
        const float scale = d * (float)(q3_k_scale(b->scales, g) - 32);
        const uint8_t *qs = b->qs + rx_crumb_byte(g);
        const uint8_t *hmask = b->hmask + g % 2 * 16;
        for (int i = 0; i < 16; i++) {
            int q = (qs[i] >> rx_crumb_shift(g) & 3) | (hmask[i] >> g / 2 & 1) << 2;
            dst[i] = scale * (float)(q - 4);
        }
    }
}

/* ---- q4_k, q5_k: groups of 32 ---------------------------------------------------------------- */

/* The 6-bit scale and min of group g of 8: whole in bytes g and g + 4 for g < 4; above, bits 0 to 3
 * are the nibbles of byte g + 4, bits 4 and 5 the bits that the first four leave over. */
static void scale_and_min(const uint8_t packed[12], int g, float *scale, float *min)
{
    if (g < 4) {
        *scale = (float)(packed[g] & 63);
        *min = (float)(packed[g + 4] & 63);
        return;
    }
    *scale = (float)((packed[g + 4] & 15) | packed[g - 4] >> 6 << 4);
    *min = (float)(packed[g + 4] >> 4 | packed[g] >> 6 << 4);
}

void rx_decode_q4_k(const void *block, float *dst)
{
    const rx_block_q4_k *b = block;
    const float d = rx_load_f16(b->d), dmin = rx_load_f16(b->dmin);
    for (int g = 0; g < 8; g++, dst += 32) {
        float scale, min;
        scale_and_min(b->scales, g, &scale, &min);
        scale *= d;
        min *= dmin;
        for (int i = 0; i < 32; i++) {
            dst[i] = scale * (float)(b->qs[g / 2][i] >> g % 2 * 4 & 15) - min;
        }
    }
}

void rx_decode_q5_k(const void *block, float *dst)
{
    const rx_block_q5_k *b = block;
    const float d = rx_load_f16(b->d), dmin = rx_load_f16(b->dmin);
    for (int g = 0; g < 8; g++, dst += 32) {
        float scale, min;
        scale_and_min(b->scales, g, &scale, &min);
        scale *= d;
        min *= dmin;
        for (int i = 0; i < 32; i++) {
            int q = (b->qs[g / 2][i] >> g % 2 * 4 & 15) | (b->qh[i] >> g & 1) << 4;
            dst[i] = scale * (float)q - min;
        }
    }
}

/* ---- q6_k, q8_k ------------------------------------------------------------------------------ */

void rx_decode_q6_k(const void *block, float *dst)
{
    const rx_block_q6_k *b = block;
    const float d = rx_load_f16(b->d);
    for (int g = 0; g < 16; g++, dst += 16) {
        const float scale = d * (float)(int8_t)b->scales[g];
        const int half = g / 8, run = g / 2 % 4, at = g % 2 * 16;
        const uint8_t *ql = b->ql[half] + run % 2 * 32 + at;
        const uint8_t *qh = b->qh[half] + at;
        for (int i = 0; i < 16; i++) {
            int q = (ql[i] >> run / 2 * 4 & 15) | (qh[i] >> run * 2 & 3) << 4;
            dst[i] = scale * (float)(q - 32);
        }
    }
}

/* d * q */
typedef struct block_q8_k {
    uint8_t d[4];      /* f32 */
    uint8_t qs[256];   /* i8 */
    uint8_t sums[32];  /* i16: sum of each group of 16, for dot products; not needed to decode */
} block_q8_k;
RX_CHECK_BLOCK(Q8_K, block_q8_k);

void rx_decode_q8_k(const void *block, float *dst)
{
    const block_q8_k *b = block;
    const float d = rx_f32_from_bits(rx_load_u32(b->d));
    for (int i = 0; i < 256; i++) dst[i] = d * (float)(int8_t)b->qs[i];
}

/* ---- iq4_xs ---------------------------------------------------------------------------------- */

/* d * (scale - 32) * level[q], groups of 32 */
typedef struct block_iq4_xs {
    uint8_t d[2];        /* f16 */
    uint8_t scales_h[2]; /* u16: bits 4 and 5 of the scale of group g at bit 2 * g */
    uint8_t scales_l[4]; /* nibbles: bits 0 to 3 */
    uint8_t qs[8][16];   /* group g: elements 0 to 15 in the low, 16 to 31 in the high nibbles */
} block_iq4_xs;
RX_CHECK_BLOCK(IQ4_XS, block_iq4_xs);

void rx_decode_iq4_xs(const void *block, float *dst)
{
    const block_iq4_xs *b = block;
    const float d = rx_load_f16(b->d);
    const int high = rx_load_u16(b->scales_h);
    for (int g = 0; g < 8; g++, dst += 32) {
        int scale = (b->scales_l[g / 2] >> g % 2 * 4 & 15) | (high >> g * 2 & 3) << 4;
        const float dl = d * (float)(scale - 32);
        for (int i = 0; i < 16; i++) {
            dst[i] = dl * (float)rx_iq4_levels[b->qs[g][i] & 15];
            dst[i + 16] = dl * (float)rx_iq4_levels[b->qs[g][i] >> 4];
        }
    }
}

/* ---- tq1_0, tq2_0: elements -d, 0, d --------------------------------------------------------- */

/* A byte holds up to 5 base-3 digits as the fraction byte / 256, rounded up: times 3^k the fraction
 * is moved so that digit k leads, times 3 again its integer part is the digit. Digit k of n bytes
 * are the elements n * k to n * k + n - 1. */
static float *decode_trits(const uint8_t *bytes, int n, int n_digits, float d, float *dst)
{
    uint8_t power = 1;
    for (int k = 0; k < n_digits; k++, power = (uint8_t)(power * 3)) {
        for (int i = 0; i < n; i++) {
            uint8_t fraction = (uint8_t)(bytes[i] * power);
            *dst++ = d * (float)((fraction * 3 >> 8) - 1);
        }
    }
    return dst;
}

typedef struct block_tq1_0 {
    uint8_t qs[48]; /* 5 digits each: 32 bytes, then 16 */
    uint8_t qh[4];  /* 4 digits each */
    uint8_t d[2];   /* f16 */
} block_tq1_0;
RX_CHECK_BLOCK(TQ1_0, block_tq1_0);

void rx_decode_tq1_0(const void *block, float *dst)
{
    const block_tq1_0 *b = block;
    const float d = rx_load_f16(b->d);
    dst = decode_trits(b->qs, 32, 5, d, dst);
    dst = decode_trits(b->qs + 32, 16, 5, d, dst);
    decode_trits(b->qh, 4, 4, d, dst);
}

/* d * (q - 1) */
typedef struct block_tq2_0 {
    uint8_t qs[64]; /* 2-bit fields, as in q2_k */
    uint8_t d[2];   /* f16 */
} block_tq2_0;
RX_CHECK_BLOCK(TQ2_0, block_tq2_0);

void rx_decode_tq2_0(const void *block, float *dst)
{
    const block_tq2_0 *b = block;
    const float d = rx_load_f16(b->d);
    for (int g = 0; g < 16; g++, dst += 16) {
        const uint8_t *qs = b->qs + rx_crumb_byte(g);
        for (int i = 0; i < 16; i++) {
            dst[i] = d * (float)((qs[i] >> rx_crumb_shift(g) & 3) - 1);
        }
    }
}
