/* SPDX-License-Identifier: MIT */
/* Functions on f32 without branches or calls, so that loops over them are vectorised. */
#ifndef RX_CPU_GENERIC_MATH_H
#define RX_CPU_GENERIC_MATH_H

#include <math.h>
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

/* exp(r) for |r| <= ln 2 / 2 by its series, where x = n ln 2 + r. */
static inline float rx_lane_exp_rest(float x, float n)
{
    const float r = (x - n * 0x1.62e4p-1f) - n * 0x1.7f7d1cp-20f;
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    return p * r + 1.0f;
}

/* exp(x) to about 1.5 units in the last place; 0, infinity and NaN as in the C library. 2^n in two
 * factors, so that results near the ends of the range neither overflow nor vanish too early. */
static inline float rx_lane_exp(float x)
{
    const float shift = 0x1.8p23f; /* adding it rounds to an integer, held in the low bits */
    const float above = rx_lane_select(x < -104.0f, -104.0f, x);
    const float c = rx_lane_select(above > 89.0f, 89.0f, above);
    const float t = c * 0x1.715476p0f + shift;
    const int32_t k = (int32_t)(rx_f32_bits(t) - rx_f32_bits(shift)), half = k >> 1;
    const float scale = rx_f32_from_bits((uint32_t)(half + 127) << 23);
    return rx_lane_exp_rest(c, t - shift) * scale *
           rx_f32_from_bits((uint32_t)(k - half + 127) << 23);
}

/* exp(-|x|) 2^32, for factors of results that are normal where the exponential is not; 0 from 110
 * on, where the factor 2^(n + 32) has no bits left. */
static inline float rx_lane_exp_up(float x)
{
    const float shift = 0x1.8p23f, all = fabsf(x);
    const float c = -rx_lane_select(all > 110.0f, 110.0f, all);
    const float t = c * 0x1.715476p0f + shift;
    return rx_lane_exp_rest(c, t - shift) *
           rx_f32_from_bits((rx_f32_bits(t) + 127 + 32) << 23);
}
#define RX_LANE_EXP_DOWN 0x1p-32f

/* 1 / (1 + exp(-x)) without overflow. */
static inline float rx_lane_sigmoid(float x)
{
    const float e = rx_lane_exp_up(x) * RX_LANE_EXP_DOWN;
    return rx_lane_select(x < 0, e, 1.0f) / (1.0f + e);
}

/* x / (1 + exp(-u)) where u has the sign of x; below 0 x exp(u) / (1 + exp(u)). */
static inline float rx_lane_times_sigmoid(float x, float u)
{
    const float e = rx_lane_exp_up(u);
    return rx_lane_select(x < 0, x * e * RX_LANE_EXP_DOWN, x) / (1.0f + e * RX_LANE_EXP_DOWN);
}

static inline float rx_lane_silu(float x)
{
    return rx_lane_times_sigmoid(x, x);
}

/* x tanh(softplus(x)) without overflow, where tanh(log(1 + t)) = ((1 + t)^2 - 1) / ((1 + t)^2 + 1)
 * with t = exp(x), divided by t^2 above 0. */
static inline float rx_lane_mish(float x)
{
    const float scaled = rx_lane_exp_up(x), e = scaled * RX_LANE_EXP_DOWN;
    const float up = x * (1 + 2 * e) / (1 + 2 * e + 2 * e * e);
    const float low = x * scaled * (e + 2) * RX_LANE_EXP_DOWN / (e * (e + 2) + 2);
    return rx_lane_select(x > 0, up, low);
}

/* x Phi(x), where Phi(-a) = exp(-a^2 / 2) r(a), r a quotient of polynomials. */
static inline float rx_lane_gelu(float x)
{
    const float all = fabsf(x), a = rx_lane_select(all > 14.83f, 14.83f, all);
    float p = 0x1.102db0p-8f, q = 0x1.551f1ap-7f;
    p = p * a + 0x1.4ee472p-5f;
    q = q * a + 0x1.a3c016p-4f;
    p = p * a + 0x1.78c3c0p-3f;
    q = q * a + 0x1.e2b790p-2f;
    p = p * a + 0x1.c1d2d6p-2f;
    q = q * a + 0x1.349e46p0f;
    p = p * a + 0.5f;
    q = q * a + 0x1.ad2b9cp0f;
    q = q * a + 1.0f;
    const float tail = p / q * rx_lane_exp_up(a * a * 0.5f);
    return rx_lane_select(x < 0, x * tail * RX_LANE_EXP_DOWN, x * (1.0f - tail * RX_LANE_EXP_DOWN));
}

/* x / (1 + exp(-2 u)) with u = sqrt(2 / pi) (x + 0.044715 x^3). */
static inline float rx_lane_gelu_tanh(float x)
{
    const float c = 0x1.988454p0f, c3 = 0.044715f * 0x1.988454p0f;
    return rx_lane_times_sigmoid(x, x * (c + c3 * (x * x)));
}

#endif
