/* SPDX-License-Identifier: MIT */
/* Rules of differentiation. A rule rx_grad_* of ops.def is given the derivatives of the loss by the
 * results of a node and sets those by its operands, or rebuilds the node from other operations
 * (`via`), which are then differentiated instead. */
#ifndef RX_OPS_GRAD_H
#define RX_OPS_GRAD_H

#include "ir/graph.h"
#include "rlx/grad.h"
#include "rlx/ops.h"

typedef struct rx_grad {
    rlx_graph *g;
    const rx_node *node;
    const void *attr;
    const rlx_value *in; /* operands; RLX_NONE when absent */
    rlx_value y;         /* result 0 */
    const rlx_value *dy; /* by result: RLX_NONE where the loss does not depend on it */
    const bool *wants;   /* by operand: whether its derivative is needed */
    rlx_value *dx;       /* by operand, to be set; broadcast axes are summed and types cast by the
                            caller; RLX_NONE: zero */
    rlx_value *via;      /* by result, to be set instead of dx; node->n_out entries */
} rx_grad;

typedef rlx_status rx_grad_fn(rx_grad *c);

/* The rule of an operation, or NULL. Builders record errors in the graph, which the caller checks,
 * so a rule may return RLX_OK without checking. */
extern rx_grad_fn *const rx_grad_table[RX_N_OPS];

#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    rlx_status rx_grad_##grad(rx_grad *c);
#include "ir/ops.def"
#undef OP

/* Operand i, RLX_NONE when absent. */
static inline rlx_value rx_grad_in(const rx_grad *c, uint32_t i)
{
    return i < c->node->n_in ? c->in[i] : RLX_NONE;
}

/* Operand i is present and its derivative is needed. */
static inline bool rx_grad_wants(const rx_grad *c, uint32_t i)
{
    return i < c->node->n_in && c->wants[i];
}

/* Fails with "rlx_grad: resize 'name' (node 7) <text>". */
rlx_status rx_grad_refuse(const rx_grad *c, const char *fmt, ...) RX_PRINTF(2, 3);

/* ---- Building blocks ------------------------------------------------------------------------- */

/* A constant x of a type and shape. */
rlx_value rx_grad_fill(rlx_graph *g, rlx_dtype t, const rlx_shape *s, double x);
rlx_value rx_grad_zeros_like(rlx_graph *g, rlx_value v);
/* v, broadcast from `to`, summed to it. */
rlx_value rx_grad_sum_to(rlx_graph *g, rlx_value v, const rlx_shape *to);
/* v as [.., 1, ..] again where `axes` (a set of bits) were reduced without keepdims. */
rlx_value rx_grad_keep_axes(rlx_graph *g, rlx_value v, const rlx_shape *full, uint32_t axes);
rlx_value rx_grad_expand(rlx_graph *g, rlx_value v, const rlx_shape *s);
rlx_value rx_grad_reshape(rlx_graph *g, rlx_value v, const rlx_shape *s);
/* Transposes the last two axes. */
rlx_value rx_grad_flip(rlx_graph *g, rlx_value v);
/* 0, 1, 2, .. along axis `axis` of `rank`, sizes 1 on the others: i32 [.., n, ..]. */
rlx_value rx_grad_iota(rlx_graph *g, rlx_dim n, int axis, int rank);
/* The size of a dimension as a value of type t. */
rlx_value rx_grad_size(rlx_graph *g, rlx_dim d, rlx_dtype t);
/* v * x */
rlx_value rx_grad_scale(rlx_graph *g, rlx_value v, double x);
/* v where `cond` is true, zeros elsewhere. */
rlx_value rx_grad_keep(rlx_graph *g, rlx_value cond, rlx_value v);
/* An i32 constant of rank 1. */
rlx_value rx_grad_indices(rlx_graph *g, const int32_t *v, int64_t n);
/* Builds act(z). */
rlx_value rx_grad_act(rlx_graph *g, rlx_value z, rlx_act act);
/* The derivatives by bias and residual of y = z + bias + residual without activation, into dx[bias]
 * and dx[bias + 1]; the axis of the bias in the result counts from its end (-1: the last). With an
 * activation, sets via[0] from z, which is built without epilogue, and returns true. */
bool rx_grad_epilogue(rx_grad *c, uint32_t bias, int bias_axis, rlx_act act, bool act_last,
                      rlx_value (*product)(rx_grad *c));

#endif
