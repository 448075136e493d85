/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Product with few rows (m == ROWS, at most 8), limited by the reading of b: product.glsl says what
 * is computed. With TIDS a batch is one row and its b is a matrix of a bank: b = bank[ids[batch]].
 *
 * A workgroup makes COLS columns, a multiple of 4.
 * Plain: b is read along k, [n, k]. TEAM invocations split k and share EACH columns and all rows;
 * their sums are joined in shared memory.
 * KN: b is read along n, [k, n]. TEAM neighbours read PER columns each, the workgroup is as many
 * slices of k as it has teams, and the sums of the slices are joined row by row.
 *
 * V4: one load is PER = 4 (f32) or 8 (f16, bf16) aligned elements of b, and of a unless KN; else
 * one element with any strides (PER == 1). */
#include "common.glsl"
#include "product.glsl"

layout(constant_id = 9) const uint TIDS = 0;
layout(constant_id = 10) const uint ROWS = 1;
layout(constant_id = 11) const uint COLS = 4;
layout(constant_id = 12) const uint TEAM = 32;
layout(constant_id = 13) const uint THREADS = 64; /* the local size again */

TENSOR(5, ids)
layout(set = 0, binding = 6, std430) buffer buffer_flags { uint flags[]; };

#ifdef V4
#define PER (TB == F32 ? 4u : 8u)
WORDS4(1, b);
#else
#define PER 1u
TENSOR(1, b)
#endif
#if defined(V4) && !defined(KN)
WORDS4(0, a);
#else
TENSOR(0, a)
#endif

/* The first four and the last four elements of a load. */
vec4 low4(uint t, uvec4 w)
{
    if (t == F32)
        return uintBitsToFloat(w);
    if (t == F16)
        return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}
vec4 high4(uint t, uvec4 w)
{
    return low4(t, uvec4(w.zw, 0u, 0u));
}

#if defined(V4) && !defined(KN)
/* Four elements of a, whose type may be another one than that of b. */
vec4 x_four(uint i)
{
    if (TA == F32)
        return uintBitsToFloat(a[i >> 2]);
    return (i & 4u) == 0u ? low4(TA, a[i >> 3]) : high4(TA, a[i >> 3]);
}
#endif

/* First elements of a batch. With ids a_0 is the stride of a row, b_0 of an expert, and the words
 * of the residual describe the ids: res_at, res_0 first and stride, res_1 the number of experts.
 * Negative ids count from the end. */
Batch find_matrices(uint i)
{
    if (TIDS == 0u)
        return find_batch(i);
    uint at = res_at + i * res_0;
    int low = load_i_raw_ids(TIDS, at), n_experts = int(res_1);
    int id = low < 0 ? low + n_experts : low;
    bool bad = id < 0 || id >= n_experts;
    if (TIDS == I64)
        bad = bad || int(ids[at * 2u + 1u]) != low >> 31;
    if (bad && LANE == 0u)
        atomicOr(flags[0], 1u);
    id = clamp(id, 0, max(n_experts - 1, 0));
    return Batch(a_at + i * a_0, b_at + uint(id) * b_0, 0u, out_at + i * n);
}

#ifdef KN
shared float parts[THREADS * (COLS / TEAM)]; /* [slice][column] */

void main()
{
    const uint per = COLS / TEAM, slices = THREADS / TEAM;
    uint n_blocks = (n + COLS - 1u) / COLS;
    bool exists = GROUP_INDEX < n_groups;
    Batch at = find_matrices(exists ? GROUP_INDEX / n_blocks : 0u);
    uint first = GROUP_INDEX % n_blocks * COLS, side = LANE % TEAM, slice = LANE / TEAM;
    uint col = first + side * per;

    float sum[ROWS * (COLS / TEAM)];
    [[unroll]] for (uint i = 0u; i < ROWS * per; i++)
        sum[i] = 0.0;
    uint end = exists && col < n ? k : 0u;
    for (uint kk = slice; kk < end; kk += slices) {
        uint i = at.b + kk * b_k + col * b_n;
#ifdef V4
        uvec4 w = b[i / PER];
        vec4 lo = low4(TB, w), hi = high4(TB, w);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float x = load_f_a(TA, at.a + r * a_m + kk * a_k);
            [[unroll]] for (uint j = 0u; j < per; j++)
                sum[r * per + j] = fma(x, j < 4u ? lo[j & 3u] : hi[j & 3u], sum[r * per + j]);
        }
#else
        float w = load_f_b(TB, i);
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r] = fma(load_f_a(TA, at.a + r * a_m + kk * a_k), w, sum[r]);
#endif
    }

    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        barrier();
        [[unroll]] for (uint j = 0u; j < per; j++)
            parts[slice * COLS + side * per + j] = sum[r * per + j];
        barrier();
        if (exists && LANE < COLS / 4u) {
            vec4 v = vec4(0.0);
            for (uint s = 0u; s < slices; s++)
                for (uint j = 0u; j < 4u; j++)
                    v[j] += parts[s * COLS + LANE * 4u + j];
            if (first + LANE * 4u < n)
                finish4(v, r, first + LANE * 4u, at);
        }
    }
}

#else
const uint TEAMS = THREADS / TEAM, EACH = COLS / TEAMS; /* columns of a team */
shared float parts[ROWS * COLS * TEAM];                  /* [row][column][member] */

void main()
{
    uint n_blocks = (n + COLS - 1u) / COLS;
    bool exists = GROUP_INDEX < n_groups;
    Batch at = find_matrices(exists ? GROUP_INDEX / n_blocks : 0u);
    uint first = GROUP_INDEX % n_blocks * COLS, member = LANE % TEAM, team = LANE / TEAM;

    float sum[ROWS * (COLS / (THREADS / TEAM))];
    [[unroll]] for (uint i = 0u; i < ROWS * EACH; i++)
        sum[i] = 0.0;
    uint end = exists ? k : 0u;
    for (uint kk = member * PER; kk < end; kk += TEAM * PER) {
#ifdef V4
        uvec4 w[EACH];
        [[unroll]] for (uint c = 0u; c < EACH; c++) /* past the end: the last column once more */
            w[c] = b[(at.b + min(first + team * EACH + c, n - 1u) * b_n + kk) / PER];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint i = at.a + r * a_m + kk;
            vec4 x0 = x_four(i), x1 = TB != F32 ? x_four(i + 4u) : vec4(0.0);
            [[unroll]] for (uint c = 0u; c < EACH; c++) {
                float d = dot(x0, low4(TB, w[c]));
                if (TB != F32)
                    d += dot(x1, high4(TB, w[c]));
                sum[r * EACH + c] += d;
            }
        }
#else
        float w[EACH];
        [[unroll]] for (uint c = 0u; c < EACH; c++)
            w[c] = load_f_b(TB, at.b + min(first + team * EACH + c, n - 1u) * b_n + kk * b_k);
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            float x = load_f_a(TA, at.a + r * a_m + kk * a_k);
            [[unroll]] for (uint c = 0u; c < EACH; c++)
                sum[r * EACH + c] = fma(x, w[c], sum[r * EACH + c]);
        }
#endif
    }

    [[unroll]] for (uint i = 0u; i < ROWS * EACH; i++)
        parts[(i / EACH * COLS + team * EACH + i % EACH) * TEAM + member] = sum[i];
    barrier();
    for (uint half_ = TEAM / 2u; half_ > 0u; half_ /= 2u) {
        for (uint i = LANE; i < ROWS * COLS * half_; i += THREADS) {
            uint p = i / half_ * TEAM + i % half_;
            parts[p] += parts[p + half_];
        }
        barrier();
    }

    for (uint i = LANE; exists && i < ROWS * (COLS / 4u); i += THREADS) {
        uint r = i % ROWS, c = i / ROWS * 4u;
        vec4 v = vec4(0.0);
        for (uint j = 0u; j < 4u; j++)
            v[j] = parts[(r * COLS + c + j) * TEAM];
        if (first + c < n)
            finish4(v, r, first + c, at);
    }
}
#endif
