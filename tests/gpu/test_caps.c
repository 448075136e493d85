/* SPDX-License-Identifier: MIT */
/* The least that a GPU must have: below each limit the sentence says what is missing. */
#include "check.h"
#include "gpu/gpu.h"

int main(void)
{
    const rx_gpu_caps least = {.max_bindings = 8, .max_invocations = 128,
                               .max_shared_bytes = 16384, .max_push_bytes = 128,
                               .binding_align = 256};
    char why[256] = "";
    CHECK(rx_gpu_caps_enough(&least, "small", why));
    rx_gpu_caps c = least;
    c.max_bindings = 7;
    CHECK(!rx_gpu_caps_enough(&c, "small", why));
    CHECK(!strcmp(why, "small has 7 storage buffers a kernel and 8 are needed"));
    c = least;
    c.max_invocations = 127;
    CHECK(!rx_gpu_caps_enough(&c, "small", why) && strstr(why, "has 127 invocations a workgroup"));
    c = least;
    c.max_shared_bytes = 0;
    CHECK(!rx_gpu_caps_enough(&c, "small", why) && strstr(why, "has 0 bytes of shared memory"));
    c = least;
    c.max_push_bytes = 124;
    CHECK(!rx_gpu_caps_enough(&c, "small", why) && strstr(why, "has 124 bytes of push constants"));
    for (uint32_t align = 0; align <= 512; align += 96) {
        c = least;
        c.binding_align = align;
        CHECK(!rx_gpu_caps_enough(&c, "small", why) && strstr(why, "do not divide 256"));
    }
    c = least;
    c.binding_align = 16;
    CHECK(rx_gpu_caps_enough(&c, "small", why));
    return check_done();
}
