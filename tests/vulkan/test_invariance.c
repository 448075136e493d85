/* SPDX-License-Identifier: MIT */
/* Batch invariance of ragged_attention on Vulkan (support/ragged.h). Skipped where there is no
 * device. */
#include "support/ragged.h"

int main(void)
{
    static const ragged_case cases[] = {
        {.pool = RLX_F32}, {.pool = RLX_F16}, {.pool = RLX_Q8_0}, {.pool = RLX_F16, .window = 300}};
    rlx_device *device = NULL;
    rlx_error err = {0};
    if (rlx_device_open("vulkan", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rlx_session *s = ragged_session(device, &cases[i]);
        if (s)
            ragged_check(&s, 1);
        rlx_session_destroy(s);
    }
    rlx_device_close(device);
    return check_done();
}
