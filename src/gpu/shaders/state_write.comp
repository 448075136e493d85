/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
/* state[.., place, ..] = update[.., l, ..] for update with dimensions dim and any strides. Slice l
 * along axis AXIS goes to position + l (ONE: a single number), or to place[b, l] made by
 * state_place.comp, with b the coordinate of axis BATCH (8: none). Places out of range are skipped;
 * ONE sets the flag.
 *
 * One invocation moves one element; of those smaller than a word it changes only its own bits.
 * With TO (F16 or BF16) the update is f32 and rounded to that type: an element (BITS 16), or two
 * that follow one another and make a word of the state (BITS 32; update_stride counts elements,
 * the others words). */
#include "common.glsl"
#include "state_write.def"

#include "parts.glsl"

WORDS(state);
WORDS(update);
WORDS(index); /* the position, or the places */
WORDS(flags);

#include "chain.glsl"

#include "index.glsl"

/* Where slice l goes; axis_size or more: nowhere. */
uint find_slice(uint l, uint b)
{
    if (ONE == 0u)
        return index[b * slices + l];
    uint at = slice_place(load_index(index_at), l, axis_size);
    if (at >= axis_size)
        atomicOr(flags[0], FLAG_STATE_RANGE);
    return at;
}

uint round_f32(uint i) { return encode_f(TO, uintBitsToFloat(update[i])); }

void main()
{
    uint e = GLOBAL_INDEX, from = update_at, to = 0u, l = 0u, b = 0u;
    if (e >= n)
        return;
    for (uint k = RANK; k > 0u; k--) {
        uint i = e % dim[k - 1u];
        e /= dim[k - 1u];
        from += i * update_stride[k - 1u];
        to += i * state_stride[k - 1u];
        l = k - 1u == AXIS ? i : l;
        b = k - 1u == BATCH ? i : b;
    }
    uint place = find_slice(l, b);
    if (place >= axis_size)
        return;
    to += place * axis_stride;
    if (TO != 0u && BITS == 32u) {
        state[to] = round_f32(from) | round_f32(from + 1u) << 16;
    } else if (BITS == 64u) {
        state[2u * to] = update[2u * from];
        state[2u * to + 1u] = update[2u * from + 1u];
    } else if (BITS == 32u) {
        state[to] = update[from];
    } else {
        atomicAnd(state[to / PER], ~put_part(MASK, to));
        uint part = TO != 0u ? round_f32(from) : take_part(update[from / PER], from);
        atomicOr(state[to / PER], put_part(part, to));
    }
}
