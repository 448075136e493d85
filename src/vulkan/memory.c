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

/* Values that share memory while one of them lives (in-place results) move together. */
typedef struct group {
    uint64_t offset, bytes; /* in the plan */
    uint32_t first, last;   /* steps */
    size_t block;
    uint64_t at;            /* in the block */
} group;

static bool is_planned(const rx_pvalue *v)
{
    return v->space == RX_SPACE_ARENA && v->view_of < 0;
}

static bool share_memory(const group *a, const group *b)
{
    return a->bytes && b->bytes && a->first <= b->last && b->first <= a->last &&
           a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* Merges y into x. */
static void merge_groups(group *x, group *y)
{
    uint64_t x_end = x->offset + x->bytes, y_end = y->offset + y->bytes;
    x->offset = x->offset < y->offset ? x->offset : y->offset;
    x->bytes = (x_end > y_end ? x_end : y_end) - x->offset;
    x->first = x->first < y->first ? x->first : y->first;
    x->last = x->last > y->last ? x->last : y->last;
    y->bytes = 0;
}

/* Merges all groups that share memory with a; true when there was one. */
static bool absorb_groups(const rx_program *p, group *groups, size_t n, size_t a, size_t *of)
{
    bool any = false;
    for (size_t b = 0; b < n; b++) {
        if (b == a || !share_memory(&groups[a], &groups[b]))
            continue;
        merge_groups(&groups[a], &groups[b]);
        for (size_t i = 0; i < p->n_values; i++)
            of[i] = of[i] == b ? a : of[i];
        any = true;
    }
    return any;
}

/* Groups values; of[i] is the group of value i. */
static size_t make_groups(const rx_program *p, group *groups, size_t *of)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n_values; i++) {
        const rx_pvalue *v = &p->values[i];
        of[i] = SIZE_MAX;
        if (!is_planned(v))
            continue;
        of[i] = n;
        groups[n++] = (group){v->offset, round_up(v->bytes), v->first, v->last, 0, 0};
    }
    for (size_t a = 0; a < n; a++)
        while (groups[a].bytes && absorb_groups(p, groups, n, a, of))
            continue;
    return n;
}

/* The lowest place in block `block` where group g fits beside those placed before it. */
static bool fit_group(const group *groups, size_t g, size_t block, uint64_t most, uint64_t *at)
{
    uint64_t candidate = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t k = 0; k < g; k++) {
            const group *o = &groups[k];
            bool together = o->first <= groups[g].last && groups[g].first <= o->last;
            if (!o->bytes || o->block != block || !together ||
                candidate >= o->at + o->bytes || o->at >= candidate + groups[g].bytes)
                continue;
            candidate = o->at + o->bytes;
            moved = true;
        }
    }
    *at = candidate;
    return candidate == 0 || candidate + groups[g].bytes <= most;
}

static rlx_status place_groups(rx_device *d, const rx_program *p, group *groups, size_t *of,
                               rx_vk_pool *pool, rx_vk_place *out, rlx_error *err)
{
    size_t n = make_groups(p, groups, of), n_blocks = 0;
    uint64_t largest = 0;
    for (size_t g = 0; g < n; g++)
        largest = groups[g].bytes > largest ? groups[g].bytes : largest;
    RLX_TRY(check_total(d, p->memory.arena_bytes, largest, "the arena of the program", err));
    uint64_t *sizes = rx_alloc_zero((n + 1) * sizeof *sizes);
    rlx_status st = sizes ? RLX_OK : rx_fail_memory(err, "the arena", n * sizeof *sizes);
    for (size_t g = 0; g < n && st == RLX_OK; g++) {
        size_t block = 0;
        if (!groups[g].bytes)
            continue;
        while (!fit_group(groups, g, block, d->gpu.max_block_bytes, &groups[g].at))
            block++;
        groups[g].block = block;
        n_blocks = block + 1 > n_blocks ? block + 1 : n_blocks;
        if (groups[g].at + groups[g].bytes > sizes[block])
            sizes[block] = groups[g].at + groups[g].bytes;
    }
    for (size_t i = 0; i < n_blocks && st == RLX_OK; i++)
        st = add_block(d, pool, sizes[i], "the arena of the program", err);
    for (size_t i = 0; i < p->n_values && st == RLX_OK; i++) {
        const rx_pvalue *v = &p->values[i];
        if (!is_planned(v))
            continue;
        const group *g = &groups[of[i]];
        out[i] = (rx_vk_place){pool->blocks[g->block], g->at + (v->offset - g->offset), v->bytes};
    }
    rx_free(sizes);
    return st;
}

rlx_status rx_vk_arena_create(rx_device *d, const rx_program *p, rx_vk_pool *pool, rx_vk_place *out,
                              rlx_error *err)
{
    uint64_t bytes = p->memory.arena_bytes;
    *pool = (rx_vk_pool){0};
    if (bytes <= d->gpu.max_block_bytes) {
        RLX_TRY(add_block(d, pool, bytes + RX_VK_ALIGN, "the arena of the program", err));
        for (size_t i = 0; i < p->n_values; i++)
            if (is_planned(&p->values[i]))
                out[i] = (rx_vk_place){pool->blocks[0], p->values[i].offset, p->values[i].bytes};
        return RLX_OK;
    }
    group *groups = rx_alloc((p->n_values + 1) * sizeof *groups);
    size_t *of = rx_alloc((p->n_values + 1) * sizeof *of);
    rlx_status st = RLX_NO_MEMORY;
    if (groups && of)
        st = place_groups(d, p, groups, of, pool, out, err);
    else
        rx_fail_memory(err, "the arena", p->n_values * sizeof *groups);
    rx_free(groups);
    rx_free(of);
    if (st != RLX_OK)
        rx_vk_pool_destroy(d, pool);
    return st;
}
