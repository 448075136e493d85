/* SPDX-License-Identifier: MIT */
/* Copies between host memory and blocks that are not mapped: through a few staging blocks, so that
 * the host fills one while the device empties another. */
#include <string.h>

#include "vulkan/device.h"

bool rx_vk_copier_init(rx_device *d, rx_vk_copier *c, rx_vk_queue *queue, rx_vk_kind kind)
{
    c->queue = queue;
    c->kind = kind;
    VkCommandPoolCreateInfo info = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
                                    .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
                                    .queueFamilyIndex = queue->family};
    if (!rx_mutex_init(&c->lock))
        return false;
    if (d->vk.CreateCommandPool(d->handle, &info, NULL, &c->pool) == VK_SUCCESS)
        return true;
    rx_mutex_finish(&c->lock);
    return false;
}

void rx_vk_copier_finish(rx_device *d, rx_vk_copier *c)
{
    for (size_t i = 0; i < RX_VK_N_STAGES; i++) {
        if (c->stages[i].fence)
            d->vk.DestroyFence(d->handle, c->stages[i].fence, NULL);
        rx_vk_block_destroy(d, &c->stages[i].block);
    }
    d->vk.DestroyCommandPool(d->handle, c->pool, NULL);
    rx_mutex_finish(&c->lock);
}

static rlx_status make_stage(rx_device *d, rx_vk_copier *c, rx_vk_stage *s, rlx_error *err)
{
    const char *what = "the staging memory for copies";
    if (s->commands)
        return RLX_OK;
    if (!s->fence)
        s->fence = rx_vk_fence_create(d);
    if (!s->fence)
        return rx_fail_memory(err, what, sizeof *s);
    if (!s->block.buffer)
        RLX_TRY(rx_vk_block_create(d, c->kind, RX_VK_STAGE_BYTES, what, &s->block, err));
    s->commands = rx_vk_commands_alloc(d, c->pool);
    return s->commands ? RLX_OK : rx_fail_memory(err, what, sizeof *s);
}

/* Waits until a stage may be used again. */
static rlx_status settle_stage(rx_device *d, rx_vk_stage *s, rlx_error *err)
{
    if (!s->busy)
        return RLX_OK;
    VkResult r = rx_vk_wait_fence(d, s->fence, 0, UINT64_MAX);
    s->busy = false;
    if (r == VK_SUCCESS)
        r = d->vk.ResetFences(d->handle, 1, &s->fence);
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "copying", err);
}

/* The next stage in turn, free for use. The copier is locked. */
static rlx_status take_stage(rx_device *d, rx_vk_copier *c, rx_vk_stage **out, rlx_error *err)
{
    rx_vk_stage *s = &c->stages[c->next++ % RX_VK_N_STAGES];
    *out = s;
    RLX_TRY(make_stage(d, c, s, err));
    return settle_stage(d, s, err);
}

static rlx_status submit_stage(rx_device *d, rx_vk_copier *c, rx_vk_stage *s, rlx_error *err)
{
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1,
                         .pCommandBuffers = &s->commands};
    VkResult r = d->vk.EndCommandBuffer(s->commands);
    if (r == VK_SUCCESS)
        r = rx_vk_queue_submit(d, c->queue, 1, &info, s->fence);
    s->busy = r == VK_SUCCESS;
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "copying", err);
}

static rlx_status upload_piece(rx_device *d, const rx_vk_place *to, uint64_t offset,
                               const void *data, uint64_t bytes, rlx_error *err)
{
    rx_vk_stage *s;
    RLX_TRY(take_stage(d, &d->up, &s, err));
    memcpy(s->block.map, data, (size_t)bytes);
    VkResult r = rx_vk_begin(d, s->commands, true);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "an upload", err);
    VkBufferCopy copy = {.dstOffset = to->offset + offset, .size = bytes};
    d->vk.CmdCopyBuffer(s->commands, s->block.buffer, to->block->buffer, 1, &copy);
    return submit_stage(d, &d->up, s, err);
}

rlx_status rx_vk_upload(rx_device *d, const rx_vk_place *to, uint64_t offset, const void *data,
                        uint64_t bytes, rlx_error *err)
{
    if (!bytes)
        return RLX_OK;
    if (to->block->map) {
        memcpy(to->block->map + to->offset + offset, data, (size_t)bytes);
        return RLX_OK;
    }
    rlx_status st = RLX_OK;
    rx_mutex_lock(&d->up.lock);
    atomic_store(&d->up.pending, true);
    for (uint64_t at = 0; at < bytes && st == RLX_OK; at += RX_VK_STAGE_BYTES) {
        uint64_t piece = bytes - at < RX_VK_STAGE_BYTES ? bytes - at : RX_VK_STAGE_BYTES;
        st = upload_piece(d, to, offset + at, (const char *)data + at, piece, err);
    }
    rx_mutex_unlock(&d->up.lock);
    return st;
}

rlx_status rx_vk_upload_finish(rx_device *d, rlx_error *err)
{
    rlx_status st = RLX_OK;
    if (!atomic_load(&d->up.pending))
        return RLX_OK;
    rx_mutex_lock(&d->up.lock);
    for (size_t i = 0; i < RX_VK_N_STAGES && st == RLX_OK; i++)
        st = settle_stage(d, &d->up.stages[i], err);
    if (st == RLX_OK)
        atomic_store(&d->up.pending, false);
    rx_mutex_unlock(&d->up.lock);
    return st;
}

/* Starts the copy of a piece into a stage. */
static rlx_status fetch_piece(rx_device *d, const rx_vk_place *from, uint64_t offset,
                              uint64_t bytes, rx_vk_stage **out, rlx_error *err)
{
    rx_vk_stage *s;
    RLX_TRY(take_stage(d, &d->down, &s, err));
    *out = s;
    VkResult r = rx_vk_begin(d, s->commands, true);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "a read", err);
    rx_vk_barrier(d, s->commands);
    VkBufferCopy copy = {.srcOffset = from->offset + offset, .size = bytes};
    d->vk.CmdCopyBuffer(s->commands, from->block->buffer, s->block.buffer, 1, &copy);
    rx_vk_barrier_host(d, s->commands);
    return submit_stage(d, &d->down, s, err);
}

/* Two stages at work: one is being filled while the host empties the other. */
static rlx_status download_pieces(rx_device *d, const rx_vk_place *from, uint64_t offset,
                                  char *data, uint64_t bytes, rlx_error *err)
{
    const uint64_t step = RX_VK_STAGE_BYTES;
    rx_vk_stage *now = NULL, *next = NULL;
    uint64_t at = 0, piece = bytes < step ? bytes : step;
    RLX_TRY(fetch_piece(d, from, offset, piece, &now, err));
    while (at < bytes) {
        uint64_t after = at + piece, left = bytes - after;
        uint64_t next_piece = left < step ? left : step;
        if (next_piece)
            RLX_TRY(fetch_piece(d, from, offset + after, next_piece, &next, err));
        RLX_TRY(settle_stage(d, now, err));
        memcpy(data + at, now->block.map, (size_t)piece);
        now = next;
        at = after;
        piece = next_piece;
    }
    return RLX_OK;
}

rlx_status rx_vk_download(rx_device *d, const rx_vk_place *from, uint64_t offset, void *data,
                          uint64_t bytes, rlx_error *err)
{
    if (!bytes)
        return RLX_OK;
    if (from->block->map) {
        memcpy(data, from->block->map + from->offset + offset, (size_t)bytes);
        return RLX_OK;
    }
    RLX_TRY(rx_vk_upload_finish(d, err));
    rx_mutex_lock(&d->down.lock);
    rlx_status st = download_pieces(d, from, offset, data, bytes, err);
    for (size_t i = 0; i < RX_VK_N_STAGES; i++)
        settle_stage(d, &d->down.stages[i], NULL);
    rx_mutex_unlock(&d->down.lock);
    return st;
}

static rlx_status fill_zero(rx_device *d, const rx_vk_place *to, rlx_error *err)
{
    rx_vk_stage *s;
    RLX_TRY(take_stage(d, &d->down, &s, err));
    VkResult r = rx_vk_begin(d, s->commands, true);
    if (r != VK_SUCCESS)
        return rx_vk_fail(d, r, "clearing memory", err);
    rx_vk_barrier(d, s->commands);
    d->vk.CmdFillBuffer(s->commands, to->block->buffer, to->offset, (to->bytes + 3) & ~(uint64_t)3,
                        0);
    RLX_TRY(submit_stage(d, &d->down, s, err));
    return settle_stage(d, s, err);
}

rlx_status rx_vk_zero(rx_device *d, const rx_vk_place *to, rlx_error *err)
{
    if (!to->bytes)
        return RLX_OK;
    if (to->block->map) {
        memset(to->block->map + to->offset, 0, (size_t)to->bytes);
        return RLX_OK;
    }
    rx_mutex_lock(&d->down.lock);
    rlx_status st = fill_zero(d, to, err);
    rx_mutex_unlock(&d->down.lock);
    return st;
}
