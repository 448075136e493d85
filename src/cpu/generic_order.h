/* SPDX-License-Identifier: MIT */
/* The portable kernels of top_k, sort and argsort, of knn and of group_limited_gate. */
#ifndef RX_CPU_GENERIC_ORDER_H
#define RX_CPU_GENERIC_ORDER_H

#include "cpu/kernel.h"

rlx_status rx_generic_order(const rx_call *c);
rlx_status rx_generic_knn(const rx_call *c);
rlx_status rx_generic_gate(const rx_call *c);

#endif
