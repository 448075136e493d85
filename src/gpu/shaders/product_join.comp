/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* The end of a product whose k was cut into SLICES: sums the f32 products of the slices, which lie
 * as [batch][slice][m][n], and finishes them (product.glsl). An invocation makes four columns of a
 * row; slices are always added in the same order. */
#include "common.glsl"
#include "product_join.def"
#include "product.glsl"

WORDS(parts);

void main()
{
    uint quads = (n + 3u) / 4u, i = GLOBAL_INDEX, col = i % quads * 4u, row = i / quads % m;
    uint batch = i / quads / m;
    if (batch >= n_groups)
        return;
    uint at = (batch * SLICES * m + row) * n + col, last = n - col - 1u;
    vec4 sum = vec4(0.0);
    for (uint s = 0u; s < SLICES; s++, at += m * n)
        sum += uintBitsToFloat(uvec4(parts[at], parts[at + min(last, 1u)],
                                     parts[at + min(last, 2u)], parts[at + min(last, 3u)]));
    finish4(sum, row, col, find_batch(batch));
}
