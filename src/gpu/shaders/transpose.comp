/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* y[b, i, j] = x[b, i, j] where x is contiguous along i ("across") and y along j.
 *
 * x at in_offset + sum of b * in_batch + i + j * in_row, y at out_offset + sum of b * out_batch
 * + i * out_row + j, in elements. One workgroup moves a tile of TILE x TILE elements of one
 * batch entry through shared memory, whose rows are padded by one word so that both directions
 * are free of bank conflicts. Elements have BYTES = 1, 2 or 4 bytes; WIDE: 4 bytes, all offsets,
 * strides and sizes are multiples of 4, accesses are vectors. Otherwise rows of y are whole
 * words. */
#include "common.glsl"

layout(constant_id = 1) const uint TILE = 32;
layout(constant_id = 2) const uint BYTES = 4;

layout(push_constant) uniform Push {
    uint n_across, n_last, in_offset, out_offset, in_row, out_row, rows, columns;
    uint dim0, in0, out0, dim1, in1, out1, dim2, in2, out2, dim3, in3, out3;
    uint n_batch;
};

#ifdef WIDE
WORDS4(0, x);
WORDS4(1, y);
#else
WORDS(0, x);
WORDS(1, y);
#endif

shared uint tile[TILE * (TILE + 1)];

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
    from += (batch % dim0) * in0;
    to += (batch % dim0) * out0;
    batch /= dim0;
    from += (batch % dim1) * in1;
    to += (batch % dim1) * out1;
    batch /= dim1;
    from += (batch % dim2) * in2 + (batch / dim2) * in3;
    to += (batch % dim2) * out2 + (batch / dim2) * out3;
    const uint i0 = row * TILE, j0 = column * TILE;

#ifdef WIDE
    const uint quads = TILE / 4u;
    [[unroll]] for (uint k = LANE; k < TILE * quads; k += gl_WorkGroupSize.x) {
        const uint j = k / quads, q = k % quads; /* four elements along i */
        if (inside && j0 + j < n_last && i0 + 4u * q < n_across) {
            const uvec4 v = x[(from + i0 + (j0 + j) * in_row) / 4u + q];
            for (uint n = 0u; n < 4u; n++)
                tile[(4u * q + n) * (TILE + 1u) + j] = v[n];
        }
    }
    barrier();
    [[unroll]] for (uint k = LANE; k < TILE * quads; k += gl_WorkGroupSize.x) {
        const uint i = k / quads, q = k % quads; /* four elements along j */
        const uint at = i * (TILE + 1u) + 4u * q;
        if (inside && i0 + i < n_across && j0 + 4u * q < n_last)
            y[(to + (i0 + i) * out_row + j0) / 4u + q] =
                uvec4(tile[at], tile[at + 1u], tile[at + 2u], tile[at + 3u]);
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
