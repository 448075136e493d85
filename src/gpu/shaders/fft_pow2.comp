/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Fourier transforms of dense lines of L = 2^LOG complex numbers, Y[o] = sum_e exp(-2 pi i e o / L)
 * X[e]: fft.comp says how, this is its fast form. The inverse is the conjugate of the transform of
 * the conjugate. BINS: the L + 1 bins of 2 L reals, whose pairs are X, or back.
 *
 * A line has T = L / P invocations, each with the points t + i T in registers, P = POINTS: 8 or
 * 16. Every stage of radix P multiplies by twiddles, transforms, and exchanges the points through
 * shared memory; a last one of radix 2, 4 or 8 does what is left. Real and imaginary parts are
 * exchanged one after the other, through the same words: that halves the memory, and more
 * workgroups are under way at a time. A workgroup does LINES lines. An invocation that has loaded a
 * number that is not finite sets a point to NaN, which makes all of the line NaN. */
#include "common.glsl"
#include "fft_pow2.def"

const uint P = POINTS, L = 1u << LOG, T = L / P, PITCH = L + T;
const uint REST = LOG % (P == 16u ? 4u : 3u); /* log2 of the last radix, 0: none */
const uint STEP = BINS != 0u ? 2u : 1u; /* stride of the table */
const uint BANKS = 32u;

layout(SLOT(x), std430) readonly buffer buffer_x { uvec2 x[]; };
layout(SLOT(y), std430) buffer buffer_y { uvec2 y[]; };
layout(SLOT(roots), std430) readonly buffer buffer_r { uvec2 roots[]; };

shared float memory[LINES * PITCH];

vec2 v[P];

/* ---- Complex numbers ------------------------------------------------------------------------- */

vec2 cmul(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 a) { return vec2(a.x, -a.y); }
vec2 times_minus_i(vec2 a) { return vec2(a.y, -a.x); }
vec2 root(uint i) { return uintBitsToFloat(roots[i]); }

/* cos(2 pi n / 32), n <= 8, a constant */
float cos32(uint n)
{
    return n == 0u   ? 1.0
           : n == 1u ? 0.98078528040323045
           : n == 2u ? 0.92387953251128676
           : n == 3u ? 0.83146961230254524
           : n == 4u ? 0.70710678118654752
           : n == 5u ? 0.55557023301960222
           : n == 6u ? 0.38268343236508977
           : n == 7u ? 0.19509032201612827
                     : 0.0;
}

/* exp(-2 pi i n / 32), n <= 16 */
vec2 root32(uint n)
{
    return n <= 8u ? vec2(cos32(n), -cos32(8u - n)) : vec2(-cos32(16u - n), -cos32(n - 8u));
}

/* ---- Transforms in registers ----------------------------------------------------------------- */

struct Four {
    vec2 a, b, c, d;
};

Four transform4(vec2 x0, vec2 x1, vec2 x2, vec2 x3)
{
    vec2 s = x0 + x2, t = x0 - x2, u = x1 + x3, w = times_minus_i(x1 - x3);
    return Four(s + u, t + w, s - u, t - w);
}

/* Points m + n P / 8 times w^n. */
void turn8(uint m, vec2 w)
{
    const uint S = P / 8u;
    vec2 w2 = cmul(w, w), w3 = cmul(w2, w), w4 = cmul(w2, w2);
    v[m + S] = cmul(v[m + S], w);
    v[m + 2u * S] = cmul(v[m + 2u * S], w2);
    v[m + 3u * S] = cmul(v[m + 3u * S], w3);
    v[m + 4u * S] = cmul(v[m + 4u * S], w4);
    v[m + 5u * S] = cmul(v[m + 5u * S], cmul(w4, w));
    v[m + 6u * S] = cmul(v[m + 6u * S], cmul(w3, w3));
    v[m + 7u * S] = cmul(v[m + 7u * S], cmul(w4, w3));
}

/* Of the points m + n P / 8. */
void transform8(uint m)
{
    const uint S = P / 8u;
    const float r = 0.70710678118654752;
    Four e = transform4(v[m], v[m + 2u * S], v[m + 4u * S], v[m + 6u * S]);
    Four o = transform4(v[m + S], v[m + 3u * S], v[m + 5u * S], v[m + 7u * S]);
    o.b = vec2(o.b.x + o.b.y, o.b.y - o.b.x) * r;
    o.c = times_minus_i(o.c);
    o.d = vec2(o.d.y - o.d.x, -o.d.x - o.d.y) * r;
    v[m] = e.a + o.a;
    v[m + S] = e.b + o.b;
    v[m + 2u * S] = e.c + o.c;
    v[m + 3u * S] = e.d + o.d;
    v[m + 4u * S] = e.a - o.a;
    v[m + 5u * S] = e.b - o.b;
    v[m + 6u * S] = e.c - o.c;
    v[m + 7u * S] = e.d - o.d;
}

#if POINTS == 16
/* Point n times w^n. */
void turn_points(vec2 w)
{
    vec2 w2 = cmul(w, w), w3 = cmul(w2, w), w4 = cmul(w2, w2), w8 = cmul(w4, w4);
    vec2 w12 = cmul(w8, w4);
    v[1] = cmul(v[1], w);
    v[2] = cmul(v[2], w2);
    v[3] = cmul(v[3], w3);
    v[4] = cmul(v[4], w4);
    v[5] = cmul(v[5], cmul(w4, w));
    v[6] = cmul(v[6], cmul(w4, w2));
    v[7] = cmul(v[7], cmul(w4, w3));
    v[8] = cmul(v[8], w8);
    v[9] = cmul(v[9], cmul(w8, w));
    v[10] = cmul(v[10], cmul(w8, w2));
    v[11] = cmul(v[11], cmul(w8, w3));
    v[12] = cmul(v[12], w12);
    v[13] = cmul(v[13], cmul(w12, w));
    v[14] = cmul(v[14], cmul(w12, w2));
    v[15] = cmul(v[15], cmul(w12, w3));
}

void transform_points()
{
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        Four f = transform4(v[j], v[j + 4u], v[j + 8u], v[j + 12u]);
        v[j] = f.a;
        v[j + 4u] = f.b;
        v[j + 8u] = f.c;
        v[j + 12u] = f.d;
    }
    const float c = 0.92387953251128676, s = 0.38268343236508977, r = 0.70710678118654752;
    v[5] = cmul(v[5], vec2(c, -s));
    v[6] = vec2(v[6].x + v[6].y, v[6].y - v[6].x) * r;
    v[7] = cmul(v[7], vec2(s, -c));
    v[9] = vec2(v[9].x + v[9].y, v[9].y - v[9].x) * r;
    v[10] = times_minus_i(v[10]);
    v[11] = vec2(v[11].y - v[11].x, -v[11].x - v[11].y) * r;
    v[13] = cmul(v[13], vec2(s, -c));
    v[14] = vec2(v[14].y - v[14].x, -v[14].x - v[14].y) * r;
    v[15] = cmul(v[15], vec2(-c, s));
    Four f[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        f[j] = transform4(v[4u * j], v[4u * j + 1u], v[4u * j + 2u], v[4u * j + 3u]);
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        v[j] = f[j].a;
        v[j + 4u] = f[j].b;
        v[j + 8u] = f[j].c;
        v[j + 12u] = f[j].d;
    }
}
#else
void turn_points(vec2 w) { turn8(0u, w); }
void transform_points() { transform8(0u); }
#endif

/* Of the points m + n P / 4, times w^n before. */
void finish4(uint m, vec2 w)
{
    const uint S = P / 4u;
    vec2 w2 = cmul(w, w);
    Four f = transform4(v[m], cmul(v[m + S], w), cmul(v[m + 2u * S], w2),
                        cmul(v[m + 3u * S], cmul(w2, w)));
    v[m] = f.a;
    v[m + S] = f.b;
    v[m + 2u * S] = f.c;
    v[m + 3u * S] = f.d;
}

void finish2(uint m, vec2 w)
{
    vec2 a = v[m], b = cmul(v[m + P / 2u], w);
    v[m] = a + b;
    v[m + P / 2u] = a - b;
}

/* The last stage. Twiddle m is the first one times a root of order P. */
void finish(uint t)
{
    const uint S = 32u / P;
    vec2 w = root(t * STEP);
    if (REST == 1u)
        [[unroll]] for (uint m = 0u; m < P / 2u; m++)
            finish2(m, cmul(w, root32(m * S)));
    if (REST == 2u)
        [[unroll]] for (uint m = 0u; m < P / 4u; m++)
            finish4(m, cmul(w, root32(m * S)));
    if (REST == 3u)
        [[unroll]] for (uint m = 0u; m < P / 8u; m++) {
            turn8(m, cmul(w, root32(m * S)));
            transform8(m);
        }
}

/* ---- Exchanges ------------------------------------------------------------------------------- */

/* Offset of point i of a line after stages of product `done`: padded so that adjacent invocations
 * write to different banks. */
uint place(uint i, uint done)
{
    return done < BANKS ? i + i / max(BANKS, P * done) * done : i;
}

void exchange(uint slot, uint t, uint done)
{
    uint k = t % done, from = slot * PITCH + place(t, done);
    uint to = slot * PITCH + place((t - k) * P + k, done);
    [[unroll]] for (uint q = 0u; q < P; q++)
        memory[to + place(q * done, done)] = v[q].x;
    barrier();
    [[unroll]] for (uint i = 0u; i < P; i++)
        v[i].x = memory[from + place(i * T, done)];
    barrier();
    [[unroll]] for (uint q = 0u; q < P; q++)
        memory[to + place(q * done, done)] = v[q].y;
    barrier();
    [[unroll]] for (uint i = 0u; i < P; i++)
        v[i].y = memory[from + place(i * T, done)];
    barrier();
}

void stage(uint slot, uint t, uint done)
{
    if (done > 1u)
        turn_points(root(t % done * (T / done) * STEP));
    transform_points();
    if (done * P < L)
        exchange(slot, t, done);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Bins k and L - k are made of points k and L - k: of invocations t and T - t, each of which does
 * the pairs whose k is below L / 2. t = 0 has its own. */
void store_bins(uint slot, uint line, uint t)
{
    const uint H = P / 2u, base = slot * PITCH;
    vec2 b[H];
    uint other = t == 0u ? 0u : T - t;
    [[unroll]] for (uint i = 0u; i < H; i++)
        memory[base + i * T + other] = t == 0u ? v[(P - i) % P].x : v[P - 1u - i].x;
    barrier();
    [[unroll]] for (uint i = 0u; i < H; i++)
        b[i].x = memory[base + i * T + t];
    barrier();
    [[unroll]] for (uint i = 0u; i < H; i++)
        memory[base + i * T + other] = t == 0u ? v[(P - i) % P].y : v[P - 1u - i].y;
    barrier();
    [[unroll]] for (uint i = 0u; i < H; i++)
        b[i].y = -memory[base + i * T + t];
    if (line >= n_lines)
        return;
    vec2 w = times_minus_i(root(t));
    uint at = y_at + line * (L + 1u);
    [[unroll]] for (uint i = 0u; i < H; i++) {
        uint k = t + i * T;
        vec2 even = 0.5 * scale * (v[i] + b[i]);
        vec2 odd = cmul(0.5 * scale * (v[i] - b[i]), cmul(w, root32(i * (16u / P))));
        y[at + k] = floatBitsToUint(even + odd);
        y[at + L - k] = floatBitsToUint(conjugate(even - odd));
    }
    if (t == 0u)
        y[at + L / 2u] = floatBitsToUint(scale * conjugate(v[H]));
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* Adds magnitudes, scaled so that the sum is finite unless one of them is not. */
float add_size(float size, vec2 a)
{
    const float part = 9.5367432e-7; /* 2^-20 */
    return size + abs(a.x) * part + abs(a.y) * part;
}

void check_points(float size)
{
    if ((floatBitsToUint(size) & 0x7f800000u) == 0x7f800000u)
        v[0] = vec2(uintBitsToFloat(0x7fc00000u));
}

void load_points(uint from)
{
    float size = 0.0;
    [[unroll]] for (uint i = 0u; i < P; i++) {
        v[i] = uintBitsToFloat(x[from + i * T]);
        v[i].y = INVERSE != 0u ? -v[i].y : v[i].y;
        size = add_size(size, v[i]);
    }
    check_points(size);
}

/* With E and O the transforms of the even and the odd reals, E + i O of bins k and L - k, times 2,
 * conjugate. */
void load_bins(uint from, uint t)
{
    vec2 w = times_minus_i(root(t));
    float size = 0.0;
    [[unroll]] for (uint i = 0u; i < P; i++) {
        uint k = t + i * T;
        vec2 a = conjugate(uintBitsToFloat(x[from + k])), b = uintBitsToFloat(x[from + L - k]);
        if (k == 0u) {
            a.y = 0.0;
            b.y = 0.0;
        }
        size = add_size(add_size(size, a), b);
        v[i] = a + b + cmul(a - b, cmul(w, root32(i * (16u / P))));
    }
    check_points(size);
}

void main()
{
    uint slot = LANE / T, t = LANE % T, line = GROUP_INDEX * LINES + slot;
    uint own = min(line, n_lines - 1u);
    if (BINS == POW2_FROM_BINS)
        load_bins(x_at + own * (L + 1u), t);
    else
        load_points(x_at + own * L + t);
    stage(slot, t, 1u);
    if (P * P <= L)
        stage(slot, t, P);
    if (P * P * P <= L)
        stage(slot, t, P * P);
    if (P * P * P * P <= L)
        stage(slot, t, P * P * P);
    if (REST != 0u)
        finish(t);
    if (BINS == POW2_TO_BINS) {
        store_bins(slot, line, t);
        return;
    }
    if (line >= n_lines)
        return;
    [[unroll]] for (uint i = 0u; i < P; i++) {
        vec2 z = v[i] * scale;
        y[y_at + line * L + t + i * T] = floatBitsToUint(INVERSE != 0u ? conjugate(z) : z);
    }
}
