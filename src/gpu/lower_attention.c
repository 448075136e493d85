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
#include "gpu/attention.h"
#include "gpu/product.h"
#include "gpu/rows.h"

#define LOG2_E 1.4426950408889634

/* ---- What every kernel is told --------------------------------------------------------------- */

/* Strides of the mask along [B, H, Sq, Sk], 0 where it broadcasts. */
static void set_mask_strides(rx_attention *a)
{
    const rx_view *m = a->mask;
    for (int i = 0; m && i < m->rank; i++)
        if (m->dim[i] != 1)
            a->mask_stride[4 - m->rank + i] = m->stride[i];
}

static rx_attention make_attention(const rx_gpu_call *c)
{
    rx_attention a = {.call = c, .desc = c->attr, .q = &c->in[RX_ATTN_Q], .k = &c->in[RX_ATTN_K],
                      .v = &c->in[RX_ATTN_V], .out = &c->out[0]};
    a.mask = rx_gpu_in(c, RX_ATTN_MASK);
    a.lengths = rx_gpu_in(c, RX_ATTN_LENGTHS);
    a.sinks = rx_gpu_in(c, RX_ATTN_SINKS);
    a.pages = rx_gpu_in(c, RX_ATTN_PAGES);
    a.head = a.desc->layout == RLX_BHSD ? 1 : 2;
    a.seq = 3 - a.head;
    a.n_batch = a.q->dim[0];
    a.n_heads = a.q->dim[a.head];
    a.n_kv_heads = a.k->dim[a.head];
    a.group = a.n_kv_heads ? a.n_heads / a.n_kv_heads : 1;
    a.n_queries = a.q->dim[a.seq];
    a.n_keys = a.pages ? a.pages->dim[1] * a.desc->page : a.k->dim[a.seq];
    if (a.k->dim[0] == 0)
        a.n_keys = 0;
    a.n_rows = a.n_queries * a.group;
    a.key_size = a.q->dim[3];
    a.value_size = a.v->dim[3];
    if (c->keys && !a.pages)
        a.n_keys = c->keys->total;
    if (c->part_total)
        a.n_after = c->part_total - c->part_first - a.n_queries;
    set_mask_strides(&a);
    return a;
}

/* Bits of OPTIONS in attention.glsl. */
static uint32_t option_bits(const rx_attention *a, bool partial)
{
    const rx_view *n = a->lengths;
    return (uint32_t)a->desc->causal | (uint32_t)(a->desc->window > 0) << 1 |
           (uint32_t)(a->desc->soft_cap > 0) << 2 | (uint32_t)(a->sinks && !a->pages) << 3 |
           (uint32_t)partial << 4 | (uint32_t)(n != NULL) << 5 |
           (uint32_t)(n && n->dtype == RLX_I64) << 6 | (uint32_t)(n && n->rank == 1) << 7 |
           (uint32_t)(a->keys != NULL) << 8 | (uint32_t)(a->n_queries == 1) << 9;
}

void rx_attention_spec(rx_gpu_dispatch *d, const rx_attention *a, bool partial)
{
    const uint32_t spec[] = {a->q->dtype, a->k->dtype, a->mask ? a->mask->dtype : RLX_NO_TYPE,
                             option_bits(a, partial), (uint32_t)a->key_size,
                             (uint32_t)a->value_size, (uint32_t)a->group,
                             a->pages ? (uint32_t)a->desc->page : 0};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
}

/* Offset and strides of batch (or page), head and sequence. Negative strides wrap: so do the sums
 * in the shaders. */
static void push_places(rx_gpu_dispatch *d, const rx_attention *a, const rx_view *v)
{
    const int64_t first = a->keys && v != a->q ? a->keys->first : 0;
    rx_gpu_push(d, rx_gpu_offset(v) - (uint32_t)(first * v->stride[a->pages ? 0 : a->seq]));
    rx_gpu_push(d, (uint32_t)v->stride[0]);
    rx_gpu_push(d, (uint32_t)v->stride[a->head]);
    rx_gpu_push(d, (uint32_t)v->stride[a->seq]);
}

/* Where results go, or which part of the step this is. */
static void push_result(rx_gpu_dispatch *d, const rx_attention *a)
{
    const int64_t line = a->value_size, heads = a->n_heads, queries = a->n_queries;
    if (a->keys) {
        rx_gpu_push(d, (uint32_t)a->n_after);
        rx_gpu_push(d, (uint32_t)a->keys->first);
        rx_gpu_push(d, (uint32_t)a->keys->end);
        return;
    }
    rx_gpu_push(d, rx_gpu_offset(a->out));
    rx_gpu_push(d, (uint32_t)(a->head == 1 ? queries * line : line));
    rx_gpu_push(d, (uint32_t)(a->head == 1 ? line : heads * line));
}

/* The mask begins with key 0, or where k does when it has as many keys. */
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

void rx_attention_push(rx_gpu_dispatch *d, const rx_attention *a, uint64_t n_groups,
                       uint64_t n_splits)
{
    const double cap = a->desc->soft_cap;
    const int64_t window = a->desc->window < INT32_MAX / 2 ? a->desc->window : INT32_MAX / 2;
    rx_gpu_push(d, (uint32_t)a->n_queries);
    rx_gpu_push(d, (uint32_t)a->n_keys);
    rx_gpu_push(d, (uint32_t)a->n_kv_heads);
    rx_gpu_push(d, (uint32_t)n_groups);
    rx_gpu_push(d, (uint32_t)n_splits);
    push_places(d, a, a->q);
    push_places(d, a, a->k);
    push_places(d, a, a->v);
    push_result(d, a);
    rx_gpu_push(d, mask_offset(a));
    for (int i = 0; i < 4; i++)
        rx_gpu_push(d, (uint32_t)a->mask_stride[i]);
    rx_gpu_push_f32(d, (float)(cap > 0 ? a->desc->scale / cap : a->desc->scale * LOG2_E));
    rx_gpu_push_f32(d, (float)(cap * LOG2_E));
    rx_gpu_push(d, (uint32_t)window);
    rx_gpu_push(d, offset_or_0(a->lengths));
    rx_gpu_push(d, offset_or_0(a->pages ? a->pages : a->sinks));
    rx_gpu_push(d, (uint32_t)(a->keys ? a->keys->total : a->k->dim[0]));
    rx_gpu_push(d, (uint32_t)a->n_batch);
}

void rx_attention_bind(rx_gpu_dispatch *d, const rx_attention *a, rx_gpu_ref k, rx_gpu_ref v,
                       rx_gpu_ref out)
{
    bool reports = a->lengths || a->pages;
    rx_gpu_bind(d, RX_REF_IN(RX_ATTN_Q), false);
    rx_gpu_bind(d, k, false);
    rx_gpu_bind(d, v, false);
    rx_gpu_bind(d, a->mask ? RX_REF_IN(RX_ATTN_MASK) : RX_REF_NONE, false);
    rx_gpu_bind(d, a->lengths ? RX_REF_IN(RX_ATTN_LENGTHS) : RX_REF_NONE, false);
    rx_gpu_bind(d, a->pages   ? RX_REF_IN(RX_ATTN_PAGES)
                   : a->sinks ? RX_REF_IN(RX_ATTN_SINKS)
                              : RX_REF_NONE, false);
    rx_gpu_bind(d, reports ? RX_REF_FLAGS : RX_REF_NONE, reports);
    rx_gpu_bind(d, out, true);
}

bool rx_attention_is_aligned(const rx_view *v, int64_t unit)
{
    bool ok = v->dim[3] % unit == 0 && v->stride[3] == 1 && rx_gpu_offset(v) % unit == 0;
    for (int i = 0; i < 3; i++)
        ok = ok && (v->dim[i] == 1 || v->stride[i] % unit == 0);
    return ok;
}

/* ---- Partial sums ---------------------------------------------------------------------------- */

/* Keys of a part in software: lavapipe of Mesa 22 leaves a loop after 65535 rounds. */
#define SOFTWARE_KEYS 32768

/* How many parts the keys are cut into: enough workgroups to keep the device busy, but each part
 * with at least `least` keys. */
static uint64_t count_splits(const rx_attention *a, uint64_t n_groups, int64_t least)
{
    const rx_gpu_caps *caps = a->call->caps;
    const uint64_t keys = (uint64_t)a->n_keys;
    uint64_t wanted = caps->is_software ? 4 : 2 * (caps->compute_units ? caps->compute_units : 32);
    uint64_t n = rx_ceil_div(wanted, n_groups);
    uint64_t most = rx_ceil_div(keys, (uint64_t)least);
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
    rx_gpu_dispatch *d = rx_gpu_add(b, RX_K_attention_merge, local);
    rx_gpu_bind(d, partial, false);
    rx_gpu_bind(d, a->sinks ? RX_REF_IN(RX_ATTN_SINKS) : RX_REF_NONE, false);
    rx_gpu_bind(d, RX_REF_OUT(0), true);
    rx_gpu_spec(d, a->out->dtype);
    rx_gpu_spec(d, a->sinks != NULL);
    rx_gpu_spec(d, a->head == 2);
    const uint64_t words[] = {n, (uint64_t)a->n_queries, (uint64_t)a->n_heads, (uint64_t)a->group,
                              (uint64_t)a->value_size, n_splits, rx_gpu_offset(a->out),
                              offset_or_0(a->sinks)};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        rx_gpu_push(d, (uint32_t)words[i]);
    uint64_t per_word = a->out->dtype == RLX_F32 ? 1 : 2;
    rx_gpu_grid(d, caps, rx_ceil_div(rx_ceil_div(n, per_word), local));
}

/* Groups, operands and result of a kernel that reads k and v as they are; n_groups without
 * splits. */
static void finish_dispatch(rx_gpu_build *b, rx_gpu_dispatch *d, const rx_attention *a,
                            uint64_t n_groups, uint64_t n_splits)
{
    bool merge = rx_attention_needs_merge(a, n_splits);
    rx_gpu_ref out = merge ? add_partial(b, a, n_splits) : RX_REF_OUT(0);
    rx_attention_bind(d, a, RX_REF_IN(RX_ATTN_K), RX_REF_IN(RX_ATTN_V), out);
    rx_attention_push(d, a, n_groups * n_splits, n_splits);
    if (merge)
        add_merge(b, a, out, n_splits);
}

/* ---- Few rows -------------------------------------------------------------------------------- */

#define DECODE_ROWS 16

/* How attention_decode.comp is used: its specialisation constants, and its grid. */
typedef struct decode {
    bool halves;
    uint32_t local, rows, team, at_once, teams, per, join_rows, share;
    uint64_t n_groups, n_splits; /* n_groups without splits */
} decode;

/* Shared memory when `rows` rows are joined at a time. */
static uint64_t decode_shared_bytes(const rx_attention *a, const decode *s, uint32_t rows)
{
    uint64_t slots = s->local / s->team / s->per;
    return slots * ((uint64_t)a->value_size * rows + 2 * s->rows) * 4 + 16;
}

/* One workgroup a unit was best on an H200; a part has at least 32 keys. */
static uint64_t count_decode_splits(const rx_attention *a, uint64_t n_groups)
{
    const rx_gpu_caps *caps = a->call->caps;
    uint64_t units = caps->compute_units ? caps->compute_units : 32;
    uint64_t n = caps->is_software ? 4 : units / n_groups;
    uint64_t most = rx_ceil_div((uint64_t)a->n_keys, 32);
    n = n < most ? n : most;
    return n > 32 ? 32 : n ? n : 1;
}

/* Keys that a team reads at once, at most 4: few where their number is not known or the workgroups
 * would have none. */
static uint32_t count_at_once(const rx_attention *a, const decode *s, uint32_t each)
{
    uint32_t n = each > 2 ? 1 : each == 2 || s->rows == 8 || (s->halves && a->lengths) ? 2 : 4;
    while (n > 1 && s->n_splits * s->teams * n > (uint64_t)a->n_keys)
        n /= 2;
    return n;
}

/* Rows of a workgroup and lanes of a team from what a lane holds in registers: its elements of each
 * row's query and sum; 16 teams where vectors are halves. */
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
    /* Keys without elements would be arrays without elements. */
    if (a->n_rows > DECODE_ROWS || a->n_keys == 0 || a->key_size == 0 || a->key_size > 1024 ||
        a->value_size > 1024)
        return false;
    if ((uint64_t)(a->n_kv_heads * a->n_rows) > caps->max_groups[1] ||
        (uint64_t)a->n_batch > caps->max_groups[2])
        return false;
    return rx_attention_is_aligned(a->q, a->q->dtype == RLX_F32 ? 4 : 8) &&
           rx_attention_is_aligned(a->k, per) && rx_attention_is_aligned(a->v, per);
}

/* Whether the last workgroup of some rows can join their parts and write the result. */
static bool can_join(const rx_attention *a, const decode *s)
{
    const rx_gpu_caps *caps = a->call->caps;
    return s->n_splits > 1 && s->n_groups <= RX_ATTN_COUNTERS && !rx_attention_needs_merge(a, 1) &&
           caps->max_bindings >= 10 && rx_kernel_available(RX_K_attention_join, caps);
}

/* Vectors of 8 bytes need more instructions for a key, but fewer registers and less code. On an
 * H200 they are better for few keys, about as good for many, and worse for many when such steps run
 * side by side. How many there are is not known when lengths come with each run. */
static bool sees_many_keys(const rx_attention *a, const decode *s)
{
    return !a->lengths && (uint64_t)a->n_keys > 128 * s->n_splits;
}

void rx_attention_join(rx_gpu_build *b, rx_gpu_dispatch *d, const rx_attention *a,
                       uint64_t n_groups, uint64_t n_splits)
{
    static const uint32_t zeros[RX_ATTN_COUNTERS];
    const uint64_t n_rows = (uint64_t)(a->n_batch * a->n_heads * a->n_queries);
    const uint64_t n_lines = n_splits > 1 ? n_rows * n_splits : 1;
    rx_attention_bind(d, a, RX_REF_IN(RX_ATTN_K), RX_REF_IN(RX_ATTN_V), RX_REF_OUT(0));
    rx_gpu_bind(d, rx_gpu_scratch(b, n_lines * (uint64_t)(a->value_size + 4) * 4), true);
    rx_gpu_bind(d, rx_gpu_add_table(b, zeros, n_splits > 1 ? n_groups * 4 : 4), true);
    rx_attention_push(d, a, n_groups * n_splits, n_splits);
}

static bool add_decode(rx_gpu_build *b, const rx_attention *a)
{
    if (!suits_decode(a))
        return false;
    decode s = shape_decode(a, a->k->dtype != RLX_F32);
    if (s.halves && (!can_join(a, &s) || sees_many_keys(a, &s)))
        s = shape_decode(a, false);
    bool join = can_join(a, &s);
    rx_kernel k = !join ? RX_K_attention_decode
                  : s.halves ? RX_K_attention_join_halves : RX_K_attention_join;
    rx_gpu_dispatch *d = rx_gpu_add(b, k, s.local);
    rx_attention_spec(d, a, join || rx_attention_needs_merge(a, s.n_splits));
    const uint32_t spec[] = {s.rows, s.team, s.at_once, s.teams, s.per, s.join_rows,
                             s.share};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    d->groups[0] = (uint32_t)s.n_splits;
    d->groups[1] = (uint32_t)(s.n_groups / (uint64_t)a->n_batch);
    d->groups[2] = (uint32_t)a->n_batch;
    if (join)
        rx_attention_join(b, d, a, s.n_groups, s.n_splits);
    else
        finish_dispatch(b, d, a, s.n_groups, s.n_splits);
    return true;
}

/* ---- Tiles ----------------------------------------------------------------------------------- */

/* Specialisation constants of attention.comp. */
typedef struct tile {
    uint32_t bq, dc, dvc;
} tile;

#define TILE_KEYS 64
#define TILE_LANES 16 /* invocations of a row */

static uint64_t tile_bytes(const tile *t)
{
    uint64_t vectors = (t->bq + TILE_KEYS) * (uint64_t)(t->dc / 4 + 1);
    if (vectors < t->dvc)
        vectors = t->dvc;
    return vectors * 16 + t->bq * (uint64_t)(TILE_KEYS + TILE_LANES) * 4 + 16;
}

/* Pieces of a key of equal size, at most `most` elements. */
static uint32_t cut_key(int64_t key_size, uint32_t most)
{
    uint64_t size = key_size > 0 ? (uint64_t)key_size : 1, n = rx_ceil_div(size, most);
    return (uint32_t)rx_ceil_div(rx_ceil_div(size, n), 4) * 4;
}

static tile pick_tile(const rx_attention *a)
{
    const rx_gpu_caps *caps = a->call->caps;
    tile t = {.bq = 64};
    int64_t columns = (int64_t)rx_ceil_div((uint64_t)a->value_size, 64) * 64;
    t.dvc = columns < 256 ? (uint32_t)columns : 256;
    while (t.bq > 16 && (a->n_rows <= t.bq / 2 || t.bq * 4 > caps->max_invocations ||
                         caps->is_software))
        t.bq /= 2;
    for (;; t.bq /= 2)
        for (uint32_t dc = 32; dc >= 8; dc /= 2) {
            t.dc = cut_key(a->key_size, dc);
            if (tile_bytes(&t) <= caps->max_shared_bytes || (t.bq == 16 && dc == 8))
                return t;
        }
}

/* The tiles of a step that is cut: partial sums go to `out`. */
static void finish_cut(rx_gpu_dispatch *d, const rx_attention *a, uint64_t n_groups,
                       rx_gpu_ref out)
{
    rx_attention_bind(d, a, RX_REF_IN(RX_ATTN_K), RX_REF_IN(RX_ATTN_V), out);
    rx_attention_push(d, a, n_groups, a->keys->n | a->keys->index << 16);
}

static void add_tiled(rx_gpu_build *b, const rx_attention *a, rx_gpu_ref partial)
{
    tile t = pick_tile(a);
    bool vector = rx_attention_is_aligned(a->q, 4) && rx_attention_is_aligned(a->k, 4) &&
                  rx_attention_is_aligned(a->v, 4);
    uint64_t n_groups = (uint64_t)(a->n_batch * a->n_kv_heads) *
                        rx_ceil_div((uint64_t)a->n_rows, t.bq) *
                        rx_ceil_div((uint64_t)a->value_size, t.dvc);
    uint64_t n_splits = a->keys ? 1 : count_splits(a, n_groups, 2 * TILE_KEYS);
    rx_kernel k = vector ? RX_K_attention_v4 : RX_K_attention;
    rx_gpu_dispatch *d = rx_gpu_add(b, k, t.bq * 4);
    rx_attention_spec(d, a, a->keys || rx_attention_needs_merge(a, n_splits));
    const uint32_t spec[] = {(uint32_t)a->q->stride[3], (uint32_t)a->k->stride[3],
                             (uint32_t)a->v->stride[3], t.bq, t.dc, t.dvc};
    for (size_t i = 0; i < sizeof spec / sizeof spec[0]; i++)
        rx_gpu_spec(d, spec[i]);
    rx_gpu_grid(d, a->call->caps, n_groups * n_splits);
    if (a->keys)
        finish_cut(d, a, n_groups, partial);
    else
        finish_dispatch(b, d, a, n_groups, n_splits);
}

/* A part of a step. Without keys to merge it is some of the queries of a causal one. */
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
