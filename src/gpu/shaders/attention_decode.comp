/* SPDX-License-Identifier: MIT */
#version 450
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
/* Attention of few rows over many keys, limited by the reading of k and v (attention.glsl says what
 * is computed).
 *
 * A workgroup makes R rows (a power of two) of one K/V head from one of n_splits parts of the keys.
 * TEAM neighbouring lanes of a subgroup read a key and its value as vectors of 16 bytes, T of each
 * at a time, and use them for all R rows. The sum of a product over the team is scattered: lane t
 * keeps the logits, maximum and sum of row row_of(t) only and hands out weights by shuffles. In the
 * end the teams are joined in shared memory, row by row.
 *
 * JOIN: the workgroup that is the last to finish its part joins all parts of the rows and writes
 * the result; `counters` has a word for each K/V head and tile of rows, 0 before and after. */
#include "attention.glsl"

layout(constant_id = 9) const uint R = 4;
layout(constant_id = 10) const uint TEAM = 16; /* power of two, R at least, the subgroup at most */
layout(constant_id = 11) const uint T = 4;
layout(constant_id = 12) const uint TEAMS = 16; /* local size / TEAM */

const uint E = TK == F32 ? 4u : 8u;             /* elements of a vector */
const uint CK = (D / E + TEAM - 1u) / TEAM;     /* vectors of a key for a lane */
const uint CV = (DV / E + TEAM - 1u) / TEAM;
const uint H = E / 4u;

TENSOR(0, q)
WORDS4(1, k);
WORDS4(2, v);
#ifdef JOIN
layout(set = 0, binding = 8, std430) coherent buffer buffer_partial { uint partial[]; };
layout(set = 0, binding = 9, std430) coherent buffer buffer_counters { uint counters[]; };
#include "attention_parts.glsl"
shared uint n_before;
#else
#define partial o
#endif

shared float joined[TEAMS * DV];                /* a row's sums from each team */
shared float tops[TEAMS * R], totals[TEAMS * R];

/* The row of lane t of a team: its low bits reversed; so is the way back. */
uint row_of(uint t)
{
    uint r = 0u;
    for (uint width = R / 2u; width > 0u; width /= 2u, t >>= 1)
        r += (t & 1u) * width;
    return r;
}

/* Half h of a vector. */
vec4 unpack_half(uvec4 w, uint h)
{
    if (TK == F32)
        return uintBitsToFloat(w);
    return unpack4(TK, h == 0u ? w.xy : w.zw);
}

/* Two neighbouring elements of the result, from an even one on. */
void store2(uint i, vec2 y)
{
    if (TQ == F32) {
        o[i] = floatBitsToUint(y.x);
        o[i + 1u] = floatBitsToUint(y.y);
    } else {
        o[i / 2u] = encode_f(TQ, y.x) | encode_f(TQ, y.y) << 16;
    }
}

void main()
{
    uint group = GROUP_INDEX;
    if (group >= n_groups)
        return;
    uint n_rows = n_queries * GROUP, n_tiles = (n_rows + R - 1u) / R;
    uint split = group % n_splits, row0 = group / n_splits % n_tiles * R;
    uint kv_head = group / n_splits / n_tiles % n_kv_heads;
    uint batch = group / n_splits / n_tiles / n_kv_heads;
    uint t0 = LANE % TEAM, team = LANE / TEAM;
    uint lane = gl_SubgroupInvocationID, base = lane - lane % TEAM;

    uint length = length_of(batch, LANE == 0u);
    uint last = min(row0 + R, n_rows) - 1u;
    int first_key = key_range(row0 / GROUP, length).x;
    int end_key = key_range(last / GROUP, length).y;
    int n = max(end_key - first_key, 0);
    int each = (n + int(n_splits) - 1) / int(n_splits);
    first_key += int(split) * each;
    end_key = min(end_key, first_key + each);

    /* The query of each row as far as it meets this lane's elements of a key. */
    vec4 x[R * CK * H], sum[R * CV * H];
    [[unroll]] for (uint r = 0u; r < R; r++) {
        uint row = min(row0 + r, n_rows - 1u);
        uint at = q_at + batch * q_b + (kv_head * GROUP + row % GROUP) * q_h + row / GROUP * q_s;
        [[unroll]] for (uint c = 0u; c < CK * H; c++) {
            uint d = (c / H * TEAM + t0) * E + c % H * 4u;
            vec4 y = vec4(0.0);
            if (d < D)
                y = vec4(load_f_q(TQ, at + d), load_f_q(TQ, at + d + 1u), load_f_q(TQ, at + d + 2u),
                         load_f_q(TQ, at + d + 3u));
            x[r * CK * H + c] = y;
        }
    }
    [[unroll]] for (uint i = 0u; i < R * CV * H; i++)
        sum[i] = vec4(0.0);

    uint my_row = row_of(t0 % R), row = min(row0 + my_row, n_rows - 1u);
    ivec2 range = key_range(row / GROUP, length);
    range.y = min(range.y, end_key);
    uint mask_at =
        m_at + batch * m_b + (kv_head * GROUP + row % GROUP) * m_h + row / GROUP * m_q;
    float top = NOTHING, total = 0.0;

    for (int k0 = first_key; k0 < end_key; k0 += int(TEAMS * T)) {
        uvec4 kw[T * CK], vw[T * CV];
        [[unroll]] for (uint t = 0u; t < T; t++) {
            uvec2 at = key_place(batch, uint(min(k0 + int(t * TEAMS + team), end_key - 1)));
            uint ka = (k_at + at.x * k_b + at.y * k_s + kv_head * k_h) / E;
            uint va = (v_at + at.x * v_b + at.y * v_s + kv_head * v_h) / E;
            [[unroll]] for (uint c = 0u; c < CK; c++)
                kw[t * CK + c] = k[ka + min(c * TEAM + t0, D / E - 1u)];
            [[unroll]] for (uint c = 0u; c < CV; c++)
                vw[t * CV + c] = v[va + min(c * TEAM + t0, DV / E - 1u)];
        }

        float s[T], most = top;
        [[unroll]] for (uint t = 0u; t < T; t++) {
            float a[R];
            [[unroll]] for (uint r = 0u; r < R; r++)
                a[r] = 0.0;
            [[unroll]] for (uint c = 0u; c < CK * H; c++) {
                vec4 y = unpack_half(kw[t * CK + c / H], c % H);
                [[unroll]] for (uint r = 0u; r < R; r++)
                    a[r] += dot(x[r * CK * H + c], y);
            }
            uint bit = 1u;
            [[unroll]] for (uint width = R / 2u; width > 0u; width /= 2u, bit *= 2u) {
                bool upper = (t0 & bit) != 0u;
                [[unroll]] for (uint i = 0u; i < width; i++) {
                    float give = upper ? a[i] : a[i + width];
                    float keep = upper ? a[i + width] : a[i];
                    a[i] = keep + subgroupShuffleXor(give, bit);
                }
            }
            [[unroll]] for (; bit < TEAM; bit *= 2u)
                a[0] += subgroupShuffleXor(a[0], bit);
            int key = k0 + int(t * TEAMS + team);
            s[t] = MASKED;
            if (key >= range.x && key < range.y)
                s[t] = logit(a[0], mask_at + uint(key) * m_k);
            most = max(most, s[t]);
        }

        float keep = exp2(top - most);
        top = most;
        total *= keep;
        [[unroll]] for (uint t = 0u; t < T; t++) {
            s[t] = exp2(s[t] - most);
            total += s[t];
        }
        [[unroll]] for (uint r = 0u; r < R; r++) {
            float scale_r = subgroupShuffle(keep, base + row_of(r));
            [[unroll]] for (uint c = 0u; c < CV * H; c++)
                sum[r * CV * H + c] *= scale_r;
        }
        [[unroll]] for (uint t = 0u; t < T; t++) {
            float w[R];
            [[unroll]] for (uint r = 0u; r < R; r++)
                w[r] = subgroupShuffle(s[t], base + row_of(r));
            [[unroll]] for (uint c = 0u; c < CV * H; c++) {
                vec4 y = unpack_half(vw[t * CV + c / H], c % H);
                [[unroll]] for (uint r = 0u; r < R; r++)
                    sum[r * CV * H + c] += w[r] * y;
            }
        }
    }

    if (t0 < R) {
        tops[team * R + my_row] = top;
        totals[team * R + my_row] = total;
    }
    barrier();
    [[unroll]] for (uint r = 0u; r < R; r++) {
        float most = NOTHING, all = 0.0;
        for (uint t = 0u; t < TEAMS; t++)
            most = max(most, tops[t * R + r]);
        for (uint t = 0u; t < TEAMS; t++)
            all += totals[t * R + r] * exp2(tops[t * R + r] - most);
        float mine = exp2(tops[team * R + r] - most);
        [[unroll]] for (uint c = 0u; c < CV * H; c++) {
            uint d = (c / H * TEAM + t0) * E + c % H * 4u;
            if (d < DV)
                [[unroll]] for (uint e = 0u; e < 4u; e++)
                    joined[team * DV + d + e] = sum[r * CV * H + c][e] * mine;
        }
        barrier();
        uint out_row = row0 + r, head = kv_head * GROUP + out_row % GROUP;
        uint part = (((batch * n_kv_heads + kv_head) * n_rows + out_row) * n_splits + split) *
                    (DV + 2u);
        uint at = o_at + batch * n_kv_heads * GROUP * n_queries * DV + head * o_h +
                  out_row / GROUP * o_s;
        float factor = PARTIAL ? 1.0 : row_factor(most, all, head);
        for (uint d = LANE * 2u; d < DV && out_row < n_rows; d += gl_WorkGroupSize.x * 2u) {
            vec2 y = vec2(0.0);
            for (uint t = 0u; t < TEAMS; t++)
                y += vec2(joined[t * DV + d], joined[t * DV + d + 1u]);
            y *= factor;
            if (PARTIAL) {
                partial[part + d] = floatBitsToUint(y.x);
                partial[part + d + 1u] = floatBitsToUint(y.y);
            } else {
                store2(at + d, y);
            }
        }
        if (PARTIAL && LANE == 0u && out_row < n_rows) {
            partial[part + DV] = floatBitsToUint(most);
            partial[part + DV + 1u] = floatBitsToUint(all);
        }
        barrier();
    }
#ifdef JOIN
    memoryBarrierBuffer();
    barrier();
    if (LANE == 0u)
        n_before = atomicAdd(counters[group / n_splits], 1u);
    barrier();
    if (n_before + 1u != n_splits)
        return;
    memoryBarrierBuffer();
    for (uint i = LANE * 2u; i < R * DV; i += gl_WorkGroupSize.x * 2u) {
        uint out_row = row0 + i / DV, d = i % DV, head = kv_head * GROUP + out_row % GROUP;
        if (out_row >= n_rows)
            break;
        uint first = ((batch * n_kv_heads + kv_head) * n_rows + out_row) * n_splits * (DV + 2u);
        Joined all = join_parts(first, DV + 2u, n_splits, d, d + 1u);
        uint at = o_at + batch * n_kv_heads * GROUP * n_queries * DV + head * o_h +
                  out_row / GROUP * o_s;
        store2(at + d, all.sum * row_factor(all.top, all.total, head));
    }
    if (LANE == 0u)
        counters[group / n_splits] = 0u;
#endif
}
