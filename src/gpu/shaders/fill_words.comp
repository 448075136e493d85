/* SPDX-License-Identifier: MIT */
#version 450
/* y[at + i] = value for i < n, in words. */
#include "common.glsl"

layout(push_constant) uniform Params { uint n, at, value; };

WORDS(0, y);

void main()
{
    if (GLOBAL_INDEX < n)
        y[at + GLOBAL_INDEX] = value;
}
