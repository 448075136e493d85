/* SPDX-License-Identifier: MIT */
/* Pools of tensors in blocks of device memory, and the arena of a program. */
#include "gpu/exec/memory.h"

static rlx_status add_block(const rx_gpu_memory *m, rx_gpu_pool *pool, uint64_t bytes,
                            const char *what, rlx_error *err)
{
    if (!rx_grow(&pool->blocks, &pool->cap, pool->n + 1, sizeof *pool->blocks))
        return rx_fail_memory(err, what, sizeof *pool->blocks);
    rx_block *b = rx_alloc(m->block_size);
    if (!b)
        return rx_fail_memory(err, what, m->block_size);
    rlx_status st = m->create(m->device, bytes, what, b, err);
    if (st != RLX_OK) {
        rx_free(b);
        return st;
    }
    pool->blocks[pool->n++] = b;
    pool->used = 0;
    pool->room = bytes;
    pool->total += bytes;
    return RLX_OK;
}

rlx_status rx_gpu_pool_add(const rx_gpu_memory *m, rx_gpu_pool *pool, uint64_t bytes,
                           uint64_t block_bytes, const char *what, rx_gpu_place *out,
                           rlx_error *err)
{
    if (bytes > UINT64_MAX / 2)
        return rx_fail_memory(err, what, bytes);
    const uint64_t need = rx_gpu_room(bytes), most = m->max_block_bytes;
    if (pool->room - pool->used < need) {
        uint64_t size = block_bytes < most ? block_bytes : most;
        RLX_TRY(add_block(m, pool, size > need ? size : need, what, err));
    }
    *out = (rx_gpu_place){pool->blocks[pool->n - 1], pool->used, bytes};
    pool->used += need;
    return RLX_OK;
}

rlx_status rx_gpu_pool_create(const rx_gpu_memory *m, const uint64_t *bytes, size_t n,
                              const char *what, rx_gpu_pool *pool, rx_gpu_place *out,
                              rlx_error *err)
{
    *pool = (rx_gpu_pool){0};
    uint64_t left = 0, largest = 0;
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] > UINT64_MAX / 2 || !rx_add_size(left, rx_gpu_room(bytes[i]), &left))
            return rx_fail_memory(err, what, UINT64_MAX);
        largest = bytes[i] > largest ? bytes[i] : largest;
    }
    rlx_status st = m->check(m->device, left, largest, what, err);
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        st = rx_gpu_pool_add(m, pool, bytes[i], left, what, &out[i], err);
        left -= rx_gpu_room(bytes[i]);
    }
    if (st != RLX_OK)
        rx_gpu_pool_destroy(m, pool);
    return st;
}

void rx_gpu_pool_destroy(const rx_gpu_memory *m, rx_gpu_pool *pool)
{
    for (size_t i = 0; i < pool->n; i++) {
        m->destroy(m->device, pool->blocks[i]);
        rx_free(pool->blocks[i]);
    }
    rx_free(pool->blocks);
    *pool = (rx_gpu_pool){0};
}

/* ---- The arena of a program ----------------------------------------------------------------- */

static rlx_status add_blocks(const rx_gpu_memory *m, const rx_program *p, const rx_gpu_arena *plan,
                             rx_gpu_pool *pool, rlx_error *err)
{
    const char *what = "the arena of the program";
    RLX_TRY(m->check(m->device, p->memory.arena_bytes, plan->largest, what, err));
    for (size_t i = 0; i < plan->n; i++)
        RLX_TRY(add_block(m, pool, rx_gpu_room(plan->blocks[i]), what, err));
    return RLX_OK;
}

rlx_status rx_gpu_arena_create(const rx_gpu_memory *m, const rx_program *p, rx_gpu_pool *pool,
                               rx_gpu_place *out, rlx_error *err)
{
    rx_gpu_arena plan = {0};
    rx_gpu_spot *spots = rx_alloc_array(p->n_values + 1, sizeof *spots);
    rlx_status st;
    *pool = (rx_gpu_pool){0};
    if (spots && rx_gpu_arena_plan(p, RX_GPU_ALIGN, m->max_block_bytes, &plan, spots))
        st = add_blocks(m, p, &plan, pool, err);
    else
        st = rx_fail_memory(err, "the arena", p->n_values * sizeof *spots);
    for (size_t i = 0; i < p->n_values && st == RLX_OK; i++)
        if (rx_gpu_is_planned(&p->values[i]))
            out[i] = (rx_gpu_place){pool->blocks[spots[i].block], spots[i].offset,
                                    p->values[i].bytes};
    rx_free(plan.blocks);
    rx_free(spots);
    if (st != RLX_OK)
        rx_gpu_pool_destroy(m, pool);
    return st;
}
