/* SPDX-License-Identifier: MIT */
/* Faults of every GPU device: a small session to have them with, and each allocation failing. */
#ifndef RLX_TESTS_SUPPORT_GPU_FAULTS_H
#define RLX_TESTS_SUPPORT_GPU_FAULTS_H

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"

enum { N = 64 };
static rlx_error err;

static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("faults");
    if (!g)
        return NULL;
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){N});
    rlx_value w = rlx_param(g, "w", RLX_F32, 1, (rlx_dim[]){N});
    rlx_output(g, "y", rlx_exp(g, rlx_neg(g, rlx_mul(g, x, w))));
    return g;
}

/* Makes a session and runs it once. */
static rlx_status try_run(rlx_device *d, rlx_session **out)
{
    static const float zeros[N];
    float y[N];
    rlx_graph *g = make_graph();
    rlx_session *s = NULL;
    rlx_status st = g ? rlx_session_create(d, g, NULL, &s, &err) : RLX_NO_MEMORY;
    if (st == RLX_OK)
        st = rlx_session_set_param(s, "w", zeros, sizeof zeros, RLX_COPY, &err);
    rlx_tensor in = {"x", (void *)(uintptr_t)zeros, sizeof zeros}, to = {"y", y, sizeof y};
    if (st == RLX_OK)
        st = rlx_run(s, &in, 1, &to, 1, &err);
    if (st == RLX_OK)
        CHECK(y[0] == 1 && y[N - 1] == 1);
    rlx_graph_destroy(g);
    if (out && st == RLX_OK)
        *out = s;
    else
        rlx_session_destroy(s);
    return st;
}

static rlx_status open_run_close(const char *device)
{
    rlx_device *d = NULL;
    rlx_status st = rlx_device_open(device, NULL, &d, &err);
    if (st == RLX_OK)
        st = try_run(d, NULL);
    rlx_device_close(d);
    return st;
}

/* The n-th allocation fails, for each n: no crash, no leak, and the next time it works. `kept`:
 * pieces that a failure may leave to the process for good. */
static void test_allocations(const char *device, long kept)
{
    rlx_set_allocator(&counting);
    long live = -1;
    for (int i = 0; i < 2; i++) { /* what stays for the process is made the first time */
        memory_fail(0, false);
        CHECK_OK(open_run_close(device), &err);
        live = memory_live();
    }
    const long total = memory_calls();
    CHECK(total > 50);
    for (long i = 1; i <= total; i++) {
        memory_fail(i, false);
        if (!CHECK_OK_OR(open_run_close(device), RLX_NO_MEMORY, &err))
            printf("allocation %ld\n", i);
        memory_fail(0, false);
        if (!CHECK(memory_live() <= live + kept))
            printf("allocation %ld: %ld pieces are left\n", i, memory_live() - live);
        live = memory_live() > live ? memory_live() : live;
    }
    CHECK_OK(open_run_close(device), &err);
}

#endif
