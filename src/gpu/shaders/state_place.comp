/* SPDX-License-Identifier: MIT */
#version 450
/* Where the slices of a state_write go, when each has a place of its own: place[b, l] of
 * position[b, l] for b < batches, l < slices, or NOWHERE when it is out of range, which sets a
 * flag, or when a later slice goes to the same place. One invocation a slice. */
#include "common.glsl"

layout(constant_id = 1) const uint TINDEX = I32;

WORDS(0, index);
WORDS(1, place);
WORDS(2, flags);

layout(push_constant) uniform Push {
    uint n, slices, index_at, batch_stride, slice_stride, axis_size;
};

#include "index.glsl"

const uint NOWHERE = 0xffffffffu;

void main()
{
    uint i = GLOBAL_INDEX;
    if (i >= n)
        return;
    uint row = index_at + i / slices * batch_stride, l = i % slices;
    Index p = load_index(row + l * slice_stride);
    uint result = uint(p.value);
    if (!p.fits || p.value < 0 || result >= axis_size) {
        atomicOr(flags[0], FLAG_STATE_RANGE);
        result = NOWHERE;
    }
    for (uint k = l + 1u; k < slices && result != NOWHERE; k++) {
        Index q = load_index(row + k * slice_stride);
        if (q.fits && q.value == p.value)
            result = NOWHERE;
    }
    place[i] = result;
}
