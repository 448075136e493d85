/* SPDX-License-Identifier: MIT */
#version 450
/* y = x of type T as f32; without T zeros. One invocation makes one element. */
#include "common.glsl"
#include "widen.def"

TENSOR(x)
WORDS(y);

void main()
{
    uint i = GLOBAL_INDEX;
    if (i < n_items)
        y[y_at + i] = T == 0u ? 0u : floatBitsToUint(load_f_x(T, x_at + i));
}
