/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Product of many rows with a quantised weight [n, k]: product.glsl says what is computed,
 * weight.glsl how the weight lies.
 *
 * A workgroup makes BM x BN results of a batch. It decodes BK elements of BN columns into shared
 * memory, puts the same of BM rows beside them, and multiplies. 32 neighbouring invocations form a
 * patch of 4 x 8, each with TM x TN results in pieces of 4 x 4, spread so that neighbours read
 * neighbouring vectors. The next eights of x and w are on their way while a step is multiplied. */
#include "common.glsl"
#include "dequant_gemm.def"
#include "weight.glsl"

const uint THREADS = BM / TM * (BN / TN);
const uint GROUP = 8; /* rows of tiles in one raster group, for cache reuse */
const uint SM = BM + 4, SN = BN + 4;
const uint NA = BM * BK / 8 / THREADS, NB = BN * BK / 8 / THREADS;

shared vec4 sa[BK * SM / 4]; /* [k][m] */
shared vec4 sb[BK * SN / 4]; /* [k][n] */

Eight ra[NA], rb[NB];
vec4 sum[TM * TN / 4];

/* (row or column, k) of vector u of eight of a tile. */
uvec2 place_of(uint u) { return uvec2(u / (BK / 8u), u % (BK / 8u) * 8u); }

/* Global memory to registers: the tiles from kk on. Columns past the end repeat the last one. */
void fetch(Batch at, uint m0, uint n0, uint kk)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uvec2 p = place_of(LANE + i * THREADS);
        ra[i] = Eight(vec4(0.0), vec4(0.0));
        if (m0 + p.x < m && kk + p.y < k)
            ra[i] = x_eight(at.a + (m0 + p.x) * a_m, kk + p.y);
    }
    [[unroll]] for (uint i = 0u; i < NB; i++) {
        uvec2 p = place_of(LANE + i * THREADS);
        uint col = min(n0 + p.x, n - 1u);
        rb[i] = Eight(vec4(0.0), vec4(0.0));
        if (kk + p.y < k)
            rb[i] = w_eight(at.b + col * b_n, col, kk + p.y);
    }
}

/* Registers to shared memory. */
void put()
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uvec2 p = place_of(LANE + i * THREADS);
        uint e = p.y * SM + p.x;
        [[unroll]] for (uint j = 0u; j < EIGHT; j++)
            sa[(e + j * SM) / 4u][e % 4u] = j < 4u ? ra[i].lo[j & 3u] : ra[i].hi[j & 3u];
    }
    [[unroll]] for (uint i = 0u; i < NB; i++) {
        uvec2 p = place_of(LANE + i * THREADS);
        uint e = p.y * SN + p.x;
        [[unroll]] for (uint j = 0u; j < EIGHT; j++)
            sb[(e + j * SN) / 4u][e % 4u] = j < 4u ? rb[i].lo[j & 3u] : rb[i].hi[j & 3u];
    }
}

void multiply(uint am, uint bn)
{
    [[unroll]] for (uint kk = 0u; kk < BK; kk++) {
        vec4 fa[TM / 4], fb[TN / 4];
        [[unroll]] for (uint i = 0u; i < TM / 4u; i++)
            fa[i] = sa[(kk * SM + am + i * 16u) / 4u];
        [[unroll]] for (uint j = 0u; j < TN / 4u; j++)
            fb[j] = sb[(kk * SN + bn + j * 32u) / 4u];
        [[unroll]] for (uint i = 0u; i < TM; i++)
            [[unroll]] for (uint j = 0u; j < TN / 4u; j++)
                sum[i * (TN / 4u) + j] =
                    fma(vec4(fa[i / 4u][i % 4u]), fb[j], sum[i * (TN / 4u) + j]);
    }
}

void main()
{
    uint tiles_m = (m + BM - 1u) / BM, tiles_n = (n + BN - 1u) / BN, tiles = tiles_m * tiles_n;
    bool exists = GROUP_INDEX < n_groups;
    uint tile = GROUP_INDEX % tiles, wide = GROUP * tiles_n, first = tile / wide * GROUP;
    uint rows = min(tiles_m - first, GROUP), local = tile % wide;
    uint m0 = (first + local % rows) * BM, n0 = local / rows * BN;
    Batch at = find_batch(exists ? GROUP_INDEX / tiles : 0u);

    uint part = LANE / 32u, lane = LANE % 32u, parts_m = BM / (4u * TM);
    uint am = part % parts_m * 4u * TM + lane / 8u * 4u;
    uint bn = part / parts_m * 8u * TN + lane % 8u * 4u;
    [[unroll]] for (uint i = 0u; i < TM * TN / 4u; i++)
        sum[i] = vec4(0.0);

    uint steps = exists ? (k + BK - 1u) / BK : 0u;
    [[dont_unroll]] for (uint s = 0u; s <= steps; s++) {
        fetch(at, m0, n0, s * BK);
        if (s != 0u)
            multiply(am, bn);
        barrier();
        put();
        barrier();
    }

    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN / 4u; j++) {
            uint row = m0 + am + i / 4u * 16u + i % 4u, col = n0 + bn + j * 32u;
            if (exists && row < m && col < n)
                finish4(sum[i * (TN / 4u) + j], row, col, at);
        }
}
