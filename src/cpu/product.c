/* SPDX-License-Identifier: MIT */
/* Sizes and strides of matrix products. */
#include "cpu/product.h"

#include "cpu/ref/ref.h"

/* Stride of an operand along batch axis i of n_axes; 0 where it broadcasts. */
static int64_t batch_stride(const rx_view *v, int n_axes, int i)
{
    int own = v->rank > 2 ? v->rank - 2 : 0, at = i - (n_axes - own);
    return at < 0 || v->dim[at] == 1 ? 0 : v->stride[at];
}

/* One matrix for all batches of a: the batches are more rows of one product. */
static void fold_batches(rx_product *p)
{
    int64_t rows = p->m, step = p->a_m;
    if (p->n_axes == 0 || p->a->rank < 2)
        return;
    for (int i = p->n_axes; i-- > 0;) {
        if (p->dim[i] == 1)
            continue;
        if (p->b_stride[i] != 0 || (rows != 1 && p->a_stride[i] != rows * step))
            return;
        if (rows == 1)
            step = p->a_stride[i];
        rows *= p->dim[i];
    }
    p->m = rows;
    p->a_m = step;
    p->n_batches = 1;
    p->n_axes = 0;
}

void rx_product_init(rx_product *p, const rx_call *c, bool trans_b)
{
    const rx_view *a = &c->in[0], *b = &c->in[1];
    p->a = a;
    p->b = b;
    p->out = &c->out[0];
    p->bias = NULL;
    p->residual.rank = -1;
    p->act = RLX_ACT_NONE;
    p->act_last = false;
    p->turned = trans_b && b->rank > 1;
    p->m = p->n = p->n_batches = 1;
    p->a_m = p->b_n = 0;
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
    fold_batches(p);
}

void rx_product_batch(const rx_product *p, int64_t batch, const char **a, const char **b)
{
    int64_t at[RLX_MAX_RANK], a_first = 0, b_first = 0;
    *a = p->a->data;
    *b = p->b->data;
    if (p->n_axes == 0)
        return;
    rx_unravel(batch, p->dim, p->n_axes, at);
    for (int i = 0; i < p->n_axes; i++) {
        a_first += at[i] * p->a_stride[i];
        b_first += at[i] * p->b_stride[i];
    }
    *a += a_first * rlx_dtype_block_bytes(p->a->dtype);
    *b += b_first * rlx_dtype_block_bytes(p->b->dtype);
}

const char *rx_product_residual(const rx_product *p, int64_t i)
{
    const rx_view *r = &p->residual;
    int64_t at[RLX_MAX_RANK], size = rlx_dtype_block_bytes(r->dtype);
    if (rx_view_is_dense(r))
        return r->data + i * size;
    rx_unravel(i, r->dim, r->rank, at);
    return r->data + rx_offset(r, at) * size;
}
