/* SPDX-License-Identifier: MIT */
/* The target description: a device as the compiler knows it, data and queries. Made by
 * backends, tested without them. */
#ifndef RX_COMPILE_TARGET_H
#define RX_COMPILE_TARGET_H

#include "ir/graph.h"
#include "rlx/session.h"

typedef struct rx_target rx_target;
struct rx_target {
    const char *name;       /* "cpu", "vulkan": for messages */
    uint64_t align;         /* of every slot in the arena, a power of two, at least 16 */
    /* Slack: the arena may exceed the peak of live bytes by up to this much so that slots are
     * reused later, since reuse costs a barrier. Programs with few weights get less (plan.c).
     * 0: the smallest arena. */
    uint64_t slack_bytes;
    /* Each new size costs a recording; within multiples of `row_multiple` the kernels are the same.
     * So programs that can pad round row counts above `exact_rows` up: rlx_session_round_rows. 0:
     * every size costs the same. */
    int64_t exact_rows, row_multiple;
    bool has_host;          /* operations without a kernel may run on the host */
    bool no_regions;        /* elementwise chains are not fused */
    const void *user;       /* for the functions below */

    /* How this node would run: native, host or no; decomposing and views are the compiler's
     * decision. */
    rlx_support (*support)(const rx_target *t, const rlx_graph *g, const rx_node *n);
    /* Whether operand i of the node may have any strides; else it is copied to a dense layout
     * first. */
    bool (*takes_strided)(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i);
    /* Whether one kernel can compute both nodes, of which the second reads the result of the first,
     * at sizes that may be bound. NULL: never. */
    bool (*merges)(const rx_target *t, rlx_policy policy, const rlx_graph *g, const rx_node *first,
                   const rx_node *second);
    /* Constant folding: computes a node whose operands are constants, from dense in[i] to dense
     * out[i]. NULL: no folding. */
    rlx_status (*eval)(const rlx_graph *g, const rx_node *n, const void *const *in,
                       void *const *out, rlx_error *err);
};

#endif
