/* SPDX-License-Identifier: MIT */
/* Graph rewriting: copies a graph node by node. The new graph has the same names, ports and
 * dimensions; dead nodes are not copied, except for inputs, params and states, which are ports. */
#include "compile/rewrite.h"

#include <stdio.h>
#include <string.h>

#define ATTRS(name, type) \
    _Static_assert(sizeof(type) <= RX_MAX_RECORD, "attribute record too large");
#include "ir/attr.def"
#undef ATTRS

void rx_mark_live(const rlx_graph *g, bool *live)
{
    memset(live, 0, g->n_nodes * sizeof *live);
    for (size_t i = 0; i < g->n_outputs; i++)
        live[g->values[g->outputs[i].value].node] = true;
    for (size_t i = g->n_nodes; i-- > 0;) {
        const rx_node *n = &g->nodes[i];
        uint16_t flags = rx_ops[n->op].flags;
        if (flags & RX_OP_EFFECT || (flags & RX_OP_LEAF && n->op != RX_OP_constant))
            live[i] = true;
        for (uint32_t j = 0; live[i] && j < n->n_in; j++)
            if (n->in[j])
                live[g->values[n->in[j]].node] = true;
    }
}

static rlx_dim map_dim(const rx_rewrite *w, rlx_dim d)
{
    return d < 0 ? w->dims[-d - 2] : d;
}

static void copy_dims(rx_rewrite *w)
{
    for (size_t i = 0; i < w->from->n_dims; i++) {
        const rx_dim_expr *e = &w->from->dims[i];
        rlx_dim a = map_dim(w, e->a), b = map_dim(w, e->b);
        switch (e->kind) {
        case RX_DIM_NAMED: w->dims[i] = rlx_dim_named(w->to, e->name, e->bound); break;
        case RX_DIM_ADD: w->dims[i] = rlx_dim_add(w->to, a, b); break;
        case RX_DIM_SUB: w->dims[i] = rlx_dim_sub(w->to, a, b); break;
        case RX_DIM_MUL: w->dims[i] = rlx_dim_mul(w->to, a, b); break;
        case RX_DIM_DIV: w->dims[i] = rlx_dim_div(w->to, a, b); break;
        }
    }
}

static void free_tables(rx_rewrite *w)
{
    rx_free(w->map);
    rx_free(w->dims);
    rx_free(w->live);
    rx_free(w->in);
}

rlx_status rx_rewrite_begin(rx_rewrite *w, const rlx_graph *from, rlx_error *err)
{
    *w = (rx_rewrite){.from = from};
    w->to = rlx_graph_create(from->name);
    w->map = rx_alloc_array_zero(from->n_values, sizeof *w->map);
    w->dims = rx_alloc_array_zero(from->n_dims + 1, sizeof *w->dims);
    w->live = rx_alloc_array(from->n_nodes + 1, sizeof *w->live);
    if (!w->to || !w->map || !w->dims || !w->live) {
        rlx_graph_destroy(w->to);
        free_tables(w);
        return rx_fail(err, RLX_NO_MEMORY, "out of memory: a pass over graph '%s'", from->name);
    }
    rx_mark_live(from, w->live);
    copy_dims(w);
    return RLX_OK;
}

/* Adds the outputs to the new graph and returns it, or frees it. */
static rlx_status finish(rx_rewrite *w, rlx_status s, rlx_graph **out, rlx_error *err)
{
    const rlx_graph *from = w->from;
    for (size_t i = 0; s == RLX_OK && i < from->n_outputs; i++)
        rlx_output(w->to, from->outputs[i].name, (rlx_value){w->map[from->outputs[i].value]});
    if (w->to->error.code)
        s = rlx_graph_status(w->to, err);
    if (s != RLX_OK)
        rlx_graph_destroy(w->to);
    *out = s == RLX_OK ? w->to : NULL;
    free_tables(w);
    return s;
}

/* Dead code elimination: copies the live nodes. Takes over `g`. */
static rlx_status sweep(rlx_graph *g, rlx_graph **out, rlx_error *err)
{
    rx_rewrite w;
    rlx_status s = rx_rewrite_begin(&w, g, err);
    if (s != RLX_OK) {
        rlx_graph_destroy(g);
        return s;
    }
    size_t n_live = 0;
    for (size_t i = 0; i < g->n_nodes; i++)
        n_live += w.live[i];
    if (n_live == g->n_nodes) {
        rlx_graph_destroy(w.to);
        free_tables(&w);
        *out = g;
        return RLX_OK;
    }
    for (size_t i = 0; i < g->n_nodes && s == RLX_OK; i++)
        if (w.live[i])
            s = rx_rewrite_copy(&w, &g->nodes[i]);
    s = finish(&w, s, out, err);
    rlx_graph_destroy(g);
    return s;
}

rlx_status rx_rewrite_end(rx_rewrite *w, rlx_status s, rlx_graph **out, rlx_error *err)
{
    rlx_graph *g;
    *out = NULL;
    RLX_TRY(finish(w, s, &g, err));
    return sweep(g, out, err);
}

const rlx_value *rx_rewrite_operands(rx_rewrite *w, const rx_node *n)
{
    if (!rx_grow(&w->in, &w->cap_in, n->n_in + 1, sizeof *w->in)) {
        rx_graph_fail(w->to, RLX_NO_MEMORY, "out of memory: operands of %s '%s'",
                      rx_ops[n->op].name, n->name ? n->name : "");
        return NULL;
    }
    for (uint32_t i = 0; i < n->n_in; i++)
        w->in[i] = (rlx_value){w->map[n->in[i]]};
    return w->in;
}

const void *rx_rewrite_attr(rx_rewrite *w, const rx_node *n)
{
    const rx_attr_info *info = rx_ops[n->op].attr;
    memcpy(w->record, n->attr, info->size);
    if (w->from->n_dims)
        rx_attr_map_dims(info, w->record, w->dims);
    return w->record;
}

void rx_rewrite_map(rx_rewrite *w, const rx_node *n, rlx_value first)
{
    for (uint32_t i = 0; i < n->n_out; i++)
        w->map[n->first_out + i] = rx_result(first, i).id;
}

rlx_status rx_rewrite_copy(rx_rewrite *w, const rx_node *n)
{
    const rlx_value *in = rx_rewrite_operands(w, n);
    if (!in)
        return w->to->error.code;
    rlx_value v = rx_graph_add(w->to, n->op, in, n->n_in, rx_rewrite_attr(w, n), n->name);
    if (n->op == RX_OP_constant && n->name)
        rlx_named(w->to, v, n->name);
    rx_rewrite_map(w, n, v);
    return w->to->error.code;
}

rlx_value rx_rewrite_try(rx_rewrite *w, rx_op op, const rlx_value *in, size_t n_in,
                         const void *attr, const char *name)
{
    if (w->to->error.code)
        return RLX_NONE;
    rlx_value v = rx_graph_add(w->to, op, in, n_in, attr, name);
    if (w->to->error.code == RLX_INVALID)
        w->to->error = (rlx_error){0};
    return v;
}

const char *rx_node_text(const rlx_graph *g, const rx_node *n, char buffer[RX_NODE_TEXT])
{
    char type[RX_TYPE_TEXT];
    const rx_value *v = &g->values[n->first_out];
    snprintf(buffer, RX_NODE_TEXT, "'%.60s' (%s %s)", n->name ? n->name : "unnamed",
             rx_ops[n->op].name, rx_type_text(g, v->dtype, &v->shape, type));
    return buffer;
}
