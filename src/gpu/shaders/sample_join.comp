/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
/* The last step of sampling from long rows [rows, V], after those of sample_slice.comp: one
 * workgroup a row.
 *
 * The first token is the first of the slices' largest. With top-k: a key that top_k of the chunks'
 * largest reach is reached by top_k tokens at least, and all of them are in those chunks, so that
 * few chunks are looked at again. Without: the tokens where the draw may fall are listed already.
 * Where there are too many of them (equal logits, or a large top_k), the row is done as a whole. */
#define SLICES
#include "common.glsl"
#include "sample_join.def"
#include "sample.glsl"
#include "sample_row.glsl"
#include "sample_work.glsl"

WORDS(y);
WORDS(scratch);

/* ---- The first top_k ------------------------------------------------------------------------- */

shared uint n_chunks, lowest;

/* A key that top_k of the chunks' largest reach, or not many more than that. It is found as places
 * are, but from the highest bit on in which the slices' largest differ, if there are enough of
 * them, and no further than needed. `low`: the smallest of those that the lane has seen. */
const uint MANY_MORE = 64u;
uint find_bound(Sampler s, uint row, uint low)
{
    if (LANE == 0u)
        lowest = 0xffffffffu;
    barrier();
    if (low != 0xffffffffu)
        atomicMin(lowest, low);
    barrier();
    uint differ = s.top_k <= slices ? (s.first ^ lowest) | 0xffu : 0xffffffffu;
    uint shift = share_word(uint(findMSB(differ)) - 7u);
    Place p = Place(shift == 24u ? 0u : s.first >> (shift + 8u) << (shift + 8u), uvec2(0u),
                    uvec2(0u));
    for (uint round = 0u; round < 4u; round++) {
        uint above = shift + 8u;
        clear_bins();
        for (uint i = LANE; i < slices * SLICE_CHUNKS; i += gl_WorkGroupSize.x) {
            uint key = scratch[chunk_keys(row) + i];
            if (above == 32u || (key >> (above & 31u)) == (p.key >> (above & 31u)))
                atomicAdd(bin_low[(key >> shift) & 0xffu], 1u);
        }
        barrier();
        p = refine_place(p, uvec2(s.top_k, 0u), shift);
        if (shift < 8u || share_word(p.before.x + p.here.x - s.top_k) <= MANY_MORE)
            break;
        shift -= 8u;
    }
    return p.key;
}

/* Lists the tokens that reach a key which top_k tokens or more do. Returns their number; 0: they
 * are too many. */
uint list_first(Sampler s, uint row, uint low)
{
    uint bound = find_bound(s, row, low);
    if (LANE == 0u) {
        n_chunks = 0u;
        n_kept = 0u;
    }
    barrier();
    for (uint i = LANE; i < slices * SLICE_CHUNKS; i += gl_WorkGroupSize.x)
        if (scratch[chunk_keys(row) + i] >= bound) {
            uint at = atomicAdd(n_chunks, 1u);
            if (at < MAX_LOCAL)
                lane_b[at] = i;
        }
    barrier();
    for (uint i = LANE; i < min(n_chunks, MAX_LOCAL) * CHUNK; i += gl_WorkGroupSize.x) {
        uint chunk = lane_b[i / CHUNK], in_chunk = i % CHUNK;
        uint token = chunk / SLICE_CHUNKS * (AT_ONCE * LANES) + in_chunk / CHUNK_LANES * LANES +
                     chunk % SLICE_CHUNKS * CHUNK_LANES + in_chunk % CHUNK_LANES;
        uint key = load_key(row, min(token, size - 1u));
        if (token < size && key >= bound)
            list_token(key, token);
    }
    if (n_chunks > MAX_LOCAL && LANE == 0u)
        atomicAdd(n_kept, MAX_KEPT + 1u);
    return count_listed();
}

/* ---- Listed by buckets ----------------------------------------------------------------------- */

uint take_list(uint row)
{
    uint record = row * row_words;
    uint listed = share_word(scratch[record + N_LISTED]);
    uint n = listed <= MAX_LISTED ? listed : 0u;
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        kept_keys[i] = scratch[record + LIST + 2u * i];
        kept_tokens[i] = scratch[record + LIST + 2u * i + 1u];
    }
    barrier();
    return n;
}

uvec2 load_sum(uint at) { return uvec2(scratch[at], scratch[at + 1u]); }

uint draw_from_buckets(Sampler s, uint row, uint n, uint steps)
{
    uint record = row * row_words;
    sum_listed(s, n);
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        bool behind = (kept_tokens[i] & BEHIND) != 0u;
        uvec2 sum = long_add(kept_sum(i), load_sum(record + (behind ? BASE_BEHIND : BASE)));
        KEPT_LOW(i) = sum.x;
        KEPT_HIGH(i) = sum.y;
    }
    barrier();
    uvec2 sum = load_sum(record + SUM);
    if ((steps & CUT_P) != 0u)
        sum = kept_sum(find_reaching(n, sum));
    return kept_tokens[find_reaching(n, draw_goal(sum, row))] & ~BEHIND;
}

/* ---- A row ----------------------------------------------------------------------------------- */

/* As steps_of, and top_k is small enough for list_first. */
const uint FEW = 8u;
uint joined_steps(Sampler s)
{
    uint steps = steps_of(s);
    bool few = s.top_k <= min(MAX_KEPT * 3u / 4u, slices * SLICE_CHUNKS / 2u);
    return (steps & CUT_K) != 0u && few ? steps | FEW : steps;
}

uint draw_joined(Sampler s, uint row, uint low, uint steps)
{
    uint n = 0u;
    if ((steps & CUT_K) == 0u)
        n = take_list(row);
    if ((steps & FEW) != 0u)
        n = list_first(s, row, low);
    if (n == 0u)
        return draw(s, row, steps);
    if ((steps & CUT_K) == 0u)
        return draw_from_buckets(s, row, n, steps);
    return draw_listed(s, row, n, steps);
}

void main()
{
    uint row = GROUP_INDEX;
    if (row >= rows)
        return;
    Sampler s = make_sampler(row);
    uint best = 0u, best_at = 0xffffffffu, low = 0xffffffffu;
    for (uint i = LANE; i < slices; i += gl_WorkGroupSize.x) {
        uint key = scratch[top_keys(row) + i];
        low = min(low, key);
        if (key > best) {
            best = key;
            best_at = scratch[top_tokens(row) + i];
        }
    }
    uvec2 first = reduce_first(best, best_at);
    s.first = first.x;
    uint steps = share_word(joined_steps(s)), token = first.y;
    if (steps != 0u)
        token = draw_joined(s, row, low, steps);
    if (LANE == 0u)
        y[row] = token;
}
