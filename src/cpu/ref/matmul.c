/* SPDX-License-Identifier: MIT */
/* Reference matrix products: matmul and qmatmul with any strides and batch broadcasts, products
 * with packed weights and with banks of experts. Sums are doubles, or 64-bit integers for integers,
 * in the order of k. TILE_ROWS rows of the left side are held as doubles or integers, so that each
 * column of the right side is read (and decoded) once per tile. */
#include "cpu/ref/ref.h"

#include <math.h>

/* Rows of the left side per tile. */
#define TILE_ROWS 16

/* ---- Epilogue -------------------------------------------------------------------------------- */

typedef struct epilogue {
    const rx_view *out;
    const rx_view *bias;     /* [N] or NULL */
    const rx_view *scale;    /* requantisation: f32, scalar or [N]; or NULL */
    rx_view residual;        /* seen with the shape of out; rank -1: none */
    int64_t y_zero;
    rlx_act act;
    bool act_last;
} epilogue;

static epilogue make_epilogue(const rx_call *c, const rx_view *bias, const rx_view *residual)
{
    epilogue e = {.out = &c->out[0], .bias = bias, .residual = {.rank = -1}};
    if (residual)
        e.residual = rx_broadcast_view(residual, e.out);
    return e;
}

/* Offset in the residual of element i of the result. */
static int64_t residual_offset(const epilogue *e, int64_t i)
{
    int64_t at[RLX_MAX_RANK];
    rx_unravel(i, e->out->dim, e->out->rank, at);
    return rx_offset(&e->residual, at);
}

/* Element i of the result, in column n. */
static void store_float(const epilogue *e, int64_t i, int64_t n, double sum)
{
    if (e->bias)
        sum += rx_load(e->bias, n * e->bias->stride[0]);
    double residual = e->residual.rank < 0 ? 0 : rx_load(&e->residual, residual_offset(e, i));
    sum = e->act_last ? rx_ref_act(e->act, sum + residual) : rx_ref_act(e->act, sum) + residual;
    rx_store(e->out, i, sum);
}

static int64_t wrap_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

/* The sum wraps to the type of the result, before requantisation to i32. Requantisation is f32
 * arithmetic on every device: one product, one rounding to an integer; the rest is exact. */
static void store_int(const epilogue *e, int64_t i, int64_t n, int64_t sum)
{
    if (e->bias)
        sum = wrap_add(sum, rx_load_int(e->bias, n * e->bias->stride[0]));
    if (e->residual.rank >= 0)
        sum = wrap_add(sum, rx_load_int(&e->residual, residual_offset(e, i)));
    if (!e->scale) {
        rx_store_int(e->out, i, sum);
        return;
    }
    float scale = (float)rx_load(e->scale, e->scale->rank ? n * e->scale->stride[0] : 0);
    float y = (float)(int32_t)(uint32_t)(uint64_t)sum * scale;
    rx_store(e->out, i, (double)rintf(y) + (double)e->y_zero);
}

/* ---- matmul, qmatmul ------------------------------------------------------------------------- */

/* A batched product by strides: element (m, k) of a is m * a_m + k * a_k after the first of its
 * batch. */
typedef struct product {
    const rx_view *a, *b;
    int64_t m, n, k, n_batches;
    int64_t a_m, a_k, b_k, b_n;
    int n_axes; /* batch axes */
    int64_t dim[RLX_MAX_RANK], a_stride[RLX_MAX_RANK], b_stride[RLX_MAX_RANK];
} product;

/* Stride of an operand along batch axis i of n_axes; 0 where it broadcasts. */
static int64_t batch_stride(const rx_view *v, int n_axes, int i)
{
    int own = v->rank > 2 ? v->rank - 2 : 0, at = i - (n_axes - own);
    return at < 0 || v->dim[at] == 1 ? 0 : v->stride[at];
}

static product make_product(const rx_call *c, bool trans_b)
{
    const rx_view *a = &c->in[0], *b = &c->in[1];
    product p = {.a = a, .b = b, .m = 1, .n = 1, .n_batches = 1};
    p.k = a->dim[a->rank - 1];
    p.a_k = a->stride[a->rank - 1];
    if (a->rank > 1) {
        p.m = a->dim[a->rank - 2];
        p.a_m = a->stride[a->rank - 2];
    }
    int k_axis = b->rank - (b->rank > 1 && !trans_b ? 2 : 1);
    p.b_k = b->stride[k_axis];
    if (b->rank > 1) {
        int n_axis = trans_b ? b->rank - 2 : b->rank - 1;
        p.n = b->dim[n_axis];
        p.b_n = b->stride[n_axis];
    }
    int rank = a->rank > b->rank ? a->rank : b->rank;
    p.n_axes = rank > 2 ? rank - 2 : 0;
    for (int i = 0; i < p.n_axes; i++) {
        p.dim[i] = c->out[0].dim[i];
        p.a_stride[i] = batch_stride(a, p.n_axes, i);
        p.b_stride[i] = batch_stride(b, p.n_axes, i);
        p.n_batches *= p.dim[i];
    }
    return p;
}

/* First elements of both operands in a batch. */
static void find_batch(const product *p, int64_t batch, int64_t *a_first, int64_t *b_first)
{
    int64_t at[RLX_MAX_RANK];
    rx_unravel(batch, p->dim, p->n_axes, at);
    *a_first = *b_first = 0;
    for (int i = 0; i < p->n_axes; i++) {
        *a_first += at[i] * p->a_stride[i];
        *b_first += at[i] * p->b_stride[i];
    }
}

static void load_line(const rx_view *v, int64_t first, int64_t stride, int64_t n, double *dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rx_load(v, first + i * stride);
}

static void load_int_line(const rx_view *v, int64_t first, int64_t stride, int64_t n, int64_t *dst)
{
    for (int64_t i = 0; i < n; i++)
        dst[i] = rx_load_int(v, first + i * stride);
}

static double dot(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * y[i];
    return sum;
}

static int64_t int_dot(const int64_t *x, const int64_t *y, int64_t n)
{
    uint64_t sum = 0; /* wraps */
    for (int64_t i = 0; i < n; i++)
        sum += (uint64_t)x[i] * (uint64_t)y[i];
    return (int64_t)sum;
}

/* Room for `lines` lines of k numbers of 8 bytes. */
static void *scratch_lines(const rx_call *c, int64_t lines, int64_t k)
{
    return rx_call_array(c, lines * (k ? k : 1), sizeof(double));
}

static int64_t tile_rows(int64_t m, int64_t first)
{
    return m - first < TILE_ROWS ? m - first : TILE_ROWS;
}

static rlx_status float_product(const rx_call *c, const product *p, const epilogue *e)
{
    double *rows = scratch_lines(c, TILE_ROWS + 1, p->k);
    if (!rows)
        return RLX_NO_MEMORY;
    double *column = rows + TILE_ROWS * p->k;
    int64_t n_tiles = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t t = 0; t < p->n_batches * n_tiles; t++) {
        int64_t batch = t / n_tiles, m0 = t % n_tiles * TILE_ROWS, n_rows = tile_rows(p->m, m0);
        int64_t a_first, b_first;
        find_batch(p, batch, &a_first, &b_first);
        for (int64_t r = 0; r < n_rows; r++)
            load_line(p->a, a_first + (m0 + r) * p->a_m, p->a_k, p->k, rows + r * p->k);
        for (int64_t n = 0; n < p->n; n++) {
            load_line(p->b, b_first + n * p->b_n, p->b_k, p->k, column);
            int64_t i = (batch * p->m + m0) * p->n + n;
            for (int64_t r = 0; r < n_rows; r++, i += p->n)
                store_float(e, i, n, dot(rows + r * p->k, column, p->k));
        }
    }
    return RLX_OK;
}

/* zero[0] and zero[1] are taken from each element of a and b. */
static rlx_status int_product(const rx_call *c, const product *p, const epilogue *e,
                              const int64_t zero[2])
{
    int64_t *rows = scratch_lines(c, TILE_ROWS + 1, p->k);
    if (!rows)
        return RLX_NO_MEMORY;
    int64_t *column = rows + TILE_ROWS * p->k;
    int64_t n_tiles = (p->m + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t t = 0; t < p->n_batches * n_tiles; t++) {
        int64_t batch = t / n_tiles, m0 = t % n_tiles * TILE_ROWS, n_rows = tile_rows(p->m, m0);
        int64_t a_first, b_first;
        find_batch(p, batch, &a_first, &b_first);
        for (int64_t r = 0; r < n_rows; r++)
            load_int_line(p->a, a_first + (m0 + r) * p->a_m, p->a_k, p->k, rows + r * p->k);
        for (int64_t i = 0; i < n_rows * p->k; i++)
            rows[i] -= zero[0];
        for (int64_t n = 0; n < p->n; n++) {
            load_int_line(p->b, b_first + n * p->b_n, p->b_k, p->k, column);
            for (int64_t k = 0; k < p->k; k++)
                column[k] -= zero[1];
            int64_t i = (batch * p->m + m0) * p->n + n;
            for (int64_t r = 0; r < n_rows; r++, i += p->n)
                store_int(e, i, n, int_dot(rows + r * p->k, column, p->k));
        }
    }
    return RLX_OK;
}

rlx_status rx_ref_matmul(const rx_call *c)
{
    const rlx_matmul_desc *d = c->attr;
    product p = make_product(c, d->trans_b);
    epilogue e = make_epilogue(c, rx_call_in(c, 2), rx_call_in(c, 3));
    e.act = d->act;
    e.act_last = d->act_last;
    if (rlx_dtype_is_int(c->in[0].dtype))
        return int_product(c, &p, &e, (const int64_t[2]){0, 0});
    return float_product(c, &p, &e);
}

rlx_status rx_ref_qmatmul(const rx_call *c)
{
    const rlx_qmatmul_desc *d = c->attr;
    product p = make_product(c, d->trans_b);
    epilogue e = make_epilogue(c, rx_call_in(c, 3), NULL);
    e.scale = rx_call_in(c, 2);
    e.y_zero = d->y_zero;
    return int_product(c, &p, &e, (const int64_t[2]){d->a_zero, d->b_zero});
}

/* ---- dequant_matmul -------------------------------------------------------------------------- */

/* Row n of w [N, K], dequantised. */
static void load_weight_row(const rx_call *c, int64_t n, int64_t k, double *dst)
{
    const rlx_dequant_desc *d = c->attr;
    const rx_view *w = &c->in[1], *scale = rx_call_in(c, 2), *zero = rx_call_in(c, 3);
    if (!scale) {
        rx_load_row(w, n, dst);
        return;
    }
    for (int64_t i = 0; i < k; i++) {
        int64_t block = i / d->block, at = d->bits == 4 ? i / 2 : i;
        int64_t v = rx_load_int(w, n * w->stride[0] + at * w->stride[1]);
        int64_t z = d->bits == 4 ? 8 : 0;
        if (d->bits == 4)
            v = i % 2 ? v >> 4 : v & 15;
        if (zero)
            z = rx_load_int(zero, n * zero->stride[0] + block * zero->stride[1]);
        dst[i] = (double)(v - z) *
                 rx_load(scale, n * scale->stride[0] + block * scale->stride[1]);
    }
}

rlx_status rx_ref_dequant_matmul(const rx_call *c)
{
    const rlx_dequant_desc *d = c->attr;
    const rx_view *x = &c->in[0];
    int64_t k = x->dim[x->rank - 1], n_cols = c->in[1].dim[0], m = 1;
    for (int i = 0; i < x->rank - 1; i++)
        m *= x->dim[i];
    epilogue e = make_epilogue(c, rx_call_in(c, 4), rx_call_in(c, 5));
    e.act = d->act;
    e.act_last = d->act_last;

    double *rows = scratch_lines(c, TILE_ROWS + 1, k);
    if (!rows)
        return RLX_NO_MEMORY;
    double *weight = rows + TILE_ROWS * k;
    for (int64_t m0 = 0; m0 < m; m0 += TILE_ROWS) {
        int64_t n_rows = tile_rows(m, m0);
        for (int64_t r = 0; r < n_rows; r++)
            rx_load_row(x, m0 + r, rows + r * k);
        for (int64_t n = 0; n < n_cols; n++) {
            load_weight_row(c, n, k, weight);
            for (int64_t r = 0; r < n_rows; r++)
                store_float(&e, (m0 + r) * n_cols + n, n, dot(rows + r * k, weight, k));
        }
    }
    return RLX_OK;
}

/* ---- grouped_matmul, dequant_grouped_matmul -------------------------------------------------- */

rlx_status rx_ref_grouped_matmul(const rx_call *c)
{
    const rx_view *x = &c->in[0], *w = &c->in[1], *ids = &c->in[2], *out = &c->out[0];
    bool by_row = c->op == RX_OP_dequant_grouped_matmul ||
                  ((const rx_grouped_attr *)c->attr)->trans_b;
    int64_t m = x->dim[0], k = x->dim[1], n_cols = out->dim[1], n_experts = w->dim[0];
    double *row = scratch_lines(c, 2, k);
    if (!row)
        return RLX_NO_MEMORY;
    double *column = row + k;
    for (int64_t i = 0; i < m; i++) {
        int64_t expert = rx_load_index(c, ids, i * ids->stride[0], n_experts);
        rx_load_row(x, i, row);
        for (int64_t n = 0; n < n_cols; n++) {
            /* A bank bound to 0 experts has no rows to read. */
            if (n_experts == 0)
                memset(column, 0, (size_t)k * sizeof *column);
            else if (by_row)
                rx_load_row(w, expert * n_cols + n, column);
            else
                load_line(w, expert * w->stride[0] + n * w->stride[2], w->stride[1], k, column);
            rx_store(out, i * n_cols + n, dot(row, column, k));
        }
    }
    return RLX_OK;
}
