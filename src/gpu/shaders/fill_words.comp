/* SPDX-License-Identifier: MIT */
#version 450
/* y[at + i] = value for i < n, in words. */
#include "common.glsl"
#include "fill_words.def"

WORDS(y);

void main()
{
    if (GLOBAL_INDEX < n)
        y[at + GLOBAL_INDEX] = value;
}
