/* SPDX-License-Identifier: MIT */
#version 450
/* y = x for x f32 and y f16 or bf16, dense: one word of y an invocation. */
#include "common.glsl"
#include "narrow_f32.def"

WORDS(x);
WORDS(y);

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= n)
        return;
    uint low = encode_f(TY, uintBitsToFloat(x[2u * i])), high = 0u;
    if (2u * i + 1u < total)
        high = encode_f(TY, uintBitsToFloat(x[2u * i + 1u]));
    y[i] = low | high << 16;
}
