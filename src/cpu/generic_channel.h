/* SPDX-License-Identifier: MIT */
/* The portable kernel of norms with weights by channel. */
#ifndef RX_CPU_GENERIC_CHANNEL_H
#define RX_CPU_GENERIC_CHANNEL_H

#include "cpu/kernel.h"

rlx_status rx_generic_channel_norm(const rx_call *c);

#endif
