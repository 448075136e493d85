/* SPDX-License-Identifier: MIT */
#version 450
/* One pass of Fourier transforms of `length` points, Y[o] = sum_e exp(-2 pi i e o / length) X[e],
 * over many lines: Stockham's form with a radix as large as shared memory allows. With `done` the
 * product of the radices of the passes before, and column i of length / radix of a line:
 *     take the points X[i + r * length / radix], times exp(-2 pi i r k / (radix * done)) with
 *     k = i % done; transform them; write point q to Y[(i - k) * radix + k + q * done].
 * After the last pass Y is in order. A line that fits is one pass. The inverse transform is the
 * conjugate of the forward one of the conjugate. A point that is not finite is NaN in both parts,
 * which makes all of its line NaN.
 *
 * A workgroup does COLUMNS columns in shared memory, by the same method with radices 2, 3, 4, 5, 8
 * and small primes (`stages`, one a byte).
 *
 * Bluestein's transform of `points` points for other lengths: with c[j] = exp(-pi i j^2 / points),
 * Y[k] = c[k] * sum_j (X[j] c[j]) conj(c[k - j]) is a convolution, done by transforms of a power of
 * two. FROM_CHIRP makes conj(c), TO_PRODUCT multiplies by its transform; the rest is BLUESTEIN.
 *
 * FROM_PAIRS and TO_BINS transform an even number of reals in one pass: with Z the transform of
 * x[2e] + i x[2e + 1], m = points / 2 and E, O the transforms of the even and the odd ones,
 * E[k] = (Z[k] + conj(Z[m - k])) / 2, O[k] = -i (Z[k] - conj(Z[m - k])) / 2 and
 * Y[k] = E[k] + exp(-2 pi i k / points) O[k]. TO_HALF: bins of reals from a complex transform. */
#include "common.glsl"
#include "fft.def"
#include "circle.glsl"

TENSOR(x)
WORDS(y);
WORDS(spectrum); /* TO_PRODUCT: f32 pairs [length] */

shared vec2 memory[2u * HALF];
shared vec2 circle[64]; /* roots of a prime */

/* ---- Complex numbers ------------------------------------------------------------------------- */

vec2 cmul(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 a) { return vec2(a.x, -a.y); }
vec2 times_minus_i(vec2 a) { return vec2(a.y, -a.x); }
vec2 twiddle(uint j, uint n) { return conjugate(root_of_unity(j, n)); }

/* j^2 modulo n, n below 2^31. */
uint square_mod(uint j, uint n)
{
    uint high, low;
    umulExtended(j, j, high, low);
    if (high == 0u)
        return low % n;
    uint rest = high % n;
    for (int bit = 31; bit >= 0; bit--) {
        rest = rest << 1 | ((low >> uint(bit)) & 1u);
        rest -= rest >= n ? n : 0u;
    }
    return rest;
}

/* exp(-pi i j^2 / points) */
vec2 chirp(uint j) { return twiddle(square_mod(j, 2u * points), 2u * points); }

/* ---- Points in memory ------------------------------------------------------------------------ */

#include "finite.glsl"

vec2 check_point(vec2 v)
{
    return is_finite(v.x) && is_finite(v.y) ? v : vec2(uintBitsToFloat(0x7fc00000u));
}

vec2 load_bin(uint line, uint e)
{
    uint at = ((line / x_inner * x_size + e) * x_inner + line % x_inner) * 2u + x_at;
    return e < x_size ? vec2(load_f_x(TX, at), load_f_x(TX, at + 1u)) : vec2(0.0);
}

float load_real(uint line, uint e)
{
    uint at = (line / x_inner * x_size + e) * x_inner + line % x_inner + x_at;
    return e < x_size ? load_f_x(TX, at) : 0.0;
}

/* Point e < points of a line of the input. */
vec2 load_signal(uint line, uint e)
{
    vec2 v = vec2(0.0);
    if (FROM == FROM_COMPLEX) {
        v = load_bin(line, e);
    } else if (FROM == FROM_REAL) {
        v.x = load_real(line, e);
    } else {
        bool mirrored = 2u * e > points;
        v = load_bin(line, mirrored ? points - e : e);
        if (e == 0u || 2u * e == points)
            v.y = 0.0;
        if (mirrored)
            v = conjugate(v);
    }
    return check_point(INVERSE != 0u ? conjugate(v) : v);
}

vec2 load_point(uint line, uint e)
{
    if (FROM == FROM_SCRATCH) {
        uint at = 2u * (line * length + e);
        return vec2(uintBitsToFloat(x[at]), uintBitsToFloat(x[at + 1u]));
    }
    if (FROM == FROM_CHIRP) {
        uint j = min(e, length - e);
        return j < points ? conjugate(chirp(j)) / float(length) : vec2(0.0);
    }
    if (FROM == FROM_PAIRS)
        return check_point(vec2(load_real(line, 2u * e), load_real(line, 2u * e + 1u)));
    if (BLUESTEIN == 0u)
        return load_signal(line, e);
    return e < points ? cmul(load_signal(line, e), chirp(e)) : vec2(0.0);
}

void store_pair(uint i, uint t, vec2 v)
{
    if (t == F32) {
        y[2u * i] = floatBitsToUint(v.x);
        y[2u * i + 1u] = floatBitsToUint(v.y);
    } else {
        y[i] = encode_f(t, v.x) | encode_f(t, v.y) << 16;
    }
}

void store_point(uint line, uint o, vec2 v)
{
    if (TO == TO_PRODUCT) {
        vec2 s = vec2(uintBitsToFloat(spectrum[2u * o]), uintBitsToFloat(spectrum[2u * o + 1u]));
        v = conjugate(cmul(v, s));
    }
    if (TO == TO_SCRATCH || TO == TO_PRODUCT) {
        store_pair(line * length + o, F32, v);
        return;
    }
    if (o >= y_size)
        return;
    if (BLUESTEIN != 0u)
        v = cmul(conjugate(v), chirp(o));
    v *= scale;
    if (TO == TO_HALF && (o == 0u || 2u * o == points) && is_finite(v.x))
        v.y = 0.0;
    uint at = (line / y_inner * y_size + o) * y_inner + line % y_inner;
    if (TO == TO_REAL)
        y[at] = floatBitsToUint(v.x);
    else
        store_pair(at, TY, INVERSE != 0u ? conjugate(v) : v);
}

/* ---- Radices --------------------------------------------------------------------------------- */

void radix2(uint from, uint step, uint to, uint gap, vec2 w)
{
    vec2 a = memory[from], b = cmul(memory[from + step], w);
    memory[to] = a + b;
    memory[to + gap] = a - b;
}

void radix3(uint from, uint step, uint to, uint gap, vec2 w)
{
    vec2 a = memory[from], b = cmul(memory[from + step], w);
    vec2 c = cmul(memory[from + 2u * step], cmul(w, w));
    vec2 sum = b + c, mid = a - 0.5 * sum;
    vec2 turn = times_minus_i(b - c) * 0.86602540378443865;
    memory[to] = a + sum;
    memory[to + gap] = mid + turn;
    memory[to + 2u * gap] = mid - turn;
}

struct Four {
    vec2 a, b, c, d;
};

Four transform4(vec2 x0, vec2 x1, vec2 x2, vec2 x3)
{
    vec2 s = x0 + x2, t = x0 - x2, u = x1 + x3, v = times_minus_i(x1 - x3);
    return Four(s + u, t + v, s - u, t - v);
}

void radix4(uint from, uint step, uint to, uint gap, vec2 w)
{
    vec2 w2 = cmul(w, w);
    Four f = transform4(memory[from], cmul(memory[from + step], w),
                        cmul(memory[from + 2u * step], w2),
                        cmul(memory[from + 3u * step], cmul(w2, w)));
    memory[to] = f.a;
    memory[to + gap] = f.b;
    memory[to + 2u * gap] = f.c;
    memory[to + 3u * gap] = f.d;
}

void radix5(uint from, uint step, uint to, uint gap, vec2 w)
{
    const float c1 = 0.30901699437494742, c2 = -0.80901699437494742;
    const float s1 = 0.95105651629515357, s2 = 0.58778525229247313;
    vec2 w2 = cmul(w, w), a = memory[from];
    vec2 b = cmul(memory[from + step], w), c = cmul(memory[from + 2u * step], w2);
    vec2 d = cmul(memory[from + 3u * step], cmul(w2, w));
    vec2 e = cmul(memory[from + 4u * step], cmul(w2, w2));
    vec2 p1 = b + e, p2 = c + d, m1 = times_minus_i(b - e), m2 = times_minus_i(c - d);
    vec2 near = a + c1 * p1 + c2 * p2, near_turn = s1 * m1 + s2 * m2;
    vec2 far = a + c2 * p1 + c1 * p2, far_turn = s2 * m1 - s1 * m2;
    memory[to] = a + p1 + p2;
    memory[to + gap] = near + near_turn;
    memory[to + 2u * gap] = far + far_turn;
    memory[to + 3u * gap] = far - far_turn;
    memory[to + 4u * gap] = near - near_turn;
}

void radix8(uint from, uint step, uint to, uint gap, vec2 w)
{
    const float r = 0.70710678118654752;
    vec2 w2 = cmul(w, w), w3 = cmul(w2, w), w4 = cmul(w2, w2);
    Four e = transform4(memory[from], cmul(memory[from + 2u * step], w2),
                        cmul(memory[from + 4u * step], w4),
                        cmul(memory[from + 6u * step], cmul(w3, w3)));
    Four o = transform4(cmul(memory[from + step], w), cmul(memory[from + 3u * step], w3),
                        cmul(memory[from + 5u * step], cmul(w4, w)),
                        cmul(memory[from + 7u * step], cmul(w4, w3)));
    o.b = vec2(o.b.x + o.b.y, o.b.y - o.b.x) * r;
    o.c = times_minus_i(o.c);
    o.d = vec2(o.d.y - o.d.x, -o.d.x - o.d.y) * r;
    memory[to] = e.a + o.a;
    memory[to + gap] = e.b + o.b;
    memory[to + 2u * gap] = e.c + o.c;
    memory[to + 3u * gap] = e.d + o.d;
    memory[to + 4u * gap] = e.a - o.a;
    memory[to + 5u * gap] = e.b - o.b;
    memory[to + 6u * gap] = e.c - o.c;
    memory[to + 7u * gap] = e.d - o.d;
}

/* Any radix r, directly; `circle` has its roots. k of `turn` is the angle of the twiddle. */
void radix_any(uint r, uint from, uint step, uint to, uint gap, uint k, uint turn)
{
    for (uint s = 1u; s < r; s++)
        memory[from + s * step] = cmul(memory[from + s * step], twiddle(k * s, turn));
    for (uint q = 0u; q < r; q++) {
        vec2 sum = memory[from];
        uint j = 0u;
        for (uint s = 1u; s < r; s++) {
            j += q;
            j -= j >= r ? r : 0u;
            sum += cmul(memory[from + s * step], circle[j]);
        }
        memory[to + q * gap] = sum;
    }
}

/* One stage on all columns: radix r after stages of product `before`, from one half of the memory
 * to the other. */
void run_stage(uint r, uint before, uint source, uint target)
{
    uint step = radix / r, turn = r * before;
    for (uint t = LANE; t < COLUMNS * step; t += gl_WorkGroupSize.x) {
        uint column = t / step, j = t % step, k = j % before;
        uint from = source + column * pitch + j;
        uint to = target + column * pitch + (j - k) * r + k;
        vec2 w = before > 1u && r <= 8u ? twiddle(k, turn) : vec2(1.0, 0.0);
        switch (r) {
        case 2: radix2(from, step, to, before, w); break;
        case 3: radix3(from, step, to, before, w); break;
        case 4: radix4(from, step, to, before, w); break;
        case 5: radix5(from, step, to, before, w); break;
        case 8: radix8(from, step, to, before, w); break;
        default: radix_any(r, from, step, to, before, k, turn); break;
        }
    }
}

/* ---- The pass -------------------------------------------------------------------------------- */

void load_columns(uint first)
{
    uint step = length / radix;
    for (uint t = LANE; t < COLUMNS * radix; t += gl_WorkGroupSize.x) {
        uint column = LOAD_ACROSS != 0u ? t % COLUMNS : t / radix;
        uint r = LOAD_ACROSS != 0u ? t / COLUMNS : t % radix;
        uint c = first + column, i = c % step;
        vec2 v = vec2(0.0);
        if (c < n_columns)
            v = load_point(c / step, i + r * step);
        if (done > 1u)
            v = cmul(v, twiddle(r * (i % done), radix * done));
        memory[column * pitch + r] = v;
    }
}

void store_columns(uint first, uint source)
{
    uint step = length / radix;
    for (uint t = LANE; t < COLUMNS * radix; t += gl_WorkGroupSize.x) {
        uint column = STORE_ACROSS != 0u ? t % COLUMNS : t / radix;
        uint q = STORE_ACROSS != 0u ? t / COLUMNS : t % radix;
        uint c = first + column, i = c % step, k = i % done;
        if (c < n_columns)
            store_point(c / step, (i - k) * radix + k + q * done,
                        memory[source + column * pitch + q]);
    }
}

/* The bins of real signals; `source` has the transforms of their pairs. */
void store_bins(uint first, uint source)
{
    for (uint t = LANE; t < COLUMNS * y_size; t += gl_WorkGroupSize.x) {
        uint column = STORE_ACROSS != 0u ? t % COLUMNS : t / y_size;
        uint k = STORE_ACROSS != 0u ? t / COLUMNS : t % y_size;
        uint line = source + column * pitch, other = k == 0u ? 0u : radix - k;
        vec2 a = memory[line + (k == radix ? 0u : k)], b = conjugate(memory[line + other]);
        vec2 odd = cmul(times_minus_i(a - b), twiddle(k, points));
        if (first + column < n_columns)
            store_point(first + column, k, 0.5 * (a + b + odd));
    }
}

void main()
{
    if (GROUP_INDEX >= n_groups) /* uniform over the workgroup */
        return;
    uint first = GROUP_INDEX * COLUMNS, before = 1u, source = 0u;
    load_columns(first);
    barrier();
    for (uint stage = 0u; stage < n_stages; stage++) {
        uint r = ((stage < 4u ? stages_0 : stages_1) >> (stage % 4u * 8u)) & 0xffu;
        if (r > 5u && r != 8u) {
            for (uint j = LANE; j < r; j += gl_WorkGroupSize.x)
                circle[j] = twiddle(j, r);
            barrier();
        }
        run_stage(r, before, source, HALF - source);
        barrier();
        before *= r;
        source = HALF - source;
    }
    if (TO == TO_BINS)
        store_bins(first, source);
    else
        store_columns(first, source);
}
