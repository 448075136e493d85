/* SPDX-License-Identifier: MIT */
/* Device memory: blocks (buffers), pools of tensors in blocks, and the arena of a program. Sizes
 * are checked against the limits before the library sees them. */
#include <string.h>

#include "webgpu/device.h"

static uint64_t round_up(uint64_t bytes)
{
    return bytes ? (bytes + RX_WG_ALIGN - 1) & ~(uint64_t)(RX_WG_ALIGN - 1) : RX_WG_ALIGN;
}

/* ---- Blocks --------------------------------------------------------------------------------- */

static rlx_status check_size(const rx_device *d, uint64_t bytes, const char *what, rlx_error *err)
{
    if (bytes <= d->gpu.max_block_bytes)
        return RLX_OK;
    return rx_fail(err, RLX_NO_MEMORY, "%s: %llu bytes are more than one buffer of %s (%llu bytes)",
                   what, (unsigned long long)bytes, d->gpu.info.name,
                   (unsigned long long)d->gpu.max_block_bytes);
}

rlx_status rx_wg_block_create(rx_device *d, WGPUFlags usage, uint64_t bytes, const char *what,
                              rx_wg_block *out, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    *out = (rx_wg_block){0};
    if (bytes > UINT64_MAX / 2)
        return rx_fail_memory(err, what, bytes);
    WGPUBufferDescriptor info = {.label = {"rlx", 3}, .usage = usage, .size = round_up(bytes)};
    RLX_TRY(rx_wg_check(d, what, err));
    RLX_TRY(check_size(d, info.size, what, err));
    rx_wg_scope_begin(d);
    rx_wg_enter(lib);
    out->buffer = lib->DeviceCreateBuffer(d->handle, &info);
    rx_wg_leave(lib);
    out->bytes = info.size;
    rlx_status st = rx_wg_scope_end(d, what, err);
    if (st == RLX_OK && !out->buffer)
        st = rx_fail_memory(err, what, info.size);
    if (st != RLX_OK)
        rx_wg_block_destroy(d, out);
    return st;
}

void rx_wg_block_destroy(rx_device *d, rx_wg_block *b)
{
    if (b->buffer) {
        rx_wg_enter(d->lib);
        d->lib->BufferRelease(b->buffer);
        rx_wg_leave(d->lib);
    }
    *b = (rx_wg_block){0};
}

/* ---- Pools ---------------------------------------------------------------------------------- */

static rlx_status add_block(rx_device *d, rx_wg_pool *pool, uint64_t bytes, const char *what,
                            rlx_error *err)
{
    if (!rx_grow(&pool->blocks, &pool->cap, pool->n + 1, sizeof *pool->blocks))
        return rx_fail_memory(err, what, sizeof *pool->blocks);
    rx_wg_block *b = rx_alloc(sizeof *b);
    if (!b)
        return rx_fail_memory(err, what, sizeof *b);
    rlx_status st = rx_wg_block_create(d, RX_WG_KERNEL, bytes, what, b, err);
    if (st != RLX_OK) {
        rx_free(b);
        return st;
    }
    pool->blocks[pool->n++] = b;
    pool->used = 0;
    return RLX_OK;
}

rlx_status rx_wg_pool_add(rx_device *d, rx_wg_pool *pool, uint64_t bytes, uint64_t block_bytes,
                          const char *what, rx_wg_place *out, rlx_error *err)
{
    if (bytes > UINT64_MAX / 2)
        return rx_fail_memory(err, what, bytes);
    uint64_t room = round_up(bytes), most = d->gpu.max_block_bytes;
    if (!pool->n || pool->blocks[pool->n - 1]->bytes - pool->used < room) {
        uint64_t size = block_bytes < most ? block_bytes : most;
        RLX_TRY(add_block(d, pool, size > room ? size : room, what, err));
    }
    *out = (rx_wg_place){pool->blocks[pool->n - 1], pool->used, bytes};
    pool->used += room;
    return RLX_OK;
}

rlx_status rx_wg_pool_create(rx_device *d, const uint64_t *bytes, size_t n, const char *what,
                             rx_wg_pool *pool, rx_wg_place *out, rlx_error *err)
{
    *pool = (rx_wg_pool){0};
    uint64_t left = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] > UINT64_MAX / 2 || !rx_add_size(left, round_up(bytes[i]), &left))
            return rx_fail_memory(err, what, UINT64_MAX);
        RLX_TRY(check_size(d, bytes[i], what, err));
    }
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        st = rx_wg_pool_add(d, pool, bytes[i], left, what, &out[i], err);
        left -= round_up(bytes[i]);
    }
    if (st != RLX_OK)
        rx_wg_pool_destroy(d, pool);
    return st;
}

void rx_wg_pool_destroy(rx_device *d, rx_wg_pool *pool)
{
    for (size_t i = 0; i < pool->n; i++) {
        rx_wg_block_destroy(d, pool->blocks[i]);
        rx_free(pool->blocks[i]);
    }
    rx_free(pool->blocks);
    *pool = (rx_wg_pool){0};
}

/* ---- The arena of a program ----------------------------------------------------------------- */

static rlx_status add_blocks(rx_device *d, const rx_gpu_arena *plan, rx_wg_pool *pool,
                             rlx_error *err)
{
    const char *what = "the arena of the program";
    RLX_TRY(check_size(d, plan->largest, what, err));
    for (size_t i = 0; i < plan->n; i++)
        RLX_TRY(add_block(d, pool, plan->blocks[i], what, err));
    return RLX_OK;
}

rlx_status rx_wg_arena_create(rx_device *d, const rx_program *p, rx_wg_pool *pool,
                              rx_wg_place *out, rlx_error *err)
{
    rx_gpu_arena plan = {0};
    rx_gpu_spot *spots = rx_alloc((p->n_values + 1) * sizeof *spots);
    rlx_status st;
    *pool = (rx_wg_pool){0};
    if (spots && rx_gpu_arena_plan(p, RX_WG_ALIGN, d->gpu.max_block_bytes, &plan, spots))
        st = add_blocks(d, &plan, pool, err);
    else
        st = rx_fail_memory(err, "the arena", p->n_values * sizeof *spots);
    for (size_t i = 0; i < p->n_values && st == RLX_OK; i++)
        if (rx_gpu_is_planned(&p->values[i]))
            out[i] = (rx_wg_place){pool->blocks[spots[i].block], spots[i].offset,
                                   p->values[i].bytes};
    rx_free(plan.blocks);
    rx_free(spots);
    if (st != RLX_OK)
        rx_wg_pool_destroy(d, pool);
    return st;
}
