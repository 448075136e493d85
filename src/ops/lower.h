/* SPDX-License-Identifier: MIT */
/* Decompositions of operations into others. A rx_lower_* function builds the replacement with the
 * public builders (rlx/ops.h) and sets the results. */
#ifndef RX_OPS_LOWER_H
#define RX_OPS_LOWER_H

#include "ir/graph.h"
#include "rlx/ops.h"

typedef struct rx_lower {
    rlx_graph *g;           /* the graph being built */
    const rlx_graph *from;  /* the graph the node is in */
    const rx_node *node;    /* op, number of operands */
    const void *attr;       /* the node's record, with dimensions of g */
    const rlx_value *in;    /* operands in g; RLX_NONE when absent */
    rlx_value *out;         /* to be set, node->n_out entries */
} rx_lower;

/* The decomposition of an operation, or NULL. Builders record errors in g, so a function may return
 * RLX_OK without checking; the caller checks g and that types and shapes are unchanged. */
extern rx_lower_fn *const rx_lower_table[RX_N_OPS];

#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    rlx_status rx_lower_##lower(struct rx_lower *c);
#include "ir/ops.def"
#undef OP

/* ---- Types inside of decompositions ---------------------------------------------------------- */

static inline bool rx_is_half(rlx_dtype t)
{
    return t == RLX_F16 || t == RLX_BF16;
}

/* v cast to t where it has another type; RLX_NONE stays RLX_NONE. */
static inline rlx_value rx_as_type(rlx_graph *g, rlx_value v, rlx_dtype t)
{
    return v.id == 0 || rlx_value_dtype(g, v) == t ? v : rlx_cast(g, v, t);
}

/* The type that floats of type t are computed in. */
static inline rlx_dtype rx_working_type(rlx_dtype t)
{
    return t == RLX_F64 ? RLX_F64 : RLX_F32;
}

/* A scalar of the type of v. */
static inline rlx_value rx_number_like(rlx_graph *g, rlx_value v, double x)
{
    return rlx_scalar(g, rlx_value_dtype(g, v), x);
}

/* f16 and bf16 widened to f32, so that intermediates are not rounded; other types unchanged. */
static inline rlx_value rx_widen_half(rlx_graph *g, rlx_value v)
{
    return v.id && rx_is_half(rlx_value_dtype(g, v)) ? rlx_cast(g, v, RLX_F32) : v;
}

#endif
