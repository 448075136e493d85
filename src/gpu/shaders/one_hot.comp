/* SPDX-License-Identifier: MIT */
#version 450
/* y [outer, depth, inner] of type TY is `on` where the middle coordinate equals index[outer, inner]
 * (negative ones count from the end) and `off` elsewhere; both come as bits of TY. One invocation
 * makes one word, or one element of 8 bytes. */
#include "common.glsl"
#include "one_hot.def"

TENSOR(x)
WORDS(y);

bool is_on(uint e)
{
    uint line = e / inner, at = x_at + line / depth * inner + e % inner;
    int index = load_i_raw_x(TX, at);
    if (TX == I64 && int(x[at * 2u + 1u]) != index >> 31)
        return false;
    if (index < 0)
        index += int(depth);
    return index == int(line % depth);
}

void main()
{
    uint per = per_word(TY), first = GLOBAL_INDEX * per;
    if (first >= total)
        return;
    if (TY == I64) {
        bool on = is_on(first);
        y[(y_at + first) * 2u] = on ? on_low : off_low;
        y[(y_at + first) * 2u + 1u] = on ? on_high : off_high;
        return;
    }
    uint word = 0u;
    for (uint j = 0u; j < per; j++)
        word |= (is_on(min(first + j, total - 1u)) ? on_low : off_low) << (j * bits_of(TY) & 31u);
    y[y_at / per + GLOBAL_INDEX] = word;
}
