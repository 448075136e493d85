/* SPDX-License-Identifier: MIT */
#version 450
#include "chain_needs.glsl"
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifdef JOIN
#extension GL_KHR_memory_scope_semantics : require
#endif
/* Attention of few rows over many keys, limited by the reading of k and v (attention.glsl says what
 * is computed).
 *
 * A workgroup makes R rows (a power of two) of one K/V head from one of n_splits parts of the keys:
 * every n_splits-th block of TEAMS * T keys. The grid is [splits, tiles of rows of each K/V head,
 * batches]. TEAM neighbouring lanes of a subgroup read a key and its value as vectors, T of each at
 * a time, and use them for all R rows. The sum of a product over the team is scattered: lane t
 * keeps the logits, maximum and sum of row row_of(t) only and hands out weights by shuffles. In the
 * end the PER teams of a subgroup are joined by shuffles, then the subgroups in shared memory, AT
 * rows at a time.
 *
 * Vectors have 16 bytes. HALVES: k and v have elements of 16 bits and vectors of 8 bytes, so that
 * lanes hold less and the code is short, which counts where a chain waits for few keys. */
#include "common.glsl"
#include "attention_decode.def"
#include "attention.glsl"
#include "attention_table.glsl"
#define CHAIN_LATE
#include "chain.glsl"

WORDS4(q);
#ifdef HALVES
#define VEC uvec2
layout(SLOT(k), std430) SHARED_BUFFER buffer_k { uvec2 k[]; };
layout(SLOT(v), std430) SHARED_BUFFER buffer_v { uvec2 v[]; };
const uint E = 4u;                              /* elements of a vector */
#else
#define VEC uvec4
WORDS4(k);
WORDS4(v);
const uint E = TK == F32 ? 4u : 8u;
#endif

const uint CK = (D / E + TEAM - 1u) / TEAM;     /* vectors of a key per lane */
const uint CV = (DV / E + TEAM - 1u) / TEAM;
const uint H = E / 4u;
const uint SLOTS = TEAMS / PER, LANES = TEAMS * TEAM;
const uint ITEMS = TEAM * PER / SHARE;
#include "attention_join.glsl"

/* The row of lane t of a team: bit reversal, which is its own inverse. */
uint row_of(uint t)
{
    uint r = 0u;
    for (uint width = R / 2u; width > 0u; width /= 2u, t >>= 1)
        r += (t & 1u) * width;
    return r;
}

/* Four elements of a vector, part h. */
vec4 unpack_part(VEC w, uint h)
{
#ifdef HALVES
    return unpack4(TK, w);
#else
    if (TK == F32)
        return uintBitsToFloat(w);
    return unpack4(TK, h == 0u ? w.xy : w.zw);
#endif
}

/* Whether the rows of a workgroup may see different keys. */
bool is_ragged() { return TM != 0u || (!SINGLE && (CAUSAL || WINDOW)); }

/* Elements i to i + 3 of q; i is a multiple of 4. */
vec4 load_q(uint i)
{
    if (TQ == F32)
        return uintBitsToFloat(q[i / 4u]);
    uvec4 w = q[i / 8u];
    return unpack4(TQ, (i & 4u) == 0u ? w.xy : w.zw);
}

void main()
{
    uint n_rows = count_queries() * GROUP, n_tiles = (n_rows + R - 1u) / R;
    uint split = gl_WorkGroupID.x, kv_head = gl_WorkGroupID.y, batch = gl_WorkGroupID.z;
    uint row0 = 0u;
    if (n_tiles > 1u) {
        row0 = kv_head % n_tiles * R;
        kv_head /= n_tiles;
    }
    const Place place = Place(batch, kv_head, row0, n_rows, split);
    uint t0 = LANE % TEAM, team = LANE / TEAM;
    uint lane = gl_SubgroupInvocationID, base = lane - lane % TEAM;
    const int STEP = int(TEAMS * T);
    const uint table = table_of(batch, LANE == 0u);
    VEC kw[T * CK], vw[T * CV];

    /* This lane's vectors of the keys k0 + team, k0 + TEAMS + team, .. before `end`, clamped to the
     * last. */
#define LOAD(k0, end)                                                                            \
    [[unroll]] for (uint t = 0u; t < T; t++) {                                                   \
        uvec2 at = key_place(table, uint(min((k0) + int(t * TEAMS + team), (end) - 1)));         \
        uint ka = (k_at + at.x * k_b + at.y * k_s + kv_head * k_h) / E;                          \
        uint va = (v_at + at.x * v_b + at.y * v_s + kv_head * v_h) / E;                          \
        [[unroll]] for (uint c = 0u; c < CK; c++)                                                \
            kw[t * CK + c] = k[ka + min(c * TEAM + t0, D / E - 1u)];                             \
        [[unroll]] for (uint c = 0u; c < CV; c++)                                                \
            vw[t * CV + c] = v[va + min(c * TEAM + t0, DV / E - 1u)];                            \
    }

    /* The first keys do not depend on the number of keys, so their loads need not wait for it;
     * values of keys that do not exist are undefined. Does not pay for many keys. */
    const bool known = T <= 2u && PAGE == 0u && !WINDOW, early = LENGTHS && known;
#ifdef CHAIN
    /* Nor need they wait for the dispatches before, one of which may write one of them: they are
     * prefetched into the cache and read again after the wait. The condition is never true, which
     * the compiler cannot know. */
    if (known) {
        uint touched = 0u;
        LOAD(int(split) * STEP, int(n_keys))
        [[unroll]] for (uint i = 0u; i < T * CK; i++)
            touched |= kw[i].x;
        [[unroll]] for (uint i = 0u; i < T * CV; i++)
            touched |= vw[i].x;
        if (chain_before == NO_COUNTER)
            o[0] = touched;
    }
    chain_wait();
#endif
    if (early)
        LOAD(int(split) * STEP, int(n_keys))
    uint length = length_of(batch, LANE == 0u);
    uint last = min(row0 + R, n_rows) - 1u;
    int first_key = key_range(row0 / GROUP, length).x + int(split) * STEP;
    int end_key = key_range(last / GROUP, length).y;

    /* The query of each row at this lane's elements of a key. Loaded without a branch: after one,
     * an NVIDIA driver (580) miscompiled the shuffles below. */
    vec4 x[R * CK * H], sum[R * CV * H];
    [[unroll]] for (uint r = 0u; r < R; r++) {
        uint row = min(row0 + r, n_rows - 1u);
        uint at = q_at + batch * q_b + (kv_head * GROUP + row % GROUP) * q_h + row / GROUP * q_s;
        [[unroll]] for (uint c = 0u; c < CK * H; c++) {
            uint d = (c / H * TEAM + t0) * E + c % H * 4u;
            vec4 y = load_q(at + min(d, D - 4u));
            x[r * CK * H + c] = D % (TEAM * E) == 0u || d < D ? y : vec4(0.0);
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

    for (int k0 = first_key; k0 < end_key; k0 += int(n_splits) * STEP) {
        if (!early || k0 != first_key)
            LOAD(k0, end_key)

        float s[T], most = top;
        [[unroll]] for (uint t = 0u; t < T; t++) {
            float a[R];
            [[unroll]] for (uint r = 0u; r < R; r++)
                a[r] = 0.0;
            [[unroll]] for (uint c = 0u; c < CK * H; c++) {
                vec4 y = unpack_part(kw[t * CK + c / H], c % H);
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

        float keep = keep_factor(top, most);
        top = most;
        total *= keep;
        [[unroll]] for (uint t = 0u; t < T; t++) {
            s[t] = weight_of(s[t], most);
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
            if (is_ragged() || k0 + int(t * TEAMS + team) < end_key) {
                [[unroll]] for (uint c = 0u; c < CV * H; c++) {
                    vec4 y = unpack_part(vw[t * CV + c / H], c % H);
                    [[unroll]] for (uint r = 0u; r < R; r++)
                        if (!is_ragged() || w[r] != 0.0)
                            sum[r * CV * H + c] += w[r] * y;
                }
            }
        }
    }

    [[unroll]] for (uint bit = TEAM; bit < TEAM * PER; bit *= 2u) {
        float most = max(top, subgroupShuffleXor(top, bit)), keep = keep_factor(top, most);
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
            if (leads && d < DV)
                joined[((slot * AT + c / (CV * H)) * DV + d) / 4u] = sum[r0 * CV * H + c];
        }
        barrier();
        join_slots(place, r0);
    }
#ifdef JOIN
    join_splits(place);
#endif
}
