/* SPDX-License-Identifier: MIT */
#version 450
/* Sets n words to zero, one an invocation. */
#include "common.glsl"

WORDS(0, y);

layout(push_constant) uniform Push { uint n; };

void main()
{
    if (GLOBAL_INDEX < n)
        y[GLOBAL_INDEX] = 0u;
}
