/* SPDX-License-Identifier: MIT */
/* Unsigned numbers of 64 bits as (low, high) words. */
#ifndef LONG_GLSL
#define LONG_GLSL

uvec2 long_add(uvec2 a, uvec2 b)
{
    uint low = a.x + b.x;
    return uvec2(low, a.y + b.y + (low < a.x ? 1u : 0u));
}

uvec2 long_sub(uvec2 a, uvec2 b)
{
    return uvec2(a.x - b.x, a.y - b.y - (a.x < b.x ? 1u : 0u));
}

/* The lower 64 bits of the product. */
uvec2 long_mul(uvec2 a, uvec2 b)
{
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

bool long_less(uvec2 a, uvec2 b) { return a.y != b.y ? a.y < b.y : a.x < b.x; }

/* a >> s for 0 < s < 32. */
uvec2 long_shift(uvec2 a, uint s) { return uvec2(a.x >> s | a.y << (32u - s), a.y >> s); }

#endif
