/* SPDX-License-Identifier: MIT */
/* The subset of IEEE double precision that edges and ranges need, in integers, so that they equal
 * the reference to the last bit on devices without doubles. A double is its bits, (low, high); wide
 * integers are three words, low to high. Results round to nearest even. Subnormals, infinities and
 * NaN count as zero. */
#ifndef DOUBLE_GLSL
#define DOUBLE_GLSL

uvec3 shift_up(uvec3 v, uint s)
{
    for (; s >= 32u; s -= 32u)
        v = uvec3(0u, v.x, v.y);
    if (s == 0u)
        return v;
    return uvec3(v.x << s, v.y << s | v.x >> (32u - s), v.z << s | v.y >> (32u - s));
}

uvec3 shift_down(uvec3 v, uint s)
{
    for (; s >= 32u; s -= 32u)
        v = uvec3(v.y, v.z, 0u);
    if (s == 0u)
        return v;
    return uvec3(v.x >> s | v.y << (32u - s), v.y >> s | v.z << (32u - s), v.z >> s);
}

uvec3 add_words(uvec3 a, uvec3 b)
{
    uint c0, c1, c2;
    uint x = uaddCarry(a.x, b.x, c0);
    uint y = uaddCarry(a.y, b.y, c1);
    y = uaddCarry(y, c0, c2);
    return uvec3(x, y, a.z + b.z + c1 + c2);
}

bool words_less(uvec3 a, uvec3 b)
{
    return a.z != b.z ? a.z < b.z : a.y != b.y ? a.y < b.y : a.x < b.x;
}

uint count_bits(uvec3 v)
{
    return v.z != 0u   ? 65u + uint(findMSB(v.z))
           : v.y != 0u ? 33u + uint(findMSB(v.y))
           : v.x != 0u ? 1u + uint(findMSB(v.x))
                       : 0u;
}

/* v / 2^s, rounded; 0 < s <= 96. */
uvec3 round_down(uvec3 v, uint s)
{
    uvec3 q = shift_down(v, s);
    bool half_ = (shift_down(v, s - 1u).x & 1u) != 0u;
    bool rest = s > 1u && shift_up(v, 97u - s) != uvec3(0u);
    return half_ && (rest || (q.x & 1u) != 0u) ? add_words(q, uvec3(1u, 0u, 0u)) : q;
}

/* (-1)^minus * v * 2^exponent as a double. */
uvec2 make_double(bool minus, uvec3 v, int exponent)
{
    uint n = count_bits(v), sign = minus ? 0x80000000u : 0u;
    if (n == 0u)
        return uvec2(0u, sign);
    uvec3 m = n <= 53u ? shift_up(v, 53u - n) : round_down(v, n - 53u);
    uint e = uint(exponent + int(n) - 53 + 52 + 1023);
    return uvec2(m.x, sign | ((e << 20) + m.y - (1u << 20)));
}

bool double_sign(uvec2 d) { return (d.y & 0x80000000u) != 0u; }
int double_exponent(uvec2 d) { return int(d.y >> 20 & 0x7ffu) - 1075; }
uvec3 double_mantissa(uvec2 d)
{
    return (d.y & 0x7ff00000u) == 0u ? uvec3(0u)
                                     : uvec3(d.x, (d.y & 0xfffffu) | 0x100000u, 0u);
}

uvec2 double_times(uvec2 d, uint k)
{
    uvec3 m = double_mantissa(d);
    uint h0, l0, h1, l1;
    umulExtended(m.x, k, h0, l0);
    umulExtended(m.y, k, h1, l1);
    uvec3 v = add_words(uvec3(l0, h0, 0u), uvec3(0u, l1, h1));
    return make_double(double_sign(d), v, double_exponent(d));
}

/* Both are aligned to 41 bits below the last bit of the one with the larger exponent; bits shifted
 * out are or-ed into the last one (sticky bit). */
uvec2 double_add(uvec2 a, uvec2 b)
{
    if (double_exponent(a) < double_exponent(b)) {
        uvec2 t = a;
        a = b;
        b = t;
    }
    int exponent = double_exponent(a) - 41;
    uvec3 x = shift_up(double_mantissa(a), 41u), y = shift_up(double_mantissa(b), 41u);
    uint s = uint(min(double_exponent(a) - double_exponent(b), 96));
    uvec3 lost = s > 0u ? shift_up(y, 96u - s) : uvec3(0u);
    y = shift_down(y, s);
    y.x |= lost != uvec3(0u) ? 1u : 0u;
    bool minus = double_sign(a);
    if (minus == double_sign(b))
        return make_double(minus, add_words(x, y), exponent);
    if (words_less(x, y)) {
        uvec3 t = x;
        x = y;
        y = t;
        minus = !minus;
    }
    uvec3 d = add_words(x, add_words(~y, uvec3(1u, 0u, 0u)));
    return make_double(minus && d != uvec3(0u), d, exponent);
}

bool double_less(uvec2 a, uvec2 b)
{
    bool zero_a = a.x == 0u && (a.y << 1) == 0u, zero_b = b.x == 0u && (b.y << 1) == 0u;
    if (zero_a && zero_b)
        return false;
    if (double_sign(a) != double_sign(b))
        return double_sign(a);
    bool less = a.y != b.y ? a.y < b.y : a.x < b.x;
    return double_sign(a) ? !less && a != b : less;
}

/* The bits of a float (not NaN) as a double. */
uvec2 double_of_float(uint u)
{
    uint e = u >> 23 & 0xffu, m = u & 0x7fffffu;
    bool minus = (u & 0x80000000u) != 0u;
    if (e == 255u)
        return uvec2(0u, (minus ? 0x80000000u : 0u) | 0x7ff00000u);
    return make_double(minus, uvec3(e == 0u ? m : m | 0x800000u, 0u, 0u), int(max(e, 1u)) - 150);
}

/* A double rounded to a float of `fraction` bits whose exponent has this bias: its bits. */
uint encode_double(uvec2 d, uint fraction, int bias)
{
    uint sign = double_sign(d) ? 1u : 0u;
    uvec3 m = double_mantissa(d);
    uint width = fraction == 23u ? 31u : 15u;
    if (m == uvec3(0u))
        return sign << width;
    int e = double_exponent(d) + 52;
    bool tiny = e < 1 - bias;
    uint s = 52u - fraction + uint(tiny ? min(1 - bias - e, 40) : 0);
    uint q = round_down(m, s).x;
    uint top = uint(2 * bias + 1) << fraction; /* infinity */
    uint r = tiny ? q : e > bias ? top : (uint(e + bias) << fraction) + q - (1u << fraction);
    return sign << width | min(r, top);
}

uint encode_double_as(uint t, uvec2 d)
{
    return t == F16    ? encode_double(d, 10u, 15)
           : t == BF16 ? encode_double(d, 7u, 127)
                       : encode_double(d, 23u, 127);
}

#endif
