/* SPDX-License-Identifier: MIT */
#version 450
/* Puts w [groups * filters, channels, taps] into the order in which conv_frag.comp multiplies it:
 * [group][filters / 64][channels / 32][tap][2][4][lane] vectors of 16 bytes, padded by zeros. A
 * vector is what a lane holds of a 16 x 16 fragment of A, in the order of its registers: lane
 * 4 g + t, rows g, g + 8, g, g + 8 and two neighbouring columns each. The columns of the two
 * fragments of 32 channels are exchanged so that a lane's part of both are channels 8 t to 8 t + 7:
 * those that it reads of x in one load. BF: bf16.
 *
 * f32 becomes f16, a filter times 2^-e (range.glsl). Behind each 64 filters are 32 vectors of
 * words: their e, then for each the least sum that says that x was not too small for f16: 2^-12
 * times the sum of its magnitudes.
 *
 * A workgroup of 128 makes 16 filters: it looks for the greatest of each, then writes. */
#include "common.glsl"
#include "conv_pack_w.def"
#include "range.glsl"

TENSOR(w)
WORDS4(y);
layout(SLOT(y), std430) buffer buffer_table { uint table[]; };

const float NEVER = 3.4e38; /* no sum is as large */
shared uint tops[16];
shared vec2 sizes[128];

float load_w(uint group, uint f, uint c, uint tap)
{
    if (f >= filters || c >= channels)
        return 0.0;
    uint row = ((group * filters + f) * (channels / FOLD) + c / FOLD) * taps + tap;
    return load_f_w(T, w_at + row * FOLD + c % FOLD);
}

uint half_of(float x)
{
#ifdef BF
    return f32_to_bf16(x);
#else
    return f32_to_f16(x);
#endif
}

/* The eight numbers of this lane in half a step: row g has the even pairs, row g + 8 the others. */
void load_eight(uint group, uint f, uint i, out float v[8])
{
    uint c = i / 2u / taps * 32u + LANE % 4u * 8u + i % 2u * 4u, tap = i / 2u % taps;
    for (uint e = 0u; e < 8u; e++)
        v[e] = load_w(group, f + e / 2u % 2u * 8u, c + e / 4u * 2u + e % 2u, tap);
}

void main()
{
    if (GROUP_INDEX >= n_groups)
        return;
    const uint rows = (filters + 63u) / 64u, blocks = (channels + 31u) / 32u;
    const uint panel = GROUP_INDEX / 4u, part = GROUP_INDEX % 4u, group = panel / rows;
    const uint size = blocks * taps * 256u, first = panel * (size + 32u);
    const uint row = LANE % 32u / 4u, f = panel % rows * 64u + part * 16u + row;
    const uint items = blocks * taps * 2u;
    float v[8];
    uvec2 top = uvec2(0u);
    if (LANE < 16u)
        tops[LANE] = 0u;
    barrier();
    for (uint i = LANE / 32u; T == F32 && i < items; i += 4u) {
        load_eight(group, f, i, v);
        top.x = max(top.x, range_bits4(vec4(v[0], v[1], v[4], v[5])));
        top.y = max(top.y, range_bits4(vec4(v[2], v[3], v[6], v[7])));
    }
    atomicMax(tops[row], top.x);
    atomicMax(tops[row + 8u], top.y);
    barrier();
    const ivec2 e = ivec2(range_exponent(tops[row]), range_exponent(tops[row + 8u]));
    const vec2 by = vec2(range_power(-e.x), range_power(-e.y));
    vec2 sum = vec2(0.0);
    for (uint i = LANE / 32u; i < items; i += 4u) {
        uvec4 h = uvec4(0u);
        load_eight(group, f, i, v);
        for (uint k = 0u; k < 8u; k++) {
            float x = v[k] * (k / 2u % 2u == 0u ? by.x : by.y);
            h[k / 2u] |= half_of(x) << k % 2u * 16u;
            sum += abs(k / 2u % 2u == 0u ? vec2(x, 0.0) : vec2(0.0, x));
        }
        y[first + i / 2u * 256u + i % 2u * 128u + part * 32u + LANE % 32u] = h;
    }
    sizes[LANE] = sum;
    barrier();
    if (LANE < 16u) {
        float all = 0.0;
        for (uint i = 0u; i < 16u; i++) {
            vec2 two = sizes[i / 4u * 32u + LANE % 8u * 4u + i % 4u];
            all += LANE < 8u ? two.x : two.y;
        }
        const uint at = (first + size) * 4u + part * 16u + LANE;
        table[at] = uint(range_exponent(tops[LANE]));
        table[at + 64u] = floatBitsToUint(all > 0.0 ? all * RANGE_LEAST : NEVER);
    }
}
