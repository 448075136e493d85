/* SPDX-License-Identifier: MIT */
/* The graph: nodes in order of creation, the values they define, and dimension expressions. A node
 * only uses values of earlier nodes, so creation order is a topological order. */
#ifndef RX_IR_GRAPH_H
#define RX_IR_GRAPH_H

#include "base/map.h"
#include "ir/op.h"

/* Values have ids from 1; 0 is "none". */
typedef struct rx_value {
    uint32_t node;   /* index of the defining node */
    uint16_t result; /* which of its results */
    rlx_dtype dtype;
    rlx_shape shape;
    uint32_t state;  /* 0, or the value id of the state leaf of which this is a version */
} rx_value;

typedef struct rx_node {
    rx_op op;
    uint32_t n_in, n_out;
    const uint32_t *in; /* value ids, 0 for an absent optional operand; in the graph's arena */
    uint32_t first_out; /* its results are values first_out .. first_out + n_out - 1 */
    const void *attr;   /* record of rx_ops[op].attr, normalised; in the graph's arena */
    const char *name;   /* NULL: unnamed */
} rx_node;

/* A dimension that is not a number. Handle of entry i is -(i + 2). */
typedef enum rx_dim_kind {
    RX_DIM_NAMED, RX_DIM_ADD, RX_DIM_SUB, RX_DIM_MUL, RX_DIM_DIV
} rx_dim_kind;
typedef struct rx_dim_expr {
    rx_dim_kind kind;
    rlx_dim a, b;     /* operands; entries only refer to earlier ones */
    const char *name; /* RX_DIM_NAMED */
    int64_t bound;    /* largest value the expression can take */
    int32_t parts;    /* names, numbers and operators in it */
} rx_dim_expr;

typedef struct rx_output {
    const char *name;
    uint32_t value;
} rx_output;

struct rlx_graph {
    rx_arena arena;
    const char *name;
    rx_node *nodes;
    size_t n_nodes, cap_nodes;
    rx_value *values; /* [0] is "none" */
    size_t n_values, cap_values;
    rx_dim_expr *dims;
    size_t n_dims, cap_dims;
    uint32_t *dim_slots; /* a hash table of dims: index + 1, or 0; at most half full */
    size_t cap_dim_slots;
    rx_output *outputs;
    size_t n_outputs, cap_outputs;
    uint32_t *leaves[3]; /* value ids by rlx_leaf: inputs, params, states */
    size_t n_leaves[3], cap_leaves[3];
    uint32_t *state_now; /* for the i-th state: its newest version */
    size_t cap_state_now;
    rx_map leaf_names;   /* of inputs, params and states */
    rx_map output_names;
    bool frozen;         /* set while verifying: nothing may be added */
    rlx_error error;     /* the first error of a builder; code RLX_OK when there is none */
};

static inline const rx_value *rx_value_at(const rlx_graph *g, uint32_t id)
{
    return &g->values[id];
}
static inline const rx_node *rx_value_node(const rlx_graph *g, uint32_t id)
{
    return &g->nodes[g->values[id].node];
}

/* Records an error as the graph's, unless it has one. Returns the code. */
rlx_status rx_graph_fail(rlx_graph *g, rlx_status code, const char *fmt, ...) RX_PRINTF(3, 4);

/* Appends a node. `attr` (NULL: all zero) is copied, strings and data in it must already live in
 * the graph's arena. Runs the shape rule. Results are values first .. first + n - 1 of the return
 * value; RLX_NONE on error, which is recorded in the graph. `name` may be NULL. */
rlx_value rx_graph_add(rlx_graph *g, rx_op op, const rlx_value *in, size_t n_in, const void *attr,
                       const char *name);
/* The i-th result of the node whose first result is `first`. RLX_NONE in, RLX_NONE out. */
static inline rlx_value rx_result(rlx_value first, uint32_t i)
{
    return first.id ? (rlx_value){first.id + i} : first;
}

/* ---- Dimensions ------------------------------------------------------------------------------ */

static inline bool rx_dim_is_number(rlx_dim d) { return d >= 0; }
/* Largest value of a dimension. */
int64_t rx_dim_bound(const rlx_graph *g, rlx_dim d);
/* The handle of a named dimension, or 0. */
rlx_dim rx_dim_find(const rlx_graph *g, const char *name, size_t length);
/* Bound of the number of elements; false when it exceeds 2^40 (or a dim is bad). */
bool rx_shape_elements(const rlx_graph *g, const rlx_shape *s, int64_t *n);
bool rx_shape_is_fixed(const rlx_shape *s);
/* Bytes of a value; UINT64_MAX when its shape is not fixed or too large. */
uint64_t rx_value_bytes(const rlx_graph *g, uint32_t id);
bool rx_shape_equal(const rlx_shape *a, const rlx_shape *b);
/* The product of all dimensions, as a dimension. */
rlx_dim rx_shape_product(rlx_graph *g, const rlx_shape *s, int first, int last);
/* Values of all expressions for given values of the named dimensions: values[i] is that of entry i;
 * on entry the named ones are set, on return all are. Fails when a difference is negative. */
rlx_status rx_dims_eval(const rx_dim_expr *dims, size_t n, int64_t *values, rlx_error *err);
/* The value of a dimension, given the values of rx_dims_eval. */
static inline int64_t rx_dim_value(rlx_dim d, const int64_t *values)
{
    return d >= 0 ? d : values[-d - 2];
}

/* "f32[2,seq,8]" into a buffer; returns the buffer. */
#define RX_TYPE_TEXT 160
const char *rx_type_text(const rlx_graph *g, rlx_dtype t, const rlx_shape *s,
                         char buffer[RX_TYPE_TEXT]);
/* "seq", "(seq+1)", "((seq*4)/3)" or "12", cut to the buffer; returns the buffer. */
const char *rx_dim_text(const rlx_graph *g, rlx_dim d, char *buffer, size_t n);

/* ---- Attribute records ----------------------------------------------------------------------- */

/* Makes an empty record, all defaults, of info->size bytes. */
void rx_attr_init(const rx_attr_info *info, void *record);
/* The same in the graph's arena. NULL when out of memory. */
void *rx_attr_new(rlx_graph *to, const rx_attr_info *info);
/* Copies a record into the graph, with its strings and data. NULL when out of memory. */
void *rx_attr_copy(rlx_graph *to, const rx_attr_info *info, const void *attr);
/* Replaces each named dimension in a record: map[i] is the handle in the new graph of entry i. */
void rx_attr_map_dims(const rx_attr_info *info, void *attr, const rlx_dim *map);
/* Replaces each named dimension in a record by its number. */
void rx_attr_resolve(const rx_attr_info *info, void *attr, const int64_t *values);

#endif
