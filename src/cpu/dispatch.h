/* SPDX-License-Identifier: MIT */
/* The table of CPU kernels of a device: for each operation a chain, the fastest first, the
 * reference kernel last. To add kernels: write an rx_cpu_*_init that adds them and call it in
 * dispatch.c. */
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

/* Puts a kernel in front of the chain of an operation. `name` is static; `strided` as in
 * rx_cpu_kernel. */
rlx_status rx_cpu_table_add(rx_cpu_table *t, rx_op op, const char *name, rx_kernel_fn *run,
                            uint8_t strided);

/* Whether operand i of a kernel may have any strides. */
static inline bool rx_cpu_strided(const rx_cpu_kernel *k, size_t i)
{
    return k->strided >> (i < 7 ? i : 7) & 1;
}

/* The kernel of a chain that will take the call. Data is not looked at and may be absent. */
const rx_cpu_kernel *rx_cpu_choose(const rx_cpu_kernel *k, const rx_call *c);
/* Runs a call through the chain from k on, which may take it; *used is the kernel that did. */
rlx_status rx_cpu_dispatch(const rx_cpu_kernel *k, const rx_call *c, const rx_cpu_kernel **used);

/* Portable kernels: cpu/generic*.c */
rlx_status rx_cpu_generic_init(rx_cpu_table *t);

#endif
