/* SPDX-License-Identifier: MIT */
#version 450
/* The two numbers of each row that softmax and norms need (rows.glsl), for rows of any length and
 * layout; row_apply.comp uses them.
 *
 * A workgroup makes COLS rows with THREADS / COLS invocations each. Neighbours in the workgroup are
 * neighbours in a row, or with ACROSS neighbouring rows. A row is read twice. */
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 9) const uint COLS = 1;
layout(constant_id = 10) const uint ACROSS = 0;
layout(constant_id = 11) const uint THREADS = 64; /* the local size again */

TENSOR(0, x)
TENSOR(1, residual)
WORDS(2, stats);

const uint SLICES = THREADS / COLS;
shared float lanes[THREADS]; /* [column][slice] */

float load_x(uint at)
{
    float v = load_f_x(TX, x_at + at);
    return RESIDUAL != 0u ? round_to_x(v + load_f_residual(TX, res_at + at)) : v;
}

/* Joins the values of a row's invocations: the largest, or the sum. */
float join_lanes(uint col, uint slice, float v, bool largest)
{
    barrier();
    lanes[col * SLICES + slice] = v;
    barrier();
    for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint p = LANE / half_ * SLICES + LANE % half_;
            float a = lanes[p], b = lanes[p + half_];
            lanes[p] = largest ? (b > a ? b : a) : a + b;
        }
        barrier();
    }
    return lanes[col * SLICES];
}

void main()
{
    uint col = ACROSS != 0u ? LANE % COLS : LANE / SLICES;
    uint slice = ACROSS != 0u ? LANE / COLS : LANE % SLICES;
    uint row = GROUP_INDEX * COLS + col;
    uint base = row / inner * n * inner + row % inner, end = row < rows ? n : 0u;
    bool is_softmax = MODE == SOFTMAX || MODE == LOG_SOFTMAX;

    float centre = 0.0, sum = 0.0;
    if (is_softmax) {
        centre = -3.4028234e38;
        for (uint i = slice; i < end; i += SLICES) {
            float v = load_x(base + i * inner);
            centre = v > centre ? v : centre;
        }
        centre = join_lanes(col, slice, centre, true);
    } else if (MODE == NORM) {
        for (uint i = slice; i < end; i += SLICES)
            centre += load_x(base + i * inner);
        centre = join_lanes(col, slice, centre, false) / float(n);
    }
    for (uint i = slice; i < end; i += SLICES) {
        float v = load_x(base + i * inner) - centre;
        sum += is_softmax ? exp_down(v) : v * v;
    }
    sum = join_lanes(col, slice, sum, false);
    if (!is_softmax)
        sum = 1.0 / sqrt(sum / float(n) + eps);
    if (row < rows && slice == 0u) {
        stats[row * 2u] = floatBitsToUint(centre);
        stats[row * 2u + 1u] = floatBitsToUint(sum);
    }
}
