/* SPDX-License-Identifier: MIT */
/* Sorting and indices on GPUs: top_k, sort, argsort, knn, group_limited_gate, histogram, one_hot,
 * range and nonzero.
 *
 * Sorting works on lists of (key, index) in scratch memory. Chunks are sorted in shared memory;
 * then, for small k, the first k of each chunk form a shorter list, and so on; for large k, sorted
 * runs are merged. Results are gathered from x by index at the end. */
#include <math.h>
#include <string.h>

#include "gpu/select/rows.h"

/* ---- Sorting --------------------------------------------------------------------------------- */

#define MAX_CHUNK 1024 /* elements sorted in shared memory: 12 bytes each */

typedef struct sorting {
    const rx_gpu_call *call;
    rx_rows rows;
    uint64_t k;           /* results for each row, at most rows.n */
    bool ascending, skip_self, wide;
    rx_gpu_ref keys, places; /* the current list; RX_REF_NONE: the elements of x */
    uint64_t n;           /* its length for each row */
    bool is_done;         /* the results are written, not just the list */
} sorting;

static void new_list(rx_gpu_build *b, const sorting *s, uint64_t n, rx_gpu_ref list[2])
{
    uint64_t elements = rx_rows_count(&s->rows) * n;
    list[0] = rx_gpu_scratch(b, elements * (s->wide ? 8 : 4));
    list[1] = rx_gpu_scratch(b, elements * 4);
}

/* The arguments of a step that makes a list of the first `keep` elements of each chunk of `size`;
 * updates s to that list. */
static rx_args_sort_base make_step(rx_gpu_build *b, sorting *s, uint64_t size, uint64_t keep)
{
    const rx_view *x = &s->call->in[0];
    const uint64_t chunks = rx_ceil_div(s->n, size), rest = s->n - (chunks - 1) * size;
    const uint64_t n_out = (chunks - 1) * keep + (rest < keep ? rest : keep);
    rx_gpu_ref list[2];
    new_list(b, s, n_out, list);
    const rx_args_sort_base a = {
        .bind = {.x = RX_REF_IN(0), .keys_in = s->keys, .places_in = s->places,
                 .keys_out = list[0], .places_out = list[1]},
        .spec = {.TX = x->dtype, .FLIP = s->ascending, .FROM_LIST = s->keys != RX_REF_NONE,
                 .SKIP_SELF = s->skip_self},
        .push = {.rows = (uint32_t)rx_rows_count(&s->rows), .n = (uint32_t)s->n,
                 .inner = (uint32_t)s->rows.inner, .chunks = (uint32_t)chunks,
                 .keep = (uint32_t)keep, .n_out = (uint32_t)n_out, .x_at = rx_gpu_offset(x),
                 .self = (uint32_t)s->call->part_first},
    };
    s->keys = list[0];
    s->places = list[1];
    s->n = n_out;
    return a;
}

/* Sorts chunks of `size` elements and keeps the first `keep` of each. */
static void add_chunks(rx_gpu_build *b, sorting *s, uint64_t size, uint64_t keep)
{
    uint64_t chunks = rx_rows_count(&s->rows) * rx_ceil_div(s->n, size);
    uint32_t local = rx_gpu_local(s->call->caps, 256), group = 1;
    while (group < local && group * size < local * 2 && group < chunks)
        group *= 2;
    if (group * size / 2 < local)
        local = rx_pow2_up(group * size / 2);
    const rx_args_sort_base base = make_step(b, s, size, keep);
    const rx_args_sort a = {
        .bind = {.sort_base = base.bind},
        .spec = {.sort_base = base.spec, .SIZE = (uint32_t)size, .GROUP = group,
                 .THREADS = local},
        .push = {.sort_base = base.push},
    };
    rx_gpu_grid(rx_add_sort(b, s->wide ? RX_K_sort_wide : RX_K_sort, local, &a), s->call->caps,
                rx_ceil_div(chunks, group));
}

#define MAX_ITEMS 16 /* elements per invocation of select.comp */
#define MAX_SELECT 256

/* Whether rows of x consist of whole vectors, so that an invocation can load four words at once. */
static bool has_vectors(const sorting *s)
{
    const rx_view *x = &s->call->in[0];
    return (x->dtype == RLX_F32 || x->dtype == RLX_I32) && s->keys == RX_REF_NONE &&
           s->rows.inner == 1 && s->rows.n % 4 == 0 && rx_gpu_offset(x) % 4 == 0;
}

/* What the last selection writes: 1 the elements, 2 their indices, 0 a list. */
static uint32_t direct_results(const sorting *s, uint64_t chunk)
{
    const rx_gpu_call *c = s->call;
    const rlx_dtype t = c->in[0].dtype;
    const rx_view *values = rx_gpu_out(c, 0), *places = rx_gpu_out(c, 1);
    const bool ok = c->op == RX_OP_top_k && s->n <= chunk && (t == RLX_F32 || t == RLX_I32) &&
                    s->rows.inner == 1;
    return ok ? (values ? 1u : 0u) | (places ? 2u : 0u) : 0;
}

/* Selects the first k of chunks without sorting them. */
static void add_selection(rx_gpu_build *b, sorting *s)
{
    const rx_gpu_caps *caps = s->call->caps;
    uint32_t local = rx_gpu_local(caps, 256);
    const bool lanes = caps->loose_barriers && rx_kernel_available(RX_K_select_sg, caps) &&
                       caps->subgroup_shuffle && caps->subgroup >= 4 &&
                       local % caps->subgroup == 0;
    const bool vectors = lanes && has_vectors(s);
    uint64_t items = rx_ceil_div(s->n, local);
    items = items < MAX_ITEMS ? vectors ? (items + 3) / 4 * 4 : items : MAX_ITEMS;
    const uint32_t slots = rx_pow2_up(3 * s->k);
    const uint32_t results = lanes ? direct_results(s, local * items) : 0;
    const uint64_t groups = rx_rows_count(&s->rows) * rx_ceil_div(s->n, local * items);
    const rx_args_sort_base base = make_step(b, s, local * items, s->k);
    rx_args_select_sg a = {
        .bind = {.select = {.sort_base = base.bind}},
        .spec = {.select = {.sort_base = base.spec, .ITEMS = (uint32_t)items,
                            .CAP = slots < 64 ? 64 : slots, .THREADS = local},
                 .LANES = caps->subgroup, .V4 = vectors, .RESULTS = results},
        .push = {.select = {.sort_base = base.push}, .length = (uint32_t)s->rows.n},
    };
    if (!lanes) {
        const rx_args_select plain = {a.bind.select, a.spec.select, a.push.select};
        rx_gpu_grid(rx_add_select(b, RX_K_select, local, &plain), caps, groups);
        return;
    }
    const rx_view *values = rx_gpu_out(s->call, 0), *places = rx_gpu_out(s->call, 1);
    a.spec.TP = places ? places->dtype : RLX_NO_TYPE;
    if (results) {
        a.bind.select.sort_base.keys_out = values ? RX_REF_OUT(0) : RX_REF_NONE;
        a.bind.select.sort_base.places_out = places ? RX_REF_OUT(1) : RX_REF_NONE;
        a.push.y_at = values ? rx_gpu_offset(values) : 0;
        a.push.i_at = places ? rx_gpu_offset(places) : 0;
    }
    rx_gpu_grid(rx_add_select_sg(b, RX_K_select_sg, local, &a), caps, groups);
    s->is_done = results != 0;
}

static void add_merges(rx_gpu_build *b, sorting *s, uint64_t run)
{
    const rx_gpu_caps *caps = s->call->caps;
    uint64_t rows = rx_rows_count(&s->rows);
    rx_gpu_ref other[2];
    if (run < s->n)
        new_list(b, s, s->n, other);
    for (; run < s->n; run *= 2) {
        const rx_args_merge a = {
            .bind = {.keys_in = s->keys, .places_in = s->places, .keys_out = other[0],
                     .places_out = other[1]},
            .push = {.rows = (uint32_t)rows, .n = (uint32_t)s->n, .run = (uint32_t)run},
        };
        rx_flat_grid(rx_add_merge(b, s->wide ? RX_K_merge_wide : RX_K_merge,
                                  rx_gpu_local(caps, 256), &a), caps, rows * s->n);
        other[0] = s->keys;
        other[1] = s->places;
        s->keys = a.bind.keys_out;
        s->places = a.bind.places_out;
    }
}

/* Leaves a list whose first k indices of each row are those of the result. */
static void add_sorting(rx_gpu_build *b, sorting *s)
{
    s->n = s->rows.n;
    if (s->k * 2 > MAX_CHUNK && s->n > MAX_CHUNK) {
        add_chunks(b, s, MAX_CHUNK, MAX_CHUNK);
        add_merges(b, s, MAX_CHUNK);
        return;
    }
    do {
        uint32_t size = rx_pow2_up(s->n < 2 ? 2 : s->n);
        if (!s->wide && s->k <= MAX_SELECT && s->n >= 256 && s->n > 3 * s->k)
            add_selection(b, s);
        else
            add_chunks(b, s, size < MAX_CHUNK ? size : MAX_CHUNK, s->k);
    } while (s->n > s->k);
}

/* Padding of a row that is shorter than k: the value that is last in the order. */
static uint64_t last_value(rlx_dtype t, bool ascending)
{
    switch (t) {
    case RLX_F32: return ascending ? 0x7f800000u : 0xff800000u;
    case RLX_F16: return ascending ? 0x7c00u : 0xfc00u;
    case RLX_BF16: return ascending ? 0x7f80u : 0xff80u;
    case RLX_I8: return ascending ? 0x7fu : 0x80u;
    case RLX_U8: return ascending ? 0xffu : 0;
    case RLX_I32: return ascending ? 0x7fffffffu : 0x80000000u;
    default: return ascending ? (uint64_t)INT64_MAX : (uint64_t)INT64_MIN;
    }
}

/* Result `out` from the list: elements, or indices. */
static void add_take(rx_gpu_build *b, const sorting *s, size_t out, bool places)
{
    const rx_gpu_call *c = s->call;
    const rx_view *x = &c->in[0], *y = rx_gpu_out(c, out);
    if (!y)
        return;
    uint64_t total = (uint64_t)rx_view_elements(y), rows = rx_rows_count(&s->rows);
    const uint64_t fill = last_value(y->dtype, s->ascending);
    const rx_args_take a = {
        .bind = {.x = RX_REF_IN(0), .places = s->places, .y = RX_REF_OUT(out)},
        .spec = {.TY = y->dtype, .PLACES = places},
        .push = {.total = (uint32_t)total, .k = (uint32_t)(total / rows),
                 .inner = (uint32_t)s->rows.inner, .n = (uint32_t)s->rows.n,
                 .n_list = (uint32_t)s->n, .x_at = rx_gpu_offset(x), .y_at = rx_gpu_offset(y),
                 .fill_low = (uint32_t)fill, .fill_high = (uint32_t)(fill >> 32)},
    };
    rx_flat_grid(rx_add_take(b, RX_K_take, rx_gpu_local(c->caps, 256), &a), c->caps,
                 rx_ceil_div(total, rx_per_word(y->dtype)));
}

static sorting make_sorting(const rx_gpu_call *c, int64_t axis, int64_t k, bool ascending)
{
    sorting s = {.call = c, .rows = rx_gpu_rows(&c->in[0], axis), .k = (uint64_t)k,
                 .ascending = ascending, .wide = c->in[0].dtype == RLX_I64,
                 .keys = RX_REF_NONE, .places = RX_REF_NONE};
    if (s.k > s.rows.n)
        s.k = s.rows.n;
    return s;
}

static void add_top_k(rx_gpu_build *b, sorting *s)
{
    if (!rx_rows_count(&s->rows) || (!rx_gpu_out(s->call, 0) && !rx_gpu_out(s->call, 1)))
        return;
    if (s->k)
        add_sorting(b, s);
    if (s->is_done)
        return;
    add_take(b, s, 0, false);
    add_take(b, s, 1, true);
}

rlx_status rx_gpu_lower_top_k(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_topk_desc *d = c->attr;
    sorting s = make_sorting(c, d->axis, d->k, d->smallest);
    add_top_k(b, &s);
    return RLX_OK;
}

rlx_status rx_gpu_lower_sort(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_sort_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    sorting s = make_sorting(c, d->axis, x->dim[d->axis], !d->descending);
    if (!rx_view_elements(x))
        return RLX_OK;
    add_sorting(b, &s);
    add_take(b, &s, 0, c->op == RX_OP_argsort);
    return RLX_OK;
}

rlx_status rx_gpu_lower_knn(rx_gpu_build *b, const rx_gpu_call *c)
{
    sorting s = make_sorting(c, 1, ((const rx_k_attr *)c->attr)->k, true);
    s.skip_self = true;
    add_top_k(b, &s);
    return RLX_OK;
}

/* ---- group_limited_gate ---------------------------------------------------------------------- */

rlx_status rx_gpu_lower_group_limited_gate(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_gate_desc *g = c->attr;
    const rx_view *x = &c->in[0], *weights = rx_gpu_out(c, 0), *places = rx_gpu_out(c, 1);
    uint64_t rows = (uint64_t)x->dim[0];
    if (!rows || (!weights && !places))
        return RLX_OK;
    uint64_t words = (uint64_t)x->dim[1] + 2 * (uint64_t)g->groups + (uint64_t)g->k;
    if (words * 4 > c->caps->max_shared_bytes)
        return rx_gpu_fail(b, c, "more experts than fit into shared memory");
    uint32_t local = rx_gpu_local(c->caps, x->dim[1] < 128 ? 64 : 256);
    rx_gpu_ref values = weights ? rx_gpu_values(b, c, 0) : RX_REF_NONE;
    const rx_args_gate a = {
        .bind = {.x = RX_REF_IN(0), .weights = values,
                 .places = places ? RX_REF_OUT(1) : RX_REF_NONE},
        .spec = {.TX = x->dtype, .EXPERTS = (uint32_t)x->dim[1], .GROUPS = (uint32_t)g->groups,
                 .K = (uint32_t)g->k, .OUTS = (weights ? 1u : 0u) | (places ? 2u : 0u),
                 .THREADS = local},
        .push = {.rows = (uint32_t)rows, .keep = (uint32_t)g->keep_groups,
                 .x_at = rx_gpu_offset(x),
                 .w_at = values == RX_REF_OUT(0) ? rx_gpu_offset(weights) : 0,
                 .p_at = places ? rx_gpu_offset(places) : 0, .scale = (float)g->scale},
    };
    rx_gpu_grid(rx_add_gate(b, RX_K_gate, local, &a), c->caps, rows);
    if (weights)
        rx_gpu_pack_values(b, c, 0, values);
    return RLX_OK;
}

/* ---- histogram, one_hot, range, nonzero ------------------------------------------------------ */

static uint64_t double_bits(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* Zeroes result i, whose elements have 8 bytes. */
static void add_zero(rx_gpu_build *b, const rx_gpu_call *c, size_t i)
{
    uint64_t words = (uint64_t)rx_view_elements(&c->out[i]) * 2;
    const rx_args_fill_words a = {
        .bind = {.y = RX_REF_OUT(i)},
        .push = {.n = (uint32_t)words, .at = rx_gpu_offset(&c->out[i]) * 2},
    };
    rx_flat_grid(rx_add_fill_words(b, RX_K_fill_words, rx_gpu_local(c->caps, 256), &a), c->caps,
                 words);
}

rlx_status rx_gpu_lower_histogram(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_histogram_desc *h = c->attr;
    const rx_view *x = &c->in[0];
    uint64_t n = (uint64_t)rx_view_elements(x);
    add_zero(b, c, 0);
    if (!n)
        return RLX_OK;
    uint32_t local = rx_gpu_local(c->caps, 256);
    uint64_t groups = rx_ceil_div(n, local * 4), busy = rx_gpu_busy_groups(c->caps);
    groups = groups < busy ? groups : busy;
    const double per_unit = (double)h->bins / (h->hi - h->lo);
    const uint64_t lo = double_bits(h->lo), hi = double_bits(h->hi);
    const uint64_t width = double_bits((h->hi - h->lo) / (double)h->bins);
    const rx_args_histogram a = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0)},
        .spec = {.TX = x->dtype, .SHARED = h->bins <= 2048 ? (uint32_t)h->bins : 0},
        .push = {.n = (uint32_t)n, .bins = (uint32_t)h->bins, .groups = (uint32_t)groups,
                 .x_at = rx_gpu_offset(x), .y_at = rx_gpu_offset(&c->out[0]),
                 .lo_low = (uint32_t)lo, .lo_high = (uint32_t)(lo >> 32), .hi_low = (uint32_t)hi,
                 .hi_high = (uint32_t)(hi >> 32), .width_low = (uint32_t)width,
                 .width_high = (uint32_t)(width >> 32), .lo = (float)h->lo,
                 .per_unit = (float)per_unit, .error = (float)(fabs(h->lo) * (double)h->bins /
                                                               (h->hi - h->lo) * 1e-6)},
    };
    rx_gpu_grid(rx_add_histogram(b, RX_K_histogram, local, &a), c->caps, groups);
    return RLX_OK;
}

rlx_status rx_gpu_lower_one_hot(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_one_hot_desc *h = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    uint64_t total = (uint64_t)rx_view_elements(y);
    if (!total)
        return RLX_OK;
    const rx_rows rows = rx_gpu_rows(y, h->axis);
    const uint64_t on = rx_gpu_encode(y->dtype, h->on), off = rx_gpu_encode(y->dtype, h->off);
    const rx_args_one_hot a = {
        .bind = {.x = RX_REF_IN(0), .y = RX_REF_OUT(0)},
        .spec = {.TX = x->dtype, .TY = y->dtype},
        .push = {.total = (uint32_t)total, .depth = (uint32_t)rows.n,
                 .inner = (uint32_t)rows.inner, .x_at = rx_gpu_offset(x),
                 .y_at = rx_gpu_offset(y), .on_low = (uint32_t)on,
                 .on_high = (uint32_t)(on >> 32), .off_low = (uint32_t)off,
                 .off_high = (uint32_t)(off >> 32)},
    };
    rx_flat_grid(rx_add_one_hot(b, RX_K_one_hot, rx_gpu_local(c->caps, 256), &a), c->caps,
                 rx_ceil_div(total, rx_per_word(y->dtype)));
    return RLX_OK;
}

rlx_status rx_gpu_lower_range(rx_gpu_build *b, const rx_gpu_call *c)
{
    const rlx_range_desc *r = c->attr;
    const rx_view *y = &c->out[0];
    uint64_t n = (uint64_t)rx_view_elements(y);
    if (!n)
        return RLX_OK;
    const bool is_float = rlx_dtype_is_float(y->dtype);
    const uint64_t start = is_float ? double_bits(r->start) : (uint64_t)(int64_t)r->start;
    const uint64_t step = is_float ? double_bits(r->step) : (uint64_t)(int64_t)r->step;
    const rx_args_range a = {
        .bind = {.y = RX_REF_OUT(0)},
        .spec = {.TY = y->dtype},
        .push = {.n = (uint32_t)n, .y_at = rx_gpu_offset(y), .start_low = (uint32_t)start,
                 .start_high = (uint32_t)(start >> 32), .step_low = (uint32_t)step,
                 .step_high = (uint32_t)(step >> 32)},
    };
    rx_flat_grid(rx_add_range(b, RX_K_range, rx_gpu_local(c->caps, 256), &a), c->caps,
                 rx_ceil_div(n, rx_per_word(y->dtype)));
    return RLX_OK;
}

static void add_nonzero(rx_gpu_build *b, const rx_gpu_call *c, bool count,
                        const rx_gpu_ref lists[2])
{
    const rx_view *x = &c->in[0], *places = rx_gpu_out(c, 0), *found = rx_gpu_out(c, 1);
    uint32_t local = rx_gpu_local(c->caps, 256);
    uint64_t n = (uint64_t)rx_view_elements(x);
    uint64_t blocks = rx_ceil_div(n, local * RX_CODE_NONZERO_EACH);
    rx_args_nonzero a = {
        .bind = {.x = RX_REF_IN(0), .counts = lists[0]},
        .spec = {.TX = x->dtype, .COUNT = count, .RANK = (uint32_t)x->rank,
                 .OUTS = (places ? 1u : 0u) | (found ? 2u : 0u), .THREADS = local},
        .push = {.n = (uint32_t)n, .blocks = (uint32_t)blocks, .x_at = rx_gpu_offset(x),
                 .y_at = places ? rx_gpu_offset(places) : 0,
                 .found_at = found ? rx_gpu_offset(found) : 0},
    };
    if (!count) {
        a.bind.before = lists[1];
        a.bind.y = places ? RX_REF_OUT(0) : RX_REF_NONE;
        a.bind.n_found = found ? RX_REF_OUT(1) : RX_REF_NONE;
    }
    for (int i = 0; i < RLX_MAX_RANK; i++)
        a.push.dim[i] = i < x->rank ? (uint32_t)x->dim[i] : 1;
    rx_gpu_grid(rx_add_nonzero(b, RX_K_nonzero, local, &a), c->caps, blocks);
}

rlx_status rx_gpu_lower_nonzero(rx_gpu_build *b, const rx_gpu_call *c)
{
    uint64_t n = (uint64_t)rx_view_elements(&c->in[0]);
    uint64_t blocks = rx_ceil_div(n, rx_gpu_local(c->caps, 256) * RX_CODE_NONZERO_EACH);
    if (!n) {
        if (rx_gpu_out(c, 1))
            add_zero(b, c, 1);
        return RLX_OK;
    }
    const rx_gpu_ref lists[2] = {rx_gpu_scratch(b, blocks * 4), rx_gpu_scratch(b, blocks * 4)};
    add_nonzero(b, c, true, lists);
    rx_gpu_add_offsets(b, c, lists[0], lists[1], blocks);
    add_nonzero(b, c, false, lists);
    return RLX_OK;
}
