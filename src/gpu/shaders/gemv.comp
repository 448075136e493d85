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
 * slices of k as it has teams, and the sums of the slices are joined row by row. A slice is STEPS
 * rows of b at a time, which divides k, so that as many loads are on their way; more than one needs
 * four elements of a in a load.
 *
 * V4: one load is PER = 4 (f32) or 8 (f16, bf16) aligned elements of b, and of a unless KN; else
 * one element with any strides (PER == 1). */
#include "common.glsl"
#include "gemv.def"
#include "product.glsl"

#include "experts.glsl"

#ifdef V4
#define PER (TB == F32 ? 4u : 8u)
WORDS4(b);
#else
#define PER 1u
TENSOR(b)
#endif
#ifdef V4
WORDS4(a);
#else
TENSOR(a)
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

#ifdef V4
/* Four elements of a, whose type may be another one than that of b. */
vec4 x_four(uint i)
{
    if (TA == F32)
        return uintBitsToFloat(a[i >> 2]);
    return (i & 4u) == 0u ? low4(TA, a[i >> 3]) : high4(TA, a[i >> 3]);
}

float x_one(uint i)
{
    uint word = TA == F32 ? i : i >> 1, w = a[word >> 2][word & 3u];
    return low4(TA, uvec4(TA == F32 ? w : w >> (i & 1u) * 16u, 0u, 0u, 0u)).x;
}
#endif

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
#ifdef V4
    for (uint kk = slice * STEPS; kk < end; kk += slices * STEPS) {
        uvec4 w[STEPS];
        [[unroll]] for (uint j = 0u; j < STEPS; j++)
            w[j] = b[(at.b + (kk + j) * b_k + col) / PER];
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            uint i = at.a + r * a_m + kk * a_k;
            vec4 x;
            [[unroll]] for (uint j = 0u; j < STEPS; j++) {
                if (j % 4u == 0u)
                    x = STEPS == 1u ? vec4(x_one(i)) : x_four(i + j);
                vec4 lo = low4(TB, w[j]), hi = high4(TB, w[j]);
                [[unroll]] for (uint e = 0u; e < per; e++)
                    sum[r * per + e] = fma(x[j % 4u], e < 4u ? lo[e & 3u] : hi[e & 3u],
                                           sum[r * per + e]);
            }
        }
    }
#else
    for (uint kk = slice; kk < end; kk += slices) {
        float w = load_f_b(TB, at.b + kk * b_k + col * b_n);
        [[unroll]] for (uint r = 0u; r < ROWS; r++)
            sum[r] = fma(load_f_a(TA, at.a + r * a_m + kk * a_k), w, sum[r]);
    }
#endif

    const uint some = max(slices * COLS / THREADS, 1u); /* slices that one invocation joins first */
    [[unroll]] for (uint r = 0u; r < ROWS; r++) {
        barrier();
        [[unroll]] for (uint j = 0u; j < per; j++)
            parts[slice * COLS + side * per + j] = sum[r * per + j];
        barrier();
        uint own = LANE / COLS * some * COLS + LANE % COLS;
        if (LANE / COLS * some < slices) {
            float v = 0.0;
            for (uint s = 0u; s < some; s++)
                v += parts[own + s * COLS];
            parts[own] = v;
        }
        barrier();
        if (exists && LANE < COLS / 4u) {
            vec4 v = vec4(0.0);
            for (uint s = 0u; s < slices; s += some)
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
        [[unroll]] for (uint c = 0u; c < EACH; c++) /* clamped: repeats the last column */
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
    for (uint width = TEAM, left; width > 1u; width = left) { /* 16 at a time */
        left = max(width / 16u, 1u);
        for (uint i = LANE; i < ROWS * COLS * left; i += THREADS) {
            uint p = i / left * TEAM + i % left;
            float v = 0.0;
            for (uint j = 0u; j < width; j += left)
                v += parts[p + j];
            parts[p] = v;
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
