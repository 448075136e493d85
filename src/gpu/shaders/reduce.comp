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
 * Sums of floats are kept twice, the second time scaled down: it tells the sum, or the mean, where
 * the first is infinite only because of the order of its elements.
 *
 * V4: the last reduced axis is dense and a load is 16 bytes; n, chunk, x_at, dim and stride then
 * count such loads. */
#include "common.glsl"
#include "reduce.def"
#include "value.glsl"

#ifdef V4
WORDS4(x);
#else
TENSOR(x)
DEFINE_VALUE(x)
#endif
WORDS(y);

const uint SLICES = THREADS / COLS;
shared VALUE lanes[THREADS]; /* [column][slice] */
shared float scaled[THREADS];

const float DOWN = 9.094947e-13, UP = 1.0995116e12; /* 2^-40, 2^40 */

bool is_scaled() { return KIND == SUM && is_float(TX); }

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
#ifdef PAIR
    return uvec2(start_low, start_high);
#else
    return start_low;
#endif
}

/* The accumulator of an invocation. */
struct Slice {
    VALUE value;
    float scaled;
};

void join_element(inout Slice s, uint t, VALUE v)
{
    v = map_value(MAP, t, v);
    s.value = join_values(KIND, t, s.value, v);
#ifndef PAIR
    if (is_scaled())
        s.scaled = fma(uintBitsToFloat(v), DOWN, s.scaled);
#endif
}

void join_load(inout Slice s, uint at)
{
#ifdef V4
    uvec4 w = x[at];
    [[unroll]] for (uint j = 0u; j < 4u; j++) {
        if (TX == F16 || TX == BF16) {
            vec2 h = unpackHalf2x16(w[j]);
            join_element(s, F32, TX == F16 ? floatBitsToUint(h.x) : w[j] << 16);
            join_element(s, F32, TX == F16 ? floatBitsToUint(h.y) : w[j] & 0xffff0000u);
        } else {
            join_element(s, TX, w[j]);
        }
    }
#else
    join_element(s, TX, load_value_x(TX, at));
#endif
}

Slice join_slices(Slice a, Slice b)
{
    return Slice(join_values(KIND, TX, a.value, b.value), a.scaled + b.scaled);
}

/* The elements of the row at `base` from first to end, in steps of SLICES. Four loads are in flight
 * at a time, except in short rows, which are joined in order. */
Slice join_part(uint base, uint first, uint end)
{
    Slice s[4];
    [[unroll]] for (uint j = 0u; j < 4u; j++)
        s[j] = Slice(start_value(), 0.0);
    uint i = first;
    if (end - min(first, end) >= 16u * SLICES) {
        for (; i + 3u * SLICES < end; i += 4u * SLICES) {
            [[unroll]] for (uint j = 0u; j < 4u; j++)
                join_load(s[j], base + find_offset(i + j * SLICES, NK, NR));
        }
    }
    for (; i < end; i += SLICES)
        join_load(s[0], base + find_offset(i, NK, NR));
    return join_slices(join_slices(s[0], s[1]), join_slices(s[2], s[3]));
}

/* The result of a row of the workgroup, ready to be stored. */
VALUE finish_row(uint col)
{
    VALUE v = lanes[col * SLICES];
#ifdef WIDE
    return MEAN != 0u ? divide_wide(v, count) : v;
#elif defined SCALED
    return v;
#else
    bool finite = (v & 0x7f800000u) != 0x7f800000u;
    float by = MEAN != 0u ? float(count) : 1.0;
    if (is_scaled() && MEAN != 0u && count == 0u)
        return 0x7fc00000u; /* NaN */
    if (is_scaled())
        v = floatBitsToUint(finite ? uintBitsToFloat(v) / by : scaled[col * SLICES] / by * UP);
    return v;
#endif
}

void main()
{
    uint block = GROUP_INDEX / parts, part = GROUP_INDEX % parts;
    uint col = ACROSS != 0u ? LANE % COLS : LANE / SLICES;
    uint slice = ACROSS != 0u ? LANE / COLS : LANE % SLICES;
    uint row = block * COLS + col;
    Slice s = Slice(start_value(), 0.0);
    if (row < rows)
        s = join_part(x_at + find_offset(row, 0u, NK), part * chunk + slice,
                      min(n, (part + 1u) * chunk));
    lanes[col * SLICES + slice] = s.value;
    scaled[col * SLICES + slice] = s.scaled;
    barrier();
    [[unroll]] for (uint half_ = SLICES / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE < COLS * half_) {
            uint p = LANE / half_ * SLICES + LANE % half_;
            lanes[p] = join_values(KIND, TX, lanes[p], lanes[p + half_]);
            if (is_scaled())
                scaled[p] += scaled[p + half_];
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
