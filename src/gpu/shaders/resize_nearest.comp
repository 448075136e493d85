/* SPDX-License-Identifier: MIT */
#version 450
/* y [dim] from x of any type and strides: element (i0, i1, ..) of y is element
 * (place[0][i0], place[1][i1], ..) of x, or the fill value when a place is ~0. The places of an
 * axis begin at word table_at of the table; an axis without a table (~0) keeps its places.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "resize_nearest.def"

#include "parts.glsl"

WORDS(x);
WORDS(y);
WORDS(table);

bool find_source(uint e, out uint at)
{
    bool there = true;
    at = x_at;
    for (uint a = RANK; a-- > 0u;) {
        uint i = e % dim[a];
        e /= dim[a];
        if (table_at[a] != ~0u)
            i = table[table_at[a] + i];
        there = there && i != ~0u;
        at += i * stride[a];
    }
    return there;
}

void main()
{
    uint i = GLOBAL_INDEX, at;
    if (i >= n_items)
        return;
    if (BITS == 64u) {
        bool there = find_source(i, at);
        y[2u * (y_at + i)] = there ? x[2u * at] : fill_low;
        y[2u * (y_at + i) + 1u] = there ? x[2u * at + 1u] : fill_high;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < PER; j++) {
        if (i * PER + j >= total)
            break;
        bool there = find_source(i * PER + j, at);
        word |= put_part(there ? take_part(x[at / PER], at) : fill_low, j);
    }
    y[y_at / PER + i] = word;
}
