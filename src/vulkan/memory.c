/* SPDX-License-Identifier: MIT */
/* Device memory: blocks (an allocation with one buffer over it), pools of tensors in blocks, and
 * the arena of a program. The budget is asked before anything is allocated. */
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

/* Wishes in order of preference: {want, avoid}, up to one that wants nothing. */
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
    const double gib = 1024.0 * 1024.0 * 1024.0;
    return rx_fail(err, RLX_NO_MEMORY, "%s needs %.2f GiB of device memory, %.2f GiB are free on "
                   "%s", what, (double)bytes / gib, (double)room / gib, d->gpu.info.name);
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static VkResult create_buffer(rx_device *d, uint64_t bytes, VkBuffer *out)
{
    uint32_t families[2] = {d->gpu.family, d->gpu.transfer_family};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = bytes,
                               .usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                        VK_BUFFER_USAGE_TRANSFER_DST_BIT};
    if (d->has_transfer) {
        info.sharingMode = VK_SHARING_MODE_CONCURRENT;
        info.queueFamilyIndexCount = 2;
        info.pQueueFamilyIndices = families;
    }
    return d->vk.CreateBuffer(d->handle, &info, NULL, out);
}

static rlx_status allocate(rx_device *d, rx_vk_kind kind, const char *what, rx_vk_block *b,
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
    VkResult r = d->vk.AllocateMemory(d->handle, &info, NULL, &b->memory);
    if (r == VK_SUCCESS)
        r = d->vk.BindBufferMemory(d->handle, b->buffer, b->memory, 0);
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
                              rx_vk_block *out, rlx_error *err)
{
    *out = (rx_vk_block){.bytes = (bytes + RX_VK_ALIGN - 1) / RX_VK_ALIGN * RX_VK_ALIGN};
    if (!out->bytes)
        out->bytes = RX_VK_ALIGN;
    VkResult r = create_buffer(d, out->bytes, &out->buffer);
    rlx_status st = r == VK_SUCCESS ? allocate(d, kind, what, out, err)
                                    : rx_vk_fail(d, r, what, err);
    if (st != RLX_OK)
        rx_vk_block_destroy(d, out);
    return st;
}

void rx_vk_block_destroy(rx_device *d, rx_vk_block *b)
{
    if (b->buffer)
        d->vk.DestroyBuffer(d->handle, b->buffer, NULL);
    if (b->memory)
        d->vk.FreeMemory(d->handle, b->memory, NULL);
    *b = (rx_vk_block){0};
}

/* Says no before anything is allocated for a set of tensors. */
static rlx_status check_total(rx_device *d, uint64_t bytes, uint64_t largest, const char *what,
                              rlx_error *err)
{
    int type = choose_type(d, UINT32_MAX, RX_VK_KERNEL);
    if (type >= 0)
        RLX_TRY(check_budget(d, d->gpu.memory.memoryTypes[type].heapIndex, bytes, what, err));
    if (largest <= d->gpu.max_block_bytes)
        return RLX_OK;
    return rx_fail(err, RLX_NO_MEMORY, "%s: a tensor of %llu bytes is larger than one allocation "
                   "of %s (%llu bytes)", what, (unsigned long long)largest, d->gpu.info.name,
                   (unsigned long long)d->gpu.max_block_bytes);
}

/* ---- Pools ---------------------------------------------------------------------------------- */

static uint64_t round_up(uint64_t bytes)
{
    return bytes ? (bytes + RX_VK_ALIGN - 1) & ~(uint64_t)(RX_VK_ALIGN - 1) : RX_VK_ALIGN;
}

static rlx_status add_block(rx_device *d, rx_vk_pool *pool, uint64_t bytes, const char *what,
                            rlx_error *err)
{
    if (!rx_grow(&pool->blocks, &pool->cap, pool->n + 1, sizeof *pool->blocks))
        return rx_fail_memory(err, what, sizeof *pool->blocks);
    rx_vk_block *b = rx_alloc(sizeof *b);
    if (!b)
        return rx_fail_memory(err, what, sizeof *b);
    rlx_status st = rx_vk_block_create(d, RX_VK_KERNEL, bytes, what, b, err);
    if (st != RLX_OK) {
        rx_free(b);
        return st;
    }
    pool->blocks[pool->n++] = b;
    pool->used = 0;
    return RLX_OK;
}

rlx_status rx_vk_pool_add(rx_device *d, rx_vk_pool *pool, uint64_t bytes, uint64_t block_bytes,
                          const char *what, rx_vk_place *out, rlx_error *err)
{
    uint64_t room = round_up(bytes), most = d->gpu.max_block_bytes;
    if (bytes > UINT64_MAX / 2)
        return rx_fail_memory(err, what, bytes);
    if (!pool->n || pool->blocks[pool->n - 1]->bytes - pool->used < room) {
        uint64_t size = block_bytes < most ? block_bytes : most;
        RLX_TRY(add_block(d, pool, size > room ? size : room, what, err));
    }
    *out = (rx_vk_place){pool->blocks[pool->n - 1], pool->used, bytes};
    pool->used += room;
    return RLX_OK;
}

rlx_status rx_vk_pool_create(rx_device *d, const uint64_t *bytes, size_t n, const char *what,
                             rx_vk_pool *pool, rx_vk_place *out, rlx_error *err)
{
    *pool = (rx_vk_pool){0};
    uint64_t left = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] > UINT64_MAX / 2 || !rx_add_size(left, round_up(bytes[i]), &left))
            return rx_fail_memory(err, what, UINT64_MAX);
        largest = bytes[i] > largest ? bytes[i] : largest;
    }
    rlx_status st = check_total(d, left, largest, what, err);
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        st = rx_vk_pool_add(d, pool, bytes[i], left, what, &out[i], err);
        left -= round_up(bytes[i]);
    }
    if (st != RLX_OK)
        rx_vk_pool_destroy(d, pool);
    return st;
}

void rx_vk_pool_destroy(rx_device *d, rx_vk_pool *pool)
{
    for (size_t i = 0; i < pool->n; i++) {
        rx_vk_block_destroy(d, pool->blocks[i]);
        rx_free(pool->blocks[i]);
    }
    rx_free(pool->blocks);
    *pool = (rx_vk_pool){0};
}

/* ---- The arena of a program ----------------------------------------------------------------- */

static rlx_status add_blocks(rx_device *d, const rx_program *p, const rx_gpu_arena *plan,
                             rx_vk_pool *pool, rlx_error *err)
{
    const char *what = "the arena of the program";
    if (round_up(p->memory.arena_bytes) <= d->gpu.max_block_bytes) /* whole, or even empty */
        return add_block(d, pool, plan->blocks[0] + RX_VK_ALIGN, what, err);
    RLX_TRY(check_total(d, p->memory.arena_bytes, plan->largest, what, err));
    for (size_t i = 0; i < plan->n; i++)
        RLX_TRY(add_block(d, pool, plan->blocks[i], what, err));
    return RLX_OK;
}

rlx_status rx_vk_arena_create(rx_device *d, const rx_program *p, rx_vk_pool *pool, rx_vk_place *out,
                              rlx_error *err)
{
    rx_gpu_arena plan = {0};
    rx_gpu_spot *spots = rx_alloc((p->n_values + 1) * sizeof *spots);
    rlx_status st;
    *pool = (rx_vk_pool){0};
    if (spots && rx_gpu_arena_plan(p, RX_VK_ALIGN, d->gpu.max_block_bytes, &plan, spots))
        st = add_blocks(d, p, &plan, pool, err);
    else
        st = rx_fail_memory(err, "the arena", p->n_values * sizeof *spots);
    for (size_t i = 0; i < p->n_values && st == RLX_OK; i++)
        if (rx_gpu_is_planned(&p->values[i]))
            out[i] = (rx_vk_place){pool->blocks[spots[i].block], spots[i].offset,
                                   p->values[i].bytes};
    rx_free(plan.blocks);
    rx_free(spots);
    if (st != RLX_OK)
        rx_vk_pool_destroy(d, pool);
    return st;
}
