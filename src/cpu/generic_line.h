/* SPDX-License-Identifier: MIT */
/* Portable kernels that work line by line: running sums, one_hot, trilu. */
#ifndef RX_CPU_GENERIC_LINE_H
#define RX_CPU_GENERIC_LINE_H

#include "cpu/kernel.h"

rlx_status rx_generic_cum(const rx_call *c);
rlx_status rx_generic_one_hot(const rx_call *c);
rlx_status rx_generic_trilu(const rx_call *c);

#endif
