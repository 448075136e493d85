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
    s->busy = r != VK_SUCCESS && r != VK_ERROR_DEVICE_LOST;
    s->signalled = r == VK_SUCCESS;
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
    if (r == VK_SUCCESS && s->signalled)
        r = d->vk.ResetFences(d->handle, 1, &s->fence);
    s->signalled = s->signalled && r != VK_SUCCESS;
    if (r == VK_SUCCESS)
        r = rx_vk_queue_submit(d, c->queue, 1, &info, s->fence);
    s->busy = r == VK_SUCCESS;
    return r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "copying", err);
}

/* ---- Uploads -------------------------------------------------------------------------------- */

/* Threads that fill staging blocks, since one alone is slower than the bus. Each has two stages and
 * fills one while the other is being copied. */
#define MAX_WORKERS (RX_VK_N_STAGES / 2)

typedef struct upload {
    rx_device *device;
    const rx_gpu_place *to;
    uint64_t offset, bytes;
    const char *data;
    size_t first_stage;
    atomic_size_t next_worker, next_piece;
    rx_mutex record; /* command buffers of a pool are recorded by one thread at a time */
    rlx_status status;
    rlx_error error;
} upload;

static rlx_status upload_piece(upload *u, rx_vk_stage *s, uint64_t at, rlx_error *err)
{
    rx_device *d = u->device;
    uint64_t left = u->bytes - at, piece = left < RX_VK_STAGE_BYTES ? left : RX_VK_STAGE_BYTES;
    RLX_TRY(settle_stage(d, s, err));
    memcpy(s->block.map, u->data + at, (size_t)piece);
    rx_mutex_lock(&u->record);
    rlx_status st = u->status;
    VkResult r = st == RLX_OK ? rx_vk_begin(d, s->commands, true) : VK_SUCCESS;
    if (r != VK_SUCCESS)
        st = rx_vk_fail(d, r, "an upload", err);
    if (st == RLX_OK) {
        VkBufferCopy copy = {.dstOffset = u->to->offset + u->offset + at, .size = piece};
        d->vk.CmdCopyBuffer(s->commands, s->block.buffer, u->to->block->buffer, 1, &copy);
        st = submit_stage(d, &d->up, s, err);
    }
    rx_mutex_unlock(&u->record);
    return st;
}

static rx_vk_stage *stage_of(const upload *u, size_t i)
{
    return &u->device->up.stages[(u->first_stage + i) % RX_VK_N_STAGES];
}

static void *work_upload(void *user)
{
    upload *u = user;
    const size_t stage = 2 * atomic_fetch_add(&u->next_worker, 1);
    rlx_error err = {0};
    for (size_t turn = 0;; turn++) {
        uint64_t at = (uint64_t)atomic_fetch_add(&u->next_piece, 1) * RX_VK_STAGE_BYTES;
        if (at >= u->bytes)
            return NULL;
        rlx_status st = upload_piece(u, stage_of(u, stage + turn % 2), at, &err);
        if (st == RLX_OK)
            continue;
        rx_mutex_lock(&u->record);
        if (u->status == RLX_OK) {
            u->status = st;
            u->error = err;
        }
        rx_mutex_unlock(&u->record);
        return NULL;
    }
}

/* The uploads are locked. Stages are made before the threads start. */
static rlx_status upload_pieces(upload *u, rlx_error *err)
{
    rx_thread threads[MAX_WORKERS];
    size_t n_pieces = (size_t)((u->bytes + RX_VK_STAGE_BYTES - 1) / RX_VK_STAGE_BYTES);
    size_t n_workers = (n_pieces + 1) / 2 < MAX_WORKERS ? (n_pieces + 1) / 2 : MAX_WORKERS;
    size_t n_threads = 0, n_stages = n_pieces > 1 ? 2 * n_workers : 1;
    for (size_t i = 0; i < n_stages; i++)
        RLX_TRY(make_stage(u->device, &u->device->up, stage_of(u, i), err));
    if (!rx_mutex_init(&u->record))
        return rx_fail_memory(err, "an upload", sizeof u->record);
    while (n_threads + 1 < n_workers && rx_thread_start(&threads[n_threads], work_upload, u))
        n_threads++;
    work_upload(u);
    for (size_t i = 0; i < n_threads; i++)
        rx_thread_join(&threads[i]);
    rx_mutex_finish(&u->record);
    if (u->status != RLX_OK && err)
        *err = u->error;
    return u->status;
}

rlx_status rx_vk_upload(rx_device *d, const rx_gpu_place *to, uint64_t offset, const void *data,
                        uint64_t bytes, rlx_error *err)
{
    if (!bytes || d->compile_only)
        return RLX_OK;
    if (to->block->map) {
        memcpy(to->block->map + to->offset + offset, data, (size_t)bytes);
        return RLX_OK;
    }
    upload u = {.device = d, .to = to, .offset = offset, .bytes = bytes, .data = data};
    rx_mutex_lock(&d->up.lock);
    atomic_store(&d->up.pending, true);
    u.first_stage = d->up.next++; /* small uploads rotate through the stages: none waits for the one
                                   * before */
    rlx_status st = upload_pieces(&u, err);
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
static rlx_status fetch_piece(rx_device *d, const rx_gpu_place *from, uint64_t offset,
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

/* Two stages in flight: the device fills one while the host empties the other. */
static rlx_status download_pieces(rx_device *d, const rx_gpu_place *from, uint64_t offset,
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

rlx_status rx_vk_download(rx_device *d, const rx_gpu_place *from, uint64_t offset, void *data,
                          uint64_t bytes, rlx_error *err)
{
    if (!bytes)
        return RLX_OK;
    if (d->compile_only)
        return rx_vk_fail_run(d, err);
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

static rlx_status fill_zero(rx_device *d, const rx_gpu_place *to, rlx_error *err)
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

rlx_status rx_vk_zero(rx_device *d, const rx_gpu_place *to, rlx_error *err)
{
    if (!to->bytes || d->compile_only)
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
