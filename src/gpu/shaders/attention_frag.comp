/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
/* Attention of many rows by cooperative matrices with f32 sums (attention.glsl says what is
 * computed). q is f16, bf16 or f32 (then rounded, and so the result is f32) in plain order; k and v
 * come from attention_pack.comp, by address (k_at and k_b, v_at and v_b are its halves): offsets
 * of fragments are then part of the loads, which is worth an eighth of the time.
 *
 * A subgroup of 32 makes 16 MT rows of a head from 16 NK keys at a time, without barriers of the
 * workgroup: fragments of k and v go straight to registers and are shared through the cache only.
 * So that they are there in time, each subgroup asks for a part of what all of them read next, one
 * word of each 32 bytes: what waits for a cache farther away is then few loads (touch).
 * Logits never leave the registers either, because an accumulator has the lanes of an A operand.
 * What is relied on (lane 4 g + t; the self-check of the device looks):
 *   A    elements 0,1: row g, k 2t..   2,3: row g, k 8+2t..   4,5: row g+8, k 2t..   6,7: row g+8
 *   B    elements 0,1: k 2t.., column g   2,3: k 8+2t..   4,5 and 6,7: the same of column g+8
 *   sums like A, with columns for k
 * The order of the elements of a head is free in q . k (a lane takes 8 neighbours of 32, two steps)
 * and in the columns of the result (a lane ends with 8 neighbours of 64).
 *
 * Products cannot leave out hidden keys, and 0 times an infinite value is NaN: rows whose sums are
 * not finite are computed again in the end, in f32 (redo_row), and so are those of f32 queries that
 * lose too much when they are rounded.
 *
 * SIZE: of a head; QREGC: pieces of 32 of q in registers, the others lie in shared memory; LEAD:
 * how long before their use k and v are asked for, in halves of a block; FENCE: loads are not moved
 * from one block to another. All of them, MT and NK are tuned on hardware. */
#ifdef BF
#extension GL_EXT_bfloat16 : require
#define HALF bfloat16_t
#define HALF2(w) uintBitsToBFloat16EXT(unpackUint2x16(w))
#define PAIR bf16vec2
#else
#define HALF float16_t
#define HALF2(w) unpackFloat2x16(w)
#define PAIR f16vec2
#endif
#ifndef QREGC
#define QREGC (SIZE / 32)
#endif
#define OUT4
#include "common.glsl"
#include "attention_frag.def"
#include "attention.glsl"
#include "range.glsl"

layout(SLOT(q), std430) restrict readonly buffer buffer_q { uvec4 q[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer Packed {
    uvec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer Touched {
    uint at[];
};

#define KS (SIZE / 16)
#define ROWS (16 * MT)
#define BK (16 * NK)
#define QSH (SIZE / 32 - QREGC)
#define SUBGROUPS 4
#define PAD 64 /* packed k and v are padded to a multiple of so many keys */
#define BLOCK_BYTES (BK * SIZE * 2)               /* of k, or of v */
#define TOUCHES (BLOCK_BYTES / SUBGROUPS / 1024)  /* loads by 32 lanes */
#define GROWTH 8.0 /* weights are at most 2^GROWTH */
#define MATRIX_A coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define MATRIX_B coopmat<HALF, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define MATRIX_SUM coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define PUT_PAIR(matrix, e, word)         \
    {                                     \
        const PAIR pair_ = HALF2(word);   \
        matrix[2 * (e)] = pair_.x;        \
        matrix[2 * (e) + 1] = pair_.y;    \
    }
#define PUT(matrix, w0, w1, w2, w3)                                                         \
    {                                                                                       \
        PUT_PAIR(matrix, 0, w0) PUT_PAIR(matrix, 1, w1) PUT_PAIR(matrix, 2, w2)             \
        PUT_PAIR(matrix, 3, w3)                                                             \
    }
/* Words of an A operand lie in memory in the order of its registers, elements 01 45 23 67. */
#define PUT_A(matrix, u) PUT(matrix, u[0], u[2], u[1], u[3])

/* Without cap and mask the scale is folded into the exponential. */
const bool PLAIN = TM == 0u && !CAP;

MATRIX_SUM sum[MT * KS]; /* of values */
MATRIX_SUM s[MT * NK];   /* logits */
#if QREGC > 0
MATRIX_A rows_q[MT * 2 * QREGC];
#endif
const uint SQ = QSH > 0 ? QSH * MT * 64 : 64;
shared uvec4 staged[SUBGROUPS * SQ];
float top[MT * 2], total[MT * 2];
Packed k, v;
uint touched[LEAD * TOUCHES], seen, touch_at;
uint lane, g, t, row0, length, head, mask_at;

/* Prefetches this subgroup's part of a block; base: this lane's address. The result of the previous
 * prefetch must be consumed somehow. */
void touch(const uint slot, const uint64_t base)
{
    Touched x = Touched(base + touch_at);
    [[unroll]] for (uint i = 0; i < TOUCHES; i++) {
        seen |= touched[slot * TOUCHES + i];
        touched[slot * TOUCHES + i] = x.at[i * 256];
    }
}

/* Multiplies the rows with the next keys; advances k. */
void multiply_keys()
{
#if LEAD == 2
    touch(0, uint64_t(k) + BLOCK_BYTES);
    touch(1, uint64_t(v) + BLOCK_BYTES);
#else
    touch(0, uint64_t(v));
#endif
    [[unroll]] for (uint i = 0; i < MT * NK; i++)
        s[i] = MATRIX_SUM(0.0);
    [[unroll]] for (uint c = 0; c < SIZE / 32; c++) {
        MATRIX_A qf[MT * 2];
        [[unroll]] for (uint i = 0; i < MT; i++) {
#if QREGC > 0
            if (c < QREGC) {
                qf[2 * i] = rows_q[(i * QREGC + c) * 2];
                qf[2 * i + 1] = rows_q[(i * QREGC + c) * 2 + 1];
            }
#endif
#if QSH > 0
            if (c >= QREGC) {
                const uint a = gl_SubgroupID * SQ + ((c - QREGC) * MT + i) * 64 + lane;
                const uvec4 x = staged[a], y = staged[a + 32];
                PUT_A(qf[2 * i], x)
                PUT_A(qf[2 * i + 1], y)
            }
#endif
        }
        [[unroll]] for (uint j = 0; j < NK; j++) {
            MATRIX_B b0, b1;
            const uvec4 x = k.at[j * KS * 32 + c * 64], y = k.at[j * KS * 32 + c * 64 + 32];
            PUT(b0, x[0], x[1], x[2], x[3])
            PUT(b1, y[0], y[1], y[2], y[3])
            [[unroll]] for (uint i = 0; i < MT; i++)
                s[i * NK + j] = coopMatMulAdd(qf[2 * i], b0, s[i * NK + j]);
            [[unroll]] for (uint i = 0; i < MT; i++)
                s[i * NK + j] = coopMatMulAdd(qf[2 * i + 1], b1, s[i * NK + j]);
        }
    }
    k = Packed(uint64_t(k) + BLOCK_BYTES);
}

/* Logits from the products with the keys from k0 on. edge: some rows do not see all of them. */
void finish_logits(const uint k0, const bool edge)
{
    [[unroll]] for (uint i = 0; i < MT; i++)
        [[unroll]] for (uint r = 0; r < 2; r++) {
            const uint row = min(row0 + 16 * i + 8 * r + g, n_queries - 1);
            const uint key = k0 + 2 * t; /* the first of this lane */
            const ivec2 range = key_range(row, length) - int(key);
            [[unroll]] for (uint j = 0; j < NK; j++)
                [[unroll]] for (uint e = 0; e < 4; e++) {
                    const int n = int(16 * j + 8 * (e >> 1) + (e & 1));
                    float x = s[i * NK + j][4 * r + e];
                    if (edge && ((WINDOW && n < range.x) || n >= range.y))
                        x = uintBitsToFloat(0xff800000u); /* whatever the scale is */
                    else if (!PLAIN)
                        x = logit(x, mask_at + row * m_q + (key + uint(n)) * m_k);
                    s[i * NK + j][4 * r + e] = x;
                }
        }
}

/* This lane's maximum of the logits of a row. */
float find_most(uint i, uint r)
{
    float x = s[i * NK][4 * r];
    [[unroll]] for (uint j = 0; j < NK; j++)
        [[unroll]] for (uint e = 0; e < 4; e++)
            x = max(x, s[i * NK + j][4 * r + e]);
    return x;
}

/* Rescales the sums to the running maximum. */
void rescale()
{
    const float factor = PLAIN ? scale : 1.0;
    [[unroll]] for (uint i = 0; i < MT; i++) {
        float keep[2];
        [[unroll]] for (uint r = 0; r < 2; r++) {
            float x = find_most(i, r);
            x = max(x, subgroupShuffleXor(x, 1));
            x = max(x, subgroupShuffleXor(x, 2));
            const float most = max(top[2 * i + r], x * factor);
            keep[r] = keep_factor(top[2 * i + r], most);
            top[2 * i + r] = most;
            total[2 * i + r] *= keep[r];
        }
        [[unroll]] for (uint f = 0; f < KS; f++)
            [[unroll]] for (uint e = 0; e < 8; e++)
                sum[i * KS + f][e] *= keep[e >> 2];
    }
}

/* Whether a weight of these keys would exceed the limit without rescale(). */
bool is_outgrown()
{
    const float factor = PLAIN ? scale : 1.0;
    bool any = false;
    [[unroll]] for (uint i = 0; i < MT; i++)
        [[unroll]] for (uint r = 0; r < 2; r++)
            any = any || fma(find_most(i, r), factor, -GROWTH) > top[2 * i + r];
    return subgroupAny(any);
}

/* Adds the weighted values of these keys; advances v. */
void multiply_values()
{
    const float factor = PLAIN ? scale : 1.0;
    MATRIX_A p[MT * NK];
    [[unroll]] for (uint i = 0; i < MT; i++)
        [[unroll]] for (uint j = 0; j < NK; j++)
            [[unroll]] for (uint e = 0; e < 8; e++) {
                const uint r = i * 2 + (e >> 2);
                const float x = exp2(fma(s[i * NK + j][e], factor, -top[r]));
                p[i * NK + j][e] = HALF(x);
                /* Drivers truncate to bf16: the sum of the weights is taken after truncation, so it
                 * has the same bias. */
#ifdef BF
                total[r] += float(p[i * NK + j][e]);
#else
                total[r] += x;
#endif
            }
#if LEAD == 1
    touch(0, uint64_t(k));
#endif
    [[unroll]] for (uint j = 0; j < NK; j++)
        [[unroll]] for (uint f = 0; f < KS; f++) {
            const uvec4 x = v.at[j * KS * 32 + f * 32];
            MATRIX_B b;
            PUT(b, x[0], x[1], x[2], x[3])
            [[unroll]] for (uint i = 0; i < MT; i++)
                sum[i * KS + f] = coopMatMulAdd(p[i * NK + j], b, sum[i * KS + f]);
        }
    v = Packed(uint64_t(v) + BLOCK_BYTES);
#ifdef FENCE
    subgroupBarrier();
#endif
}

/* The keys from k0 to end, of which all rows see those from full_from to full_end. Exact maxima are
 * computed only for the first such block and at the edges: other blocks keep the running maximum,
 * and where a logit exceeds it by much, the block is computed again. A branch around the rescaling
 * alone costs more than it saves, because it moves the accumulators. */
void walk(uint k0, const uint full_from, const uint full_end, const uint end)
{
    [[dont_unroll]] while (k0 < end) {
        multiply_keys();
        finish_logits(k0, true);
        rescale();
        multiply_values();
        k0 += BK;
        [[dont_unroll]] while ((!WINDOW || k0 >= full_from) && k0 + BK <= full_end) {
            multiply_keys();
            if (!PLAIN)
                finish_logits(k0, false);
            if (is_outgrown()) {
                k = Packed(uint64_t(k) - BLOCK_BYTES);
                break;
            }
            multiply_values();
            k0 += BK;
        }
    }
}

uint join_halves(float x, float y)
{
#ifdef BF
    return f32_to_bf16(x) | f32_to_bf16(y) << 16;
#else
    return packFloat2x16(f16vec2(x, y));
#endif
}

/* Eight adjacent elements of q from i on; most: the running maximum magnitude. */
uvec4 load_q8(uint i, inout float most)
{
    if (TQ != F32)
        return q[i / 8];
    const vec4 x = uintBitsToFloat(q[i / 4]), y = uintBitsToFloat(q[i / 4 + 1]);
    most = range_top(range_top(most, x), y);
    return uvec4(join_halves(x.x, x.y), join_halves(x.z, x.w), join_halves(y.x, y.y),
                 join_halves(y.z, y.w));
}

/* Rows of q whose maximum is outside the accurate range of f16 or bf16 get NaN as their sum of
 * weights, so that they are recomputed in f32. most: this lane's maxima. */
void give_up_rows(float most[2 * MT])
{
    [[unroll]] for (uint i = 0; TQ == F32 && i < 2 * MT; i++) {
        float x = max(most[i], subgroupShuffleXor(most[i], 1));
        x = max(x, subgroupShuffleXor(x, 2));
#ifdef BF
        if (!(x < 3.38e38))
#else
        if (!range_holds(x))
#endif
            total[i] = uintBitsToFloat(0x7fc00000u);
    }
}

/* The rows of q as A operands: the two rows of a lane come from two loads, so they pass through
 * shared memory once; the opaque zero keeps the compiler from forwarding the stores as moves. */
void load_queries(uint batch)
{
    const uint unseen = n_groups >> 31;
    uvec4 x[SIZE / 32 * MT], y[SIZE / 32 * MT];
    float most[2 * MT];
    [[unroll]] for (uint i = 0; i < 2 * MT; i++)
        most[i] = 0.0;
    [[unroll]] for (uint c = 0; c < SIZE / 32; c++)
        [[unroll]] for (uint i = 0; i < MT; i++) {
            const uint low = min(row0 + 16 * i + g, n_queries - 1);
            const uint high = min(row0 + 16 * i + 8 + g, n_queries - 1);
            const uint from = q_at + batch * q_b + head * q_h + c * 32 + t * 8;
            x[c * MT + i] = load_q8(from + low * q_s, most[2 * i]);
            y[c * MT + i] = load_q8(from + high * q_s, most[2 * i + 1]);
        }
    give_up_rows(most);
    [[unroll]] for (uint c = 0; c < SIZE / 32; c++)
        [[unroll]] for (uint i = 0; i < MT; i++) {
            const uvec4 lo = x[c * MT + i], hi = y[c * MT + i];
            const uint a = gl_SubgroupID * SQ + (c >= QREGC ? ((c - QREGC) * MT + i) * 64 : 0) +
                           lane;
            staged[a] = uvec4(lo[0], hi[0], lo[1], hi[1]);
            staged[a + 32] = uvec4(lo[2], hi[2], lo[3], hi[3]);
            subgroupMemoryBarrierShared();
            subgroupBarrier();
#if QREGC > 0
            if (c < QREGC) {
                const uvec4 z = staged[a + unseen], w = staged[a + 32 + unseen];
                PUT_A(rows_q[(i * QREGC + c) * 2], z)
                PUT_A(rows_q[(i * QREGC + c) * 2 + 1], w)
                subgroupMemoryBarrierShared();
                subgroupBarrier();
            }
#endif
        }
}

/* Stores eight adjacent results from element i on. */
void store_o8(uint i, vec4 x, vec4 y)
{
    if (TQ == F32) {
        o[i / 4] = floatBitsToUint(x);
        o[i / 4 + 1] = floatBitsToUint(y);
    } else {
        o[i / 8] = uvec4(join_halves(x.x, x.y), join_halves(x.z, x.w), join_halves(y.x, y.y),
                         join_halves(y.z, y.w));
    }
}

/* ---- Rows with infinite or NaN sums ---------------------------------------------------------- */

vec2 wide(uint word) { return vec2(HALF2(word)); }

/* Products of elements 32 c + 8 t .. + 7 of a query at `from`, and of keys g and g + 8 of the 16
 * keys at `at`. */
vec2 redo_products(Packed at, uint from, uint c)
{
    const uvec4 x = at.at[c * 64], y = at.at[c * 64 + 32];
    vec2 sum2 = vec2(0.0);
    [[unroll]] for (uint e = 0; e < 2; e++) {
        const uvec4 z = e == 0 ? x : y;
        const vec4 w = TQ == F32 ? uintBitsToFloat(q[from / 4 + e])
                                 : vec4(wide(q[from / 8][2 * e]), wide(q[from / 8][2 * e + 1]));
        sum2 += vec2(dot(w, vec4(wide(z[0]), wide(z[1]))), dot(w, vec4(wide(z[2]), wide(z[3]))));
    }
    return sum2;
}

/* The logits of keys k0 + g and k0 + g + 8, k0 a multiple of 16. first: offset of this head's keys
 * in packed k. */
vec2 redo_logits(uint row, uint batch, uint first, uint k0)
{
    const ivec2 keys = key_range(row, length);
    const uint64_t from = uint64_t(first + k0) * (SIZE * 2) + lane * 16;
    const uint from_q = q_at + batch * q_b + head * q_h + row * q_s + t * 8;
    Packed ks = Packed(uint64_t(Packed(uvec2(k_low, k_high))) + from);
    vec2 x = vec2(0.0);
    [[dont_unroll]] for (uint c = 0; c < SIZE / 32; c++)
        x += redo_products(ks, from_q + c * 32, c);
    x += subgroupShuffleXor(x, 1);
    x += subgroupShuffleXor(x, 2);
    [[unroll]] for (uint i = 0; i < 2; i++) {
        const int key = int(k0 + g + 8 * i);
        const bool near = key >= keys.x && key < keys.y;
        x[i] = near ? logit(x[i], mask_at + row * m_q + uint(key) * m_k) : MASKED;
    }
    return x;
}

/* The maximum of the logits of a row. */
float redo_most(uint row, uint batch, uint first)
{
    const ivec2 keys = key_range(row, length);
    float most = NOTHING;
    [[dont_unroll]] for (uint k0 = uint(keys.x) / 16 * 16; int(k0) < keys.y; k0 += 16) {
        const vec2 x = redo_logits(row, batch, first, k0);
        most = max(most, max(x.x, x.y));
    }
    [[unroll]] for (uint bit = 4; bit < 32; bit *= 2)
        most = max(most, subgroupShuffleXor(most, bit));
    return most;
}

/* Recomputes one row with the whole subgroup, 16 keys at a time in fragment order; first as above.
 * */
void redo_row(uint row, uint batch, uint first)
{
    const ivec2 keys = key_range(row, length);
    const float most = redo_most(row, batch, first);
    float all = 0.0;
    vec2 y[SIZE / 16];
    [[unroll]] for (uint i = 0; i < SIZE / 16; i++)
        y[i] = vec2(0.0);
    [[dont_unroll]] for (uint k0 = uint(keys.x) / 16 * 16; int(k0) < keys.y; k0 += 16) {
        const uint64_t from = uint64_t(first + k0) * (SIZE * 2) + lane * 16;
        Packed vs = Packed(uint64_t(Packed(uvec2(v_low, v_high))) + from);
        const vec2 x = redo_logits(row, batch, first, k0);
        const vec2 w = vec2(weight_of(x.x, most), weight_of(x.y, most));
        all += w.x + w.y;
        /* Keys 2 t, + 1, + 8, + 9 of the values that this lane has. */
        const vec2 w0 = subgroupShuffle(w, 8 * t), w1 = subgroupShuffle(w, 8 * t + 4);
        [[unroll]] for (uint f = 0; f < SIZE / 16; f++) {
            const uvec4 z = vs.at[f * 32];
            const vec2 a = wide(z[0]), b = wide(z[1]), a1 = wide(z[2]), b1 = wide(z[3]);
            y[f] += w0.x == 0.0 ? vec2(0.0) : w0.x * vec2(a.x, a1.x);
            y[f] += w1.x == 0.0 ? vec2(0.0) : w1.x * vec2(a.y, a1.y);
            y[f] += w0.y == 0.0 ? vec2(0.0) : w0.y * vec2(b.x, b1.x);
            y[f] += w1.y == 0.0 ? vec2(0.0) : w1.y * vec2(b.y, b1.y);
        }
    }
    [[unroll]] for (uint bit = 4; bit < 32; bit *= 2)
        all += subgroupShuffleXor(all, bit);
    const float factor = row_factor(most, all, head);
    [[unroll]] for (uint i = 0; i < SIZE / 16; i++) {
        y[i] += subgroupShuffleXor(y[i], 1);
        y[i] += subgroupShuffleXor(y[i], 2);
        y[i] *= factor;
    }
    const uint to = o_at + batch * n_kv_heads * GROUP * n_queries * SIZE + head * o_h + row * o_s;
    [[unroll]] for (uint c = 0; c < SIZE / 64; c++)
        if (t == c)
            store_o8(to + c * 64 + (g / 2 + g % 2 * 4) * 8, vec4(y[c * 4], y[c * 4 + 1]),
                     vec4(y[c * 4 + 2], y[c * 4 + 3]));
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Whether this lane's sums of a row are finite. */
bool has_finite_sums(uint i, uint r)
{
    bool finite = true;
    [[unroll]] for (uint f = 0; f < KS; f++)
        [[unroll]] for (uint e = 0; e < 4; e++)
            finite = finite && is_finite(sum[i * KS + f][4 * r + e]);
    return finite;
}

/* Whether the greatest logit of a row minus itself, without rounding the scaled product
 * (multiply_values), may be a large number. */
bool is_huge(uint i, uint r)
{
    const float x = top[2 * i + r];
    return PLAIN && abs(x) > 1e9 && x > NOTHING;
}

/* Writes the rows; returns a bit for each whose sums in this lane are not finite. */
uint store_rows(uint batch)
{
    uint odd = 0;
    [[unroll]] for (uint i = 0; i < MT; i++)
        [[unroll]] for (uint r = 0; r < 2; r++) {
            float all = total[2 * i + r];
            all += subgroupShuffleXor(all, 1);
            all += subgroupShuffleXor(all, 2);
            const float factor = row_factor(top[2 * i + r], all, head);
            const uint row = row0 + 16 * i + 8 * r + g;
            const uint to = o_at + batch * n_kv_heads * GROUP * n_queries * SIZE + head * o_h +
                            row * o_s;
            const bool is_odd = !has_finite_sums(i, r) || !is_finite(factor) || is_huge(i, r);
            odd |= is_odd && row < n_queries ? 1 << (2 * i + r) : 0;
            [[unroll]] for (uint c = 0; c < SIZE / 64; c++)
                [[unroll]] for (uint u = 0; u < 2; u++) {
                    vec4 x[2]; /* fragment f holds elements 2 f and 2 f + 1 of 8 adjacent ones */
                    [[unroll]] for (uint f = 0; f < 4; f++)
                        [[unroll]] for (uint e = 0; e < 2; e++)
                            x[f / 2][f % 2 * 2 + e] =
                                sum[i * KS + c * 4 + f][4 * r + u + 2 * e] * factor;
                    if (row < n_queries)
                        store_o8(to + c * 64 + (t + 4 * u) * 8, x[0], x[1]);
                }
        }
    return odd;
}

/* first: as in redo_row. */
void redo_rows(uint odd, uint batch, uint first)
{
    if (!subgroupAny(odd != 0))
        return;
    subgroupBarrier(); /* orders the stores of store_rows before */
    odd |= subgroupShuffleXor(odd, 1);
    odd |= subgroupShuffleXor(odd, 2);
    [[dont_unroll]] for (uint j = 0; j < 2 * MT; j++)
        [[dont_unroll]] for (uint n = 0; n < 8; n++)
            if ((subgroupShuffle(odd, 4 * n) >> j & 1) != 0)
                redo_row(row0 + 8 * j + n, batch, first);
}

/* The grid: heads that are processed concurrently, blocks of rows, and further groups of heads. */
void main()
{
    lane = gl_SubgroupInvocationID;
    g = lane >> 2;
    t = lane & 3;
    const uint n_heads = n_kv_heads * GROUP, n_blocks = gl_NumWorkGroups.y;
    const uint place = gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    const uint batch = n_batch > 1 ? place / n_heads : 0;
    head = place - batch * n_heads;
    /* Long rows first; with n_splits 2, the second half of the grid in reverse. */
    const uint rank = gl_WorkGroupID.y, half_way = (n_blocks + 1) / 2;
    const uint turn = n_splits == 2 && rank >= half_way ? rank - half_way : n_blocks - 1 - rank;
    row0 = turn * (ROWS * SUBGROUPS) + gl_SubgroupID * ROWS;
    if (row0 >= n_queries || batch >= n_batch || head >= n_heads)
        return;

    length = length_of(batch, false);
    mask_at = m_at + batch * m_b + head * m_h;
    const ivec2 upper = key_range(row0, length);
    const ivec2 lower = key_range(min(row0 + ROWS, n_queries) - 1, length);
    const uint k0 = uint(upper.x) / BK * BK;
    const uint padded = (n_keys + PAD - 1) / PAD * PAD;
    const uint first = (batch * n_kv_heads + head / GROUP) * padded;
    const uint64_t from = uint64_t(first + k0) * (SIZE * 2) + lane * 16;
    k = Packed(uint64_t(Packed(uvec2(k_low, k_high))) + from);
    v = Packed(uint64_t(Packed(uvec2(v_low, v_high))) + from);
    seen = 0;
    touch_at = gl_SubgroupID * (TOUCHES * 1024) + lane * 16;
    [[unroll]] for (uint i = 0; i < LEAD * TOUCHES; i++)
        touched[i] = 0;
    touch(LEAD - 1, uint64_t(k));
#if LEAD == 2
    touch(0, uint64_t(v));
#endif
    [[unroll]] for (uint i = 0; i < MT * KS; i++)
        sum[i] = MATRIX_SUM(0.0);
    [[unroll]] for (uint i = 0; i < MT * 2; i++) {
        top[i] = NOTHING;
        total[i] = 0.0;
    }
    load_queries(batch);
    walk(k0, uint(lower.x), uint(upper.y), uint(lower.y));
    redo_rows(store_rows(batch), batch, first);
    if (n_groups >> 31 != 0) /* never */
        o[lane] = uvec4(seen);
}
