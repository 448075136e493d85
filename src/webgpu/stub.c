/* SPDX-License-Identifier: MIT */
/* In place of the WebGPU backend in builds with RLX_WEBGPU=OFF: has no device and says why. */
#include <stdio.h>

#include "gpu/gpu.h"
#include "runtime/backend.h"

static size_t stub_list(rlx_device_info *out, size_t cap, char reason[512])
{
    (void)out, (void)cap;
    snprintf(reason, 512, "this build has no WebGPU backend: it was built with RLX_WEBGPU=OFF");
    return 0;
}

const rx_backend rx_backend_webgpu = {.name = "webgpu", .rank = 15, .list = stub_list,
                                      .op_support = rx_gpu_op_support};
