/* SPDX-License-Identifier: MIT */
/* The Vulkan backend as the runtime sees it. */
#include "gpu/blob.h"
#include "vulkan/device.h"

static const rx_target *device_target(rx_device *d)
{
    return &d->target;
}

static void set_knobs(rx_device *d, const rx_knobs *k)
{
    d->caps.knobs = *k;
}

static rlx_status buffer_create(rx_device *d, size_t bytes, rx_buffer **out, rlx_error *err)
{
    return rx_gpu_buffer_create(&d->memory, bytes, out, err);
}

static rlx_status weights_create(rx_device *d, rx_program *p, rx_buffer *const *buffers,
                                 rx_weights **out, rlx_error *err)
{
    return rx_gpu_weights_create(&d->memory, p, buffers, out, err);
}

const rx_backend rx_backend_vulkan = {
    .name = "vulkan",
    .rank = 20,
    .list = rx_vk_list,
    .open = rx_vk_open,
    .close = rx_vk_close,
    .describe = rx_vk_describe,
    .target = device_target,
    .op_support = rx_gpu_op_support,
    .kernels_digest = rx_gpu_kernels_digest,
    .kernels_save = rx_vk_pipelines_save,
    .kernels_load = rx_vk_pipelines_load,
    .knobs = rx_gpu_knobs,
    .set_knobs = set_knobs,
    .buffer_create = buffer_create,
    .buffer_destroy = rx_gpu_buffer_destroy,
    .buffer_write = rx_gpu_buffer_write,
    .buffer_read = rx_gpu_buffer_read,
    .buffer_map = rx_gpu_buffer_map,
    .buffer_changed = rx_gpu_buffer_changed,
    .orders_runs = true,
    .weights_create = weights_create,
    .weights_use = rx_gpu_weights_use,
    .weights_set = rx_gpu_weights_set,
    .weights_destroy = rx_gpu_weights_destroy,
    .exec_create = rx_vk_exec_create,
    .exec_use = rx_vk_exec_use,
    .exec_destroy = rx_vk_exec_destroy,
    .exec_bind = rx_vk_exec_bind,
    .exec_write = rx_vk_exec_write,
    .exec_read = rx_vk_exec_read,
    .exec_feed = rx_vk_exec_feed,
    .exec_read_run = rx_vk_exec_read_run,
    .exec_submit = rx_vk_exec_submit,
    .exec_wait = rx_vk_exec_wait,
    .exec_flags = rx_vk_exec_flags,
    .exec_seconds = rx_vk_exec_seconds,
    .exec_kernel = rx_vk_exec_kernel,
    .exec_print = rx_vk_exec_print,
};
