/* SPDX-License-Identifier: MIT */
#version 450
/* group_limited_gate: scores [rows, EXPERTS] in GROUPS equal groups. The score of a group is the
 * sum of its two best; of the `keep` best groups the K best experts are taken, larger first, ties
 * to the smaller index. weights [rows, K] (as bits of floats) = score * scale / (sum + 1e-20), or
 * score * scale when K is 1; places [rows, K] i32.
 *
 * One workgroup makes a row. Ranks are found by counting. */
#include "common.glsl"
#include "gate.def"
#include "order.glsl"

TENSOR(x)
WORDS(weights);
WORDS(places);

shared uint keys[EXPERTS], group_keys[GROUPS], is_kept[GROUPS], chosen[K];

void main()
{
    const uint size = EXPERTS / GROUPS;
    uint row = min(GROUP_INDEX, rows - 1u), first = x_at + row * EXPERTS;
    for (uint e = LANE; e < EXPERTS; e += THREADS)
        keys[e] = float_key(floatBitsToUint(load_f_x(TX, first + e)), 0xffffffffu);
    barrier();
    for (uint g = LANE; g < GROUPS; g += THREADS) {
        uint best = g * size, second = best;
        for (uint i = 1u; i < size; i++) {
            uint e = g * size + i;
            if (keys[e] > keys[best]) {
                second = best;
                best = e;
            } else if (second == best || keys[e] > keys[second]) {
                second = e;
            }
        }
        float sum = load_f_x(TX, first + best);
        if (size > 1u)
            sum += load_f_x(TX, first + second);
        group_keys[g] = float_key(floatBitsToUint(sum), 0xffffffffu);
    }
    barrier();
    for (uint g = LANE; g < GROUPS; g += THREADS) {
        uint rank = 0u;
        for (uint o = 0u; o < GROUPS; o++)
            rank += group_keys[o] > group_keys[g] || (group_keys[o] == group_keys[g] && o < g)
                        ? 1u : 0u;
        is_kept[g] = rank < keep ? 1u : 0u;
    }
    barrier();
    for (uint e = LANE; e < EXPERTS; e += THREADS) {
        if (is_kept[e / size] == 0u)
            continue;
        uint rank = 0u;
        for (uint o = 0u; o < EXPERTS; o++)
            rank += is_kept[o / size] != 0u &&
                            (keys[o] > keys[e] || (keys[o] == keys[e] && o < e)) ? 1u : 0u;
        if (rank < K)
            chosen[rank] = e;
    }
    barrier();
    float sum = 0.0;
    for (uint i = 0u; i < K; i++)
        sum += load_f_x(TX, first + chosen[i]);
    float factor = K > 1u ? scale / (sum + 1e-20) : scale;
    for (uint i = LANE; i < K && GROUP_INDEX < rows; i += THREADS) {
        if ((OUTS & 1u) != 0u)
            weights[w_at + row * K + i] =
                floatBitsToUint(load_f_x(TX, first + chosen[i]) * factor);
        if ((OUTS & 2u) != 0u)
            places[p_at + row * K + i] = chosen[i];
    }
}
