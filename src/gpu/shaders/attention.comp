/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Attention by tiles with a running softmax (attention.glsl says what is computed).
 *
 * A workgroup makes DVC columns of the results of BQ = 4 TY rows of one K/V head, from one of
 * n_splits parts of the keys. It walks 64 keys at a time: products of rows and keys by pieces of DC
 * through shared memory, 4x4 an invocation; new maxima, weights to shared memory; weighted sums of
 * the values by pieces of VK keys, 4 rows x DVC/16 columns an invocation.
 * V4: q, k and v are read as vectors of four elements.
 *
 * RAGGED: rows of many sequences over one pool of pages. A tile has RT rows, those of whole queries
 * where a K/V head has up to BQ of them. Neighbouring queries of one sequence are a run; the tile
 * walks the keys of one run after the other, and rows of the others see none of them. Keys are
 * walked in blocks of 64 from key 0 on, split s takes each n_splits-th of them: so the sums of a
 * row do not depend on what else is in the tile. PACKED: k and v are q8_0 or q4_0; k_at and v_at
 * count bytes then.
 *
 * CUT: part of a step, which leaves partial sums. The words o_at, o_h and o_s, which have no other
 * use then, are how many queries of the step come behind those of this part, and the first and the
 * end of the keys (with pages: of the pages) that k and v have here; n_splits is how many sums
 * there are for each row and, in the upper half, which one this is. Keys keep their numbers. */
#include "common.glsl"
#include "attention.def"
#include "attention.glsl"
#ifdef RAGGED
#include "attention_table.glsl"
#endif

const bool CUT = (OPTIONS & ATTN_CUT) != 0u;
const uint TX = 16, BK = 64;
const uint LINE = DC / 4u + 1u; /* vectors of a line of q or k, one to avoid conflicts */
/* Room for the lines of q and k, or for four of v. */
const uint TILE = (BQ + BK) * LINE > DVC ? (BQ + BK) * LINE : DVC;
const uint VLINE = DVC / 4u, VN = DVC / 64u;
const uint FITS = TILE / VLINE;
const uint VK = FITS >= 64u ? 64u : FITS >= 32u ? 32u : FITS >= 16u ? 16u : FITS >= 8u ? 8u : 4u;

shared vec4 tile[TILE];          /* rows of q and k, then rows of v */
shared vec4 weight[BQ * BK / 4u]; /* [row][key] */
shared vec4 part[BQ * TX / 4u];   /* partial maximum or sum of each invocation of a row */
shared uint shared_length;
shared uint odd_values; /* 1 + the last block of keys with values that are not finite */

#ifdef RAGGED
/* By query of the tile. */
shared uint query_table[BQ], query_length[BQ];
/* The current run: the query after it, its page table row, the range of keys that its rows see. */
shared uint run_end, run_table, run_first_key, run_end_key;
#endif

#ifdef V4
#define OPERAND(name)                                                \
    WORDS4(name);                                                    \
    vec4 load4_##name(uint t, uint i, uint step, uint n)             \
    {                                                                \
        if (t == F32)                                                \
            return uintBitsToFloat(name[i >> 2]);                    \
        uvec4 w = name[i >> 3];                                      \
        return unpack4(t, (i & 4u) != 0u ? w.zw : w.xy);             \
    }
#else
#define OPERAND(name)                                                \
    TENSOR(name)                                                     \
    vec4 load4_##name(uint t, uint i, uint step, uint n)             \
    {                                                                \
        vec4 r = vec4(load_f_##name(t, i), 0.0, 0.0, 0.0);           \
        if (n > 1u)                                                  \
            r.y = load_f_##name(t, i + step);                        \
        if (n > 2u)                                                  \
            r.z = load_f_##name(t, i + 2u * step);                   \
        if (n > 3u)                                                  \
            r.w = load_f_##name(t, i + 3u * step);                   \
        return r;                                                    \
    }
#endif
/* load4_x(type, i, step, n): elements i, i + step, ... of which n exist. */
OPERAND(q)
#ifdef PACKED
/* Elements i to i + 3, i a multiple of 4, of the blocks that begin at byte `at`. */
#define BLOCKS(name)                                                                             \
    WORDS(name);                                                                                 \
    uint bytes4_##name(uint at)                                                                  \
    {                                                                                            \
        uint s = (at & 3u) * 8u, low = name[at >> 2], high = name[(at + 3u) >> 2];               \
        return s == 0u ? low : low >> s | high << (32u - s);                                     \
    }                                                                                            \
    vec4 decode4_##name(uint at, uint i)                                                         \
    {                                                                                            \
        at += i / 32u * (TK == Q8_0 ? 34u : 18u);                                                \
        float d = unpackHalf2x16(name[at >> 2] >> (at & 2u) * 8u).x;                             \
        uint e = i % 32u;                                                                        \
        if (TK == Q8_0) {                                                                        \
            uint w = bytes4_##name(at + 2u + e);                                                 \
            return d * vec4(ivec4(w << 24, w << 16, w << 8, w) >> 24);                           \
        }                                                                                        \
        uint w = bytes4_##name(at + 2u + e % 16u) >> (e / 16u * 4u);                             \
        return d * (vec4(w & 15u, w >> 8 & 15u, w >> 16 & 15u, w >> 24 & 15u) - 8.0);            \
    }
BLOCKS(k)
BLOCKS(v)
#else
OPERAND(k)
OPERAND(v)
#endif

/* Whether the page of a key is within this split. */
bool has_page(uint page) { return !CUT || PAGE == 0u || (page >= o_h && page < o_s); }

ivec2 query_range(uint i, uint n) { return key_range(CUT ? i - o_at : i, n); }

uint count_sums() { return CUT ? n_splits & 0xffffu : n_splits; }

/* Not used as bounds of loops with barriers, which must be provably uniform. */
uint batch, table, kv_head, n_rows, row0;

#ifdef RAGGED
const uint TILE_ROWS = RT;
/* The keys x <= j < y that a query sees with so many keys before its own end. */
ivec2 row_range(uint length)
{
    return ivec2(WINDOW ? max(int(length) - window, 0) : 0, int(length));
}

/* The run that begins with query `first` of n in the tile. */
void find_run(uint first, uint n)
{
    uint end = first + 1u;
    ivec2 seen = row_range(query_length[first]);
    for (; end < n && query_table[end] == query_table[first]; end++) {
        ivec2 more = row_range(query_length[end]);
        seen = ivec2(min(seen.x, more.x), max(seen.y, more.y));
    }
    run_end = end;
    run_table = query_table[first];
    run_first_key = uint(seen.x);
    run_end_key = uint(seen.y);
    odd_values = 0u;
}
#else
const uint TILE_ROWS = BQ;
#endif

#ifdef V4
/* What an invocation brings to shared memory: all of it is under way before the first of it is
 * waited for. Addresses stay inside of the tensors and what is not there becomes 0 afterwards, so
 * that no load hangs on a branch. */
const uint PER = DC / 4u, LOCAL = gl_WorkGroupSize.x;
const uint NQ = (BQ * PER + LOCAL - 1u) / LOCAL, NK = (BK * PER + LOCAL - 1u) / LOCAL;
const uint NV = (VK * VLINE + LOCAL - 1u) / LOCAL;
vec4 held[NQ + NK > NV ? NQ + NK : NV];

/* Rows row0 to row0 + BQ - 1 of q and keys k0 to k0 + 63 below end, elements d0 to d0 + DC - 1. */
void fetch_scores(uint d0, uint k0, uint end)
{
    [[unroll]] for (uint n = 0u; n < NQ; n++) {
        const uint u = LANE + n * LOCAL, row = row0 + u / PER, d = d0 + u % PER * 4u;
        const uint at = min(row, n_rows - 1u);
        const vec4 x = load4_q(TQ, q_at + batch * q_b + (kv_head * GROUP + at % GROUP) * q_h +
                                       at / GROUP * q_s + min(d, D - 4u), 1u, 4u);
        held[n] = row < n_rows && u / PER < TILE_ROWS && d < D ? x : vec4(0.0);
    }
    [[unroll]] for (uint n = 0u; n < NK; n++) {
        const uint u = LANE + n * LOCAL, key = k0 + u / PER, d = d0 + u % PER * 4u;
        const uvec2 at = key_place(table, min(key, end - 1u));
        const bool here = has_page(at.x);
        vec4 x = vec4(0.0);
        if (!CUT || here)
            x = load4_k(TK, k_at + at.x * k_b + at.y * k_s + kv_head * k_h + min(d, D - 4u), 1u,
                        4u);
        held[NQ + n] = key < end && d < D ? x : vec4(0.0);
    }
}

/* Key 4 x + y is in line y * 16 + x, so that the invocations of a row read adjacent lines. */
void put_scores()
{
    [[unroll]] for (uint n = 0u; n < NQ; n++) {
        const uint u = LANE + n * LOCAL;
        if (BQ * PER % LOCAL == 0u || u < BQ * PER)
            tile[u / PER * LINE + u % PER] = held[n];
    }
    [[unroll]] for (uint n = 0u; n < NK; n++) {
        const uint u = LANE + n * LOCAL, key = u / PER;
        if (BK * PER % LOCAL == 0u || u < BK * PER)
            tile[(BQ + key % 4u * TX + key / 4u) * LINE + u % PER] = held[NQ + n];
    }
}

/* Values of VK keys from k0 on. */
void fetch_values(uint col0, uint k0, uint end)
{
    [[unroll]] for (uint n = 0u; n < NV; n++) {
        const uint u = LANE + n * LOCAL, key = k0 + u / VLINE, d = col0 + u % VLINE * 4u;
        const uvec2 at = key_place(table, min(key, end - 1u));
        const bool here = has_page(at.x);
        vec4 x = vec4(0.0);
        if (!CUT || here)
            x = load4_v(TK, v_at + at.x * v_b + at.y * v_s + kv_head * v_h + min(d, DV - 4u), 1u,
                        4u);
        held[n] = key < end && d < DV ? x : vec4(0.0);
    }
}

void put_values(uint k0)
{
    bool finite = true;
    [[unroll]] for (uint n = 0u; n < NV; n++) {
        const uint u = LANE + n * LOCAL;
        finite = finite && all_finite(held[n]);
        if (VK * VLINE % LOCAL == 0u || u < VK * VLINE)
            tile[u] = held[n];
    }
    if (!finite)
        atomicMax(odd_values, k0 + 1u);
}
#else
/* Rows row0 to row0 + BQ - 1 of q and keys k0 to k0 + 63 below end, elements d0 to d0 + DC - 1. Key
 * 4 x + y is in line y * 16 + x, so that the invocations of a row read adjacent lines. */
void load_scores(uint d0, uint k0, uint end)
{
    const uint per = DC / 4u;
    for (uint u = LANE; u < BQ * per; u += gl_WorkGroupSize.x) {
        uint row = row0 + u / per, d = d0 + u % per * 4u;
        vec4 x = vec4(0.0);
        if (row < n_rows && u / per < TILE_ROWS && d < D) {
            uint head = kv_head * GROUP + row % GROUP;
            x = load4_q(TQ, q_at + batch * q_b + head * q_h + row / GROUP * q_s + d * QD, QD,
                        D - d);
        }
        tile[u / per * LINE + u % per] = x;
    }
    for (uint u = LANE; u < BK * per; u += gl_WorkGroupSize.x) {
        uint key = u / per, d = d0 + u % per * 4u;
        vec4 x = vec4(0.0);
        if (k0 + key < end && d < D) {
            uvec2 at = key_place(table, k0 + key);
#ifdef PACKED
            x = decode4_k(k_at, at.x * k_b + at.y * k_s + kv_head * k_h + d);
#else
            if (has_page(at.x))
                x = load4_k(TK, k_at + at.x * k_b + at.y * k_s + kv_head * k_h + d * KD, KD,
                            D - d);
#endif
        }
        tile[(BQ + key % 4u * TX + key / 4u) * LINE + u % per] = x;
    }
}

/* Values of VK keys from k0 on. */
void load_values(uint col0, uint k0, uint end)
{
    bool finite = true;
    for (uint u = LANE; u < VK * VLINE; u += gl_WorkGroupSize.x) {
        uint key = k0 + u / VLINE, d = col0 + u % VLINE * 4u;
        vec4 x = vec4(0.0);
        if (key < end && d < DV) {
            uvec2 at = key_place(table, key);
#ifdef PACKED
            x = decode4_v(v_at, at.x * v_b + at.y * v_s + kv_head * v_h + d);
#else
            if (has_page(at.x))
                x = load4_v(TK, v_at + at.x * v_b + at.y * v_s + kv_head * v_h + d * VD, VD,
                            DV - d);
#endif
        }
        finite = finite && all_finite(x);
        tile[u] = x;
    }
    if (!finite)
        atomicMax(odd_values, k0 + 1u);
}

#endif

/* Writes four results of a row; 16-bit rows begin with a word and have an even length. */
void store4(uint row, uint col, vec4 x, uint split)
{
    if (row >= n_rows || col >= DV)
        return;
    if (PARTIAL) {
        uint at = (((batch * n_kv_heads + kv_head) * n_rows + row) * count_sums() + split) *
                  (DV + 2u);
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            if (col + j < DV)
                o[at + col + j] = floatBitsToUint(x[j]);
        return;
    }
    uint head = kv_head * GROUP + row % GROUP;
    uint at = o_at + batch * n_kv_heads * GROUP * n_queries * DV + head * o_h + row / GROUP * o_s +
              col;
    if (TQ == F32) {
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            if (col + j < DV)
                o[at + j] = floatBitsToUint(x[j]);
        return;
    }
    o[at / 2u] = encode_f(TQ, x.x) | encode_f(TQ, x.y) << 16;
    if (col + 2u < DV)
        o[at / 2u + 1u] = encode_f(TQ, x.z) | encode_f(TQ, x.w) << 16;
}

void main()
{
    uint group = GROUP_INDEX;
    if (group >= n_groups)
        return;
    uint rows = n_queries * GROUP;
    const uint n_chunks = (DV + DVC - 1u) / DVC;
    uint n_tiles = (rows + TILE_ROWS - 1u) / TILE_ROWS;
    uint n_here = CUT ? 1u : n_splits;
    uint split = CUT ? n_splits >> 16 : group % n_here, chunk = group / n_here % n_chunks;
    uint rest = group / n_here / n_chunks;
    kv_head = rest % n_kv_heads;
    batch = rest / n_kv_heads % n_batch;
    /* With causal masks the last rows see the most keys: they are scheduled first. */
    uint first_row = (n_tiles - 1u - rest / n_kv_heads / n_batch) * TILE_ROWS;
    row0 = first_row;
    n_rows = rows;
    table = batch;

#ifdef RAGGED
    const uint first_query = first_row / GROUP;
    const uint n_here_queries = (min(first_row + RT, rows) - 1u) / GROUP - first_query + 1u;
    for (uint i = LANE; i < n_here_queries; i += gl_WorkGroupSize.x) {
        query_table[i] = table_of(first_query + i, kv_head == 0u);
        query_length[i] = length_of(first_query + i, kv_head == 0u);
    }
    barrier();
#else
    uint length = n_keys;
    if (LENGTHS) {
        if (LANE == 0u)
            shared_length = length_of(batch, true);
        barrier();
        length = shared_length;
        barrier();
    }
    uint last = min(first_row + BQ, rows) - 1u;
    /* Blocks and splits begin at keys independent of the tile, so that the bits of a row do not
     * depend on its tile. */
    uint first_key = uint(query_range(first_row / GROUP, length).x) / BK * BK;
    uint end_key = uint(query_range(last / GROUP, length).y);
    if (CUT && PAGE == 0u) {
        first_key = max(first_key, o_h);
        end_key = min(end_key, o_s);
    }
    if (n_here > 1u) {
        uint n = length > first_key ? length - first_key : 0u;
        uint each = ((n + n_here - 1u) / n_here + BK - 1u) / BK * BK;
        first_key += split * each;
        end_key = min(end_key, first_key + each);
    }
#endif

    if (LANE == 0u)
        odd_values = 0u; /* a barrier follows before values are loaded */
    uint tx = LANE % TX, ty = LANE / TX;
    ivec2 range[4];
#ifdef RAGGED
    uint query[4];
#endif
    uint mask_at[4];
    float top[4], total[4];
    vec4 sum[4u * VN];
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint row = min(row0 + ty * 4u + i, n_rows - 1u);
#ifdef RAGGED
        query[i] = min(row / GROUP - first_query, n_here_queries - 1u);
        range[i] = row_range(query_length[query[i]]);
#else
        range[i] = query_range(row / GROUP, length);
#endif
        mask_at[i] = m_at + batch * m_b + (kv_head * GROUP + row % GROUP) * m_h + row / GROUP * m_q;
        top[i] = NOTHING;
        total[i] = 0.0;
    }
    [[unroll]] for (uint i = 0u; i < 4u * VN; i++)
        sum[i] = vec4(0.0);

#ifdef RAGGED
    const uint STRIDE = BK * n_here;
    for (uint run = 0u; run < n_here_queries;) {
    if (LANE == 0u)
        find_run(run, n_here_queries);
    barrier();
    uint next = run_end;
    barrier();
    uint first_key = run_first_key;
    barrier();
    uint end_key = run_end_key;
    barrier();
    table = run_table;
    uint block = first_key / BK; /* the first one of this split */
    first_key = (block + (split + n_here - block % n_here) % n_here) * BK;
#else
    const uint STRIDE = BK;
#endif
    for (uint k0 = first_key; k0 < end_key; k0 += STRIDE) {
        vec4 s[4];
        [[unroll]] for (uint i = 0u; i < 4u; i++)
            s[i] = vec4(0.0);
        for (uint d0 = 0u; d0 < D; d0 += DC) {
#ifdef V4
            fetch_scores(d0, k0, end_key);
            barrier();
            put_scores();
#else
            barrier();
            load_scores(d0, k0, end_key);
#endif
            barrier();
            [[unroll]] for (uint c = 0u; c < DC / 4u; c++) {
                vec4 y[4], z[4];
                [[unroll]] for (uint j = 0u; j < 4u; j++)
                    y[j] = tile[(BQ + j * TX + tx) * LINE + c];
                [[unroll]] for (uint e = 0u; e < 4u; e++)
                    z[e] = vec4(y[0][e], y[1][e], y[2][e], y[3][e]);
                [[unroll]] for (uint i = 0u; i < 4u; i++) {
                    vec4 x = tile[(ty * 4u + i) * LINE + c];
                    [[unroll]] for (uint e = 0u; e < 4u; e++)
                        s[i] += x[e] * z[e];
                }
            }
        }

        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            [[unroll]] for (uint j = 0u; j < 4u; j++) {
                int key = int(k0 + tx * 4u + j);
                bool seen = key >= range[i].x && key < range[i].y && uint(key) < end_key;
#ifdef RAGGED
                seen = seen && query[i] >= run && query[i] < next;
#endif
                float l = MASKED;
                if (CUT && PAGE != 0u && seen)
                    seen = has_page(key_place(table, uint(key)).x);
                if (seen)
                    l = logit(s[i][j], mask_at[i] + uint(key) * m_k);
                s[i][j] = l;
            }
            part[((ty * 4u + i) * TX + tx) / 4u][tx % 4u] =
                max(max(s[i].x, s[i].y), max(s[i].z, s[i].w));
        }
        barrier();
        [[unroll]] for (uint i = 0u; i < 4u; i++) {
            float most = top[i];
            [[unroll]] for (uint t = 0u; t < TX / 4u; t++) {
                vec4 x = part[(ty * 4u + i) * (TX / 4u) + t];
                most = max(max(most, max(x.x, x.y)), max(x.z, x.w));
            }
            float keep = keep_factor(top[i], most);
            vec4 w = vec4(weight_of(s[i].x, most), weight_of(s[i].y, most),
                          weight_of(s[i].z, most), weight_of(s[i].w, most));
            top[i] = most;
            total[i] = total[i] * keep + (w.x + w.y) + (w.z + w.w);
            weight[(ty * 4u + i) * (BK / 4u) + tx] = w;
            [[unroll]] for (uint c = 0u; c < VN; c++)
                sum[i * VN + c] *= keep;
        }

        for (uint v0 = 0u; v0 < BK && k0 + v0 < end_key; v0 += VK) {
#ifdef V4
            fetch_values(chunk * DVC, k0 + v0, end_key);
            barrier();
            put_values(k0 + v0);
#else
            barrier();
            load_values(chunk * DVC, k0 + v0, end_key);
#endif
            barrier();
            if (odd_values != k0 + v0 + 1u) {
                for (uint key = 0u; key < VK; key += 4u) {
                    vec4 w[4];
                    [[unroll]] for (uint i = 0u; i < 4u; i++)
                        w[i] = weight[(ty * 4u + i) * (BK / 4u) + (v0 + key) / 4u];
                    [[unroll]] for (uint e = 0u; e < 4u; e++)
                        [[unroll]] for (uint c = 0u; c < VN; c++) {
                            vec4 x = tile[(key + e) * VLINE + c * TX + tx];
                            [[unroll]] for (uint i = 0u; i < 4u; i++)
                                sum[i * VN + c] += w[i][e] * x;
                        }
                }
            } else {
                for (uint key = 0u; key < VK; key++)
                    [[unroll]] for (uint i = 0u; i < 4u; i++) {
                        float w = weight[(ty * 4u + i) * (BK / 4u) + (v0 + key) / 4u][key % 4u];
                        [[unroll]] for (uint c = 0u; c < VN; c++)
                            if (w != 0.0)
                                sum[i * VN + c] += w * tile[key * VLINE + c * TX + tx];
                    }
            }
        }
    }
#ifdef RAGGED
    run = next;
    barrier();
    }
#endif

    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; i++)
        part[((ty * 4u + i) * TX + tx) / 4u][tx % 4u] = total[i];
    barrier();
    [[unroll]] for (uint i = 0u; i < 4u; i++) {
        uint row = ty * 4u + i < TILE_ROWS ? row0 + ty * 4u + i : n_rows;
        float all = 0.0;
        [[unroll]] for (uint t = 0u; t < TX / 4u; t++) {
            vec4 x = part[(ty * 4u + i) * (TX / 4u) + t];
            all = all + x.x + x.y + x.z + x.w;
        }
        float factor = PARTIAL ? 1.0 : row_factor(top[i], all, kv_head * GROUP + row % GROUP);
        [[unroll]] for (uint c = 0u; c < VN; c++)
            store4(row, chunk * DVC + (c * TX + tx) * 4u, sum[i * VN + c] * factor, split);
        if (PARTIAL && chunk == 0u && tx == 0u && row < n_rows) {
            uint at = (((batch * n_kv_heads + kv_head) * n_rows + row) * count_sums() + split) *
                          (DV + 2u) + DV;
            o[at] = floatBitsToUint(top[i]);
            o[at + 1u] = floatBitsToUint(all);
        }
    }
}
