/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Packed weights [n_rows, k] of q4_*, q5_*, q6_k or q8_0 to the layout of tile4.glsl. An invocation
 * does one block of each of four rows; n of them do something. */
#include "common.glsl"
#include "tile4_pack.def"

WORDS(w);
WORDS(o);

#define FAMILY 0
#define QUANT_WORDS w
#include "quant.glsl"
#include "tile4.glsl"

/* What a block adds to the parts that rows share. */
struct Shared {
    uint high[8], scales[4], supers[4];
};

void take_scales(uint r, uint at, uint g, inout Shared s)
{
    if (!has_supers(T)) {
        if (has_minima(T))
            s.scales[r] = w[at >> 2];
        else
            s.scales[r >> 1] |= quant_u16(at) << (r & 1u) * 16u;
    } else if (T == Q6_K) {
        s.scales[r >> 1] |= quant_u16(at + 192u + g * 2u) << (r & 1u) * 16u;
        s.supers[r >> 1] |= quant_u16(at + 208u) << (r & 1u) * 16u;
    } else {
        vec2 m = scale_and_min(at >> 2, g);
        s.scales[0] |= uint(m.x) << r * 8u;
        s.scales[1] |= uint(m.y) << r * 8u;
        s.supers[r] = w[at >> 2];
    }
}

/* Row r of the four: writes its quants, from word `first` on in steps of 32 vectors. */
void take_row(uint r, uint at, uint j0, uint first, inout Shared s)
{
    uint q[8];
    [[unroll]] for (uint i = 0u; i < FOUR; i++) {
        uvec2 two = quant_stored8(T, at, j0 + i * 8u);
        q[i * 2u] = two.x;
        q[i * 2u + 1u] = two.y;
    }
    [[unroll]] for (uint j = 0u; j < FOUR; j++) {
        uint lo = q[j], hi = q[j + 4u];
        if (T == Q8_0) {
            o[first + j] = lo;
            o[first + 128u + j] = hi;
        } else {
            o[first + j] = (lo & 0x0f0f0f0fu) | (hi & 0x0f0f0f0fu) << 4;
        }
        if (T == Q6_K) {
            s.high[r * 2u] |= (lo >> 4 & 0x03030303u) << j * 2u;
            s.high[r * 2u + 1u] |= (hi >> 4 & 0x03030303u) << j * 2u;
        } else {
            s.high[r] |= (lo >> 4 & 0x01010101u) << j | (hi >> 4 & 0x01010101u) << (4u + j);
        }
    }
}

void main()
{
    uint i = GLOBAL_INDEX, n_tiles = (n_blocks + 31u) / 32u;
    if (i < n) {
        uint lane = i % 32u, tile = i / 32u, block = tile % n_tiles * 32u + lane;
        uint row = tile / n_tiles * 4u, base = tile * tile_vectors(T) * 4u;
        uint size = quant_block_size(T), k = block * 32u;
        Shared s = Shared(uint[](0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u), uint[](0u, 0u, 0u, 0u),
                          uint[](0u, 0u, 0u, 0u));
        [[unroll]] for (uint r = 0u; r < FOUR; r++) {
            uint first = base + (r * tile_quants(T) + lane) * 4u;
            if (block < n_blocks && row + r < n_rows) {
                uint at = w_at + (row + r) * row_bytes + k / size * quant_block_bytes(T);
                take_row(r, at, k % size, first, s);
                take_scales(r, at, k % size >> 5, s);
            } else {
                for (uint j = 0u; j < tile_quants(T) / 8u; j++)
                    o[first + j % 4u + j / 4u * 128u] = 0u;
            }
        }
        uint at = base + tile_quants(T) * 16u;
        for (uint j = 0u; j < tile_high(T) / 8u; j++)
            o[at + (j / 4u * 32u + lane) * 4u + j % 4u] = s.high[j];
        at += tile_high(T) * 4u;
        uint words = tile_scales(T) / 8u;
        for (uint j = 0u; j < words; j++)
            o[at + lane * words + j] = s.scales[j];
        at += tile_scales(T) * 4u;
        words = tile_supers(T);
        if (lane % 8u == 0u)
            for (uint j = 0u; j < words; j++)
                o[at + lane / 8u * words + j] = s.supers[j];
    }
}
