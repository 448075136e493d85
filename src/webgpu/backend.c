/* SPDX-License-Identifier: MIT */
/* The WebGPU backend as the runtime sees it. */
#include "gpu/blob.h"
#include "webgpu/device.h"

static const rx_target *device_target(rx_device *d)
{
    return &d->target;
}

static void set_knobs(rx_device *d, const rx_knobs *k)
{
    d->caps.knobs = *k;
}

const rx_backend rx_backend_webgpu = {
    .name = "webgpu",
    .rank = 15,
    .list = rx_wg_list,
    .open = rx_wg_open,
    .close = rx_wg_close,
    .describe = rx_wg_describe,
    .target = device_target,
    .op_support = rx_gpu_op_support,
    .kernels_digest = rx_gpu_kernels_digest,
    .knobs = rx_gpu_knobs,
    .set_knobs = set_knobs,
    .weights_create = rx_wg_weights_create,
    .weights_set = rx_gpu_weights_set,
    .weights_destroy = rx_gpu_weights_destroy,
    .exec_create = rx_wg_exec_create,
    .exec_destroy = rx_wg_exec_destroy,
    .exec_bind = rx_wg_exec_bind,
    .exec_write = rx_wg_exec_write,
    .exec_read = rx_wg_exec_read,
    .exec_submit = rx_wg_exec_submit,
    .exec_wait = rx_wg_exec_wait,
    .exec_flags = rx_wg_exec_flags,
    .exec_kernel = rx_wg_exec_kernel,
};
