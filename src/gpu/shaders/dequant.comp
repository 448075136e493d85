/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
/* Decoding: out[i] = w[i] for a dense tensor of a packed type (FAMILY 0 to 3: quant.glsl) or of
 * floats (FAMILY 4). With TIDS w is a bank of experts of `slab` elements and out holds those of the
 * ids one after another: out[i, :] = w[ids[i], :]; of a packed bank w may be a part, experts
 * part_first .. part_first + part_rows - 1, and what lies elsewhere is left alone.
 *
 * An invocation makes eight neighbouring elements; n of them are done by a dispatch.
 *
 * ROWS: w[n, k] becomes f16 o[n, k], each row times a power of two of its own that keeps its range:
 * o[r, i] * scale[r] = w[r, i], rounded. It is 1 unless the greatest finite element of the row
 * leaves the range of f16 or is so small that the others would lose bits; such rows are raised as
 * little as is needed, so that sums of products do not overflow before they are scaled back. k is a
 * multiple of 8. A workgroup makes a row: its eights wait in registers until the greatest is known.
 */
#include "common.glsl"
#include "dequant.def"
#include "flags.def"
#include "finite.glsl"

/* w_at counts bytes of a packed type, else elements; the others count elements. */
#include "chain.glsl"

TENSOR(w)
#ifdef ROWS
WORDS4(o);
WORDS(scale);
#else
WORDS(o);
TENSOR(ids)
layout(SLOT(flags), std430) buffer buffer_flags { uint flags[]; };
#endif

#define QUANT_WORDS w
#include "quant.glsl"

#ifdef ROWS
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
#else
/* The expert of entry i; negative ids count from the end. */
uint expert_of(uint i)
{
    uint at = ids_at + i * ids_stride;
    int low = load_i_raw_ids(TIDS, at);
    int id = low < 0 ? low + int(n_experts) : low;
    if (TIDS == I64) {
        int high = int(ids[at * 2u + 1u]);
        if (high != low >> 31) /* beyond 32 bits: past the start or the end */
            id = high < 0 ? -1 : int(n_experts);
    }
    if (id < 0 || id >= int(n_experts))
        atomicOr(flags[0], FLAG_CLAMPED);
    return uint(clamp(id, 0, max(int(n_experts) - 1, 0)));
}

#if FAMILY == 4
bool is_elsewhere(uint i) { return false; }
float element(uint i)
{
    if (TIDS == 0u)
        return load_f_w(TW, w_at + i);
    return n_experts == 0u ? 0.0 : load_f_w(TW, w_at + expert_of(i / slab) * slab + i % slab);
}
Eight eight_from(uint i)
{
    Eight v = Eight(vec4(0.0), vec4(0.0));
    for (uint j = 0u; j < 4u; j++) {
        if (i + j < n)
            v.lo[j] = element(i + j);
        if (i + 4u + j < n)
            v.hi[j] = element(i + 4u + j);
    }
    return v;
}
#else
bool is_elsewhere(uint i)
{
    return TIDS != 0u && part_rows != 0xffffffffu && expert_of(i / slab) - part_first >= part_rows;
}
Eight eight_from(uint i)
{
    uint row = w_at;
    if (TIDS != 0u) {
        if (n_experts == 0u)
            return Eight(vec4(0.0), vec4(0.0));
        row += (expert_of(i / slab) - part_first) * slab_bytes;
        i %= slab;
    }
    return quant_decode8(TW, row, i);
}
#endif

/* Writes elements i to i + 3 as far as they exist. */
void store4(uint i, vec4 v)
{
    uint at = out_at + i, left = i < n ? min(n - i, 4u) : 0u;
    if (TOUT == F32) {
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            if (j < left)
                o[at + j] = floatBitsToUint(v[j]);
        return;
    }
    if (left > 0u)
        o[at >> 1] = encode_f(TOUT, v.x) | encode_f(TOUT, v.y) << 16;
    if (left > 2u)
        o[(at >> 1) + 1u] = encode_f(TOUT, v.z) | encode_f(TOUT, v.w) << 16;
}

void main()
{
    uint i = GLOBAL_INDEX * 8u;
    if (i < n && !is_elsewhere(i)) {
        Eight v = eight_from(i);
        store4(i, v.lo);
        store4(i + 4u, v.hi);
    }
}
#endif
