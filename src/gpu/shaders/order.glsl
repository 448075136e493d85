/* SPDX-License-Identifier: MIT */
/* Sort keys: unsigned integers that are larger for elements earlier in the order. KEY is a word,
 * with WIDE (64-bit integers) two: (low, high). */
#ifndef ORDER_GLSL
#define ORDER_GLSL

#ifdef WIDE
#define KEY uvec2
#else
#define KEY uint
#endif

/* From the bits of a float: monotonic, both zeros are equal, NaN gives `nan`. */
uint float_key(uint u, uint nan)
{
    if ((u & 0x7fffffffu) > 0x7f800000u)
        return nan;
    u = u == 0x80000000u ? 0u : u;
    return (u & 0x80000000u) != 0u ? ~u : u | 0x80000000u;
}

#ifdef WIDE
const uvec2 LAST_KEY = uvec2(0u);
bool key_above(uvec2 a, uvec2 b) { return a.y == b.y ? a.x > b.x : a.y > b.y; }
#define DEFINE_KEY(name)                                                                   \
    uvec2 load_key_##name(uint t, uint i, bool flip, uint nan)                             \
    {                                                                                      \
        uvec2 k = uvec2(name[i * 2u], name[i * 2u + 1u] ^ 0x80000000u);                    \
        return flip ? ~k : k;                                                              \
    }
#else
const uint LAST_KEY = 0u;
bool key_above(uint a, uint b) { return a > b; }
/* The key of element i of binding `name`; flip: smaller ones come first. nan is the key of NaN
 * before it is flipped. */
#define DEFINE_KEY(name)                                                                   \
    uint load_key_##name(uint t, uint i, bool flip, uint nan)                              \
    {                                                                                      \
        uint k = t == F32 || t == F16 || t == BF16                                         \
                     ? float_key(floatBitsToUint(load_f_##name(t, i)), nan)                \
                     : uint(load_i_raw_##name(t, i)) ^ 0x80000000u;                        \
        return flip ? ~k : k;                                                              \
    }
#endif

#endif
