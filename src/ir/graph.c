/* SPDX-License-Identifier: MIT */
/* Graphs: creation, appending nodes, leaves, outputs, queries. */
#include "ir/graph.h"

#include <string.h>

#include "base/dtype.h"
#include "base/sized.h"
#include "ir/infer.h"

rlx_graph *rlx_graph_create(const char *name)
{
    rlx_graph *g = rx_alloc_zero(sizeof *g);
    if (!g)
        return NULL;
    g->name = rx_arena_strdup(&g->arena, name ? name : "");
    if (!g->name || !rx_grow(&g->values, &g->cap_values, 1, sizeof *g->values)) {
        rlx_graph_destroy(g);
        return NULL;
    }
    g->values[0] = (rx_value){0};
    g->n_values = 1;
    return g;
}

void rlx_graph_destroy(rlx_graph *g)
{
    if (!g)
        return;
    for (int i = 0; i < 3; i++)
        rx_free(g->leaves[i]);
    rx_map_finish(&g->leaf_names);
    rx_map_finish(&g->output_names);
    rx_free(g->state_now);
    rx_free(g->outputs);
    rx_free(g->dims);
    rx_free(g->dim_slots);
    rx_free(g->values);
    rx_free(g->nodes);
    rx_arena_finish(&g->arena);
    rx_free(g);
}

rlx_status rx_graph_fail(rlx_graph *g, rlx_status code, const char *fmt, ...)
{
    if (!g) /* no graph to record it in: the builder returns RLX_NONE */
        return RLX_INVALID;
    if (g->error.code)
        return g->error.code;
    va_list args;
    va_start(args, fmt);
    rx_vfail(&g->error, code, fmt, args);
    va_end(args);
    return code;
}

rlx_status rlx_graph_status(const rlx_graph *g, rlx_error *err)
{
    RLX_TRY(rx_need(g, "rlx_graph_status: g", err));
    if (g->error.code && err)
        *err = g->error;
    return g->error.code;
}

/* ---- Appending ------------------------------------------------------------------------------- */

static rlx_status no_memory(rlx_graph *g)
{
    return rx_graph_fail(g, RLX_NO_MEMORY, "out of memory while adding node %zu to graph '%s'",
                         g->n_nodes, g->name);
}

static rlx_status check_count(rx_infer *c)
{
    const rx_op_info *info = &rx_ops[c->op];
    if (c->n_in < info->min_in && info->max_in == RX_ANY_COUNT)
        return rx_infer_fail(c, "expected at least %u operands, got %zu", info->min_in, c->n_in);
    if (c->n_in >= info->min_in && c->n_in <= info->max_in)
        return RLX_OK;
    if (info->min_in == info->max_in)
        return rx_infer_fail(c, "expected %u operands, got %zu", info->min_in, c->n_in);
    return rx_infer_fail(c, "expected %u to %u operands, got %zu", info->min_in, info->max_in,
                         c->n_in);
}

/* Number and ids of the operands; a state may only be used in its newest version. */
static rlx_status check_operands(rx_infer *c, const rlx_value *in)
{
    const rlx_graph *g = c->g;
    RLX_TRY(check_count(c));
    for (size_t i = 0; i < c->n_in; i++) {
        if (in[i].id >= g->n_values)
            return rx_infer_fail(c, "operand %zu is value %u, but the graph has only %zu values", i,
                                 in[i].id, g->n_values - 1);
        uint32_t state = g->values[in[i].id].state;
        if (!in[i].id || !state)
            continue;
        uint32_t now = g->state_now[g->values[state].result];
        if (now != in[i].id)
            return rx_infer_fail(c, "operand %zu is state '%s' as it was before node %u wrote it; "
                                 "expected the result of that node", i,
                                 ((const rx_leaf_attr *)rx_value_node(g, state)->attr)->name,
                                 g->values[now].node);
    }
    return RLX_OK;
}

/* Validates enumerators and lists of a record from the caller. */
static rlx_status check_record(rx_infer *c)
{
    for (const rx_attr_field *f = rx_ops[c->op].attr->fields; f->kind != RX_ATTR_END; f++) {
        const void *at = (const char *)c->attr + f->offset;
        if (f->kind == RX_ATTR_ENUM) {
            int32_t v = *(const int32_t *)at, n = 0;
            while (f->names[n])
                n++;
            if (v < 0 || v >= n)
                return rx_infer_fail(c, "attribute %s expected from 0 to %d, got %d", f->name,
                                     n - 1, v);
        } else if (f->kind == RX_ATTR_INTS || f->kind == RX_ATTR_DIMS) {
            int32_t n = ((const rlx_ints *)at)->n;
            if (n < 0 || n > RLX_MAX_INTS)
                return rx_infer_fail(c, "attribute %s expected with 0 to %d entries, got %d",
                                     f->name, RLX_MAX_INTS, n);
        }
    }
    return RLX_OK;
}

static rlx_status run_infer(rlx_graph *g, rx_infer *c, const rx_value **in)
{
    for (size_t i = 0; i < c->n_in; i++)
        in[i] = c->ids[i] ? &g->values[c->ids[i]] : NULL;
    c->in = in;
    c->n_out = rx_ops[c->op].n_out;
    RLX_TRY(rx_ops[c->op].infer(c));
    if (g->error.code)
        return g->error.code;
    for (size_t i = 0; i < c->n_out; i++) {
        int64_t n;
        char text[RX_TYPE_TEXT];
        if (!rx_shape_elements(g, &c->shape[i], &n))
            return rx_infer_fail(c, "result %zu would be %s: more than 2^40 elements", i,
                                 rx_type_text(g, c->dtype[i], &c->shape[i], text));
    }
    return RLX_OK;
}

/* Registers an input, param or state under its name. */
static rlx_status register_leaf(rlx_graph *g, rx_op op, const rx_leaf_attr *a, uint32_t value)
{
    if (op == RX_OP_constant)
        return RLX_OK;
    int kind = op == RX_OP_input ? RLX_LEAF_INPUT : op == RX_OP_param ? RLX_LEAF_PARAM
                                                                      : RLX_LEAF_STATE;
    if (!a->name || !*a->name)
        return rx_graph_fail(g, RLX_INVALID, "%s (node %zu): expected a name, got none",
                             rx_ops[op].name, g->n_nodes);
    size_t length = strlen(a->name), i = g->n_leaves[kind];
    if (rx_map_find(&g->leaf_names, a->name, length))
        return rx_graph_fail(g, RLX_INVALID,
                             "%s '%s': the name is taken; inputs, params and states need "
                             "different names",
                             rx_ops[op].name, a->name);
    if (!rx_grow(&g->leaves[kind], &g->cap_leaves[kind], i + 1, sizeof(uint32_t)) ||
        !rx_map_add(&g->leaf_names, a->name, length, value))
        return no_memory(g);
    g->leaves[kind][i] = value;
    g->n_leaves[kind]++;
    return RLX_OK;
}

/* Makes the values of a node and keeps track of state versions. A state leaf stores its number in
 * `result` (it has only one result, so that field is free). */
static rlx_status add_values(rlx_graph *g, const rx_infer *c, uint32_t node)
{
    uint32_t first = (uint32_t)g->n_values;
    if (!rx_grow(&g->values, &g->cap_values, g->n_values + c->n_out, sizeof *g->values))
        return no_memory(g);
    for (uint32_t i = 0; i < c->n_out; i++)
        g->values[g->n_values++] =
            (rx_value){node, (uint16_t)i, c->dtype[i], c->shape[i], 0};
    if (c->op == RX_OP_state) {
        size_t number = g->n_leaves[RLX_LEAF_STATE] - 1;
        if (!rx_grow(&g->state_now, &g->cap_state_now, number + 1, sizeof *g->state_now))
            return no_memory(g);
        g->values[first].state = first;
        g->values[first].result = (uint16_t)number;
        g->state_now[number] = first;
    } else if (c->op == RX_OP_state_write) {
        uint32_t state = g->values[c->ids[0]].state;
        g->values[first].state = state;
        g->state_now[g->values[state].result] = first;
    }
    return RLX_OK;
}

/* The record of a new node from one that a program filled in, or that of another node. */
static rlx_status read_record(rx_infer *c, const void *attr)
{
    const rx_attr_info *info = rx_ops[c->op].attr;
    c->attr = rx_attr_copy(c->g, info, info->is_desc ? NULL : attr);
    if (!c->attr)
        return no_memory(c->g);
    return info->is_desc ? rx_desc_read(c->attr, info->size, attr, info->type, &c->g->error)
                         : RLX_OK;
}

static rlx_status add_node(rlx_graph *g, rx_infer *c, const rlx_value *in, const void *attr)
{
    RLX_TRY(check_operands(c, in));
    while (c->n_in > rx_ops[c->op].min_in && !in[c->n_in - 1].id)
        c->n_in--;
    RLX_TRY(read_record(c, attr));
    uint32_t *ids = rx_arena_array(&g->arena, c->n_in + 1, sizeof *ids);
    const rx_value **views = rx_alloc_array(c->n_in + 1, sizeof *views);
    if (!ids || !views ||
        !rx_grow(&g->nodes, &g->cap_nodes, g->n_nodes + 1, sizeof *g->nodes)) {
        rx_free(views);
        return no_memory(g);
    }
    for (size_t i = 0; i < c->n_in; i++)
        ids[i] = in[i].id;
    c->ids = ids;
    rlx_status s = check_record(c);
    if (s == RLX_OK)
        s = run_infer(g, c, views);
    rx_free(views);
    RLX_TRY(s);

    uint32_t first = (uint32_t)g->n_values;
    const char *name = c->name;
    if (rx_ops[c->op].flags & RX_OP_LEAF) {
        const rx_leaf_attr *leaf = c->attr;
        RLX_TRY(register_leaf(g, c->op, leaf, first));
        name = leaf->name;
    } else if (name && !(name = rx_arena_strdup(&g->arena, name)))
        return no_memory(g);
    RLX_TRY(add_values(g, c, (uint32_t)g->n_nodes));
    g->nodes[g->n_nodes++] =
        (rx_node){c->op, (uint32_t)c->n_in, (uint32_t)c->n_out, ids, first, c->attr, name};
    return RLX_OK;
}

rlx_value rx_graph_add(rlx_graph *g, rx_op op, const rlx_value *in, size_t n_in, const void *attr,
                       const char *name)
{
    if (!g || g->error.code)
        return RLX_NONE;
    if (n_in && !in) {
        rx_graph_fail(g, RLX_INVALID, "%s: the list of its %zu operands is NULL", rx_ops[op].name,
                      n_in);
        return RLX_NONE;
    }
    rx_infer c = {.g = g, .op = op, .name = name, .n_in = n_in};
    uint32_t first = (uint32_t)g->n_values;
    rlx_status s = add_node(g, &c, in, attr);
    if (s != RLX_OK) {
        rx_graph_fail(g, s, "%s (node %zu): failed", rx_ops[op].name, g->n_nodes);
        return RLX_NONE;
    }
    return (rlx_value){first};
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static rlx_value add_leaf(rlx_graph *g, rx_op op, const rx_leaf_attr *attr, int rank,
                          const rlx_dim *dims)
{
    if (!g || g->error.code)
        return RLX_NONE;
    rx_leaf_attr a = *attr;
    const char *name = a.name ? a.name : "";
    if (rank < 0 || rank > RLX_MAX_RANK) {
        rx_graph_fail(g, RLX_INVALID, "%s '%s': expected rank 0 to %d, got %d", rx_ops[op].name,
                      name, RLX_MAX_RANK, rank);
        return RLX_NONE;
    }
    if (rank && !dims) {
        rx_graph_fail(g, RLX_INVALID, "%s '%s': expected %d dimensions, got NULL", rx_ops[op].name,
                      name, rank);
        return RLX_NONE;
    }
    a.shape.rank = rank;
    for (int i = 0; i < rank; i++)
        a.shape.dim[i] = dims[i];
    return rx_graph_add(g, op, NULL, 0, &a, name);
}

rlx_value rlx_input(rlx_graph *g, const char *name, rlx_dtype t, int rank, const rlx_dim *dims)
{
    return add_leaf(g, RX_OP_input, &(rx_leaf_attr){.name = name, .dtype = t}, rank, dims);
}

rlx_value rlx_param(rlx_graph *g, const char *name, rlx_dtype t, int rank, const rlx_dim *dims)
{
    return add_leaf(g, RX_OP_param, &(rx_leaf_attr){.name = name, .dtype = t}, rank, dims);
}

rlx_value rlx_state(rlx_graph *g, const char *name, rlx_dtype t, int rank, const rlx_dim *dims)
{
    return add_leaf(g, RX_OP_state, &(rx_leaf_attr){.name = name, .dtype = t}, rank, dims);
}

rlx_value rlx_constant(rlx_graph *g, rlx_dtype t, int rank, const rlx_dim *dims, const void *data,
                       size_t bytes)
{
    rx_leaf_attr a = {.dtype = t, .data = data, .bytes = bytes};
    return add_leaf(g, RX_OP_constant, &a, rank, dims);
}

rlx_value rlx_scalar(rlx_graph *g, rlx_dtype t, double value)
{
    char bytes[8] = {0};
    rx_dtype_store(t, bytes, value);
    size_t n = rlx_dtype_is_packed(t) ? 0 : (size_t)rlx_dtype_block_bytes(t);
    return rlx_constant(g, t, 0, NULL, bytes, n);
}

void rlx_output(rlx_graph *g, const char *name, rlx_value v)
{
    if (!g || g->error.code)
        return;
    size_t length = name ? strlen(name) : 0;
    if (!length || !v.id || v.id >= g->n_values) {
        rx_graph_fail(g, RLX_INVALID, "output '%s': expected a name and a value of the graph",
                      name ? name : "");
        return;
    }
    if (rx_map_find(&g->output_names, name, length)) {
        rx_graph_fail(g, RLX_INVALID, "output '%s': the name is taken by another output", name);
        return;
    }
    char *copy = rx_arena_strdup(&g->arena, name);
    if (!copy || !rx_grow(&g->outputs, &g->cap_outputs, g->n_outputs + 1, sizeof *g->outputs) ||
        !rx_map_add(&g->output_names, copy, length, (uint32_t)g->n_outputs)) {
        no_memory(g);
        return;
    }
    g->outputs[g->n_outputs++] = (rx_output){copy, v.id};
}

rlx_value rlx_named(rlx_graph *g, rlx_value v, const char *name)
{
    if (!g || g->error.code || !v.id || v.id >= g->n_values || !name)
        return v;
    rx_node *n = &g->nodes[g->values[v.id].node];
    if (rx_ops[n->op].flags & RX_OP_LEAF && n->op != RX_OP_constant)
        return v; /* leaves have the name of their port */
    n->name = rx_arena_strdup(&g->arena, name);
    if (!n->name)
        no_memory(g);
    return v;
}

/* ---- Looking --------------------------------------------------------------------------------- */

rlx_dtype rlx_value_dtype(const rlx_graph *g, rlx_value v)
{
    return g && v.id < g->n_values ? g->values[v.id].dtype : RLX_NO_TYPE;
}

rlx_shape rlx_value_shape(const rlx_graph *g, rlx_value v)
{
    return g && v.id < g->n_values ? g->values[v.id].shape : (rlx_shape){0};
}

bool rlx_graph_leaf(const rlx_graph *g, rlx_leaf kind, size_t i, rlx_leaf_info *out)
{
    uint32_t id;
    const char *name;
    if (!g || !out)
        return false;
    if (kind == RLX_LEAF_OUTPUT) {
        if (i >= g->n_outputs)
            return false;
        id = g->outputs[i].value;
        name = g->outputs[i].name;
    } else {
        if ((unsigned)kind > RLX_LEAF_STATE || i >= g->n_leaves[kind])
            return false;
        id = g->leaves[kind][i];
        name = ((const rx_leaf_attr *)rx_value_node(g, id)->attr)->name;
    }
    *out = (rlx_leaf_info){name, {id}, g->values[id].dtype, g->values[id].shape};
    return true;
}

size_t rlx_graph_n_nodes(const rlx_graph *g)
{
    return g ? g->n_nodes : 0;
}

const char *rlx_graph_name(const rlx_graph *g)
{
    return g ? g->name : NULL;
}
