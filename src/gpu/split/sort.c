/* SPDX-License-Identifier: MIT */
/* top_k, sort, argsort, nonzero and sample of rows that are longer than a binding: parts are
 * sorted, then the best of the parts are, or parts are merged pairwise. Stable. */
#include <math.h>

#include "gpu/split/part.h"

/* index + number into `to`. */
static void add_number(const rx_steps *s, const rx_tensor *index, int64_t number, rx_tensor to)
{
    const rlx_dtype t = index->view.dtype;
    const rx_instr add = {.op = RX_OP_add, .arg = {0, 1}, .dtype = t};
    const rx_tensor constant = rx_steps_number(s, t, (double)number);
    rx_steps_region(s, &add, 1, (rx_tensor[]){*index, constant, to}, 2);
}

static void take(const rx_steps *s, int axis, rx_tensor x, rx_tensor places, rx_tensor to)
{
    const rx_axis_attr along = {axis};
    rx_steps_add(s, RX_OP_gather_elements, &along, (rx_tensor[]){x, places, to}, 2, 1);
}

/* ---- gather_elements ------------------------------------------------------------------------- */

/* Gathers the indices that lie in a part of x; `to` keeps what `before` has elsewhere. */
static void take_part(const rx_steps *s, rx_tensor part, int64_t first, rx_tensor before,
                      rx_tensor to)
{
    const int axis = (int)((const rx_axis_attr *)s->part->call.attr)->axis;
    const rx_tensor places = rx_steps_tensor(s, 1);
    const rlx_dtype t = places.view.dtype;
    const rx_tensor lowest = rx_steps_number(s, t, (double)first);
    const rx_tensor last = rx_steps_number(s, t, (double)(part.view.dim[axis] - 1));
    const rx_tensor zero = rx_steps_number(s, t, 0);
    const rx_tensor total = rx_steps_number(s, t, (double)s->part->view[0].dim[axis]);
    const rx_tensor inside = rx_steps_like(s, t, &places.view, -1, 0);
    const rx_tensor found = rx_steps_like(s, part.view.dtype, &places.view, -1, 0);
    /* Values 0 to 4: indices, first, last, zero, total; 5 ..: indices from the start, in the part.
     * */
    const rx_instr index[] = {{.op = RX_OP_add, .arg = {0, 4}, .dtype = t},
                              {.op = RX_OP_lt, .arg = {0, 3}, .dtype = RLX_BOOL},
                              {.op = RX_OP_where, .arg = {6, 5, 0}, .dtype = t},
                              {.op = RX_OP_sub, .arg = {7, 1}, .dtype = t},
                              {.op = RX_OP_max, .arg = {8, 3}, .dtype = t},
                              {.op = RX_OP_min, .arg = {9, 2}, .dtype = t}};
    rx_steps_region(s, index, 6, (rx_tensor[]){places, lowest, last, zero, total, inside}, 5);
    take(s, axis, part, inside, found);
    /* Values 7 ..: the index in the part is valid when clamping does not change it. */
    const rx_instr choose[] = {{.op = RX_OP_add, .arg = {0, 4}, .dtype = t},
                               {.op = RX_OP_lt, .arg = {0, 3}, .dtype = RLX_BOOL},
                               {.op = RX_OP_where, .arg = {8, 7, 0}, .dtype = t},
                               {.op = RX_OP_sub, .arg = {9, 1}, .dtype = t},
                               {.op = RX_OP_eq, .arg = {10, 2}, .dtype = RLX_BOOL},
                               {.op = RX_OP_where, .arg = {11, 5, 6}, .dtype = to.view.dtype}};
    rx_steps_region(s, choose, 6,
                    (rx_tensor[]){places, lowest, inside, zero, total, found, before, to}, 7);
}

/* Gathers from each window of x. A tensor of as many equal elements comes first, so that indices
 * out of range are reported; those are clamped. */
bool rx_split_take(const rx_steps *s)
{
    const int axis = (int)((const rx_axis_attr *)s->part->call.attr)->axis;
    const rx_tensor x = rx_steps_tensor(s, 0), places = rx_steps_tensor(s, 1);
    const rx_tensor y = rx_steps_tensor(s, 2);
    rx_gpu_window w;
    if (rx_part_window(s->part, 0, &w) || !rx_steps_is_outer(&x.view, axis))
        return false;
    const int64_t length = rx_steps_length(s, &x.view, axis, 1);
    const int64_t n = rx_steps_count(x.view.dim[axis], length);
    rx_tensor now[2] = {rx_steps_like(s, y.view.dtype, &y.view, -1, 0),
                        rx_steps_like(s, y.view.dtype, &y.view, -1, 0)};
    rx_tensor same = rx_steps_narrow(&x, axis, 0, 1);
    same.view.dim[axis] = x.view.dim[axis];
    same.view.stride[axis] = 0;
    take(s, axis, same, places, now[0]);
    for (int64_t i = 0; i < n; i++)
        take_part(s, rx_steps_narrow(&x, axis, i * length, length), i * length, now[i % 2],
                  i == n - 1 ? y : now[(i + 1) % 2]);
    return true;
}

/* ---- Sorting --------------------------------------------------------------------------------- */

/* A row in sorted parts: elements and their indices in the row. */
typedef struct sorting {
    const rx_steps *s;
    rlx_sort_desc desc;
    rlx_dtype place;   /* type of indices */
    int64_t length, n; /* of a part; parts */
    rx_tensor *values, *places;
} sorting;

static void sort_parts(sorting *o, const rx_tensor *x)
{
    const int axis = (int)o->desc.axis;
    for (int64_t k = 0; k < o->n; k++) {
        const rx_tensor part = rx_steps_narrow(x, axis, k * o->length, o->length);
        const rx_tensor order = rx_steps_like(o->s, o->place, &part.view, -1, 0);
        o->values[k] = rx_steps_like(o->s, x->view.dtype, &part.view, -1, 0);
        o->places[k] = rx_steps_like(o->s, o->place, &part.view, -1, 0);
        rx_steps_add(o->s, RX_OP_argsort, &o->desc, (rx_tensor[]){part, order}, 1, 1);
        take(o->s, axis, part, order, o->values[k]);
        add_number(o->s, &order, k * o->length, o->places[k]);
    }
}

/* Sorts parts k and k + 1 together; joint: elements and indices of both, their order, and both
 * sorted. */
static void merge_pair(sorting *o, int64_t k, const rx_tensor joint[5])
{
    const int axis = (int)o->desc.axis;
    const int64_t first = o->values[k].view.dim[axis];
    const int64_t both = first + o->values[k + 1].view.dim[axis];
    rx_tensor t[5];
    for (int i = 0; i < 5; i++)
        t[i] = rx_steps_narrow(&joint[i], axis, 0, both);
    rx_steps_join(o->s, axis, (rx_tensor[]){o->values[k], o->values[k + 1]}, 2, t[0]);
    rx_steps_join(o->s, axis, (rx_tensor[]){o->places[k], o->places[k + 1]}, 2, t[1]);
    rx_steps_add(o->s, RX_OP_argsort, &o->desc, (rx_tensor[]){t[0], t[2]}, 1, 1);
    take(o->s, axis, t[0], t[2], t[3]);
    take(o->s, axis, t[1], t[2], t[4]);
    for (int64_t i = 0; i < 2; i++) {
        const int64_t from = i ? first : 0, length = i ? both - first : first;
        const rx_tensor value = rx_steps_narrow(&t[3], axis, from, length);
        const rx_tensor place = rx_steps_narrow(&t[4], axis, from, length);
        rx_steps_add(o->s, RX_OP_copy, NULL, (rx_tensor[]){value, o->values[k + i]}, 1, 1);
        rx_steps_add(o->s, RX_OP_copy, NULL, (rx_tensor[]){place, o->places[k + i]}, 1, 1);
    }
}

/* Sorts parts by odd-even merging: as many rounds of pairs as there are parts. */
static bool sort_row(sorting *o, const rx_tensor *x)
{
    const int axis = (int)o->desc.axis;
    if (!rx_steps_is_outer(&x->view, axis))
        return false;
    const int64_t bytes = rlx_dtype_block_bytes(x->view.dtype);
    o->length = rx_steps_length(o->s, &x->view, axis, 2 * (bytes < 8 ? 8 / bytes : 1));
    o->n = rx_steps_count(x->view.dim[axis], o->length);
    o->values = rx_steps_list(o->s, o->n);
    o->places = rx_steps_list(o->s, o->n);
    if (!o->values || !o->places)
        return true;
    sort_parts(o, x);
    const rlx_dtype v = x->view.dtype, p = o->place;
    const rlx_dtype types[5] = {v, p, p, v, p};
    rx_tensor joint[5];
    for (int i = 0; i < 5; i++)
        joint[i] = rx_steps_like(o->s, types[i], &x->view, axis, 2 * o->length);
    for (int64_t round = 0; round < o->n; round++)
        for (int64_t k = round % 2; k + 1 < o->n && o->s->b->status == RLX_OK; k += 2)
            merge_pair(o, k, joint);
    return true;
}

bool rx_split_sort(const rx_steps *s)
{
    const rx_tensor x = rx_steps_tensor(s, 0), y = rx_steps_tensor(s, 1);
    const bool places = s->part->call.op == RX_OP_argsort;
    sorting o = {.s = s, .desc = *(const rlx_sort_desc *)s->part->call.attr,
                 .place = places ? y.view.dtype : RLX_I32};
    if (!sort_row(&o, &x))
        return false;
    if (s->b->status == RLX_OK)
        rx_steps_join(s, (int)o.desc.axis, places ? o.places : o.values, (size_t)o.n, y);
    return true;
}

/* ---- top_k ----------------------------------------------------------------------------------- */

/* The first k of a row that is fully sorted. */
static bool sort_all(const rx_steps *s, const rlx_topk_desc *d, rlx_dtype place)
{
    const rx_tensor x = rx_steps_tensor(s, 0);
    const int axis = (int)d->axis;
    sorting o = {.s = s, .desc = {.axis = axis, .descending = !d->smallest}, .place = place};
    if (!sort_row(&o, &x))
        return false;
    for (size_t i = 0; i < 2 && s->b->status == RLX_OK; i++) {
        if (i + 1 > s->part->call.n_out || s->part->view[1 + i].rank < 0)
            continue;
        rx_tensor whole = rx_steps_like(s, i ? place : x.view.dtype, &x.view, -1, 0);
        rx_steps_join(s, axis, i ? o.places : o.values, (size_t)o.n, whole);
        rx_steps_add(s, RX_OP_copy, NULL,
                     (rx_tensor[]){rx_steps_narrow(&whole, axis, 0, d->k),
                                   rx_steps_tensor(s, 1 + i)}, 1, 1);
    }
    return true;
}

bool rx_split_top_k(const rx_steps *s)
{
    const rlx_topk_desc *d = s->part->call.attr;
    const int axis = (int)d->axis;
    const rx_tensor x = rx_steps_tensor(s, 0), value = rx_steps_tensor(s, 1);
    const bool wants = s->part->call.n_out > 1 && s->part->view[2].rank >= 0;
    const rlx_dtype t = wants ? s->part->view[2].dtype : RLX_I32;
    if (!rx_steps_is_outer(&x.view, axis) || d->k > x.view.dim[axis])
        return false;
    const int64_t length = rx_steps_length(s, &x.view, axis, 1);
    const int64_t n = rx_steps_count(x.view.dim[axis], length);
    if (2 * d->k > length)
        return sort_all(s, d, t);
    rx_tensor *values = rx_steps_list(s, n), *places = rx_steps_list(s, n);
    int64_t total = 0;
    for (int64_t i = 0; i < n && values && places; i++) {
        const rx_tensor part = rx_steps_narrow(&x, axis, i * length, length);
        rlx_topk_desc here = *d;
        here.k = part.view.dim[axis] < d->k ? part.view.dim[axis] : d->k;
        total += here.k;
        const rx_tensor inside = rx_steps_like(s, t, &x.view, axis, here.k);
        values[i] = rx_steps_like(s, x.view.dtype, &x.view, axis, here.k);
        places[i] = rx_steps_like(s, t, &x.view, axis, here.k);
        rx_steps_add(s, RX_OP_top_k, &here, (rx_tensor[]){part, values[i], inside}, 1, 2);
        add_number(s, &inside, i * length, places[i]);
    }
    if (!values || !places)
        return true;
    const rx_tensor all = rx_steps_like(s, x.view.dtype, &x.view, axis, total);
    const rx_tensor all_places = rx_steps_like(s, t, &x.view, axis, total);
    const rx_tensor best = rx_steps_like(s, t, &x.view, axis, d->k);
    rx_steps_join(s, axis, values, (size_t)n, all);
    rx_steps_add(s, RX_OP_top_k, d, (rx_tensor[]){all, value, best}, 1, 2);
    if (!wants)
        return true;
    rx_steps_join(s, axis, places, (size_t)n, all_places);
    take(s, axis, all_places, best, rx_steps_tensor(s, 2));
    return true;
}

/* ---- nonzero --------------------------------------------------------------------------------- */

/* Row `axis` of the coordinates, from flat indices; `end` is none. */
static void add_coordinates(const rx_steps *s, rx_tensor numbers, int axis, rx_tensor end,
                            rx_tensor to)
{
    const rx_view *x = &s->part->view[0];
    int64_t step = 1;
    for (int i = axis + 1; i < x->rank; i++)
        step *= x->dim[i];
    const rx_instr instr[] = {{.op = RX_OP_div, .arg = {0, 1}, .dtype = RLX_I32},
                              {.op = RX_OP_mod, .arg = {5, 2}, .dtype = RLX_I32},
                              {.op = RX_OP_lt, .arg = {0, 3}, .dtype = RLX_BOOL},
                              {.op = RX_OP_where, .arg = {7, 6, 4}, .dtype = RLX_I32},
                              {.op = RX_OP_cast, .arg = {8}, .dtype = RLX_I64}};
    const rx_tensor t[] = {numbers, rx_steps_number(s, RLX_I32, (double)step),
                           rx_steps_number(s, RLX_I32, (double)x->dim[axis]), end,
                           rx_steps_number(s, RLX_I32, -1), to};
    rx_steps_region(s, instr, 5, t, 5);
}

/* Nonzero elements have their flat index, zeros a larger number: sorted, those come last. */
bool rx_split_nonzero(const rx_steps *s)
{
    rx_tensor x = rx_steps_tensor(s, 0);
    const int64_t n = rx_view_elements(&x.view), places = s->part->call.n_in;
    const rx_view *found = &s->part->view[places], *count = found + 1;
    if (n < 2 || n > INT32_MAX)
        return false;
    x.view.rank = 1;
    x.view.dim[0] = n;
    x.view.stride[0] = 1;
    if (s->part->call.n_out > 1 && count->rank >= 0) {
        const rx_instr ones[] = {{.op = RX_OP_cast, .arg = {0}, .dtype = RLX_BOOL},
                                 {.op = RX_OP_cast, .arg = {1}, .dtype = RLX_I64}};
        const rx_tensor each = rx_steps_new(s, RLX_I64, 1, &n);
        const rx_reduce_attr all = {.axes = {.n = 1}};
        rx_steps_region(s, ones, 2, (rx_tensor[]){x, each}, 1);
        rx_steps_add(s, RX_OP_reduce_sum, &all,
                     (rx_tensor[]){each, rx_steps_tensor(s, (size_t)places + 1)}, 1, 1);
    }
    if (found->rank < 0)
        return true;
    const rlx_range_desc upwards = {RLX_INIT(rlx_range_desc), .step = 1, .n = n, .out = RLX_I32};
    const rx_tensor number = rx_steps_new(s, RLX_I32, 1, &n);
    const rx_tensor keys = rx_steps_new(s, RLX_I32, 1, &n);
    const rx_tensor sorted = rx_steps_new(s, RLX_I32, 1, &n);
    const rx_tensor end = rx_steps_number(s, RLX_I32, (double)n);
    const rx_instr key[] = {{.op = RX_OP_cast, .arg = {0}, .dtype = RLX_BOOL},
                            {.op = RX_OP_where, .arg = {3, 1, 2}, .dtype = RLX_I32}};
    const rlx_sort_desc ascending = {RLX_INIT(rlx_sort_desc), .axis = 0};
    rx_steps_add(s, RX_OP_range, &upwards, &number, 0, 1);
    rx_steps_region(s, key, 2, (rx_tensor[]){x, number, end, keys}, 3);
    rx_steps_add(s, RX_OP_sort, &ascending, (rx_tensor[]){keys, sorted}, 1, 1);
    const rx_tensor y = rx_steps_tensor(s, (size_t)places);
    for (int i = 0; i < s->part->view[0].rank; i++) {
        rx_tensor row = rx_steps_narrow(&y, 0, i, 1);
        row.view.rank = 1;
        row.view.dim[0] = n;
        row.view.stride[0] = 1;
        add_coordinates(s, sorted, i, end, row);
    }
    return true;
}

/* ---- sample ---------------------------------------------------------------------------------- */

/* With a top_k known in the graph, from the k best tokens. NaN counts as -infinity. */
bool rx_split_sample(const rx_steps *s)
{
    rlx_sample_desc d = *(const rlx_sample_desc *)s->part->call.attr;
    const rx_tensor x = rx_steps_tensor(s, 0);
    const int axis = x.view.rank - 1;
    const int64_t k = d.temperature <= 0 ? 1 : d.top_k;
    if (rx_gpu_in(&s->part->call, 2) || k < 1 || k > x.view.dim[axis] || x.view.rank < 2)
        return false;
    const rx_tensor lowest = rx_steps_number(s, RLX_F32, -INFINITY);
    const rx_tensor clean = rx_steps_like(s, RLX_F32, &x.view, -1, 0);
    const rx_instr instr[] = {{.op = RX_OP_is_nan, .arg = {0}, .dtype = RLX_BOOL},
                              {.op = RX_OP_where, .arg = {2, 1, 0}, .dtype = RLX_F32}};
    rx_steps_region(s, instr, 2, (rx_tensor[]){x, lowest, clean}, 2);
    const rlx_topk_desc best = {RLX_INIT(rlx_topk_desc), .k = k, .axis = axis};
    const rx_tensor logits = rx_steps_like(s, RLX_F32, &x.view, axis, k);
    const rx_tensor tokens = rx_steps_like(s, RLX_I32, &x.view, axis, k);
    rx_steps_add(s, RX_OP_top_k, &best, (rx_tensor[]){clean, logits, tokens}, 1, 2);

    rx_tensor y = rx_steps_tensor(s, s->part->call.n_in);
    rx_tensor at = rx_steps_like(s, RLX_I32, &y.view, -1, 0), column = at;
    rx_part q = *s->part;
    d.top_k = 0;
    q.call.attr = &d;
    q.view[0] = logits.view;
    q.ref[0] = logits.ref;
    q.view[q.call.n_in] = at.view;
    q.ref[q.call.n_in] = at.ref;
    if (s->b->status == RLX_OK)
        rx_part_split(s->b, &q, s->depth + 1);
    column.view.dim[column.view.rank] = y.view.dim[y.view.rank] = 1;
    column.view.stride[column.view.rank++] = y.view.stride[y.view.rank++] = 1;
    take(s, axis, tokens, column, y);
    return true;
}
