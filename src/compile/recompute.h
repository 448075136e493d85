/* SPDX-License-Identifier: MIT */
/* Computing activations twice, so that a plan fits a budget of memory. */
#ifndef RX_COMPILE_RECOMPUTE_H
#define RX_COMPILE_RECOMPUTE_H

#include "compile/target.h"

/* What it took: the arena without it, steps that run a second time and their operations. */
typedef struct rx_recomputed {
    uint64_t arena_bytes;
    size_t n_steps;
    double flops;
} rx_recomputed;

/* recompute: the graph with duplicated nodes whose plan fits desc->memory_budget, which is above 0;
 * *out is NULL when the graph fits as it is. RLX_NO_MEMORY names what it takes at least. */
rlx_status rx_recompute(const rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                        rlx_graph **out, rx_recomputed *info, rlx_error *err);

#endif
