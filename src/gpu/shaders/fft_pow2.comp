/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Fourier transforms of dense lines of L = 2^LOG complex numbers, Y[o] = sum_e exp(-2 pi i e o / L)
 * X[e]: fft.comp says how, this is its fast form. The inverse is the conjugate of the transform of
 * the conjugate. BINS: the L + 1 bins of 2 L reals, whose pairs are X.
 *
 * A line has T = L / 8 invocations, each with the points t + i T in registers. Every stage of radix
 * 8 multiplies by twiddles, transforms, and exchanges the points through shared memory; a last one
 * of radix 2 or 4 does what is left. A workgroup does LINES lines. Nothing is read twice. */
#include "common.glsl"

layout(constant_id = 1) const uint LOG = 6;
layout(constant_id = 2) const uint LINES = 1;
layout(constant_id = 3) const uint BINS = 0;
layout(constant_id = 4) const uint INVERSE = 0;

const uint L = 1u << LOG, T = L / 8u, PITCH = L + T;
const uint STEP = BINS != 0u ? 2u : 1u; /* of the table, for one of L */

layout(push_constant) uniform Push {
    uint n_lines, x_at, y_at; /* in pairs */
    float scale;
};

layout(set = 0, binding = 0, std430) readonly buffer buffer_x { uvec2 x[]; };
layout(set = 0, binding = 1, std430) buffer buffer_y { uvec2 y[]; };
layout(set = 0, binding = 2, std430) readonly buffer buffer_r { uvec2 roots[]; };

shared vec2 memory[LINES * PITCH]; /* a gap after each eight points, against conflicts */

vec2 v[8];

vec2 cmul(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }
vec2 conjugate(vec2 a) { return vec2(a.x, -a.y); }
vec2 times_minus_i(vec2 a) { return vec2(a.y, -a.x); }
vec2 root(uint i) { return uintBitsToFloat(roots[i]); }
uint place(uint line, uint i) { return line * PITCH + i + i / 8u; }

struct Four {
    vec2 a, b, c, d;
};

Four transform4(vec2 x0, vec2 x1, vec2 x2, vec2 x3)
{
    vec2 s = x0 + x2, t = x0 - x2, u = x1 + x3, w = times_minus_i(x1 - x3);
    return Four(s + u, t + w, s - u, t - w);
}

void transform8()
{
    const float r = 0.70710678118654752;
    Four e = transform4(v[0], v[2], v[4], v[6]), o = transform4(v[1], v[3], v[5], v[7]);
    o.b = vec2(o.b.x + o.b.y, o.b.y - o.b.x) * r;
    o.c = times_minus_i(o.c);
    o.d = vec2(o.d.y - o.d.x, -o.d.x - o.d.y) * r;
    v[0] = e.a + o.a;
    v[1] = e.b + o.b;
    v[2] = e.c + o.c;
    v[3] = e.d + o.d;
    v[4] = e.a - o.a;
    v[5] = e.b - o.b;
    v[6] = e.c - o.c;
    v[7] = e.d - o.d;
}

/* Times the powers of w. */
void turn8(vec2 w)
{
    vec2 w2 = cmul(w, w), w3 = cmul(w2, w), w4 = cmul(w2, w2);
    v[1] = cmul(v[1], w);
    v[2] = cmul(v[2], w2);
    v[3] = cmul(v[3], w3);
    v[4] = cmul(v[4], w4);
    v[5] = cmul(v[5], cmul(w4, w));
    v[6] = cmul(v[6], cmul(w3, w3));
    v[7] = cmul(v[7], cmul(w4, w3));
}

/* Two transforms of four points, those with even and those with odd numbers. */
void finish4(uint t)
{
    [[unroll]] for (uint m = 0u; m < 2u; m++) {
        vec2 w = root((t + m * T) * STEP), w2 = cmul(w, w);
        Four f = transform4(v[m], cmul(v[m + 2u], w), cmul(v[m + 4u], w2),
                            cmul(v[m + 6u], cmul(w2, w)));
        v[m] = f.a;
        v[m + 2u] = f.b;
        v[m + 4u] = f.c;
        v[m + 6u] = f.d;
    }
}

void finish2(uint t)
{
    [[unroll]] for (uint m = 0u; m < 4u; m++) {
        vec2 a = v[m], b = cmul(v[m + 4u], root((t + m * T) * STEP));
        v[m] = a + b;
        v[m + 4u] = a - b;
    }
}

void store_bins(uint slot, uint line, uint t)
{
    [[unroll]] for (uint i = 0u; i < 8u; i++)
        memory[place(slot, t + i * T)] = v[i];
    barrier();
    if (line >= n_lines)
        return;
    for (uint k = t; k <= L; k += T) {
        vec2 a = memory[place(slot, k % L)], b = conjugate(memory[place(slot, (L - k) % L)]);
        vec2 odd = cmul(times_minus_i(a - b), root(k));
        y[y_at + line * (L + 1u) + k] = floatBitsToUint(0.5 * scale * (a + b + odd));
    }
}

void main()
{
    uint slot = LANE / T, t = LANE % T, line = GROUP_INDEX * LINES + slot;
    uint from = x_at + min(line, n_lines - 1u) * L + t;
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        v[i] = uintBitsToFloat(x[from + i * T]);
        v[i].y = INVERSE != 0u ? -v[i].y : v[i].y;
    }
    uint done = 1u;
    [[unroll]] for (uint stage = 0u; stage < LOG / 3u; stage++) {
        uint k = t % done, to = (t - k) * 8u + k;
        if (done > 1u)
            turn8(root(k * (T / done) * STEP));
        transform8();
        if (done * 8u < L) {
            [[unroll]] for (uint q = 0u; q < 8u; q++)
                memory[place(slot, to + q * done)] = v[q];
            barrier();
            [[unroll]] for (uint i = 0u; i < 8u; i++)
                v[i] = memory[place(slot, t + i * T)];
            barrier();
        }
        done *= 8u;
    }
    if (LOG % 3u == 1u)
        finish2(t);
    if (LOG % 3u == 2u)
        finish4(t);
    if (BINS != 0u) {
        store_bins(slot, line, t);
        return;
    }
    if (line >= n_lines)
        return;
    [[unroll]] for (uint i = 0u; i < 8u; i++) {
        vec2 z = v[i] * scale;
        y[y_at + line * L + t + i * T] = floatBitsToUint(INVERSE != 0u ? conjugate(z) : z);
    }
}
