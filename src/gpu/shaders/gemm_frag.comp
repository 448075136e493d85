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
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
/* Product by cooperative matrices with f32 sums straight from memory; product.glsl says what is
 * computed. It is done transposed, the columns of b being the left operand: then neither side needs
 * a move between registers. k is a multiple of 64 and is walked in steps of 16.
 *
 * A subgroup of 32 makes 16 CM x 16 CN results. It loads its fragments straight into registers, one
 * step ahead of the multiplication; subgroups share through the cache only. SGM x SGN subgroups of
 * a workgroup lie side by side. With SLICES there are SLICES_N times as many, which split k; their
 * sums are joined in shared memory, 16 rows at a time.
 *
 * b is packed by pack_rows.comp; b_at and its strides count vectors of 16 bytes. So is a, unless
 * ROWS: a as it is, 16-bit elements along k aligned to vectors, of which a lane loads 8 at once.
 * FEW: rows too, for few results; four steps are loaded, then multiplied. X32: f32, rounded to f16.
 * ACTIVATED: with an activation.
 * TILE4: b is in the layout of tile4.glsl and decoded on the way, a is packed in the order of that,
 * and k is a multiple of 128; b has whole 64 columns.
 *
 * What was f32 may have been multiplied by powers of two (range.glsl): packed rows by those behind
 * them (SCALES: bit 0 those of a, bit 1 those of b). A subgroup that rounds or decodes by itself
 * looks at the greatest numbers, and multiplies once more with others where f16 does not hold
 * them; its sums have exponents of their own then. */
#include "common.glsl"
#include "gemm_frag.def"
#include "coopmat.glsl"
#include "range.glsl"

const uint GROUP = 8; /* rows of tiles in one raster group, for cache reuse */
#if defined(TILE4)
const uint UNROLL = 8;
#elif defined(FEW)
const uint UNROLL = 4;
#else
const uint UNROLL = 2;
#endif
#ifdef SLICES
const uint STRIP = CN * 16 + 4; /* columns and padding */
shared float strip[SGM * SGN * SLICES_N * 16 * STRIP]; /* [place][slice][16 rows][STRIP] */
#else
#ifdef ACTIVATED
const uint STRIP = CN * 16 + 4;
#else
const uint STRIP = 36; /* 32 columns and a gap */
#endif
shared float strip[SGM * SGN * 16 * STRIP]; /* [place][16 rows][STRIP] */
#endif

layout(SLOT(a), std430) restrict readonly buffer buffer_a { uvec4 a[]; };
layout(SLOT(b), std430) restrict readonly buffer buffer_b { uvec4 b[]; };
layout(SLOT(a), std430) restrict readonly buffer buffer_a1 { uint a_words[]; };
layout(SLOT(b), std430) restrict readonly buffer buffer_b1 { uint b_words[]; };

#ifdef BF
#define HALVES(w) uintBitsToBFloat16EXT(unpackUint2x16(w))
#define HALF2 bf16vec2
#else
#define HALVES(w) unpackFloat2x16(w)
#define HALF2 f16vec2
#endif
#define FILL2(matrix, at, w)                                                      \
    {                                                                             \
        const HALF2 h = HALVES(w);                                                \
        matrix[at] = h.x;                                                         \
        matrix[at + 1] = h.y;                                                     \
    }
#define FILL(matrix, w0, w1, w2, w3)                                              \
    {                                                                             \
        FILL2(matrix, 0, w0)                                                      \
        FILL2(matrix, 2, w1)                                                      \
        FILL2(matrix, 4, w2)                                                      \
        FILL2(matrix, 6, w3)                                                      \
    }
#define FILL_RIGHT(matrix, v) FILL(matrix, (v).x, (v).y, (v).z, (v).w)
/* Registers of a left operand hold the elements 0 1, 4 5, 2 3, 6 7. */
#define FILL_LEFT(matrix, v) FILL(matrix, (v).x, (v).z, (v).y, (v).w)

MATRIX_SUM sum[CN * CM];

#define MULTIPLY(left, right)                                                     \
    [[unroll]] for (uint j = 0u; j < CN; j++)                                     \
        [[unroll]] for (uint i = 0u; i < CM; i++)                                 \
            sum[j * CM + i] = coopMatMulAdd(left[j], right[i], sum[j * CM + i]);

/* ---- Exponents ------------------------------------------------------------------------------- */

uint exponents_seen; /* bitwise or of those this lane has read */
bool scaled;         /* some packed rows of this subgroup have exponents */

/* Of row i of a packed operand whose batch begins at vector `first`. */
#define EXPONENT(words, first, i)                                                 \
    int(words[((first) + (i) / 64u * (k * 8u + 16u) + k * 8u) * 4u + (i) % 64u])

void load_exponents(uint m1, uint n1, Batch at)
{
    exponents_seen = 0u;
    for (uint i = gl_SubgroupInvocationID; (SCALES & A_SCALED) != 0u && i < 16u * CM; i += 32u)
        exponents_seen |= uint(EXPONENT(a_words, at.a, m1 + i));
    for (uint i = gl_SubgroupInvocationID; (SCALES & B_SCALED) != 0u && i < 16u * CN; i += 32u)
        exponents_seen |= uint(EXPONENT(b_words, at.b, n1 + i));
}

/* Sums (row, col) to (row, col + 7) whose operands had exponents, e besides. */
void restore8(inout float v[8], int e, uint row, uint col, Batch at)
{
    if (row >= m || col >= n)
        return;
    if ((SCALES & A_SCALED) != 0u)
        e += EXPONENT(a_words, at.a, row);
    [[unroll]] for (uint j = 0u; j < EIGHT; j++)
        v[j] = range_restore(v[j], (SCALES & B_SCALED) != 0u
                                       ? e + EXPONENT(b_words, at.b, col + j) : e);
}

#if defined(X32) || defined(TILE4)
#define PARTS
int part_power[2 * CM]; /* of this subgroup's sums of rows g, g + 8, g + 16, ... */
#endif

/* ---- Multiplication -------------------------------------------------------------------------- */

/* multiply() adds the products of steps first to end, multiples of UNROLL, if there are any. pa and
 * pb are this lane's vectors of step 0. */
#if defined(FEW)
uint row_at[2 * CM]; /* this lane's vectors of rows g, g + 8, g + 16, ... at k = 0 */

#ifdef X32
f16vec2 peak[2 * CM]; /* maxima of this lane's part of those rows, rounded */

/* Vector i of the rows: [two steps][row][step]. */
#define LOAD_A(i, step)                                                           \
    uintBitsToFloat(a[row_at[(i) / 2u % (2u * CM)] +                              \
                      ((step) / 2u + (i) / (4u * CM)) * 8u + (i) % 2u])

/* Four elements of a row, of which this is the r-th of the lane. */
uvec2 round4(vec4 x, uint r, const bool again)
{
    if (again)
        x *= range_power(-part_power[r]);
    const uvec2 h = uvec2(packHalf2x16(x.xy), packHalf2x16(x.zw));
    if (!again)
        peak[r] = max(peak[r], max(abs(unpackFloat2x16(h.x)), abs(unpackFloat2x16(h.y))));
    return h;
}

/* Whether some row is outside the range of f16. */
bool is_outside()
{
    bool any_row = false;
    [[unroll]] for (uint i = 0u; i < CM; i++) {
        f16vec2 two = max(f16vec2(peak[2u * i].x, peak[2u * i + 1u].x),
                          f16vec2(peak[2u * i].y, peak[2u * i + 1u].y));
        two = max(two, unpackFloat2x16(subgroupShuffleXor(packFloat2x16(two), 1u)));
        two = max(two, unpackFloat2x16(subgroupShuffleXor(packFloat2x16(two), 2u)));
        const vec2 x = vec2(two);
        any_row = any_row || min(x.x, x.y) < RANGE_LEAST || max(x.x, x.y) >= RANGE_END;
    }
    return subgroupAny(any_row);
}

/* Exponents for the rows between these steps; false if all are 0. */
bool find_powers(uint first, uint end)
{
    uint top[2 * CM];
    int any_row = 0;
    [[unroll]] for (uint r = 0u; r < 2u * CM; r++)
        top[r] = 0u;
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL)
        [[unroll]] for (uint i = 0u; i < 8u * CM; i++)
            top[i / 2u % (2u * CM)] =
                max(top[i / 2u % (2u * CM)], range_bits4(LOAD_A(i, step)));
    [[unroll]] for (uint r = 0u; r < 2u * CM; r++) {
        top[r] = max(top[r], subgroupShuffleXor(top[r], 1u));
        top[r] = max(top[r], subgroupShuffleXor(top[r], 2u));
        part_power[r] = range_exponent(top[r]);
        any_row |= part_power[r];
    }
    return subgroupAny(any_row != 0);
}
#endif

/* again: with the exponents of find_powers(). */
void multiply(uint pb, uint first, uint end, const bool again)
{
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL) {
        uvec4 rb[4 * CN];
        [[unroll]] for (uint j = 0u; j < 4u * CN; j++)
            rb[j] = b[pb + (step + j / CN) * 128u + j % CN * 32u];
#ifdef X32
        vec4 ra[8 * CM];
        [[unroll]] for (uint i = 0u; i < 8u * CM; i++)
            ra[i] = LOAD_A(i, step);
#else
        uvec4 ra[4 * CM]; /* [two steps][row] */
        [[unroll]] for (uint i = 0u; i < 4u * CM; i++)
            ra[i] = a[row_at[i % (2u * CM)] + (step / 2u + i / (2u * CM)) * 4u];
#endif
        [[unroll]] for (uint u = 0u; u < 4u; u++) {
            MATRIX_B right[CM];
            MATRIX_A left[CN];
            [[unroll]] for (uint i = 0u; i < CM; i++) {
#ifdef X32
                const uint at = (u / 2u * CM + i) * 4u + u % 2u;
                const uvec2 v = round4(ra[at], 2u * i, again);
                const uvec2 w = round4(ra[at + 2u], 2u * i + 1u, again);
                FILL(right[i], v.x, v.y, w.x, w.y)
#else
                const uint at = (u / 2u * CM + i) * 2u, h = u % 2u * 2u;
                const uvec4 v = ra[at], w = ra[at + 1u];
                FILL(right[i], v[h], v[h + 1u], w[h], w[h + 1u])
#endif
            }
            [[unroll]] for (uint j = 0u; j < CN; j++)
                FILL_LEFT(left[j], rb[u * CN + j])
            MULTIPLY(left, right)
        }
    }
}
#elif defined(ROWS)
uint row_at[2 * CM];

void multiply(uint pb, uint first, uint end)
{
    uvec4 ra[2 * CM], rb[CN];
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++) {
        row_at[i] += first * 2u;
        ra[i] = a[row_at[i]];
    }
    [[unroll]] for (uint j = 0u; j < CN; j++)
        rb[j] = b[pb + first * 128u + j * 32u];
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL) {
        const uint next = min(step + 2u, end - 2u);
        MATRIX_B near[CM], far[CM]; /* of this step and the one after it */
        MATRIX_A left[CN], left2[CN];
        [[unroll]] for (uint i = 0u; i < CM; i++) {
            const uvec4 v = ra[2u * i], w = ra[2u * i + 1u];
            FILL(near[i], v.x, v.y, w.x, w.y)
            FILL(far[i], v.z, v.w, w.z, w.w)
        }
        [[unroll]] for (uint j = 0u; j < CN; j++)
            FILL_LEFT(left[j], rb[j])
        [[unroll]] for (uint j = 0u; j < CN; j++)
            rb[j] = b[pb + (step + 1u) * 128u + j * 32u];
        MULTIPLY(left, near)
        [[unroll]] for (uint j = 0u; j < CN; j++)
            FILL_LEFT(left2[j], rb[j])
        [[unroll]] for (uint j = 0u; j < CN; j++)
            rb[j] = b[pb + next * 128u + j * 32u];
        [[unroll]] for (uint i = 0u; i < 2u * CM; i++)
            ra[i] = a[row_at[i] + (next - first) * 2u];
        MULTIPLY(left2, far)
    }
}
#elif defined(TILE4)
layout(SLOT(b), std430) restrict readonly buffer buffer_b2 { uvec2 b_pairs[]; };
#define TILE_AT uint
#define TILE_PLACE(bytes, size) ((bytes) / (size))
#define TILE_VECTOR(place, i) b[(place) + (i)]
#define TILE_PAIR(place, i) b_pairs[(place) + (i)]
#define TILE_WORD(place, i) b_words[(place) + (i)]
#define TILE_MAGIC magic
uint magic;
#include "tile4_block.glsl"

/* pb: the first column of the subgroup. Lane 4 g + t has block t of four in a row, of columns g,
 * g + 8, ... m0: its first row; pa: the vector of that, with 3 fragments of row 0. by: what
 * scales are multiplied by. */
void multiply(uint pa, uint m0, uint pb, uint first, uint end, float by)
{
    const uint g = gl_SubgroupInvocationID / 4u, t = gl_SubgroupInvocationID % 4u, r = g % 4u;
    const uint size = tile_vectors(TB), tiles = (k + 1023u) / 1024u;
    const uint group_at = (pb + g) / 4u * tiles * size, two_groups = 2u * tiles * size;
    uvec4 ra[CM];
    uint row_at[CM]; /* three fragments may lie in two panels of 64 rows */
    [[unroll]] for (uint i = 0u; i < CM; i++)
        row_at[i] = CM == 3u ? pa + (m0 / 16u + i) / 4u * (k * 8u + 16u) + (m0 / 16u + i) % 4u * 32u
                             : pa + i * 32u;
    BLOCKS(now, 2 * CN)
    BLOCKS(next, 2 * CN)
    const uint start = min(first, end - UNROLL); /* exists even if there is nothing to do */
    BlockPlace place = place_block(group_at + start / 64u * size, r, start / 8u % 8u * 4u + t);
    [[unroll]] for (uint j = 0u; j < 2u * CN; j++)
        PUT_BLOCK(next, j, load_block(place, j * two_groups, 0u))
    [[unroll]] for (uint i = 0u; i < CM; i++)
        ra[i] = a[row_at[i] + start * 128u];
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL) {
        const uint ahead = min(step / 8u + 1u, end / 8u - 1u);
        place = place_block(group_at + ahead / 8u * size, r, ahead % 8u * 4u + t);
        [[unroll]] for (uint j = 0u; j < 2u * CN; j++) {
            PUT_BLOCK(now, j, BLOCK_OF(next, j))
            PUT_BLOCK(next, j, load_block(place, j * two_groups, 0u))
        }
        f16vec2 scale[4 * CN]; /* [column][half]: q6_k has two */
        [[unroll]] for (uint j = 0u; j < 2u * CN; j++)
            [[unroll]] for (uint h = 0u; h < (TB == Q6_K ? 2u : 1u); h++)
                scale[2u * j + h] = tile_scale(BLOCK_OF(now, j), r, h, by);
        [[unroll]] for (uint u = 0u; u < 8u; u++) {
            MATRIX_B right[CM];
            [[unroll]] for (uint i = 0u; i < CM; i++)
                FILL_RIGHT(right[i], ra[i])
            const uint then = u + 1u < 8u ? step + u + 1u : min(step + u + 1u, end - 1u);
            [[unroll]] for (uint i = 0u; i < CM; i++)
                ra[i] = a[row_at[i] + then * 128u];
            [[unroll]] for (uint j = 0u; j < CN; j++) {
                const uint h = TB == Q6_K ? u % 2u : 0u;
                f16vec2 even, odd;
                MATRIX_A left;
                decode_part(BLOCK_OF(now, 2u * j), u / 2u, u % 2u, scale[4u * j + h], even, odd);
                left[0] = even.x;
                left[1] = even.y;
                left[2] = odd.x;
                left[3] = odd.y;
                decode_part(BLOCK_OF(now, 2u * j + 1u), u / 2u, u % 2u, scale[4u * j + 2u + h],
                            even, odd);
                left[4] = even.x;
                left[5] = even.y;
                left[6] = odd.x;
                left[7] = odd.y;
                [[unroll]] for (uint i = 0u; i < CM; i++)
                    sum[j * CM + i] = coopMatMulAdd(left, right[i], sum[j * CM + i]);
            }
        }
    }
}
#else
void multiply(uint pa, uint pb, uint first, uint end)
{
    uvec4 ra[CM], rb[CN];
    const uint start = min(first, end - UNROLL); /* exists even if there is nothing to do */
    [[unroll]] for (uint i = 0u; i < CM; i++)
        ra[i] = a[pa + start * 128u + i * 32u];
    [[unroll]] for (uint j = 0u; j < CN; j++)
        rb[j] = b[pb + start * 128u + j * 32u];
    [[dont_unroll]] for (uint step = first; step < end; step += UNROLL) {
        [[unroll]] for (uint u = 0u; u < UNROLL; u++) {
            MATRIX_B right[CM];
            MATRIX_A left[CN];
            [[unroll]] for (uint i = 0u; i < CM; i++)
                FILL_RIGHT(right[i], ra[i])
            [[unroll]] for (uint j = 0u; j < CN; j++)
                FILL_LEFT(left[j], rb[j])
            const uint next = u + 1u < UNROLL ? step + u + 1u : min(step + u + 1u, end - 1u);
            [[unroll]] for (uint i = 0u; i < CM; i++)
                ra[i] = a[pa + next * 128u + i * 32u];
            [[unroll]] for (uint j = 0u; j < CN; j++)
                rb[j] = b[pb + next * 128u + j * 32u];
            MULTIPLY(left, right)
        }
    }
}
#endif

void clear_sums()
{
    [[unroll]] for (uint i = 0u; i < CN * CM; i++)
        sum[i] = MATRIX_SUM(0.0);
}

/* All steps of this subgroup. Subgroups outside of the result read from its beginning. */
void multiply_all(uint m0, uint n0, uint first, uint end, Batch at)
{
    const uint lane = gl_SubgroupInvocationID, size = k * 8u + 16u; /* of 64 packed rows */
    uint n1 = n0 < n ? n0 : 0u, m1 = m0 < m ? m0 : 0u;
    load_exponents(m1, n1, at);
    clear_sums();
#ifdef PARTS
    [[unroll]] for (uint r = 0u; r < 2u * CM; r++)
        part_power[r] = 0;
#endif
#ifdef TILE4
    const uint pa = at.a + lane + (CM == 3u ? 0u : m1 / 64u * size + m1 % 64u * 2u);
    float by = range_power(RAISED);
    magic = MAGIC_HALVES + (n >> 31);
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        tile_scale_top = f16vec2(0.0);
        multiply(pa, m1, n1, first, end, by);
        if (attempt > 0u || !subgroupAny(!tile_scales_fit()))
            break;
        by = range_power(LOWERED);
        clear_sums();
        [[unroll]] for (uint r = 0u; r < 2u * CM; r++)
            part_power[r] = RAISED - LOWERED;
    }
#else
    uint pb = at.b + n1 / 64u * size + n1 % 64u * 2u + lane;
#if defined(FEW) || defined(ROWS)
#ifdef X32
    const uint per = 4u;
    [[unroll]] for (uint r = 0u; r < 2u * CM; r++)
        peak[r] = f16vec2(0.0);
#else
    const uint per = 8u;
#endif
    [[unroll]] for (uint i = 0u; i < 2u * CM; i++) {
        uint row = min(m0 + i * 8u + lane / 4u, m - 1u);
        row_at[i] = (at.a + row * a_m + lane % 4u * 8u) / per;
    }
    if (first < end) {
#ifdef FEW
        multiply(pb, first, end, false);
#else
        multiply(pb, first, end);
#endif
#ifdef X32
        if (is_outside() && find_powers(first, end)) {
            clear_sums();
            multiply(pb, first, end, true);
        }
#endif
    }
#else
    multiply(at.a + m1 / 64u * size + m1 % 64u * 2u + lane, pb, first, end);
#endif
#endif
    scaled = subgroupAny(exponents_seen != 0u);
}

#if defined(ACTIVATED)
/* Writes the results of a subgroup, 16 rows at a time and in a loop: activations are long, and
 * unrolled they would miss the instruction cache. */
void write_sums(uint m0, uint n0, uint base, Batch at)
{
    [[unroll]] for (uint i = 0u; i < CM; i++) {
        [[unroll]] for (uint j = 0u; j < CN; j++)
            coopMatStore(sum[j * CM + i], strip, base + j * 16u, STRIP,
                         gl_CooperativeMatrixLayoutColumnMajor);
        subgroupMemoryBarrierShared();
        subgroupBarrier();
        [[dont_unroll]] for (uint g = gl_SubgroupInvocationID; g < 32u * CN; g += 32u) {
            float v[8];
            uint r = g / (2u * CN), c = g % (2u * CN) * 8u;
            [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                v[e] = strip[base + r * STRIP + c + e];
            if (scaled)
                restore8(v, 0, m0 + i * 16u + r, n0 + c, at);
            finish8(v, m0 + i * 16u + r, n0 + c, at);
        }
        subgroupBarrier();
    }
}
#elif !defined(SLICES)
/* Writes the results of a subgroup, 16 rows and 32 columns at a time. */
void write_sums(uint m0, uint n0, uint base, Batch at)
{
    const uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint i = 0u; i < CM; i++)
        [[unroll]] for (uint j = 0u; j < CN; j += 2u) {
            [[unroll]] for (uint h = 0u; h < 2u; h++)
                coopMatStore(sum[(j + h) * CM + i], strip, base + h * 16u, STRIP,
                             gl_CooperativeMatrixLayoutColumnMajor);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
            [[unroll]] for (uint h = 0u; h < FOUR / 2u; h++) {
                float v[8];
                uint r = h * 8u + lane / 4u, c = lane % 4u * 8u;
                [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                    v[e] = strip[base + r * STRIP + c + e];
                if (scaled)
                    restore8(v, 0, m0 + i * 16u + r, n0 + j * 16u + c, at);
                finish8(v, m0 + i * 16u + r, n0 + j * 16u + c, at);
            }
            subgroupBarrier();
        }
}
#endif

#ifdef SLICES
/* Joins the sums of all slices for eight columns of a row, the g-th of 16 rows, and writes them. */
void write_joined(uint base, uint m0, uint n0, uint g, Batch at)
{
    float v[8];
    const uint r = g / (2u * CN), c = g % (2u * CN) * 8u;
    [[unroll]] for (uint e = 0u; e < EIGHT; e++)
        v[e] = 0.0;
    for (uint s = 0u; s < SLICES_N; s++) {
        const uint from = base + (s * 16u + r) * STRIP;
#ifdef PARTS
        const float power = strip[from + CN * 16u];
        if (scaled || power != 0.0) {
            float x[8];
            [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                x[e] = strip[from + c + e];
            restore8(x, int(power), m0 + r, n0 + c, at);
            [[unroll]] for (uint e = 0u; e < EIGHT; e++)
                v[e] += x[e];
            continue;
        }
#endif
        [[unroll]] for (uint e = 0u; e < EIGHT; e++)
            v[e] += strip[from + c + e];
    }
#ifndef PARTS
    if (scaled)
        restore8(v, 0, m0 + r, n0 + c, at);
#endif
    finish8(v, m0 + r, n0 + c, at);
}
#endif

void main()
{
    if (GROUP_INDEX >= n_groups)
        return;
    const uint place = gl_SubgroupID % (SGM * SGN), lane = gl_SubgroupInvocationID;
    const uint bm = SGM * 16u * CM, bn = SGN * 16u * CN;
    uint tiles_m = (m + bm - 1u) / bm, tiles_n = (n + bn - 1u) / bn, tiles = tiles_m * tiles_n;
    uint tile = GROUP_INDEX % tiles, wide = GROUP * tiles_n, top = tile / wide * GROUP;
    uint rows = min(tiles_m - top, GROUP), local = tile % wide;
    uint m0 = (top + local % rows) * bm + place % SGM * 16u * CM;
    uint n0 = local / rows * bn + place / SGM * 16u * CN;
    Batch at = find_batch(GROUP_INDEX / tiles);
    uint steps = k / 16u;

#ifdef SLICES
    uint slice = gl_SubgroupID / (SGM * SGN);
    uint each = (steps / UNROLL + SLICES_N - 1u) / SLICES_N * UNROLL;
    uint end = min(slice * each + each, steps), first = min(slice * each, end);
    multiply_all(m0, n0, first, end, at);
    uint base = place * SLICES_N * 16u * STRIP;
    [[unroll]] for (uint i = 0u; i < CM; i++) {
        const uint own = base + slice * 16u * STRIP;
        [[unroll]] for (uint j = 0u; j < CN; j++) {
#ifdef TILE4
            if (RAISED != 0)
                sum[j * CM + i] *= range_power(-RAISED);
#endif
            coopMatStore(sum[j * CM + i], strip, own + j * 16u, STRIP,
                         gl_CooperativeMatrixLayoutColumnMajor);
        }
#ifdef PARTS /* exponents go into the gaps */
        if (lane % 4u == 0u) {
            strip[own + lane / 4u * STRIP + CN * 16u] = float(part_power[2u * i]);
            strip[own + (lane / 4u + 8u) * STRIP + CN * 16u] = float(part_power[2u * i + 1u]);
        }
#endif
        barrier();
        for (uint g = slice * 32u + lane; g < 32u * CN; g += 32u * SLICES_N)
            write_joined(base, m0 + i * 16u, n0, g, at);
        barrier();
    }
#else
    if (m0 >= m || n0 >= n)
        return;
    multiply_all(m0, n0, 0u, steps, at);
    write_sums(m0, n0, place * 16u * STRIP, at);
#endif
}
