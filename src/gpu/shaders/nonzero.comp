/* SPDX-License-Identifier: MIT */
#version 450
/* Places of the elements of x [n] that are not zero, in order, in two dispatches around a running
 * sum: each workgroup takes THREADS * NONZERO_EACH elements.
 * COUNT: counts[workgroup] = how many of them are not zero.
 * else:  before[workgroup] = those of all workgroups before; y i64 [RANK, n] gets the coordinates
 *        in column before + own rank, and -1 in the columns from the total on; n_found is the
 *        total. */
#include "common.glsl"
#include "nonzero.def"

TENSOR(x)
WORDS(counts);
WORDS(before);
WORDS(y);
WORDS(n_found);

shared uint lanes[2u * THREADS];

bool is_nonzero(uint i)
{
    if (TX == F32)
        return (x[i] & 0x7fffffffu) != 0u;
    if (TX == F16 || TX == BF16)
        return (x[i >> 1] >> ((i & 1u) * 16u) & 0x7fffu) != 0u;
    if (TX == I64)
        return (x[i * 2u] | x[i * 2u + 1u]) != 0u;
    return load_i_raw_x(TX, i) != 0;
}

void store_place(uint i, uint column)
{
    for (uint a = RANK; a > 0u; a--) {
        uint next = i / dim[a - 1u], at = (y_at + (a - 1u) * n + column) * 2u;
        y[at] = i - next * dim[a - 1u];
        y[at + 1u] = 0u;
        i = next;
    }
}

void store_nothing(uint column)
{
    for (uint a = 0u; a < RANK; a++) {
        uint at = (y_at + a * n + column) * 2u;
        y[at] = 0xffffffffu;
        y[at + 1u] = 0xffffffffu;
    }
}

void main()
{
    uint first = (GROUP_INDEX * THREADS + LANE) * NONZERO_EACH, mask = 0u;
    for (uint j = 0u; j < NONZERO_EACH; j++)
        if (first + j < n && is_nonzero(x_at + first + j))
            mask |= 1u << j;
    lanes[LANE] = uint(bitCount(mask));
    uint from = 0u;
    for (uint step = 1u; step < THREADS; step *= 2u) {
        uint to = THREADS - from;
        barrier();
        lanes[to + LANE] = lanes[from + LANE] + (LANE >= step ? lanes[from + LANE - step] : 0u);
        from = to;
    }
    barrier();
    if (GROUP_INDEX >= blocks)
        return;
    if (COUNT != 0u) {
        if (LANE == 0u)
            counts[GROUP_INDEX] = lanes[from + THREADS - 1u];
        return;
    }
    uint total = before[blocks - 1u] + counts[blocks - 1u];
    if ((OUTS & 2u) != 0u && GROUP_INDEX == 0u && LANE == 0u) {
        n_found[found_at * 2u] = total;
        n_found[found_at * 2u + 1u] = 0u;
    }
    if ((OUTS & 1u) == 0u)
        return;
    uint column = before[GROUP_INDEX] + (LANE > 0u ? lanes[from + LANE - 1u] : 0u);
    for (uint j = 0u; j < NONZERO_EACH; j++) {
        if ((mask >> j & 1u) != 0u)
            store_place(first + j, column++);
        if (first + j < n && first + j >= total)
            store_nothing(first + j);
    }
}
