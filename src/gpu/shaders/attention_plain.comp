/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
/* Attention by cooperative matrices from k and v in plain order (attention.glsl says what is
 * computed): of few rows, or of short ones. Both wait for memory, not for products.
 *
 * A workgroup makes R rows of one K/V head, 8 ROWS at most, from one of n_splits parts of the keys:
 * every n_splits-th stretch of 16 T SLOTS keys. The grid is [splits, tiles of rows of each K/V
 * head, batches]. A subgroup of 32 takes T blocks of 16 keys at a time. The order of the elements
 * of a head is free in q . k and in the sums, and logits come to the lanes where the second product
 * needs the weights (layouts: attention_frag.comp). Lane 4 g + t has
 *   in logits = q k^T    of k, elements 32 c + 8 t .. + 7 of keys g and g + 8; of the logits, keys
 *                        2 t, + 1, + 8, + 9 of row g (and g + 8)
 *   in sums^T = v^T w^T  of v, elements EV (8 c + g) .. + EV - 1 of keys 2 t, + 1, + 8, + 9; of the
 *                        sums, those elements of rows 2 t, + 1 (, + 8, + 9)
 *
 * Products cannot leave out hidden keys, and 0 times an infinite value is NaN: rows whose sums are
 * not finite are computed again in the end, key by key in f32, and so are those whose q, k or v
 * lose too much when they are rounded to f16: their sum of weights becomes NaN (give_up_rows).
 *
 * SIZE: of a head. ROWS: 2, or 1; then rows 8 to 15 of the first product are what rounding to f16
 * took from q. WIDE: k and v are f32 and get rounded; otherwise they are f16. */
#include "common.glsl"
#include "attention_plain.def"
#include "attention.glsl"

const uint LANES = 32u * SLOTS, ITEMS = 32u / SHARE;
#define NARROW
#define REDO
#include "attention_join.glsl"
#include "range.glsl"

layout(SLOT(q), std430) restrict readonly buffer buffer_q { uvec4 q[]; };
layout(SLOT(k), std430) restrict readonly buffer buffer_k { uvec4 k[]; };
layout(SLOT(v), std430) restrict readonly buffer buffer_v { uvec4 v[]; };
layout(SLOT(v), std430) restrict readonly buffer buffer_v2 { uvec2 v2[]; };

#ifdef WIDE
#define VECTORS 2 /* of 8 elements */
#else
#define VECTORS 1
#endif
const uint E = 8u / VECTORS;                 /* elements of a vector */
const uint CK = SIZE / 32u;                  /* pieces of a key */
const uint EV = SIZE < 64 ? SIZE / 8u : 8u;  /* elements of a piece of a value */
const uint NV = EV < E ? 1u : SIZE / 8u / E; /* vectors of a value in a lane, */
const uint PV = EV < E ? 1u : EV / E;        /* and of one piece */
const uint TILES = SIZE / 16u;
const bool SCALED = TM == 0u && !CAP;        /* a logit is a product times the scale */
const uint CHAINS = T > 1 ? 1u : 2u;         /* of products that add up to the logits of a block */
#define MATRIX_A coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<float16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define PUT_PAIR(matrix, e, word)                     \
    {                                                 \
        const f16vec2 pair_ = unpackFloat2x16(word);  \
        matrix[2 * (e)] = pair_.x;                    \
        matrix[2 * (e) + 1] = pair_.y;                \
    }
#define PUT(matrix, w0, w1, w2, w3)                                                         \
    {                                                                                       \
        PUT_PAIR(matrix, 0, w0) PUT_PAIR(matrix, 1, w1) PUT_PAIR(matrix, 2, w2)             \
        PUT_PAIR(matrix, 3, w3)                                                             \
    }

shared uvec4 staged[2 * CK * 32];
shared float row_tops[SLOTS * 8u * ROWS]; /* maxima of q in f32, by the subgroup that staged it */

uint lane, g, t;
Place place; /* of the workgroup's first row */
uvec4 kw[T * 2u * CK * VECTORS], vw[T * 4u * NV];
MATRIX_SUM sum[TILES];
ivec2 range[ROWS]; /* keys that rows g and g + 8 see */
uint mask_at[ROWS];
float top[ROWS], total[ROWS];
float k_top, v_top; /* maximum magnitudes of k and v in f32 */

/* The u-th of the lane's 2 ROWS rows. */
uint row_of(uint u) { return 2u * t + u % 2u + u / 2u * 8u; }
/* Its element in sums, and in those 8 rows (of elements of a head) below. */
uint element_of(uint u, uint lower) { return lower * 4u + u; }
/* The i-th key of this lane in logits and values, four per block. */
uint key_of(uint i) { return 2u * t + i % 2u + i / 2u * 8u; }

uvec4 round8(vec4 a, vec4 b)
{
    return uvec4(packFloat2x16(f16vec2(a.xy)), packFloat2x16(f16vec2(a.zw)),
                 packFloat2x16(f16vec2(b.xy)), packFloat2x16(f16vec2(b.zw)));
}

vec4 rest4(vec4 a) { return a - vec4(f16vec4(a)); }

/* Loads the keys from k0 on, clamped to the last. */
void load_keys(int k0, int end)
{
    [[unroll]] for (uint i = 0u; i < T * 2u; i++) {
        uvec2 at = key_place(place.batch, uint(min(k0 + int(i * 8u + g), end - 1)));
        uint from = (k_at + at.x * k_b + at.y * k_s + place.kv_head * k_h) / E + t * VECTORS;
        [[unroll]] for (uint c = 0u; c < CK; c++)
            [[unroll]] for (uint e = 0u; e < VECTORS; e++)
                kw[(i * CK + c) * VECTORS + e] = k[from + c * 4u * VECTORS + e];
    }
}

void load_values(int k0, int end)
{
    [[unroll]] for (uint i = 0u; i < T * 4u; i++) {
        uvec2 at = key_place(place.batch, uint(min(k0 + int(key_of(i)), end - 1)));
        uint from = v_at + at.x * v_b + at.y * v_s + place.kv_head * v_h + g * EV;
#if SIZE < 64 && !defined WIDE
        vw[i].xy = v2[from / 4u];
#else
        [[unroll]] for (uint n = 0u; n < NV; n++)
            vw[i * NV + n] = v[from / E + n / PV * 8u * PV + n % PV];
#endif
    }
}

/* Eight elements of a key in f16, piece c. */
uvec4 key8(uint i, uint c)
{
#ifdef WIDE
    return round8(uintBitsToFloat(kw[(i * CK + c) * 2u]),
                  uintBitsToFloat(kw[(i * CK + c) * 2u + 1u]));
#else
    return kw[i * CK + c];
#endif
}

/* Element 2 f + next of those the lane has, of the values i and i + 1 as a pair. */
uint value_pair(uint i, uint f, uint next)
{
#ifdef WIDE
    uint e = 2u * f + next;
    return packFloat2x16(f16vec2(uintBitsToFloat(vw[i * NV + e / 4u][e % 4u]),
                                 uintBitsToFloat(vw[(i + 1u) * NV + e / 4u][e % 4u])));
#else
    uint a = vw[i * NV + f / 4u][f % 4u], b = vw[(i + 1u) * NV + f / 4u][f % 4u];
    return next == 0u ? (a & 0xffffu) | b << 16 : a >> 16 | (b & 0xffff0000u);
#endif
}

/* Eight elements of q in f32 or f16, from element i on: rounded, and what that took; most: the
 * greatest magnitude so far. */
void load_q8(uint i, out uvec4 x, out uvec4 rest, inout float most)
{
    rest = uvec4(0u);
    if (TQ == F32) {
        vec4 a = uintBitsToFloat(q[i / 4u]), b = uintBitsToFloat(q[i / 4u + 1u]);
        most = range_top(range_top(most, a), b);
        x = round8(a, b);
        rest = round8(rest4(a), rest4(b));
    } else {
        x = q[i / 8u];
    }
}

uint query_at(uint r, uint c)
{
    uint row = min(place.row + r, place.n_rows - 1u);
    return q_at + place.batch * q_b + (place.kv_head * GROUP + row % GROUP) * q_h +
           row / GROUP * q_s + c * 32u + t * 8u;
}

/* Stages rows of q as A operands in shared memory, in register order: 01 45 23 67. */
void stage_queries()
{
    float most[2] = {0.0, 0.0};
    [[dont_unroll]] for (uint c = gl_SubgroupID; c < CK; c += SLOTS) {
        uvec4 x, y;
        load_q8(query_at(g, c), x, y, most[0]);
#if ROWS == 2
        uvec4 unused;
        load_q8(query_at(g + 8u, c), y, unused, most[1]);
#endif
        staged[c * 64u + lane] = uvec4(x[0], y[0], x[1], y[1]);
        staged[c * 64u + 32u + lane] = uvec4(x[2], y[2], x[3], y[3]);
    }
    [[unroll]] for (uint h = 0u; TQ == F32 && h < ROWS; h++) {
        most[h] = max(most[h], subgroupShuffleXor(most[h], 1u));
        most[h] = max(most[h], subgroupShuffleXor(most[h], 2u));
        if (t == 0u)
            row_tops[(gl_SubgroupID * ROWS + h) * 8u + g] = most[h];
    }
}

void init_sums()
{
    [[unroll]] for (uint i = 0u; i < TILES; i++)
        sum[i] = MATRIX_SUM(0.0);
    [[unroll]] for (uint h = 0u; h < ROWS; h++) {
        top[h] = NOTHING;
        total[h] = 0.0;
    }
    k_top = v_top = 0.0;
}

void init_ranges(uint length, int end_key)
{
    [[unroll]] for (uint h = 0u; h < ROWS; h++) {
        uint row = min(place.row + g + h * 8u, place.n_rows - 1u);
        range[h] = key_range(row / GROUP, length);
        range[h].y = min(range[h].y, end_key);
        mask_at[h] = m_at + place.batch * m_b + (place.kv_head * GROUP + row % GROUP) * m_h +
                     row / GROUP * m_q;
    }
}

/* Multiplies q with the loaded keys. */
void multiply_keys(out MATRIX_SUM s[T * CHAINS])
{
    [[unroll]] for (uint i = 0u; i < T * CHAINS; i++)
        s[i] = MATRIX_SUM(0.0);
    [[unroll]] for (uint c = 0u; c < CK; c++) {
        MATRIX_A a0, a1;
        const uvec4 x = staged[c * 64u + lane], y = staged[c * 64u + 32u + lane];
        PUT(a0, x[0], x[2], x[1], x[3])
        PUT(a1, y[0], y[2], y[1], y[3])
        [[unroll]] for (uint i = 0u; i < T; i++) {
            MATRIX_B b0, b1;
            const uvec4 z = key8(2u * i, c), w = key8(2u * i + 1u, c);
            PUT(b0, z[0], z[1], w[0], w[1])
            PUT(b1, z[2], z[3], w[2], w[3])
            s[i * CHAINS] = coopMatMulAdd(a0, b0, s[i * CHAINS]);
            s[i * CHAINS + CHAINS - 1u] = coopMatMulAdd(a1, b1, s[i * CHAINS + CHAINS - 1u]);
        }
    }
}

/* The logits of row h and the lane's keys from k0 on. inside: all rows see all of them. */
void find_logits(MATRIX_SUM s[T * CHAINS], uint h, int k0, bool inside,
                 out precise float x[4 * T])
{
    [[unroll]] for (uint i = 0u; i < 4u * T; i++) {
        const uint at = i / 4u * CHAINS, e = i % 4u;
        x[i] = s[at][4u * h + e];
        if (CHAINS == 2u)
            x[i] += s[at + 1u][4u * h + e];
        if (ROWS == 1 && TQ == F32)
            x[i] += s[at][4u + e] + (CHAINS == 2u ? s[at + 1u][4u + e] : 0.0);
        if (SCALED)
            x[i] *= scale;
    }
    if (!SCALED || !inside) {
        [[unroll]] for (uint i = 0u; i < 4u * T; i++) {
            const int key = k0 + int(key_of(i));
            if (key < range[h].x || key >= range[h].y)
                x[i] = MASKED;
            else if (!SCALED)
                x[i] = logit(x[i], mask_at[h] + uint(key) * m_k);
        }
    }
}

#ifdef WIDE
/* Tracks the range of the loaded keys and values. */
void watch_range()
{
    [[unroll]] for (uint i = 0u; i < T * 2u * CK * VECTORS; i++)
        k_top = range_top(k_top, uintBitsToFloat(kw[i]));
    [[unroll]] for (uint i = 0u; i < T * 4u * NV; i++)
        v_top = range_top(v_top, uintBitsToFloat(vw[i]));
}
#endif

/* Processes the loaded keys from k0 on. */
void add_keys(int k0, bool inside)
{
#ifdef WIDE
    watch_range();
#endif
    MATRIX_SUM s[T * CHAINS];
    multiply_keys(s);
    MATRIX_B weights[T];
    [[unroll]] for (uint i = 0u; i < T; i++)
        weights[i] = MATRIX_B(0.0);
    float keep[ROWS];
    [[unroll]] for (uint h = 0u; h < ROWS; h++) {
        float x[4 * T], most = top[h];
        find_logits(s, h, k0, inside, x);
        [[unroll]] for (uint i = 0u; i < 4u * T; i++)
            most = max(most, x[i]);
        most = max(most, subgroupShuffleXor(most, 1u));
        most = max(most, subgroupShuffleXor(most, 2u));
        keep[h] = keep_factor(top[h], most);
        top[h] = most;
        total[h] *= keep[h];
        [[unroll]] for (uint i = 0u; i < 4u * T; i++) {
            const float w = exp2(x[i] - most);
            total[h] += w;
            weights[i / 4u][4u * h + i % 4u] = float16_t(w);
        }
    }
    float keeps[2 * ROWS];
    [[unroll]] for (uint u = 0u; u < 2u * ROWS; u++)
        keeps[u] = subgroupShuffle(keep[u / 2u], t * 8u + u % 2u * 4u);
    [[unroll]] for (uint f = 0u; f < TILES; f++) {
        [[unroll]] for (uint u = 0u; u < 2u * ROWS; u++) {
            sum[f][element_of(u, 0u)] *= keeps[u];
            sum[f][element_of(u, 1u)] *= keeps[u];
        }
        [[unroll]] for (uint i = 0u; i < T; i++) {
            MATRIX_A a;
            PUT(a, value_pair(4u * i, f, 0u), value_pair(4u * i + 2u, f, 0u),
                value_pair(4u * i, f, 1u), value_pair(4u * i + 2u, f, 1u))
            sum[f] = coopMatMulAdd(a, weights[i], sum[f]);
        }
    }
}

/* Stores the sums of rows r0 to r0 + AT - 1 to shared memory. */
void leave_rows(uint r0)
{
    [[unroll]] for (uint u = 0u; u < 2u * ROWS; u++)
        [[unroll]] for (uint f = 0u; f < TILES; f += 2u) { /* four neighbours */
            const uint r = row_of(u), d = f * 2u / EV * 8u * EV + g * EV + f * 2u % EV;
            const vec4 y = vec4(sum[f][element_of(u, 0u)], sum[f][element_of(u, 1u)],
                                sum[f + 1u][element_of(u, 0u)], sum[f + 1u][element_of(u, 1u)]);
            if (r >= r0 && r < r0 + AT)
                joined[((gl_SubgroupID * AT + r - r0) * DV + d) / 4u] = y;
        }
}

/* Whether f16 is accurate enough for row g + 8 h of q and for all keys and values of this subgroup.
 * */
bool holds_row(uint h)
{
    float x = 0.0;
    [[unroll]] for (uint i = 0u; TQ == F32 && i < SLOTS; i++)
        x = max(x, row_tops[(i * ROWS + h) * 8u + g]);
    return range_holds(x) && range_holds(k_top) && range_holds(v_top);
}

void give_up_rows()
{
#ifdef WIDE
    [[unroll]] for (uint bit = 1u; bit < 32u; bit *= 2u) {
        k_top = max(k_top, subgroupShuffleXor(k_top, bit));
        v_top = max(v_top, subgroupShuffleXor(v_top, bit));
    }
#endif
    [[unroll]] for (uint h = 0u; h < ROWS; h++)
        if (!holds_row(h))
            total[h] = uintBitsToFloat(0x7fc00000u);
}

void leave_totals()
{
    [[unroll]] for (uint h = 0u; h < ROWS; h++) {
        total[h] += subgroupShuffleXor(total[h], 1u);
        total[h] += subgroupShuffleXor(total[h], 2u);
        if (t == 0u && g + h * 8u < R) {
            tops[gl_SubgroupID * R + g + h * 8u] = top[h];
            totals[gl_SubgroupID * R + g + h * 8u] = total[h];
        }
    }
}

/* ---- Rows with infinite or NaN sums ---------------------------------------------------------- */

vec4 wide_q(uint i)
{
    if (TQ == F32)
        return uintBitsToFloat(q[i / 4u]);
    const uvec4 w = q[i / 8u];
    return unpack4(F16, (i & 4u) == 0u ? w.xy : w.zw);
}

#ifdef WIDE
vec4 wide_k(uint i) { return uintBitsToFloat(k[i / 4u]); }
vec4 wide_v(uint i) { return uintBitsToFloat(v[i / 4u]); }
#else
vec4 wide_k(uint i)
{
    const uvec4 w = k[i / 8u];
    return unpack4(F16, (i & 4u) == 0u ? w.xy : w.zw);
}
vec4 wide_v(uint i) { return unpack4(F16, v2[i / 4u]); }
#endif

/* The logit of a key for row r of the workgroup. */
float redo_logit(uint r, int key, ivec2 keys)
{
    if (key < keys.x || key >= keys.y)
        return MASKED;
    const uint row = place.row + r, h = place.kv_head * GROUP + row % GROUP;
    const uvec2 at = key_place(place.batch, uint(key));
    const uint from_q = q_at + place.batch * q_b + h * q_h + row / GROUP * q_s;
    const uint from_k = k_at + at.x * k_b + at.y * k_s + place.kv_head * k_h;
    const uint from_mask = m_at + place.batch * m_b + h * m_h + row / GROUP * m_q;
    float product = 0.0;
    [[dont_unroll]] for (uint d = 0u; d < SIZE; d += 4u)
        product += dot(wide_q(from_q + d), wide_k(from_k + d));
    return logit(product, from_mask + uint(key) * m_k);
}

/* The maximum of x over the workgroup. */
float redo_most(float x)
{
    [[unroll]] for (uint bit = 1u; bit < 32u; bit *= 2u)
        x = max(x, subgroupShuffleXor(x, bit));
    barrier();
    if (lane == 0u)
        tops[gl_SubgroupID] = x;
    barrier();
    [[unroll]] for (uint i = 0u; i < SLOTS; i++)
        x = max(x, tops[i]);
    return x;
}

/* Recomputes row r of the workgroup: weights of LANES keys at a time, then their values by columns.
 * Every lane has the sum of all weights. */
void redo_row(uint r, uint length)
{
    Place p = place;
    p.row += r;
    const ivec2 keys = key_range(p.row / GROUP, length);
    const uint d = LANE * 4u;
    float most = NOTHING;
    [[dont_unroll]] for (int k0 = keys.x; k0 < keys.y; k0 += int(LANES))
        most = max(most, redo_logit(r, k0 + int(LANE), keys));
    most = redo_most(most);
    Sums all = Sums(most, 0.0, vec4(0.0));
    [[dont_unroll]] for (int k0 = keys.x; k0 < keys.y; k0 += int(LANES)) {
        barrier();
        joined[LANE / 4u][LANE % 4u] = weight_of(redo_logit(r, k0 + int(LANE), keys), most);
        barrier();
        [[dont_unroll]] for (uint i = 0u; i < LANES; i++) {
            const float w = joined[i / 4u][i % 4u];
            if (w == 0.0)
                continue;
            const uvec2 at = key_place(p.batch, uint(k0) + i);
            const uint from = v_at + at.x * v_b + at.y * v_s + p.kv_head * v_h;
            all.total += w;
            all.y += w * wide_v(from + min(d, SIZE - 4u));
        }
    }
    if (d < SIZE)
        store4(result_at(p) + d,
               all.y * row_factor(most, all.total, p.kv_head * GROUP + p.row % GROUP));
}

void redo_rows()
{
    barrier();
    if (odd_rows == 0u)
        return;
    buffer_barrier();
    const uint length = length_of(place.batch, false);
    [[dont_unroll]] for (uint r = 0u; r < R; r++)
        if ((odd_rows >> r & 1u) != 0u)
            redo_row(r, length);
}

void main()
{
    uint n_rows = count_queries() * GROUP, n_tiles = (n_rows + R - 1u) / R;
    place = Place(gl_WorkGroupID.z, gl_WorkGroupID.y, 0u, n_rows, gl_WorkGroupID.x);
    if (n_tiles > 1u) {
        place.row = place.kv_head % n_tiles * R;
        place.kv_head /= n_tiles;
    }
    lane = gl_SubgroupInvocationID;
    g = lane >> 2;
    t = lane & 3u;
    const uint last = min(place.row + R, n_rows) - 1u;
    const int mine = int(gl_SubgroupID * 16u * T), STEP = int(16u * T * SLOTS);

    /* The first keys do not depend on the number of keys, so their loads need not wait for it, nor
     * for q; values of keys that do not exist are undefined. */
    const bool early = LENGTHS && PAGE == 0u && !WINDOW;
    int k0 = int(place.split) * STEP;
    ivec2 upper, lower = ivec2(0, int(n_keys));
    uint length;
    if (!early) {
        length = length_of(place.batch, LANE == 0u);
        upper = key_range(place.row / GROUP, length);
        lower = key_range(last / GROUP, length);
        k0 += upper.x;
    }
    init_sums();
    if (LANE == 0u)
        odd_rows = 0u;
    bool first = true;
    [[dont_unroll]] while (first ? early || k0 < lower.y : k0 < lower.y) {
        load_keys(k0 + mine, lower.y);
        load_values(k0 + mine, lower.y);
        if (first) {
            stage_queries();
            if (early) {
                length = length_of(place.batch, LANE == 0u);
                upper = key_range(place.row / GROUP, length);
                lower = key_range(last / GROUP, length);
                [[unroll]] for (uint i = 0u; i < T * 4u * NV; i++)
                    vw[i] = k0 + mine + int(key_of(i / NV)) < lower.y ? vw[i] : uvec4(0u);
#ifdef WIDE
                [[unroll]] for (uint i = 0u; i < T * 2u * CK * VECTORS; i++)
                    kw[i] = k0 + mine + int(i / (CK * VECTORS) * 8u + g) < lower.y ? kw[i]
                                                                                 : uvec4(0u);
#endif
            }
            init_ranges(length, lower.y);
            barrier();
            first = false;
        }
        add_keys(k0 + mine, k0 >= lower.x && k0 + STEP <= upper.y);
        k0 += int(n_splits) * STEP;
    }

    if (!first)
        give_up_rows();
    leave_totals();
    [[unroll]] for (uint r0 = 0u; r0 < R; r0 += AT) {
        if (r0 > 0u)
            barrier();
        leave_rows(r0);
        barrier();
        join_slots(place, r0);
    }
#ifdef JOIN
    if (PARTIAL && !join_splits(place))
        return;
#endif
    redo_rows();
}
