/* SPDX-License-Identifier: MIT */
/* The two passes of fuse: rules of fuse.def, then elementwise regions. */
#ifndef RX_COMPILE_FUSE_H
#define RX_COMPILE_FUSE_H

#include "compile/target.h"

/* How often each value is used: by operands of live nodes and by outputs. uses has n_values entries
 * and is cleared first. */
void rx_count_uses(const rlx_graph *g, const bool *live, uint32_t *uses);

/* Rules of fuse.def: patterns, epilogues, norms with their scale, shift and residual. */
rlx_status rx_fuse_rules(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err);
/* Groups of elementwise nodes become regions. */
rlx_status rx_fuse_regions(const rlx_graph *g, const rx_target *t, rlx_graph **out,
                           rlx_error *err);

#endif
