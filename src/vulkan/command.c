/* SPDX-License-Identifier: MIT */
/* Command buffers: descriptor sets, and the list of dispatches (gpu/stages.h) recorded in order
 * with its barriers; one command buffer per piece, so that no watchdog of the driver or of the
 * desktop fires. */
#include <inttypes.h>
#include <string.h>

#include "vulkan/device.h"

#define ALL_STAGES (VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT)
#define ALL_WRITES (VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT)
#define ALL_ACCESS \
    (ALL_WRITES | VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_TRANSFER_READ_BIT)

VkResult rx_vk_begin(rx_device *d, VkCommandBuffer cb, bool once)
{
    VkCommandBufferBeginInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = once ? VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT
                      : VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT};
    return d->vk.BeginCommandBuffer(cb, &info);
}

void rx_vk_barrier(rx_device *d, VkCommandBuffer cb)
{
    VkMemoryBarrier all = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = ALL_WRITES,
                           .dstAccessMask = ALL_ACCESS};
    d->vk.CmdPipelineBarrier(cb, ALL_STAGES, ALL_STAGES, 0, 1, &all, 0, NULL, 0, NULL);
}

void rx_vk_barrier_host(rx_device *d, VkCommandBuffer cb)
{
    VkMemoryBarrier host = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER, .srcAccessMask = ALL_WRITES,
                            .dstAccessMask = VK_ACCESS_HOST_READ_BIT};
    d->vk.CmdPipelineBarrier(cb, ALL_STAGES, VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &host, 0, NULL, 0,
                             NULL);
}

static void barrier_compute(rx_device *d, VkCommandBuffer cb)
{
    VkMemoryBarrier b = {.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
                         .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
                         .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT};
    d->vk.CmdPipelineBarrier(cb, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                             VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 0, 1, &b, 0, NULL, 0, NULL);
}

/* ---- Dispatches ----------------------------------------------------------------------------- */

/* The words after those of the kernel: gpu/shaders/chain.def. */
static void write_chain(rx_vk_dispatch *x, const rx_gpu_chained *c, const rx_gpu_place *flags)
{
    const uint64_t address = flags->block->address + flags->offset;
    const rx_push_chain words = {.chain_at = {(uint32_t)address, (uint32_t)(address >> 32)},
                                 .chain_before = c->waits, .chain_after = c->signals,
                                 .chain_target = c->target};
    memcpy(x->push + RX_GPU_MAX_PUSH, &words, sizeof words);
    x->n_push = RX_VK_MAX_PUSH;
}

rx_vk_dispatch rx_vk_dispatch_of(const rx_gpu_placed *from, const rx_gpu_place *flags)
{
    const rx_gpu_dispatch *x = &from->dispatch;
    rx_vk_dispatch to = {.n_bind = x->n_bind, .n_push = x->n_push, .step = from->step,
                         .piece = from->piece, .level = from->level, .barrier = from->barrier};
    for (uint32_t k = 0; k < x->n_bind; k++)
        to.bind[k] = from->bind[k].block ? from->bind[k] : *flags;
    memcpy(to.push, x->push, sizeof x->push);
    memcpy(to.address, x->address, sizeof to.address);
    memcpy(to.groups, x->groups, sizeof to.groups);
    if (from->chain.is_chained)
        write_chain(&to, &from->chain, flags);
    return to;
}

/* ---- Descriptor sets ------------------------------------------------------------------------ */

static void write_set(rx_device *d, const rx_vk_dispatch *x)
{
    VkDescriptorBufferInfo buffers[RX_GPU_MAX_BIND];
    VkWriteDescriptorSet writes[RX_GPU_MAX_BIND];
    for (uint32_t i = 0; i < x->n_bind; i++) {
        const rx_gpu_place *p = &x->bind[i];
        uint64_t range = p->bytes ? (p->bytes + 15) & ~(uint64_t)15 : 16;
        buffers[i] = (VkDescriptorBufferInfo){p->block->buffer, p->offset, range};
        writes[i] = (VkWriteDescriptorSet){
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET, .dstSet = x->set, .dstBinding = i,
            .descriptorCount = 1, .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
            .pBufferInfo = &buffers[i]};
    }
    d->vk.UpdateDescriptorSets(d->handle, x->n_bind, writes, 0, NULL);
}

static void write_addresses(rx_vk_dispatch *x)
{
    for (uint32_t i = 0; i < x->n_bind; i++) {
        uint64_t a = x->bind[i].block->address + x->bind[i].offset;
        if (x->address[i])
            memcpy(&x->push[x->address[i]], &a, sizeof a); /* devices are little-endian */
    }
}

rlx_status rx_vk_sets_create(rx_device *d, rx_vk_dispatch *list, size_t n, VkDescriptorPool *pool,
                             rlx_error *err)
{
    uint32_t n_buffers = 0;
    *pool = VK_NULL_HANDLE;
    for (size_t i = 0; i < n; i++)
        n_buffers += list[i].n_bind;
    if (!n || d->compile_only)
        return RLX_OK;
    VkDescriptorPoolSize size = {VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, n_buffers ? n_buffers : 1};
    VkDescriptorPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                       .maxSets = (uint32_t)n, .poolSizeCount = 1,
                                       .pPoolSizes = &size};
    VkResult r = d->vk.CreateDescriptorPool(d->handle, &info, NULL, pool);
    for (size_t i = 0; i < n && r == VK_SUCCESS; i++) {
        VkDescriptorSetAllocateInfo ask = {
            .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO, .descriptorPool = *pool,
            .descriptorSetCount = 1,
            .pSetLayouts = &d->pipelines.set_layouts[list[i].n_bind]};
        r = d->vk.AllocateDescriptorSets(d->handle, &ask, &list[i].set);
        if (r == VK_SUCCESS)
            write_set(d, &list[i]);
        write_addresses(&list[i]);
    }
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "the descriptors of a program", err);
}

/* ---- Recording ------------------------------------------------------------------------------ */

static void record_dispatch(rx_device *d, VkCommandBuffer cb, const rx_vk_dispatch *x)
{
    VkPipelineLayout layout = d->pipelines.layouts[x->n_bind];
    d->vk.CmdBindPipeline(cb, VK_PIPELINE_BIND_POINT_COMPUTE, x->pipeline->handle);
    if (x->n_bind)
        d->vk.CmdBindDescriptorSets(cb, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &x->set, 0,
                                    NULL);
    if (x->n_push)
        d->vk.CmdPushConstants(cb, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, x->n_push * 4, x->push);
    d->vk.CmdDispatch(cb, x->groups[0], x->groups[1], x->groups[2]);
}

void rx_vk_record(rx_device *d, VkCommandBuffer cb, const rx_vk_dispatch *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].barrier)
            barrier_compute(d, cb);
        record_dispatch(d, cb, &list[i]);
    }
}

/* A dispatch of a partial run: a barrier, if anything, separates it from those it depends on, so a
 * chained kernel has nothing to wait for. */
static void record_alone(rx_device *d, VkCommandBuffer cb, const rx_vk_dispatch *x)
{
    rx_vk_dispatch alone = *x;
    if (x->n_push == RX_VK_MAX_PUSH)
        alone.push[RX_GPU_MAX_PUSH + offsetof(rx_push_chain, chain_target) / 4] = 0;
    record_dispatch(d, cb, &alone);
}

void rx_vk_record_steps(rx_device *d, VkCommandBuffer cb, const rx_commands *c, size_t first,
                        size_t end)
{
    const rx_vk_dispatch *before = NULL;
    for (size_t i = 0; i < c->n; i++) {
        const rx_vk_dispatch *x = &c->list[i];
        if (x->step < first || x->step >= end)
            continue;
        if (before && before->level != x->level)
            barrier_compute(d, cb);
        record_alone(d, cb, x);
        before = x;
    }
}

/* ---- Whole runs ----------------------------------------------------------------------------- */

void rx_vk_fetch_flags(rx_exec *e, VkCommandBuffer cb)
{
    const rx_gpu_place *flags = &e->base.flags;
    VkBufferCopy copy = {.srcOffset = flags->offset, .size = 8};
    e->device->vk.CmdCopyBuffer(cb, flags->block->buffer, e->flags_host.buffer, 1, &copy);
}

void rx_vk_record_copies(rx_exec *e, VkCommandBuffer cb)
{
    rx_device *d = e->device;
    rx_gpu_copy c;
    bool any = false;
    for (size_t i = 0; i < e->base.program->n_outputs; i++) {
        if (!rx_gpu_exec_copy(&e->base, i, &c))
            continue;
        if (!any)
            rx_vk_barrier(d, cb);
        any = true;
        VkBufferCopy region = {c.from.offset, c.to.offset, c.to.bytes};
        d->vk.CmdCopyBuffer(cb, c.from.block->buffer, c.to.block->buffer, 1, &region);
    }
}

void rx_vk_rules(rx_exec *e, rx_gpu_rules *out)
{
    const rx_device *d = e->device;
    out->full_barrier = d->full_barrier;
    out->whole_bindings = d->instance->validation;
    out->chains = d->base.caps.chains && !atomic_load(&d->no_chains);
    out->chain_always = d->chain_always;
    out->n_counters = RX_VK_N_COUNTERS;
}

/* Dispatches first .. end - 1 of the list. */
static VkResult record_piece(rx_exec *e, const rx_commands *c, size_t first, size_t end)
{
    rx_device *d = e->device;
    VkCommandBuffer cb = c->chunks[c->n_chunks];
    VkResult result = rx_vk_begin(d, cb, false);
    if (result != VK_SUCCESS)
        return result;
    rx_vk_barrier(d, cb);
    rx_vk_record(d, cb, c->list + first, end - first);
    if (end == c->n)
        rx_vk_record_copies(e, cb);
    if (d->mapped)
        rx_vk_barrier_host(d, cb);
    return d->vk.EndCommandBuffer(cb);
}

/* Records the whole run, a command buffer a piece; one also where there are no dispatches. */
static rlx_status record_run(rx_exec *e, const rx_gpu_list *l, rx_commands *c, rlx_error *err)
{
    rx_device *d = e->device;
    c->chunks = rx_alloc_array_zero(l->n_pieces + 1, sizeof *c->chunks);
    c->submits = rx_alloc_array(l->n_pieces + 3, sizeof *c->submits);
    if (!c->chunks || !c->submits)
        return rx_fail_memory(err, "command buffers", l->n_pieces * sizeof *c->chunks);
    for (size_t i = 0, end = 0; (i < c->n || !c->n_chunks) && !l->has_host; i = end) {
        while (end < c->n && c->list[end].piece == c->list[i].piece)
            end++;
        c->chunks[c->n_chunks] = rx_vk_commands_alloc(d, e->pool);
        if (!c->chunks[c->n_chunks])
            return rx_fail_memory(err, "command buffers", l->n_pieces * sizeof *c->chunks);
        VkResult result = record_piece(e, c, i, end);
        c->n_chunks++;
        if (result != VK_SUCCESS)
            return rx_vk_fail(d, result, "recording a program", err);
    }
    rx_log(RLX_LOG_DEBUG, "vulkan: %zu steps are %zu dispatches with %" PRIu32 " barriers in %"
           PRIu32 " pieces, %" PRIu32 " chained", e->base.program->n_steps, l->n, l->n_barriers,
           l->n_pieces, l->n_chained);
    return RLX_OK;
}

rlx_status rx_vk_commands_create(rx_exec *e, const rx_gpu_list *l, rx_gpu_recording *r,
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
        c->list[c->n] = rx_vk_dispatch_of(&l->items[c->n], &e->base.flags);
    RLX_TRY(rx_vk_pipelines_get(e->device, l->items, c->n, c->list, err));
    RLX_TRY(rx_vk_sets_create(e->device, c->list, c->n, &c->sets, err));
    return e->device->compile_only ? RLX_OK : record_run(e, l, c, err);
}

void rx_vk_commands_destroy(rx_exec *e, rx_commands *c)
{
    rx_device *d = e->device;
    if (!c)
        return;
    rx_vk_pipelines_release(d, c->list, c->n);
    if (c->n_chunks)
        d->vk.FreeCommandBuffers(d->handle, e->pool, (uint32_t)c->n_chunks, c->chunks);
    if (c->sets)
        d->vk.DestroyDescriptorPool(d->handle, c->sets, NULL);
    rx_free(c->list);
    rx_free(c->chunks);
    rx_free(c->submits);
    rx_free(c);
}
