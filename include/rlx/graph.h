/* SPDX-License-Identifier: MIT */
/* Graphs: values, named dimensions, leaves, outputs, state, verification and the text form.
 * The builders of the operations themselves are in ops.h. */
#ifndef RLX_GRAPH_H
#define RLX_GRAPH_H

#include "base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define RLX_MAX_RANK 8

/* A dimension: a number of elements (>= 0), or a named dimension or an expression of such, which
 * is a negative handle made by rlx_dim_named and the rlx_dim_* arithmetic of one graph. */
typedef int64_t rlx_dim;

typedef struct rlx_shape {
    int32_t rank;               /* 0 (a scalar) to RLX_MAX_RANK */
    rlx_dim dim[RLX_MAX_RANK];  /* row-major, outermost first */
} rlx_shape; /* frozen */

/* A short list of integers or dimensions, as attributes use it. */
#define RLX_MAX_INTS 16
typedef struct rlx_ints {
    int32_t n;
    int64_t v[RLX_MAX_INTS];
} rlx_ints; /* frozen */

/* A graph under construction: an append-only list of operations. Not thread-safe; a finished graph
 * may be read by many threads. */
typedef struct rlx_graph rlx_graph;

/* One tensor of a graph. id 0 means "none": an absent optional operand, or the result of a builder
 * that failed. Valid as long as the graph. */
typedef struct rlx_value {
    uint32_t id;
} rlx_value; /* frozen */

#ifdef __cplusplus
#define RLX_NONE (rlx_value{0})
#else
#define RLX_NONE ((rlx_value){0})
#endif

/* Makes an empty graph; `name` (may be NULL) is copied. NULL when out of memory. */
RLX_API rlx_graph *rlx_graph_create(const char *name);
/* Frees the graph and all it owns; NULL is fine. Sessions compiled from it stay valid. */
RLX_API void rlx_graph_destroy(rlx_graph *g);

/* ---- Errors while building -----------------------------------------------------------------
 * A builder that is given something wrong returns RLX_NONE and records the first error in the
 * graph; every later builder then returns RLX_NONE at once. So a program may build a whole graph
 * without a check and ask once. Compiling a graph with a recorded error returns that error. */

/* RLX_OK, or the first error of a builder, with its text in *err. */
RLX_API rlx_status rlx_graph_status(const rlx_graph *g, rlx_error *err);
/* Checks the whole graph again: names, arity, types, shapes, attributes, order, state versions. */
RLX_API rlx_status rlx_graph_verify(const rlx_graph *g, rlx_error *err);

/* ---- Named dimensions ---------------------------------------------------------------------- */

/* A dimension that is bound when the graph runs, to a value from 0 to `bound`. The same name gives
 * the same dimension; a second bound that differs is an error. Returns 0 on error (recorded). */
RLX_API rlx_dim rlx_dim_named(rlx_graph *g, const char *name, int64_t bound);
/* Arithmetic on dimensions, folded at once when both are numbers. div rounds toward zero and needs
 * a divisor that is a number > 0. A difference below zero is an error when the dimensions are
 * bound. */
RLX_API rlx_dim rlx_dim_add(rlx_graph *g, rlx_dim a, rlx_dim b);
RLX_API rlx_dim rlx_dim_sub(rlx_graph *g, rlx_dim a, rlx_dim b);
RLX_API rlx_dim rlx_dim_mul(rlx_graph *g, rlx_dim a, rlx_dim b);
RLX_API rlx_dim rlx_dim_div(rlx_graph *g, rlx_dim a, int64_t b);

/* ---- Leaves ---------------------------------------------------------------------------------
 * `dims` has `rank` entries. Names are copied, must not be empty, and are unique among the inputs,
 * params and states of a graph. */

/* A tensor given anew for each run. */
RLX_API rlx_value rlx_input(rlx_graph *g, const char *name, rlx_dtype t, int rank,
                            const rlx_dim *dims);
/* A weight, set once in the session (rlx_session_set_param). Fixed dimensions; may be packed. */
RLX_API rlx_value rlx_param(rlx_graph *g, const char *name, rlx_dtype t, int rank,
                            const rlx_dim *dims);
/* A literal: `bytes` bytes of row-major data, copied. Fixed dimensions. */
RLX_API rlx_value rlx_constant(rlx_graph *g, rlx_dtype t, int rank, const rlx_dim *dims,
                               const void *data, size_t bytes);
/* A rank-0 literal of type t; the value is converted as rlx_from_float does (i64 exactly). */
RLX_API rlx_value rlx_scalar(rlx_graph *g, rlx_dtype t, double value);
/* A tensor that stays on the device between runs, zero at first. Fixed dimensions. The graph reads
 * it through this value, changes it with rlx_state_write, and the host through
 * rlx_session_state_*. */
RLX_API rlx_value rlx_state(rlx_graph *g, const char *name, rlx_dtype t, int rank,
                            const rlx_dim *dims);

/* Gives a value the name under which runs return it. A value may have several names. */
RLX_API void rlx_output(rlx_graph *g, const char *name, rlx_value v);

/* Names the node that made `v`, for messages and dumps; copied. Returns v. */
RLX_API rlx_value rlx_named(rlx_graph *g, rlx_value v, const char *name);

/* ---- Looking at a graph: more is in nodes.h -------------------------------------------------- */

/* Type and shape of a value; RLX_NO_TYPE and rank 0 for RLX_NONE. */
RLX_API rlx_dtype rlx_value_dtype(const rlx_graph *g, rlx_value v);
RLX_API rlx_shape rlx_value_shape(const rlx_graph *g, rlx_value v);

typedef enum rlx_leaf { RLX_LEAF_INPUT, RLX_LEAF_PARAM, RLX_LEAF_STATE, RLX_LEAF_OUTPUT } rlx_leaf;

typedef struct rlx_leaf_info {
    const char *name; /* owned by the graph */
    rlx_value value;
    rlx_dtype dtype;
    rlx_shape shape;
} rlx_leaf_info; /* frozen */

/* The i-th input, param, state or output in order of creation; false when there is none. */
RLX_API bool rlx_graph_leaf(const rlx_graph *g, rlx_leaf kind, size_t i, rlx_leaf_info *out);
RLX_API size_t rlx_graph_n_nodes(const rlx_graph *g);
RLX_API const char *rlx_graph_name(const rlx_graph *g);

/* ---- Generic builder, for other languages and for importers --------------------------------- */

/* Appends the operation `op` ("softmax", "conv2d", ...) with `n_in` inputs (RLX_NONE for an absent
 * optional one) and attributes in text form ("axis=1, keepdims=true"; NULL or "" for none).
 * Writes up to `cap` results to `out` and returns how many the operation has; 0 on error. */
RLX_API size_t rlx_op(rlx_graph *g, const char *op, const rlx_value *in, size_t n_in,
                      const char *attributes, rlx_value *out, size_t cap);

/* ---- Text form ------------------------------------------------------------------------------ */

/* Prints the graph as text that rlx_graph_parse reads back to the same graph. The result is owned
 * by the caller and freed with rlx_free. */
RLX_API rlx_status rlx_graph_print(const rlx_graph *g, char **text, size_t *length, rlx_error *err);
/* Reads a graph from text. On failure *out is NULL and the error has line and column. */
RLX_API rlx_status rlx_graph_parse(const char *text, size_t length, rlx_graph **out,
                                   rlx_error *err);
/* Frees memory that the library handed out as "freed with rlx_free"; NULL is fine. */
RLX_API void rlx_free(void *p);

/* ---- The catalogue --------------------------------------------------------------------------- */

/* The name of the i-th operation of the catalogue, or NULL past the end. */
RLX_API const char *rlx_op_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
