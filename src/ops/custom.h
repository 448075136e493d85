/* SPDX-License-Identifier: MIT */
/* User-defined operations: nodes of the operation `custom`, whose record has their name. */
#ifndef RX_OPS_CUSTOM_H
#define RX_OPS_CUSTOM_H

#include "ops/view.h"
#include "rlx/custom.h"

/* The registered operation, with defaults filled in; NULL: there is none of that name. */
const rlx_op_desc *rx_custom_find(const char *name);

/* Whether the kernel of that kind is there; true for all other operations. */
typedef enum rx_custom_kernel { RX_CUSTOM_CPU, RX_CUSTOM_SPIRV } rx_custom_kernel;
bool rx_custom_has(const rx_node *n, rx_custom_kernel k);

/* Operands and results of a call, by numbers. */
typedef struct rx_custom_call {
    rlx_op_call call;
    rlx_op_tensor tensors[RLX_OP_MAX_OPERANDS]; /* operands, then results */
} rx_custom_call;
/* Fills the call from views; data is left NULL. */
void rx_custom_fill(rx_custom_call *c, const rlx_custom_desc *attrs, const rx_view *in, size_t n_in,
                    const rx_view *out, size_t n_out);

#endif
