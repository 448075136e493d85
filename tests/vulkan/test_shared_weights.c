/* SPDX-License-Identifier: MIT */
/* A weight in a buffer is packed once for the sessions of all graphs that use it, and takes no
 * other memory of theirs. On vulkan, or on RLX_TEST_DEVICE. */
#include <stdlib.h>

#include "check.h"
#include "gpu/exec/memory.h"
#include "rlx/rlx.h"
#include "runtime/buffer.h"
#include "webgpu/library.h"

enum { STEPS = 4, H = 32, N_WEIGHTS = 3 * H * H };

static rlx_error err;

/* y = gru(x), or exp of that, with w_hh in a buffer or (NULL) a param of its own. */
static rlx_session *make_session(rlx_device *d, rlx_buffer *w, bool other)
{
    rlx_graph *g = rlx_graph_create("gru");
    rlx_value x = rlx_input(g, "x", RLX_F32, 3, (rlx_dim[]){STEPS, 1, H});
    const rlx_rnn_layer layer = {
        .w_ih = rlx_input(g, "w_ih", RLX_F32, 3, (rlx_dim[]){1, 3 * H, H}),
        .w_hh = rlx_param(g, "w", RLX_F32, 3, (rlx_dim[]){1, 3 * H, H})};
    rlx_value y = rlx_gru(g, x, &layer, RLX_NONE, NULL, NULL);
    rlx_output(g, "y", other ? rlx_exp(g, y) : y);
    rlx_session *s = NULL;
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .n_buffers = w != NULL,
                                   .buffers = &(rlx_binding){RLX_LEAF_PARAM, "w", w}};
    CHECK_OK(rlx_session_create(d, g, &desc, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

static void fill(float *x, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((int)i * 31 + seed * 7) % 23 - 11) / 32;
}

static void run(rlx_session *s, float y[STEPS * H])
{
    static float x[STEPS * H], w[N_WEIGHTS];
    fill(x, STEPS * H, 1);
    fill(w, N_WEIGHTS, 2);
    rlx_const_tensor in[] = {{"x", x, sizeof x}, {"w_ih", w, sizeof w}};
    rlx_tensor out = {"y", y, STEPS * H * sizeof *y};
    CHECK_OK(rlx_run(s, in, 2, &out, 1, &err), &err);
}

static size_t count_forms(const rlx_buffer *b)
{
    size_t n = 0;
    for (const rx_gpu_packed *x = b->memory->weight.packed; x; x = x->next)
        n++;
    return n;
}

static void test_weight(rlx_device *d, rlx_buffer *b)
{
    static float w[N_WEIGHTS], got[STEPS * H], want[STEPS * H];
    rlx_session *one = make_session(d, b, false), *two = make_session(d, b, true);
    rlx_session *plain_one = make_session(d, NULL, false), *plain_two = make_session(d, NULL, true);
    size_t n = 0;
    uint64_t bytes = 0;
    for (int turn = 0; turn < 3; turn++) {
        fill(w, N_WEIGHTS, turn);
        CHECK_OK(rlx_session_set_param(plain_one, "w", w, sizeof w, RLX_COPY, &err), &err);
        CHECK_OK(rlx_session_set_param(plain_two, "w", w, sizeof w, RLX_COPY, &err), &err);
        CHECK_OK(rlx_buffer_write(b, 0, w, sizeof w, &err), &err);
        run(plain_one, want);
        run(one, got);
        CHECK(!memcmp(got, want, sizeof got));
        n = n ? n : count_forms(b);
        bytes = bytes ? bytes : b->memory->packed_pool.total;
        run(plain_two, want);
        run(two, got);
        CHECK(!memcmp(got, want, sizeof got));
        CHECK(n && count_forms(b) == n && bytes && b->memory->packed_pool.total == bytes);
    }
    rlx_session_destroy(one);
    run(two, got);
    CHECK(!memcmp(got, want, sizeof got));
    rlx_session_destroy(two);
    rlx_session_destroy(plain_one);
    rlx_session_destroy(plain_two);
}

int main(void)
{
    const char *named = getenv("RLX_TEST_DEVICE");
    rlx_device *d = NULL;
    rlx_buffer *b = NULL;
    choose_library();
    if (rlx_device_open(named ? named : "vulkan", NULL, &d, &err) != RLX_OK) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    const rlx_buffer_desc desc = {RLX_INIT(rlx_buffer_desc), .dtype = RLX_F32,
                                  .shape = {3, {1, 3 * H, H}}};
    CHECK_OK(rlx_buffer_create(d, &desc, &b, &err), &err);
    test_weight(d, b);
    rlx_buffer_destroy(b);
    rlx_device_close(d);
    return check_done();
}
