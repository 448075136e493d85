/* SPDX-License-Identifier: MIT */
/* What the shape rules of attention and ragged_attention share. */
#ifndef RX_OPS_ATTENTION_H
#define RX_OPS_ATTENTION_H

#include "ir/infer.h"

/* The attributes of the scores: scale and soft cap are finite, cap and window not below 0. */
rlx_status rx_check_scores(rx_infer *c, double scale, double soft_cap, int64_t window);

#endif
