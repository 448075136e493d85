/* SPDX-License-Identifier: MIT */
/* Epilogues: bias, activation and residual as operands and attributes of a product or a
 * convolution. */
#ifndef RX_COMPILE_EPILOGUE_H
#define RX_COMPILE_EPILOGUE_H

#include "compile/rewrite.h"

/* An operation that takes an epilogue, and how: a row EPILOGUE of fuse.def. */
typedef struct rx_epilogue {
    rx_op op;
    uint8_t bias, residual; /* operand indices; residual == 0: takes none */
    uint8_t channels_last;  /* the bias is along the last axis; else along axis 1 */
    uint16_t act, act_last; /* offsets in the attribute record */
} rx_epilogue;

/* The row of an operation, or NULL. */
const rx_epilogue *rx_epilogue_of(rx_op op);
/* The activation that a unary operation is, and the reverse; RLX_ACT_NONE and RX_N_OPS: none. */
rlx_act rx_act_of(rx_op op);
rx_op rx_act_op(rlx_act act);

static inline rlx_act *rx_epilogue_act(const rx_epilogue *e, void *record)
{
    return (rlx_act *)(void *)((char *)record + e->act);
}
static inline bool *rx_epilogue_act_last(const rx_epilogue *e, void *record)
{
    return (bool *)(void *)((char *)record + e->act_last);
}

/* Whether node n has a bias, activation or residual. */
bool rx_epilogue_is_used(const rx_node *n);
/* Un-fuses: appends n (operands `in`, record `attr` of w->to) without its epilogue, then the
 * epilogue as separate nodes. */
rlx_value rx_epilogue_split(rx_rewrite *w, const rx_node *n, const rlx_value *in, const void *attr);

#endif
