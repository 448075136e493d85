/* SPDX-License-Identifier: MIT */
/* A program that embeds rlx: it runs on the version it was built for, and y = relu(x + 1) is
 * right. */
#include <rlx/rlx.h>

#include <stdio.h>
#include <string.h>

static int check_version(void)
{
    char built[32];
    snprintf(built, sizeof built, "%d.%d.%d", RLX_VERSION_MAJOR, RLX_VERSION_MINOR,
             RLX_VERSION_PATCH);
    printf("C: rlx %s\n", rlx_version());
    if (!strcmp(built, rlx_version()))
        return 0;
    fprintf(stderr, "built for rlx %s, runs on %s\n", built, rlx_version());
    return 1;
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    rlx_graph *g = rlx_graph_create("embed");
    if (check_version() || !g)
        return 1;
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){4});
    rlx_output(g, "y", rlx_relu(g, rlx_add(g, x, rlx_scalar(g, RLX_F32, 1))));

    float in[4] = {-3, -1, 0, 2}, out[4] = {0};
    const float want[4] = {0, 0, 1, 3};
    rlx_status s = rlx_device_open("cpu", NULL, &device, &err);
    if (s == RLX_OK)
        s = rlx_session_create(device, g, NULL, &session, &err);
    if (s == RLX_OK)
        s = rlx_run(session, &(rlx_const_tensor){"x", in, sizeof in}, 1,
                    &(rlx_tensor){"y", out, sizeof out}, 1, &err);
    if (s != RLX_OK)
        fprintf(stderr, "%s\n", err.text);
    rlx_session_destroy(session);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return s != RLX_OK || memcmp(out, want, sizeof out) != 0;
}
