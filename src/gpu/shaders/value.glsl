/* SPDX-License-Identifier: MIT */
/* Accumulators as words: VALUE is the bits of a float or a 32-bit integer; with WIDE a 64-bit
 * integer, (low, high); with SCALED, for products, the significand of a float and its exponent, so
 * that no partial product over- or underflows. In memory a pair has the type I64. */
#ifndef VALUE_GLSL
#define VALUE_GLSL

#include "order.glsl"

#include "value.def"

#if defined WIDE || defined SCALED
#define PAIR
#define VALUE uvec2
#else
#define VALUE uint
#endif

bool is_float(uint t) { return t == F32 || t == F16 || t == BF16; }

#ifdef WIDE
uvec2 add_wide(uvec2 a, uvec2 b)
{
    uint carry, low = uaddCarry(a.x, b.x, carry);
    return uvec2(low, a.y + b.y + carry);
}

uvec2 negate_wide(uvec2 a) { return add_wide(~a, uvec2(1u, 0u)); }

uvec2 multiply_wide(uvec2 a, uvec2 b)
{
    uint high, low;
    umulExtended(a.x, b.x, high, low);
    return uvec2(low, high + a.x * b.y + a.y * b.x);
}

/* Signed a < b. */
bool less_wide(uvec2 a, uvec2 b)
{
    return a.y == b.y ? a.x < b.x : int(a.y) < int(b.y);
}

/* a / n toward zero, by long division; 0 when n is 0. */
uvec2 divide_wide(uvec2 a, uint n)
{
    bool minus = int(a.y) < 0;
    uvec2 rest = minus ? negate_wide(a) : a, q = uvec2(0u);
    uint r = 0u;
    for (uint i = 0u; i < 64u; i++) {
        bool over = (r >> 31) != 0u; /* the next remainder has 33 bits */
        r = (r << 1) | (rest.y >> 31);
        rest = uvec2(rest.x << 1, (rest.y << 1) | (rest.x >> 31));
        q = uvec2(q.x << 1, (q.y << 1) | (q.x >> 31));
        if (over || r >= n) {
            r -= n;
            q.x |= 1u;
        }
    }
    q = n == 0u ? uvec2(0u) : q;
    return minus ? negate_wide(q) : q;
}

uvec2 join_values(uint kind, uint t, uvec2 a, uvec2 b)
{
    if (kind == SUM)
        return add_wide(a, b);
    if (kind == PROD)
        return multiply_wide(a, b);
    if (kind == MAX)
        return less_wide(a, b) ? b : a;
    return less_wide(b, a) ? b : a;
}

uvec2 map_value(uint map, uint t, uvec2 a)
{
    if (map == MAP_ABS)
        return int(a.y) < 0 ? negate_wide(a) : a;
    return map == MAP_SQUARE ? multiply_wide(a, a) : a;
}

/* Element i of binding `name` of type t. */
#define DEFINE_VALUE(name)                                                                 \
    uvec2 load_value_##name(uint t, uint i)                                                \
    {                                                                                      \
        if (t == I64)                                                                      \
            return uvec2(name[i * 2u], name[i * 2u + 1u]);                                 \
        int v = load_i_raw_##name(t, i);                                                   \
        return uvec2(uint(v), uint(v >> 31));                                              \
    }
#elif defined SCALED
/* The bits of a float split into those of a float in [1, 2) and an exponent; zero, infinity and NaN
 * are unchanged. */
uvec2 split_float(uint u)
{
    uint size = u & 0x7fffffffu, bias = 127u;
    if (size == 0u || size >= 0x7f800000u)
        return uvec2(u, 0u);
    if (size < 0x00800000u) { /* subnormal: its bits times 2^-149 */
        size = floatBitsToUint(float(size));
        bias = 127u + 149u;
    }
    return uvec2((u & 0x80000000u) | 0x3f800000u | (size & 0x7fffffu), (size >> 23) - bias);
}

float join_float(uvec2 v)
{
    int e = clamp(int(v.y), -252, 254), half_ = e >> 1; /* in two steps: it may over- or underflow
                                                         * */
    float up = uintBitsToFloat(uint(half_ + 127) << 23);
    return uintBitsToFloat(v.x) * up * uintBitsToFloat(uint(e - half_ + 127) << 23);
}

uvec2 join_values(uint kind, uint t, uvec2 a, uvec2 b)
{
    uvec2 c = split_float(floatBitsToUint(uintBitsToFloat(a.x) * uintBitsToFloat(b.x)));
    bool is_number = (c.x & 0x7f800000u) == 0x3f800000u;
    return uvec2(c.x, is_number ? a.y + b.y + c.y : 0u);
}

uvec2 map_value(uint map, uint t, uvec2 a) { return a; }

#define DEFINE_VALUE(name)                                                                 \
    uvec2 load_value_##name(uint t, uint i)                                                \
    {                                                                                      \
        if (t == I64)                                                                      \
            return uvec2(name[i * 2u], name[i * 2u + 1u]);                                 \
        return split_float(t == F32 ? name[i] : floatBitsToUint(load_f_##name(t, i)));     \
    }
#else
/* Unsigned integers in the order of values of type t. NaN wins: it is above all for MAX, below all
 * for MIN. */
uint value_order(uint kind, uint t, uint a)
{
    return is_float(t) ? float_key(a, kind == MAX ? 0xffffffffu : 0u) : a ^ 0x80000000u;
}

/* a comes before b; of equal ones a stays. */
uint join_values(uint kind, uint t, uint a, uint b)
{
    if (kind == SUM)
        return is_float(t) ? floatBitsToUint(uintBitsToFloat(a) + uintBitsToFloat(b)) : a + b;
    if (kind == PROD)
        return is_float(t) ? floatBitsToUint(uintBitsToFloat(a) * uintBitsToFloat(b)) : a * b;
    uint x = value_order(kind, t, a), y = value_order(kind, t, b);
    if (kind == MAX)
        return y > x ? b : a;
    return y < x ? b : a;
}

uint map_value(uint map, uint t, uint a)
{
    if (map == MAP_ABS)
        return is_float(t) ? a & 0x7fffffffu : uint(abs(int(a)));
    if (map == MAP_SQUARE)
        return is_float(t) ? floatBitsToUint(uintBitsToFloat(a) * uintBitsToFloat(a)) : a * a;
    return a;
}

#define DEFINE_VALUE(name)                                                                 \
    uint load_value_##name(uint t, uint i)                                                 \
    {                                                                                      \
        return t == F32 || t == I32 ? name[i]                                              \
               : is_float(t)        ? floatBitsToUint(load_f_##name(t, i))                 \
                                    : uint(load_i_raw_##name(t, i));                       \
    }
#endif

/* The bits of a value stored as type t of at most 32 bits; I32: the low word. */
uint encode_value(uint t, VALUE v)
{
#ifdef WIDE
    return encode_i(t, int(v.x));
#elif defined SCALED
    return t == I32 ? v.x : encode_f(t, join_float(v));
#else
    return is_float(t) ? encode_f(t, uintBitsToFloat(v)) : encode_i(t, int(v));
#endif
}

/* The high word of a value stored as i64. */
uint high_word(VALUE v)
{
#ifdef PAIR
    return v.y;
#else
    return uint(int(v) >> 31);
#endif
}

#endif
