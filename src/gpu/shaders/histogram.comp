/* SPDX-License-Identifier: MIT */
#version 450
/* Adds to the counts y i64 [bins] the elements of x [n] in each bin: edge(b) <= v < edge(b + 1),
 * the last one closed above, where edge(b) = lo + b * width in double precision, edge(bins) = hi.
 * y starts as zero. Workgroups share the elements; up to SHARED bins are counted in shared memory
 * first (0: none are). */
#include "common.glsl"
#include "histogram.def"
#include "double.glsl"

TENSOR(x)
WORDS(y);

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

const uint NONE = 0xffffffffu;

/* Compares with the edges where the estimate is near one of them. */
uint find_exact(uint i, uint bin)
{
    uvec2 v = load_double(i);
    if (double_less(v, uvec2(lo_low, lo_high)) || double_less(uvec2(hi_low, hi_high), v))
        return NONE;
    while (bin > 0u && double_less(v, find_edge(bin)))
        bin--;
    while (bin < bins - 1u && !double_less(v, find_edge(bin + 1u)))
        bin++;
    return bin;
}

uint find_bin(uint i)
{
    float v = load_f_x(TX, i);
    if (TX == I64) {
        int high = int(x[i * 2u + 1u]);
        if (high != int(x[i * 2u]) >> 31) /* else v is right */
            v = float(high) * 4294967296.0 + float(x[i * 2u]);
    }
    float at = (v - lo) * per_unit, rest = fract(at);
    float doubt = error + (abs(v) * per_unit + abs(at)) * 1e-6;
    bool is_clear = rest > doubt && rest < 1.0 - doubt; /* false for NaN and infinity */
    if (is_clear && (at < 0.0 || at > float(bins)))
        return NONE;
    uint bin = uint(clamp(at, 0.0, float(bins - 1u)));
    return is_clear ? bin : find_exact(i, min(bin, bins - 1u));
}

void main()
{
    for (uint i = LANE; i < SHARED; i += gl_WorkGroupSize.x)
        counts[i] = 0u;
    barrier();
    uint first = GROUP_INDEX < groups ? GLOBAL_INDEX : n;
    for (uint i = first; i < n; i += groups * gl_WorkGroupSize.x) {
        uint bin = find_bin(x_at + i);
        if (bin == NONE)
            continue;
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
