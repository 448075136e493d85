/* SPDX-License-Identifier: MIT */
/* The WebGPU device: what every GPU device must do, what it tells of itself. Skipped where there is
 * none. */
#include "support/gpu_device.h"
#include "webgpu/library.h"

static void test_info(void)
{
    rlx_device_info info;
    rlx_device_get_info(device, &info);
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
    test_gpu_device();
    rlx_device_close(device);
    return check_done();
}
