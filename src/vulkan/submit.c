/* SPDX-License-Identifier: MIT */
/* Runs in flight. A run is one submit: copies of new inputs, packing of new weights and clearing of
 * flags in a command buffer of its own, the recorded pieces, then the copies of flags and of
 * results that were read last time. Each group shares one barrier, since a barrier costs time. */
#include <string.h>

#include "vulkan/device.h"

/* ---- Waiting -------------------------------------------------------------------------------- */

/* Messages of the validation layer fail the run during which they came. The runs are locked. */
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

/* When a run began to execute. */
static int64_t begin_of(const rx_exec *e, const rx_vk_slot *slot)
{
    return slot->begin_ns > e->end_ns ? slot->begin_ns : e->end_ns;
}

bool rx_vk_run_wait(rx_exec *e, uint64_t ticket, int64_t deadline_ns)
{
    rx_vk_slot *slot = &e->slots[ticket % RX_GPU_N_SLOTS];
    int64_t now = rx_now_ns();
    uint64_t left = deadline_ns < 0 ? UINT64_MAX : deadline_ns > now ? (uint64_t)(deadline_ns - now)
                                                                     : 0;
    int64_t quiet = begin_of(e, slot) + e->usual_ns - now;
    slot->result = rx_vk_wait_fence(e->device, slot->fence, quiet > 0 ? (uint64_t)quiet : 0, left);
    return slot->result != VK_TIMEOUT && slot->result != VK_NOT_READY;
}

/* Kernels of a chain have a poll limit. After one was reached the device uses no chains. */
static rlx_status check_chain(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    if (!d->base.caps.chains || !rx_vk_flag_words(e)[1])
        return RLX_OK;
    atomic_store(&d->no_chains, true);
    return rx_fail(err, RLX_INTERNAL,
                   "vulkan: kernels of a run on %s gave up waiting for those before them; set "
                   "RLX_CHAIN=0 and they wait by barriers", d->gpu.info.name);
}

rlx_status rx_vk_run_end(rx_exec *e, uint64_t ticket, rlx_error *err)
{
    const rx_vk_slot *slot = &e->slots[ticket % RX_GPU_N_SLOTS];
    int64_t now = rx_now_ns();
    e->stage_tail = slot->stage_end;
    e->usual_ns += (now - begin_of(e, slot) - e->usual_ns) / 4;
    e->end_ns = now;
    if (slot->result != VK_SUCCESS)
        return rx_vk_fail(e->device, slot->result, "a run", err);
    RLX_TRY(check_chain(e, err));
    return check_messages(e, err);
}

rlx_status rx_vk_exec_wait(rx_exec *e, uint64_t ticket, int64_t timeout_ms, rlx_error *err)
{
    return rx_gpu_runs_wait(&e->base.runs, ticket, timeout_ms, err);
}

/* ---- The commands of one run ---------------------------------------------------------------- */

typedef struct submission {
    rx_exec *e;
    rx_vk_slot *slot;
    uint64_t ticket;
    bool begun;            /* the slot's own command buffer is not empty */
    bool packed;           /* and contains kernels */
    VkCommandBuffer *list; /* to submit, in order */
    size_t n;
} submission;

/* The slot of the next run, once the run that used it is done. */
static rlx_status take_slot(rx_exec *e, submission *s, rlx_error *err)
{
    RLX_TRY(rx_gpu_runs_next(&e->base.runs, &s->ticket, err));
    s->e = e;
    s->slot = &e->slots[s->ticket % RX_GPU_N_SLOTS];
    return RLX_OK;
}

/* The slot's own command buffer, begun on first use. */
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

/* Up to so many bytes are embedded in the command buffer, which is faster than a copy. */
#define MAX_INLINE 1024

static void record_copy(rx_exec *e, VkCommandBuffer cb, const rx_vk_copy *c)
{
    const rx_device *d = e->device;
    VkBufferCopy region = {c->from, c->to.offset, c->bytes};
    if (c->block == &e->stage && c->bytes <= MAX_INLINE && (c->bytes | c->to.offset) % 4 == 0)
        d->vk.CmdUpdateBuffer(cb, c->to.block->buffer, c->to.offset, c->bytes,
                              e->stage.map + c->from);
    else
        d->vk.CmdCopyBuffer(cb, c->block->buffer, c->to.block->buffer, 1, &region);
}

/* New bytes of inputs and states. Copies to the same bytes keep their order. */
static rlx_status record_copies(submission *s, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    VkCommandBuffer cb;
    size_t since = 0; /* since the last barrier */
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
        record_copy(e, cb, c);
    }
    return RLX_OK;
}

/* Packed forms of weights that have changed. The weights are locked. */
static rlx_status record_packing(submission *s, rlx_error *err)
{
    rx_exec *e = s->e;
    const rx_gpu_recording *r = e->base.now;
    VkCommandBuffer cb;
    for (size_t i = 0; i < r->n_derived; i++) {
        const rx_gpu_packed *x = r->derived[i];
        if (!rx_gpu_packed_is_old(x))
            continue;
        RLX_TRY(own_commands(s, &cb, err));
        rx_vk_record(e->device, cb, &x->pack->dispatch, 1);
        s->packed = true;
    }
    return RLX_OK;
}

/* Flags and counters of a run are 0 at its start. */
static rlx_status record_clear(submission *s, rlx_error *err)
{
    static const uint32_t zeros[RX_VK_N_COUNTERS];
    rx_device *d = s->e->device;
    const rx_gpu_place *flags = &s->e->base.flags;
    const rx_gpu_recording *r = s->e->base.now;
    VkCommandBuffer cb;
    if (!r->uses_flags)
        return RLX_OK;
    RLX_TRY(own_commands(s, &cb, err));
    if (s->packed)
        rx_vk_barrier(d, cb);
    d->vk.CmdUpdateBuffer(cb, flags->block->buffer, flags->offset, 4, zeros);
    if (r->n_counters)
        d->vk.CmdUpdateBuffer(cb, flags->block->buffer, flags->offset + RX_GPU_FLAG_BYTES,
                              4 * r->n_counters, zeros);
    return RLX_OK;
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

/* A partial run, recorded for this submit only. */
static rlx_status record_range(submission *s, size_t first, size_t end, rlx_error *err)
{
    rx_exec *e = s->e;
    rx_device *d = e->device;
    const rx_gpu_recording *r = e->base.now;
    VkCommandBuffer cb;
    if (first == 0)
        RLX_TRY(record_clear(s, err));
    RLX_TRY(own_commands(s, &cb, err));
    rx_vk_barrier(d, cb);
    if (e->timed) {
        d->vk.CmdResetQueryPool(cb, e->clock, 0, 2);
        d->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->clock, 0);
    }
    rx_vk_record_steps(d, cb, r->commands, first, end);
    if (e->timed)
        d->vk.CmdWriteTimestamp(cb, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, e->clock, 1);
    if (end == e->base.program->n_steps)
        rx_vk_record_copies(e, cb);
    if (r->uses_flags && !d->mapped) {
        rx_vk_barrier(d, cb);
        rx_vk_fetch_flags(e, cb);
    }
    rx_vk_barrier_host(d, cb);
    return RLX_OK;
}

/* ---- Fetching results ----------------------------------------------------------------------- */

/* Runs after which a range that the host has not read is no longer fetched. */
#define MAX_IDLE 2

/* Drops ranges that are not read any more, and assigns offsets to the others. */
static uint64_t place_wants(rx_exec *e)
{
    size_t n = 0;
    uint64_t bytes = 0;
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_vk_want w = e->wants[i];
        if (w.idle++ == MAX_IDLE) {
            e->wants_changed = true;
            continue;
        }
        w.at = bytes;
        bytes += (w.bytes + 15) & ~(uint64_t)15;
        e->wants[n++] = w;
    }
    e->n_wants = n;
    return bytes;
}

static rlx_status record_fetch(rx_exec *e, size_t half, rlx_error *err)
{
    rx_device *d = e->device;
    VkCommandBuffer cb = e->fetch[half];
    VkResult r = rx_vk_begin(d, cb, false);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "recording a read", err);
    rx_vk_barrier(d, cb);
    for (size_t i = 0; i < e->n_wants; i++) {
        const rx_vk_want *w = &e->wants[i];
        rx_gpu_place p = rx_gpu_exec_place(&e->base, w->value);
        VkBufferCopy copy = {p.offset + w->offset, half * (e->results.bytes / 2) + w->at,
                             w->bytes};
        d->vk.CmdCopyBuffer(cb, p.block->buffer, e->results.buffer, 1, &copy);
    }
    rx_vk_fetch_flags(e, cb);
    rx_vk_barrier_host(d, cb);
    r = d->vk.EndCommandBuffer(cb);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "recording a read", err);
}

/* Records the fetch commands again where the wanted ranges have changed. */
static rlx_status prepare_fetch(rx_exec *e, rlx_error *err)
{
    uint64_t bytes = place_wants(e);
    if (e->device->mapped || (e->has_fetch && !e->wants_changed))
        return RLX_OK;
    /* the commands and the block may be in use */
    RLX_TRY(rx_gpu_runs_wait_all(&e->base.runs, err));
    e->fetched[0] = e->fetched[1] = 0;
    if (2 * bytes > e->results.bytes) {
        rx_vk_block_destroy(e->device, &e->results);
        RLX_TRY(rx_vk_block_create(e->device, RX_VK_READBACK, 2 * bytes, "results for the host",
                                   &e->results, err));
    }
    RLX_TRY(record_fetch(e, 0, err));
    RLX_TRY(record_fetch(e, 1, err));
    e->wants_changed = false;
    e->has_fetch = true;
    return RLX_OK;
}

/* ---- Submitting ----------------------------------------------------------------------------- */

#define MAX_BATCHES 64

/* One VkSubmitInfo per recorded piece; what comes before and after joins the first and the last.
 * The list has the slot's commands (if begun), then pieces, then the fetch. */
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
    s->slot->begin_ns = rx_now_ns();
    s->slot->stage_end = e->stage_head;
    rx_gpu_runs_begin(&e->base.runs);
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
    const rx_commands *c = e->base.now->commands;
    const bool flagged = e->base.now->uses_flags && !e->device->mapped;
    const bool fetches = whole && (e->n_wants || flagged);
    const size_t half = e->n_fetches % 2;
    RLX_TRY(record_packing(s, err));
    if (whole)
        RLX_TRY(record_clear(s, err));
    else
        RLX_TRY(record_range(s, first, end, err));
    if (s->begun)
        s->list[s->n++] = s->slot->commands;
    for (size_t i = 0; whole && i < c->n_chunks; i++)
        s->list[s->n++] = c->chunks[i];
    if (fetches)
        s->list[s->n++] = e->fetch[half];
    RLX_TRY(finish_submission(s, whole ? c->n_chunks : 0, err));
    rx_gpu_exec_packed(&e->base);
    if (fetches) {
        e->fetched[half] = s->ticket;
        e->n_fetches++;
    }
    return RLX_OK;
}

/* The steps from `first` to `end`, all on the device. */
static rlx_status submit_steps(rx_exec *e, size_t first, size_t end, uint64_t *ticket,
                               rlx_error *err)
{
    submission s = {0};
    const rx_gpu_recording *r = e->base.now;
    bool whole = first == 0 && end == e->base.program->n_steps && !r->has_host && !e->timed;
    RLX_TRY(rx_vk_upload_finish(e->device, err));
    if (whole)
        RLX_TRY(prepare_fetch(e, err));
    RLX_TRY(take_slot(e, &s, err));
    RLX_TRY(record_copies(&s, err));
    s.list = r->commands->submits;
    rx_gpu_weights_lock(e->base.weights);
    rlx_status st = submit_packed(&s, first, end, whole, err);
    rx_gpu_weights_unlock(e->base.weights);
    if (st == RLX_OK)
        *ticket = s.ticket;
    return st;
}

/* Steps on the host split the run: each waits for the ones before it. */
static rlx_status submit_mixed(rx_exec *e, size_t first, size_t end, uint64_t *ticket,
                               rlx_error *err)
{
    const rx_step *steps = e->base.program->steps;
    for (size_t i = first; i < end;) {
        size_t stop = i;
        while (stop < end && steps[stop].support != RLX_SUPPORT_HOST)
            stop++;
        if (stop > i || (i == first && e->base.now->uses_flags)) {
            RLX_TRY(submit_steps(e, i, stop, ticket, err));
            RLX_TRY(rx_vk_exec_wait(e, *ticket, -1, err));
        }
        if (stop < end)
            RLX_TRY(rx_vk_run_host(e, stop++, err));
        i = stop;
    }
    const bool copies = end == e->base.program->n_steps && rx_gpu_exec_copies(&e->base) &&
                        steps[end - 1].support == RLX_SUPPORT_HOST;
    return *ticket && !copies ? RLX_OK : submit_steps(e, end, end, ticket, err);
}

rlx_status rx_vk_exec_submit(rx_exec *e, const rx_submit *s, uint64_t *ticket, rlx_error *err)
{
    size_t first = s->first_step, end = s->first_step + s->n_steps;
    *ticket = 0;
    if (e->device->compile_only)
        return rx_vk_fail_run(e->device, err);
    RLX_TRY(rx_gpu_exec_begin(&e->base, s, err));
    if (first == 0)
        e->host_flags = 0;
    e->timed = s->timed && !e->base.now->has_host && has_clock(e);
    if (e->base.now->has_host)
        return submit_mixed(e, first, end, ticket, err);
    RLX_TRY(submit_steps(e, first, end, ticket, err));
    return s->async ? RLX_OK : rx_vk_exec_wait(e, *ticket, -1, err);
}
