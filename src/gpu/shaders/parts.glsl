/* SPDX-License-Identifier: MIT */
/* Elements of BITS bits, a specialisation constant, as parts of words: moved, not computed with. */
#ifndef PARTS_GLSL
#define PARTS_GLSL

const uint PER = BITS < 32u ? 32u / BITS : 1u; /* in a word */
const uint MASK = BITS == 8u ? 0xffu : BITS == 16u ? 0xffffu : 0xffffffffu;
const uint STEP = BITS & 31u;

/* Element i out of the word it is in, and where element i of a word goes. */
uint take_part(uint word, uint i) { return (word >> (i % PER * STEP)) & MASK; }
uint put_part(uint part, uint i) { return (part & MASK) << (i % PER * STEP); }

#endif
