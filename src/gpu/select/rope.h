/* SPDX-License-Identifier: MIT */
/* rope as part of a state_write: rotated keys go straight to the cache. gpu/select/rope.c */
#ifndef RX_GPU_ROPE_H
#define RX_GPU_ROPE_H

#include "gpu/gpu.h"

/* Whether the state_write c can do the rope c->prologue, whose result is its update, itself. */
bool rx_rope_takes_write(const rx_gpu_call *c);
/* Both in one dispatch. place: operand 2 with a single position, or a place for each slice. */
rlx_status rx_rope_write(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_ref place);

#endif
