/* SPDX-License-Identifier: MIT */
#version 450
/* y [dim] from x with any strides: coordinate i of an axis that has `before` new elements at its
 * start takes coordinate i - before of the `size` elements of x that are kept, brought inside by
 * the mode, or the fill value. x_at is the first element kept.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"

layout(constant_id = 1) const uint BITS = 32;
#include "parts.glsl"
layout(constant_id = 2) const uint RANK = 1;
layout(constant_id = 3) const uint MODE = 0; /* rlx_pad_mode */
layout(constant_id = 4) const int BEFORE0 = 0;
layout(constant_id = 5) const int BEFORE1 = 0;
layout(constant_id = 6) const int BEFORE2 = 0;
layout(constant_id = 7) const int BEFORE3 = 0;
layout(constant_id = 8) const int BEFORE4 = 0;
layout(constant_id = 9) const int BEFORE5 = 0;
layout(constant_id = 10) const int BEFORE6 = 0;
layout(constant_id = 11) const int BEFORE7 = 0;

const uint CONSTANT = 0u, REFLECT = 1u, EDGE = 2u, WRAP = 3u;

WORDS(0, x);
WORDS(1, y);

layout(push_constant) uniform Push {
    uint n, total, x_at, fill_low, fill_high; /* invocations; elements of y */
    uint dim[8], stride[8], size[8];
};

/* Coordinate i of 0 .. n-1 or beyond both ends, brought inside; -1: the fill value. */
int inside(int i, int count)
{
    if (i >= 0 && i < count)
        return i;
    if (count == 0 || MODE == CONSTANT)
        return -1;
    if (MODE == EDGE)
        return i < 0 ? 0 : count - 1;
    if (MODE == WRAP)
        return i < 0 ? count - 1 - (-1 - i) % count : i % count;
    i = i < 0 ? -i : 2 * (count - 1) - i;
    return i >= 0 && i < count ? i : -1;
}

#define AXIS(k, before)                                   \
    if (RANK > k) {                                       \
        int i = inside(int(e % dim[k]) - before, int(size[k])); \
        e /= dim[k];                                      \
        there = there && i >= 0;                          \
        at += uint(i) * stride[k];                        \
    }

/* Where element e of y is in x; false: it is the fill value. */
bool find_source(uint e, out uint at)
{
    bool there = true;
    at = x_at;
    AXIS(7u, BEFORE7)
    AXIS(6u, BEFORE6)
    AXIS(5u, BEFORE5)
    AXIS(4u, BEFORE4)
    AXIS(3u, BEFORE3)
    AXIS(2u, BEFORE2)
    AXIS(1u, BEFORE1)
    AXIS(0u, BEFORE0)
    return there;
}

void main()
{
    uint i = GLOBAL_INDEX, at;
    if (i >= n)
        return;
    if (BITS == 64u) {
        bool there = find_source(i, at);
        y[2u * i] = there ? x[2u * at] : fill_low;
        y[2u * i + 1u] = there ? x[2u * at + 1u] : fill_high;
        return;
    }
    if (BITS == 32u) {
        y[i] = find_source(i, at) ? x[at] : fill_low;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j;
        if (e >= total)
            break;
        bool there = find_source(e, at);
        word |= put_part(there ? take_part(x[at / PER], at) : fill_low, j);
    }
    y[i] = word;
}
