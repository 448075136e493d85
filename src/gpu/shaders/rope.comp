/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
/* Rotary embedding of x [B, H, S, D] or [B, S, H, D] with tables [n_rows, N_ROT / 2]:
 *   y[a] = x[a] cos - x[b] sin, y[b] = x[a] sin + x[b] cos for the pairs (a, b) of a head:
 *   (i, i + N_ROT / 2), INTERLEAVED: (2 i, 2 i + 1); elements past N_ROT are copied.
 * The row of the tables is positions[s] or positions[b, s], else s.
 *
 * An invocation makes a word of the result and reads the partners of its elements too. V4: it makes
 * a vector of 16 bytes, and the vector of the partners when that is another one.
 *
 * WRITE (with V4): the result is the update of a state_write, n_lines heads a slice, and goes to
 * the state in its type TO: T, or F16 or BF16 where T is F32. Places as in state_write.comp. */
#include "common.glsl"
#include "rope.def"

#ifdef WRITE
#endif

const bool INTERLEAVED = (OPTIONS & ROPE_INTERLEAVED) != 0u;
const bool BACKWARD = (OPTIONS & ROPE_BACKWARD) != 0u;
const bool SEQ_FIRST = (OPTIONS & ROPE_SEQ_FIRST) != 0u;

#include "chain.glsl"

#ifdef V4
WORDS4(x);
#else
TENSOR(x)
#endif
TENSOR(cosines)
TENSOR(sines)
WORDS(index);
WORDS(flags);
#ifdef WRITE
WORDS(y);
WORDS(place); /* the position, or the places */
#elif defined(V4)
WORDS4(y);
#else
WORDS(y);
#endif

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

#ifdef V4
const uint E = T == F32 ? 4u : 8u; /* elements of a vector */

float get(uvec4 w, uint j)
{
    if (T == F32)
        return uintBitsToFloat(w[j]);
    uint h = w[j / 2u] >> (j % 2u * 16u);
    return T == F16 ? unpackHalf2x16(h).x : bf16_to_f32(h & 0xffffu);
}

void put(inout uvec4 w, uint j, float f)
{
    if (T == F32)
        w[j] = floatBitsToUint(f);
    else
        w[j / 2u] |= encode_f(T, f) << (j % 2u * 16u);
}

#ifdef WRITE
/* The index of slice l in the state; axis_size or more: out of range. */
uint find_slice(uint l)
{
    if (ONE == 0u)
        return place[l];
    uint low = place[TPLACE == I64 ? 2u * place_at : place_at];
    uint high = (low >> 31) != 0u ? 0xffffffffu : 0u;
    if (TPLACE == I64)
        high = place[2u * place_at + 1u];
    uint at = slice_place(make_index(low, high), l, axis_size);
    if (at >= axis_size)
        atomicOr(flags[0], FLAG_STATE_RANGE);
    return at;
}

uint round2(uint low, uint high)
{
    return encode_f(TO, uintBitsToFloat(low)) | encode_f(TO, uintBitsToFloat(high)) << 16;
}

const uint NOWHERE = 0xffffffffu;

/* Stores a vector of the result, `after` elements after element `to` of the state. */
void write(uint to, uint after, uvec4 w)
{
    uint at = (to + after) / per_word(TO);
    if (to == NOWHERE)
        return;
    if (TO == T) {
        [[unroll]] for (uint j = 0u; j < 4u; j++)
            y[at + j] = w[j];
    } else {
        y[at] = round2(w.x, w.y);
        y[at + 1u] = round2(w.z, w.w);
    }
}
#else
void write(uint to, uint after, uvec4 w) { y[(to + after) / E] = w; }
#endif

void main()
{
    const uint half_rot = N_ROT / 2u, paired = INTERLEAVED ? 0u : half_rot / E;
    const uint per = D / E - paired; /* items of a head: pairs of vectors, then single ones */
    uint line = GLOBAL_INDEX / per, item = GLOBAL_INDEX % per;
    if (line >= n / D)
        return;
    uint i2 = line % dim2, i1 = line / dim2 % dim1, i0 = line / dim2 / dim1;
    uint d = (item < paired ? item : item + paired) * E;
    uint from = (x_at + i0 * x_0 + i1 * x_1 + i2 * x_2 + d) / E, to = y_at + line * D + d;
#ifdef WRITE
    uint slice = find_slice(line / n_lines);
    to = slice < axis_size ? y_at + (slice * n_lines + line % n_lines) * D + d : NOWHERE;
#endif
    uvec4 a = x[from];
    if (d >= N_ROT || n_rows == 0u) {
        write(to, 0u, a);
        if (item < paired)
            write(to, half_rot, x[from + paired]);
        return;
    }
    uint row = table_row(i0, SEQ_FIRST ? i1 : i2);
    uint c = c_at + row * c_0, s = s_at + row * s_0;
    uvec4 b = a, first = uvec4(0u), second = uvec4(0u);
    if (!INTERLEAVED)
        b = x[from + paired];
    const uint n_pairs = INTERLEAVED ? E / 2u : E;
    uint pair0 = INTERLEAVED ? d / 2u : d;
    [[unroll]] for (uint j = 0u; j < n_pairs; j++) {
        float u = get(a, INTERLEAVED ? 2u * j : j), w = get(b, INTERLEAVED ? 2u * j + 1u : j);
        float cosine = load_f_cosines(TTABLE, c + (pair0 + j) * c_1);
        float sine = load_f_sines(TTABLE, s + (pair0 + j) * s_1);
        sine = BACKWARD ? -sine : sine;
        if (INTERLEAVED) {
            put(first, 2u * j, u * cosine - w * sine);
            put(first, 2u * j + 1u, u * sine + w * cosine);
        } else {
            put(first, j, u * cosine - w * sine);
            put(second, j, u * sine + w * cosine);
        }
    }
    write(to, 0u, first);
    if (!INTERLEAVED)
        write(to, half_rot, second);
}
#else
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
#endif
