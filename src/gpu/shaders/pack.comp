/* SPDX-License-Identifier: MIT */
#version 450
/* y = x, where x has the bits of each element of an 8- or 16-bit type in a word of its own. An
 * invocation makes one word of y; the words past the end of x count as zeros. */
#include "common.glsl"

layout(constant_id = 1) const uint T = F16;

layout(push_constant) uniform Push {
    uint n, y_at; /* elements; y_at begins a word */
};

WORDS(0, x);
WORDS(1, y);

void main()
{
    uint per = per_word(T), first = GLOBAL_INDEX * per, word = 0u;
    for (uint j = 0u; j < per; j++)
        if (first + j < n)
            word |= x[first + j] << (j * bits_of(T) & 31u);
    if (first < n)
        y[y_at / per + GLOBAL_INDEX] = word;
}
