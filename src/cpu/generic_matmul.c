/* SPDX-License-Identifier: MIT */
/* Matrix products of f32, f16 and bf16 with bias, activation and residual, on any strides. The
 * result is cut into tiles; a thread packs the panels of a and b that a tile needs, KC deep, and
 * multiplies them with an MR x NR kernel that the compiler keeps in registers. With a few rows
 * only, packing does not pay: then b is streamed once, in place. */
#include <string.h>

#include "cpu/generic.h"
#include "cpu/pool.h"
#include "cpu/product.h"
#include "cpu/ref/ref.h"

#define MR 4
#define NR 8
#define TILE_M 64
#define TILE_N 128
#define KC 256
#define FEW_ROWS 6 /* up to this many rows: no packing */

typedef struct tiled {
    rx_product p;
    int64_t m_tiles, n_tiles;
    float *room; /* ROOM floats for each thread */
} tiled;

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

static void multiply_tile(const rx_product *p, const tile *t)
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

/* b is contiguous along k: each column takes a dot product with each row of a ([rows][KC]). */
static void add_columns(const rx_product *p, const tile *t, int64_t k0, int64_t k)
{
    for (int64_t j = 0; j < t->cols; j++) {
        int64_t at = (t->n0 + j) * p->b_n + k0 * p->b_k;
        const float *b = lanes_of(p->b->dtype, element(p->b->dtype, t->b, at), p->b_k, t->b_panel,
                                  k);
        for (int64_t i = 0; i < t->rows; i++)
            t->sums[i * TILE_N + j] += dot_lanes(t->a_panel + i * KC, b, k);
    }
}

/* b is contiguous along n: its rows are accumulated, scaled by an element of each row of a. */
static void add_rows(const rx_product *p, const tile *t, int64_t k0, int64_t k)
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

static void multiply_rows(const rx_product *p, const tile *t)
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

static void add_residual(const rx_product *p, int64_t first, float *row, int64_t n, float *room)
{
    const rx_view *r = &p->residual;
    int64_t stride = p->n > 1 ? r->stride[r->rank - 1] : 1;
    const float *lanes = lanes_of(r->dtype, rx_product_residual(p, first), stride, room, n);
    for (int64_t j = 0; j < n; j++)
        row[j] += lanes[j];
}

static void store_tile(const rx_product *p, const tile *t)
{
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
        if (!p->act_last)
            rx_act_lanes(p->act, row, t->cols);
        if (p->residual.rank >= 0)
            add_residual(p, first, row, t->cols, room);
        if (p->act_last)
            rx_act_lanes(p->act, row, t->cols);
        int64_t size = rlx_dtype_block_bytes(p->out->dtype);
        rx_store_lanes(p->out->dtype, p->out->data + first * size, 1, row, t->cols);
    }
}

static void run_tiles(void *user, int64_t begin, int64_t end)
{
    const tiled *x = user;
    const rx_product *p = &x->p;
    float *room = x->room + (int64_t)rx_pool_slot() * ROOM;
    for (int64_t index = begin; index < end; index++) {
        int64_t n_tile = index / x->m_tiles % x->n_tiles, m_tile = index % x->m_tiles;
        tile t = {.batch = index / (x->m_tiles * x->n_tiles), .m0 = m_tile * TILE_M,
                  .n0 = n_tile * TILE_N, .sums = room,
                  .a_panel = room + SUMS, .b_panel = room + SUMS + TILE_M * KC};
        t.rows = p->m - t.m0 < TILE_M ? p->m - t.m0 : TILE_M;
        t.cols = p->n - t.n0 < TILE_N ? p->n - t.n0 : TILE_N;
        rx_product_batch(p, t.batch, &t.a, &t.b);
        memset(t.sums, 0, SUMS * sizeof *t.sums);
        if (p->m <= FEW_ROWS)
            multiply_rows(p, &t);
        else
            multiply_tile(p, &t);
        store_tile(p, &t);
    }
}

rlx_status rx_generic_matmul(const rx_call *c)
{
    const rx_view *out = rx_call_out(c, 0), *bias = rx_call_in(c, 2), *residual = rx_call_in(c, 3);
    const rlx_matmul_desc *desc = c->attr;
    if (!out || rx_view_elements(out) == 0)
        return RLX_OK;
    if (!rlx_dtype_is_float(c->in[0].dtype) || !rlx_dtype_is_float(c->in[1].dtype) ||
        !rlx_dtype_is_float(out->dtype) || (bias && !rlx_dtype_is_float(bias->dtype)) ||
        (residual && !rlx_dtype_is_float(residual->dtype)))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    tiled x;
    rx_product_init(&x.p, c, desc->trans_b);
    x.p.bias = bias;
    x.p.act = desc->act;
    x.p.act_last = desc->act_last;
    if (residual)
        x.p.residual = rx_broadcast_view(residual, out);
    x.m_tiles = (x.p.m + TILE_M - 1) / TILE_M;
    x.n_tiles = (x.p.n + TILE_N - 1) / TILE_N;
    x.room = rx_call_array(c, (uint64_t)rx_pool_n_threads(c->pool) * ROOM, sizeof *x.room);
    if (!x.room)
        return RLX_NO_MEMORY;
    rx_parallel(c->pool, x.p.n_batches * x.m_tiles * x.n_tiles, 1, run_tiles, &x);
    return RLX_OK;
}
