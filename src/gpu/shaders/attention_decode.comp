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
 * end the PER teams of a subgroup are joined by shuffles, then the subgroups in shared memory, AT
 * rows at a time.
 *
 * JOIN: the workgroup that is the last to finish its part joins all parts of the rows and writes
 * the result; `counters` has a word for each K/V head and tile of rows, 0 before and after. */
#include "attention.glsl"

layout(constant_id = 9) const uint R = 4;
layout(constant_id = 10) const uint TEAM = 16; /* power of two, R at least, the subgroup at most */
layout(constant_id = 11) const uint T = 4;
layout(constant_id = 12) const uint TEAMS = 16; /* local size / TEAM */
layout(constant_id = 13) const uint PER = 1;    /* power of two; PER * TEAM is the subgroup */
layout(constant_id = 14) const uint AT = 1;     /* a divisor of R */

const uint E = TK == F32 ? 4u : 8u;             /* elements of a vector */
const uint CK = (D / E + TEAM - 1u) / TEAM;     /* vectors of a key for a lane */
const uint CV = (DV / E + TEAM - 1u) / TEAM;
const uint H = E / 4u;
const uint SLOTS = TEAMS / PER;

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

shared float joined[SLOTS * AT * DV];           /* sums of rows from each subgroup */
shared float tops[SLOTS * R], totals[SLOTS * R];

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

struct Place {
    uint batch, kv_head, row, n_rows, split;
};

/* Where the sums of a row over all keys go. */
uint result_at(Place p)
{
    return o_at + p.batch * n_kv_heads * GROUP * n_queries * DV +
           (p.kv_head * GROUP + p.row % GROUP) * o_h + p.row / GROUP * o_s;
}

/* Sums d and d + 1 of a row; its maximum and sum of weights. */
void put_sums(Place p, uint d, vec2 y, float top, float total)
{
    if (!PARTIAL) {
        store2(result_at(p) + d,
               y * row_factor(top, total, p.kv_head * GROUP + p.row % GROUP));
        return;
    }
    uint part = (((p.batch * n_kv_heads + p.kv_head) * p.n_rows + p.row) * n_splits + p.split) *
                (DV + 2u);
    partial[part + d] = floatBitsToUint(y.x);
    partial[part + d + 1u] = floatBitsToUint(y.y);
    if (d == 0u) {
        partial[part + DV] = floatBitsToUint(top);
        partial[part + DV + 1u] = floatBitsToUint(total);
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

    [[unroll]] for (uint bit = TEAM; bit < TEAM * PER; bit *= 2u) {
        float most = max(top, subgroupShuffleXor(top, bit)), keep = exp2(top - most);
        top = most;
        total *= keep;
        total += subgroupShuffleXor(total, bit);
        [[unroll]] for (uint r = 0u; r < R; r++) {
            float scale_r = subgroupShuffle(keep, base + row_of(r));
            [[unroll]] for (uint c = r * CV * H; c < (r + 1u) * CV * H; c++) {
                sum[c] *= scale_r;
                sum[c] += subgroupShuffleXor(sum[c], bit);
            }
        }
    }
    uint slot = team / PER;
    bool leads = team % PER == 0u;
    if (leads && t0 < R) {
        tops[slot * R + my_row] = top;
        totals[slot * R + my_row] = total;
    }
    [[unroll]] for (uint r0 = 0u; r0 < R; r0 += AT) {
        if (r0 > 0u)
            barrier();
        [[unroll]] for (uint c = 0u; c < AT * CV * H; c++) {
            uint d = (c % (CV * H) / H * TEAM + t0) * E + c % H * 4u;
            uint to = (slot * AT + c / (CV * H)) * DV + d;
            if (leads && d < DV)
                [[unroll]] for (uint e = 0u; e < 4u; e++)
                    joined[to + e] = sum[r0 * CV * H + c][e];
        }
        barrier();
        for (uint i = LANE * 2u; i < AT * DV; i += gl_WorkGroupSize.x * 2u) {
            uint r = r0 + i / DV, d = i % DV, out_row = row0 + r;
            float most = NOTHING, all = 0.0;
            vec2 y = vec2(0.0);
            [[unroll]] for (uint s = 0u; s < SLOTS; s++)
                most = max(most, tops[s * R + r]);
            [[unroll]] for (uint s = 0u; s < SLOTS; s++) {
                float w = exp2(tops[s * R + r] - most);
                uint from = s * AT * DV + i;
                all += totals[s * R + r] * w;
                y += vec2(joined[from], joined[from + 1u]) * w;
            }
            if (out_row < n_rows)
                put_sums(Place(batch, kv_head, out_row, n_rows, split), d, y, most, all);
        }
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
        uint at = result_at(Place(batch, kv_head, out_row, n_rows, 0u));
        store2(at + d, all.sum * row_factor(all.top, all.total, head));
    }
    if (LANE == 0u)
        counters[group / n_splits] = 0u;
#endif
}
