/* SPDX-License-Identifier: MIT */
/* cumsum, cumprod and cummax of floats, in double as the reference; products with an exponent
 * beside them; one_hot and trilu, of which most is filled or copied. All tensors are dense. */
#include "cpu/generic_line.h"

#include <math.h>
#include <string.h>

#include "cpu/generic.h"
#include "cpu/ref/ref.h"

#define RUN 256

/* ---- Running sums, products, largest: [outer, n, inner] -------------------------------------- */

typedef struct cum_run {
    const rx_view *x, *y;
    rx_op op;
    int64_t n, inner, strips; /* of at most RUN columns */
    bool exclusive, reverse;
} cum_run;

/* Products m 2^e of each column, or of a line: see rx_scaled. */
typedef struct cum_products {
    double m[RUN];
    int64_t e[RUN];
    bool is_plain; /* all e are 0 */
    int n_unchecked; /* factors since m was last seen to be in range */
} cum_products;

static double cum_start(rx_op op)
{
    return op == RX_OP_cumsum ? 0 : -INFINITY;
}

static inline double cum_step(const rx_op op, double acc, double v)
{
    if (op == RX_OP_cumsum)
        return acc + v;
    return isnan(v) || v > acc ? v : acc;
}

/* n elements along one line, from its end with `reverse`. */
static inline double cum_along(const rx_op op, const cum_run *r, float *x, int64_t n, double acc)
{
    for (int64_t j = 0; j < n; j++) {
        float *at = x + (r->reverse ? n - 1 - j : j);
        const double old = acc;
        acc = cum_step(op, acc, *at);
        *at = (float)(r->exclusive ? old : acc);
    }
    return acc;
}

/* One element of each of n lines. */
static inline void cum_across(const rx_op op, const cum_run *r, float *x, int64_t n, double *acc)
{
    for (int64_t j = 0; j < n; j++) {
        const double old = acc[j];
        acc[j] = cum_step(op, old, x[j]);
        x[j] = (float)(r->exclusive ? old : acc[j]);
    }
}

static rx_scaled cum_product_along(const cum_run *r, float *x, int64_t n, rx_scaled acc)
{
    for (int64_t j = 0; j < n; j++) {
        float *at = x + (r->reverse ? n - 1 - j : j);
        const double old = rx_scaled_value(&acc);
        rx_scaled_multiply(&acc, *at);
        *at = (float)(r->exclusive ? old : rx_scaled_value(&acc));
    }
    return acc;
}

/* Brings the products of n lines back between 2^-512 and 2^512. */
static void cum_rescale(cum_products *p, int64_t n)
{
    for (int64_t j = 0; j < n; j++) {
        rx_scaled acc = {p->m[j], p->e[j]};
        rx_scaled_multiply(&acc, 1);
        p->m[j] = acc.m;
        p->e[j] = acc.e;
        p->is_plain = p->is_plain && acc.e == 0;
    }
    p->n_unchecked = 0;
}

/* One element of each of n lines. As long as no product needs an exponent, the loop is vectorised:
 * three factors of 2^-149 to 2^128 cannot bring a product from 2^+-512 out of double's range. */
static void cum_product_across(const cum_run *r, float *x, int64_t n, cum_products *p)
{
    if (p->is_plain && p->n_unchecked == 3)
        cum_rescale(p, n);
    p->n_unchecked++;
    for (int64_t j = 0; p->is_plain && j < n; j++) {
        const double old = p->m[j];
        p->m[j] = old * x[j];
        x[j] = (float)(r->exclusive ? old : p->m[j]);
    }
    for (int64_t j = 0; !p->is_plain && j < n; j++) {
        rx_scaled acc = {p->m[j], p->e[j]};
        const double old = rx_scaled_value(&acc);
        rx_scaled_multiply(&acc, x[j]);
        x[j] = (float)(r->exclusive ? old : rx_scaled_value(&acc));
        p->m[j] = acc.m;
        p->e[j] = acc.e;
    }
}

/* One line, or n lines. */
static void cum_product_part(const cum_run *r, float *x, int64_t n, cum_products *p)
{
    if (r->inner > 1) {
        cum_product_across(r, x, n, p);
        return;
    }
    const rx_scaled acc = cum_product_along(r, x, n, (rx_scaled){p->m[0], p->e[0]});
    p->m[0] = acc.m;
    p->e[0] = acc.e;
}

/* acc: one number for a line, or one for each column. */
static void cum_part(const cum_run *r, float *x, int64_t n, double *acc)
{
#define EACH(op)                                       \
    do {                                               \
        if (r->inner > 1)                              \
            cum_across(op, r, x, n, acc);              \
        else                                           \
            *acc = cum_along(op, r, x, n, *acc);       \
    } while (0)
    if (r->op == RX_OP_cumsum)
        EACH(RX_OP_cumsum);
    else
        EACH(RX_OP_cummax);
#undef EACH
}

/* Units: lines, or strips of columns of one outer index. */
static void cum_units(void *user, int64_t begin, int64_t end)
{
    const cum_run *r = user;
    const int64_t size = rlx_dtype_block_bytes(r->x->dtype);
    const int64_t step = r->inner > 1 ? 1 : RUN; /* elements of a line at a time */
    for (; begin < end; begin++) {
        const int64_t c0 = begin % r->strips * RUN, left = r->inner - c0;
        const int64_t first = begin / r->strips * r->n * r->inner + c0;
        double acc[RUN];
        cum_products products = {.is_plain = true};
        float x[RUN];
        for (int k = 0; k < RUN; k++) {
            acc[k] = cum_start(r->op);
            products.m[k] = 1;
        }
        for (int64_t done = 0; done < r->n; done += step) {
            const int64_t part = r->n - done < step ? r->n - done : step;
            const int64_t i = r->reverse ? r->n - done - part : done;
            const int64_t at = (first + i * r->inner) * size;
            const int64_t n = r->inner > 1 ? (left < RUN ? left : RUN) : part;
            rx_load_lanes(r->x->dtype, r->x->data + at, 1, x, n);
            if (r->op == RX_OP_cumprod)
                cum_product_part(r, x, n, &products);
            else
                cum_part(r, x, n, acc);
            rx_store_lanes(r->y->dtype, r->y->data + at, 1, x, n);
        }
    }
}

rlx_status rx_generic_cum(const rx_call *c)
{
    const rlx_cum_desc *d = c->attr;
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (!rlx_dtype_is_float(x->dtype) || x->dtype != y->dtype || !rx_view_is_dense(x))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    cum_run r = {.x = x, .y = y, .op = c->op, .n = x->dim[d->axis], .inner = 1,
                 .exclusive = d->exclusive, .reverse = d->reverse};
    for (int i = (int)d->axis + 1; i < x->rank; i++)
        r.inner *= x->dim[i];
    r.strips = (r.inner + RUN - 1) / RUN;
    const int64_t units = rx_view_elements(x) / (r.n * r.inner) * r.strips;
    const int64_t work = r.n * (r.inner < RUN ? r.inner : RUN);
    rx_parallel(c->pool, units, (RX_GRAIN + work - 1) / work, cum_units, &r);
    return RLX_OK;
}

/* ---- one_hot --------------------------------------------------------------------------------- */

/* All `off`, then one element for each index. */
rlx_status rx_generic_one_hot(const rx_call *c)
{
    const rlx_one_hot_desc *d = c->attr;
    const rx_view *index = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    if (rlx_dtype_is_packed(y->dtype) || !rx_view_is_dense(index))
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    const int64_t size = rlx_dtype_block_bytes(y->dtype), depth = y->dim[d->axis];
    const int64_t bytes = rx_view_elements(y) * size;
    int64_t inner = 1;
    for (int i = (int)d->axis + 1; i < y->rank; i++)
        inner *= y->dim[i];
    rx_store(y, 0, d->off);
    for (int64_t done = size; done < bytes;) { /* fills by copying what is already filled */
        const int64_t n = done < bytes - done ? done : bytes - done;
        memcpy(y->data + done, y->data, (size_t)n);
        done += n;
    }
    for (int64_t i = 0; i < rx_view_elements(y) / depth; i++) {
        int64_t at = rx_load_int(index, i);
        at += at < 0 ? depth : 0;
        if (at >= 0 && at < depth)
            rx_store(y, (i / inner * depth + at) * inner + i % inner, d->on);
    }
    return RLX_OK;
}

/* ---- trilu ----------------------------------------------------------------------------------- */

typedef struct trilu_run {
    const rx_view *x, *y;
    const rx_trilu_attr *d;
    int64_t rows, cols, size;
} trilu_run;

/* Units: rows. Of a row the columns from the diagonal on are kept, or those up to it. */
static void trilu_rows(void *user, int64_t begin, int64_t end)
{
    const trilu_run *r = user;
    for (; begin < end; begin++) {
        int64_t border = begin % r->rows + r->d->k + (r->d->upper ? 0 : 1);
        border = border < 0 ? 0 : border > r->cols ? r->cols : border;
        const size_t before = (size_t)(border * r->size);
        const size_t after = (size_t)((r->cols - border) * r->size);
        const char *x = r->x->data + begin * r->cols * r->size;
        char *y = r->y->data + begin * r->cols * r->size;
        if (r->d->upper) {
            memset(y, 0, before);
            memmove(y + before, x + before, after);
        } else {
            memmove(y, x, before);
            memset(y + before, 0, after);
        }
    }
}

rlx_status rx_generic_trilu(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = rx_call_out(c, 0);
    if (!y || rx_view_elements(y) == 0)
        return RLX_OK;
    const rx_trilu_attr *d = c->attr;
    if (rlx_dtype_is_packed(y->dtype) || !rx_view_is_dense(x) || d->k > INT32_MAX ||
        d->k < INT32_MIN)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    trilu_run r = {x, y, d, y->dim[y->rank - 2], y->dim[y->rank - 1],
                   rlx_dtype_block_bytes(y->dtype)};
    rx_parallel(c->pool, rx_view_elements(y) / r.cols, (RX_GRAIN + r.cols - 1) / r.cols,
                trilu_rows, &r);
    return RLX_OK;
}
