/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef SG
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
/* The first k of each chunk of a row in the order of sort.comp, sorted: the same as that kernel
 * with keep == k, for k much smaller than a chunk, which is THREADS * ITEMS elements.
 *
 * A workgroup takes a chunk, ITEMS elements an invocation in registers. Bisection finds a key that
 * k to CAP elements reach; when so many are equal that there is none, it goes on with the places of
 * those, so that k are left. They go to shared memory, where each finds its rank by counting.
 *
 * SG: the bisection starts close to its end, between the largest element and a bound that k reach:
 * when k is split evenly among the subgroups, the share of each is reached by as many of its lanes'
 * largest elements. */
#include "common.glsl"
#include "order.glsl"

layout(constant_id = 1) const uint TX = 1;
layout(constant_id = 2) const uint FLIP = 0;
layout(constant_id = 3) const uint FROM_LIST = 0;
layout(constant_id = 4) const uint SKIP_SELF = 0;
layout(constant_id = 5) const uint ITEMS = 4;
layout(constant_id = 6) const uint CAP = 64;
layout(constant_id = 7) const uint THREADS = 64; /* the local size again */

layout(push_constant) uniform Params { uint rows, n, inner, chunks, k, n_out, x_at; };

TENSOR(0, x)
DEFINE_KEY(x)
WORDS(1, keys_in);
WORDS(2, places_in);
WORDS(3, keys_out);
WORDS(4, places_out);

const uint ABSENT = 0xffffffffu;
#ifdef SG
const uint MOST_SUBGROUPS = THREADS / 4;
shared uint counts[2 * MOST_SUBGROUPS]; /* of each subgroup, for even and odd calls */
shared uint bounds[MOST_SUBGROUPS], tops[MOST_SUBGROUPS];
#else
shared uint n_found, found_before;
#endif
shared uint n_slots;
shared uint slot_keys[CAP], slot_places[CAP];

uint keys[ITEMS], places[ITEMS];

void load_elements(uint row, uint first)
{
    [[unroll]] for (uint j = 0u; j < ITEMS; j++) {
        uint i = first + j * THREADS + LANE;
        keys[j] = LAST_KEY;
        places[j] = ABSENT;
        if (row >= rows || i >= n)
            continue;
        if (FROM_LIST != 0u) {
            keys[j] = keys_in[row * n + i];
            places[j] = places_in[row * n + i];
        } else if (SKIP_SELF == 0u || i != row) {
            uint at = x_at + (row / inner * n + i) * inner + row % inner;
            keys[j] = load_key_x(TX, at, FLIP != 0u, 0xffffffffu);
            places[j] = i;
        }
    }
}

#ifdef SG
/* How many elements of the workgroup are above `key`, or have it and a place up to `place`. */
uint count_found(uint key, uint place, inout uint calls)
{
    uint mine = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += keys[j] > key || (keys[j] == key && places[j] <= place) ? 1u : 0u;
    mine = subgroupAdd(mine);
    uint base = (calls & 1u) * MOST_SUBGROUPS, all = 0u;
    if (gl_SubgroupInvocationID == 0u)
        counts[base + gl_SubgroupID] = mine;
    barrier();
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        all += counts[base + i];
    calls++;
    return all;
}

/* A key that k elements reach, and the largest. */
uvec2 find_bounds()
{
    uint most = 0u, rank = 0u, share = (k + gl_NumSubgroups - 1u) / gl_NumSubgroups;
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        most = max(most, keys[j]);
    for (uint j = 1u; j < gl_SubgroupSize; j++) {
        uint key = subgroupShuffleXor(most, j);
        rank += key > most || (key == most && (lane ^ j) < lane) ? 1u : 0u;
    }
    if (rank + 1u == min(share, gl_SubgroupSize))
        bounds[gl_SubgroupID] = share <= gl_SubgroupSize ? most : 0u;
    if (rank == 0u)
        tops[gl_SubgroupID] = most;
    barrier();
    uvec2 b = uvec2(0xffffffffu, 0u);
    for (uint i = 0u; i < gl_NumSubgroups; i++)
        b = uvec2(min(b.x, bounds[i]), max(b.y, tops[i]));
    return b;
}
#else
/* How many elements of the workgroup are above `key`, or have it and a place up to `place`. n_found
 * counts on from call to call; *before is what it was. */
uint count_found(uint key, uint place, inout uint before)
{
    uint mine = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += keys[j] > key || (keys[j] == key && places[j] <= place) ? 1u : 0u;
    if (mine > 0u)
        atomicAdd(n_found, mine);
    barrier();
    if (LANE == 0u)
        found_before = n_found;
    barrier();
    uint all = found_before;
    barrier();
    uint count = all - before;
    before = all;
    return count;
}
#endif

/* Whether element j is one of those found; last: the last place taken of those with key low. */
bool is_taken(uint j, uint low, uint last)
{
    bool found = keys[j] > low || (keys[j] == low && places[j] <= last);
    return found && places[j] != ABSENT;
}

void fill_slot(uint slot, uint j)
{
    if (slot < CAP) {
        slot_keys[slot] = keys[j];
        slot_places[slot] = places[j];
    }
}

void store_result(uint row, uint to, uint key, uint place)
{
    if (row < rows && to < n_out) {
        keys_out[row * n_out + to] = key;
        places_out[row * n_out + to] = place;
    }
}

void main()
{
    uint chunk = GROUP_INDEX, row = chunk / chunks, first = chunk % chunks * (THREADS * ITEMS);
    load_elements(row, first);
    if (LANE == 0u)
        n_slots = 0u;
#ifndef SG
    if (LANE == 0u)
        n_found = 0u;
#endif
    barrier();

    /* low is always reached by k elements or more, everything above high by fewer. */
    uint low = 0u, high = 0xffffffffu, before = 0u, found = THREADS * ITEMS;
#ifdef SG
    uvec2 b = find_bounds();
    low = b.x;
    high = b.y;
    found = count_found(low, ABSENT, before);
#endif
    while (low < high && found > CAP) {
        uint middle = low + (high - low) / 2u + 1u;
        uint c = count_found(middle, ABSENT, before);
        if (c >= k) {
            low = middle;
            found = c;
        } else {
            high = middle - 1u;
        }
    }
    uint last = ABSENT; /* the last place taken of those with key low */
    if (found > CAP) {
        uint from = 0u, to = ABSENT;
        while (from < to) {
            uint middle = from + (to - from) / 2u;
            uint c = count_found(low, middle, before);
            if (c >= k)
                to = middle;
            else
                from = middle + 1u;
        }
        last = from;
    }

#ifdef SG
    uint mine = 0u, base = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += is_taken(j, low, last) ? 1u : 0u;
    uint slot = subgroupInclusiveAdd(mine);
    if (gl_SubgroupInvocationID == gl_SubgroupSize - 1u)
        base = atomicAdd(n_slots, slot);
    slot += subgroupShuffle(base, gl_SubgroupSize - 1u) - mine;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        if (is_taken(j, low, last))
            fill_slot(slot++, j);
#else
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        if (is_taken(j, low, last))
            fill_slot(atomicAdd(n_slots, 1u), j);
#endif
    barrier();
    uint n_taken = min(n_slots, CAP);
    for (uint i = LANE; i < k; i += THREADS)
        if (i >= n_taken)
            store_result(row, chunk % chunks * k + i, LAST_KEY, ABSENT);
    for (uint i = LANE; i < n_taken; i += THREADS) {
        uint rank = 0u, equal = 0u, key = slot_keys[i], place = slot_places[i];
        for (uint o = 0u; o < n_taken; o += 8u) /* slots are a multiple of 64 */
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                uint other = o + j < n_taken ? slot_keys[o + j] : 0u;
                rank += other > key ? 1u : 0u;
                equal += other == key ? 1u : 0u;
            }
        for (uint o = 0u; o < n_taken && (equal > 1u || key == 0u); o++)
            rank += slot_keys[o] == key && slot_places[o] < place ? 1u : 0u;
        if (rank < k)
            store_result(row, chunk % chunks * k + rank, key, place);
    }
}
