/* SPDX-License-Identifier: MIT */
/* top_k, sort and argsort along the last axis, knn and group_limited_gate. An element becomes an
 * unsigned key in the order of the reference (NaN largest, -0 equal to 0). Keys of 32 bits carry
 * the index of the element in their low bits, so that sorting is stable: the best k are kept in a
 * heap, sorting is a radix sort. Elements of 64 bits have keys beside their indices and are always
 * sorted. */
#include "cpu/generic_order.h"

#include <math.h>
#include <string.h>

#include "base/half.h"
#include "cpu/generic.h"
#include "cpu/generic_wide.h"
#include "cpu/pool.h"
#include "cpu/ref/ref.h"

#define RUN 256

typedef struct order_run {
    const rx_view *x, *values, *indices; /* results: NULL when not wanted */
    int64_t n, k;
    bool descending, heap;
    uint64_t *room; /* for each thread 2 n keys, or 2 n wide_key */
} order_run;

/* ---- Keys ------------------------------------------------------------------------------------ */

static uint32_t key_of_float(float x)
{
    const uint32_t bits = rx_f32_bits(x);
    if (x != x)
        return UINT32_MAX;
    if (x == 0)
        return 0x80000000u;
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

static uint64_t key_of_double(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return UINT64_MAX;
    if (x == 0)
        return (uint64_t)1 << 63;
    return bits >> 63 ? ~bits : bits | (uint64_t)1 << 63;
}

static void make_keys(const order_run *r, const char *x, uint64_t *keys)
{
    const uint32_t flip = r->descending ? UINT32_MAX : 0;
    const rlx_dtype t = r->x->dtype;
    const bool is_float = rlx_dtype_is_float(t);
    const uint32_t sign = t == RLX_U32 ? 0 : 0x80000000u;
    const int64_t size = rlx_dtype_block_bytes(t);
    float floats[RUN];
    int64_t ints[RUN];
    for (int64_t i = 0; i < r->n; i += RUN) {
        const int64_t n = r->n - i < RUN ? r->n - i : RUN;
        if (is_float)
            rx_load_lanes(t, x + i * size, 1, floats, n);
        else
            rx_load_ints(t, x + i * size, 1, ints, n);
        for (int64_t j = 0; j < n; j++) {
            const uint32_t key = is_float ? key_of_float(floats[j]) : (uint32_t)ints[j] ^ sign;
            keys[i + j] = (uint64_t)(key ^ flip) << 32 | (uint64_t)(i + j);
        }
    }
}

/* ---- Elements of 64 bits --------------------------------------------------------------------- */

typedef struct wide_key {
    uint64_t key;
    int64_t index;
} wide_key;

static bool is_wide(rlx_dtype t)
{
    return t == RLX_F64 || t == RLX_I64 || t == RLX_U64;
}

static void make_wide_keys(const order_run *r, const char *x, wide_key *keys)
{
    const uint64_t flip = r->descending ? UINT64_MAX : 0;
    const uint64_t sign = r->x->dtype == RLX_U64 ? 0 : (uint64_t)1 << 63;
    for (int64_t i = 0; i < r->n; i++) {
        const uint64_t key = r->x->dtype == RLX_F64 ? key_of_double(((const double *)x)[i])
                                                    : ((const uint64_t *)x)[i] ^ sign;
        keys[i] = (wide_key){key ^ flip, i};
    }
}

/* LSD radix sort by bytes; a byte common to all keys is skipped. Returns the sorted keys: `keys` or
 * `work`. */
static wide_key *sort_wide_keys(wide_key *keys, wide_key *work, int64_t n)
{
    for (int shift = 0; shift < 64; shift += 8) {
        int64_t start[256] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++)
            start[keys[i].key >> shift & 255]++;
        if (start[keys[0].key >> shift & 255] == n)
            continue;
        for (int d = 0; d < 256; d++) {
            const int64_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            work[start[keys[i].key >> shift & 255]++] = keys[i];
        wide_key *t = keys;
        keys = work;
        work = t;
    }
    return keys;
}

/* ---- A heap: on top the largest of the k smallest keys -------------------------------------- */

static void sink(uint64_t *heap, int64_t k, int64_t at, uint64_t key)
{
    for (int64_t child; (child = 2 * at + 1) < k; at = child) {
        if (child + 1 < k && heap[child + 1] > heap[child])
            child++;
        if (heap[child] <= key)
            break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

/* The k smallest of n keys, in order, at the front. */
static void take_smallest(uint64_t *keys, int64_t n, int64_t k)
{
    for (int64_t i = k / 2 - 1; i >= 0; i--)
        sink(keys, k, i, keys[i]);
    for (int64_t i = k; i < n; i++)
        if (keys[i] < keys[0])
            sink(keys, k, 0, keys[i]);
    for (int64_t i = k - 1; i > 0; i--) {
        const uint64_t top = keys[0];
        sink(keys, i, 0, keys[i]);
        keys[i] = top;
    }
}

/* ---- Sorting by bytes of the upper half, the least first ------------------------------------ */

static void sort_keys(uint64_t *keys, uint64_t *work, int64_t n)
{
    for (int shift = 32; shift < 64; shift += 8) {
        int64_t start[256] = {0}, sum = 0;
        for (int64_t i = 0; i < n; i++)
            start[keys[i] >> shift & 255]++;
        for (int d = 0; d < 256; d++) {
            const int64_t count = start[d];
            start[d] = sum;
            sum += count;
        }
        for (int64_t i = 0; i < n; i++)
            work[start[keys[i] >> shift & 255]++] = keys[i];
        uint64_t *t = keys;
        keys = work;
        work = t;
    } /* after four passes the keys are back where they were */
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Result i of a line is its element `index`. */
static void store_result(const order_run *r, int64_t line, int64_t i, int64_t index)
{
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype), to = line * r->k + i;
    if (r->indices)
        rx_store_int(r->indices, to, index);
    if (r->values)
        memcpy(r->values->data + to * size, r->x->data + (line * r->n + index) * size,
               (size_t)size);
}

/* Units: lines. */
static void order_wide_lines(void *user, int64_t begin, int64_t end)
{
    const order_run *r = user;
    wide_key *room = (wide_key *)r->room + rx_pool_slot() * 2 * r->n;
    for (; begin < end; begin++) {
        make_wide_keys(r, r->x->data + begin * r->n * 8, room);
        const wide_key *keys = sort_wide_keys(room, room + r->n, r->n);
        for (int64_t i = 0; i < r->k; i++)
            store_result(r, begin, i, keys[i].index);
    }
}

/* Units: lines. */
static void order_lines(void *user, int64_t begin, int64_t end)
{
    const order_run *r = user;
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype);
    uint64_t *keys = r->room + rx_pool_slot() * 2 * r->n;
    for (; begin < end; begin++) {
        const char *x = r->x->data + begin * r->n * size;
        make_keys(r, x, keys);
        if (r->heap)
            take_smallest(keys, r->n, r->k);
        else
            sort_keys(keys, keys + r->n, r->n);
        for (int64_t i = 0; i < r->k; i++)
            store_result(r, begin, i, (int64_t)(keys[i] & UINT32_MAX));
    }
}

rlx_status rx_generic_order(const rx_call *c)
{
    order_run r = {.x = &c->in[0]};
    int64_t axis;
    if (c->op == RX_OP_top_k) {
        const rlx_topk_desc *d = c->attr;
        axis = d->axis;
        r.descending = !d->smallest;
        r.values = rx_call_out(c, 0);
        r.indices = rx_call_out(c, 1);
    } else {
        const rlx_sort_desc *d = c->attr;
        axis = d->axis;
        r.descending = d->descending;
        *(c->op == RX_OP_sort ? &r.values : &r.indices) = rx_call_out(c, 0);
    }
    const rx_view *like = r.values ? r.values : r.indices;
    if (!like || rx_view_elements(like) == 0)
        return RLX_OK;
    r.n = r.x->dim[axis];
    r.k = like->dim[axis];
    if (axis != r.x->rank - 1 || r.k > r.n || r.n > INT32_MAX || !rx_view_is_dense(r.x))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    r.heap = r.k < r.n / 4;
    const bool wide = is_wide(r.x->dtype);
    r.room = rx_call_array(c, 2 * r.n * rx_pool_n_threads(c->pool),
                           wide ? sizeof(wide_key) : sizeof *r.room);
    if (!r.room)
        return RLX_NO_MEMORY;
    const int64_t grain = RX_GRAIN / 4 / r.n;
    rx_parallel(c->pool, rx_view_elements(r.x) / r.n, grain > 0 ? grain : 1,
                wide ? order_wide_lines : order_lines, &r);
    return RLX_OK;
}

/* ---- knn ------------------------------------------------------------------------------------- */

static float float_at(const rx_view *x, int64_t i)
{
    float v;
    rx_load_lanes(x->dtype, x->data + i * rlx_dtype_block_bytes(x->dtype), 1, &v, 1);
    return v;
}

/* Units: rows of distances [n, n]; `values` are the distances. */
static void knn_rows(void *user, int64_t begin, int64_t end)
{
    const order_run *r = user;
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype), n = r->n;
    uint64_t *keys = r->room + rx_pool_slot() * 2 * n;
    for (; begin < end; begin++) {
        make_keys(r, r->x->data + begin * n * size, keys);
        keys[begin] = keys[n - 1]; /* excludes the point itself */
        const int64_t near = r->k < n - 1 ? r->k : n - 1;
        take_smallest(keys, n - 1, near);
        for (int64_t i = 0; i < r->k; i++) {
            const int64_t place = i < near ? (int64_t)(keys[i] & UINT32_MAX) : -1;
            const double distance = i < near ? float_at(r->x, begin * n + place) : INFINITY;
            if (r->values)
                rx_store(r->values, begin * r->k + i, distance);
            if (r->indices)
                rx_store_int(r->indices, begin * r->k + i, place);
        }
    }
}

/* Shared by knn and the gate: rows of n keys of which the first k are selected. */
static rlx_status select_init(const rx_call *c, int64_t k, order_run *r)
{
    *r = (order_run){.x = &c->in[0], .values = rx_call_out(c, 0), .indices = rx_call_out(c, 1),
                     .n = c->in[0].dim[1], .k = k};
    if (r->n > INT32_MAX || !rx_view_is_dense(r->x))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    r->room = rx_call_array(c, 2 * (uint64_t)r->n * (uint64_t)rx_pool_n_threads(c->pool),
                            sizeof *r->room);
    return r->room ? RLX_OK : RLX_NO_MEMORY;
}

rlx_status rx_generic_knn(const rx_call *c)
{
    order_run r;
    RLX_TRY(select_init(c, ((const rx_k_attr *)c->attr)->k, &r));
    if (!c->probe && r.n > 0)
        rx_parallel(c->pool, r.n, RX_GRAIN / 4 / r.n + 1, knn_rows, &r);
    return RLX_OK;
}

/* ---- group_limited_gate ---------------------------------------------------------------------- */

typedef struct gate_run {
    order_run order; /* keys of the experts of a row: the best is the smallest */
    const rlx_gate_desc *d;
} gate_run;

/* The sum of the two best of `size` experts, rounded to f32; of one its score. */
static float group_score(const order_run *r, int64_t row, const uint64_t *keys, int64_t size)
{
    uint64_t best = UINT64_MAX, second = UINT64_MAX;
    for (int64_t i = 0; i < size; i++) {
        const uint64_t low = keys[i] < best ? keys[i] : best;
        const uint64_t high = keys[i] < best ? best : keys[i];
        best = low;
        second = high < second ? high : second;
    }
    const float first = float_at(r->x, row * r->n + (int64_t)(best & UINT32_MAX));
    return size > 1 ? first + float_at(r->x, row * r->n + (int64_t)(second & UINT32_MAX)) : first;
}

/* Moves the keys of the experts of the best groups to the front; returns how many there are.
 * `groups` has room for as many keys as there are groups. */
static int64_t keep_groups(const gate_run *g, int64_t row, uint64_t *keys, uint64_t *groups)
{
    const int64_t n = g->d->groups, size = g->order.n / n, kept = g->d->keep_groups;
    for (int64_t i = 0; i < n; i++) {
        const float score = group_score(&g->order, row, keys + i * size, size);
        groups[i] = (uint64_t)~key_of_float(score) << 32 | (uint64_t)i;
    }
    take_smallest(groups, n, kept);
    for (int64_t i = 0; i < kept; i++)
        groups[i] &= UINT32_MAX;
    int64_t to = 0;
    for (int64_t i = 0; i < n; i++) {
        bool is_kept = false;
        for (int64_t j = 0; j < kept; j++)
            is_kept = is_kept || groups[j] == (uint64_t)i;
        if (is_kept) {
            memmove(keys + to, keys + i * size, (size_t)size * sizeof *keys);
            to += size;
        }
    }
    return to;
}

/* Units: rows. */
static void gate_rows(void *user, int64_t begin, int64_t end)
{
    const gate_run *g = user;
    const order_run *r = &g->order;
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype);
    uint64_t *keys = r->room + rx_pool_slot() * 2 * r->n;
    for (; begin < end; begin++) {
        make_keys(r, r->x->data + begin * r->n * size, keys);
        take_smallest(keys, keep_groups(g, begin, keys, keys + r->n), r->k);
        double sum = 0;
        for (int64_t i = 0; i < r->k; i++)
            sum += float_at(r->x, begin * r->n + (int64_t)(keys[i] & UINT32_MAX));
        const double factor = r->k > 1 ? g->d->scale / (sum + 1e-20) : g->d->scale;
        for (int64_t i = 0; i < r->k; i++) {
            const int64_t place = (int64_t)(keys[i] & UINT32_MAX);
            if (r->values)
                rx_store(r->values, begin * r->k + i,
                         float_at(r->x, begin * r->n + place) * factor);
            if (r->indices)
                rx_store_int(r->indices, begin * r->k + i, place);
        }
    }
}

rlx_status rx_generic_gate(const rx_call *c)
{
    gate_run g = {.d = c->attr};
    RLX_TRY(select_init(c, g.d->k, &g.order));
    g.order.descending = true;
    if (!c->probe)
        rx_parallel(c->pool, c->in[0].dim[0], RX_GRAIN / 4 / g.order.n + 1, gate_rows, &g);
    return RLX_OK;
}
