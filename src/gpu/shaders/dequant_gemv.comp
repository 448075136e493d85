/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Product of few rows (m == ROWS, at most 8) with a quantised weight [n, k], limited by the reading
 * of the weight: product.glsl says what is computed, weight.glsl how the weight lies. With TIDS a
 * batch is one row and its weight is one of a bank: w = bank[ids[batch]].
 *
 * A workgroup makes COLS columns, a multiple of 4. TEAM neighbours split k in eights and share EACH
 * columns and all rows; their sums are joined in shared memory. */
#include "common.glsl"
#include "dequant_gemv.def"
#include "weight.glsl"


const uint EACH = COLS / (THREADS / TEAM);
shared float parts[ROWS * COLS * TEAM]; /* [row][column][member] */

#if FAMILY < 4
#include "experts.glsl"
#else
Batch find_matrices(uint i) { return find_batch(i); }
#endif

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
    for (uint kk = member * 8u; kk < end; kk += TEAM * 8u) {
        Eight w[EACH];
        [[unroll]] for (uint c = 0u; c < EACH; c++) { /* clamped: repeats the last column */
            uint col = min(first + team * EACH + c, n - 1u);
            w[c] = w_eight(at.b + col * b_n, col, kk);
        }
        [[unroll]] for (uint r = 0u; r < ROWS; r++) {
            Eight x = x_eight(at.a + r * a_m, kk);
            [[unroll]] for (uint c = 0u; c < EACH; c++)
                sum[r * EACH + c] += dot(x.lo, w[c].lo) + dot(x.hi, w[c].hi);
        }
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
        for (uint j = 0u; j < FOUR; j++)
            v[j] = parts[(r * COLS + c + j) * TEAM];
        if (first + c < n)
            finish4(v, r, first + c, at);
    }
}
