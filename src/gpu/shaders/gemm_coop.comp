/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#ifdef BF
#extension GL_EXT_bfloat16 : require
#endif
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Product by cooperative matrices with f32 sums through shared memory, for devices whose fragments
 * are not those of pack_rows.comp: any size of subgroups; product.glsl says what is computed.
 *
 * A workgroup is SGM x SGN subgroups, each with CM x CN matrices of MM x NN results. It walks along
 * k in steps of BK: the tiles [rows][BK] of a and [columns][BK] of b lie in shared memory as
 * halves, zeros past the ends; that of b as [BK][columns] where eight columns are a load. f32 and
 * packed weights become f16; where that does not hold a row or column as it is, all is done once
 * more with exponents (range.glsl).
 *
 * LOADS: bit 0 neighbours read a along m instead of k; bit 1 eight elements of a are aligned loads
 * of 16 bytes; bits 2 and 3 the same for b and n; bit 4 eight columns of b are such a load. BF:
 * bf16. FAMILY: b is a packed weight [n, k], whose strides and offset count bytes (quant.glsl). */
#include "common.glsl"
#include "gemm_coop.def"
#define ANY_SHAPE
#include "coopmat.glsl"
#include "range.glsl"

const uint GROUP = 8; /* rows of tiles that are walked together, for the cache */
const uint BM = SGM * CM * MM, BN = SGN * CN * NN;
const uint KV = BK / 8, LINE = KV + 1; /* vectors of a row; the gap is against conflicts */
const uint NV = BN / 8, LINE_N = NV + 1; /* the same of a tile of b by rows, which is no larger */
const uint STRIP = NN + 4;
shared uvec4 sa[BM * LINE];
shared uvec4 sb[BN * LINE];
shared float strip[SGM * SGN * MM * STRIP];

#ifdef FAMILY
const bool ROUNDS_B = true;
#else
const bool ROUNDS_B = TB == F32;
#endif
const bool ROUNDS = TA == F32 || ROUNDS_B;
const uint LINES = BM + BN; /* rows of a, then columns of b */
shared uint tops[ROUNDS ? LINES : 1];
shared int powers[ROUNDS ? LINES : 1]; /* exponents */
shared uint any_power;
/* Vectors of a tile per invocation, and the maximum number of their lines. */
const uint NA = (BM * KV + THREADS - 1) / THREADS, NB = (BN * KV + THREADS - 1) / THREADS;
uint top_a[NA], top_b[NB];

TENSOR(a)
layout(SLOT(a), std430) buffer buffer_a4 { uvec4 a4[]; };
#ifdef FAMILY
#define QUANT_WORDS weights
VIEW(b, uint, weights);
#include "quant.glsl"
#else
TENSOR(b)
layout(SLOT(b), std430) buffer buffer_b4 { uvec4 b4[]; };
#endif

uint half_of(float x)
{
#ifdef BF
    return f32_to_bf16(x);
#else
    return f32_to_f16(x);
#endif
}

/* Eight elements along k from (x, kk) on as f16, times `by` if they are rounded; zeros outside.
 * Updates top to their maximum. */
#define DEFINE_LOAD8(name, T, VECTOR)                                                          \
    uvec4 load8_##name(uint i, uint sk, uint kk, float by, inout uint top)                     \
    {                                                                                          \
        float e[8];                                                                            \
        if (VECTOR && T != F32)                                                                \
            return name##4[i / 8u];                                                            \
        [[unroll]] for (uint j = 0u; j < EIGHT; j++) {                                         \
            if (VECTOR)                                                                        \
                e[j] = uintBitsToFloat(name##4[i / 4u + j / 4u][j % 4u]);                      \
            else                                                                               \
                e[j] = kk + j < k ? load_f_##name(T, i + j * sk) : 0.0;                        \
            if (T == F32) {                                                                    \
                top = max(top, range_bits(e[j]));                                              \
                e[j] *= by;                                                                    \
            }                                                                                  \
        }                                                                                      \
        uvec4 v = uvec4(0u);                                                                   \
        [[unroll]] for (uint j = 0u; j < EIGHT; j++)                                           \
            v[j / 2u] |= half_of(e[j]) << (j % 2u * 16u);                                      \
        return v;                                                                              \
    }
DEFINE_LOAD8(a, TA, (LOADS & A_VECTORS) != 0u)
#ifdef FAMILY
/* Of the column whose first block begins at byte `at`. */
uvec4 load_packed(uint at, uint kk, float by, inout uint top)
{
    Eight e = quant_decode8(TB, at, kk);
    top = max(top, max(range_bits4(e.lo), range_bits4(e.hi)));
    e.lo *= by;
    e.hi *= by;
    return uvec4(packFloat2x16(f16vec2(e.lo.xy)), packFloat2x16(f16vec2(e.lo.zw)),
                 packFloat2x16(f16vec2(e.hi.xy)), packFloat2x16(f16vec2(e.hi.zw)));
}
#else
DEFINE_LOAD8(b, TB, (LOADS & B_VECTORS) != 0u)
#endif

MATRIX_SUM sum[CM * CN];

float factor_of(uint line) { return ROUNDS ? range_power(-powers[line]) : 1.0; }

uint line_a(uint u) { return (LOADS & A_ACROSS) != 0u ? u % BM : u / KV; }
uint line_b(uint u) { return (LOADS & B_ACROSS) != 0u ? u % BN : u / KV; }

/* Puts the tiles from kk on into shared memory. */
void fill_tiles(Batch at, uint m0, uint n0, uint kk)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uint u = LANE + i * THREADS, x = line_a(u), v = (LOADS & A_ACROSS) != 0u ? u / BM : u % KV;
        uint col = kk + v * 8u;
        if (u < BM * KV)
            sa[x * LINE + v] = m0 + x < m && col < k
                                   ? load8_a(at.a + (m0 + x) * a_m + col * a_k, a_k, col,
                                             factor_of(x), top_a[i])
                                   : uvec4(0u);
    }
    [[unroll]] for (uint i = 0u; i < NB; i++) {
        uint u = LANE + i * THREADS, x = line_b(u), v = (LOADS & B_ACROSS) != 0u ? u / BN : u % KV;
        uint row = kk + v * 8u;
#ifndef FAMILY
        if ((LOADS & B_ROWS) != 0u) {
            uint down = u / NV, col = n0 + u % NV * 8u;
            if (u < BN * KV)
                sb[down * LINE_N + u % NV] = kk + down < k && col < n
                                                 ? b4[(at.b + (kk + down) * b_k + col) / 8u]
                                                 : uvec4(0u);
            continue;
        }
#endif
        if (u < BN * KV)
            sb[x * LINE + v] = n0 + x < n && row < k
#ifdef FAMILY
                                   ? load_packed(at.b + (n0 + x) * b_n, row, factor_of(BM + x),
                                                 top_b[i])
#else
                                   ? load8_b(at.b + (n0 + x) * b_n + row * b_k, b_k, row,
                                             factor_of(BM + x), top_b[i])
#endif
                                   : uvec4(0u);
    }
}

/* Exponents from the maxima of all invocations; false if all are 0. */
bool find_powers()
{
    [[unroll]] for (uint i = 0u; i < NA; i++)
        if (LANE + i * THREADS < BM * KV)
            atomicMax(tops[line_a(LANE + i * THREADS)], top_a[i]);
    [[unroll]] for (uint i = 0u; i < NB; i++)
        if (LANE + i * THREADS < BN * KV)
            atomicMax(tops[BM + line_b(LANE + i * THREADS)], top_b[i]);
    barrier();
    for (uint x = LANE; x < LINES; x += THREADS) {
        powers[x] = range_exponent(tops[x]);
        if (powers[x] != 0)
            any_power = 1u;
    }
    barrier();
    return any_power != 0u;
}

void multiply(uint my_m, uint my_n)
{
    [[unroll]] for (uint v = 0u; v < KV; v += KK / 8u) {
        MATRIX_A fa[CM];
        [[unroll]] for (uint i = 0u; i < CM; i++)
            coopMatLoad(fa[i], sa, (my_m + i * MM) * LINE + v, LINE,
                        gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < CN; j++) {
            MATRIX_B fb;
            if ((LOADS & B_ROWS) != 0u)
                coopMatLoad(fb, sb, v * 8u * LINE_N + (my_n + j * NN) / 8u, LINE_N,
                            gl_CooperativeMatrixLayoutRowMajor);
            else
                coopMatLoad(fb, sb, (my_n + j * NN) * LINE + v, LINE,
                            gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < CM; i++)
                sum[j * CM + i] = coopMatMulAdd(fa[i], fb, sum[j * CM + i]);
        }
    }
}

void main()
{
    if (GROUP_INDEX >= n_groups)
        return;
    uint tiles_m = (m + BM - 1u) / BM, tiles_n = (n + BN - 1u) / BN, tiles = tiles_m * tiles_n;
    uint tile = GROUP_INDEX % tiles, wide = GROUP * tiles_n, top = tile / wide * GROUP;
    uint rows = min(tiles_m - top, GROUP), local = tile % wide;
    uint m0 = (top + local % rows) * BM, n0 = local / rows * BN;
    uint my_m = gl_SubgroupID % SGM * MM * CM, my_n = gl_SubgroupID / SGM * NN * CN;
    Batch at = find_batch(GROUP_INDEX / tiles);
    for (uint x = LANE; ROUNDS && x < LINES; x += THREADS) {
        tops[x] = 0u;
        powers[x] = 0;
    }
    if (LANE == 0u)
        any_power = 0u;
    if (ROUNDS)
        barrier();

    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        [[unroll]] for (uint i = 0u; i < CM * CN; i++)
            sum[i] = MATRIX_SUM(0.0);
        [[unroll]] for (uint i = 0u; i < NA; i++)
            top_a[i] = 0u;
        [[unroll]] for (uint i = 0u; i < NB; i++)
            top_b[i] = 0u;
        [[dont_unroll]] for (uint kk = 0u; kk < k; kk += BK) {
            fill_tiles(at, m0, n0, kk);
            barrier();
            multiply(my_m, my_n);
            barrier();
        }
        if (!ROUNDS || attempt > 0u || !find_powers())
            break;
    }

    const uint PER = NN / 8u; /* eights of a row of a matrix */
    uint base = gl_SubgroupID * MM * STRIP;
    [[unroll]] for (uint j = 0u; j < CN; j++)
        [[unroll]] for (uint i = 0u; i < CM; i++) {
            coopMatStore(sum[j * CM + i], strip, base, STRIP, gl_CooperativeMatrixLayoutRowMajor);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            for (uint g = gl_SubgroupInvocationID; g < MM * PER; g += gl_SubgroupSize) {
                float v[8];
                uint row = my_m + i * MM + g / PER, col = my_n + j * NN + g % PER * 8u;
                [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                    v[e] = strip[base + g / PER * STRIP + g % PER * 8u + e];
                if (ROUNDS && any_power != 0u)
                    [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                        v[e] = range_restore(v[e], powers[row] + powers[BM + col + e]);
                finish8(v, m0 + row, n0 + col, at);
            }
            subgroupBarrier();
        }
}
