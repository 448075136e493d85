/* SPDX-License-Identifier: MIT */
/* What the kernels of attention share: parameters, which keys a query sees, and its logits.
 *
 *   y[i] = sum_j 2^(s[i,j] - max) v[j] / (sum_j 2^(s[i,j] - max) + 2^(sink - max))
 *   s[i,j] = log2(e) * (cap(scale * q[i] . k[j]) + mask[i,j]) over the keys j that query i sees
 *
 * The queries of the GROUP heads that share a head of k and v are the rows of one matrix: row
 * i * GROUP + h of K/V head g is query i of head g * GROUP + h. A row that sees no key gives zeros.
 *
 * A hidden key takes no part, whatever k and v hold there. Its logit is MASKED; a running maximum
 * starts at NOTHING, which is above, and no bias is below -3e38, which is above both. So its
 * weight is 0, and a row whose weights sum to 0 saw no key. Since 0 times an infinite value is NaN,
 * kernels keep hidden keys from the sums where a value is not finite. */
#ifndef ATTENTION_GLSL
#define ATTENTION_GLSL

#include "attention_options.def"
#include "flags.def"
const bool CAUSAL = (OPTIONS & ATTN_CAUSAL) != 0u;
const bool WINDOW = (OPTIONS & ATTN_WINDOW) != 0u;
const bool CAP = (OPTIONS & ATTN_CAP) != 0u;
const bool SINKS = (OPTIONS & ATTN_SINKS) != 0u;
const bool PARTIAL = (OPTIONS & ATTN_PARTIAL) != 0u;
const bool LENGTHS = (OPTIONS & ATTN_LENGTHS) != 0u;
const bool LENGTHS_WIDE = (OPTIONS & ATTN_LENGTHS_WIDE) != 0u;
const bool LENGTHS_EACH = (OPTIONS & ATTN_LENGTHS_EACH) != 0u;
const bool SINGLE = (OPTIONS & ATTN_SINGLE) != 0u;

TENSOR(mask)
WORDS(lengths);
WORDS(other); /* sinks, or the table of pages [batch, n_keys / PAGE] */
WORDS(flags);
#ifdef OUT4
WORDS4(o);
#else
WORDS(o);     /* the result, or partial sums: f32 [row][split][DV sums, maximum, sum] */
#endif

const float LOG2_E = 1.44269504088896341;
const float MASKED = -3.4e38, NOTHING = -3.2e38;

/* The number of keys of a batch. `report`: whether this invocation sets the flag. */
uint length_of(uint batch, bool report)
{
    if (!LENGTHS)
        return n_keys;
    uint i = lengths_at + (LENGTHS_EACH ? batch : 0u);
    int n = int(lengths[LENGTHS_WIDE ? i * 2u : i]);
    int high = LENGTHS_WIDE ? int(lengths[i * 2u + 1u]) : n >> 31;
    if (high == 0 && n >= 0 && uint(n) <= n_keys)
        return uint(n);
    if (report)
        atomicOr(flags[0], FLAG_CLAMPED);
    return high < 0 ? 0u : n_keys;
}

uint count_queries() { return SINGLE ? 1u : n_queries; }

/* The keys x <= j < y of n that query i may see. */
ivec2 key_range(uint i, uint n)
{
    int p = int(i) + int(n) - int(count_queries());
    int end = CAUSAL ? clamp(p + 1, 0, int(n)) : int(n);
    return ivec2(WINDOW ? max(p - window + 1, 0) : 0, end);
}

/* The batch (or page) of key j, and its row in it. */
uvec2 key_place(uint batch, uint j)
{
    if (PAGE == 0u)
        return uvec2(batch, j);
    int n = int(n_pages);
    int page = int(other[other_at + batch * (n_keys / max(PAGE, 1u)) + j / max(PAGE, 1u)]);
    if (page < -n || page >= n)
        atomicOr(flags[0], FLAG_CLAMPED);
    page = page < 0 ? page + n : page;
    return uvec2(clamp(page, 0, n - 1), j % max(PAGE, 1u));
}

#include "finite.glsl"

bool all_finite(vec4 x)
{
    return is_finite(x.x) && is_finite(x.y) && is_finite(x.z) && is_finite(x.w);
}

float exp2_or_nan(float x) { return is_nan(x) ? x : exp2(x); }

/* tanh, accurate near 0 and finite for any argument. */
float soft_tanh(float x)
{
    float a = abs(x), x2 = x * x;
    if (a < 0.125)
        return x * (1.0 + x2 * (-1.0 / 3.0 + x2 * (2.0 / 15.0 - x2 * (17.0 / 315.0))));
    float t = exp2_or_nan(-2.0 * LOG2_E * a), y = (1.0 - t) / (1.0 + t);
    return x < 0.0 ? -y : y;
}

/* The bias of a mask element that is not -infinity. From |x| = 1.9e38 on it is compressed, so that
 * it stays finite and above -3e38: weights cannot tell logits that far apart. */
float bias_of(float x)
{
    float a = abs(x), b = a > 1.9e38 ? 2.7411e38 + (a - 1.9e38) * 0.17 : a * LOG2_E;
    return x < 0.0 ? -b : b;
}

/* The logit of a key within the range of the query, from their product; at: of the mask. The scaled
 * product is rounded before the maximum is subtracted, never fused: the greatest logit minus itself
 * is 0. */
float logit(float product, uint at)
{
    precise float s = product * scale;
    if (CAP)
        s = cap * soft_tanh(s);
    if (TM == 0u)
        return s;
    if (TM == BOOL)
        return load_i_raw_mask(BOOL, at) != 0 ? s : MASKED;
    float x = load_f_mask(TM, at);
    if (floatBitsToUint(x) == 0xff800000u)
        return MASKED;
    return s + bias_of(x);
}

#include "online.glsl"

/* The weight of a key: 0 exactly where it is hidden or its logit is -infinity. */
float weight_of(float s, float most)
{
    float d = s - most;
    if (is_nan(d))
        return d;
    return s <= NOTHING ? 0.0 : exp2(max(d, -125.0));
}

/* The normalisation of a row with this maximum and sum of weights. */
float row_factor(float top, float total, uint head)
{
    if (total == 0.0)
        return 0.0;
    if (!SINKS)
        return 1.0 / total;
    float sink = uintBitsToFloat(other[other_at + head]) * LOG2_E;
    float most = max(top, sink), mine = keep_factor(top, most);
    return mine / (total * mine + exp2_or_nan(sink - most));
}

/* Four elements of a 16-bit type. */
vec4 unpack4(uint t, uvec2 w)
{
    if (t == F16)
        return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xffff0000u, w.y << 16, w.y & 0xffff0000u));
}

#endif
