/* SPDX-License-Identifier: MIT */
/* A program on a device: its tables, and memory for its arena, inputs, states and flags. */
#include "gpu/exec.h"

static bool alloc_tables(rx_gpu_exec *x)
{
    const rx_program *p = x->program;
    x->places = rx_arena_array_zero(&x->arena, p->n_values, sizeof *x->places);
    x->kernels = rx_arena_array_zero(&x->arena, p->n_steps, sizeof *x->kernels);
    return x->places && x->kernels && rx_gpu_values_init(&x->values, p, &x->arena);
}

/* Inputs, then states, then the flags. */
static rlx_status place_leaves(rx_gpu_exec *x, rlx_error *err)
{
    const rx_program *p = x->program;
    const rx_gpu_memory *m = x->memory;
    const size_t n = p->n_inputs + p->n_states;
    uint64_t *bytes = rx_arena_array(&x->arena, n + 1, sizeof *bytes);
    rx_gpu_place *places = rx_arena_array(&x->arena, n + 1, sizeof *places);
    if (!bytes || !places)
        return rx_fail_memory(err, "inputs and states", n * sizeof *places);
    for (size_t i = 0; i < n; i++) {
        const rx_port *port = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        bytes[i] = p->values[port->value].bytes;
    }
    bytes[n] = RX_GPU_FLAG_BYTES + 4 * x->driver->n_counters;
    RLX_TRY(rx_gpu_pool_create(m, bytes, n + 1, "inputs and states", &x->leaf_pool, places, err));
    /* All versions of a state have its memory. */
    for (size_t i = 0; i < p->n_values; i++) {
        const rx_pvalue *v = &p->values[i];
        if (v->space == RX_SPACE_INPUT || v->space == RX_SPACE_STATE)
            x->places[i] = places[v->index + (v->space == RX_SPACE_STATE ? p->n_inputs : 0)];
    }
    x->flags = places[n];
    for (size_t i = p->n_inputs; i <= n && m->zero; i++)
        RLX_TRY(m->zero(m->device, &places[i], err));
    return RLX_OK;
}

rlx_status rx_gpu_exec_init(rx_gpu_exec *x, rlx_error *err)
{
    x->memory = x->weights->memory;
    if (!rx_gpu_runs_init(&x->runs, x->driver, x->exec))
        return rx_fail_memory(err, "a lock", sizeof x->runs.lock);
    rlx_status st = alloc_tables(x) ? RLX_OK
                                    : rx_fail_memory(err, "the steps of the program",
                                                     x->program->n_values * sizeof *x->places);
    if (st == RLX_OK)
        st = rx_gpu_arena_create(x->memory, x->program, &x->arena_pool, x->places, err);
    if (st == RLX_OK)
        st = place_leaves(x, err);
    if (st != RLX_OK)
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
        p->version = x->weights->items[p->item].version;
    }
}

const char *rx_gpu_exec_kernel(const rx_gpu_exec *x, size_t step)
{
    const char *name = atomic_load_explicit(&x->kernels[step], memory_order_relaxed);
    return name ? name : "not chosen yet";
}

rx_gpu_place rx_gpu_exec_place(const rx_gpu_exec *x, uint32_t value)
{
    return rx_gpu_value_place(&x->values, x->weights, x->places, value);
}
