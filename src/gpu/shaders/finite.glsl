/* SPDX-License-Identifier: MIT */
/* Tests of floats by their bits: a compiler may take floats for finite, and not all drivers give
 * NaN for NaN: neither from exp2, nor from max, nor from a comparison that chooses the greater of
 * two. */
#ifndef FINITE_GLSL
#define FINITE_GLSL

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

#endif
