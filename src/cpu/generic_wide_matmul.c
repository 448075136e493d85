/* SPDX-License-Identifier: MIT */
/* Matrix products of f64 and of integers, on any strides. A thread takes N_COLS columns of b, packs
 * them as 64-bit lanes in panels of NR and multiplies MR packed rows of a at a time with a kernel
 * that the compiler keeps in registers. Integers wrap, so their order is free; sums of f64 are in
 * the order of k. */
#include "base/dtype.h"
#include "cpu/generic.h"
#include "cpu/generic_wide.h"
#include "cpu/pool.h"
#include "cpu/product.h"
#include "cpu/ref/ref.h"

#define MR 4
#define NR 8
#define M_ROWS 64 /* rows of a and columns of b that a unit of work has */
#define N_COLS 64

typedef struct wide_product {
    rx_product p;
    bool is_float;
    int64_t m_parts, n_parts;
    rx_scalar *room; /* (MR + N_COLS) * k for each thread */
} wide_product;

/* Lines of k numbers: rows of a or columns of b, with their strides. */
typedef struct lines {
    rlx_dtype t;
    int64_t line, step, k;
} lines;

static int64_t line_bytes(const lines *l) { return l->line * rlx_dtype_block_bytes(l->t); }

/* Line i of n goes to column i of [k][width]; zeros to the others. */
static void pack_lines(const lines *l, const char *data, int n, int width, rx_scalar *to)
{
    rx_scalar part[64];
    const int64_t size = rlx_dtype_block_bytes(l->t);
    for (int i = 0; i < width; i++)
        for (int64_t j = 0, m; j < l->k; j += m) {
            m = l->k - j < 64 ? l->k - j : 64;
            const char *from = data + (i * l->line + j * l->step) * size;
            if (i >= n)
                memset(part, 0, sizeof part);
            else if (rlx_dtype_is_float(l->t))
                rx_load_reals(l->t, from, l->step, &part[0].f, m);
            else
                rx_load_ints(l->t, from, l->step, &part[0].i, m);
            for (int64_t x = 0; x < m; x++)
                to[(j + x) * width + i] = part[x];
        }
}

#define MULTIPLY(name, type)                                                                \
    static void multiply_##name(const type *restrict a, const type *restrict b, int64_t k,  \
                                type *restrict sums)                                        \
    {                                                                                       \
        type acc[MR][NR] = {{0}};                                                           \
        for (int64_t p = 0; p < k; p++, a += MR, b += NR)                                   \
            for (int i = 0; i < MR; i++)                                                    \
                for (int j = 0; j < NR; j++)                                                \
                    acc[i][j] += a[i] * b[j];                                               \
        memcpy(sums, acc, sizeof acc);                                                      \
    }
MULTIPLY(reals, double)
MULTIPLY(ints, uint64_t)

/* Element i of the result, in column n. */
static void store_sum(const wide_product *w, int64_t i, int64_t n, rx_scalar sum)
{
    const rx_product *p = &w->p;
    const rx_view *bias = p->bias;
    rx_view residual = p->residual;
    if (residual.rank >= 0)
        residual.data = (char *)(uintptr_t)rx_product_residual(p, i);
    if (!w->is_float) {
        uint64_t y = (uint64_t)sum.i;
        y += bias ? (uint64_t)rx_load_int(bias, n * bias->stride[0]) : 0;
        y += residual.rank >= 0 ? (uint64_t)rx_load_int(&residual, 0) : 0;
        rx_store_int(p->out, i, (int64_t)y);
        return;
    }
    const double rest = residual.rank >= 0 ? rx_load(&residual, 0) : 0;
    double y = sum.f + (bias ? rx_load(bias, n * bias->stride[0]) : 0);
    y = p->act_last ? rx_ref_act(p->act, y + rest) : rx_ref_act(p->act, y) + rest;
    rx_store(p->out, i, y);
}

/* Packed rows, at most MR from row `row` of the result on, and a packed panel from column n0 on. */
static void multiply_panel(const wide_product *w, const rx_scalar *a, const rx_scalar *b,
                           int64_t row, int rows, int64_t n0)
{
    const rx_product *p = &w->p;
    const int64_t cols = p->n - n0 < NR ? p->n - n0 : NR;
    rx_scalar sums[MR * NR];
    if (w->is_float)
        multiply_reals(&a->f, &b->f, p->k, &sums->f);
    else
        multiply_ints((const uint64_t *)a, (const uint64_t *)b, p->k, (uint64_t *)sums);
    for (int i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++)
            store_sum(w, (row + i) * p->n + n0 + j, n0 + j, sums[i * NR + j]);
}

/* Units: batches, parts of the rows, parts of the columns. */
static void run_parts(void *user, int64_t begin, int64_t end)
{
    const wide_product *w = user;
    const rx_product *p = &w->p;
    const lines rows_of_a = {p->a->dtype, p->a_m, p->a_k, p->k};
    const lines columns_of_b = {p->b->dtype, p->b_n, p->b_k, p->k};
    for (; begin < end; begin++) {
        const int64_t n0 = begin % w->n_parts * N_COLS, part = begin / w->n_parts;
        const int64_t batch = part / w->m_parts, m0 = part % w->m_parts * M_ROWS;
        const int64_t n_last = p->n - n0 < N_COLS ? p->n : n0 + N_COLS;
        const int64_t m_last = p->m - m0 < M_ROWS ? p->m : m0 + M_ROWS;
        rx_scalar *a_room = w->room + rx_pool_slot() * (MR + N_COLS) * p->k;
        rx_scalar *b_room = a_room + MR * p->k;
        const char *a, *b;
        rx_product_batch(p, batch, &a, &b);
        for (int64_t n = n0; n < n_last; n += NR)
            pack_lines(&columns_of_b, b + n * line_bytes(&columns_of_b),
                       n_last - n < NR ? (int)(n_last - n) : NR, NR, b_room + (n - n0) * p->k);
        for (int64_t m = m0; m < m_last; m += MR) {
            const int rows = m_last - m < MR ? (int)(m_last - m) : MR;
            pack_lines(&rows_of_a, a + m * line_bytes(&rows_of_a), rows, MR, a_room);
            for (int64_t n = n0; n < n_last; n += NR)
                multiply_panel(w, a_room, b_room + (n - n0) * p->k, batch * p->m + m, rows, n);
        }
    }
}

rlx_status rx_generic_wide_matmul(const rx_call *c)
{
    const rlx_matmul_desc *d = c->attr;
    const rx_view *out = rx_call_out(c, 0), *residual = rx_call_in(c, 3);
    if (!out || rx_view_elements(out) == 0)
        return RLX_OK;
    wide_product w = {.is_float = rlx_dtype_is_float(c->in[0].dtype)};
    rx_product_init(&w.p, c, d->trans_b);
    if (w.p.k == 0)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    w.p.bias = rx_call_in(c, 2);
    w.p.act = d->act;
    w.p.act_last = d->act_last;
    if (residual)
        w.p.residual = rx_broadcast_view(residual, out);
    w.m_parts = (w.p.m + M_ROWS - 1) / M_ROWS;
    w.n_parts = (w.p.n + N_COLS - 1) / N_COLS;
    const int64_t threads = rx_pool_n_threads(c->pool);
    w.room = rx_call_array(c, (uint64_t)((MR + N_COLS) * w.p.k * threads), sizeof *w.room);
    if (!w.room)
        return RLX_NO_MEMORY;
    const int64_t rows = w.p.m < M_ROWS ? w.p.m : M_ROWS, cols = w.p.n < N_COLS ? w.p.n : N_COLS;
    rx_parallel(c->pool, w.p.n_batches * w.m_parts * w.n_parts,
                RX_GRAIN * 16 / (rows * cols * w.p.k) + 1, run_parts, &w);
    return RLX_OK;
}
