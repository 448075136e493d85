/* SPDX-License-Identifier: MIT */
/* Threads: several sessions on one device, one session used by several threads, waiting while
 * another thread submits, weights changed while clones run. Meant for the thread sanitizer too. */
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/threads.h"

enum { N = 64, THREADS = 4, ROUNDS = 25 };

static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("threads");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value y = rlx_add(g, rlx_matmul(g, x, w), x);
    rlx_output(g, "y", rlx_mul(g, y, y));
    return g;
}

/* With x all `a` and w all `b`: y = (N a b + a)^2 everywhere. */
static float expected(float a, float b)
{
    float v = N * a * b + a;
    return v * v;
}

static bool fill_run(rlx_session *s, float a, float *got)
{
    float x[N * N], y[N * N];
    for (int i = 0; i < N * N; i++)
        x[i] = a;
    rlx_tensor in = {"x", x, sizeof x}, out = {"y", y, sizeof y};
    if (rlx_run(s, &in, 1, &out, 1, NULL) != RLX_OK)
        return false;
    *got = y[0];
    for (int i = 0; i < N * N; i++)
        if (y[i] != y[0])
            return false;
    return true;
}

static void set_weight(rlx_session *s, float b)
{
    float w[N * N];
    for (int i = 0; i < N * N; i++)
        w[i] = b;
    expect(rlx_session_set_param(s, "w", w, sizeof w, RLX_COPY, NULL) == RLX_OK);
}

static rlx_device *device;

/* A session for each thread, all on one device. */
static void *own_session(void *user)
{
    float a = (float)(intptr_t)user, got;
    rlx_graph *g = make_graph();
    rlx_session *s = NULL;
    expect(rlx_session_create(device, g, NULL, &s, NULL) == RLX_OK);
    rlx_graph_destroy(g);
    set_weight(s, 0.5f);
    for (int i = 0; i < ROUNDS; i++) {
        expect(fill_run(s, a, &got) && got == expected(a, 0.5f));
        expect(rlx_session_submit(s, NULL, NULL) == RLX_OK);
    }
    expect(rlx_session_wait(s, 0, -1, NULL) == RLX_OK);
    rlx_session_destroy(s);
    return NULL;
}

static rlx_session *common;

/* One session: each call is whole, whatever the others do. */
static void *shared_session(void *user)
{
    float a = (float)(intptr_t)user, got;
    for (int i = 0; i < ROUNDS; i++) {
        expect(fill_run(common, a, &got) && got == expected(a, 2));
        uint64_t ticket = 0;
        expect(rlx_session_submit(common, &ticket, NULL) == RLX_OK);
        expect(rlx_session_wait(common, ticket, -1, NULL) == RLX_OK);
    }
    return NULL;
}

/* Clones run while the weight they share changes between 1 and 2: each run sees one of them. */
static void *clone_session(void *user)
{
    float a = (float)(intptr_t)user, got;
    rlx_session *s = NULL;
    expect(rlx_session_clone(common, &s, NULL) == RLX_OK);
    for (int i = 0; i < ROUNDS; i++) {
        expect(fill_run(s, a, &got));
        expect(got == expected(a, 1) || got == expected(a, 2));
        set_weight(s, i % 2 ? 1 : 2);
    }
    rlx_session_destroy(s);
    return NULL;
}

int main(void)
{
    rlx_error err;
    rlx_device_desc desc = {.threads = 3};
    CHECK_OK(rlx_device_open("cpu", &desc, &device, &err), &err);
    run_threads(THREADS, own_session);
    rlx_graph *g = make_graph();
    CHECK_OK(rlx_session_create(device, g, NULL, &common, &err), &err);
    rlx_graph_destroy(g);
    rlx_device_close(device); /* the session keeps it open */
    set_weight(common, 2);
    run_threads(THREADS, shared_session);
    run_threads(THREADS, clone_session);
    rlx_session_destroy(common);
    return check_done();
}
