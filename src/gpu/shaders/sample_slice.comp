/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
/* Sampling from long rows of logits [rows, V] by many workgroups, one for each slice of a row; its
 * lanes hold the keys. STEP:
 *   0  The largest key of the slice and of each of its chunks: all that sample_join.comp needs for
 *      the first token, and nearly all for the first top_k.
 *   1  (without top-k) Weights of the slice are added to the sums of the row's buckets. A bucket is
 *      a range of depths: tokens that are before it in the list are in buckets before it.
 *   2  The sums tell in which bucket the token is that is drawn: its tokens are listed. With top-p
 *      so are those of the bucket in which the last token kept is. What sum bounds the draw is
 *      known only when that token is, so the first list has all buckets where the draw may fall.
 * Steps 1 and 2 have nothing to do when top-k is asked for, or no draw at all. */
#define SLICES
#include "common.glsl"
#include "sample_slice.def"
#include "sample.glsl"
#include "sample_work.glsl"

WORDS(scratch);

const uint LOWEST = 0x00800000u; /* the key above that of -infinity */

uint first_token(uint slice) { return slice * AT_ONCE * LANES + LANE; }

#if STEP == 0
shared uint chunk_top[MAX_LANES / CHUNK_LANES], chunk_low[MAX_LANES / CHUNK_LANES];
shared uint top, top_at, low;

void main()
{
    uint row = GROUP_INDEX / slices, slice = GROUP_INDEX % slices;
    if (row >= rows)
        return;
    uint keys[AT_ONCE];
    load_keys(row, first_token(slice), keys);
    for (uint i = slice * LANES + LANE; i < LIST; i += slices * LANES)
        scratch[row * row_words + i] = 0u;
    if (LANE < SLICE_CHUNKS) {
        chunk_top[LANE] = 0u;
        chunk_low[LANE] = 0xffffffffu;
    }
    if (LANE == 0u) {
        top = 0u;
        top_at = 0xffffffffu;
        low = 0xffffffffu;
    }
    barrier();
    uint best = 0u, best_at = 0u, least = 0xffffffffu;
    [[unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
        if (keys[j] > best) {
            best = keys[j];
            best_at = first_token(slice) + j * LANES;
        }
        if (keys[j] >= LOWEST)
            least = min(least, keys[j]);
    }
    atomicMax(chunk_top[LANE / CHUNK_LANES], best);
    atomicMin(chunk_low[LANE / CHUNK_LANES], least);
    barrier();
    if (LANE < SLICE_CHUNKS) {
        uint key = chunk_top[LANE];
        scratch[chunk_keys(row) + slice * SLICE_CHUNKS + LANE] = key;
        atomicMax(top, key);
        atomicMin(low, chunk_low[LANE]);
    }
    barrier();
    if (best == top)
        atomicMin(top_at, best_at);
    barrier();
    if (LANE == 0u) {
        scratch[top_keys(row) + slice] = top;
        scratch[top_tokens(row) + slice] = top_at;
        scratch[lowest_keys(row) + slice] = low;
    }
}
#else

/* ---- Buckets --------------------------------------------------------------------------------- */

shared uint bin_low[BUCKETS], bin_high[BUCKETS];
shared uint top, low, shared_steps;

/* Depth d is in bucket ((d << up) >> 16) * scale >> 16. */
struct Buckets {
    uint up, scale;
};

/* Combines the slices: the largest key, and buckets that extend to the depth of the smallest. */
Buckets make_buckets(uint row, inout Sampler s)
{
    if (LANE == 0u) {
        top = 0u;
        low = 0xffffffffu;
    }
    barrier();
    for (uint i = LANE; i < slices; i += LANES) {
        atomicMax(top, scratch[top_keys(row) + i]);
        atomicMin(low, scratch[lowest_keys(row) + i]);
    }
    barrier();
    s.first = top;
    uint most = low == 0xffffffffu ? 1u : min(depth_of(s, low), (1u << 29) - 1u) | 1u;
    uint up = 31u - uint(findMSB(most));
    return Buckets(up, (BUCKETS << 16) / ((most << up >> 16) + 1u));
}

uint bucket_of(Buckets b, uint depth)
{
    return min((depth << b.up >> 16) * b.scale >> 16, BUCKETS - 1u);
}

/* The weight of a token, 0 if its distance or min-p excludes it. */
uint bucket_weight(uint depth, uint least)
{
    uint w = depth_weight(depth);
    return w >= least ? w : 0u;
}

/* The bucket steps that are needed, broadcast through shared memory, which makes them provably
 * uniform. */
uint bucket_steps(Sampler s)
{
    if (LANE == 0u)
        shared_steps = steps_of(s);
    barrier();
    uint steps = shared_steps;
    barrier();
    return (steps & CUT_K) != 0u ? 0u : steps;
}
#endif

#if STEP == 1
void add_to_bin(uint bin, uint weight)
{
    uint old = atomicAdd(bin_low[bin], weight);
    if (old + weight < old)
        atomicAdd(bin_high[bin], 1u);
}

/* Plain atomics without return values: both words have room for the sums of all slices. */
void add_to_row(uint row, uint bin, uvec2 sum)
{
    if (sum.x == 0u && sum.y == 0u)
        return;
    uint at = row * row_words + SUMS + bin;
    atomicAdd(scratch[at], sum.x & LOW_MASK);
    atomicAdd(scratch[at + BUCKETS], long_shift(sum, LOW_BITS).x);
}

void main()
{
    uint row = GROUP_INDEX / slices, slice = GROUP_INDEX % slices;
    if (row >= rows)
        return;
    Sampler s = make_sampler(row);
    uint steps = bucket_steps(s);
    if (steps == 0u)
        return;
    uint keys[AT_ONCE];
    load_keys(row, first_token(slice), keys);
    for (uint i = LANE; i < BUCKETS; i += LANES) {
        bin_low[i] = 0u;
        bin_high[i] = 0u;
    }
    Buckets b = make_buckets(row, s);
    uint least = least_weight(s);
    [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
        uint key = take_key(keys), depth = key != 0u ? depth_of(s, key) : NO_WEIGHT;
        uint w = bucket_weight(depth, least);
        if (w != 0u)
            add_to_bin(bucket_of(b, depth), w);
    }
    barrier();
    for (uint i = LANE; i < BUCKETS; i += LANES)
        add_to_row(row, i, uvec2(bin_low[i], bin_high[i]));
}
#endif

#if STEP == 2
shared uint lane_low[MAX_LANES], lane_high[MAX_LANES];
shared uint found_bucket, found_sums[4];

/* Loads the row's sums into the bins and scans them. Returns the inclusive prefix sum of this lane.
 * */
uvec2 scan_buckets(uint row)
{
    const uint each = BUCKETS / LANES;
    for (uint i = LANE; i < BUCKETS; i += LANES) {
        uint at = row * row_words + SUMS + i;
        uvec2 sum = long_mul(uvec2(scratch[at + BUCKETS], 0u), uvec2(LOW_MASK + 1u, 0u));
        sum = long_add(sum, uvec2(scratch[at], 0u));
        bin_low[i] = sum.x;
        bin_high[i] = sum.y;
    }
    barrier();
    uvec2 own = uvec2(0u);
    for (uint i = LANE * each; i < LANE * each + each; i++)
        own = long_add(own, uvec2(bin_low[i], bin_high[i]));
    uvec2 sum = own;
    lane_low[LANE] = sum.x;
    lane_high[LANE] = sum.y;
    barrier();
    for (uint step = 1u; step < LANES; step *= 2u) {
        uint from = max(LANE, step) - step;
        uvec2 other = LANE >= step ? uvec2(lane_low[from], lane_high[from]) : uvec2(0u);
        barrier();
        sum = long_add(sum, other);
        lane_low[LANE] = sum.x;
        lane_high[LANE] = sum.y;
        barrier();
    }
    return long_sub(sum, own);
}

/* The bucket in which the sum first reaches `goal`, the sum before it and with it. */
struct Reached {
    uint bucket;
    uvec2 before, with_it;
};

Reached find_bucket(uvec2 lane_before, uvec2 goal)
{
    const uint each = BUCKETS / LANES;
    uvec2 before = lane_before;
    for (uint i = LANE * each; i < LANE * each + each; i++) {
        uvec2 with_it = long_add(before, uvec2(bin_low[i], bin_high[i]));
        if (long_less(before, goal) && !long_less(with_it, goal)) {
            found_bucket = i;
            found_sums[0] = before.x;
            found_sums[1] = before.y;
            found_sums[2] = with_it.x;
            found_sums[3] = with_it.y;
        }
        before = with_it;
    }
    barrier();
    Reached r = Reached(found_bucket, uvec2(found_sums[0], found_sums[1]),
                        uvec2(found_sums[2], found_sums[3]));
    barrier();
    return r;
}

void store_sum(uint at, uvec2 sum)
{
    scratch[at] = sum.x;
    scratch[at + 1u] = sum.y;
}

void main()
{
    uint row = GROUP_INDEX / slices, slice = GROUP_INDEX % slices;
    if (row >= rows)
        return;
    Sampler s = make_sampler(row);
    uint steps = bucket_steps(s);
    if (steps == 0u)
        return;
    uint keys[AT_ONCE];
    load_keys(row, first_token(slice), keys);
    uvec2 before = scan_buckets(row);
    Buckets b = make_buckets(row, s);

    /* The draw is in buckets from .. to; the last one kept by top-p in `last`. */
    uvec2 sum = uvec2(lane_low[LANES - 1u], lane_high[LANES - 1u]);
    Reached last = Reached(0xffffffffu, uvec2(0u), uvec2(0u));
    if ((steps & CUT_P) != 0u) {
        sum = sum_needed(s, sum);
        last = find_bucket(before, sum);
    }
    Reached from = find_bucket(before, draw_goal(sum, row)), to = from;
    if ((steps & CUT_P) != 0u)
        to = find_bucket(before, draw_goal(last.with_it, row));
    uint record = row * row_words;
    if (slice == 0u && LANE == 0u) {
        store_sum(record + BASE, from.before);
        store_sum(record + BASE_BEHIND,
                  long_sub(last.before, long_sub(to.with_it, from.before)));
        store_sum(record + SUM, sum);
    }

    uint least = least_weight(s);
    [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
        uint key = take_key(keys), depth = key != 0u ? depth_of(s, key) : NO_WEIGHT;
        uint bucket = depth != NO_WEIGHT ? bucket_of(b, depth) : BUCKETS;
        bool here = bucket >= from.bucket && bucket <= to.bucket;
        if ((!here && bucket != last.bucket) || bucket_weight(depth, least) == 0u)
            continue;
        uint at = atomicAdd(scratch[record + N_LISTED], 1u);
        if (at < MAX_LISTED) {
            uint token = first_token(slice) + j * LANES;
            scratch[record + LIST + 2u * at] = key;
            scratch[record + LIST + 2u * at + 1u] = here ? token : token | BEHIND;
        }
    }
}
#endif
