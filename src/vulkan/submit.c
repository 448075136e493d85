/* SPDX-License-Identifier: MIT */
/* Runs in flight. A run is one submit: copies of new inputs and packing of new weights in a command
 * buffer of its own, the recorded pieces, and the fetching of results that were read last time. */
#include <string.h>

#include "vulkan/device.h"

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Messages of the validation layer fail the run during which they came. e->lock is held. */
static rlx_status check_messages(rx_exec *e, rlx_error *err)
{
    char text[512];
    uint64_t n = rx_vk_messages(NULL, 0);
    if (n == e->n_messages)
        return RLX_OK;
    e->n_messages = n;
    rx_vk_messages(text, sizeof text);
    return rx_fail(err, RLX_INTERNAL, "Vulkan validation: %.400s", text);
}

/* Counts run done + 1 as done; e->lock is held. A failure takes the runs that wait with it. */
static void finish_run(rx_exec *e, VkResult r)
{
    rlx_error error = {0};
    rlx_status st = r == VK_SUCCESS ? check_messages(e, &error)
                                    : rx_vk_fail(e->device, r, "a run", &error);
    e->done++;
    const rx_vk_slot *slot = &e->slots[e->done % RX_VK_N_SLOTS];
    e->stage_tail = slot->stage_end;
    int64_t now = rx_now_ns(), begin = slot->begin_ns > e->end_ns ? slot->begin_ns : e->end_ns;
    e->usual_ns += (now - begin - e->usual_ns) / 4;
    e->end_ns = now;
    if (st == RLX_OK)
        return;
    e->fail_first = e->done;
    e->fail_last = e->submitted;
    e->error = error;
}

/* One thread at a time waits for the fence of the oldest run, the others for that thread. The lock
 * is held, and given up while waiting. False when the deadline has passed. */
static bool wait_oldest(rx_exec *e, int64_t deadline_ns)
{
    if (e->polling && deadline_ns < 0) {
        rx_cond_wait(&e->changed, &e->lock);
        return true;
    }
    if (e->polling)
        return rx_cond_wait_until(&e->changed, &e->lock, deadline_ns) || rx_now_ns() < deadline_ns;
    int64_t now = rx_now_ns();
    uint64_t left = deadline_ns < 0 ? UINT64_MAX : deadline_ns > now ? (uint64_t)(deadline_ns - now)
                                                                     : 0;
    const rx_vk_slot *slot = &e->slots[(e->done + 1) % RX_VK_N_SLOTS];
    int64_t begin = slot->begin_ns > e->end_ns ? slot->begin_ns : e->end_ns;
    int64_t quiet = begin + e->usual_ns - now;
    e->polling = true;
    rx_mutex_unlock(&e->lock);
    VkResult r = rx_vk_wait_fence(e->device, slot->fence, quiet > 0 ? (uint64_t)quiet : 0, left);
    rx_mutex_lock(&e->lock);
    e->polling = false;
    if (r != VK_TIMEOUT && r != VK_NOT_READY)
        finish_run(e, r);
    rx_cond_broadcast(&e->changed);
    return r != VK_TIMEOUT && r != VK_NOT_READY;
}

rlx_status rx_vk_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
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
            st = rx_fail(err, RLX_TIMEOUT, "run %llu was not done after %lld ms",
                         (unsigned long long)ticket, (long long)timeout_ms);
    if (st == RLX_OK && e->fail_first && ticket >= e->fail_first && ticket <= e->fail_last)
        st = rx_fail(err, e->error.code, "%s", e->error.text);
    rx_mutex_unlock(&e->lock);
    return st;
}

rlx_status rx_vk_wait_idle(rx_exec *e, rlx_error *err)
{
    rx_mutex_lock(&e->lock);
    uint64_t last = e->submitted;
    rx_mutex_unlock(&e->lock);
    return last ? rx_vk_exec_wait(e, last, -1, err) : RLX_OK;
}

/* ---- The commands of one run ---------------------------------------------------------------- */

typedef struct submission {
    rx_exec *e;
    rx_vk_slot *slot;
    uint64_t ticket;
    bool begun;            /* the slot's own commands have something */
    VkCommandBuffer *list; /* to submit, in order */
    size_t n;
} submission;

/* The slot of the next run, once the run that used it is done. */
static rlx_status take_slot(rx_exec *e, submission *s, rlx_error *err)
{
    rx_mutex_lock(&e->lock);
    s->ticket = e->submitted + 1;
    rx_mutex_unlock(&e->lock);
    s->e = e;
    s->slot = &e->slots[s->ticket % RX_VK_N_SLOTS];
    if (s->ticket > RX_VK_N_SLOTS) {
        rlx_status st = rx_vk_exec_wait(e, s->ticket - RX_VK_N_SLOTS, -1, err);
        if (st == RLX_DEVICE_LOST)
            return st;
    }
    return RLX_OK;
}

/* The slot's own commands, begun when first asked for. */
static rlx_status own_commands(submission *s, VkCommandBuffer *out, rlx_error *err)
{
    rx_device *d = s->e->device;
    *out = s->slot->commands;
    if (s->begun)
        return RLX_OK;
    VkResult r = rx_vk_begin(d, *out, true);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "recording a run", err);
    rx_vk_barrier(d, *out);
    s->begun = true;
    return RLX_OK;
}

static bool copies_overlap(const rx_vk_copy *a, const rx_vk_copy *b)
{
    return a->to.block == b->to.block && a->to.offset < b->to.offset + b->bytes &&
           b->to.offset < a->to.offset + a->bytes;
}

/* New bytes of inputs and states. Copies to the same bytes keep their order. */
static rlx_status record_copies(submission *s, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    VkCommandBuffer cb;
    size_t since = 0; /* the last barrier */
    if (!e->n_copies)
        return RLX_OK;
    RLX_TRY(own_commands(s, &cb, err));
    for (size_t i = 0; i < e->n_copies; i++) {
        const rx_vk_copy *c = &e->copies[i];
        bool again = false;
        for (size_t k = since; k < i && !again; k++)
            again = copies_overlap(c, &e->copies[k]);
        if (again) {
            rx_vk_barrier(d, cb);
            since = i;
        }
        VkBufferCopy region = {c->from, c->to.offset, c->bytes};
        d->vk.CmdCopyBuffer(cb, e->stage.buffer, c->to.block->buffer, 1, &region);
    }
    return RLX_OK;
}

/* Packed forms of weights that have changed. The weights are locked. */
static rlx_status record_packing(submission *s, rlx_error *err)
{
    rx_exec *e = s->e;
    const rx_vk_recording *r = e->now;
    VkCommandBuffer cb;
    for (size_t i = 0; i < r->n_derived; i++) {
        rx_gpu_packed *x = r->derived[i];
        if (x->version == e->weights->items[x->item].version)
            continue;
        RLX_TRY(own_commands(s, &cb, err));
        rx_vk_record(e->device, cb, &x->pack->dispatch, 1);
    }
    return RLX_OK;
}

/* Called when the run is on its way. */
static void packing_done(rx_exec *e)
{
    for (size_t i = 0; e->now && i < e->now->n_derived; i++) {
        rx_gpu_packed *x = e->now->derived[i];
        x->version = e->weights->items[x->item].version;
    }
}

/* The clock of an exec, where the queue has one. */
static bool has_clock(rx_exec *e)
{
    rx_device *d = e->device;
    VkQueryPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                  .queryType = VK_QUERY_TYPE_TIMESTAMP, .queryCount = 2};
    if (!e->clock && d->gpu.clock_bits &&
        d->vk.CreateQueryPool(d->handle, &info, NULL, &e->clock) != VK_SUCCESS)
        e->clock = VK_NULL_HANDLE;
    return e->clock != VK_NULL_HANDLE;
}

double rx_vk_exec_seconds(rx_exec *e)
{
    rx_device *d = e->device;
    uint64_t t[2];
    if (!e->timed || d->vk.GetQueryPoolResults(d->handle, e->clock, 0, 2, sizeof t, t, sizeof t[0],
                                               VK_QUERY_RESULT_64_BIT) != VK_SUCCESS)
        return -1;
    uint64_t mask = UINT64_MAX >> (64 - d->gpu.clock_bits);
    return (double)((t[1] - t[0]) & mask) * d->gpu.props.limits.timestampPeriod * 1e-9;
}

/* A part of the run, recorded for this once. */
static rlx_status record_range(submission *s, size_t first, size_t end, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    const rx_vk_recording *r = e->now;
    VkCommandBuffer cb;
    RLX_TRY(own_commands(s, &cb, err));
    if (first == 0 && r->uses_flags)
        d->vk.CmdFillBuffer(cb, e->flags.block->buffer, e->flags.offset, 4, 0);
    rx_vk_barrier(d, cb);
    if (e->timed) {
        d->vk.CmdResetQueryPool(cb, e->clock, 0, 2);
        d->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->clock, 0);
    }
    rx_vk_record(d, cb, r->list + r->first[first], r->first[end] - r->first[first]);
    if (e->timed)
        d->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->clock, 1);
    if (r->uses_flags && !d->mapped) {
        rx_vk_barrier(d, cb);
        VkBufferCopy copy = {.srcOffset = e->flags.offset, .size = 4};
        d->vk.CmdCopyBuffer(cb, e->flags.block->buffer, e->flags_host.buffer, 1, &copy);
    }
    rx_vk_barrier_host(d, cb);
    return RLX_OK;
}

/* ---- Fetching results ----------------------------------------------------------------------- */

/* Forgets ranges that were not read since the last run, and gives the others their places. */
static uint64_t place_wants(rx_exec *e)
{
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < e->n_wants; i++) {
        if (!e->wants[i].used) {
            e->wants_changed = true;
            continue;
        }
        rx_vk_want w = e->wants[i];
        w.used = false;
        w.at = bytes;
        bytes += (w.bytes + 15) & ~(uint64_t)15;
        e->wants[n++] = w;
    }
    e->n_wants = n;
    return bytes;
}

static rlx_status record_fetch(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    VkResult r = rx_vk_begin(d, e->fetch, false);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "recording a read", err);
    rx_vk_barrier(d, e->fetch);
    for (size_t i = 0; i < e->n_wants; i++) {
        const rx_vk_want *w = &e->wants[i];
        rx_gpu_place p = rx_vk_value_place(e, w->value);
        VkBufferCopy copy = {p.offset + w->offset, w->at, w->bytes};
        d->vk.CmdCopyBuffer(e->fetch, p.block->buffer, e->results.buffer, 1, &copy);
    }
    rx_vk_barrier_host(d, e->fetch);
    r = d->vk.EndCommandBuffer(e->fetch);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "recording a read", err);
}

/* Makes the fetch commands fit what was read after the last run. */
static rlx_status prepare_fetch(rx_exec *e, rlx_error *err)
{
    uint64_t bytes = place_wants(e);
    if (!e->n_wants || !e->wants_changed)
        return RLX_OK;
    RLX_TRY(rx_vk_wait_idle(e, err)); /* the commands and the block may be in use */
    if (bytes > e->results.bytes) {
        rx_vk_block_destroy(e->device, &e->results);
        RLX_TRY(rx_vk_block_create(e->device, RX_VK_READBACK, bytes, "results for the host",
                                   &e->results, err));
    }
    RLX_TRY(record_fetch(e, err));
    e->wants_changed = false;
    return RLX_OK;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

#define MAX_BATCHES 64

/* One batch a recorded piece; what comes before and after goes with the first and the last. The
 * list has the slot's commands (if begun), then pieces, then the fetch. */
static VkResult submit_list(submission *s, size_t n_pieces)
{
    rx_device *d = s->e->device;
    VkSubmitInfo infos[MAX_BATCHES];
    size_t n = n_pieces > MAX_BATCHES ? MAX_BATCHES : n_pieces ? n_pieces : 1;
    for (size_t i = 0; i < n; i++) {
        size_t begin = i == 0 ? 0 : s->begun + i;
        size_t end = i + 1 == n ? s->n : s->begun + i + 1;
        infos[i] = (VkSubmitInfo){.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
                                  .commandBufferCount = (uint32_t)(end - begin),
                                  .pCommandBuffers = s->list + begin};
    }
    return rx_vk_queue_submit(d, &d->queue, (uint32_t)n, infos, s->slot->fence);
}

static rlx_status finish_submission(submission *s, size_t n_pieces, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    VkResult r = s->begun ? d->vk.EndCommandBuffer(s->slot->commands) : VK_SUCCESS;
    if (r == VK_SUCCESS)
        r = d->vk.ResetFences(d->handle, 1, &s->slot->fence);
    if (r == VK_SUCCESS)
        r = submit_list(s, n_pieces);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "submitting a run", err);
    rx_mutex_lock(&e->lock);
    s->slot->begin_ns = rx_now_ns();
    s->slot->stage_end = e->stage_head;
    e->submitted = s->ticket;
    rx_mutex_unlock(&e->lock);
    e->n_copies = 0;
    return RLX_OK;
}

rlx_status rx_vk_flush(rx_exec *e, rlx_error *err)
{
    submission s = {0};
    if (!e->n_copies)
        return RLX_OK;
    RLX_TRY(take_slot(e, &s, err));
    RLX_TRY(record_copies(&s, err));
    s.list = &s.slot->commands;
    s.n = 1;
    return finish_submission(&s, 0, err);
}

/* Packs weights where needed and submits. The weights are locked, so that no other run that uses
 * the packed forms comes in between. */
static rlx_status submit_packed(submission *s, size_t first, size_t end, bool whole, rlx_error *err)
{
    rx_exec *e = s->e;
    const rx_vk_recording *r = e->now;
    RLX_TRY(record_packing(s, err));
    if (!whole)
        RLX_TRY(record_range(s, first, end, err));
    if (s->begun)
        s->list[s->n++] = s->slot->commands;
    for (size_t i = 0; whole && i < r->n_chunks; i++)
        s->list[s->n++] = r->chunks[i];
    if (whole && e->n_wants)
        s->list[s->n++] = e->fetch;
    RLX_TRY(finish_submission(s, whole ? r->n_chunks : 0, err));
    packing_done(e);
    e->fetched = whole && e->n_wants ? s->ticket : 0;
    return RLX_OK;
}

/* The steps from `first` to `end`, all on the device. */
static rlx_status submit_steps(rx_exec *e, size_t first, size_t end, uint64_t *ticket,
                               rlx_error *err)
{
    submission s = {0};
    bool whole = first == 0 && end == e->program->n_steps && !e->now->has_host && !e->timed;
    RLX_TRY(rx_vk_upload_finish(e->device, err));
    if (whole)
        RLX_TRY(prepare_fetch(e, err));
    RLX_TRY(take_slot(e, &s, err));
    RLX_TRY(record_copies(&s, err));
    s.list = e->now->submits;
    rx_mutex_lock(&e->weights->lock);
    rlx_status st = submit_packed(&s, first, end, whole, err);
    rx_mutex_unlock(&e->weights->lock);
    if (st == RLX_OK)
        *ticket = s.ticket;
    return st;
}

/* Steps on the host cut the run: each waits for what comes before it. */
static rlx_status submit_mixed(rx_exec *e, size_t first, size_t end, uint64_t *ticket,
                               rlx_error *err)
{
    const rx_step *steps = e->program->steps;
    for (size_t i = first; i < end;) {
        size_t stop = i;
        while (stop < end && steps[stop].support != RLX_SUPPORT_HOST)
            stop++;
        if (stop > i || (i == first && e->now->uses_flags)) {
            RLX_TRY(submit_steps(e, i, stop, ticket, err));
            RLX_TRY(rx_vk_exec_wait(e, *ticket, -1, err));
        }
        if (stop < end)
            RLX_TRY(rx_vk_run_host(e, stop++, err));
        i = stop;
    }
    return *ticket ? RLX_OK : submit_steps(e, end, end, ticket, err);
}

rlx_status rx_vk_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    size_t first = s->first_step, end = s->first_step + s->n_steps;
    *ticket = 0;
    if (!e->now)
        return rx_fail(err, RLX_INTERNAL, "the program is not bound");
    if (s->n_steps < e->program->n_steps)
        RLX_TRY(rx_vk_unfold(e, err));
    if (first == 0)
        e->host_flags = 0;
    e->timed = s->timed && !e->now->has_host && has_clock(e);
    if (e->now->has_host)
        return submit_mixed(e, first, end, ticket, err);
    RLX_TRY(submit_steps(e, first, end, ticket, err));
    return s->async ? RLX_OK : rx_vk_exec_wait(e, *ticket, -1, err);
}
