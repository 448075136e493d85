/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
/* The results of an attention from the sums over parts of the keys:
 *   y = sum_s 2^(m[s] - M) y[s] / (sum_s 2^(m[s] - M) l[s] + 2^(sink - M)), M the largest of m
 * partial: f32 [K/V head of a batch][row][split][DV sums y, maximum m, sum l]; rows as in
 * attention.glsl. An invocation makes a word of the result, [B, H, S, DV] or [B, S, H, DV]. */
#include "common.glsl"
#include "attention_merge.def"
#include "finite.glsl"
#include "online.glsl"

WORDS(partial);
WORDS(sinks);
WORDS(o);

const float LOG2_E = 1.44269504088896341, NOTHING = -3.2e38; /* as in attention.glsl */
const uint BATCH = 8;

struct Joined {
    float top, total, sum; /* the greatest maximum; sums relative to it */
};

/* Sum d of the row whose splits begin at `at`, `line` words each, BATCH loads in flight at a time,
 * since a loop of single loads would wait for each. */
Joined join_parts(uint at, uint line, uint d)
{
    Joined all = Joined(NOTHING, 0.0, 0.0);
    for (uint s = 0u; s < n_splits; s += BATCH) {
        float tops[BATCH], totals[BATCH], sums[BATCH], most = all.top;
        [[unroll]] for (uint i = 0u; i < BATCH; i++) { /* clamped: repeats the last one */
            uint from = at + min(s + i, n_splits - 1u) * line;
            tops[i] = uintBitsToFloat(partial[from + line - 2u]);
            totals[i] = uintBitsToFloat(partial[from + line - 1u]);
            sums[i] = uintBitsToFloat(partial[from + d]);
            most = max(most, tops[i]);
        }
        float keep = keep_factor(all.top, most);
        all = Joined(most, all.total * keep, all.sum * keep);
        [[unroll]] for (uint i = 0u; i < BATCH; i++) {
            float w = keep_factor(tops[i], most);
            all.total += s + i < n_splits ? w * totals[i] : 0.0;
            all.sum += s + i < n_splits ? w * sums[i] : 0.0;
        }
    }
    return all;
}

/* Element e of the result. */
float merge(uint e)
{
    uint d = e % dv, row = e / dv;
    uint x = HEADS_LAST != 0u ? n_heads : n_queries, y = HEADS_LAST != 0u ? n_queries : n_heads;
    uint last = row % x, first = row / x % y, batch = row / x / y;
    uint head = HEADS_LAST != 0u ? last : first, query = HEADS_LAST != 0u ? first : last;
    uint part = (batch * n_heads + head / group * group) * n_queries + query * group + head % group;
    uint line = dv + 2u;

    Joined all = join_parts(part * n_splits * line, line, d);
    float top = all.top, total = all.total, sum = all.sum;
    if (total == 0.0)
        return 0.0;
    if (HAS_SINKS != 0u) {
        float sink = uintBitsToFloat(sinks[sinks_at + head]) * LOG2_E;
        float most = max(top, sink), keep = keep_factor(top, most);
        float more = sink - most; /* not all drivers propagate NaN */
        total = total * keep + (is_nan(more) ? more : exp2(more));
        sum *= keep;
    }
    return sum / total;
}

void main()
{
    uint per = per_word(T), e = GLOBAL_INDEX * per;
    if (e >= n)
        return;
    uint word = encode_f(T, merge(e));
    if (per == 2u && e + 1u < n)
        word |= encode_f(T, merge(e + 1u)) << 16;
    o[o_at / per + GLOBAL_INDEX] = word;
}
