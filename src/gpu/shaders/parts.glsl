/* SPDX-License-Identifier: MIT */
/* Elements of BITS bits as fields of words, moved without interpretation. */
#ifndef PARTS_GLSL
#define PARTS_GLSL

const uint PER = BITS < 32u ? 32u / BITS : 1u; /* per word */
const uint MASK = BITS == 8u ? 0xffu : BITS == 16u ? 0xffffu : 0xffffffffu;
const uint STEP = BITS & 31u;

/* Extracts element i from its word, and shifts element i to its field. */
uint take_part(uint word, uint i) { return (word >> (i % PER * STEP)) & MASK; }
uint put_part(uint part, uint i) { return (part & MASK) << (i % PER * STEP); }

#endif
