/* SPDX-License-Identifier: MIT */
/* Training: a network of two layers learns to read digits that are drawn here, seven segments with
 * noise. Weights are states, and each run is a step of AdamW.
 *
 *   cc train.c $(pkg-config --cflags --libs rlx) -o train && ./train */
#include <stdio.h>
#include <stdlib.h>

#include <rlx/rlx.h>

#define BATCH 64
#define SIDE 8
#define HIDDEN 32

static float noise(void)
{
    return (float)rand() / (float)RAND_MAX - 0.5f;
}

/* Top, middle and bottom bars, then the four uprights. */
static void draw(int digit, float *pixel)
{
    static const unsigned lit[] = {0x7d, 0x50, 0x37, 0x57, 0x5a, 0x4f, 0x6f, 0x51, 0x7f, 0x5f};
    for (int y = 0; y < SIDE; y++)
        for (int x = 0; x < SIDE; x++) {
            const int bar = y == 0 ? 0 : y == 3 ? 1 : y == 7 ? 2 : -1;
            const int upright = x == 1 ? (y < 4 ? 3 : 5) : x == 6 ? (y < 4 ? 4 : 6) : -1;
            const int on = (bar >= 0 && lit[digit] >> bar & 1) ||
                           (upright >= 0 && lit[digit] >> upright & 1);
            pixel[y * SIDE + x] = (float)on + 0.8f * noise();
        }
}

static rlx_value layer(rlx_graph *g, rlx_value x, const char *name, rlx_dim n, rlx_value *weight)
{
    const rlx_dim k = rlx_value_shape(g, x).dim[1];
    *weight = rlx_state(g, name, RLX_F32, 2, (rlx_dim[]){k, n});
    return rlx_matmul(g, x, *weight);
}

static rlx_status start(rlx_session *s, const char *name, size_t n, rlx_error *err)
{
    float w[SIDE * SIDE * HIDDEN];
    for (size_t i = 0; i < n; i++)
        w[i] = 0.3f * noise();
    return rlx_session_state_write(s, name, 0, w, n * sizeof *w, err);
}

int main(void)
{
    rlx_graph *g = rlx_graph_create("train");
    rlx_value w[2], x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){BATCH, SIDE * SIDE});
    rlx_value labels = rlx_input(g, "labels", RLX_I32, 1, (rlx_dim[]){BATCH});
    rlx_value y = layer(g, rlx_gelu(g, layer(g, x, "w0", HIDDEN, &w[0])), "w1", 10, &w[1]);
    rlx_value loss = rlx_cross_entropy(g, y, labels, NULL);
    rlx_output(g, "loss", loss);
    rlx_output(g, "digit", rlx_argmax(g, y, &(rlx_arg_desc){RLX_INIT(rlx_arg_desc), .axis = 1,
                                                            .out = RLX_I32}));
    rlx_optimizer(g, loss, w, 2, &(rlx_optimizer_desc){RLX_INIT(rlx_optimizer_desc), .lr = 0.01},
                  NULL);

    rlx_error err = {0};
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_status ok = rlx_device_open("auto", NULL, &device, &err);
    ok = ok ? ok : rlx_session_create(device, g, NULL, &s, &err);
    ok = ok ? ok : start(s, "w0", SIDE * SIDE * HIDDEN, &err);
    ok = ok ? ok : start(s, "w1", HIDDEN * 10, &err);
    int right = 0;
    for (int step = 0; ok == RLX_OK && step <= 200; step++) {
        float pixels[BATCH * SIDE * SIDE], now;
        int32_t digit[BATCH], said[BATCH];
        for (int i = 0; i < BATCH; i++)
            draw(digit[i] = rand() % 10, pixels + i * SIDE * SIDE);
        const rlx_const_tensor in[] = {{"x", pixels, sizeof pixels},
                                       {"labels", digit, sizeof digit}};
        const rlx_tensor out[] = {{"loss", &now, sizeof now}, {"digit", said, sizeof said}};
        ok = rlx_run(s, in, 2, out, 2, &err);
        right = 0;
        for (int i = 0; i < BATCH; i++)
            right += said[i] == digit[i];
        if (ok == RLX_OK && step % 50 == 0)
            printf("step %3d: loss %.3f, %d of %d right\n", step, now, right, BATCH);
    }
    if (ok != RLX_OK)
        fprintf(stderr, "train: %s\n", err.text);
    rlx_session_destroy(s);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return ok != RLX_OK || right < BATCH * 9 / 10;
}
