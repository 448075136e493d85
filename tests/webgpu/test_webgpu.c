/* SPDX-License-Identifier: MIT */
/* The WebGPU device: what every device must do, what it tells of itself. Skipped where there is
 * none. */
#include "support/any_device.h"
#include "webgpu/library.h"

static void test_info(void)
{
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(device, &info, NULL);
    CHECK(!strcmp(info.backend, "webgpu") && !strncmp(info.id, "webgpu:", 7));
    CHECK(info.name[0] && strstr(info.driver, " on ") && strstr(info.detail, "bindings of"));
    CHECK(!(info.is_software && info.is_default) || getenv("RLX_DEVICE"));
}

int main(void)
{
    choose_library();
    if (rlx_device_open("webgpu", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    test_info();
    CHECK(test_ahead());
    test_any_device();
    return check_done();
}
