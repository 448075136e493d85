/* SPDX-License-Identifier: MIT */
/* Reading a graph node by node: operations, operands, results, attributes, named dimensions. Enough
 * to write an exporter, a visualiser or a cost model; examples/graph_dot.c is one. Nothing here
 * changes a graph, and any number of threads may read one that nobody changes. */
#ifndef RLX_NODES_H
#define RLX_NODES_H

#include "graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Nodes -----------------------------------------------------------------------------------
 * Nodes are numbered from 0 to rlx_graph_n_nodes(g) - 1 in order of creation: a node only uses
 * results of earlier ones, so the order of nodes is an order of execution. Leaves (inputs, params,
 * constants, states) are nodes too; rlx_graph_leaf lists them, and the outputs, by their names. */

/* All pointers belong to the graph and are valid until a node is added. */
typedef struct rlx_node_info {
    size_t struct_size;
    const char *op;      /* as in rlx_op: "matmul"; "input", "param", "constant", "state" */
    const char *name;    /* of a leaf, or what rlx_named gave; "" when there is none */
    bool is_leaf;
    size_t n_in, n_out;
    const rlx_value *in; /* [n_in]; RLX_NONE for an absent optional operand */
    rlx_value out;       /* the first result; result k has the id out.id + k */
    size_t n_attrs;      /* for rlx_node_attr */
    const void *data;    /* of a constant: dense, row-major; else NULL */
    size_t bytes;
} rlx_node_info;

/* Node `i`; RLX_NOT_FOUND when there is none. */
RLX_API rlx_status rlx_graph_node(const rlx_graph *g, size_t i, rlx_node_info *out, rlx_error *err);
/* The node that makes a value, and which of its results that is (*result may be NULL). RLX_INVALID
 * for RLX_NONE and for values that are not of this graph. */
RLX_API rlx_status rlx_value_node(const rlx_graph *g, rlx_value v, size_t *node, size_t *result,
                                  rlx_error *err);
/* Node `i` as the line that rlx_graph_print has for it, without indentation and newline, ended by a
 * zero byte; freed with rlx_free. `length` may be NULL. */
RLX_API rlx_status rlx_node_text(const rlx_graph *g, size_t i, char **text, size_t *length,
                                 rlx_error *err);

/* ---- Attributes ------------------------------------------------------------------------------ */

typedef enum rlx_attr_kind {
    RLX_ATTR_INT,    /* `i` */
    RLX_ATTR_FLOAT,  /* `f` */
    RLX_ATTR_BOOL,   /* `i`, 0 or 1 */
    RLX_ATTR_WORD,   /* an enumeration: `i` its number in C, `text` its word in the text form */
    RLX_ATTR_DTYPE,  /* `i` an rlx_dtype, `text` its name */
    RLX_ATTR_DIM,    /* `i` an rlx_dim */
    RLX_ATTR_INTS,   /* `ints` */
    RLX_ATTR_DIMS,   /* `ints`, each an rlx_dim; -1 where reshape computes what is left over */
    RLX_ATTR_FLOATS, /* `floats` [n_floats] */
    RLX_ATTR_TEXT,   /* `text` */
    RLX_ATTR_REGION  /* the instructions of a fused region: only rlx_node_text shows them */
} rlx_attr_kind;

/* Pointers belong to the graph. What a kind does not use is zero. */
typedef struct rlx_attr_info {
    size_t struct_size;
    const char *name;     /* as in the text form and in the C descriptor: "axis" */
    rlx_attr_kind kind;
    bool is_zero;         /* the text form leaves it out */
    int64_t i;
    double f;
    const char *text;
    rlx_ints ints;
    const double *floats;
    size_t n_floats;
} rlx_attr_info;

/* Attribute `k` of node `i`, in the order of the text form, with defaults filled in where the
 * operation has them; leaves have none. RLX_NOT_FOUND when there is none. */
RLX_API rlx_status rlx_node_attr(const rlx_graph *g, size_t i, size_t k, rlx_attr_info *out,
                                 rlx_error *err);

/* ---- Dimensions ------------------------------------------------------------------------------ */

/* Named dimension `i` in order of creation; false when there is none. The name belongs to the
 * graph. */
RLX_API bool rlx_graph_dim(const rlx_graph *g, size_t i, const char **name, int64_t *bound);
/* Largest value that a dimension can take; a number is its own. */
RLX_API int64_t rlx_dim_bound(const rlx_graph *g, rlx_dim d);
/* "12", "seq" or "((seq*4)+1)". Writes at most `cap` bytes with a zero byte at the end (`out` may
 * be NULL when cap is 0); returns the bytes of the whole without that zero. */
RLX_API size_t rlx_dim_text(const rlx_graph *g, rlx_dim d, char *out, size_t cap);

#ifdef __cplusplus
}
#endif
#endif
