/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* k and v, both f16 or both bf16, in the fragment order that attention_frag.comp reads:
 * [batch][K/V head][key / 16][SIZE / 16][32 lanes] of 16 bytes, keys up to a multiple of BLOCK with
 * zeros where there is none. Lane 4 g + t of 16 keys gets
 *   of k, pieces 2 c and 2 c + 1: elements 32 c + 8 t .. + 7 of keys g and g + 8
 *   of v, pieces 4 c + f: elements 64 c + 8 g + 2 f and + 1 of keys 2 t, 2 t + 1, 2 t + 8, 2 t + 9
 * 32 invocations pack 16 keys. */
#define OUT4
#include "attention.glsl"

layout(constant_id = 9) const uint BLOCK = 64;

WORDS4(0, packed_k);
WORDS4(1, k);
WORDS4(2, v);

/* Eight elements of a row from d on; zeros past the end. */
#define DEFINE_LOAD8(x)                                                                   \
    uvec4 load8_##x(uint batch, uint kv_head, uint key, uint n, uint d)                   \
    {                                                                                     \
        if (key >= n)                                                                     \
            return uvec4(0u);                                                             \
        uvec2 at = key_place(batch, key);                                                 \
        return x[(x##_at + at.x * x##_b + at.y * x##_s + kv_head * x##_h + d) / 8u];      \
    }
DEFINE_LOAD8(k)
DEFINE_LOAD8(v)

uint join_low(uint a, uint b) { return (a & 0xffffu) | b << 16; }
uint join_high(uint a, uint b) { return a >> 16 | (b & 0xffff0000u); }

void main()
{
    uint unit = GLOBAL_INDEX / 32u, lane = GLOBAL_INDEX % 32u, g = lane / 4u, t = lane % 4u;
    uint units = (n_keys + BLOCK - 1u) / BLOCK * BLOCK / 16u, place = unit / units;
    uint batch = place / n_kv_heads, kv_head = place % n_kv_heads, key = unit % units * 16u;
    if (batch >= n_batch)
        return;
    uint n = length_of(batch, lane == 0u), to = unit * (D / 16u) * 32u + lane;
    for (uint c = 0u; c < D / 32u; c++) {
        uvec4 x = load8_k(batch, kv_head, key + g, n, c * 32u + t * 8u);
        uvec4 y = load8_k(batch, kv_head, key + g + 8u, n, c * 32u + t * 8u);
        packed_k[to + c * 64u] = uvec4(x.xy, y.xy);
        packed_k[to + c * 64u + 32u] = uvec4(x.zw, y.zw);
    }
    for (uint c = 0u; c < D / 64u; c++) {
        uint first = key + 2u * t, d = c * 64u + g * 8u;
        uvec4 r0 = load8_v(batch, kv_head, first, n, d);
        uvec4 r1 = load8_v(batch, kv_head, first + 1u, n, d);
        uvec4 r2 = load8_v(batch, kv_head, first + 8u, n, d);
        uvec4 r3 = load8_v(batch, kv_head, first + 9u, n, d);
        [[unroll]] for (uint f = 0u; f < 4u; f++)
            o[to + (c * 4u + f) * 32u] = uvec4(join_low(r0[f], r1[f]), join_low(r2[f], r3[f]),
                                               join_high(r0[f], r1[f]), join_high(r2[f], r3[f]));
    }
}
