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
    .knobs = rx_gpu_knobs,
    .set_knobs = set_knobs,
    .weights_create = rx_vk_weights_create,
    .weights_set = rx_gpu_weights_set,
    .weights_destroy = rx_gpu_weights_destroy,
    .exec_create = rx_vk_exec_create,
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
};
