/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_integer_dot_product : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
/* Product of ROWS rows (few) with a quantised weight [n, k] by dots of 8-bit integers: product.glsl
 * says what is computed, tile4.glsl how the weight lies. x is rounded to 16 bits with a scale for
 * each 32 elements, as 256 times a signed byte plus another: 8 bits alone lose too much where a few
 * elements are large. With TIDS a batch is one row and its weight is one of a bank.
 *
 * Subgroups have 32 lanes. KS of them share a group of four columns: each takes every KS-th tile,
 * so that neighbours read one stretch of memory. The grid is (workgroups that stay, batches); a
 * workgroup walks over groups, with the next tile on its way while one is multiplied. x lies in
 * shared memory; partial sums of split groups wait there and are joined BATCH at a time.
 *
 * FOLD: x is made of what is read, a norm over its mean square times gamma (1) or a product (2). */
#include "common.glsl"
#define QUANT_PUSH uint fold_at; float fold_eps;
#include "product.glsl"

layout(constant_id = 9) const uint NB = 128;     /* blocks of 32 along k */
layout(constant_id = 10) const uint KS = 1;
layout(constant_id = 11) const uint THREADS = 256; /* the local size again */
layout(constant_id = 12) const uint ROWS = 1;
layout(constant_id = 13) const uint TIDS = 0;
layout(constant_id = 14) const uint FOLD = 0;

WORDS4(0, a);
WORDS4(1, weights);
TENSOR(5, ids)
layout(set = 0, binding = 6, std430) buffer buffer_flags { uint flags[]; };
WORDS4(7, other); /* gamma, or the second factor: f32 */

#define FAMILY 4
#define QUANT_WORDS flags
#include "quant.glsl"
#include "tile4.glsl"

const uint SUBGROUPS = THREADS / 32, NT = (NB + 31) / 32, SETS = SUBGROUPS / KS;
const uint BATCH = 32 / ROWS;

shared uvec4 sx[ROWS * NB * 4];  /* [row][upper, lower bytes][half][block] */
shared vec2 sd[ROWS * NB];       /* scale of a block of x, sum of its elements */
shared vec4 parts[SUBGROUPS * BATCH * ROWS];
shared float squares[SUBGROUPS * ROWS];

#define SIDE gl_SubgroupInvocationID
const float MOST = 32639.0; /* 127 * 256 + 127 */

/* ---- x --------------------------------------------------------------------------------------- */

vec4 x_four(uint i)
{
    if (TA == F32)
        return uintBitsToFloat(a[i >> 2]);
    uvec4 w = a[i >> 3];
    uvec2 h = (i & 4u) == 0u ? w.xy : w.zw;
    if (TA == F16)
        return vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
    return uintBitsToFloat(uvec4(h.x << 16, h.x & 0xffff0000u, h.y << 16, h.y & 0xffff0000u));
}

/* 1 / sqrt(mean square) of the rows, to squares[row * SUBGROUPS]. */
void prepare_norm(uint first)
{
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        float sum = 0.0;
        for (uint i = LANE; i < NB * 8u; i += THREADS) {
            vec4 x = x_four(first + r * a_m + i * 4u);
            sum += dot(x, x);
        }
        sum = subgroupAdd(sum);
        if (SIDE == 0u)
            squares[r * SUBGROUPS + gl_SubgroupID] = sum;
    }
    barrier();
    if (LANE < ROWS) {
        float sum = 0.0;
        for (uint s = 0u; s < SUBGROUPS; s++)
            sum += squares[LANE * SUBGROUPS + s];
        squares[LANE * SUBGROUPS] = inversesqrt(sum / float(NB * 32u) + fold_eps);
    }
    barrier();
}

/* Elements 4 i to 4 i + 3 of row r. */
vec4 load_x(uint first, uint r, uint i)
{
    vec4 x = x_four(first + r * a_m + i * 4u);
    if (FOLD == 1u)
        x *= squares[r * SUBGROUPS] * uintBitsToFloat(other[fold_at / 4u + i]);
    if (FOLD == 2u)
        x *= uintBitsToFloat(other[fold_at / 4u + r * NB * 8u + i]);
    return x;
}

/* Four elements an invocation; eight neighbours hold a block. */
void prepare_x(uint first)
{
    if (FOLD == 1u)
        prepare_norm(first);
    for (uint e = LANE; e < ROWS * NB * 8u; e += THREADS) {
        uint r = e / (NB * 8u), i = e % (NB * 8u), block = i / 8u, word = i % 8u;
        vec4 x = load_x(first, r, i);
        vec4 size = abs(x);
        float top = max(max(size.x, size.y), max(size.z, size.w));
        top = max(top, subgroupShuffleXor(top, 1u));
        top = max(top, subgroupShuffleXor(top, 2u));
        top = max(top, subgroupShuffleXor(top, 4u));
        ivec4 q = ivec4(roundEven(x * (top > 0.0 ? MOST / top : 0.0)));
        int sum = q.x + q.y + q.z + q.w;
        sum += subgroupShuffleXor(sum, 1u);
        sum += subgroupShuffleXor(sum, 2u);
        sum += subgroupShuffleXor(sum, 4u);
        uvec4 u = uvec4(q + 128 >> 8) & 0xffu, v = uvec4(q) & 0xffu;
        uint at = (r * 4u + word / 4u) * NB + block;
        sx[at][word & 3u] = u.x | u.y << 8 | u.z << 16 | u.w << 24;
        sx[at + 2u * NB][word & 3u] = v.x | v.y << 8 | v.z << 16 | v.w << 24;
        if (word == 0u)
            sd[r * NB + block] = vec2(top / MOST, top / MOST * float(sum));
    }
    barrier();
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

#ifdef BYTES /* q8_0 */
#define N_QUANTS 8
#else
#define N_QUANTS 4
#endif

struct Tile {
    uvec4 quants[N_QUANTS], high[2], scales, supers;
};

Tile load_tile(uint group, uint t)
{
    Tile v;
    uint at = (group * NT + t) * tile_vectors(TB);
    [[unroll]] for (uint i = 0u; i < N_QUANTS; i++)
        v.quants[i] = weights[at + i * 32u + SIDE];
    at += 4u * tile_quants(TB);
    [[unroll]] for (uint i = 0u; i < tile_high(TB) / 32u; i++)
        v.high[i] = weights[at + i * 32u + SIDE];
    at += tile_high(TB);
    if (has_minima(TB)) {
        v.scales = weights[at + SIDE];
    } else {
        uvec4 s = weights[at + SIDE / 2u];
        v.scales.xy = (SIDE & 1u) == 0u ? s.xy : s.zw;
    }
    at += tile_scales(TB);
    if (TB == Q6_K) {
        uvec4 s = weights[at + SIDE / 16u];
        v.supers.xy = (SIDE & 8u) == 0u ? s.xy : s.zw;
    } else if (has_supers(TB)) {
        v.supers = weights[at + SIDE / 8u];
    }
    return v;
}

float half_of(uvec4 s, uint r)
{
    vec2 h = unpackHalf2x16(s[r >> 1]);
    return (r & 1u) == 0u ? h.x : h.y;
}

/* The 32 stored numbers of column r as bytes: elements 0 to 15, and 16 to 31; of q6_k minus 32. */
void unpack_column(in Tile t, uint r, out uvec4 lo, out uvec4 hi)
{
#ifdef BYTES
    lo = t.quants[r * 2u];
    hi = t.quants[r * 2u + 1u];
#else
    const uvec4 by = uvec4(0u, 1u, 2u, 3u);
    lo = t.quants[r] & 0x0f0f0f0fu;
    hi = t.quants[r] >> 4 & 0x0f0f0f0fu;
    if (TB == Q6_K) {
        uvec2 h = (r & 1u) == 0u ? t.high[r >> 1].xy : t.high[r >> 1].zw;
        lo |= uvec4(h.x) >> by * 2u << 4 & 0x30303030u;
        hi |= uvec4(h.y) >> by * 2u << 4 & 0x30303030u;
        lo = ((lo | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
        hi = ((hi | 0x80808080u) - 0x20202020u) ^ 0x80808080u;
    } else if (tile_high(TB) != 0u) {
        lo |= uvec4(t.high[0][r]) >> by << 4 & 0x10101010u;
        hi |= uvec4(t.high[0][r]) >> (by + 4u) << 4 & 0x10101010u;
    }
#endif
}

int dot16(uvec4 q, uvec4 x)
{
    return dotPacked4x8EXT(int(q.x), int(x.x)) + dotPacked4x8EXT(int(q.y), int(x.y)) +
           dotPacked4x8EXT(int(q.z), int(x.z)) + dotPacked4x8EXT(int(q.w), int(x.w));
}

/* The same with x of 16 bits: upper and lower bytes. */
int dot32(uvec4 q, uvec4 upper, uvec4 lower)
{
    return 256 * dot16(q, upper) + dot16(q, lower);
}

/* The sum of a block of column r from the dots of its halves; ds: scale and sum of the x. */
float scaled_sum(in Tile t, uint r, int a0, int a1, vec2 ds)
{
    float sum = ds.x * float(a0 + a1);
    if (TB == Q8_0)
        return half_of(t.scales, r) * sum;
    if (TB == Q4_0 || TB == Q5_0)
        return half_of(t.scales, r) * (sum - (TB == Q4_0 ? 8.0 : 16.0) * ds.y);
    if (has_minima(TB)) {
        vec2 d = unpackHalf2x16(t.scales[r]);
        return d.x * sum + d.y * ds.y;
    }
    if (TB == Q6_K) {
        int s = int(t.scales[r >> 1] >> (r & 1u) * 16u);
        int s0 = bitfieldExtract(s, 0, 8), s1 = bitfieldExtract(s, 8, 8);
        float both = float(s0) * float(a0) + float(s1) * float(a1);
        return half_of(t.supers, r) * ds.x * both;
    }
    vec2 d = unpackHalf2x16(t.supers[r]);
    float scale = float(t.scales.x >> r * 8u & 0xffu), low = float(t.scales.y >> r * 8u & 0xffu);
    return d.x * scale * sum - d.y * low * ds.y;
}

/* Two columns at a time, so that each is unpacked once and x is read twice. */
void add_tile(in Tile t, uint block, inout vec4 sum[ROWS])
{
    [[unroll]] for (uint c = 0u; c < 4u; c += 2u) {
        uvec4 lo0, hi0, lo1, hi1;
        unpack_column(t, c, lo0, hi0);
        unpack_column(t, c + 1u, lo1, hi1);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint at = r * 4u * NB + block;
            uvec4 x0 = sx[at], x1 = sx[at + NB], y0 = sx[at + 2u * NB], y1 = sx[at + 3u * NB];
            vec2 ds = sd[r * NB + block];
            sum[r][c] += scaled_sum(t, c, dot32(lo0, x0, y0), dot32(hi0, x1, y1), ds);
            sum[r][c + 1u] += scaled_sum(t, c + 1u, dot32(lo1, x0, y0), dot32(hi1, x1, y1), ds);
        }
    }
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* As in dequant_gemv.comp, but b counts groups of columns. */
Batch find_matrices(uint i)
{
    if (TIDS == 0u)
        return find_batch(i);
    uint at = res_at + i * res_0;
    int low = load_i_raw_ids(TIDS, at), n_experts = int(res_1);
    int id = low < 0 ? low + n_experts : low;
    bool bad = id < 0 || id >= n_experts;
    if (TIDS == I64)
        bad = bad || int(ids[at * 2u + 1u]) != low >> 31;
    if (bad && LANE == 0u)
        atomicOr(flags[0], 1u);
    id = clamp(id, 0, max(n_experts - 1, 0));
    return Batch(a_at + i * a_0, b_at + uint(id) * b_0, 0u, out_at + i * n);
}

void main()
{
    uint groups = (n + 3u) / 4u, split = gl_SubgroupID % KS, stride = gl_NumWorkGroups.x * SETS;
    uint start = gl_WorkGroupID.x * SETS, group = start + gl_SubgroupID / KS;
    Batch at = find_matrices(gl_WorkGroupID.y);
    Tile now, next;
    bool mine = split * 32u + SIDE < NB;
    if (group < groups && mine)
        now = load_tile(at.b + group, split);
    prepare_x(at.a);

    uint item = 0u;
    for (uint it = start; it < groups; it += stride, group += stride) {
        vec4 sum[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r] = vec4(0.0);
        for (uint t = split; t < NT; t += KS) {
            bool last = t + KS >= NT;
            uint next_group = last ? group + stride : group, next_tile = last ? split : t + KS;
            if (next_group < groups && next_tile * 32u + SIDE < NB)
                next = load_tile(at.b + next_group, next_tile);
            if (group < groups && t * 32u + SIDE < NB)
                add_tile(now, t * 32u + SIDE, sum);
            now = next;
        }
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            vec4 v = subgroupAdd(sum[r]);
            if (SIDE == 0u)
                parts[(item * ROWS + r) * SUBGROUPS + gl_SubgroupID] = v;
        }
        item++;
        if (item == BATCH || it + stride >= groups) {
            uint first = it - (item - 1u) * stride;
            barrier();
            for (uint i = LANE; i < item * ROWS * SETS; i += THREADS) {
                uint set = i % SETS, r = i / SETS % ROWS, j = i / SETS / ROWS;
                uint col = (first + j * stride + set) * 4u;
                vec4 v = vec4(0.0);
                [[unroll]] for (uint s = 0u; s < KS; s++)
                    v += parts[(j * ROWS + r) * SUBGROUPS + set * KS + s];
                if (col < n)
                    finish4(v, r, col, at);
            }
            barrier();
            item = 0u;
        }
    }
}
