/* SPDX-License-Identifier: MIT */
/* Small floating-point formats as bit patterns: f16, bf16 and the scale and element formats of the
 * packed blocks (e8m0, ue4m3, e2m1). Every narrowing rounds once, to nearest even; overflow gives
 * infinity; NaN stays NaN, becomes quiet and keeps the upper bits of its payload. */
#ifndef RX_BASE_HALF_H
#define RX_BASE_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t rx_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

static inline float rx_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* Rounds a double to the IEEE format of 1 sign, exp_bits and man_bits bits: one rounding, correct
 * to half a unit in the last place of that format. */
static inline uint32_t rx_f64_to_small(double x, int exp_bits, int man_bits)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    const uint64_t man_mask = ((uint64_t)1 << 52) - 1;
    const uint32_t sign = (uint32_t)(u >> 63) << (exp_bits + man_bits);
    const uint32_t inf = ((1u << exp_bits) - 1) << man_bits;
    const uint64_t mag = u & ~((uint64_t)1 << 63);

    if (mag > (uint64_t)0x7ff << 52) {
        uint32_t payload = (uint32_t)((mag & man_mask) >> (52 - man_bits));
        return sign | inf | 1u << (man_bits - 1) | payload;
    }
    int e = (int)(mag >> 52) - 1023 + (1 << (exp_bits - 1)) - 1;
    if (e >= (1 << exp_bits) - 1) return sign | inf;
    int shift = 52 - man_bits;
    if (e < 1) { /* subnormal in the small format: the unit of exponent 1, fewer bits */
        shift += 1 - e;
        e = 1;
    }
    if (shift > 53) return sign; /* less than half of the smallest subnormal */

    /* A double that is subnormal itself has been returned as zero: the leading bit is there. */
    uint64_t man = (mag & man_mask) | (uint64_t)1 << 52;
    uint64_t q = man >> shift;
    uint64_t rest = man & (((uint64_t)1 << shift) - 1);
    uint64_t half = (uint64_t)1 << (shift - 1);
    q += rest > half || (rest == half && (q & 1));
    /* The leading bit of q adds one to the exponent, and so does a carry, up to infinity. */
    return sign | (uint32_t)(q + ((uint64_t)(e - 1) << man_bits));
}

static inline uint16_t rx_f64_to_f16(double x)
{
    return (uint16_t)rx_f64_to_small(x, 5, 10);
}

static inline uint16_t rx_f64_to_bf16(double x)
{
    return (uint16_t)rx_f64_to_small(x, 8, 7);
}

static inline float rx_f64_to_f32(double x)
{
    return (float)x;
}

static inline uint16_t rx_f32_to_f16(float x)
{
    return rx_f64_to_f16((double)x); /* widening is exact, so this still rounds once */
}

static inline float rx_f16_to_f32(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t exp = h >> 10 & 31, man = h & 0x3ff;

    if (exp == 31) return rx_f32_from_bits(sign | 0x7f800000 | man << 13 | (man ? 1u << 22 : 0));
    if (exp > 0) return rx_f32_from_bits(sign | (exp + 112) << 23 | man << 13);
    float mag = (float)man * 0x1p-24f; /* exact, and normal in f32 */
    return rx_f32_from_bits(sign | rx_f32_bits(mag));
}

static inline uint16_t rx_f32_to_bf16(float x)
{
    uint32_t u = rx_f32_bits(x);
    if ((u & 0x7fffffff) > 0x7f800000) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static inline float rx_bf16_to_f32(uint16_t h)
{
    uint32_t quiet = (h & 0x7fff) > 0x7f80 ? 0x40 : 0;
    return rx_f32_from_bits((h | quiet) << 16);
}

/* The block formats multiply integers, twice the e2m1 value, by half of the scale; halving keeps
 * the largest e8m0 scale finite. So the functions below return scale / 2 and value * 2. */

/* e8m0: 2^(x - 127) / 2, a subnormal for x < 2. No code is a NaN in GGUF: 255 is 2^127. */
static inline float rx_e8m0_half_scale(uint8_t x)
{
    uint32_t bits = x < 2 ? (uint32_t)0x00200000 << x : (uint32_t)(x - 1) << 23;
    return rx_f32_from_bits(bits);
}

/* ue4m3: 4 exponent bits of bias 7 and 3 of mantissa, over 2. Bit 7 is ignored; 0x7f, the NaN of
 * e4m3, is 0 in GGUF. */
static inline float rx_ue4m3_half_scale(uint8_t x)
{
    if (x == 0x7f) return 0.0f;
    const uint32_t exp = x >> 3 & 15, man = x & 7;
    if (exp == 0) return (float)man * 0x1p-10f;
    return rx_f32_from_bits((exp + 119) << 23 | man << 20);
}

/* e2m1 (fp4): 0 1 2 3 4 6 8 12, then the same negated; code 8 is +0 as an integer. */
static inline int rx_e2m1_twice(unsigned x)
{
    const unsigned exp = x >> 1 & 3, man = x & 1;
    const int mag = (int)(exp ? (2 | man) << (exp - 1) : man);
    return x & 8 ? -mag : mag;
}

#endif
