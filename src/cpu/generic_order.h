/* SPDX-License-Identifier: MIT */
/* The portable kernel of top_k, sort and argsort. */
#ifndef RX_CPU_GENERIC_ORDER_H
#define RX_CPU_GENERIC_ORDER_H

#include "cpu/kernel.h"

rlx_status rx_generic_order(const rx_call *c);

#endif
