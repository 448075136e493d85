/* SPDX-License-Identifier: MIT */
#version 450
/* y[at] = x[at with the coordinate of one axis replaced by index[at]], for at in dim. x and index
 * have any strides; that of x along the axis is axis_stride and x_stride is 0 there. y is dense. An
 * axis without elements gives zeros.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "gather_elements.def"

#include "parts.glsl"

WORDS(x);
WORDS(index);
WORDS(y);
WORDS(flags);

#include "index.glsl"

uint find_source(uint e)
{
    uint at = x_at, from = index_at;
    bool clamped = false;
    for (uint k = RANK; k > 0u; k--) {
        uint i = e % dim[k - 1u];
        e /= dim[k - 1u];
        at += i * x_stride[k - 1u];
        from += i * index_stride[k - 1u];
    }
    at += find_place(from, axis_size, clamped) * axis_stride;
    if (clamped)
        atomicOr(flags[0], FLAG_CLAMPED);
    return at;
}

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= n)
        return;
    bool there = axis_size > 0u;
    if (BITS >= 32u) {
        uint at = find_source(i), words = BITS / 32u;
        y[i * words] = there ? x[at * words] : 0u;
        if (BITS == 64u)
            y[2u * i + 1u] = there ? x[2u * at + 1u] : 0u;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j;
        if (e >= total)
            break;
        uint at = find_source(e);
        if (there)
            word |= put_part(take_part(x[at / PER], at), j);
    }
    y[i] = word;
}
