/* SPDX-License-Identifier: MIT */
#version 450
/* Two axes of x [outer, in_a, middle, in_b, inner] resized to y [outer, out_a, middle, out_b,
 * inner]: y[ia, ib] = sum over s, t of weight_a[ia][s] * weight_b[ib][t] * x[place_a[ia][s],
 * place_b[ib][t]]. The table has for each place TAPS pairs (place in x, weight), unused ones with
 * weight 0; a first place of ~0 makes the result the fill value. With one axis A is absent: TAPS_A
 * is 0, in_a and out_a are 1.
 *
 * One invocation makes a word of y. */
#include "common.glsl"
#include "resize.def"

TENSOR(x)
WORDS(y);
WORDS(table);

/* Along axis B: `row` is the element of x at index 0 of it. */
float sum_b(uint row, uint ib)
{
    float sum = 0.0;
    for (uint t = 0u; t < TAPS_B; t++) {
        uint at = b_at + 2u * (ib * TAPS_B + t);
        float weight = uintBitsToFloat(table[at + 1u]);
        if (weight != 0.0)
            sum = fma(weight, load_f_x(TX, row + table[at] * inner), sum);
    }
    return sum;
}

float resize_at(uint e)
{
    uint i = e % inner, ib = e / inner % out_b, m = e / inner / out_b % middle;
    uint ia = e / inner / out_b / middle % out_a, outer = e / inner / out_b / middle / out_a;
    if (table[b_at + 2u * ib * TAPS_B] == ~0u)
        return fill;
    uint line = middle * in_b * inner, first = x_at + outer * in_a * line + m * in_b * inner + i;
    if (TAPS_A == 0u)
        return sum_b(first, ib);
    if (table[a_at + 2u * ia * TAPS_A] == ~0u)
        return fill;
    float sum = 0.0;
    for (uint s = 0u; s < TAPS_A; s++) {
        uint at = a_at + 2u * (ia * TAPS_A + s);
        float weight = uintBitsToFloat(table[at + 1u]);
        if (weight != 0.0)
            sum = fma(weight, sum_b(first + table[at] * line, ib), sum);
    }
    return sum;
}

void main()
{
    if (GLOBAL_INDEX >= n_items)
        return;
    uint per = per_word(TY), word = 0u;
    for (uint j = 0u; j < per; j++) {
        uint e = GLOBAL_INDEX * per + j;
        if (e < total)
            word |= encode_f(TY, resize_at(e)) << (j * bits_of(TY) & 31u);
    }
    y[y_at / per + GLOBAL_INDEX] = word;
}
