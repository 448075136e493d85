/* SPDX-License-Identifier: MIT */
/* The rewriter that passes share: walks the live nodes in order, copies most and replaces some; a
 * map gives the new value of each old one. */
#ifndef RX_COMPILE_REWRITE_H
#define RX_COMPILE_REWRITE_H

#include "ir/graph.h"

/* Large enough for any attribute record. */
#define RX_MAX_RECORD 1024

typedef struct rx_rewrite {
    const rlx_graph *from;
    rlx_graph *to;
    uint32_t *map;  /* by value of `from`: its value in `to`; 0: none yet */
    rlx_dim *dims;  /* by dimension of `from`: the handle in `to` */
    bool *live;     /* by node of `from` */
    rlx_value *in;  /* rx_rewrite_operands */
    size_t cap_in;
    _Alignas(16) char record[RX_MAX_RECORD]; /* rx_rewrite_attr */
} rx_rewrite;

/* live[i]: node i is an input, param or state, has an effect, or some output needs it. */
void rx_mark_live(const rlx_graph *g, bool *live);

/* Starts with an empty graph that has the dimensions of `from`. On failure nothing needs to be
 * ended. */
rlx_status rx_rewrite_begin(rx_rewrite *w, const rlx_graph *from, rlx_error *err);
/* Ends the walk, whose status so far is `s`: adds the outputs to the new graph, removes dead nodes
 * and returns it, or frees it and reports the first error. */
rlx_status rx_rewrite_end(rx_rewrite *w, rlx_status s, rlx_graph **out, rlx_error *err);

/* The operands of a node, as values of `to`: valid until the next call. NULL: out of memory. */
const rlx_value *rx_rewrite_operands(rx_rewrite *w, const rx_node *n);
/* The record of a node with the dimensions of `to`: valid until the next call. */
const void *rx_rewrite_attr(rx_rewrite *w, const rx_node *n);
/* Maps the results of a node to first, first + 1, ... of `to`. */
void rx_rewrite_map(rx_rewrite *w, const rx_node *n, rlx_value first);
/* Appends a copy of the node. Errors stay in `to`. */
rlx_status rx_rewrite_copy(rx_rewrite *w, const rx_node *n);

/* Adds a node that its shape rule may refuse: then RLX_NONE, and `to` is unchanged. */
rlx_value rx_rewrite_try(rx_rewrite *w, rx_op op, const rlx_value *in, size_t n_in,
                         const void *attr, const char *name);

/* "'stem' (conv2d f32[1,64,112,112])": how messages name a node. */
#define RX_NODE_TEXT 160
const char *rx_node_text(const rlx_graph *g, const rx_node *n, char buffer[RX_NODE_TEXT]);

#endif
