/* SPDX-License-Identifier: MIT */
/* Device memory: blocks, each an allocation with one buffer over it. The budget is queried before
 * anything is allocated. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vulkan/device.h"

/* ---- Types and budget ----------------------------------------------------------------------- */

#define LOCAL VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT
#define MAPPED (VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT)
#define CACHED VK_MEMORY_PROPERTY_HOST_CACHED_BIT

/* The first type that has all of `want` and none of `avoid`, or -1. */
static int find_type(const rx_device *d, uint32_t types, uint32_t want, uint32_t avoid)
{
    const VkPhysicalDeviceMemoryProperties *m = &d->gpu.memory;
    for (uint32_t i = 0; i < m->memoryTypeCount; i++) {
        uint32_t flags = m->memoryTypes[i].propertyFlags;
        if (types >> i & 1 && (flags & want) == want && !(flags & avoid))
            return (int)i;
    }
    return -1;
}

/* Preferences in order: {want, avoid}, up to one that wants nothing. */
static int choose_type(const rx_device *d, uint32_t types, rx_vk_kind kind)
{
    static const uint32_t own[][2] = {{LOCAL, MAPPED}, {LOCAL, 0}, {0, 0}};
    static const uint32_t shared[][2] = {{LOCAL | MAPPED | CACHED, 0}, {LOCAL | MAPPED, 0},
                                         {MAPPED, 0}, {0, 0}};
    static const uint32_t upload[][2] = {{MAPPED, LOCAL | CACHED}, {MAPPED, LOCAL}, {MAPPED, 0},
                                         {0, 0}};
    static const uint32_t readback[][2] = {{MAPPED | CACHED, LOCAL}, {MAPPED | CACHED, 0},
                                           {MAPPED, 0}, {0, 0}};
    const uint32_t(*wish)[2] = kind == RX_VK_UPLOAD     ? upload
                               : kind == RX_VK_READBACK ? readback
                               : d->mapped              ? shared
                                                        : own;
    for (;; wish++) {
        int type = find_type(d, types, (*wish)[0], (*wish)[1]);
        if (type >= 0 || !(*wish)[0])
            return type;
    }
}

static rlx_status check_budget(rx_device *d, uint32_t heap, uint64_t bytes, const char *what,
                               rlx_error *err)
{
    VkPhysicalDeviceMemoryBudgetPropertiesEXT budget = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT};
    VkPhysicalDeviceMemoryProperties2 m = {
        .sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2,
        .pNext = d->gpu.has_budget ? &budget : NULL};
    d->instance->GetPhysicalDeviceMemoryProperties2(d->gpu.handle, &m);
    uint64_t room = m.memoryProperties.memoryHeaps[heap].size;
    if (d->gpu.has_budget && budget.heapBudget[heap])
        room = budget.heapBudget[heap] > budget.heapUsage[heap]
                   ? budget.heapBudget[heap] - budget.heapUsage[heap] : 0;
    if (bytes <= room)
        return RLX_OK;
    const bool large = bytes >> 30;
    const double unit = large ? 1 << 30 : 1 << 20;
    const char *name = large ? "GiB" : "MiB";
    return rx_fail(err, RLX_NO_MEMORY, "not enough memory for %s: it needs %.2f %s, %.2f %s are "
                   "free on %s", what, (double)bytes / unit, name, (double)room / unit, name,
                   d->gpu.info.name);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static bool has_address(const rx_device *d, rx_vk_kind kind)
{
    return kind == RX_VK_KERNEL && d->base.caps.address;
}

static VkResult create_buffer(rx_device *d, rx_vk_kind kind, uint64_t bytes, VkBuffer *out)
{
    uint32_t families[2] = {d->gpu.family, d->gpu.transfer_family};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    if (has_address(d, kind))
        info.usage |= VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT;
    if (d->has_transfer) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    return d->vk.CreateBuffer(d->handle, &info, NULL, out);
}

/* RLX_VULKAN_ARENA_DEBUG: what a block is for, its size and its kind. */
static void log_block(const rx_device *d, const char *what, uint64_t bytes, uint32_t type)
{
    static const struct { uint32_t flag; const char *name; } kinds[] = {
        {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, "device local"},
        {VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT, "host visible"},
        {VK_MEMORY_PROPERTY_HOST_COHERENT_BIT, "host coherent"},
        {VK_MEMORY_PROPERTY_HOST_CACHED_BIT, "host cached"},
        {VK_MEMORY_PROPERTY_LAZILY_ALLOCATED_BIT, "lazily allocated"}};
    const VkMemoryType *t = &d->gpu.memory.memoryTypes[type];
    char text[96] = "";
    for (size_t i = 0, used = 0; i < sizeof kinds / sizeof *kinds && used < sizeof text; i++)
        if (t->propertyFlags & kinds[i].flag)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used ? ", " : "",
                                     kinds[i].name);
    rx_log(RLX_LOG_INFO, "vulkan arena: %s: %llu bytes of memory type %u (%s), heap %u of %llu MiB",
           what, (unsigned long long)bytes, (unsigned)type, *text ? text : "no property",
           (unsigned)t->heapIndex,
           (unsigned long long)(d->gpu.memory.memoryHeaps[t->heapIndex].size >> 20));
}

static rlx_status allocate(rx_device *d, rx_vk_kind kind, const char *what, rx_block *b,
                           rlx_error *err)
{
    VkMemoryRequirements need;
    d->vk.GetBufferMemoryRequirements(d->handle, b->buffer, &need);
    int type = choose_type(d, need.memoryTypeBits, kind);
    if (type < 0)
        return rx_fail(err, RLX_UNSUPPORTED, "%s: %s has no memory type for it", what,
                       d->gpu.info.name);
    RLX_TRY(check_budget(d, d->gpu.memory.memoryTypes[type].heapIndex, need.size, what, err));
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                 .allocationSize = need.size, .memoryTypeIndex = (uint32_t)type};
    VkMemoryAllocateFlagsInfo flags_info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT};
    if (has_address(d, kind))
        info.pNext = &flags_info;
    VkResult r = d->vk.AllocateMemory(d->handle, &info, NULL, &b->memory);
    if (r == VK_SUCCESS)
        r = d->vk.BindBufferMemory(d->handle, b->buffer, b->memory, 0);
    VkBufferDeviceAddressInfo ask = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO,
                                     .buffer = b->buffer};
    if (r == VK_SUCCESS && has_address(d, kind))
        b->address = d->vk.GetBufferDeviceAddress(d->handle, &ask);
    if (r == VK_SUCCESS && d->log_blocks)
        log_block(d, what, need.size, (uint32_t)type);
    void *map = NULL;
    uint32_t flags = d->gpu.memory.memoryTypes[type].propertyFlags;
    if (r == VK_SUCCESS && (kind != RX_VK_KERNEL || d->mapped) && (flags & MAPPED) == MAPPED)
        r = d->vk.MapMemory(d->handle, b->memory, 0, VK_WHOLE_SIZE, 0, &map);
    b->map = map;
    if (r == VK_SUCCESS && !map && (kind != RX_VK_KERNEL || d->mapped))
        return rx_fail(err, RLX_UNSUPPORTED, "%s: %s has no memory that the host can map", what,
                       d->gpu.info.name);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, what, err);
}

rlx_status rx_vk_block_create(rx_device *d, rx_vk_kind kind, uint64_t bytes, const char *what,
                              rx_block *out, rlx_error *err)
{
    *out = (rx_block){.bytes = rx_gpu_room(bytes)};
    if (d->compile_only)
        return RLX_OK;
    VkResult r = create_buffer(d, kind, out->bytes, &out->buffer);
    rlx_status st = r == VK_SUCCESS ? allocate(d, kind, what, out, err)
                                    : rx_vk_fail(d, r, what, err);
    if (st != RLX_OK)
        rx_vk_block_destroy(d, out);
    return st;
}

void rx_vk_block_destroy(rx_device *d, rx_block *b)
{
    if (b->buffer)
        d->vk.DestroyBuffer(d->handle, b->buffer, NULL);
    if (b->memory)
        d->vk.FreeMemory(d->handle, b->memory, NULL);
    *b = (rx_block){0};
}

static rlx_status check_total(rx_device *d, uint64_t bytes, uint64_t largest, const char *what,
                              rlx_error *err)
{
    int type = choose_type(d, UINT32_MAX, RX_VK_KERNEL);
    RLX_TRY(rx_gpu_device_check(&d->base, bytes, what, err));
    if (type >= 0 && !d->compile_only)
        RLX_TRY(check_budget(d, d->gpu.memory.memoryTypes[type].heapIndex, bytes, what, err));
    if (largest <= d->gpu.max_block_bytes)
        return RLX_OK;
    return rx_fail(err, RLX_NO_MEMORY, "%s: a tensor of %llu bytes is larger than one allocation "
                   "of %s (%llu bytes)", what, (unsigned long long)largest, d->gpu.info.name,
                   (unsigned long long)d->gpu.max_block_bytes);
}

/* ---- For the pools -------------------------------------------------------------------------- */

static rlx_status create_block(rx_device *d, uint64_t bytes, const char *what, rx_block *out,
                               rlx_error *err)
{
    const uint64_t room = rx_gpu_room(bytes);
    RLX_TRY(rx_gpu_device_take(&d->base, room, what, err));
    const rlx_status st = rx_vk_block_create(d, RX_VK_KERNEL, bytes, what, out, err);
    if (st != RLX_OK)
        rx_gpu_device_give(&d->base, room);
    return st;
}

static void destroy_block(rx_device *d, rx_block *b)
{
    rx_gpu_device_give(&d->base, b->bytes);
    rx_vk_block_destroy(d, b);
}

static uint64_t block_bytes(const rx_block *b)
{
    return b->bytes;
}

static rlx_status wait_device(rx_device *d, rlx_error *err)
{
    if (d->compile_only)
        return RLX_OK;
    rx_mutex_lock(&d->queue.lock);
    rx_mutex_lock(&d->transfer_queue.lock);
    VkResult r = atomic_load(&d->lost) ? VK_ERROR_DEVICE_LOST : d->vk.DeviceWaitIdle(d->handle);
    rx_mutex_unlock(&d->transfer_queue.lock);
    rx_mutex_unlock(&d->queue.lock);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "waiting for runs", err);
}

static void *map_place(const rx_gpu_place *p)
{
    return p->block->map ? p->block->map + p->offset : NULL;
}

void rx_vk_memory_init(rx_device *d)
{
    d->base.memory_limit = d->gpu.memory_limit;
    d->base.memory = (rx_gpu_memory){.device = d, .block_size = sizeof(rx_block),
        .max_block_bytes = d->gpu.max_block_bytes, .check = check_total, .create = create_block,
        .destroy = destroy_block, .block_bytes = block_bytes, .upload = rx_vk_upload,
        .zero = rx_vk_zero, .download = rx_vk_download, .map = map_place,
        .shared_lock = &d->base.shared_lock, .finish_uploads = rx_vk_upload_finish,
        .wait = wait_device, .pack_create = rx_vk_pack_create, .pack_destroy = rx_vk_pack_destroy};
}
