/* SPDX-License-Identifier: MIT */
#version 450
/* y [batch, rows, cols] = x where column - row >= k (UPPER) or <= k, else 0. x is dense, and y may
 * be the same memory.
 *
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "trilu.def"

#include "parts.glsl"

WORDS(x);
WORDS(y);

bool is_kept(uint e)
{
    int diagonal = int(e % cols) - int(e / cols % rows);
    return UPPER != 0u ? diagonal >= k : diagonal <= k;
}

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= n)
        return;
    if (BITS == 64u) {
        bool kept = is_kept(i);
        y[2u * i] = kept ? x[2u * (x_at + i)] : 0u;
        y[2u * i + 1u] = kept ? x[2u * (x_at + i) + 1u] : 0u;
        return;
    }
    if (BITS == 32u) {
        y[i] = is_kept(i) ? x[x_at + i] : 0u;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j, at = x_at + e;
        if (is_kept(e))
            word |= put_part(take_part(x[at / PER], at), j);
    }
    y[i] = word;
}
