/* SPDX-License-Identifier: MIT */
#version 450
/* Puts w [groups * filters, channels, taps] into the order in which conv_frag.comp multiplies it:
 * [group][filters / 64][channels / 32][tap][2][4][lane] vectors of 16 bytes, padded by zeros. A
 * vector is what a lane holds of a 16 x 16 fragment of A, in the order of its registers: lane
 * 4 g + t, rows g, g + 8, g, g + 8 and two neighbouring columns each. The columns of the two
 * fragments of 32 channels are exchanged so that a lane's part of both are channels 8 t to 8 t + 7:
 * those that it reads of x in one load. f32 becomes f16. BF: bf16.
 *
 * One invocation makes a vector. */
#include "common.glsl"

layout(constant_id = 1) const uint T = F16;
layout(constant_id = 2) const uint FOLD = 1; /* taps that are channels: conv_pack_x.comp */

layout(push_constant) uniform Push {
    uint total, filters, channels, taps, w_at;
};

TENSOR(0, w)
WORDS4(1, y);

uint load_bits(uint group, uint f, uint c, uint tap)
{
    if (f >= filters || c >= channels)
        return 0u;
    uint row = ((group * filters + f) * (channels / FOLD) + c / FOLD) * taps + tap;
    uint i = w_at + row * FOLD + c % FOLD;
#ifdef BF
    return f32_to_bf16(load_f_w(T, i));
#else
    return f32_to_f16(load_f_w(T, i));
#endif
}

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= total)
        return;
    uint lane = i % 32u, part = i / 32u % 4u, half_step = i / 128u % 2u, tap = i / 256u % taps;
    uint rest = i / 256u / taps, blocks = (channels + 31u) / 32u, rows = (filters + 63u) / 64u;
    uint group = rest / blocks / rows;
    uint f = rest / blocks % rows * 64u + part * 16u + lane / 4u;
    uint c = rest % blocks * 32u + lane % 4u * 8u + half_step * 4u;
    uvec4 v;
    for (uint e = 0u; e < 4u; e++) {
        uint row = f + e % 2u * 8u, first = c + e / 2u * 2u;
        v[e] = load_bits(group, row, first, tap) | load_bits(group, row, first + 1u, tap) << 16;
    }
    y[i] = v;
}
