/* SPDX-License-Identifier: MIT */
/* A program on the device: its memory, and host access to inputs, states and results. */
#include <string.h>

#include "webgpu/device.h"

/* Inputs up to this size are compared with what the device has before they are sent again. */
#define MAX_SHADOW ((uint64_t)1 << 20)

/* ---- Creation ------------------------------------------------------------------------------- */

rlx_status rx_wg_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_exec **out,
                             rlx_error *err)
{
    static const rx_gpu_driver driver = {.record = rx_wg_commands_create,
                                         .forget = rx_wg_commands_destroy,
                                         .wait = rx_wg_run_wait, .end = rx_wg_run_end};
    *out = NULL;
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->device = d;
    e->n_errors = atomic_load(&d->watch->n_errors);
    e->base = (rx_gpu_exec){.driver = &driver, .exec = e, .caps = &d->caps, .program = p,
                            .weights = w};
    rlx_status st = rx_gpu_exec_init(&e->base, err);
    if (st != RLX_OK) {
        rx_free(e);
        return st;
    }
    rx_arena *a = &e->base.arena;
    e->shadow_bytes = rx_arena_array_zero(a, p->n_inputs, sizeof *e->shadow_bytes);
    e->shadows = rx_arena_array_zero(a, p->n_inputs, sizeof *e->shadows);
    if (!e->shadow_bytes || !e->shadows) {
        rx_wg_exec_destroy(e);
        return rx_fail_memory(err, "the inputs of the program", p->n_inputs * sizeof *e->shadows);
    }
    *out = e;
    return RLX_OK;
}

void rx_wg_exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_device *d = e->device;
    rx_gpu_runs_wait_all(&e->base.runs, NULL);
    for (size_t i = 0; i < RX_GPU_N_SLOTS; i++) {
        rx_wg_slot_clear(d, &e->slots[i]);
        rx_wg_block_destroy(d, &e->slots[i].readback);
    }
    for (size_t i = 0; e->shadows && i < e->base.program->n_inputs; i++)
        rx_free(e->shadows[i]);
    rx_gpu_exec_finish(&e->base);
    rx_free(e);
}

rlx_status rx_wg_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    const bool same = rx_gpu_exec_is_bound(&e->base, dims);
    RLX_TRY(rx_gpu_exec_bind(&e->base, dims, err));
    if (!same)
        rx_wg_want_outputs(e);
    return RLX_OK;
}

/* ---- Host access ---------------------------------------------------------------------------- */

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
    const rx_pvalue *v = &e->base.program->values[value];
    if (v->space != RX_SPACE_INPUT && v->space != RX_SPACE_STATE)
        return rx_fail(err, RLX_INTERNAL, "value %u is neither an input nor a state",
                       (unsigned)value);
    if (!bytes || (v->space == RX_SPACE_INPUT && is_same_input(e, v, offset, data, bytes)))
        return RLX_OK;
    rx_gpu_place to = e->base.places[value];
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
    rx_gpu_place from = rx_gpu_exec_place(&e->base, value);
    if (!bytes)
        return RLX_OK;
    if (!from.block)
        return rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    RLX_TRY(rx_gpu_runs_wait_all(&e->base.runs, err));
    uint64_t at = offset + (uint64_t)(uintptr_t)e->base.values.views[value].data;
    rx_wg_want *w = find_want(e, value, at, bytes);
    const rx_wg_slot *slot = &e->slots[e->base.runs.submitted % RX_GPU_N_SLOTS];
    if (w)
        w->used = true;
    if (w && w->at && e->fetched == e->base.runs.submitted && slot->map) {
        memcpy(data, slot->map + w->at + (at - w->offset), bytes);
        return RLX_OK;
    }
    if (!w && !e->base.single)
        rx_wg_add_want(e, value, at, bytes);
    return rx_wg_download(e->device, &from, at, data, bytes, err);
}

uint32_t rx_wg_exec_flags(rx_exec *e)
{
    uint32_t flags = 0;
    if (rx_gpu_runs_wait_all(&e->base.runs, NULL) != RLX_OK || !e->base.has_flags)
        return 0;
    const rx_wg_slot *slot = &e->slots[e->base.runs.submitted % RX_GPU_N_SLOTS];
    if (slot->map)
        memcpy(&flags, slot->map, sizeof flags);
    return flags;
}

const char *rx_wg_exec_kernel(rx_exec *e, size_t step)
{
    return rx_gpu_exec_kernel(&e->base, step);
}
