/* SPDX-License-Identifier: MIT */
/* gather_elements and gather_nd. Indices are dense and are read in runs; x may have any strides,
 * the result is dense. On an axis that is empty at run time the result is zero. */
#include <string.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/ref/ref.h"

#define RUN 256

/* ---- Indices --------------------------------------------------------------------------------- */

/* `number` holds an index and the size: the narrower, the more of them are in a vector. */
#define PLACES(type, number, place)                                 \
    {                                                               \
        number differs = 0;                                         \
        for (int64_t i = 0; i < n; i++) {                           \
            number at = ((const type *)index->data)[place];         \
            at += at < 0 ? (number)size : 0;                        \
            number inside = at < 0 ? 0 : at;                        \
            inside = inside > (number)last ? (number)last : inside; \
            differs |= at ^ inside;                                 \
            to[i] = inside;                                         \
        }                                                           \
        off = differs != 0;                                         \
    }
void rx_load_places(const rx_call *c, const rx_view *index, const rx_places *p, int64_t *to)
{
    const int64_t first = p->first, step = p->step, n = p->n, size = p->size;
    const int64_t last = size > 0 ? size - 1 : 0;
    bool off; /* some index was out of range */
    if (index->dtype == RLX_I32 && step == 1 && size <= INT32_MAX)
        PLACES(int32_t, int32_t, first + i)
    else if (index->dtype == RLX_I32)
        PLACES(int32_t, int64_t, first + i * step)
    else
        PLACES(int64_t, int64_t, first + i * step)
    if (off || (size == 0 && n > 0))
        rx_call_flag(c, RLX_FLAG_INDEX_CLAMPED);
}
#undef PLACES

/* Elements from[at[i]], or from[at[i] + i * step], stored contiguously. */
#define PICK(type)                                                             \
    for (int64_t i = 0; i < n; i++)                                            \
        ((type *)to)[i] = ((const type *)from)[at[i] + i * step]
static void pick(int64_t size, char *to, const char *from, const int64_t *at, int64_t step,
                 int64_t n)
{
    if (size == 4) {
        PICK(uint32_t);
    } else if (size == 2) {
        PICK(uint16_t);
    } else if (size == 1) {
        PICK(uint8_t);
    } else {
        PICK(uint64_t);
    }
}
#undef PICK

/* ---- gather_elements ------------------------------------------------------------------------- */

typedef struct gather_run {
    const rx_call *c;
    const rx_view *x, *index, *y;
    int64_t size;               /* bytes of an element */
    int axis;                   /* gather_elements */
    int64_t batch, depth, item; /* gather_nd: axes of batches, numbers of a tuple, elements of y */
    rx_view from, to;           /* what a tuple takes of x and where it goes: merged axes */
} gather_run;

/* Offset in x of element `i` of y if its index were 0. */
static int64_t line_start(const gather_run *r, int64_t i)
{
    int64_t at[RLX_MAX_RANK];
    rx_unravel(i, r->y->dim, r->y->rank, at);
    at[r->axis] = 0;
    return rx_offset(r->x, at);
}

/* Units: elements of y. */
static void gather_elements(void *user, int64_t begin, int64_t end)
{
    const gather_run *r = user;
    const int last = r->y->rank - 1;
    const int64_t line = r->y->dim[last], stride = r->x->stride[r->axis];
    const int64_t step = r->axis == last ? 0 : r->x->stride[last];
    int64_t places[RUN];
    for (int64_t n; begin < end; begin += n) {
        n = line - begin % line;
        n = n < end - begin ? n : end - begin;
        n = n < RUN ? n : RUN;
        rx_load_places(r->c, r->index, &(rx_places){begin, 1, n, r->x->dim[r->axis]}, places);
        for (int64_t i = 0; stride != 1 && i < n; i++)
            places[i] *= stride;
        pick(r->size, r->y->data + begin * r->size,
             r->x->data + line_start(r, begin) * r->size, places, step, n);
    }
}

/* The indices of an empty x are all out of range. */
static rlx_status gather_nothing(const rx_call *c, const rx_view *y)
{
    rx_call_flag(c, RLX_FLAG_INDEX_CLAMPED);
    memset(y->data, 0, (size_t)(rx_view_elements(y) * rlx_dtype_block_bytes(y->dtype)));
    return RLX_OK;
}

/* False when the call is finished; *st is its status. */
static bool gather_begin(const rx_call *c, gather_run *r, rlx_status *st)
{
    *r = (gather_run){.c = c, .x = &c->in[0], .index = &c->in[1], .y = rx_call_out(c, 0)};
    *st = RLX_OK;
    if (!r->y || rx_view_elements(r->y) == 0)
        return false;
    if (!rx_view_is_dense(r->index))
        *st = RLX_UNSUPPORTED;
    else if (!c->probe && rx_view_elements(r->x) == 0)
        *st = gather_nothing(c, r->y);
    else
        r->size = rlx_dtype_block_bytes(r->y->dtype);
    return r->size && !c->probe;
}

rlx_status rx_generic_gather_elements(const rx_call *c)
{
    gather_run r;
    rlx_status st;
    if (!gather_begin(c, &r, &st))
        return st;
    r.axis = (int)((const rx_axis_attr *)c->attr)->axis;
    rx_parallel(c->pool, rx_view_elements(r.y), RX_GRAIN, gather_elements, &r);
    return RLX_OK;
}

/* ---- gather_nd ------------------------------------------------------------------------------- */

/* Offsets in x of what tuples first .. first + n - 1 address. */
static void tuple_offsets(const gather_run *r, int64_t first, int64_t n, int64_t *to)
{
    int64_t places[RUN], at[RLX_MAX_RANK];
    const int64_t *dim = r->index->dim;
    memset(to, 0, (size_t)n * sizeof *to);
    for (int64_t k = 0; k < r->depth; k++) {
        const int64_t axis = r->batch + k;
        rx_load_places(r->c, r->index,
                       &(rx_places){first * r->depth + k, r->depth, n, r->x->dim[axis]}, places);
        for (int64_t i = 0; i < n; i++)
            to[i] += places[i] * r->x->stride[axis];
    }
    if (r->batch == 0)
        return;
    rx_unravel(first, dim, r->index->rank - 1, at);
    for (int64_t i = 0; i < n; i++, rx_next(at, dim, r->index->rank - 1))
        for (int64_t k = 0; k < r->batch; k++)
            to[i] += at[k] * r->x->stride[k];
}

/* One item, with gaps in x. */
static void copy_item(const gather_run *r, const char *from, char *to)
{
    const int last = r->from.rank - 1;
    const int64_t n = r->from.dim[last], step = r->from.stride[last];
    int64_t at[RLX_MAX_RANK] = {0};
    do {
        const char *line = from + rx_offset(&r->from, at) * r->size;
        if (step == 1)
            memcpy(to, line, (size_t)(n * r->size));
        else
            for (int64_t i = 0; i < n; i++)
                memcpy(to + i * r->size, line + i * step * r->size, (size_t)r->size);
        to += n * r->size;
    } while (rx_next(at, r->from.dim, last));
}

/* Units: tuples. */
static void gather_tuples(void *user, int64_t begin, int64_t end)
{
    const gather_run *r = user;
    const bool dense = r->from.rank == 1 && r->from.stride[0] == 1;
    const int64_t bytes = r->item * r->size;
    int64_t at[RUN];
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < RUN ? end - begin : RUN;
        tuple_offsets(r, begin, n, at);
        char *to = r->y->data + begin * bytes;
        if (r->item == 1)
            pick(r->size, to, r->x->data, at, 0, n);
        else if (dense)
            for (int64_t i = 0; i < n; i++)
                memcpy(to + i * bytes, r->x->data + at[i] * r->size, (size_t)bytes);
        else
            for (int64_t i = 0; i < n; i++)
                copy_item(r, r->x->data + at[i] * r->size, to + i * bytes);
    }
}

/* The axes of x from `first` on, and the same of a dense tensor. */
static void item_views(gather_run *r, int64_t first)
{
    rx_view both[2] = {*r->x, *r->x};
    const int rank = r->x->rank - (int)first;
    for (int v = 0; v < 2; v++) {
        both[v].rank = rank;
        memmove(both[v].dim, both[v].dim + first, (size_t)rank * sizeof both[v].dim[0]);
        memmove(both[v].stride, both[v].stride + first, (size_t)rank * sizeof both[v].stride[0]);
    }
    rx_view_set_dense(&both[1], r->x->dtype, rank, both[0].dim);
    rx_merge_axes(both, 2);
    r->from = both[0];
    r->to = both[1];
}

rlx_status rx_generic_gather_nd(const rx_call *c)
{
    gather_run r;
    rlx_status st;
    if (!gather_begin(c, &r, &st))
        return st;
    r.batch = ((const rx_gather_nd_attr *)c->attr)->batch_dims;
    r.depth = r.index->dim[r.index->rank - 1];
    const int64_t tuples = rx_view_elements(r.index) / r.depth;
    r.item = rx_view_elements(r.y) / tuples;
    item_views(&r, r.batch + r.depth);
    rx_parallel(c->pool, tuples, RX_GRAIN / (r.item + r.depth) + 1, gather_tuples, &r);
    return RLX_OK;
}
