/* SPDX-License-Identifier: MIT */
/* Builds a graph from a model: inputs, weights, nodes in the order of the file, outputs. Sub-graphs
 * and functions are built in place, with a scope of names of their own. */
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "import/onnx_build.h"
#include "ir/graph.h"

/* Larger weights stay in the mapped file and become params; smaller ones are constants, which the
 * compiler folds. */
#define CONSTANT_BYTES 1024
#define ALIGN_BYTES ((size_t)4 << 20) /* copied at a time */
#define MAX_NODES (1 << 22)
#define DIM_BOUND 1024

/* ---- Names ----------------------------------------------------------------------------------- */

rlx_value rx_onnx_lookup(const rx_onnx_build *b, const char *name)
{
    for (const rx_onnx_scope *s = b->scope; s; s = s->outer) {
        const rx_map_slot *slot = rx_map_find(&s->names, name, strlen(name));
        if (slot)
            return (rlx_value){slot->value};
    }
    return RLX_NONE;
}

rlx_status rx_onnx_define(rx_onnx_build *b, const char *name, rlx_value v)
{
    rx_map_slot *slot = rx_map_find(&b->scope->names, name, strlen(name));
    if (slot)
        return rx_fail(b->err, RLX_INVALID, "'%s': the name '%.80s' is given twice; expected each "
                       "value to have one source", b->m->path, name);
    if (!rx_map_add(&b->scope->names, name, strlen(name), v.id))
        return rx_fail_memory(b->err, "the names of values", sizeof *slot);
    return RLX_OK;
}

static rlx_status graph_error(rx_onnx_build *b)
{
    rlx_error why = {0};
    if (rlx_graph_status(b->g, &why) == RLX_OK)
        return RLX_OK;
    return rx_fail(b->err, why.code, "'%s': %s", b->m->path, why.text);
}

/* ---- Weights --------------------------------------------------------------------------------- */

rlx_status rx_onnx_add_param(rx_onnx_build *b, const char *name, rlx_dtype dtype,
                             const rlx_shape *shape, rx_bytes data, rlx_value *out)
{
    rlx_onnx *m = b->m;
    char unique[32];
    if (!*name || rx_map_find(&b->g->leaf_names, name, strlen(name))) {
        snprintf(unique, sizeof unique, "weight.%u", b->serial++);
        name = rx_arena_strdup(&m->arena, unique);
    }
    if (!name || !rx_grow(&m->params, &m->cap_params, m->n_params + 1, sizeof m->params[0]))
        return rx_fail_memory(b->err, "the list of weights", sizeof m->params[0]);
    *out = rlx_param(b->g, name, dtype, shape->rank, shape->dim);
    m->params[m->n_params++] = (rlx_const_tensor){name, data.data, data.bytes};
    return graph_error(b);
}

/* Kernels need aligned elements, and a file may have them at any byte. Such weights are copied once
 * for the model, and the source pages are dropped as the copy proceeds. */
static rlx_status align_weight(rx_onnx_build *b, const rx_onnx_tensor *t, rlx_dtype dtype,
                               rx_bytes *data)
{
    const size_t size = (size_t)rlx_dtype_block_bytes(dtype);
    if ((uintptr_t)data->data % size == 0)
        return RLX_OK;
    char *copy = rx_arena_alloc(&b->m->arena, data->bytes);
    if (!copy)
        return rx_fail_memory(b->err, t->name, data->bytes);
    for (size_t at = 0; at < data->bytes; at += ALIGN_BYTES) {
        const size_t left = data->bytes - at, n = left < ALIGN_BYTES ? left : ALIGN_BYTES;
        memcpy(copy + at, (const char *)data->data + at, n);
        if (!t->location && n == ALIGN_BYTES)
            rx_file_release_pages(&b->m->file);
    }
    rx_onnx_tensor *kept = (rx_onnx_tensor *)(uintptr_t)t; /* in the arena of the model */
    data->data = copy;
    kept->raw = *data;
    kept->ordered = true;
    kept->location = NULL;
    return RLX_OK;
}

rlx_status rx_onnx_constant(rx_onnx_build *b, const rx_onnx_tensor *t, bool weight, rlx_value *out)
{
    rlx_dtype dtype;
    rx_bytes data;
    RLX_TRY(rx_onnx_tensor_data(b->m, t, &dtype, &data, b->err));
    const int32_t narrow = rx_onnx_type_of(t->type)->bits ? t->type : 0;
    if (weight && data.bytes > CONSTANT_BYTES) {
        RLX_TRY(align_weight(b, t, dtype, &data));
        RLX_TRY(rx_onnx_add_param(b, t->name, dtype, &t->shape, data, out));
        rx_onnx_set_type(b, *out, narrow);
        if (data.bytes <= 1 << 16 && (dtype == RLX_I64 || dtype == RLX_I32)) {
            void *copy = rx_arena_copy(&b->arena, data.data, data.bytes);
            if (!copy)
                return rx_fail_memory(b->err, t->name, data.bytes);
            rx_onnx_set_known(b, *out, copy);
        }
        return RLX_OK;
    }
    *out = rlx_constant(b->g, dtype, t->shape.rank, t->shape.dim, data.data, data.bytes);
    rx_onnx_set_type(b, *out, narrow);
    return graph_error(b);
}

static rlx_status add_weights(rx_onnx_build *b, const rx_onnx_graph *g)
{
    for (size_t i = 0; i < g->n_tensors; i++) {
        rlx_value v;
        RLX_TRY(rx_onnx_constant(b, &g->tensors[i], true, &v));
        RLX_TRY(rx_onnx_define(b, g->tensors[i].name, v));
    }
    return RLX_OK;
}

/* ---- Inputs ---------------------------------------------------------------------------------- */

static const rlx_import_value *find_given(const rlx_import_value *list, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(list[i].name, name))
            return &list[i];
    return NULL;
}

/* The size of a symbolic axis: given by the caller, or a named dimension whose name keeps the
 * letters and digits of the name in the file. */
static rlx_dim free_dim(rx_onnx_build *b, const rlx_onnx_port *p, int axis)
{
    char own[128];
    const char *name = p->dim_name[axis];
    snprintf(own, sizeof own, "%.100s:%d", p->name, axis);
    for (size_t i = 0; i < b->desc->n_dims; i++)
        if (!strcmp(b->desc->dims[i].name, own) ||
            (name && !strcmp(b->desc->dims[i].name, name)))
            return b->desc->dims[i].size;
    if (name)
        snprintf(own, sizeof own, "%.120s", name);
    for (char *c = own; *c; c++)
        if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || (*c >= '0' && *c <= '9')))
            *c = '_';
    if (own[0] >= '0' && own[0] <= '9')
        own[0] = '_';
    return rlx_dim_named(b->g, own, b->desc->dim_bound ? b->desc->dim_bound : DIM_BOUND);
}

static rlx_status add_input(rx_onnx_build *b, const rlx_onnx_port *p)
{
    const rlx_import_desc *d = b->desc;
    const rlx_import_value *known = find_given(d->values, d->n_values, p->name);
    const rlx_import_value *given = known ? known : find_given(d->inputs, d->n_inputs, p->name);
    rlx_dim dims[RLX_MAX_RANK];
    int rank = p->rank;
    if (p->dtype == RLX_NO_TYPE)
        return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': input '%.80s' is a %s, which rlx does not "
                       "have", b->m->path, p->name, p->type_name);
    if (rank < 0 && !given)
        return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': input '%.80s' has no declared rank; "
                       "expected its shape in the file or a value", b->m->path, p->name);
    if (rank < 0)
        rank = given->shape.rank;
    if (given && given->shape.rank != rank)
        return rx_fail(b->err, RLX_INVALID, "'%s': the value given for input '%.80s' has %d "
                       "dimensions; expected %d", b->m->path, p->name, given->shape.rank, rank);
    for (int i = 0; i < rank; i++)
        dims[i] = p->rank < 0 ? given->shape.dim[i]
                  : p->dim[i] >= 0 ? p->dim[i]
                  : given ? given->shape.dim[i] : free_dim(b, p, i);
    const rlx_value v = rlx_input(b->g, p->name, p->dtype, rank, dims);
    const rx_onnx_type *narrow = rx_onnx_type_named(p->type_name);
    RLX_TRY(graph_error(b));
    rx_onnx_set_type(b, v, narrow && narrow->bits ? narrow->number : 0);
    if (given) {
        const rlx_shape s = rlx_value_shape(b->g, v);
        if (given->dtype != p->dtype || !rx_shape_equal(&given->shape, &s))
            return rx_fail(b->err, RLX_INVALID, "'%s': the value given for input '%.80s' has "
                           "another type or shape than the file declares", b->m->path, p->name);
        if (known)
            rx_onnx_set_known(b, v, known->data);
    }
    return rx_onnx_define(b, p->name, v);
}

/* ---- Nodes ----------------------------------------------------------------------------------- */

static rlx_status build_nodes(rx_onnx_build *b, const rx_onnx_graph *g);

/* The error for an unsupported operator, with the number of nodes affected. */
static rlx_status unsupported(const rx_onnx_build *b, const rx_onnx_node *n, int64_t opset)
{
    const char *domain = *n->domain ? n->domain : "ai.onnx";
    size_t count = 1;
    for (size_t i = 0; i < b->m->n_operators; i++)
        if (!strcmp(b->m->operators[i].name, n->op) &&
            !strcmp(b->m->operators[i].domain, domain))
            count = b->m->operators[i].n_nodes;
    return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': operator '%.60s' of domain %.60s, opset %lld, "
                   "is not supported: node '%.80s' (%zu node%s of the model use%s it)", b->m->path,
                   n->op, domain, (long long)opset,
                   *n->name ? n->name : n->n_out ? n->out[0] : "", count, count == 1 ? "" : "s",
                   count == 1 ? "s" : "");
}

static rlx_status call_function(rx_onnx_build *b, const rx_onnx_node *n,
                                const rx_onnx_function *f, const rlx_value *in, rlx_value *out)
{
    rx_onnx_scope scope = {.caller = n, .function = f, .caller_scope = b->scope,
                           .opsets = f->n_opsets ? f->opsets : b->scope->opsets,
                           .n_opsets = f->n_opsets ? f->n_opsets : b->scope->n_opsets};
    rlx_status st = RLX_OK;
    if (b->depth == RX_ONNX_MAX_DEPTH)
        return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': functions are nested more than %d deep",
                       b->m->path, RX_ONNX_MAX_DEPTH);
    b->depth++;
    b->scope = &scope;
    for (size_t i = 0; i < f->n_in && st == RLX_OK; i++)
        st = rx_onnx_define(b, f->in[i], i < n->n_in ? in[i] : RLX_NONE);
    if (st == RLX_OK)
        st = build_nodes(b, &f->body);
    for (size_t i = 0; i < n->n_out && i < f->n_out && st == RLX_OK; i++)
        out[i] = rx_onnx_lookup(b, f->out[i]);
    rx_map_finish(&scope.names);
    b->scope = scope.caller_scope;
    b->depth--;
    return st;
}

/* Adds the ONNX node to the error of a graph builder. */
static rlx_status node_error(rx_onnx_call *c)
{
    rlx_error why = {0};
    if (c->b->status == RLX_OK && rlx_graph_status(c->g, &why) != RLX_OK)
        rx_onnx_fail(c, why.code, "%s", why.text);
    return c->b->status;
}

static rlx_status build_call(rx_onnx_build *b, const rx_onnx_node *n, const rlx_value *in,
                             rlx_value *out)
{
    const int64_t opset = rx_onnx_opset_version(b->scope->opsets, b->scope->n_opsets, n->domain);
    const rx_onnx_function *f = rx_onnx_find_function(b->m, n->domain, n->op);
    rx_onnx_fn *builder = f ? NULL : rx_onnx_builder(n->domain, n->op, opset);
    if (f)
        return call_function(b, n, f, in, out);
    if (!builder)
        return unsupported(b, n, opset);
    rx_onnx_call c = {b, b->g, n, opset, n->n_in, n->n_out, in, out};
    for (size_t i = 0; i < n->n_in && !rx_onnx_takes_lists(builder); i++)
        if (rx_onnx_is_list(in[i])) {
            rx_onnx_fail(&c, RLX_UNSUPPORTED, "operand %zu is a sequence; expected a tensor", i);
            return b->status;
        }
    const rlx_value first = builder(&c);
    RLX_TRY(node_error(&c));
    if (n->n_out && !first.id)
        return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': node '%.80s' (%s, opset %lld) gave nothing",
                       b->m->path, n->out[0], n->op, (long long)opset);
    out[0] = first;
    return RLX_OK;
}

static rlx_status build_node(rx_onnx_build *b, const rx_onnx_node *n)
{
    rlx_value *in = rx_arena_array_zero(&b->arena, n->n_in, sizeof *in);
    rlx_value *out = rx_arena_array_zero(&b->arena, (uint64_t)n->n_out + 8, sizeof *out);
    if (!in || !out)
        return rx_fail_memory(b->err, n->op, rx_array_bytes(n->n_in + n->n_out, sizeof *in));
    if (++b->n_built > MAX_NODES)
        return rx_fail(b->err, RLX_UNSUPPORTED, "'%s' has more than %d nodes with its functions "
                       "and loops expanded", b->m->path, MAX_NODES);
    for (size_t i = 0; i < n->n_in; i++) {
        if (!*n->in[i])
            continue;
        in[i] = rx_onnx_lookup(b, n->in[i]);
        if (!in[i].id && !b->scope->function)
            return rx_fail(b->err, RLX_INVALID, "'%s': node '%.80s' (%s) uses '%.80s', which no "
                           "earlier node, input or weight gives", b->m->path,
                           *n->name ? n->name : n->n_out ? n->out[0] : "", n->op, n->in[i]);
    }
    b->scope->in = in;
    RLX_TRY(build_call(b, n, in, out));
    for (size_t i = 0; i < n->n_out; i++) {
        if (!*n->out[i])
            continue;
        if (!out[i].id && !b->scope->function)
            return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': node '%.80s' (%s): its result %zu, "
                           "'%.80s', is not supported", b->m->path, n->name, n->op, i, n->out[i]);
        RLX_TRY(rx_onnx_define(b, n->out[i], out[i]));
    }
    return RLX_OK;
}

static rlx_status build_nodes(rx_onnx_build *b, const rx_onnx_graph *g)
{
    b->scope->body = g;
    for (b->scope->at = 0; b->scope->at < g->n_nodes; b->scope->at++)
        RLX_TRY(build_node(b, &g->nodes[b->scope->at]));
    return RLX_OK;
}

static rlx_status build_subgraph(rx_onnx_build *b, const rx_onnx_graph *g, const rlx_value *in,
                                 size_t n_in, rlx_value *out)
{
    RLX_TRY(add_weights(b, g));
    for (size_t i = 0; i < g->n_inputs && i < n_in; i++)
        RLX_TRY(rx_onnx_define(b, g->inputs[i].name, in[i]));
    RLX_TRY(build_nodes(b, g));
    for (size_t i = 0; i < g->n_outputs; i++) {
        out[i] = rx_onnx_lookup(b, g->outputs[i].name);
        if (!out[i].id)
            return rx_fail(b->err, RLX_INVALID, "'%s': sub-graph '%.80s' has no value for its "
                           "output '%.80s'", b->m->path, g->name, g->outputs[i].name);
    }
    return RLX_OK;
}

rlx_status rx_onnx_subgraph(rx_onnx_call *c, const rx_onnx_graph *g, const rlx_value *in,
                            size_t n_in, rlx_value *out)
{
    rx_onnx_build *b = c->b;
    rx_onnx_scope scope = {.outer = b->scope, .opsets = b->scope->opsets,
                           .n_opsets = b->scope->n_opsets};
    if (b->depth == RX_ONNX_MAX_DEPTH)
        return b->status = rx_fail(b->err, RLX_UNSUPPORTED, "'%s': sub-graphs are nested more than "
                                   "%d deep", b->m->path, RX_ONNX_MAX_DEPTH);
    b->depth++;
    b->scope = &scope;
    const rlx_status st = build_subgraph(b, g, in, n_in, out);
    rx_map_finish(&scope.names);
    b->scope = scope.outer;
    b->depth--;
    if (st != RLX_OK)
        b->status = st;
    return st;
}

/* ---- The graph ------------------------------------------------------------------------------- */

static rlx_status build_graph(rx_onnx_build *b)
{
    const rx_onnx_graph *g = &b->m->graph;
    for (size_t i = 0; i < g->n_inputs; i++)
        RLX_TRY(add_input(b, &g->inputs[i]));
    RLX_TRY(add_weights(b, g));
    RLX_TRY(build_nodes(b, g));
    for (size_t i = 0; i < g->n_outputs; i++) {
        const rlx_value v = rx_onnx_lookup(b, g->outputs[i].name);
        if (!v.id)
            return rx_fail(b->err, RLX_INVALID, "'%s': no node gives the output '%.80s'",
                           b->m->path, g->outputs[i].name);
        if (rx_onnx_is_list(v))
            return rx_fail(b->err, RLX_UNSUPPORTED, "'%s': output '%.80s' is a sequence, which rlx "
                           "does not have", b->m->path, g->outputs[i].name);
        rlx_output(b->g, g->outputs[i].name, v);
    }
    return graph_error(b);
}

rlx_status rlx_graph_import(rlx_onnx *m, const rlx_import_desc *desc, rlx_graph **out,
                            rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_graph_import: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_graph_import: m", err));
    rlx_import_desc d;
    rlx_error why = {0};
    RLX_TRY(RX_DESC_READ(rlx_import_desc, &d, desc, err));
    rx_onnx_scope scope = {.opsets = m->opsets, .n_opsets = m->n_opsets};
    rx_onnx_build b = {.m = m, .g = rlx_graph_create(m->graph.name), .err = &why, .desc = &d,
                       .scope = &scope};
    if (!b.g)
        return rx_fail_memory(err, "a graph", sizeof(rlx_graph));
    m->n_params = 0;
    rx_arena_finish(&m->kept);
    const rlx_status st = build_graph(&b);
    rx_map_finish(&scope.names);
    rx_arena_finish(&b.arena);
    rx_free(b.known);
    rx_free(b.lists);
    if (st != RLX_OK) {
        rlx_graph_destroy(b.g);
        return rx_fail(err, st, "%s", why.text);
    }
    *out = b.g;
    return RLX_OK;
}
