/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
/* Product of 2 to 16 rows with a quantised weight [n, k] by cooperative matrices with f32 sums:
 * product.glsl says what is computed, tile4.glsl how the weight lies. The reading of the weight is
 * the limit: it is read once, and goes from its tiles to fragments in registers.
 *
 * A workgroup multiplies 128 STEPS elements along k of all rows, which lie in shared memory as f16,
 * by FRAGMENTS fragments of 16 columns. The weight is the left operand; lane 4 g + t has block t of
 * the four of a step, of columns g and g + 8. A subgroup makes SIDE_N fragments at a time, AHEAD
 * steps of which are on their way; the first ones already before the wait of a chain. The grid is
 * (tiles of columns, parts of k). Sums go to `partial` as they lie in fragments; the last workgroup
 * of a tile (counters: a word for each, 0 before and after) adds those of all parts and finishes.
 *
 * FOLD: x is made of what is read, a norm over its mean square times gamma or a product. The norm's
 * factor is one for a row, so it multiplies the sums and not x.
 *
 * f16 does not hold all of f32 (range.glsl): a workgroup multiplies rows that leave the range by
 * powers of two. A subgroup whose weights do not fit multiplies once more with less of them.
 *
 * PAIR: two products of the same x, the result is act(first) * second. Of two neighbouring
 * fragments one is of the first weight and one of the second. */
#include "common.glsl"
#include "tile4_few.def"
#include "dot_tail.def"
#ifdef PAIR
#define ONE_BATCH
#endif
#include "product.glsl"
#include "range.glsl"
#define CHAIN_LATE
#include "chain.glsl"

WORDS4(a);
VIEW(a, uvec2, a_pairs); /* the same */
WORDS4(other); /* gamma, or the second factor: f32 */

#define WEIGHT_BUFFER(name, type, align) \
    layout(buffer_reference, std430, buffer_reference_align = align) \
        restrict readonly buffer name { type v[]; }
WEIGHT_BUFFER(Vectors, uvec4, 16);
WEIGHT_BUFFER(Pairs, uvec2, 8);
WEIGHT_BUFFER(Words, uint, 4);

#define TILE_AT uvec2
#define TILE_PLACE(bytes, size) address(bytes)
#define TILE_VECTOR(place, i) Vectors(place).v[i]
#define TILE_PAIR(place, i) Pairs(place).v[i]
#define TILE_WORD(place, i) Words(place).v[i]
#define TILE_MAGIC magic

uvec2 own_weight; /* the address of the one that is read */
uint magic;

uvec2 address(uint bytes)
{
    uint carry, low = uaddCarry(own_weight.x, bytes, carry);
    return uvec2(low, own_weight.y + carry);
}
#include "tile4_block.glsl"

#ifdef PAIR
const uint WEIGHTS = 2;
#else
const uint WEIGHTS = 1;
#endif
const uint K = NB * 32, NT = (NB + 31) / 32;
const uint EIGHTS = (ROWS + 7) / 8; /* of rows */
const uint THREADS = SUBGROUPS * 32;
const uint LINE = 20; /* 16 columns and a gap */

/* x: [step][8 rows][lane][part of 16], see stage_at; later lines of results, see LINE_AT. */
const uint STAGE = STEPS * EIGHTS * 256, LINES = SUBGROUPS * WEIGHTS * 8 * LINE / 2;
shared uvec2 room[STAGE > LINES ? STAGE : LINES];
shared uint tops[ROWS]; /* greatest magnitudes, as bits */
shared float squares[FOLD == FOLD_NORM ? STEPS * ROWS : 1]; /* sums of, [row][step] */
shared float factors[FOLD == FOLD_NORM ? ROWS : 1];
shared uint n_before;

/* Of each workgroup: sums of each fragment as its lanes have them, then squares of rows. */
const uint FRAGMENT = 32 * EIGHTS;
const uint AREA = FRAGMENTS * FRAGMENT + (ROWS + 3) / 4;
layout(SLOT(partial), std430) coherent buffer buffer_partial { uvec4 partial[]; };
layout(SLOT(counters), std430) coherent buffer buffer_counters { uint counters[]; };
#define AREA_AT(part) ((gl_WorkGroupID.x * gl_NumWorkGroups.y + (part)) * AREA)

#define SIDE gl_SubgroupInvocationID
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/* ---- x --------------------------------------------------------------------------------------- */

/* i: a multiple of 4. */
vec4 load_four(uint i)
{
    if (TA == F32)
        return uintBitsToFloat(a[i >> 2]);
    const uvec2 w = a_pairs[i >> 2];
    return TA == F16 ? vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y))
                     : uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16,
                                             w.y & 0xffff0000u));
}

/* Rows that do not exist are as the last one, and are not written. */
uint row_of(uint r) { return min(r, m - 1u); }

/* Place of part u (0 to 7) of the blocks of a lane, so that neither side has bank conflicts. */
uint stage_at(uint step, uint eight, uint lane, uint u)
{
    return ((step * EIGHTS + eight) * 32u + lane) * 8u + (u ^ lane / 2u % 8u);
}

/* Elements 4 lane to 4 lane + 3 of step s of a row, which are a part of block lane / 8. first: of
 * x. The rows that a subgroup has are those that it has in the other call. */
void stage_row(uint first, uint s, uint r, bool again)
{
    const uint i = (gl_WorkGroupID.y * STEPS + s) * 128u + SIDE * 4u;
    const uint t = SIDE / 8u, u = SIDE % 4u * 2u + SIDE / 4u % 2u;
    vec4 x = vec4(0.0), y = vec4(0.0);
    if (i < K) {
        x = load_four(first + row_of(r) * a_m + i);
        if (FOLD != FOLD_NONE)
            y = uintBitsToFloat(
                other[(fold_at + (FOLD == FOLD_MUL ? row_of(r) * K : 0u) + i) >> 2]);
    }
    if (FOLD == FOLD_NORM && !again) {
        const float sum = subgroupAdd(dot(x, x));
        if (SIDE == 0u)
            squares[r * STEPS + s] = sum;
    }
    if (FOLD != FOLD_NONE)
        x *= y;
    if (again) {
        x *= range_power(-range_exponent(tops[r]));
    } else {
        const uint top = subgroupMax(range_bits4(x));
        if (SIDE == 0u)
            atomicMax(tops[r], top);
    }
    room[stage_at(s, r / 8u, r % 8u * 4u + t, u)] = uvec2(packFloat2x16(f16vec2(x.xz)),
                                                          packFloat2x16(f16vec2(x.yw)));
}

void stage_rows(uint own, uint first, bool again)
{
    for (uint i = own; i < STEPS * ROWS; i += SUBGROUPS)
        stage_row(first, i / ROWS, i % ROWS, again);
    barrier();
}

/* The norm's factor of a row whose squares leave the range of f32: with x times 2^-e. */
float scaled_factor(uint first)
{
    float most = 0.0, all = 0.0;
    for (uint i = SIDE * 4u; i < K; i += 128u)
        most = range_top(most, load_four(first + i));
    most = subgroupMax(most);
    if (!(most > 0.0 && most < 3.4e38))
        return inversesqrt(most * most + fold_eps);
    int e = int(floatBitsToUint(most) >> 23) - 127;
    float by = range_power(-clamp(e, -126, 126));
    for (uint i = SIDE * 4u; i < K; i += 128u) {
        vec4 x = load_four(first + i) * by;
        all += dot(x, x);
    }
    float mean = subgroupAdd(all) / float(K), eps = fold_eps * by * by;
    return eps < 3.4e38 ? inversesqrt(mean + eps) * by : inversesqrt(fold_eps);
}

/* The norm's factor of a row with this sum of squares: 1 / sqrt(mean square). */
float factor_of(float all, uint first)
{
    if (all > 1e-30 && all < 1e38)
        return inversesqrt(all / float(K) + fold_eps);
    return scaled_factor(first);
}

/* ---- The weight ------------------------------------------------------------------------------ */

/* Blocks that are on their way, [step][fragment][columns g and g + 8], and those of a step. */
BLOCKS(ahead, AHEAD * SIDE_N * 2)
BLOCKS(now, SIDE_N * 2)

float by_weight; /* what scales are multiplied by */

/* The blocks of this lane in the first step of fragments f .. f + SIDE_N - 1 of the tile: they and
 * further steps are at constant distances from there. Fragments outside are the last ones: the
 * weight has whole 64 columns. */
struct Places {
    BlockPlace weight[WEIGHTS];
};

Places place_fragments(uint f)
{
    const uint wide = SIDE_N / WEIGHTS, q = gl_WorkGroupID.y * STEPS;
    const uint column = min((gl_WorkGroupID.x * FRAGMENTS + f) / WEIGHTS,
                            (n + 63u) / 64u * 4u - wide);
    const uint at = ((column * 4u + SIDE / 16u) * NT + q / 8u) * tile_vectors(TB);
    const uint r = SIDE / 4u % 4u, line = q % 8u * 4u + SIDE % 4u;
    Places p;
    own_weight = uvec2(weight_low, weight_high);
    p.weight[0] = place_block(at, r, line);
#ifdef PAIR
    own_weight = uvec2(second_low, second_high);
    p.weight[1] = place_block(at, r, line);
#endif
    return p;
}

void load_step(in Places p, uint s)
{
    [[unroll]] for (uint b = 0u; b < SIDE_N; b++) {
        const uint at = b / WEIGHTS * 4u * NT * tile_vectors(TB);
        const uint slot = (s % AHEAD * SIDE_N + b) * 2u;
        PUT_BLOCK(ahead, slot, load_block(p.weight[b % WEIGHTS], at, s))
        PUT_BLOCK(ahead, slot + 1u,
                  load_block(p.weight[b % WEIGHTS], at + 2u * NT * tile_vectors(TB), s))
    }
}

void load_first(in Places p)
{
    [[unroll]] for (uint s = 0u; s < AHEAD; s++)
        load_step(p, s);
}

/* ---- The product ----------------------------------------------------------------------------- */

MATRIX_SUM sum[SIDE_N];

/* Adds the products of step s with the blocks `now`. */
void multiply_step(uint s)
{
    const uint r = SIDE / 4u % 4u;
    f16vec2 scale[4 * SIDE_N]; /* [column][half]: q6_k has two */
    [[unroll]] for (uint i = 0u; i < 2u * SIDE_N; i++)
        [[unroll]] for (uint h = 0u; h < (TB == Q6_K ? 2u : 1u); h++)
            scale[2u * i + h] = tile_scale(BLOCK_OF(now, i), r, h, by_weight);
    [[unroll]] for (uint u = 0u; u < 8u; u++) {
        MATRIX_B right = MATRIX_B(0.0);
        [[unroll]] for (uint e = 0u; e < EIGHTS; e++) {
            const uvec2 w = room[stage_at(s, e, SIDE, u)];
            const f16vec2 near = unpackFloat2x16(w.x), far = unpackFloat2x16(w.y);
            right[e * 4u] = near.x;
            right[e * 4u + 1u] = near.y;
            right[e * 4u + 2u] = far.x;
            right[e * 4u + 3u] = far.y;
        }
        [[unroll]] for (uint i = 0u; i < SIDE_N; i++) {
            const uint h = TB == Q6_K ? u % 2u : 0u;
            f16vec2 even, odd;
            MATRIX_A left;
            decode_part(BLOCK_OF(now, 2u * i), u / 2u, u % 2u, scale[4u * i + h], even, odd);
            left[0] = even.x;
            left[1] = even.y;
            left[2] = odd.x;
            left[3] = odd.y;
            decode_part(BLOCK_OF(now, 2u * i + 1u), u / 2u, u % 2u, scale[4u * i + 2u + h], even,
                        odd);
            left[4] = even.x;
            left[5] = even.y;
            left[6] = odd.x;
            left[7] = odd.y;
            sum[i] = coopMatMulAdd(left, right, sum[i]);
        }
    }
}

/* All steps of SIDE_N fragments at p, of which AHEAD steps are on their way; more: those of `next`
 * are asked for then. */
void multiply_fragments(in Places p, in Places next, const bool more)
{
    [[unroll]] for (uint i = 0u; i < SIDE_N; i++)
        sum[i] = MATRIX_SUM(0.0);
    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
        [[unroll]] for (uint i = 0u; i < 2u * SIDE_N; i++)
            PUT_BLOCK(now, i, BLOCK_OF(ahead, s % AHEAD * SIDE_N * 2u + i))
        if (s + AHEAD < STEPS)
            load_step(p, s + AHEAD);
        else if (more)
            load_step(next, s + AHEAD - STEPS);
        multiply_step(s);
    }
}

/* Writes the sums of fragments f .. f + SIDE_N - 1 to `partial`, times 2^power. */
void store_fragments(uint f, int power)
{
    const uint t = SIDE % 4u;
    [[unroll]] for (uint e = 0u; e < EIGHTS; e++) {
        const int near = power + range_exponent(tops[min(e * 8u + 2u * t, ROWS - 1u)]);
        const int far = power + range_exponent(tops[min(e * 8u + 2u * t + 1u, ROWS - 1u)]);
        [[unroll]] for (uint i = 0u; i < SIDE_N; i++) {
            const vec4 v = vec4(range_restore(sum[i][2u * e], near),
                                range_restore(sum[i][2u * e + 1u], far),
                                range_restore(sum[i][4u + 2u * e], near),
                                range_restore(sum[i][5u + 2u * e], far));
            partial[AREA_AT(gl_WorkGroupID.y) + (f + i) * FRAGMENT + e * 32u + SIDE] =
                floatBitsToUint(v);
        }
    }
}

/* load_first() is done for fragments own * SIDE_N. */
void multiply_all(uint own, in Places p, int power)
{
    uint f = own * SIDE_N;
    if (f >= FRAGMENTS)
        return;
    [[dont_unroll]] for (; f + SUBGROUPS * SIDE_N < FRAGMENTS; f += SUBGROUPS * SIDE_N) {
        const Places next = place_fragments(f + SUBGROUPS * SIDE_N);
        multiply_fragments(p, next, true);
        store_fragments(f, power);
        p = next;
    }
    multiply_fragments(p, p, false);
    store_fragments(f, power);
}

/* ---- The end --------------------------------------------------------------------------------- */

/* As barrier(), and buffers are in order too. */
void buffer_barrier()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

/* Vector i of the areas of all parts of the tile, added up. */
vec4 join_parts(uint i)
{
    const uint parts = gl_NumWorkGroups.y;
    vec4 v = vec4(0.0);
    for (uint s = 0u; s < parts; s += 4u) {
        vec4 x[4];
        [[unroll]] for (uint j = 0u; j < 4u; j++) /* past the end: the last once more */
            x[j] = uintBitsToFloat(partial[AREA_AT(min(s + j, parts - 1u)) + i]);
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            v += s + j < parts ? x[j] : vec4(0.0);
    }
    return v;
}

/* Lines of 16 columns of 8 rows of a subgroup in `room`, for each weight. */
#define LINE_AT(own, w, row) ((((own) * WEIGHTS + (w)) * 8u + (row)) * LINE)

/* Eight rows of fragment f of the tile, of all parts, to lines in `room`. */
void join_fragment(uint own, uint f, uint e, uint w)
{
    const uint g = SIDE / 4u, t = SIDE % 4u;
    const vec4 v = join_parts(f * FRAGMENT + e * 32u + SIDE);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        const uint at = LINE_AT(own, w, 2u * t + j % 2u) + g + j / 2u * 8u;
        room[at / 2u][at % 2u] = floatBitsToUint(v[j]);
    }
}

vec4 four_at(uint at)
{
    return uintBitsToFloat(uvec4(room[at / 2u], room[at / 2u + 1u]));
}

/* Writes the results of 8 rows, a lane four columns of one, of 16 columns from `first` on. */
void write_columns(uint own, uint e, uint first, Batch at)
{
    const uint row = e * 8u + SIDE / 4u, col = first + SIDE % 4u * 4u;
    if (row >= m || col >= n)
        return;
    vec4 x = four_at(LINE_AT(own, 0u, SIDE / 4u) + SIDE % 4u * 4u);
    if (FOLD == FOLD_NORM)
        x *= factors[row];
#ifdef PAIR
    vec4 y = four_at(LINE_AT(own, 1u, SIDE / 4u) + SIDE % 4u * 4u);
    if (FOLD == FOLD_NORM)
        y *= factors[row];
    uvec4 v;
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        v[j] = encode_f(TOUT, apply_act(ACT, x[j]) * y[j]);
    put4(at.o + row * n + col, min(n - col, 4u), v);
#else
    finish4(x, row, col, at);
#endif
}

/* Of a subgroup, and only shared memory is in order. */
void stage_barrier()
{
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

/* The last workgroup of a tile writes its results. */
void finish_tile(uint own, Batch at)
{
    for (uint r = own; FOLD == FOLD_NORM && r < ROWS; r += SUBGROUPS)
        factors[r] = factor_of(join_parts(FRAGMENTS * FRAGMENT + r / 4u)[r % 4u],
                               at.a + row_of(r) * a_m);
    barrier();
    for (uint f = own * WEIGHTS; f < FRAGMENTS; f += SUBGROUPS * WEIGHTS) {
        const uint first = (gl_WorkGroupID.x * FRAGMENTS + f) / WEIGHTS * 16u;
        if (first >= n)
            break;
        for (uint e = 0u; e < EIGHTS; e++) {
            stage_barrier();
            join_fragment(own, f, e, 0u);
            if (WEIGHTS == 2u)
                join_fragment(own, f + 1u, e, 1u);
            stage_barrier();
            write_columns(own, e, first, at);
        }
    }
    if (LANE == 0u)
        counters[gl_WorkGroupID.x] = 0u;
}

void main()
{
    const uint own = subgroupBroadcastFirst(gl_SubgroupID);
    const Batch at = find_batch(0u);
    magic = MAGIC_HALVES + (n >> 31);
    Places p = place_fragments(min(own * SIDE_N, FRAGMENTS - SIDE_N));
    load_first(p);
    if (LANE < ROWS)
        tops[LANE] = 0u;
    barrier();
    chain_wait();
    stage_rows(own, at.a, false);
    int some = 0;
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        some |= range_exponent(tops[r]);
    if (some != 0)
        stage_rows(own, at.a, true);

    by_weight = range_power(RAISED);
    tile_scale_top = f16vec2(0.0);
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        multiply_all(own, p, attempt == 0u ? -RAISED : -LOWERED);
        if (attempt > 0u || !subgroupAny(!tile_scales_fit()))
            break;
        by_weight = range_power(LOWERED);
        load_first(p);
    }
    if (FOLD == FOLD_NORM && LANE < ROWS) {
        float all = 0.0;
        for (uint s = 0u; s < STEPS; s++)
            all += squares[LANE * STEPS + s];
        partial[AREA_AT(gl_WorkGroupID.y) + FRAGMENTS * FRAGMENT + LANE / 4u][LANE % 4u] =
            floatBitsToUint(all);
    }
    buffer_barrier();
    if (LANE == 0u) {
        memoryBarrierBuffer();
        n_before = atomicAdd(counters[gl_WorkGroupID.x], 1u);
        memoryBarrierBuffer();
    }
    buffer_barrier();
    if (n_before + 1u == gl_NumWorkGroups.y)
        finish_tile(own, at);
}
