/* SPDX-License-Identifier: MIT */
#version 450
/* The results of top_k, sort and knn from sorted places [rows, n_list]: y is [outer, k, inner] and
 * its element i of a row is the element of x [outer, n, inner] at the i-th place, or with PLACES
 * that place itself (TY i32 or i64). Past the end of the list and for absent elements it is `fill`,
 * or -1. One invocation makes one word of y, or one element of 8 bytes. */
#include "common.glsl"
#include "take.def"

WORDS(x);
WORDS(places);
WORDS(y);

const uint ABSENT = 0xffffffffu;

uvec2 take_element(uint e)
{
    uint line = e / inner, side = e % inner, outer = line / k, i = line % k;
    uint place = i < n_list ? places[(outer * inner + side) * n_list + i] : ABSENT;
    if (PLACES != 0u)
        return uvec2(place, place == ABSENT ? ABSENT : 0u);
    if (place == ABSENT)
        return uvec2(fill_low, fill_high);
    uint at = x_at + (outer * n + place) * inner + side;
    if (TY == I64)
        return uvec2(x[at * 2u], x[at * 2u + 1u]);
    uint per = per_word(TY), bits = bits_of(TY);
    return uvec2(bitfieldExtract(x[at / per], int(at % per * bits), int(bits)), 0u);
}

void main()
{
    uint per = per_word(TY), first = GLOBAL_INDEX * per;
    if (first >= total)
        return;
    if (TY == I64) {
        uvec2 v = take_element(first);
        y[(y_at + first) * 2u] = v.x;
        y[(y_at + first) * 2u + 1u] = v.y;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < per; j++)
        if (first + j < total)
            word |= take_element(first + j).x << (j * bits_of(TY));
    y[y_at / per + GLOBAL_INDEX] = word;
}
