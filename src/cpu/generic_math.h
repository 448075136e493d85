/* SPDX-License-Identifier: MIT */
/* Functions on f32 without branches or calls, so that loops over them are vectorised. */
#ifndef RX_CPU_GENERIC_MATH_H
#define RX_CPU_GENERIC_MATH_H

#include <stdbool.h>

#include "base/half.h"

/* first ? a : b, in a form that compilers do not turn into a jump. */
static inline uint32_t rx_select_bits(bool first, uint32_t a, uint32_t b)
{
    const uint32_t mask = 0u - (uint32_t)first;
    return (a & mask) | (b & ~mask);
}

static inline float rx_lane_select(bool first, float a, float b)
{
    return rx_f32_from_bits(rx_select_bits(first, rx_f32_bits(a), rx_f32_bits(b)));
}

/* exp(x) to about 1.5 units in the last place; 0, infinity and NaN as in the C library.
 * x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its series, 2^n in two factors so that results
 * near the ends of the range neither overflow nor vanish too early. */
static inline float rx_lane_exp(float x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, held in the low bits */
    const float above = rx_lane_select(x < -104.0f, -104.0f, x);
    const float c = rx_lane_select(above > 89.0f, 89.0f, above);
    const float t = c * 0x1.715476p0f + shift;
    const float n = t - shift;
    const float r = (c - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    const int32_t k = (int32_t)(rx_f32_bits(t) - rx_f32_bits(shift)), half = k >> 1;
    const float scale = rx_f32_from_bits((uint32_t)(half + 127) << 23);
    return p * scale * rx_f32_from_bits((uint32_t)(k - half + 127) << 23);
}

#endif
