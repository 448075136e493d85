/* SPDX-License-Identifier: MIT */
/* The portable kernel of elementwise operations on integers. */
#ifndef RX_CPU_GENERIC_INT_H
#define RX_CPU_GENERIC_INT_H

#include "cpu/kernel.h"

rlx_status rx_generic_int(const rx_call *c);

#endif
