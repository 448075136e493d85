/* SPDX-License-Identifier: MIT */
/* Programs: reference counting and printing. */
#include "compile/program.h"

#include "base/str.h"
#include "compile/plan.h"

rx_program *rx_program_ref(rx_program *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    return p;
}

void rx_program_unref(rx_program *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
        return;
    rlx_graph_destroy(p->lowered);
    rx_arena_finish(&p->arena);
    rx_free(p);
}

/* ---- Ports ---------------------------------------------------------------------------------- */

size_t rx_port_index(const rx_program *p, rlx_leaf kind, size_t i)
{
    return i + (kind == RLX_LEAF_STATE    ? p->n_inputs
                : kind == RLX_LEAF_OUTPUT ? p->n_inputs + p->n_states
                                          : 0);
}

const rx_port *rx_port_at(const rx_program *p, size_t index, rlx_leaf *kind)
{
    const size_t states = p->n_inputs, outputs = states + p->n_states;
    *kind = index < states ? RLX_LEAF_INPUT : index < outputs ? RLX_LEAF_STATE : RLX_LEAF_OUTPUT;
    return index < states    ? &p->inputs[index]
           : index < outputs ? &p->states[index - states]
                             : &p->outputs[index - outputs];
}

static uint32_t root_of(const rx_program *p, uint32_t value)
{
    while (p->values[value].view_of >= 0)
        value = (uint32_t)p->values[value].view_of;
    return value;
}

uint32_t rx_output_root(const rx_program *p, size_t output)
{
    uint32_t value = p->outputs[output].value;
    const uint32_t root = root_of(p, value);
    if (p->values[root].space != RX_SPACE_ARENA)
        return RX_NO_VALUE;
    for (; p->values[value].view_of >= 0; value = (uint32_t)p->values[value].view_of)
        if (p->values[value].view_op != RX_OP_reshape || !p->values[value].dense)
            return RX_NO_VALUE;
    for (size_t i = 0; i < p->n_outputs; i++)
        if (i != output && root_of(p, p->outputs[i].value) == root)
            return RX_NO_VALUE;
    return root;
}

/* ---- Text ----------------------------------------------------------------------------------- */

static const char *space_name(rx_space s)
{
    static const char *const names[] = {"none", "arena", "input", "param", "constant", "state"};
    return names[s];
}

static void print_operand(rx_str *s, const rx_program *p, uint32_t index)
{
    char type[RX_TYPE_TEXT];
    if (index == RX_NO_VALUE) {
        rx_str_puts(s, "_");
        return;
    }
    rlx_graph dims = {.dims = p->dims, .n_dims = p->n_dims};
    const rx_pvalue *v = &p->values[index];
    rx_str_printf(s, "%%%u %s", index, rx_type_text(&dims, v->dtype, &v->shape, type));
    if (v->view_of >= 0)
        rx_str_printf(s, " %s of %%%d", rx_ops[v->view_op].name, v->view_of);
    if (v->space == RX_SPACE_ARENA)
        rx_str_printf(s, " @%llu", (unsigned long long)v->offset);
    else
        rx_str_printf(s, " %s %u", space_name(v->space), v->index);
}

static void print_operands(rx_str *s, const rx_program *p, const uint32_t *ids, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rx_str_puts(s, i ? ", " : "");
        print_operand(s, p, ids[i]);
    }
}

static void print_ports(rx_str *s, const rx_program *p, const char *kind, const rx_port *ports,
                        size_t n)
{
    for (size_t i = 0; i < n; i++) {
        rx_str_printf(s, "%s ", kind);
        rx_str_quote(s, ports[i].name);
        rx_str_puts(s, ": ");
        print_operand(s, p, ports[i].value);
        rx_str_puts(s, "\n");
    }
}

/* The merges that are possible for a step. */
static void print_merge(rx_str *s, const rx_merge *m)
{
    if (m->prologue != RX_NO_STEP)
        rx_str_printf(s, ", may compute step %u as its prologue", m->prologue);
    if (m->defer_to != RX_NO_STEP)
        rx_str_printf(s, ", may be computed with step %u", m->defer_to);
}

rlx_status rx_program_print(const rx_program *p, char **text, rlx_error *err)
{
    rx_str s = {0};
    rx_str_printf(&s, "program: %zu steps, arena %llu bytes\n", p->n_steps,
                  (unsigned long long)p->memory.arena_bytes);
    print_ports(&s, p, "input", p->inputs, p->n_inputs);
    print_ports(&s, p, "param", p->params, p->n_params);
    print_ports(&s, p, "state", p->states, p->n_states);
    print_ports(&s, p, "output", p->outputs, p->n_outputs);
    for (size_t i = 0; i < p->n_steps; i++) {
        const rx_step *step = &p->steps[i];
        rx_str_printf(&s, "%zu %s%s%s%s: ", i, rx_ops[step->op].name, *step->name ? " " : "",
                      step->name, step->support == RLX_SUPPORT_HOST ? " (host)" : "");
        print_operands(&s, p, step->in, step->n_in);
        rx_str_puts(&s, " -> ");
        print_operands(&s, p, step->out, step->n_out);
        print_merge(&s, &p->merges[i]);
        rx_str_puts(&s, "\n");
    }
    return rx_str_take(&s, text, NULL, err);
}
