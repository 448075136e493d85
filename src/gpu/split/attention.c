/* SPDX-License-Identifier: MIT */
/* Attention over more keys than a binding holds: splits of the keys (of a paged cache: of the pool)
 * give partial sums per row of queries, which one dispatch merges. rope with larger tables. */
#include "gpu/select/attention.h"
#include "gpu/split/part.h"

#define MAX_PARTS 4096

/* How the keys are split. */
typedef struct key_cut {
    int axis;             /* of k and v */
    int64_t total, length;
    bool mask;            /* the mask is split too, along its last axis */
} key_cut;

/* Lowers *most to the indices of an axis that fit into a binding. */
static void limit_length(const rx_part *p, size_t i, int axis, int64_t *most)
{
    const rx_view *v = &p->view[i];
    const uint64_t step = rx_part_step(v, axis), room = rx_part_room(p->call.caps, v->dtype);
    const int64_t fits = !rx_part_place_fits(p, i, axis) ? 0
                         : step ? (int64_t)(room / step) : *most;
    *most = fits < *most ? fits : *most;
}

/* False: not even one index of k, v or the mask would fit. */
static bool plan_keys(const rx_part *p, key_cut *k)
{
    const rlx_attention_desc *d = p->call.attr;
    const bool paged = rx_gpu_in(&p->call, RX_ATTN_PAGES) != NULL;
    const rx_view *mask = rx_gpu_in(&p->call, RX_ATTN_MASK);
    rx_gpu_window w;
    *k = (key_cut){.axis = paged ? 0 : d->layout == RLX_BHSD ? 2 : 1};
    k->total = k->length = p->view[RX_ATTN_K].dim[k->axis];
    k->mask = mask && !rx_part_window(p, RX_ATTN_MASK, &w);
    if (p->call.keys || (k->mask && (paged || mask->dim[mask->rank - 1] == 1)))
        return false;
    if (!k->mask && rx_part_window(p, RX_ATTN_K, &w) && rx_part_window(p, RX_ATTN_V, &w))
        return false;
    limit_length(p, RX_ATTN_K, k->axis, &k->length);
    limit_length(p, RX_ATTN_V, k->axis, &k->length);
    if (k->mask)
        limit_length(p, RX_ATTN_MASK, mask->rank - 1, &k->length);
    return k->length > 0 && rx_part_window(p, RX_ATTN_Q, &w) &&
           rx_part_window(p, p->call.n_in, &w);
}

/* The sums [rows, parts, size of a value + 2] as a tensor of four axes. */
static bool place_sums(const rx_part *p, int64_t n_parts, rx_view *sums)
{
    const rx_view *y = &p->view[p->call.n_in];
    const int64_t size = y->dim[3] + 2;
    const int64_t dim[4] = {1, 1, rx_view_elements(y) / y->dim[3] * n_parts, size};
    rx_view_set_dense(sums, RLX_F32, 4, dim);
    sums->data = NULL;
    return (uint64_t)rx_view_elements(sums) * 4 <= p->call.caps->max_binding_bytes;
}

rx_split_by_keys rx_split_takes_keys(const rx_part *p)
{
    key_cut k;
    rx_view sums;
    if (p->call.op != RX_OP_attention || !rx_view_elements(&p->view[p->call.n_in]) ||
        !plan_keys(p, &k))
        return RX_KEYS_NO;
    const int64_t n = (k.total + k.length - 1) / k.length;
    return n > MAX_PARTS ? RX_KEYS_NO : place_sums(p, n, &sums) ? RX_KEYS_YES : RX_KEYS_FEWER_ROWS;
}

rlx_status rx_split_keys(rx_gpu_build *b, const rx_part *p, int depth)
{
    const size_t y = p->call.n_in, mark = b->n_scratch;
    key_cut k;
    rx_view sums;
    rx_gpu_ref ref;
    plan_keys(p, &k);
    rx_gpu_keys keys = {.total = k.total, .n = (uint32_t)((k.total + k.length - 1) / k.length)};
    place_sums(p, keys.n, &sums);
    rx_part_stage(b, &sums, &ref);
    for (; keys.index < keys.n; keys.index++) {
        rx_part q = *p;
        const int64_t left = k.total - keys.end, length = left < k.length ? left : k.length;
        keys.first = keys.end;
        keys.end += length;
        for (size_t i = RX_ATTN_K; i <= RX_ATTN_V; i++)
            q.view[i] = rx_part_narrow(&p->view[i], k.axis, keys.first, length);
        if (k.mask)
            q.view[RX_ATTN_MASK] = rx_part_narrow(&p->view[RX_ATTN_MASK],
                                                  p->view[RX_ATTN_MASK].rank - 1, keys.first,
                                                  length);
        q.view[y] = sums;
        q.ref[y] = ref;
        q.call.keys = &keys;
        RLX_TRY(rx_part_split(b, &q, depth + 1));
    }
    rx_part q = *p;
    keys.merge = true;
    q.call.keys = &keys;
    q.view[RX_ATTN_K] = rx_part_narrow(&p->view[RX_ATTN_K], k.axis, 0, 1);
    q.view[RX_ATTN_V] = sums;
    q.ref[RX_ATTN_V] = ref;
    if (k.mask)
        q.view[RX_ATTN_MASK].rank = -1;
    RLX_TRY(rx_part_split(b, &q, depth + 1));
    b->n_scratch = mark;
    return b->status;
}

/* Gathers the table rows at the positions, then rope without positions. */
bool rx_split_rope(const rx_steps *s)
{
    const rlx_rope_desc *d = s->part->call.attr;
    const int seq = d->layout == RLX_BHSD ? 2 : 1;
    const rx_axis_attr rows = {0};
    if (!rx_gpu_in(&s->part->call, 3) || !rx_view_is_dense(&s->part->view[1]) ||
        !rx_view_is_dense(&s->part->view[2]))
        return false;
    rx_tensor at = rx_steps_tensor(s, 3), t[4];
    const int64_t n = s->part->view[0].dim[seq], stride = at.view.stride[at.view.rank - 1];
    if (rx_view_elements(&at.view) != n || stride != 1)
        return false;
    rx_view_set_dense(&at.view, at.view.dtype, 1, &n);
    at.view.data = s->part->view[3].data;
    t[0] = rx_steps_tensor(s, 0);
    t[3] = rx_steps_tensor(s, s->part->call.n_in);
    for (size_t i = 1; i < 3; i++) {
        const rx_tensor table = rx_steps_tensor(s, i);
        t[i] = rx_steps_like(s, table.view.dtype, &table.view, 0, n);
        rx_steps_add(s, RX_OP_gather, &rows, (rx_tensor[]){table, at, t[i]}, 2, 1);
    }
    rx_steps_add(s, RX_OP_rope, d, t, 3, 1);
    return true;
}
