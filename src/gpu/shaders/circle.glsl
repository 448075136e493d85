/* SPDX-License-Identifier: MIT */
/* Sine and cosine of fractions of a turn given as integers, accurate to about one ulp, which GLSL's
 * functions are not on every driver. */
#ifndef CIRCLE_GLSL
#define CIRCLE_GLSL

/* (cos, sin) of 2 pi j / n for 0 <= j < n < 2^29. */
vec2 root_of_unity(uint j, uint n)
{
    uint quarter = (8u * j / n + 1u) / 2u; /* nearest multiple of a quarter turn */
    float x = float(int(4u * j) - int(quarter * n)) / float(n) * 1.57079632679489662;
    float z = x * x;
    float s = x + x * z * (-1.6666654611e-1 + z * (8.3321608736e-3 + z * -1.9515295891e-4));
    float c = 1.0 - 0.5 * z +
              z * z * (4.166664568298827e-2 + z * (-1.388731625493765e-3 +
                                                   z * 2.443315711809948e-5));
    vec2 r = (quarter & 1u) == 0u ? vec2(c, s) : vec2(-s, c);
    return (quarter & 2u) == 0u ? r : -r;
}

#endif
