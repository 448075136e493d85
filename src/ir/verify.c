/* SPDX-License-Identifier: MIT */
/* The verifier: reruns every shape rule and compares with what the graph recorded, and checks
 * order, names and state versions. Run after every stage of the compiler; linear in the size of the
 * graph. */
#include <string.h>

#include "ir/infer.h"

#define MAX_RECORD 1024
#define ATTRS(name, type) _Static_assert(sizeof(type) <= MAX_RECORD, "attribute record too large");
#include "ir/attr.def"
#undef ATTRS

typedef struct checker {
    rlx_graph g;          /* the graph, frozen, with an error of its own */
    uint32_t *state_now;  /* newest version of each state at this point of the walk */
    const rx_value **in;  /* operands of the node at hand */
    size_t cap_in;
} checker;

static rlx_status fail_node(checker *k, size_t i, const char *what)
{
    const rx_node *n = &k->g.nodes[i];
    rx_infer c = {.g = &k->g, .op = n->op, .name = n->name};
    k->g.n_nodes = i; /* messages of rules name the node by this number */
    return rx_infer_fail(&c, "%s", what);
}

static rlx_status check_order(checker *k, size_t i)
{
    const rx_node *n = &k->g.nodes[i];
    for (uint32_t j = 0; j < n->n_in; j++) {
        uint32_t id = n->in[j];
        if (id >= n->first_out)
            return fail_node(k, i, "uses a value that a later node makes");
        uint32_t state = id ? k->g.values[id].state : 0;
        if (state && k->state_now[k->g.values[state].result] != id)
            return fail_node(k, i, "uses a version of a state that was overwritten before");
    }
    if (n->first_out + n->n_out > k->g.n_values)
        return fail_node(k, i, "has results outside the list of values");
    for (uint32_t j = 0; j < n->n_out; j++)
        if (k->g.values[n->first_out + j].node != i)
            return fail_node(k, i, "does not own its results");
    return RLX_OK;
}

/* Runs the shape rule on copies and compares with what is recorded. */
static rlx_status check_rule(checker *k, size_t i)
{
    const rx_node *n = &k->g.nodes[i];
    const rx_op_info *info = &rx_ops[n->op];
    _Alignas(16) char record[MAX_RECORD];
    memcpy(record, n->attr, info->attr->size);
    for (uint32_t j = 0; j < n->n_in; j++)
        k->in[j] = n->in[j] ? &k->g.values[n->in[j]] : NULL;
    rx_infer c = {.g = &k->g, .op = n->op, .name = n->name, .n_in = n->n_in, .in = k->in,
                  .ids = n->in, .attr = record, .n_out = info->n_out};
    RLX_TRY(info->infer(&c));
    if (k->g.error.code)
        return k->g.error.code;
    if (c.n_out != n->n_out)
        return fail_node(k, i, "has the wrong number of results");
    for (uint32_t j = 0; j < n->n_out; j++) {
        const rx_value *v = &k->g.values[n->first_out + j];
        if (v->dtype != c.dtype[j] || !rx_shape_equal(&v->shape, &c.shape[j])) {
            char a[RX_TYPE_TEXT], b[RX_TYPE_TEXT];
            return rx_infer_fail(&c, "result %u expected %s, recorded %s", j,
                                 rx_type_text(&k->g, c.dtype[j], &c.shape[j], a),
                                 rx_type_text(&k->g, v->dtype, &v->shape, b));
        }
    }
    return RLX_OK;
}

static rlx_status check_node(checker *k, size_t i)
{
    const rx_node *n = &k->g.nodes[i];
    if ((unsigned)n->op >= RX_N_OPS)
        return rx_graph_fail(&k->g, RLX_INVALID, "node %zu: unknown operation %d", i, (int)n->op);
    RLX_TRY(check_order(k, i));
    if (!rx_grow(&k->in, &k->cap_in, n->n_in + 1, sizeof *k->in))
        return rx_graph_fail(&k->g, RLX_NO_MEMORY, "out of memory while verifying");
    k->g.n_nodes = i; /* as in fail_node */
    RLX_TRY(check_rule(k, i));
    if (n->op == RX_OP_state)
        k->state_now[k->g.values[n->first_out].result] = n->first_out;
    if (n->op == RX_OP_state_write)
        k->state_now[k->g.values[k->g.values[n->first_out].state].result] = n->first_out;
    return RLX_OK;
}

rlx_status rlx_graph_verify(const rlx_graph *g, rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_graph_verify: g", err));
    RLX_TRY(rlx_graph_status(g, err));
    checker k = {.g = *g};
    k.g.frozen = true;
    k.state_now = rx_alloc_array_zero(g->n_leaves[RLX_LEAF_STATE] + 1, sizeof *k.state_now);
    rlx_status s = k.state_now ? RLX_OK : rx_fail(err, RLX_NO_MEMORY, "out of memory: verifier");
    for (size_t i = 0; i < g->n_nodes && s == RLX_OK; i++)
        s = check_node(&k, i);
    for (size_t i = 0; i < g->n_outputs && s == RLX_OK; i++)
        if (!g->outputs[i].value || g->outputs[i].value >= g->n_values)
            s = rx_graph_fail(&k.g, RLX_INVALID, "output '%s': names no value of the graph",
                              g->outputs[i].name);
    if (s != RLX_OK && k.g.error.code && err)
        *err = k.g.error;
    rx_free(k.state_now);
    rx_free(k.in);
    return s;
}
