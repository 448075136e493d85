/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
/* Decoding: out[i] = w[i] for a dense tensor of a packed type (FAMILY 0 to 3: quant.glsl) or of
 * floats (FAMILY 4). With TIDS w is a bank of experts of `slab` elements and out holds those of the
 * ids one after another: out[i, :] = w[ids[i], :]; of a packed bank w may be a part, experts
 * part_first .. part_first + part_rows - 1, and what lies elsewhere is left alone.
 *
 * An invocation makes eight neighbouring elements; n of them are done by a dispatch. WIDE: n and
 * out_at are multiples of 8, and results are stored 16 bytes at a time. */
#include "common.glsl"
#include "dequant.def"
#include "flags.def"

/* w_at counts bytes of a packed type, else elements; the others count elements. */
#include "chain.glsl"

TENSOR(w)
#ifdef WIDE
WORDS4(o);
#else
WORDS(o);
#endif
TENSOR(ids)
layout(SLOT(flags), std430) buffer buffer_flags { uint flags[]; };

#define QUANT_WORDS w
#include "quant.glsl"

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

#ifdef WIDE
void store8(uint i, Eight v)
{
    uint at = out_at + i;
    if (TOUT == F32) {
        o[at >> 2] = floatBitsToUint(v.lo);
        o[(at >> 2) + 1u] = floatBitsToUint(v.hi);
        return;
    }
    uvec4 w;
    [[unroll]] for (uint j = 0u; j < 2u; j++) {
        w[j] = encode_f(TOUT, v.lo[2u * j]) | encode_f(TOUT, v.lo[2u * j + 1u]) << 16;
        w[j + 2u] = encode_f(TOUT, v.hi[2u * j]) | encode_f(TOUT, v.hi[2u * j + 1u]) << 16;
    }
    o[at >> 3] = w;
}
#else
/* Writes elements i to i + 3 as far as they exist. */
void store4(uint i, vec4 v)
{
    uint at = out_at + i, left = i < n ? min(n - i, 4u) : 0u;
    if (TOUT == F32) {
        for (uint j = 0u; j < left; j++)
            o[at + j] = floatBitsToUint(v[j]);
        return;
    }
    if (left > 0u)
        o[at >> 1] = encode_f(TOUT, v.x) | encode_f(TOUT, v.y) << 16;
    if (left > 2u)
        o[(at >> 1) + 1u] = encode_f(TOUT, v.z) | encode_f(TOUT, v.w) << 16;
}

void store8(uint i, Eight v)
{
    store4(i, v.lo);
    store4(i + 4u, v.hi);
}
#endif

void main()
{
    uint i = GLOBAL_INDEX * 8u;
    if (i < n && !is_elsewhere(i))
        store8(i, eight_from(i));
}
