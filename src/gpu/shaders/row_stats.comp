/* SPDX-License-Identifier: MIT */
#version 450
/* The two numbers of each row that softmax and norms need (rows.glsl), for rows of any length and
 * layout; row_apply.comp uses them. x is read once: each invocation keeps, of what it has seen,
 *   softmax  a = the largest, b = the sum of exp(x - a)
 *   norms    a = the mean (rms: 0), b = the sum of ((x - a) * unit)^2
 * and these are joined as Chan, Golub and LeVeque do. The unit is 1 unless squares would over- or
 * underflow.
 *
 * A workgroup makes COLS rows with THREADS / COLS invocations each. Neighbours in the workgroup are
 * neighbours in a row, or with ACROSS neighbouring rows. With parts > 1 it takes `chunk` elements
 * of its rows only and leaves (a, b, unit) in stats [rows, parts]; FROM_PARTS joins those. */
#include "common.glsl"
#include "row_stats.def"
#include "rows.glsl"

TENSOR(x)
TENSOR(residual)
WORDS(pieces);
WORDS(stats);

const uint SLICES = THREADS / COLS;
const float LOWEST = -3.4028234e38;

const float SMALL_UNIT = 8.4703295e-22, LARGE_UNIT = 1.1805916e21; /* 2^-70, 2^70 */

struct Piece {
    float count, a, b, unit;
};
shared float counts[THREADS], as[THREADS], bs[THREADS], units[THREADS]; /* [column][slice] */

bool is_softmax() { return MODE == SOFTMAX || MODE == LOG_SOFTMAX; }

float load_x(uint at)
{
    float v = load_f_x(TX, x_at + at);
    return RESIDUAL != 0u ? round_to_x(v + load_f_residual(TX, res_at + at)) : v;
}

/* The unit in which the square of d neither over- nor underflows. */
float unit_for(float d)
{
    d = abs(d);
    return d > 1e15 ? SMALL_UNIT : d < 1e-15 ? LARGE_UNIT : 1.0;
}

/* a - b in a unit of at most 1, where it does not overflow; compilers would subtract first. */
float difference(float a, float b, float unit)
{
    precise float d = a * unit - b * unit;
    return d;
}

/* p.b in a unit no larger than its own. Units are powers of two, so the exponent is changed:
 * drivers take b * r * r for b * (r * r), and the square of the quotient may be subnormal. */
float squares_in(float unit, Piece p)
{
    uint bits = floatBitsToUint(p.b), exponent = bits & 0x7f800000u;
    uint down = 2u * (floatBitsToUint(p.unit) - floatBitsToUint(unit));
    if (down == 0u || exponent == 0x7f800000u)
        return p.b;
    return exponent > down ? uintBitsToFloat(bits - down) : 0.0;
}

Piece join_pieces(Piece p, Piece q)
{
    float n_both = p.count + q.count;
    if (is_softmax()) {
        float a = q.a > p.a ? q.a : p.a;
        return Piece(n_both, a, p.b * exp_down(p.a - a) + q.b * exp_down(q.a - a), 1.0);
    }
    if (p.count == 0.0)
        return q;
    if (q.count == 0.0)
        return p;
    float unit = min(p.unit, q.unit);
    if (MODE == NORM)
        unit = min(unit, unit_for(q.a - p.a));
    p.b = squares_in(unit, p);
    q.b = squares_in(unit, q);
    if (MODE == RMS)
        return Piece(n_both, 0.0, p.b + q.b, unit);
    float small = min(unit, 1.0), share = q.count / n_both;
    float apart = difference(q.a, p.a, small), d = apart * max(unit, 1.0);
    precise float a = p.a * small + apart * share;
    return Piece(n_both, a / small, p.b + q.b + d * d * p.count * share, unit);
}

/* Sums over every SLICES-th element from `first` on, of the distance from the first one. */
Piece sum_squares(uint base, uint first, uint end, float unit)
{
    float count = 0.0, sum = 0.0, squares = 0.0, small = min(unit, 1.0), large = max(unit, 1.0);
    float pivot = MODE == NORM && first < end ? load_x(base + first * inner) : 0.0;
    for (uint i = first; i < end; i += SLICES) {
        float v = difference(load_x(base + i * inner), pivot, small) * large;
        sum += v;
        squares += v * v;
        count += 1.0;
    }
    if (MODE == RMS || count == 0.0)
        return Piece(count, 0.0, squares, unit);
    float mean = sum / count, b = squares - sum * mean;
    precise float a = pivot * small + mean / large;
    return Piece(count, a / small, is_nan(b) ? b : max(b, 0.0), unit);
}

/* Every SLICES-th element from `first` on. */
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
        return Piece(0.0, a, b, 1.0);
    }
    Piece p = sum_squares(base, first, end, 1.0);
    /* by its bits: above 2^100, infinite or NaN; small squares vanish beside an ordinary eps */
    if (floatBitsToUint(p.b) > 0x71800000u)
        p = sum_squares(base, first, end, SMALL_UNIT);
    else if (eps < 1e-28 && p.b < 1e-20)
        p = sum_squares(base, first, end, LARGE_UNIT);
    return p;
}

Piece read_parts(uint row, uint first, uint end)
{
    Piece p = Piece(0.0, is_softmax() ? LOWEST : 0.0, 0.0, 1.0);
    for (uint i = first; i < end; i += SLICES) {
        uint at = (row * parts + i) * 3u;
        vec3 s = uintBitsToFloat(uvec3(pieces[at], pieces[at + 1u], pieces[at + 2u]));
        p = join_pieces(p, Piece(float(min(chunk, n - i * chunk)), s.x, s.y, s.z));
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
    units[mine] = p.unit;
    barrier();
    for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint i = LANE / half_ * SLICES + LANE % half_, j = i + half_;
            p = join_pieces(Piece(counts[i], as[i], bs[i], units[i]),
                            Piece(counts[j], as[j], bs[j], units[j]));
            counts[i] = p.count;
            as[i] = p.a;
            bs[i] = p.b;
            units[i] = p.unit;
        }
        barrier();
    }
    row = block * COLS + LANE;
    if (LANE >= COLS || row >= rows)
        return;
    float a = as[LANE * SLICES], b = bs[LANE * SLICES], unit = units[LANE * SLICES];
    if (!is_softmax() && n_parts == 1u) {
        a *= unit;
        b = norm_factor(b / float(n), unit);
    }
    uint at = (row * n_parts + part) * 3u;
    stats[at] = floatBitsToUint(a);
    stats[at + 1u] = floatBitsToUint(b);
    stats[at + 2u] = floatBitsToUint(unit);
}
