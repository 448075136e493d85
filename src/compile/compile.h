/* SPDX-License-Identifier: MIT */
/* The compiler: graph to program for a target, in one direction. */
#ifndef RX_COMPILE_COMPILE_H
#define RX_COMPILE_COMPILE_H

#include "compile/program.h"
#include "compile/target.h"

/* On success the caller owns one reference of *out. */
rlx_status rx_compile(const rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                      rx_program **out, rlx_error *err);

/* The last stages alone, for a graph that was lowered before for such a target. Takes it over, also
 * on failure. RLX_UNSUPPORTED when the target has no kernel for a node. */
rlx_status rx_compile_lowered(rlx_graph *g, const rx_target *t, const rlx_session_desc *desc,
                              rx_program **out, rlx_error *err);

/* ---- Stages: each makes a new graph (or plan, or program) of the one before. ---------------- */

/* fold: removes what no output needs, shares equal nodes, computes constant expressions, drops
 * no-ops (x+0, reshape to the same shape, transposes that cancel). */
rlx_status rx_fold(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err);
/* legalise: decomposes what the target lacks until all that is left is native or on the host;
 * otherwise fails and names node, operation, type, device and the nearest alternative. */
rlx_status rx_legalise(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err);
/* fuse: rules of fuse.def (epilogues, residual + norm, swiglu, ...), then elementwise regions. */
rlx_status rx_fuse(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err);
/* Gives an output that is an input, param, literal or state a copy of its own. */
rlx_status rx_own_outputs(const rlx_graph *g, rlx_graph **out, rlx_error *err);

#endif
