/* SPDX-License-Identifier: MIT */
/* Runs in flight. A run is one submit (or a few, where it would take long): packing of new weights,
 * the dispatches, and copies of the flags and of results that the host will want into a buffer that
 * is mapped when the run is done. */
#include <string.h>

#include "webgpu/device.h"

/* ---- Waiting -------------------------------------------------------------------------------- */

bool rx_wg_run_wait(rx_exec *e, uint64_t ticket, int64_t deadline_ns)
{
    rx_device *d = e->device;
    const rx_wg_slot *slot = &e->slots[ticket % RX_GPU_N_SLOTS];
    return rx_wg_wait(d->lib, &(rx_wg_work){d->handle, slot->index, &d->watch->lost}, slot->event,
                      deadline_ns);
}

rlx_status rx_wg_run_end(rx_exec *e, uint64_t ticket, rlx_error *err)
{
    rx_device *d = e->device;
    rx_wg_slot *slot = &e->slots[ticket % RX_GPU_N_SLOTS];
    RLX_TRY(rx_wg_check_errors(d, &e->n_errors, "a run", err));
    if (slot->event->status != WGPU_STATUS_SUCCESS)
        return rx_fail(err, RLX_INTERNAL, "a run: %s says: %.300s", d->lib->name,
                       slot->event->text);
    if (!slot->bytes)
        return RLX_OK;
    rx_wg_enter(d->lib);
    slot->map = d->lib->BufferGetConstMappedRange(slot->readback.buffer, 0, (size_t)slot->bytes);
    rx_wg_leave(d->lib);
    return slot->map ? RLX_OK
                     : rx_fail(err, RLX_INTERNAL, "a run: %s maps nothing", d->lib->name);
}

rlx_status rx_wg_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    return rx_gpu_runs_wait(&e->base.runs, ticket, timeout_ms, err);
}

/* ---- Results for the host ------------------------------------------------------------------- */

/* Larger results are read when they are asked for. Browsers cannot wait for that. */
#ifdef __wasm__
#define MAX_WANT ((uint64_t)256 << 20)
#else
#define MAX_WANT ((uint64_t)4 << 20)
#endif

void rx_wg_add_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    uint64_t begin = offset & ~(uint64_t)3, end = (offset + bytes + 3) & ~(uint64_t)3;
    uint64_t total = 16 + end - begin;
    for (size_t i = 0; i < e->n_wants; i++)
        total += e->wants[i].bytes + 16;
    if (!bytes || total > MAX_WANT || total > e->device->gpu.max_block_bytes ||
        e->n_wants == RX_WG_N_WANTS || e->device->no_fetch)
        return;
    e->wants[e->n_wants++] = (rx_wg_want){.value = value, .offset = begin, .bytes = end - begin,
                                          .used = true};
}

void rx_wg_want_outputs(rx_exec *e)
{
    const rx_program *p = e->base.program;
    e->n_wants = 0;
    for (size_t i = 0; i < p->n_outputs; i++) {
        uint32_t value = p->outputs[i].value;
        uint64_t begin, end;
        rx_gpu_extent(&e->base.values.views[value], &begin, &end);
        if (rx_gpu_exec_place(&e->base, value).block)
            rx_wg_add_want(e, value, begin, end - begin);
    }
}

/* Forgets ranges that were not read since the last run, and gives the others their places behind
 * the flags. Returns how many bytes there are. */
static uint64_t place_wants(rx_exec *e)
{
    size_t n = 0;
    uint64_t at = 16;
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_wg_want w = e->wants[i];
#ifndef __wasm__
        if (!w.used)
            continue;
#endif
        w.used = false;
        w.at = at;
        at += (w.bytes + 15) & ~(uint64_t)15;
        e->wants[n++] = w;
    }
    e->n_wants = n;
    return at;
}

void rx_wg_slot_clear(rx_device *d, rx_wg_slot *s)
{
    rx_wg_enter(d->lib);
    if (s->mapping)
        d->lib->BufferUnmap(s->readback.buffer);
    rx_wg_leave(d->lib);
    rx_wg_event_give(d->lib, s->event);
    s->mapping = false;
    s->event = NULL;
    s->map = NULL;
    s->bytes = 0;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

typedef struct submission {
    rx_exec *e;
    rx_wg_slot *slot;
    uint64_t ticket;
    size_t first, end; /* steps */
    bool whole;
} submission;

static void on_done(WGPUEnum status, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    rx_wg_event_end(lib, e, m);
}

/* The slot of the next run, once the run that used it is done, with room for `bytes`. */
static rlx_status take_slot(submission *s, uint64_t bytes, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    RLX_TRY(rx_gpu_runs_next(&e->base.runs, &s->ticket, err));
    s->slot = &e->slots[s->ticket % RX_GPU_N_SLOTS];
    rx_wg_slot_clear(d, s->slot);
    s->slot->event = rx_wg_event_take(d->lib);
    if (!s->slot->event)
        return rx_fail_memory(err, "a run", sizeof *s->slot->event);
    if (bytes > s->slot->readback.bytes) {
        rx_wg_block_destroy(d, &s->slot->readback);
        RLX_TRY(rx_wg_block_create(d, RX_WG_READBACK, bytes, "results for the host",
                                   &s->slot->readback, err));
    }
    s->slot->bytes = bytes;
    return RLX_OK;
}

/* Packed forms of weights that have changed. The weights are locked. */
static void encode_packing(rx_exec *e, WGPUCommandEncoder to)
{
    const rx_gpu_recording *r = e->base.now;
    for (size_t i = 0; i < r->n_derived; i++) {
        const rx_gpu_packed *x = r->derived[i];
        if (rx_gpu_packed_is_old(e->base.weights, x))
            rx_wg_encode(e->device, to, &x->pack->dispatch, 1);
    }
}

static void encode_fetch(const submission *s, WGPUCommandEncoder to)
{
    rx_exec *e = s->e;
    rx_wg_library *lib = e->device->lib;
    WGPUBuffer buffer = s->slot->readback.buffer;
    const rx_gpu_place *flags = &e->base.flags;
    if (e->base.now->uses_flags)
        lib->CommandEncoderCopyBufferToBuffer(to, flags->block->buffer, flags->offset, buffer, 0,
                                              4);
    for (size_t i = 0; s->whole && i < e->n_wants; i++) {
        const rx_wg_want *w = &e->wants[i];
        rx_gpu_place p = rx_gpu_exec_place(&e->base, w->value);
        lib->CommandEncoderCopyBufferToBuffer(to, p.block->buffer, p.offset + w->offset, buffer,
                                              w->at, w->bytes);
    }
}

/* Encodes and submits the steps, in pieces bounded in time. rx_wg_enter was called. */
static bool encode_steps(const submission *s)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    rx_wg_library *lib = d->lib;
    const rx_gpu_recording *r = e->base.now;
    const rx_gpu_place *flags = &e->base.flags;
    size_t at = s->first;
    do {
        size_t stop = at < s->end ? rx_gpu_piece_end(&e->base.values, &d->caps, at) : s->end;
        stop = stop < s->end ? stop : s->end;
        WGPUCommandEncoder to = lib->DeviceCreateCommandEncoder(d->handle, NULL);
        if (!to)
            return false;
        if (at == s->first)
            encode_packing(e, to);
        if (at == 0 && r->uses_flags)
            lib->CommandEncoderClearBuffer(to, flags->block->buffer, flags->offset, 4);
        rx_wg_encode(d, to, r->commands->list + r->first[at], r->first[stop] - r->first[at]);
        if (stop == s->end && s->slot->bytes)
            encode_fetch(s, to);
        s->slot->index = rx_wg_submit(d, to);
        at = stop;
    } while (at < s->end);
    return true;
}

/* Asks to be told when the run is done. */
static void watch_run(const submission *s)
{
    rx_device *d = s->e->device;
    rx_wg_library *lib = d->lib;
    rx_wg_slot *slot = s->slot;
    if (slot->bytes) {
        slot->mapping = true;
        lib->BufferMapAsync(slot->readback.buffer, WGPU_MAP_READ, 0, (size_t)slot->bytes,
                            (WGPUBufferMapCallbackInfo){.mode = WGPU_CALLBACK_PROCESS_EVENTS,
                                                        .callback = on_done,
                                                        .userdata1 = slot->event,
                                                        .userdata2 = lib});
    } else
        lib->QueueOnSubmittedWorkDone(d->queue,
                                      (WGPUQueueWorkDoneCallbackInfo){
                                          .mode = WGPU_CALLBACK_PROCESS_EVENTS,
                                          .callback = on_done, .userdata1 = slot->event,
                                          .userdata2 = lib});
}

static rlx_status submit_steps(submission *s, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    RLX_TRY(rx_wg_check(d, "submitting a run", err));
    uint64_t bytes = s->whole ? place_wants(e) : 16;
    bool fetch = s->whole && e->n_wants;
    RLX_TRY(take_slot(s, fetch || e->base.now->uses_flags ? bytes : 0, err));
    rx_mutex_lock(&e->base.weights->lock);
    rx_wg_enter(d->lib);
    bool ok = encode_steps(s);
    if (ok)
        watch_run(s);
    rx_wg_leave(d->lib);
    if (ok)
        rx_gpu_exec_packed(&e->base);
    rx_mutex_unlock(&e->base.weights->lock);
    if (!ok)
        return rx_fail_memory(err, "encoding a run", 0);
    rx_gpu_runs_begin(&e->base.runs);
    e->fetched = fetch ? s->ticket : 0;
    return RLX_OK;
}

rlx_status rx_wg_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    submission run = {.e = e, .first = s->first_step, .end = s->first_step + s->n_steps,
                      .whole = s->first_step == 0 && s->n_steps == e->base.program->n_steps};
    *ticket = 0;
    if (!e->base.now)
        return rx_fail(err, RLX_INTERNAL, "the program is not bound");
    if (!run.whole || s->timed)
        RLX_TRY(rx_gpu_exec_bind_single(&e->base, err));
    if (run.first == 0)
        e->base.has_flags = e->base.now->uses_flags;
    RLX_TRY(submit_steps(&run, err));
    *ticket = run.ticket;
    return s->async ? RLX_OK : rx_wg_exec_wait(e, *ticket, -1, err);
}
