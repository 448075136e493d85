/* SPDX-License-Identifier: MIT */
#version 450
/* Softmax and norms (rows.glsl) from the numbers of row_stats.comp. One invocation makes one word
 * of y, so that rows may start anywhere in a word. */
#include "common.glsl"
#include "row_apply.def"
#include "rows.glsl"

TENSOR(x)
TENSOR(residual)
TENSOR(gamma)
TENSOR(beta)
WORDS(stats);
WORDS(y);
WORDS(sum);

void main()
{
    uint per = per_word(TX), first = GLOBAL_INDEX * per, total = rows * n;
    if (first >= total)
        return;
    uint word = 0u, sum_word = 0u;
    for (uint j = 0u; j < per; j++) {
        uint e = min(first + j, total - 1u), line = e / inner, row = line / n * inner + e % inner;
        float v = load_f_x(TX, x_at + e);
        if (RESIDUAL != 0u)
            v = round_to_x(v + load_f_residual(TX, res_at + e));
        sum_word |= encode_f(TX, v) << (j * 16u);
        uint at = row * 3u;
        vec3 s = uintBitsToFloat(uvec3(stats[at], stats[at + 1u], stats[at + 2u]));
        uvec2 weights = find_weights(row);
        uint i = line % n / w_div;
        float g = TG != 0u ? load_f_gamma(TG, weights.x + i * g_stride) : 1.0;
        float b = TB != 0u ? load_f_beta(TB, weights.y + i * b_stride) : 0.0;
        word |= encode_f(TX, finish(v, s, g, b)) << (j * 16u);
    }
    if ((OUTS & 1u) != 0u)
        y[y_at / per + GLOBAL_INDEX] = word;
    if ((OUTS & 2u) != 0u)
        sum[sum_at / per + GLOBAL_INDEX] = sum_word;
}
