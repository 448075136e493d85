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
 * The weight is the left operand; lane 4 g + t has block t of the four of a step, which is 128
 * elements along k, of columns g and g + 8. A subgroup keeps STEPS steps of x in registers, as
 * right operands, and multiplies them by FRAGMENTS fragments of 16 columns, AHEAD of which are on
 * their way; the first ones already before the wait of a chain. Its sums are joined with those of
 * the other subgroups, which have other steps, in shared memory, BATCH fragments at a time. The
 * grid is (tiles of columns, PARTS of k). Sums go to `partial` as they lie in fragments; the last
 * workgroup of a tile (counters: a word for each, 0 before and after) adds those of all parts and
 * finishes.
 *
 * FOLD: x is made of what is read, a norm over its mean square times gamma or a product. The norm's
 * factor is one for a row, so it multiplies the sums and not x.
 *
 * f16 does not hold all of f32 (range.glsl): a subgroup multiplies rows that leave the range by
 * powers of two. A workgroup whose weights do not fit multiplies once more with less of them.
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
const uint K = NB * 32, NT = (NB + 31) / 32, N_STEPS = (NB + 3) / 4;
const uint EIGHTS = (ROWS + 7) / 8; /* of rows */
const uint THREADS = SUBGROUPS * 32;
const uint LINE = 20; /* 16 columns and a gap */

/* Of each subgroup x on its way to registers, then sums, [two batches][8 rows][lane]; later lines
 * of results, see LINE_AT. */
const uint RING = 2 * BATCH;
const uint OWN = RING * EIGHTS * 32 > 128 ? RING * EIGHTS * 32 : 128; /* vectors of a subgroup */
const uint PARTS = (N_STEPS + SUBGROUPS * STEPS - 1) / (SUBGROUPS * STEPS);
const uint SUMS = SUBGROUPS * OWN, LINES = SUBGROUPS * WEIGHTS * 8 * LINE / 4;
shared uvec4 room[SUMS > LINES ? SUMS : LINES];
shared float squares[FOLD == FOLD_NORM ? SUBGROUPS * ROWS : 1]; /* sums of, [subgroup][row] */
shared float factors[FOLD == FOLD_NORM ? ROWS : 1];
shared uint n_before, n_misfits; /* misfits: subgroups with weights that do not fit */

/* Of each workgroup: sums of each fragment as its lanes have them, then squares of rows. */
const uint FRAGMENT = 32 * EIGHTS;
const uint AREA = FRAGMENTS * FRAGMENT + (ROWS + 3) / 4;
layout(SLOT(partial), std430) coherent buffer buffer_partial { uvec4 partial[]; };
layout(SLOT(counters), std430) coherent buffer buffer_counters { uint counters[]; };
#define AREA_AT(part) ((gl_WorkGroupID.x * PARTS + (part)) * AREA)

#define SIDE gl_SubgroupInvocationID
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>

/* ---- x --------------------------------------------------------------------------------------- */

uvec2 own_x[STEPS * EIGHTS * 8]; /* [step][8 rows][part of 16]: what fragments of x have */
int row_power[2 * EIGHTS];       /* exponents of rows 2 t, 2 t + 1, 2 t + 8, ... of the sums */
bool is_scaled;                  /* some exponent is not 0 */

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

/* The first step of a subgroup. */
uint first_step(uint own) { return (gl_WorkGroupID.y * SUBGROUPS + own) * STEPS; }

const uint LOADED = ROWS < 8 ? ROWS : 8; /* rows of eight that are not copies */

/* Part u of the block of lane `lane` in a fragment of x: half of vector u / 2, placed so that
 * reading has no bank conflicts. */
uint stage_at(uint own, uint lane, uint u)
{
    return own * OWN + lane * 4u + (u / 2u ^ lane / 2u % 4u);
}

/* Of a subgroup, and only shared memory is in order. */
void stage_barrier()
{
    controlBarrier(gl_ScopeSubgroup, gl_ScopeSubgroup, gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}

/* Step s, rows 8 e to 8 e + 7 of x times powers of two; first: of x. Lane SIDE reads elements
 * 4 SIDE to 4 SIDE + 3 of each row, which are a part of block SIDE / 8. Adds to the maxima and the
 * sums of squares of the rows. */
void load_step_x(uint own, uint first, uint s, uint e, in int power[ROWS], inout uint top[ROWS],
                 inout float square[ROWS])
{
    const uint i = (first_step(own) + s) * 128u + SIDE * 4u;
    const uint t = SIDE / 8u, u = SIDE % 4u * 2u + SIDE / 4u % 2u;
    const bool exists = NB % (4u * STEPS * SUBGROUPS) == 0u || i < K;
    vec4 x[LOADED], y[FOLD == FOLD_MUL ? LOADED : 1];
    [[unroll]] for (uint j = 0u; j < LOADED; j++) {
        const uint row = row_of(e * 8u + j);
        x[j] = exists ? load_four(first + row * a_m + i) : vec4(0.0);
        if (FOLD == FOLD_MUL)
            y[j] = exists ? uintBitsToFloat(other[(fold_at + row * K + i) >> 2]) : vec4(0.0);
    }
    if (FOLD == FOLD_NORM)
        y[0] = exists ? uintBitsToFloat(other[(fold_at + i) >> 2]) : vec4(0.0);
    stage_barrier();
    [[unroll]] for (uint j = 0u; j < LOADED; j++) {
        const uint r = e * 8u + j, at = stage_at(own, j * 4u + t, u);
        if (FOLD == FOLD_NORM)
            square[r] += dot(x[j], x[j]);
        if (FOLD != FOLD_NONE)
            x[j] *= y[FOLD == FOLD_MUL ? j : 0u];
        top[r] = max(top[r], range_bits4(x[j]));
        x[j] *= range_power(-power[r]);
        room[at][u % 2u * 2u] = packFloat2x16(f16vec2(x[j].xz));
        room[at][u % 2u * 2u + 1u] = packFloat2x16(f16vec2(x[j].yw));
    }
    stage_barrier();
    [[unroll]] for (uint h = 0u; h < 4u; h++) {
        const uvec4 v = room[stage_at(own, SIDE % (LOADED * 4u), 2u * h)];
        own_x[(s * EIGHTS + e) * 8u + 2u * h] = v.xy;
        own_x[(s * EIGHTS + e) * 8u + 2u * h + 1u] = v.zw;
    }
}

/* All steps of x of a subgroup, and the exponents of its rows. */
void load_x(uint own, uint first)
{
    int power[ROWS];
    float square[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; r++)
        power[r] = 0;
    is_scaled = false;
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        uint top[ROWS];
        int any_power = 0;
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            top[r] = 0u;
            square[r] = 0.0;
        }
        [[unroll]] for (uint s = 0u; s < STEPS; s++)
            [[unroll]] for (uint e = 0u; e < EIGHTS; e++)
                load_step_x(own, first, s, e, power, top, square);
        if (attempt > 0u)
            break;
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            power[r] = range_exponent(subgroupMax(top[r]));
            any_power |= power[r];
        }
        if (any_power == 0)
            break;
        is_scaled = true;
    }
    [[unroll]] for (uint i = 0u; i < 2u * EIGHTS; i++)
        row_power[i] = 0;
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        if (is_scaled && r % 8u / 2u == SIDE % 4u)
            row_power[r / 8u * 2u + r % 2u] = power[r];
        if (FOLD == FOLD_NORM) {
            const float all = subgroupAdd(square[r]);
            if (SIDE == 0u)
                squares[own * ROWS + r] = all;
        }
    }
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

/* Blocks that are on their way, [fragment][step][columns g and g + 8], and those of a fragment. */
BLOCKS(ahead, AHEAD * STEPS * 2)
BLOCKS(now, STEPS * 2)

float by_weight; /* what scales are multiplied by */

/* The blocks of this lane in the first step of a fragment of each weight: those of further steps
 * and fragments are at constant distances from there. */
struct Places {
    BlockPlace weight[WEIGHTS];
};

/* The weight has whole 64 columns: fragments of this tile that exist. */
uint count_fragments()
{
    const uint all = (n + 63u) / 64u * 4u * WEIGHTS, first = gl_WorkGroupID.x * FRAGMENTS;
    return min(FRAGMENTS, all - min(all, first));
}

/* Of the first fragments of the tile, from step q on. */
Places place_fragments(uint q)
{
    const uint column = gl_WorkGroupID.x * FRAGMENTS / WEIGHTS;
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

#define NEXT_PLACE(part, by)                                                      \
    {                                                                             \
        uint carry;                                                               \
        part.x = uaddCarry(part.x, by, carry);                                    \
        part.y += carry;                                                          \
    }

/* AHEAD fragments further. */
void next_places(inout Places p)
{
    const uint by = AHEAD / WEIGHTS * 4u * NT * tile_vectors(TB) * 16u;
    [[unroll]] for (uint w = 0u; w < WEIGHTS; w++) {
        NEXT_PLACE(p.weight[w].quants, by)
        if (tile_high(TB) != 0u)
            NEXT_PLACE(p.weight[w].high, by)
        NEXT_PLACE(p.weight[w].scales, by)
        if (has_supers(TB))
            NEXT_PLACE(p.weight[w].super, by)
    }
}

/* All steps of the fragment that is i fragments behind p. */
void load_fragment(in Places p, uint i)
{
    const uint at = i / WEIGHTS * 4u * NT * tile_vectors(TB);
    [[unroll]] for (uint s = 0u; s < STEPS; s++) {
        const uint slot = (i % AHEAD * STEPS + s) * 2u;
        PUT_BLOCK(ahead, slot, load_block(p.weight[i % WEIGHTS], at, s))
        PUT_BLOCK(ahead, slot + 1u,
                  load_block(p.weight[i % WEIGHTS], at + 2u * NT * tile_vectors(TB), s))
    }
}

void load_first(in Places p, uint limit)
{
    if (limit > 0u)
        [[unroll]] for (uint i = 0u; i < AHEAD; i++)
            load_fragment(p, i);
}

/* ---- The product ----------------------------------------------------------------------------- */

MATRIX_SUM sum;

/* Adds the products of step s with the blocks `now`. */
void multiply_step(uint s)
{
    const uint r = SIDE / 4u % 4u;
    f16vec2 scale[4]; /* [column][half]: q6_k has two */
    [[unroll]] for (uint i = 0u; i < 2u; i++)
        [[unroll]] for (uint h = 0u; h < (TB == Q6_K ? 2u : 1u); h++)
            scale[2u * i + h] = tile_scale(BLOCK_OF(now, 2u * s + i), r, h, by_weight);
    [[unroll]] for (uint u = 0u; u < 8u; u++) {
        MATRIX_B right = MATRIX_B(0.0);
        [[unroll]] for (uint e = 0u; e < EIGHTS; e++) {
            const uvec2 w = own_x[(s * EIGHTS + e) * 8u + u];
            const f16vec2 near = unpackFloat2x16(w.x), far = unpackFloat2x16(w.y);
            right[e * 4u] = near.x;
            right[e * 4u + 1u] = near.y;
            right[e * 4u + 2u] = far.x;
            right[e * 4u + 3u] = far.y;
        }
        const uint h = TB == Q6_K ? u % 2u : 0u;
        f16vec2 even, odd;
        MATRIX_A left;
        decode_part(BLOCK_OF(now, 2u * s), u / 2u, u % 2u, scale[h], even, odd);
        left[0] = even.x;
        left[1] = even.y;
        left[2] = odd.x;
        left[3] = odd.y;
        decode_part(BLOCK_OF(now, 2u * s + 1u), u / 2u, u % 2u, scale[2u + h], even, odd);
        left[4] = even.x;
        left[5] = even.y;
        left[6] = odd.x;
        left[7] = odd.y;
        sum = coopMatMulAdd(left, right, sum);
    }
}

/* The sums of a fragment, times 2^power, to a slot of `room`. */
void keep_sums(uint own, uint slot, int power)
{
    [[unroll]] for (uint e = 0u; e < EIGHTS; e++) {
        vec4 v = vec4(sum[2u * e], sum[2u * e + 1u], sum[4u + 2u * e], sum[5u + 2u * e]);
        if (is_scaled || RAISED != 0 || power != 0) {
            const int near = power + row_power[2u * e], far = power + row_power[2u * e + 1u];
            v = vec4(range_restore(v.x, near), range_restore(v.y, far),
                     range_restore(v.z, near), range_restore(v.w, far));
        }
        room[own * OWN + (slot * EIGHTS + e) * 32u + SIDE] = floatBitsToUint(v);
    }
}

/* Adds the sums of all subgroups for fragments f to end - 1 and writes them to `partial`. */
void join_subgroups(uint own, uint f, uint end)
{
    for (uint i = f * EIGHTS + own; i < end * EIGHTS; i += SUBGROUPS) {
        const uint at = i % (RING * EIGHTS) * 32u + SIDE;
        vec4 v = vec4(0.0);
        [[unroll]] for (uint s = 0u; s < SUBGROUPS; s++)
            v += uintBitsToFloat(room[s * OWN + at]);
        partial[AREA_AT(gl_WorkGroupID.y) + i * 32u + SIDE] = floatBitsToUint(v);
    }
}

/* load_first() is done for p. */
void multiply_all(uint own, Places p, uint limit, bool exists, int power)
{
    [[dont_unroll]] for (uint f = 0u; f < limit; f += AHEAD) {
        const bool more = exists && f + AHEAD < limit;
        [[unroll]] for (uint i = 0u; i < AHEAD; i++) {
            [[unroll]] for (uint j = 0u; j < 2u * STEPS; j++)
                PUT_BLOCK(now, j, BLOCK_OF(ahead, i * STEPS * 2u + j))
            if (more)
                load_fragment(p, AHEAD + i);
            sum = MATRIX_SUM(0.0);
            [[unroll]] for (uint s = 0u; s < STEPS; s++)
                multiply_step(s);
            keep_sums(own, (f + i) % RING, power);
            const uint end = f + i + 1u;
            if ((i + 1u) % min(BATCH, AHEAD) == 0u && (end % BATCH == 0u || end >= limit)) {
                barrier();
                join_subgroups(own, (end - 1u) / BATCH * BATCH, end);
            }
        }
        next_places(p);
    }
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
    const uint at_once = min(PARTS, 16u);
    vec4 v = vec4(0.0);
    for (uint s = 0u; s < PARTS; s += at_once) {
        uvec4 x[PARTS < 16 ? PARTS : 16];
        [[unroll]] for (uint j = 0u; j < at_once; j++) /* past the end: the last once more */
            x[j] = partial[AREA_AT(min(s + j, PARTS - 1u)) + i];
        [[unroll]] for (uint j = 0u; j < at_once; j++)
            v += s + j < PARTS ? uintBitsToFloat(x[j]) : vec4(0.0);
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
        room[at / 4u][at % 4u] = floatBitsToUint(v[j]);
    }
}

vec4 four_at(uint at)
{
    return uintBitsToFloat(room[at / 4u]);
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
    if (LANE == 0u && PARTS > 1u)
        counters[gl_WorkGroupID.x] = 0u;
}

/* Whether the parts of all workgroups of the tile are written: this is the last one. */
bool is_last()
{
    buffer_barrier();
    if (PARTS == 1u)
        return true;
    if (LANE == 0u) {
        memoryBarrierBuffer();
        n_before = atomicAdd(counters[gl_WorkGroupID.x], 1u);
        memoryBarrierBuffer();
    }
    buffer_barrier();
    return n_before + 1u == PARTS;
}

void main()
{
    const uint own = subgroupBroadcastFirst(gl_SubgroupID), q = first_step(own);
    const uint limit = count_fragments();
    const bool exists = N_STEPS % (STEPS * SUBGROUPS) == 0u || q < N_STEPS;
    const Batch at = find_batch(0u);
    magic = MAGIC_HALVES + (n >> 31);
    /* subgroups without a step read the first one, and multiply zeros by it */
    Places p = place_fragments(exists ? q : 0u);
    load_first(p, limit);
    if (LANE == 0u)
        n_misfits = 0u;
    chain_wait();
    load_x(own, at.a);
    by_weight = range_power(RAISED);
    tile_scale_top = f16vec2(0.0);
    [[dont_unroll]] for (uint attempt = 0u; attempt < 2u; attempt++) {
        multiply_all(own, p, limit, exists, attempt == 0u ? -RAISED : -LOWERED);
        if (attempt > 0u)
            break;
        barrier();
        if (!tile_scales_fit())
            n_misfits = 1u;
        barrier();
        if (n_misfits == 0u)
            break;
        by_weight = range_power(LOWERED);
        load_first(p, limit);
    }
    if (FOLD == FOLD_NORM && LANE < ROWS) {
        float all = 0.0;
        for (uint s = 0u; s < SUBGROUPS; s++)
            all += squares[s * ROWS + LANE];
        partial[AREA_AT(gl_WorkGroupID.y) + FRAGMENTS * FRAGMENT + LANE / 4u][LANE % 4u] =
            floatBitsToUint(all);
    }
    if (is_last())
        finish_tile(own, at);
}
