/* SPDX-License-Identifier: MIT */
/* The WebGPU backend as the runtime sees it. */
#include "gpu/blob.h"
#include "webgpu/device.h"

const rx_backend rx_backend_webgpu = {
    .name = "webgpu",
    .rank = 15,
    .list = rx_wg_list,
    .open = rx_wg_open,
    .close = rx_wg_close,
    .describe = rx_wg_describe,
    .target = rx_gpu_device_target,
    .op_support = rx_gpu_portable_op_support,
    .kernels_digest = rx_gpu_kernels_digest,
    .knobs = rx_gpu_knobs,
    .set_knobs = rx_gpu_device_set_knobs,
    .buffer_create = rx_gpu_device_buffer,
    .buffer_destroy = rx_gpu_buffer_destroy,
    .buffer_write = rx_gpu_buffer_write,
    .buffer_read = rx_gpu_buffer_read,
    .buffer_map = rx_gpu_buffer_map,
    .buffer_changed = rx_gpu_buffer_changed,
    .orders_runs = true,
    .orders_writes = true, /* both are in the queue */
    .weights_create = rx_gpu_device_weights,
    .weights_use = rx_gpu_weights_use,
    .weights_set = rx_gpu_weights_set,
    .weights_destroy = rx_gpu_weights_destroy,
    .exec_create = rx_wg_exec_create,
    .exec_use = rx_wg_exec_use,
    .exec_destroy = rx_wg_exec_destroy,
    .exec_bind = rx_wg_exec_bind,
    .exec_write = rx_wg_exec_write,
    .exec_read = rx_wg_exec_read,
    .exec_feed = rx_wg_exec_feed,
    .exec_read_run = rx_wg_exec_read_run,
    .exec_submit = rx_wg_exec_submit,
    .exec_wait = rx_wg_exec_wait,
    .exec_flags = rx_wg_exec_flags,
    .exec_seconds = rx_wg_exec_seconds,
    .exec_kernel = rx_gpu_backend_kernel,
    .exec_print = rx_gpu_backend_print,
};
