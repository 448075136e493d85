/* SPDX-License-Identifier: MIT */
/* The activations of rlx_act, by code. `act` is a specialisation constant, so the branches fold
 * away. */
#ifndef ACT_GLSL
#define ACT_GLSL

#include "act.def"

/* Of exp(-|x|), which cannot overflow. */
float act_sigmoid(float x)
{
    float e = exp(-abs(x));
    return (x < 0.0 ? e : 1.0) / (1.0 + e);
}

/* x * sigmoid(w), where x and w have one sign. With q = exp(-|w| / 2), x q q underflows only when
 * the result does; but drivers reassociate it to x (q q), so one q is scaled by 2^64 through its
 * exponent, and so is the denominator. */
float act_gate(float x, float w)
{
    float q = exp(-0.5 * abs(w)), unit = w < 0.0 ? 18446744073709551616.0 : 1.0;
    float scaled = uintBitsToFloat(floatBitsToUint(q) + (64u << 23));
    return (w < 0.0 ? x * q * scaled : x) / (unit + unit * q * q);
}

float act_tanh(float x)
{
    float a = abs(x), z = x * x;
    float p = -0.33333294937 + z * (0.1333172467 + z * (-0.05375978908 + z * (0.02069680439 +
                                                                 z * -0.0057630876)));
    float y = a < 0.625 ? a + a * z * p : 1.0 - 2.0 / (exp(2.0 * a) + 1.0);
    uint u = floatBitsToUint(x); /* NaN stays, and so does -0 */
    return (u & 0x7fffffffu) > 0x7f800000u
               ? x
               : uintBitsToFloat(floatBitsToUint(y) | (u & 0x80000000u));
}

/* x - z h for x > 0 and -z h below, where z = |x| and h = erfc(z / sqrt 2) / 2 is exp(-z^2 / 2)
 * times a polynomial in 1 / (1 + c z). */
float act_gelu(float x)
{
    float z = min(abs(x), 14.5), t = 1.0 / (1.0 + 0.33234018716 * z);
    float p = 4.1139864152e-06 +
              t * (0.132464119247 +
                   t * (0.134100066808 +
                        t * (0.107165270417 +
                             t * (0.136449657383 +
                                  t * (-0.087782761825 +
                                       t * (0.265488307281 +
                                            t * (-0.307145437574 +
                                                 t * (0.144862419087 + t * -0.025605745261))))))));
    float low = z * p * exp2(-0.72134752044 * z * z);
    float y = uintBitsToFloat(floatBitsToUint(low) | 0x80000000u);
    uint u = floatBitsToUint(x);
    y = u < 0x80000000u ? x - low : y;
    bool bad = (u & 0x7fffffffu) > 0x7f800000u || u == 0xff800000u; /* NaN, -infinity times 0 */
    return bad ? uintBitsToFloat(0x7fc00000u) : y;
}

float apply_act(uint act, float x)
{
    if (act == ACT_RELU)
        return x < 0.0 ? 0.0 : x;
    if (act == ACT_GELU)
        return act_gelu(x);
    if (act == ACT_GELU_TANH)
        return act_gate(x, 1.5957691216 * (x + 0.044715 * x * x * x));
    if (act == ACT_SILU)
        return act_gate(x, x);
    if (act == ACT_SIGMOID)
        return act_sigmoid(x);
    if (act == ACT_TANH)
        return act_tanh(x);
    if (act == ACT_HARD_SWISH)
        return x * clamp((x + 3.0) * (1.0 / 6.0), 0.0, 1.0);
    return x;
}

#endif
