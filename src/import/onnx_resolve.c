/* SPDX-License-Identifier: MIT */
/* Data-dependent shapes, branches and loop ends: the graph so far is compiled and run on the import
 * device with the given inputs, and importing continues with the result as a known value. With
 * `once` (the graph is for these inputs only) the graph is cut there: every value that later nodes
 * may read is computed in the same run and becomes a param, so that nothing runs twice. */
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "import/onnx_build.h"
#include "ir/graph.h"

#define NAME "rx.needed"
#define MAX_CUT 4096

/* The values that a run computes, and where their bytes go. */
typedef struct cut {
    uint32_t *ids;
    void **data;
    uint64_t *bytes;
    const char **names;
    size_t n, cap;
} cut;

static bool value_bytes(const rx_onnx_build *b, uint32_t id, uint64_t *bytes)
{
    const rlx_shape s = rlx_value_shape(b->g, (rlx_value){id});
    int64_t n;
    return rx_shape_is_fixed(&s) && rx_shape_elements(b->g, &s, &n) &&
           rx_dtype_bytes(rlx_value_dtype(b->g, (rlx_value){id}), n, bytes);
}

/* A session of the graph so far with the values of a cut as its outputs. */
static rlx_status open_session(rx_onnx_build *b, const cut *k, rlx_session **s, rlx_error *err)
{
    rlx_graph *g = b->g;
    rx_output *own = g->outputs, *outputs = rx_arena_array(&b->arena, k->n, sizeof *outputs);
    const size_t n = g->n_outputs;
    if (!outputs)
        return rx_fail_memory(err, NAME, sizeof *outputs);
    for (size_t i = 0; i < k->n; i++)
        outputs[i] = (rx_output){k->names[i], k->ids[i]};
    g->outputs = outputs;
    g->n_outputs = k->n;
    const rlx_status st = rlx_session_create(b->desc->device, g, NULL, s, err);
    g->outputs = own;
    g->n_outputs = n;
    return st;
}

/* Sets the params and inputs that the program uses. */
static rlx_status set_leaves(rx_onnx_build *b, rlx_session *s, rlx_error *err)
{
    const rlx_import_desc *d = b->desc;
    for (size_t i = 0; i < b->m->n_params; i++) {
        const rlx_const_tensor *p = &b->m->params[i];
        RLX_TRY(rlx_session_set_param(s, p->name, p->data, p->bytes, RLX_BORROW, err));
    }
    for (size_t i = 0; i < d->n_inputs; i++) {
        const rlx_import_value *v = &d->inputs[i];
        int64_t n;
        uint64_t bytes;
        if (!rx_shape_is_fixed(&v->shape) || !rx_shape_elements(b->g, &v->shape, &n) ||
            !rx_dtype_bytes(v->dtype, n, &bytes))
            return rx_fail(err, RLX_INVALID, "input '%.80s': expected a shape of numbers", v->name);
        if (rx_map_find(&b->g->leaf_names, v->name, strlen(v->name)))
            RLX_TRY(rlx_session_set_input(s, v->name, v->data, (size_t)bytes, err));
    }
    return RLX_OK;
}

static rlx_status compute(rx_onnx_build *b, const cut *k, rlx_error *err)
{
    rlx_session *s = NULL;
    rlx_status st = open_session(b, k, &s, err);
    if (st == RLX_OK)
        st = set_leaves(b, s, err);
    if (st == RLX_OK)
        st = rlx_run(s, NULL, 0, NULL, 0, err);
    for (size_t i = 0; i < k->n && st == RLX_OK; i++)
        st = rlx_session_read(s, k->names[i], 0, k->data[i], (size_t)k->bytes[i], err);
    rlx_session_destroy(s);
    return st;
}

/* ---- Live values ----------------------------------------------------------------------------- */

/* Calls f for each reference to a value that later nodes may read. */
typedef void visit_fn(rx_onnx_build *b, rlx_value *v, void *user);

static void visit_value(rx_onnx_build *b, rlx_value *v, visit_fn *f, void *user)
{
    size_t n = 0;
    rlx_value *items = rx_onnx_is_list(*v) ? rx_onnx_list_items(b, *v, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        visit_value(b, &items[i], f, user);
    if (!items && v->id)
        f(b, v, user);
}

static void visit_name(rx_onnx_build *b, rx_onnx_scope *s, const char *name, visit_fn *f,
                       void *user)
{
    for (; s; s = s->outer) {
        rx_map_slot *slot = rx_map_find(&s->names, name, strlen(name));
        if (!slot)
            continue;
        rlx_value v = {slot->value};
        visit_value(b, &v, f, user);
        slot->value = v.id;
        return;
    }
}

static void visit_node(rx_onnx_build *b, rx_onnx_scope *s, const rx_onnx_node *n, visit_fn *f,
                       void *user)
{
    for (size_t i = 0; i < n->n_in; i++)
        visit_name(b, s, n->in[i], f, user);
    for (size_t i = 0; i < n->n_attrs; i++) {
        const rx_onnx_graph *g = n->attrs[i].g;
        for (size_t k = 0; g && k < g->n_nodes; k++)
            visit_node(b, s, &g->nodes[k], f, user);
        for (size_t k = 0; g && k < g->n_outputs; k++)
            visit_name(b, s, g->outputs[k].name, f, user);
    }
}

static void visit_scope(rx_onnx_build *b, rx_onnx_scope *s, visit_fn *f, void *user)
{
    const rx_onnx_graph *g = s->body;
    for (size_t i = s->at; g && i < g->n_nodes; i++)
        visit_node(b, s, &g->nodes[i], f, user);
    for (size_t i = 0; g && i < g->n_outputs; i++)
        visit_name(b, s, g->outputs[i].name, f, user);
    for (size_t i = 0; s->function && i < s->function->n_out; i++)
        visit_name(b, s, s->function->out[i], f, user);
    for (size_t i = 0; g && s->in && s->at < g->n_nodes && i < g->nodes[s->at].n_in; i++)
        visit_value(b, &s->in[i], f, user);
}

static void visit_all(rx_onnx_build *b, visit_fn *f, void *user)
{
    for (rx_onnx_scope *s = b->scope; s; s = s->function ? s->caller_scope : s->outer)
        visit_scope(b, s, f, user);
    for (rx_onnx_frame *frame = b->frames; frame; frame = frame->outer)
        for (size_t i = 0; i < frame->n; i++)
            visit_value(b, &frame->v[i], f, user);
}

/* ---- Cuts ------------------------------------------------------------------------------------ */

/* Marks the values that depend on inputs or on params of earlier cuts: [n_values]. */
static bool *find_computed(rx_onnx_build *b)
{
    const rlx_graph *g = b->g;
    bool *is = rx_arena_array_zero(&b->arena, g->n_values, sizeof *is);
    for (size_t i = 0; is && i < g->n_nodes; i++) {
        const rx_node *n = &g->nodes[i];
        bool any = n->op == RX_OP_input;
        for (uint32_t k = 0; k < n->n_in; k++)
            any = any || (n->in[k] && is[n->in[k]]);
        for (uint32_t k = 0; k < n->n_out; k++) {
            const uint32_t id = n->first_out + k;
            is[id] = any || (id < b->cap_known && b->known[id].kept);
        }
    }
    return is;
}

typedef struct gather {
    cut k;
    const bool *computed;
    uint32_t *place; /* [n_values] of the old graph: 1 + index in the cut, or 0 */
    size_t n_values;
} gather;

static bool add_to_cut(rx_onnx_build *b, cut *k, uint32_t id)
{
    char name[32];
    if (k->n == k->cap || !value_bytes(b, id, &k->bytes[k->n]))
        return false;
    snprintf(name, sizeof name, NAME ".%zu", k->n);
    k->ids[k->n] = id;
    k->names[k->n] = rx_arena_strdup(&b->arena, name);
    k->data[k->n] = rx_arena_zero(&b->m->kept, k->bytes[k->n] + 1);
    if (!k->names[k->n] || !k->data[k->n])
        return false;
    k->n++;
    return true;
}

static void gather_value(rx_onnx_build *b, rlx_value *v, void *user)
{
    gather *to = user;
    const uint32_t id = v->id;
    if (id >= to->n_values || !to->computed[id] || to->place[id] ||
        (rx_ops[rx_value_node(b->g, id)->op].flags & RX_OP_LEAF) ||
        (id < b->cap_known && b->known[id].data))
        return;
    if (add_to_cut(b, &to->k, id))
        to->place[id] = (uint32_t)to->k.n;
}

static void replace_value(rx_onnx_build *b, rlx_value *v, void *user)
{
    const gather *from = user;
    (void)b;
    if (v->id < from->n_values && from->place[v->id])
        v->id = from->place[v->id];
}

/* Adds the results of a cut as params and puts their ids into place[]. */
static rlx_status keep(rx_onnx_build *b, gather *from)
{
    for (size_t i = 1; i < from->k.n; i++) { /* value 0 of the cut is a known value, no param */
        const uint32_t id = from->k.ids[i];
        const rlx_shape s = rlx_value_shape(b->g, (rlx_value){id});
        const rx_onnx_type *narrow = rx_onnx_narrow(b, (rlx_value){id});
        rlx_value param;
        RLX_TRY(rx_onnx_add_param(b, "", rlx_value_dtype(b->g, (rlx_value){id}), &s,
                                  (rx_bytes){from->k.data[i], (size_t)from->k.bytes[i]}, &param));
        rx_onnx_set_type(b, param, narrow ? narrow->number : 0);
        if (param.id < b->cap_known)
            b->known[param.id].kept = true;
        from->place[id] = param.id;
    }
    return RLX_OK;
}

static bool make_room(rx_onnx_build *b, cut *k, size_t cap)
{
    *k = (cut){.cap = cap, .ids = rx_arena_array(&b->arena, cap, sizeof *k->ids),
               .data = rx_arena_array(&b->arena, cap, sizeof *k->data),
               .bytes = rx_arena_array(&b->arena, cap, sizeof *k->bytes),
               .names = rx_arena_array(&b->arena, cap, sizeof *k->names)};
    return k->ids && k->data && k->bytes && k->names;
}

const void *rx_onnx_resolve(rx_onnx_build *b, rlx_value v, rlx_error *err)
{
    gather all = {.n_values = b->g->n_values};
    uint64_t bytes;
    if (!b->desc->device || b->g->error.code || !v.id || v.id >= all.n_values ||
        !value_bytes(b, v.id, &bytes))
        return NULL;
    if (!make_room(b, &all.k, b->desc->once ? MAX_CUT : 1) || !add_to_cut(b, &all.k, v.id)) {
        rx_fail_memory(err, NAME, bytes);
        return NULL;
    }
    if (b->desc->once) {
        all.computed = find_computed(b);
        all.place = rx_arena_array_zero(&b->arena, all.n_values, sizeof *all.place);
        if (!all.computed || !all.place) {
            rx_fail_memory(err, NAME, all.n_values);
            return NULL;
        }
        all.place[v.id] = 1;
        visit_all(b, gather_value, &all);
        all.place[v.id] = 0;
    }
    if (compute(b, &all.k, err) != RLX_OK)
        return NULL;
    rx_onnx_set_known(b, v, all.k.data[0]);
    if (b->desc->once) {
        const rlx_shape s = rlx_value_shape(b->g, v);
        all.place[v.id] = rlx_constant(b->g, rlx_value_dtype(b->g, v), s.rank, s.dim,
                                       all.k.data[0], (size_t)bytes).id;
        if (keep(b, &all) != RLX_OK)
            return NULL;
        visit_all(b, replace_value, &all);
    }
    return all.k.data[0];
}
