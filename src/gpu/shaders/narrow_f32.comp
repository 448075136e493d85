/* SPDX-License-Identifier: MIT */
#version 450
/* y = x for x f32 and y f16 or bf16, dense: one word of y an invocation. */
#include "common.glsl"

layout(constant_id = 1) const uint TY = F16;

WORDS(0, x);
WORDS(1, y);

layout(push_constant) uniform Push { uint n, total; }; /* invocations, elements */

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
