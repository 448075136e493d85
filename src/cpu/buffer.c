/* SPDX-License-Identifier: MIT */
/* Buffers of the CPU devices: host memory with the packed forms that kernels requested, so that a
 * weight is packed once for all programs. */
#include <string.h>

#include "cpu/device.h"

rlx_status rx_cpu_buffer_create(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err)
{
    (void)d;
    *out = NULL;
    rx_buffer *b = rx_alloc_zero(sizeof *b);
    if (!b)
        return rx_fail_memory(err, "a buffer", sizeof *b);
    b->data = rx_alloc_aligned_zero(bytes);
    if (!b->data || !rx_pack_cache_init(&b->packs, 1)) {
        rx_free_aligned(b->data);
        rx_free(b);
        return rx_fail_memory(err, "a buffer", bytes);
    }
    rx_ask_large_pages(b->data, bytes);
    b->version = 1;
    *out = b;
    return RLX_OK;
}

void rx_cpu_buffer_destroy(rx_buffer *b)
{
    rx_pack_cache_finish(&b->packs);
    rx_free_aligned(b->data);
    rx_free(b);
}

rlx_status rx_cpu_buffer_write(rx_buffer *b, size_t offset, const void *data, size_t bytes,
                               rlx_error *err)
{
    (void)err;
    memcpy(b->data + offset, data, bytes);
    return RLX_OK;
}

rlx_status rx_cpu_buffer_read(rx_buffer *b, size_t offset, void *data, size_t bytes, rlx_error *err)
{
    (void)err;
    memcpy(data, b->data + offset, bytes);
    return RLX_OK;
}

void *rx_cpu_buffer_map(rx_buffer *b)
{
    return b->data;
}

void rx_cpu_buffer_changed(rx_buffer *b)
{
    b->version++;
}
