/* SPDX-License-Identifier: MIT */
/* Tests of floats by their bits: compilers may assume that floats are finite, and not all drivers
 * propagate NaN through exp2, max or a select. */
#ifndef FINITE_GLSL
#define FINITE_GLSL

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_finite(float x) { return (floatBitsToUint(x) & 0x7f800000u) != 0x7f800000u; }

#endif
