/* SPDX-License-Identifier: MIT */
/* schedule: emits the program from graph and plan, and needs neither of them afterwards. */
#include <string.h>

#include "compile/plan.h"
#include "compile/rewrite.h"

typedef struct writer {
    const rx_plan *plan;
    const rlx_graph *g;
    const rx_target *t;
    rx_program *p;
    /* Only its arena is used, since records are copied into arenas of graphs; the program takes
     * it over. */
    rlx_graph store;
    uint32_t *index; /* by value id: index in p->values, or RX_NO_VALUE */
    rlx_error *err;
} writer;

static rlx_status no_memory(writer *w)
{
    return rx_fail(w->err, RLX_NO_MEMORY, "out of memory: program of graph '%s'", w->g->name);
}

/* n zeroed items in the program's arena. */
static void *room(writer *w, size_t n, size_t item)
{
    return rx_arena_array_zero(&w->store.arena, n + 1, item);
}

static bool has_place(const writer *w, uint32_t id)
{
    uint32_t node = w->g->values[id].node;
    return w->plan->values[id].space != RX_SPACE_NONE || w->plan->step_of[node] != RX_NO_STEP;
}

static rlx_status write_dims(writer *w)
{
    rx_program *p = w->p;
    p->n_dims = w->g->n_dims;
    p->dims = rx_arena_array_copy(&w->store.arena, w->g->dims, p->n_dims, sizeof *p->dims);
    if (!p->dims)
        return no_memory(w);
    for (size_t i = 0; i < p->n_dims; i++) {
        if (!p->dims[i].name)
            continue;
        p->dims[i].name = rx_arena_strdup(&w->store.arena, p->dims[i].name);
        if (!p->dims[i].name)
            return no_memory(w);
    }
    return RLX_OK;
}

/* ---- Values --------------------------------------------------------------------------------- */

static rlx_status write_value(writer *w, uint32_t id)
{
    const rx_planned *v = &w->plan->values[id];
    const rx_node *n = rx_value_node(w->g, id);
    rx_pvalue *out = &w->p->values[w->index[id]];
    *out = (rx_pvalue){.dtype = w->g->values[id].dtype, .space = v->space,
                       .shape = w->g->values[id].shape, .index = v->index, .view_of = -1,
                       .dense = v->dense, .bytes = v->bytes, .first = v->first, .last = v->last};
    if (v->space == RX_SPACE_ARENA) {
        out->offset = w->plan->slots[v->index].offset;
        out->index = 0;
    }
    if (!v->view_of)
        return RLX_OK;
    out->view_of = (int32_t)w->index[v->view_of];
    out->view_op = n->op;
    out->view_attr = rx_attr_copy(&w->store, rx_ops[n->op].attr, n->attr);
    return out->view_attr ? RLX_OK : no_memory(w);
}

static rlx_status write_values(writer *w)
{
    rx_program *p = w->p;
    for (uint32_t id = 0; id < w->g->n_values; id++)
        w->index[id] = id && has_place(w, id) ? (uint32_t)p->n_values++ : RX_NO_VALUE;
    p->values = room(w, p->n_values, sizeof *p->values);
    if (!p->values)
        return no_memory(w);
    for (uint32_t id = 1; id < w->g->n_values; id++)
        if (w->index[id] != RX_NO_VALUE)
            RLX_TRY(write_value(w, id));
    return RLX_OK;
}

static rlx_status write_constants(writer *w)
{
    rx_program *p = w->p;
    for (uint32_t id = 1; id < w->g->n_values; id++)
        p->n_constants += w->plan->values[id].space == RX_SPACE_CONSTANT &&
                          !w->plan->values[id].view_of;
    p->constants = room(w, p->n_constants, sizeof *p->constants);
    if (!p->constants)
        return no_memory(w);
    for (uint32_t id = 1; id < w->g->n_values; id++) {
        const rx_planned *v = &w->plan->values[id];
        if (v->space != RX_SPACE_CONSTANT || v->view_of)
            continue;
        const rx_leaf_attr *a = rx_value_node(w->g, id)->attr;
        char *data = rx_arena_alloc(&w->store.arena, a->bytes + 64);
        if (!data)
            return no_memory(w);
        data += (64 - (uintptr_t)data % 64) % 64;
        memcpy(data, a->data, (size_t)a->bytes);
        p->constants[v->index] = data;
    }
    return RLX_OK;
}

/* ---- Ports ---------------------------------------------------------------------------------- */

static rlx_status write_ports(writer *w, rlx_leaf kind, rx_port **ports, size_t *n_ports)
{
    rlx_leaf_info info;
    size_t n = 0;
    while (rlx_graph_leaf(w->g, kind, n, &info))
        n++;
    *n_ports = n;
    *ports = room(w, n, sizeof **ports);
    if (!*ports)
        return no_memory(w);
    for (size_t i = 0; i < n; i++) {
        rlx_graph_leaf(w->g, kind, i, &info);
        char *name = rx_arena_strdup(&w->store.arena, info.name);
        if (!name)
            return no_memory(w);
        (*ports)[i] = (rx_port){name, w->index[info.value.id]};
    }
    return RLX_OK;
}

/* ---- Steps ---------------------------------------------------------------------------------- */

static uint32_t *write_ids(writer *w, const uint32_t *ids, uint32_t first, uint32_t n)
{
    uint32_t *out = room(w, n, sizeof *out);
    for (uint32_t i = 0; out && i < n; i++)
        out[i] = w->index[ids ? ids[i] : first + i];
    return out;
}

static rlx_status write_step(writer *w, const rx_node *n, rx_step *s)
{
    rlx_support support = w->t->support(w->t, w->g, n);
    if (support != RLX_SUPPORT_NATIVE && support != RLX_SUPPORT_HOST && !w->t->has_host) {
        char text[RX_NODE_TEXT];
        return rx_fail(w->err, RLX_UNSUPPORTED,
                       "node %s: its result must be copied to other memory, for which device %s "
                       "has no kernel",
                       rx_node_text(w->g, n, text), w->t->name);
    }
    s->op = n->op;
    s->support = support == RLX_SUPPORT_NATIVE ? RLX_SUPPORT_NATIVE : RLX_SUPPORT_HOST;
    s->n_in = n->n_in;
    s->n_out = n->n_out;
    s->in = write_ids(w, n->in, 0, n->n_in);
    s->out = write_ids(w, NULL, n->first_out, n->n_out);
    s->attr = rx_attr_copy(&w->store, rx_ops[n->op].attr, n->attr);
    s->name = rx_arena_strdup(&w->store.arena, n->name ? n->name : "");
    rx_cost(w->g, n, &s->flops, &s->bytes);
    return s->in && s->out && s->attr && s->name ? RLX_OK : no_memory(w);
}

static rlx_status write_steps(writer *w)
{
    rx_program *p = w->p;
    p->n_steps = w->plan->n_steps;
    p->steps = room(w, p->n_steps, sizeof *p->steps);
    p->merges = rx_arena_array_copy(&w->store.arena, w->plan->merges, p->n_steps,
                                    sizeof *p->merges);
    if (!p->steps || !p->merges)
        return no_memory(w);
    for (size_t i = 0; i < w->g->n_nodes; i++) {
        uint32_t step = w->plan->step_of[i];
        if (step != RX_NO_STEP)
            RLX_TRY(write_step(w, &w->g->nodes[i], &p->steps[step]));
    }
    return RLX_OK;
}

static rlx_status write_all(writer *w)
{
    rx_program *p = w->p;
    p->name = rx_arena_strdup(&w->store.arena, w->g->name);
    if (!p->name)
        return no_memory(w);
    p->memory = w->plan->memory;
    RLX_TRY(write_dims(w));
    RLX_TRY(write_values(w));
    RLX_TRY(write_constants(w));
    RLX_TRY(write_ports(w, RLX_LEAF_INPUT, &p->inputs, &p->n_inputs));
    RLX_TRY(write_ports(w, RLX_LEAF_PARAM, &p->params, &p->n_params));
    RLX_TRY(write_ports(w, RLX_LEAF_STATE, &p->states, &p->n_states));
    RLX_TRY(write_ports(w, RLX_LEAF_OUTPUT, &p->outputs, &p->n_outputs));
    return write_steps(w);
}

rlx_status rx_schedule(const rx_plan *plan, const rx_target *t, rx_program **out, rlx_error *err)
{
    writer w = {.plan = plan, .g = plan->graph, .t = t, .err = err};
    *out = NULL;
    w.index = rx_alloc_array(w.g->n_values, sizeof *w.index);
    w.p = rx_alloc_zero(sizeof *w.p);
    rlx_status s = w.index && w.p ? write_all(&w) : no_memory(&w);
    rx_free(w.index);
    if (s != RLX_OK) {
        rx_arena_finish(&w.store.arena);
        rx_free(w.p);
        return s;
    }
    w.p->arena = w.store.arena;
    atomic_init(&w.p->refs, 1);
    *out = w.p;
    return RLX_OK;
}
