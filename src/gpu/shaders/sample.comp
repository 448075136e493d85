/* SPDX-License-Identifier: MIT */
#version 450
/* One token from each row of logits [rows, V]: the procedure of cpu/ref/random.c, bit by bit. One
 * workgroup a row.
 *
 * The reference sorts the tokens (larger logit first, then smaller index) and walks along sums of
 * integer weights. Here a logit is a 32-bit key whose unsigned order is that of the numbers, and a
 * place in the list is found by its key: four rounds, one for each byte from the highest, sum the
 * counts or the weights of the tokens for each value of the byte among those that agree in the
 * bytes before; the sums from above then tell in which value the place lies. Tokens with one key
 * have one weight, so the rest is a division and a count by index.
 *
 * Cuts: top-k gives the key and the number of tokens with it that are kept. Min-p is a bound on
 * weights, which fall along the list. The sum at the end of top-p bounds the draw. What is behind
 * the cut of top-k is not looked at again: the tokens before it go to shared memory if they have
 * room there. */
#extension GL_EXT_control_flow_attributes : require
#include "common.glsl"
#include "philox.glsl"
#include "long.glsl"

layout(constant_id = 1) const uint TX = F32;
layout(constant_id = 2) const uint TSEED = 0;  /* 0: in the parameters */
layout(constant_id = 3) const uint PARAMS = 0; /* 1: temperature .. min_p come from a buffer */

TENSOR(0, x)
WORDS(1, seed);
WORDS(2, params);
WORDS(3, y);

layout(push_constant) uniform Push {
    uint rows, size, x_at, seed_low, seed_high, seed_at, params_at;
    uint temperature, top_k, top_p, min_p; /* f32 as bits, but top_k */
    uint first_row;
};

const uint ONE = 0x80000000u; /* the weight of the first token */
const uint MAX_LOCAL = 1024u;
const uint MAX_KEPT = 512u;

shared uint bin_low[256], bin_high[256];
shared uint lane_a[MAX_LOCAL], lane_b[MAX_LOCAL];
shared uint found[2]; /* a token; what there is to do */
shared uint kept_keys[MAX_KEPT], kept_tokens[MAX_KEPT], n_kept; /* in any order */

struct Sampler {
    uint temperature, top_k, top_p, min_p;
    uint rate;    /* log2(e) * 2^54 / mantissa of the temperature; 0: it is infinite */
    int rate_exp;
    uint first;   /* largest key */
    uint listed;  /* so many tokens are in kept_keys, no other can be drawn; 0: not listed */
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

/* Keys of tokens i, i + local size, ..; 0, which no number has, behind the last. All are on their
 * way together: one after the other, each would wait for the one before. Loops over them take the
 * first and move the others up: a place that is not a constant would put them into memory. */
const uint AT_ONCE = 8u;
uint take_key(inout uint keys[AT_ONCE])
{
    uint key = keys[0];
    [[unroll]] for (uint j = 0u; j + 1u < AT_ONCE; j++)
        keys[j] = keys[j + 1u];
    return key;
}

void load_keys(uint row, uint i, out uint keys[AT_ONCE])
{
    [[unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
        uint at = i + j * gl_WorkGroupSize.x, key = load_key(row, min(at, size - 1u));
        keys[j] = at < size ? key : 0u;
    }
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

uint weight_of(Sampler s, uint key)
{
    if (key == s.first)
        return ONE;
    uint below = floatBitsToUint(key_value(s.first) - key_value(key));
    uint exponent = (below >> 23) & 0xffu;
    if (exponent == 0xffu)
        return 0u;
    if (s.rate == 0u || exponent == 0u)
        return ONE;
    uint high, low;
    umulExtended((below & 0x7fffffu) | 0x800000u, s.rate, high, low);
    int shift = 30 - (int(exponent) - 127 - s.rate_exp);
    if (shift < 24)
        return 0u;
    uvec2 power = uvec2(low, high);
    if (shift > 63)
        power = uvec2(0u);
    else if (shift >= 32)
        power = uvec2(high >> uint(shift - 32), 0u);
    else
        power = long_shift(power, uint(shift));
    uint whole = power.x >> 24 | power.y << 8;
    if ((power.y >> 24) != 0u || whole > 31u)
        return 0u;
    return exp2_fraction(power.x << 8) >> whole;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

/* log2(e) * 2^54 / mantissa, rounded down, for a mantissa of 24 bits: long division. */
uint divide_rate(uint mantissa)
{
    const uint log2_e = 1549082005u; /* * 2^30 */
    uint rest = 0u, quotient = 0u;
    for (int i = 54; i >= 0; i--) {
        rest = rest << 1 | (i >= 24 ? (log2_e >> uint(i - 24)) & 1u : 0u);
        quotient <<= 1;
        if (rest >= mantissa) {
            rest -= mantissa;
            quotient |= 1u;
        }
    }
    return quotient;
}

Sampler make_sampler()
{
    Sampler s = Sampler(temperature, top_k, top_p, min_p, 0u, 0, 0u, 0u);
    if (PARAMS != 0u) {
        s.temperature = params[params_at];
        uint k = params[params_at + 1u]; /* whole part when from 1 to below 2^31, else 0 */
        s.top_k = k >= 0x3f800000u && k < 0x4f000000u ? uint(uintBitsToFloat(k)) : 0u;
        s.top_p = params[params_at + 2u];
        s.min_p = params[params_at + 3u];
    }
    if (s.temperature >= 0x00800000u && s.temperature < 0x7f800000u) {
        s.rate_exp = int(s.temperature >> 23) - 127;
        s.rate = divide_rate((s.temperature & 0x7fffffu) | 0x800000u);
    }
    return s;
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

/* floor(sum * x / 2^24) for x <= 2^24, or one more when there is a rest. */
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

/* ---- The workgroup --------------------------------------------------------------------------- */

/* Largest of (a, b) by a, the smaller b among equals, over all lanes. */
uvec2 reduce_first(uint a, uint b)
{
    lane_a[LANE] = a;
    lane_b[LANE] = b;
    barrier();
    for (uint step = MAX_LOCAL / 2u; step > 0u; step >>= 1) {
        uint other = LANE + step;
        if (LANE < step && other < gl_WorkGroupSize.x) {
            uint oa = lane_a[other], ob = lane_b[other];
            if (oa > lane_a[LANE] || (oa == lane_a[LANE] && ob < lane_b[LANE])) {
                lane_a[LANE] = oa;
                lane_b[LANE] = ob;
            }
        }
        barrier();
    }
    uvec2 r = uvec2(lane_a[0], lane_b[0]);
    barrier();
    return r;
}

void add_to_bin(uint bin, uvec2 sum)
{
    if (sum.x == 0u && sum.y == 0u)
        return;
    uint old = atomicAdd(bin_low[bin], sum.x);
    uint carry = old + sum.x < old ? 1u : 0u;
    if (sum.y + carry != 0u)
        atomicAdd(bin_high[bin], sum.y + carry);
}

/* A bin and what is still to be entered into it. */
struct Run {
    uint bin;
    uvec2 sum;
};

/* Adds 1 (counts) or the weight of a token whose key agrees with `prefix` above `shift + 8`.
 * Neighbours in one bin are added before they are entered. */
void add_token(Sampler s, uint key, uint prefix, uint shift, bool counts, inout Run run)
{
    uint above = shift + 8u, here = (key >> shift) & 0xffu;
    bool agrees = above == 32u || (key >> (above & 31u)) == (prefix >> (above & 31u));
    if (!agrees || key == 0u)
        return;
    if (here != run.bin) {
        add_to_bin(run.bin, run.sum);
        run = Run(here, uvec2(0u));
    }
    run.sum = long_add(run.sum, uvec2(counts ? 1u : weight_of(s, key), 0u));
}

/* The bins of the byte at `shift`, for the tokens of a row or those that are kept of it. */
void fill_bins(Sampler s, uint row, uint prefix, uint shift, bool counts)
{
    for (uint i = LANE; i < 256u; i += gl_WorkGroupSize.x) {
        bin_low[i] = 0u;
        bin_high[i] = 0u;
    }
    barrier();
    Run run = Run(0u, uvec2(0u));
    if (s.listed != 0u) {
        for (uint i = LANE; i < s.listed; i += gl_WorkGroupSize.x)
            add_token(s, kept_keys[i], prefix, shift, counts, run);
    } else {
        for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
            uint keys[AT_ONCE];
            load_keys(row, i, keys);
            [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++)
                add_token(s, take_key(keys), prefix, shift, counts, run);
        }
    }
    add_to_bin(run.bin, run.sum);
    barrier();
}

/* The place in the list where the sum from its start first reaches `goal` (at least 1, at most the
 * sum of all): its key, and what the sum is before the tokens with that key. */
struct Place {
    uint key;
    uvec2 before;
};

Place find_place(Sampler s, uint row, uvec2 goal, bool counts)
{
    Place p = Place(0u, uvec2(0u));
    for (uint round = 0u; round < 4u; round++) {
        uint shift = 24u - 8u * round;
        fill_bins(s, row, p.key, shift, counts);
        if (LANE < 16u) {
            uvec2 sum = uvec2(0u);
            for (uint k = LANE * 16u; k < LANE * 16u + 16u; k++)
                sum = long_add(sum, uvec2(bin_low[k], bin_high[k]));
            lane_a[LANE] = sum.x;
            lane_b[LANE] = sum.y;
        }
        barrier();
        uint sixteen = 15u, bin;
        for (; sixteen > 0u; sixteen--) {
            uvec2 with_all = long_add(p.before, uvec2(lane_a[sixteen], lane_b[sixteen]));
            if (!long_less(with_all, goal))
                break;
            p.before = with_all;
        }
        for (bin = sixteen * 16u + 15u; bin > sixteen * 16u; bin--) {
            uvec2 with_bin = long_add(p.before, uvec2(bin_low[bin], bin_high[bin]));
            if (!long_less(with_bin, goal))
                break;
            p.before = with_bin;
        }
        p.key |= bin << shift;
        barrier();
    }
    return p;
}

/* The smallest count with count * weight >= rest, for counts up to 2^31. */
uint divide_up(uvec2 rest, uint weight)
{
    uint low = 0u, high = 0x80000000u;
    while (low < high) {
        uint middle = low + (high - low) / 2u;
        if (long_less(long_mul(uvec2(middle, 0u), uvec2(weight, 0u)), rest))
            low = middle + 1u;
        else
            high = middle;
    }
    return low;
}

/* Lists the tokens of a row with this key or a larger one and returns their number; 0: too many. */
uint keep_tokens(uint row, uint key)
{
    if (LANE == 0u)
        n_kept = 0u;
    barrier();
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++) {
            uint here = take_key(keys);
            if (here < key)
                continue;
            uint at = atomicAdd(n_kept, 1u);
            if (at < MAX_KEPT) {
                kept_keys[at] = here;
                kept_tokens[at] = i + j * gl_WorkGroupSize.x;
            }
        }
    }
    barrier();
    uint n = n_kept;
    barrier();
    return n <= MAX_KEPT ? n : 0u;
}

/* Index of the token that is number `rank` (from 1) among those with this key. */
void find_kept(uint n, uint key, uint rank)
{
    for (uint i = LANE; i < n; i += gl_WorkGroupSize.x) {
        uint before = 0u;
        for (uint k = 0u; k < n; k++)
            before += kept_keys[k] == key && kept_tokens[k] < kept_tokens[i] ? 1u : 0u;
        if (kept_keys[i] == key && before + 1u == rank)
            found[0] = kept_tokens[i];
    }
}

/* The same in a row; lane l looks at its l-th part. Barriers stand outside of the choice between
 * both: WGSL would not see that it is the same for all lanes. */
uint find_token(Sampler s, uint row, uint key, uint rank)
{
    uint part = (size + gl_WorkGroupSize.x - 1u) / gl_WorkGroupSize.x, count = 0u;
    uint from = min(LANE * part, size), to = s.listed != 0u ? from : min(from + part, size);
    for (uint i = from; i < to; i++)
        count += load_key(row, i) == key ? 1u : 0u;
    lane_a[LANE] = count;
    barrier();
    const uint some = gl_WorkGroupSize.x / 32u; /* lanes: a multiple of 32 */
    if (LANE < 32u) {
        uint sum = 0u;
        for (uint l = LANE * some; l < LANE * some + some; l++)
            sum += lane_a[l];
        lane_b[LANE] = sum;
    }
    barrier();
    find_kept(s.listed, key, rank);
    uint before = 0u;
    for (uint l = 0u; l < LANE / some; l++)
        before += lane_b[l];
    for (uint l = LANE / some * some; l < LANE; l++)
        before += lane_a[l];
    if (before < rank && before + count >= rank) {
        for (uint i = from; i < to; i++) {
            before += load_key(row, i) == key ? 1u : 0u;
            if (before == rank) {
                found[0] = i;
                break;
            }
        }
    }
    barrier();
    uint token = found[0];
    barrier();
    return token;
}

/* The weight of a token above the cut, as far as it is at least `least`. */
uint kept_weight(Sampler s, uint key, uint cut, uint least)
{
    uint w = key > cut ? weight_of(s, key) : 0u;
    return w >= least ? w : 0u;
}

/* Sum of the weights of the tokens above `key`, and of `equal` ones that have it, as far as they
 * are at least `least`. */
uvec2 sum_kept(Sampler s, uint row, uint key, uint equal, uint least)
{
    bin_low[LANE & 255u] = 0u; /* same value by all: bin 0 is the sum */
    bin_high[LANE & 255u] = 0u;
    barrier();
    uvec2 sum = uvec2(0u);
    if (s.listed != 0u) {
        for (uint i = LANE; i < s.listed; i += gl_WorkGroupSize.x)
            sum = long_add(sum, uvec2(kept_weight(s, kept_keys[i], key, least), 0u));
    } else {
        for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
            uint keys[AT_ONCE];
            load_keys(row, i, keys);
            [[dont_unroll]] for (uint j = 0u; j < AT_ONCE; j++)
                sum = long_add(sum, uvec2(kept_weight(s, take_key(keys), key, least), 0u));
        }
    }
    add_to_bin(0u, sum);
    barrier();
    uvec2 r = uvec2(bin_low[0], bin_high[0]);
    barrier();
    uint w = weight_of(s, key);
    return w >= least ? long_add(r, long_mul(uvec2(w, 0u), uvec2(equal, 0u))) : r;
}

/* The token of a row when more than the first may be it. */
uint draw(Sampler s, uint row, uvec2 seed_words, uint steps)
{
    uint key = 0u, equal = 0u, least = 0u;
    if ((steps & 1u) != 0u) {
        Place p = find_place(s, row, uvec2(s.top_k, 0u), true);
        key = p.key;
        equal = s.top_k - p.before.x;
        s.listed = keep_tokens(row, key);
    }
    if (s.min_p > 0u && s.min_p <= 0x3f800000u)
        least = scale_fraction(s.min_p, 8);
    uvec2 sum = sum_kept(s, row, key, equal, least);
    if ((steps & 2u) != 0u) {
        uvec2 need = scale_sum_up(sum, scale_fraction(s.top_p, 1));
        Place p = find_place(s, row, need, false);
        uint w = weight_of(s, p.key);
        uint count = divide_up(long_sub(need, p.before), w);
        sum = long_add(p.before, long_mul(uvec2(count, 0u), uvec2(w, 0u)));
    }
    uvec2 mark = scale_sum_word(sum, philox_block(seed_words, first_row + row).x);
    uvec2 goal = long_add(mark, uvec2(1u, 0u));
    Place p = find_place(s, row, goal, false);
    uint rank = divide_up(long_sub(goal, p.before), weight_of(s, p.key));
    return find_token(s, row, p.key, rank);
}

uvec2 load_seed()
{
    if (TSEED == 0u)
        return uvec2(seed_low, seed_high);
    if (TSEED == I64)
        return uvec2(seed[2u * seed_at], seed[2u * seed_at + 1u]);
    uint low = seed[seed_at];
    return uvec2(low, (low >> 31) != 0u ? 0xffffffffu : 0u);
}

void main()
{
    uint row = GROUP_INDEX;
    if (row >= rows) /* the same for the whole workgroup */
        return;
    Sampler s = make_sampler();
    uint best = 0u, best_at = 0xffffffffu;
    for (uint i = LANE; i < size; i += AT_ONCE * gl_WorkGroupSize.x) {
        uint keys[AT_ONCE];
        load_keys(row, i, keys);
        [[unroll]] for (uint j = 0u; j < AT_ONCE; j++)
            if (keys[j] > best) {
                best = keys[j];
                best_at = i + j * gl_WorkGroupSize.x;
            }
    }
    uvec2 first = reduce_first(best, best_at);
    s.first = first.x;
    /* What there is to do, from shared memory, so that it is known to be the same for all lanes:
     * 4 draw, 1 cut by top_k, 2 cut by top_p. */
    if (LANE == 0u) {
        bool greedy = s.temperature < 0x00800000u || s.temperature > 0x7f800000u ||
                      (s.min_p > 0x3f800000u && s.min_p <= 0x7f800000u);
        bool has_p = s.top_p > 0u && s.top_p < 0x3f800000u;
        bool has_k = s.top_k >= 1u && s.top_k < size;
        found[1] = greedy ? 0u : 4u + (has_k ? 1u : 0u) + (has_p ? 2u : 0u);
    }
    barrier();
    uint steps = found[1];
    barrier();
    uint token = first.y;
    if (steps != 0u)
        token = draw(s, row, load_seed(), steps);
    if (LANE == 0u)
        y[row] = token;
}
