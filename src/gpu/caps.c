/* SPDX-License-Identifier: MIT */
/* The minimum limits of a device that can be used. */
#include <stdio.h>

#include "gpu/exec/memory.h"

bool rx_gpu_caps_enough(const rx_gpu_caps *c, const char *name, char why[256])
{
    const struct {
        const char *what;
        uint32_t have, need;
    } limits[] = {{"storage buffers a kernel", c->max_bindings, 8},
                  {"invocations a workgroup", c->max_invocations, 128},
                  {"bytes of shared memory", c->max_shared_bytes, 16384},
                  {"bytes of push constants", c->max_push_bytes, 128}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        if (limits[i].have < limits[i].need) {
            snprintf(why, 256, "%.100s has %u %s and %u are needed", name,
                     (unsigned)limits[i].have, limits[i].what, (unsigned)limits[i].need);
            return false;
        }
    if (!c->binding_align || RX_GPU_ALIGN % c->binding_align) {
        snprintf(why, 256, "%.100s places bindings at multiples of %u bytes, which do not divide "
                 "%d", name, (unsigned)c->binding_align, RX_GPU_ALIGN);
        return false;
    }
    return true;
}
