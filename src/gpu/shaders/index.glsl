/* SPDX-License-Identifier: MIT */
/* Indices from a tensor of i32 or i64 (type TINDEX) in binding `index`, and the flag word: shared
 * by all gathers and scatters. */
#ifndef INDEX_GLSL
#define INDEX_GLSL

#include "flags.def"

/* An integer as its low word, its sign, and whether it fits into a signed 32-bit word. */
struct Index {
    int value;
    bool fits, negative;
};

Index make_index(uint low, uint high)
{
    uint sign = (low >> 31) != 0u ? 0xffffffffu : 0u;
    return Index(int(low), high == sign, (high >> 31) != 0u);
}

Index load_index(uint i)
{
    if (TINDEX != I64) {
        int v = int(index[i]);
        return Index(v, true, v < 0);
    }
    return make_index(index[2u * i], index[2u * i + 1u]);
}

/* The index in the state of slice l of a state_write at position p; axis_size or more: out of
 * range. */
uint slice_place(Index p, uint l, uint axis_size)
{
    bool reached = p.fits && (p.value >= 0 || uint(-p.value) <= l);
    uint at = uint(p.value) + l; /* below 2^32: both are below 2^31 */
    return reached ? at : axis_size;
}

/* Index i for an axis of n elements, a negative one counted from the end; clamped when out of
 * range, which sets `clamped`. */
uint find_place(uint i, uint n, inout bool clamped)
{
    Index x = load_index(i);
    int size = int(n);
    if (x.fits && x.value < 0 && x.value >= -size)
        return uint(x.value + size);
    if (x.fits && x.value >= 0 && x.value < size)
        return uint(x.value);
    clamped = true;
    return x.negative || n == 0u ? 0u : n - 1u;
}

#endif
