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
 * SG: there is a bound that k elements reach: when k is split evenly among the subgroups, the share
 * of each is reached by as many of its lanes' largest elements. Mostly no more than CAP reach it
 * and nothing is left to bisect. V4: an invocation reads four neighbours at once. RESULTS: the
 * first k are not a list but elements of x (1) and their places (2), of type TP, in keys_out from
 * y_at and in places_out from i_at on. */
#include "common.glsl"
#include "select.def"
#include "order.glsl"

#ifdef SG
#endif

TENSOR(x)
DEFINE_KEY(x)
WORDS(keys_in);
WORDS(places_in);
WORDS(keys_out);
WORDS(places_out);

const uint ABSENT = 0xffffffffu;
#ifdef SG
const uint SUBGROUPS = THREADS / LANES, TURNS = (CAP + THREADS - 1) / THREADS;
layout(SLOT(x), std430) buffer buffer_x4 { uvec4 x4[]; };
shared uint counts[2 * SUBGROUPS]; /* of each subgroup, for even and odd calls */
shared uint bounds[SUBGROUPS], tops[SUBGROUPS];
shared uvec4 slot_keys[CAP / 4];
shared uint claims[CAP]; /* by rank: the slots that claim it */
#define SLOT_KEY(i) slot_keys[(i) >> 2][(i) & 3u]
#else
shared uint n_found, found_before;
shared uint slot_keys[CAP];
#define SLOT_KEY(i) slot_keys[i]
#endif
shared uint n_slots;
shared uint slot_places[CAP];

uint keys[ITEMS], places[ITEMS]; /* places: of a list */

/* The index in the row of an invocation's j-th element. */
uint index_of(uint first, uint j)
{
#ifdef SG
    if (V4 != 0u)
        return first + (j / 4u * THREADS + LANE) * 4u + j % 4u;
#endif
    return first + j * THREADS + LANE;
}

void load_elements(uint row, uint first)
{
#ifdef SG
    if (V4 != 0u) { /* no list, rows of whole vectors of words */
        [[unroll]] for (uint j = 0u; j < ITEMS; j += 4u) {
            uint i = index_of(first, j);
            uvec4 v = x4[(x_at + min(row, rows - 1u) * n + min(i, n - 4u)) / 4u];
            [[unroll]] for (uint e = 0u; e < 4u; e++) {
                uint key = TX == F32 ? float_key(v[e], 0xffffffffu) : v[e] ^ 0x80000000u;
                bool there = i < n && (SKIP_SELF == 0u || i + e != row + self);
                keys[j + e] = there ? (FLIP != 0u ? ~key : key) : LAST_KEY;
            }
        }
        return;
    }
#endif
    [[unroll]] for (uint j = 0u; j < ITEMS; j++) {
        uint i = first + j * THREADS + LANE;
        keys[j] = LAST_KEY;
        places[j] = ABSENT;
        if (row >= rows || i >= n)
            continue;
        if (FROM_LIST != 0u) {
            keys[j] = keys_in[row * n + i];
            places[j] = places_in[row * n + i];
        } else if (SKIP_SELF == 0u || i != row + self) {
            uint at = x_at + (row / inner * n + i) * inner + row % inner;
            keys[j] = load_key_x(TX, at, FLIP != 0u, 0xffffffffu);
        }
    }
}

uint place_of(uint row, uint first, uint j)
{
    if (FROM_LIST != 0u)
        return places[j];
    uint i = index_of(first, j);
    return i < n && (SKIP_SELF == 0u || i != row + self) ? i : ABSENT;
}

/* Whether element j is above `key`, or equal to it with an index up to `place`. */
bool is_found(uint row, uint first, uint j, uint key, uint place)
{
    if (place == ABSENT)
        return keys[j] >= key;
    return keys[j] > key || (keys[j] == key && place_of(row, first, j) <= place);
}

#ifdef SG
/* The number of selected elements of the workgroup. */
uint count_found(uint row, uint first, uint key, uint place, inout uint calls)
{
    uint mine = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += is_found(row, first, j, key, place) ? 1u : 0u;
    mine = subgroupAdd(mine);
    uint base = (calls & 1u) * SUBGROUPS, all = 0u;
    if (gl_SubgroupInvocationID == 0u)
        counts[base + gl_SubgroupID] = mine;
    barrier();
    [[unroll]] for (uint i = 0u; i < SUBGROUPS; i++)
        all += counts[base + i];
    calls++;
    return all;
}

/* A key that at least k elements reach, and the largest key. */
uvec2 find_bounds()
{
    uint most = 0u, rank = 0u, share = (keep + SUBGROUPS - 1u) / SUBGROUPS;
    uint lane = gl_SubgroupInvocationID;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        most = max(most, keys[j]);
    /* Among equal ones the lower lane is first: lane ^ j is lower if the lane has j's top bit. */
    [[unroll]] for (uint top = 1u; top < LANES; top *= 2u) {
        const bool lower = (lane & top) != 0u;
        [[unroll]] for (uint j = top; j < 2u * top; j++) {
            uint key = subgroupShuffleXor(most, j);
            rank += key > most || (lower && key == most) ? 1u : 0u;
        }
    }
    if (rank + 1u == min(share, LANES))
        bounds[gl_SubgroupID] = share <= LANES ? most : 0u;
    if (rank == 0u)
        tops[gl_SubgroupID] = most;
    barrier();
    uvec2 b = uvec2(0xffffffffu, 0u);
    [[unroll]] for (uint i = 0u; i < SUBGROUPS; i++)
        b = uvec2(min(b.x, bounds[i]), max(b.y, tops[i]));
    return b;
}
#else
/* The same by one counter, which accumulates from call to call; *before is its previous value. */
uint count_found(uint row, uint first, uint key, uint place, inout uint before)
{
    uint mine = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += is_found(row, first, j, key, place) ? 1u : 0u;
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

void clear_slots()
{
    if (LANE == 0u)
        n_slots = 0u;
#ifdef SG
    for (uint i = LANE; i < CAP / 4u; i += THREADS)
        slot_keys[i] = uvec4(0u);
    for (uint i = LANE; i < CAP; i += THREADS)
        claims[i] = 0u;
#endif
}

void fill_slot(uint row, uint first, uint slot, uint j)
{
    if (slot < CAP) {
        SLOT_KEY(slot) = keys[j];
        slot_places[slot] = place_of(row, first, j);
    }
}

/* Moves the selected elements to slots, as far as there are some. */
void fill_slots(uint row, uint first, uint key, uint place)
{
#ifdef SG
    uint mine = 0u, base = 0u;
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        mine += is_found(row, first, j, key, place) ? 1u : 0u;
    uint slot = subgroupInclusiveAdd(mine);
    if (gl_SubgroupInvocationID == LANES - 1u)
        base = atomicAdd(n_slots, slot);
    slot += subgroupShuffle(base, LANES - 1u) - mine;
    if (mine > 0u)
        [[unroll]] for (uint j = 0u; j < ITEMS; j++)
            if (is_found(row, first, j, key, place))
                fill_slot(row, first, slot++, j);
#else
    [[unroll]] for (uint j = 0u; j < ITEMS; j++)
        if (is_found(row, first, j, key, place))
            fill_slot(row, first, atomicAdd(n_slots, 1u), j);
#endif
}

/* Bisection between low, which at least k elements reach, and high, above which there are fewer.
 * Returns the key and the last index taken among equal ones. */
uvec2 bisect(uint row, uint first, uint low, uint high, uint found, inout uint before)
{
    while (low < high && found > CAP) {
        uint middle = low + (high - low) / 2u + 1u;
        uint c = count_found(row, first, middle, ABSENT, before);
        if (c >= keep) {
            low = middle;
            found = c;
        } else {
            high = middle - 1u;
        }
    }
    if (found <= CAP)
        return uvec2(low, ABSENT);
    uint from = 0u, to = ABSENT - 1u;
    while (from < to) {
        uint middle = from + (to - from) / 2u;
        uint c = count_found(row, first, low, middle, before);
        if (c >= keep)
            to = middle;
        else
            from = middle + 1u;
    }
    return uvec2(low, from);
}

void store_result(uint row, uint to, uint key, uint place)
{
    if (row >= rows || to >= n_out)
        return;
#ifdef SG
    uint at = row * n_out + to;
    if ((RESULTS & 1u) != 0u)
        keys_out[y_at + at] = x[x_at + row * length + min(place, length - 1u)];
    if ((RESULTS & 2u) != 0u && TP == I64) {
        places_out[(i_at + at) * 2u] = place;
        places_out[(i_at + at) * 2u + 1u] = 0u;
    } else if ((RESULTS & 2u) != 0u) {
        places_out[i_at + at] = place;
    }
    if (RESULTS != 0u)
        return;
#endif
    keys_out[row * n_out + to] = key;
    places_out[row * n_out + to] = place;
}

#ifdef SG
/* Each slot computes its rank; where several claim one, indices decide. */
void store_slots(uint row, uint to, uint n_taken)
{
    uint ranks[TURNS];
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
        uint i = LANE + turn * THREADS, rank = 0u;
        if (i < n_taken) {
            uint key = SLOT_KEY(i);
            for (uint o = 0u; o < (n_taken + 3u) / 4u; o++) {
                uvec4 other = slot_keys[o];
                rank += other.x > key ? 1u : 0u;
                rank += other.y > key ? 1u : 0u;
                rank += other.z > key ? 1u : 0u;
                rank += other.w > key ? 1u : 0u;
            }
            atomicAdd(claims[rank], 1u);
        }
        ranks[turn] = rank;
    }
    barrier();
    [[unroll]] for (uint turn = 0u; turn < TURNS; turn++) {
        uint i = LANE + turn * THREADS, rank = ranks[turn];
        if (i >= n_taken || rank >= keep)
            continue;
        uint key = SLOT_KEY(i), place = slot_places[i];
        if (claims[rank] > 1u)
            for (uint o = 0u; o < n_taken; o++)
                rank += SLOT_KEY(o) == key && slot_places[o] < place ? 1u : 0u;
        if (rank < keep)
            store_result(row, to + rank, key, place);
    }
}
#else
void store_slots(uint row, uint to, uint n_taken)
{
    for (uint i = LANE; i < n_taken; i += THREADS) {
        uint rank = 0u, equal = 0u, key = SLOT_KEY(i), place = slot_places[i];
        for (uint o = 0u; o < n_taken; o += 8u) /* slots are a multiple of 64 */
            [[unroll]] for (uint j = 0u; j < 8u; j++) {
                uint other = o + j < n_taken ? SLOT_KEY(o + j) : 0u;
                rank += other > key ? 1u : 0u;
                equal += other == key ? 1u : 0u;
            }
        for (uint o = 0u; o < n_taken && (equal > 1u || key == 0u); o++)
            rank += SLOT_KEY(o) == key && slot_places[o] < place ? 1u : 0u;
        if (rank < keep)
            store_result(row, to + rank, key, place);
    }
}
#endif

void main()
{
    uint chunk = GROUP_INDEX, row = chunk / chunks, first = chunk % chunks * (THREADS * ITEMS);
    uint before = 0u;
    load_elements(row, first);
    clear_slots();
#ifdef SG
    uvec2 b = find_bounds();
    /* absent elements have the last key, but are never selected */
    fill_slots(row, first, b.x, b.x == LAST_KEY ? ABSENT - 1u : ABSENT);
    barrier();
    uint filled = n_slots;
    if (filled > CAP) {
        uvec2 end = bisect(row, first, b.x, b.y, filled, before);
        barrier();
        clear_slots();
        barrier();
        fill_slots(row, first, end.x, end.y);
        barrier();
    }
#else
    if (LANE == 0u)
        n_found = 0u;
    barrier();
    uvec2 end = bisect(row, first, 0u, 0xffffffffu, THREADS * ITEMS, before);
    fill_slots(row, first, end.x, end.x == LAST_KEY ? min(end.y, ABSENT - 1u) : end.y);
    barrier();
#endif
    uint n_taken = min(n_slots, CAP), to = chunk % chunks * keep;
    for (uint i = LANE; i < keep; i += THREADS)
        if (i >= n_taken)
            store_result(row, to + i, LAST_KEY, ABSENT);
    store_slots(row, to, n_taken);
}
