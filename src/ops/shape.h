/* SPDX-License-Identifier: MIT */
/* Checks on dimensions that the shape and index families share. */
#ifndef RX_OPS_SHAPE_H
#define RX_OPS_SHAPE_H

#include "ir/infer.h"

/* `small` <= `large`. Decided at once for numbers and where bounds or equality tell; otherwise the
 * difference large - small becomes an expression of the graph, so that binding fails below zero.
 * `what` names the small side in messages ("start + length"). */
rlx_status rx_check_at_most(rx_infer *c, const char *what, rlx_dim small, rlx_dim large);

#endif
