/* SPDX-License-Identifier: MIT */
/* The list of dispatches as text, after any of its stages. */
#include <inttypes.h>
#include <string.h>

#include "base/str.h"
#include "gpu/stages.h"

/* ---- Bindings ------------------------------------------------------------------------------- */

/* Name of a port with this value; NULL: it has none. */
static const char *port_name(const rx_port *ports, size_t n, uint32_t value)
{
    for (size_t i = 0; i < n; i++)
        if (ports[i].value == value)
            return ports[i].name;
    return NULL;
}

static const char *value_name(const rx_program *p, uint32_t value)
{
    const char *name = port_name(p->inputs, p->n_inputs, value);
    name = name ? name : port_name(p->params, p->n_params, value);
    name = name ? name : port_name(p->states, p->n_states, value);
    name = name ? name : port_name(p->outputs, p->n_outputs, value);
    for (size_t i = 0; i < p->n_steps && !name; i++)
        for (uint32_t k = 0; k < p->steps[i].n_out && *p->steps[i].name; k++)
            if (p->steps[i].out[k] == value)
                name = p->steps[i].name;
    return name;
}

/* The number of a block in its pool, or of a pool in an array. */
static size_t block_number(const rx_gpu_pool *pool, const rx_block *block)
{
    size_t i = 0;
    while (i < pool->n && pool->blocks[i] != block)
        i++;
    return i;
}

static void print_block(rx_str *s, const rx_gpu_list *l, const rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_exec *x = l->x;
    const struct {
        const char *name;
        const rx_gpu_pool *pool;
    } pools[] = {{"arena", &x->arena_pool}, {"leaves", &x->leaf_pool},
                 {"weights", &x->weights->pool}, {"packed", &x->weights->packed_pool},
                 {"tables", &l->tables}};
    const rx_block *block = d->bind[k].block;
    if (d->scratch[k]) {
        rx_str_printf(s, "scratch%u", d->scratch[k] - 1u);
        return;
    }
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++) {
        const size_t number = block_number(pools[i].pool, block);
        if (number == pools[i].pool->n)
            continue;
        rx_str_puts(s, pools[i].name);
        if (pools[i].pool->n > 1)
            rx_str_printf(s, "%zu", number);
        return;
    }
    rx_str_puts(s, "buffer"); /* rlx_buffer: shared with other programs */
}

/* What a binding is, by the upper bits of RX_REF_*. */
static const char *ref_text(rx_gpu_ref ref)
{
    static const char *const names[] = {"nothing", "operand", "result", "scratch",
                                        "packed weight", "flags", "table", "prologue operand",
                                        "rotation operand", "write operand", "result"};
    return ref >> 12 < sizeof names / sizeof *names ? names[ref >> 12] : "unknown";
}

static void print_binding(rx_str *s, const rx_gpu_list *l, const rx_gpu_placed *d, uint32_t k)
{
    const rx_gpu_place *p = &d->bind[k];
    const char *binding = rx_kernel_bind_name(d->dispatch.kernel, k);
    rx_str_printf(s, "      %u", k);
    if (binding)
        rx_str_printf(s, " %s", binding);
    rx_str_printf(s, " %s %s", d->dispatch.writes >> k & 1 ? "writes" : "reads",
                  ref_text(d->dispatch.bind[k]));
    if (d->value[k] != RX_NO_VALUE) {
        const char *name = value_name(l->x->program, d->value[k]);
        rx_str_printf(s, " %%%" PRIu32, d->value[k]);
        if (name) {
            rx_str_puts(s, " ");
            rx_str_quote(s, name);
        }
    }
    const uint64_t begin = d->end[k] ? d->begin[k] : p->offset;
    const uint64_t end = d->end[k] ? d->end[k] : p->offset + p->bytes;
    rx_str_puts(s, ": ");
    print_block(s, l, d, k);
    rx_str_printf(s, " %" PRIu64 "..%" PRIu64 "\n", begin, end);
}

/* ---- Dispatches ----------------------------------------------------------------------------- */

static void print_step(rx_str *s, const rx_program *p, uint32_t step)
{
    const rx_step *x = &p->steps[step];
    rx_str_printf(s, "%" PRIu32 " %s%s%s", step, rx_ops[x->op].name, *x->name ? " " : "", x->name);
}

/* The types and bound shapes of its results. */
static void print_results(rx_str *s, const rx_gpu_values *v, uint32_t step)
{
    const rx_step *x = &v->program->steps[step];
    const char *before = " -> ";
    for (uint32_t k = 0; k < x->n_out; k++) {
        if (x->out[k] == RX_NO_VALUE)
            continue;
        const rx_view *y = &v->bound.views[x->out[k]];
        rx_str_printf(s, "%s%s[", before, rlx_dtype_name(y->dtype));
        for (int i = 0; i < y->rank; i++)
            rx_str_printf(s, "%s%" PRId64, i ? "," : "", y->dim[i]);
        rx_str_puts(s, "]");
        before = ", ";
    }
}

/* A non-zero word, by name or number; row: its declaration (NULL: unknown). */
static void print_constant(rx_str *s, const char *name, uint32_t i, uint32_t word,
                           const rx_param *row)
{
    float f;
    if (!word)
        return;
    if (name)
        rx_str_printf(s, " %s=", name);
    else
        rx_str_printf(s, " [%" PRIu32 "]=", i);
    memcpy(&f, &word, sizeof f);
    if (row && row->is_dtype)
        rx_str_puts(s, rlx_dtype_name((rlx_dtype)word));
    else if (row && row->type && !strcmp(row->type, "float"))
        rx_str_printf(s, "%.6g", (double)f);
    else if (word == UINT32_MAX)
        rx_str_puts(s, "-1");
    else
        rx_str_printf(s, "%" PRIu32, word);
}

void rx_gpu_constants_print(rx_str *s, rx_kernel k, const uint32_t *spec, uint32_t n_spec)
{
    for (uint32_t i = 1; i < n_spec; i++)
        print_constant(s, rx_kernel_spec_name(k, i), i, spec[i], rx_kernel_spec(k, i));
}

/* Specialisation constants, then push constants. */
static void print_constants(rx_str *s, const rx_gpu_dispatch *x)
{
    char room[64];
    if (x->n_spec > 1) {
        rx_str_puts(s, "      constants");
        rx_gpu_constants_print(s, x->kernel, x->spec, x->n_spec);
        rx_str_puts(s, "\n");
    }
    rx_str_puts(s, "      push");
    for (uint32_t i = 0; i < x->n_push; i++)
        print_constant(s, rx_kernel_push_name(x->kernel, i, room), i, x->push[i],
                       rx_kernel_push(x->kernel, i));
    rx_str_puts(s, "\n");
}

static void print_dispatch(rx_str *s, const rx_gpu_list *l, const rx_gpu_placed *d)
{
    const rx_gpu_dispatch *x = &d->dispatch;
    rx_str_printf(s, "  #%" PRIu32 " step ", d->number);
    print_step(s, l->x->program, d->step);
    if (d->lowered != d->step) {
        rx_str_puts(s, ", with step ");
        print_step(s, l->x->program, d->lowered);
    }
    print_results(s, &l->x->values, d->step);
    rx_str_printf(s, "\n    %s, grid %" PRIu32 "x%" PRIu32 "x%" PRIu32 " of %" PRIu32,
                  rx_gpu_dispatch_name(x), x->groups[0], x->groups[1], x->groups[2], x->spec[0]);
    if (d->chain.is_chained)
        rx_str_printf(s, ", signals counter %" PRIu32, d->chain.signals);
    if (d->chain.target)
        rx_str_printf(s, ", waits until counter %" PRIu32 " is %" PRIu32, d->chain.waits,
                      d->chain.target);
    rx_str_puts(s, "\n");
    print_constants(s, x);
    for (uint32_t k = 0; k < x->n_bind; k++)
        if (d->bind[k].block)
            print_binding(s, l, d, k);
}

/* ---- The list ------------------------------------------------------------------------------- */

/* How to read what follows. */
static void print_legend(rx_str *s, rx_gpu_stage stage)
{
    rx_str_puts(s,
        "# a dispatch: #number in program order, the step whose place it has -> results\n"
        "#   kernel (emitted: SPIR-V written for this region), grid x, y, z of workgroups\n"
        "#   of so many invocations\n"
        "#   specialisation and push constants that are not 0; -1: none, or no limit\n"
        "#   binding: what the step has there, %value, block and bytes of it\n"
        "# steps and %values have the numbers of --dump schedule\n"
        "# blocks: arena (intermediates), leaves (inputs, states, flags), weights, packed\n"
        "#   (weights in another layout), scratch (of one step), tables (constants)\n");
    if (stage >= RX_GPU_ORDER)
        rx_str_puts(s,
            "# a level: dispatches that may overlap; a piece: what is submitted at a time\n");
    if (stage >= RX_GPU_CHAIN)
        rx_str_puts(s,
            "# chained: each workgroup adds 1 to its counter at its end; the next level begins\n"
            "#   without a barrier and waits for the counter inside of its kernels\n");
}

static void print_head(rx_str *s, const rx_gpu_list *l, rx_gpu_stage stage)
{
    const rx_program *p = l->x->program;
    uint64_t scratch = 0;
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++)
        scratch += l->scratch_bytes[i];
    rx_str_printf(s, "%s: %zu steps, %zu dispatches", rx_gpu_stage_names[stage], p->n_steps, l->n);
    if (stage >= RX_GPU_ORDER)
        rx_str_printf(s, ", %" PRIu32 " levels, %" PRIu32 " barriers, %" PRIu32 " piece%s",
                      l->n_levels, l->n_barriers, l->n_pieces, l->n_pieces == 1 ? "" : "s");
    if (stage >= RX_GPU_CHAIN)
        rx_str_printf(s, ", %" PRIu32 " chained", l->n_chained);
    rx_str_printf(s, ", scratch %" PRIu64 " bytes\n", scratch);
    print_legend(s, stage);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        const bool host = p->steps[i].support == RLX_SUPPORT_HOST;
        if (!host && l->absorbed_by[i] == i)
            continue;
        rx_str_puts(s, "step ");
        print_step(s, p, i);
        if (host)
            rx_str_puts(s, ": on the host\n");
        else
            rx_str_printf(s, ": computed by step %" PRIu32 "\n", l->absorbed_by[i]);
    }
}

rlx_status rx_gpu_list_print(const rx_gpu_list *l, rx_gpu_stage stage, char **text,
                             rlx_error *err)
{
    rx_str s = {0};
    print_head(&s, l, stage);
    for (size_t i = 0; i < l->n; i++) {
        const rx_gpu_placed *d = &l->items[i], *before = i ? &l->items[i - 1] : NULL;
        const bool ordered = stage >= RX_GPU_ORDER;
        if (ordered && (!before || before->piece != d->piece))
            rx_str_printf(&s, "piece %" PRIu32 "\n", d->piece);
        if (ordered && (!before || before->level != d->level))
            rx_str_printf(&s, "level %" PRIu32 "%s\n", d->level,
                          d->barrier        ? ", after a barrier"
                          : d->chain.target ? ", waits for a counter"
                                            : "");
        print_dispatch(&s, l, d);
    }
    return rx_str_take(&s, text, NULL, err);
}
