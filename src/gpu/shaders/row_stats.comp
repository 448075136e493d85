/* SPDX-License-Identifier: MIT */
#version 450
/* The two numbers of each row that softmax and norms need (rows.glsl), for rows of any length and
 * layout; row_apply.comp uses them. x is read once: each invocation keeps, of what it has seen,
 *   softmax  a = the largest, b = the sum of exp(x - a)
 *   norms    a = the mean (rms: 0), b = the sum of (x - a)^2
 * and these are joined as Chan, Golub and LeVeque do.
 *
 * A workgroup makes COLS rows with THREADS / COLS invocations each. Neighbours in the workgroup are
 * neighbours in a row, or with ACROSS neighbouring rows. With parts > 1 it takes `chunk` elements
 * of its rows only and leaves (a, b) in stats [rows, parts]; with FROM_PARTS it joins those. */
#include "common.glsl"
#include "rows.glsl"

layout(constant_id = 9) const uint COLS = 1;
layout(constant_id = 10) const uint ACROSS = 0;
layout(constant_id = 11) const uint FROM_PARTS = 0;
layout(constant_id = 12) const uint THREADS = 64; /* the local size again */

TENSOR(0, x)
TENSOR(1, residual)
WORDS(2, pieces);
WORDS(3, stats);

const uint SLICES = THREADS / COLS;
const float LOWEST = -3.4028234e38;

struct Piece {
    float count, a, b;
};
shared float counts[THREADS], as[THREADS], bs[THREADS]; /* [column][slice] */

bool is_softmax() { return MODE == SOFTMAX || MODE == LOG_SOFTMAX; }

float load_x(uint at)
{
    float v = load_f_x(TX, x_at + at);
    return RESIDUAL != 0u ? round_to_x(v + load_f_residual(TX, res_at + at)) : v;
}

Piece join_pieces(Piece p, Piece q)
{
    float n_both = p.count + q.count;
    if (is_softmax()) {
        float a = q.a > p.a ? q.a : p.a;
        return Piece(n_both, a, p.b * exp_down(p.a - a) + q.b * exp_down(q.a - a));
    }
    if (MODE == RMS || p.count == 0.0)
        return Piece(n_both, q.a, p.b + q.b);
    if (q.count == 0.0)
        return p;
    float d = q.a - p.a, share = q.count / n_both;
    return Piece(n_both, p.a + d * share, p.b + q.b + d * d * p.count * share);
}

/* Every SLICES-th element from `first` on. Sums are taken of the distance from the first one. */
Piece read_piece(uint base, uint first, uint end)
{
    if (is_softmax()) {
        float a = LOWEST, b = 0.0;
        for (uint i = first; i < end; i += SLICES) {
            float v = load_x(base + i * inner);
            if (v > a) {
                b *= exp_down(a - v);
                a = v;
            }
            b += exp_down(v - a);
        }
        return Piece(0.0, a, b);
    }
    float count = 0.0, sum = 0.0, squares = 0.0;
    float pivot = MODE == NORM && first < end ? load_x(base + first * inner) : 0.0;
    for (uint i = first; i < end; i += SLICES) {
        float v = load_x(base + i * inner) - pivot;
        sum += v;
        squares += v * v;
        count += 1.0;
    }
    if (MODE == RMS || count == 0.0)
        return Piece(count, 0.0, squares);
    float mean = sum / count;
    return Piece(count, pivot + mean, max(squares - sum * mean, 0.0));
}

Piece read_parts(uint row, uint first, uint end)
{
    Piece p = Piece(0.0, is_softmax() ? LOWEST : 0.0, 0.0);
    for (uint i = first; i < end; i += SLICES) {
        uint at = (row * parts + i) * 2u;
        vec2 ab = uintBitsToFloat(uvec2(pieces[at], pieces[at + 1u]));
        p = join_pieces(p, Piece(float(min(chunk, n - i * chunk)), ab.x, ab.y));
    }
    return p;
}

void main()
{
    uint n_parts = FROM_PARTS != 0u ? 1u : parts;
    uint block = GROUP_INDEX / n_parts, part = GROUP_INDEX % n_parts;
    uint col = ACROSS != 0u ? LANE % COLS : LANE / SLICES;
    uint slice = ACROSS != 0u ? LANE / COLS : LANE % SLICES;
    uint row = block * COLS + col, mine = col * SLICES + slice;
    uint base = row / inner * n * inner + row % inner;
    Piece p;
    if (FROM_PARTS != 0u)
        p = read_parts(row, slice, row < rows ? parts : 0u);
    else
        p = read_piece(base, part * chunk + slice, row < rows ? min(n, (part + 1u) * chunk) : 0u);
    counts[mine] = p.count;
    as[mine] = p.a;
    bs[mine] = p.b;
    barrier();
    for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint i = LANE / half_ * SLICES + LANE % half_, j = i + half_;
            p = join_pieces(Piece(counts[i], as[i], bs[i]), Piece(counts[j], as[j], bs[j]));
            counts[i] = p.count;
            as[i] = p.a;
            bs[i] = p.b;
        }
        barrier();
    }
    row = block * COLS + LANE;
    if (LANE >= COLS || row >= rows)
        return;
    float a = as[LANE * SLICES], b = bs[LANE * SLICES];
    if (!is_softmax() && n_parts == 1u)
        b = 1.0 / sqrt(b / float(n) + eps);
    uint at = (row * n_parts + part) * 2u;
    stats[at] = floatBitsToUint(a);
    stats[at + 1u] = floatBitsToUint(b);
}
