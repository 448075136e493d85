/* SPDX-License-Identifier: MIT */
#version 450
/* y[i] = start + i * step, i < n: floats in double precision, rounded once; integers (start and
 * step come as 64 bits) wrap. One invocation makes one word, or one element of 8 bytes. */
#define WIDE
#include "common.glsl"
#include "range.def"
#include "value.glsl"
#include "double.glsl"

WORDS(y);

void main()
{
    uint per = per_word(TY), first = GLOBAL_INDEX * per;
    if (first >= n)
        return;
    uvec2 start = uvec2(start_low, start_high), step_ = uvec2(step_low, step_high), v;
    uint word = 0u;
    for (uint j = 0u; j < per; j++) {
        if (is_float(TY)) {
            v = double_add(start, double_times(step_, first + j));
            word |= encode_double_as(TY, v) << (j * bits_of(TY) & 31u);
        } else {
            v = add_wide(start, multiply_wide(step_, uvec2(first + j, 0u)));
            word |= encode_i(TY, int(v.x)) << (j * bits_of(TY) & 31u);
        }
    }
    if (TY == I64) {
        y[(y_at + first) * 2u] = v.x;
        y[(y_at + first) * 2u + 1u] = v.y;
    } else {
        y[y_at / per + GLOBAL_INDEX] = word;
    }
}
