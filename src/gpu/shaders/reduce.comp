/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* Reductions: y[row] = the join over i < n of map(x[kept(row) + reduced(i)]), divided by `count`
 * with MEAN. kept and reduced are sums over axes of coordinate times stride; the axes are in dim
 * and stride, NK kept ones first, then NR reduced ones, outermost first.
 *
 * A workgroup makes COLS rows; THREADS / COLS invocations share a row and join their values in
 * shared memory. Neighbours in the workgroup are neighbours in a row, or with ACROSS neighbouring
 * rows, whichever lies side by side in memory. With parts > 1 a workgroup takes the elements
 * part * chunk .. of its rows only and y is [rows, parts].
 *
 * V4: the last reduced axis is dense and a load is 16 bytes; n, chunk, x_at, dim and stride then
 * count such loads. */
#include "common.glsl"
#include "value.glsl"

layout(constant_id = 1) const uint TX = 1;
layout(constant_id = 2) const uint TY = 1;
layout(constant_id = 3) const uint KIND = 0;
layout(constant_id = 4) const uint MAP = 0;
layout(constant_id = 5) const uint MEAN = 0;
layout(constant_id = 6) const uint NK = 1;
layout(constant_id = 7) const uint NR = 1;
layout(constant_id = 8) const uint COLS = 1;
layout(constant_id = 9) const uint ACROSS = 0;
layout(constant_id = 10) const uint THREADS = 64; /* the local size again */

layout(push_constant) uniform Params {
    uint rows, n, parts, chunk, x_at, y_at, count;
    uint start_low, start_high; /* the join of nothing */
    uint dim[8], stride[8];
};

#ifdef V4
WORDS4(0, x);
#else
TENSOR(0, x)
DEFINE_VALUE(x)
#endif
WORDS(1, y);

const uint SLICES = THREADS / COLS;
shared VALUE lanes[THREADS]; /* [column][slice] */

uint find_offset(uint index, uint first, uint n_axes)
{
    uint at = 0u;
    [[unroll]] for (uint k = n_axes; k > 1u; k--) {
        uint a = first + k - 1u, next = index / dim[a];
        at += (index - next * dim[a]) * stride[a];
        index = next;
    }
    return n_axes > 0u ? at + index * stride[first] : 0u;
}

VALUE start_value()
{
#ifdef WIDE
    return uvec2(start_low, start_high);
#else
    return start_low;
#endif
}

#ifdef V4
/* Joins the elements of a load. */
uint join_load(uint sum, uvec4 w)
{
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        if (TX == F16 || TX == BF16) {
            uint a = TX == F16 ? floatBitsToUint(unpackHalf2x16(w[j]).x) : w[j] << 16;
            uint b = TX == F16 ? floatBitsToUint(unpackHalf2x16(w[j]).y) : w[j] & 0xffff0000u;
            sum = join_values(KIND, F32, sum, map_value(MAP, F32, a));
            sum = join_values(KIND, F32, sum, map_value(MAP, F32, b));
        } else {
            sum = join_values(KIND, TX, sum, map_value(MAP, TX, w[j]));
        }
    }
    return sum;
}
#endif

/* The part of a row that starts at `base` and lies between first and end, in steps of SLICES. Four
 * loads are under way at a time. */
VALUE join_slice(uint base, uint first, uint end)
{
    VALUE sum[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        sum[j] = start_value();
    uint i = first;
    for (; i + 3u * SLICES < end; i += 4u * SLICES) {
        [[unroll]] for (uint j = 0u; j < 4u; j++) {
            uint at = base + find_offset(i + j * SLICES, NK, NR);
#ifdef V4
            sum[j] = join_load(sum[j], x[at]);
#else
            sum[j] = join_values(KIND, TX, sum[j], map_value(MAP, TX, load_value_x(TX, at)));
#endif
        }
    }
    for (; i < end; i += SLICES) {
        uint at = base + find_offset(i, NK, NR);
#ifdef V4
        sum[0] = join_load(sum[0], x[at]);
#else
        sum[0] = join_values(KIND, TX, sum[0], map_value(MAP, TX, load_value_x(TX, at)));
#endif
    }
    return join_values(KIND, TX, join_values(KIND, TX, sum[0], sum[1]),
                       join_values(KIND, TX, sum[2], sum[3]));
}

/* The result of a row of the workgroup, ready to be stored. */
VALUE finish_row(uint col)
{
    VALUE v = lanes[col * SLICES];
    if (MEAN == 0u)
        return v;
#ifdef WIDE
    return divide_wide(v, count);
#else
    return count == 0u ? 0x7fc00000u : floatBitsToUint(uintBitsToFloat(v) / float(count));
#endif
}

void main()
{
    uint block = GROUP_INDEX / parts, part = GROUP_INDEX % parts;
    uint col = ACROSS != 0u ? LANE % COLS : LANE / SLICES;
    uint slice = ACROSS != 0u ? LANE / COLS : LANE % SLICES;
    uint row = block * COLS + col;
    VALUE v = start_value();
    if (row < rows)
        v = join_slice(x_at + find_offset(row, 0u, NK), part * chunk + slice,
                       min(n, (part + 1u) * chunk));
    lanes[col * SLICES + slice] = v;
    barrier();
    [[unroll]] for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint p = LANE / half_ * SLICES + LANE % half_;
            lanes[p] = join_values(KIND, TX, lanes[p], lanes[p + half_]);
        }
        barrier();
    }

    uint per = per_word(TY), first = block * COLS + LANE * per;
    if (LANE >= COLS / per || first >= rows)
        return;
    if (TY == I64) {
        VALUE r = finish_row(LANE);
        uint at = (y_at + first * parts + part) * 2u;
        y[at] = encode_value(I32, r);
        y[at + 1u] = high_word(r);
        return;
    }
    uint word = 0u;
    [[unroll]] for (uint j = 0u; j < per; j++)
        word |= encode_value(TY, finish_row(LANE * per + j)) << (j * bits_of(TY) & 31u);
    y[(y_at + first * parts + part) / per] = word;
}
