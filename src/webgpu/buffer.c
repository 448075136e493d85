/* SPDX-License-Identifier: MIT */
/* Transfers between host and device. They are ordered by the queue, so uploads need no waiting;
 * WebGPU copies whole words, so unaligned ends of ranges are handled here. */
#include <string.h>

#include "webgpu/device.h"

#define PIECE_BYTES ((uint64_t)8 << 20)
/* The library buffers writes until the device has them: at most this much at once. */
#define MAX_PENDING ((uint64_t)256 << 20)

/* ---- Upload --------------------------------------------------------------------------------- */

static rlx_status limit_pending(rx_device *d, uint64_t bytes, rlx_error *err)
{
#ifndef __wasm__
    if (atomic_fetch_add(&d->pending_bytes, bytes) + bytes < MAX_PENDING)
        return RLX_OK;
    atomic_store(&d->pending_bytes, 0);
    rx_wg_enter(d->lib);
    d->lib->QueueSubmit(d->queue, 0, NULL);
    rx_wg_leave(d->lib);
    return rx_wg_wait_queue(d, err);
#else
    (void)d, (void)bytes, (void)err;
    return RLX_OK;
#endif
}

/* Whole words. */
static rlx_status write_words(rx_device *d, const rx_block *to, uint64_t at, const char *data,
                              uint64_t bytes, rlx_error *err)
{
    for (uint64_t done = 0; done < bytes; done += PIECE_BYTES) {
        uint64_t piece = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        rx_wg_enter(d->lib);
        d->lib->QueueWriteBuffer(d->queue, to->buffer, at + done, data + done, (size_t)piece);
        rx_wg_leave(d->lib);
        RLX_TRY(limit_pending(d, piece, err));
    }
    return RLX_OK;
}

/* Bytes within one word. Those past the end of the tensor are padding; others are preserved. */
static rlx_status write_part(rx_device *d, const rx_gpu_place *to, uint64_t offset,
                             const char *data, uint64_t bytes, rlx_error *err)
{
    uint64_t word = offset & ~(uint64_t)3;
    char merged[4] = {0};
    if (offset != word || offset + bytes < to->bytes)
        RLX_TRY(rx_wg_download(d, to, word, merged, 4, err));
    memcpy(merged + (offset - word), data, (size_t)bytes);
    return write_words(d, to->block, to->offset + word, merged, 4, err);
}

rlx_status rx_wg_upload(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                        uint64_t bytes, rlx_error *err)
{
    const char *from = data;
    RLX_TRY(rx_wg_check(d, "an upload", err));
    uint64_t head = (4 - offset % 4) % 4;
    head = head < bytes ? head : bytes;
    uint64_t middle = (bytes - head) & ~(uint64_t)3, tail = bytes - head - middle;
    if (head)
        RLX_TRY(write_part(d, to, offset, from, head, err));
    RLX_TRY(write_words(d, to->block, to->offset + offset + head, from + head, middle, err));
    if (tail)
        RLX_TRY(write_part(d, to, offset + head + middle, from + head + middle, tail, err));
    return RLX_OK;
}

/* ---- Download ------------------------------------------------------------------------------- */

static void on_map(WGPUEnum status, WGPUStringView m, void *event, void *lib)
{
    rx_wg_event *e = event;
    e->status = status;
    rx_wg_event_end(lib, e, m);
}

static rlx_status copy_piece(rx_device *d, const rx_gpu_place *from, uint64_t begin, uint64_t end,
                             rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    rx_wg_enter(lib);
    WGPUCommandEncoder e = lib->DeviceCreateCommandEncoder(d->handle, NULL);
    if (e) {
        lib->CommandEncoderCopyBufferToBuffer(e, from->block->buffer, from->offset + begin,
                                              d->readback.buffer, 0, end - begin);
        rx_wg_submit(d, e);
    }
    rx_wg_leave(lib);
    return e ? RLX_OK : rx_fail_memory(err, "reading", 0);
}

/* Copies the words from `begin` to `end` into the readback buffer and maps it. */
static rlx_status map_piece(rx_device *d, const rx_gpu_place *from, uint64_t begin, uint64_t end,
                            const char **map, rlx_error *err)
{
    rx_wg_library *lib = d->lib;
    RLX_TRY(copy_piece(d, from, begin, end, err));
    rx_wg_event *event = rx_wg_event_take(lib);
    if (!event)
        return rx_fail_memory(err, "reading", sizeof *event);
    rx_wg_enter(lib);
    lib->BufferMapAsync(d->readback.buffer, WGPU_MAP_READ, 0, (size_t)(end - begin),
                        (WGPUBufferMapCallbackInfo){.mode = WGPU_CALLBACK_PROCESS_EVENTS,
                                                    .callback = on_map, .userdata1 = event,
                                                    .userdata2 = lib});
    rx_wg_leave(lib);
    bool ended = rx_wg_wait(lib, &(rx_wg_work){d->handle, 0, &d->watch->lost}, event, -1);
    rlx_status st = rx_wg_check(d, "reading", err);
    if (st == RLX_OK && !ended)
        st = rx_fail(err, RLX_TIMEOUT, "reading: the browser cannot wait for the device");
    else if (st == RLX_OK && event->status != WGPU_STATUS_SUCCESS)
        st = rx_fail(err, RLX_INTERNAL, "reading: %s cannot map memory: %.200s", lib->name,
                     event->text);
    rx_wg_event_give(lib, event);
    if (st != RLX_OK)
        return st;
    rx_wg_enter(lib);
    *map = lib->BufferGetConstMappedRange(d->readback.buffer, 0, (size_t)(end - begin));
    rx_wg_leave(lib);
    return *map ? RLX_OK : rx_fail(err, RLX_INTERNAL, "reading: %s maps nothing", lib->name);
}

static rlx_status download_locked(rx_device *d, const rx_gpu_place *from, uint64_t offset,
                                  char *data, uint64_t bytes, rlx_error *err)
{
    uint64_t need = bytes + 8 < PIECE_BYTES ? bytes + 8 : PIECE_BYTES;
    if (d->readback.bytes < need) {
        rx_wg_block_destroy(d, &d->readback);
        RLX_TRY(rx_wg_block_create(d, RX_WG_READBACK, need, "memory for reading", &d->readback,
                                   err));
    }
    for (uint64_t done = 0; done < bytes;) {
        uint64_t begin = (offset + done) & ~(uint64_t)3, skip = offset + done - begin;
        uint64_t piece = bytes - done, room = d->readback.bytes - skip - 4;
        const char *map = NULL;
        piece = piece < room ? piece : room;
        uint64_t end = (offset + done + piece + 3) & ~(uint64_t)3;
        RLX_TRY(map_piece(d, from, begin, end, &map, err));
        memcpy(data + done, map + skip, (size_t)piece);
        rx_wg_enter(d->lib);
        d->lib->BufferUnmap(d->readback.buffer);
        rx_wg_leave(d->lib);
        done += piece;
    }
    return RLX_OK;
}

rlx_status rx_wg_download(rx_device *d, const rx_gpu_place *from, uint64_t offset, void *data,
                          uint64_t bytes, rlx_error *err)
{
    if (!bytes)
        return RLX_OK;
    RLX_TRY(rx_wg_check(d, "reading", err));
    rx_mutex_lock(&d->read_lock);
    rlx_status st = download_locked(d, from, offset, data, bytes, err);
    if (st != RLX_OK) /* a mapping may be pending */
        rx_wg_block_destroy(d, &d->readback);
    rx_mutex_unlock(&d->read_lock);
    return st;
}
