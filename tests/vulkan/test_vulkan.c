/* SPDX-License-Identifier: MIT */
/* The Vulkan device: what every device must do, what it tells of itself, too little memory.
 * Skipped where there is none. */
#include <stdio.h>
#include <stdlib.h>

#include "support/any_device.h"

static void test_info(void)
{
    rlx_device_info info;
    rlx_device_get_info(device, &info);
    CHECK(!strcmp(info.backend, "vulkan") && !strncmp(info.id, "vulkan:", 7));
    CHECK(info.name[0] && info.driver[0] && info.memory > 0);
    CHECK(strstr(info.detail, "Vulkan 1.") != NULL);
    CHECK(!(info.is_software && info.is_default) || getenv("RLX_DEVICE"));
}

static void test_memory(void)
{
    rlx_graph *g = rlx_graph_create("large");
    rlx_value x = rlx_param(g, "x", RLX_F32, 2, (rlx_dim[]){1 << 19, 1 << 19});
    rlx_output(g, "y", rlx_narrow(g, x, 0, 0, 1));
    rlx_session *s = NULL;
    CHECK_FAILS(rlx_session_create(device, g, NULL, &s, &err), RLX_NO_MEMORY, &err,
                "it needs 1024.00 GiB, ");
    CHECK(strstr(err.text, "GiB are free on ") != NULL);
    CHECK(!s);
    rlx_graph_destroy(g);
}

int main(void)
{
    setenv("RLX_LIMITS", getenv("RLX_LIMITS") ? getenv("RLX_LIMITS") : "host=1", 1);
    if (rlx_device_open("vulkan", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    test_info();
    test_memory();
    test_any_device();
    return check_done();
}
