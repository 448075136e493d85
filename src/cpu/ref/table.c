/* SPDX-License-Identifier: MIT */
/* The reference kernel of each operation, from the table of operations. */
#include "cpu/kernel.h"

/* "none" in the row of an operation without a kernel. */
#define rx_ref_none NULL

rx_kernel_fn *const rx_ref_table[RX_N_OPS] = {
#define OP(name, family, lo, hi, out, attr, infer, lower, grad, ref, flags) \
    [RX_OP_##name] = rx_ref_##ref,
#include "ir/ops.def"
#undef OP
};
