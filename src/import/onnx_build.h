/* SPDX-License-Identifier: MIT */
/* What builders of ONNX operators see: one call is one node with its operands as values of the
 * graph. A builder returns its first result and stores others in `out`; RLX_NONE is an error, which
 * the graph or rx_onnx_fail has recorded. */
#ifndef RX_IMPORT_ONNX_BUILD_H
#define RX_IMPORT_ONNX_BUILD_H

#include "import/onnx.h"
#include "ir/graph.h"
#include "rlx/ops.h"

/* Bytes of weights that may be changed, and so copied. */
#define RX_ONNX_MAX_COPIED ((uint64_t)16 << 20)

/* Names of values that nodes of a graph, a sub-graph or a function see. */
typedef struct rx_onnx_scope {
    struct rx_onnx_scope *outer;     /* whose names are seen too; NULL for functions */
    rx_map names;                    /* to value ids */
    const rx_onnx_node *caller;      /* of a function: gives attributes that nodes refer to */
    const rx_onnx_function *function;
    const rx_onnx_opset *opsets;
    size_t n_opsets;
    struct rx_onnx_scope *caller_scope;
    const rx_onnx_graph *body;       /* whose nodes are built, from `at` on */
    size_t at;
    rlx_value *in;                   /* operands of that node */
} rx_onnx_scope;

/* Values that a builder keeps while it builds sub-graphs. */
typedef struct rx_onnx_frame {
    struct rx_onnx_frame *outer;
    rlx_value *v;
    size_t n;
} rx_onnx_frame;

/* Values that are known while importing, by id; grows with the graph. */
typedef struct rx_onnx_known {
    const void *data; /* NULL: not known */
    bool tried, kept; /* kept: a param that a part of the graph was run for */
    int32_t type;     /* TensorProto.DataType of a type of few bits; 0: that of the value */
} rx_onnx_known;

typedef struct rx_onnx_list rx_onnx_list; /* a sequence (onnx_sequence.c) */

typedef struct rx_onnx_build {
    rlx_onnx *m;
    rlx_graph *g;
    rlx_error *err;
    rlx_status status; /* of rx_onnx_fail */
    const rlx_import_desc *desc;
    rx_onnx_scope *scope;
    rx_arena arena;
    rx_onnx_known *known;
    size_t cap_known;
    int depth;       /* of sub-graphs and functions */
    size_t n_built;  /* nodes, bounded: functions and loops multiply them */
    uint32_t serial; /* makes names of params unique */
    uint64_t n_copied; /* bytes of weights that were changed, and so copied */
    rx_onnx_frame *frames;
    rx_onnx_list *lists;
    size_t n_lists, cap_lists;
} rx_onnx_build;

typedef struct rx_onnx_call {
    rx_onnx_build *b;
    rlx_graph *g;
    const rx_onnx_node *node;
    int64_t opset;
    size_t n_in, n_out; /* as the node has them */
    const rlx_value *in;
    rlx_value *out;     /* [n_out], at least 8 */
} rx_onnx_call;

typedef rlx_value rx_onnx_fn(rx_onnx_call *c);

/* Records why a node cannot be built; returns RLX_NONE. */
rlx_value rx_onnx_fail(rx_onnx_call *c, rlx_status code, const char *fmt, ...) RX_PRINTF(3, 4);

/* Operand `i`; RLX_NONE when it is absent. */
static inline rlx_value rx_onnx_in(const rx_onnx_call *c, size_t i)
{
    return i < c->n_in ? c->in[i] : RLX_NONE;
}
/* Whether result `i` is asked for. */
bool rx_onnx_wants(const rx_onnx_call *c, size_t i);

/* ---- Attributes ------------------------------------------------------------------------------ */

/* The attribute of that name, those of calling functions resolved; NULL when there is none. */
const rx_onnx_attr *rx_onnx_attr_find(const rx_onnx_call *c, const char *name);
int64_t rx_onnx_int(const rx_onnx_call *c, const char *name, int64_t absent);
double rx_onnx_float(const rx_onnx_call *c, const char *name, double absent);
/* A double whose 0 is meant, for parameters where 0 is the default: 0 becomes RLX_ZERO. */
double rx_onnx_float_set(const rx_onnx_call *c, const char *name, double absent);
/* False when the attribute is absent; more than RLX_MAX_INTS numbers fail. */
bool rx_onnx_ints(rx_onnx_call *c, const char *name, rlx_ints *out);
/* True when the text attribute is `text`, or is absent and `absent` is that text. */
bool rx_onnx_is(const rx_onnx_call *c, const char *name, const char *text, const char *absent);

/* ---- Values known while importing: onnx_eval.c ----------------------------------------------- */

/* The elements of a value, when they follow from constants, fixed shapes and inputs whose values
 * were given; NULL otherwise. */
const void *rx_onnx_value_data(rx_onnx_build *b, rlx_value v);
void rx_onnx_set_known(rx_onnx_build *b, rlx_value v, const void *data);
/* The elements of a weight, in the mapped file; NULL: `v` is no weight. Nothing is computed. */
const void *rx_onnx_weight_data(rx_onnx_build *b, rlx_value v);
/* The elements of a value on which a size or a choice depends: known, or computed on the device of
 * the import by running the graph as it is. NULL after rx_onnx_fail; `what` names the value. */
const void *rx_onnx_demand(rx_onnx_call *c, rlx_value v, const char *what);
/* The same for operand `i`. */
const void *rx_onnx_need(rx_onnx_call *c, size_t i, const char *what);
/* The elements of a known i32 or i64 operand as a list; false after rx_onnx_fail. `what` names the
 * operand. */
bool rx_onnx_known_ints(rx_onnx_call *c, size_t i, const char *what, rlx_ints *out);
/* An attribute in old versions of an operator, operand `i` in new ones. *given is false when
 * neither is there. False after rx_onnx_fail. */
bool rx_onnx_axes(rx_onnx_call *c, const char *name, size_t i, rlx_ints *out, bool *given);
/* The elements of a known operand of any plain type, as numbers; false after rx_onnx_fail. */
bool rx_onnx_known_reals(rx_onnx_call *c, size_t i, const char *what, double *out, size_t cap,
                         size_t *n);

/* Runs the graph so far for value `v` (onnx_resolve.c); NULL: without a device or not all inputs,
 * or *err says why. */
const void *rx_onnx_resolve(rx_onnx_build *b, rlx_value v, rlx_error *err);

/* ---- Types of few bits, held one element a byte: onnx_narrow.c ------------------------------- */

void rx_onnx_set_type(rx_onnx_build *b, rlx_value v, int32_t type);
/* The type of a value whose bytes stand for elements of fewer bits; NULL: they are what they are.
 * Operations that only move elements keep it. */
const rx_onnx_type *rx_onnx_narrow(rx_onnx_build *b, rlx_value v);
/* The type of `v` as ONNX has it. */
const rx_onnx_type *rx_onnx_value_type(rx_onnx_build *b, rlx_value v);
/* Converts as ONNX's Cast; floats of few bits saturate when asked to. */
rlx_value rx_onnx_convert(rx_onnx_call *c, rlx_value x, const rx_onnx_type *to, bool saturate);
/* Codes of a type of few bits as what they stand for: f32, or integers as they are. */
rlx_value rx_onnx_widen(rx_onnx_call *c, rlx_value x);

/* ---- Shapes ---------------------------------------------------------------------------------- */

static inline int rx_onnx_rank(const rx_onnx_call *c, rlx_value v)
{
    return rlx_value_shape(c->g, v).rank;
}
/* An axis from 0 to rank - 1; -1 after rx_onnx_fail. */
int rx_onnx_axis(rx_onnx_call *c, int64_t axis, int rank);
/* The number of elements of a fixed shape; -1: it has named dimensions. */
int64_t rx_onnx_elements(const rx_onnx_call *c, rlx_value v);
/* A size rounded down; -1, which shape rules refuse, for what is none. */
int64_t rx_onnx_whole(double size);
/* A rank-1 constant of i64. */
rlx_value rx_onnx_i64s(rlx_graph *g, const int64_t *v, int64_t n);

/* sum (a - za) * (b - zb) in i32 (onnx_quant.c); zero points may be RLX_NONE. */
rlx_value rx_onnx_integer_product(rx_onnx_call *c, rlx_value a, rlx_value b, rlx_value za,
                                  rlx_value zb);
/* x times weights [N, K] that are dequantised and turned before (onnx_quant.c); RLX_NONE: b is
 * something else. */
rlx_value rx_onnx_dequantized_product(rx_onnx_call *c, rlx_value x, rlx_value b);

/* The node that gives v when it is that operation, else NULL (onnx_qdq.c). */
const rx_node *rx_onnx_made_by(const rx_onnx_call *c, rlx_value v, rx_op op);
/* a + b of codes with scale and zero point? each, as codes with those of `to`: the zero point is
 * added before the sum is rounded, as ONNX Runtime does. */
rlx_value rx_onnx_quantized_sum(rx_onnx_call *c, const rlx_value a[3], const rlx_value b[3],
                                const rlx_value to[2], rlx_dtype dtype);
/* x quantised by a known scale and zero point? as an integer product of the codes that x is made of
 * (onnx_qdq.c); RLX_NONE: x is something else. */
rlx_value rx_onnx_quantized_product(rx_onnx_call *c, rlx_value x, rlx_value scale, rlx_value zero,
                                    rlx_dtype to);

/* ---- Attention: onnx_attention.c ------------------------------------------------------------- */

/* [B, S, H * D] as [B, H, S, D]; a tensor of four axes is so already. RLX_NONE after
 * rx_onnx_fail. */
rlx_value rx_onnx_split_heads(rx_onnx_call *c, rlx_value x, int64_t heads);
/* [B, H, S, D] as [B, S, H * D]. */
rlx_value rx_onnx_join_heads(rx_onnx_call *c, rlx_value y);
/* [B, S, H, D] as [B, H, S, D], and back. */
rlx_value rx_onnx_swap_heads(rx_onnx_call *c, rlx_value x);
/* 0 .. n - 1. */
rlx_value rx_onnx_iota(rx_onnx_call *c, rlx_dim n, rlx_dtype t);
/* p . v as attention, where p is a softmax of scaled and masked scores; RLX_NONE: it is something
 * else. */
rlx_value rx_onnx_attention_by_parts(rx_onnx_call *c, rlx_value p, rlx_value v);

/* ---- Windows of convolutions and pools: onnx_matrix.c ---------------------------------------- */

typedef struct rx_onnx_window {
    int n; /* spatial axes */
    rlx_ints kernel, stride, dilation, pads;
    bool same_upper, same_lower;
} rx_onnx_window;
/* Reads the attributes that convolutions and pools share; `kernel` gives the sizes of the window
 * where the node does not. False after rx_onnx_fail. */
bool rx_onnx_read_window(rx_onnx_call *c, const rlx_shape *x, const rlx_dim *kernel,
                         rx_onnx_window *w);

/* ---- Graphs: onnx_graph.c -------------------------------------------------------------------- */

rlx_value rx_onnx_lookup(const rx_onnx_build *b, const char *name);
rlx_status rx_onnx_define(rx_onnx_build *b, const char *name, rlx_value v);
/* Builds a sub-graph with its inputs bound to `in`; results go to out[graph's n_outputs]. */
rlx_status rx_onnx_subgraph(rx_onnx_call *c, const rx_onnx_graph *g, const rlx_value *in,
                            size_t n_in, rlx_value *out);
/* A param whose data lasts as long as the model; a name that is empty or taken gets another. */
rlx_status rx_onnx_add_param(rx_onnx_build *b, const char *name, rlx_dtype dtype,
                             const rlx_shape *shape, rx_bytes data, rlx_value *out);
rlx_status rx_onnx_constant(rx_onnx_build *b, const rx_onnx_tensor *t, bool weight,
                            rlx_value *out);

/* ---- Sequences and optionals: onnx_sequence.c ------------------------------------------------ */

/* Whether v is no value of the graph but a list of such, and whether a builder takes lists. */
bool rx_onnx_is_list(rlx_value v);
/* The items of a list. */
rlx_value *rx_onnx_list_items(const rx_onnx_build *b, rlx_value v, size_t *n);
bool rx_onnx_takes_lists(rx_onnx_fn *builder);

/* ---- The table: onnx_table.c ----------------------------------------------------------------- */

/* The builder of an operator at a version of its domain; NULL: rlx has none. */
rx_onnx_fn *rx_onnx_builder(const char *domain, const char *name, int64_t opset);

#define ONNX(name, domain, since, builder) rx_onnx_fn rx_onnx_##builder;
#include "import/onnx_ops.def"
#undef ONNX

#endif
