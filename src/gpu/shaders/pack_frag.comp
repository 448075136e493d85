/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Puts left operands x[rows, k] of any strides into the order in which cooperative matrices keep
 * them: [batch][rows / 64][k / 16][4][lane] vectors of 16 bytes, the eight elements of a 16 x 16
 * fragment that a lane holds. Rows and k are padded to 64 with zeros.
 *
 * One workgroup of four subgroups of 32 packs 64 rows x 64 k of a batch. The layout of a fragment
 * is never assumed: each is loaded as a matrix and written element by element.
 *
 * BF: bf16.
 *
 * Nothing branches around a load: those of an invocation are all on their way at once. */
#ifdef BF
#extension GL_EXT_bfloat16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#define HALF bfloat16_t
#else
#define HALF float16_t
#endif
#include "common.glsl"
#include "pack_frag.def"

TENSOR(x)
WORDS4(y);

const uint LINE = 9; /* 64 elements and padding against bank conflicts, in vectors */
shared uvec4 tile[64 * LINE];

uint to_half(float v)
{
#ifdef BF
    return f32_to_bf16(v);
#else
    return f32_to_f16(v);
#endif
}

/* Eight elements of a row from kk on; zeros outside. */
uvec4 load8(uint first, uint row, uint kk)
{
    bool inside = row < rows && kk < k;
    uint r = min(row, rows - 1u), c = inside ? kk : 0u;
    uvec4 v = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < 8u; j++) {
        float e = load_f_x(T, first + r * s_row + min(c + j, k - 1u) * s_k);
        v[j / 2u] |= (inside && c + j < k ? to_half(e) : 0u) << (j % 2u * 16u);
    }
    return v;
}

void main()
{
    uint n_rows = (rows + 63u) / 64u, n_k = (k + 63u) / 64u;
    if (GROUP_INDEX >= n_groups)
        return;
    uint k64 = GROUP_INDEX % n_k, r64 = GROUP_INDEX / n_k % n_rows;
    uint batch = GROUP_INDEX / n_k / n_rows;
    uint i2 = batch % dim2, i1 = batch / dim2 % dim1, i0 = batch / dim2 / dim1;
    uint first = at + i0 * s_0 + i1 * s_1 + i2 * s_2;

    uvec4 loaded[4];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint u = LANE + i * 128u;
        uint row = ALONG != 0u ? u % 64u : u / 8u, kv = ALONG != 0u ? u / 64u : u % 8u;
        loaded[i] = load8(first, r64 * 64u + row, k64 * 64u + kv * 8u);
    }
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint u = LANE + i * 128u;
        uint row = ALONG != 0u ? u % 64u : u / 8u, kv = ALONG != 0u ? u / 64u : u % 8u;
        tile[row * LINE + kv] = loaded[i];
    }
    barrier();

    uint part = gl_SubgroupID, lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint step = 0u; step < 4u; step++) {
        coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> f;
        coopMatLoad(f, tile, part * 16u * LINE + step * 2u, LINE,
                    gl_CooperativeMatrixLayoutRowMajor);
        uvec4 v;
        [[unroll]] for (uint e = 0u; e < 4u; e++) {
#ifdef BF
            v[e] = packUint2x16(
                bfloat16BitsToUintEXT(bf16vec2(f[2u * e], f[2u * e + 1u])));
#else
            v[e] = packFloat2x16(f16vec2(f[2u * e], f[2u * e + 1u]));
#endif
        }
        uint k16 = k64 * 4u + step;
        y[(((batch * n_rows + r64) * n_k * 4u + k16) * 4u + part) * 32u + lane] = v;
    }
}
