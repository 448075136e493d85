/* SPDX-License-Identifier: MIT */
/* Decoders of the packed types with one scale for 16 or 32 elements (q4_0 to q8_0, iq4_nl, mxfp4,
 * nvfp4) and the entry points for all packed types. In these blocks byte i of a group of nibbles
 * holds element i in its low half and element i + (bytes of the group) in its high half. */
#include "base/quant.h"

#include <assert.h>

#include "base/quant_blocks.h"

const int8_t rx_iq4_levels[16] = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
};

/* ---- Dispatch ----------------------------------------------------------------------------- */

static rx_decode_fn *const decoders[RLX_N_DTYPES] = {
#define X(ID, NAME, SIZE, BYTES, GGUF) [RLX_##ID] = rx_decode_##NAME,
    RX_PACKED_DTYPES(X)
#undef X
};

rx_decode_fn *rx_decoder(rlx_dtype t)
{
    return (unsigned)t < RLX_N_DTYPES ? decoders[t] : NULL;
}

void rx_decode_row(rlx_dtype t, const void *src, float *dst, int64_t n)
{
    rx_decode_fn *decode = rx_decoder(t);
    const rx_dtype_desc *d = rx_dtype_info(t);
    assert(decode && n % d->block_size == 0);
    const uint8_t *block = src;
    for (int64_t i = 0; i < n; i += d->block_size, block += d->block_bytes) decode(block, dst + i);
}

/* ---- q4_0, q4_1, q5_0, q5_1, q8_0: 32 elements ---------------------------------------------- */

void rx_decode_q4_0(const void *block, float *dst)
{
    const rx_block_q4_0 *b = block;
    const float d = rx_load_f16(b->d);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)((b->qs[i] & 15) - 8);
        dst[i + 16] = d * (float)((b->qs[i] >> 4) - 8);
    }
}

void rx_decode_q4_1(const void *block, float *dst)
{
    const rx_block_q4_1 *b = block;
    const float d = rx_load_f16(b->d), m = rx_load_f16(b->m);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)(b->qs[i] & 15) + m;
        dst[i + 16] = d * (float)(b->qs[i] >> 4) + m;
    }
}

void rx_decode_q5_0(const void *block, float *dst)
{
    const rx_block_q5_0 *b = block;
    const float d = rx_load_f16(b->d);
    const uint32_t qh = rx_load_u32(b->qh);
    for (int i = 0; i < 16; i++) {
        int lo = (int)((b->qs[i] & 15) | (qh >> i & 1) << 4);
        int hi = (int)(b->qs[i] >> 4 | (qh >> (i + 16) & 1) << 4);
        dst[i] = d * (float)(lo - 16);
        dst[i + 16] = d * (float)(hi - 16);
    }
}

void rx_decode_q5_1(const void *block, float *dst)
{
    const rx_block_q5_1 *b = block;
    const float d = rx_load_f16(b->d), m = rx_load_f16(b->m);
    const uint32_t qh = rx_load_u32(b->qh);
    for (int i = 0; i < 16; i++) {
        int lo = (int)((b->qs[i] & 15) | (qh >> i & 1) << 4);
        int hi = (int)(b->qs[i] >> 4 | (qh >> (i + 16) & 1) << 4);
        dst[i] = d * (float)lo + m;
        dst[i + 16] = d * (float)hi + m;
    }
}

void rx_decode_q8_0(const void *block, float *dst)
{
    const rx_block_q8_0 *b = block;
    const float d = rx_load_f16(b->d);
    for (int i = 0; i < 32; i++) dst[i] = d * (float)(int8_t)b->qs[i];
}

/* ---- iq4_nl, mxfp4: 32 elements; nvfp4: 64 -------------------------------------------------- */

void rx_decode_iq4_nl(const void *block, float *dst)
{
    const rx_block_iq4_nl *b = block;
    const float d = rx_load_f16(b->d);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)rx_iq4_levels[b->qs[i] & 15];
        dst[i + 16] = d * (float)rx_iq4_levels[b->qs[i] >> 4];
    }
}

void rx_decode_mxfp4(const void *block, float *dst)
{
    const rx_block_mxfp4 *b = block;
    const float d = rx_e8m0_half_scale(b->e);
    for (int i = 0; i < 16; i++) {
        dst[i] = d * (float)rx_e2m1_twice(b->qs[i] & 15);
        dst[i + 16] = d * (float)rx_e2m1_twice(b->qs[i] >> 4);
    }
}

/* four groups of 16 e2m1 elements, each times its own scale */
typedef struct block_nvfp4 {
    uint8_t d[4];     /* ue4m3, one for a group */
    uint8_t qs[4][8]; /* nibbles: e2m1 */
} block_nvfp4;
RX_CHECK_BLOCK(NVFP4, block_nvfp4);

void rx_decode_nvfp4(const void *block, float *dst)
{
    const block_nvfp4 *b = block;
    for (int g = 0; g < 4; g++, dst += 16) {
        const float d = rx_ue4m3_half_scale(b->d[g]);
        for (int i = 0; i < 8; i++) {
            dst[i] = d * (float)rx_e2m1_twice(b->qs[g][i] & 15);
            dst[i + 8] = d * (float)rx_e2m1_twice(b->qs[g][i] >> 4);
        }
    }
}
