/* SPDX-License-Identifier: MIT */
/* resize on GPUs. Source indices and weights are computed in double precision in the reference, and
 * ties must round the same way: they are computed here, per axis, and given to the kernels as
 * tables. resize_nearest_2x decomposes. */
#include <math.h>

#include "gpu/select/rows.h"
#include "gpu/select/walk.h"
#include "ops/resize.h"

static rx_resize_axis make_map(const rx_gpu_call *c, int axis)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    return (rx_resize_axis){c->attr, axis, y->rank, x->dim[axis], y->dim[axis]};
}

static int64_t clamp_index(int64_t i, int64_t n) { return i < 0 ? 0 : i >= n ? n - 1 : i; }

/* ---- Nearest --------------------------------------------------------------------------------- */

static uint32_t nearest_index(const rx_resize_axis *m, int64_t x)
{
    double place = rx_resize_place(m, x);
    if (rx_resize_is_outside(m, place))
        return UINT32_MAX;
    switch (m->d->nearest) {
    case RLX_NEAREST_ROUND_PREFER_CEIL: place = floor(place + 0.5); break;
    case RLX_NEAREST_FLOOR: place = floor(place); break;
    case RLX_NEAREST_CEIL: place = ceil(place); break;
    default: place = ceil(place - 0.5); break;
    }
    return place < 0 ? 0 : place > (double)(m->in - 1) ? (uint32_t)(m->in - 1) : (uint32_t)place;
}

static rlx_status no_memory(rx_gpu_build *b)
{
    return b->status = rx_fail(b->err, RLX_NO_MEMORY, "out of memory: the places of a resize");
}

static rlx_status lower_nearest(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_resize_desc *a = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t n = rx_view_elements(y);
    uint32_t changed = 0, at[RLX_MAX_RANK], total = 0;
    for (int i = 0; i < y->rank; i++) {
        const rx_resize_axis m = make_map(c, i);
        changed |= (uint32_t)!rx_resize_is_unchanged(&m) << i;
        at[i] = total;
        total += changed >> i & 1 ? (uint32_t)m.out : 0;
    }
    uint32_t *table = rx_arena_array(b->arena, total + 1, sizeof *table);
    if (!table)
        return no_memory(b);
    table[total] = 0;
    for (int i = 0; i < y->rank; i++) {
        const rx_resize_axis m = make_map(c, i);
        for (int64_t k = 0; (changed >> i & 1) && k < m.out; k++)
            table[at[i] + k] = nearest_index(&m, k);
    }

    rx_walk w = rx_walk_make(y->rank, y->dim);
    rx_walk_add(&w, x->stride);
    rx_walk_collapse(&w, changed);
    const uint64_t fill = rx_gpu_encode(y->dtype, a->extrapolation);
    const uint64_t work = rx_words_of(y->dtype, n);
    rx_args_resize_nearest args = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0),
                 .table = rx_gpu_add_table(b, table, (uint64_t)(total + 1) * sizeof *table)},
        .spec = {.BITS = rx_bits_of(y->dtype), .RANK = (uint32_t)w.rank},
        .push = {.n_items = (uint32_t)work, .total = (uint32_t)n, .x_at = rx_gpu_offset(x),
                 .y_at = rx_gpu_offset(y), .fill_low = (uint32_t)fill,
                 .fill_high = (uint32_t)(fill >> 32)},
    };
    rx_walk_dims(&w, args.push.dim);
    rx_walk_strides(&w, 0, args.push.stride);
    for (int i = 0; i < RLX_MAX_RANK; i++)
        args.push.table_at[i] =
            i < w.rank && changed >> w.axis[i] & 1 ? at[w.axis[i]] : UINT32_MAX;
    rx_gpu_dispatch *d = rx_add_resize_nearest(b, RX_K_resize_nearest, rx_flat_local(c->caps),
                                               &args);
    rx_flat_grid(d, c->caps, work);
    return RLX_OK;
}

/* ---- Linear, cubic --------------------------------------------------------------------------- */

/* A source index and its weight, as the kernel reads them. */
typedef struct tap {
    uint32_t place;
    float weight;
} tap;

/* The taps of an axis: `n` per output index, and their offset in the table. */
typedef struct axis_taps {
    int64_t n;
    uint32_t at; /* words */
} axis_taps;

/* The weights w[i] of elements base - reach + i at coordinate `place`, with those outside of the
 * input moved to the nearest one inside. They sum to 1. */
static void place_weights(const rx_resize_axis *m, double place, double *w, int64_t n)
{
    const int64_t base = (int64_t)floor(place), first = base - rx_resize_reach(m);
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        w[i] = 0;
    for (int64_t i = first; i < first + n; i++) {
        if (m->d->exclude_outside && (i < 0 || i >= m->in))
            continue;
        const double weight = rx_resize_weight(m, (double)i - place);
        w[clamp_index(clamp_index(i, m->in) - first, n)] += weight;
        sum += weight;
    }
    if (sum == 0)
        w[clamp_index(clamp_index(base, m->in) - first, n)] = sum = 1;
    for (int64_t i = 0; i < n; i++)
        w[i] /= sum;
}

/* Taps of one output index, unused ones at the end with weight 0; returns how many are used. */
static int64_t place_taps(const rx_resize_axis *m, int64_t x, double *w, tap *out, int64_t room)
{
    const double place = rx_resize_place(m, x);
    const int64_t reach = rx_resize_reach(m), n = 2 * reach + 1;
    const int64_t first = (int64_t)floor(place) - reach;
    int64_t used = 0;
    if (rx_resize_is_outside(m, place)) {
        if (out)
            out[0] = (tap){UINT32_MAX, 0};
        return 1;
    }
    /* far outside all weight is on the first or the last element */
    const double lowest = -(double)n, highest = (double)(m->in - 1 + n);
    const double near = place < lowest ? lowest : place > highest ? highest : place;
    const int64_t start = near == place ? first : (int64_t)near - reach;
    place_weights(m, near, w, n);
    for (int64_t i = 0; i < n; i++) {
        if (w[i] == 0)
            continue;
        if (out && used < room)
            out[used] = (tap){(uint32_t)clamp_index(start + i, m->in), (float)w[i]};
        used++;
    }
    return used;
}

/* Appends the taps of an axis to a table. */
static rlx_status add_taps(rx_gpu_build *b, const rx_resize_axis *m, tap **table, size_t *n_table,
                           axis_taps *out)
{
    const int64_t most = 2 * rx_resize_reach(m) + 1;
    double *w = rx_arena_array(b->arena, most, sizeof *w);
    if (!w)
        return no_memory(b);
    out->n = 1;
    for (int64_t x = 0; x < m->out; x++) {
        const int64_t used = place_taps(m, x, w, NULL, 0);
        out->n = used > out->n ? used : out->n;
    }
    const size_t old = *n_table, more = (size_t)(out->n * m->out);
    tap *all = rx_arena_array(b->arena, old + more, sizeof *all);
    if (!all)
        return no_memory(b);
    for (size_t i = 0; i < old + more; i++)
        all[i] = i < old ? (*table)[i] : (tap){0, 0};
    for (int64_t x = 0; x < m->out; x++)
        place_taps(m, x, w, all + old + x * out->n, out->n);
    out->at = (uint32_t)(old * 2);
    *table = all;
    *n_table = old + more;
    return RLX_OK;
}

/* Taps of two axes in one pass, at most; with more, one axis after the other is cheaper. */
#define MAX_TAPS 36

/* One pass over axis a, or over a and b at once; a < 0: none. */
typedef struct pass {
    int a, b;
    rx_gpu_ref from, to;
    rlx_dtype from_type, to_type;
    uint32_t from_at, to_at;
} pass;

/* Sizes of the tensor between passes: axes up to `done` are already resized. */
static int64_t size_between(const rx_gpu_call *c, int done, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= i <= done ? c->out[0].dim[i] : c->in[0].dim[i];
    return n;
}

static rlx_status add_pass(rx_gpu_build *b, const rx_gpu_call *c, const pass *p,
                           const axis_taps *taps, rx_gpu_ref table)
{
    const rlx_resize_desc *attr = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int before = p->a < 0 ? p->b : p->a;
    const int64_t total = size_between(c, p->b, 0, y->rank);
    const uint64_t work = rx_words_of(p->to_type, total);
    const bool two = p->a >= 0;
    const rx_args_resize args = {
        .bind = {.x = p->from, .y = p->to, .table = table},
        .spec = {.TX = p->from_type, .TY = p->to_type,
                 .TAPS_A = two ? (uint32_t)taps[p->a].n : 0, .TAPS_B = (uint32_t)taps[p->b].n},
        .push = {.n_items = (uint32_t)work, .total = (uint32_t)total, .x_at = p->from_at,
                 .y_at = p->to_at, .in_a = two ? (uint32_t)x->dim[p->a] : 1,
                 .out_a = two ? (uint32_t)y->dim[p->a] : 1,
                 .middle = (uint32_t)size_between(c, before, before + 1, p->b),
                 .in_b = (uint32_t)x->dim[p->b], .out_b = (uint32_t)y->dim[p->b],
                 .inner = (uint32_t)size_between(c, p->b, p->b + 1, y->rank),
                 .a_at = two ? taps[p->a].at : 0, .b_at = taps[p->b].at,
                 .fill = (float)attr->extrapolation},
    };
    rx_flat_grid(rx_add_resize(b, RX_K_resize, rx_flat_local(c->caps), &args), c->caps, work);
    return RLX_OK;
}

static rlx_status lower_smooth(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    axis_taps taps[RLX_MAX_RANK] = {{0}};
    int axis[RLX_MAX_RANK], n = 0;
    tap *table = NULL;
    size_t n_table = 0;
    for (int i = 0; i < y->rank; i++) {
        const rx_resize_axis m = make_map(c, i);
        if (rx_resize_is_unchanged(&m))
            continue;
        RLX_TRY(add_taps(b, &m, &table, &n_table, &taps[i]));
        axis[n++] = i;
    }
    if (n == 0)
        return lower_nearest(b, c); /* a copy */
    const rx_gpu_ref ref = rx_gpu_add_table(b, table, n_table * sizeof *table);
    pass p = {.from = RX_REF_IN(0), .from_type = x->dtype, .from_at = rx_gpu_offset(x)};
    for (int i = 0; i < n;) {
        const bool two = i + 1 < n && taps[axis[i]].n * taps[axis[i + 1]].n <= MAX_TAPS;
        p.a = two ? axis[i] : -1;
        p.b = axis[i + two];
        i += 1 + two;
        const bool last = i == n;
        p.to_type = last ? y->dtype : RLX_F32;
        p.to_at = last ? rx_gpu_offset(y) : 0;
        p.to = last ? RX_REF_OUT(0)
                    : rx_gpu_scratch(b, (uint64_t)size_between(c, p.b, 0, y->rank) * 4);
        RLX_TRY(add_pass(b, c, &p, taps, ref));
        p.from = p.to;
        p.from_type = RLX_F32;
        p.from_at = 0;
    }
    return RLX_OK;
}

rlx_status rx_gpu_lower_resize(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_resize_desc *a = c->attr;
    if (!rx_product_is_indexable(c))
        return rx_gpu_fail(b, c, "more than 2^32 elements");
    if (rx_view_elements(&c->out[0]) == 0)
        return RLX_OK;
    return a->mode == RLX_RESIZE_NEAREST ? lower_nearest(b, c) : lower_smooth(b, c);
}
