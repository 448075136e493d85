/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_integer_dot_product : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef ADDRESS
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_shader_subgroup_ballot : require
#endif
/* Product of ROWS rows (few) with a quantised weight [n, k] by dots of 8-bit integers: product.glsl
 * says what is computed, tile4.glsl how the weight lies. x is rounded to 16 bits with a scale for
 * each 32 elements, as 256 times a signed byte plus another: 8 bits alone lose too much where a few
 * elements are large. With TIDS a batch is one row and its weight is one of a bank.
 *
 * Elements 0 to 15 and 16 to 31 of a block of 4 bits share bytes. The byte as it is, low + 16 high,
 * is multiplied by x1 / 16 (of the upper elements), and its low half by x0 - x1 / 16: together that
 * is low x0 + high x1, and the high half need not be taken out. So x0 - x1 / 16 and x1 are rounded.
 *
 * Subgroups have 32 lanes. KS of them share a group of four columns: each takes every KS-th tile,
 * so that neighbours read one stretch of memory. The grid is (workgroups that stay, batches); a
 * workgroup walks over groups. Quants of the next tile are asked for as soon as those of a column
 * are used: one tile is always on its way, in few registers, so that workgroups of the next
 * dispatch find room beside those of this one. x lies in shared memory; partial sums of split
 * groups wait there and are joined BATCH at a time.
 *
 * ADDRESS: the weight is read by its address, from places that are the same for a subgroup but for
 * the lane: fewer instructions than through the binding. Without it both factors of dots are
 * signed, which WGSL has: bytes of two elements are 128 less, and the sum of x makes up for that.
 *
 * FOLD: x is made of what is read, a norm over its mean square times gamma or a product.
 * The norm's factor is one for a row, so it multiplies the sums and not x.
 *
 * No integer stands for NaN or infinity, nor does a scale for blocks of very small numbers: rows
 * that have one are flawed, left out of all that, and multiplied in f32 when the others are done.
 *
 * TAILS: the result is rotated (TAIL_ROPE) as in rope.comp, pairs being neighbours, and rows go to
 * a state (TAIL_WRITE) as in state_write.comp.
 *
 * PAIR: two products of the same x, the result is act(first) * second. Of two neighbouring sets of
 * subgroups one takes columns of the first weight and one those of the second. */
#include "common.glsl"
#include "dot_gemv.def"
#include "dot_tail.def"
#if defined TAILS || defined PAIR
#define ONE_BATCH
#endif
#include "product.glsl"
#define CHAIN_LATE
#include "chain.glsl"

WORDS4(a);
#ifdef ADDRESS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Vectors {
    uvec4 v[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer Pairs {
    uvec2 v[];
};
#else
WORDS4(b);
#ifdef PAIR
WORDS4(second);
#endif
#endif
#ifdef ONE_BATCH
layout(SLOT(flags), std430) buffer buffer_flags { uint flags[]; };
#else
#include "experts.glsl" /* b counts groups of columns */
#endif
WORDS4(other); /* gamma, or the second factor: f32 */

#ifdef TAILS
const bool TAIL_ROPE = (TAIL & TAIL_IS_ROPE) != 0u, TAIL_WRITE = (TAIL & TAIL_IS_WRITE) != 0u;
TENSOR(cosines)
TENSOR(sines)
const uint TINDEX = (TAIL & TAIL_LONG) != 0u ? I64 : I32;
WORDS(place); /* the row of the state for the first row */
WORDS(index);
#include "index.glsl"
shared uint table_rows[ROWS], state_rows[ROWS];
#endif

#define FAMILY 4
#define QUANT_WORDS flags
#include "quant.glsl"
#include "tile4.glsl"

const uint SUBGROUPS = THREADS / 32, NT = (NB + 31) / 32, SETS = SUBGROUPS / KS;
#ifdef PAIR
const uint WEIGHTS = 2;
#else
const uint WEIGHTS = 1;
#endif
const uint TEAMS = SETS / WEIGHTS; /* groups of columns of the result per workgroup */
const uint STRETCHES = (NB + 7) / 8; /* of 8 blocks: what a subgroup quantises at once */

#ifdef ADDRESS
const uint SIGN = 0u; /* bytes of two elements are unsigned */
const uint SE = TB == Q6_K ? ROWS * NB : 1;
#else
const uint SIGN = 0x80808080u;
const uint SE = TB == Q6_K || TB == Q4_1 || TB == Q4_K ? ROWS * NB : 1;
#endif

shared uvec4 sx[ROWS * NB * 4]; /* [row][half][upper, lower bytes][block] */
shared vec2 sd[ROWS * NB];      /* scale of a block of x, and the correction of its dots */
shared float se[SE];            /* corrections of the second half, or for SIGN */
shared vec4 parts[SUBGROUPS * BATCH * ROWS];
shared float squares[FOLD == FOLD_NORM ? ROWS * STRETCHES : 1];
shared float factors[ROWS];     /* of the norm */
shared uint flaws;              /* bit r: row r is flawed */

#define SIDE gl_SubgroupInvocationID
const float MOST = 32639.0;     /* 127 * 256 + 127 */
const float SHIFT = 12582912.0; /* 3 * 2^22: after adding it the low mantissa bits are the integer
                                 * */
const uint FLAWED = 0x30000000u; /* bits of NaN and infinity that no valid sum has */
const float LEAST = 1e-31;      /* smaller scales would be subnormal */

int dot4(uint p, uint q) { return dotPacked4x8EXT(int(p), int(q)); }

/* Blocks of 4 bits, whose dots are scaled by 16. */
bool is_raised(uint t) { return t == Q4_0 || t == Q4_1 || t == Q4_K; }
bool has_low(uint t) { return has_minima(t) || t == Q4_K || t == Q5_K; }
/* Whether the correction for SIGN needs a word besides sd. */
bool has_excess(uint t) { return SIGN != 0u && (t == Q4_1 || t == Q4_K); }
/* The bias of the quants. */
float offset_of(uint t) { return t == Q4_0 ? 8.0 : t == Q5_0 ? 16.0 : t == Q6_K ? 32.0 : 0.0; }
bool has_addend(uint t) { return offset_of(t) != 0.0 || has_excess(t); }

/* ---- x --------------------------------------------------------------------------------------- */

/* Eight elements of x and their factors. */
struct Stretch {
    vec4 x0, x1, by0, by1;
};

/* i: a multiple of 4 (f32) or 8. */
void load_eight(uint i, out vec4 x0, out vec4 x1)
{
    if (TA == F32) {
        x0 = uintBitsToFloat(a[i >> 2]);
        x1 = uintBitsToFloat(a[(i >> 2) + 1u]);
        return;
    }
    uvec4 w = a[i >> 3];
    if (TA == F16) {
        x0 = vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
        x1 = vec4(unpackHalf2x16(w.z), unpackHalf2x16(w.w));
    } else {
        x0 = uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
        x1 = uintBitsToFloat(uvec4(w.z << 16, w.z & 0xffff0000u, w.w << 16, w.w & 0xffff0000u));
    }
}

/* Stretch e counts through all rows. */
Stretch load_stretch(uint first, uint e)
{
    Stretch v = Stretch(vec4(0.0), vec4(0.0), vec4(0.0), vec4(0.0));
    uint r = e / STRETCHES, i = e % STRETCHES * 256u + SIDE * 8u;
    if (NB % 8u == 0u || i < NB * 32u) {
        load_eight(first + r * a_m + i, v.x0, v.x1);
        if (FOLD != FOLD_NONE) {
            uint at = fold_at / 4u + (FOLD == FOLD_MUL ? r * NB * 8u : 0u) + i / 4u;
            v.by0 = uintBitsToFloat(other[at]);
            v.by1 = uintBitsToFloat(other[at + 1u]);
        }
    }
    return v;
}

float largest(vec4 x)
{
    vec4 size = abs(x);
    return max(max(size.x, size.y), max(size.z, size.w));
}

uint low_bytes(uvec4 v)
{
    return v.x & 0xffu | (v.y & 0xffu) << 8 | (v.z & 0xffu) << 16 | v.w << 24;
}

/* Quantises x; four adjacent lanes hold a block. Also the sum of the rounded elements, for minima,
 * or times the bias of the quants. */
void round_stretch(in Stretch v, uint e)
{
    uint r = e / STRETCHES, block = e % STRETCHES * 8u + SIDE / 4u, part = SIDE & 3u;
    if (FOLD == FOLD_NORM) {
        float sum = subgroupAdd(dot(v.x0, v.x0) + dot(v.x1, v.x1));
        if (SIDE == 0u)
            squares[e] = sum;
    }
    vec4 x0 = FOLD == FOLD_NONE ? v.x0 : v.x0 * v.by0;
    vec4 x1 = FOLD == FOLD_NONE ? v.x1 : v.x1 * v.by1;
    if (is_raised(TB)) {
        float by = part < 2u ? -0.0625 : 0.0;
        x0 = fma(subgroupShuffleXor(x0, 2u), vec4(by), x0);
        x1 = fma(subgroupShuffleXor(x1, 2u), vec4(by), x1);
    }
    float top = max(largest(x0), largest(x1));
    top = max(top, subgroupShuffleXor(top, 1u));
    top = max(top, subgroupShuffleXor(top, 2u));
    float scale = top > 0.0 ? MOST / top : 0.0;
    uvec4 q0 = floatBitsToUint(x0 * scale + SHIFT), q1 = floatBitsToUint(x1 * scale + SHIFT);
    uvec4 all = q0 | q1;
    bool tiny = top > 0.0 && top < LEAST;
    if (tiny || ((all.x | all.y | all.z | all.w) & FLAWED) != 0u)
        atomicOr(flaws, 1u << r);
    uvec2 lower = uvec2(low_bytes(q0), low_bytes(q1));
    uvec2 upper = uvec2(low_bytes(q0 + 128u >> 8), low_bytes(q1 + 128u >> 8));
    const uint ones = 0x01010101u;
    int sum = 256 * (dot4(upper.x, ones) + dot4(upper.y, ones)) + dot4(lower.x, ones) +
              dot4(lower.y, ones);
    sum += subgroupShuffleXor(sum, 1u);
    if (is_raised(TB))
        sum *= part < 2u ? 16 : 17;
    int upper_sum = subgroupShuffleXor(sum, 2u);
    float d = top / MOST * (is_raised(TB) ? 0.0625 : 1.0);
    float each = d * (has_low(TB) ? 1.0 : -offset_of(TB));
    if (NB % 8u == 0u || block < NB) {
        uint at = (r * 4u + part / 2u * 2u) * NB + block, j = (part & 1u) * 2u;
        sx[at][j] = upper.x;
        sx[at][j + 1u] = upper.y;
        sx[at + NB][j] = lower.x;
        sx[at + NB][j + 1u] = lower.y;
        if (part == 0u) {
            float y = each * float(TB == Q6_K ? sum : sum + upper_sum);
            float less = d * float(upper_sum / 17 * 128); /* by SIGN */
            if (SIGN != 0u && is_raised(TB) && !has_excess(TB))
                y += less;
            sd[r * NB + block] = vec2(d, y);
            if (TB == Q6_K)
                se[r * NB + block] = each * float(upper_sum);
            if (has_excess(TB))
                se[r * NB + block] = less;
        }
    }
}

/* Two stretches at a time, with the loads of both in flight. */
void prepare_x(uint first)
{
    const uint all = ROWS * STRETCHES;
    for (uint e = gl_SubgroupID; e < all; e += 2u * SUBGROUPS) {
        bool two = all > SUBGROUPS && e + SUBGROUPS < all;
        Stretch v = load_stretch(first, e), w;
        if (two)
            w = load_stretch(first, e + SUBGROUPS);
        round_stretch(v, e);
        if (two)
            round_stretch(w, e + SUBGROUPS);
    }
    barrier();
}

/* The norm's factor of a row whose squares over- or underflow: computed with x times 2^-e. */
float scaled_factor(uint first)
{
    vec4 x0, x1;
    float top = 0.0, sum = 0.0;
    for (uint i = SIDE * 8u; i < NB * 32u; i += 256u) {
        load_eight(first + i, x0, x1);
        top = max(top, max(largest(x0), largest(x1)));
    }
    top = subgroupMax(top);
    if (!(top > 0.0 && top < 3.4e38))
        return inversesqrt(top * top + fold_eps);
    int e = int(floatBitsToUint(top) >> 23) - 127;
    float by = uintBitsToFloat(uint(127 - clamp(e, -126, 126)) << 23);
    for (uint i = SIDE * 8u; i < NB * 32u; i += 256u) {
        load_eight(first + i, x0, x1);
        sum += dot(x0 * by, x0 * by) + dot(x1 * by, x1 * by);
    }
    float square = subgroupAdd(sum) / float(NB * 32u), eps = fold_eps * by * by;
    return eps < 3.4e38 ? inversesqrt(square + eps) * by : inversesqrt(fold_eps);
}

/* 1 / sqrt(mean square) of each row, while the first tiles are being loaded; valid after the next
 * barrier. first: offset of x. */
void prepare_factors(uint first)
{
    for (uint r = gl_SubgroupID; r < ROWS; r += SUBGROUPS) {
        float sum = 0.0;
        for (uint i = SIDE; i < STRETCHES; i += 32u)
            sum += squares[r * STRETCHES + i];
        sum = subgroupAdd(sum);
        float factor = inversesqrt(sum / float(NB * 32u) + fold_eps);
        if (!(sum > 1e-30 && sum < 1e38))
            factor = scaled_factor(first + r * a_m);
        if (SIDE == 0u)
            factors[r] = factor;
    }
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

struct Scales {
    uvec4 scales, supers;
};
/* A tile in registers: of q8_0 the quants of a half. */
struct Tile {
    uvec4 quants[4], high[2];
    Scales scales;
};

#ifdef BYTES /* q8_0 */
#define COLUMN(c, h) (((c) * 2u + (h)) * 32u)
#else
#define COLUMN(c, h) ((c) * 32u)
#endif

#ifdef ADDRESS
#ifdef PAIR
uvec2 own_weight; /* the address of the weight that this subgroup reads */
void read_weight(bool other_one)
{
    own_weight = other_one ? uvec2(second_low, second_high) : uvec2(weight_low, weight_high);
}
#else
#define own_weight uvec2(weight_low, weight_high)
#endif
uvec2 address(uint at)
{
    uint carry, low = uaddCarry(own_weight.x, at << 4, carry);
    return uvec2(low, own_weight.y + carry);
}
uvec4 load_vector(uint at, uint i) { return Vectors(address(at)).v[i]; }
uvec2 load_pair(uint at, uint i) { return Pairs(address(at)).v[i]; }
#else
#ifdef PAIR
bool reads_second; /* which of the pair's weights this subgroup reads */
void read_weight(bool other_one) { reads_second = other_one; }
uvec4 load_vector(uint at, uint i) { return reads_second ? second[at + i] : b[at + i]; }
#else
uvec4 load_vector(uint at, uint i) { return b[at + i]; }
#endif
uvec2 load_pair(uint at, uint i)
{
    uvec4 v = load_vector(at, i >> 1);
    return (i & 1u) == 0u ? v.xy : v.zw;
}
#endif

uvec4 load_quants(uint at, uint c, uint h) { return load_vector(at, SIDE + COLUMN(c, h)); }

uvec4 load_high(uint at, uint i)
{
    return load_vector(at, SIDE + 4u * tile_quants(TB) + i * 32u);
}

/* Of the block of lane `side`. */
Scales load_scales_of(uint at, uint side)
{
    Scales s;
    const uint first = 4u * tile_quants(TB) + tile_high(TB), supers = first + tile_scales(TB);
    if (has_minima(TB))
        s.scales = load_vector(at, side + first);
    else
        s.scales.xy = load_pair(at, side + first * 2u);
    if (TB == Q6_K)
        s.supers.xy = load_pair(at, side / 8u + supers * 2u);
    else if (has_supers(TB))
        s.supers = load_vector(at, side / 8u + supers);
    return s;
}

Scales load_scales(uint at) { return load_scales_of(at, SIDE); }

Tile load_tile(uint at)
{
    Tile t;
    [[unroll]] for (uint c = 0u; c < 4u; c++)
        t.quants[c] = load_quants(at, c, 0u);
    [[unroll]] for (uint i = 0u; i < tile_high(TB) / 32u; i++)
        t.high[i] = load_high(at, i);
    t.scales = load_scales(at);
    return t;
}

/* Half h of the quants of column c as bytes: elements 16 h to 16 h + 15, or both halves in a byte
 * where they are raised and h is 1. */
uvec4 unpack_half(in Tile t, uint c, uint h)
{
#ifdef BYTES
    return t.quants[c];
#else
    const uvec4 by = uvec4(0u, 1u, 2u, 3u);
    uvec4 v = t.quants[c];
    if (is_raised(TB))
        return h == 0u ? v & 0x0f0f0f0fu : v ^ SIGN;
    v = v >> 4u * h & 0x0f0f0f0fu;
    if (TB == Q6_K) {
        uvec2 two = (c & 1u) == 0u ? t.high[c >> 1].xy : t.high[c >> 1].zw;
        v |= uvec4(h == 0u ? two.x : two.y) >> by * 2u << 4 & 0x30303030u;
    } else if (tile_high(TB) != 0u) {
        v |= uvec4(t.high[0][c]) >> (by + 4u * h) << 4 & 0x10101010u;
    }
    return v;
#endif
}

#if defined BYTES || !defined ADDRESS
int dot_word(uint q, uint x) { return dot4(q, x); }
#else
int dot_word(uint q, uint x) { return dotPacked4x8EXT(q, int(x)); } /* q up to 255: unsigned */
#endif

int dot16(uvec4 q, uvec4 x, int sum)
{
    sum += dot_word(q.x, x.x);
    sum += dot_word(q.y, x.y);
    sum += dot_word(q.z, x.z);
    return sum + dot_word(q.w, x.w);
}

float half_of(uvec4 s, uint c)
{
    vec2 h = unpackHalf2x16(s[c >> 1]);
    return (c & 1u) == 0u ? h.x : h.y;
}

/* Of half h of column c: the scale, and the factor of the sum of x. */
vec2 scale_of(in Scales s, uint c, uint h)
{
    vec2 d;
    if (has_minima(TB)) {
        d = unpackHalf2x16(s.scales[c]);
    } else if (TB == Q6_K) {
        int scale = bitfieldExtract(int(s.scales[c >> 1]), int((c & 1u) * 16u + h * 8u), 8);
        d = vec2(half_of(s.supers, c) * float(scale), 0.0);
    } else if (has_supers(TB)) {
        d = unpackHalf2x16(s.supers[c]);
        d *= vec2(s.scales.x >> c * 8u & 0xffu, -float(s.scales.y >> c * 8u & 0xffu));
    } else {
        d = vec2(half_of(s.scales, c), 0.0);
    }
    return d;
}

/* The dot of half h with the row of x at `at`. */
int dot_half(uvec4 v, uint h, uint at, int sum)
{
    return dot16(v, sx[at + (h * 2u + 1u) * NB], 256 * dot16(v, sx[at + h * 2u * NB], 0) + sum);
}

/* Accumulates the tile at `here` and replaces it by the one at `ahead`, part by part (software
 * pipelining). */
#ifdef BYTES
void add_tile(inout Tile t, uint block, uint here, bool is, uint ahead, bool more,
              inout vec4 sum[ROWS])
{
    Scales s = t.scales;
    ivec4 both;
    if (more)
        t.scales = load_scales(ahead);
    [[unroll]] for (uint h = 0u; h < 2u; h++)
        [[unroll]] for (uint c = 0u; c < 4u; c++) {
            uvec4 v = t.quants[c];
            if (h == 0u && is)
                t.quants[c] = load_quants(here, c, 1u);
            if (h == 1u && more)
                t.quants[c] = load_quants(ahead, c, 0u);
            float scale = scale_of(s, c, h).x;
            [[unroll]] for (uint r = 0u; r < ROWS; r++) {
                int one = dot_half(v, h, r * 4u * NB + block, ROWS > 1u || h == 0u ? 0 : both[c]);
                both[c] = one; /* several rows leave no registers for it */
                if (ROWS > 1u || h == 1u)
                    sum[r][c] += scale * (sd[r * NB + block].x * float(one));
            }
        }
}
#else
void add_tile(inout Tile t, uint block, uint here, bool is, uint ahead, bool more,
              inout vec4 sum[ROWS])
{
    const int raise = is_raised(TB) ? 16 : 1;
    vec4 by[2]; /* scales: q6_k has two */
    [[unroll]] for (uint c = 0u; c < 4u; c++) {
        vec2 scale = scale_of(t.scales, c, 0u);
        by[0][c] = scale.x;
        by[1][c] = TB == Q6_K ? scale_of(t.scales, c, 1u).x : 0.0;
        if (has_low(TB))
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                sum[r][c] += scale.y * sd[r * NB + block].y;
    }
    if (more)
        t.scales = load_scales(ahead);
    [[unroll]] for (uint c = 0u; c < 4u; c++) {
        uvec4 lo = unpack_half(t, c, 0u), hi = unpack_half(t, c, 1u);
        if (more)
            t.quants[c] = load_quants(ahead, c, 0u);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint at = r * 4u * NB + block;
            vec2 d = sd[r * NB + block];
            if (TB == Q6_K) {
                sum[r][c] += by[0][c] * fma(float(dot_half(lo, 0u, at, 0)), d.x, d.y);
                d.y = se[r * NB + block];
                sum[r][c] += by[1][c] * fma(float(dot_half(hi, 1u, at, 0)), d.x, d.y);
            } else {
                float both = float(dot_half(hi, 1u, at, raise * dot_half(lo, 0u, at, 0)));
                if (has_excess(TB))
                    d.y = se[r * NB + block];
                sum[r][c] += by[0][c] * (has_addend(TB) ? fma(both, d.x, d.y) : both * d.x);
            }
        }
    }
    if (more)
        [[unroll]] for (uint i = 0u; i < tile_high(TB) / 32u; i++)
            t.high[i] = load_high(ahead, i);
}
#endif

/* Sums over the subgroup; lanes 0, 8, 16 and 24 get those of x, y, z and w. */
float sum_lanes(vec4 v)
{
    bool upper = (SIDE & 16u) != 0u, odd = (SIDE & 8u) != 0u;
    vec2 two = (upper ? v.zw : v.xy) + subgroupShuffleXor(upper ? v.xy : v.zw, 16u);
    float one = (odd ? two.y : two.x) + subgroupShuffleXor(odd ? two.x : two.y, 8u);
    one += subgroupShuffleXor(one, 4u);
    one += subgroupShuffleXor(one, 2u);
    return one + subgroupShuffleXor(one, 1u);
}

/* ---- What follows the product ---------------------------------------------------------------- */

#ifdef TAILS
/* Offsets of the cosines of each row and of its destination; valid after the next barrier. */
void prepare_tail()
{
    bool clamped = false, lost = false;
    if (LANE >= ROWS)
        return;
    if (TAIL_ROPE)
        table_rows[LANE] = find_place(position_at + LANE * position_step, n_angles, clamped);
    if (TAIL_WRITE) {
        const bool is_long = (TAIL & TAIL_LONG_PLACE) != 0u;
        uint low = place[is_long ? 2u * place_at : place_at];
        uint high = is_long ? place[2u * place_at + 1u] : (low >> 31) * 0xffffffffu;
        uint row = slice_place(make_index(low, high), LANE, n_places);
        lost = row >= n_places;
        state_rows[LANE] = row;
    }
    if (gl_WorkGroupID.x == 0u && (clamped || lost))
        atomicOr(flags[0], (clamped ? FLAG_CLAMPED : 0u) | (lost ? FLAG_STATE_RANGE : 0u));
}

void write_tail(vec4 v, uint r, uint col, Batch at)
{
    uint pair = col % head / 2u, row = TAIL_WRITE ? state_rows[r] : r;
    if (TAIL_ROPE && 2u * pair < n_rot) {
        uint c = cos_at + table_rows[r] * cos_step + pair;
        uint s = sin_at + table_rows[r] * sin_step + pair;
        vec2 cosine = vec2(load_f_cosines(F32, c), load_f_cosines(F32, c + 1u));
        vec2 sine = vec2(load_f_sines(F32, s), load_f_sines(F32, s + 1u));
        vec2 first = v.xz * cosine - v.yw * sine, second = v.xz * sine + v.yw * cosine;
        v = vec4(first.x, second.x, first.y, second.y);
    }
    if (!TAIL_WRITE || row < n_places)
        put4(at.o + row * n + col, 4u, uvec4(encode_f(TOUT, v.x), encode_f(TOUT, v.y),
                                             encode_f(TOUT, v.z), encode_f(TOUT, v.w)));
}
#endif

#ifdef PAIR
void write_pair(vec4 first, vec4 second, uint r, uint col, Batch at)
{
    uvec4 v;
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        v[j] = encode_f(TOUT, apply_act(ACT, first[j]) * second[j]);
    put4(at.o + r * n + col, 4u, v);
}
#endif

/* The sum over the subgroups that share a group, times the norm's factor. */
vec4 add_parts(uint at, uint r)
{
    vec4 v = vec4(0.0);
    [[unroll]] for (uint s = 0u; s < KS; s++)
        v += parts[at + s];
    return FOLD == FOLD_NORM ? v * factors[r] : v;
}

/* Joins the partial sums of `items` iterations, the first from group `first` on, and writes the
 * results. */
void join(uint first, uint items, uint stride, Batch at)
{
    barrier();
    for (uint i = LANE; i < items * ROWS * TEAMS; i += THREADS) {
        uint team = i % TEAMS, r = i / TEAMS % ROWS, j = i / TEAMS / ROWS;
        uint col = (first + j * stride + team) * 4u;
        uint from = (j * ROWS + r) * SUBGROUPS + team * WEIGHTS * KS;
        vec4 v = add_parts(from, r);
        if (col < n && (flaws >> r & 1u) == 0u)
#ifdef TAILS
            write_tail(v, r, col, at);
#elif defined PAIR
            write_pair(v, add_parts(from + KS, r), r, col, at);
#else
            finish4(v, r, col, at);
#endif
    }
    barrier();
}

/* ---- Flawed rows ----------------------------------------------------------------------------- */

/* Element i of column c of the group whose first tile is at `at`. */
float weight_at(uint at, uint c, uint i)
{
    const uint side = i / 32u % 32u, h = i % 32u / 16u, j = i % 16u / 4u, shift = i % 4u * 8u;
    at += i / 1024u * tile_vectors(TB);
    vec2 scale = scale_of(load_scales_of(at, side), c, h);
    uint q = load_vector(at, side + COLUMN(c, h))[j] >> shift;
#ifdef BYTES
    return scale.x * float(bitfieldExtract(int(q), 0, 8));
#else
    const uint first = side + 4u * tile_quants(TB);
    q = q >> 4u * h & 15u;
    if (TB == Q6_K)
        q |= (load_vector(at, first + (c >> 1) * 32u)[(c & 1u) * 2u + h] >> shift + 2u * j & 3u)
             << 4;
    else if (tile_high(TB) != 0u)
        q |= (load_vector(at, first)[c] >> shift + j + 4u * h & 1u) << 4;
    return scale.x * (float(q) - offset_of(TB)) + (has_low(TB) ? scale.y : 0.0);
#endif
}

/* Element i of row r of x; first: of row 0. */
float x_at(uint first, uint r, uint i)
{
    vec4 x0, x1;
    load_eight(first + r * a_m + (i & ~7u), x0, x1);
    float x = (i & 4u) == 0u ? x0[i & 3u] : x1[i & 3u];
    if (FOLD != FOLD_NONE)
        x *= uintBitsToFloat(
            other[fold_at / 4u + (FOLD == FOLD_MUL ? r * NB * 8u : 0u) + i / 4u][i & 3u]);
    return x;
}

/* Results of row r for four columns: lanes share the sum. */
vec4 multiply_plain(uint first, uint r, uint at)
{
    vec4 v = vec4(0.0);
    for (uint i = SIDE; i < NB * 32u; i += 32u)
        v += x_at(first, r, i) * vec4(weight_at(at, 0u, i), weight_at(at, 1u, i),
                                      weight_at(at, 2u, i), weight_at(at, 3u, i));
    v = subgroupAdd(v);
    return FOLD == FOLD_NORM ? v * factors[r] : v;
}

/* Computes flawed rows for all groups of this workgroup. */
void multiply_flawed(uint start, uint stride, Batch at)
{
    const uint groups = (n + 3u) / 4u;
    for (uint r = 0u; r < ROWS; r++)
        for (uint it = start; it < groups && (flaws >> r & 1u) != 0u; it += stride)
            for (uint g = it + gl_SubgroupID; g < min(it + TEAMS, groups); g += SUBGROUPS) {
                const uint tile = (at.b + g) * NT * tile_vectors(TB);
#ifdef PAIR
                read_weight(false);
                vec4 v = multiply_plain(at.a, r, tile);
                read_weight(true);
                vec4 second = multiply_plain(at.a, r, tile);
                if (SIDE == 0u)
                    write_pair(v, second, r, g * 4u, at);
#else
                vec4 v = multiply_plain(at.a, r, tile);
                if (SIDE == 0u)
#ifdef TAILS
                    write_tail(v, r, g * 4u, at);
#else
                    finish4(v, r, g * 4u, at);
#endif
#endif
            }
}

void main()
{
#ifdef ADDRESS
    uint own = subgroupBroadcastFirst(gl_SubgroupID); /* tells drivers that it is uniform */
#else
    uint own = gl_SubgroupID;
#endif
    uint groups = (n + 3u) / 4u, split = own % KS, stride = gl_NumWorkGroups.x * TEAMS;
    uint start = gl_WorkGroupID.x * TEAMS, group = start + own / KS / WEIGHTS;
#ifdef PAIR
    read_weight(own / KS % 2u != 0u);
#endif
#ifdef ONE_BATCH
    Batch at = find_batch(0u);
#else
    Batch at = find_matrices(gl_WorkGroupID.y);
#endif
    const bool whole = NB % 32u == 0u; /* every lane always has a block */
    const uint size = tile_vectors(TB);
    uint here = ((at.b + group) * NT + split) * size;
    Tile now;
    if (group < groups && (whole || split * 32u + SIDE < NB))
        now = load_tile(here);
    if (LANE == 0u)
        flaws = 0u;
    barrier();
    chain_wait();
#ifdef TAILS
    prepare_tail();
#endif
    prepare_x(at.a);
    if (FOLD == FOLD_NORM)
        prepare_factors(at.a);

    uint last_tile = split + (NT - 1u - split) / KS * KS, item = 0u;
    uint jump = (stride * NT + split - last_tile) * size;
    for (uint it = start; it < groups; it += stride, group += stride) {
        vec4 sum[ROWS];
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r] = vec4(0.0);
        bool exists = group < groups, another = group + stride < groups;
        for (uint t = split; t < NT; t += KS) {
            bool last = t == last_tile, more = exists && (!last || another);
            if (!whole)
                more = more && (last ? split : t + KS) * 32u + SIDE < NB;
            uint ahead = here + (last ? jump : KS * size);
            uint block = t * 32u + SIDE;
            vec4 part[ROWS];
            [[unroll]] for (uint r = 0u; r < ROWS; r++)
                part[r] = sum[r];
            add_tile(now, whole ? block : min(block, NB - 1u), here, exists, ahead, more,
                     part);
            if (whole || block < NB)
                [[unroll]] for (uint r = 0u; r < ROWS; r++)
                    sum[r] = part[r];
            here = ahead;
        }
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float v = sum_lanes(sum[r]);
            if ((SIDE & 7u) == 0u)
                parts[(item * ROWS + r) * SUBGROUPS + gl_SubgroupID][SIDE / 8u] = v;
        }
        item++;
        if (item == BATCH || it + stride >= groups) {
            join(it - (item - 1u) * stride, item, stride, at);
            item = 0u;
        }
    }
    if (flaws != 0u)
        multiply_flawed(start, stride, at);
}
