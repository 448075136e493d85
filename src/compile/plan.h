/* SPDX-License-Identifier: MIT */
/* The memory plan of a graph: which nodes are steps and which only views, lifetimes, in-place
 * reuse, and the arena offset of each slot. Sizes are at the bounds of the named dimensions, so the
 * plan holds for all smaller values. */
#ifndef RX_COMPILE_PLAN_H
#define RX_COMPILE_PLAN_H

#include "compile/program.h"
#include "compile/target.h"

/* ---- Views: layout.c ------------------------------------------------------------------------ */

/* By node, whether it is a view of its operand and so not a step; by value, whether it is dense for
 * all values of the named dimensions. A node becomes a view only if all its readers accept its
 * strides, its memory is not overwritten before the last of them, and it is not an output that
 * would alias an input, param, literal or state. */
rlx_status rx_decide_views(const rlx_graph *g, const rx_target *t, const bool *live, bool *is_view,
                           bool *dense, rlx_error *err);

/* ---- Arena offsets: offsets.c ---------------------------------------------------------------- */

/* A range of the arena, live from step `first` to step `last`, both included. */
typedef struct rx_slot {
    uint64_t offset, bytes; /* bytes are a multiple of the alignment */
    uint32_t first, last;
} rx_slot;

/* Peak of live bytes over all steps, the lower bound of any arena. False when out of memory. */
bool rx_live_peak(const rx_slot *slots, size_t n, size_t n_steps, uint64_t *bound);
/* Sets the offsets so that no two live slots overlap; *total is the size of the arena. Slots are in
 * order of `first`. False when out of memory. */
bool rx_assign_offsets(rx_slot *slots, size_t n, size_t n_steps, uint64_t bound, uint64_t *total);

/* ---- The plan ------------------------------------------------------------------------------- */

typedef struct rx_planned {
    rx_space space;
    uint32_t index;       /* ARENA: of the slot; others: of the port or literal */
    uint32_t view_of;     /* 0, or the value that this is a view of */
    uint32_t root;        /* the value that owns the memory: itself unless a view */
    bool dense;
    uint32_t first, last; /* steps, of the root for views; outputs: last = n_steps. Operands of
                           * mergeable steps live until the last of those */
    uint64_t bytes;       /* of the root for views */
} rx_planned;

typedef struct rx_plan {
    const rlx_graph *graph; /* must outlive the plan */
    uint32_t *step_of;      /* by node: its step or RX_NO_STEP */
    rx_planned *values;     /* by value id */
    rx_slot *slots;
    size_t n_steps, n_slots;
    rx_merge *merges;       /* by step */
    rlx_memory_info memory;
} rx_plan;

/* Plans the memory of g under the policy of the descriptor; with its keep_all no two values share
 * memory. The caller finishes the plan, also after a failure. */
rlx_status rx_plan_make(rx_plan *p, const rlx_graph *g, const rx_target *t,
                        const rlx_session_desc *desc, rlx_error *err);
/* Fills p->merges (none when t is NULL); done[s] becomes the last step in whose position step s may
 * be computed: merge.c. */
void rx_find_merges(rx_plan *p, const rx_target *t, rlx_policy policy, uint32_t *done);
void rx_plan_finish(rx_plan *p);
/* One line a slot: offset, size, lifetime, values. Freed with rx_free. */
rlx_status rx_plan_print(const rx_plan *p, char **text, rlx_error *err);

/* ---- Program -------------------------------------------------------------------------------- */

/* Flops and bytes moved of a node at the bounds: cost.c. */
void rx_cost(const rlx_graph *g, const rx_node *n, double *flops, double *bytes);

/* The plan as a flat list of steps: schedule.c. On success the caller owns one reference. */
rlx_status rx_schedule(const rx_plan *p, const rx_target *t, rx_program **out, rlx_error *err);
/* One line a step. Freed with rx_free. */
rlx_status rx_program_print(const rx_program *p, char **text, rlx_error *err);

#endif
