/* SPDX-License-Identifier: MIT */
#version 450
/* Sets n words to zero, one an invocation. */
#include "common.glsl"
#include "clear.def"

WORDS(y);

void main()
{
    if (GLOBAL_INDEX < n)
        y[GLOBAL_INDEX] = 0u;
}
