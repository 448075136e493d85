/* SPDX-License-Identifier: MIT */
/* State: tensors that stay on the device between runs, as a cache of keys and values does. Each run
 * writes one row and attends to all rows so far; only the position and one row travel.
 *
 *   cc state.c $(pkg-config --cflags --libs rlx) -lm -o state && ./state */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx/rlx.h>

#define CAPACITY 16
#define WIDTH 4
#define STEPS 8

static void check(rlx_status status, const rlx_error *err)
{
    if (status == RLX_OK)
        return;
    fprintf(stderr, "state: %s\n", err->text);
    exit(1);
}

/* x [1,1,1,WIDTH] is query, key and value at once; position and length are scalars. */
static rlx_graph *build(void)
{
    rlx_graph *g = rlx_graph_create("state");
    rlx_dim row[] = {1, 1, 1, WIDTH}, cache[] = {1, 1, CAPACITY, WIDTH};
    rlx_value x = rlx_input(g, "x", RLX_F32, 4, row);
    rlx_value position = rlx_input(g, "position", RLX_I32, 0, NULL);
    rlx_value keys = rlx_state(g, "keys", RLX_F32, 4, cache);
    rlx_value values = rlx_state(g, "values", RLX_F32, 4, cache);
    rlx_value k = rlx_state_write(g, keys, x, position, 2);
    rlx_value v = rlx_state_write(g, values, x, position, 2);
    rlx_value length = rlx_add(g, position, rlx_scalar(g, RLX_I32, 1));
    rlx_value extra[3] = {length, RLX_NONE, RLX_NONE};
    rlx_output(g, "y", rlx_attention_ex(g, x, k, v, RLX_NONE, extra, NULL));
    return g;
}

static void make_row(int step, float row[WIDTH])
{
    for (int i = 0; i < WIDTH; i++)
        row[i] = sinf((float)(step * WIDTH + i));
}

/* The same by hand, over all rows so far. */
static void expect_row(int step, double y[WIDTH])
{
    float q[WIDTH], k[WIDTH];
    double sum = 0;
    make_row(step, q);
    for (int i = 0; i < WIDTH; i++)
        y[i] = 0;
    for (int s = 0; s <= step; s++) {
        double dot = 0;
        make_row(s, k);
        for (int i = 0; i < WIDTH; i++)
            dot += (double)q[i] * k[i];
        double weight = exp(dot / sqrt(WIDTH));
        sum += weight;
        for (int i = 0; i < WIDTH; i++)
            y[i] += weight * k[i];
    }
    for (int i = 0; i < WIDTH; i++)
        y[i] /= sum;
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *device;
    rlx_session *session;
    rlx_graph *g = build();
    check(rlx_device_open("auto", NULL, &device, &err), &err);
    check(rlx_session_create(device, g, NULL, &session, &err), &err);
    double worst = 0;
    for (int32_t step = 0; step < STEPS; step++) {
        float x[WIDTH], y[WIDTH];
        double want[WIDTH];
        make_row(step, x);
        rlx_const_tensor in[] = {{"x", x, sizeof x}, {"position", &step, sizeof step}};
        rlx_tensor out = {"y", y, sizeof y};
        check(rlx_run(session, in, 2, &out, 1, &err), &err);
        expect_row(step, want);
        for (int i = 0; i < WIDTH; i++)
            worst = fmax(worst, fabs(y[i] - want[i]));
        printf("step %d: %8.4f %8.4f %8.4f %8.4f\n", (int)step, y[0], y[1], y[2], y[3]);
    }

    /* The host can look at the state, and start anew. */
    float kept[WIDTH], row[WIDTH];
    make_row(3, row);
    check(rlx_session_state_read(session, "keys", 3 * sizeof kept, kept, sizeof kept, &err), &err);
    check(rlx_session_state_reset(session, NULL, &err), &err);
    printf("row 3 of the keys: %.4f, as written: %.4f; largest error %.1g\n", kept[0], row[0],
           worst);
    rlx_session_destroy(session);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return worst > 1e-4 || kept[0] != row[0];
}
