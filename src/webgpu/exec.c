/* SPDX-License-Identifier: MIT */
/* A program on the device: its memory, and host access to inputs, states and results. */
#include <string.h>

#include "webgpu/device.h"

/* Inputs up to this size are compared with what the device has before they are sent again. */
#define MAX_SHADOW ((uint64_t)1 << 20)

/* ---- Creation ------------------------------------------------------------------------------- */

static bool alloc_tables(rx_exec *e)
{
    const rx_program *p = e->program;
    rx_arena *a = &e->arena;
    e->places = rx_arena_zero(a, p->n_values * sizeof *e->places);
    e->kernels = rx_arena_zero(a, p->n_steps * sizeof *e->kernels);
    e->shadows = rx_arena_zero(a, p->n_inputs * sizeof *e->shadows);
    e->shadow_bytes = rx_arena_zero(a, p->n_inputs * sizeof *e->shadow_bytes);
    return e->places && e->kernels && e->shadows && e->shadow_bytes &&
           rx_gpu_values_init(&e->values, p, a);
}

/* Inputs, then states, then the flags. */
static rlx_status place_leaves(rx_exec *e, rlx_error *err)
{
    const rx_program *p = e->program;
    size_t n = p->n_inputs + p->n_states;
    uint64_t *bytes = rx_arena_zero(&e->arena, (n + 1) * sizeof *bytes);
    rx_gpu_place *places = rx_arena_zero(&e->arena, (n + 1) * sizeof *places);
    if (!bytes || !places)
        return rx_fail_memory(err, "inputs and states", n * sizeof *places);
    for (size_t i = 0; i < n; i++) {
        const rx_port *port = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        bytes[i] = p->values[port->value].bytes;
    }
    bytes[n] = 16;
    RLX_TRY(rx_gpu_pool_create(&e->device->memory, bytes, n + 1, "inputs and states",
                               &e->leaf_pool, places, err));
    /* All versions of a state have its memory. */
    for (size_t i = 0; i < p->n_values; i++) {
        const rx_pvalue *v = &p->values[i];
        if (v->space == RX_SPACE_INPUT || v->space == RX_SPACE_STATE)
            e->places[i] = places[v->index + (v->space == RX_SPACE_STATE ? p->n_inputs : 0)];
    }
    e->flags = places[n];
    return RLX_OK;
}

static void exec_free(rx_exec *e)
{
    rx_device *d = e->device;
    for (size_t i = 0; i < RX_WG_N_SLOTS; i++) {
        rx_wg_slot_clear(d, &e->slots[i]);
        rx_wg_block_destroy(d, &e->slots[i].readback);
    }
    for (size_t i = 0; i < RX_WG_N_RECORDINGS; i++)
        rx_wg_recording_destroy(e, e->recordings[i]);
    for (size_t i = 0; e->shadows && i < e->program->n_inputs; i++)
        rx_free(e->shadows[i]);
    for (size_t i = 0; i < RX_WG_N_SCRATCH; i++)
        rx_wg_block_destroy(d, &e->scratch[i]);
    rx_gpu_pool_destroy(&d->memory, &e->leaf_pool);
    rx_gpu_pool_destroy(&d->memory, &e->arena_pool);
    rx_arena_finish(&e->arena);
    rx_free(e);
}

rlx_status rx_wg_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_exec **out,
                             rlx_error *err)
{
    *out = NULL;
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->device = d;
    e->program = p;
    e->weights = w;
    e->n_errors = atomic_load(&d->watch->n_errors);
    rlx_status st = alloc_tables(e) ? RLX_OK
                                    : rx_fail_memory(err, "the steps of the program",
                                                     p->n_values * sizeof *e->places);
    if (st == RLX_OK)
        st = rx_gpu_arena_create(&d->memory, p, &e->arena_pool, e->places, err);
    if (st == RLX_OK)
        st = place_leaves(e, err);
    if (st != RLX_OK)
        goto fail;
    st = rx_fail_memory(err, "a lock", sizeof e->lock);
    if (!rx_mutex_init(&e->lock))
        goto fail;
    if (!rx_cond_init(&e->changed)) {
        rx_mutex_finish(&e->lock);
        goto fail;
    }
    *out = e;
    return RLX_OK;
fail:
    exec_free(e);
    return st;
}

void rx_wg_exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_wg_wait_idle(e, NULL);
    rx_cond_finish(&e->changed);
    rx_mutex_finish(&e->lock);
    exec_free(e);
}

/* ---- Host access ---------------------------------------------------------------------------- */

rx_gpu_place rx_wg_value_place(const rx_exec *e, uint32_t value)
{
    return rx_gpu_value_place(&e->values, e->weights, e->places, value);
}

/* True when an input has these bytes already. Else they are remembered, where there is room. */
static bool is_same_input(rx_exec *e, const rx_pvalue *v, size_t offset, const void *data,
                          size_t bytes)
{
    char **shadow = &e->shadows[v->index];
    uint64_t *valid = &e->shadow_bytes[v->index];
    if (e->device->force_upload || v->bytes > MAX_SHADOW)
        return false;
    if (!*shadow)
        *shadow = rx_alloc(v->bytes);
    if (!*shadow)
        return false;
    if (offset + bytes <= *valid && !memcmp(*shadow + offset, data, bytes))
        return true;
    if (offset > *valid) {
        *valid = 0;
        return false;
    }
    memcpy(*shadow + offset, data, bytes);
    *valid = offset + bytes;
    return false;
}

rlx_status rx_wg_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                            size_t bytes, rlx_error *err)
{
    const rx_pvalue *v = &e->program->values[value];
    if (v->space != RX_SPACE_INPUT && v->space != RX_SPACE_STATE)
        return rx_fail(err, RLX_INTERNAL, "value %u is neither an input nor a state",
                       (unsigned)value);
    if (!bytes || (v->space == RX_SPACE_INPUT && is_same_input(e, v, offset, data, bytes)))
        return RLX_OK;
    rx_gpu_place to = e->places[value];
    if (v->space == RX_SPACE_INPUT && offset == 0)
        to.bytes = bytes; /* what is behind these bytes is nobody's */
    if (v->space == RX_SPACE_STATE)
        e->fetched = 0; /* a result may be the state */
    rlx_status st = rx_wg_upload(e->device, &to, offset, data, bytes, err);
    if (st != RLX_OK && v->space == RX_SPACE_INPUT)
        e->shadow_bytes[v->index] = 0;
    return st;
}

/* The range that the last run fetched and that has these bytes. */
static rx_wg_want *find_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_wg_want *w = &e->wants[i];
        if (w->value == value && w->offset <= offset && offset + bytes <= w->offset + w->bytes)
            return w;
    }
    return NULL;
}

rlx_status rx_wg_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err)
{
    rx_gpu_place from = rx_wg_value_place(e, value);
    if (!bytes)
        return RLX_OK;
    if (!from.block)
        return rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    RLX_TRY(rx_wg_wait_idle(e, err));
    uint64_t at = offset + (uint64_t)(uintptr_t)e->values.views[value].data;
    rx_wg_want *w = find_want(e, value, at, bytes);
    const rx_wg_slot *slot = &e->slots[e->submitted % RX_WG_N_SLOTS];
    if (w)
        w->used = true;
    if (w && w->at && e->fetched == e->submitted && slot->map) {
        memcpy(data, slot->map + w->at + (at - w->offset), bytes);
        return RLX_OK;
    }
    if (!w)
        rx_wg_add_want(e, value, at, bytes);
    return rx_wg_download(e->device, &from, at, data, bytes, err);
}

uint32_t rx_wg_exec_flags(rx_exec *e)
{
    uint32_t flags = 0;
    if (rx_wg_wait_idle(e, NULL) != RLX_OK || !e->now || !e->now->uses_flags)
        return 0;
    const rx_wg_slot *slot = &e->slots[e->submitted % RX_WG_N_SLOTS];
    if (slot->map)
        memcpy(&flags, slot->map, sizeof flags);
    return flags;
}

const char *rx_wg_exec_kernel(rx_exec *e, size_t step)
{
    const char *name = atomic_load_explicit(&e->kernels[step], memory_order_relaxed);
    return name ? name : "not bound yet";
}
