/* SPDX-License-Identifier: MIT */
/* Decompositions: how an operation is written in terms of others. A rx_lower_* function builds the
 * replacement with the public builders (rlx/ops.h) and sets the results. */
#ifndef RX_OPS_LOWER_H
#define RX_OPS_LOWER_H

#include "ir/graph.h"

typedef struct rx_lower {
    rlx_graph *g;           /* the graph being built */
    const rlx_graph *from;  /* the graph the node is in */
    const rx_node *node;    /* op, number of operands */
    const void *attr;       /* the node's record, with dimensions of g */
    const rlx_value *in;    /* operands in g; RLX_NONE when absent */
    rlx_value *out;         /* to be set, node->n_out entries */
} rx_lower;

/* The decomposition of an operation, or NULL. Errors of builders stay in g, so a function may
 * return RLX_OK without looking; the caller checks g and that types and shapes are as before. */
extern rx_lower_fn *const rx_lower_table[RX_N_OPS];

#define OP(name, family, lo, hi, out, attr, infer, lower, ref, flags) \
    rlx_status rx_lower_##lower(struct rx_lower *c);
#include "ir/ops.def"
#undef OP

#endif
