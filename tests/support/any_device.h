/* SPDX-License-Identifier: MIT */
/* What every device must do: runs in flight, polling, threads, bindings that come and go, weights
 * that change, operands that share memory, partial reads, bytes between words, state, flags. The
 * program that includes this opens `device` and calls test_any_device, which closes it. */
#ifndef RLX_TESTS_SUPPORT_ANY_DEVICE_H
#define RLX_TESTS_SUPPORT_ANY_DEVICE_H

#include <unistd.h>

#include "base/thread.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/threads.h"

enum { N = 64, THREADS = 4, ROUNDS = 8 };

static rlx_device *device;
static rlx_error err;

/* y = (x . w + x)^2, z = -y with x [seq, N]. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("net");
    rlx_dim seq = rlx_dim_named(g, "seq", N);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, N});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value y = rlx_add(g, rlx_matmul(g, x, w), x);
    y = rlx_mul(g, y, y);
    rlx_output(g, "y", y);
    rlx_output(g, "z", rlx_neg(g, rlx_transpose(g, y, NULL)));
    return g;
}

/* With x all a and w all b. */
static float expected(float a, float b)
{
    float v = N * a * b + a;
    return v * v;
}

static rlx_session *make_session(rlx_graph *g)
{
    rlx_session *s = NULL;
    CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

static rlx_status set_weight(rlx_session *s, float b)
{
    float w[N * N];
    for (int i = 0; i < N * N; i++)
        w[i] = b;
    return rlx_session_set_param(s, "w", w, sizeof w, RLX_COPY, NULL);
}

static rlx_status set_rows(rlx_session *s, int rows, float a)
{
    float x[N * N];
    for (int i = 0; i < rows * N; i++)
        x[i] = a;
    return rlx_session_set_input(s, "x", x, (size_t)rows * N * sizeof *x, NULL);
}

/* Runs `rows` rows of a; true when all results are the same and *got is theirs. */
static bool run_rows(rlx_session *s, int rows, float a, float *got)
{
    float y[N * N], z[N * N], x[N * N];
    size_t bytes = (size_t)rows * N * sizeof *x;
    for (int i = 0; i < rows * N; i++)
        x[i] = a;
    rlx_const_tensor in = {"x", x, bytes};
    rlx_tensor out[] = {{"y", y, bytes}, {"z", z, bytes}};
    if (rlx_run(s, &in, 1, out, 2, NULL) != RLX_OK)
        return false;
    *got = y[0];
    for (int i = 0; i < rows * N; i++)
        if (y[i] != y[0] || z[i] != -y[0])
            return false;
    return true;
}

/* ---- One session ---------------------------------------------------------------------------- */

/* More bindings than are kept, some again. */
static void test_bindings(void)
{
    rlx_session *s = make_session(make_graph());
    CHECK_OK(set_weight(s, 0.5f), NULL);
    static const int rows[] = {1, 32, 7, 2, 3, 4, 5, 6, 8, 9, 10, 7, 32, 1, 11, 12, 0, 32};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        float got = 0;
        CHECK_OK(rlx_session_bind(s, "seq", rows[i], &err), &err);
        CHECK(run_rows(s, rows[i], 2, &got));
        CHECK(!rows[i] || got == expected(2, 0.5f));
    }
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0; i < rlx_session_n_steps(s); i++)
        CHECK(rlx_session_step(s, i, &step, NULL) == RLX_OK && step.kernel[0] &&
              step.support == RLX_SUPPORT_NATIVE);
    rlx_session_destroy(s);
}

static void test_reads(void)
{
    rlx_session *s = make_session(make_graph());
    float y[N * N], part[3];
    CHECK_OK(set_weight(s, 0.25f), NULL);
    for (int i = 1; i < 6; i++) { /* the same part again and again, then another one */
        CHECK_OK(set_rows(s, N, (float)i), NULL);
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
        size_t at = i < 5 ? 40 : 4;
        CHECK_OK(rlx_session_read(s, "y", at, part, sizeof part, &err), &err);
        CHECK(part[0] == expected((float)i, 0.25f) && part[2] == part[0]);
    }
    CHECK_OK(rlx_session_read(s, "y", 0, y, sizeof y, &err), &err);
    CHECK(y[0] == part[0] && y[N * N - 1] == part[0]);
    CHECK_OK(rlx_session_read(s, "z", 0, y, sizeof y, &err), &err);
    CHECK(y[0] == -part[0] && y[N * N - 1] == -part[0]);
    CHECK_FAILS(rlx_session_read(s, "y", sizeof y, part, 4, &err), RLX_INVALID, &err, "not in it");
    /* One result after each run, then another one twice after the same run. */
    for (int i = 1; i < 4; i++) {
        CHECK_OK(set_rows(s, N, (float)i), NULL);
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
        CHECK_OK(rlx_session_read(s, "y", 0, part, sizeof part, &err), &err);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rlx_session_read(s, "z", 8, part, sizeof part, &err), &err);
        CHECK(part[0] == -expected(3, 0.25f));
    }
    rlx_session_destroy(s);
}

/* ---- Runs ahead of the host ----------------------------------------------------------------- */

/* y = x + 1, n = y as whole numbers, with x [seq, N]. */
static rlx_graph *make_counter(void)
{
    rlx_graph *g = rlx_graph_create("counter");
    rlx_dim seq = rlx_dim_named(g, "seq", N);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, N});
    rlx_value y = rlx_add(g, x, rlx_scalar(g, RLX_F32, 1));
    rlx_output(g, "y", y);
    rlx_output(g, "n", rlx_cast(g, y, RLX_I32));
    rlx_output(g, "first", rlx_narrow(g, y, 0, 0, 1));
    return g;
}

/* Fed a number of times; reads are one run behind. */
static void run_ahead(rlx_session *s, float from)
{
    float y[2 * N];
    const rlx_tensor out = {"y", y, sizeof y};
    uint64_t ticket, next;
    CHECK_OK(rlx_session_submit(s, &ticket, &err), &err);
    for (int i = 1; i < 20; i++, ticket = next) {
        CHECK_OK(rlx_session_feed(s, "x", "y", &err), &err);
        CHECK_OK(rlx_session_submit(s, &next, &err), &err);
        CHECK_OK(rlx_session_read_run(s, ticket, &out, &err), &err);
        CHECK(y[0] == from + (float)i && y[2 * N - 1] == y[0]);
    }
    CHECK_OK(rlx_session_read(s, "y", 0, y, sizeof y, &err), &err);
    CHECK(y[0] == from + 20 && y[2 * N - 1] == y[0]);
    CHECK_FAILS(rlx_session_read_run(s, ticket - 2, &out, &err), RLX_UNSUPPORTED, &err, "run");
}

/* Says how each way to use it wrongly fails. */
static void check_feeds(rlx_session *s)
{
    CHECK_FAILS(rlx_session_feed(s, "q", "y", &err), RLX_NOT_FOUND, &err, "'q'");
    CHECK_FAILS(rlx_session_feed(s, "x", "q", &err), RLX_NOT_FOUND, &err, "'q'");
    CHECK_FAILS(rlx_session_feed(s, "x", "n", &err), RLX_INVALID, &err,
                "output 'n' (i32) cannot be fed to input 'x' (f32)");
    CHECK_FAILS(rlx_session_feed(s, "x", "first", &err), RLX_INVALID, &err, "expected 512 bytes");
}

/* False where the device cannot. */
static bool test_ahead(void)
{
    rlx_session *s = make_session(make_counter());
    float y[2 * N];
    CHECK_OK(rlx_session_bind(s, "seq", 2, &err), &err);
    CHECK_OK(set_rows(s, 2, 0), NULL);
    rlx_status st = rlx_session_feed(s, "x", "y", &err);
    CHECK(st == RLX_UNSUPPORTED || st == RLX_INVALID); /* it has not run */
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_read(s, "y", 0, y, sizeof y, &err), &err);
    CHECK(y[0] == 1);
    st = rlx_session_feed(s, "x", "y", &err);
    if (st == RLX_OK) {
        run_ahead(s, 1);
        check_feeds(s);
        CHECK_OK(set_rows(s, 2, 50), NULL); /* instead of what is fed */
        run_ahead(s, 50);
        CHECK_OK(set_rows(s, 2, 80), NULL); /* to single steps, which keep what is read ahead */
        CHECK_OK(rlx_session_run_steps(s, true, NULL, NULL, &err), &err);
        CHECK_OK(rlx_session_feed(s, "x", "y", &err), &err);
        CHECK_OK(rlx_session_run_steps(s, true, NULL, NULL, &err), &err);
        CHECK_OK(rlx_session_feed(s, "x", "y", &err), &err);
        run_ahead(s, 82);
    }
    CHECK(st == RLX_OK || st == RLX_UNSUPPORTED);
    rlx_session_destroy(s);
    return st == RLX_OK;
}

/* Waiting never blocks with a timeout of 0, as pages need it. */
static void test_polling(void)
{
    rlx_session *s = make_session(make_graph());
    float y[N * N];
    CHECK_OK(set_weight(s, 1), NULL);
    for (int i = 1; i < 4; i++) {
        uint64_t ticket;
        rlx_status st = RLX_TIMEOUT;
        CHECK_OK(set_rows(s, N, (float)i), NULL);
        CHECK_OK(rlx_session_submit(s, &ticket, &err), &err);
        for (int k = 0; k < 10000 && st == RLX_TIMEOUT; k++) {
            st = rlx_session_wait(s, ticket, 0, &err);
            usleep(100);
        }
        CHECK_OK(st, &err);
        CHECK_OK(rlx_session_read(s, "y", 0, y, sizeof y, &err), &err);
        CHECK(y[7] == expected((float)i, 1));
    }
    rlx_session_destroy(s);
}

static void test_in_flight(void)
{
    rlx_session *s = make_session(make_graph());
    uint64_t tickets[20];
    float part;
    CHECK_OK(set_weight(s, 1), NULL);
    for (int i = 0; i < 20; i++) {
        CHECK_OK(set_rows(s, N, (float)i), NULL);
        CHECK_OK(rlx_session_submit(s, &tickets[i], &err), &err);
        CHECK(tickets[i] > (i ? tickets[i - 1] : 0));
    }
    CHECK_OK(rlx_session_wait(s, tickets[3], 10000, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    CHECK_OK(rlx_session_read(s, "y", 0, &part, sizeof part, &err), &err);
    CHECK(part == expected(19, 1));
    CHECK(rlx_session_flags(s) == 0);
    rlx_session_destroy(s);
}

typedef struct step_count {
    size_t n;
    double seconds;
} step_count;

static int count_step(void *user, const rlx_step_result *r)
{
    step_count *c = user;
    c->n++;
    c->seconds += r->seconds;
    return (r->n_results && !r->data) || r->seconds < 0;
}

static void test_steps(void)
{
    rlx_session *s = make_session(make_graph());
    step_count c = {0};
    float part;
    CHECK_OK(set_weight(s, 1), NULL);
    CHECK_OK(set_rows(s, N, 3), NULL);
    int64_t begin = rx_now_ns();
    CHECK_OK(rlx_session_run_steps(s, true, count_step, &c, &err), &err);
    CHECK(c.n == rlx_session_n_steps(s) && c.n > 0);
    /* By the clock of the device, which is not ahead of the host's. */
    CHECK(c.seconds > 0 && c.seconds < (double)(rx_now_ns() - begin) * 1e-9);
    CHECK_OK(rlx_session_read(s, "y", 64, &part, sizeof part, &err), &err);
    CHECK(part == expected(3, 1));
    rlx_session_destroy(s);
}

/* A clone sees a new weight, packed forms included. */
static void test_weights(void)
{
    rlx_session *s = make_session(make_graph()), *clone = NULL;
    float got;
    CHECK_OK(set_weight(s, 1), NULL);
    CHECK_OK(rlx_session_clone(s, &clone, &err), &err);
    for (int b = 1; b < 5; b++) {
        CHECK_OK(set_weight(b % 2 ? s : clone, (float)b), NULL);
        CHECK(run_rows(s, N, 1, &got) && got == expected(1, (float)b));
        CHECK(run_rows(clone, N, 2, &got) && got == expected(2, (float)b));
    }
    rlx_session_destroy(s);
    CHECK(run_rows(clone, N, 2, &got) && got == expected(2, 4));
    rlx_session_destroy(clone);
}

/* Outputs that are inputs, weights, states or parts of such stay what they were in the last run
 * when the host gives others. */
static void test_leaves(void)
{
    rlx_graph *g = rlx_graph_create("leaves");
    const rlx_dim n = N;
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, &n), w = rlx_param(g, "w", RLX_F32, 1, &n);
    rlx_value kept = rlx_state(g, "kept", RLX_F32, 1, &n);
    rlx_output(g, "turned", rlx_reshape(g, x, 2, (rlx_dim[]){2, N / 2}));
    rlx_output(g, "input", x);
    rlx_output(g, "weight", w);
    rlx_output(g, "part", rlx_narrow(g, w, 0, 2, 3));
    rlx_output(g, "before", kept);
    rlx_output(g, "after", rlx_state_write(g, kept, x, rlx_scalar(g, RLX_I32, 0), 0));
    rlx_session *s = make_session(g);
    static const struct { const char *name; size_t n; float first; } outputs[] = {
        {"turned", N, 1}, {"input", N, 1}, {"weight", N, 10}, {"part", 3, 12}, {"before", N, 0},
        {"after", N, 1}};
    float one[N], ten[N], others[N], got[N];
    for (int i = 0; i < N; i++) {
        one[i] = (float)(1 + i);
        ten[i] = (float)(10 + i);
        others[i] = (float)(1000 + i);
    }
    CHECK_OK(rlx_session_set_param(s, "w", ten, sizeof ten, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_input(s, "x", one, sizeof one, &err), &err);
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    CHECK_OK(rlx_session_set_param(s, "w", others, sizeof others, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_input(s, "x", others, sizeof others, &err), &err);
    CHECK_OK(rlx_session_state_write(s, "kept", 0, others, sizeof others, &err), &err);
    for (size_t i = 0; i < sizeof outputs / sizeof *outputs; i++) {
        CHECK_OK(rlx_session_read(s, outputs[i].name, 0, got, outputs[i].n * sizeof *got, &err),
                 &err);
        if (!CHECK(got[0] == outputs[i].first))
            printf("    %s begins with %g\n", outputs[i].name, (double)got[0]);
    }
    rlx_session_destroy(s);
}

/* x twice, a part of x with another part, and results in place. */
static void test_sharing(void)
{
    rlx_graph *g = rlx_graph_create("sharing");
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){2, N});
    rlx_value halves = rlx_add(g, rlx_narrow(g, x, 0, 0, 1), rlx_narrow(g, x, 0, 1, 1));
    rlx_output(g, "twice", rlx_matmul(g, x, rlx_transpose(g, x, NULL)));
    rlx_output(g, "halves", rlx_sqrt(g, rlx_mul(g, halves, halves)));
    rlx_session *s = make_session(g);
    float in[2 * N], twice[4], halves_got[N];
    for (int i = 0; i < 2 * N; i++)
        in[i] = (float)(i / N + 1);
    rlx_tensor to[] = {{"twice", twice, sizeof twice}, {"halves", halves_got, sizeof halves_got}};
    for (int i = 0; i < 2; i++) {
        CHECK_OK(rlx_run(s, &(rlx_const_tensor){"x", in, sizeof in}, 1, to, 2, &err), &err);
        CHECK(twice[0] == N && twice[1] == 2 * N && twice[3] == 4 * N);
        CHECK(halves_got[0] == 3 && halves_got[N - 1] == 3);
    }
    rlx_session_destroy(s);
}

/* Bytes that do not begin or end at words. */
static void test_bytes(void)
{
    rlx_graph *g = rlx_graph_create("bytes");
    rlx_value x = rlx_input(g, "x", RLX_U8, 1, (rlx_dim[]){7});
    rlx_value kept = rlx_state(g, "kept", RLX_U8, 1, (rlx_dim[]){7});
    rlx_output(g, "y", rlx_add(g, x, kept));
    rlx_session *s = make_session(g);
    uint8_t in[7] = {1, 2, 3, 4, 5, 6, 7}, got[7], part[3];
    CHECK_OK(rlx_session_state_write(s, "kept", 1, (uint8_t[]){10, 20}, 2, &err), &err);
    CHECK_OK(rlx_session_state_write(s, "kept", 3, (uint8_t[]){30, 40, 50}, 3, &err), &err);
    rlx_tensor to = {"y", got, sizeof got};
    CHECK_OK(rlx_run(s, &(rlx_const_tensor){"x", in, sizeof in}, 1, &to, 1, &err), &err);
    CHECK(!memcmp(got, (uint8_t[]){1, 12, 23, 34, 45, 56, 7}, 7));
    CHECK_OK(rlx_session_read(s, "y", 3, part, 3, &err), &err);
    CHECK(part[0] == 34 && part[2] == 56);
    CHECK_OK(rlx_session_state_read(s, "kept", 2, part, 3, &err), &err);
    CHECK(part[0] == 20 && part[1] == 30 && part[2] == 40);
    rlx_session_destroy(s);
}

/* Each run adds x to the state. */
static void test_state(void)
{
    rlx_graph *g = rlx_graph_create("state");
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){N});
    rlx_value sum = rlx_state(g, "sum", RLX_F32, 1, (rlx_dim[]){N});
    rlx_value now = rlx_state_write(g, sum, rlx_add(g, sum, x), rlx_scalar(g, RLX_I32, 0), 0);
    rlx_output(g, "y", rlx_neg(g, now));
    rlx_session *s = make_session(g);
    if (!s)
        return;
    float row[N], got[N];
    for (int i = 0; i < N; i++)
        row[i] = (float)i;
    CHECK_OK(rlx_session_set_input(s, "x", row, sizeof row, &err), &err);
    for (int i = 0; i < 5; i++)
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_read(s, "y", 0, got, sizeof got, &err), &err);
    CHECK(got[0] == 0 && got[1] == -5 && got[N - 1] == -5 * (N - 1));
    CHECK_OK(rlx_session_state_read(s, "sum", 8, got, 8, &err), &err);
    CHECK(got[0] == 10 && got[1] == 15);
    rlx_session *clone = NULL;
    CHECK_OK(rlx_session_clone(s, &clone, &err), &err);
    CHECK_OK(rlx_session_state_read(clone, "sum", 8, got, 8, &err), &err);
    CHECK(got[0] == 0 && got[1] == 0); /* its own, and zero at first */
    rlx_session_destroy(clone);
    CHECK_OK(rlx_session_state_write(s, "sum", 4, (float[]){100}, 4, &err), &err);
    CHECK_OK(rlx_session_state_read(s, "sum", 0, got, sizeof got, &err), &err);
    CHECK(got[1] == 100 && got[2] == 10);
    CHECK_OK(rlx_session_state_reset(s, NULL, &err), &err);
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_state_read(s, "sum", 0, got, sizeof got, &err), &err);
    CHECK(got[1] == 1 && got[N - 1] == N - 1);
    rlx_session_destroy(s);
}

/* Flags are those of the last run, also when other dimensions were bound since. */
static void test_flags(void)
{
    rlx_graph *g = rlx_graph_create("flags");
    rlx_dim n = rlx_dim_named(g, "n", 4);
    rlx_value table = rlx_input(g, "table", RLX_F32, 1, (rlx_dim[]){N});
    rlx_value at = rlx_input(g, "at", RLX_I32, 1, (rlx_dim[]){n});
    rlx_output(g, "y", rlx_gather(g, table, at, 0));
    rlx_session *s = make_session(g);
    static const float numbers[N];
    static const int32_t places[4] = {0, N, 2, 3}; /* the second is out of range */
    static const struct { int64_t n; uint32_t flags; } runs[] = {
        {4, RLX_FLAG_INDEX_CLAMPED}, {0, 0}, {1, 0}, {4, RLX_FLAG_INDEX_CLAMPED}, {0, 0}};
    CHECK_OK(rlx_session_set_input(s, "table", numbers, sizeof numbers, &err), &err);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        CHECK_OK(rlx_session_bind(s, "n", runs[i].n, &err), &err);
        CHECK_OK(rlx_session_set_input(s, "at", places, (size_t)runs[i].n * 4, &err), &err);
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
        CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
        CHECK(rlx_session_flags(s) == runs[i].flags);
        CHECK_OK(rlx_session_bind(s, "n", runs[i].n ? 0 : 2, &err), &err);
        CHECK(rlx_session_flags(s) == runs[i].flags);
        CHECK_OK(rlx_session_prepare(s, &err), &err); /* other kernels, but no run */
        CHECK(rlx_session_flags(s) == runs[i].flags);
    }
    rlx_session_destroy(s);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static rlx_session *common;

/* A session for each thread, all on one device; the second time with a run in flight at its end. */
static void *own_session(void *user)
{
    float a = (float)(intptr_t)user, got;
    for (int wait = 1; wait >= 0; wait--) {
        rlx_graph *g = make_graph();
        rlx_session *s = NULL;
        expect(rlx_session_create(device, g, NULL, &s, NULL) == RLX_OK);
        rlx_graph_destroy(g);
        expect(set_weight(s, 0.5f) == RLX_OK);
        for (int i = 0; i < ROUNDS; i++) {
            expect(run_rows(s, N, a, &got) && got == expected(a, 0.5f));
            expect(rlx_session_submit(s, NULL, NULL) == RLX_OK);
        }
        expect(!wait || rlx_session_wait(s, 0, -1, NULL) == RLX_OK);
        rlx_session_destroy(s);
    }
    return NULL;
}

/* One session moves between threads: each call is whole, whatever the others do. */
static void *shared_session(void *user)
{
    float a = (float)(intptr_t)user, got;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t ticket = 0;
        expect(run_rows(common, N, a, &got) && got == expected(a, 2));
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
        expect(run_rows(s, N, a, &got));
        expect(got == expected(a, 1) || got == expected(a, 2));
        expect(set_weight(s, i % 2 ? 1 : 2) == RLX_OK);
    }
    rlx_session_destroy(s);
    return NULL;
}

static void test_threads(void)
{
    run_threads(THREADS, own_session);
    common = make_session(make_graph());
    rlx_device_close(device); /* the session keeps it open */
    CHECK_OK(set_weight(common, 2), NULL);
    run_threads(THREADS, shared_session);
    run_threads(THREADS, clone_session);
    rlx_session_destroy(common);
}

static void test_any_device(void)
{
    test_bindings();
    test_reads();
    test_ahead();
    test_polling();
    test_in_flight();
    test_steps();
    test_weights();
    test_leaves();
    test_sharing();
    test_bytes();
    test_state();
    test_flags();
    test_threads();
}

#endif
