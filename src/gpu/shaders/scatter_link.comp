/* SPDX-License-Identifier: MIT */
#version 450
/* First half of every scatter: where does update u go? Invocation u finds its target and enters
 * u + 1 there: with LAST the largest one stays in head[target], otherwise it becomes the first
 * element of the list head[target] -> next[u] -> ..., 0 at the end, whose order means nothing.
 *
 * Targets: tuple u of K indices, sum_k index[u, k] * stride_k; or (ELEMENTS) the place u has in dim
 * with the coordinate of one axis replaced by index[u]; stride is 0 along that axis. */
#include "common.glsl"
#include "scatter_link.def"

WORDS(index);
WORDS(head);
WORDS(next);
WORDS(flags);

#include "index.glsl"

void main()
{
    uint u = GLOBAL_INDEX, target = 0u;
    bool clamped = false, there = true;
    if (u >= n)
        return;
    if (ELEMENTS != 0u) {
        uint e = u;
        for (uint k = K; k > 0u; k--) {
            target += e % dim[k - 1u] * stride[k - 1u];
            e /= dim[k - 1u];
        }
        target += find_place(index_at + u, axis_size, clamped) * axis_stride;
        there = axis_size > 0u;
    } else {
        for (uint k = 0u; k < K; k++) {
            target += find_place(index_at + u * K + k, dim[k], clamped) * stride[k];
            there = there && dim[k] > 0u;
        }
    }
    if (clamped)
        atomicOr(flags[0], FLAG_CLAMPED);
    if (!there)
        return;
    if (LAST != 0u)
        atomicMax(head[target], u + 1u);
    else
        next[u] = atomicExchange(head[target], u + 1u);
}
