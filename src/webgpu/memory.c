/* SPDX-License-Identifier: MIT */
/* Device memory: blocks, one buffer each. Sizes are checked against the limits before the library
 * sees them. */
#include <string.h>

#include "webgpu/device.h"

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
                              rx_block *out, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    *out = (rx_block){0};
    if (bytes > UINT64_MAX / 2)
        return rx_fail_memory(err, what, bytes);
    WGPUBufferDescriptor info = {.label = {"rlx", 3}, .usage = usage, .size = rx_gpu_room(bytes)};
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

void rx_wg_block_destroy(rx_device *d, rx_block *b)
{
    if (b->buffer) {
        rx_wg_enter(d->lib);
        d->lib->BufferRelease(b->buffer);
        rx_wg_leave(d->lib);
    }
    *b = (rx_block){0};
}

/* ---- For the pools -------------------------------------------------------------------------- */

static rlx_status check_total(rx_device *d, uint64_t total, uint64_t largest, const char *what,
                              rlx_error *err)
{
    RLX_TRY(rx_gpu_device_check(&d->base, total, what, err)); /* no other budget is known */
    return check_size(d, largest, what, err);
}

static rlx_status create_block(rx_device *d, uint64_t bytes, const char *what, rx_block *out,
                               rlx_error *err)
{
    const uint64_t room = rx_gpu_room(bytes);
    RLX_TRY(rx_gpu_device_take(&d->base, room, what, err));
    const rlx_status st = rx_wg_block_create(d, RX_WG_KERNEL, bytes, what, out, err);
    if (st != RLX_OK)
        rx_gpu_device_give(&d->base, room);
    return st;
}

static void destroy_block(rx_device *d, rx_block *b)
{
    rx_gpu_device_give(&d->base, b->bytes);
    rx_wg_block_destroy(d, b);
}

static void *map_place(const rx_gpu_place *p)
{
    (void)p; /* WebGPU maps no memory that kernels use */
    return NULL;
}

static uint64_t block_bytes(const rx_block *b)
{
    return b->bytes;
}

void rx_wg_memory_init(rx_device *d)
{
    d->base.memory_limit = d->gpu.memory_limit;
    d->base.memory = (rx_gpu_memory){.device = d, .block_size = sizeof(rx_block),
        .max_block_bytes = d->gpu.max_block_bytes, .check = check_total, .create = create_block,
        .destroy = destroy_block, .block_bytes = block_bytes, .upload = rx_wg_upload,
        .download = rx_wg_download, .map = map_place, .shared_lock = &d->base.shared_lock,
        .pack_create = rx_wg_pack_create, .pack_destroy = rx_wg_pack_destroy};
}
