/* SPDX-License-Identifier: MIT */
/* Decoders of the packed types; src/base/quant*.c defines them.
 *
 * Before the include: QUANT_WORDS is the name of a binding of uint words that holds the blocks, and
 * FAMILY says which types the kernel knows: 0 all but the iq types with a grid, 1 iq1_s and iq1_m,
 * 2 iq2_xxs, iq2_xs and iq2_s, 3 iq3_xxs and iq3_s, 4 none (the helpers alone). Families 1 to 3
 * have their grids in binding `grid`: rx_quant_grid() of gpu/select/quant.h.
 *
 *     Eight v = quant_decode8(type, row, k)
 * are the elements k to k + 7, k a multiple of 8, of the row whose first block begins at byte
 * `row`. `type` is a specialisation constant, so all but one decoder vanish. Words are read only if
 * they hold bytes of the block. */
#ifndef QUANT_GLSL
#define QUANT_GLSL

uint quant_block_size(uint t)
{
    if (t == NVFP4)
        return 64u;
    return t <= Q8_0 || t == IQ4_NL || t == MXFP4 ? 32u : 256u;
}

uint quant_block_bytes(uint t)
{
    switch (t) {
    case Q4_0: case IQ4_NL: return 18u;
    case Q4_1: return 20u;
    case Q5_0: return 22u;
    case Q5_1: return 24u;
    case Q8_0: return 34u;
    case Q2_K: return 84u;
    case Q3_K: case IQ3_S: return 110u;
    case Q4_K: return 144u;
    case Q5_K: return 176u;
    case Q6_K: return 210u;
    case Q8_K: return 292u;
    case IQ4_XS: return 136u;
    case MXFP4: return 17u;
    case IQ1_S: return 50u;
    case IQ1_M: return 56u;
    case IQ2_XS: return 74u;
    case IQ2_S: return 82u;
    case IQ3_XXS: return 98u;
    case TQ1_0: return 54u;
    case NVFP4: return 36u;
    }
    return 66u; /* IQ2_XXS, TQ2_0 */
}

struct Eight {
    vec4 lo, hi;
};

/* ---- Bytes ----------------------------------------------------------------------------------- */

uint quant_byte(uint at) { return QUANT_WORDS[at >> 2] >> ((at & 3u) * 8u) & 0xffu; }
/* `at` is even. */
uint quant_u16(uint at) { return QUANT_WORDS[at >> 2] >> ((at & 2u) * 8u) & 0xffffu; }
float quant_half(uint at) { return unpackHalf2x16(quant_u16(at)).x; }

bool quant_is_aligned(uint t) { return (quant_block_bytes(t) & 3u) == 0u; }

/* Four bytes from `at` on, and eight. */
uint quant_word(uint t, uint at)
{
    if (quant_is_aligned(t))
        return QUANT_WORDS[at >> 2];
    uint s = (at & 3u) * 8u;
    return QUANT_WORDS[at >> 2] >> s | QUANT_WORDS[(at + 3u) >> 2] << ((32u - s) & 31u);
}
uvec2 quant_two(uint t, uint at)
{
    uint i = at >> 2;
    if (quant_is_aligned(t))
        return uvec2(QUANT_WORDS[i], QUANT_WORDS[i + 1u]);
    uint s = (at & 3u) * 8u, up = (32u - s) & 31u, mid = QUANT_WORDS[i + 1u];
    uint first = QUANT_WORDS[i], last = QUANT_WORDS[(at + 7u) >> 2];
    return s == 0u ? uvec2(first, mid) : uvec2(first >> s | mid << up, mid >> s | last << up);
}

vec4 bytes_of(uint w) { return vec4(w & 0xffu, w >> 8 & 0xffu, w >> 16 & 0xffu, w >> 24); }
vec4 signed_bytes_of(uint w) { return vec4(ivec4(w << 24, w << 16, w << 8, w) >> 24); }
/* Bit i of four becomes bit 0 of byte i. */
uint spread_bits(uint four) { return (four & 15u) * 0x204081u & 0x1010101u; }

Eight scaled(uvec2 q, float zero, float d, float m)
{
    return Eight((bytes_of(q.x) - zero) * d + m, (bytes_of(q.y) - zero) * d + m);
}

/* ---- All but grids --------------------------------------------------------------------------- */

#if FAMILY == 0

/* Level q of iq4_nl and iq4_xs: bytes of -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113.
 */
float iq4_level(uint q)
{
    uint w = q < 8u ? (q < 4u ? 0xbfad9881u : 0xf6eaddcfu) : q < 12u ? 0x26190d01u : 0x71594535u;
    return float(int(w << (24u - (q & 3u) * 8u)) >> 24);
}
/* e2m1 times two: 0 1 2 3 4 6 8 12 and the same negated. */
float e2m1_level(uint q)
{
    uint e = q >> 1 & 3u, m = q & 1u;
    int v = int(e == 0u ? m : (2u | m) << (e - 1u));
    return float((q & 8u) != 0u ? -v : v); /* never -0 */
}
float level_of(uint t, uint q) { return t == MXFP4 || t == NVFP4 ? e2m1_level(q) : iq4_level(q); }
vec4 levels_of(uint t, uint w)
{
    return vec4(level_of(t, w & 15u), level_of(t, w >> 8 & 15u), level_of(t, w >> 16 & 15u),
                level_of(t, w >> 24 & 15u));
}

/* A power of two over 2; an ue4m3 number over 2, whose NaN is 0 in GGUF. */
float e8m0_half(uint x)
{
    return uintBitsToFloat(x < 2u ? 0x00200000u << x : (x - 1u) << 23);
}
float ue4m3_half(uint x)
{
    uint e = x >> 3 & 15u, m = x & 7u;
    if (x == 0x7fu)
        return 0.0;
    return e == 0u ? float(m) * (1.0 / 1024.0) : uintBitsToFloat((e + 119u) << 23 | m << 20);
}

/* The 6-bit scale and min of group g of q4_k and q5_k, whose block begins at word i. */
vec2 scale_and_min(uint i, uint g)
{
    uint s = (g & 3u) * 8u, a = QUANT_WORDS[i + 1u] >> s, b = QUANT_WORDS[i + 2u] >> s;
    uint c = QUANT_WORDS[i + 3u] >> s;
    if (g < 4u)
        return vec2(a & 63u, b & 63u);
    return vec2((c & 15u) | (a >> 2 & 48u), (c >> 4 & 15u) | (b >> 2 & 48u));
}

uint q3_k_scale(uint at, uint g)
{
    uint low = quant_byte(at + (g & 7u)) >> (g >> 3) * 4u & 15u;
    return low | (quant_byte(at + 8u + (g & 3u)) >> (g >> 2) * 2u & 3u) << 4;
}

/* Digit `digit` of four bytes of base-3 digits, minus 1. */
vec4 trits_of(uint w, uint digit)
{
    uint power = digit == 0u ? 1u : digit == 1u ? 3u : digit == 2u ? 9u : digit == 3u ? 27u : 81u;
    uvec4 f = (uvec4(w, w >> 8, w >> 16, w >> 24) & 0xffu) * power & 0xffu;
    return vec4(f * 3u >> 8) - 1.0;
}

Eight decode_tq1_0(uint at, uint j)
{
    float d = quant_half(at + 52u);
    if (j >= 240u) {
        uint w = quant_word(TQ1_0, at + 48u), digit = (j - 240u) >> 2;
        return Eight(trits_of(w, digit) * d, trits_of(w, digit + 1u) * d);
    }
    bool first = j < 160u;
    uint digit = first ? j >> 5 : (j - 160u) >> 4;
    uvec2 w = quant_two(TQ1_0, at + (first ? j & 31u : 32u + (j & 15u)));
    return Eight(trits_of(w.x, digit) * d, trits_of(w.y, digit) * d);
}

/* Offset of the bytes with 2-bit fields of element j (32 bytes per half of a block of 256), and the
 * bit. */
uint crumbs_of(uint j) { return (j >> 7) * 32u + (j & 24u); }
uint crumb_bit(uint j) { return j >> 4 & 6u; }

/* The stored integers (quants) of elements j to j + 7 as bytes: q4_*, q5_*, q6_k unsigned; q8_0
 * signed. */
uvec2 quant_stored8(uint t, uint at, uint j)
{
    uint g = j >> 5;
    if (t == Q8_0)
        return quant_two(t, at + 2u + j);
    if (t == Q4_K || t == Q5_K) {
        uint qs = at + (t == Q4_K ? 16u : 48u) + (g >> 1) * 32u + (j & 24u);
        uvec2 q = quant_two(t, qs) >> (g & 1u) * 4u & 0x0f0f0f0fu;
        if (t == Q5_K)
            q |= (quant_two(t, at + 16u + (j & 24u)) >> g & 0x01010101u) << 4;
        return q;
    }
    if (t == Q6_K) {
        uint run = g & 3u;
        uvec2 q = quant_two(t, at + (j >> 7) * 64u + (run & 1u) * 32u + (j & 24u));
        uvec2 h = quant_two(t, at + 128u + crumbs_of(j)) >> crumb_bit(j) & 0x03030303u;
        return (q >> (run >> 1) * 4u & 0x0f0f0f0fu) | h << 4;
    }
    bool five = t == Q5_0 || t == Q5_1;
    uint head = t == Q4_1 || t == Q5_1 ? 4u : 2u;
    uvec2 q = quant_two(t, at + head + (five ? 4u : 0u) + (j & 8u)) >> (j >> 2 & 4u) & 0x0f0f0f0fu;
    if (five) {
        uint h = quant_word(t, at + head) >> j;
        q |= uvec2(spread_bits(h), spread_bits(h >> 4)) << 4;
    }
    return q;
}

/* Types with blocks of 32 and 64. */
Eight decode_small(uint t, uint at, uint j)
{
    uint nibble = j >> 2 & 4u, i = j & 8u;
    if (t == NVFP4) {
        uvec2 q = quant_two(t, at + 4u + (j >> 4) * 8u) >> (j >> 1 & 4u);
        float d = ue4m3_half(quant_byte(at + (j >> 4)));
        return Eight(levels_of(t, q.x) * d, levels_of(t, q.y) * d);
    }
    if (t == MXFP4 || t == IQ4_NL) {
        uvec2 q = quant_two(t, at + (t == MXFP4 ? 1u : 2u) + i) >> nibble;
        float d = t == MXFP4 ? e8m0_half(quant_byte(at)) : quant_half(at);
        return Eight(levels_of(t, q.x) * d, levels_of(t, q.y) * d);
    }
    uvec2 q = quant_stored8(t, at, j);
    float d = quant_half(at);
    if (t == Q8_0)
        return Eight(signed_bytes_of(q.x) * d, signed_bytes_of(q.y) * d);
    if (t == Q4_1 || t == Q5_1)
        return scaled(q, 0.0, d, quant_half(at + 2u));
    return scaled(q, t == Q4_0 ? 8.0 : 16.0, d, 0.0);
}

Eight quant_decode_block(uint t, uint at, uint j)
{
    if (quant_block_size(t) != 256u)
        return decode_small(t, at, j);
    uint crumbs = crumbs_of(j), crumb = crumb_bit(j), g = j >> 5;
    if (t == Q4_K || t == Q5_K) {
        vec2 d = unpackHalf2x16(QUANT_WORDS[at >> 2]), s = scale_and_min(at >> 2, g);
        return scaled(quant_stored8(t, at, j), 0.0, d.x * s.x, -(d.y * s.y));
    }
    if (t == Q6_K) {
        int scale = int(quant_byte(at + 192u + (j >> 4)) << 24) >> 24;
        float d = quant_half(at + 208u) * float(scale);
        return scaled(quant_stored8(t, at, j), 32.0, d, 0.0);
    }
    if (t == Q2_K) {
        vec2 d = unpackHalf2x16(QUANT_WORDS[(at >> 2) + 20u]);
        uint s = quant_byte(at + (j >> 4));
        uvec2 q = quant_two(t, at + 16u + crumbs) >> crumb & 0x03030303u;
        return scaled(q, 0.0, d.x * float(s & 15u), -(d.y * float(s >> 4)));
    }
    if (t == Q3_K) {
        uvec2 q = quant_two(t, at + 32u + crumbs) >> crumb & 0x03030303u;
        q |= (quant_two(t, at + (j & 24u)) >> g & 0x01010101u) << 2;
        float scale = float(q3_k_scale(at + 96u, j >> 4)) - 32.0;
        return scaled(q, 4.0, quant_half(at + 108u) * scale, 0.0);
    }
    if (t == Q8_K) {
        float d = uintBitsToFloat(QUANT_WORDS[at >> 2]);
        uvec2 q = quant_two(t, at + 4u + j);
        return Eight(signed_bytes_of(q.x) * d, signed_bytes_of(q.y) * d);
    }
    if (t == IQ4_XS) {
        uint head = QUANT_WORDS[at >> 2], low = QUANT_WORDS[(at >> 2) + 1u] >> g * 4u & 15u;
        float scale = float(low | (head >> (16u + g * 2u) & 3u) << 4) - 32.0;
        float d = unpackHalf2x16(head).x * scale;
        uvec2 q = quant_two(t, at + 8u + g * 16u + (j & 8u)) >> (j >> 2 & 4u);
        return Eight(levels_of(t, q.x) * d, levels_of(t, q.y) * d);
    }
    if (t == TQ1_0)
        return decode_tq1_0(at, j);
    uvec2 q = quant_two(t, at + crumbs) >> crumb & 0x03030303u; /* TQ2_0 */
    return scaled(q, 1.0, quant_half(at + 64u), 0.0);
}

/* ---- Points of a grid ------------------------------------------------------------------------ */

#elif FAMILY < 4

/* The grids of the family as quant_grids.comp writes them, two rows per word. */
WORDS(grid);

uint grid_row(uint first, uint i) { return grid[(first + i) >> 1] >> (i & 1u) * 16u & 0xffffu; }

vec4 negated(vec4 v, uint signs)
{
    return vec4((signs & 1u) != 0u ? -v.x : v.x, (signs & 2u) != 0u ? -v.y : v.y,
                (signs & 4u) != 0u ? -v.z : v.z, (signs & 8u) != 0u ? -v.w : v.w);
}
/* 7 stored bits give 8: the last makes the number of minus signs even. */
uint even_signs(uint bits)
{
    return bits | (uint(bitCount(bits)) & 1u) << 7;
}
vec4 fields2(uint row) { return vec4(row & 3u, row >> 2 & 3u, row >> 4 & 3u, row >> 6 & 3u); }
uint nibble_at(uint at, uint i) { return quant_byte(at + (i >> 1)) >> (i & 1u) * 4u & 15u; }

#if FAMILY == 1
Eight quant_decode_block(uint t, uint at, uint j)
{
    uint k = j >> 3, row, s, sign;
    float d;
    if (t == IQ1_S) {
        uint h = quant_u16(at + 34u + (k >> 2) * 2u);
        row = quant_byte(at + 2u + k) | (h >> (k & 3u) * 3u & 7u) << 8;
        s = h >> 12 & 7u;
        sign = h >> 15;
        d = quant_half(at);
    } else {
        uint h = nibble_at(at + 32u, k), a = QUANT_WORDS[(at >> 2) + 12u];
        uint b = QUANT_WORDS[(at >> 2) + 13u];
        row = quant_byte(at + k) | (h & 7u) << 8;
        s = quant_u16(at + 48u + (k >> 3) * 2u) >> (k >> 1 & 3u) * 3u & 7u;
        sign = h >> 3;
        uint bits = (a >> 12 & 15u) | (a >> 24 & 0xf0u) | (b >> 4 & 0xf00u) | (b >> 16 & 0xf000u);
        d = unpackHalf2x16(bits).x;
    }
    row = grid_row(0u, row);
    float scale = d * float(2u * s + 1u), shift = (sign != 0u ? -0.125 : 0.125) - 1.0;
    return Eight((fields2(row) + shift) * scale, (fields2(row >> 8) + shift) * scale);
}

#elif FAMILY == 2
/* Levels 8, 25, 43 of the fields 0, 1, 2. */
vec4 iq2_levels(uint row)
{
    vec4 f = fields2(row);
    return 8.0 + f * 16.5 + f * f * 0.5;
}

Eight quant_decode_block(uint t, uint at, uint j)
{
    uint k = j >> 3, row, signs, s;
    if (t == IQ2_XXS) {
        uint group = at + 2u + (k >> 2) * 8u, bits = quant_word(t, group + 4u);
        row = grid_row(0u, quant_byte(group + (k & 3u)));
        signs = even_signs(bits >> (k & 3u) * 7u & 127u);
        s = bits >> 28;
    } else if (t == IQ2_XS) {
        uint q = quant_u16(at + 2u + k * 2u);
        row = grid_row(256u, q & 511u);
        signs = even_signs(q >> 9);
        s = nibble_at(at + 66u, k >> 1);
    } else {
        uint high = quant_byte(at + 66u + (k >> 2)) >> (k & 3u) * 2u & 3u;
        row = grid_row(768u, quant_byte(at + 2u + k) | high << 8);
        signs = quant_byte(at + 34u + k);
        s = nibble_at(at + 74u, k >> 1);
    }
    float d = quant_half(at) * (0.5 + float(s)) * 0.25;
    return Eight(negated(iq2_levels(row) * d, signs),
                 negated(iq2_levels(row >> 8) * d, signs >> 4));
}

#else
vec4 fields3(uint row) { return vec4(row & 7u, row >> 3 & 7u, row >> 6 & 7u, row >> 9 & 7u); }
/* Levels 4, 12, .. 52, 62 and 1, 3, .. 15. */
vec4 iq3_levels(uint t, uint row)
{
    vec4 f = fields3(row);
    if (t == IQ3_S)
        return f * 2.0 + 1.0;
    return f * 8.0 + 4.0 + 2.0 * step(vec4(6.5), f);
}

Eight quant_decode_block(uint t, uint at, uint j)
{
    uint k = j >> 3, a, b, signs;
    uint q = quant_u16(at + 2u + k * 2u);
    float d = quant_half(at);
    if (t == IQ3_XXS) {
        uint bits = quant_word(t, at + 66u + (k >> 2) * 4u);
        a = grid_row(0u, q & 0xffu);
        b = grid_row(0u, q >> 8);
        signs = even_signs(bits >> (k & 3u) * 7u & 127u);
        d *= (0.5 + float(bits >> 28)) * 0.5;
    } else {
        uint high = quant_byte(at + 66u + (k >> 2)) >> (k & 3u) * 2u;
        a = grid_row(256u, (q & 0xffu) | (high & 1u) << 8);
        b = grid_row(256u, q >> 8 | (high & 2u) << 7);
        signs = quant_byte(at + 74u + k);
        d *= float(2u * nibble_at(at + 106u, k >> 2) + 1u);
    }
    return Eight(negated(iq3_levels(t, a) * d, signs), negated(iq3_levels(t, b) * d, signs >> 4));
}
#endif

#endif

#if FAMILY < 4
Eight quant_decode8(uint t, uint row, uint k)
{
    uint size = quant_block_size(t);
    return quant_decode_block(t, row + k / size * quant_block_bytes(t), k % size);
}
#endif

#endif
