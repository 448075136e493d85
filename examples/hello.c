/* SPDX-License-Identifier: MIT */
/* The smallest program: builds a graph, runs it on the best device, prints the result.
 *
 *   cc hello.c $(pkg-config --cflags --libs rlx) -o hello && ./hello */
#include <math.h>
#include <stdio.h>

#include <rlx/rlx.h>

int main(void)
{
    /* y = softmax(relu(x . w)) for x of shape [1, 3] and w of shape [3, 2]; errors are recorded in
     * the graph, so one check at the end is enough. */
    rlx_graph *g = rlx_graph_create("hello");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){1, 3});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){3, 2});
    rlx_output(g, "y", rlx_softmax(g, rlx_relu(g, rlx_matmul(g, x, w)), -1));

    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_session *session = NULL;
    float weights[] = {1, 0, 0, 1, 1, 1}, in[] = {1, 2, 3}, out[2] = {0};
    rlx_const_tensor input = {"x", in, sizeof in};
    rlx_tensor output = {"y", out, sizeof out};

    if (rlx_device_open("auto", NULL, &device, &err) == RLX_OK &&
        rlx_session_create(device, g, NULL, &session, &err) == RLX_OK &&
        rlx_session_set_param(session, "w", weights, sizeof weights, RLX_COPY, &err) == RLX_OK)
        rlx_run(session, &input, 1, &output, 1, &err);

    if (err.code)
        fprintf(stderr, "hello: %s\n", err.text);
    else
        printf("y = %.4f %.4f\n", out[0], out[1]); /* relu gives 4 and 5 */
    rlx_session_destroy(session);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return fabsf(out[1] - 0.7311f) > 1e-3f;
}
