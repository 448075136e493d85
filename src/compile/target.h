/* SPDX-License-Identifier: MIT */
/* A device as the compiler knows it: data and three questions. Made by backends, tested without
 * them. */
#ifndef RX_COMPILE_TARGET_H
#define RX_COMPILE_TARGET_H

#include "ir/graph.h"
#include "rlx/session.h"

typedef struct rx_target rx_target;
struct rx_target {
    const char *name;       /* "cpu", "vulkan": for messages */
    uint64_t align;         /* of every slot in the arena, a power of two, at least 16 */
    /* Up to this many bytes, or a sixteenth of the weights, the arena may grow so that memory is
     * not used again at once: steps that share memory have to wait for one another. 0: the smallest
     * arena. */
    uint64_t loose_bytes;
    bool has_host;          /* operations without a kernel may run on the host */
    bool no_regions;        /* elementwise chains are not fused */
    const void *user;       /* for the functions below */

    /* How this node would run: native, host or no. Never decomposed or view: that is the
     * compiler's. */
    rlx_support (*support)(const rx_target *t, const rlx_graph *g, const rx_node *n);
    /* Whether operand i of the node may have any strides; else it is made dense first. */
    bool (*takes_strided)(const rx_target *t, const rlx_graph *g, const rx_node *n, size_t i);
    /* Computes a node whose operands are constants, for folding: in[i] are dense bytes, out[i] has
     * room for the results. NULL: no folding. */
    rlx_status (*eval)(const rlx_graph *g, const rx_node *n, const void *const *in,
                       void *const *out, rlx_error *err);
};

#endif
