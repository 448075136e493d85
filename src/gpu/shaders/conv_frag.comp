/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Convolution by cooperative matrices with f32 sums, operands packed: for each group, result
 * [filters, pixels of all images] = sum over taps of w[tap] [filters, channels] . what the tap sees
 * of x [channels, pixels]. conv.glsl says what comes after the sum. x comes from conv_pack_x.comp
 * (in_d, in_h, in_w are its sizes, padding included) and w from conv_pack_w.comp.
 *
 * A subgroup of 32 makes 16 CM filters x 16 CN pixels. In a step, 32 channels of a tap, it loads
 * two fragments of w for each 16 filters, and each lane eight channels of two pixels for each 16
 * pixels: one vector each, straight into registers; subgroups share through the cache only. Which
 * pixel a column of a fragment is, is free: a lane ends with eight neighbouring pixels of a filter.
 * Lanes and elements of fragments are as attention_frag.comp says.
 *
 * A workgroup is SIDE_M x SIDE_N subgroups side by side, SLICES times: those split the steps and
 * their sums are joined in shared memory. AHEAD: loads are made a step ahead. BF: bf16. */
#ifdef BF
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#define PAIR bf16vec2
#define PAIR_OF(w) uintBitsToBFloat16EXT(unpackUint2x16(w))
#else
#define HALF float16_t
#define PAIR f16vec2
#define PAIR_OF(w) unpackFloat2x16(w)
#endif
#include "common.glsl"
#include "conv.glsl"

layout(constant_id = 5) const uint SIDE_M = 1;
layout(constant_id = 6) const uint SIDE_N = 4;
layout(constant_id = 7) const uint SLICES = 1;
layout(constant_id = 8) const uint CM = 4;
layout(constant_id = 9) const uint CN = 2;
layout(constant_id = 10) const uint AHEAD = 1;
layout(constant_id = 11) const uint WIDE = 1; /* 8 or 4 pixels from a multiple on are aligned */
/* Lengths of loops, never set: drivers unroll them, but the stored code stays small. */
layout(constant_id = 29) const uint TWO = 2;
layout(constant_id = 31) const uint EIGHT = 8;

#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/* Other views. */
layout(set = 0, binding = 0, std430) restrict readonly buffer buffer_x4 { uvec4 x4[]; };
layout(set = 0, binding = 1, std430) restrict readonly buffer buffer_w4 { uvec4 w4[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o4 { uvec4 o4[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o2 { uvec2 o2[]; };
layout(set = 0, binding = 2, std430) buffer buffer_o16 { uint16_t o16[]; };

const uint TILE = CM * CN * 8 * 32; /* sums of a subgroup */
shared float joined[SLICES > 1 ? (SLICES - 1) * SIDE_M * SIDE_N * TILE : 1];

#define PUT_PAIR(matrix, e, word)        \
    {                                    \
        const PAIR pair_ = PAIR_OF(word); \
        matrix[2u * (e)] = pair_.x;      \
        matrix[2u * (e) + 1u] = pair_.y; \
    }
#define PUT(matrix, w0, w1, w2, w3)                                               \
    {                                                                             \
        PUT_PAIR(matrix, 0u, w0) PUT_PAIR(matrix, 1u, w1) PUT_PAIR(matrix, 2u, w2) \
        PUT_PAIR(matrix, 3u, w3)                                                  \
    }

uvec4 ra[2 * CM], rx[2 * CN];
uint from_x[2 * CN], from_w; /* this lane's first vectors */
MATRIX_SUM sum[CM * CN];

/* What a step multiplies, to registers. */
void fetch(uint s)
{
    uint block = s / TAPS, tap = s % TAPS;
    uint d = tap / (KH * KW) * uint(dilation_d), h = tap / KW % KH * uint(dilation_h);
    uint at = ((block * in_d + d) * in_h + h) * in_w + tap % KW * uint(dilation_w);
    [[unroll]] for (uint i = 0u; i < CM; i++) {
        ra[i] = w4[from_w + s * 256u + i * 32u];
        ra[CM + i] = w4[from_w + s * 256u + 128u + i * 32u];
    }
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++)
        rx[j] = x4[from_x[j] + at * 4u];
}

#define FILL_STEP(fa, fb)                                                                   \
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++)                                          \
        PUT(fa[i], ra[i][0], ra[i][2], ra[i][1], ra[i][3])                                  \
    [[unroll]] for (uint j = 0u; j < CN; j++) {                                             \
        PUT(fb[j], rx[2u * j][0], rx[2u * j][1], rx[2u * j + 1u][0], rx[2u * j + 1u][1])    \
        PUT(fb[CN + j], rx[2u * j][2], rx[2u * j][3], rx[2u * j + 1u][2],                   \
            rx[2u * j + 1u][3])                                                             \
    }

/* Adds the products of steps first to end - 1. */
void multiply(uint first, uint end)
{
    if (AHEAD != 0u)
        fetch(first);
    [[dont_unroll]] for (uint s = first; s < end; s++) {
        MATRIX_A fa[2 * CM];
        MATRIX_B fb[2 * CN];
        if (AHEAD == 0u)
            fetch(s);
        FILL_STEP(fa, fb)
        if (AHEAD != 0u)
            fetch(min(s + 1u, end - 1u));
        [[unroll]] for (uint u = 0u; u < TWO; u++)
            [[unroll]] for (uint j = 0u; j < CN; j++)
                [[unroll]] for (uint i = 0u; i < CM; i++)
                    sum[j * CM + i] =
                        coopMatMulAdd(fa[u * CM + i], fb[u * CN + j], sum[j * CM + i]);
    }
}

uint half2_of(float a, float b)
{
    return TOUT == F16 ? packFloat2x16(f16vec2(a, b)) : f32_to_bf16(a) | f32_to_bf16(b) << 16;
}

float finish_one(float y, float added, uint at)
{
    y += added;
    float r = TRES != 0u ? load_f_res(TRES, res_at + at) : 0.0;
    return ACT_LAST != 0u ? apply_act(ACT, y + r) : apply_act(ACT, y) + r;
}

/* Eight neighbouring pixels from `col` on of filter f of group g. */
void write8(float v[8], uint g, uint f, uint col)
{
    uint all = images * pixels, whole = g * filters + f, at[8];
    if (f >= filters || col >= all)
        return;
    float added = TBIAS != 0u ? load_f_bias(TBIAS, bias_at + whole) : 0.0;
    [[unroll]] for (uint e = 0u; e < EIGHT; e++) {
        uint c = min(col + e / WIDE * WIDE, all - 1u); /* the same division for WIDE of them */
        at[e] = (c / pixels * groups * filters + whole) * pixels + c % pixels + e % WIDE;
        v[e] = finish_one(v[e], added, at[e]);
    }
    if (WIDE == 8u && TOUT != F32) {
        o4[(out_at + at[0]) / 8u] = uvec4(half2_of(v[0], v[1]), half2_of(v[2], v[3]),
                                          half2_of(v[4], v[5]), half2_of(v[6], v[7]));
        return;
    }
    [[unroll]] for (uint e = 0u; e < EIGHT; e += 4u) {
        if (col + e >= all)
            break;
        if (WIDE >= 4u && TOUT == F32) {
            o4[(out_at + at[e]) / 4u] =
                floatBitsToUint(vec4(v[e], v[e + 1u], v[e + 2u], v[e + 3u]));
        } else if (WIDE >= 4u) {
            o2[(out_at + at[e]) / 4u] =
                uvec2(half2_of(v[e], v[e + 1u]), half2_of(v[e + 2u], v[e + 3u]));
        } else {
            [[unroll]] for (uint k = e; k < e + 4u; k++)
                if (col + k < all) {
                    if (TOUT == F32)
                        o[out_at + at[k]] = floatBitsToUint(v[k]);
                    else
                        o16[out_at + at[k]] = uint16_t(half2_of(v[k], 0.0));
                }
        }
    }
}

/* Sums of all slices, in those of the first. */
void join_slices(uint slice)
{
    uint tile = gl_SubgroupID % (SIDE_M * SIDE_N) * TILE + gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            if (slice > 0u)
                joined[(slice - 1u) * SIDE_M * SIDE_N * TILE + tile + (i * 8u + e) * 32u] =
                    sum[i][e];
    barrier();
    if (slice > 0u)
        return;
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            for (uint k = 0u; k + 1u < SLICES; k++)
                sum[i][e] += joined[k * SIDE_M * SIDE_N * TILE + tile + (i * 8u + e) * 32u];
}

void main()
{
    if (GROUP_INDEX >= n_items)
        return;
    const uint bm = SIDE_M * 16u * CM, bn = SIDE_N * 16u * CN;
    uint tiles_m = (filters + bm - 1u) / bm, tiles_n = (images * pixels + bn - 1u) / bn;
    uint m0 = GROUP_INDEX % tiles_m * bm + gl_SubgroupID % SIDE_M * 16u * CM;
    uint n0 = GROUP_INDEX / tiles_m % tiles_n * bn + gl_SubgroupID / SIDE_M % SIDE_N * 16u * CN;
    uint g = GROUP_INDEX / tiles_m / tiles_n, slice = gl_SubgroupID / (SIDE_M * SIDE_N);
    uint row = gl_SubgroupInvocationID / 4u, t = gl_SubgroupInvocationID % 4u;
    uint blocks = (channels + 31u) / 32u, steps = blocks * TAPS, rows = (filters + 63u) / 64u;

    from_w = (g * rows + min(m0 / 64u, rows - 1u)) * steps * 256u + m0 % 64u * 2u +
             gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++) {
        /* Column row + 8 (j % 2) of fragment j / 2. */
        uint col = n0 + j / 4u * 32u + row / 2u * 8u + j % 4u * 2u + row % 2u;
        col = min(col, images * pixels - 1u);
        uvec3 w = uvec3(find_window(col % pixels));
        uint image = (col / pixels * groups + g) * blocks * in_d;
        from_x[j] = (((image + w.x) * in_h + w.y) * in_w + w.z) * 4u + t;
    }
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        sum[i] = MATRIX_SUM(0.0);
    uint each = (steps + SLICES - 1u) / SLICES, first = min(slice * each, steps);
    uint end = min(first + each, steps);
    if (first < end && m0 < filters && n0 < images * pixels)
        multiply(first, end);
    if (SLICES > 1u) {
        join_slices(slice);
        if (slice > 0u)
            return;
    }
    [[unroll]] for (uint j = 0u; j < CN; j += 2u)
        [[unroll]] for (uint i = 0u; i < CM; i++)
            [[unroll]] for (uint r = 0u; r < TWO; r++) {
                float v[8];
                [[unroll]] for (uint e = 0u; e < 4u; e++) {
                    v[e] = sum[j * CM + i][4u * r + e];
                    v[4u + e] = sum[(j + 1u) * CM + i][4u * r + e];
                }
                write8(v, g, m0 + i * 16u + row + 8u * r, n0 + j * 16u + t * 8u);
            }
}
