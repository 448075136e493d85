/* SPDX-License-Identifier: MIT */
/* Products whose batches are rows of a, each with a weight of its own from a bank (TIDS: the type
 * of the ids, 0: an ordinary batch). Included after product.glsl. */
#ifndef EXPERTS_GLSL
#define EXPERTS_GLSL

#include "flags.def"

TENSOR(ids)
layout(SLOT(flags), std430) buffer buffer_flags { uint flags[]; };

/* Offsets of a batch. With ids a_0 is the stride of a row and b_0 that of an expert. Negative ids
 * count from the end. */
Batch find_matrices(uint i)
{
    if (TIDS == 0u)
        return find_batch(i);
    uint at = ids_at + i * ids_step;
    int low = load_i_raw_ids(TIDS, at), experts = int(n_experts);
    int id = low < 0 ? low + experts : low;
    bool bad = id < 0 || id >= experts;
    if (TIDS == I64)
        bad = bad || int(ids[at * 2u + 1u]) != low >> 31;
    if (bad && LANE == 0u)
        atomicOr(flags[0], FLAG_CLAMPED);
    id = clamp(id, 0, max(experts - 1, 0));
    return Batch(a_at + i * a_0, b_at + uint(id) * b_0, 0u, out_at + i * n);
}

#endif
