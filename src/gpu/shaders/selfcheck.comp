/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
/* Small cases that show whether a driver's fast features work: one workgroup writes what it got and
 * the host compares (vulkan/selfcheck.c). v(i) = (7 i + 3) mod 11.
 *
 * SUBGROUP: for each of 128 invocations, [id of its subgroup, lane, sum, largest, sum up to here,
 * the first one's value] of v(invocation) over the subgroup.
 * SUBNORMAL: x v(i) + x for the subnormal number x whose bits are 5900 i + 1; no result is normal.
 * HALF: v(i) / 4 * 1.5 - 2 in f16, as f32 bits.
 * DOT: the product of packed bytes (v(i), -v(i + 1), 3, -4) with themselves in another order.
 * MATRIX: an MM x NN product of A[i][j] = v(KK i + j) and B[i][j] = v(KK j + i), 256 words; then
 * for A, B and sums [length], and for each lane the places (row * width + column) of its first 8
 * elements.
 * CHAIN: level `chain_after` of a chain of 512 workgroups: element i of its half of the words is
 * element (7 i + 3) mod 512 of the other half plus 1, in the first level v(i). Shared memory leaves
 * no room for all of them at once.
 * */
#ifdef SUBGROUP
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#endif
#ifdef HALF
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#ifdef DOT
#extension GL_EXT_integer_dot_product : require
#endif
#ifdef MATRIX
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#endif
#include "common.glsl"
#include "selfcheck.def"

WORDS(o);

#ifdef CHAIN
#include "chain.glsl"
shared uint room[3840];
#endif

uint v(uint i) { return (i * 7u + 3u) % 11u; }

#ifdef MATRIX
shared float16_t half_a[256], half_b[256];
shared float sums[256];
shared float16_t places[256];
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, MM, KK, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, KK, NN, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, MM, NN, gl_MatrixUseAccumulator>

void matrix_case()
{
    const uint lanes = gl_SubgroupSize, lane = gl_SubgroupInvocationID;
    for (uint i = lane; i < 256u; i += lanes) {
        half_a[i] = float16_t(v(i));
        half_b[i] = float16_t(v(i % NN * KK + i / NN));
        sums[i] = float(i);
        places[i] = float16_t(i);
    }
    barrier();
    MATRIX_A a;
    MATRIX_B b;
    MATRIX_SUM c;
    coopMatLoad(a, places, 0, KK, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, places, 0, NN, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(c, sums, 0, NN, gl_CooperativeMatrixLayoutRowMajor);
    if (a.length() == 8 && b.length() == 8 && c.length() == 8) {
        [[unroll]] for (uint e = 0u; e < 8u; e++) {
            o[256u + 1u + lane * 8u + e] = uint(a[e]);
            o[513u + 1u + lane * 8u + e] = uint(b[e]);
            o[770u + 1u + lane * 8u + e] = uint(c[e]);
        }
    }
    if (lane == 0u) {
        o[256] = uint(a.length());
        o[513] = uint(b.length());
        o[770] = uint(c.length());
    }
    coopMatLoad(a, half_a, 0, KK, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, half_b, 0, NN, gl_CooperativeMatrixLayoutRowMajor);
    c = MATRIX_SUM(0.0);
    c = coopMatMulAdd(a, b, c);
    barrier();
    coopMatStore(c, sums, 0, NN, gl_CooperativeMatrixLayoutRowMajor);
    barrier();
    for (uint i = lane; i < MM * NN; i += lanes)
        o[i] = uint(sums[i]);
}
#endif

void main()
{
    const uint i = LANE;
#ifdef SUBGROUP
    o[i * 6u] = gl_SubgroupID;
    o[i * 6u + 1u] = gl_SubgroupInvocationID;
    o[i * 6u + 2u] = subgroupAdd(v(i));
    o[i * 6u + 3u] = subgroupMax(v(i));
    o[i * 6u + 4u] = subgroupInclusiveAdd(v(i));
    o[i * 6u + 5u] = subgroupBroadcastFirst(v(i));
#endif
#ifdef SUBNORMAL
    float x = uintBitsToFloat(i * 5900u + 1u);
    o[i] = floatBitsToUint(x * float(v(i)) + x);
#endif
#ifdef HALF
    float16_t x = float16_t(v(i)) * float16_t(0.25);
    o[i] = floatBitsToUint(float(x * float16_t(1.5) - float16_t(2.0)));
#endif
#ifdef DOT
    int p = int(v(i) | (256u - v(i + 1u) & 255u) << 8 | 3u << 16 | 252u << 24);
    int q = int(252u | v(i) << 8 | (256u - v(i + 1u) & 255u) << 16 | 3u << 24);
    o[i] = uint(dotPacked4x8EXT(p, q));
#endif
#ifdef MATRIX
    matrix_case();
#endif
#ifdef CHAIN
    const uint n = 512u, group = gl_WorkGroupID.x, level = chain_after;
    for (uint k = i; k < 3840u; k += gl_WorkGroupSize.x)
        room[k] = level;
    barrier();
    uint from = (level + 1u) % 2u * n + (group * 7u + 3u) % n;
    if (i == 0u)
        o[level % 2u * n + group] = level == 0u ? v(group) : o[from] + 1u + room[group] - level;
#endif
}
