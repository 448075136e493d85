/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* k and v, both f16 or both bf16, in the fragment order that attention_frag.comp reads:
 * [batch][K/V head][key / 16][SIZE / 16][32 lanes] of 16 bytes, keys up to a multiple of BLOCK with
 * zeros where there is none. Lane 4 g + t of 16 keys gets
 *   of k, pieces 2 c and 2 c + 1: elements 32 c + 8 t .. + 7 of keys g and g + 8
 *   of v, pieces 4 c + f: elements 64 c + 8 h + 2 f and + 1 of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9,
 *     h = g / 2 + 4 (g % 2): results of neighbouring lanes are then neighbours in memory
 * 32 invocations pack 64 elements of 16 keys of k or of v: four loads are under way at a time. */
#define OUT4
#include "common.glsl"
#include "attention_pack.def"
#include "attention.glsl"

WORDS4(packed_k);
WORDS4(k);
WORDS4(v);

/* Eight elements of a row from d on; zeros past the end. A load that no branch stands before goes
 * out with the others; a table of pages is not read past the end. */
#define DEFINE_LOAD8(x)                                                                   \
    uvec4 load8_##x(uint batch, uint kv_head, uint key, uint n, uint d)                   \
    {                                                                                     \
        if (PAGE != 0u && key >= n)                                                       \
            return uvec4(0u);                                                             \
        uvec2 at = key_place(batch, min(key, max(n, 1u) - 1u));                           \
        uvec4 w = x[(x##_at + at.x * x##_b + at.y * x##_s + kv_head * x##_h + d) / 8u];   \
        return key < n ? w : uvec4(0u);                                                   \
    }
DEFINE_LOAD8(k)
DEFINE_LOAD8(v)

uint join_low(uint a, uint b) { return (a & 0xffffu) | b << 16; }
uint join_high(uint a, uint b) { return a >> 16 | (b & 0xffff0000u); }

void pack_k(uint batch, uint kv_head, uint key, uint n, uint c, uint to)
{
    uint lane = LANE % 32u, first = key + lane / 4u, d = c * 64u + lane % 4u * 8u;
    uvec4 x0 = load8_k(batch, kv_head, first, n, d);
    uvec4 y0 = load8_k(batch, kv_head, first + 8u, n, d);
    uvec4 x1 = load8_k(batch, kv_head, first, n, d + 32u);
    uvec4 y1 = load8_k(batch, kv_head, first + 8u, n, d + 32u);
    packed_k[to] = uvec4(x0.xy, y0.xy);
    packed_k[to + 32u] = uvec4(x0.zw, y0.zw);
    packed_k[to + 64u] = uvec4(x1.xy, y1.xy);
    packed_k[to + 96u] = uvec4(x1.zw, y1.zw);
}

void pack_v(uint batch, uint kv_head, uint key, uint n, uint c, uint to)
{
    uint lane = LANE % 32u, first = key + lane % 4u * 2u, g = lane / 4u;
    uint d = c * 64u + (g / 2u + g % 2u * 4u) * 8u;
    uvec4 r0 = load8_v(batch, kv_head, first, n, d);
    uvec4 r1 = load8_v(batch, kv_head, first + 1u, n, d);
    uvec4 r2 = load8_v(batch, kv_head, first + 8u, n, d);
    uvec4 r3 = load8_v(batch, kv_head, first + 9u, n, d);
    [[unroll]] for (uint f = 0u; f < 4u; f++)
        o[to + f * 32u] = uvec4(join_low(r0[f], r1[f]), join_low(r2[f], r3[f]),
                                join_high(r0[f], r1[f]), join_high(r2[f], r3[f]));
}

void main()
{
    const uint N_PARTS = D / 32u;
    uint index = (gl_WorkGroupID.x * gl_WorkGroupSize.x + LANE) / 32u;
    uint unit = index / N_PARTS, part = index % N_PARTS, c = part / 2u;
    uint units = (n_keys + BLOCK - 1u) / BLOCK * BLOCK / 16u;
    uint place = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    uint batch = n_batch > 1u ? place / n_kv_heads : 0u, kv_head = place - batch * n_kv_heads;
    if (batch >= n_batch || kv_head >= n_kv_heads || unit >= units)
        return;
    uint n = length_of(batch, part == 0u && LANE % 32u == 0u), key = unit * 16u;
    uint to = ((place * units + unit) * (D / 16u) + c * 4u) * 32u + LANE % 32u;
    if (part % 2u == 0u)
        pack_k(batch, kv_head, key, n, c, to);
    else
        pack_v(batch, kv_head, key, n, c, to);
}
