/* SPDX-License-Identifier: MIT */
/* Buffers: memory on the device that sessions of different graphs share. A prompt is read by one
 * graph, many rows at a time, and continued by another, one row at a time; both have the same
 * weight and the same cache, and nothing but the last row comes back to the host.
 *
 *   cc buffers.c $(pkg-config --cflags --libs rlx) -lm -o buffers && ./buffers */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx/rlx.h>

#define CAPACITY 16
#define WIDTH 8
#define PROMPT 5
#define STEPS 4

static void check(rlx_status status, const rlx_error *err)
{
    if (status == RLX_OK)
        return;
    fprintf(stderr, "buffers: %s\n", err->text);
    exit(1);
}

/* x [rows, WIDTH] goes to the cache from row `position` on; y: x attends to all rows before it. */
static rlx_graph *build(rlx_dim rows)
{
    rlx_graph *g = rlx_graph_create("decoder");
    rlx_value x = rlx_input(g, "x", RLX_F32, 4, (rlx_dim[]){1, 1, rows, WIDTH});
    rlx_value position = rlx_input(g, "position", RLX_I32, 0, NULL);
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){WIDTH, WIDTH});
    rlx_value cache = rlx_state(g, "cache", RLX_F32, 4, (rlx_dim[]){1, 1, CAPACITY, WIDTH});
    rlx_value k = rlx_state_write(g, cache, rlx_matmul(g, x, w), position, 2);
    rlx_value length = rlx_add(g, position, rlx_scalar(g, RLX_I32, (double)rows));
    rlx_value extra[3] = {length, RLX_NONE, RLX_NONE};
    rlx_attention_desc d = {RLX_INIT(rlx_attention_desc), .causal = true};
    rlx_output(g, "y", rlx_attention_ex(g, x, k, k, RLX_NONE, extra, &d));
    return g;
}

static rlx_buffer *make_buffer(rlx_device *d, rlx_shape shape, rlx_error *err)
{
    rlx_buffer *b;
    rlx_buffer_desc desc = {RLX_INIT(rlx_buffer_desc), .dtype = RLX_F32, .shape = shape};
    check(rlx_buffer_create(d, &desc, &b, err), err);
    return b;
}

static rlx_session *make_session(rlx_device *d, rlx_dim rows, rlx_buffer *w, rlx_buffer *cache,
                                 rlx_error *err)
{
    rlx_graph *g = build(rows);
    rlx_session *s;
    const rlx_binding shared[] = {{RLX_LEAF_PARAM, "w", w}, {RLX_LEAF_STATE, "cache", cache}};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .buffers = shared, .n_buffers = 2};
    check(rlx_session_create(d, g, &desc, &s, err), err);
    rlx_graph_destroy(g);
    return s;
}

static void run(rlx_session *s, float *x, int32_t position, int rows, float *y, rlx_error *err)
{
    const size_t bytes = (size_t)rows * WIDTH * sizeof *x;
    rlx_const_tensor in[] = {{"x", x, bytes}, {"position", &position, sizeof position}};
    check(rlx_run(s, in, 2, &(rlx_tensor){"y", y, bytes}, 1, err), err);
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *device;
    float w[WIDTH * WIDTH], x[CAPACITY * WIDTH], y[CAPACITY * WIDTH], want[CAPACITY * WIDTH];
    const int all = PROMPT + STEPS;
    for (int i = 0; i < WIDTH * WIDTH; i++)
        w[i] = cosf((float)i) / 2;
    for (int i = 0; i < all * WIDTH; i++)
        x[i] = sinf((float)i);
    check(rlx_device_open("auto", NULL, &device, &err), &err);
    rlx_buffer *weight = make_buffer(device, (rlx_shape){2, {WIDTH, WIDTH}}, &err);
    rlx_buffer *cache = make_buffer(device, (rlx_shape){4, {1, 1, CAPACITY, WIDTH}}, &err);
    check(rlx_buffer_write(weight, 0, w, sizeof w, &err), &err);

    rlx_session *prefill = make_session(device, PROMPT, weight, cache, &err);
    rlx_session *decode = make_session(device, 1, weight, cache, &err);
    run(prefill, x, 0, PROMPT, y, &err);
    for (int i = PROMPT; i < all; i++) {
        run(decode, x + i * WIDTH, i, 1, y + i * WIDTH, &err);
        printf("row %d: %8.4f %8.4f %8.4f ...\n", i, y[i * WIDTH], y[i * WIDTH + 1],
               y[i * WIDTH + 2]);
    }

    /* The same rows in one run, from an empty cache. */
    rlx_session *whole = make_session(device, PROMPT + STEPS, weight, cache, &err);
    float zeros[CAPACITY * WIDTH] = {0};
    check(rlx_buffer_write(cache, 0, zeros, sizeof zeros, &err), &err);
    run(whole, x, 0, all, want, &err);
    double worst = 0;
    for (int i = 0; i < all * WIDTH; i++)
        worst = fmax(worst, fabs(y[i] - want[i]));
    printf("two graphs with one cache, and one graph: largest difference %.6f\n", worst);

    rlx_buffer_destroy(weight); /* the sessions keep it as long as they need it */
    rlx_buffer_destroy(cache);
    rlx_session_destroy(prefill);
    rlx_session_destroy(decode);
    rlx_session_destroy(whole);
    rlx_device_close(device);
    return worst > 1e-4;
}
