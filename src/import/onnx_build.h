/* SPDX-License-Identifier: MIT */
/* The interface of ONNX operator builders: a call is one ONNX node with its operands as values of
 * the graph. A builder returns its first result and stores others in `out`; RLX_NONE is an error,
 * which the graph or rx_onnx_fail has recorded. */
#ifndef RX_IMPORT_ONNX_BUILD_H
#define RX_IMPORT_ONNX_BUILD_H

#include "import/onnx.h"
#include "ir/graph.h"
#include "rlx/ops.h"

/* Budget of bytes for weights that are rewritten (folded norms, gate order) and so copied. */
#define RX_ONNX_MAX_COPIED ((uint64_t)16 << 20)

/* The names visible to the nodes of a graph, a sub-graph or a function. */
typedef struct rx_onnx_scope {
    struct rx_onnx_scope *outer;     /* enclosing scope; NULL for functions */
    rx_map names;                    /* to value ids */
    const rx_onnx_node *caller;      /* of a function: resolves ref_attr_name */
    const rx_onnx_function *function;
    const rx_onnx_opset *opsets;
    size_t n_opsets;
    struct rx_onnx_scope *caller_scope;
    const rx_onnx_graph *body;       /* its nodes before `at` are built */
    size_t at;
    rlx_value *in;                   /* operands of that node */
} rx_onnx_scope;

/* Values that a builder holds while it builds sub-graphs, so that onnx_resolve.c can rename
 * them. */
typedef struct rx_onnx_frame {
    struct rx_onnx_frame *outer;
    rlx_value *v;
    size_t n;
} rx_onnx_frame;

/* Values known while importing, indexed by value id. */
typedef struct rx_onnx_known {
    const void *data; /* NULL: not known */
    bool tried, kept; /* kept: a param whose data a run while importing computed */
    int32_t type;     /* TensorProto.DataType of a narrow type; 0: the type of the value */
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
    size_t n_built;  /* nodes so far, limited because functions and loops multiply them */
    uint32_t serial; /* makes names of params unique */
    uint64_t n_copied; /* bytes of weights rewritten, of RX_ONNX_MAX_COPIED */
    rx_onnx_frame *frames;
    rx_onnx_list *lists;
    size_t n_lists, cap_lists;
} rx_onnx_build;

typedef struct rx_onnx_call {
    rx_onnx_build *b;
    rlx_graph *g;
    const rx_onnx_node *node;
    int64_t opset;
    size_t n_in, n_out; /* as listed by the node */
    const rlx_value *in;
    rlx_value *out;     /* [n_out], at least 8 */
} rx_onnx_call;

typedef rlx_value rx_onnx_fn(rx_onnx_call *c);

/* Records the error of this node; returns RLX_NONE. */
rlx_value rx_onnx_fail(rx_onnx_call *c, rlx_status code, const char *fmt, ...) RX_PRINTF(3, 4);

/* Operand `i`; RLX_NONE when it is absent. */
static inline rlx_value rx_onnx_in(const rx_onnx_call *c, size_t i)
{
    return i < c->n_in ? c->in[i] : RLX_NONE;
}
/* Whether result `i` is asked for. */
bool rx_onnx_wants(const rx_onnx_call *c, size_t i);

/* ---- Attributes ------------------------------------------------------------------------------ */

/* The attribute of that name, with references to the caller's attributes resolved; NULL: absent. */
const rx_onnx_attr *rx_onnx_attr_find(const rx_onnx_call *c, const char *name);
int64_t rx_onnx_int(const rx_onnx_call *c, const char *name, int64_t absent);
double rx_onnx_float(const rx_onnx_call *c, const char *name, double absent);
/* For descriptor fields in which 0 means the default: an explicit 0 becomes RLX_ZERO. */
double rx_onnx_float_set(const rx_onnx_call *c, const char *name, double absent);
/* False when the attribute is absent; more than RLX_MAX_INTS numbers fail. */
bool rx_onnx_ints(rx_onnx_call *c, const char *name, rlx_ints *out);
/* True when the text attribute is `text`, or is absent and `absent` is that text. */
bool rx_onnx_is(const rx_onnx_call *c, const char *name, const char *text, const char *absent);

/* ---- Values known while importing: onnx_eval.c ----------------------------------------------- */

/* The elements of a value that follows from constants, fixed shapes and inputs with given values
 * (constant folding); NULL otherwise. */
const void *rx_onnx_value_data(rx_onnx_build *b, rlx_value v);
void rx_onnx_set_known(rx_onnx_build *b, rlx_value v, const void *data);
/* The elements of a weight, in the mapped file; NULL: `v` is no weight. */
const void *rx_onnx_weight_data(rx_onnx_build *b, rlx_value v);
/* v, or a new weight with its elements where they follow from weights, as those of dequantised ones
 * do; small ones are left to the compiler, and RX_ONNX_MAX_COPIED is the limit of all. */
rlx_value rx_onnx_computed_weight(rx_onnx_call *c, rlx_value v);
/* The elements of a value that decides a shape or a branch: known, or computed by running the graph
 * so far on the import device. NULL after rx_onnx_fail; `what` names the value. */
const void *rx_onnx_demand(rx_onnx_call *c, rlx_value v, const char *what);
/* The same for operand `i`. */
const void *rx_onnx_need(rx_onnx_call *c, size_t i, const char *what);
/* The elements of a known i32 or i64 operand as a list; false after rx_onnx_fail. `what` names the
 * operand. */
bool rx_onnx_known_ints(rx_onnx_call *c, size_t i, const char *what, rlx_ints *out);
/* An attribute in old versions of an operator, operand `i` in new ones. *given is false when
 * neither is there. False after rx_onnx_fail. */
bool rx_onnx_axes(rx_onnx_call *c, const char *name, size_t i, rlx_ints *out, bool *given);
/* The elements of a known operand of any type that is not packed, as doubles; false after
 * rx_onnx_fail. */
bool rx_onnx_known_reals(rx_onnx_call *c, size_t i, const char *what, double *out, size_t cap,
                         size_t *n);

/* Computes value `v` by running the graph so far (onnx_resolve.c). NULL: there is no device, an
 * input has no value, or the run failed (*err). */
const void *rx_onnx_resolve(rx_onnx_build *b, rlx_value v, rlx_error *err);

/* ---- Narrow types, held one element a byte: onnx_narrow.c ---- ------------------------------- */

void rx_onnx_set_type(rx_onnx_build *b, rlx_value v, int32_t type);
/* The narrow type (int4, float8, ...) of a value held as one element a byte, or NULL. Operations
 * that only move elements propagate it. */
const rx_onnx_type *rx_onnx_narrow(rx_onnx_build *b, rlx_value v);
/* The ONNX element type of `v`. */
const rx_onnx_type *rx_onnx_value_type(rx_onnx_build *b, rlx_value v);
/* Converts as ONNX's Cast; `saturate` is for narrow floats. */
rlx_value rx_onnx_convert(rx_onnx_call *c, rlx_value x, const rx_onnx_type *to, bool saturate);
/* The values of a narrow type: f32 for floats, integers unchanged. */
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
/* A size rounded down; -1, which shape rules reject, for NaN, infinities and negative numbers. */
int64_t rx_onnx_whole(double size);
/* A rank-1 constant of i64. */
rlx_value rx_onnx_i64s(rlx_graph *g, const int64_t *v, int64_t n);

/* sum (a - za) * (b - zb) in i32 (onnx_quant.c); zero points may be RLX_NONE. */
rlx_value rx_onnx_integer_product(rx_onnx_call *c, rlx_value a, rlx_value b, rlx_value za,
                                  rlx_value zb);
/* x times b, where b is a dequantised and transposed weight [N, K] (onnx_quant.c); RLX_NONE: b is
 * anything else. */
rlx_value rx_onnx_dequantized_product(rx_onnx_call *c, rlx_value x, rlx_value b);

/* The node that makes v when it is that operation, else NULL (onnx_qdq.c). */
const rx_node *rx_onnx_made_by(const rx_onnx_call *c, rlx_value v, rx_op op);
/* Quantised a + b; each operand is codes, scale and an optional zero point. The zero point is added
 * before the sum is rounded, as ONNX Runtime does. */
rlx_value rx_onnx_quantized_sum(rx_onnx_call *c, const rlx_value a[3], const rlx_value b[3],
                                const rlx_value to[2], rlx_dtype dtype);
/* QuantizeLinear(x) fused with the matmul or convolution of dequantised operands that makes x
 * (onnx_qdq.c); RLX_NONE: the pattern does not match. */
rlx_value rx_onnx_quantized_product(rx_onnx_call *c, rlx_value x, rlx_value scale, rlx_value zero,
                                    rlx_dtype to);

/* ---- Attention: onnx_attention.c ------------------------------------------------------------- */

/* [B, S, H * D] as [B, H, S, D]; a tensor of rank 4 is returned as it is. RLX_NONE after
 * rx_onnx_fail. */
rlx_value rx_onnx_split_heads(rx_onnx_call *c, rlx_value x, int64_t heads);
/* [B, H, S, D] as [B, S, H * D]. */
rlx_value rx_onnx_join_heads(rx_onnx_call *c, rlx_value y);
/* [B, S, H, D] as [B, H, S, D], and back. */
rlx_value rx_onnx_swap_heads(rx_onnx_call *c, rlx_value x);
/* 0 .. n - 1. */
rlx_value rx_onnx_iota(rx_onnx_call *c, rlx_dim n, rlx_dtype t);
/* p . v as one attention operation, where p is a softmax of scaled and masked scores; RLX_NONE: the
 * pattern does not match. */
rlx_value rx_onnx_attention_by_parts(rx_onnx_call *c, rlx_value p, rlx_value v);

/* ---- Windows of convolutions and pools: onnx_matrix.c ---------------------------------------- */

typedef struct rx_onnx_window {
    int n; /* spatial axes */
    rlx_ints kernel, stride, dilation, pads;
    bool same_upper, same_lower;
} rx_onnx_window;
/* Reads the attributes that convolutions and pools share; `kernel` is the window when the node has
 * no kernel_shape. False after rx_onnx_fail. */
bool rx_onnx_read_window(rx_onnx_call *c, const rlx_shape *x, const rlx_dim *kernel,
                         rx_onnx_window *w);

/* ---- Models of ai.onnx.ml: onnx_ml.c --------------------------------------------------------- */

/* post_transform of scores [N, C]; RLX_NONE after rx_onnx_fail. */
rlx_value rx_onnx_ml_transform(rx_onnx_call *c, rlx_value y);
/* The integer class labels of an attribute as a constant [n]; RLX_NONE after rx_onnx_fail. */
rlx_value rx_onnx_ml_labels(rx_onnx_call *c, const char *name, rlx_dim *n);
/* The label of each row of scores [N, C]; the transformed scores are the second result.
 * `by_second`: the last score decides between two classes, a probability when `positive`; if it is
 * the only one, the other follows from it. */
rlx_value rx_onnx_ml_classify(rx_onnx_call *c, rlx_value scores, rlx_value names, bool by_second,
                              bool positive);

/* ---- Graphs: onnx_graph.c -------------------------------------------------------------------- */

rlx_value rx_onnx_lookup(const rx_onnx_build *b, const char *name);
rlx_status rx_onnx_define(rx_onnx_build *b, const char *name, rlx_value v);
/* Builds a sub-graph with its inputs bound to `in`; out has room for its n_outputs results. */
rlx_status rx_onnx_subgraph(rx_onnx_call *c, const rx_onnx_graph *g, const rlx_value *in,
                            size_t n_in, rlx_value *out);
/* A param whose data lasts as long as the model; an empty or duplicate name is replaced by a new
 * one. */
rlx_status rx_onnx_add_param(rx_onnx_build *b, const char *name, rlx_dtype dtype,
                             const rlx_shape *shape, rx_bytes data, rlx_value *out);
rlx_status rx_onnx_constant(rx_onnx_build *b, const rx_onnx_tensor *t, bool weight,
                            rlx_value *out);

/* ---- Sequences and optionals: onnx_sequence.c ------------------------------------------------ */

/* Whether v is a list (a sequence or optional) instead of a value of the graph. */
bool rx_onnx_is_list(rlx_value v);
/* The items of a list. */
rlx_value *rx_onnx_list_items(const rx_onnx_build *b, rlx_value v, size_t *n);
bool rx_onnx_takes_lists(rx_onnx_fn *builder);

/* ---- The table: onnx_table.c ----------------------------------------------------------------- */

/* The builder of an operator at an opset version; NULL: unsupported. */
rx_onnx_fn *rx_onnx_builder(const char *domain, const char *name, int64_t opset);

#define ONNX(name, domain, since, builder) rx_onnx_fn rx_onnx_##builder;
#include "import/onnx_ops.def"
#undef ONNX

#endif
