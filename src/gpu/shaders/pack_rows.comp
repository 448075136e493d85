/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Puts the rows of matrices x[rows, k] of any strides into the order in which the subgroups of
 * gemm_frag.comp load them: [batch][rows / 64][k / 16][4][lane] vectors of 16 bytes, the eight
 * elements of a 16 x 16 fragment that a lane holds. Rows and k are padded to 64 with zeros. f32
 * becomes f16, a row times 2^-e: range.glsl. Behind each 64 rows are their e, 16 vectors of words.
 *
 * The order of k inside 32 is that of a lane's loads from plain rows: lane 4 g + t has the elements
 * 8 t to 8 t + 7 of rows g and g + 8, the first four of each for one fragment and the others for
 * the next. A product does not mind as long as both sides have it.
 *
 * A workgroup of 128 packs some of 16 rows along all of k; its threads keep the greatest magnitude
 * of each row as they go, and only rows that f16 does not hold as they are get packed once more.
 *
 * V4: the elements lie along k and are aligned to 16 bytes, as are the lines; and k % 8 == 0.
 * QUANT: blocks of a packed type, which are decoded; offset and strides count bytes. With both,
 * PAIRS of the 8 pairs of rows g and g + 8 are packed by four lanes for each pair and block of 32.
 * Otherwise the 16 rows go through shared memory.
 *
 * TILE4, with V4: blocks of 128, in the order in which gemm_frag.comp has quants of tile4.glsl.
 * Lane 4 g + t has the elements 32 t to 32 t + 31 of the 128, for fragment 2 j + h those from
 * 16 h + 4 j on: the first and third, then the second and fourth. k is a multiple of 128.
 *
 * Nothing branches around a load: those of an invocation are all on their way at once. */
#include "common.glsl"
#include "pack_rows.def"
#include "range.glsl"

#if defined(V4)
WORDS4(x);
#elif defined(QUANT)
WORDS(x);
#define QUANT_WORDS x
#include "quant.glsl"
#else
TENSOR(x)
#endif
WORDS4(y);
layout(SLOT(y), std430) buffer buffer_exponents { uint exponents[]; };

#ifdef QUANT
const bool ROUNDS = true;
#else
const bool ROUNDS = T == F32;
#endif
const uint THREADS = 128;

/* Eight elements as f16, times `by`; updates top to their maximum. */
uvec4 round8(vec4 lo, vec4 hi, float by, inout uint top)
{
    top = max(top, max(range_bits4(lo), range_bits4(hi)));
    lo *= by;
    hi *= by;
    return uvec4(packHalf2x16(lo.xy), packHalf2x16(lo.zw), packHalf2x16(hi.xy),
                 packHalf2x16(hi.zw));
}

/* Eight elements of a row from kk on; zeros outside. */
uvec4 load8(uint first, uint row, uint kk, float by, inout uint top)
{
    bool inside = row < rows && kk < k;
    uint r = min(row, rows - 1u), c = inside ? kk : 0u;
    uvec4 v = uvec4(0u);
    uint most = top;
#if defined(QUANT)
    Eight e = quant_decode8(T, first + r * s_row, c);
    v = round8(e.lo, e.hi, by, most);
#elif defined(V4)
    uint i = first + r * s_row + c;
    if (T != F32)
        v = x[i / 8u];
    else
        v = round8(uintBitsToFloat(x[i / 4u]), uintBitsToFloat(x[i / 4u + 1u]), by, most);
#else
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        float e = load_f_x(T, first + r * s_row + min(c + j, k - 1u) * s_k);
        e = c + j < k ? e : 0.0;
        most = T == F32 ? max(most, range_bits(e)) : most;
        uint h = T == BF16 ? f32_to_bf16(e) : f32_to_f16(T == F32 ? e * by : e);
        v[j / 2u] |= h << (j % 2u * 16u);
    }
#endif
    top = inside ? most : top;
    return inside ? v : uvec4(0u);
}

/* Both fragments of 32 k of rows g and g + 8. */
void store32(uint to, uvec4 near, uvec4 far)
{
    uvec4 v = uvec4(near.xy, far.xy), w = uvec4(near.zw, far.zw);
    y[to] = LEFT != 0u ? v.xzyw : v;
    y[to + 128u] = LEFT != 0u ? w.xzyw : w;
}

#if defined(V4) || defined(QUANT)
shared uint tops[2 * PAIRS]; /* of rows g, then of rows g + 8 */

const uint QUADS = THREADS / 4 / PAIRS; /* blocks that are packed in parallel */

/* The first halves of two words, and the second ones. */
uvec2 part_halves(uvec2 v)
{
    return uvec2((v.x & 0xffffu) | v.y << 16, v.x >> 16 | (v.y & 0xffff0000u));
}

/* Packs this invocation's blocks of rows `row` and row + 8, times `by`; returns their maxima. */
uvec2 pack_blocks(uint first, uint row, uint to, vec2 by)
{
    uvec2 top = uvec2(0u);
    const uint t = LANE % 4u, quad = LANE / 4u / PAIRS;
#ifdef TILE4
    [[dont_unroll]] for (uint block = quad; block < k / 128u; block += QUADS) {
        uvec4 near[4], far[4]; /* of row g and of row g + 8 */
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            near[i] = load8(first, row, block * 128u + t * 32u + i * 8u, by.x, top.x);
            far[i] = load8(first, row + 8u, block * 128u + t * 32u + i * 8u, by.y, top.y);
        }
        [[unroll]] for (uint s = 0u; s < 8u; s++) {
            const uint i = s % 2u * 2u + s / 4u;
            uvec2 v = s / 2u % 2u == 0u ? near[i].xy : near[i].zw;
            uvec2 w = s / 2u % 2u == 0u ? far[i].xy : far[i].zw;
            y[to + block * 1024u + s * 128u] = uvec4(part_halves(v), part_halves(w));
        }
    }
#else
    const uint blocks = (k + 63u) / 64u * 2u;
    [[dont_unroll]] for (uint block = quad; block < blocks; block += 2u * QUADS) {
        uvec4 near[2], far[2];
        [[unroll]] for (uint i = 0u; i < 2u; i++) {
            near[i] = load8(first, row, (block + i * QUADS) * 32u + t * 8u, by.x, top.x);
            far[i] = load8(first, row + 8u, (block + i * QUADS) * 32u + t * 8u, by.y, top.y);
        }
        [[unroll]] for (uint i = 0u; i < 2u; i++)
            if (block + i * QUADS < blocks)
                store32(to + (block + i * QUADS) * 256u, near[i], far[i]);
    }
#endif
    return top;
}

/* e of both rows; `top`: this invocation's maxima. */
ivec2 find_exponents(uint pair, uvec2 top)
{
    atomicMax(tops[pair], top.x);
    atomicMax(tops[PAIRS + pair], top.y);
    barrier();
    return ivec2(range_exponent(tops[pair]), range_exponent(tops[PAIRS + pair]));
}

void main()
{
    const uint n_rows = (rows + 63u) / 64u, size = (k + 63u) / 64u * 512u + 16u;
    if (GROUP_INDEX >= n_groups)
        return;
    const uint panel = GROUP_INDEX / (32u / PAIRS), batch = panel / n_rows;
    const uint i2 = batch % dim2, i1 = batch / dim2 % dim1, i0 = batch / dim2 / dim1;
    const uint first = at + i0 * s_0 + i1 * s_1 + i2 * s_2;
    const uint pair = LANE / 4u % PAIRS, g8 = GROUP_INDEX % (32u / PAIRS) * PAIRS + pair;
    const uint part = g8 / 8u, g = g8 % 8u, in_panel = part * 16u + g;
    const uint row = panel % n_rows * 64u + in_panel;
    const uint to = panel * size + part * 32u + g * 4u + LANE % 4u;
    ivec2 e = ivec2(0);
    if (LANE < 2u * PAIRS)
        tops[LANE] = 0u;
    barrier();
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        vec2 by = vec2(range_power(-e.x), range_power(-e.y));
        uvec2 top = pack_blocks(first, row, to, by);
        if (!ROUNDS || attempt > 0u)
            break;
        e = find_exponents(pair, top);
        if (e == ivec2(0))
            break;
    }
    if (ROUNDS && LANE < 4u * PAIRS && LANE % 4u == 0u) {
        const uint word = (panel * size + size - 16u) * 4u + in_panel;
        exponents[word] = uint(e.x);
        exponents[word + 8u] = uint(e.y);
    }
}
#else
const uint LINE = 17; /* 128 elements and padding against bank conflicts, in vectors */
shared uvec4 tile[16 * LINE];
shared uint tops[16];
shared int powers[16]; /* e */

/* Packs 16 rows from `row` on, each times 2^-e. */
void pack_tiles(uint first, uint row, uint to)
{
    const uint blocks = (k + 63u) / 64u * 2u, g = LANE % 32u / 4u, t = LANE % 4u;
    uint top[2] = uint[](0u, 0u);
    [[dont_unroll]] for (uint block = 0u; block < blocks; block += 4u) {
        uvec4 loaded[2];
        [[unroll]] for (uint i = 0u; i < 2u; i++) {
            uint u = LANE + i * THREADS;
            uint line = ALONG != 0u ? u % 16u : u / 16u, kv = ALONG != 0u ? u / 16u : u % 16u;
            float by = ROUNDS ? range_power(-powers[line]) : 1.0;
            loaded[i] = load8(first, row + line, block * 32u + kv * 8u, by, top[i]);
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 2u; i++) {
            uint u = LANE + i * THREADS;
            uint line = ALONG != 0u ? u % 16u : u / 16u, kv = ALONG != 0u ? u / 16u : u % 16u;
            tile[line * LINE + kv] = loaded[i];
        }
        barrier();
        uint own = LANE / 32u;
        if (block + own < blocks)
            store32(to + (block + own) * 256u, tile[g * LINE + own * 4u + t],
                    tile[(g + 8u) * LINE + own * 4u + t]);
    }
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uint u = LANE + i * THREADS;
        if (ROUNDS)
            atomicMax(tops[ALONG != 0u ? u % 16u : u / 16u], top[i]);
    }
}

void main()
{
    const uint n_rows = (rows + 63u) / 64u, size = (k + 63u) / 64u * 512u + 16u;
    if (GROUP_INDEX >= n_groups)
        return;
    const uint panel = GROUP_INDEX / 4u, part = GROUP_INDEX % 4u, batch = panel / n_rows;
    const uint i2 = batch % dim2, i1 = batch / dim2 % dim1, i0 = batch / dim2 / dim1;
    const uint first = at + i0 * s_0 + i1 * s_1 + i2 * s_2;
    const uint row = panel % n_rows * 64u + part * 16u;
    const uint to = panel * size + part * 32u + LANE % 32u;
    if (LANE < 16u) {
        tops[LANE] = 0u;
        powers[LANE] = 0;
    }
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        barrier();
        pack_tiles(first, row, to);
        if (!ROUNDS || attempt > 0u)
            break;
        barrier();
        int any = 0;
        for (uint i = 0u; i < 16u; i++)
            any |= range_exponent(tops[i]);
        if (LANE < 16u) {
            powers[LANE] = range_exponent(tops[LANE]);
            exponents[(panel * size + size - 16u) * 4u + part * 16u + LANE] = uint(powers[LANE]);
        }
        if (any == 0)
            break;
    }
}
#endif
