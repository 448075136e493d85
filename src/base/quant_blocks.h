/* SPDX-License-Identifier: MIT */
/* The layout of the packed blocks that can be both decoded and encoded, with the value of an
 * element above each. All members are bytes, little-endian. */
#ifndef RX_BASE_QUANT_BLOCKS_H
#define RX_BASE_QUANT_BLOCKS_H

#include "base/quant.h"

/* d * (q - 8) */
typedef struct rx_block_q4_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* nibbles */
} rx_block_q4_0;
RX_CHECK_BLOCK(Q4_0, rx_block_q4_0);

/* d * q + m */
typedef struct rx_block_q4_1 {
    uint8_t d[2], m[2]; /* f16 */
    uint8_t qs[16];     /* nibbles */
} rx_block_q4_1;
RX_CHECK_BLOCK(Q4_1, rx_block_q4_1);

/* d * (q - 16) */
typedef struct rx_block_q5_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qh[4];  /* u32: bit i is bit 4 of element i */
    uint8_t qs[16]; /* nibbles: bits 0 to 3 */
} rx_block_q5_0;
RX_CHECK_BLOCK(Q5_0, rx_block_q5_0);

/* d * q + m */
typedef struct rx_block_q5_1 {
    uint8_t d[2], m[2]; /* f16 */
    uint8_t qh[4];      /* u32: bit i is bit 4 of element i */
    uint8_t qs[16];     /* nibbles: bits 0 to 3 */
} rx_block_q5_1;
RX_CHECK_BLOCK(Q5_1, rx_block_q5_1);

/* d * q */
typedef struct rx_block_q8_0 {
    uint8_t d[2];   /* f16 */
    uint8_t qs[32]; /* i8 */
} rx_block_q8_0;
RX_CHECK_BLOCK(Q8_0, rx_block_q8_0);

/* d * level[q] */
typedef struct rx_block_iq4_nl {
    uint8_t d[2];   /* f16 */
    uint8_t qs[16]; /* nibbles */
} rx_block_iq4_nl;
RX_CHECK_BLOCK(IQ4_NL, rx_block_iq4_nl);

/* e2m1 elements times a power of two (OCP Microscaling Formats, version 1.0) */
typedef struct rx_block_mxfp4 {
    uint8_t e;      /* e8m0 */
    uint8_t qs[16]; /* nibbles: e2m1 */
} rx_block_mxfp4;
RX_CHECK_BLOCK(MXFP4, rx_block_mxfp4);

/* The 2-bit fields of a block of 256: byte 32 * h + i holds elements 128 * h + 32 * k + i at bit
 * 2 * k. Group g of 16 lies in 16 bytes from rx_crumb_byte(g), at bit rx_crumb_shift(g). */
static inline int rx_crumb_byte(int g)
{
    return g / 8 * 32 + g % 2 * 16;
}

static inline int rx_crumb_shift(int g)
{
    return g / 2 % 4 * 2;
}

/* d * scale * q - dmin * min */
typedef struct rx_block_q2_k {
    uint8_t scales[16];    /* scale in the low nibble, min in the high one */
    uint8_t qs[64];        /* 2-bit fields */
    uint8_t d[2], dmin[2]; /* f16 */
} rx_block_q2_k;
RX_CHECK_BLOCK(Q2_K, rx_block_q2_k);

/* d * (scale - 32) * (q - 4) */
typedef struct rx_block_q3_k {
    uint8_t hmask[32];  /* bit k of byte i is bit 2 of element 32 * k + i */
    uint8_t qs[64];     /* 2-bit fields: bits 0 and 1 */
    uint8_t scales[12]; /* 6 bits each, see q3_k_scale in quant_k.c */
    uint8_t d[2];       /* f16 */
} rx_block_q3_k;
RX_CHECK_BLOCK(Q3_K, rx_block_q3_k);

/* d * scale * q - dmin * min */
typedef struct rx_block_q4_k {
    uint8_t d[2], dmin[2]; /* f16 */
    uint8_t scales[12];    /* 6 bits each, see scale_and_min in quant_k.c */
    uint8_t qs[4][32];     /* groups 2k and 2k + 1 in the low and high nibbles of row k */
} rx_block_q4_k;
RX_CHECK_BLOCK(Q4_K, rx_block_q4_k);

/* d * scale * q - dmin * min */
typedef struct rx_block_q5_k {
    uint8_t d[2], dmin[2]; /* f16 */
    uint8_t scales[12];    /* 6 bits each, see scale_and_min in quant_k.c */
    uint8_t qh[32];        /* bit g of byte i is bit 4 of element i of group g */
    uint8_t qs[4][32];     /* bits 0 to 3, as in q4_k */
} rx_block_q5_k;
RX_CHECK_BLOCK(Q5_K, rx_block_q5_k);

/* d * scale * (q - 32), groups of 16 */
typedef struct rx_block_q6_k {
    uint8_t ql[2][64];  /* half h: runs of 32 number 0, 1 in the low, 2, 3 in the high nibbles */
    uint8_t qh[2][32];  /* half h: bits 4 and 5 of run r at bit 2 * r */
    uint8_t scales[16]; /* i8 */
    uint8_t d[2];       /* f16 */
} rx_block_q6_k;
RX_CHECK_BLOCK(Q6_K, rx_block_q6_k);

#endif
