/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Puts x [N, groups * channels, in..] into the order that conv_frag.comp reads:
 * [N, groups, channels / 32, places, 32] of 16 bits, channels padded to 32 by zeros, a place being
 * (depth, row, column) of x with its padding, or every step-th of them along an axis where a window
 * is one element. f32 becomes f16.
 *
 * One workgroup of 128 moves 32 channels of 64 places through shared memory: eight channels of a
 * place an invocation, read along places and written along channels. BF: bf16, else f16. */
#include "common.glsl"

layout(constant_id = 1) const uint T = F16;
layout(constant_id = 30) const uint FOUR = 4;

layout(push_constant) uniform Push {
    uint n_groups, channels, x_at;
    uint in_d, in_h, in_w, to_d, to_h, to_w;
    int step_d, step_h, step_w, begin_d, begin_h, begin_w;
};

TENSOR(0, x)
WORDS4(1, y);

const uint PLACES = 64, LINE = 5; /* vectors of a place, and a gap against conflicts */
shared uvec4 tile[PLACES * LINE];

uint load_bits(uint i)
{
    if (T == F32)
#ifdef BF
        return f32_to_bf16(load_f_x(T, i));
#else
        return f32_to_f16(load_f_x(T, i));
#endif
    return x[i >> 1] >> ((i & 1u) * 16u) & 0xffffu;
}

uvec4 load_channels(uint i, uint left)
{
    uint area = in_d * in_h * in_w;
    uvec4 v = uvec4(0u);
    [[unroll]] for (uint e = 0u; e < FOUR; e++) {
        if (2u * e < left)
            v[e] = load_bits(i + 2u * e * area);
        if (2u * e + 1u < left)
            v[e] |= load_bits(i + (2u * e + 1u) * area) << 16;
    }
    return v;
}

void main()
{
    uint area = to_d * to_h * to_w, tiles = (area + PLACES - 1u) / PLACES;
    uint blocks = (channels + 31u) / 32u;
    uint first = GROUP_INDEX % tiles * PLACES, block = GROUP_INDEX / tiles % blocks;
    uint part = GROUP_INDEX / tiles / blocks; /* image * groups + group */
    uint place = first + LANE % PLACES;
    ivec3 at = ivec3(place / to_w / to_h, place / to_w % to_h, place % to_w);
    at = at * ivec3(step_d, step_h, step_w) - ivec3(begin_d, begin_h, begin_w);
    bool there = GROUP_INDEX < n_groups && place < area && uint(at.x) < in_d &&
                 uint(at.y) < in_h && uint(at.z) < in_w;
    uint i = x_at + (uint(at.x) * in_h + uint(at.y)) * in_w + uint(at.z);
    for (uint eight = LANE / PLACES; eight < 4u; eight += 2u) {
        uint c = block * 32u + eight * 8u;
        uint left = there && c < channels ? channels - c : 0u;
        tile[LANE % PLACES * LINE + eight] =
            load_channels(i + (part * channels + c) * in_d * in_h * in_w, left);
    }
    barrier();
    for (uint v = LANE; v < PLACES * 4u; v += 128u)
        if (GROUP_INDEX < n_groups && first + v / 4u < area)
            y[((part * blocks + block) * area + first) * 4u + v] = tile[v / 4u * LINE + v % 4u];
}
