/* SPDX-License-Identifier: MIT */
/* rlx_buffer on GPUs: a block shared by programs. A buffer used as a weight owns its packed forms,
 * which are made once for all programs. */
#include "gpu/exec/memory.h"

rlx_status rx_gpu_buffer_create(const rx_gpu_memory *m, size_t bytes, rx_buffer **out,
                                rlx_error *err)
{
    *out = NULL;
    rx_buffer *b = rx_alloc_zero(sizeof *b);
    if (!b)
        return rx_fail_memory(err, "a buffer", sizeof *b);
    *b = (rx_buffer){.memory = m, .weight = {.version = 1, .pool = &b->packed_pool}};
    rlx_status st = rx_gpu_pool_create(m, (uint64_t[]){bytes}, 1, "a buffer", &b->pool,
                                       &b->weight.place, err);
    if (st == RLX_OK && m->zero)
        st = m->zero(m->device, &b->weight.place, err);
    if (st != RLX_OK)
        rx_gpu_buffer_destroy(b);
    else
        *out = b;
    return st;
}

void rx_gpu_buffer_destroy(rx_buffer *b)
{
    const rx_gpu_memory *m = b->memory;
    if (m->finish_uploads)
        m->finish_uploads(m->device, NULL);
    rx_gpu_packed_free(m, &b->weight);
    rx_gpu_pool_destroy(m, &b->packed_pool);
    rx_gpu_pool_destroy(m, &b->pool);
    rx_free(b);
}

rlx_status rx_gpu_buffer_write(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err)
{
    return b->memory->upload(b->memory->device, &b->weight.place, offset, data, bytes, err);
}

rlx_status rx_gpu_buffer_read(rx_buffer *b, size_t offset, void *data, size_t bytes, rlx_error *err)
{
    return b->memory->download(b->memory->device, &b->weight.place, offset, data, bytes, err);
}

void *rx_gpu_buffer_map(rx_buffer *b)
{
    return b->memory->map(&b->weight.place);
}

void rx_gpu_buffer_changed(rx_buffer *b)
{
    rx_mutex_lock(b->memory->shared_lock);
    b->weight.version++;
    rx_mutex_unlock(b->memory->shared_lock);
}
