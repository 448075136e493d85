/* SPDX-License-Identifier: MIT */
/* Strided tensors as kernels take them, and view operations on them. */
#ifndef RX_OPS_VIEW_H
#define RX_OPS_VIEW_H

#include "ir/graph.h"

/* A tensor at run time: numbers only. Strides count elements; packed types are always dense. */
typedef struct rx_view {
    char *data;
    rlx_dtype dtype;
    int32_t rank; /* -1: absent optional operand */
    int64_t dim[RLX_MAX_RANK];
    int64_t stride[RLX_MAX_RANK];
} rx_view;

static inline bool rx_view_exists(const rx_view *v) { return v->rank >= 0; }
int64_t rx_view_elements(const rx_view *v);
/* Row-major without gaps (axes of size 1 may have any stride). */
bool rx_view_is_dense(const rx_view *v);
/* Sets dim and dense strides; data is left alone. */
void rx_view_set_dense(rx_view *v, rlx_dtype t, int rank, const int64_t *dim);

/* The result of view operation `op` (reshape, transpose, narrow, slice, expand, reverse) on `in`,
 * as a view of the same memory. `attr` has numbers only; out->rank and dim are set on entry, dtype,
 * stride and data on return. data may be a byte offset instead of an address. False when the layout
 * does not allow a view: a reshape that would need other strides within an axis or that has another
 * number of elements (out->stride is then undefined), or a packed result that is not dense. */
bool rx_view_apply(rx_op op, const void *attr, const rx_view *in, rx_view *out);

/* Adds a `copy`: the dense copy of any value, which has no public builder. ops/shape.c */
rlx_value rx_copy_build(rlx_graph *g, rlx_value x);

#endif
