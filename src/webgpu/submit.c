/* SPDX-License-Identifier: MIT */
/* Runs in flight. A run is one submit (or a few, where it would take long): packing of new weights,
 * the dispatches, and copies of the flags and of results that the host will want into a buffer that
 * is mapped when the run is done. */
#include <string.h>

#include "webgpu/device.h"

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Counts run done + 1 as done; e->lock is held. A failure takes the runs that wait with it. */
static void finish_run(rx_exec *e)
{
    rx_device *d = e->device;
    rx_wg_slot *slot = &e->slots[++e->done % RX_WG_N_SLOTS];
    rlx_error error = {0};
    rlx_status st = rx_wg_check_errors(d, &e->n_errors, "a run", &error);
    if (st == RLX_OK && slot->event->status != WGPU_STATUS_SUCCESS)
        st = rx_fail(&error, RLX_INTERNAL, "a run: %s says: %.300s", d->lib->name,
                     slot->event->text);
    if (st == RLX_OK && slot->bytes) {
        rx_wg_enter(d->lib);
        slot->map = d->lib->BufferGetConstMappedRange(slot->readback.buffer, 0,
                                                      (size_t)slot->bytes);
        rx_wg_leave(d->lib);
        if (!slot->map)
            st = rx_fail(&error, RLX_INTERNAL, "a run: %s maps nothing", d->lib->name);
    }
    if (st == RLX_OK)
        return;
    e->fail_first = e->done;
    e->fail_last = e->submitted;
    e->error = error;
}

/* One thread at a time waits for the oldest run, the others for that thread. The lock is held, and
 * given up while waiting. False when the deadline has passed, or when waiting is not possible. */
static bool wait_oldest(rx_exec *e, int64_t deadline_ns)
{
    if (e->polling && deadline_ns < 0) {
        rx_cond_wait(&e->changed, &e->lock);
        return true;
    }
    if (e->polling)
        return rx_cond_wait_until(&e->changed, &e->lock, deadline_ns) || rx_now_ns() < deadline_ns;
    rx_device *d = e->device;
    const rx_wg_slot *slot = &e->slots[(e->done + 1) % RX_WG_N_SLOTS];
    const rx_wg_event *event = slot->event;
    const uint64_t index = slot->index;
    e->polling = true;
    rx_mutex_unlock(&e->lock);
    bool ended = rx_wg_wait(d->lib, &(rx_wg_work){d->handle, index, &d->watch->lost}, event,
                            deadline_ns);
    rx_mutex_lock(&e->lock);
    e->polling = false;
    if (ended)
        finish_run(e);
    rx_cond_broadcast(&e->changed);
    return ended;
}

rlx_status rx_wg_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    int64_t deadline = -1;
    if (timeout_ms >= 0 &&
        (__builtin_mul_overflow(timeout_ms, (int64_t)1000000, &deadline) ||
         __builtin_add_overflow(deadline, rx_now_ns(), &deadline)))
        deadline = -1;
    rlx_status st = RLX_OK;
    rx_mutex_lock(&e->lock);
    while (e->done < ticket && st == RLX_OK)
        if (!wait_oldest(e, deadline) && e->done < ticket)
            st = deadline < 0 ? rx_fail(err, RLX_TIMEOUT, "run %llu is not done and the browser "
                                        "cannot wait for it", (unsigned long long)ticket)
                              : rx_fail(err, RLX_TIMEOUT, "run %llu was not done after %lld ms",
                                        (unsigned long long)ticket, (long long)timeout_ms);
    if (st == RLX_OK && e->fail_first && ticket >= e->fail_first && ticket <= e->fail_last)
        st = rx_fail(err, e->error.code, "%s", e->error.text);
    rx_mutex_unlock(&e->lock);
    return st;
}

rlx_status rx_wg_wait_idle(rx_exec *e, rlx_error *err)
{
    rx_mutex_lock(&e->lock);
    uint64_t last = e->submitted;
    rx_mutex_unlock(&e->lock);
    return last ? rx_wg_exec_wait(e, last, -1, err) : RLX_OK;
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
    const rx_program *p = e->program;
    e->n_wants = 0;
    for (size_t i = 0; i < p->n_outputs; i++) {
        uint32_t value = p->outputs[i].value;
        uint64_t begin, end;
        rx_gpu_extent(&e->values.views[value], &begin, &end);
        if (rx_wg_value_place(e, value).block)
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
    rx_mutex_lock(&e->lock);
    s->ticket = e->submitted + 1;
    rx_mutex_unlock(&e->lock);
    s->slot = &e->slots[s->ticket % RX_WG_N_SLOTS];
    if (s->ticket > RX_WG_N_SLOTS) {
        rlx_status st = rx_wg_exec_wait(e, s->ticket - RX_WG_N_SLOTS, -1, err);
        if (st == RLX_DEVICE_LOST || st == RLX_TIMEOUT)
            return st;
    }
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
    const rx_wg_recording *r = e->now;
    for (size_t i = 0; i < r->n_derived; i++) {
        rx_gpu_packed *x = r->derived[i];
        if (x->version == e->weights->items[x->item].version)
            continue;
        rx_wg_encode(e->device, to, &x->pack->dispatch, 1);
        x->version = e->weights->items[x->item].version;
    }
}

static void encode_fetch(const submission *s, WGPUCommandEncoder to)
{
    rx_exec *e = s->e;
    rx_wg_library *lib = e->device->lib;
    WGPUBuffer buffer = s->slot->readback.buffer;
    if (e->now->uses_flags)
        lib->CommandEncoderCopyBufferToBuffer(to, e->flags.block->buffer, e->flags.offset, buffer,
                                              0, 4);
    for (size_t i = 0; s->whole && i < e->n_wants; i++) {
        const rx_wg_want *w = &e->wants[i];
        rx_gpu_place p = rx_wg_value_place(e, w->value);
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
    const rx_wg_recording *r = e->now;
    size_t at = s->first;
    do {
        size_t stop = at < s->end ? rx_gpu_piece_end(&e->values, &d->caps, at) : s->end;
        stop = stop < s->end ? stop : s->end;
        WGPUCommandEncoder to = lib->DeviceCreateCommandEncoder(d->handle, NULL);
        if (!to)
            return false;
        if (at == s->first)
            encode_packing(e, to);
        if (at == 0 && r->uses_flags)
            lib->CommandEncoderClearBuffer(to, e->flags.block->buffer, e->flags.offset, 4);
        rx_wg_encode(d, to, r->list + r->first[at], r->first[stop] - r->first[at]);
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
    RLX_TRY(take_slot(s, fetch || e->now->uses_flags ? bytes : 0, err));
    rx_mutex_lock(&e->weights->lock);
    rx_wg_enter(d->lib);
    bool ok = encode_steps(s);
    if (ok)
        watch_run(s);
    rx_wg_leave(d->lib);
    rx_mutex_unlock(&e->weights->lock);
    if (!ok)
        return rx_fail_memory(err, "encoding a run", 0);
    rx_mutex_lock(&e->lock);
    e->submitted = s->ticket;
    rx_mutex_unlock(&e->lock);
    e->fetched = fetch ? s->ticket : 0;
    return RLX_OK;
}

rlx_status rx_wg_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    submission run = {.e = e, .first = s->first_step, .end = s->first_step + s->n_steps,
                      .whole = s->first_step == 0 && s->n_steps == e->program->n_steps};
    *ticket = 0;
    if (!e->now)
        return rx_fail(err, RLX_INTERNAL, "the program is not bound");
    if (!run.whole)
        RLX_TRY(rx_wg_unfold(e, err));
    RLX_TRY(submit_steps(&run, err));
    *ticket = run.ticket;
    return s->async ? RLX_OK : rx_wg_exec_wait(e, *ticket, -1, err);
}
