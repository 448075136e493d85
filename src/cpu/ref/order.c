/* SPDX-License-Identifier: MIT */
/* Reference kernels of sorting and indices: top_k, sort, argsort, histogram, one_hot, range and
 * nonzero; and the sort that others share. */
#include "cpu/ref/order.h"

#include <math.h>

/* ---- Sorting --------------------------------------------------------------------------------- */

rx_key rx_load_key(const rx_view *v, int64_t o, int64_t place)
{
    if (rlx_dtype_is_float(v->dtype))
        return (rx_key){.f = rx_load(v, o), .place = place};
    const int64_t i = rx_load_int(v, o); /* u64 compares as i64 with the top bit flipped */
    return (rx_key){.i = v->dtype == RLX_U64 ? i ^ INT64_MIN : i, .place = place};
}

bool rx_key_before(const rx_key *a, const rx_key *b, bool descending)
{
    if (descending) {
        const rx_key *t = a;
        a = b;
        b = t;
    }
    if (isnan(a->f) || isnan(b->f))
        return !isnan(a->f);
    return a->f != b->f ? a->f < b->f : a->i < b->i;
}

/* Merges the sorted runs [0, middle) and [middle, n) of `from` into `to`; ties: the left one. */
static void merge_runs(const rx_key *from, rx_key *to, int64_t middle, int64_t n, bool descending)
{
    int64_t a = 0, b = middle;
    for (int64_t i = 0; i < n; i++) {
        const bool right = a == middle ||
                           (b < n && rx_key_before(&from[b], &from[a], descending));
        to[i] = from[right ? b++ : a++];
    }
}

void rx_sort_keys(rx_key *keys, rx_key *work, int64_t n, bool descending)
{
    rx_key *from = keys, *to = work;
    for (int64_t run = 1; run < n; run *= 2) {
        for (int64_t i = 0; i < n; i += 2 * run) {
            const int64_t left = n - i;
            merge_runs(from + i, to + i, left < run ? left : run, left < 2 * run ? left : 2 * run,
                       descending);
        }
        rx_key *t = from;
        from = to;
        to = t;
    }
    if (from != keys)
        memcpy(keys, from, (size_t)n * sizeof *keys);
}

rx_key *rx_scratch_keys(const rx_call *c, int64_t n)
{
    return rx_call_array(c, n, 2 * sizeof(rx_key));
}

/* Fills results past the end of an axis that is bound to less than k elements, with the value that
 * sorts last. */
static void store_last_value(const rx_view *y, int64_t o, bool descending)
{
    rx_store(y, o, descending ? -INFINITY : INFINITY);
}

/* Sorts every line of operand 0 along an axis. The first elements of each sorted line go to
 * `values` and `indices`, either of which may be NULL. */
static rlx_status sort_lines(const rx_call *c, int axis, bool descending, const rx_view *values,
                             const rx_view *indices)
{
    const rx_view *x = &c->in[0], *like = values ? values : indices;
    const int64_t n = x->dim[axis];
    if (!like || !rx_view_elements(like))
        return RLX_OK;
    const int64_t k = like->dim[axis];
    rx_key *keys = rx_scratch_keys(c, n);
    if (!keys)
        return RLX_NO_MEMORY;
    int64_t lines[RLX_MAX_RANK], at[RLX_MAX_RANK] = {0};
    memcpy(lines, x->dim, sizeof lines);
    lines[axis] = 1; /* `at` is the start of a line */
    do {
        const int64_t x0 = rx_offset(x, at), y0 = rx_offset(like, at);
        for (int64_t i = 0; i < n; i++)
            keys[i] = rx_load_key(x, x0 + i * x->stride[axis], i);
        rx_sort_keys(keys, keys + n, n, descending);
        for (int64_t i = 0; i < k; i++) {
            const int64_t o = y0 + i * like->stride[axis];
            if (indices)
                rx_store_int(indices, o, i < n ? keys[i].place : -1);
            if (values && i < n)
                rx_copy_element(values, o, x, x0 + keys[i].place * x->stride[axis]);
            if (values && i >= n)
                store_last_value(values, o, descending);
        }
    } while (rx_next(at, lines, x->rank));
    return RLX_OK;
}

rlx_status rx_ref_top_k(const rx_call *c)
{
    const rlx_topk_desc *d = c->attr;
    return sort_lines(c, (int)d->axis, !d->smallest, rx_call_out(c, 0), rx_call_out(c, 1));
}

rlx_status rx_ref_sort(const rx_call *c)
{
    const rlx_sort_desc *d = c->attr;
    const bool places = c->op == RX_OP_argsort;
    return sort_lines(c, (int)d->axis, d->descending, places ? NULL : &c->out[0],
                      places ? &c->out[0] : NULL);
}

/* ---- histogram ------------------------------------------------------------------------------- */

/* The lower edge of a bin, as NumPy's linspace makes it. */
static double bin_edge(const rlx_histogram_desc *d, int64_t bin)
{
    if (bin == d->bins)
        return d->hi;
    return d->lo + (double)bin * ((d->hi - d->lo) / (double)d->bins);
}

/* The quotient is an estimate, corrected by comparing with the edges. */
int64_t rx_find_bin(const rlx_histogram_desc *d, double v)
{
    if (!(v >= d->lo && v <= d->hi))
        return -1;
    int64_t bin = (int64_t)((v - d->lo) / (d->hi - d->lo) * (double)d->bins);
    bin = bin < d->bins ? bin : d->bins - 1;
    while (bin > 0 && v < bin_edge(d, bin))
        bin--;
    while (bin < d->bins - 1 && v >= bin_edge(d, bin + 1))
        bin++;
    return bin;
}

rlx_status rx_ref_histogram(const rx_call *c)
{
    const rlx_histogram_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    for (int64_t i = 0; i < d->bins; i++)
        rx_store_int(y, i, 0);
    if (!rx_view_elements(x))
        return RLX_OK;
    int64_t at[RLX_MAX_RANK] = {0};
    do {
        const int64_t bin = rx_find_bin(d, rx_load(x, rx_offset(x, at)));
        if (bin >= 0)
            rx_store_int(y, bin, rx_load_int(y, bin) + 1);
    } while (rx_next(at, x->dim, x->rank));
    return RLX_OK;
}

/* ---- one_hot, range, nonzero ----------------------------------------------------------------- */

rlx_status rx_ref_one_hot(const rx_call *c)
{
    const rlx_one_hot_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = &c->out[0];
    if (!rx_view_elements(y))
        return RLX_OK;
    int64_t at[RLX_MAX_RANK] = {0}, o = 0;
    do {
        int64_t from[RLX_MAX_RANK] = {0};
        for (int i = 0, j = 0; i < y->rank; i++)
            if (i != d->axis)
                from[j++] = at[i];
        int64_t index = rx_load_int(x, rx_offset(x, from));
        if (index < 0 && x->dtype != RLX_U64)
            index += d->depth;
        rx_store(y, o++, index == at[d->axis] ? d->on : d->off);
    } while (rx_next(at, y->dim, y->rank));
    return RLX_OK;
}

rlx_status rx_ref_range(const rx_call *c)
{
    const rlx_range_desc *d = c->attr;
    const rx_view *y = &c->out[0];
    const int64_t n = rx_view_elements(y);
    for (int64_t i = 0; i < n; i++) {
        if (rlx_dtype_is_float(y->dtype))
            rx_store(y, i, d->start + (double)i * d->step);
        else
            rx_store_int(y, i, (int64_t)((uint64_t)(int64_t)d->start +
                                         (uint64_t)i * (uint64_t)(int64_t)d->step));
    }
    return RLX_OK;
}

static bool is_zero(const rx_view *x, int64_t o)
{
    return rlx_dtype_is_float(x->dtype) ? rx_load(x, o) == 0 : rx_load_int(x, o) == 0;
}

rlx_status rx_ref_nonzero(const rx_call *c)
{
    const rx_view *x = &c->in[0];
    const rx_view *places = rx_call_out(c, 0), *count = rx_call_out(c, 1);
    const int64_t n = rx_view_elements(x);
    int64_t at[RLX_MAX_RANK] = {0}, found = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!is_zero(x, rx_offset(x, at))) {
            for (int k = 0; places && k < x->rank; k++)
                rx_store_int(places, k * n + found, at[k]);
            found++;
        }
        rx_next(at, x->dim, x->rank);
    }
    for (int k = 0; places && k < x->rank; k++)
        for (int64_t i = found; i < n; i++)
            rx_store_int(places, k * n + i, -1);
    if (count)
        rx_store_int(count, 0, found);
    return RLX_OK;
}
