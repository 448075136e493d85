/* SPDX-License-Identifier: MIT */
/* The device's clock: where the adapter has timestamps, single steps are timed by it, less than the
 * time that passed; runs that nobody times leave none. Skipped where there is no device. */
#include <stdio.h>
#include <string.h>

#include "base/thread.h"
#include "check.h"
#include "rlx/rlx.h"
#include "runtime/session.h"
#include "webgpu/library.h"

#define SIZE 256

static int add_seconds(void *user, const rlx_step_result *r)
{
    double *sum = user;
    *sum += r->seconds;
    return 0;
}

static rlx_session *make_session(rlx_device *device, rlx_error *err)
{
    rlx_session *s = NULL;
    rlx_graph *g = rlx_graph_create("product");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){SIZE, SIZE});
    rlx_output(g, "y", rlx_softmax(g, rlx_matmul(g, x, x), -1));
    CHECK_OK(rlx_session_create(device, g, NULL, &s, err), err);
    rlx_graph_destroy(g);
    return s;
}

int main(void)
{
    static float x[SIZE * SIZE];
    rlx_device *device = NULL;
    rlx_error err = {0};
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    choose_library();
    if (rlx_device_open("webgpu", NULL, &device, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    rlx_device_get_info(device, &info, NULL);
    const bool has_clock = strstr(info.detail, "timestamps") != NULL;
    rlx_session *s = make_session(device, &err);
    double sum = 0;
    for (int i = 0; s && i < 3; i++) {
        const int64_t begin = rx_now_ns();
        sum = 0;
        CHECK_OK(rlx_session_set_input(s, "x", x, sizeof x, &err), &err);
        CHECK_OK(rlx_session_run_steps(s, false, add_seconds, &sum, &err), &err);
        CHECK(sum > 0 && sum < (double)(rx_now_ns() - begin) * 1e-9);
        CHECK((rx_session_backend(s)->exec_seconds(s->exec) >= 0) == has_clock);
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
        CHECK(rx_session_backend(s)->exec_seconds(s->exec) < 0);
    }
    printf("%s clock: %.3f ms\n", has_clock ? "the device's" : "the host's", sum * 1e3);
    rlx_session_destroy(s);
    rlx_device_close(device);
    return check_done();
}
