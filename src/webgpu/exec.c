/* SPDX-License-Identifier: MIT */
/* A program on the device: its memory, and host access to inputs, states and results. */
#include <string.h>

#include "webgpu/device.h"

/* Inputs up to this size are compared with the device's copy before they are sent again. */
#define MAX_SHADOW ((uint64_t)1 << 20)

/* ---- Creation ------------------------------------------------------------------------------- */

rlx_status rx_wg_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                             rx_exec **out, rlx_error *err)
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
    e->base = (rx_gpu_exec){.driver = &driver, .exec = e, .caps = &d->base.caps, .program = p,
                            .weights = w};
    rlx_status st = rx_gpu_exec_init(&e->base, buffers, err);
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
    if (e->clock.stamps) {
        rx_wg_enter(d->lib);
        d->lib->QuerySetRelease(e->clock.stamps);
        rx_wg_leave(d->lib);
    }
    rx_wg_block_destroy(d, &e->clock.ticks);
    for (size_t i = 0; e->shadows && i < e->base.program->n_inputs; i++)
        rx_free(e->shadows[i]);
    rx_gpu_exec_finish(&e->base);
    rx_free(e);
}

/* WebGPU copies whole words: outputs that do not begin at one are refused at binding. */
static rlx_status check_copies(const rx_exec *e, rlx_error *err)
{
    const rx_program *p = e->base.program;
    rx_gpu_copy c;
    for (size_t i = 0; i < p->n_outputs; i++)
        if (rx_gpu_exec_copy(&e->base, i, &c) && c.from.offset % 4)
            return rx_fail(err, RLX_UNSUPPORTED, "output '%s' begins at byte %llu of another "
                           "tensor: webgpu copies whole words to its buffer", p->outputs[i].name,
                           (unsigned long long)c.from.offset);
    return RLX_OK;
}

rlx_status rx_wg_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    const bool same = rx_gpu_exec_is_bound(&e->base, dims);
    RLX_TRY(rx_gpu_exec_bind(&e->base, dims, err));
    if (!same)
        rx_wg_want_outputs(e);
    return check_copies(e, err);
}

rlx_status rx_wg_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err)
{
    e->fetched = 0; /* places may change */
    return rx_gpu_exec_use(&e->base, port, b, err);
}

/* ---- Host access ---------------------------------------------------------------------------- */

/* True when an input has these bytes already. Else they are recorded where there is room. */
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

/* a later write wins */
static void drop_feed(rx_exec *e, uint32_t input)
{
    size_t n = 0;
    for (size_t i = 0; i < e->n_feeds; i++)
        if (e->feeds[i].input != input)
            e->feeds[n++] = e->feeds[i];
    e->n_feeds = n;
}

rlx_status rx_wg_exec_feed(rx_exec *e, uint32_t input, uint32_t output, size_t bytes,
                           rlx_error *err)
{
    const rx_gpu_place to = e->base.places[input];
    rx_gpu_place from = rx_gpu_exec_place(&e->base, output);
    from.offset += (uint64_t)(uintptr_t)e->base.values.bound.views[output].data;
    drop_feed(e, input);
    /* WebGPU copies whole words, from one buffer to another. */
    if (!from.block || from.block == to.block || bytes % 4 || from.offset % 4 || to.offset % 4 ||
        e->n_feeds == RX_WG_N_FEEDS)
        return rx_fail(err, RLX_UNSUPPORTED, "webgpu: %zu bytes of value %u cannot be copied to "
                       "value %u on the device", bytes, (unsigned)output, (unsigned)input);
    e->shadow_bytes[e->base.program->values[input].index] = 0;
    e->feeds[e->n_feeds++] = (rx_wg_feed){input, to, from, bytes};
    return RLX_OK;
}

/* Submits pending feeds before the input is read. */
static rlx_status flush_feeds(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    if (!e->n_feeds)
        return RLX_OK;
    rx_wg_enter(d->lib);
    WGPUCommandEncoder to = d->lib->DeviceCreateCommandEncoder(d->handle, NULL);
    if (to) {
        rx_wg_encode_feeds(e, to);
        rx_wg_submit(d, to);
    }
    rx_wg_leave(d->lib);
    return to ? RLX_OK : rx_fail_memory(err, "feeding an input", 0);
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
    drop_feed(e, value);
    rx_gpu_place to = e->base.places[value];
    if (v->space == RX_SPACE_INPUT && offset == 0)
        to.bytes = bytes; /* the rest is padding */
    if (v->space == RX_SPACE_STATE)
        e->fetched = 0; /* a result may share memory with the state */
    rlx_status st = rx_wg_upload(e->device, &to, offset, data, bytes, err);
    if (st != RLX_OK && v->space == RX_SPACE_INPUT)
        e->shadow_bytes[v->index] = 0;
    return st;
}

/* The range of a list that has these bytes; NULL: none. */
static rx_wg_want *find_want(rx_wg_want *list, size_t n, const rx_range *r)
{
    for (size_t i = 0; i < n; i++) {
        rx_wg_want *w = &list[i];
        if (w->value == r->value && w->offset <= r->offset &&
            r->offset + r->bytes <= w->offset + w->bytes)
            return w;
    }
    return NULL;
}

/* What a run has copied of a range, which is wanted again; NULL: nothing. The run is done. */
static const char *find_fetched(rx_exec *e, uint64_t ticket, const rx_range *r)
{
    rx_wg_slot *slot = &e->slots[ticket % RX_GPU_N_SLOTS];
    rx_wg_want *again = find_want(e->wants, e->n_wants, r);
    if (again)
        again->idle = 0;
    if (!ticket || slot->ticket != ticket || !slot->map)
        return NULL;
    const rx_wg_want *w = find_want(slot->wants, slot->n_wants, r);
    return w ? slot->map + w->at + (r->offset - w->offset) : NULL;
}

rlx_status rx_wg_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err)
{
    rx_gpu_place from = rx_gpu_exec_place(&e->base, value);
    if (!bytes)
        return RLX_OK;
    if (!from.block)
        return rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    RLX_TRY(flush_feeds(e, err));
    RLX_TRY(rx_gpu_runs_wait_all(&e->base.runs, err));
    const rx_view *view = &e->base.values.bound.views[value];
    const rx_range r = {.value = value, .bytes = bytes,
                        .offset = offset + (size_t)(uintptr_t)view->data};
    const bool is_last = e->fetched == e->base.runs.submitted;
    const char *fetched = find_fetched(e, is_last ? e->fetched : 0, &r);
    if (fetched) {
        memcpy(data, fetched, bytes);
        return RLX_OK;
    }
    if (!find_want(e->wants, e->n_wants, &r) && !e->base.partial)
        rx_wg_add_want(e, value, r.offset, bytes);
    return rx_wg_download(e->device, &from, r.offset, data, bytes, err);
}

rlx_status rx_wg_exec_read_run(rx_exec *e, uint64_t ticket, const rx_range *r, void *data,
                               rlx_error *err)
{
    const uint64_t at = (uint64_t)(uintptr_t)e->base.values.bound.views[r->value].data;
    const rx_range range = {.value = r->value, .offset = r->offset + (size_t)at,
                            .bytes = r->bytes};
    const bool kept = ticket && ticket + 1 >= e->base.runs.submitted &&
                      e->slots[ticket % RX_GPU_N_SLOTS].ticket == ticket;
    if (kept)
        RLX_TRY(rx_gpu_runs_wait(&e->base.runs, ticket, -1, err));
    const char *fetched = kept ? find_fetched(e, ticket, &range) : NULL;
    if (!fetched)
        return rx_fail(err, RLX_UNSUPPORTED, "webgpu: the result of run %llu is no longer kept",
                       (unsigned long long)ticket);
    memcpy(data, fetched, r->bytes);
    return RLX_OK;
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
