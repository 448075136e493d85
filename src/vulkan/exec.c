/* SPDX-License-Identifier: MIT */
/* A program on the device: its memory, and host access to inputs, states and results. */
#include <string.h>

#include "vulkan/device.h"

/* The staging ring holds two runs' inputs where they are not too large. */
#define MIN_STAGE ((uint64_t)64 << 10)
#define MAX_STAGE ((uint64_t)32 << 20)
/* Results up to this size are copied to the host by the run itself once they were read. */
#define MAX_WANT ((uint64_t)1 << 20)
/* `at` of a range that no run has copied yet. */
#define NOT_PLACED UINT64_MAX

/* ---- Creation ------------------------------------------------------------------------------- */

/* Host-visible copies, where kernel memory is not mapped. */
static rlx_status alloc_copies(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    const rx_program *p = e->base.program;
    uint64_t ring = 0;
    if (d->mapped)
        return RLX_OK;
    for (size_t i = 0; i < p->n_inputs; i++)
        ring += 2 * (p->values[p->inputs[i].value].bytes + 16);
    ring = ring < MIN_STAGE ? MIN_STAGE : ring > MAX_STAGE ? MAX_STAGE : ring;
    RLX_TRY(rx_vk_block_create(d, RX_VK_READBACK, RX_GPU_FLAG_BYTES, "flags",
                               &e->flags_host, err));
    memset(e->flags_host.map, 0, RX_GPU_FLAG_BYTES);
    return rx_vk_block_create(d, RX_VK_UPLOAD, ring, "the staging ring of inputs", &e->stage, err);
}

static rlx_status make_commands(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = d->queue.family};
    VkResult r = d->vk.CreateCommandPool(d->handle, &info, NULL, &e->pool);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "the commands of a program", err);
    bool ok = true;
    for (size_t i = 0; i < 2 && ok; i++)
        ok = (e->fetch[i] = rx_vk_commands_alloc(d, e->pool)) != NULL;
    for (size_t i = 0; i < RX_GPU_N_SLOTS && ok; i++) {
        e->slots[i].fence = rx_vk_fence_create(d);
        e->slots[i].commands = rx_vk_commands_alloc(d, e->pool);
        ok = e->slots[i].fence && e->slots[i].commands;
    }
    return ok ? RLX_OK : rx_fail_memory(err, "the commands of a program", sizeof e->slots);
}

rlx_status rx_vk_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_buffer *const *buffers,
                             rx_exec **out, rlx_error *err)
{
    static const rx_gpu_driver driver = {.scratch_ring = (uint64_t)256 << 20,
                                         .n_counters = RX_VK_N_COUNTERS, .rules = rx_vk_rules,
                                         .record = rx_vk_commands_create,
                                         .forget = rx_vk_commands_destroy,
                                         .wait = rx_vk_run_wait, .end = rx_vk_run_end};
    *out = NULL;
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->device = d;
    e->n_messages = rx_vk_messages(NULL, 0);
    e->base = (rx_gpu_exec){.driver = &driver, .exec = e, .caps = &d->base.caps, .program = p,
                            .weights = w};
    rlx_status st = rx_gpu_exec_init(&e->base, buffers, err);
    if (st != RLX_OK) {
        rx_free(e);
        return st;
    }
    if (!d->compile_only)
        st = alloc_copies(e, err);
    if (st == RLX_OK && !d->compile_only)
        st = make_commands(e, err);
    if (st == RLX_OK)
        *out = e;
    else
        rx_vk_exec_destroy(e);
    return st;
}

void rx_vk_exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_device *d = e->device;
    rx_gpu_runs_wait_all(&e->base.runs, NULL);
    rx_gpu_exec_finish(&e->base);
    for (size_t i = 0; i < RX_GPU_N_SLOTS; i++)
        if (e->slots[i].fence)
            d->vk.DestroyFence(d->handle, e->slots[i].fence, NULL);
    if (e->clock)
        d->vk.DestroyQueryPool(d->handle, e->clock, NULL);
    if (e->pool)
        d->vk.DestroyCommandPool(d->handle, e->pool, NULL);
    rx_vk_block_destroy(d, &e->results);
    rx_vk_block_destroy(d, &e->stage);
    rx_vk_block_destroy(d, &e->flags_host);
    rx_free(e->copies);
    rx_free(e);
}

rlx_status rx_vk_exec_bind(rx_exec *e, const int64_t *dims, rlx_error *err)
{
    if (!rx_gpu_exec_is_bound(&e->base, dims)) { /* ranges may move with views */
        e->wants_changed = e->wants_changed || e->n_wants;
        e->n_wants = 0;
    }
    return rx_gpu_exec_bind(&e->base, dims, err);
}

rlx_status rx_vk_exec_use(rx_exec *e, size_t port, rx_buffer *b, rlx_error *err)
{
    e->wants_changed = true; /* the host may no longer read outputs, or they moved */
    e->n_wants = 0;
    return rx_gpu_exec_use(&e->base, port, b, err);
}

/* ---- Host access ---------------------------------------------------------------------------- */

/* A contiguous range of the staging ring; waits for runs that still use it. */
static rlx_status take_ring(rx_exec *e, uint64_t bytes, uint64_t *at, rlx_error *err)
{
    rx_gpu_runs *runs = &e->base.runs;
    uint64_t size = e->stage.bytes, need = (bytes + 15) & ~(uint64_t)15;
    uint64_t begin = e->stage_head;
    if (begin % size + need > size)
        begin += size - begin % size;
    for (;;) {
        rx_mutex_lock(&runs->lock);
        bool fits = begin + need - e->stage_tail <= size;
        uint64_t oldest = runs->done + 1;
        bool running = runs->done < runs->submitted;
        rx_mutex_unlock(&runs->lock);
        if (fits)
            break;
        if (running)
            RLX_TRY(rx_gpu_runs_wait(runs, oldest, -1, err));
        else
            RLX_TRY(rx_vk_flush(e, err));
    }
    *at = begin % size;
    e->stage_head = begin + need;
    return RLX_OK;
}

/* Appends a copy for the next submit, merged with the last one where contiguous. */
static rlx_status add_copy(rx_exec *e, const rx_vk_copy *c, rlx_error *err)
{
    rx_vk_copy *last = e->n_copies ? &e->copies[e->n_copies - 1] : NULL;
    if (last && last->to.block == c->to.block && last->block == c->block &&
        last->to.offset + last->bytes == c->to.offset && last->from + last->bytes == c->from) {
        last->bytes += c->bytes;
        return RLX_OK;
    }
    if (!rx_grow(&e->copies, &e->cap_copies, e->n_copies + 1, sizeof *e->copies))
        return rx_fail_memory(err, "the list of copies", e->n_copies * sizeof *e->copies);
    e->copies[e->n_copies++] = *c;
    return RLX_OK;
}

rlx_status rx_vk_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                            size_t bytes, rlx_error *err)
{
    const rx_pvalue *v = &e->base.program->values[value];
    rx_gpu_place to = e->base.places[value];
    if (v->space != RX_SPACE_INPUT && v->space != RX_SPACE_STATE)
        return rx_fail(err, RLX_INTERNAL, "value %u is neither an input nor a state",
                       (unsigned)value);
    if (!bytes || e->device->compile_only)
        return RLX_OK;
    if (e->device->mapped || bytes > e->stage.bytes / 2) {
        RLX_TRY(rx_vk_flush(e, err));
        RLX_TRY(rx_gpu_runs_wait_all(&e->base.runs, err));
        return rx_vk_upload(e->device, &to, offset, data, bytes, err);
    }
    uint64_t at;
    RLX_TRY(take_ring(e, bytes, &at, err));
    memcpy(e->stage.map + at, data, bytes);
    to.offset += offset;
    return add_copy(e, &(rx_vk_copy){to, &e->stage, at, bytes}, err);
}

/* Byte `offset` of a value, relative to the place of its root. */
static uint64_t offset_in_root(const rx_exec *e, uint32_t value, size_t offset)
{
    if (e->base.program->values[value].view_of < 0)
        return offset;
    return offset + (uint64_t)(uintptr_t)e->base.values.bound.views[value].data;
}

rlx_status rx_vk_exec_feed(rx_exec *e, uint32_t input, uint32_t output, size_t bytes,
                           rlx_error *err)
{
    const rx_gpu_place to = e->base.places[input], from = rx_gpu_exec_place(&e->base, output);
    if (e->device->mapped || !from.block || bytes % 4)
        return rx_fail(err, RLX_UNSUPPORTED, "vulkan: %s cannot feed this output to an input on "
                       "the device", e->device->gpu.info.name);
    return add_copy(e, &(rx_vk_copy){to, from.block, from.offset + offset_in_root(e, output, 0),
                                     bytes}, err);
}

/* Finds the want of exactly this range and marks it as used; NULL: there is none. */
static rx_vk_want *find_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_vk_want *w = &e->wants[i];
        if (w->value != value || w->offset != offset || w->bytes != bytes)
            continue;
        w->idle = 0;
        return w;
    }
    return NULL;
}

/* The host copy of a want made by run `ticket`; NULL: none, or overwritten by a later run. */
static const char *find_fetched(const rx_exec *e, const rx_vk_want *w, uint64_t ticket)
{
    for (size_t i = 0; i < 2 && w->at != NOT_PLACED; i++)
        if (e->fetched[i] == ticket)
            return e->results.map + i * (e->results.bytes / 2) + w->at;
    return NULL;
}

static void add_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    if (bytes > MAX_WANT || e->n_wants == RX_VK_N_WANTS ||
        e->base.program->values[e->base.values.roots[value]].space != RX_SPACE_ARENA)
        return;
    e->wants[e->n_wants++] = (rx_vk_want){.value = value, .offset = offset, .bytes = bytes,
                                          .at = NOT_PLACED};
    e->wants_changed = true;
}

rlx_status rx_vk_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err)
{
    rx_gpu_place from = rx_gpu_exec_place(&e->base, value);
    if (!bytes)
        return RLX_OK;
    if (e->device->compile_only)
        return rx_vk_fail_run(e->device, err);
    if (!from.block)
        return rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    RLX_TRY(rx_vk_flush(e, err));
    RLX_TRY(rx_gpu_runs_wait_all(&e->base.runs, err));
    const uint64_t at = offset_in_root(e, value, offset);
    if (e->device->mapped)
        return rx_vk_download(e->device, &from, at, data, bytes, err);
    const rx_vk_want *w = find_want(e, value, at, bytes);
    const char *fetched = w ? find_fetched(e, w, e->base.runs.submitted) : NULL;
    if (fetched) {
        memcpy(data, fetched, bytes);
        return RLX_OK;
    }
    if (!w && !e->base.partial) /* reads between steps are not repeated after each run */
        add_want(e, value, at, bytes);
    return rx_vk_download(e->device, &from, at, data, bytes, err);
}

rlx_status rx_vk_exec_read_run(rx_exec *e, uint64_t ticket, const rx_range *r, void *data,
                               rlx_error *err)
{
    const rx_vk_want *w = find_want(e, r->value, offset_in_root(e, r->value, r->offset), r->bytes);
    const char *fetched = w ? find_fetched(e, w, ticket) : NULL;
    if (!fetched)
        return rx_fail(err, RLX_UNSUPPORTED, "vulkan: the result of run %llu is no longer kept",
                       (unsigned long long)ticket);
    RLX_TRY(rx_gpu_runs_wait(&e->base.runs, ticket, -1, err));
    memcpy(data, fetched, r->bytes);
    return RLX_OK;
}

const uint32_t *rx_vk_flag_words(const rx_exec *e)
{
    const rx_gpu_place *p = &e->base.flags;
    const void *words = e->device->mapped ? p->block->map + p->offset : e->flags_host.map;
    return words;
}

uint32_t rx_vk_exec_flags(rx_exec *e)
{
    if (rx_gpu_runs_wait_all(&e->base.runs, NULL) != RLX_OK)
        return 0;
    if (!e->base.has_flags) /* the words are of an older run */
        return e->host_flags;
    return rx_vk_flag_words(e)[0] | e->host_flags;
}
