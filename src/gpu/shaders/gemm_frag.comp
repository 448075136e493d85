/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Product of operands in fragment order (pack.comp) by cooperative matrices with f32 sums;
 * product.glsl says what is computed. a_at, b_at and the strides of the batch count vectors of 16
 * bytes; k is a multiple of 64.
 *
 * A subgroup of 32 makes 16 CM x 16 CN results. It loads its fragments straight into registers, one
 * coalesced vector a lane, one step of k ahead of the multiplication; subgroups share through the
 * cache only. Without SLICES a workgroup is SGM x SGN subgroups side by side. With SLICES its
 * subgroups share one tile and split k; their sums are joined in shared memory, strip by strip. */
#include "coopmat.glsl"

layout(constant_id = 10) const uint SGM = 2;
layout(constant_id = 11) const uint SGN = 2;
layout(constant_id = 12) const uint SLICES_N = 1;
layout(constant_id = 13) const uint CM = 4;
layout(constant_id = 14) const uint CN = 4;

const uint GROUP = 8; /* rows of tiles that are walked together, for the cache */
#ifdef SLICES
const uint UNROLL = 4, STRIP = 20;
shared float strip[SLICES_N * CM * 16 * STRIP]; /* [slice][row][16 columns and a gap] */
#else
const uint UNROLL = 2, STRIP = 36;
shared float strip[SGM * SGN * 16 * STRIP]; /* [subgroup][16 rows][32 columns and a gap] */
#endif

layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_a { uvec4 a[]; };
layout(set = 0, binding = 1, std430) restrict readonly buffer buffer_b { uvec4 b[]; };

#ifdef BF
#define FILL(matrix, v)                                                           \
    [[unroll]] for (uint e = 0u; e < 4u; e++) {                                   \
        const bf16vec2 h = uintBitsToBFloat16EXT(unpackUint2x16((v)[e]));         \
        matrix[2u * e] = h.x;                                                     \
        matrix[2u * e + 1u] = h.y;                                                \
    }
#else
#define FILL(matrix, v)                                                           \
    [[unroll]] for (uint e = 0u; e < 4u; e++) {                                   \
        const f16vec2 h = unpackFloat2x16((v)[e]);                                \
        matrix[2u * e] = h.x;                                                     \
        matrix[2u * e + 1u] = h.y;                                                \
    }
#endif

MATRIX_SUM sum[CM * CN];

/* Adds the products of steps first to end of k. pa and pb: this lane's vectors of step 0. */
void multiply(uint pa, uint pb, uint first, uint end)
{
    uvec4 ra[CM], rb[CN];
    [[unroll]] for (uint i = 0u; i < CM; i++)
        ra[i] = a[pa + first * 128u + i * 32u];
    [[unroll]] for (uint j = 0u; j < CN; j++)
        rb[j] = b[pb + first * 128u + j * 32u];
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL) {
        [[unroll]] for (uint u = 0u; u < UNROLL; u++) {
            MATRIX_A fa[CM];
            MATRIX_B fb[CN];
            [[unroll]] for (uint i = 0u; i < CM; i++)
                FILL(fa[i], ra[i])
            [[unroll]] for (uint j = 0u; j < CN; j++)
                FILL(fb[j], rb[j])
            const uint next = u + 1u < UNROLL ? step + u + 1u : min(step + u + 1u, end - 1u);
            [[unroll]] for (uint i = 0u; i < CM; i++)
                ra[i] = a[pa + next * 128u + i * 32u];
            [[unroll]] for (uint j = 0u; j < CN; j++)
                rb[j] = b[pb + next * 128u + j * 32u];
            [[unroll]] for (uint j = 0u; j < CN; j++)
                [[unroll]] for (uint i = 0u; i < CM; i++)
                    sum[j * CM + i] = coopMatMulAdd(fa[i], fb[j], sum[j * CM + i]);
        }
    }
}

void main()
{
    if (GROUP_INDEX >= n_groups)
        return;
#ifdef SLICES
    const uint bm = 16u * CM, bn = 16u * CN;
    const uint my_m = 0u, my_n = 0u;
#else
    const uint bm = SGM * 16u * CM, bn = SGN * 16u * CN;
    const uint my_m = gl_SubgroupID % SGM * 16u * CM, my_n = gl_SubgroupID / SGM * 16u * CN;
#endif
    uint tiles_m = (m + bm - 1u) / bm, tiles_n = (n + bn - 1u) / bn, tiles = tiles_m * tiles_n;
    uint tile = GROUP_INDEX % tiles, wide = GROUP * tiles_n, top = tile / wide * GROUP;
    uint rows = min(tiles_m - top, GROUP), local = tile % wide;
    uint m0 = (top + local % rows) * bm + my_m, n0 = local / rows * bn + my_n;
    Batch at = find_batch(GROUP_INDEX / tiles);
    uint steps = k / 16u, lane = gl_SubgroupInvocationID;
    uint pa = at.a + m0 / 64u * steps * 128u + m0 % 64u * 2u + lane;
    uint pb = at.b + n0 / 64u * steps * 128u + n0 % 64u * 2u + lane;
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        sum[i] = MATRIX_SUM(0.0);

#ifdef SLICES
    uint slice = gl_SubgroupID, each = (steps / 4u + SLICES_N - 1u) / SLICES_N * 4u;
    uint first = slice * each, end = min(first + each, steps);
    if (first < end)
        multiply(pa, pb, first, end);
    [[unroll]] for (uint j = 0u; j < CN; j++) {
        [[unroll]] for (uint i = 0u; i < CM; i++)
            coopMatStore(sum[j * CM + i], strip, (slice * CM + i) * 16u * STRIP, STRIP,
                         gl_CooperativeMatrixLayoutRowMajor);
        barrier();
        for (uint g = LANE; g < 32u * CM; g += 32u * SLICES_N) {
            float v[8];
            [[unroll]] for (uint c = 0u; c < EIGHT; c++) {
                v[c] = 0.0;
                for (uint s = 0u; s < SLICES_N; s++)
                    v[c] += strip[(s * CM * 16u + g / 2u) * STRIP + g % 2u * 8u + c];
            }
            finish8(v, m0 + g / 2u, n0 + j * 16u + g % 2u * 8u, at);
        }
        barrier();
    }
#else
    if (m0 >= m || n0 >= n)
        return;
    multiply(pa, pb, 0u, steps);
    uint base = gl_SubgroupID * 16u * STRIP;
    [[unroll]] for (uint i = 0u; i < CM; i++)
        [[unroll]] for (uint j = 0u; j < CN; j += 2u) {
            coopMatStore(sum[j * CM + i], strip, base, STRIP, gl_CooperativeMatrixLayoutRowMajor);
            coopMatStore(sum[(j + 1u) * CM + i], strip, base + 16u, STRIP,
                         gl_CooperativeMatrixLayoutRowMajor);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint h = 0u; h < FOUR / 2u; h++) {
                float v[8];
                uint r = h * 8u + lane / 4u, c = lane % 4u * 8u;
                [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                    v[e] = strip[base + r * STRIP + c + e];
                finish8(v, m0 + i * 16u + r, n0 + j * 16u + c, at);
            }
            subgroupBarrier();
        }
#endif
}
