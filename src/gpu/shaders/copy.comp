/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_push.glsl"
/* y[y_at + i] = x[x_at + i] for i < n: units of 16 bytes (VEC4) or words, one an invocation. */
#include "common.glsl"

#ifdef VEC4
WORDS4(0, x);
WORDS4(1, y);
#else
WORDS(0, x);
WORDS(1, y);
#endif

layout(push_constant) uniform Push {
    uint n, x_at, y_at;
    CHAIN_PUSH
};
#include "chain.glsl"

void main()
{
    if (GLOBAL_INDEX < n)
        y[y_at + GLOBAL_INDEX] = x[x_at + GLOBAL_INDEX];
}
