/* SPDX-License-Identifier: MIT */
/* Attention of few rows: from the sums of each subgroup of a workgroup to those of all parts of the
 * keys. Whoever includes this says, as constants:
 *   R       rows of a workgroup
 *   AT      rows that are joined at a time, a divisor of R
 *   SLOTS   subgroups of a workgroup; LANES: its invocations
 *   SHARE   lanes that join the sums of an item (four elements of a row) together, divides SLOTS
 *   ITEMS   items of a subgroup at a time
 *
 * NARROW: the device rounds to f16, which packHalf2x16 need not do right.
 * REDO: rows with infinite or NaN sums are noted in odd_rows.
 * JOIN: the workgroup that is the last to finish its part joins all parts of the rows and writes
 * the result; `counters` has a word for each K/V head and tile of rows, 0 before and after. */
#ifndef ATTENTION_JOIN_GLSL
#define ATTENTION_JOIN_GLSL

#ifdef JOIN
/* By row and split: DV sums, then a vector with the maximum and the sum of weights. */
layout(SLOT(partial), std430) coherent buffer buffer_partial { uvec4 partial[]; };
layout(SLOT(counters), std430) coherent buffer buffer_counters { uint counters[]; };
const uint LINE = DV / 4u + 1u;
shared uint n_before;
const uint PARTS = 4;
#endif

shared vec4 joined[SLOTS * AT * DV / 4u];       /* partial sums of the subgroups */
shared float tops[SLOTS * R], totals[SLOTS * R];
#ifdef REDO
shared uint odd_rows; /* a bit for each row of the workgroup */
#endif

/* Four elements of the result, from an even one on. */
void store4(uint i, vec4 y)
{
    if (TQ == F32) {
        [[unroll]] for (uint e = 0u; e < 4u; e++)
            o[i + e] = floatBitsToUint(y[e]);
#ifdef NARROW
    } else if (TQ == F16) {
        o[i / 2u] = packFloat2x16(f16vec2(y.xy));
        o[i / 2u + 1u] = packFloat2x16(f16vec2(y.zw));
#endif
    } else {
        o[i / 2u] = encode_f(TQ, y.x) | encode_f(TQ, y.y) << 16;
        o[i / 2u + 1u] = encode_f(TQ, y.z) | encode_f(TQ, y.w) << 16;
    }
}

struct Place {
    uint batch, kv_head, row, n_rows, split;
};

/* Offset of the sums of a row over all keys. */
uint result_at(Place p)
{
    return o_at + p.batch * n_kv_heads * GROUP * count_queries() * DV +
           (p.kv_head * GROUP + p.row % GROUP) * o_h + p.row / GROUP * o_s;
}

/* The index of a row among those of all batches. */
uint line_of(Place p) { return (p.batch * n_kv_heads + p.kv_head) * p.n_rows + p.row; }

/* Sums relative to a maximum. */
struct Sums {
    float top, total;
    vec4 y;
};

void put_result(Place p, uint d, Sums a)
{
    float factor = row_factor(a.top, a.total, p.kv_head * GROUP + p.row % GROUP);
#ifdef REDO
    if (!all_finite(a.y) || !is_finite(factor))
        atomicOr(odd_rows, 1u << p.row % R);
#endif
    store4(result_at(p) + d, a.y * factor);
}

/* Sums d to d + 3 of a row. */
void put_sums(Place p, uint d, Sums a)
{
    if (!PARTIAL) {
        put_result(p, d, a);
        return;
    }
    uint part = line_of(p) * n_splits + p.split;
#ifdef JOIN
    partial[part * LINE + d / 4u] = floatBitsToUint(a.y);
    if (d == 0u)
        partial[part * LINE + DV / 4u] = floatBitsToUint(vec4(a.top, a.total, 0.0, 0.0));
#else
    part *= DV + 2u;
    [[unroll]] for (uint e = 0u; e < 4u; e++)
        o[part + d + e] = floatBitsToUint(a.y[e]);
    if (d == 0u) {
        o[part + DV] = floatBitsToUint(a.top);
        o[part + DV + 1u] = floatBitsToUint(a.total);
    }
#endif
}

/* Adds the partial sums of the lanes that share an item. */
void join_shares(inout Sums a)
{
    [[unroll]] for (uint bit = ITEMS; bit < ITEMS * SHARE; bit *= 2u) {
        float most = max(a.top, subgroupShuffleXor(a.top, bit)), keep = keep_factor(a.top, most);
        a = Sums(most, a.total * keep, a.y * keep);
        a.total += subgroupShuffleXor(a.total, bit);
        a.y += subgroupShuffleXor(a.y, bit);
    }
}

/* The item of this lane, and its index among the lanes that share it. */
uint my_item() { return LANE / (ITEMS * SHARE) * ITEMS + LANE % ITEMS; }
uint my_share() { return LANE / ITEMS % SHARE; }

/* Writes the sums of rows r0 to r0 + AT - 1 from `joined`; first: row 0 of the workgroup. */
void join_slots(Place first, uint r0)
{
    uint item = my_item(), share = my_share();
    [[dont_unroll]] for (uint i0 = 0u; i0 < AT * DV / 4u; i0 += LANES / SHARE) {
        uint i = min(i0 + item, AT * DV / 4u - 1u), r = r0 + i * 4u / DV;
        Place p = first;
        p.row += r;
        Sums all = Sums(NOTHING, 0.0, vec4(0.0));
        [[unroll]] for (uint s = 0u; s < SLOTS; s += SHARE)
            all.top = max(all.top, tops[(s + share) * R + r]);
        [[unroll]] for (uint s = 0u; s < SLOTS; s += SHARE) {
            float w = keep_factor(tops[(s + share) * R + r], all.top);
            all.total += totals[(s + share) * R + r] * w;
            all.y += joined[(s + share) * AT * DV / 4u + i] * w;
        }
        join_shares(all);
        if (share == 0u && i == i0 + item && p.row < p.n_rows)
            put_sums(p, i * 4u % DV, all);
    }
}

#if defined JOIN || defined REDO
/* A workgroup barrier that also orders buffer accesses. */
void buffer_barrier()
{
    controlBarrier(gl_ScopeWorkgroup, gl_ScopeWorkgroup,
                   gl_StorageSemanticsBuffer | gl_StorageSemanticsShared,
                   gl_SemanticsAcquireRelease);
}
#endif

#ifdef JOIN
/* Sums d to d + 3 of a row over every SHARE-th split, PARTS loads in flight at a time, since a loop
 * of single loads would wait for each. */
Sums join_parts(Place p, uint d, uint share)
{
    uint at = line_of(p) * n_splits * LINE;
    Sums all = Sums(NOTHING, 0.0, vec4(0.0));
    [[dont_unroll]] for (uint s = share; s < n_splits; s += SHARE * PARTS) {
        vec4 sums[PARTS];
        vec2 stats[PARTS];
        [[unroll]] for (uint i = 0u; i < PARTS; i++) { /* clamped: repeats the last one */
            uint from = at + min(s + i * SHARE, n_splits - 1u) * LINE;
            stats[i] = uintBitsToFloat(partial[from + DV / 4u].xy);
            sums[i] = uintBitsToFloat(partial[from + d / 4u]);
        }
        float most = all.top;
        [[unroll]] for (uint i = 0u; i < PARTS; i++)
            most = max(most, stats[i].x);
        float keep = keep_factor(all.top, most);
        all = Sums(most, all.total * keep, all.y * keep);
        [[unroll]] for (uint i = 0u; i < PARTS; i++) {
            if (s + i * SHARE < n_splits) {
                float w = keep_factor(stats[i].x, most);
                all.total += w * stats[i].y;
                all.y += w * sums[i];
            }
        }
    }
    return all;
}

/* Counts this workgroup; the last one of a group of rows writes their result. True: this is the
 * last. */
bool join_splits(Place first)
{
    uint counter = first.batch * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    buffer_barrier();
    if (LANE == 0u) {
        memoryBarrierBuffer();
        n_before = atomicAdd(counters[counter], 1u);
        memoryBarrierBuffer();
    }
    buffer_barrier();
    if (n_before + 1u != n_splits)
        return false;
    uint item = my_item(), share = my_share();
    [[dont_unroll]] for (uint i0 = 0u; i0 < R * DV / 4u; i0 += LANES / SHARE) {
        uint i = min(i0 + item, R * DV / 4u - 1u), row = first.row + i * 4u / DV;
        Place p = first;
        p.row = min(row, p.n_rows - 1u);
        Sums all = join_parts(p, i * 4u % DV, share);
        join_shares(all);
        if (share == 0u && i == i0 + item && row < p.n_rows)
            put_result(p, i * 4u % DV, all);
    }
    if (LANE == 0u)
        counters[counter] = 0u;
    return true;
}
#endif

#endif
