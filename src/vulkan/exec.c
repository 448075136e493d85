/* SPDX-License-Identifier: MIT */
/* A program on the device: its memory, and host access to inputs, states and results. */
#include <string.h>

#include "vulkan/device.h"

/* The staging ring holds two runs' inputs where they are not too large. */
#define MIN_STAGE ((uint64_t)64 << 10)
#define MAX_STAGE ((uint64_t)32 << 20)
/* Results up to this size are fetched by the run itself once they were read. */
#define MAX_WANT ((uint64_t)1 << 20)

/* ---- Creation ------------------------------------------------------------------------------- */

static bool alloc_tables(rx_exec *e)
{
    const rx_program *p = e->program;
    e->places = rx_arena_zero(&e->arena, p->n_values * sizeof *e->places);
    e->kernels = rx_arena_zero(&e->arena, p->n_steps * sizeof *e->kernels);
    return e->places && e->kernels && rx_gpu_values_init(&e->values, p, &e->arena);
}

/* Inputs, then states. */
static rlx_status place_leaves(rx_exec *e, uint64_t *input_bytes, rlx_error *err)
{
    const rx_program *p = e->program;
    size_t n = p->n_inputs + p->n_states;
    uint64_t *bytes = rx_arena_zero(&e->arena, (n + 1) * sizeof *bytes);
    rx_gpu_place *places = rx_arena_zero(&e->arena, (n + 1) * sizeof *places);
    if (!bytes || !places)
        return rx_fail_memory(err, "inputs and states", n * sizeof *places);
    *input_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        const rx_port *port = i < p->n_inputs ? &p->inputs[i] : &p->states[i - p->n_inputs];
        bytes[i] = p->values[port->value].bytes;
        *input_bytes += i < p->n_inputs ? bytes[i] + 16 : 0;
    }
    RLX_TRY(rx_gpu_pool_create(&e->device->memory, bytes, n, "inputs and states", &e->leaf_pool,
                               places, err));
    /* All versions of a state have its memory. */
    for (size_t i = 0; i < p->n_values; i++) {
        const rx_pvalue *v = &p->values[i];
        if (v->space == RX_SPACE_INPUT || v->space == RX_SPACE_STATE)
            e->places[i] = places[v->index + (v->space == RX_SPACE_STATE ? p->n_inputs : 0)];
    }
    for (size_t i = p->n_inputs; i < n; i++)
        RLX_TRY(rx_vk_zero(e->device, &places[i], err));
    return RLX_OK;
}

static rlx_status alloc_memory(rx_exec *e, rlx_error *err)
{
    rx_device *d = e->device;
    uint64_t input_bytes = 0;
    rx_gpu_place flags;
    RLX_TRY(rx_gpu_arena_create(&d->memory, e->program, &e->arena_pool, e->places, err));
    RLX_TRY(place_leaves(e, &input_bytes, err));
    RLX_TRY(rx_gpu_pool_create(&d->memory, (uint64_t[]){16}, 1, "flags", &e->flag_pool, &flags,
                               err));
    e->flags = flags;
    RLX_TRY(rx_vk_zero(d, &flags, err));
    if (d->mapped)
        return RLX_OK;
    uint64_t ring = input_bytes * 2 < MIN_STAGE ? MIN_STAGE : input_bytes * 2;
    ring = ring > MAX_STAGE ? MAX_STAGE : ring;
    RLX_TRY(rx_vk_block_create(d, RX_VK_READBACK, 16, "flags", &e->flags_host, err));
    memset(e->flags_host.map, 0, 16);
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
    bool ok = (e->fetch = rx_vk_commands_alloc(d, e->pool)) != NULL;
    for (size_t i = 0; i < RX_VK_N_SLOTS && ok; i++) {
        e->slots[i].fence = rx_vk_fence_create(d);
        e->slots[i].commands = rx_vk_commands_alloc(d, e->pool);
        ok = e->slots[i].fence && e->slots[i].commands;
    }
    return ok ? RLX_OK : rx_fail_memory(err, "the commands of a program", sizeof e->slots);
}

static void exec_free(rx_exec *e)
{
    rx_device *d = e->device;
    for (size_t i = 0; i < RX_VK_N_RECORDINGS; i++)
        rx_vk_recording_destroy(e, e->recordings[i]);
    for (size_t i = 0; i < RX_VK_N_SLOTS; i++)
        if (e->slots[i].fence)
            d->vk.DestroyFence(d->handle, e->slots[i].fence, NULL);
    if (e->clock)
        d->vk.DestroyQueryPool(d->handle, e->clock, NULL);
    if (e->pool)
        d->vk.DestroyCommandPool(d->handle, e->pool, NULL);
    rx_vk_block_destroy(d, &e->results);
    rx_vk_block_destroy(d, &e->stage);
    rx_vk_block_destroy(d, &e->scratch);
    rx_vk_block_destroy(d, &e->flags_host);
    rx_gpu_pool_destroy(&d->memory, &e->flag_pool);
    rx_gpu_pool_destroy(&d->memory, &e->leaf_pool);
    rx_gpu_pool_destroy(&d->memory, &e->arena_pool);
    rx_free(e->copies);
    rx_arena_finish(&e->arena);
    rx_free(e);
}

rlx_status rx_vk_exec_create(rx_device *d, rx_program *p, rx_weights *w, rx_exec **out,
                             rlx_error *err)
{
    *out = NULL;
    rx_exec *e = rx_alloc_zero(sizeof *e);
    if (!e)
        return rx_fail_memory(err, "the session", sizeof *e);
    e->device = d;
    e->program = p;
    e->weights = w;
    e->n_messages = rx_vk_messages(NULL, 0);
    rlx_status st = alloc_tables(e) ? RLX_OK
                                    : rx_fail_memory(err, "the steps of the program",
                                                     p->n_values * sizeof *e->places);
    if (st == RLX_OK)
        st = alloc_memory(e, err);
    if (st == RLX_OK)
        st = make_commands(e, err);
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

void rx_vk_exec_destroy(rx_exec *e)
{
    if (!e)
        return;
    rx_vk_wait_idle(e, NULL);
    rx_cond_finish(&e->changed);
    rx_mutex_finish(&e->lock);
    exec_free(e);
}

/* ---- Host access ---------------------------------------------------------------------------- */

rx_gpu_place rx_vk_value_place(const rx_exec *e, uint32_t value)
{
    return rx_gpu_value_place(&e->values, e->weights, e->places, value);
}

/* A piece of the staging ring in one stretch; waits for runs that still use it. */
static rlx_status take_ring(rx_exec *e, uint64_t bytes, uint64_t *at, rlx_error *err)
{
    uint64_t size = e->stage.bytes, need = (bytes + 15) & ~(uint64_t)15;
    uint64_t begin = e->stage_head;
    if (begin % size + need > size)
        begin += size - begin % size;
    for (;;) {
        rx_mutex_lock(&e->lock);
        bool fits = begin + need - e->stage_tail <= size;
        uint64_t oldest = e->done + 1;
        bool running = e->done < e->submitted;
        rx_mutex_unlock(&e->lock);
        if (fits)
            break;
        if (running)
            RLX_TRY(rx_vk_exec_wait(e, oldest, -1, err));
        else
            RLX_TRY(rx_vk_flush(e, err));
    }
    *at = begin % size;
    e->stage_head = begin + need;
    return RLX_OK;
}

/* Adds a copy to those of the next submit; one that goes on where the last ended is joined. */
static rlx_status add_copy(rx_exec *e, const rx_gpu_place *to, uint64_t from, uint64_t bytes,
                           rlx_error *err)
{
    rx_vk_copy *last = e->n_copies ? &e->copies[e->n_copies - 1] : NULL;
    if (last && last->to.block == to->block && last->to.offset + last->bytes == to->offset &&
        last->from + last->bytes == from) {
        last->bytes += bytes;
        return RLX_OK;
    }
    if (!rx_grow(&e->copies, &e->cap_copies, e->n_copies + 1, sizeof *e->copies))
        return rx_fail_memory(err, "the list of copies", e->n_copies * sizeof *e->copies);
    e->copies[e->n_copies++] = (rx_vk_copy){*to, from, bytes};
    return RLX_OK;
}

rlx_status rx_vk_exec_write(rx_exec *e, uint32_t value, size_t offset, const void *data,
                            size_t bytes, rlx_error *err)
{
    const rx_pvalue *v = &e->program->values[value];
    rx_gpu_place to = e->places[value];
    if (v->space != RX_SPACE_INPUT && v->space != RX_SPACE_STATE)
        return rx_fail(err, RLX_INTERNAL, "value %u is neither an input nor a state",
                       (unsigned)value);
    if (!bytes)
        return RLX_OK;
    if (e->device->mapped || bytes > e->stage.bytes / 2) {
        RLX_TRY(rx_vk_flush(e, err));
        RLX_TRY(rx_vk_wait_idle(e, err));
        return rx_vk_upload(e->device, &to, offset, data, bytes, err);
    }
    uint64_t at;
    RLX_TRY(take_ring(e, bytes, &at, err));
    memcpy(e->stage.map + at, data, bytes);
    to.offset += offset;
    return add_copy(e, &to, at, bytes, err);
}

/* The range, if the last run fetched it. */
static rx_vk_want *find_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    for (size_t i = 0; i < e->n_wants; i++) {
        rx_vk_want *w = &e->wants[i];
        if (w->value == value && w->offset == offset && w->bytes == bytes)
            return w;
    }
    return NULL;
}

static void add_want(rx_exec *e, uint32_t value, uint64_t offset, uint64_t bytes)
{
    if (bytes > MAX_WANT || e->n_wants == RX_VK_N_WANTS ||
        e->program->values[e->values.roots[value]].space != RX_SPACE_ARENA)
        return;
    e->wants[e->n_wants++] = (rx_vk_want){.value = value, .offset = offset, .bytes = bytes,
                                          .used = true};
    e->wants_changed = true;
}

rlx_status rx_vk_exec_read(rx_exec *e, uint32_t value, size_t offset, void *data, size_t bytes,
                           rlx_error *err)
{
    rx_gpu_place from = rx_vk_value_place(e, value);
    if (!bytes)
        return RLX_OK;
    if (!from.block)
        return rx_fail(err, RLX_INTERNAL, "value %u has no memory", (unsigned)value);
    RLX_TRY(rx_vk_flush(e, err));
    RLX_TRY(rx_vk_wait_idle(e, err));
    uint64_t at = offset;
    if (e->program->values[value].view_of >= 0)
        at += (uint64_t)(uintptr_t)e->values.views[value].data;
    if (e->device->mapped)
        return rx_vk_download(e->device, &from, at, data, bytes, err);
    rx_vk_want *w = find_want(e, value, at, bytes);
    if (w && e->fetched == e->submitted) {
        w->used = true;
        memcpy(data, e->results.map + w->at, bytes);
        return RLX_OK;
    }
    if (w)
        w->used = true;
    else
        add_want(e, value, at, bytes);
    return rx_vk_download(e->device, &from, at, data, bytes, err);
}

uint32_t rx_vk_exec_flags(rx_exec *e)
{
    if (rx_vk_wait_idle(e, NULL) != RLX_OK)
        return 0;
    const char *map = e->device->mapped ? e->flags.block->map + e->flags.offset : e->flags_host.map;
    uint32_t flags;
    memcpy(&flags, map, sizeof flags);
    return flags | e->host_flags;
}

const char *rx_vk_exec_kernel(rx_exec *e, size_t step)
{
    const char *name = atomic_load_explicit(&e->kernels[step], memory_order_relaxed);
    return name ? name : "not bound yet";
}
