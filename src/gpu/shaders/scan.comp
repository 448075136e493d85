/* SPDX-License-Identifier: MIT */
#version 450
/* Running sums, products and maxima: y[i] = the join of x[0..i] along the middle axis of
 * [outer, n, inner]; EXCLUSIVE: of x[0..i-1]; REVERSE: from the other end. Rows are
 * row = o * inner + j.
 *
 * A row is cut into `parts` of `chunk` elements; start[row, part] is the join of all before it when
 * CARRY. Along a row (inner == 1) a workgroup makes one part: each invocation takes SCAN_EACH
 * consecutive elements, joins them, and a scan over the invocations in shared memory tells what
 * comes before. ACROSS: one invocation walks down a part of one row, neighbours are neighbouring
 * rows. */
#include "common.glsl"
#include "scan.def"
#include "value.glsl"

TENSOR(x)
DEFINE_VALUE(x)
WORDS(y);
WORDS(start);

shared VALUE lanes[2u * THREADS];

VALUE join(VALUE a, VALUE b) { return join_values(KIND, TX, a, b); }

VALUE first_value(uint row, uint part)
{
#ifdef PAIR
    uint at = (row * parts + part) * 2u;
    return CARRY != 0u ? uvec2(start[at], start[at + 1u]) : uvec2(start_low, start_high);
#else
    return CARRY != 0u ? start[row * parts + part] : start_low;
#endif
}

/* The i-th element of a row in scan order. */
uint find_place(uint row, uint i)
{
    uint p = REVERSE != 0u ? n - 1u - i : i;
    return (row / inner * n + p) * inner + row % inner;
}

/* y has elements of 4 or 8 bytes. */
void store_result(uint i, VALUE v)
{
    if (TY == I64) {
        y[(y_at + i) * 2u] = encode_value(I32, v);
        y[(y_at + i) * 2u + 1u] = high_word(v);
    } else {
        y[y_at + i] = encode_value(TY, v);
    }
}

void walk_down()
{
    uint i = GLOBAL_INDEX;
    uint row = i % rows, part = i / rows;
    if (part >= parts)
        return;
    VALUE sum = first_value(row, part);
    uint end = min(n, (part + 1u) * chunk);
    for (uint k = part * chunk; k < end; k++) {
        uint at = find_place(row, k);
        VALUE next = join(sum, load_value_x(TX, x_at + at));
        store_result(at, EXCLUSIVE != 0u ? sum : next);
        sum = next;
    }
}

/* Inclusive scan of lanes[0..THREADS); returns the offset in `lanes` of the result. */
uint scan_lanes()
{
    uint from = 0u;
    for (uint step = 1u; step < THREADS; step *= 2u) {
        uint to = THREADS - from;
        barrier();
        VALUE v = lanes[from + LANE];
        if (LANE >= step)
            v = join(lanes[from + LANE - step], v);
        lanes[to + LANE] = v;
        from = to;
    }
    barrier();
    return from;
}

void scan_part()
{
    uint row = min(GROUP_INDEX / parts, rows - 1u), part = GROUP_INDEX % parts;
    bool exists = GROUP_INDEX / parts < rows;
    VALUE carry = first_value(row, part), nothing;
#ifdef PAIR
    nothing = uvec2(start_low, start_high);
#else
    nothing = start_low;
#endif
    uint end = min(n, (part + 1u) * chunk);
    for (uint base = part * chunk; base < end; base += THREADS * SCAN_EACH) {
        VALUE v[SCAN_EACH], total = nothing;
        for (uint j = 0u; j < SCAN_EACH; j++) {
            uint i = base + LANE * SCAN_EACH + j;
            v[j] = i < end ? load_value_x(TX, x_at + find_place(row, i)) : nothing;
            total = j == 0u ? v[0] : join(total, v[j]);
        }
        barrier();
        lanes[LANE] = total;
        uint from = scan_lanes();
        VALUE sum = LANE > 0u ? join(carry, lanes[from + LANE - 1u]) : carry;
        carry = join(carry, lanes[from + THREADS - 1u]);
        for (uint j = 0u; j < SCAN_EACH; j++) {
            uint i = base + LANE * SCAN_EACH + j;
            VALUE next = join(sum, v[j]);
            if (exists && i < end)
                store_result(find_place(row, i), EXCLUSIVE != 0u ? sum : next);
            sum = next;
        }
    }
}

void main()
{
    if (ACROSS != 0u)
        walk_down();
    else
        scan_part();
}
