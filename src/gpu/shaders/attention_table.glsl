/* SPDX-License-Identifier: MIT */
/* The page table of ragged attention: after attention.glsl. */

/* The page table row of a batch; ragged: that of a query, from `mask`, below m_b. `report`: whether
 * this invocation sets the flag. */
uint table_of(uint batch, bool report)
{
    if ((OPTIONS & ATTN_RAGGED) == 0u)
        return batch;
    int n = int(m_b), i = int(mask[m_at + batch]);
    if (report && (i < -n || i >= n))
        atomicOr(flags[0], FLAG_CLAMPED);
    i = i < 0 ? i + n : i;
    return uint(clamp(i, 0, max(n - 1, 0)));
}
