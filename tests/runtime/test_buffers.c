/* SPDX-License-Identifier: MIT */
/* Buffers that sessions of different graphs share, on cpu, ref and null, or on RLX_TEST_DEVICE:
 * tensors that pass from graph to graph, weights, states, parts of results, the order of runs,
 * mistakes. */
#include <math.h>
#include <stdlib.h>

#include "base/thread.h"
#include "check.h"
#include "rlx/rlx.h"
#include "support/threads.h"
#include "webgpu/library.h"

enum { N = 64, ROWS = 8, TURNS = 20 };

static rlx_device *device;
static bool is_null;
static rlx_error err;

/* ---- Helpers -------------------------------------------------------------------------------- */

static rlx_buffer *new_buffer(rlx_dtype t, int rank, int64_t a, int64_t b)
{
    rlx_buffer *out = NULL;
    rlx_buffer_desc d = {RLX_INIT(rlx_buffer_desc), .dtype = t, .shape = {rank, {a, b}}};
    CHECK_OK(rlx_buffer_create(device, &d, &out, &err), &err);
    return out;
}

static rlx_session *new_session(rlx_graph *g, const rlx_binding *buffers, size_t n)
{
    rlx_session *s = NULL;
    rlx_session_desc d = {RLX_INIT(rlx_session_desc), .buffers = buffers, .n_buffers = n};
    CHECK_OK(rlx_session_create(device, g, &d, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

static void use(rlx_session *s, rlx_leaf kind, const char *name, rlx_buffer *b)
{
    CHECK_OK(rlx_session_set_buffer(s, kind, name, b, &err), &err);
}

static void fill(float *x, size_t n, int seed)
{
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(((int)i * 37 + seed * 11) % 29 - 14) / 16;
}

static bool is_close(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n && !is_null; i++)
        if (!(fabsf(a[i] - b[i]) <= 1e-5f * fmaxf(1, fabsf(b[i]))))
            return false;
    return true;
}

static void read_floats(rlx_buffer *b, float *x, size_t n)
{
    CHECK_OK(rlx_buffer_read(b, 0, x, n * sizeof *x, &err), &err);
}

static void set_floats(rlx_session *s, const char *name, const float *x, size_t n)
{
    CHECK_OK(rlx_session_set_input(s, name, x, n * sizeof *x, &err), &err);
}

/* y = relu(x . w) with x [rows, N], rows up to ROWS. */
static rlx_graph *make_layer(rlx_dtype weight)
{
    rlx_graph *g = rlx_graph_create("layer");
    rlx_dim rows = rlx_dim_named(g, "rows", ROWS);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){rows, N});
    rlx_value w = rlx_param(g, "w", weight, 2, (rlx_dim[]){N, N});
    rlx_output(g, "y", rlx_relu(g, rlx_matmul(g, x, rlx_cast(g, w, RLX_F32))));
    return g;
}

/* z = x . w - x: another graph with the same weight. */
static rlx_graph *make_rest(rlx_dtype weight)
{
    rlx_graph *g = rlx_graph_create("rest");
    rlx_dim rows = rlx_dim_named(g, "rows", ROWS);
    rlx_value x = rlx_input(g, "h", RLX_F32, 2, (rlx_dim[]){rows, N});
    rlx_value w = rlx_param(g, "w", weight, 2, (rlx_dim[]){N, N});
    rlx_output(g, "z", rlx_sub(g, rlx_matmul(g, x, rlx_cast(g, w, RLX_F32)), x));
    return g;
}

/* y = x + 1 with x [N]. */
static rlx_graph *make_count(void)
{
    rlx_graph *g = rlx_graph_create("count");
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (rlx_dim[]){N});
    rlx_output(g, "y", rlx_add(g, x, rlx_scalar(g, RLX_F32, 1)));
    return g;
}

/* ---- A tensor from graph to graph ----------------------------------------------------------- */

static void test_pass(void)
{
    static float w[N * N], x[ROWS * N], y[ROWS * N], z[ROWS * N], want[ROWS * N];
    rlx_session *one = new_session(make_layer(RLX_F32), NULL, 0);
    rlx_session *two = new_session(make_rest(RLX_F32), NULL, 0);
    rlx_buffer *hidden = new_buffer(RLX_F32, 2, ROWS, N), *end = new_buffer(RLX_F32, 2, ROWS, N);
    fill(w, N * N, 1);
    CHECK_OK(rlx_session_set_param(one, "w", w, sizeof w, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_param(two, "w", w, sizeof w, RLX_COPY, &err), &err);
    for (int rows = 1; rows <= ROWS; rows += 7) {
        const size_t n = (size_t)rows * N, bytes = n * sizeof *x;
        CHECK_OK(rlx_session_bind(one, "rows", rows, &err), &err);
        CHECK_OK(rlx_session_bind(two, "rows", rows, &err), &err);
        fill(x, n, rows);
        rlx_const_tensor in = {"x", x, bytes}, feed = {"h", y, bytes};
        rlx_tensor mid = {"y", y, bytes};
        CHECK_OK(rlx_run(one, &in, 1, &mid, 1, &err), &err);
        CHECK_OK(rlx_run(two, &feed, 1, &(rlx_tensor){"z", want, bytes}, 1, &err), &err);

        use(one, RLX_LEAF_OUTPUT, "y", hidden);
        use(two, RLX_LEAF_INPUT, "h", hidden);
        use(two, RLX_LEAF_OUTPUT, "z", end);
        CHECK_OK(rlx_session_submit(one, NULL, &err), &err); /* nobody waits in between */
        CHECK_OK(rlx_session_submit(two, NULL, &err), &err);
        read_floats(end, z, n);
        CHECK(is_close(z, want, n));
        read_floats(hidden, z, n);
        CHECK(is_close(z, y, n));
        use(one, RLX_LEAF_OUTPUT, "y", NULL);
        use(two, RLX_LEAF_INPUT, "h", NULL);
        use(two, RLX_LEAF_OUTPUT, "z", NULL);
        memset(z, 0xff, sizeof z);
        CHECK_OK(rlx_run(one, NULL, 0, &(rlx_tensor){"y", z, bytes}, 1, &err), &err);
        CHECK(is_close(z, y, n));
    }
    rlx_buffer_destroy(hidden);
    rlx_buffer_destroy(end);
    rlx_session_destroy(one);
    rlx_session_destroy(two);
}

/* Two sessions count up in turn between two buffers, all submitted before anything is read. */
static void test_order(void)
{
    float x[N], got[N];
    rlx_buffer *a = new_buffer(RLX_F32, 1, N, 0), *b = new_buffer(RLX_F32, 1, N, 0);
    rlx_session *there = new_session(make_count(), (rlx_binding[]){{RLX_LEAF_INPUT, "x", a},
                                     {RLX_LEAF_OUTPUT, "y", b}}, 2);
    rlx_session *back = new_session(make_count(), (rlx_binding[]){{RLX_LEAF_INPUT, "x", b},
                                    {RLX_LEAF_OUTPUT, "y", a}}, 2);
    for (int i = 0; i < N; i++)
        x[i] = (float)i;
    CHECK_OK(rlx_buffer_write(a, 0, x, sizeof x, &err), &err);
    for (int i = 0; i < TURNS; i++) {
        CHECK_OK(rlx_session_submit(there, NULL, &err), &err);
        CHECK_OK(rlx_session_submit(back, NULL, &err), &err);
    }
    read_floats(a, got, N);
    for (int i = 0; i < N; i++)
        CHECK(is_null || got[i] == (float)(i + 2 * TURNS));
    CHECK_OK(rlx_buffer_write(a, 4, x, 8, &err), &err); /* the host in between */
    CHECK_OK(rlx_session_submit(there, NULL, &err), &err);
    read_floats(b, got, N);
    CHECK(is_null || (got[0] == 2 * TURNS + 1 && got[1] == 1 && got[2] == 2 &&
                      got[3] == 3 + 2 * TURNS + 1));
    rlx_buffer_destroy(a); /* the sessions keep both */
    rlx_buffer_destroy(b);
    CHECK_OK(rlx_session_submit(back, NULL, &err), &err);
    rlx_session_destroy(there);
    CHECK_OK(rlx_run(back, NULL, 0, NULL, 0, &err), &err);
    rlx_session_destroy(back);
}

/* Outputs that are parts of another tensor, the same as another output, or reshaped. */
static void test_parts(void)
{
    enum { HALF = ROWS / 2 * N };
    float x[ROWS * N], got[ROWS * N];
    rlx_graph *g = rlx_graph_create("parts");
    rlx_value in = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){ROWS, N});
    rlx_value y = rlx_mul(g, in, rlx_scalar(g, RLX_F32, 2)), z = rlx_neg(g, in);
    rlx_output(g, "y", y);
    rlx_output(g, "same", y);
    rlx_output(g, "half", rlx_narrow(g, y, 0, ROWS / 2, ROWS / 2));
    rlx_output(g, "flat", rlx_reshape(g, z, 1, (rlx_dim[]){ROWS * N}));
    rlx_buffer *half = new_buffer(RLX_F32, 2, ROWS / 2, N);
    rlx_buffer *same = new_buffer(RLX_NO_TYPE, 0, 0, 0), *flat = new_buffer(RLX_F32, 2, ROWS, N);
    rlx_buffer_destroy(same);
    rlx_buffer_desc plain = {RLX_INIT(rlx_buffer_desc), .bytes = sizeof got + 12};
    CHECK_OK(rlx_buffer_create(device, &plain, &same, &err), &err);
    rlx_session *s = new_session(g, (rlx_binding[]){{RLX_LEAF_OUTPUT, "half", half},
                                 {RLX_LEAF_OUTPUT, "same", same}, {RLX_LEAF_OUTPUT, "flat", flat}},
                                 3);
    for (int turn = 1; turn < 4; turn++) {
        fill(x, ROWS * N, turn);
        set_floats(s, "x", x, ROWS * N);
        CHECK_OK(rlx_run(s, NULL, 0, &(rlx_tensor){"y", got, sizeof got}, 1, &err), &err);
        for (int i = 0; i < ROWS * N && !is_null; i++)
            CHECK(got[i] == 2 * x[i]);
        memset(got, 0, sizeof got);
        read_floats(same, got, ROWS * N);
        for (int i = 0; i < ROWS * N && !is_null; i++)
            CHECK(got[i] == 2 * x[i]);
        read_floats(flat, got, ROWS * N);
        for (int i = 0; i < ROWS * N && !is_null; i++)
            CHECK(got[i] == -x[i]);
        read_floats(half, got, HALF);
        for (int i = 0; i < HALF && !is_null; i++)
            CHECK(got[i] == 2 * x[i + HALF]);
    }
    rlx_session_destroy(s);
    rlx_buffer_destroy(half);
    rlx_buffer_destroy(same);
    rlx_buffer_destroy(flat);
}

/* ---- Weights -------------------------------------------------------------------------------- */

static void run_layer(rlx_session *s, const char *in, const char *out, const float *x, float *y)
{
    const size_t bytes = (size_t)ROWS * N * sizeof *y;
    rlx_const_tensor from = {in, x, bytes};
    rlx_tensor to = {out, y, bytes};
    CHECK_OK(rlx_run(s, &from, 1, &to, 1, &err), &err);
}

/* Two graphs with one weight of this type: as with weights of their own, also when it changes. */
static void test_weight(rlx_dtype t)
{
    static float numbers[N * N], x[ROWS * N], got[ROWS * N], want[ROWS * N];
    static uint16_t packed[2 * N * N];
    const size_t bytes = (size_t)(N * N * rlx_dtype_block_bytes(t));
    rlx_buffer *w = new_buffer(t, 2, N, N);
    rlx_session *one = new_session(make_layer(t), &(rlx_binding){RLX_LEAF_PARAM, "w", w}, 1);
    rlx_session *two = new_session(make_rest(t), NULL, 0), *clone = NULL;
    rlx_session *plain_one = new_session(make_layer(t), NULL, 0);
    rlx_session *plain_two = new_session(make_rest(t), NULL, 0);
    use(two, RLX_LEAF_PARAM, "w", w);
    CHECK_OK(rlx_session_clone(one, &clone, &err), &err);
    fill(x, ROWS * N, 5);
    for (int turn = 0; turn < 3; turn++) {
        fill(numbers, N * N, turn);
        rlx_from_float(t, numbers, packed, N * N);
        CHECK_OK(rlx_buffer_write(w, 0, packed, bytes, &err), &err);
        CHECK_OK(rlx_session_set_param(plain_one, "w", packed, bytes, RLX_COPY, &err), &err);
        CHECK_OK(rlx_session_set_param(plain_two, "w", packed, bytes, RLX_COPY, &err), &err);
        run_layer(plain_one, "x", "y", x, want);
        run_layer(one, "x", "y", x, got);
        CHECK(!memcmp(got, want, sizeof got));
        memset(got, 0, sizeof got);
        run_layer(clone, "x", "y", x, got);
        CHECK(!memcmp(got, want, sizeof got));
        run_layer(plain_two, "h", "z", x, want);
        run_layer(two, "h", "z", x, got);
        CHECK(!memcmp(got, want, sizeof got));
    }
    use(two, RLX_LEAF_PARAM, "w", NULL);
    CHECK_FAILS(rlx_session_submit(two, NULL, &err), RLX_INVALID, &err, "'w' (");
    CHECK_OK(rlx_session_set_param(two, "w", packed, bytes, RLX_COPY, &err), &err);
    run_layer(two, "h", "z", x, got);
    CHECK(!memcmp(got, want, sizeof got));
    CHECK_FAILS(rlx_session_set_buffer(one, RLX_LEAF_PARAM, "w", NULL, &err), RLX_INVALID, &err,
                "clones");
    rlx_session_destroy(clone);
    rlx_buffer_destroy(w);
    run_layer(one, "x", "y", x, got);
    rlx_session_destroy(one);
    rlx_session_destroy(two);
    rlx_session_destroy(plain_one);
    rlx_session_destroy(plain_two);
}

/* A run of one graph writes the weight of another, as training does. */
static void test_written_weight(void)
{
    static float w[N * N], x[ROWS * N], got[ROWS * N], want[ROWS * N], moved[N * N];
    rlx_graph *g = rlx_graph_create("update");
    rlx_value before = rlx_input(g, "before", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value by = rlx_input(g, "by", RLX_F32, 0, NULL);
    rlx_output(g, "after", rlx_add(g, before, by));
    rlx_buffer *weight = new_buffer(RLX_F32, 2, N, N);
    rlx_session *update = new_session(g, &(rlx_binding){RLX_LEAF_OUTPUT, "after", weight}, 1);
    rlx_session *layer = new_session(make_layer(RLX_F32),
                                     &(rlx_binding){RLX_LEAF_PARAM, "w", weight}, 1);
    rlx_session *plain = new_session(make_layer(RLX_F32), NULL, 0);
    fill(w, N * N, 3);
    fill(x, ROWS * N, 4);
    set_floats(update, "before", w, N * N);
    for (int turn = 0; turn < 3; turn++) {
        const float by_now = (float)turn / 2;
        for (int i = 0; i < N * N; i++)
            moved[i] = w[i] + by_now;
        CHECK_OK(rlx_session_set_param(plain, "w", moved, sizeof moved, RLX_COPY, &err), &err);
        run_layer(plain, "x", "y", x, want);
        set_floats(update, "by", &by_now, 1);
        CHECK_OK(rlx_session_submit(update, NULL, &err), &err);
        run_layer(layer, "x", "y", x, got);
        CHECK(!memcmp(got, want, sizeof got));
    }
    rlx_buffer_destroy(weight);
    rlx_session_destroy(update);
    rlx_session_destroy(layer);
    rlx_session_destroy(plain);
}

/* ---- State ---------------------------------------------------------------------------------- */

/* Attention of `rows` new rows over a cache of ROWS rows; logits of the last row of tokens. */
static rlx_graph *make_decoder(rlx_dim rows_of(rlx_graph *g))
{
    rlx_graph *g = rlx_graph_create("decoder");
    rlx_dim rows = rows_of(g);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){rows, N});
    rlx_value at = rlx_input(g, "at", RLX_I32, 1, &rows);
    rlx_value mask = rlx_input(g, "mask", RLX_F32, 2, (rlx_dim[]){rows, ROWS});
    rlx_value k = rlx_state(g, "k", RLX_F32, 2, (rlx_dim[]){ROWS, N});
    rlx_value v = rlx_state(g, "v", RLX_F32, 2, (rlx_dim[]){ROWS, N});
    k = rlx_state_write(g, k, rlx_mul(g, x, rlx_scalar(g, RLX_F32, 0.5)), at, 0);
    v = rlx_state_write(g, v, rlx_relu(g, x), at, 0);
    rlx_value s = rlx_add(g, rlx_matmul(g, x, rlx_transpose(g, k, NULL)), mask);
    rlx_output(g, "logits", rlx_matmul(g, rlx_softmax(g, s, -1), v));
    return g;
}

static rlx_dim any_rows(rlx_graph *g) { return rlx_dim_named(g, "rows", ROWS); }
static rlx_dim many_rows(rlx_graph *g) { return (void)g, ROWS - 3; }
static rlx_dim one_row(rlx_graph *g) { return (void)g, 1; }

/* Rows first .. first + n - 1 of x; `logits` of them. */
static void step_decoder(rlx_session *s, const float *x, int first, int n, float *logits)
{
    static float mask[ROWS * ROWS];
    int32_t at[ROWS];
    for (int i = 0; i < n; i++) {
        at[i] = first + i;
        for (int k = 0; k < ROWS; k++)
            mask[i * ROWS + k] = k <= first + i ? 0 : -1e9f;
    }
    const size_t rows = (size_t)n;
    rlx_const_tensor in[] = {{"x", x + first * N, rows * N * sizeof *x},
                             {"at", at, rows * sizeof *at},
                             {"mask", mask, rows * ROWS * sizeof *mask}};
    rlx_tensor out = {"logits", logits, rows * N * sizeof *logits};
    CHECK_OK(rlx_run(s, in, 3, &out, 1, &err), &err);
}

static void test_state(void)
{
    enum { PROMPT = ROWS - 3 };
    static float x[ROWS * N], got[ROWS * N], want[ROWS * N];
    rlx_buffer *k = new_buffer(RLX_F32, 2, ROWS, N), *v = new_buffer(RLX_F32, 2, ROWS, N);
    const rlx_binding cache[] = {{RLX_LEAF_STATE, "k", k}, {RLX_LEAF_STATE, "v", v}};
    rlx_session *whole = new_session(make_decoder(any_rows), NULL, 0);
    rlx_session *prefill = new_session(make_decoder(many_rows), cache, 2);
    rlx_session *decode = new_session(make_decoder(one_row), cache, 2);
    fill(x, ROWS * N, 7);
    for (int turn = 0; turn < 2; turn++) {
        CHECK_OK(rlx_session_bind(whole, "rows", PROMPT, &err), &err);
        step_decoder(whole, x, 0, PROMPT, want);
        step_decoder(prefill, x, 0, PROMPT, got);
        CHECK(is_close(got, want, PROMPT * N));
        CHECK_OK(rlx_session_bind(whole, "rows", 1, &err), &err);
        for (int at = PROMPT; at < ROWS; at++) {
            step_decoder(whole, x, at, 1, want);
            step_decoder(decode, x, at, 1, got);
            CHECK(is_close(got, want, N));
        }
        CHECK_OK(rlx_session_state_read(whole, "v", 0, want, sizeof want, &err), &err);
        read_floats(v, got, ROWS * N);
        CHECK(is_close(got, want, ROWS * N));
        CHECK_OK(rlx_session_state_reset(prefill, NULL, &err), &err); /* not those in buffers */
        memset(want, 0, sizeof want);
        CHECK_OK(rlx_buffer_write(k, 0, want, sizeof want, &err), &err);
        CHECK_OK(rlx_buffer_write(v, 0, want, sizeof want, &err), &err);
        CHECK_OK(rlx_session_state_reset(whole, NULL, &err), &err);
    }
    use(decode, RLX_LEAF_STATE, "k", NULL); /* zero, as nothing was ever there */
    CHECK_OK(rlx_session_state_read(decode, "k", 0, got, sizeof got, &err), &err);
    CHECK(got[0] == 0 && got[ROWS * N - 1] == 0);
    rlx_session_destroy(whole);
    rlx_session_destroy(prefill);
    rlx_buffer_destroy(k);
    rlx_buffer_destroy(v);
    rlx_session_destroy(decode);
}

/* ---- The host ------------------------------------------------------------------------------- */

static void test_map(void)
{
    rlx_buffer *b = new_buffer(RLX_F32, 1, N, 0);
    rlx_session *s = new_session(make_count(), &(rlx_binding){RLX_LEAF_INPUT, "x", b}, 1);
    rlx_buffer_info info = {RLX_INIT(rlx_buffer_info)};
    float got[N];
    void *data = NULL;
    CHECK_OK(rlx_buffer_get_info(b, &info, &err), &err);
    CHECK(info.bytes == sizeof got && info.dtype == RLX_F32 && info.shape.rank == 1 &&
          info.shape.dim[0] == N && info.device == device);
    if (!info.mappable) {
        CHECK_FAILS(rlx_buffer_map(b, &data, &err), RLX_UNSUPPORTED, &err, "cannot reach");
        CHECK(!data);
    } else {
        CHECK_OK(rlx_buffer_map(b, &data, &err), &err);
        CHECK((uintptr_t)data % 64 == 0);
        for (int i = 0; i < N; i++)
            ((float *)data)[i] = (float)i;
        CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_INVALID, &err,
                    "the buffer of input 'x' is mapped");
        CHECK_FAILS(rlx_buffer_read(b, 0, got, 4, &err), RLX_INVALID, &err, "is mapped");
        CHECK_FAILS(rlx_buffer_map(b, &data, &err), RLX_INVALID, &err, "is mapped");
        CHECK_OK(rlx_buffer_unmap(b, &err), &err);
        CHECK_OK(rlx_run(s, NULL, 0, &(rlx_tensor){"y", got, sizeof got}, 1, &err), &err);
        CHECK(got[0] == 1 && got[N - 1] == N);
    }
    CHECK_FAILS(rlx_buffer_unmap(b, &err), RLX_INVALID, &err, "not mapped");
    rlx_session_destroy(s);
    rlx_buffer_destroy(b);
}

static void test_bad_buffers(void)
{
    rlx_buffer *b = NULL;
    rlx_buffer_desc d = {RLX_INIT(rlx_buffer_desc), .shape = {1, {4}}};
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "without a dtype");
    d.dtype = RLX_Q4_0;
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "whole blocks");
    d.dtype = RLX_F16;
    d.bytes = 9;
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "f16[4] has 8 bytes");
    d.shape.dim[0] = -2;
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "is named");
    d.shape.dim[0] = INT64_MAX;
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "has no size");
    d.dtype = (rlx_dtype)1000;
    CHECK_FAILS(rlx_buffer_create(device, &d, &b, &err), RLX_INVALID, &err, "no such tensor");
    CHECK(!b);
    d = (rlx_buffer_desc){RLX_INIT(rlx_buffer_desc)}; /* of nothing */
    CHECK_OK(rlx_buffer_create(device, &d, &b, &err), &err);
    CHECK_OK(rlx_buffer_write(b, 0, NULL, 0, &err), &err);
    CHECK_FAILS(rlx_buffer_write(b, 0, &d, 1, &err), RLX_INVALID, &err, "has 0 bytes: 1 bytes");
    CHECK_FAILS(rlx_buffer_read(b, SIZE_MAX, &d, 2, &err), RLX_INVALID, &err, "are not in it");
    rlx_buffer_destroy(b);
    rlx_buffer_destroy(NULL);
}

static void test_bad_bindings(void)
{
    float x[N] = {0};
    rlx_session *s = new_session(make_count(), NULL, 0);
    rlx_buffer *small = new_buffer(RLX_F32, 1, N - 1, 0), *other = new_buffer(RLX_I32, 1, N, 0);
    rlx_buffer *a = new_buffer(RLX_F32, 1, N, 0), *b = new_buffer(RLX_F32, 1, N, 0);
    CHECK_FAILS(rlx_session_set_buffer(s, RLX_LEAF_INPUT, "x", small, &err), RLX_INVALID, &err,
                "input 'x' is f32[64]: expected a buffer of at least 256 bytes, got one of 252");
    CHECK_FAILS(rlx_session_set_buffer(s, RLX_LEAF_OUTPUT, "y", other, &err), RLX_INVALID, &err,
                "output 'y' is f32[64]: its buffer has elements of i32");
    CHECK_FAILS(rlx_session_set_buffer(s, RLX_LEAF_OUTPUT, "x", a, &err), RLX_NOT_FOUND, &err,
                "'x'");
    CHECK_FAILS(rlx_session_set_buffer(s, (rlx_leaf)9, "x", a, &err), RLX_INVALID, &err, "9 is no");
    rlx_device *second = NULL;
    CHECK_OK(rlx_device_open("ref", NULL, &second, &err), &err);
    rlx_buffer *far = NULL;
    CHECK_OK(rlx_buffer_create(second, &(rlx_buffer_desc){RLX_INIT(rlx_buffer_desc), .bytes = 256},
                               &far, &err), &err);
    CHECK_FAILS(rlx_session_set_buffer(s, RLX_LEAF_INPUT, "x", far, &err), RLX_INVALID, &err,
                "on another device");
    rlx_buffer_destroy(far);
    rlx_device_close(second);

    use(s, RLX_LEAF_INPUT, "x", a);
    use(s, RLX_LEAF_OUTPUT, "y", a);
    CHECK_FAILS(rlx_session_submit(s, NULL, &err), RLX_INVALID, &err, "live in the same buffer");
    use(s, RLX_LEAF_OUTPUT, "y", b);
    CHECK_OK(rlx_session_submit(s, NULL, &err), &err);
    CHECK_FAILS(rlx_session_set_input(s, "x", x, sizeof x, &err), RLX_INVALID, &err,
                "input 'x' lives in a buffer");
    CHECK_FAILS(rlx_session_read(s, "y", 0, x, 4, &err), RLX_INVALID, &err,
                "output 'y' lives in a buffer");
    rlx_buffer_destroy(a);
    use(s, RLX_LEAF_INPUT, "x", a); /* it is there already */
    CHECK_FAILS(rlx_session_set_buffer(s, RLX_LEAF_OUTPUT, "y", a, &err), RLX_INVALID, &err,
                "was destroyed");
    use(s, RLX_LEAF_OUTPUT, "y", NULL);
    CHECK_FAILS(rlx_session_read(s, "y", 0, x, 4, &err), RLX_INVALID, &err, "has not run");
    rlx_buffer_destroy(small);
    rlx_buffer_destroy(other);
    rlx_buffer_destroy(b);
    rlx_session_destroy(s);
}

/* ---- Weights of another session ------------------------------------------------------------- */

static rlx_session *borrow(rlx_graph *g, rlx_session *from)
{
    rlx_session *s = NULL;
    const rlx_session_desc d = {RLX_INIT(rlx_session_desc), .weights_of = from};
    CHECK_OK(rlx_session_create(device, g, &d, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

/* Another graph with the same weight, or one of another type; the lender is destroyed first. */
static void test_weights_of(void)
{
    static float w[N * N], x[ROWS * N], want[ROWS * N], z[ROWS * N];
    rlx_session *lender = new_session(make_layer(RLX_F32), NULL, 0);
    rlx_session *alone = new_session(make_rest(RLX_F32), NULL, 0);
    rlx_session *early = borrow(make_rest(RLX_F32), lender); /* it has none yet */
    fill(w, N * N, 1);
    fill(x, ROWS * N, 2);
    CHECK(!rlx_session_has_param(lender, "w") && !rlx_session_has_param(early, "w"));
    CHECK_OK(rlx_session_set_param(lender, "w", w, sizeof w, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_set_param(alone, "w", w, sizeof w, RLX_COPY, &err), &err);
    CHECK(rlx_session_has_param(lender, "w") && !rlx_session_has_param(early, "w"));
    rlx_session *other = borrow(make_rest(RLX_F32), lender), *clone = NULL;
    rlx_session *f16 = borrow(make_rest(RLX_F16), lender);
    CHECK(rlx_session_has_param(other, "w") && !rlx_session_has_param(f16, "w"));
    CHECK(!rlx_session_has_param(other, "v"));
    CHECK(rlx_session_set_param(lender, "w", w, sizeof w, RLX_COPY, &err) == RLX_INVALID);
    CHECK(rlx_session_set_param(other, "w", w, sizeof w, RLX_COPY, &err) == RLX_INVALID);
    CHECK(strstr(err.text, "weights_of") != NULL);
    CHECK_OK(rlx_session_clone(other, &clone, &err), &err);
    const rlx_const_tensor in = {"h", x, sizeof x}, first = {"x", x, sizeof x};
    CHECK_OK(rlx_run(alone, &in, 1, &(rlx_tensor){"z", want, sizeof want}, 1, &err), &err);
    CHECK_OK(rlx_run(lender, &first, 1, NULL, 0, &err), &err);
    rlx_session *const list[] = {other, clone};
    for (size_t i = 0; i < 2; i++) {
        if (i)
            rlx_session_destroy(lender);
        memset(z, 0xff, sizeof z);
        CHECK_OK(rlx_run(list[i], &in, 1, &(rlx_tensor){"z", z, sizeof z}, 1, &err), &err);
        CHECK(is_null || !memcmp(z, want, sizeof z));
    }
    CHECK(rlx_run(f16, &in, 1, NULL, 0, &err) == RLX_INVALID);
    rlx_session_destroy(alone);
    rlx_session_destroy(early);
    rlx_session_destroy(other);
    rlx_session_destroy(clone);
    rlx_session_destroy(f16);
}

/* ---- Threads -------------------------------------------------------------------------------- */

static rlx_buffer *common;

/* Sessions of all threads have one weight, which each changes in turn: each run sees one whole. */
static void *run_thread(void *user)
{
    float w[N * N], x[ROWS * N], y[ROWS * N];
    rlx_graph *g = make_layer(RLX_F32);
    rlx_session *s = NULL;
    const rlx_session_desc d = {RLX_INIT(rlx_session_desc), .n_buffers = 1,
                                .buffers = &(rlx_binding){RLX_LEAF_PARAM, "w", common}};
    expect(rlx_session_create(device, g, &d, &s, NULL) == RLX_OK);
    rlx_graph_destroy(g);
    for (int i = 0; i < ROWS * N; i++)
        x[i] = 1;
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(intptr_t)user;
    rlx_const_tensor in = {"x", x, sizeof x};
    rlx_tensor out = {"y", y, sizeof y};
    for (int turn = 0; turn < TURNS; turn++) {
        expect(rlx_buffer_write(common, 0, w, sizeof w, NULL) == RLX_OK);
        if (turn % 3 == 0)
            expect(rlx_session_submit(s, NULL, NULL) == (turn ? RLX_OK : RLX_INVALID));
        expect(rlx_run(s, &in, 1, &out, 1, NULL) == RLX_OK);
        for (int i = 1; i < ROWS * N; i++)
            expect(y[i] == y[0]);
    }
    rlx_session_destroy(s);
    return NULL;
}

static void test_threads(void)
{
    common = new_buffer(RLX_F32, 2, N, N);
    run_threads(4, run_thread);
    rlx_buffer_destroy(common);
}

static void test_device(const char *name)
{
    is_null = !strcmp(name, "null");
    test_bad_buffers();
    test_bad_bindings();
    test_pass();
    test_weights_of();
    test_order();
    test_parts();
    test_weight(RLX_F32);
    test_weight(RLX_F16);
    test_written_weight();
    test_state();
    test_map();
    test_threads();
}

int main(void)
{
    const char *named = getenv("RLX_TEST_DEVICE");
    const char *const all[] = {"cpu", "ref", "null"};
    choose_library();
    for (size_t i = 0; i < (named ? 1 : sizeof all / sizeof *all); i++) {
        const char *name = named ? named : all[i];
        if (rlx_device_open(name, NULL, &device, &err) != RLX_OK) {
            printf("skipped: %s\n", err.text);
            return 77;
        }
        test_device(name);
        rlx_device_close(device);
    }
    return check_done();
}
