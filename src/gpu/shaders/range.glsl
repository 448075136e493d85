/* SPDX-License-Identifier: MIT */
/* Products of f32 in f16 keep the range of f32: a line of an operand (the elements that one result
 * sums over) whose largest finite magnitude is outside the accurate range of f16 is multiplied by
 * 2^-e when it is rounded, and its sums by 2^e. e is 0 for lines with a maximum of 2^-12 to 2^15,
 * so that the error of small elements stays below that of the largest, and for lines of zeros. */
#ifndef RANGE_GLSL
#define RANGE_GLSL

const uint INFINITE = 0x7f800000u;
const float RANGE_LEAST = 0.000244140625, RANGE_END = 32768.0;

/* The bits of |x|, or 0 if it is not finite; they compare as the numbers do. */
uint range_bits(float x)
{
    uint bits = floatBitsToUint(x) & 0x7fffffffu;
    return bits < INFINITE ? bits : 0u;
}

uint range_bits4(vec4 x)
{
    return max(max(range_bits(x.x), range_bits(x.y)), max(range_bits(x.z), range_bits(x.w)));
}

/* e of a line from range_bits() of its maximum: 0, else -120 to 113. */
int range_exponent(uint top)
{
    int power = int(top >> 23) - 127; /* 2^power <= top < 2^(power + 1) */
    return top == 0u || (power >= -12 && power < 15) ? 0 : max(power - 14, -120);
}

/* The maximum of `top` and the magnitudes of x; NaN may be ignored. */
float range_top(float top, vec4 x)
{
    vec4 a = abs(x);
    return max(max(top, max(a.x, a.y)), max(a.z, a.w));
}

/* Whether f16 is accurate enough for a line with this maximum. */
bool range_holds(float top) { return top == 0.0 || (top >= RANGE_LEAST && top < RANGE_END); }

/* 2^e, e from -126 to 127. */
float range_power(int e) { return uintBitsToFloat(uint(e + 127) << 23); }

/* x 2^e, e from -252 to 254, in two steps: neither overflows unless the result does. */
float range_restore(float x, int e) { return x * range_power(e >> 1) * range_power(e - (e >> 1)); }

#endif
