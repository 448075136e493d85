/* SPDX-License-Identifier: MIT */
#version 450
/* y [dim] from x with any strides: coordinate i of an axis that has `before` new elements at its
 * start takes coordinate i - before of the `size` elements of x that are kept, brought inside by
 * the mode, or the fill value. x_at is the first element kept.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "pad.def"

#include "parts.glsl"


WORDS(x);
WORDS(y);

/* Coordinate i, which may be beyond both ends of 0 .. n-1, mapped inside by the mode; -1: the fill
 * value. */
int inside(int i, int count)
{
    if (i >= 0 && i < count)
        return i;
    if (count == 0 || MODE == PAD_CONSTANT)
        return -1;
    if (MODE == PAD_EDGE)
        return i < 0 ? 0 : count - 1;
    if (MODE == PAD_WRAP)
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

/* The element of x that is element e of y; false: the fill value. */
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
