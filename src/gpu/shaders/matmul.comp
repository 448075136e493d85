/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Matrix product through shared memory: product.glsl says what is computed.
 *
 * One workgroup makes a tile of BM x BN results of a batch. It walks along k in steps of BK: the
 * tiles [BK][BM] of a and [BK][BN] of b of a step lie in shared memory while those of the next one
 * are on their way to registers. 32 neighbouring invocations form a patch of 4 x 8, each with
 * TM x TN results in pieces of 4 x 4, spread so that neighbours read neighbouring vectors.
 *
 * A_ALONG: an invocation fetches a piece of four neighbours along k (0) or along m (1) at a time;
 * B_ALONG along k or n. AV, BV: a piece is one load of aligned elements, of eight where they have
 * 16 bits and 16 (a) or 32 (b) is added to ALONG; else four loads with any strides. Pieces stay as
 * they were loaded until they go to shared memory, so that nothing waits for them before.
 * TSCALE: the sums of a column are multiplied by its scale; n is a multiple of 4.
 * INT: integers of 8 bits, where 2 is added to A_ALONG or B_ALONG instead of AV and BV. */
#include "common.glsl"
#include "matmul.def"
#include "product.glsl"

const uint A_ALONG = ALONG & 1u, B_ALONG = ALONG >> 2 & 1u;
const uint A_WORD = ALONG >> 1 & 1u, B_WORD = ALONG >> 3 & 1u;
const uint THREADS = BM / TM * (BN / TN);
const uint GROUP = 8; /* rows of tiles in one raster group, for cache reuse */
const uint SM = BM + 4, SN = BN + 4;
const uint PA = (ALONG & 16u) != 0u ? 8u : 4u, PB = (ALONG & 32u) != 0u ? 8u : 4u;
const uint NA = BM * BK / PA / THREADS, NB = BN * BK / PB / THREADS;

#ifdef INT
#define NUM int
#define NUM4 ivec4
#define RAW4 ivec4
#define MULTIPLY_ADD(x, y, z) ((x) * (y) + (z))
#else
#define NUM float
#define NUM4 vec4
#define RAW4 uvec4
#define MULTIPLY_ADD(x, y, z) fma(x, y, z)
#endif

shared NUM4 sa[2 * BK * SM / 4]; /* [stage][k][m] */
shared NUM4 sb[2 * BK * SN / 4]; /* [stage][k][n] */

#ifdef INT
TENSOR(a)
TENSOR(b)
ivec4 split_word(uint t, uint w)
{
    if (t == I8)
        return ivec4(w << 24, w << 16, w << 8, w) >> 24;
    return ivec4(w & 0xffu, w >> 8 & 0xffu, w >> 16 & 0xffu, w >> 24);
}
ivec4 load4_a(uint i) { return split_word(TA, a[i >> 2]) - a_zero; }
ivec4 load4_b(uint i) { return split_word(TB, b[i >> 2]) - b_zero; }
int load_a(uint i) { return load_i_raw_a(TA, i) - a_zero; }
int load_b(uint i) { return load_i_raw_b(TB, i) - b_zero; }
ivec4 raw_of(ivec4 v) { return v; }
ivec4 unpack_a(ivec4 raw, uint part) { return raw; }
ivec4 unpack_b(ivec4 raw, uint part) { return raw; }
#define A_VECTOR (A_WORD != 0u)
#define B_VECTOR (B_WORD != 0u)
#else
uvec4 raw_of(vec4 v) { return floatBitsToUint(v); }
/* Four elements of type t in the words of a piece. */
vec4 unpack4(uint t, uvec4 w, uint part)
{
    if (t == F32)
        return uintBitsToFloat(w);
    uvec2 h = part == 0u ? w.xy : w.zw;
    if (t == F16)
        return vec4(unpackHalf2x16(h.x), unpackHalf2x16(h.y));
    return uintBitsToFloat(uvec4(h.x << 16, h.x & 0xffff0000u, h.y << 16, h.y & 0xffff0000u));
}
/* The words of the piece from element i on, of those loaded. */
uvec4 pick_words(uint t, uint piece, uvec4 w, uint i)
{
    if (t != F32 && piece == 4u && (i & 4u) != 0u)
        return w.zwzw;
    return w;
}
#ifdef AV
WORDS4(a);
uvec4 load4_a(uint i) { return pick_words(TA, PA, a[TA == F32 ? i >> 2 : i >> 3], i); }
float load_a(uint i) { return 0.0; }
vec4 unpack_a(uvec4 raw, uint part) { return unpack4(TA, raw, part); }
#define A_VECTOR true
#else
TENSOR(a)
uvec4 load4_a(uint i) { return uvec4(0u); }
float load_a(uint i) { return load_f_a(TA, i); }
vec4 unpack_a(uvec4 raw, uint part) { return uintBitsToFloat(raw); }
#define A_VECTOR false
#endif
#ifdef BV
WORDS4(b);
uvec4 load4_b(uint i) { return pick_words(TB, PB, b[TB == F32 ? i >> 2 : i >> 3], i); }
float load_b(uint i) { return 0.0; }
vec4 unpack_b(uvec4 raw, uint part) { return unpack4(TB, raw, part); }
#define B_VECTOR true
#else
TENSOR(b)
uvec4 load4_b(uint i) { return uvec4(0u); }
float load_b(uint i) { return load_f_b(TB, i); }
vec4 unpack_b(uvec4 raw, uint part) { return uintBitsToFloat(raw); }
#define B_VECTOR false
#endif
#endif

RAW4 ra[NA], rb[NB];
NUM4 sum[TM * TN / 4];

/* The piece from (x, kk) on, of which there are nx and k; elements outside are 0. */
#define DEFINE_FETCH(name, VECTOR, STEP_X)                                                     \
    RAW4 fetch_##name(uint first, uint sx, uint sk, uint x, uint kk, uint nx)                  \
    {                                                                                          \
        NUM4 v = NUM4(0);                                                                      \
        uint i = first + x * sx + kk * sk;                                                     \
        bool inside = x < nx && kk < k;                                                        \
        if (VECTOR)                                                                            \
            return inside ? load4_##name(i) : RAW4(0);                                         \
        uint left = !inside ? 0u : STEP_X ? nx - x : k - kk, stride = STEP_X ? sx : sk;        \
        [[unroll]] for (uint j = 0u; j < FOUR; j++)                                            \
            if (j < left)                                                                      \
                v[j] = load_##name(i + j * stride);                                            \
        return raw_of(v);                                                                      \
    }
DEFINE_FETCH(a, A_VECTOR, (A_ALONG != 0u))
DEFINE_FETCH(b, B_VECTOR, (B_ALONG != 0u))

/* (x, k) of piece u of `size` elements of a tile that is `width` wide. */
uvec2 place_of(uint u, uint along, uint width, uint size)
{
    if (along != 0u)
        return uvec2(u % (width / size) * size, u / (width / size));
    return uvec2(u / (BK / size), u % (BK / size) * size);
}

/* Global memory to registers: the tiles from kk on. */
void fetch(Batch at, uint m0, uint n0, uint kk)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uvec2 p = place_of(LANE + i * THREADS, A_ALONG, BM, PA);
        ra[i] = fetch_a(at.a, a_m, a_k, m0 + p.x, kk + p.y, m);
    }
    [[unroll]] for (uint i = 0u; i < NB; i++) {
        uvec2 p = place_of(LANE + i * THREADS, B_ALONG, BN, PB);
        rb[i] = fetch_b(at.b, b_n, b_k, n0 + p.x, kk + p.y, n);
    }
}

/* Registers to stage s of shared memory. */
void put(uint s)
{
    [[unroll]] for (uint i = 0u; i < NA; i++) {
        uvec2 p = place_of(LANE + i * THREADS, A_ALONG, BM, PA);
        uint e = (s * BK + p.y) * SM + p.x;
        [[unroll]] for (uint part = 0u; part < PA / 4u; part++) {
            NUM4 v = unpack_a(ra[i], part);
            if (A_ALONG != 0u)
                sa[e / 4u + part] = v;
            else
                [[unroll]] for (uint j = 0u; j < FOUR; j++)
                    sa[(e + (part * 4u + j) * SM) / 4u][e % 4u] = v[j];
        }
    }
    [[unroll]] for (uint i = 0u; i < NB; i++) {
        uvec2 p = place_of(LANE + i * THREADS, B_ALONG, BN, PB);
        uint e = (s * BK + p.y) * SN + p.x;
        [[unroll]] for (uint part = 0u; part < PB / 4u; part++) {
            NUM4 v = unpack_b(rb[i], part);
            if (B_ALONG != 0u)
                sb[e / 4u + part] = v;
            else
                [[unroll]] for (uint j = 0u; j < FOUR; j++)
                    sb[(e + (part * 4u + j) * SN) / 4u][e % 4u] = v[j];
        }
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

#ifdef INT
#define scaled(sums, col) (sums)
#else
WORDS4(scale);
vec4 scaled(vec4 sums, uint col)
{
    return TSCALE == 0u ? sums : sums * uintBitsToFloat(scale[col >> 2]);
}
#endif

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
        sum[i] = NUM4(0);

    uint end = exists ? k : 0u;
    fetch(at, m0, n0, 0u);
    put(0u);
    fetch(at, m0, n0, BK);
    barrier();
    uint s = 0u;
    [[dont_unroll]] for (uint kk = 0u; kk < end; kk += BK) {
        put(s ^ 1u);
        fetch(at, m0, n0, kk + 2u * BK);
        multiply(s, am, bn);
        barrier();
        s ^= 1u;
    }

    [[unroll]] for (uint i = 0u; i < TM; i++)
        [[unroll]] for (uint j = 0u; j < TN / 4u; j++) {
            uint row = m0 + am + i / 4u * 16u + i % 4u, col = n0 + bn + j * 32u;
            if (exists && row < m && col < n)
                finish4(scaled(sum[i * (TN / 4u) + j], col), row, col, at);
        }
}
