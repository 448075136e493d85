/* SPDX-License-Identifier: MIT */
/* Decoders of the packed block types of GGUF files. A block is little-endian and need not be
 * aligned. Each decoder is the definition of its type: fast kernels are compared with it. */
#ifndef RX_BASE_QUANT_H
#define RX_BASE_QUANT_H

#include "base/dtype.h"
#include "base/half.h"

/* Decodes one block of the type's block_bytes into block_size floats. */
typedef void rx_decode_fn(const void *block, float *dst);

#define X(ID, NAME, SIZE, BYTES, GGUF) rx_decode_fn rx_decode_##NAME;
RX_PACKED_DTYPES(X)
#undef X

/* The decoder of a packed type, NULL for any other type. */
rx_decode_fn *rx_decoder(rlx_dtype t);

/* Decodes n elements of a packed type; n is a multiple of its block size. */
void rx_decode_row(rlx_dtype t, const void *src, float *dst, int64_t n);

/* The 16 levels of iq4_nl and iq4_xs, in units of the scale. */
extern const int8_t rx_iq4_levels[16];

static inline uint16_t rx_load_u16(const uint8_t *p)
{
    return (uint16_t)(p[0] | p[1] << 8);
}

static inline uint32_t rx_load_u32(const uint8_t *p)
{
    return rx_load_u16(p) | (uint32_t)rx_load_u16(p + 2) << 16;
}

static inline float rx_load_f16(const uint8_t *p)
{
    return rx_f16_to_f32(rx_load_u16(p));
}

/* Sizes of the table as constants. */
enum {
#define X(ID, NAME, SIZE, BYTES, GGUF) RX_BLOCK_BYTES_##ID = BYTES,
    RX_PACKED_DTYPES(X)
#undef X
};

/* The structs that describe blocks hold bytes only, so they have no padding and no alignment; this
 * ties their sizes to the table of types. */
#define RX_CHECK_BLOCK(ID, STRUCT) \
    _Static_assert(sizeof(STRUCT) == RX_BLOCK_BYTES_##ID, #STRUCT " has the size of the table")

#endif
