/* SPDX-License-Identifier: MIT */
/* Runs in flight. A run is one submit (or a few, where encoding would take long): packing of new
 * weights, the dispatches, then copies of the flags and of results that the host is expected to
 * read into a buffer that is mapped when the run is done. */
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

/* Larger results are read on demand. Browsers cannot wait for that. */
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
    e->wants[e->n_wants++] = (rx_wg_want){.value = value, .offset = begin, .bytes = end - begin};
}

void rx_wg_want_outputs(rx_exec *e)
{
    const rx_program *p = e->base.program;
    e->n_wants = 0;
    for (size_t i = 0; i < p->n_outputs; i++) {
        uint32_t value = p->outputs[i].value;
        uint64_t begin, end;
        rx_gpu_extent(&e->base.values.bound.views[value], &begin, &end);
        if (rx_gpu_exec_place(&e->base, value).block &&
            !e->base.buffers[rx_port_index(p, RLX_LEAF_OUTPUT, i)])
            rx_wg_add_want(e, value, begin, end - begin);
    }
}

/* Runs after which a range that the host has not read is no longer copied. */
#define MAX_IDLE 3

/* Drops ranges that were not read lately, and assigns offsets after the flags to the others.
 * Returns the number of bytes. */
static uint64_t place_wants(rx_exec *e)
{
    size_t n = 0;
    uint64_t at = 16;
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_wg_want w = e->wants[i];
#ifndef __wasm__
        if (w.idle >= MAX_IDLE)
            continue;
#endif
        w.idle++;
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

/* ---- The device's clock --------------------------------------------------------------------- */

static bool has_clock(rx_exec *e)
{
    rx_device *d = e->device;
    rx_wg_clock *c = &e->clock;
    const WGPUQuerySetDescriptor info = {.label = {"rlx", 3}, .type = WGPU_QUERY_TIMESTAMP,
                                         .count = 2};
    if (!d->gpu.timestamps || c->stamps)
        return c->stamps != NULL;
    if (rx_wg_block_create(d, WGPU_USAGE_QUERY_RESOLVE | WGPU_USAGE_COPY_SRC, 16, "timestamps",
                           &c->ticks, NULL) != RLX_OK)
        return false;
    rx_wg_enter(d->lib);
    c->stamps = d->lib->DeviceCreateQuerySet(d->handle, &info);
    rx_wg_leave(d->lib);
    return c->stamps != NULL;
}

double rx_wg_exec_seconds(rx_exec *e)
{
    rx_device *d = e->device;
    uint64_t t[2];
    const rx_gpu_place ticks = {&e->clock.ticks, 0, sizeof t};
    if (!e->clock.is_written || rx_wg_download(d, &ticks, 0, t, sizeof t, NULL) != RLX_OK ||
        t[1] < t[0])
        return -1;
    /* WebGPU's unit is a nanosecond; wgpu-native gives the ticks of the device. */
    const double period = d->lib->QueueGetTimestampPeriod
                              ? (double)d->lib->QueueGetTimestampPeriod(d->queue) : 1;
    return (double)(t[1] - t[0]) * period * 1e-9;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

typedef struct submission {
    rx_exec *e;
    rx_wg_slot *slot;
    uint64_t ticket;
    size_t first, end; /* steps */
    bool whole, timed;
    bool ahead; /* another run is still in flight */
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
    s->slot->ticket = s->ticket;
    s->slot->n_wants = s->whole ? e->n_wants : 0;
    memcpy(s->slot->wants, e->wants, s->slot->n_wants * sizeof *e->wants);
    return RLX_OK;
}

/* Packed forms of weights that have changed. The weights are locked. */
static void encode_packing(rx_exec *e, WGPUCommandEncoder to)
{
    const rx_gpu_recording *r = e->base.now;
    for (size_t i = 0; i < r->n_derived; i++) {
        const rx_gpu_packed *x = r->derived[i];
        if (rx_gpu_packed_is_old(x))
            rx_wg_encode(e->device, to, &x->pack->dispatch, 1, NULL);
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

/* Whole words: rx_wg_exec_bind has checked where they begin, and buffers are padded to whole
 * words. */
static void encode_copies(rx_exec *e, WGPUCommandEncoder to)
{
    rx_gpu_copy c;
    for (size_t i = 0; i < e->base.program->n_outputs; i++)
        if (rx_gpu_exec_copy(&e->base, i, &c))
            e->device->lib->CommandEncoderCopyBufferToBuffer(
                to, c.from.block->buffer, c.from.offset, c.to.block->buffer, c.to.offset,
                (c.to.bytes + 3) & ~(uint64_t)3);
}

void rx_wg_encode_feeds(rx_exec *e, WGPUCommandEncoder to)
{
    for (size_t i = 0; i < e->n_feeds; i++) {
        const rx_wg_feed *f = &e->feeds[i];
        e->device->lib->CommandEncoderCopyBufferToBuffer(to, f->from.block->buffer, f->from.offset,
                                                         f->to.block->buffer, f->to.offset,
                                                         f->bytes);
    }
    e->n_feeds = 0;
}

/* Encoding a dispatch takes the host about as long as the GPU takes for a small one: submitting
 * after so many lets both work in parallel. While the GPU is busy with another run, more submits
 * only cost time. On software adapters host and device are the same processor. */
#define PIECE_DISPATCHES 32

/* The end of the dispatches that are submitted with `at`: those of a piece of the list; all for a
 * partial run. */
static size_t find_piece_end(const submission *s, size_t at)
{
    const rx_commands *c = s->e->base.now->commands;
    const bool cut = s->whole && !s->ahead && !s->e->device->base.caps.is_software;
    const size_t most = cut ? PIECE_DISPATCHES : c->n;
    size_t end = at;
    while (end < c->n && end - at < most &&
           (!s->whole || c->list[end].piece == c->list[at].piece))
        end++;
    return end;
}

/* Whether some of the dispatches from `at` up to `stop` are of the steps to run. */
static bool has_work(const submission *s, size_t at, size_t stop)
{
    const rx_wg_dispatch *list = s->e->base.now->commands->list;
    while (at < stop && (list[at].step < s->first || list[at].step >= s->end))
        at++;
    return at < stop;
}

/* Encodes dispatches from `at` up to `stop`. Timed ones are a single pass. */
static void encode_piece(const submission *s, WGPUCommandEncoder to, size_t at, size_t stop)
{
    rx_exec *e = s->e;
    rx_wg_clock *c = &e->clock;
    const rx_commands *all = e->base.now->commands;
    const bool work = has_work(s, at, stop);
    const bool timed = s->timed && work && at == 0 && stop == all->n;
    const WGPUPassTimestampWrites stamps = {.querySet = c->stamps, .beginningOfPassWriteIndex = 0,
                                            .endOfPassWriteIndex = 1};
    const rx_wg_part part = {s->first, s->end, timed ? &stamps : NULL};
    if (work)
        rx_wg_encode(e->device, to, all->list + at, stop - at, &part);
    if (timed)
        e->device->lib->CommandEncoderResolveQuerySet(to, c->stamps, 0, 2, c->ticks.buffer, 0);
    c->is_written = timed;
}

/* Encodes and submits the steps in pieces. rx_wg_enter was called. */
static bool encode_steps(const submission *s)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    rx_wg_library *lib = d->lib;
    const rx_gpu_recording *r = e->base.now;
    const rx_commands *c = r->commands;
    const rx_gpu_place *flags = &e->base.flags;
    size_t at = 0;
    do {
        const size_t stop = find_piece_end(s, at);
        WGPUCommandEncoder to = lib->DeviceCreateCommandEncoder(d->handle, NULL);
        if (!to)
            return false;
        if (at == 0) {
            rx_wg_encode_feeds(e, to);
            encode_packing(e, to);
        }
        if (at == 0 && s->first == 0 && r->uses_flags)
            lib->CommandEncoderClearBuffer(to, flags->block->buffer, flags->offset, 4);
        encode_piece(s, to, at, stop);
        if (stop == c->n && s->end == e->base.program->n_steps)
            encode_copies(e, to);
        if (stop == c->n && s->slot->bytes)
            encode_fetch(s, to);
        s->slot->index = rx_wg_submit(d, to);
        at = stop;
    } while (at < c->n);
    return true;
}

/* Requests the completion callback. */
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
    s->ahead = rx_gpu_runs_under_way(&e->base.runs);
    rx_gpu_weights_lock(e->base.weights);
    rx_wg_enter(d->lib);
    bool ok = encode_steps(s);
    if (ok)
        watch_run(s);
    rx_wg_leave(d->lib);
    if (ok)
        rx_gpu_exec_packed(&e->base);
    rx_gpu_weights_unlock(e->base.weights);
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
    RLX_TRY(rx_gpu_exec_begin(&e->base, s, err));
    run.timed = s->timed && has_clock(e);
    RLX_TRY(submit_steps(&run, err));
    *ticket = run.ticket;
    return s->async ? RLX_OK : rx_wg_exec_wait(e, *ticket, -1, err);
}
