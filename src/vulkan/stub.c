/* SPDX-License-Identifier: MIT */
/* In place of the Vulkan backend where its headers were missing: has no device and says why. */
#include <stdio.h>

#include "gpu/gpu.h"
#include "runtime/backend.h"

static size_t stub_list(rlx_device_info *out, size_t cap, char reason[512])
{
    (void)out, (void)cap;
    snprintf(reason, 512, "this build has no Vulkan backend: vulkan headers (libvulkan-dev) were "
             "missing when it was built");
    return 0;
}

const rx_backend rx_backend_vulkan = {.name = "vulkan", .rank = 20, .list = stub_list,
                                      .op_support = rx_gpu_op_support};
