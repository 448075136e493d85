/* SPDX-License-Identifier: MIT */
/* Stores adjacent results to binding `o` of element type TOUT. PARTIAL: words of the result may
 * contain elements of two invocations. All three are defined before this is included. */
#ifndef PUT_GLSL
#define PUT_GLSL

/* Replaces the bits of word i under the mask; the others belong to another invocation. */
void put_word(uint i, uint bits, uint mask)
{
    if (PARTIAL == 0u || mask == 0xffffffffu) {
        if (mask != 0u)
            o[i] = bits;
    } else if (mask != 0u) {
        atomicAnd(o[i], ~mask);
        atomicOr(o[i], bits & mask);
    }
}

/* Expands one bit per half or byte to a mask of the word. */
uint half_mask(uint two)
{
    return ((two & 1u) != 0u ? 0xffffu : 0u) | ((two & 2u) != 0u ? 0xffff0000u : 0u);
}
uint byte_mask(uint four)
{
    return ((four & 1u) != 0u ? 0xffu : 0u) | ((four & 2u) != 0u ? 0xff00u : 0u) |
           ((four & 4u) != 0u ? 0xff0000u : 0u) | ((four & 8u) != 0u ? 0xff000000u : 0u);
}

/* Writes `count` (up to 4) adjacent elements from element `at` on, given as bits. Without PARTIAL
 * they begin on a word boundary, and no other invocation writes the rest of the last word. */
void put4(uint at, uint count, uvec4 v)
{
    uint bits = bits_of(TOUT);
    count = min(count, 4u);
    if (bits == 32u) {
        if (count > 0u)
            o[at] = v.x;
        if (count > 1u)
            o[at + 1u] = v.y;
        if (count > 2u)
            o[at + 2u] = v.z;
        if (count > 3u)
            o[at + 3u] = v.w;
    } else if (bits == 16u) {
        uint s = PARTIAL != 0u ? at & 1u : 0u, which = ((1u << count) - 1u) << s;
        uint lo = v.x | v.y << 16, hi = v.z | v.w << 16;
        bool odd = s != 0u;
        put_word(at >> 1, odd ? lo << 16 : lo, half_mask(which));
        put_word((at >> 1) + 1u, odd ? lo >> 16 | hi << 16 : hi, half_mask(which >> 2));
        if (PARTIAL != 0u)
            put_word((at >> 1) + 2u, hi >> 16, half_mask(which >> 4));
    } else {
        uint s = PARTIAL != 0u ? at & 3u : 0u, which = ((1u << count) - 1u) << s;
        uint all = v.x | v.y << 8 | v.z << 16 | v.w << 24;
        put_word(at >> 2, all << (s * 8u), byte_mask(which));
        if (PARTIAL != 0u)
            put_word((at >> 2) + 1u, s == 0u ? 0u : all >> ((4u - s) * 8u), byte_mask(which >> 4));
    }
}

#endif
