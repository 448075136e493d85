/* SPDX-License-Identifier: MIT */
#version 450
/* Rotary embedding of x [B, H, S, D] or [B, S, H, D] with tables [n_rows, N_ROT / 2]:
 *   y[a] = x[a] cos - x[b] sin, y[b] = x[a] sin + x[b] cos for the pairs (a, b) of a head:
 *   (i, i + N_ROT / 2), INTERLEAVED: (2 i, 2 i + 1); elements past N_ROT are copied.
 * The row of the tables is positions[s] or positions[b, s], else s.
 *
 * An invocation makes a word of the result; those of a half pair read their partner too. */
#include "common.glsl"

layout(constant_id = 1) const uint T = F32;      /* x and y */
layout(constant_id = 2) const uint TTABLE = F32;
layout(constant_id = 3) const uint TINDEX = 0;   /* positions; 0: none */
layout(constant_id = 4) const uint OPTIONS = 0;
layout(constant_id = 5) const uint D = 64;
layout(constant_id = 6) const uint N_ROT = 64;

const bool INTERLEAVED = (OPTIONS & 1u) != 0u;
const bool BACKWARD = (OPTIONS & 2u) != 0u;
const bool SEQ_FIRST = (OPTIONS & 4u) != 0u;     /* [B, S, H, D] */

layout(push_constant) uniform Push {
    uint n, dim1, dim2;                          /* elements; axes 1 and 2 of x */
    uint x_at, x_0, x_1, x_2, x_3;               /* first element, strides */
    uint c_at, c_0, c_1, s_at, s_0, s_1;
    uint p_at, p_0, p_1;                         /* positions by batch and sequence */
    uint n_rows, y_at;
};

TENSOR(0, x)
TENSOR(1, cosines)
TENSOR(2, sines)
WORDS(3, index);
WORDS(4, flags);
WORDS(5, y);

#include "index.glsl"

uint table_row(uint batch, uint s)
{
    bool clamped = false;
    uint row = min(s, n_rows - 1u);
    if (TINDEX != 0u)
        row = find_place(p_at + batch * p_0 + s * p_1, n_rows, clamped);
    else
        clamped = s >= n_rows;
    if (clamped)
        atomicOr(flags[0], FLAG_CLAMPED);
    return row;
}

/* Element e of the result. */
float rotate(uint e)
{
    uint d = e % D, line = e / D;
    uint i2 = line % dim2, i1 = line / dim2 % dim1, i0 = line / dim2 / dim1;
    uint at = x_at + i0 * x_0 + i1 * x_1 + i2 * x_2;
    float mine = load_f_x(T, at + d * x_3);
    if (d >= N_ROT || n_rows == 0u)
        return mine;
    const uint half_rot = N_ROT / 2u;
    bool second = INTERLEAVED ? (d & 1u) != 0u : d >= half_rot;
    uint partner = INTERLEAVED ? d ^ 1u : second ? d - half_rot : d + half_rot;
    uint pair = INTERLEAVED ? d / 2u : d % max(half_rot, 1u);
    uint row = table_row(i0, SEQ_FIRST ? i1 : i2);
    float other = load_f_x(T, at + partner * x_3);
    float c = load_f_cosines(TTABLE, c_at + row * c_0 + pair * c_1);
    float s = load_f_sines(TTABLE, s_at + row * s_0 + pair * s_1);
    return mine * c + (second != BACKWARD ? other : -other) * s;
}

void main()
{
    uint per = per_word(T), e = GLOBAL_INDEX * per;
    if (e >= n)
        return;
    uint word = encode_f(T, rotate(e));
    if (per == 2u && e + 1u < n)
        word |= encode_f(T, rotate(e + 1u)) << 16;
    y[y_at / per + GLOBAL_INDEX] = word;
}
