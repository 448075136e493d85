/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
/* argmax and argmin: y[row] = the place of the first (or with LAST the last) of the largest
 * elements of a row, FLIP: of the smallest; NaN goes before any number. Rows are [outer, n, inner],
 * row = o * inner + j.
 *
 * A workgroup makes COLS rows with THREADS / COLS invocations each, as in reduce.comp. With
 * parts > 1 it looks at `chunk` elements of a row and leaves (place, key) in y [rows, parts]; with
 * FROM_PARTS it reads those, n of them for each row. */
#include "common.glsl"
#include "arg.def"
#include "order.glsl"

#include "chain.glsl"

TENSOR(x)
DEFINE_KEY(x)
WORDS(y);

#ifdef WIDE
const uint PAIR = 3u; /* words of an (index, key) pair */
#else
const uint PAIR = 2u;
#endif
const uint SLICES = THREADS / COLS;
shared KEY keys[THREADS]; /* [column][slice] */
shared uint places[THREADS];

bool is_better(KEY a, uint i, KEY b, uint j)
{
    if (a != b)
        return key_above(a, b);
    return LAST != 0u ? i > j : i < j;
}

void load_candidate(uint row, uint i, out KEY key, out uint place)
{
    if (FROM_PARTS == 0u) {
        uint at = x_at + (row / inner * n + i) * inner + row % inner;
        key = load_key_x(TX, at, FLIP != 0u, FLIP != 0u ? 0u : 0xffffffffu);
        place = i;
        return;
    }
    uint at = (row * n + i) * PAIR;
    place = x[at];
#ifdef WIDE
    key = uvec2(x[at + 1u], x[at + 2u]);
#else
    key = x[at + 1u];
#endif
}

void store_place(uint row, uint part, uint place, KEY key)
{
    if (parts > 1u) {
        uint at = (row * parts + part) * PAIR;
        y[at] = place;
#ifdef WIDE
        y[at + 1u] = key.x;
        y[at + 2u] = key.y;
#else
        y[at + 1u] = key;
#endif
    } else if (TY == I64) {
        y[(y_at + row) * 2u] = place;
        y[(y_at + row) * 2u + 1u] = 0u;
    } else {
        y[y_at + row] = place;
    }
}

void main()
{
    uint block = GROUP_INDEX / parts, part = GROUP_INDEX % parts;
    uint col = ACROSS != 0u ? LANE % COLS : LANE / SLICES;
    uint slice = ACROSS != 0u ? LANE / COLS : LANE % SLICES;
    uint row = block * COLS + col, first = part * chunk + slice;
    uint end = row < rows ? min(n, (part + 1u) * chunk) : 0u;
    KEY best = LAST_KEY;
    uint place = 0u;
    if (end > 0u) /* otherwise this invocation has no elements */
        load_candidate(row, part * chunk, best, place);
    for (uint i = first; i < end; i += SLICES) {
        KEY key;
        uint at;
        load_candidate(row, i, key, at);
        if (is_better(key, at, best, place)) {
            best = key;
            place = at;
        }
    }
    uint mine = col * SLICES + slice;
    keys[mine] = best;
    places[mine] = place;
    barrier();
    for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint p = LANE / half_ * SLICES + LANE % half_;
            if (is_better(keys[p + half_], places[p + half_], keys[p], places[p])) {
                keys[p] = keys[p + half_];
                places[p] = places[p + half_];
            }
        }
        barrier();
    }
    if (LANE < COLS && block * COLS + LANE < rows)
        store_place(block * COLS + LANE, part, places[LANE * SLICES], keys[LANE * SLICES]);
}
