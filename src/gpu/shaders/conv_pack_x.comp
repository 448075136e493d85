/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
/* Puts x [N, groups * channels, in..] into the order that conv_frag.comp reads:
 * [N, groups, channels / 32, places, 32] of 16 bits, channels padded to 32 by zeros, a place being
 * (depth, row, column) of x with its padding, or every step-th of them along an axis where a window
 * is one element. f32 becomes f16; f16 and bf16 stay what they are.
 *
 * One invocation moves eight channels of ALONG elements that are neighbours in x: one load for each
 * channel, all on their way at once, one store for each place; four invocations fill a place. An
 * element at an edge of x brings the zeros beyond it. ALONG 1 goes by places, wherever they are.
 *
 * FOLD (with ALONG 1): x has few channels, and what the FOLD taps of a row of the window see are
 * channels of their own; `channels` counts those. */
#include "common.glsl"
#include "conv_pack_x.def"

layout(SLOT(x), std430) restrict readonly buffer buffer_x { uint x[]; };
layout(SLOT(x), std430) restrict readonly buffer buffer_x2 { uvec2 x2[]; };
layout(SLOT(x), std430) restrict readonly buffer buffer_x4 { uvec4 x4[]; };
WORDS4(y);

const uint HALVES = T == F32 ? 2u * ALONG : ALONG; /* of 16 bits, in a load */

/* ALONG elements from i on, in the low words. */
uvec4 load_run(uint i)
{
    if (HALVES == 8u)
        return x4[i / ALONG];
    if (HALVES == 4u)
        return uvec4(x2[i / ALONG], 0u, 0u);
    if (HALVES == 2u)
        return uvec4(x[i / ALONG], 0u, 0u, 0u);
    return uvec4(x[i / 2u] >> i % 2u * 16u, 0u, 0u, 0u);
}

/* Element e of two channels, as 16 bits each. */
uint pair_of(uvec4 a, uvec4 b, uint e)
{
    if (T == F32)
        return packFloat2x16(f16vec2(uintBitsToFloat(a[e]), uintBitsToFloat(b[e])));
    uint lo = a[e / 2u], hi = b[e / 2u];
    return e % 2u == 0u ? (lo & 0xffffu) | hi << 16 : lo >> 16 | (hi & 0xffff0000u);
}

/* The elements of eight channels from i on, of which `left` exist. */
void load_channels(uint i, uint left, out uvec4 raw[8])
{
    uint area = in_d * in_h * in_w;
    if (left == 0u) {
        [[unroll]] for (uint k = 0u; k < EIGHT; k++)
            raw[k] = uvec4(0u);
        return;
    }
    [[unroll]] for (uint k = 0u; k < EIGHT; k++)
        raw[k] = load_run(i + min(k, left - 1u) * area);
    [[unroll]] for (uint k = 0u; k < EIGHT; k++)
        raw[k] = k < left ? raw[k] : uvec4(0u);
}

/* The same for channels c to c + 7 folded from windows that begin at `at`. */
void load_folded(uint i, uint c, ivec3 at, out uvec4 raw[8])
{
    bool row = uint(at.x) < in_d && uint(at.y) < in_h;
    uint first = i + (uint(at.x) * in_h + uint(at.y)) * in_w;
    [[unroll]] for (uint k = 0u; k < EIGHT; k++) {
        uint w = uint(at.z) + (c + k) % FOLD * dilation_w;
        bool there = row && w < in_w && c + k < channels;
        uvec4 v = load_run(there ? first + (c + k) / FOLD * (in_d * in_h * in_w) + w : x_at);
        raw[k] = there ? v : uvec4(0u);
    }
}

uvec4 pack_element(uvec4 raw[8], uint e)
{
    return uvec4(pair_of(raw[0], raw[1], e), pair_of(raw[2], raw[3], e),
                 pair_of(raw[4], raw[5], e), pair_of(raw[6], raw[7], e));
}

uint find_place(uvec3 at) { return (at.x * to_h + at.y) * to_w + at.z; }

uvec3 split(uint i, uint h, uint w) { return uvec3(i / w / h, i / w % h, i % w); }

/* The element after `at` of a channel of x. */
uvec3 next_to(uvec3 at)
{
    at.z++;
    if (at.z == in_w)
        at = uvec3(at.x, at.y + 1u, 0u);
    if (at.y == in_h)
        at = uvec3(at.x + 1u, 0u, at.z);
    return at;
}

/* Writes the zeros beyond the edges of x next to element `at`. */
void write_edges(uvec3 at, uint to)
{
    const uvec3 size = uvec3(in_d, in_h, in_w), all = uvec3(to_d, to_h, to_w);
    const uvec3 own = at + uvec3(begin_d, begin_h, begin_w);
    uvec3 lo = mix(own, uvec3(0u), equal(at, uvec3(0u)));
    uvec3 hi = mix(own, all - 1u, equal(at, size - 1u));
    if (lo == hi)
        return;
    for (uint d = lo.x; d <= hi.x; d++)
        for (uint h = lo.y; h <= hi.y; h++)
            for (uint w = lo.z; w <= hi.z; w++)
                if (uvec3(d, h, w) != own)
                    y[to + find_place(uvec3(d, h, w)) * 4u] = uvec4(0u);
}

void main()
{
    uint i = GLOBAL_INDEX, area = in_d * in_h * in_w, places = to_d * to_h * to_w;
    if (i >= total)
        return;
    uint runs = ALONG == 1u ? places : area / ALONG, blocks = (channels + 31u) / 32u;
    uint run = i / 4u % runs, part = i / 4u / runs; /* (image * groups + group) * blocks + block */
    uint c = part % blocks * 32u + i % 4u * 8u;
    uint from = x_at + (part / blocks * channels + c) * area, to = part * places * 4u + i % 4u;
    uint left = c < channels ? channels - c : 0u;
    uvec4 raw[8];
    if (ALONG == 1u) {
        ivec3 at = ivec3(split(run, to_h, to_w)) * ivec3(step_d, step_h, step_w) -
                   ivec3(begin_d, begin_h, begin_w);
        bool there = uint(at.x) < in_d && uint(at.y) < in_h && uint(at.z) < in_w;
        if (FOLD > 1u)
            load_folded(x_at + part / blocks * (channels / FOLD) * area, c, at, raw);
        else
            load_channels(from + (uint(at.x) * in_h + uint(at.y)) * in_w + uint(at.z),
                          there ? left : 0u, raw);
        y[to + run * 4u] = pack_element(raw, 0u);
        return;
    }
    const uvec3 first = split(run * ALONG, in_h, in_w), begin = uvec3(begin_d, begin_h, begin_w);
    uvec3 at = first;
    load_channels(from + run * ALONG, left, raw);
    [[unroll]] for (uint e = 0u; e < ALONG; e++) {
        y[to + find_place(at + begin) * 4u] = pack_element(raw, e);
        at = next_to(at);
    }
    if (places == area)
        return;
    at = first;
    [[dont_unroll]] for (uint e = 0u; e < ALONG; e++) {
        write_edges(at, to);
        at = next_to(at);
    }
}
