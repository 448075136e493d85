/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#ifdef SG
#extension GL_KHR_shader_subgroup_arithmetic : require
#endif
/* Softmax and norms (rows.glsl) of dense rows (inner == 1) that fit into registers: one read, one
 * write. TEAM invocations share a row, a workgroup has THREADS / TEAM rows. An invocation holds
 * ITEMS loads of a word, with V4 of 16 bytes; n is a multiple of the elements of a load.
 *
 * Values are joined in shared memory; with SG by subgroup operations first, and TEAM == THREADS. */
#include "common.glsl"
#include "rows.def"
#include "rows.glsl"

#ifdef V4
#define VEC 4u
#define LOAD uvec4
WORDS4(x);
WORDS4(residual);
WORDS4(y);
WORDS4(sum);
WORDS4(gamma);
WORDS4(beta);
#else
#define VEC 1u
#define LOAD uint
WORDS(x);
WORDS(residual);
WORDS(y);
WORDS(sum);
WORDS(gamma);
WORDS(beta);
#endif

const uint EACH = TX == F32 ? 1u : 2u; /* elements of a word */
const uint PER = VEC * EACH;           /* of a load */

float values[ITEMS * PER];
shared float lanes[THREADS];

uint word_of(LOAD w, uint k)
{
#ifdef V4
    return w[k];
#else
    return w;
#endif
}

/* Elements of type t in a load. */
uint load_size(uint t) { return t == F32 ? VEC : VEC * 2u; }

/* Element j of a load of type t. */
float element_of(uint t, LOAD w, uint j)
{
    uint u = word_of(w, t == F32 ? j : j / 2u);
    if (t == F32)
        return uintBitsToFloat(u);
    if (t == F16) {
        vec2 h = unpackHalf2x16(u);
        return (j & 1u) == 0u ? h.x : h.y;
    }
    return bf16_to_f32((j & 1u) == 0u ? u & 0xffffu : u >> 16);
}

/* gamma (or beta) for the PER elements of a row from element `first` on; it begins at `at`. */
#define DEFINE_WEIGHTS(name)                                                               \
    void load_weights_##name(uint t, uint at, uint stride, uint first, out float w[PER])   \
    {                                                                                      \
        uint size = load_size(t);                                                          \
        if (DENSE != 0u && size <= PER) {                                                  \
            [[unroll]] for (uint q = 0u; q < PER / size; q++) {                            \
                LOAD u = name[(at + first) / size + q];                                    \
                [[unroll]] for (uint j = 0u; j < size; j++)                                \
                    w[q * size + j] = element_of(t, u, j);                                 \
            }                                                                              \
            return;                                                                        \
        }                                                                                  \
        [[unroll]] for (uint j = 0u; j < PER; j++) {                                       \
            uint i = at + (first + j) / w_div * stride;                                    \
            w[j] = element_of(t, name[i / size], i % size);                                \
        }                                                                                  \
    }
DEFINE_WEIGHTS(gamma)
DEFINE_WEIGHTS(beta)

LOAD pack_load(float v[PER])
{
    uint w[VEC];
    [[unroll]] for (uint k = 0u; k < VEC; k++)
        w[k] = TX == F32   ? floatBitsToUint(v[k * EACH])
               : TX == F16 ? pack_halves(v[k * EACH], v[k * EACH + EACH - 1u])
                           : f32_to_bf16(v[k * EACH]) |
                                 f32_to_bf16(v[k * EACH + EACH - 1u]) << 16;
#ifdef V4
    return uvec4(w[0], w[1], w[2], w[3]);
#else
    return w[0];
#endif
}

float join_two(float a, float b, bool largest) { return largest ? (b > a ? b : a) : a + b; }

/* Joins the values of a row over its invocations: the maximum, or the sum. */
float join_lanes(float v, bool largest)
{
#ifdef SG
    v = largest ? subgroupMax(v) : subgroupAdd(v);
    barrier();
    if (gl_SubgroupInvocationID == 0u)
        lanes[gl_SubgroupID] = v;
    barrier();
    v = lanes[0];
    if (gl_NumSubgroups > 1u) {
        v = largest ? -3.4028234e38 : 0.0;
        for (uint i = gl_SubgroupInvocationID; i < gl_NumSubgroups; i += gl_SubgroupSize)
            v = join_two(v, lanes[i], largest);
        v = largest ? subgroupMax(v) : subgroupAdd(v);
    }
    return v;
#else
    uint first = LANE / TEAM * TEAM;
    barrier();
    lanes[LANE] = v;
    barrier();
    for (uint half_ = TEAM / 2u; half_ > 0u; half_ /= 2u) {
        if (LANE % TEAM < half_)
            lanes[LANE] = join_two(lanes[LANE], lanes[LANE + half_], largest);
        barrier();
    }
    return lanes[first];
#endif
}

/* Replaces the values by exp(x - max), for softmax. */
vec3 softmax_stats(uint n_mine)
{
    float largest = -3.4028234e38, total = 0.0;
    [[unroll]] for (uint i = 0u; i < ITEMS * PER; i++)
        largest = i < n_mine && values[i] > largest ? values[i] : largest;
    largest = join_lanes(largest, true);
    [[unroll]] for (uint i = 0u; i < ITEMS * PER; i++) {
        float e = i < n_mine ? exp_down(values[i] - largest) : 0.0;
        total += e;
        values[i] = MODE == SOFTMAX ? e : values[i];
    }
    return vec3(largest, join_lanes(total, false), 1.0);
}

/* The PER elements of a load of x, with the residual. */
void read_load(uint at, out float v[PER])
{
    LOAD w = x[x_at / PER + at];
    [[unroll]] for (uint j = 0u; j < PER; j++)
        v[j] = element_of(TX, w, j);
    if (RESIDUAL != 0u) {
        w = residual[res_at / PER + at];
        [[unroll]] for (uint j = 0u; j < PER; j++)
            v[j] = round_to_x(v[j] + element_of(TX, w, j));
    }
}

/* Statistics in a unit chosen for the row; each invocation reads the whole row, from load `first`.
 * */
vec3 norm_stats_scaled(uint first)
{
    float v[PER], mean = 0.0, total = 0.0;
    uint largest = floatBitsToUint(sqrt(eps));
    for (uint i = 0u; i < n / PER; i++) {
        read_load(first + i, v);
        [[unroll]] for (uint j = 0u; j < PER; j++)
            largest = max(largest, floatBitsToUint(v[j]) & 0x7fffffffu);
    }
    if (largest >= 0x7f800000u) /* 1 / infinity, or NaN */
        return vec3(0.0, uintBitsToFloat(MODE == RMS && largest == 0x7f800000u ? 0u : 0x7fc00000u),
                    1.0);
    float unit = unit_of(largest);
    for (uint i = 0u; i < n / PER && MODE == NORM; i++) {
        read_load(first + i, v);
        [[unroll]] for (uint j = 0u; j < PER; j++)
            mean += v[j] * unit;
    }
    mean /= float(n);
    for (uint i = 0u; i < n / PER; i++) {
        read_load(first + i, v);
        [[unroll]] for (uint j = 0u; j < PER; j++)
            total += (v[j] * unit - mean) * (v[j] * unit - mean);
    }
    return vec3(mean, norm_factor(total / float(n), unit), unit);
}

/* first: index of the row's first load. */
vec3 norm_stats(uint n_mine, uint first)
{
    float mean = 0.0, total = 0.0;
    if (MODE == NORM) {
        [[unroll]] for (uint i = 0u; i < ITEMS * PER; i++)
            mean += i < n_mine ? values[i] : 0.0;
        mean = join_lanes(mean, false) / float(n);
    }
    [[unroll]] for (uint i = 0u; i < ITEMS * PER; i++) {
        float v = values[i] - mean;
        total += i < n_mine ? v * v : 0.0;
    }
    float variance = join_lanes(total, false) / float(n) + eps;
    if (n_mine > 0u && !is_moderate(variance))
        return norm_stats_scaled(first);
    return vec3(mean, 1.0 / sqrt(variance), 1.0);
}

void main()
{
    uint row = GROUP_INDEX * (THREADS / TEAM) + LANE / TEAM, side = LANE % TEAM;
    uint n_loads = row < rows ? n / PER : 0u, first = row * (n / PER);
    uint n_mine = n_loads > side ? (n_loads - side + TEAM - 1u) / TEAM * PER : 0u;
    /* No branch around loads, so that all are in flight at once; those past the end repeat the last
     * one. */
    const uint last = n / PER - 1u, start = min(row, rows - 1u) * (n / PER);
    [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
        float v[PER];
        read_load(start + min(k * TEAM + side, last), v);
        [[unroll]] for (uint j = 0u; j < PER; j++)
            values[k * PER + j] = v[j];
    }

    vec3 stats = MODE == NORM || MODE == RMS ? norm_stats(n_mine, first) : softmax_stats(n_mine);
    uvec2 weights = find_weights(row);
    float factor = stats.y == 0.0 ? 0.0 : 1.0 / stats.y; /* of softmax */
    [[unroll]] for (uint k = 0u; k < ITEMS; k++) {
        uint at = k * TEAM + side;
        if (at >= n_loads)
            continue;
        float v[PER];
        [[unroll]] for (uint j = 0u; j < PER; j++)
            v[j] = values[k * PER + j];
        if ((OUTS & 2u) != 0u)
            sum[sum_at / PER + first + at] = pack_load(v);
        float g[PER], b[PER];
        if (TG != 0u)
            load_weights_gamma(TG, weights.x, g_stride, at * PER, g);
        if (TB != 0u)
            load_weights_beta(TB, weights.y, b_stride, at * PER, b);
        [[unroll]] for (uint j = 0u; j < PER; j++)
            v[j] = MODE == SOFTMAX ? v[j] * factor
                                   : finish(v[j], stats, TG != 0u ? g[j] : 1.0,
                                            TB != 0u ? b[j] : 0.0);
        if ((OUTS & 1u) != 0u)
            y[y_at / PER + first + at] = pack_load(v);
    }
}
