/* SPDX-License-Identifier: MIT */
/* Philox4x32-10, as in base/philox.h: the same words from the same seed on every device. */
#ifndef PHILOX_GLSL
#define PHILOX_GLSL

/* The four words of block `block` of the stream of a seed (low word, high word). */
uvec4 philox_block(uvec2 seed, uint block)
{
    uvec4 v = uvec4(block, 0u, 0u, 0u);
    for (int round = 0; round < 10; round++) {
        uint a_high, a_low, b_high, b_low;
        umulExtended(0xD2511F53u, v.x, a_high, a_low);
        umulExtended(0xCD9E8D57u, v.z, b_high, b_low);
        v = uvec4(b_high ^ v.y ^ seed.x, b_low, a_high ^ v.w ^ seed.y, a_low);
        seed += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return v;
}

#endif
