/* SPDX-License-Identifier: MIT */
/* Gives outputs memory of their own: an output that is an input, param, literal or state is copied,
 * right after its definition, since a state may be overwritten later. */
#include "compile/compile.h"
#include "compile/rewrite.h"
#include "ops/view.h"

static bool is_port(const rlx_graph *g, uint32_t id)
{
    rx_op op = rx_value_node(g, id)->op;
    return rx_ops[op].flags & RX_OP_LEAF || op == RX_OP_state_write;
}

rlx_status rx_own_outputs(const rlx_graph *g, rlx_graph **out, rlx_error *err)
{
    rx_rewrite w;
    *out = NULL;
    RLX_TRY(rx_rewrite_begin(&w, g, err));
    rlx_status s = RLX_OK;
    bool *is_output = rx_alloc_array_zero(g->n_values, sizeof *is_output);
    uint32_t *copies = rx_alloc_array_zero(g->n_values, sizeof *copies);
    if (!is_output || !copies)
        s = rx_fail(err, RLX_NO_MEMORY, "out of memory: outputs of graph '%s'", g->name);
    for (size_t i = 0; s == RLX_OK && i < g->n_outputs; i++)
        is_output[g->outputs[i].value] = is_port(g, g->outputs[i].value);
    for (size_t i = 0; s == RLX_OK && i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        if (!w.live[i])
            continue;
        s = rx_rewrite_copy(&w, n);
        if (s == RLX_OK && is_output[n->first_out])
            copies[n->first_out] = rx_copy_build(w.to, (rlx_value){w.map[n->first_out]}).id;
    }
    for (size_t i = 0; s == RLX_OK && i < g->n_values; i++)
        if (copies[i])
            w.map[i] = copies[i]; /* only outputs remain to be mapped */
    rx_free(is_output);
    rx_free(copies);
    return rx_rewrite_end(&w, s, out, err);
}
