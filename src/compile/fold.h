/* SPDX-License-Identifier: MIT */
/* The parts of fold: common subexpressions and algebraic simplification. */
#ifndef RX_COMPILE_FOLD_H
#define RX_COMPILE_FOLD_H

#include "compile/rewrite.h"

/* ---- Equal nodes: cse.c --------------------------------------------------------------------- */

/* The nodes of a graph by operation, operands and attributes. Zero-initialised is empty. */
typedef struct rx_cse {
    uint32_t *slots; /* index of a node + 1; 0: free */
    size_t n, cap;   /* cap is 0 or a power of two */
} rx_cse;

typedef struct rx_cse_key {
    rx_op op;
    const rlx_value *in;
    size_t n_in;
    const void *attr;
} rx_cse_key;

void rx_cse_finish(rx_cse *t);
/* The first result of an equal node of g, or RLX_NONE. */
rlx_value rx_cse_find(const rx_cse *t, const rlx_graph *g, const rx_cse_key *key);
/* Inserts the newest node of g; false when out of memory. */
bool rx_cse_add(rx_cse *t, const rlx_graph *g);

/* ---- Needless nodes: simplify.c ------------------------------------------------------------- */

/* A value of w->to that is the single result of node n, whose operands in w->to are `in`, found
 * without computing anything; RLX_NONE when no rule applies. May append view operations. */
rlx_value rx_simplify(rx_rewrite *w, const rx_node *n, const rlx_value *in);

/* True when value `id` is a small literal whose elements are all the same number *v. */
bool rx_constant_number(const rlx_graph *g, uint32_t id, double *v);

#endif
