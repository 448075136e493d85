/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Puts the rows of matrices x[rows, k] of any strides into the order in which the subgroups of
 * gemm_frag.comp load them: [batch][rows / 64][k / 16][4][lane] vectors of 16 bytes, the eight
 * elements of a 16 x 16 fragment that a lane holds. Rows and k are padded to 64 with zeros. f32
 * becomes f16.
 *
 * The order of k inside 32 is that of a lane's loads from plain rows: lane 4 g + t has the elements
 * 8 t to 8 t + 7 of rows g and g + 8, the first four of each for one fragment and the others for
 * the next. A product does not mind as long as both sides have it.
 *
 * One workgroup of four subgroups of 32 packs 64 rows x 64 k of a batch. V4: the elements lie along
 * k and are aligned to 16 bytes, as are the lines; and k % 8 == 0. QUANT: blocks of a packed type,
 * which are decoded; offset and strides count bytes.
 *
 * TILE4, with V4: 64 rows x 128 k, in the order in which gemm_frag.comp has quants of tile4.glsl.
 * Lane 4 g + t has the elements 32 t to 32 t + 31 of the 128, for fragment 2 j + h those from
 * 16 h + 4 j on: the first and third, then the second and fourth. k is a multiple of 128.
 *
 * Nothing branches around a load: those of an invocation are all on their way at once. */
#include "common.glsl"

layout(constant_id = 1) const uint T = F16;
layout(constant_id = 2) const uint ALONG = 0; /* neighbours read along k (0) or rows (1) */
layout(constant_id = 3) const uint LEFT = 0;  /* words in the order of a left operand's registers */

layout(push_constant) uniform Push {
    uint rows, k, n_groups;
    uint at, s_row, s_k;      /* first element, strides */
    uint dim1, dim2, s_0, s_1, s_2; /* batch = (i0 * dim1 + i1) * dim2 + i2 */
};

#if defined(V4)
WORDS4(0, x);
#elif defined(QUANT)
WORDS(0, x);
#define FAMILY 0
#define QUANT_WORDS x
#include "quant.glsl"
#else
TENSOR(0, x)
const uint LINE = 9; /* 64 elements and a gap against conflicts, in vectors */
shared uvec4 tile[64 * LINE];
#endif
WORDS4(1, y);

uvec4 join8(vec4 lo, vec4 hi)
{
    return uvec4(packHalf2x16(lo.xy), packHalf2x16(lo.zw), packHalf2x16(hi.xy),
                 packHalf2x16(hi.zw));
}

/* Eight elements of a row from kk on; zeros outside. */
uvec4 load8(uint first, uint row, uint kk)
{
    bool inside = row < rows && kk < k;
    uint r = min(row, rows - 1u), c = inside ? kk : 0u;
#if defined(QUANT)
    Eight e = quant_decode8(T, first + r * s_row, c);
    return inside ? join8(e.lo, e.hi) : uvec4(0u);
#elif defined(V4)
    uint i = first + r * s_row + c;
    if (T != F32)
        return inside ? x[i / 8u] : uvec4(0u);
    uvec4 lo = x[i / 4u], hi = x[i / 4u + 1u];
    return inside ? join8(uintBitsToFloat(lo), uintBitsToFloat(hi)) : uvec4(0u);
#else
    uvec4 v = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        float e = load_f_x(T, first + r * s_row + min(c + j, k - 1u) * s_k);
        uint h = T == BF16 ? f32_to_bf16(e) : f32_to_f16(e);
        v[j / 2u] |= (inside && c + j < k ? h : 0u) << (j % 2u * 16u);
    }
    return v;
#endif
}

/* The first halves of two words, and the second ones. */
uvec2 part_halves(uvec2 v)
{
    return uvec2((v.x & 0xffffu) | v.y << 16, v.x >> 16 | (v.y & 0xffff0000u));
}

void main()
{
#ifdef TILE4
    const uint depth = 128u;
#else
    const uint depth = 64u;
#endif
    uint n_rows = (rows + 63u) / 64u, n_k = (k + depth - 1u) / depth;
    if (GROUP_INDEX >= n_groups)
        return;
    uint kd = GROUP_INDEX % n_k, r64 = GROUP_INDEX / n_k % n_rows;
    uint batch = GROUP_INDEX / n_k / n_rows;
    uint i2 = batch % dim2, i1 = batch / dim2 % dim1, i0 = batch / dim2 / dim1;
    uint first = at + i0 * s_0 + i1 * s_1 + i2 * s_2;
    uint part = LANE / 32u, g = LANE % 32u / 4u, t = LANE % 4u;

    uint row = r64 * 64u + part * 16u + g;
    uint to = ((batch * n_rows + r64) * n_k + kd) * depth * 8u + part * 32u + LANE % 32u;

#ifdef TILE4
    uvec4 near[4], far[4]; /* of row g and of row g + 8 */
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        near[i] = load8(first, row, kd * depth + t * 32u + i * 8u);
        far[i] = load8(first, row + 8u, kd * depth + t * 32u + i * 8u);
    }
    [[unroll]] for (uint s = 0u; s < 8u; s++) {
        const uint i = s % 2u * 2u + s / 4u;
        uvec2 v = s / 2u % 2u == 0u ? near[i].xy : near[i].zw;
        uvec2 w = s / 2u % 2u == 0u ? far[i].xy : far[i].zw;
        y[to + s * 128u] = uvec4(part_halves(v), part_halves(w));
    }
#else
    uvec4 near[2], far[2]; /* of row g and of row g + 8; for k and k + 32 */
#if defined(V4) || defined(QUANT)
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        near[i] = load8(first, row, kd * depth + i * 32u + t * 8u);
        far[i] = load8(first, row + 8u, kd * depth + i * 32u + t * 8u);
    }
#else
    uvec4 loaded[4];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint u = LANE + i * 128u;
        uint line = ALONG != 0u ? u % 64u : u / 8u, kv = ALONG != 0u ? u / 64u : u % 8u;
        loaded[i] = load8(first, r64 * 64u + line, kd * depth + kv * 8u);
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint u = LANE + i * 128u;
        uint line = ALONG != 0u ? u % 64u : u / 8u, kv = ALONG != 0u ? u / 64u : u % 8u;
        tile[line * LINE + kv] = loaded[i];
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        near[i] = tile[(part * 16u + g) * LINE + i * 4u + t];
        far[i] = tile[(part * 16u + g + 8u) * LINE + i * 4u + t];
    }
#endif
    [[unroll]] for (uint i = 0u; i < 2u; i++) {
        uvec4 v = uvec4(near[i].xy, far[i].xy), w = uvec4(near[i].zw, far[i].zw);
        y[to + i * 256u] = LEFT != 0u ? v.xzyw : v;
        y[to + i * 256u + 128u] = LEFT != 0u ? w.xzyw : w;
    }
#endif
}
