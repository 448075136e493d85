/* SPDX-License-Identifier: MIT */
/* Operands of products with quantised weights, eight elements at a time along k.
 *
 * a: elements of type TA with any strides; X_WIDE: loads of 16 aligned bytes.
 * b: rows of bytes. FAMILY 0 to 3: packed types (quant.glsl). FAMILY 4: 8-bit or 4-bit numbers
 * (w - zero) * scale with a scale and perhaps a zero for each `block` elements of a row; strides
 * and offsets of b count bytes in both. Included after common.glsl and the .def of the kernel. */
#ifndef WEIGHT_GLSL
#define WEIGHT_GLSL

#include "weight_form.def"
const uint TSCALE = FORM & FORM_SCALE;
const bool HAS_ZERO = (FORM & FORM_ZERO) != 0u, HALVES = (FORM & FORM_HALVES) != 0u;
const bool ONE_SCALE = (FORM & FORM_ONE_SCALE) != 0u, X_WIDE = (FORM & FORM_X_WIDE) != 0u;

#define QUANT_WORDS weights

#include "product.glsl"

WORDS4(a);
VIEW(b, uint, weights);

#include "quant.glsl"

/* ---- x --------------------------------------------------------------------------------------- */

vec4 unpack4(uint t, uvec2 w)
{
    if (t == F16)
        return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}

float x_element(uint i)
{
    if (TA == F32)
        return uintBitsToFloat(a[i >> 2][i & 3u]);
    uint w = a[i >> 3][i >> 1 & 3u] >> (i & 1u) * 16u;
    return TA == F16 ? unpackHalf2x16(w).x : bf16_to_f32(w & 0xffffu);
}

/* Elements kk to kk + 7 of the row that begins at element `first`; 0 past the end. */
Eight x_eight(uint first, uint kk)
{
    if (X_WIDE) {
        uint i = first + kk;
        if (TA == F32)
            return Eight(uintBitsToFloat(a[i >> 2]), uintBitsToFloat(a[(i >> 2) + 1u]));
        uvec4 w = a[i >> 3];
        return Eight(unpack4(TA, w.xy), unpack4(TA, w.zw));
    }
    Eight v = Eight(vec4(0.0), vec4(0.0));
    for (uint j = 0u; j < FOUR; j++) {
        if (kk + j < k)
            v.lo[j] = x_element(first + (kk + j) * a_k);
        if (kk + 4u + j < k)
            v.hi[j] = x_element(first + (kk + 4u + j) * a_k);
    }
    return v;
}

/* ---- w --------------------------------------------------------------------------------------- */

#if FAMILY == 4
TENSOR(scale)
TENSOR(zero)

/* Word i of w, clamped to the word of byte b_at + n * b_n - 1. */
uint weight_word(uint i) { return weights[min(i, (b_at + n * b_n - 1u) >> 2)]; }

/* Four bytes from `at` on. */
uint weight_bytes(uint at)
{
    uint s = (at & 3u) * 8u;
    return weight_word(at >> 2) >> s | weight_word((at + 3u) >> 2) << ((32u - s) & 31u);
}

vec2 scale_and_zero(uint col, uint kk)
{
    uint i = col * n_scales + min(kk, k - 1u) / block;
    float z = HALVES ? 8.0 : 0.0;
    if (HAS_ZERO)
        z = float(load_i_raw_zero(TB, zero_at + i));
    return vec2(load_f_scale(TSCALE, scale_at + i), z);
}

vec4 scale4(vec4 q, uint col, uint kk)
{
    vec2 s = scale_and_zero(col, kk);
    if (ONE_SCALE)
        return (q - s.y) * s.x;
    vec4 v;
    v.x = (q.x - s.y) * s.x;
    for (uint j = 1u; j < FOUR; j++) {
        s = scale_and_zero(col, kk + j);
        v[j] = (q[j] - s.y) * s.x;
    }
    return v;
}

/* Elements kk to kk + 7 of column `col`, whose row begins at byte `row`; undefined past the end. */
Eight w_eight(uint row, uint col, uint kk)
{
    vec4 lo, hi;
    if (HALVES) {
        uint w = weight_bytes(row + (kk >> 1)), h = w >> 16;
        lo = vec4(w & 15u, w >> 4 & 15u, w >> 8 & 15u, w >> 12 & 15u);
        hi = vec4(h & 15u, h >> 4 & 15u, h >> 8 & 15u, h >> 12 & 15u);
    } else {
        uint w = weight_bytes(row + kk), h = weight_bytes(row + kk + 4u);
        lo = TB == I8 ? signed_bytes_of(w) : bytes_of(w);
        hi = TB == I8 ? signed_bytes_of(h) : bytes_of(h);
    }
    return Eight(scale4(lo, col, kk), scale4(hi, col, kk + 4u));
}
#else
Eight w_eight(uint row, uint col, uint kk) { return quant_decode8(TB, row, kk); }
#endif

#endif
