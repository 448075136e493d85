/* SPDX-License-Identifier: MIT */
#version 450
/* Sorts pieces of rows: chunk c of a row is the elements c * SIZE .. of [outer, n, inner], and its
 * first `keep` elements in order go to keys_out and places_out [rows, n_out] from c * keep on.
 * Larger ones come first (FLIP: smaller ones), equal ones by place; NaN counts as largest.
 * FROM_LIST: the elements are a list [rows, n] of keys and places made before. SKIP_SELF: the
 * element whose place is the number of the row, counted from `self` on, counts as absent; absent
 * ones come last, their place is ABSENT.
 *
 * A workgroup sorts GROUP chunks in shared memory by Batcher's bitonic network. */
#include "common.glsl"
#include "sort.def"
#include "order.glsl"

TENSOR(x)
DEFINE_KEY(x)
layout(SLOT(keys_in), std430) buffer buffer_keys_in { KEY keys_in[]; };
WORDS(places_in);
layout(SLOT(keys_out), std430) buffer buffer_keys_out { KEY keys_out[]; };
WORDS(places_out);

const uint ABSENT = 0xffffffffu;
shared KEY keys[GROUP * SIZE];
shared uint places[GROUP * SIZE];

bool comes_before(uint a, uint b)
{
    return keys[a] == keys[b] ? places[a] < places[b] : key_above(keys[a], keys[b]);
}

void load_element(uint slot, uint row, uint i)
{
    KEY key = LAST_KEY;
    uint place = ABSENT;
    if (row < rows && i < n) {
        if (FROM_LIST != 0u) {
            key = keys_in[row * n + i];
            place = places_in[row * n + i];
        } else if (SKIP_SELF == 0u || i != row + self) {
            uint at = x_at + (row / inner * n + i) * inner + row % inner;
            key = load_key_x(TX, at, FLIP != 0u, 0xffffffffu);
            place = i;
        }
    }
    keys[slot] = key;
    places[slot] = place;
}

void main()
{
    uint first = GROUP_INDEX * GROUP; /* chunk, counted over all rows */
    for (uint p = LANE; p < GROUP * SIZE; p += THREADS) {
        uint chunk = first + p / SIZE;
        load_element(p, chunk / chunks, chunk % chunks * SIZE + p % SIZE);
    }
    barrier();
    for (uint run = 2u; run <= SIZE; run *= 2u) {
        for (uint step = run / 2u; step > 0u; step /= 2u) {
            for (uint t = LANE; t < GROUP * SIZE / 2u; t += THREADS) {
                uint a = 2u * t - (t & (step - 1u)), b = a + step;
                bool forward = (a & (SIZE - 1u) & run) == 0u;
                if (comes_before(b, a) == forward) {
                    KEY key = keys[a];
                    uint place = places[a];
                    keys[a] = keys[b];
                    places[a] = places[b];
                    keys[b] = key;
                    places[b] = place;
                }
            }
            barrier();
        }
    }
    for (uint p = LANE; p < GROUP * SIZE; p += THREADS) {
        uint chunk = first + p / SIZE, row = chunk / chunks;
        uint to = chunk % chunks * keep + p % SIZE;
        if (row < rows && p % SIZE < keep && to < n_out) {
            keys_out[row * n_out + to] = keys[p];
            places_out[row * n_out + to] = places[p];
        }
    }
}
