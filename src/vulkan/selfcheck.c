/* SPDX-License-Identifier: MIT */
/* Runs the kernels of the self-check. The outcome is kept on disk by device, driver and kernels. */
#include <string.h>

#include "gpu/blob.h"
#include "gpu/exec/selfcheck.h"
#include "vulkan/device.h"

#define BYTES (RX_GPU_SELFCHECK_WORDS * 4)
#define COUNTERS_AT ((BYTES + 15) / 16 * 16) /* flags and counters of the chain */
#define ALL_BYTES (COUNTERS_AT + RX_GPU_FLAG_BYTES + 4 * RX_GPU_SELFCHECK_LEVELS)

/* ---- Running one kernel --------------------------------------------------------------------- */

/* Runs dispatches and waits. */
static rlx_status run_dispatches(rx_device *d, rx_vk_dispatch *x, size_t n, rlx_error *err)
{
    VkDescriptorPool sets;
    VkCommandBuffer cb = VK_NULL_HANDLE;
    VkFence fence = VK_NULL_HANDLE;
    rlx_status st = rx_vk_sets_create(d, x, n, &sets, err);
    if (st != RLX_OK)
        goto out;
    cb = rx_vk_commands_alloc(d, d->down.pool);
    fence = rx_vk_fence_create(d);
    if (!cb || !fence) {
        st = rx_fail_memory(err, "the self-check", sizeof *x);
        goto out;
    }
    VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1,
                         .pCommandBuffers = &cb};
    VkResult r = rx_vk_begin(d, cb, true);
    if (r == VK_SUCCESS) {
        rx_vk_record(d, cb, x, n);
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

/* Runs one workgroup of a kernel, or a chain of dispatches, on a block of words and reads it. */
static rlx_status run_kernel(rx_device *d, rx_kernel kernel, uint32_t local, uint32_t *words,
                             rlx_error *err)
{
    const rx_gpu_caps *caps = &d->base.caps;
    const bool chain = kernel == RX_K_selfcheck_chain, matrix = kernel == RX_K_selfcheck_matrix;
    const uint32_t n = chain ? RX_GPU_SELFCHECK_LEVELS : 1;
    const uint32_t groups = chain ? RX_GPU_SELFCHECK_GROUPS : 1;
    rx_block block;
    rx_gpu_placed from[RX_GPU_SELFCHECK_LEVELS];
    rx_vk_dispatch list[RX_GPU_SELFCHECK_LEVELS];
    RLX_TRY(rx_vk_block_create(d, RX_VK_KERNEL, ALL_BYTES, "the self-check", &block, err));
    const rx_gpu_place counters = {&block, COUNTERS_AT, ALL_BYTES - COUNTERS_AT};
    for (uint32_t i = 0; i < n; i++) {
        from[i] = (rx_gpu_placed){.dispatch = {.kernel = kernel, .n_bind = 1, .writes = 1,
                                               .spec = {local, caps->coopmat_m, caps->coopmat_n,
                                                        caps->coopmat_k},
                                               .n_spec = matrix ? 4 : 1,
                                               .groups = {groups, 1, 1}},
                                  .bind = {{&block, 0, ALL_BYTES}},
                                  .chain = {chain, i - 1, i, i ? groups : 0}};
        list[i] = rx_vk_dispatch_of(&from[i], &counters);
    }
    rlx_status st = rx_vk_zero(d, &list[0].bind[0], err);
    if (st == RLX_OK)
        st = rx_vk_pipelines_get(d, from, n, list, err);
    if (st == RLX_OK)
        st = run_dispatches(d, list, n, err);
    if (st == RLX_OK)
        st = rx_vk_download(d, &list[0].bind[0], 0, words, BYTES, err);
    rx_vk_pipelines_release(d, list, n);
    rx_vk_block_destroy(d, &block);
    return st;
}

/* ---- Results -------------------------------------------------------------------------------- */

static rx_vk_cache_file file_of(const rx_vk_gpu *gpu)
{
    return (rx_vk_cache_file){gpu, "selfcheck", rx_gpu_kernels_digest()};
}

static bool load_result(const rx_vk_gpu *gpu, rx_gpu_selfcheck *s)
{
    void *data;
    size_t bytes;
    const rx_vk_cache_file file = file_of(gpu);
    *s = (rx_gpu_selfcheck){0};
    if (!rx_vk_cache_load(&file, &data, &bytes))
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
                                        .caps = &d->base.caps, .run = run_kernel, .device = d};
    load_result(&d->gpu, &s);
    if (d->compile_only) {
        rx_gpu_selfcheck_apply(&d->base.caps, &s);
        return;
    }
    const rx_vk_cache_file file = file_of(&d->gpu);
    if (rx_gpu_selfcheck_run(&desc, &s))
        rx_vk_cache_save(&file, &s, sizeof s);
    rx_gpu_selfcheck_note(&s, d->base.note);
}
