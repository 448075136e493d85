/* SPDX-License-Identifier: MIT */
/* rope merged into a state_write: rotated keys are written straight to the cache.
 * gpu/select/rope.c */
#ifndef RX_GPU_ROPE_H
#define RX_GPU_ROPE_H

#include "gpu/gpu.h"

/* Whether the state_write c can compute the rope c->prologue, whose result is its update. */
bool rx_rope_takes_write(const rx_gpu_call *c);
/* Both in one dispatch. place: operand 2 with a single position, or a position per slice. */
rlx_status rx_rope_write(rx_gpu_build *b, const rx_gpu_call *c, rx_gpu_ref place);

#endif
