/* SPDX-License-Identifier: MIT */
/* Shape checks shared by the matrix products of ops/matrix.c and ops/quant.c. */
#ifndef RX_OPS_MATRIX_H
#define RX_OPS_MATRIX_H

#include "ir/infer.h"

/* The result of operand 0 times operand 1 with the rules of NumPy's matmul; b is [.., N, K] when
 * trans_b. *n is the number of columns, 1 for a vector b. */
rlx_status rx_matmul_shape(rx_infer *c, bool trans_b, rlx_shape *out, rlx_dim *n);

/* The epilogue: operands `bias` [N] and `bias + 1`, the residual. Both have the type of the result
 * or, for a float result, f32. Result 0 must be set. */
rlx_status rx_check_epilogue(rx_infer *c, size_t bias, rlx_dim n, rlx_act act);

/* act_last matters only with both an activation and a residual. */
static inline bool rx_act_is_last(bool act_last, rlx_act act, const rx_value *residual)
{
    return act_last && act != RLX_ACT_NONE && residual;
}

/* Operand i holds m expert indices below `experts`; constants are checked one by one. */
rlx_status rx_check_expert_ids(rx_infer *c, size_t i, rlx_dim m, rlx_dim experts);

/* The last axis of operand i, if packed, is whole blocks. */
rlx_status rx_check_blocks(rx_infer *c, size_t i, const char *what);

#endif
