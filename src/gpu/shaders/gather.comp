/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
/* gather and gather_nd: row q of y [rows, inner] is a row of x. With batch b = q / count and
 * r = q % count, tuple t = b * index_batch + r of K indices gives
 *     y[q, s] = x[x_at + b * x_batch + sum_k index[t, k] * stride_k + s].
 * All is dense. An axis without elements gives zeros. When x is a part of a larger table, rows
 * part_first .. part_first + part_rows - 1 of its first indexed axis, what lies elsewhere is left
 * alone.
 *
 * Elements are units of 16 bytes (VEC4), 4 bytes, or 2 or 1 bytes (BITS); one invocation moves one,
 * or makes a whole word of the small ones. */
#include "common.glsl"
#include "gather.def"

#include "parts.glsl"

#ifdef VEC4
WORDS4(x);
WORDS4(y);
#else
WORDS(x);
WORDS(y);
#endif
WORDS(index);
WORDS(flags);

#include "chain.glsl"

#include "index.glsl"

/* Where unit e of y comes from. */
const uint NOWHERE = 0u, HERE = 1u, ELSEWHERE = 2u;

uint find_source(uint e, out uint at)
{
    uint q = e / inner, b = q / count, r = q % count;
    uint tuple = index_at + (b * index_batch + r) * K, from = HERE;
    bool clamped = false;
    at = x_at + b * x_batch + e % inner;
    for (uint k = 0u; k < K; k++) {
        uint place = find_place(tuple + k, dim[k], clamped);
        if (dim[k] == 0u)
            from = NOWHERE;
        if (k == 0u) {
            place -= part_first;
            if (place >= part_rows)
                from = ELSEWHERE;
        }
        at += place * stride[k];
    }
    if (clamped)
        atomicOr(flags[0], FLAG_CLAMPED);
    return from;
}

void main()
{
    uint i = GLOBAL_INDEX, at;
    if (i >= n)
        return;
#ifdef VEC4
    uint from = find_source(i, at);
    if (from != ELSEWHERE)
        y[i] = from == HERE ? x[at] : uvec4(0u);
#else
    if (BITS == 32u) {
        uint from = find_source(i, at);
        if (from != ELSEWHERE)
            y[i] = from == HERE ? x[at] : 0u;
        return;
    }
    uint word = part_rows == 0xffffffffu ? 0u : y[i];
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j;
        if (e >= total)
            break;
        uint from = find_source(e, at);
        if (from == ELSEWHERE)
            continue;
        word &= ~put_part(take_part(0xffffffffu, 0u), j);
        if (from == HERE)
            word |= put_part(take_part(x[at / PER], at), j);
    }
    y[i] = word;
#endif
}
