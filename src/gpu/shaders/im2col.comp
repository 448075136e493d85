/* SPDX-License-Identifier: MIT */
#version 450
/* y [N, C * kh * kw, oh * ow] from x [N, C, H, W] of any type: row (c, i, j) has what tap (i, j) of
 * each window sees of channel c; zeros in the padding.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "im2col.def"

#include "parts.glsl"

WORDS(x);
WORDS(y);

/* The element of x that element e of y is; false: 0. */
bool find_source(uint e, out uint at)
{
    uint p = e % (out_h * out_w), row = e / (out_h * out_w), channel = row / (kernel_h * kernel_w);
    int h = int(p / out_w) * stride_h - begin_h + int(row / kernel_w % kernel_h) * dilation_h;
    int w = int(p % out_w) * stride_w - begin_w + int(row % kernel_w) * dilation_w;
    at = x_at + (channel * in_h + uint(h)) * in_w + uint(w);
    return uint(h) < in_h && uint(w) < in_w;
}

void main()
{
    uint i = GLOBAL_INDEX, at;
    if (i >= n_items)
        return;
    if (BITS == 64u) {
        bool there = find_source(i, at);
        y[2u * (y_at + i)] = there ? x[2u * at] : 0u;
        y[2u * (y_at + i) + 1u] = there ? x[2u * at + 1u] : 0u;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < PER; j++)
        if (i * PER + j < total && find_source(i * PER + j, at))
            word |= put_part(take_part(x[at / PER], at), j);
    y[y_at / PER + i] = word;
}
