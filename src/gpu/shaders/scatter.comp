/* SPDX-License-Identifier: MIT */
#version 450
/* Second half of every scatter: y = x with the updates of each place brought in. Both are seen as
 * [outer, n_rows, inner]; row r takes the updates of the list head[r] (scatter_link.comp), and
 * update u of outer index o is the row o * n_updates + u of [.., inner].
 *
 * Float sums and products are kept in two floats, whose sum is exact to about 48 bits, and rounded
 * once, so that the order of a list does not show. Integers wrap. i64 is computed in two words.
 * One invocation makes a word of y: one element of 32 bits, 2 of 16, 4 of 8; or one of 64. */
#include "common.glsl"
#include "scatter.def"

const uint BITS = T == I64 ? 64u : T == F16 || T == BF16 ? 16u : T == F32 || T == I32 ? 32u : 8u;
const bool FLOAT = T == F32 || T == F16 || T == BF16;
#include "parts.glsl"
#include "long.glsl"
#include "finite.glsl"

TENSOR(x)
TENSOR(update)
WORDS(head);
WORDS(next);
WORDS(y);

/* hi + lo == a + b exactly (Knuth's two-sum); lo is 0 where hi is not finite. */
vec2 add_exact(float a, float b)
{
    precise float hi = a + b;
    precise float part = hi - a;
    precise float lo = (a - (hi - part)) + (b - part);
    return vec2(hi, is_finite(hi) ? lo : 0.0);
}

vec2 add_to(vec2 sum, float v)
{
    vec2 s = add_exact(sum.x, v);
    return add_exact(s.x, s.y + sum.y);
}

/* hi + lo == a * b exactly (Dekker), with halves split by bits. */
vec2 mul_exact(float a, float b)
{
    precise float hi = a * b;
    precise float a_hi = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), a_lo = a - a_hi;
    precise float b_hi = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u), b_lo = b - b_hi;
    precise float lo = ((a_hi * b_hi - hi) + a_hi * b_lo + a_lo * b_hi) + a_lo * b_lo;
    return vec2(hi, is_finite(hi) && is_finite(lo) ? lo : 0.0);
}

vec2 mul_by(vec2 product, float v)
{
    vec2 p = mul_exact(product.x, v);
    precise float rest = product.y * v;
    return is_finite(p.x) ? add_exact(p.x, p.y + rest) : p;
}

/* The row of the update that list entry `entry` (u + 1) names, for element (o, s). */
uint find_update(uint entry, uint o, uint s)
{
    return update_at + (o * n_updates + entry - 1u) * inner + s;
}

uint combine_float(uint e, uint entry, uint o, uint s)
{
    vec2 sum = vec2(load_f_x(T, x_at + e), 0.0);
    while (entry != 0u) {
        float v = load_f_update(T, find_update(entry, o, s));
        if (MODE == SCATTER_ADD)
            sum = add_to(sum, v);
        else if (MODE == SCATTER_MUL)
            sum = mul_by(sum, v);
        else if (!is_nan(sum.x) && (is_nan(v) || (MODE == SCATTER_MIN ? v < sum.x : v > sum.x)))
            sum.x = v;
        entry = next[entry - 1u];
    }
    return encode_f(T, sum.x);
}

uint combine_int(uint e, uint entry, uint o, uint s)
{
    int sum = load_i_raw_x(T, x_at + e);
    while (entry != 0u) {
        int v = load_i_raw_update(T, find_update(entry, o, s));
        sum = MODE == SCATTER_ADD ? sum + v : MODE == SCATTER_MUL ? sum * v
              : MODE == SCATTER_MIN ? min(sum, v) : max(sum, v);
        entry = next[entry - 1u];
    }
    return encode_i(T, sum);
}

bool less_signed(uvec2 a, uvec2 b)
{
    uvec2 flip = uvec2(0u, 0x80000000u);
    return long_less(a ^ flip, b ^ flip);
}

uvec2 combine_long(uint e, uint entry, uint o, uint s)
{
    uint at = x_at + e;
    uvec2 sum = uvec2(x[2u * at], x[2u * at + 1u]);
    while (entry != 0u) {
        uint from = find_update(entry, o, s);
        uvec2 v = uvec2(update[2u * from], update[2u * from + 1u]);
        if (MODE == SCATTER_ADD)
            sum = long_add(sum, v);
        else if (MODE == SCATTER_MUL)
            sum = long_mul(sum, v);
        else if (MODE == SCATTER_NONE || less_signed(v, sum) == (MODE == SCATTER_MIN))
            sum = v;
        entry = MODE == SCATTER_NONE ? 0u : next[entry - 1u];
    }
    return sum;
}

/* The bits of element e of y. */
uint combine(uint e, uint entry, uint o, uint s)
{
    if (MODE != SCATTER_NONE)
        return FLOAT ? combine_float(e, entry, o, s) : combine_int(e, entry, o, s);
    uint at = entry != 0u ? find_update(entry, o, s) : x_at + e;
    return take_part(entry != 0u ? update[at / PER] : x[at / PER], at);
}

void main()
{
    uint i = GLOBAL_INDEX, word = 0u;
    if (i >= n)
        return;
    for (uint j = 0u; j < PER; j++) {
        uint e = i * PER + j;
        if (e >= total)
            break;
        uint o = e / inner / n_rows, entry = head[e / inner % n_rows], s = e % inner;
        if (BITS == 64u) {
            uvec2 v = combine_long(e, entry, o, s);
            y[2u * i] = v.x;
            y[2u * i + 1u] = v.y;
            return;
        }
        word |= put_part(combine(e, entry, o, s), j);
    }
    y[i] = word;
}
