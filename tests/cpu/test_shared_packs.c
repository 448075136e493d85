/* SPDX-License-Identifier: MIT */
/* A weight in a buffer is packed once for the sessions of all graphs that use it, and anew when it
 * has changed. A matrix that is used as it is and transposed has a form for each. */
#include "check.h"
#include "cpu/cpuid.h"
#include "cpu/device.h"
#include "rlx/rlx.h"
#include "runtime/buffer.h"

enum { N = 256, ROWS = 64 };

static rlx_error err;

static rlx_session *make_session(rlx_device *d, rlx_buffer *w, bool other)
{
    rlx_graph *g = rlx_graph_create("product");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){ROWS, N});
    rlx_value p = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value y = rlx_matmul(g, x, p);
    rlx_output(g, "y", other ? rlx_exp(g, y) : y);
    rlx_session *s = NULL;
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .n_buffers = 1,
                                   .buffers = &(rlx_binding){RLX_LEAF_PARAM, "w", w}};
    CHECK_OK(rlx_session_create(d, g, &desc, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

static float run(rlx_session *s)
{
    static float x[ROWS * N], y[ROWS * N];
    for (int i = 0; i < ROWS * N; i++)
        x[i] = 1.0f / N;
    rlx_const_tensor in = {"x", x, sizeof x};
    rlx_tensor out = {"y", y, sizeof y};
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);
    return y[0];
}

/* x w and x w^T of one param, floats and bytes. */
enum { WIDE = 80 };

static void check_both_ways(rlx_device *d, rlx_dtype t)
{
    static float w[WIDE][WIDE], x[ROWS][WIDE];
    static int8_t bytes[WIDE][WIDE], xb[ROWS][WIDE];
    static union { float f[ROWS][WIDE]; int32_t i[ROWS][WIDE]; } y[2];
    const bool is_float = t == RLX_F32;
    for (int i = 0; i < WIDE; i++)
        for (int k = 0; k < WIDE; k++)
            w[i][k] = bytes[i][k] = (int8_t)((i * 7 + k * 3) % 11 - 5);
    for (int i = 0; i < ROWS; i++)
        for (int k = 0; k < WIDE; k++)
            x[i][k] = xb[i][k] = (int8_t)((i + k * 5) % 7 - 3);
    rlx_graph *g = rlx_graph_create("both ways");
    const rlx_value in = rlx_input(g, "x", t, 2, (rlx_dim[]){ROWS, WIDE});
    const rlx_value p = rlx_param(g, "w", t, 2, (rlx_dim[]){WIDE, WIDE});
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_session *s = NULL;
    rlx_output(g, "plain", rlx_matmul(g, in, p));
    rlx_output(g, "turned", rlx_matmul_ex(g, in, p, RLX_NONE, RLX_NONE, &turned));
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    CHECK_OK(rlx_session_set_param(s, "w", is_float ? (void *)w : bytes,
                                   is_float ? sizeof w : sizeof bytes, RLX_COPY, &err), &err);
    const rlx_const_tensor from = {"x", is_float ? (void *)x : xb, is_float ? sizeof x : sizeof xb};
    const rlx_tensor to[] = {{"plain", &y[0], sizeof y[0]}, {"turned", &y[1], sizeof y[1]}};
    CHECK_OK(rlx_run(s, &from, 1, to, 2, &err), &err);
    int wrong = 0;
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < WIDE; j++) {
            float want[2] = {0, 0};
            for (int k = 0; k < WIDE; k++) {
                want[0] += x[i][k] * w[k][j];
                want[1] += x[i][k] * w[j][k];
            }
            for (int k = 0; k < 2; k++)
                wrong += (is_float ? y[k].f[i][j] : (float)y[k].i[i][j]) != want[k];
        }
    CHECK(wrong == 0);
    rlx_session_destroy(s);
}

int main(void)
{
    static float w[N * N];
    rlx_device *d = NULL;
    rlx_buffer *b = NULL;
    CHECK_OK(rlx_device_open("cpu", NULL, &d, &err), &err);
    check_both_ways(d, RLX_F32);
    check_both_ways(d, RLX_I8);
    const rlx_buffer_desc desc = {RLX_INIT(rlx_buffer_desc), .bytes = sizeof w};
    CHECK_OK(rlx_buffer_create(d, &desc, &b, &err), &err);
    rlx_session *one = make_session(d, b, false), *two = make_session(d, b, true);
    const rx_pack_cache *packs = &b->memory->packs;
    CHECK(run(one) == 0);
    const size_t used = packs->bytes;
    if (rx_cpu_flags() & (RX_CPU_AVX2 | RX_CPU_AVX512 | RX_CPU_NEON | RX_CPU_WASM))
        CHECK(used > 0 && packs->lists[0]);
    else
        printf("portable products read weights as they are: nothing is packed\n");
    CHECK(run(two) == 1 && packs->bytes == used);
    for (int i = 0; i < N * N; i++)
        w[i] = 2;
    CHECK_OK(rlx_buffer_write(b, 0, w, sizeof w, &err), &err);
    CHECK(run(two) > 7.38f && run(one) == 2 && packs->bytes == used);
    rlx_session_destroy(one);
    rlx_session_destroy(two);
    rlx_buffer_destroy(b);
    rlx_device_close(d);
    return check_done();
}
