/* SPDX-License-Identifier: MIT */
/* Overlapping bindings, bind groups with the constants of dispatches, and passes. The order is that
 * of the list (gpu/stages.h); WebGPU itself inserts barriers between dispatches that touch the same
 * buffer. */
#include <string.h>

#include "webgpu/device.h"

/* ---- Bindings that overlap ------------------------------------------------------------------ */

/* WebGPU refuses two writable bindings that overlap, and every binding here is writable (a buffer
 * must not be bound both writable and read-only). So overlapping bindings are merged: one is bound
 * over the range of all, and the kernel is printed to access the others through it. */

static bool overlap(const rx_wg_dispatch *x, uint32_t a, uint32_t b)
{
    return x->bind[a].block == x->bind[b].block && x->begin[a] < x->end[b] &&
           x->begin[b] < x->end[a];
}

/* Makes binding `to` the alias of binding `from` and of its aliases. */
static void join(rx_wg_dispatch *x, uint32_t to, uint32_t from)
{
    x->begin[to] = x->begin[from] < x->begin[to] ? x->begin[from] : x->begin[to];
    x->end[to] = x->end[from] > x->end[to] ? x->end[from] : x->end[to];
    for (uint32_t i = 0; i < x->n_bind; i++)
        if (i == from || x->alias[i] == from + 1)
            x->alias[i] = (uint8_t)(to + 1);
}

static bool join_any(rx_wg_dispatch *x)
{
    for (uint32_t a = 0; a < x->n_bind; a++)
        for (uint32_t b = a + 1; b < x->n_bind; b++)
            if (!x->alias[a] && !x->alias[b] && overlap(x, a, b)) {
                join(x, a, b);
                return true;
            }
    return false;
}

static rlx_status settle_bindings(rx_device *d, rx_wg_dispatch *x, uint32_t step, rlx_error *err)
{
    for (uint32_t i = 0; i < x->n_bind; i++) {
        x->begin[i] = x->bind[i].offset;
        x->end[i] = x->begin[i] + ((x->bind[i].bytes + 15) & ~(uint64_t)15);
    }
    while (join_any(x))
        continue;
    for (uint32_t i = 0; i < x->n_bind; i++) {
        uint32_t r = x->alias[i] ? x->alias[i] - 1u : i;
        x->shifted |= (uint32_t)(x->bind[i].offset != x->begin[r]) << i;
        if (x->end[r] - x->begin[r] > d->base.caps.max_binding_bytes)
            return rx_fail(err, RLX_UNSUPPORTED, "step %u: operands that share memory span %llu "
                           "bytes, more than a binding of %s (%llu bytes)", (unsigned)step,
                           (unsigned long long)(x->end[r] - x->begin[r]), d->gpu.info.name,
                           (unsigned long long)d->base.caps.max_binding_bytes);
    }
    return RLX_OK;
}

rlx_status rx_wg_dispatch_init(rx_device *d, rx_wg_dispatch *x, const rx_gpu_placed *from,
                               rlx_error *err)
{
    *x = (rx_wg_dispatch){.n_bind = from->dispatch.n_bind, .n_push = from->dispatch.n_push,
                          .step = from->step, .piece = from->piece};
    memcpy(x->bind, from->bind, sizeof x->bind);
    memcpy(x->push, from->dispatch.push, sizeof x->push);
    memcpy(x->groups, from->dispatch.groups, sizeof x->groups);
    return settle_bindings(d, x, from->step, err);
}

/* ---- Bind groups ---------------------------------------------------------------------------- */

static uint64_t constant_bytes(const rx_device *d, const rx_wg_dispatch *x)
{
    uint64_t align = d->gpu.limits.limits.minUniformBufferOffsetAlignment;
    align = align ? align : 256;
    return ((uint64_t)x->pipeline->uniform_words * 4 + align - 1) / align * align;
}

/* The push constants of the kernel, and the offsets of bindings within their alias. */
static void fill_constants(const rx_wg_dispatch *x, uint32_t *words)
{
    uint32_t n = x->n_push < x->pipeline->uniform_words ? x->n_push : x->pipeline->uniform_words;
    memcpy(words, x->push, n * sizeof *words);
    for (uint32_t i = 0; i < x->n_bind; i++) {
        uint32_t r = x->alias[i] ? x->alias[i] - 1u : i;
        if (x->shifted >> i & 1 && x->pipeline->shift_word[i] < x->pipeline->uniform_words)
            words[x->pipeline->shift_word[i]] =
                (uint32_t)((x->bind[i].offset - x->begin[r]) / 4);
    }
}

static WGPUBindGroup make_group(rx_device *d, const rx_wg_dispatch *x, const rx_block *constants,
                                uint64_t at)
{
    WGPUBindGroupEntry entries[RX_GPU_MAX_BIND + 1];
    size_t n = 0;
    memset(entries, 0, sizeof entries);
    for (uint32_t i = 0; i < RX_GPU_MAX_BIND; i++) {
        if (!(x->pipeline->used >> i & 1))
            continue;
        /* a binding that this variant of the kernel does not use */
        bool bound = i < x->n_bind && x->bind[i].block;
        entries[n++] = (WGPUBindGroupEntry){
            .binding = i, .buffer = bound ? x->bind[i].block->buffer : d->nothing.buffer,
            .offset = bound ? x->begin[i] : (uint64_t)i * RX_GPU_ALIGN,
            .size = bound ? x->end[i] - x->begin[i] : 16};
    }
    if (x->pipeline->uniform_words)
        entries[n++] = (WGPUBindGroupEntry){.binding = RX_WG_CONSTANT_BINDING,
                                            .buffer = constants->buffer, .offset = at,
                                            .size = (uint64_t)x->pipeline->uniform_words * 4};
    WGPUBindGroupDescriptor info = {.label = {"rlx", 3}, .layout = x->pipeline->layout,
                                    .entryCount = n, .entries = entries};
    return d->lib->DeviceCreateBindGroup(d->handle, &info);
}

static rlx_status make_groups(rx_device *d, rx_wg_dispatch *list, size_t n,
                              const rx_block *constants, rlx_error *err)
{
    uint64_t at = 0;
    bool ok = true;
    rx_wg_scope_begin(d);
    rx_wg_enter(d->lib);
    for (size_t i = 0; i < n && ok; i++) {
        list[i].group = make_group(d, &list[i], constants, at);
        at += constant_bytes(d, &list[i]);
        ok = list[i].group != NULL;
    }
    rx_wg_leave(d->lib);
    rlx_status st = rx_wg_scope_end(d, "the bindings of a program", err);
    return st == RLX_OK && !ok ? rx_fail_memory(err, "the bindings of a program", n) : st;
}

rlx_status rx_wg_groups_create(rx_device *d, rx_wg_dispatch *list, size_t n,
                               rx_block *constants, rlx_error *err)
{
    uint64_t bytes = 0, at = 0;
    *constants = (rx_block){0};
    for (size_t i = 0; i < n; i++)
        bytes += constant_bytes(d, &list[i]);
    if (!n)
        return RLX_OK;
    char *data = rx_alloc_zero(bytes + 4);
    rlx_status st = data ? RLX_OK : rx_fail_memory(err, "constants of kernels", bytes);
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        fill_constants(&list[i], (uint32_t *)(data + at));
        at += constant_bytes(d, &list[i]);
    }
    if (st == RLX_OK && bytes)
        st = rx_wg_block_create(d, RX_WG_CONSTANTS, bytes, "constants of kernels", constants, err);
    rx_gpu_place all = {constants, 0, bytes};
    if (st == RLX_OK && bytes)
        st = rx_wg_upload(d, &all, 0, data, bytes, err);
    if (st == RLX_OK)
        st = make_groups(d, list, n, constants, err);
    rx_free(data);
    return st;
}

void rx_wg_groups_release(rx_device *d, rx_wg_dispatch *list, size_t n)
{
    rx_wg_enter(d->lib);
    for (size_t i = 0; i < n; i++) {
        if (list[i].group)
            d->lib->BindGroupRelease(list[i].group);
        list[i].group = NULL;
    }
    rx_wg_leave(d->lib);
}

/* ---- Passes --------------------------------------------------------------------------------- */

void rx_wg_encode(rx_device *d, WGPUCommandEncoder to, const rx_wg_dispatch *list, size_t n,
                  const rx_wg_part *part)
{
    rx_wg_library *lib = d->lib;
    const rx_pipeline *last = NULL;
    if (!n)
        return;
    const WGPUComputePassDescriptor info = {.label = {"rlx", 3},
                                            .timestampWrites = part ? part->stamps : NULL};
    WGPUComputePassEncoder pass =
        lib->CommandEncoderBeginComputePass(to, info.timestampWrites ? &info : NULL);
    for (size_t i = 0; i < n; i++) {
        const rx_wg_dispatch *x = &list[i];
        if (part && (x->step < part->first || x->step >= part->end))
            continue;
        if (x->pipeline != last)
            lib->ComputePassEncoderSetPipeline(pass, x->pipeline->handle);
        last = x->pipeline;
        lib->ComputePassEncoderSetBindGroup(pass, 0, x->group, 0, NULL);
        lib->ComputePassEncoderDispatchWorkgroups(pass, x->groups[0], x->groups[1], x->groups[2]);
    }
    lib->ComputePassEncoderEnd(pass);
    lib->ComputePassEncoderRelease(pass);
}

uint64_t rx_wg_submit(rx_device *d, WGPUCommandEncoder e)
{
    rx_wg_library *lib = d->lib;
    uint64_t index = 0;
    WGPUCommandBuffer commands = lib->CommandEncoderFinish(e, NULL);
    lib->CommandEncoderRelease(e);
    if (!commands)
        return 0;
    if (lib->QueueSubmitForIndex)
        index = lib->QueueSubmitForIndex(d->queue, 1, &commands);
    else
        lib->QueueSubmit(d->queue, 1, &commands);
    lib->CommandBufferRelease(commands);
    return index;
}

/* ---- Recordings ----------------------------------------------------------------------------- */

rlx_status rx_wg_commands_create(rx_exec *e, const rx_gpu_list *l, rx_gpu_recording *r,
                                 rlx_error *err)
{
    rx_commands *c = rx_alloc_zero(sizeof *c);
    if (!c)
        return rx_fail_memory(err, "a recording", sizeof *c);
    r->commands = c; /* owned by the recording from here on */
    c->list = rx_alloc_array(l->n + 1, sizeof *c->list);
    if (!c->list)
        return rx_fail_memory(err, "the dispatches of a program", l->n * sizeof *c->list);
    for (; c->n < l->n; c->n++)
        RLX_TRY(rx_wg_dispatch_init(e->device, &c->list[c->n], &l->items[c->n], err));
    RLX_TRY(rx_wg_pipelines_get(e->device, l->items, c->n, c->list, err));
    RLX_TRY(rx_wg_groups_create(e->device, c->list, c->n, &c->constants, err));
    rx_log(RLX_LOG_DEBUG, "webgpu: %zu steps are %zu dispatches", e->base.program->n_steps, c->n);
    return RLX_OK;
}

void rx_wg_commands_destroy(rx_exec *e, rx_commands *c)
{
    if (!c)
        return;
    rx_wg_groups_release(e->device, c->list, c->n);
    rx_wg_pipelines_release(e->device, c->list, c->n);
    rx_wg_block_destroy(e->device, &c->constants);
    rx_free(c->list);
    rx_free(c);
}
