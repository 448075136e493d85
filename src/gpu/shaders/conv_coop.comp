/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
/* Convolution by cooperative matrices with f32 sums: for each group, result [filters, pixels of all
 * images] = sum over taps of w[tap] [filters, channels] . windows[tap] [channels, pixels].
 * conv.glsl says what comes after the sum.
 *
 * w is packed by pack_frag.comp, one matrix for each group and tap, and goes straight to registers,
 * one step ahead. One workgroup of four subgroups of 32 makes 64 SIDE_M filters x 128 pixels. In a
 * step, 32 channels of a tap, each invocation looks up the 32 elements that its pixel sees while
 * those of the step before, in shared memory, are multiplied. BF: bf16. */
#ifdef BF
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#else
#define HALF float16_t
#endif
#include "common.glsl"
#include "conv_coop.def"
#include "conv.glsl"

#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

const uint BN = 128, DEEP = 32;           /* pixels; channels of a step */
const uint SIDE_N = 4 / SIDE_M, CM = FOUR, CN = BN / 16 / SIDE_N; /* subgroups; fragments of one */
const uint LINE = DEEP / 8 + 1;           /* vectors of a pixel, and a gap against conflicts */
const uint STRIP = 36;                    /* 32 columns and a gap */

/* Other views. */
layout(SLOT(x), std430) readonly buffer buffer_x16 { uint16_t x16[]; };
layout(SLOT(w), std430) readonly buffer buffer_w4 { uvec4 w4[]; };
layout(SLOT(o), std430) buffer buffer_o4 { uvec4 o4[]; };
layout(SLOT(o), std430) buffer buffer_o16 { uint16_t o16[]; };

shared uvec4 tile[2 * BN * LINE];         /* [stage][pixel][channel] */
shared float strip[4 * 16 * STRIP];       /* [subgroup][16 filters][32 pixels] */

uvec4 ra[2 * CM], rx[DEEP / 8];
MATRIX_SUM sum[CM * CN];

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

/* Loads the elements under the window of a pixel in a step to registers. */
void fetch_x(ivec3 window, uint image, uint tap, uint channel)
{
    uint area = in_d * in_h * in_w, i;
    ivec3 t = ivec3(tap / (KH * KW), tap / KW % KH, tap % KW);
    bool there = find_element(window + t * ivec3(dilation_d, dilation_h, dilation_w), i);
    uint left = there && image != ~0u ? channels - channel : 0u;
    i += image + channel * area;
    [[unroll]] for (uint v = 0u; v < FOUR; v++) {
        uvec4 word = uvec4(0u);
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            if (v * 8u + e < left)
                word[e / 2u] |= uint(x16[i + (v * 8u + e) * area]) << (e % 2u * 16u);
        rx[v] = word;
    }
}

void put_x(uint stage)
{
    [[unroll]] for (uint v = 0u; v < FOUR; v++)
        tile[(stage * BN + LANE) * LINE + v] = rx[v];
}

/* Fragments of w of a step: `at` is this lane's vector of the first. */
void fetch_w(uint at)
{
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++)
        ra[i] = w4[at + i * 32u];
}

/* Accumulates the fragments in ra times those of stage s; `next`: prefetched meanwhile. */
void multiply(uint s, uint my_n, uint next)
{
    MATRIX_A fa[2 * CM];
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++)
        FILL(fa[i], ra[i])
    fetch_w(next);
    [[unroll]] for (uint k = 0u; k < TWO; k++)
        [[unroll]] for (uint j = 0u; j < CN; j++) {
            MATRIX_B fb;
            coopMatLoad(fb, tile, (s * BN + my_n + j * 16u) * LINE + k * 2u, LINE,
                        gl_CooperativeMatrixLayoutColumnMajor);
            [[unroll]] for (uint i = 0u; i < CM; i++)
                sum[j * CM + i] = coopMatMulAdd(fa[k * CM + i], fb, sum[j * CM + i]);
        }
}

/* Stores eight adjacent pixels from `col` on of filter f of group g. */
void write8(float v[8], uint g, uint f, uint col)
{
    uint all = images * pixels, whole = g * filters + f;
    if (f >= filters || col >= all)
        return;
    uint bits[8];
    [[unroll]] for (uint j = 0u; j < EIGHT; j++) {
        uint c = min(col + j, all - 1u);
        uint at = (c / pixels * groups * filters + whole) * pixels + c % pixels;
        bits[j] = finish(v[j], whole, at);
        if (WIDE == 0u && col + j < all) {
            if (TOUT == F32)
                o[out_at + at] = bits[j];
            else
                o16[out_at + at] = uint16_t(bits[j]);
        }
    }
    if (WIDE == 0u)
        return;
    uint first = out_at + (col / pixels * groups * filters + whole) * pixels + col % pixels;
    if (TOUT == F32) {
        o4[first / 4u] = uvec4(bits[0], bits[1], bits[2], bits[3]);
        o4[first / 4u + 1u] = uvec4(bits[4], bits[5], bits[6], bits[7]);
    } else {
        o4[first / 8u] = uvec4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16,
                               bits[4] | bits[5] << 16, bits[6] | bits[7] << 16);
    }
}

void write_sums(uint g, uint m0, uint n0)
{
    uint base = gl_SubgroupID * 16u * STRIP, lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0u; i < CM; i++)
        [[unroll]] for (uint j = 0u; j < CN; j += 2u) {
            coopMatStore(sum[j * CM + i], strip, base, STRIP, gl_CooperativeMatrixLayoutRowMajor);
            coopMatStore(sum[(j + 1u) * CM + i], strip, base + 16u, STRIP,
                         gl_CooperativeMatrixLayoutRowMajor);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint h = 0u; h < TWO; h++) {
                float v[8];
                uint r = h * 8u + lane / 4u, c = lane % 4u * 8u;
                [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                    v[e] = strip[base + r * STRIP + c + e];
                write8(v, g, m0 + i * 16u + r, n0 + j * 16u + c);
            }
            subgroupBarrier();
        }
}

void main()
{
    if (GROUP_INDEX >= n_items)
        return;
    uint tiles_m = (filters + 64u * SIDE_M - 1u) / (64u * SIDE_M);
    uint tiles_n = (images * pixels + BN - 1u) / BN;
    uint m0 = GROUP_INDEX % tiles_m * 64u * SIDE_M + gl_SubgroupID % SIDE_M * 64u;
    uint n0 = GROUP_INDEX / tiles_m % tiles_n * BN, g = GROUP_INDEX / tiles_m / tiles_n;
    uint my_n = gl_SubgroupID / SIDE_M * CN * 16u, col = n0 + LANE, image = col / pixels;
    ivec3 window = find_window(col % pixels);
    uint image_at = image >= images ? ~0u
                    : x_at + (image * groups + g) * channels * in_d * in_h * in_w;

    /* Packed w: [group][tap][filters / 64][channels / 16][4][lane]. */
    uint n_rows = (filters + 63u) / 64u, n_k = (channels + 63u) / 64u * 4u;
    uint w_first = (g * TAPS * n_rows + min(m0 / 64u, n_rows - 1u)) * n_k * 128u +
                   gl_SubgroupInvocationID;
    uint per_tap = (channels + DEEP - 1u) / DEEP, steps = per_tap * TAPS;
    [[unroll]] for (uint i = 0u; i < CM * CN; i++)
        sum[i] = MATRIX_SUM(0.0);
    fetch_x(window, image_at, 0u, 0u);
    fetch_w(w_first);
    put_x(0u);
    barrier();
    [[dont_unroll]] for (uint s = 0u; s < steps; s++) {
        uint next = min(s + 1u, steps - 1u), tap = next / per_tap, part = next % per_tap;
        fetch_x(window, image_at, tap, part * DEEP);
        multiply(s & 1u, my_n, w_first + tap * n_rows * n_k * 128u + part * 256u);
        put_x((s + 1u) & 1u);
        barrier();
    }
    write_sums(g, m0, n0 + my_n);
}
