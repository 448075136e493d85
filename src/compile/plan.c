/* SPDX-License-Identifier: MIT */
/* plan: numbers the steps, assigns every value a space, reuses the memory of dying operands in
 * place, and assigns arena offsets to the rest. Requires a graph that is legal for the target and
 * whose outputs have memory of their own (outputs.c). */
#include "compile/plan.h"

#include <string.h>

#include "base/dtype.h"
#include "base/str.h"
#include "compile/rewrite.h"

typedef struct planner {
    rx_plan *p;
    const rlx_graph *g;
    const rx_target *t;
    const rlx_session_desc *desc;
    bool *live, *is_view, *dense;
    bool *used;        /* by value: some live node or output reads it */
    uint32_t *done;    /* by step: the last step in whose position it may be computed */
    uint32_t *hold;    /* by value that owns memory: until when merged steps read it */
    uint32_t *n_holders; /* how many such steps */
    size_t cap_slots;
    rlx_error *err;
} planner;

static rlx_status no_memory(planner *k)
{
    return rx_fail(k->err, RLX_NO_MEMORY, "out of memory: plan of graph '%s'", k->g->name);
}

static uint64_t bytes_at_bound(const rlx_graph *g, uint32_t id)
{
    int64_t n = 0;
    uint64_t bytes = 0;
    if (!rx_shape_elements(g, &g->values[id].shape, &n) ||
        !rx_dtype_bytes(g->values[id].dtype, n, &bytes))
        return 0;
    return bytes;
}

/* ---- Steps and lifetimes -------------------------------------------------------------------- */

static void number_steps(planner *k)
{
    for (size_t i = 0; i < k->g->n_nodes; i++) {
        bool is_leaf = rx_ops[k->g->nodes[i].op].flags & RX_OP_LEAF;
        bool is_step = k->live[i] && !is_leaf && !k->is_view[i];
        k->p->step_of[i] = is_step ? (uint32_t)k->p->n_steps++ : RX_NO_STEP;
    }
}

static void set_roots(planner *k)
{
    for (size_t i = 0; i < k->g->n_nodes; i++) {
        const rx_node *n = &k->g->nodes[i];
        for (uint32_t j = 0; j < n->n_out; j++) {
            rx_planned *v = &k->p->values[n->first_out + j];
            v->view_of = k->is_view[i] ? n->in[0] : 0;
            v->root = v->view_of ? k->p->values[v->view_of].root : n->first_out + j;
            v->dense = k->dense[n->first_out + j];
            v->first = v->last = k->p->step_of[i] == RX_NO_STEP ? 0 : k->p->step_of[i];
            v->bytes = bytes_at_bound(k->g, n->first_out + j);
        }
    }
}

static void extend(planner *k, uint32_t id, uint32_t step)
{
    rx_planned *root = &k->p->values[k->p->values[id].root];
    k->used[id] = k->used[k->p->values[id].root] = true;
    if (step > root->last)
        root->last = step;
}

static void set_lifetimes(planner *k)
{
    for (size_t i = 0; i < k->g->n_nodes; i++) {
        const rx_node *n = &k->g->nodes[i];
        for (uint32_t j = 0; k->live[i] && j < n->n_in; j++) {
            uint32_t step = k->p->step_of[i];
            if (n->in[j])
                extend(k, n->in[j], step == RX_NO_STEP ? 0 : step);
        }
    }
    for (size_t i = 0; i < k->g->n_outputs; i++)
        extend(k, k->g->outputs[i].value, (uint32_t)k->p->n_steps);
}

static uint32_t latest(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* Extends the lifetime of operands to the last step that may compute their reader. */
static void hold_operands(planner *k)
{
    for (size_t i = 0; i < k->g->n_nodes; i++) {
        const rx_node *n = &k->g->nodes[i];
        const uint32_t step = k->p->step_of[i];
        for (uint32_t j = 0; step != RX_NO_STEP && k->done[step] > step && j < n->n_in; j++) {
            const uint32_t root = k->p->values[n->in[j]].root;
            k->hold[root] = latest(k->hold[root], k->done[step]);
            k->n_holders[root]++;
        }
    }
}

static rlx_status find_merges(planner *k)
{
    k->p->merges = rx_alloc_array(k->p->n_steps + 1, sizeof *k->p->merges);
    k->done = rx_alloc_array(k->p->n_steps + 1, sizeof *k->done);
    if (!k->p->merges || !k->done)
        return no_memory(k);
    rx_find_merges(k->p, k->desc->keep_all ? NULL : k->t, k->desc->policy, k->done);
    hold_operands(k);
    return RLX_OK;
}

/* ---- Memory --------------------------------------------------------------------------------- */

/* Whether a value covers the memory of its root exactly: the root itself, or reshaped. */
static bool is_whole(const planner *k, uint32_t id)
{
    while (k->p->values[id].view_of) {
        if (rx_value_node(k->g, id)->op != RX_OP_reshape)
            return false;
        id = k->p->values[id].view_of;
    }
    return true;
}

/* Whether a step other than this one, its last reader, may read the value later because it is
 * merged. This step does not write in its own position when it is merged itself. */
static bool is_held(const planner *k, uint32_t root, uint32_t step)
{
    return k->hold[root] > step && (k->n_holders[root] > 1 || k->done[step] == step);
}

/* Whether the first result of n may overwrite operand `id` in place. */
static bool may_take_over(const planner *k, const rx_node *n, uint32_t id, uint32_t step)
{
    const rx_value *values = k->g->values;
    const rx_planned *v = &k->p->values[id], *root = &k->p->values[v->root];
    uint32_t out = n->first_out;
    if (root->space != RX_SPACE_ARENA || root->last != step || is_held(k, v->root, step) ||
        !is_whole(k, id) || values[id].dtype != values[out].dtype ||
        !rx_shape_equal(&values[id].shape, &values[out].shape))
        return false;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && n->in[i] != id && k->p->values[n->in[i]].root == v->root)
            return false; /* also read with another layout */
    return true;
}

/* The slot that the first result reuses in place, or RX_NO_STEP. */
static uint32_t find_in_place(const planner *k, const rx_node *n, uint32_t step)
{
    if (k->desc->keep_all || !(rx_ops[n->op].flags & RX_OP_INPLACE))
        return RX_NO_STEP;
    for (uint32_t i = 0; i < n->n_in; i++)
        if (n->in[i] && may_take_over(k, n, n->in[i], step))
            return k->p->values[k->p->values[n->in[i]].root].index;
    return RX_NO_STEP;
}

static rlx_status add_slot(planner *k, rx_planned *v, uint32_t last)
{
    rx_plan *p = k->p;
    uint64_t align = k->t->align > 16 ? k->t->align : 16;
    if (!rx_grow(&p->slots, &k->cap_slots, p->n_slots + 1, sizeof *p->slots))
        return no_memory(k);
    uint64_t bytes = (v->bytes + align - 1) / align * align;
    p->slots[p->n_slots] = (rx_slot){0, bytes, v->first, last};
    p->memory.unshared_bytes += bytes;
    v->index = (uint32_t)p->n_slots++;
    return RLX_OK;
}

static rlx_status place_results(planner *k, const rx_node *n, uint32_t step)
{
    for (uint32_t i = 0; i < n->n_out; i++) {
        rx_planned *v = &k->p->values[n->first_out + i];
        if (n->op == RX_OP_state_write) {
            v->space = RX_SPACE_STATE;
            v->index = k->p->values[n->in[0]].index;
            continue;
        }
        if (!k->used[n->first_out + i])
            continue; /* RX_SPACE_NONE: unused */
        if (k->desc->keep_all)
            v->last = (uint32_t)k->p->n_steps;
        uint32_t slot = i == 0 ? find_in_place(k, n, step) : RX_NO_STEP;
        const uint32_t last = latest(v->last, k->hold[n->first_out + i]);
        v->space = RX_SPACE_ARENA;
        if (slot == RX_NO_STEP) {
            RLX_TRY(add_slot(k, v, last));
            continue;
        }
        v->index = slot;
        k->p->slots[slot].last = latest(k->p->slots[slot].last, last);
        k->p->memory.unshared_bytes += k->p->slots[slot].bytes;
    }
    return RLX_OK;
}

/* Ports are numbered in order of creation. */
static void place_leaf(planner *k, const rx_node *n, uint32_t counts[4])
{
    static const struct { rx_op op; rx_space space; } kinds[] = {
        {RX_OP_input, RX_SPACE_INPUT}, {RX_OP_param, RX_SPACE_PARAM},
        {RX_OP_constant, RX_SPACE_CONSTANT}, {RX_OP_state, RX_SPACE_STATE},
    };
    rlx_memory_info *m = &k->p->memory;
    uint64_t *const totals[] = {&m->input_bytes, &m->param_bytes, &m->constant_bytes,
                                &m->state_bytes};
    rx_planned *v = &k->p->values[n->first_out];
    for (size_t i = 0; i < 4; i++) {
        if (kinds[i].op != n->op)
            continue;
        v->space = kinds[i].space;
        v->index = counts[i]++;
        *totals[i] += v->bytes;
    }
}

static rlx_status place_values(planner *k)
{
    uint32_t counts[4] = {0};
    for (size_t i = 0; i < k->g->n_nodes; i++) {
        const rx_node *n = &k->g->nodes[i];
        if (!k->live[i])
            continue;
        if (rx_ops[n->op].flags & RX_OP_LEAF) {
            place_leaf(k, n, counts);
        } else if (k->is_view[i]) {
            rx_planned *v = &k->p->values[n->first_out];
            const rx_planned *root = &k->p->values[v->root];
            v->space = root->space;
            v->index = root->index;
        } else {
            RLX_TRY(place_results(k, n, k->p->step_of[i]));
        }
    }
    return RLX_OK;
}

/* Values live until the last merged step that reads them; views have size and lifetime of their
 * root. */
static void finish_lifetimes(planner *k)
{
    for (size_t id = 1; id < k->g->n_values; id++) {
        rx_planned *v = &k->p->values[id];
        v->last = latest(v->last, k->hold[id]);
        const rx_planned *root = &k->p->values[v->root];
        v->bytes = root->bytes;
        v->first = root->first;
        v->last = root->last;
    }
}

/* ---- Arena offsets -------------------------------------------------------------------------- */

/* Maximum delay of reuse in steps: more removes no further barrier of encoders, decoders and
 * ResNet. */
#define MOST_DELAY 2

/* The slots with lifetimes extended by `steps`. */
static void delay_reuse(const rx_plan *p, uint32_t steps, rx_slot *out)
{
    for (size_t i = 0; i < p->n_slots; i++) {
        uint32_t end = (uint32_t)p->n_steps, left = end - p->slots[i].last;
        out[i] = p->slots[i];
        out[i].last += left < steps ? left : steps;
    }
}

/* A quarter of the target's slack, and more beside many weights. */
static uint64_t slack_bytes(const planner *k)
{
    const uint64_t most = k->t->slack_bytes;
    const uint64_t slack = most / 4 + k->p->memory.param_bytes / 16;
    return slack < most ? slack : most;
}

/* Assigns offsets with the longest delay of reuse that the slack allows; *done is false when there
 * is none. */
static bool assign_with_slack(planner *k, bool *done)
{
    rx_plan *p = k->p;
    const uint64_t most = p->memory.arena_bound + slack_bytes(k);
    rx_slot *slots = rx_alloc_array(p->n_slots + 1, sizeof *slots);
    bool ok = slots != NULL;
    for (uint32_t delay = MOST_DELAY; ok && !*done && delay > 0; delay /= 2) {
        uint64_t bound, bytes;
        delay_reuse(p, delay, slots);
        ok = rx_live_peak(slots, p->n_slots, p->n_steps, &bound);
        if (!ok || bound > most)
            continue;
        ok = rx_assign_offsets(slots, p->n_slots, p->n_steps, bound, &bytes);
        *done = ok && bytes <= most;
        if (*done)
            p->memory.arena_bytes = bytes;
    }
    for (size_t i = 0; ok && *done && i < p->n_slots; i++)
        p->slots[i].offset = slots[i].offset;
    rx_free(slots);
    return ok;
}

static rlx_status assign_offsets(planner *k)
{
    rx_plan *p = k->p;
    bool done = false;
    if (!rx_live_peak(p->slots, p->n_slots, p->n_steps, &p->memory.arena_bound))
        return no_memory(k);
    if (slack_bytes(k) && !k->desc->keep_all && !assign_with_slack(k, &done))
        return no_memory(k);
    if (!done && !rx_assign_offsets(p->slots, p->n_slots, p->n_steps, p->memory.arena_bound,
                          &p->memory.arena_bytes))
        return no_memory(k);
    return RLX_OK;
}

static rlx_status run(planner *k)
{
    rx_mark_live(k->g, k->live);
    RLX_TRY(rx_decide_views(k->g, k->t, k->live, k->is_view, k->dense, k->err));
    number_steps(k);
    set_roots(k);
    set_lifetimes(k);
    RLX_TRY(find_merges(k));
    RLX_TRY(place_values(k));
    finish_lifetimes(k);
    return assign_offsets(k);
}

rlx_status rx_plan_make(rx_plan *p, const rlx_graph *g, const rx_target *t,
                        const rlx_session_desc *desc, rlx_error *err)
{
    *p = (rx_plan){.graph = g};
    planner k = {.p = p, .g = g, .t = t, .desc = desc, .err = err};
    p->step_of = rx_alloc_array(g->n_nodes + 1, sizeof *p->step_of);
    p->values = rx_alloc_array_zero(g->n_values, sizeof *p->values);
    k.live = rx_alloc(g->n_nodes + 1);
    k.is_view = rx_alloc_zero(g->n_nodes + 1);
    k.dense = rx_alloc_zero(g->n_values);
    k.used = rx_alloc_zero(g->n_values);
    k.hold = rx_alloc_array_zero(g->n_values, sizeof *k.hold);
    k.n_holders = rx_alloc_array_zero(g->n_values, sizeof *k.n_holders);
    bool ok = p->step_of && p->values && k.live && k.is_view && k.dense && k.used && k.hold &&
              k.n_holders;
    rlx_status s = ok ? run(&k) : no_memory(&k);
    rx_free(k.live);
    rx_free(k.is_view);
    rx_free(k.dense);
    rx_free(k.used);
    rx_free(k.done);
    rx_free(k.hold);
    rx_free(k.n_holders);
    return s;
}

void rx_plan_finish(rx_plan *p)
{
    rx_free(p->step_of);
    rx_free(p->values);
    rx_free(p->slots);
    rx_free(p->merges);
    *p = (rx_plan){0};
}

/* ---- Text ----------------------------------------------------------------------------------- */

static void print_value(rx_str *s, const rx_plan *p, uint32_t id)
{
    char type[RX_TYPE_TEXT];
    const rx_value *v = &p->graph->values[id];
    const rx_node *n = rx_value_node(p->graph, id);
    rx_str_printf(s, "%s%s%s %s", rx_ops[n->op].name, n->name ? " " : "", n->name ? n->name : "",
                  rx_type_text(p->graph, v->dtype, &v->shape, type));
}

rlx_status rx_plan_print(const rx_plan *p, char **text, rlx_error *err)
{
    rx_str s = {0};
    const rlx_memory_info *m = &p->memory;
    rx_str_printf(&s, "plan: %zu steps, %zu slots, arena %llu bytes, bound %llu, unshared %llu\n",
                  p->n_steps, p->n_slots, (unsigned long long)m->arena_bytes,
                  (unsigned long long)m->arena_bound, (unsigned long long)m->unshared_bytes);
    for (uint32_t id = 1; id < p->graph->n_values; id++) {
        const rx_planned *v = &p->values[id];
        if (v->space != RX_SPACE_ARENA)
            continue;
        const rx_slot *slot = &p->slots[v->index];
        rx_str_printf(&s, "  %%%u at %llu + %llu, steps %u to %u%s: ", id,
                      (unsigned long long)slot->offset, (unsigned long long)v->bytes, v->first,
                      v->last, v->view_of ? ", view" : slot->first < v->first ? ", in place" : "");
        print_value(&s, p, id);
        rx_str_puts(&s, "\n");
    }
    return rx_str_take(&s, text, NULL, err);
}
