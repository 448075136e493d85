/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* One token from each row of logits [rows, V]: the procedure of cpu/ref/sample.c, bit by bit. One
 * workgroup a row. */
#include "common.glsl"
#include "sample.def"
#include "sample.glsl"
#include "sample_row.glsl"

WORDS(y);

void main()
{
    uint row = GROUP_INDEX;
    if (row >= rows) /* uniform over the workgroup */
        return;
    Sampler s = make_sampler(row);
    uint best = 0u, best_at = 0xffffffffu;
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            if (keys[j] > best) {
                best = keys[j];
                best_at = i + j * gl_WorkGroupSize.x;
            }
    }
    uvec2 first = reduce_first(best, best_at);
    s.first = first.x;
    uint steps = share_word(steps_of(s)), token = first.y;
    if (steps != 0u)
        token = draw(s, row, steps);
    if (LANE == 0u)
        y[row] = token;
}
