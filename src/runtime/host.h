/* SPDX-License-Identifier: MIT */
/* Host fallback of devices with memory of their own: constant folding and steps without a kernel,
 * both with the reference kernels. Implemented in cpu/host.c. */
#ifndef RX_RUNTIME_HOST_H
#define RX_RUNTIME_HOST_H

#include "ops/view.h"

/* A step whose operands and results are in host memory. */
typedef struct rx_host_call {
    rx_op op;
    const void *attr;   /* numbers only */
    size_t n_in, n_out;
    const rx_view *in;  /* rank -1: absent */
    const rx_view *out; /* dense; data NULL: result not wanted */
    uint32_t *flags;    /* RLX_FLAG_* are added */
} rx_host_call;

rlx_status rx_host_run(const rx_host_call *c, rlx_error *err);

/* rx_target.eval for any device. */
rlx_status rx_host_eval(const rlx_graph *g, const rx_node *n, const void *const *in,
                        void *const *out, rlx_error *err);

#endif
