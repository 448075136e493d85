/* SPDX-License-Identifier: MIT */
#version 450
/* y [batch, cols, rows] = x [batch, rows, cols] transposed, elements of BITS bits: the weights of
 * recurrent networks, so that neighbouring gates are neighbours. One invocation makes a word. */
#include "common.glsl"
#include "rnn_weights.def"

#include "parts.glsl"

WORDS(x);
WORDS(y);

void main()
{
    if (GLOBAL_INDEX >= n_items)
        return;
    uint word = 0u;
    for (uint j = 0u; j < PER; j++) {
        uint e = GLOBAL_INDEX * PER + j;
        if (e >= total)
            break;
        uint row = e % rows, col = e / rows % cols;
        uint at = x_at + e / rows / cols * rows * cols + row * cols + col;
        word |= put_part(take_part(x[at / PER], at), j);
    }
    y[GLOBAL_INDEX] = word;
}
