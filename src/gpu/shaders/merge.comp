/* SPDX-License-Identifier: MIT */
#version 450
/* One round of a merge sort of the lists [rows, n] of keys and places: neighbouring sorted runs of
 * `run` elements become one. One invocation moves one element: its new place is its place in its
 * own run plus the number of elements of the other run that come before it. */
#include "common.glsl"
#include "merge.def"
#include "order.glsl"

layout(SLOT(keys_in), std430) buffer buffer_keys_in { KEY keys_in[]; };
WORDS(places_in);
layout(SLOT(keys_out), std430) buffer buffer_keys_out { KEY keys_out[]; };
WORDS(places_out);

void main()
{
    uint row = GLOBAL_INDEX / n, i = GLOBAL_INDEX % n;
    if (row >= rows)
        return;
    uint base = row * n, mine = i / run, other = mine ^ 1u;
    KEY key = keys_in[base + i];
    uint place = places_in[base + i];
    uint start = min(other * run, n), low = start, high = min(start + run, n);
    while (low < high) {
        uint middle = (low + high) / 2u;
        KEY k = keys_in[base + middle];
        bool before = k == key ? places_in[base + middle] < place : key_above(k, key);
        low = before ? middle + 1u : low;
        high = before ? high : middle;
    }
    uint to = base + (mine & ~1u) * run + (i - mine * run) + (low - start);
    keys_out[to] = key;
    places_out[to] = place;
}
