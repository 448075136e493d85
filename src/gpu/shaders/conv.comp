/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Convolution as a matrix product: for each group, result [filters, pixels of all images] =
 * w [filters, k] . windows [k, pixels], k = (channel, tap). The windows are never written down:
 * each element is looked up in x. conv.glsl says what comes after the sum.
 *
 * One workgroup makes BM filters x BN pixels of a group. It walks along k in steps of BK: the tiles
 * [BK][BM] of w and [BK][BN] of the windows of a step lie in shared memory while those of the next
 * one are on their way to registers. 32 neighbouring invocations form a patch of 4 x 8, each with
 * TM x TN results in pieces of 4 x 4. An invocation fetches the windows of fixed pixels.
 *
 * Padding takes no part, but in a tile it is 0, and 0 times an infinite weight is NaN: sums that
 * are not finite, of windows that reach into it, are computed again, tap by tap.
 *
 * SLICES: split-k, this number of workgroups share a tile, each with a slice of k. The results are
 * partial sums then, f32, [slice][element]. */
#include "common.glsl"
#include "conv.def"
#include "conv.glsl"
#include "put.glsl"
#include "finite.glsl"

const uint THREADS = BM / TM * (BN / TN);
const uint SM = BM + 4, SN = BN + 4;
const uint NA = BM * BK / 4 / THREADS;
const uint WIDE = BN < THREADS ? BN : THREADS; /* adjacent invocations along the pixels */
const uint NP = BN / WIDE, DOWN = THREADS / WIDE, NK = BK / DOWN; /* per invocation */

#ifdef INT
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#else
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#endif

shared NUM4 sa[2 * BK * SM / 4]; /* [stage][k][filter] */
shared NUM4 sb[2 * BK * SN / 4]; /* [stage][k][pixel] */

NUM4 ra[NA];
NUM rb[NP * NK];
NUM4 sum[TM * TN / 4];
ivec3 window[NP];
uint image_at[NP]; /* offset of the image and group; ~0: no pixel */
uint slice_at;     /* offset of the results of the slice */

/* Row kk of the windows at pixel q of this invocation. */
NUM fetch_x(uint q, uint kk)
{
    uint channel = kk / TAPS, tap = kk % TAPS, i;
    ivec3 t = ivec3(tap / (KH * KW), tap / KW % KH, tap % KW);
    ivec3 at = window[q] + t * ivec3(dilation_d, dilation_h, dilation_w);
    if (!find_element(at, i) || channel >= channels || image_at[q] == ~0u)
        return NUM(0);
    return load_x(image_at[q] + channel * in_d * in_h * in_w + i);
}

/* Four adjacent elements along k of filter f, the first of which is element kk. */
NUM4 fetch_w(uint first, uint f, uint kk)
{
    NUM4 v = NUM4(0);
    uint k = channels * TAPS, left = f < filters && kk < k ? k - kk : 0u;
    [[unroll]] for (uint j = 0u; j < FOUR; j++)
        if (j < left)
            v[j] = load_w(first + f * k + kk + j);
    return v;
}

/* Global memory to registers: the tiles from kk on. */
void fetch(uint w_first, uint m0, uint kk)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uint u = LANE + i * THREADS;
        ra[i] = fetch_w(w_first, m0 + u / (BK / 4u), kk + u % (BK / 4u) * 4u);
    }
    [[unroll]] for (uint i = 0u; i < NP * NK; i++)
        rb[i] = fetch_x(i / NK, kk + LANE / WIDE + i % NK * DOWN);
}

/* Registers to stage s of shared memory. */
void put(uint s)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uint u = LANE + i * THREADS;
        uint e = (s * BK + u % (BK / 4u) * 4u) * SM + u / (BK / 4u);
        [[unroll]] for (uint j = 0u; j < FOUR; j++)
            sa[(e + j * SM) / 4u][e % 4u] = ra[i][j];
    }
    [[unroll]] for (uint i = 0u; i < NP * NK; i++) {
        uint e = (s * BK + LANE / WIDE + i % NK * DOWN) * SN + LANE % WIDE + i / NK * WIDE;
        sb[e / 4u][e % 4u] = rb[i];
    }
}

void multiply(uint s, uint am, uint bn)
{
    [[unroll]] for (uint kk = 0u; kk < BK; kk++) {
        NUM4 fa[TM / 4], fb[TN / 4];
        [[unroll]] for (uint i = 0u; i < TM / 4u; i++)
            fa[i] = sa[((s * BK + kk) * SM + am + i * 16u) / 4u];
        [[unroll]] for (uint j = 0u; j < TN / 4u; j++)
            fb[j] = sb[((s * BK + kk) * SN + bn + j * 32u) / 4u];
        [[unroll]] for (uint i = 0u; i < TM; i++)
            [[unroll]] for (uint j = 0u; j < TN / 4u; j++)
                sum[i * (TN / 4u) + j] =
                    MULTIPLY_ADD(NUM4(fa[i / 4u][i % 4u]), fb[j], sum[i * (TN / 4u) + j]);
    }
}

#ifndef INT
/* Whether one of four pixels from `col` on has a window with padding. */
bool has_padding(uint col)
{
    bool found = false;
    for (uint e = 0u; e < FOUR; e++)
        found = found || is_padded((col + e) % pixels);
    return found;
}

/* The sum of filter f and pixel `col` over rows `from` to `end` of k, without the padding. */
float sum_taps(uint g, uint f, uint col, uint from, uint end)
{
    ivec3 start = find_window(col % pixels);
    uint area = in_d * in_h * in_w, x_first = x_at + (col / pixels * groups + g) * channels * area;
    uint w_first = w_at + (g * filters + f) * channels * TAPS, i;
    float all = 0.0;
    for (uint kk = from; kk < end; kk++) {
        ivec3 t = ivec3(kk % TAPS / (KH * KW), kk % TAPS / KW % KH, kk % TAPS % KW);
        if (find_element(start + t * ivec3(dilation_d, dilation_h, dilation_w), i))
            all += load_x(x_first + kk / TAPS * area + i) * load_w(w_first + kk);
    }
    return all;
}
#endif

/* Stores four adjacent pixels from `col` on of filter f of group g. Small images: they may belong
 * to two or more. */
void write4(NUM4 v, uint g, uint f, uint col)
{
    uint left = min(images * pixels - col, 4u), whole = g * filters + f;
    uint image = col / pixels, p = col % pixels;
    uvec4 bits = uvec4(0u);
    uint first = (image * groups * filters + whole) * pixels + p;
    bool split = p + left > pixels;
    [[unroll]] for (uint j = 0u; j < FOUR; j++) {
        if (j >= left)
            continue;
        uint c = col + j, at = first + j;
        if (split)
            at = (c / pixels * groups * filters + whole) * pixels + c % pixels;
        bits[j] = finish(v[j], whole, at);
        if (split)
            put4(slice_at + at, 1u, uvec4(bits[j], 0u, 0u, 0u));
    }
    if (!split)
        put4(slice_at + first, left, bits);
}

void main()
{
    uint tiles_m = (filters + BM - 1u) / BM, tiles_n = (images * pixels + BN - 1u) / BN;
    bool exists = GROUP_INDEX < n_items;
    uint tile = exists ? GROUP_INDEX / SLICES : 0u, slice = exists ? GROUP_INDEX % SLICES : 0u;
    uint m0 = tile % tiles_m * BM, n0 = tile / tiles_m % tiles_n * BN;
    uint g = tile / tiles_m / tiles_n;
    [[unroll]] for (uint q = 0u; q < NP; q++) {
        uint col = n0 + LANE % WIDE + q * WIDE, image = col / pixels;
        window[q] = find_window(col % pixels);
        image_at[q] = image >= images ? ~0u
                      : x_at + (image * groups + g) * channels * in_d * in_h * in_w;
    }
    uint part = LANE / 32u, lane = LANE % 32u, parts_m = BM / (4u * TM);
    uint am = part % parts_m * 4u * TM + lane / 8u * 4u;
    uint bn = part / parts_m * 8u * TN + lane % 8u * 4u;
    [[unroll]] for (uint i = 0u; i < TM * TN / 4u; i++)
        sum[i] = NUM4(0);

    uint w_first = w_at + g * filters * channels * TAPS, k = channels * TAPS;
    uint each = (k + SLICES * BK - 1u) / (SLICES * BK) * BK, begin = slice * each;
    uint end = exists ? min(begin + each, k) : 0u;
    slice_at = out_at + slice * total;
    fetch(w_first, m0, begin);
    put(0u);
    fetch(w_first, m0, begin + BK);
    barrier();
    uint s = 0u;
    [[dont_unroll]] for (uint kk = begin; kk < end; kk += BK) {
        put(s ^ 1u);
        fetch(w_first, m0, kk + 2u * BK);
        multiply(s, am, bn);
        barrier();
        s ^= 1u;
    }

    uint odd = 0u; /* a bit for each four sums to be computed again */
    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN / 4u; j++) {
            uint q = i * (TN / 4u) + j;
            uint f = m0 + am + i / 4u * 16u + i % 4u, col = n0 + bn + j * 32u;
            if (!exists || f >= filters || col >= images * pixels)
                continue;
#ifndef INT
            NUM4 v = sum[q];
            if (!(is_finite(v.x) && is_finite(v.y) && is_finite(v.z) && is_finite(v.w)))
                odd |= has_padding(col) ? 1u << q : 0u;
#endif
            write4(sum[q], g, f, col);
        }
#ifndef INT
    [[dont_unroll]] for (uint q = 0u; odd != 0u; q++, odd >>= 1) {
        uint i = q / (TN / 4u), j = q % (TN / 4u), last = images * pixels - 1u;
        uint f = m0 + am + i / 4u * 16u + i % 4u, col = n0 + bn + j * 32u;
        NUM4 v;
        if ((odd & 1u) == 0u)
            continue;
        [[dont_unroll]] for (uint e = 0u; e < FOUR; e++)
            v[e] = sum_taps(g, f, min(col + e, last), begin, end);
        write4(v, g, f, col);
    }
#endif
}
