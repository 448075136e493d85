/* SPDX-License-Identifier: MIT */
#version 450
/* Random numbers by Philox4x32-10: one invocation makes the four elements of one block.
 *
 * Uniform: y = min(lo + u * width, last), u a multiple of 2^-24 in [0, 1); the product and the sum
 * are each rounded to f32. NORMAL: with u in (0, 1] from an even word and v in [0, 1) from the odd
 * one, lo + width * sqrt(-2 ln u) * (cos, sin)(2 pi v). TSEED 0: the seed is in the parameters. */
#include "common.glsl"
#include "random.def"
#include "philox.glsl"
#include "circle.glsl"

WORDS(seed);
WORDS(y);

uvec2 load_seed()
{
    if (TSEED == 0u)
        return uvec2(seed_low, seed_high);
    if (TSEED == I64)
        return uvec2(seed[2u * seed_at], seed[2u * seed_at + 1u]);
    uint low = seed[seed_at];
    return uvec2(low, (low >> 31) != 0u ? 0xffffffffu : 0u);
}

/* ln(k / 2^24) for 1 <= k <= 2^24: mantissa in [sqrt(1/2), sqrt(2)), then the series of cephes. */
float log_fraction(uint k)
{
    uint bits = floatBitsToUint(float(k) * 5.9604644775390625e-8);
    int e = int(bits >> 23) - 126;
    float m = uintBitsToFloat((bits & 0x7fffffu) | 0x3f000000u);
    if (m < 0.70710678) {
        m *= 2.0;
        e--;
    }
    float f = m - 1.0, z = f * f;
    float p = 7.0376836292e-2;
    p = p * f - 1.1514610310e-1;
    p = p * f + 1.1676998740e-1;
    p = p * f - 1.2420140846e-1;
    p = p * f + 1.4249322787e-1;
    p = p * f - 1.6668057665e-1;
    p = p * f + 2.0000714765e-1;
    p = p * f - 2.4999993993e-1;
    p = p * f + 3.3333331174e-1;
    float tail = f * z * p + float(e) * -2.12194440e-4 - 0.5 * z;
    return f + tail + float(e) * 0.693359375;
}

vec2 normal_pair(uint even, uint odd)
{
    float radius = sqrt(-2.0 * log_fraction((even >> 8) + 1u));
    return vec2(lo) + width * radius * root_of_unity(odd >> 8, 1u << 24);
}

float uniform_at(uint word)
{
    precise float product = float(word >> 8) * 5.9604644775390625e-8 * width;
    precise float v = lo + product;
    return v < last ? v : last;
}

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= n)
        return;
    uvec4 word = philox_block(load_seed(), first + i);
    vec4 v;
    if (NORMAL != 0u)
        v = vec4(normal_pair(word.x, word.y), normal_pair(word.z, word.w));
    else
        v = vec4(uniform_at(word.x), uniform_at(word.y), uniform_at(word.z), uniform_at(word.w));
    uvec4 bits = uvec4(encode_f(TY, v.x), encode_f(TY, v.y), encode_f(TY, v.z), encode_f(TY, v.w));
    uint left = total - 4u * i; /* elements */
    if (TY == F32) {
        y[4u * i] = bits.x;
        if (left > 1u)
            y[4u * i + 1u] = bits.y;
        if (left > 2u)
            y[4u * i + 2u] = bits.z;
        if (left > 3u)
            y[4u * i + 3u] = bits.w;
        return;
    }
    y[2u * i] = bits.x | bits.y << 16;
    if (left > 2u)
        y[2u * i + 1u] = bits.z | bits.w << 16;
}
