/* SPDX-License-Identifier: MIT */
#version 450
/* Numbers to integers and back, with scales and zeros.
 *   plain     out = saturate(round_half_even(x / scale) + zero), NaN gives 0
 *   DECODE    out = (x - zero) * scale
 *
 * All tensors are dense; x and out have n elements, seen as [.., C, inner]. One scale, one
 * for each of C, or one for each `block` neighbours along C. An invocation makes one word. */
#include "common.glsl"
#include "quantize.def"
#include "finite.glsl"

TENSOR(x)
TENSOR(scale)
TENSOR(zero)
WORDS(o);

/* Index of the scale of element i. */
uint scale_of(uint i)
{
    if (MODE == SCALE_TENSOR)
        return 0u;
    uint c = i / inner % channels;
    if (MODE == SCALE_CHANNEL)
        return c;
    return (i / inner / channels * (channels / block) + c / block) * inner + i % inner;
}

#ifdef DECODE
uint convert(uint i)
{
    uint s = scale_of(i);
    int q = load_i_raw_x(TX, x_at + i);
    if (TZERO != 0u)
        q -= load_i_raw_zero(TZERO, zero_at + s);
    return encode_f(TOUT, float(q) * load_f_scale(TSCALE, scale_at + s));
}
#else
/* |v| as a number in [1, 2) and a power of two; v is finite and not 0. Drivers may flush
 * subnormals, so those are scaled by their bits. */
float split_number(float v, out int power)
{
    uint b = floatBitsToUint(v) & 0x7fffffffu;
    int lift = 0;
    if (b < 0x00800000u) {
        b = floatBitsToUint(float(b));
        lift = 149;
    }
    power = int(b >> 23) - 127 - lift;
    return uintBitsToFloat((b & 0x7fffffu) | 0x3f800000u);
}

/* The quotient, correctly rounded where it matters: drivers divide within 2.5 ulp, so the remainder
 * is divided once more. Beyond 2^60 and below 2^-60 only the magnitude counts. */
float divide(float p, float q)
{
    uint bp = floatBitsToUint(p), bq = floatBitsToUint(q);
    uint ap = bp & 0x7fffffffu, aq = bq & 0x7fffffffu;
    if (ap == 0u || aq == 0u || ap >= 0x7f800000u || aq >= 0x7f800000u) {
        if (ap > 0x7f800000u || aq > 0x7f800000u || (ap == 0u && aq == 0u) ||
            (ap == 0x7f800000u && aq == 0x7f800000u))
            return uintBitsToFloat(0x7fc00000u);
        return ap == 0u || aq == 0x7f800000u ? 0.0 : (bp ^ bq) >> 31 == 0u ? 1.0e30 : -1.0e30;
    }
    int power_p, power_q;
    float x = split_number(p, power_p), z = split_number(q, power_q), y = x / z;
    y += fma(-y, z, x) / z;
    int power = clamp(power_p - power_q, -60, 60);
    y *= uintBitsToFloat(uint(127 + power) << 23);
    return (bp ^ bq) >> 31 == 0u ? y : -y;
}

/* q + z for an integral q, saturated to i32. */
int add_saturated(float q, int z)
{
    bool q_minus = q < 0.0, z_minus = z < 0, minus = q_minus;
    uint a = abs(q) >= 4294967296.0 ? 0xffffffffu : uint(abs(q));
    uint b = z_minus ? 0u - uint(z) : uint(z), s;
    if (q_minus == z_minus) {
        s = a + b < a ? 0xffffffffu : a + b;
    } else {
        s = a >= b ? a - b : b - a;
        minus = a >= b ? q_minus : z_minus;
    }
    if (minus)
        return s >= 0x80000000u ? int(0x80000000u) : -int(s);
    return int(min(s, 0x7fffffffu));
}

/* Large numbers are integers already, and drivers differ on rounding them. */
float round_even(float y) { return abs(y) < 8388608.0 ? roundEven(y) : y; }

uint convert(uint i)
{
    uint s = scale_of(i);
    float q = round_even(divide(load_f_x(TX, x_at + i), load_f_scale(TSCALE, scale_at + s)));
    if (is_nan(q))
        return 0u;
    int y = add_saturated(q, TZERO != 0u ? load_i_raw_zero(TZERO, zero_at + s) : 0);
    if (TOUT == I8)
        y = clamp(y, -128, 127);
    if (TOUT == U8)
        y = clamp(y, 0, 255);
    return encode_i(TOUT, y);
}
#endif

void main()
{
    uint per = per_word(TOUT), first = GLOBAL_INDEX * per, w = 0u;
    if (first < n) {
        for (uint j = 0u; j < per; j++)
            if (first + j < n)
                w |= convert(first + j) << (j * bits_of(TOUT) & 31u);
        o[(out_at + first) / per] = w;
    }
}
