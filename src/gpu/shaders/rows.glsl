/* SPDX-License-Identifier: MIT */
/* Softmax and norms: what row_stats.comp, row_apply.comp and rows.comp share.
 *
 * x is [outer, n, inner], row = o * inner + j, all of type TX, and for each row
 *   softmax      y = exp(x - max) / sum         stats = (max, sum of exp(x - max))
 *   log_softmax  y = x - max - log(sum)         the same
 *   norm         y = (x - mean) * r * g + b     stats = (mean, r = 1 / sqrt(variance + eps))
 * Statistics of norms are of x * unit, a power of two: 1, or what brings squares of very large or
 * small numbers into the range of floats. x is rounded x + residual first when there is a residual,
 * g = 1 + gamma with PLUS_ONE, and rms norms have mean 0. gamma and beta of element i of a row are
 * at
 *   first + sum over levels of (coordinate of the row * stride) + (i / w_div) * stride. */
#ifndef ROWS_GLSL
#define ROWS_GLSL

#include "row_mode.def"
#include "finite.glsl"

/* exp of a non-positive number, exact at -infinity and NaN, where drivers are not. */
float exp_down(float v)
{
    float e = exp(v);
    e = v < -104.0 ? 0.0 : e;
    return is_nan(v) ? v : e;
}

/* Two f16 in a word. On SwiftShader packHalf2x16 gives NaN for an infinity. */
uint pack_halves(float a, float b)
{
    if ((OUTS & 4u) == 0u || (abs(a) < 65504.0 && abs(b) < 65504.0))
        return packHalf2x16(vec2(a, b));
    return f32_to_f16(a) | f32_to_f16(b) << 16;
}

float round_to_x(float v)
{
    if (TX == F16)
        return unpackHalf2x16(pack_halves(v, 0.0)).x;
    return TX == BF16 ? bf16_to_f32(f32_to_bf16(v)) : v;
}

/* Offsets of gamma and beta for a row. */
uvec2 find_weights(uint row)
{
    uvec2 at = uvec2(g_at, b_at);
    for (uint k = LEVELS; k > 1u; k--) {
        uint next = row / level_dim[k - 2u], coordinate = row - next * level_dim[k - 2u];
        at += coordinate * uvec2(g_level[k - 1u], b_level[k - 1u]);
        row = next;
    }
    return LEVELS > 0u ? at + row * uvec2(g_level[0], b_level[0]) : at;
}

/* Whether this variance, eps included, came from squares that neither over- nor underflowed: 2^-100
 * to 2^120. Tested by its bits, since compilers may assume that there is no NaN. */
bool is_moderate(float variance)
{
    return floatBitsToUint(variance) - 0x0d800000u <= 0x7b800000u - 0x0d800000u;
}

/* The unit for elements whose largest magnitude has these bits: scaled, they are at most 4. */
float unit_of(uint largest)
{
    return uintBitsToFloat(0x7f000000u - min(largest & 0x7f800000u, 0x7e800000u));
}

/* r in units, from the mean of squared deviations in units. */
float norm_factor(float variance, float unit)
{
    float e = sqrt(eps) * unit, all = variance + (unit == 1.0 ? eps : e * e);
    return 1.0 / sqrt(all == 0.0 && eps > 0.0 ? 1.0 : all); /* 0 only if all deviations are 0 */
}

/* y of one element; stats: with the unit; g and b: gamma and beta of norms. */
float finish(float v, vec3 stats, float g, float b)
{
    if (MODE == SOFTMAX)
        return stats.y == 0.0 ? 0.0 : exp_down(v - stats.x) / stats.y;
    if (MODE == LOG_SOFTMAX)
        return stats.y == 0.0     ? uintBitsToFloat(0xff800000u)
               : is_nan(stats.y) ? stats.y
                                 : v - stats.x - log(stats.y);
    return (v * stats.z - stats.x) * stats.y * (PLUS_ONE != 0u ? 1.0 + g : g) + b;
}

#endif
