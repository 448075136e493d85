/* SPDX-License-Identifier: MIT */
#version 450
/* Adds to the counts y i64 [bins] the elements of x [n] in each bin: edge(b) <= v < edge(b + 1),
 * the last one closed above, where edge(b) = lo + b * width in double precision, edge(bins) = hi.
 * y starts as zero. Workgroups share the elements; up to SHARED bins are counted in shared memory
 * first (0: none are). */
#include "common.glsl"
#include "double.glsl"

layout(constant_id = 1) const uint TX = 1;
layout(constant_id = 2) const uint SHARED = 0;

layout(push_constant) uniform Params {
    uint n, bins, groups, x_at, y_at;
    uint lo_low, lo_high, hi_low, hi_high, width_low, width_high;
    float lo, per_unit; /* for a first guess: bins for each unit of x */
};

TENSOR(0, x)
WORDS(1, y);

shared uint counts[SHARED + 1u];

/* lo + bin * width; the last edge is hi. */
uvec2 find_edge(uint bin)
{
    if (bin == bins)
        return uvec2(hi_low, hi_high);
    return double_add(uvec2(lo_low, lo_high), double_times(uvec2(width_low, width_high), bin));
}

/* Element i as a double; NaN gives a value outside. */
uvec2 load_double(uint i)
{
    if (TX == F32 || TX == F16 || TX == BF16) {
        uint u = floatBitsToUint(load_f_x(TX, i));
        if ((u & 0x7fffffffu) > 0x7f800000u)
            return uvec2(0u, 0x7ff80000u);
        return double_of_float(u);
    }
    int v = load_i_raw_x(TX, i);
    uvec3 m = uvec3(uint(v), uint(v >> 31), 0u);
    if (TX == I64)
        m.y = x[i * 2u + 1u];
    bool minus = int(m.y) < 0;
    if (minus) {
        m = add_words(~m, uvec3(1u, 0u, 0u));
        m.z = 0u;
    }
    return make_double(minus, m, 0);
}

uint find_bin(uvec2 v, float guess)
{
    uint bin = uint(clamp((guess - lo) * per_unit, 0.0, float(bins - 1u)));
    bin = min(bin, bins - 1u);
    while (bin > 0u && double_less(v, find_edge(bin)))
        bin--;
    while (bin < bins - 1u && !double_less(v, find_edge(bin + 1u)))
        bin++;
    return bin;
}

void main()
{
    for (uint i = LANE; i < SHARED; i += gl_WorkGroupSize.x)
        counts[i] = 0u;
    barrier();
    uint first = GROUP_INDEX < groups ? GLOBAL_INDEX : n;
    for (uint i = first; i < n; i += groups * gl_WorkGroupSize.x) {
        uvec2 v = load_double(x_at + i);
        if (double_less(v, uvec2(lo_low, lo_high)) || double_less(uvec2(hi_low, hi_high), v))
            continue;
        float guess = load_f_x(TX, x_at + i);
        if (TX == I64)
            guess = float(int(x[(x_at + i) * 2u + 1u])) * 4294967296.0 +
                    float(x[(x_at + i) * 2u]);
        uint bin = find_bin(v, guess);
        if (SHARED > 0u)
            atomicAdd(counts[bin], 1u);
        else
            atomicAdd(y[(y_at + bin) * 2u], 1u);
    }
    barrier();
    for (uint i = LANE; i < SHARED; i += gl_WorkGroupSize.x)
        if (counts[i] > 0u)
            atomicAdd(y[(y_at + i) * 2u], counts[i]);
}
