/* SPDX-License-Identifier: MIT */
/* Attention on cooperative matrices that reads k and v in place (attention_plain.comp): few rows
 * over f16, and many short rows in types or head sizes that attention_frag.comp has no kernel
 * for. */
#include "gpu/select/attention.h"
#include "gpu/select/rows.h"

#define MANY_ROWS 16 /* of a workgroup */
#define FEW_ROWS 8
#define BLOCK 16 /* keys of a matrix product */
#define MOST_SLOTS 8
#define UNIT_SLOTS 16 /* subgroups for full occupancy of a compute unit */

/* A use of attention_plain.comp: its specialisation constants and its grid. */
typedef struct shape {
    uint32_t rows, slots, join_rows, share;
    uint64_t n_tiles, n_splits; /* n_tiles: of rows, per batch */
} shape;

/* Whether the rows of a K/V head are few: then keys are split among workgroups. */
static bool is_few(const rx_attention *a) { return a->n_rows <= 2 * FEW_ROWS; }

/* RX_K_EMITTED: none. f32 is rounded where the policy allows it. */
static rx_kernel pick_kernel(const rx_attention *a)
{
    rlx_dtype t = a->k->dtype;
    bool rounds = a->call->policy == RLX_POLICY_FAST;
    bool halves = t == RLX_F16 && (a->q->dtype == RLX_F16 || rounds);
    if (a->v->dtype != t || a->key_size != a->value_size)
        return RX_K_EMITTED;
    if (is_few(a)) {
        /* With lengths the number of keys is unknown: attention_decode.comp is faster for few, this
         * for many. */
        if (!halves || a->lengths)
            return RX_K_EMITTED;
        return a->key_size == 64    ? RX_K_attention_plain64
               : a->key_size == 128 ? RX_K_attention_plain128 : RX_K_EMITTED;
    }
    if (a->n_queries < MANY_ROWS)
        return RX_K_EMITTED;
    if (halves && a->key_size == 32)
        return RX_K_attention_plain32;
    if (t != RLX_F32 || !rounds)
        return RX_K_EMITTED;
    return a->key_size == 32   ? RX_K_attention_plain32_f32
           : a->key_size == 64 ? RX_K_attention_plain64_f32 : RX_K_EMITTED;
}

static bool suits(const rx_attention *a, rx_kernel k)
{
    const rx_gpu_caps *caps = a->call->caps;
    if (k == RX_K_EMITTED || !caps->coopmat_fragments || caps->subgroup != 32 ||
        caps->max_invocations < 32 * MOST_SLOTS || !caps->subgroup_shuffle ||
        caps->max_bindings < 10 || !rx_kernel_available(k, caps))
        return false;
    if (a->n_keys == 0 || rx_attention_needs_merge(a, 1))
        return false;
    return rx_attention_is_aligned(a->q, 8) && rx_attention_is_aligned(a->k, 8) &&
           rx_attention_is_aligned(a->v, 8);
}

static uint64_t shared_bytes(const rx_attention *a, const shape *s)
{
    uint64_t queries = (uint64_t)a->key_size * 16 * 2;
    uint64_t sums = s->slots * ((uint64_t)a->value_size * s->join_rows + 2 * s->rows) * 4;
    uint64_t range = s->slots * MANY_ROWS * 4;
    return queries + sums + range + 16;
}

/* Keys of an iteration of a subgroup: 16 T of the kernel. */
static uint32_t keys_at_once(rx_kernel k)
{
    return k == RX_K_attention_plain32 ? 4 * BLOCK
           : k == RX_K_attention_plain32_f32 ? 2 * BLOCK : BLOCK;
}

/* Few rows: one workgroup per compute unit has the lowest latency; with many keys each, two have
 * more bandwidth. (H200; 4 subgroups below 8 blocks of keys for each of 8.) */
static void split_keys(const rx_attention *a, uint64_t units, shape *s)
{
    const uint64_t n_groups = s->n_tiles * (uint64_t)a->n_batch, n_keys = (uint64_t)a->n_keys;
    uint64_t n = units / n_groups;
    s->slots = n_keys < 8 * MOST_SLOTS * BLOCK ? MOST_SLOTS / 2 : MOST_SLOTS;
    if (n_keys >= 4 * MOST_SLOTS * BLOCK * (n ? n : 1))
        n = 2 * units / n_groups;
    uint64_t most = rx_ceil_div(n_keys, BLOCK * s->slots);
    n = n < most ? n : most;
    s->n_splits = n_groups > RX_ATTN_COUNTERS || n == 0 ? 1 : n < 32 ? n : 32;
}

/* Many rows: subgroups split the keys of a tile where tiles are too few for full occupancy. */
static void share_keys(const rx_attention *a, uint64_t units, uint32_t at_once, shape *s)
{
    s->slots = s->n_splits = 1;
    while (s->slots < MOST_SLOTS && (int64_t)s->slots * at_once < a->n_keys &&
           s->n_tiles * (uint64_t)a->n_batch * s->slots < UNIT_SLOTS * units)
        s->slots *= 2;
}

static shape pick_shape(const rx_attention *a, rx_kernel k)
{
    const rx_gpu_caps *caps = a->call->caps;
    const uint64_t units = caps->compute_units ? caps->compute_units : 32;
    uint32_t rows = is_few(a) ? FEW_ROWS : MANY_ROWS;
    shape s = {.rows = rx_pow2_up((uint32_t)(a->n_rows < rows ? a->n_rows : rows)), .share = 1};
    s.n_tiles = (uint64_t)a->n_kv_heads * rx_ceil_div((uint64_t)a->n_rows, s.rows);
    if (is_few(a))
        split_keys(a, units, &s);
    else
        share_keys(a, units, keys_at_once(k), &s);
    s.join_rows = s.rows;
    while (s.join_rows > 1 && shared_bytes(a, &s) > caps->max_shared_bytes)
        s.join_rows /= 2;
    const uint32_t items = s.join_rows * (uint32_t)a->value_size / 4;
    while (s.share < s.slots && 32 * s.slots / s.share >= 2 * items)
        s.share *= 2;
    return s;
}

bool rx_attention_plain(rx_gpu_build *b, const rx_attention *a)
{
    const rx_gpu_caps *caps = a->call->caps;
    const rx_kernel k = pick_kernel(a);
    if (!suits(a, k))
        return false;
    shape s = pick_shape(a, k);
    const uint64_t n_groups = s.n_tiles * (uint64_t)a->n_batch;
    if (s.n_tiles > caps->max_groups[1] || (uint64_t)a->n_batch > caps->max_groups[2])
        return false;
    const bool few = is_few(a);
    const rx_args_attention_base base =
        rx_attention_args(a, s.n_splits > 1, few ? n_groups * s.n_splits : n_groups,
                          few ? s.n_splits : 1);
    const rx_args_attention_plain args = {
        .bind = {base.bind},
        .spec = {.attention_base = base.spec, .R = s.rows, .SLOTS = s.slots, .AT = s.join_rows,
                 .SHARE = s.share},
        .push = {base.push},
    };
    rx_gpu_dispatch *d;
    if (few) {
        const rx_args_attention_plain_join join = {
            .bind = {.attention_plain = args.bind,
                     .partial = rx_attention_parts(b, a, s.n_splits),
                     .counters = rx_attention_counters(b, n_groups, s.n_splits)},
            .spec = {args.spec}, .push = {args.push}};
        d = rx_add_attention_plain_join(b, k, 32 * s.slots, &join);
    } else {
        d = rx_add_attention_plain(b, k, 32 * s.slots, &args);
    }
    d->groups[0] = (uint32_t)s.n_splits;
    d->groups[1] = (uint32_t)s.n_tiles;
    d->groups[2] = (uint32_t)a->n_batch;
    return true;
}
