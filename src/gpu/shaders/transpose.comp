/* SPDX-License-Identifier: MIT */
#version 450
/* y[b, i, j] = x[b, i, j] where x is contiguous along i ("across") and y along j.
 *
 * x at in_offset + sum of b * in_batch + i + j * in_row, y at out_offset + sum of b * out_batch
 * + i * out_row + j, in elements. One workgroup moves a tile of TILE x TILE elements of one batch
 * entry, through shared memory whose rows are padded by one word so that both directions are free
 * of bank conflicts. Elements have BYTES = 1, 2 or 4 bytes, rows of y are whole words.
 *
 * WIDE: 4 bytes, all offsets, strides and sizes are multiples of 4. Each of TILE^2 / 16 invocations
 * turns a block of 4 x 4 in registers. Neighbours are AHEAD blocks along i, then others along j, so
 * that what 32 of them read and write at a time is whole lines of the caches or halves of them. */
#include "common.glsl"
#include "transpose.def"

#ifdef WIDE
WORDS4(x);
WORDS4(y);
const uint AHEAD = 8u, ASIDE = 32u / AHEAD; /* fastest on an H200, of 4, 8 and 16 */
#else
WORDS(x);
WORDS(y);
shared uint tile[TILE * (TILE + 1)];
#endif

void main()
{
    /* Which tile of which batch entry. */
    uint group = GROUP_INDEX;
    const uint column = group % columns;
    group /= columns;
    const uint row = group % rows;
    uint batch = group / rows;
    const bool inside = batch < n_batch;
    uint from = in_offset, to = out_offset;
    if (n_batch > 1u) {
        from += (batch % dim0) * in0;
        to += (batch % dim0) * out0;
        batch /= dim0;
        from += (batch % dim1) * in1;
        to += (batch % dim1) * out1;
        batch /= dim1;
        from += (batch % dim2) * in2 + (batch / dim2) * in3;
        to += (batch % dim2) * out2 + (batch / dim2) * out3;
    }
    const uint i0 = row * TILE, j0 = column * TILE;

#ifdef WIDE
    const uint across = TILE / 4u / AHEAD, part = LANE / 32u;
    const uint i = i0 + 4u * (LANE % AHEAD + AHEAD * (part % across));
    const uint j = j0 + 4u * (LANE / AHEAD % ASIDE + ASIDE * (part / across));
    if (inside && i < n_across && j < n_last) {
        const uint down = in_row / 4u, source = (from + i + j * in_row) / 4u;
        const uvec4 a = x[source], b = x[source + down];
        const uvec4 c = x[source + 2u * down], d = x[source + 3u * down];
        const uint next = out_row / 4u, target = (to + i * out_row + j) / 4u;
        y[target] = uvec4(a.x, b.x, c.x, d.x);
        y[target + next] = uvec4(a.y, b.y, c.y, d.y);
        y[target + 2u * next] = uvec4(a.z, b.z, c.z, d.z);
        y[target + 3u * next] = uvec4(a.w, b.w, c.w, d.w);
    }
#else
    const uint lanes = 4u / BYTES, bits = 8u * BYTES;
    for (uint k = LANE; k < TILE * TILE; k += gl_WorkGroupSize.x) {
        const uint j = k / TILE, i = k % TILE;
        if (inside && j0 + j < n_last && i0 + i < n_across) {
            const uint at = from + i0 + i + (j0 + j) * in_row;
            tile[i * (TILE + 1u) + j] = x[at / lanes] >> ((at % lanes) * bits);
        }
    }
    barrier();
    const uint words = TILE / lanes;
    for (uint k = LANE; k < TILE * words; k += gl_WorkGroupSize.x) {
        const uint i = k / words, w = k % words; /* a word along j */
        if (inside && i0 + i < n_across && j0 + w * lanes < n_last) {
            const uint at = i * (TILE + 1u) + w * lanes;
            uint word = tile[at];
            if (lanes == 2u)
                word = (word & 0xffffu) | (tile[at + 1u] << 16);
            if (lanes == 4u)
                word = (word & 0xffu) | ((tile[at + 1u] & 0xffu) << 8) |
                       ((tile[at + 2u] & 0xffu) << 16) | (tile[at + 3u] << 24);
            y[(to + (i0 + i) * out_row + j0) / lanes + w] = word;
        }
    }
#endif
}
