/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
/* Running sums, and products of integers, as scan.comp makes them, of dense rows (inner == 1) of
 * f32 or i32 whose length, parts and offsets are multiples of 4, counted in loads of 16 bytes here.
 *
 * A workgroup makes one part of one row, ITEMS loads an invocation at a time: each joins its own
 * elements, its subgroup joins those of its members, and the totals of the subgroups are joined
 * from shared memory. */
#include "common.glsl"
#include "scan_sg.def"
#include "value.glsl"

WORDS4(x);
WORDS4(y);
WORDS(start);

shared uint totals[ITEMS * THREADS]; /* [item][subgroup] */

uint join(uint a, uint b) { return join_values(KIND, TX, a, b); }

uint subgroup_total(uint v)
{
    if (is_float(TX))
        return floatBitsToUint(subgroupAdd(uintBitsToFloat(v)));
    return KIND == SUM ? subgroupAdd(v) : subgroupMul(v);
}

/* Exclusive scan over the subgroup. */
uint subgroup_before(uint v)
{
    if (is_float(TX))
        return floatBitsToUint(subgroupExclusiveAdd(uintBitsToFloat(v)));
    return KIND == SUM ? subgroupExclusiveAdd(v) : subgroupExclusiveMul(v);
}

/* The i-th load of a row in scan order. */
uint find_place(uint row, uint i) { return row * n + (REVERSE != 0u ? n - 1u - i : i); }

void main()
{
    uint row = min(GROUP_INDEX / parts, rows - 1u), part = GROUP_INDEX % parts;
    bool exists = GROUP_INDEX / parts < rows;
    uint carry = CARRY != 0u ? start[row * parts + part] : start_low;
    uint end = min(n, (part + 1u) * chunk);
    for (uint base = part * chunk; base < end; base += THREADS * ITEMS) {
        uvec4 v[ITEMS];
        uint before[ITEMS];
        [[unroll]] for (uint q = 0u; q < ITEMS; q++) {
            uint i = base + q * THREADS + LANE;
            v[q] = uvec4(start_low);
            if (i < end) {
                uvec4 w = x[x_at + find_place(row, i)];
                v[q] = REVERSE != 0u ? w.wzyx : w;
            }
        }
        [[unroll]] for (uint q = 0u; q < ITEMS; q++) {
            v[q].y = join(v[q].x, v[q].y);
            v[q].z = join(v[q].y, v[q].z);
            v[q].w = join(v[q].z, v[q].w);
            before[q] = subgroup_before(v[q].w);
            uint total = subgroup_total(v[q].w);
            if (gl_SubgroupInvocationID == 0u)
                totals[q * THREADS + gl_SubgroupID] = total;
        }
        barrier();
        [[unroll]] for (uint q = 0u; q < ITEMS; q++) {
            uint first = carry;
            for (uint s = 0u; s < gl_NumSubgroups; s++) {
                first = s == gl_SubgroupID ? carry : first;
                carry = join(carry, totals[q * THREADS + s]);
            }
            first = join(first, before[q]);
            uvec4 w = EXCLUSIVE != 0u
                          ? uvec4(first, join(first, v[q].x), join(first, v[q].y),
                                  join(first, v[q].z))
                          : uvec4(join(first, v[q].x), join(first, v[q].y), join(first, v[q].z),
                                  join(first, v[q].w));
            uint i = base + q * THREADS + LANE;
            if (exists && i < end)
                y[y_at + find_place(row, i)] = REVERSE != 0u ? w.wzyx : w;
        }
        barrier();
    }
}
