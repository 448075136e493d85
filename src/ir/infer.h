/* SPDX-License-Identifier: MIT */
/* Shape inference: the context of a shape rule (rx_infer_*) and the checks it may use. A rule
 * checks operands and attributes, fills in defaults in the attribute record, and sets type and
 * shape of each result. */
#ifndef RX_IR_INFER_H
#define RX_IR_INFER_H

#include "ir/graph.h"

#define RX_MAX_RESULTS 64

typedef struct rx_infer {
    rlx_graph *g;
    rx_op op;
    const char *name;          /* of the node, may be NULL */
    size_t n_in;
    const rx_value *const *in; /* NULL for an absent optional operand */
    const uint32_t *ids;       /* their value ids (0: absent) */
    void *attr;                /* the node's record, to be normalised in place */
    size_t n_out;              /* set by the table; rules with n_out by attribute set it */
    rlx_dtype dtype[RX_MAX_RESULTS];
    rlx_shape shape[RX_MAX_RESULTS];
} rx_infer;

/* Fails with "softmax 'name': <text>". The code is RLX_INVALID. */
rlx_status rx_infer_fail(rx_infer *c, const char *fmt, ...) RX_PRINTF(2, 3);

/* Operand i; NULL when absent. */
static inline const rx_value *rx_in(const rx_infer *c, size_t i)
{
    return i < c->n_in ? c->in[i] : NULL;
}

/* Sets a result. */
static inline void rx_out(rx_infer *c, size_t i, rlx_dtype t, const rlx_shape *s)
{
    c->dtype[i] = t;
    c->shape[i] = *s;
}

/* ---- Checks. Each fails with a sentence that names operand, expected and got. ---------------- */

/* *axis into 0 .. rank-1. */
rlx_status rx_check_axis(rx_infer *c, int64_t *axis, int rank);
/* A set of types as bits 1 << rlx_dtype. */
#define RX_T(t) (1ull << (t))
#define RX_FLOATS (RX_T(RLX_F32) | RX_T(RLX_F16) | RX_T(RLX_BF16)) /* computed in f32 */
#define RX_REALS (RX_FLOATS | RX_T(RLX_F64))
#define RX_INTS                                                                             \
    (RX_T(RLX_I8) | RX_T(RLX_U8) | RX_T(RLX_I16) | RX_T(RLX_U16) | RX_T(RLX_I32) |          \
     RX_T(RLX_U32) | RX_T(RLX_I64) | RX_T(RLX_U64))
#define RX_NUMBERS (RX_REALS | RX_INTS)
#define RX_PLAIN (RX_NUMBERS | RX_T(RLX_BOOL))
#define RX_INDEX (RX_T(RLX_I32) | RX_T(RLX_I64))
#define RX_PACKED (~(RX_PLAIN | 1ull) & ((1ull << RLX_N_DTYPES) - 1))
/* Types that only some kernels compute with. */
#define RX_RARE                                                                             \
    (RX_T(RLX_F64) | RX_T(RLX_I16) | RX_T(RLX_U16) | RX_T(RLX_U32) | RX_T(RLX_U64))
/* Operand i is present and has one of the types. `what` is its role in messages ("x", "gamma"). */
rlx_status rx_check_type(rx_infer *c, size_t i, const char *what, uint64_t types);
rlx_status rx_check_same_type(rx_infer *c, size_t i, size_t j);
rlx_status rx_check_rank(rx_infer *c, size_t i, const char *what, int lo, int hi);
/* Operand i has exactly this shape. */
rlx_status rx_check_shape(rx_infer *c, size_t i, const char *what, const rlx_shape *want);
/* Dimension `axis` of operand i equals `want`. */
rlx_status rx_check_dim(rx_infer *c, size_t i, const char *what, int axis, rlx_dim want);
/* NumPy broadcast of two shapes into *out; named dimensions broadcast only with 1 and
 * themselves. */
rlx_status rx_broadcast(rx_infer *c, const rlx_shape *a, const rlx_shape *b, rlx_shape *out);
/* Operand i broadcasts to `to` without changing it. */
rlx_status rx_check_broadcasts_to(rx_infer *c, size_t i, const char *what, const rlx_shape *to);
/* The result type attribute: *t is `dflt` when RLX_NO_TYPE, and must be in `types`. */
rlx_status rx_default_type(rx_infer *c, rlx_dtype *t, rlx_dtype dflt, uint64_t types);
/* A list attribute is empty (then filled with n times `fill`) or has n entries, all >= lo. */
rlx_status rx_check_list(rx_infer *c, const char *what, rlx_ints *list, int n, int64_t fill,
                         int64_t lo);
/* The data of a constant operand, or NULL when it is not a constant. */
const void *rx_constant_data(const rx_infer *c, size_t i);

#endif
