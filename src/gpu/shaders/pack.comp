/* SPDX-License-Identifier: MIT */
#version 450
/* y = x rounded to the 8- or 16-bit type T, where x is f32 for floats and i32 for others. An
 * invocation makes one word of y; elements past the end are zeros. */
#include "common.glsl"
#include "pack.def"

WORDS(x);
WORDS(y);

void main()
{
    uint per = per_word(T), first = GLOBAL_INDEX * per, word = 0u;
    for (uint j = 0u; j < per; j++)
        if (first + j < n) {
            uint v = x[first + j];
            v = T == F16 || T == BF16 ? encode_f(T, uintBitsToFloat(v)) : encode_i(T, int(v));
            word |= v << (j * bits_of(T) & 31u);
        }
    if (first < n)
        y[y_at / per + GLOBAL_INDEX] = word;
}
