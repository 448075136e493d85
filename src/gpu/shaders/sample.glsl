/* SPDX-License-Identifier: MIT */
/* What kernels of sample share: what is asked for, keys and weights of tokens. cpu/ref/sample.c is
 * the definition; all of it is arithmetic with integers, so that each device gives the same tokens.
 *
 * A logit is a 32-bit key whose unsigned order is that of the numbers; 0 is the key of none. With
 * SLICES a row is cut into slices, one a workgroup: see sample_slice.comp. */
#include "sample_room.def"
#include "philox.glsl"
#include "long.glsl"

TENSOR(x)
WORDS(seed);
WORDS(params);

#ifdef SLICES
#include "chain.glsl"
#endif

const uint ONE = 0x80000000u; /* the weight of the first token */

struct Sampler {
    uint temperature, top_k, top_p, min_p;
    uint rate;    /* log2(e) * 2^54 / mantissa of the temperature; 0: it is infinite */
    int rate_exp;
    uint first;   /* largest key */
};

/* ---- Keys and weights ------------------------------------------------------------------------ */

/* NaN counts as -infinity, -0 as 0. */
uint key_of(float v)
{
    uint u = floatBitsToUint(v);
    if ((u & 0x7fffffffu) > 0x7f800000u)
        u = 0xff800000u;
    if (u == 0x80000000u)
        u = 0u;
    return (u >> 31) != 0u ? ~u : u | 0x80000000u;
}

float key_value(uint key)
{
    return uintBitsToFloat((key >> 31) != 0u ? key & 0x7fffffffu : ~key);
}

uint load_key(uint row, uint i) { return key_of(load_f_x(TX, x_at + row * size + i)); }

/* Keys of tokens i, i + local size, ..; 0 past the end. All loads are in flight at once, instead of
 * each waiting for the one before. */
void load_keys(uint row, uint i, out uint keys[AT_ONCE])
{
    [[unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
        uint at = i + j * gl_WorkGroupSize.x, key = load_key(row, min(at, size - 1u));
        keys[j] = at < size ? key : 0u;
    }
}

/* For loops with long bodies, which are not unrolled: takes the first key and shifts the others,
 * since a dynamic index would put the array into memory. */
uint take_key(inout uint keys[AT_ONCE])
{
    uint key = keys[0];
    keys[0] = keys[1]; /* no loop: some drivers would not unroll it */
    keys[1] = keys[2];
    keys[2] = keys[3];
    keys[3] = keys[4];
    keys[4] = keys[5];
    keys[5] = keys[6];
    keys[6] = keys[7];
    return key;
}

uint mul_high(uint a, uint b)
{
    uint high, low;
    umulExtended(a, b, high, low);
    return high;
}

/* 2^31 * 2^-(fraction / 2^32) */
uint exp2_fraction(uint fraction)
{
    uint sum = 30u;
    sum = 437u - mul_high(fraction, sum);
    sum = 5676u - mul_high(fraction, sum);
    sum = 65510u - mul_high(fraction, sum);
    sum = 661577u - mul_high(fraction, sum);
    sum = 5726720u - mul_high(fraction, sum);
    sum = 41309550u - mul_high(fraction, sum);
    sum = 238388332u - mul_high(fraction, sum);
    sum = 1031764991u - mul_high(fraction, sum);
    sum = 2977044472u - mul_high(fraction, sum);
    return ONE - (mul_high(fraction, sum) >> 1);
}

/* The distance of a token from the first, in powers of two with 24 fraction bits, increasing along
 * the list. NO_WEIGHT from 32 on. */
const uint NO_WEIGHT = 0xffffffffu;
uint depth_of(Sampler s, uint key)
{
    if (key == s.first)
        return 0u;
    uint below = floatBitsToUint(key_value(s.first) - key_value(key));
    uint exponent = (below >> 23) & 0xffu;
    if (exponent == 0xffu)
        return NO_WEIGHT;
    if (s.rate == 0u || exponent == 0u)
        return 0u;
    uint high, low;
    umulExtended((below & 0x7fffffu) | 0x800000u, s.rate, high, low);
    int shift = 30 - (int(exponent) - 127 - s.rate_exp);
    if (shift < 24)
        return NO_WEIGHT;
    uvec2 power = uvec2(low, high);
    if (shift > 63)
        power = uvec2(0u);
    else if (shift >= 32)
        power = uvec2(high >> uint(shift - 32), 0u);
    else
        power = long_shift(power, uint(shift));
    return power.y != 0u || (power.x >> 29) != 0u ? NO_WEIGHT : power.x;
}

uint depth_weight(uint depth)
{
    return depth == NO_WEIGHT ? 0u : exp2_fraction(depth << 8) >> (depth >> 24);
}

uint weight_of(Sampler s, uint key) { return depth_weight(depth_of(s, key)); }

/* ---- Parameters ------------------------------------------------------------------------------ */

/* log2(e) * 2^54 / mantissa, rounded down, for a mantissa of 24 bits: long division by bytes. */
uint divide_rate(uint mantissa)
{
    const uint log2_e = 1549082005u; /* * 2^30 */
    uint quotient = log2_e / mantissa, rest = log2_e % mantissa;
    for (uint i = 0u; i < 3u; i++) {
        rest <<= 8;
        quotient = quotient << 8 | rest / mantissa;
        rest %= mantissa;
    }
    return quotient;
}

Sampler make_sampler(uint row)
{
    Sampler s = Sampler(temperature, top_k, top_p, min_p, 0u, 0, 0u);
    if (PARAMS != 0u) {
        uint at = params_at + row * params_step;
        s.temperature = params[at];
        uint k = params[at + 1u]; /* whole part when from 1 to below 2^31, else 0 */
        s.top_k = k >= 0x3f800000u && k < 0x4f000000u ? uint(uintBitsToFloat(k)) : 0u;
        s.top_p = params[at + 2u];
        s.min_p = params[at + 3u];
    }
    if (s.temperature >= 0x00800000u && s.temperature < 0x7f800000u) {
        s.rate_exp = int(s.temperature >> 23) - 127;
        s.rate = divide_rate((s.temperature & 0x7fffffu) | 0x800000u);
    }
    return s;
}

/* The steps that a row needs; 0: the first token is the answer. */
const uint CUT_K = 1u, CUT_P = 2u, DRAW = 4u;
uint steps_of(Sampler s)
{
    bool greedy = s.temperature < 0x00800000u || s.temperature > 0x7f800000u ||
                  (s.min_p > 0x3f800000u && s.min_p <= 0x7f800000u);
    bool has_p = s.top_p > 0u && s.top_p < 0x3f800000u;
    bool has_k = s.top_k >= 1u && s.top_k < size;
    return greedy ? 0u : DRAW + (has_k ? CUT_K : 0u) + (has_p ? CUT_P : 0u);
}

/* ceil(v * 2^(23 + power)) of an f32 in (0, 1] given by its bits, power <= 8. */
uint scale_fraction(uint bits, int power)
{
    int e = int(bits >> 23) - 127 + power;
    uint mantissa = (bits & 0x7fffffu) | 0x800000u;
    if (e >= 0)
        return mantissa << uint(e);
    if ((bits >> 23) == 0u || e < -24)
        return 1u;
    uint down = uint(-e);
    return (mantissa + (1u << down) - 1u) >> down;
}

/* min-p drops tokens of a smaller weight. */
uint least_weight(Sampler s)
{
    return s.min_p > 0u && s.min_p <= 0x3f800000u ? scale_fraction(s.min_p, 8) : 0u;
}

/* ---- Sums ------------------------------------------------------------------------------------ */

/* floor(sum * x / 2^24) for x <= 2^24, plus one when there is a remainder. */
uvec2 scale_sum_up(uvec2 sum, uint x)
{
    uvec2 low = long_mul(uvec2(sum.x & 0xffffffu, 0u), uvec2(x, 0u));
    uvec2 r = long_add(long_mul(long_shift(sum, 24u), uvec2(x, 0u)), long_shift(low, 24u));
    return (low.x & 0xffffffu) != 0u ? long_add(r, uvec2(1u, 0u)) : r;
}

/* floor(sum * x / 2^32) */
uvec2 scale_sum_word(uvec2 sum, uint x)
{
    uint high, low;
    umulExtended(sum.x, x, high, low);
    return long_add(long_mul(uvec2(sum.y, 0u), uvec2(x, 0u)), uvec2(high, 0u));
}

/* top-p keeps the shortest prefix of the list whose sum reaches this. */
uvec2 sum_needed(Sampler s, uvec2 sum) { return scale_sum_up(sum, scale_fraction(s.top_p, 1)); }

uvec2 load_seed(uint row)
{
    uint at = seed_at + row * seed_step;
    if (TSEED == 0u)
        return uvec2(seed_low, seed_high);
    if (TSEED == I64)
        return uvec2(seed[2u * at], seed[2u * at + 1u]);
    uint low = seed[at];
    return uvec2(low, (low >> 31) != 0u ? 0xffffffffu : 0u);
}

/* The drawn token is the first at which the running sum reaches this, where the remaining tokens
 * have this sum. */
uvec2 draw_goal(uvec2 sum, uint row)
{
    uint chance = philox_block(load_seed(row), seed_step != 0u ? 0u : first_row + row).x;
    return long_add(scale_sum_word(sum, chance), uvec2(1u, 0u));
}
