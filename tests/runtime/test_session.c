/* SPDX-License-Identifier: MIT */
/* The session API from end to end, on every device of the CPU: right results, and a status and a
 * sentence for each kind of mistake. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"

#define F32(n) ((n) * sizeof(float))

static rlx_error err;

/* y = softmax(relu(x . w + b)) with x [seq, 4], w [4, 3]; also the product itself. */
static rlx_graph *make_mlp(void)
{
    rlx_graph *g = rlx_graph_create("mlp");
    rlx_dim seq = rlx_dim_named(g, "seq", 6);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){seq, 4});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){4, 3});
    rlx_value b = rlx_param(g, "b", RLX_F32, 1, (rlx_dim[]){3});
    rlx_value h = rlx_relu(g, rlx_add(g, rlx_matmul(g, x, w), b));
    rlx_output(g, "h", h);
    rlx_output(g, "y", rlx_softmax(g, h, -1));
    return g;
}

static rlx_session *open_session(const char *device, rlx_graph *g)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    if (CHECK_OK(rlx_device_open(device, NULL, &d, &err), &err))
        CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    rlx_device_close(d);
    rlx_graph_destroy(g);
    return s;
}

static const float weight[12] = {1, 0, -1, 0.5f, 2, 0, -1, 1, 1, 0, 0, 3};
static const float bias[3] = {0.5f, -0.25f, 1};
static const float input[24] = {1, 2, 3, 4, -1, -2, 0, 1, 0.5f, 0.25f, -4, 2,
                                3, 1, 0, -1, 2, 2, 2, 2, -3, 1, 4, 0};

static void expected_h(const float *x, int rows, float *h)
{
    for (int i = 0; i < rows; i++)
        for (int j = 0; j < 3; j++) {
            double sum = bias[j];
            for (int k = 0; k < 4; k++)
                sum += (double)x[i * 4 + k] * weight[k * 3 + j];
            h[i * 3 + j] = sum > 0 ? (float)sum : 0;
        }
}

static bool is_close(const float *a, const float *b, int n)
{
    for (int i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * fmaxf(1, fabsf(b[i]))))
            return false;
    return true;
}

static void set_weights(rlx_session *s, rlx_ownership own)
{
    CHECK_OK(rlx_session_set_param(s, "w", weight, sizeof weight, own, &err), &err);
    CHECK_OK(rlx_session_set_param(s, "b", bias, sizeof bias, own, &err), &err);
}

/* Runs x with `rows` rows and compares h; the null device gives zeros. */
static bool run_rows(rlx_session *s, int rows, bool is_null)
{
    float h[18], want[18];
    memset(h, 0xff, sizeof h);
    rlx_const_tensor in = {"x", input, F32((size_t)rows * 4)};
    rlx_tensor out = {"h", h, F32((size_t)rows * 3)};
    if (!CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err))
        return false;
    expected_h(input, rows, want);
    if (is_null)
        memset(want, 0, sizeof want);
    return is_close(h, want, rows * 3);
}

static void test_run(const char *device)
{
    bool is_null = !strcmp(device, "null");
    rlx_session *s = open_session(device, make_mlp());
    set_weights(s, RLX_BORROW);
    CHECK(run_rows(s, 6, is_null));
    for (int rows = 0; rows <= 6; rows++) {
        CHECK_OK(rlx_session_bind(s, "seq", rows, &err), &err);
        CHECK(run_rows(s, rows, is_null));
    }
    set_weights(s, RLX_COPY);
    CHECK(run_rows(s, 6, is_null));

    /* Inputs left out keep their value; parts of outputs. */
    float y[18], part[2], h[18], want[18];
    expected_h(input, 6, want);
    CHECK_OK(rlx_run(s, NULL, 0, (rlx_tensor[]){{"y", y, F32(18)}, {"h", h, F32(18)}}, 2, &err),
             &err);
    CHECK(is_null || is_close(h, want, 18));
    for (int i = 0; i < 6 && !is_null; i++)
        CHECK(fabsf(y[i * 3] + y[i * 3 + 1] + y[i * 3 + 2] - 1) < 1e-5f);
    CHECK_OK(rlx_session_read(s, "y", F32(4), part, F32(2), &err), &err);
    CHECK(!memcmp(part, y + 4, sizeof part));
    CHECK_OK(rlx_session_read(s, "y", F32(18), part, 0, &err), &err);
    CHECK(rlx_session_flags(s) == 0);
    rlx_session_destroy(s);
    rlx_session_destroy(NULL);
}

static void test_mistakes(const char *device)
{
    rlx_session *s = open_session(device, make_mlp());
    float x[24] = {0}, y[18];
    rlx_const_tensor in = {"x", x, sizeof x};
    rlx_tensor out = {"y", y, sizeof y};

    CHECK_FAILS(rlx_run(s, &in, 1, &out, 1, &err), RLX_INVALID, &err,
                "param 'w' (f32[4,3]) was never set");
    CHECK_FAILS(rlx_session_set_param(s, "w", weight, 44, RLX_COPY, &err), RLX_INVALID, &err,
                "param 'w' is f32[4,3]: expected 48 bytes, got 44");
    CHECK_FAILS(rlx_session_set_param(s, "W", weight, 48, RLX_COPY, &err), RLX_NOT_FOUND, &err,
                "there is no param 'W': did you mean 'w'? The params are 'w', 'b'");
    CHECK_FAILS(rlx_session_set_param(s, "x", weight, 48, RLX_COPY, &err), RLX_NOT_FOUND, &err,
                "'x' is an input, not a param");
    CHECK_FAILS(rlx_session_set_param(s, "w", NULL, 48, RLX_COPY, &err), RLX_INVALID, &err,
                "the data pointer is NULL");
    CHECK_FAILS(rlx_session_set_param(s, NULL, weight, 48, RLX_COPY, &err), RLX_INVALID, &err,
                "NULL");
    set_weights(s, RLX_COPY);

    CHECK_FAILS(rlx_run(s, NULL, 0, &out, 1, &err), RLX_INVALID, &err,
                "input 'x' (f32[6,4]) was never given");
    CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_INVALID, &err, "was never given");
    CHECK_FAILS(rlx_session_read(s, "y", 0, y, sizeof y, &err), RLX_INVALID, &err,
                "the session has not run");
    CHECK_FAILS(rlx_session_set_input(s, "x", x, 95, &err), RLX_INVALID, &err,
                "input 'x' is f32[6,4]: expected 96 bytes, got 95");
    CHECK_FAILS(rlx_session_set_input(s, "input", x, 96, &err), RLX_NOT_FOUND, &err,
                "there is no input 'input': the inputs are 'x'");
    CHECK_FAILS(rlx_run(s, &in, 1, (rlx_tensor[]){{"y", y, 71}}, 1, &err), RLX_INVALID, &err,
                "output 'y' is f32[6,3]: expected 72 bytes, got 71");
    CHECK_FAILS(rlx_run(s, &in, 1, (rlx_tensor[]){{"z", y, 72}}, 1, &err), RLX_NOT_FOUND, &err,
                "there is no output 'z'");
    CHECK_FAILS(rlx_run(s, &in, 1, (rlx_tensor[]){{"y", NULL, 72}}, 1, &err), RLX_INVALID, &err,
                "output 'y': the data pointer is NULL");
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);

    CHECK_FAILS(rlx_session_read(s, "y", 70, y, 4, &err), RLX_INVALID, &err,
                "output 'y' is f32[6,3] with 72 bytes: bytes 70 to 74 are not in it");
    CHECK_FAILS(rlx_session_read(s, "y", SIZE_MAX, y, 4, &err), RLX_INVALID, &err, "not in it");
    CHECK_FAILS(rlx_session_bind(s, "seq", 7, &err), RLX_INVALID, &err,
                "dimension 'seq' cannot be 7: expected 0 to its bound 6");
    CHECK_FAILS(rlx_session_bind(s, "seq", -1, &err), RLX_INVALID, &err, "cannot be -1");
    CHECK_FAILS(rlx_session_bind(s, "batch", 1, &err), RLX_NOT_FOUND, &err,
                "there is no dimension 'batch'");
    CHECK_FAILS(rlx_session_wait(s, 99, -1, &err), RLX_INVALID, &err, "run 99 was never submitted");
    CHECK_FAILS(rlx_session_state_read(s, "s", 0, y, 4, &err), RLX_NOT_FOUND, &err,
                "the graph has no states");
    CHECK_OK(rlx_session_state_reset(s, NULL, &err), &err);

    CHECK_OK(rlx_session_bind(s, "seq", 2, &err), &err);
    CHECK_FAILS(rlx_run(s, NULL, 0, NULL, 0, &err), RLX_INVALID, &err,
                "input 'x' is now f32[2,4] but was given as f32[6,4]");
    CHECK_OK(rlx_session_read(s, "y", 0, y, sizeof y, &err), &err); /* of the run before */
    CHECK(rlx_run(s, &in, 1, &out, 1, NULL) == RLX_INVALID);
    rlx_session_destroy(s);
}

static void test_create_mistakes(void)
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    CHECK_OK(rlx_device_open("cpu", NULL, &d, &err), &err);
    CHECK_FAILS(rlx_session_create(d, NULL, NULL, &s, &err), RLX_INVALID, &err, "graph is NULL");
    rlx_graph *g = rlx_graph_create("bad");
    rlx_value a = rlx_input(g, "a", RLX_F32, 2, (rlx_dim[]){2, 3});
    rlx_value b = rlx_input(g, "b", RLX_F32, 2, (rlx_dim[]){4, 3});
    rlx_output(g, "y", rlx_add(g, a, b));
    CHECK_FAILS(rlx_session_create(NULL, g, NULL, &s, &err), RLX_INVALID, &err, "device is NULL");
    CHECK_FAILS(rlx_session_create(d, g, NULL, &s, &err), RLX_INVALID, &err, "add");
    CHECK(s == NULL);
    rlx_graph_destroy(g);
    rlx_device_close(d);
}

static void test_async(const char *device)
{
    bool is_null = !strcmp(device, "null");
    rlx_session *s = open_session(device, make_mlp());
    set_weights(s, RLX_COPY);
    CHECK_OK(rlx_session_wait(s, 0, -1, &err), &err);
    CHECK_OK(rlx_session_set_input(s, "x", input, sizeof input, &err), &err);
    uint64_t tickets[40], last = 0;
    for (int i = 0; i < 40; i++) {
        CHECK_OK(rlx_session_submit(s, &tickets[i], &err), &err);
        CHECK(tickets[i] > last);
        last = tickets[i];
    }
    CHECK_OK(rlx_session_wait(s, tickets[0], -1, &err), &err);
    CHECK_OK(rlx_session_wait(s, last, 60000, &err), &err);
    CHECK_OK(rlx_session_wait(s, 0, 0, &err), &err);
    float h[18], want[18];
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_read(s, "h", 0, h, sizeof h, &err), &err);
    expected_h(input, 6, want);
    CHECK(is_null || is_close(h, want, 18));
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    rlx_session_destroy(s); /* waits */
}

static void test_clone(const char *device)
{
    bool is_null = !strcmp(device, "null");
    rlx_session *s = open_session(device, make_mlp()), *clone = NULL;
    CHECK_OK(rlx_session_bind(s, "seq", 3, &err), &err);
    CHECK_OK(rlx_session_clone(s, &clone, &err), &err);
    set_weights(s, RLX_COPY); /* the clone sees them */
    rlx_tensor_info info;
    CHECK(rlx_session_leaf(clone, RLX_LEAF_INPUT, 0, &info) && info.shape.dim[0] == 3);
    CHECK_FAILS(rlx_run(clone, NULL, 0, NULL, 0, &err), RLX_INVALID, &err, "was never given");
    CHECK(run_rows(clone, 3, is_null));
    CHECK_OK(rlx_session_bind(clone, "seq", 6, &err), &err);
    CHECK(run_rows(s, 3, is_null));
    CHECK(run_rows(clone, 6, is_null));

    float zero[12] = {0}, h[18];
    CHECK_OK(rlx_session_set_param(clone, "w", zero, sizeof zero, RLX_BORROW, &err), &err);
    CHECK_OK(rlx_run(s, NULL, 0, (rlx_tensor[]){{"h", h, F32(9)}}, 1, &err), &err);
    CHECK(is_null || (h[0] == 0.5f && h[1] == 0 && h[2] == 1));
    rlx_session_destroy(s);
    CHECK_OK(rlx_run(clone, NULL, 0, (rlx_tensor[]){{"h", h, F32(18)}}, 1, &err), &err);
    CHECK(is_null || (h[15] == 0.5f && h[16] == 0 && h[17] == 1));
    rlx_session_destroy(clone);
}

/* A counter: cache [4, 2] gets a row at `pos`, total = sum of the cache. */
static rlx_graph *make_cache(void)
{
    rlx_graph *g = rlx_graph_create("cache");
    rlx_value cache = rlx_state(g, "cache", RLX_F32, 2, (rlx_dim[]){4, 2});
    rlx_value row = rlx_input(g, "row", RLX_F32, 2, (rlx_dim[]){1, 2});
    rlx_value pos = rlx_input(g, "pos", RLX_I32, 0, NULL);
    rlx_value now = rlx_state_write(g, cache, row, pos, 0);
    rlx_output(g, "total", rlx_reduce(g, RLX_REDUCE_SUM, now, NULL, 0, false));
    return g;
}

static float write_row(rlx_session *s, int32_t pos, float a, float b)
{
    float row[2] = {a, b}, total = -1;
    rlx_const_tensor in[] = {{"row", row, sizeof row}, {"pos", &pos, sizeof pos}};
    CHECK_OK(rlx_run(s, in, 2, (rlx_tensor[]){{"total", &total, sizeof total}}, 1, &err), &err);
    return total;
}

static void test_state(const char *device)
{
    rlx_session *s = open_session(device, make_cache()), *clone = NULL;
    float all[8], two[2] = {10, 20};
    CHECK_OK(rlx_session_state_read(s, "cache", 0, all, sizeof all, &err), &err);
    CHECK(all[0] == 0 && all[7] == 0);
    CHECK(write_row(s, 0, 1, 2) == 3);
    CHECK(write_row(s, 3, 3, 4) == 10);
    CHECK_OK(rlx_session_clone(s, &clone, &err), &err);
    CHECK(write_row(clone, 1, 5, 5) == 10);
    CHECK_OK(rlx_session_state_write(s, "cache", F32(2), two, sizeof two, &err), &err);
    CHECK_OK(rlx_session_state_read(s, "cache", 0, all, sizeof all, &err), &err);
    CHECK(all[0] == 1 && all[2] == 10 && all[3] == 20 && all[6] == 3);
    CHECK(write_row(s, 0, 0, 0) == 37);
    CHECK(rlx_session_flags(s) == 0);
    CHECK(write_row(s, 4, 100, 100) == 37); /* outside: skipped and reported */
    CHECK(rlx_session_flags(s) & RLX_FLAG_STATE_RANGE);
    CHECK(write_row(s, 0, 0, 0) == 37 && rlx_session_flags(s) == 0);
    CHECK_FAILS(rlx_session_state_write(s, "cache", 30, two, 4, &err), RLX_INVALID, &err,
                "state 'cache' is f32[4,2] with 32 bytes: bytes 30 to 34 are not in it");
    CHECK_FAILS(rlx_session_state_reset(s, "cash", &err), RLX_NOT_FOUND, &err,
                "did you mean 'cache'");
    CHECK_OK(rlx_session_state_reset(s, "cache", &err), &err);
    CHECK(write_row(s, 0, 1, 1) == 2);
    rlx_session_destroy(clone);
    rlx_session_destroy(s);
}

/* Several submits of a graph with state, without a wait between: each must run. */
static void test_queue_state(void)
{
    rlx_graph *g = rlx_graph_create("count");
    rlx_value n = rlx_state(g, "n", RLX_F32, 1, (rlx_dim[]){1});
    rlx_value one = rlx_input(g, "one", RLX_F32, 1, (rlx_dim[]){1});
    rlx_value next = rlx_add(g, n, one);
    rlx_output(g, "n", rlx_state_write(g, n, next, rlx_scalar(g, RLX_I32, 0), 0));
    rlx_session *s = open_session("cpu", g);
    float x = 1, y = 0;
    CHECK_OK(rlx_session_set_input(s, "one", &x, sizeof x, &err), &err);
    for (int i = 0; i < 100; i++)
        CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_OK(rlx_session_read(s, "n", 0, &y, sizeof y, &err), &err);
    CHECK(y == 100);
    rlx_session_destroy(s);
}

/* Dimensions in expressions: a difference that is negative is an error of the run, not of bind. */
static void test_dims(void)
{
    rlx_graph *g = rlx_graph_create("dims");
    rlx_dim a = rlx_dim_named(g, "a", 8), b = rlx_dim_named(g, "b", 8);
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, &a);
    rlx_output(g, "y", rlx_neg(g, rlx_narrow(g, x, 0, b, rlx_dim_sub(g, a, b))));
    rlx_session *s = open_session("cpu", g);
    float data[8] = {0, 1, 2, 3, 4, 5, 6, 7}, y[8];
    rlx_tensor_info info;
    CHECK_OK(rlx_session_bind(s, "a", 6, &err), &err);
    CHECK(!rlx_session_leaf(s, RLX_LEAF_OUTPUT, 0, &info));
    rlx_const_tensor in = {"x", data, F32(6)};
    rlx_tensor out = {"y", y, F32(4)};
    CHECK(rlx_run(s, &in, 1, &out, 1, &err) == RLX_INVALID);
    CHECK_OK(rlx_session_bind(s, "b", 2, &err), &err);
    CHECK(rlx_session_leaf(s, RLX_LEAF_OUTPUT, 0, &info) && info.bytes == F32(4));
    CHECK(!rlx_session_leaf(s, RLX_LEAF_OUTPUT, 1, &info));
    CHECK_OK(rlx_run(s, &in, 1, &out, 1, &err), &err);
    CHECK(y[0] == -2 && y[3] == -5);
    rlx_session_destroy(s);
}

typedef struct step_log {
    size_t n, stop_at;
    double first_value;
} step_log;

static int on_step(void *user, const rlx_step_result *r)
{
    step_log *log = user;
    CHECK(r->step == log->n && r->seconds >= 0 && r->n_results >= 1);
    if (r->data)
        log->first_value = *(const float *)r->data[0];
    log->n++;
    return log->n == log->stop_at;
}

static void test_inside(const char *device)
{
    rlx_session *s = open_session(device, make_mlp());
    set_weights(s, RLX_COPY);
    CHECK_OK(rlx_session_set_input(s, "x", input, sizeof input, &err), &err);
    step_log log = {0};
    CHECK_OK(rlx_session_run_steps(s, true, on_step, &log, &err), &err);
    CHECK(log.n == rlx_session_n_steps(s) && log.n >= 1);
    log = (step_log){.stop_at = 1};
    CHECK_FAILS(rlx_session_run_steps(s, false, on_step, &log, &err), RLX_CANCELLED, &err,
                "stopped after step 0");
    for (size_t i = 0; i < rlx_session_n_steps(s); i++) {
        rlx_step_info info = {RLX_INIT(rlx_step_info)};
        CHECK(rlx_session_step(s, i, &info, NULL) == RLX_OK);
        CHECK(info.op && info.kernel && info.node && strstr(info.shapes, "->"));
        CHECK(info.support == RLX_SUPPORT_NATIVE);
    }
    rlx_step_info none = {RLX_INIT(rlx_step_info)};
    CHECK_FAILS(rlx_session_step(s, rlx_session_n_steps(s), &none, &err), RLX_NOT_FOUND, &err,
                "there is no step");
    rlx_memory_info memory = {RLX_INIT(rlx_memory_info)};
    rlx_session_memory(s, &memory, NULL);
    CHECK(memory.param_bytes >= 60 && memory.arena_bytes >= memory.arena_bound);
    rlx_tensor_info info;
    CHECK(rlx_session_leaf(s, RLX_LEAF_PARAM, 1, &info) && !strcmp(info.name, "b"));
    CHECK(rlx_session_leaf(s, RLX_LEAF_INPUT, 0, &info) && info.bytes == sizeof input);
    CHECK(!rlx_session_leaf(s, RLX_LEAF_STATE, 0, &info));
    rlx_session_destroy(s);
}

static int n_dumped, n_scheduled, n_dispatched, n_unknown;

static void on_log(void *user, rlx_log_level level, const char *text)
{
    (void)user, (void)level;
    n_dumped += strstr(text, "largest ") != NULL;
    n_scheduled += !strncmp(text, "schedule ", 9);
    n_dispatched += !strncmp(text, "dispatch ", 9) && strstr(text, ", kernel ") != NULL;
    n_unknown += strstr(text, "not chosen") != NULL;
}

/* The environment variables that make sessions talk. */
static void test_logs(void)
{
    static const char *const names[] = {"RLX_DUMP_NODES", "RLX_SCHEDULE", "RLX_DISPATCH_REPORT"};
    for (int i = 0; i < 3; i++)
        setenv(names[i], "1", 1);
    rlx_set_log(on_log, NULL, RLX_LOG_INFO);
    rlx_session *s = open_session("cpu", make_mlp());
    int n = (int)rlx_session_n_steps(s);
    set_weights(s, RLX_COPY);
    CHECK(n_scheduled == n && n_dispatched == 0 && n_dumped == 0);
    CHECK(run_rows(s, 6, false));
    CHECK(n_dispatched == n && n_unknown == 0 && n_dumped >= n);
    CHECK(run_rows(s, 6, false) && n_dispatched == n); /* with the same dimensions */
    rlx_session_destroy(s);
    rlx_set_log(NULL, NULL, RLX_LOG_OFF);
    for (int i = 0; i < 3; i++)
        unsetenv(names[i]);
}

int main(void)
{
    static const char *const devices[] = {"cpu", "ref", "null"};
    for (size_t i = 0; i < 3; i++) {
        test_run(devices[i]);
        test_mistakes(devices[i]);
        test_async(devices[i]);
        test_clone(devices[i]);
        test_inside(devices[i]);
    }
    test_state("cpu");
    test_state("ref");
    test_create_mistakes();
    test_queue_state();
    test_dims();
    test_logs();
    return check_done();
}
