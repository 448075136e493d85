/* SPDX-License-Identifier: MIT */
/* A batched matrix product as strides and sizes, shared by the matmul kernels. */
#ifndef RX_CPU_PRODUCT_H
#define RX_CPU_PRODUCT_H

#include "cpu/kernel.h"

/* Element (m, k) of a is m * a_m + k * a_k elements after the first of its batch; so for b, with
 * (k, n). Row m of batch i of the result is row i * p.m + m of out, which is dense. */
typedef struct rx_product {
    const rx_view *a, *b, *out;
    const rx_view *bias;      /* [N] or NULL */
    rx_view residual;         /* with the shape of out; rank -1: none */
    rlx_act act;
    bool act_last;
    bool turned;              /* b is [N, K]: a packed form of it is another than that of [K, N] */
    int64_t m, n, k, n_batches;
    int64_t a_m, a_k, b_k, b_n;
    int n_axes;               /* batch axes */
    int64_t dim[RLX_MAX_RANK], a_stride[RLX_MAX_RANK], b_stride[RLX_MAX_RANK];
} rx_product;

/* The product of operands 0 and 1; batches that share b become rows where a allows it. act is none,
 * bias and residual are absent. */
void rx_product_init(rx_product *p, const rx_call *c, bool trans_b);
/* First elements of both operands in a batch. */
void rx_product_batch(const rx_product *p, int64_t batch, const char **a, const char **b);
/* Address of the residual of element `i` of the result. */
const char *rx_product_residual(const rx_product *p, int64_t i);

#endif
