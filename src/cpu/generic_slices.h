/* SPDX-License-Identifier: MIT */
/* The reference kernel on several threads, one function for each kind of attributes that name the
 * axes which a slice needs whole. Refused (RLX_UNSUPPORTED) where the outermost axis is one. */
#ifndef RX_CPU_GENERIC_SLICES_H
#define RX_CPU_GENERIC_SLICES_H

#include "cpu/kernel.h"

rlx_status rx_slices_axis(const rx_call *c); /* softmax, log_softmax */
rlx_status rx_slices_cum(const rx_call *c);
rlx_status rx_slices_arg(const rx_call *c);
rlx_status rx_slices_sort(const rx_call *c);
rlx_status rx_slices_top_k(const rx_call *c);
rlx_status rx_slices_reduce(const rx_call *c);
rlx_status rx_slices_norm(const rx_call *c);
rlx_status rx_slices_planes(const rx_call *c); /* pools, resize_nearest_2x */
rlx_status rx_slices_resize(const rx_call *c);

#endif
