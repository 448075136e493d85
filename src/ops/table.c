/* SPDX-License-Identifier: MIT */
/* The table of operations (ir/ops.def) and those of decompositions and derivatives, as data. */
#include <string.h>

#include "ir/op.h"
#include "ops/grad.h"
#include "ops/lower.h"

#define N RX_ANY_COUNT
#define E RX_OP_ELEMENTWISE
#define V RX_OP_VIEW
#define M RX_OP_MOVES
#define I RX_OP_INPLACE
#define X RX_OP_EFFECT
#define L RX_OP_LEAF
#define IDEMPOTENT RX_OP_IDEMPOTENT
#define INVOLUTION RX_OP_INVOLUTION
#define SIGNED_ZERO 0 /* for tests */

const rx_op_info rx_ops[RX_N_OPS] = {
#define OP(op, family, lo, hi, out, attr, infer, lower, grad, ref, flags)                          \
    [RX_OP_##op] = {#op, RX_FAMILY_##family, lo, hi, out, flags, &rx_attr_##attr, rx_infer_##infer},
#include "ir/ops.def"
#undef OP
};

#define rx_lower_none NULL
rx_lower_fn *const rx_lower_table[RX_N_OPS] = {
#define OP(op, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    [RX_OP_##op] = rx_lower_##lower,
#include "ir/ops.def"
#undef OP
};

#define rx_grad_none NULL
rx_grad_fn *const rx_grad_table[RX_N_OPS] = {
#define OP(op, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    [RX_OP_##op] = rx_grad_##grad,
#include "ir/ops.def"
#undef OP
};

const char *rx_family_name(rx_family f)
{
    static const char *const names[] = {
        "leaf",  "unary", "binary", "compare", "select", "region", "matrix", "norm", "attention",
        "shape", "index", "reduce", "order",   "conv",   "recurrent", "signal", "random", "custom",
    };
    return names[f];
}

rx_op rx_op_find(const char *name, size_t length)
{
    for (int i = 0; i < RX_N_OPS; i++)
        if (strlen(rx_ops[i].name) == length && !memcmp(rx_ops[i].name, name, length))
            return (rx_op)i;
    return RX_N_OPS;
}

const char *rlx_op_name(size_t i)
{
    return i < RX_N_OPS ? rx_ops[i].name : NULL;
}
