/* SPDX-License-Identifier: MIT */
/* Online softmax: sums are relative to the largest logit so far. */
#ifndef ONLINE_GLSL
#define ONLINE_GLSL

/* The factor that brings sums relative to `top` to a greater maximum. Not 0, so that infinite sums
 * stay infinite. */
float keep_factor(float top, float most) { return exp2(max(top - most, -125.0)); }

#endif
