/* SPDX-License-Identifier: MIT */
/* The CPU device: what every device must do, with threads of its own. */
#include "support/any_device.h"

int main(void)
{
    rlx_device_desc desc = {RLX_INIT(rlx_device_desc), .threads = 3};
    CHECK_OK(rlx_device_open("cpu", &desc, &device, &err), &err);
    test_any_device();
    return check_done();
}
