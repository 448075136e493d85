/* SPDX-License-Identifier: MIT */
/* Matrix products of f32, f16 and bf16 with bias, activation and residual, on any strides. The
 * result is cut into tiles; a thread packs the panels of a and b that a tile needs, KC deep, and
 * multiplies them with an MR x NR kernel that the compiler keeps in registers. With a few rows
 * only, panels do not pay: then b is read once, where it lies. */
#include <string.h>

#include "cpu/generic.h"
#include "cpu/pool.h"
#include "cpu/ref/ref.h"

#define MR 4
#define NR 8
#define TILE_M 64
#define TILE_N 128
#define KC 256
#define FEW_ROWS 6 /* up to so many rows go the way without panels */

typedef struct product {
    const rx_view *a, *b, *out, *bias;
    rx_view residual;         /* with the shape of out; rank -1: none */
    const rlx_matmul_desc *desc;
    int64_t m, n, k, n_batches;
    int64_t a_m, a_k, b_k, b_n;
    int n_axes;               /* batch axes */
    int64_t dim[RLX_MAX_RANK], a_stride[RLX_MAX_RANK], b_stride[RLX_MAX_RANK];
    int64_t m_tiles, n_tiles;
    float *room;              /* ROOM floats for each thread */
} product;

/* What a thread needs: the sums of a tile, a panel of a and a panel of b. */
#define SUMS (TILE_M * TILE_N)
#define ROOM (SUMS + TILE_M * KC + TILE_N * KC)

/* One tile and where its operands begin. */
typedef struct tile {
    int64_t batch, m0, n0, rows, cols;
    const char *a, *b;  /* first element of the batch */
    float *sums;        /* [rows][TILE_N] */
    float *a_panel, *b_panel;
} tile;

/* ---- Packing --------------------------------------------------------------------------------- */

static const char *element(rlx_dtype t, const char *data, int64_t i)
{
    return data + i * rlx_dtype_block_bytes(t);
}

/* A panel holds groups of `width` lines; in a group element (k, line) is at k * width + line. Lines
 * past the end are zero. `line` and `step` are the strides across lines and along k. */
typedef struct panel {
    rlx_dtype dtype;
    const char *data;
    int64_t line, step;
    int width;
} panel;

static void pack_along_k(const panel *p, int64_t k0, int64_t k, int lines, float *to)
{
    float run[KC];
    for (int i = 0; i < lines; i++) {
        int64_t first = i * p->line + k0 * p->step;
        rx_load_lanes(p->dtype, element(p->dtype, p->data, first), p->step, run, k);
        for (int64_t j = 0; j < k; j++)
            to[j * p->width + i] = run[j];
    }
}

static void pack_group(const panel *p, int64_t k0, int64_t k, int lines, float *to)
{
    if (lines < p->width)
        memset(to, 0, (size_t)(k * p->width) * sizeof *to);
    if (p->line != 1) {
        pack_along_k(p, k0, k, lines, to);
        return;
    }
    for (int64_t j = 0; j < k; j++)
        rx_load_lanes(p->dtype, element(p->dtype, p->data, (k0 + j) * p->step), 1,
                      to + j * p->width, lines);
}

static void pack_panel(panel p, int64_t k0, int64_t k, int64_t n_lines, float *to)
{
    for (int64_t i = 0; i < n_lines; i += p.width) {
        int lines = n_lines - i < p.width ? (int)(n_lines - i) : p.width;
        pack_group(&p, k0, k, lines, to);
        p.data = element(p.dtype, p.data, p.width * p.line);
        to += k * p.width;
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

/* sums[MR][NR] += a . b for groups of panels, k deep. */
static void micro_kernel(const float *restrict a, const float *restrict b, int64_t k,
                         float *restrict sums)
{
    float acc[MR][NR] = {{0}};
    for (int64_t p = 0; p < k; p++) {
        for (int i = 0; i < MR; i++)
            for (int j = 0; j < NR; j++)
                acc[i][j] += a[i] * b[j];
        a += MR;
        b += NR;
    }
    for (int i = 0; i < MR; i++)
        for (int j = 0; j < NR; j++)
            sums[i * TILE_N + j] += acc[i][j];
}

static void multiply_tile(const product *p, const tile *t)
{
    panel a = {p->a->dtype, element(p->a->dtype, t->a, t->m0 * p->a_m), p->a_m, p->a_k, MR};
    panel b = {p->b->dtype, element(p->b->dtype, t->b, t->n0 * p->b_n), p->b_n, p->b_k, NR};
    for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
        int64_t k = p->k - k0 < KC ? p->k - k0 : KC;
        pack_panel(a, k0, k, t->rows, t->a_panel);
        pack_panel(b, k0, k, t->cols, t->b_panel);
        for (int64_t j = 0; j < t->cols; j += NR)
            for (int64_t i = 0; i < t->rows; i += MR)
                micro_kernel(t->a_panel + i * k, t->b_panel + j * k, k,
                             t->sums + i * TILE_N + j);
    }
}

/* A dot product in 16 parts. */
static float dot_lanes(const float *x, const float *y, int64_t n)
{
    float part[16] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + 16 <= n; i += 16)
        for (int k = 0; k < 16; k++)
            part[k] += x[i + k] * y[i + k];
    for (; i < n; i++)
        part[0] += x[i] * y[i];
    for (int k = 0; k < 16; k++)
        sum += part[k];
    return sum;
}

static const float *lanes_of(rlx_dtype t, const char *data, int64_t stride, float *room, int64_t n)
{
    if (t == RLX_F32 && stride == 1)
        return (const float *)data;
    rx_load_lanes(t, data, stride, room, n);
    return room;
}

/* b lies along k: each column is a dot product with each row of a (a_panel: [rows][KC]). */
static void add_columns(const product *p, const tile *t, int64_t k0, int64_t k)
{
    for (int64_t j = 0; j < t->cols; j++) {
        int64_t at = (t->n0 + j) * p->b_n + k0 * p->b_k;
        const float *b = lanes_of(p->b->dtype, element(p->b->dtype, t->b, at), p->b_k, t->b_panel,
                                  k);
        for (int64_t i = 0; i < t->rows; i++)
            t->sums[i * TILE_N + j] += dot_lanes(t->a_panel + i * KC, b, k);
    }
}

/* b lies along n: each row of it is added to the sums, weighted by an element of each row of a. */
static void add_rows(const product *p, const tile *t, int64_t k0, int64_t k)
{
    for (int64_t q = 0; q < k; q++) {
        int64_t at = t->n0 * p->b_n + (k0 + q) * p->b_k;
        const float *b = lanes_of(p->b->dtype, element(p->b->dtype, t->b, at), p->b_n, t->b_panel,
                                  t->cols);
        for (int64_t i = 0; i < t->rows; i++) {
            const float a = t->a_panel[i * KC + q];
            float *restrict sums = t->sums + i * TILE_N;
            for (int64_t j = 0; j < t->cols; j++)
                sums[j] += a * b[j];
        }
    }
}

static void multiply_rows(const product *p, const tile *t)
{
    for (int64_t k0 = 0; k0 < p->k; k0 += KC) {
        int64_t k = p->k - k0 < KC ? p->k - k0 : KC;
        for (int64_t i = 0; i < t->rows; i++) {
            int64_t at = (t->m0 + i) * p->a_m + k0 * p->a_k;
            rx_load_lanes(p->a->dtype, element(p->a->dtype, t->a, at), p->a_k, t->a_panel + i * KC,
                          k);
        }
        if (p->b_n == 1)
            add_rows(p, t, k0, k);
        else
            add_columns(p, t, k0, k);
    }
}

/* ---- After the sum --------------------------------------------------------------------------- */

static void add_residual(const product *p, int64_t first, float *row, int64_t n, float *room)
{
    const rx_view *r = &p->residual;
    int64_t at[RLX_MAX_RANK];
    rx_unravel(first, r->dim, r->rank, at);
    int64_t stride = p->n > 1 ? r->stride[r->rank - 1] : 1;
    const float *lanes = lanes_of(r->dtype, element(r->dtype, r->data, rx_offset(r, at)), stride,
                                  room, n);
    for (int64_t j = 0; j < n; j++)
        row[j] += lanes[j];
}

static void store_tile(const product *p, const tile *t)
{
    const rlx_matmul_desc *d = p->desc;
    float *room = t->a_panel;
    for (int64_t i = 0; i < t->rows; i++) {
        float *row = t->sums + i * TILE_N;
        int64_t first = (t->batch * p->m + t->m0 + i) * p->n + t->n0;
        if (p->bias) {
            int64_t step = p->bias->stride[0];
            const float *bias = lanes_of(p->bias->dtype,
                                         element(p->bias->dtype, p->bias->data, t->n0 * step), step,
                                         room, t->cols);
            for (int64_t j = 0; j < t->cols; j++)
                row[j] += bias[j];
        }
        if (!d->act_last)
            rx_act_lanes(d->act, row, t->cols);
        if (p->residual.rank >= 0)
            add_residual(p, first, row, t->cols, room);
        if (d->act_last)
            rx_act_lanes(d->act, row, t->cols);
        int64_t size = rlx_dtype_block_bytes(p->out->dtype);
        rx_store_lanes(p->out->dtype, p->out->data + first * size, 1, row, t->cols);
    }
}

static void run_tiles(void *user, int64_t begin, int64_t end)
{
    const product *p = user;
    float *room = p->room + (int64_t)rx_pool_slot() * ROOM;
    for (int64_t index = begin; index < end; index++) {
        int64_t n_tile = index / p->m_tiles % p->n_tiles, m_tile = index % p->m_tiles;
        tile t = {.batch = index / (p->m_tiles * p->n_tiles), .m0 = m_tile * TILE_M,
                  .n0 = n_tile * TILE_N, .a = p->a->data, .b = p->b->data, .sums = room,
                  .a_panel = room + SUMS, .b_panel = room + SUMS + TILE_M * KC};
        t.rows = p->m - t.m0 < TILE_M ? p->m - t.m0 : TILE_M;
        t.cols = p->n - t.n0 < TILE_N ? p->n - t.n0 : TILE_N;
        int64_t at[RLX_MAX_RANK];
        rx_unravel(t.batch, p->dim, p->n_axes, at);
        for (int i = 0; i < p->n_axes; i++) {
            t.a = element(p->a->dtype, t.a, at[i] * p->a_stride[i]);
            t.b = element(p->b->dtype, t.b, at[i] * p->b_stride[i]);
        }
        memset(t.sums, 0, SUMS * sizeof *t.sums);
        if (p->m <= FEW_ROWS)
            multiply_rows(p, &t);
        else
            multiply_tile(p, &t);
        store_tile(p, &t);
    }
}

/* ---- Setting up ------------------------------------------------------------------------------ */

/* Stride of an operand along batch axis i of n_axes; 0 where it broadcasts. */
static int64_t batch_stride(const rx_view *v, int n_axes, int i)
{
    int own = v->rank > 2 ? v->rank - 2 : 0, at = i - (n_axes - own);
    return at < 0 || v->dim[at] == 1 ? 0 : v->stride[at];
}

static void set_shape(product *p)
{
    const rx_view *a = p->a, *b = p->b;
    bool trans_b = p->desc->trans_b;
    p->k = a->dim[a->rank - 1];
    p->a_k = a->stride[a->rank - 1];
    if (a->rank > 1) {
        p->m = a->dim[a->rank - 2];
        p->a_m = a->stride[a->rank - 2];
    }
    p->b_k = b->stride[b->rank - (b->rank > 1 && !trans_b ? 2 : 1)];
    if (b->rank > 1) {
        int n_axis = trans_b ? b->rank - 2 : b->rank - 1;
        p->n = b->dim[n_axis];
        p->b_n = b->stride[n_axis];
    }
    int rank = a->rank > b->rank ? a->rank : b->rank;
    p->n_axes = rank > 2 ? rank - 2 : 0;
    for (int i = 0; i < p->n_axes; i++) {
        p->dim[i] = p->out->dim[i];
        p->a_stride[i] = batch_stride(a, p->n_axes, i);
        p->b_stride[i] = batch_stride(b, p->n_axes, i);
        p->n_batches *= p->dim[i];
    }
    p->m_tiles = (p->m + TILE_M - 1) / TILE_M;
    p->n_tiles = (p->n + TILE_N - 1) / TILE_N;
}

/* One matrix for all batches of a: the batches are more rows of one product. */
static void fold_batches(product *p)
{
    if (p->n_axes == 0 || p->a->rank < 2)
        return;
    for (int i = 0; i < p->n_axes; i++) {
        int64_t below = i + 1 < p->n_axes ? p->dim[i + 1] * p->a_stride[i + 1] : p->m * p->a_m;
        if (p->dim[i] != 1 && (p->b_stride[i] != 0 || p->a_stride[i] != below))
            return;
        if (p->dim[i] == 1 && i + 1 < p->n_axes)
            return;
    }
    p->m *= p->n_batches;
    p->n_batches = 1;
    p->n_axes = 0;
    p->m_tiles = (p->m + TILE_M - 1) / TILE_M;
}

rlx_status rx_generic_matmul(const rx_call *c)
{
    const rx_view *out = rx_call_out(c, 0), *residual = rx_call_in(c, 3);
    if (!out || rx_view_elements(out) == 0)
        return RLX_OK;
    product p = {.a = &c->in[0], .b = &c->in[1], .out = out, .bias = rx_call_in(c, 2),
                 .residual = {.rank = -1}, .desc = c->attr, .m = 1, .n = 1, .n_batches = 1};
    if (!rlx_dtype_is_float(p.a->dtype) || !rlx_dtype_is_float(p.b->dtype) ||
        !rlx_dtype_is_float(out->dtype) || (p.bias && !rlx_dtype_is_float(p.bias->dtype)) ||
        (residual && !rlx_dtype_is_float(residual->dtype)))
        return RLX_UNSUPPORTED;
    if (residual)
        p.residual = rx_broadcast_view(residual, out);
    set_shape(&p);
    fold_batches(&p);
    p.room = rx_call_scratch(c, (size_t)rx_pool_n_threads(c->pool) * ROOM * sizeof *p.room);
    if (!p.room)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, p.n_batches * p.m_tiles * p.n_tiles, 1, run_tiles, &p);
    return RLX_OK;
}
