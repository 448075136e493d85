/* SPDX-License-Identifier: MIT */
/* The table of CPU kernels of a device: for each operation a chain, the fastest first, the
 * reference kernel last. To add a kernel: a row in cpu/generic.c or cpu/fast/kernels.def. */
#ifndef RX_CPU_DISPATCH_H
#define RX_CPU_DISPATCH_H

#include "cpu/kernel.h"

typedef struct rx_cpu_table {
    rx_arena arena;
    const rx_cpu_kernel *head[RX_N_OPS]; /* NULL: no kernel at all */
} rx_cpu_table;

/* Reference kernels only, or with the fast ones above. On failure the table is empty. */
rlx_status rx_cpu_table_init(rx_cpu_table *t, bool fast, rlx_error *err);
void rx_cpu_table_finish(rx_cpu_table *t);

/* Whether the chain of an operation would have more than the reference kernel, with the instruction
 * set of this processor. */
bool rx_cpu_has_fast(rx_op op);

/* Whether operand i of a kernel may have any strides. */
static inline bool rx_cpu_strided(const rx_cpu_kernel *k, size_t i)
{
    return k->strided >> (i < 7 ? i : 7) & 1;
}

/* The kernel of a chain that will take the call. Data is not accessed and may be absent. */
const rx_cpu_kernel *rx_cpu_choose(const rx_cpu_kernel *k, const rx_call *c);
/* Runs a call by the first kernel of the chain from k on that takes it; *used is that kernel. */
rlx_status rx_cpu_dispatch(const rx_cpu_kernel *k, const rx_call *c, const rx_cpu_kernel **used);

#endif
