/* SPDX-License-Identifier: MIT */
#version 450
/* y [rows, length] from up to 7 dense parts side by side: x_k [rows, start_(k+1) - start_k] becomes
 * the columns start_k .. start_(k+1) - 1 of y.
 *
 * Elements are units of 16 bytes (VEC4), 4 bytes, or 2 or 1 bytes (BITS): one invocation moves one
 * unit of a part; of the small ones it makes a whole word of y, in which elements of other parts,
 * that another dispatch writes, stay. */
#include "common.glsl"
#include "concat.def"

#include "parts.glsl"

#ifdef VEC4
#define BUFFER WORDS4
#else
#define BUFFER WORDS
#endif
BUFFER(x0);
BUFFER(x1);
BUFFER(x2);
BUFFER(x3);
BUFFER(x4);
BUFFER(x5);
BUFFER(x6);
BUFFER(y);

#ifdef VEC4
uvec4 load_unit(uint k, uint i)
#else
uint load_unit(uint k, uint i)
#endif
{
    switch (k) {
    case 0: return x0[i];
    case 1: return x1[i];
    case 2: return x2[i];
    case 3: return x3[i];
    case 4: return x4[i];
    case 5: return x5[i];
    default: return x6[i];
    }
}

/* The operand k of column c, and the offset of unit (row, c) in it. */
uint find_part(uint row, uint c, out uint k)
{
    k = 0u;
    for (uint j = 1u; j < 7u; j++)
        k += c >= start[j] ? 1u : 0u;
    return at[k] + row * (start[k + 1u] - start[k]) + (c - start[k]);
}

void main()
{
    uint i = GLOBAL_INDEX, k;
    if (i >= n)
        return;
    if (BITS >= 32u) {
        uint row = i / width, c = first + i % width;
        uint from = find_part(row, c, k);
        y[row * length + c] = load_unit(k, from);
        return;
    }
#ifndef VEC4
    uint word = 0u, kept = 0u;
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j, c = e % length;
        if (e < total && c >= first && c - first < width) {
            uint from = find_part(e / length, c, k);
            word |= put_part(take_part(load_unit(k, from / PER), from), j);
        } else {
            kept |= put_part(MASK, j);
        }
    }
    if (kept == 0u)
        y[i] = word;
    else if (kept != 0xffffffffu)
        y[i] = (y[i] & kept) | word;
#endif
}
