/* SPDX-License-Identifier: MIT */
/* Online softmax: sums are relative to the running maximum. */
#ifndef ONLINE_GLSL
#define ONLINE_GLSL

/* The factor that rescales sums from the maximum `top` to a greater one. Not 0, so that infinite
 * sums stay infinite. */
float keep_factor(float top, float most) { return exp2(max(top - most, -125.0)); }

#endif
