/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
/* y[y_at + i] = x[x_at + i] for i < n: units of 16 bytes (VEC4) or words, one an invocation. */
#include "common.glsl"
#include "copy.def"

#ifdef VEC4
WORDS4(x);
WORDS4(y);
#else
WORDS(x);
WORDS(y);
#endif

#include "chain.glsl"

void main()
{
    if (GLOBAL_INDEX < n)
        y[y_at + GLOBAL_INDEX] = x[x_at + GLOBAL_INDEX];
}
