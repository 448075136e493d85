/* SPDX-License-Identifier: MIT */
/* Command buffers: descriptor sets, dispatches with the barriers they need, and whole runs cut into
 * pieces that a watchdog of the driver or of the desktop will not find too long. */
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

rx_vk_dispatch rx_vk_dispatch_of(const rx_gpu_placed *from)
{
    const rx_gpu_dispatch *x = &from->dispatch;
    rx_vk_dispatch to = {.n_bind = x->n_bind, .writes = x->writes, .n_push = x->n_push};
    memcpy(to.bind, from->bind, sizeof to.bind);
    memcpy(to.begin, from->begin, sizeof to.begin);
    memcpy(to.end, from->end, sizeof to.end);
    memcpy(to.push, x->push, sizeof to.push);
    memcpy(to.address, x->address, sizeof to.address);
    memcpy(to.groups, x->groups, sizeof to.groups);
    return to;
}

/* What is not there binds the word of flags, and touches nothing. */
static void bind_nothing(const rx_exec *e, rx_vk_dispatch *x)
{
    for (uint32_t k = 0; k < x->n_bind; k++) {
        const bool nothing = !x->bind[k].block;
        if (nothing)
            x->bind[k] = e->base.flags;
        if (!e->device->instance->validation)
            continue;
        /* The layer knows only what is bound, and not what a kernel does not use. */
        x->begin[k] = x->bind[k].offset;
        x->end[k] = x->bind[k].offset + x->bind[k].bytes;
        x->writes |= (uint32_t)nothing << k;
    }
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
    if (!n)
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

size_t rx_vk_record(rx_device *d, VkCommandBuffer cb, const rx_vk_dispatch *list, size_t n)
{
    rx_vk_walk w;
    bool waits;
    size_t n_barriers = 0;
    rx_vk_walk_begin(&w, list, n, d->full_barrier);
    for (size_t i = rx_vk_walk_next(&w, &waits); i < n; i = rx_vk_walk_next(&w, &waits)) {
        if (waits && !list[i].waits_inside) {
            barrier_compute(d, cb);
            n_barriers++;
        }
        record_dispatch(d, cb, &list[i]);
    }
    return n_barriers;
}

/* ---- Whole runs ----------------------------------------------------------------------------- */

void rx_vk_fetch_flags(rx_exec *e, VkCommandBuffer cb)
{
    const rx_gpu_place *flags = &e->base.flags;
    VkBufferCopy copy = {.srcOffset = flags->offset, .size = 8};
    e->device->vk.CmdCopyBuffer(cb, flags->block->buffer, e->flags_host.buffer, 1, &copy);
}

static VkResult record_piece(rx_exec *e, const rx_gpu_recording *r, size_t first, size_t end,
                             size_t *n_barriers)
{
    rx_device *d = e->device;
    const rx_commands *c = r->commands;
    VkCommandBuffer cb = c->chunks[c->n_chunks];
    VkResult result = rx_vk_begin(d, cb, false);
    if (result != VK_SUCCESS)
        return result;
    rx_vk_barrier(d, cb);
    *n_barriers += rx_vk_record(d, cb, c->list + r->first[first], r->first[end] - r->first[first]);
    if (d->mapped)
        rx_vk_barrier_host(d, cb);
    return d->vk.EndCommandBuffer(cb);
}

/* Records the whole run into pieces. */
static rlx_status record_run(rx_exec *e, const rx_gpu_recording *r, rlx_error *err)
{
    rx_device *d = e->device;
    rx_commands *c = r->commands;
    const rx_gpu_values *v = &e->base.values;
    size_t n_steps = e->base.program->n_steps, n = 0, n_barriers = 0;
    for (size_t i = 0; i < n_steps; i = rx_gpu_piece_end(v, &d->caps, i))
        n++;
    c->chunks = rx_alloc_array_zero(n + 1, sizeof *c->chunks);
    c->submits = rx_alloc_array(n + 2, sizeof *c->submits);
    if (!c->chunks || !c->submits)
        return rx_fail_memory(err, "command buffers", n * sizeof *c->chunks);
    for (size_t i = 0; i < n_steps && !r->has_host;) {
        size_t end = rx_gpu_piece_end(v, &d->caps, i);
        c->chunks[c->n_chunks] = rx_vk_commands_alloc(d, e->pool);
        if (!c->chunks[c->n_chunks])
            return rx_fail_memory(err, "command buffers", n * sizeof *c->chunks);
        VkResult result = record_piece(e, r, i, end, &n_barriers);
        c->n_chunks++;
        if (result != VK_SUCCESS)
            return rx_vk_fail(d, result, "recording a program", err);
        i = end;
    }
    rx_log(RLX_LOG_DEBUG,
           "vulkan: %zu steps are %zu dispatches with %zu barriers in %zu pieces, %" PRIu32
           " chained", n_steps, r->n, n_barriers, c->n_chunks, c->n_chained);
    return RLX_OK;
}

rlx_status rx_vk_commands_create(rx_exec *e, rx_gpu_placed *list, rx_gpu_recording *r,
                                 rlx_error *err)
{
    rx_commands *c = rx_alloc_zero(sizeof *c);
    if (!c)
        return rx_fail_memory(err, "a recording", sizeof *c);
    r->commands = c; /* from here on it goes with the recording */
    c->list = rx_alloc_array(r->n + 1, sizeof *c->list);
    if (!c->list)
        return rx_fail_memory(err, "the dispatches of a program", r->n * sizeof *c->list);
    for (; c->n < r->n; c->n++) {
        c->list[c->n] = rx_vk_dispatch_of(&list[c->n]);
        bind_nothing(e, &c->list[c->n]);
    }
    RLX_TRY(rx_vk_chain(e, list, r, err));
    RLX_TRY(rx_vk_pipelines_get(e->device, list, c->n, c->list, err));
    RLX_TRY(rx_vk_sets_create(e->device, c->list, c->n, &c->sets, err));
    return record_run(e, r, err);
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
