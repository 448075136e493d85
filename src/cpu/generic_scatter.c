/* SPDX-License-Identifier: MIT */
/* scatter_elements, scatter_nd and scatter_add of dense tensors. Threads partition the result,
 * never the updates, so that each element gets its updates in order whatever the number of threads.
 * Sums of f16 and bf16 are accumulated in f32 and products of floats in double. */
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/pool.h"
#include "cpu/ref/ref.h"

#define RUN 256
#define STRIP 1024 /* columns of a unit */

typedef struct scatter {
    const rx_call *c;
    const rx_view *x, *index, *update, *y;
    rlx_scatter_mode mode;
    enum { IN_Y, IN_F32, IN_F64 } where; /* the accumulator of updates */
    char *acc;                  /* y's elements, f32 or double: one for each of y */
    int64_t acc_size;           /* bytes */
    int axis;                   /* scatter_elements */
    int64_t n, inner;           /* rows of y of one outer index, elements of a row */
    const int64_t *places;      /* [m]: the row of each update row */
    int64_t m, strips, parts;   /* units: outer index, strip of columns, part of the rows */
} scatter;

/* ---- Bringing updates in --------------------------------------------------------------------- */

/* Updates u[i] for y[at[i]], or y[i] where `at` is NULL; `U` has the arithmetic that wraps. */
#define EACH(statement)                                \
    do {                                               \
        for (int64_t i = 0; !at && i < n; i++) {       \
            const int64_t j = i;                       \
            statement;                                 \
        }                                              \
        for (int64_t i = 0; at && i < n; i++) {        \
            const int64_t j = at[i];                   \
            statement;                                 \
        }                                              \
    } while (0)
#define COMBINE(name, T, U)                                                                  \
    static void name(rlx_scatter_mode mode, T *y, const int64_t *at, const T *u, int64_t n)  \
    {                                                                                        \
        if (mode == RLX_SCATTER_NONE)                                                        \
            EACH(y[j] = u[i]);                                                               \
        else if (mode == RLX_SCATTER_ADD)                                                    \
            EACH(y[j] = (T)((U)y[j] + (U)u[i]));                                             \
        else if (mode == RLX_SCATTER_MUL)                                                    \
            EACH(y[j] = (T)((U)y[j] * (U)u[i]));                                             \
        else if (mode == RLX_SCATTER_MIN)                                                    \
            EACH(y[j] = u[i] < y[j] || u[i] != u[i] ? u[i] : y[j]);                          \
        else                                                                                 \
            EACH(y[j] = u[i] > y[j] || u[i] != u[i] ? u[i] : y[j]);                          \
    }
COMBINE(combine_i8, int8_t, uint8_t)
COMBINE(combine_u8, uint8_t, uint8_t)
COMBINE(combine_i32, int32_t, uint32_t)
COMBINE(combine_i64, int64_t, uint64_t)
COMBINE(combine_f32, float, float)
#undef COMBINE

static void replace_u16(uint16_t *y, const int64_t *at, const uint16_t *u, int64_t n)
{
    EACH(y[j] = u[i]);
}

static void multiply_f64(double *y, const int64_t *at, const float *u, int64_t n)
{
    EACH(y[j] *= u[i]);
}
#undef EACH

/* n updates from element `from` of the update on, for elements `to` + at[i] of the result. */
static void combine(const scatter *s, int64_t to, const int64_t *at, int64_t from, int64_t n)
{
    const rlx_dtype t = s->y->dtype;
    char *y = s->acc + to * s->acc_size;
    const char *u = s->update->data + from * rlx_dtype_block_bytes(t);
    float floats[RUN];
    if (s->where != IN_Y) {
        rx_load_lanes(t, u, 1, floats, n);
        if (s->where == IN_F64)
            multiply_f64((double *)y, at, floats, n);
        else
            combine_f32(s->mode, (float *)y, at, floats, n);
    } else if (t == RLX_F32) {
        combine_f32(s->mode, (float *)y, at, (const float *)u, n);
    } else if (t == RLX_I32) {
        combine_i32(s->mode, (int32_t *)y, at, (const int32_t *)u, n);
    } else if (t == RLX_I64) {
        combine_i64(s->mode, (int64_t *)y, at, (const int64_t *)u, n);
    } else if (t == RLX_I8) {
        combine_i8(s->mode, (int8_t *)y, at, (const int8_t *)u, n);
    } else if (s->acc_size == 1) { /* u8, bool */
        combine_u8(s->mode, (uint8_t *)y, at, (const uint8_t *)u, n);
    } else { /* halves that are replaced */
        replace_u16((uint16_t *)y, at, (const uint16_t *)u, n);
    }
}

/* ---- Before and after ------------------------------------------------------------------------ */

/* Units: elements of y. */
static void scatter_start(void *user, int64_t begin, int64_t end)
{
    const scatter *s = user;
    const rlx_dtype t = s->y->dtype;
    const int64_t size = rlx_dtype_block_bytes(t);
    if (s->where != IN_F64) {
        const char *from = s->x->data + begin * size;
        if (s->where == IN_F32)
            rx_load_lanes(t, from, 1, (float *)s->acc + begin, end - begin);
        else
            memcpy(s->acc + begin * size, from, (size_t)((end - begin) * size));
        return;
    }
    float floats[RUN];
    for (int64_t n; begin < end; begin += n) {
        n = end - begin < RUN ? end - begin : RUN;
        rx_load_lanes(t, s->x->data + begin * size, 1, floats, n);
        for (int64_t i = 0; i < n; i++)
            ((double *)s->acc)[begin + i] = floats[i];
    }
}

static void scatter_end(void *user, int64_t begin, int64_t end)
{
    const scatter *s = user;
    if (s->where == IN_F32)
        rx_store_lanes(s->y->dtype, s->y->data + begin * rlx_dtype_block_bytes(s->y->dtype), 1,
                       (const float *)s->acc + begin, end - begin);
    else
        for (; begin < end; begin++)
            rx_store(s->y, begin, ((const double *)s->acc)[begin]);
}

/* The common part of a call; RLX_UNSUPPORTED or what a probe is answered with. */
static rlx_status scatter_init(const rx_call *c, rlx_scatter_mode mode, scatter *s)
{
    *s = (scatter){.c = c, .x = &c->in[0], .index = &c->in[1], .update = &c->in[2],
                   .y = rx_call_out(c, 0), .mode = mode};
    if (!rx_view_is_dense(s->x) || !rx_view_is_dense(s->index) || !rx_view_is_dense(s->update))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const rlx_dtype t = s->y->dtype;
    if (rlx_dtype_is_float(t) && mode == RLX_SCATTER_MUL)
        s->where = IN_F64;
    else if (rlx_dtype_is_float(t) && t != RLX_F32 && mode != RLX_SCATTER_NONE)
        s->where = IN_F32;
    s->acc = s->y->data;
    s->acc_size = rlx_dtype_block_bytes(t);
    if (s->where != IN_Y) {
        s->acc_size = s->where == IN_F64 ? 8 : 4;
        s->acc = rx_call_array(c, (uint64_t)rx_view_elements(s->y), (uint64_t)s->acc_size);
        if (!s->acc)
            return RLX_NO_MEMORY;
    }
    return RLX_OK;
}

/* False when the call is finished; *st is its status. */
static bool scatter_begin(const rx_call *c, rlx_scatter_mode mode, scatter *s, rlx_status *st)
{
    *st = RLX_OK;
    if (!rx_call_out(c, 0) || rx_view_elements(&c->out[0]) == 0)
        return false;
    *st = scatter_init(c, mode, s);
    return *st == RLX_OK && !c->probe;
}

/* Runs the units between the copy of x and the rounding of what was collected. */
static void scatter_run(scatter *s, int64_t units, int64_t work, rx_range_fn *fn)
{
    const int64_t n = rx_view_elements(s->y);
    if (s->acc != s->x->data)
        rx_parallel(s->c->pool, n, RX_GRAIN, scatter_start, s);
    if (units > 0)
        rx_parallel(s->c->pool, units, RX_GRAIN / (work + 1) + 1, fn, s);
    if (s->where != IN_Y)
        rx_parallel(s->c->pool, n, RX_GRAIN, scatter_end, s);
}

/* Parts of n rows of the result, where there are fewer units than threads. Each part scans all m
 * indices. */
static int64_t n_parts(const rx_call *c, int64_t units, int64_t n, int64_t work)
{
    const int64_t threads = rx_pool_n_threads(c->pool);
    if (units >= threads || work < RX_GRAIN)
        return 1;
    return threads < n ? threads : n;
}

/* ---- Rows: scatter_nd, scatter_add ----------------------------------------------------------- */

/* Units: an outer index, a strip of columns, a part of the rows. */
static void scatter_rows(void *user, int64_t begin, int64_t end)
{
    const scatter *s = user;
    for (; begin < end; begin++) {
        const int64_t part = begin % s->parts, col = begin / s->parts % s->strips * STRIP;
        const int64_t outer = begin / s->parts / s->strips;
        const int64_t low = part * s->n / s->parts, high = (part + 1) * s->n / s->parts;
        const int64_t cols = s->inner - col < STRIP ? s->inner - col : STRIP;
        for (int64_t i = 0; i < s->m; i++) {
            const int64_t row = s->places[i];
            if (row < low || row >= high)
                continue;
            const int64_t to = (outer * s->n + row) * s->inner + col;
            const int64_t from = (outer * s->m + i) * s->inner + col;
            for (int64_t k = 0; k < cols; k += RUN)
                combine(s, to + k, NULL, from + k, cols - k < RUN ? cols - k : RUN);
        }
    }
}

/* Rows of one element: runs of updates at a time. Units: outer indices. */
static void scatter_singles(void *user, int64_t begin, int64_t end)
{
    const scatter *s = user;
    for (; begin < end; begin++)
        for (int64_t i = 0; i < s->m; i += RUN)
            combine(s, begin * s->n, s->places + i, begin * s->m + i,
                    s->m - i < RUN ? s->m - i : RUN);
}

static void scatter_all_rows(scatter *s, int64_t outer)
{
    const bool single = s->inner == 1;
    s->strips = single ? 1 : (s->inner + STRIP - 1) / STRIP;
    const int64_t units = outer * s->strips, cols = s->inner < STRIP ? s->inner : STRIP;
    s->parts = single ? 1 : n_parts(s->c, units, s->n, s->m * cols);
    scatter_run(s, s->n > 0 && s->m > 0 ? units * s->parts : 0, s->m * cols / s->parts,
                single ? scatter_singles : scatter_rows);
}

rlx_status rx_generic_scatter_add(const rx_call *c)
{
    const rx_axis_attr *a = c->attr;
    scatter s;
    rlx_status st;
    if (!scatter_begin(c, RLX_SCATTER_ADD, &s, &st))
        return st;
    int64_t outer = 1;
    s.inner = 1;
    for (int i = 0; i < s.y->rank; i++)
        *(i < a->axis ? &outer : &s.inner) *= i == a->axis ? 1 : s.y->dim[i];
    s.n = s.y->dim[a->axis];
    s.m = rx_view_elements(s.index);
    int64_t *places = rx_call_array(c, (uint64_t)s.m, sizeof *places);
    if (!places)
        return RLX_NO_MEMORY;
    rx_load_places(c, s.index, &(rx_places){0, 1, s.m, s.n}, places);
    s.places = places;
    scatter_all_rows(&s, outer);
    return RLX_OK;
}

/* The axes that a tuple addresses are one axis of rows. */
rlx_status rx_generic_scatter_nd(const rx_call *c)
{
    const rx_scatter_attr *a = c->attr;
    scatter s;
    rlx_status st;
    if (!scatter_begin(c, a->mode, &s, &st))
        return st;
    const int64_t depth = s.index->dim[s.index->rank - 1];
    s.m = rx_view_elements(s.index) / depth;
    s.n = s.inner = 1;
    for (int i = 0; i < s.y->rank; i++)
        *(i < depth ? &s.n : &s.inner) *= s.y->dim[i];
    int64_t *places = rx_call_array(c, (uint64_t)s.m, sizeof *places);
    if (!places)
        return RLX_NO_MEMORY;
    memset(places, 0, (size_t)s.m * sizeof *places);
    for (int64_t i = 0, n; i < s.m; i += n) {
        int64_t part[RUN];
        n = s.m - i < RUN ? s.m - i : RUN;
        for (int64_t k = 0; k < depth; k++) {
            const int64_t size = s.y->dim[k];
            rx_load_places(c, s.index, &(rx_places){i * depth + k, depth, n, size}, part);
            for (int64_t j = 0; j < n; j++)
                places[i + j] = places[i + j] * size + part[j];
        }
    }
    s.places = places;
    scatter_all_rows(&s, 1);
    return RLX_OK;
}

/* ---- scatter_elements ------------------------------------------------------------------------ */

/* Offsets in y of n updates from element `from` of the index on: along the axis that is scattered,
 * or across it. */
static void element_places(const scatter *s, int64_t from, int64_t n, int64_t *to)
{
    const int64_t stride = s->y->stride[s->axis], step = s->axis == s->y->rank - 1 ? 0 : 1;
    rx_load_places(s->c, s->index, &(rx_places){from, 1, n, s->n}, to);
    for (int64_t i = 0; i < n; i++)
        to[i] = to[i] * stride + i * step;
}

/* Units: runs of the last axis that are updated by themselves: all updates of a line along it, or
 * RUN columns of those that lie across it. */
static void scatter_lines(void *user, int64_t begin, int64_t end)
{
    const scatter *s = user;
    const int last = s->y->rank - 1;
    const rx_view *index = s->index;
    const bool along = s->axis == last;
    int64_t dim[RLX_MAX_RANK], at[RLX_MAX_RANK], places[RUN];
    memcpy(dim, index->dim, sizeof dim);
    dim[s->axis] = 1;
    dim[last] = s->strips;
    for (; begin < end; begin++) {
        rx_unravel(begin, dim, index->rank, at);
        const int64_t col = at[last] * RUN, most = along ? RUN : index->dim[last] - col;
        at[last] = along ? 0 : col;
        const int64_t to = rx_offset(s->y, at), from = rx_offset(index, at);
        const int64_t cols = most < RUN ? most : RUN;
        for (int64_t i = 0, n; i < s->m; i += n) {
            const int64_t first = from + i * index->stride[s->axis];
            n = !along ? 1 : s->m - i < RUN ? s->m - i : RUN;
            element_places(s, first, along ? n : cols, places);
            combine(s, to, places, first, along ? n : cols);
        }
    }
}

rlx_status rx_generic_scatter_elements(const rx_call *c)
{
    const rx_scatter_attr *a = c->attr;
    scatter s;
    rlx_status st;
    if (!scatter_begin(c, a->mode, &s, &st))
        return st;
    const int last = s.y->rank - 1;
    const int64_t elements = rx_view_elements(s.index);
    s.axis = (int)a->axis;
    s.n = s.y->dim[a->axis];
    s.m = s.index->dim[a->axis];
    s.strips = s.axis == last ? 1 : (s.index->dim[last] + RUN - 1) / RUN;
    const int64_t lines = elements == 0 ? 0
                          : s.axis == last ? elements / s.m
                                           : elements / s.m / s.index->dim[last] * s.strips;
    scatter_run(&s, lines, lines ? elements / lines : 0, scatter_lines);
    return RLX_OK;
}
