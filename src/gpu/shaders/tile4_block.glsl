/* SPDX-License-Identifier: MIT */
/* Blocks of a weight in the layout of tile4.glsl, from memory to the four elements of a fragment
 * that a lane has of a column in a step of 16 along k: lane 4 g + t has block t of four, and step
 * 2 j + h is part j of its half h.
 *
 * Who includes this defines
 *   TILE_AT                        the type of a place in the weight
 *   TILE_PLACE(bytes, size)        the place so many bytes from its beginning, of words of `size`
 *   TILE_VECTOR, TILE_PAIR, TILE_WORD(place, i)   uvec4, uvec2, uint number i from there on
 *   TILE_MAGIC                     MAGIC_HALVES in a register, so that one instruction masks and
 *                                  adds it; drivers take two for two constants
 * TB is its type. */
#ifndef TILE4_BLOCK_GLSL
#define TILE4_BLOCK_GLSL

#include "tile4.glsl"

const uint MAGIC_HALVES = 0x64006400u; /* 1024 in f16, twice: its last bits count ones */

/* A block as it is in memory. */
struct Block {
    uvec4 quants, more; /* of q8_0 both halves */
    uvec2 high, scales;
    uint super;
};

/* Several blocks in registers: arrays of plain types, which drivers keep out of memory. */
#define BLOCKS(name, count)                                                       \
    uvec4 name##_quants[count], name##_more[TB == Q8_0 ? (count) : 1];            \
    uvec2 name##_high[count], name##_scales[count];                               \
    uint name##_super[count];
#define PUT_BLOCK(name, i, block)                                                 \
    {                                                                             \
        const Block put = block;                                                  \
        name##_quants[i] = put.quants;                                            \
        if (TB == Q8_0)                                                           \
            name##_more[TB == Q8_0 ? (i) : 0u] = put.more;                        \
        name##_high[i] = put.high;                                                \
        name##_scales[i] = put.scales;                                            \
        name##_super[i] = put.super;                                              \
    }
#define BLOCK_OF(name, i)                                                         \
    Block(name##_quants[i], name##_more[TB == Q8_0 ? (i) : 0u], name##_high[i],   \
          name##_scales[i], name##_super[i])

/* Offsets of the parts of a block. */
struct BlockPlace {
    TILE_AT quants, high, scales, super;
};

/* Of block `line` of column r of four in the tile that begins at vector `at`. */
BlockPlace place_block(uint at, uint r, uint line)
{
    const uint first = 4u * tile_quants(TB), scale_at = first + tile_high(TB);
    const uint super_at = scale_at + tile_scales(TB);
    BlockPlace p;
    p.quants = TILE_PLACE((at + r * tile_quants(TB) + line) * 16u, 16u);
    if (TB == Q6_K)
        p.high = TILE_PLACE((at + first + r / 2u * 32u + line) * 16u + r % 2u * 8u, 8u);
    else if (tile_high(TB) != 0u)
        p.high = TILE_PLACE((at + first + line) * 16u + r * 4u, 4u);
    if (has_minima(TB))
        p.scales = TILE_PLACE((at + scale_at + line) * 16u + r * 4u, 4u);
    else if (TB == Q4_K || TB == Q5_K)
        p.scales = TILE_PLACE((at + scale_at) * 16u + line * 8u, 8u);
    else
        p.scales = TILE_PLACE((at + scale_at) * 16u + line * 8u + r / 2u * 4u, 4u);
    if (TB == Q6_K)
        p.super = TILE_PLACE((at + super_at) * 16u + line / 8u * 8u + r / 2u * 4u, 4u);
    else if (has_supers(TB))
        p.super = TILE_PLACE((at + super_at + line / 8u) * 16u + r * 4u, 4u);
    return p;
}

/* The block of the same lane in step s from there on, `ahead` vectors behind. */
Block load_block(in BlockPlace p, uint ahead, uint s)
{
    Block it;
    ahead += s / 8u * tile_vectors(TB);
    s %= 8u;
    it.quants = TILE_VECTOR(p.quants, ahead + s * 4u);
    if (TB == Q8_0)
        it.more = TILE_VECTOR(p.quants, ahead + s * 4u + 32u);
    if (TB == Q6_K)
        it.high = TILE_PAIR(p.high, (ahead + s * 4u) * 2u);
    else if (tile_high(TB) != 0u)
        it.high.x = TILE_WORD(p.high, (ahead + s * 4u) * 4u);
    if (TB == Q4_K || TB == Q5_K)
        it.scales = TILE_PAIR(p.scales, ahead * 2u + s * 4u);
    else
        it.scales.x = TILE_WORD(p.scales, ahead * 4u + s * (has_minima(TB) ? 16u : 8u));
    if (has_supers(TB))
        it.super = TILE_WORD(p.super, ahead * 4u + s / 2u * (TB == Q6_K ? 2u : 4u));
    return it;
}

/* ---- Scales ---------------------------------------------------------------------------------- */

bool has_low(uint t) { return has_minima(t) || t == Q4_K || t == Q5_K; }

float half_in(uint w, uint r)
{
    return unpackHalf2x16(w >> (r % 2u * 16u)).x;
}

/* Scale and offset of half h of a block of column r. */
vec2 scale_of(in Block b, uint r, uint h)
{
    if (has_minima(TB))
        return unpackHalf2x16(b.scales.x);
    if (TB == Q6_K)
        return vec2(half_in(b.super, r) *
                    float(bitfieldExtract(int(b.scales.x), int(r % 2u * 16u + h * 8u), 8)), 0.0);
    if (TB == Q4_K || TB == Q5_K)
        return unpackHalf2x16(b.super) * vec2(b.scales.x >> r * 8u & 0xffu,
                                              -float(b.scales.y >> r * 8u & 0xffu));
    return vec2(half_in(b.scales.x, r), 0.0);
}

/* The greatest quant, and the bias of the quants. */
float most_of(uint t)
{
    return t == Q8_0 ? 128.0 : t == Q6_K ? 32.0 : t == Q5_1 || t == Q5_K ? 31.0
           : t == Q5_0 ? 16.0 : t == Q4_0 ? 8.0 : 15.0;
}
float offset_of(uint t)
{
    return t == Q8_0 ? 128.0 : t == Q6_K ? 32.0 : t == Q5_0 ? 16.0 : t == Q4_0 ? 8.0 : 0.0;
}

/* Scales are multiplied by 2^RAISED, so that products of small ones stay normal, or, where some
 * weight would overflow then, by 2^LOWERED. */
const int RAISED = TB == Q4_K || TB == Q5_K || TB == Q6_K ? 8 : 0, LOWERED = -12;
f16vec2 tile_scale_top; /* the greatest scale and the greatest offset */

f16vec2 tile_scale(in Block b, uint r, uint h, float by)
{
    f16vec2 s;
    if (has_low(TB) || has_supers(TB))
        s = f16vec2(scale_of(b, r, h) * by);
    else
        s = f16vec2(unpackFloat2x16(b.scales.x >> (r % 2u * 16u)).x * float16_t(by), 0.0);
    tile_scale_top = max(tile_scale_top, abs(s));
    return s;
}

/* Whether f16 holds weights with those scales. */
bool tile_scales_fit()
{
    const vec2 top = vec2(tile_scale_top);
    return top.x * most_of(TB) + top.y < 32768.0;
}

/* ---- Weights --------------------------------------------------------------------------------- */

bool is_nibbles(uint t) { return t == Q4_0 || t == Q4_1 || t == Q4_K; }

/* Part j of half h of a block, four numbers as bytes. */
uint bytes_of(in Block b, uint j, uint h)
{
    if (TB == Q8_0)
        return (h == 0u ? b.quants[j] : b.more[j]) ^ 0x80808080u;
    const uint low = b.quants[j] >> 4u * h & 0x0f0f0f0fu;
    if (TB == Q6_K)
        return low | b.high[h] >> 2u * j << 4 & 0x30303030u;
    if (tile_high(TB) != 0u)
        return low | b.high.x >> (j + 4u * h) << 4 & 0x10101010u;
    return low;
}

/* Bytes 0 and 2 of a word as numbers minus the bias: 1024 + q as f16, then 1024 is subtracted. */
f16vec2 numbers_of(uint w)
{
    return unpackFloat2x16(w & 0x00ff00ffu | TILE_MAGIC) -
           f16vec2(float16_t(1024.0 + offset_of(TB)));
}

/* The same for the lower or upper nibbles of those bytes. */
f16vec2 nibbles_of(uint w, uint h)
{
    if (h == 0u)
        return unpackFloat2x16(w & 0x000f000fu | TILE_MAGIC) -
               f16vec2(float16_t(1024.0 + offset_of(TB)));
    return fma(unpackFloat2x16(w & 0x00f000f0u | TILE_MAGIC), f16vec2(float16_t(0.0625)),
               f16vec2(float16_t(-64.0 - offset_of(TB))));
}

f16vec2 times(f16vec2 q, f16vec2 scale)
{
    return has_low(TB) ? fma(q, scale.xx, scale.yy) : q * scale.x;
}

/* The four weights of part j of half h: elements 0 and 2, then 1 and 3. */
void decode_part(in Block b, uint j, uint h, f16vec2 scale, out f16vec2 even, out f16vec2 odd)
{
    if (is_nibbles(TB)) {
        const uint w = b.quants[j];
        even = times(nibbles_of(w, h), scale);
        odd = times(nibbles_of(w >> 8, h), scale);
    } else {
        const uint w = bytes_of(b, j, h);
        even = times(numbers_of(w), scale);
        odd = times(numbers_of(w >> 8), scale);
    }
}

#endif
