/* SPDX-License-Identifier: MIT */
/* Portable kernels of the state space models. */
#ifndef RX_CPU_GENERIC_SCAN_H
#define RX_CPU_GENERIC_SCAN_H

#include "cpu/kernel.h"

rlx_status rx_generic_selective_scan(const rx_call *c);
rlx_status rx_generic_mamba2(const rx_call *c);
rlx_status rx_generic_gated_delta_net(const rx_call *c);

#endif
