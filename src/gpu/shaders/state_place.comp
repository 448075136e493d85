/* SPDX-License-Identifier: MIT */
#version 450
/* Where the slices of a state_write go, when each has a place of its own: place[b, l] of
 * position[b, l] for b < batches, l < slices, or NOWHERE when it is out of range, which sets a
 * flag, or when a later slice goes to the same place. One invocation a slice.
 *
 * Positions of a prompt grow, those of padding in front of it are equal. Each workgroup looks
 * whether no position falls in any row: then equal ones are neighbours. Only where one falls, each
 * slice is compared with all behind it. */
#include "common.glsl"
#include "state_place.def"

WORDS(index);
WORDS(place);
WORDS(flags);

#include "index.glsl"

const uint NOWHERE = 0xffffffffu;
shared uint n_falls; /* lanes that saw a position below the one before */

Index load_position(uint i)
{
    return load_index(index_at + i / slices * batch_stride + i % slices * slice_stride);
}

bool has_falls()
{
    uint falls = 0u;
    if (LANE == 0u)
        n_falls = 0u;
    barrier();
    for (uint i = LANE; i + 1u < n; i += gl_WorkGroupSize.x) {
        Index p = load_position(i), q = load_position(i + 1u);
        bool rises = p.fits && q.fits && p.value <= q.value;
        falls |= rises || i % slices == slices - 1u ? 0u : 1u;
    }
    if (falls != 0u)
        atomicAdd(n_falls, 1u);
    barrier();
    return n_falls != 0u;
}

void main()
{
    uint i = GLOBAL_INDEX;
    bool falls = has_falls();
    if (i >= n)
        return;
    Index p = load_position(i);
    uint result = uint(p.value);
    if (!p.fits || p.value < 0 || result >= axis_size) {
        atomicOr(flags[0], FLAG_STATE_RANGE);
        result = NOWHERE;
    }
    uint row_end = i - i % slices + slices, end = falls ? row_end : min(row_end, i + 2u);
    for (uint k = i + 1u; k < end && result != NOWHERE; k++) {
        Index q = load_position(k);
        if (q.fits && q.value == p.value)
            result = NOWHERE;
    }
    place[i] = result;
}
