/* SPDX-License-Identifier: MIT */
/* A program on a device: its tables, and memory for its arena, inputs, states and flags. */
#include "gpu/exec/exec.h"

static bool alloc_tables(rx_gpu_exec *x)
{
    const rx_program *p = x->program;
    x->places = rx_arena_array_zero(&x->arena, p->n_values, sizeof *x->places);
    x->own = rx_arena_array_zero(&x->arena, rx_program_n_ports(p), sizeof *x->own);
    x->buffers = rx_arena_array_zero(&x->arena, rx_program_n_ports(p), sizeof *x->buffers);
    x->kernels = rx_arena_array_zero(&x->arena, p->n_steps, sizeof *x->kernels);
    return x->places && x->own && x->buffers && x->kernels &&
           rx_gpu_values_init(&x->values, p, &x->arena);
}

/* Inputs and states that have no buffer, then the flags. */
static rlx_status place_leaves(rx_gpu_exec *x, rx_buffer *const *buffers, rlx_error *err)
{
    const rx_program *p = x->program;
    const rx_gpu_memory *m = x->memory;
    const size_t n = p->n_inputs + p->n_states;
    size_t n_own = 0;
    rlx_leaf kind;
    uint64_t *bytes = rx_arena_array(&x->arena, n + 1, sizeof *bytes);
    rx_gpu_place *places = rx_arena_array(&x->arena, n + 1, sizeof *places);
    if (!bytes || !places)
        return rx_fail_memory(err, "inputs and states", n * sizeof *places);
    for (size_t i = 0; i < n; i++)
        if (!buffers || !buffers[i])
            bytes[n_own++] = p->values[rx_port_at(p, i, &kind)->value].bytes;
    bytes[n_own] = RX_GPU_FLAG_BYTES + 4 * x->driver->n_counters;
    RLX_TRY(rx_gpu_pool_create(m, bytes, n_own + 1, "inputs and states", &x->leaf_pool, places,
                               err));
    x->flags = places[n_own];
    for (size_t i = 0, k = 0; i < n; i++)
        if (!buffers || !buffers[i])
            x->own[i] = places[k++];
    for (size_t i = p->n_inputs; i < n && m->zero; i++)
        RLX_TRY(m->zero(m->device, &x->own[i], err));
    return m->zero ? m->zero(m->device, &x->flags, err) : RLX_OK;
}

/* ---- Ports ---------------------------------------------------------------------------------- */

/* Sets the place of a port: all versions of a state share its memory; an output has that of the
 * value that owns it, where no other value shares it. */
static void place_port(rx_gpu_exec *x, size_t port)
{
    const rx_program *p = x->program;
    rlx_leaf kind;
    const rx_port *at = rx_port_at(p, port, &kind);
    const rx_space space = kind == RLX_LEAF_INPUT ? RX_SPACE_INPUT : RX_SPACE_STATE;
    const uint32_t root = kind == RLX_LEAF_OUTPUT
                              ? rx_output_root(p, port - p->n_inputs - p->n_states)
                              : at->value;
    if (root == RX_NO_VALUE)
        return;
    rx_gpu_place place = x->own[port];
    if (x->buffers[port]) {
        place = x->buffers[port]->weight.place;
        place.bytes = p->values[root].bytes;
    }
    x->places[root] = place;
    for (size_t i = 0; i < p->n_values && kind == RLX_LEAF_STATE; i++)
        if (p->values[i].space == space && p->values[i].index == p->values[root].index)
            x->places[i] = place;
}

static void place_ports(rx_gpu_exec *x, rx_buffer *const *buffers)
{
    const rx_program *p = x->program;
    const size_t n_leaves = p->n_inputs + p->n_states;
    for (size_t i = 0; i < rx_program_n_ports(p); i++) {
        const uint32_t root = i < n_leaves ? RX_NO_VALUE : rx_output_root(p, i - n_leaves);
        if (root != RX_NO_VALUE)
            x->own[i] = x->places[root]; /* in the arena */
        x->buffers[i] = buffers ? buffers[i] : NULL;
        place_port(x, i);
    }
}

rlx_status rx_gpu_exec_use(rx_gpu_exec *x, size_t port, rx_buffer *b, rlx_error *err)
{
    const rx_program *p = x->program;
    const rx_gpu_memory *m = x->memory;
    rlx_leaf kind;
    const uint64_t bytes = p->values[rx_port_at(p, port, &kind)->value].bytes;
    if (!b && kind != RLX_LEAF_OUTPUT && !x->own[port].block) {
        RLX_TRY(rx_gpu_pool_add(m, &x->leaf_pool, bytes, bytes, "inputs and states",
                                &x->own[port], err));
        if (m->zero)
            RLX_TRY(m->zero(m->device, &x->own[port], err));
    }
    rx_gpu_exec_forget(x); /* recordings reference the old place */
    x->buffers[port] = b;
    place_port(x, port);
    return RLX_OK;
}

bool rx_gpu_exec_copy(const rx_gpu_exec *x, size_t i, rx_gpu_copy *out)
{
    const rx_program *p = x->program;
    const rx_buffer *b = x->buffers[rx_port_index(p, RLX_LEAF_OUTPUT, i)];
    uint64_t begin, end;
    if (!b || rx_output_root(p, i) != RX_NO_VALUE)
        return false;
    rx_gpu_extent(&x->values.bound.views[p->outputs[i].value], &begin, &end);
    out->from = rx_gpu_exec_place(x, p->outputs[i].value);
    out->from.offset += begin;
    out->from.bytes = end - begin;
    out->to = b->weight.place;
    out->to.bytes = end - begin;
    return end > begin;
}

bool rx_gpu_exec_copies(const rx_gpu_exec *x)
{
    rx_gpu_copy c;
    bool any = false;
    for (size_t i = 0; i < x->program->n_outputs && !any; i++)
        any = rx_gpu_exec_copy(x, i, &c);
    return any;
}

/* ---- Programs ------------------------------------------------------------------------------- */

/* A program of fixed sizes is refused here and not by its first run. */
static rlx_status check_fixed(rx_gpu_exec *x, rlx_error *err)
{
    if (x->program->n_dims)
        return RLX_OK;
    RLX_TRY(rx_bound_update(&x->values.bound, NULL, err));
    return rx_gpu_check_steps(x, err);
}

rlx_status rx_gpu_exec_init(rx_gpu_exec *x, rx_buffer *const *buffers, rlx_error *err)
{
    x->memory = x->weights->memory;
    if (!rx_gpu_runs_init(&x->runs, x->driver, x->exec))
        return rx_fail_memory(err, "a lock", sizeof x->runs.lock);
    rlx_status st = alloc_tables(x) ? RLX_OK
                                    : rx_fail_memory(err, "the steps of the program",
                                                     x->program->n_values * sizeof *x->places);
    if (st == RLX_OK)
        st = check_fixed(x, err);
    if (st == RLX_OK)
        st = rx_gpu_arena_create(x->memory, x->program, &x->arena_pool, x->places, err);
    if (st == RLX_OK)
        st = place_leaves(x, buffers, err);
    if (st == RLX_OK)
        place_ports(x, buffers);
    else
        rx_gpu_exec_finish(x);
    return st;
}

void rx_gpu_exec_finish(rx_gpu_exec *x)
{
    rx_gpu_exec_forget(x);
    for (size_t i = 0; i < RX_GPU_N_SCRATCH; i++)
        rx_gpu_pool_destroy(x->memory, &x->scratch[i]);
    rx_gpu_pool_destroy(x->memory, &x->leaf_pool);
    rx_gpu_pool_destroy(x->memory, &x->arena_pool);
    rx_arena_finish(&x->arena);
    rx_gpu_runs_finish(&x->runs);
}

void rx_gpu_exec_packed(rx_gpu_exec *x)
{
    for (size_t i = 0; i < x->now->n_derived; i++) {
        rx_gpu_packed *p = x->now->derived[i];
        p->version = p->of->version;
    }
}

const char *rx_gpu_exec_kernel(const rx_gpu_exec *x, size_t step)
{
    const char *name = atomic_load_explicit(&x->kernels[step], memory_order_relaxed);
    return name ? name : "not chosen yet";
}

size_t rx_gpu_exec_computed_by(const rx_gpu_exec *x, size_t step)
{
    return x->now ? x->now->computed_by[step] : step;
}

rx_gpu_place rx_gpu_exec_place(const rx_gpu_exec *x, uint32_t value)
{
    return rx_gpu_value_place(&x->values, x->weights, x->places, value);
}
