/* SPDX-License-Identifier: MIT */
/* Runs the kernels of the self-check. What was found is kept on disk by device, driver and
 * kernels. */
#include <string.h>

#include "gpu/selfcheck.h"
#include "vulkan/device.h"

#define CACHE_FILE "selfcheck"
#define BYTES (RX_GPU_SELFCHECK_WORDS * 4)

/* ---- Running one kernel --------------------------------------------------------------------- */

/* Runs a dispatch with one binding, place, and waits. */
static rlx_status run_dispatch(rx_device *d, rx_vk_dispatch *x, rlx_error *err)
{
    VkDescriptorPool sets;
    VkCommandBuffer cb = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    rlx_status st = rx_vk_sets_create(d, x, 1, &sets, err);
    if (st != RLX_OK)
        goto out;
    st = rx_fail_memory(err, "the self-check", sizeof *x);
    cb = rx_vk_commands_alloc(d, d->down.pool);
    fence = rx_vk_fence_create(d);
    if (!cb || !fence)
        goto out;
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1,
                         .pCommandBuffers = &cb};
    VkResult r = rx_vk_begin(d, cb, true);
    if (r == VK_SUCCESS) {
        rx_vk_record(d, cb, x, 1);
        rx_vk_barrier_host(d, cb);
        r = d->vk.EndCommandBuffer(cb);
    }
    if (r == VK_SUCCESS)
        r = rx_vk_queue_submit(d, &d->queue, 1, &info, fence);
    if (r == VK_SUCCESS)
        r = rx_vk_wait_fence(d, fence, 0, UINT64_MAX);
    st = r == VK_SUCCESS ? RLX_OK : rx_vk_fail(d, r, "the self-check", err);
out:
    if (fence)
        d->vk.DestroyFence(d->handle, fence, NULL);
    if (cb)
        d->vk.FreeCommandBuffers(d->handle, d->down.pool, 1, &cb);
    if (sets)
        d->vk.DestroyDescriptorPool(d->handle, sets, NULL);
    return st;
}

/* Runs one workgroup of a kernel on a block of words and reads it. */
static rlx_status run_kernel(rx_device *d, rx_kernel kernel, uint32_t local, uint32_t *words,
                             rlx_error *err)
{
    rx_block block;
    rx_gpu_placed from = {.dispatch = {.kernel = kernel, .n_bind = 1, .writes = 1, .spec = {local},
                                       .n_spec = 1, .groups = {1, 1, 1}},
                          .bind = {{&block, 0, BYTES}}, .end = {BYTES}};
    rx_vk_dispatch x = rx_vk_dispatch_of(&from);
    RLX_TRY(rx_vk_block_create(d, RX_VK_KERNEL, BYTES, "the self-check", &block, err));
    rlx_status st = rx_vk_zero(d, &x.bind[0], err);
    if (st == RLX_OK)
        st = rx_vk_pipelines_get(d, &from, 1, &x, err);
    if (st == RLX_OK)
        st = run_dispatch(d, &x, err);
    if (st == RLX_OK)
        st = rx_vk_download(d, &x.bind[0], 0, words, BYTES, err);
    rx_vk_pipelines_release(d, &x, 1);
    rx_vk_block_destroy(d, &block);
    return st;
}

/* ---- Results -------------------------------------------------------------------------------- */

static bool load_result(const rx_vk_gpu *gpu, rx_gpu_selfcheck *s)
{
    void *data;
    size_t bytes;
    *s = (rx_gpu_selfcheck){0};
    if (!rx_vk_cache_load(gpu, CACHE_FILE, &data, &bytes))
        return false;
    if (bytes == sizeof *s)
        memcpy(s, data, sizeof *s);
    rx_free(data);
    return rx_gpu_selfcheck_fits(s);
}

void rx_vk_selfcheck_note(const rx_vk_gpu *gpu, char note[160])
{
    rx_gpu_selfcheck s;
    note[0] = 0;
    if (load_result(gpu, &s))
        rx_gpu_selfcheck_note(&s, note);
}

void rx_vk_selfcheck(rx_device *d)
{
    rx_gpu_selfcheck s;
    const rx_gpu_selfcheck_desc desc = {.backend = "vulkan", .name = d->gpu.info.name,
                                        .caps = &d->caps, .run = run_kernel, .device = d};
    load_result(&d->gpu, &s);
    if (rx_gpu_selfcheck_run(&desc, &s))
        rx_vk_cache_save(&d->gpu, CACHE_FILE, &s, sizeof s);
    rx_gpu_selfcheck_note(&s, d->note);
}
