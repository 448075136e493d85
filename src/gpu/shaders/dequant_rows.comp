/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Decodes the rows of a packed weight w[n, k] to f16 o[n, k], each times a power of two of its own
 * that keeps its range: o[r, i] * scale[r] = w[r, i], rounded. It is 1 unless the greatest finite
 * element of the row leaves the range of f16 or is so small that the others would lose bits; those
 * rows are raised as little as is needed, so that sums of products do not overflow before they are
 * scaled back. k is a multiple of 8.
 *
 * A workgroup makes a row: eights of it wait in registers until the greatest is known. */
#include "common.glsl"
#include "dequant_rows.def"
#include "finite.glsl"

WORDS(w);
WORDS4(o);
WORDS(scale);

#define FAMILY 0
#define QUANT_WORDS w
#include "quant.glsl"

shared uint top_bits; /* of the greatest, not negative: ordered as numbers are */

float top_of(vec4 v)
{
    float most = 0.0;
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        most = is_finite(v[j]) ? max(most, abs(v[j])) : most;
    return most;
}

uint halves_of(vec2 v) { return encode_f(F16, v.x) | encode_f(F16, v.y) << 16; }

void main()
{
    const uint row = min(GROUP_INDEX, n - 1u);
    Eight v[ITEMS];
    float top = 0.0;
    if (LANE == 0u)
        top_bits = 0u;
    barrier();
    [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
        v[i] = quant_decode8(TW, w_at + row * row_bytes, min((i * THREADS + LANE) * 8u, k - 8u));
        top = max(top, max(top_of(v[i].lo), top_of(v[i].hi)));
    }
    atomicMax(top_bits, floatBitsToUint(top));
    barrier();
    const int most = int(top_bits >> 23) - 127;
    const int e = most >= 15 ? most - 14 : most < -13 ? max(most + 13, -112) : 0;
    const float by = uintBitsToFloat(uint(127 - e) << 23);
    [[unroll]] for (uint i = 0u; i < ITEMS; i++) {
        const uint at = (i * THREADS + LANE) * 8u;
        const vec4 x = v[i].lo * by, y = v[i].hi * by;
        if (at < k)
            o[(row * k + at) >> 3] = uvec4(halves_of(x.xy), halves_of(x.zw), halves_of(y.xy),
                                           halves_of(y.zw));
    }
    if (LANE == 0u)
        scale[row] = uint(127 + e) << 23;
}
