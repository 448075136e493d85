/* SPDX-License-Identifier: MIT */
/* Decoders of the packed types whose elements are points of a fixed lattice: iq1_s, iq1_m, iq2_*
 * and iq3_*. A block has 256 elements. An index names a row of a grid, that is 8 (iq1, iq2) or
 * 4 (iq3) magnitudes; iq2 and iq3 store the signs apart, iq1 has them in the grid and a shift. */
#include "base/quant.h"
#include "base/quant_iq_tables.h"

/* What the fields of a grid row stand for. */
static const uint8_t iq2_levels[4] = {8, 25, 43, 0}; /* field 3 does not occur */
static const uint8_t iq3_xxs_levels[8] = {4, 12, 20, 28, 36, 44, 52, 62};
static const uint8_t iq3_s_levels[8] = {1, 3, 5, 7, 9, 11, 13, 15};

/* 7 stored sign bits give 8: the last makes the number of minus signs even. */
static unsigned even_signs(unsigned bits)
{
    unsigned parity = bits ^ bits >> 4;
    parity ^= parity >> 2;
    parity ^= parity >> 1;
    return bits | (parity & 1) << 7;
}

/* Eight elements d * level * sign; fields of 2 bits in row, bit i of signs set is minus. */
static void put_iq2(float *dst, float d, unsigned row, unsigned signs)
{
    for (int i = 0; i < 8; i++) {
        const float level = (float)iq2_levels[row >> i * 2 & 3];
        dst[i] = d * (signs >> i & 1 ? -level : level);
    }
}

/* Four elements d * level * sign; fields of 3 bits in row, bit i of signs set is minus. */
static void put_iq3(float *dst, float d, const uint8_t levels[8], unsigned row, unsigned signs)
{
    for (int i = 0; i < 4; i++) {
        const float level = (float)levels[row >> i * 3 & 7];
        dst[i] = d * (signs >> i & 1 ? -level : level);
    }
}

/* Eight elements d * (trit + shift); a field of 2 bits in row is trit + 1. */
static void put_iq1(float *dst, float d, unsigned row, float shift)
{
    for (int i = 0; i < 8; i++) {
        dst[i] = d * ((float)((int)(row >> i * 2 & 3) - 1) + shift);
    }
}

/* ---- iq2: d * (scale + 1/2) / 4 * level * sign ----------------------------------------------- */

typedef struct block_iq2_xxs {
    uint8_t d[2]; /* f16 */
    struct {
        uint8_t rows[4];  /* 8 bits of index for each 8 elements */
        uint8_t signs[4]; /* u32: 4 times 7 bits of signs, then a 4-bit scale */
    } groups[8];          /* of 32 elements */
} block_iq2_xxs;
RX_CHECK_BLOCK(IQ2_XXS, block_iq2_xxs);

void rx_decode_iq2_xxs(const void *block, float *dst)
{
    const block_iq2_xxs *b = block;
    const float d = rx_load_f16(b->d);
    for (int g = 0; g < 8; g++) {
        const uint32_t signs = rx_load_u32(b->groups[g].signs);
        const float scale = d * (0.5f + (float)(signs >> 28)) * 0.25f;
        for (int k = 0; k < 4; k++, dst += 8) {
            put_iq2(dst, scale, iq2_xxs_grid[b->groups[g].rows[k]],
                    even_signs(signs >> k * 7 & 127));
        }
    }
}

typedef struct block_iq2_xs {
    uint8_t d[2];      /* f16 */
    uint8_t qs[32][2]; /* u16: 9 bits of index, 7 bits of signs, for each 8 elements */
    uint8_t scales[8]; /* nibbles: one for each 16 elements */
} block_iq2_xs;
RX_CHECK_BLOCK(IQ2_XS, block_iq2_xs);

void rx_decode_iq2_xs(const void *block, float *dst)
{
    const block_iq2_xs *b = block;
    const float d = rx_load_f16(b->d);
    for (int k = 0; k < 32; k++, dst += 8) {
        const int s = b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        const unsigned q = rx_load_u16(b->qs[k]);
        put_iq2(dst, d * (0.5f + (float)s) * 0.25f, iq2_xs_grid[q & 511], even_signs(q >> 9));
    }
}

typedef struct block_iq2_s {
    uint8_t d[2];      /* f16 */
    uint8_t qs[32];    /* bits 0 to 7 of the index, for each 8 elements */
    uint8_t signs[32]; /* 8 bits of signs, for each 8 elements */
    uint8_t qh[8];     /* 2-bit fields: bits 8 and 9 of the index */
    uint8_t scales[8]; /* nibbles: one for each 16 elements */
} block_iq2_s;
RX_CHECK_BLOCK(IQ2_S, block_iq2_s);

void rx_decode_iq2_s(const void *block, float *dst)
{
    const block_iq2_s *b = block;
    const float d = rx_load_f16(b->d);
    for (int k = 0; k < 32; k++, dst += 8) {
        const int s = b->scales[k / 4] >> k / 2 % 2 * 4 & 15;
        const int row = b->qs[k] | (b->qh[k / 4] >> k % 4 * 2 & 3) << 8;
        put_iq2(dst, d * (0.5f + (float)s) * 0.25f, iq2_s_grid[row], b->signs[k]);
    }
}

/* ---- iq3 ------------------------------------------------------------------------------------- */

/* d * (scale + 1/2) / 2 * level * sign */
typedef struct block_iq3_xxs {
    uint8_t d[2];        /* f16 */
    uint8_t qs[64];      /* index, for each 4 elements */
    uint8_t signs[8][4]; /* u32 for each 32 elements: as in iq2_xxs */
} block_iq3_xxs;
RX_CHECK_BLOCK(IQ3_XXS, block_iq3_xxs);

void rx_decode_iq3_xxs(const void *block, float *dst)
{
    const block_iq3_xxs *b = block;
    const float d = rx_load_f16(b->d);
    for (int k = 0; k < 32; k++, dst += 8) {
        const uint32_t packed = rx_load_u32(b->signs[k / 4]);
        const float scale = d * (0.5f + (float)(packed >> 28)) * 0.5f;
        const unsigned signs = even_signs(packed >> k % 4 * 7 & 127);
        put_iq3(dst, scale, iq3_xxs_levels, iq3_xxs_grid[b->qs[2 * k]], signs);
        put_iq3(dst + 4, scale, iq3_xxs_levels, iq3_xxs_grid[b->qs[2 * k + 1]], signs >> 4);
    }
}

/* d * (2 * scale + 1) * level * sign */
typedef struct block_iq3_s {
    uint8_t d[2];      /* f16 */
    uint8_t qs[64];    /* bits 0 to 7 of the index, for each 4 elements */
    uint8_t qh[8];     /* bit 8 of the index */
    uint8_t signs[32]; /* 8 bits of signs, for each 8 elements */
    uint8_t scales[4]; /* nibbles: one for each 32 elements */
} block_iq3_s;
RX_CHECK_BLOCK(IQ3_S, block_iq3_s);

void rx_decode_iq3_s(const void *block, float *dst)
{
    const block_iq3_s *b = block;
    const float d = rx_load_f16(b->d);
    for (int k = 0; k < 64; k++, dst += 4) {
        const int s = b->scales[k / 16] >> k / 8 % 2 * 4 & 15;
        const int row = b->qs[k] | (b->qh[k / 8] >> k % 8 & 1) << 8;
        put_iq3(dst, d * (float)(2 * s + 1), iq3_s_levels, iq3_s_grid[row],
                b->signs[k / 2] >> k % 2 * 4);
    }
}

/* ---- iq1: d * (2 * scale + 1) * (trit + shift), shift 1/8 or -1/8 ---------------------------- */

typedef struct block_iq1_s {
    uint8_t d[2];     /* f16 */
    uint8_t qs[32];   /* bits 0 to 7 of the index, for each 8 elements */
    uint8_t qh[8][2]; /* u16 for each 32: 4 times bits 8 to 10 of the index, scale, shift */
} block_iq1_s;
RX_CHECK_BLOCK(IQ1_S, block_iq1_s);

void rx_decode_iq1_s(const void *block, float *dst)
{
    const block_iq1_s *b = block;
    const float d = rx_load_f16(b->d);
    for (int k = 0; k < 32; k++, dst += 8) {
        const int qh = rx_load_u16(b->qh[k / 4]);
        const int row = b->qs[k] | (qh >> k % 4 * 3 & 7) << 8;
        const float scale = d * (float)(2 * (qh >> 12 & 7) + 1);
        put_iq1(dst, scale, iq1_grid[row], qh & 0x8000 ? -0.125f : 0.125f);
    }
}

typedef struct block_iq1_m {
    uint8_t qs[32];       /* bits 0 to 7 of the index, for each 8 elements */
    uint8_t qh[16];       /* nibbles for each 8: bits 8 to 10 of the index, 1 of shift */
    uint8_t scales[4][2]; /* u16 for each 64: 4 times 3 bits of scale, then 4 bits of the f16 d */
} block_iq1_m;
RX_CHECK_BLOCK(IQ1_M, block_iq1_m);

void rx_decode_iq1_m(const void *block, float *dst)
{
    const block_iq1_m *b = block;
    unsigned d_bits = 0;
    for (int i = 0; i < 4; i++) d_bits |= (unsigned)(b->scales[i][1] >> 4) << i * 4;
    const float d = rx_f16_to_f32((uint16_t)d_bits);
    for (int k = 0; k < 32; k++, dst += 8) {
        const int qh = b->qh[k / 2] >> k % 2 * 4;
        const int row = b->qs[k] | (qh & 7) << 8;
        const int s = rx_load_u16(b->scales[k / 8]) >> k / 2 % 4 * 3 & 7;
        put_iq1(dst, d * (float)(2 * s + 1), iq1_grid[row], qh & 8 ? -0.125f : 0.125f);
    }
}
