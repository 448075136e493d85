/* SPDX-License-Identifier: MIT */
/* Faults of every GPU device: small sessions to have them with, uses of a session that must work
 * again after one has failed, and each allocation failing. */
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
    rlx_const_tensor in = {"x", zeros, sizeof zeros};
    rlx_tensor to = {"y", y, sizeof y};
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

/* ---- Uses of a session ----------------------------------------------------------------------- */

enum { ROWS = 8, WIDE = 300 };

/* y = x . w + sum, x [rows, WIDE], and the state `sum` becomes the first row of y. */
static rlx_graph *make_sums(void)
{
    rlx_graph *g = rlx_graph_create("sums");
    rlx_dim rows = rlx_dim_named(g, "rows", ROWS), x_dims[] = {rows, WIDE}, w_dims[] = {WIDE, N};
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, x_dims);
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, w_dims);
    rlx_value sum = rlx_state(g, "sum", RLX_F32, 2, (rlx_dim[]){1, N});
    rlx_value y = rlx_add(g, rlx_matmul(g, x, w), sum);
    rlx_output(g, "y", y);
    rlx_output(g, "now", rlx_neg(g, rlx_state_write(g, sum, rlx_narrow(g, y, 0, 0, 1),
                                                    rlx_scalar(g, RLX_I32, 0), 0)));
    return g;
}

static rlx_status set_sums_weight(rlx_session *s, float b)
{
    static float w[WIDE * N];
    for (int i = 0; i < WIDE * N; i++)
        w[i] = b;
    return rlx_session_set_param(s, "w", w, sizeof w, RLX_COPY, &err);
}

/* From a state of 0, with x all 1; the first and the last element of y. */
static rlx_status run_sums(rlx_session *s, int rows, float y[2])
{
    static float x[ROWS * WIDE], all[ROWS * N];
    for (int i = 0; i < rows * WIDE; i++)
        x[i] = 1;
    const size_t bytes = (size_t)rows * N * sizeof *all;
    rlx_status st = rlx_session_bind(s, "rows", rows, &err);
    if (st == RLX_OK)
        st = rlx_session_state_reset(s, "sum", &err);
    if (st == RLX_OK)
        st = rlx_run(s, &(rlx_const_tensor){"x", x, (size_t)rows * WIDE * 4}, 1,
                     &(rlx_tensor){"y", all, bytes}, 1, &err);
    y[0] = all[0];
    y[1] = all[rows * N - 1];
    return st;
}

static rlx_status use_rows(rlx_session *s, float y[2])
{
    return run_sums(s, 5, y);
}

static rlx_status use_steps(rlx_session *s, float y[2])
{
    rlx_status st = rlx_session_state_reset(s, NULL, &err);
    if (st == RLX_OK)
        st = rlx_session_run_steps(s, true, NULL, NULL, &err);
    if (st == RLX_OK)
        st = rlx_session_read(s, "y", 0, &y[0], 4, &err);
    return st == RLX_OK ? rlx_session_read(s, "y", (2 * N - 1) * 4, &y[1], 4, &err) : st;
}

static rlx_status use_weight(rlx_session *s, float y[2])
{
    rlx_status st = set_sums_weight(s, 1);
    return st == RLX_OK ? run_sums(s, 3, y) : st;
}

static rlx_status use_clone(rlx_session *s, float y[2])
{
    rlx_session *clone = NULL;
    rlx_status st = rlx_session_clone(s, &clone, &err);
    if (st == RLX_OK)
        st = run_sums(clone, 2, y);
    rlx_session_destroy(clone);
    return st;
}

/* The second of two runs adds the first; y is what the state becomes, without its sign. */
static rlx_status use_state(rlx_session *s, float y[2])
{
    float half = -WIDE;
    rlx_status st = run_sums(s, 2, y);
    if (st == RLX_OK)
        st = rlx_session_state_write(s, "sum", 4, &half, 4, &err);
    if (st == RLX_OK)
        st = rlx_session_submit(s, NULL, &err);
    if (st == RLX_OK)
        st = rlx_session_state_read(s, "sum", 4, &y[0], 4, &err);
    if (st == RLX_OK)
        st = rlx_session_read(s, "now", 4, &y[1], 4, &err);
    y[0] += WIDE;
    y[1] = WIDE - y[1];
    return st;
}

static rlx_status use_prepare(rlx_session *s, float y[2])
{
    rlx_status st = rlx_session_bind(s, "rows", 7, &err);
    if (st == RLX_OK)
        st = rlx_session_prepare(s, &err);
    return st == RLX_OK ? run_sums(s, 7, y) : st;
}

static rlx_session *open_sums(rlx_device *d)
{
    rlx_session *s = NULL;
    rlx_graph *g = make_sums();
    float y[2] = {0};
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    CHECK_OK(set_sums_weight(s, 1), &err);
    CHECK_OK(run_sums(s, 2, y), &err);
    CHECK(y[0] == WIDE && y[1] == WIDE);
    return s;
}

static const struct {
    const char *name;
    rlx_status (*use)(rlx_session *s, float y[2]);
} uses[] = {{"new dimensions", use_rows}, {"single steps", use_steps}, {"a new weight", use_weight},
            {"a clone", use_clone}, {"a state", use_state}, {"rlx_session_prepare", use_prepare}};
#define N_USES (sizeof uses / sizeof *uses)

/* After a use that may have failed the session works, and the use too. */
static bool check_use(rlx_session *s, size_t i)
{
    float y[2] = {0};
    bool ok = CHECK_OK(uses[i].use(s, y), &err) && CHECK(y[0] == WIDE && y[1] == WIDE);
    y[0] = y[1] = 0;
    return CHECK_OK(run_sums(s, 2, y), &err) && CHECK(y[0] == WIDE && y[1] == WIDE) && ok;
}

/* The n-th allocation of a use fails, for each n. */
static void test_use_allocations(const char *device)
{
    rlx_device *d = NULL;
    rlx_set_allocator(&counting);
    CHECK_OK(rlx_device_open(device, NULL, &d, &err), &err);
    for (size_t i = 0; i < N_USES; i++) {
        bool reached = true;
        long n = 1;
        for (; reached && n < 1000; n++) {
            float y[2] = {0};
            rlx_session *s = open_sums(d);
            memory_fail(n, false);
            bool ok = CHECK_OK_OR(uses[i].use(s, y), RLX_NO_MEMORY, &err);
            reached = memory_calls() >= n;
            memory_fail(0, false);
            if (!check_use(s, i) || !ok)
                printf("    %s, allocation %ld\n", uses[i].name, n);
            rlx_session_destroy(s);
        }
        printf("%s: %ld allocations\n", uses[i].name, n - 2);
    }
    rlx_device_close(d);
}

/* Sessions of a device that is lost: everything that needs the device says so, nothing hangs. */
static void check_lost_session(rlx_session *s)
{
    static float w[WIDE * N];
    rlx_session *clone = NULL;
    float x = 0, y[2];
    uint64_t ticket = 0;
    CHECK_FAILS(run_sums(s, 2, y), RLX_DEVICE_LOST, &err, "lost");
    CHECK_FAILS(rlx_session_submit(s, &ticket, &err), RLX_DEVICE_LOST, &err, "lost");
    CHECK_FAILS(rlx_session_run_steps(s, true, NULL, NULL, &err), RLX_DEVICE_LOST, &err, "lost");
    CHECK(rlx_session_read(s, "y", 0, &x, 4, &err) != RLX_OK);
    CHECK(rlx_session_clone(s, &clone, &err) == RLX_DEVICE_LOST || clone);
    CHECK(!clone || run_sums(clone, 2, y) == RLX_DEVICE_LOST);
    rlx_session_destroy(clone);
    rlx_status st = rlx_session_set_param(s, "w", w, sizeof w, RLX_COPY, &err);
    CHECK(st == RLX_DEVICE_LOST || st == RLX_OK);
    st = rlx_session_state_write(s, "sum", 0, &x, 4, &err);
    CHECK(st == RLX_DEVICE_LOST || st == RLX_OK);
    st = rlx_session_state_read(s, "sum", 0, &x, 4, &err);
    CHECK(st == RLX_DEVICE_LOST || st == RLX_OK);
    st = rlx_session_prepare(s, &err);
    CHECK(st == RLX_DEVICE_LOST || st == RLX_OK);
    CHECK(rlx_session_flags(s) == 0);
    CHECK_FAILS(run_sums(s, 6, y), RLX_DEVICE_LOST, &err, "lost");
}

#endif
