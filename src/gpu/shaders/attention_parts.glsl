/* SPDX-License-Identifier: MIT */
/* Joins sums over parts of the keys: partial is f32 [row][part][DV sums, maximum, sum of weights].
 * The includer declares the binding `partial`. Parts are read BATCH at a time: a loop of single
 * loads would wait for each. */
#ifndef ATTENTION_PARTS_GLSL
#define ATTENTION_PARTS_GLSL

const uint BATCH = 8;

struct Joined {
    float top, total; /* the largest maximum; weights relative to it */
    vec2 sum;
};

/* Sums d0 and d1 of the row whose parts begin at `at`, `line` words each. */
Joined join_parts(uint at, uint line, uint n, uint d0, uint d1)
{
    Joined all = Joined(-1e20, 0.0, vec2(0.0));
    for (uint s = 0u; s < n; s += BATCH) {
        float tops[BATCH], totals[BATCH], most = all.top;
        vec2 sums[BATCH];
        [[unroll]] for (uint i = 0u; i < BATCH; i++) { /* past the end: the last once more */
            uint from = at + min(s + i, n - 1u) * line;
            tops[i] = uintBitsToFloat(partial[from + line - 2u]);
            totals[i] = uintBitsToFloat(partial[from + line - 1u]);
            sums[i] = uintBitsToFloat(uvec2(partial[from + d0], partial[from + d1]));
            most = max(most, tops[i]);
        }
        float keep = exp2(all.top - most);
        all.total *= keep;
        all.sum *= keep;
        [[unroll]] for (uint i = 0u; i < BATCH; i++) {
            float w = s + i < n ? exp2(tops[i] - most) : 0.0;
            all.total += w * totals[i];
            all.sum += w * sums[i];
        }
        all.top = most;
    }
    return all;
}

#endif
