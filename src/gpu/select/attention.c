/* SPDX-License-Identifier: MIT */
/* attention on GPUs.
 *
 * Which kernel an attention gets, in order of preference:
 *   many rows, f16 or bf16   cooperative matrices, where they are: lower_attention_frag.c
 *   short or few rows        cooperative matrices without a second form of k and v, where they
 *                            are: lower_attention_plain.c
 *   few rows                 teams of lanes that read a key each, where lanes can shuffle
 *   any                      tiles through shared memory
 * Where workgroups are too few, the keys are split among more of them, which leave partial sums
 * that a second dispatch merges. */
#include "gpu/select/attention.h"
#include "gpu/select/product.h"
#include "gpu/select/rows.h"

#define LOG2_E 1.4426950408889634

/* ---- Arguments of every kernel --------------------------------------------------------------- */

/* Strides of the mask along [B, H, Sq, Sk], 0 where it broadcasts. */
static void set_mask_strides(rx_attention *a)
{
    const rx_view *m = a->mask;
    for (int i = 0; m && i < m->rank; i++)
        if (m->dim[i] != 1)
            a->mask_stride[4 - m->rank + i] = m->stride[i];
}

static void set_sizes(rx_attention *a)
{
    a->n_batch = a->q->dim[0];
    a->n_heads = a->q->dim[a->head];
    a->n_kv_heads = a->k->dim[a->head];
    a->group = a->n_kv_heads ? a->n_heads / a->n_kv_heads : 1;
    a->n_queries = a->q->dim[a->seq];
    a->n_keys = a->pages ? a->pages->dim[1] * a->desc->page : a->k->dim[a->seq];
    if (a->k->dim[0] == 0)
        a->n_keys = 0;
    a->n_rows = a->n_queries * a->group;
    a->key_size = a->q->dim[3];
    a->value_size = a->v->dim[3];
}

static rx_attention make_attention(const rx_gpu_call *c)
{
    rx_attention a = {.call = c, .desc = c->attr, .q = &c->in[RX_ATTN_Q], .k = &c->in[RX_ATTN_K],
                      .v = &c->in[RX_ATTN_V], .out = &c->out[0]};
    a.mask = rx_gpu_in(c, RX_ATTN_MASK);
    a.lengths = rx_gpu_in(c, RX_ATTN_LENGTHS);
    a.sinks = rx_gpu_in(c, RX_ATTN_SINKS);
    a.pages = rx_gpu_in(c, RX_ATTN_PAGES);
    a.sinks_ref = a.sinks ? RX_REF_IN(RX_ATTN_SINKS) : RX_REF_NONE;
    a.pages_ref = a.pages ? RX_REF_IN(RX_ATTN_PAGES) : RX_REF_NONE;
    a.head = a.desc->layout == RLX_BHSD ? 1 : 2;
    a.seq = 3 - a.head;
    set_sizes(&a);
    if (c->keys && !a.pages)
        a.n_keys = c->keys->total;
    if (c->part_total)
        a.n_after = c->part_total - c->part_first - a.n_queries;
    set_mask_strides(&a);
    return a;
}

static uint32_t option_bits(const rx_attention *a, bool partial)
{
    const rx_view *n = a->lengths;
    return (a->desc->causal ? RX_CODE_ATTN_CAUSAL : 0u) |
           (a->desc->window > 0 ? RX_CODE_ATTN_WINDOW : 0u) |
           (a->desc->soft_cap > 0 ? RX_CODE_ATTN_CAP : 0u) |
           (a->sinks && !a->pages ? RX_CODE_ATTN_SINKS : 0u) |
           (partial ? RX_CODE_ATTN_PARTIAL : 0u) | (n ? RX_CODE_ATTN_LENGTHS : 0u) |
           (n && n->dtype == RLX_I64 ? RX_CODE_ATTN_LENGTHS_WIDE : 0u) |
           (n && n->rank == 1 ? RX_CODE_ATTN_LENGTHS_EACH : 0u) |
           (a->table ? RX_CODE_ATTN_RAGGED : 0u) |
           (a->keys ? RX_CODE_ATTN_CUT : 0u) | (a->n_queries == 1 ? RX_CODE_ATTN_SINGLE : 0u);
}

static rx_spec_attention_base make_spec(const rx_attention *a, bool partial)
{
    return (rx_spec_attention_base){
        .TQ = a->q->dtype, .TK = a->k->dtype, .TM = a->mask ? a->mask->dtype : RLX_NO_TYPE,
        .OPTIONS = option_bits(a, partial), .D = (uint32_t)a->key_size,
        .DV = (uint32_t)a->value_size, .GROUP = (uint32_t)a->group,
        .PAGE = a->pages ? (uint32_t)a->desc->page : 0};
}

/* Offset of element 0 as if all keys were present. Negative strides wrap, as they do in the
 * shaders. */
static uint32_t first_of(const rx_attention *a, const rx_view *v)
{
    const int64_t first = a->keys ? a->keys->first : 0;
    if (rlx_dtype_is_packed(v->dtype))
        return (uint32_t)(uintptr_t)v->data; /* bytes */
    return rx_gpu_offset(v) - (uint32_t)(first * v->stride[a->pages ? 0 : a->seq]);
}

/* The mask begins with key 0, or with the first key of k when it has as many keys as k. */
static uint32_t mask_offset(const rx_attention *a)
{
    const rx_view *m = a->mask;
    if (!m)
        return 0;
    const bool narrow = a->keys && !a->pages &&
                        m->dim[m->rank - 1] == a->keys->end - a->keys->first;
    return rx_gpu_offset(m) - (narrow ? (uint32_t)(a->keys->first * a->mask_stride[3]) : 0);
}

static uint32_t offset_or_0(const rx_view *v) { return v ? rx_gpu_offset(v) : 0; }

static rx_push_attention_lead make_lead(const rx_attention *a, uint64_t n_groups,
                                        uint64_t n_splits)
{
    return (rx_push_attention_lead){
        .n_queries = (uint32_t)a->n_queries, .n_keys = (uint32_t)a->n_keys,
        .n_kv_heads = (uint32_t)a->n_kv_heads, .n_groups = (uint32_t)n_groups,
        .n_splits = (uint32_t)n_splits, .q_at = rx_gpu_offset(a->q),
        .q_b = (uint32_t)a->q->stride[0], .q_h = (uint32_t)a->q->stride[a->head],
        .q_s = (uint32_t)a->q->stride[a->seq]};
}

static rx_push_attention_rest make_rest(const rx_attention *a)
{
    const double cap = a->desc->soft_cap;
    const int64_t window = a->desc->window < INT32_MAX / 2 ? a->desc->window : INT32_MAX / 2;
    const int64_t line = a->value_size;
    rx_push_attention_rest p = {
        .o_at = rx_gpu_offset(a->out),
        .o_h = (uint32_t)(a->head == 1 ? a->n_queries * line : line),
        .o_s = (uint32_t)(a->head == 1 ? line : a->n_heads * line), .m_at = mask_offset(a),
        .m_b = (uint32_t)a->mask_stride[0], .m_h = (uint32_t)a->mask_stride[1],
        .m_q = (uint32_t)a->mask_stride[2], .m_k = (uint32_t)a->mask_stride[3],
        .scale = (float)(cap > 0 ? a->desc->scale / cap : a->desc->scale * LOG2_E),
        .cap = (float)(cap * LOG2_E), .window = (int32_t)window,
        .lengths_at = offset_or_0(a->lengths),
        .other_at = offset_or_0(a->pages ? a->pages : a->sinks),
        .n_pages = (uint32_t)(a->keys ? a->keys->total : a->k->dim[0]),
        .n_batch = (uint32_t)a->n_batch};
    if (a->table) {
        p.m_at = rx_gpu_offset(a->table);
        p.m_b = (uint32_t)a->pages->dim[0];
    }
    if (a->keys) {
        p.o_at = (uint32_t)a->n_after;
        p.o_h = (uint32_t)a->keys->first;
        p.o_s = (uint32_t)a->keys->end;
    }
    return p;
}

rx_args_attention_base rx_attention_args(const rx_attention *a, bool partial, uint64_t n_groups,
                                         uint64_t n_splits)
{
    return (rx_args_attention_base){
        .bind = {.q = RX_REF_IN(RX_ATTN_Q), .k = RX_REF_IN(RX_ATTN_K), .v = RX_REF_IN(RX_ATTN_V),
                 .mask = a->mask || a->table ? RX_REF_IN(RX_ATTN_MASK) : RX_REF_NONE,
                 .lengths = a->lengths ? RX_REF_IN(RX_ATTN_LENGTHS) : RX_REF_NONE,
                 .other = a->pages ? a->pages_ref : a->sinks_ref,
                 .flags = a->lengths || a->pages ? RX_REF_FLAGS : RX_REF_NONE,
                 .o = RX_REF_OUT(0)},
        .spec = make_spec(a, partial),
        .push = {.attention_lead = make_lead(a, n_groups, n_splits), .k_at = first_of(a, a->k),
                 .k_b = (uint32_t)a->k->stride[0], .k_h = (uint32_t)a->k->stride[a->head],
                 .k_s = (uint32_t)a->k->stride[a->seq], .v_at = first_of(a, a->v),
                 .v_b = (uint32_t)a->v->stride[0], .v_h = (uint32_t)a->v->stride[a->head],
                 .v_s = (uint32_t)a->v->stride[a->seq], .attention_rest = make_rest(a)},
    };
}

bool rx_attention_is_aligned(const rx_view *v, int64_t unit)
{
    bool ok = v->dim[3] % unit == 0 && v->stride[3] == 1 && rx_gpu_offset(v) % unit == 0;
    for (int i = 0; i < 3; i++)
        ok = ok && (v->dim[i] == 1 || v->stride[i] % unit == 0);
    return ok;
}

/* ---- Partial sums ---------------------------------------------------------------------------- */

/* Keys of a split in software: lavapipe of Mesa 22 leaves a loop after 65535 iterations. */
#define SOFTWARE_KEYS 32768

/* Splits of a row over a paged cache under policy `exact`: their number must not depend on the
 * number of rows, so that the bits of a row do not either. */
#define FIXED_SPLITS 8
#define FIXED_KEYS 128 /* of a split, at least */

static bool is_invariant(const rx_attention *a)
{
    return a->pages && (a->table || a->n_queries == 1) && a->call->policy != RLX_POLICY_FAST;
}

static uint64_t count_fixed_splits(const rx_attention *a)
{
    const uint64_t keys = (uint64_t)a->n_keys, n = rx_ceil_div(keys, FIXED_KEYS);
    if (a->call->caps->is_software && keys > FIXED_SPLITS * SOFTWARE_KEYS)
        return rx_ceil_div(keys, SOFTWARE_KEYS);
    return n > FIXED_SPLITS ? FIXED_SPLITS : n ? n : 1;
}

/* Into how many splits the keys are cut: enough workgroups for full occupancy, but each split with
 * at least `least` keys. */
static uint64_t count_splits(const rx_attention *a, uint64_t n_groups, int64_t least)
{
    const rx_gpu_caps *caps = a->call->caps;
    const uint64_t keys = (uint64_t)a->n_keys;
    uint64_t wanted = caps->is_software ? 4 : 2 * (caps->compute_units ? caps->compute_units : 32);
    uint64_t n = rx_ceil_div(wanted, n_groups);
    uint64_t most = rx_ceil_div(keys, (uint64_t)least);
    if (is_invariant(a))
        return count_fixed_splits(a);
    n = n < most ? n : most;
    n = n > 64 ? 64 : n ? n : 1;
    return caps->is_software && n * SOFTWARE_KEYS < keys ? rx_ceil_div(keys, SOFTWARE_KEYS) : n;
}

bool rx_attention_needs_merge(const rx_attention *a, uint64_t n_splits)
{
    bool odd = a->out->dtype != RLX_F32 && (a->value_size % 2 || rx_gpu_offset(a->out) % 2);
    return n_splits > 1 || odd || (a->sinks && a->pages);
}

static rx_gpu_ref add_partial(rx_gpu_build *b, const rx_attention *a, uint64_t n_splits)
{
    uint64_t n_lines = (uint64_t)(a->n_batch * a->n_heads * a->n_queries) * n_splits;
    return rx_gpu_scratch(b, n_lines * (uint64_t)(a->value_size + 2) * 4);
}

static void add_merge(rx_gpu_build *b, const rx_attention *a, rx_gpu_ref partial, uint64_t n_splits)
{
    const rx_gpu_caps *caps = a->call->caps;
    uint32_t local = rx_gpu_local(caps, 128);
    uint64_t n = (uint64_t)rx_view_elements(a->out);
    const rx_args_attention_merge args = {
        .bind = {.partial = partial, .sinks = a->sinks_ref, .o = RX_REF_OUT(0)},
        .spec = {.T = a->out->dtype, .HAS_SINKS = a->sinks != NULL, .HEADS_LAST = a->head == 2},
        .push = {.n = (uint32_t)n, .n_queries = (uint32_t)a->n_queries,
                 .n_heads = (uint32_t)a->n_heads, .group = (uint32_t)a->group,
                 .dv = (uint32_t)a->value_size, .n_splits = (uint32_t)n_splits,
                 .o_at = rx_gpu_offset(a->out), .sinks_at = offset_or_0(a->sinks)},
    };
    rx_flat_grid(rx_add_attention_merge(b, RX_K_attention_merge, local, &args), caps,
                 rx_ceil_div(n, a->out->dtype == RLX_F32 ? 1 : 2));
}

/* The arguments of a kernel that may leave partial sums in scratch memory, to be merged; n_groups
 * without splits. */
static rx_args_attention_base make_args(rx_gpu_build *b, const rx_attention *a, uint64_t n_groups,
                                        uint64_t n_splits)
{
    const bool merge = rx_attention_needs_merge(a, n_splits);
    rx_args_attention_base args = rx_attention_args(a, merge, n_groups * n_splits, n_splits);
    if (merge)
        args.bind.o = add_partial(b, a, n_splits);
    return args;
}

/* ---- Few rows -------------------------------------------------------------------------------- */

#define DECODE_ROWS 16

/* A use of attention_decode.comp: its specialisation constants and its grid. */
typedef struct decode {
    bool halves;
    uint32_t local, rows, team, at_once, teams, per, join_rows, share;
    uint64_t n_groups, n_splits; /* n_groups without splits */
} decode;

/* Bytes of shared memory when `rows` rows are joined at a time. */
static uint64_t decode_shared_bytes(const rx_attention *a, const decode *s, uint32_t rows)
{
    uint64_t slots = s->local / s->team / s->per;
    return slots * ((uint64_t)a->value_size * rows + 2 * s->rows) * 4 + 16;
}

/* One workgroup per compute unit was fastest on an H200; a split has at least 32 keys. */
static uint64_t count_decode_splits(const rx_attention *a, uint64_t n_groups)
{
    const rx_gpu_caps *caps = a->call->caps;
    uint64_t units = caps->compute_units ? caps->compute_units : 32;
    uint64_t n = caps->is_software ? 4 : units / n_groups;
    uint64_t most = rx_ceil_div((uint64_t)a->n_keys, 32);
    const uint32_t *knob = rx_gpu_knob(caps, RX_KNOB_KEYS);
    if (is_invariant(a))
        return count_fixed_splits(a);
    n = knob ? n * knob[0] / knob[1] : n;
    n = n < most ? n : most;
    return n > 32 ? 32 : n ? n : 1;
}

/* Keys that a team loads at once, at most 4: fewer when their number is unknown or workgroups would
 * be left without keys. */
static uint32_t count_at_once(const rx_attention *a, const decode *s, uint32_t each)
{
    uint32_t n = each > 2 ? 1 : each == 2 || s->rows == 8 || (s->halves && a->lengths) ? 2 : 4;
    while (n > 1 && s->n_splits * s->teams * n > (uint64_t)a->n_keys)
        n /= 2;
    return n;
}

/* Rows of a workgroup and lanes of a team, limited by the registers of a lane for its elements of
 * each row's query and sum; 16 teams for vectors of 8 bytes. */
static decode shape_decode(const rx_attention *a, bool halves)
{
    const rx_gpu_caps *caps = a->call->caps;
    uint32_t per = halves || a->k->dtype == RLX_F32 ? 4 : 8;
    int64_t size = a->key_size > a->value_size ? a->key_size : a->value_size;
    uint32_t vectors = (uint32_t)size / per, widest = rx_pow2_down(caps->subgroup);
    uint32_t limit = halves ? 32 : 16;
    widest = widest > limit ? limit : widest;
    decode s = {.halves = halves, .rows = rx_pow2_up((uint32_t)(a->n_rows < 8 ? a->n_rows : 8))};
    s.team = rx_pow2_up(vectors < s.rows ? s.rows : vectors);
    s.team = s.team < widest ? s.team : widest;
    uint32_t each = (uint32_t)rx_ceil_div(vectors, s.team);
    while (s.rows > 1 && (s.rows > s.team || s.rows * each * per > 64))
        s.rows /= 2;
    const uint32_t local = halves && s.team >= 8 ? 16 * s.team : 256;
    s.local = caps->is_software ? 32 : rx_gpu_local(caps, local);
    s.per = s.local % caps->subgroup == 0 ? caps->subgroup / s.team : 1;
    s.per = s.per < 1 || (s.per & (s.per - 1)) ? 1 : s.per;
    uint64_t most = caps->max_shared_bytes;
    while (s.local > caps->subgroup && decode_shared_bytes(a, &s, 1) > most)
        s.local /= 2;
    s.join_rows = s.rows;
    while (s.join_rows > 1 && decode_shared_bytes(a, &s, s.join_rows) > most)
        s.join_rows /= 2;
    s.teams = s.local / s.team;
    s.share = 1;
    while (s.share < s.teams / s.per && s.share < s.team * s.per &&
           s.local / s.share >= 2 * s.join_rows * (uint32_t)a->value_size / 4)
        s.share *= 2;
    s.n_groups = (uint64_t)(a->n_batch * a->n_kv_heads) *
                 rx_ceil_div((uint64_t)a->n_rows, s.rows);
    s.n_splits = count_decode_splits(a, s.n_groups);
    s.at_once = count_at_once(a, &s, each);
    return s;
}

static bool suits_decode(const rx_attention *a)
{
    const rx_gpu_caps *caps = a->call->caps;
    int64_t per = a->k->dtype == RLX_F32 ? 4 : 8;
    if (!caps->subgroup_shuffle || caps->subgroup > 128 ||
        !rx_kernel_available(RX_K_attention_decode, caps))
        return false;
    /* A head of size 0 would need arrays of length 0. */
    if (a->n_rows > DECODE_ROWS || a->n_keys == 0 || a->key_size == 0 || a->key_size > 1024 ||
        a->value_size > 1024)
        return false;
    if ((uint64_t)(a->n_kv_heads * a->n_rows) > caps->max_groups[1] ||
        (uint64_t)a->n_batch > caps->max_groups[2])
        return false;
    return rx_attention_is_aligned(a->q, a->q->dtype == RLX_F32 ? 4 : 8) &&
           rx_attention_is_aligned(a->k, per) && rx_attention_is_aligned(a->v, per);
}

/* Whether the last workgroup of each group of rows can join the splits and write the result. */
static bool can_join(const rx_attention *a, const decode *s)
{
    const rx_gpu_caps *caps = a->call->caps;
    return s->n_splits > 1 && s->n_groups <= RX_ATTN_COUNTERS && !is_invariant(a) &&
           !rx_attention_needs_merge(a, 1) &&
           caps->max_bindings >= 10 && rx_kernel_available(RX_K_attention_join, caps);
}

/* Vectors of 8 bytes take more instructions per key, but fewer registers and less code. On an H200
 * they are faster for few keys, equal for many, and slower for many when such steps run
 * concurrently. The number of keys is unknown when lengths are an operand. */
static bool sees_many_keys(const rx_attention *a, const decode *s)
{
    return !a->lengths && (uint64_t)a->n_keys > 128 * s->n_splits;
}

rx_gpu_ref rx_attention_parts(rx_gpu_build *b, const rx_attention *a, uint64_t n_splits)
{
    const uint64_t n_rows = (uint64_t)(a->n_batch * a->n_heads * a->n_queries);
    const uint64_t n_lines = n_splits > 1 ? n_rows * n_splits : 1;
    return rx_gpu_scratch(b, n_lines * (uint64_t)(a->value_size + 4) * 4);
}

rx_gpu_ref rx_attention_counters(rx_gpu_build *b, uint64_t n_groups, uint64_t n_splits)
{
    static const uint32_t zeros[RX_ATTN_COUNTERS];
    return rx_gpu_add_table(b, zeros, n_splits > 1 ? n_groups * 4 : 4);
}

static rx_args_attention_decode decode_args(const rx_args_attention_base *base, const decode *s)
{
    return (rx_args_attention_decode){
        .bind = {base->bind},
        .spec = {.attention_base = base->spec, .R = s->rows, .TEAM = s->team, .T = s->at_once,
                 .TEAMS = s->teams, .PER = s->per, .AT = s->join_rows, .SHARE = s->share},
        .push = {base->push},
    };
}

static rx_gpu_dispatch *add_joined(rx_gpu_build *b, const rx_attention *a, const decode *s)
{
    const rx_args_attention_base base = rx_attention_args(a, true, s->n_groups * s->n_splits,
                                                          s->n_splits);
    const rx_args_attention_decode args = decode_args(&base, s);
    const rx_args_attention_join join = {
        .bind = {.attention_decode = args.bind, .partial = rx_attention_parts(b, a, s->n_splits),
                 .counters = rx_attention_counters(b, s->n_groups, s->n_splits)},
        .spec = {args.spec}, .push = {args.push}};
    return rx_add_attention_join(b, s->halves ? RX_K_attention_join_halves
                                              : RX_K_attention_join, s->local, &join);
}

static void set_decode_grid(rx_gpu_dispatch *d, const rx_attention *a, const decode *s)
{
    d->groups[0] = (uint32_t)s->n_splits;
    d->groups[1] = (uint32_t)(s->n_groups / (uint64_t)a->n_batch);
    d->groups[2] = (uint32_t)a->n_batch;
}

static bool add_decode(rx_gpu_build *b, const rx_attention *a)
{
    if (!suits_decode(a))
        return false;
    decode s = shape_decode(a, a->k->dtype != RLX_F32);
    if (s.halves && (!can_join(a, &s) || sees_many_keys(a, &s)))
        s = shape_decode(a, false);
    if (can_join(a, &s)) {
        set_decode_grid(add_joined(b, a, &s), a, &s);
        return true;
    }
    const rx_args_attention_base base = make_args(b, a, s.n_groups, s.n_splits);
    const rx_args_attention_decode args = decode_args(&base, &s);
    set_decode_grid(rx_add_attention_decode(b, RX_K_attention_decode, s.local, &args), a, &s);
    if (rx_attention_needs_merge(a, s.n_splits))
        add_merge(b, a, base.bind.o, s.n_splits);
    return true;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Specialisation constants of attention.comp. */
typedef struct tile {
    uint32_t bq, dc, dvc;
} tile;

#define TILE_KEYS 64
#define TILE_LANES 16 /* invocations per row */

/* Including the queries of a ragged attention. */
static uint64_t tile_bytes(const tile *t)
{
    uint64_t vectors = (t->bq + TILE_KEYS) * (uint64_t)(t->dc / 4 + 1);
    if (vectors < t->dvc)
        vectors = t->dvc;
    return vectors * 16 + t->bq * (uint64_t)(TILE_KEYS + TILE_LANES + 2) * 4 + 32;
}

/* Parts of equal size of a key, at most `most` elements each. */
static uint32_t cut_key(int64_t key_size, uint32_t most)
{
    uint64_t size = key_size > 0 ? (uint64_t)key_size : 1, n = rx_ceil_div(size, most);
    return (uint32_t)rx_ceil_div(rx_ceil_div(size, n), 4) * 4;
}

static uint64_t count_tiles(const rx_attention *a, const tile *t)
{
    return (uint64_t)(a->n_batch * a->n_kv_heads) * rx_ceil_div((uint64_t)a->n_rows, t->bq) *
           rx_ceil_div((uint64_t)a->value_size, t->dvc);
}

static tile pick_tile(const rx_attention *a)
{
    const rx_gpu_caps *caps = a->call->caps;
    tile t = {.bq = 64};
    int64_t columns = (int64_t)rx_ceil_div((uint64_t)a->value_size, 64) * 64;
    t.dvc = columns < 256 ? (uint32_t)columns : 256;
    while (t.bq > 16 && (a->n_rows <= t.bq / 2 || t.bq * 4 > caps->max_invocations ||
                         caps->is_software || is_invariant(a)))
        t.bq /= 2;
    /* Half a device without work costs more than keys that are read twice. */
    if (t.bq == 64 && 2 * count_tiles(a, &t) <= caps->compute_units)
        t.bq = 32;
    for (;; t.bq /= 2)
        for (uint32_t dc = 32; dc >= 8; dc /= 2) {
            t.dc = cut_key(a->key_size, dc);
            if (tile_bytes(&t) <= caps->max_shared_bytes || (t.bq == 16 && dc == 8))
                return t;
        }
}

static void add_tiled(rx_gpu_build *b, const rx_attention *a, rx_gpu_ref partial)
{
    tile t = pick_tile(a);
    bool vector = rx_attention_is_aligned(a->q, 4) && rx_attention_is_aligned(a->k, 4) &&
                  rx_attention_is_aligned(a->v, 4);
    uint64_t n_groups = count_tiles(a, &t);
    uint64_t n_splits = a->keys ? 1 : count_splits(a, n_groups, 2 * TILE_KEYS);
    const bool merge = !a->keys && rx_attention_needs_merge(a, n_splits);
    rx_args_attention_base base;
    if (a->keys) {
        base = rx_attention_args(a, true, n_groups, a->keys->n | a->keys->index << 16);
        base.bind.o = partial;
    } else {
        base = make_args(b, a, n_groups, n_splits);
    }
    const rx_args_attention args = {
        .bind = {base.bind},
        .spec = {.attention_base = base.spec, .QD = (uint32_t)a->q->stride[3],
                 .KD = (uint32_t)a->k->stride[3], .VD = (uint32_t)a->v->stride[3], .BQ = t.bq,
                 .DC = t.dc, .DVC = t.dvc},
        .push = {base.push},
    };
    rx_gpu_grid(rx_add_attention(b, vector ? RX_K_attention_v4 : RX_K_attention, t.bq * 4, &args),
                a->call->caps, n_groups * n_splits);
    if (merge)
        add_merge(b, a, base.bind.o, n_splits);
}

/* A part of a split step. Without keys to merge it is a range of the queries of a causal
 * attention. */
static rlx_status lower_cut(rx_gpu_build *b, rx_attention *a)
{
    const rx_gpu_keys all = {.end = a->n_keys, .total = a->n_keys, .n = 1},
                      pages = {.end = a->k->dim[0], .total = a->k->dim[0], .n = 1};
    const rx_gpu_keys *keys = a->call->keys;
    if (keys && keys->merge) {
        a->value_size = a->v->dim[3] - 2;
        add_merge(b, a, RX_REF_IN(RX_ATTN_V), keys->n);
        return b->status;
    }
    a->keys = keys ? keys : a->pages ? &pages : &all;
    rx_gpu_ref sums = keys ? RX_REF_OUT(0) : add_partial(b, a, 1);
    add_tiled(b, a, sums);
    if (!keys)
        add_merge(b, a, sums, 1);
    return b->status;
}

rlx_status rx_gpu_lower_attention(rx_gpu_build *b, const rx_gpu_call *c)
{
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "an operand has more than 2^32 elements");
    rx_attention a = make_attention(c);
    if (c->keys || (a.n_after && (a.desc->causal || a.desc->window)))
        return lower_cut(b, &a);
    if (!rx_attention_frag(b, &a) && !rx_attention_plain(b, &a) && !add_decode(b, &a))
        add_tiled(b, &a, RX_REF_NONE);
    return b->status;
}

/* ---- Rows of many sequences ------------------------------------------------------------------ */

#define MANY_QUERIES 128 /* with as many or more, most belong to prompt chunks */

/* The operands of a ragged attention as those of a paged one. */
typedef struct ragged {
    rx_view q, k, v;
    rlx_attention_desc desc;
} ragged;

/* [N, heads, size] as [N / n, n, heads, size]. */
static rx_view cut_first(const rx_view *v, int64_t n)
{
    rx_view r = *v;
    r.rank = 4;
    for (int i = 3; i > 1; i--) {
        r.dim[i] = v->dim[i - 1];
        r.stride[i] = v->stride[i - 1];
    }
    r.dim[1] = n;
    r.dim[0] = n ? v->dim[0] / n : 0;
    r.stride[1] = v->stride[0];
    r.stride[0] = v->stride[0] * n;
    return r;
}

/* `each`: every query is a batch of its own; else all are one batch. */
static rx_attention make_ragged(const rx_gpu_call *c, ragged *r, bool each)
{
    const rlx_ragged_attention_desc *d = c->attr;
    const rx_view *q = &c->in[RX_ATTN_Q];
    r->q = cut_first(q, each ? 1 : q->dim[0]);
    r->k = cut_first(&c->in[RX_ATTN_K], d->page);
    r->v = cut_first(&c->in[RX_ATTN_V], d->page);
    r->desc = (rlx_attention_desc){RLX_INIT(rlx_attention_desc), .layout = RLX_BSHD,
                                   .scale = d->scale, .soft_cap = d->soft_cap,
                                   .window = d->window, .page = d->page};
    rx_attention a = {.call = c, .desc = &r->desc, .q = &r->q, .k = &r->k, .v = &r->v,
                      .out = &c->out[0], .table = &c->in[RX_RAGGED_TABLE],
                      .lengths = &c->in[RX_RAGGED_LENGTHS], .pages = &c->in[RX_RAGGED_PAGES],
                      .pages_ref = RX_REF_IN(RX_RAGGED_PAGES), .head = 2, .seq = 1};
    a.sinks = rx_gpu_in(c, RX_RAGGED_SINKS);
    a.sinks_ref = a.sinks ? RX_REF_IN(RX_RAGGED_SINKS) : RX_REF_NONE;
    set_sizes(&a);
    return a;
}

static rx_kernel ragged_kernel(const rx_attention *a)
{
    if (rlx_dtype_is_packed(a->k->dtype))
        return RX_K_attention_ragged_packed;
    const bool vector = rx_attention_is_aligned(a->q, 4) && rx_attention_is_aligned(a->k, 4) &&
                        rx_attention_is_aligned(a->v, 4);
    return vector ? RX_K_attention_ragged_v4 : RX_K_attention_ragged;
}

/* With few queries each has a tile of its own, since adjacent ones belong to different
 * sequences. */
static void add_ragged(rx_gpu_build *b, const rx_attention *a)
{
    const tile t = pick_tile(a);
    const bool few = a->n_queries < MANY_QUERIES;
    const uint64_t group = (uint64_t)a->group;
    const uint64_t rows = group > t.bq ? t.bq : few ? group : t.bq / group * group;
    const uint64_t n_groups = (uint64_t)a->n_kv_heads * rx_ceil_div((uint64_t)a->n_rows, rows) *
                              rx_ceil_div((uint64_t)a->value_size, t.dvc);
    const uint64_t n_splits = count_splits(a, n_groups, 2 * TILE_KEYS);
    const rx_args_attention_base base = make_args(b, a, n_groups, n_splits);
    const rx_args_attention_ragged args = {
        .bind = {{base.bind}},
        .spec = {.attention = {.attention_base = base.spec, .QD = (uint32_t)a->q->stride[3],
                               .KD = (uint32_t)a->k->stride[3], .VD = (uint32_t)a->v->stride[3],
                               .BQ = t.bq, .DC = t.dc, .DVC = t.dvc}, .RT = (uint32_t)rows},
        .push = {{base.push}},
    };
    rx_gpu_grid(rx_add_attention_ragged(b, ragged_kernel(a), t.bq * 4, &args), a->call->caps,
                n_groups * n_splits);
    if (rx_attention_needs_merge(a, n_splits))
        add_merge(b, a, base.bind.o, n_splits);
}

rlx_status rx_gpu_lower_ragged_attention(rx_gpu_build *b, const rx_gpu_call *c)
{
    ragged r;
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "an operand has more than 2^32 elements");
    if (c->in[RX_RAGGED_PAGES].dim[0] == 0)
        return rx_gpu_fail(b, c, "the page table has no rows");
    /* Under `exact` the choice must not depend on the number of queries. On an H200 tiles of f32
     * are no faster than single queries even where many belong to one sequence. */
    rx_attention a = make_ragged(c, &r, true);
    if (!rlx_dtype_is_packed(a.k->dtype) && add_decode(b, &a))
        return b->status;
    a = make_ragged(c, &r, false);
    add_ragged(b, &a);
    return b->status;
}
