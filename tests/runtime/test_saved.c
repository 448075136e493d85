/* SPDX-License-Identifier: MIT */
/* Compiled graphs in files: what is loaded runs as what was saved, damaged files and those of other
 * devices and versions are refused with a sentence. On cpu, ref and null, or on RLX_TEST_DEVICE. */
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "runtime/saved.h"
#include "support/temp_file.h"
#include "webgpu/library.h"

enum { N = 32, ROWS = 6 };

static rlx_device *device;
static rlx_error err;
static char path[1024], other[1024];

/* A bit of everything: a named dimension, an expression, constants, a region, a state, views. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("saved");
    rlx_dim rows = rlx_dim_named(g, "rows", ROWS);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){rows, N});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){N, N});
    rlx_value sum = rlx_state(g, "sum", RLX_F32, 1, (rlx_dim[]){1});
    rlx_value y = rlx_gelu(g, rlx_add(g, rlx_matmul(g, x, w), rlx_scalar(g, RLX_F32, 0.125)));
    y = rlx_named(g, rlx_mul(g, y, rlx_sigmoid(g, x)), "gated");
    rlx_value total = rlx_reshape(g, rlx_reduce(g, RLX_REDUCE_SUM, y, NULL, 0, false), 1,
                                  (rlx_dim[]){1});
    rlx_value next = rlx_state_write(g, sum, rlx_add(g, sum, total), rlx_scalar(g, RLX_I32, 0), 0);
    rlx_output(g, "y", rlx_softmax(g, y, -1));
    rlx_output(g, "t", rlx_transpose(g, y, NULL));
    rlx_output(g, "sum", next);
    return g;
}

static rlx_session *create(bool savable)
{
    rlx_graph *g = make_graph();
    rlx_session *s = NULL;
    const rlx_session_desc d = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST,
                                .savable = savable};
    CHECK_OK(rlx_session_create(device, g, &d, &s, &err), &err);
    rlx_graph_destroy(g);
    return s;
}

typedef struct results {
    float y[ROWS * N], t[ROWS * N], sum;
} results;

static results run(rlx_session *s, int64_t rows)
{
    static float w[N * N], x[ROWS * N];
    results r = {0};
    for (int i = 0; i < N * N; i++)
        w[i] = (float)(i % 13 - 6) / 16;
    for (int i = 0; i < ROWS * N; i++)
        x[i] = (float)(i % 7 - 3) / 4;
    const size_t bytes = (size_t)rows * N * sizeof *x;
    CHECK_OK(rlx_session_set_param(s, "w", w, sizeof w, RLX_COPY, &err), &err);
    CHECK_OK(rlx_session_bind(s, "rows", rows, &err), &err);
    CHECK_OK(rlx_run(s, &(rlx_const_tensor){"x", x, bytes}, 1,
                     (rlx_tensor[]){{"y", r.y, bytes}, {"t", r.t, bytes}, {"sum", &r.sum, 4}}, 3,
                     &err), &err);
    return r;
}

static void check_same(rlx_session *a, rlx_session *b)
{
    CHECK(rlx_session_n_steps(a) == rlx_session_n_steps(b));
    for (size_t i = 0; i < rlx_session_n_steps(a); i++) {
        rlx_step_info x = {RLX_INIT(rlx_step_info)}, y = {RLX_INIT(rlx_step_info)};
        CHECK_OK(rlx_session_step(a, i, &x, &err), &err);
        CHECK_OK(rlx_session_step(b, i, &y, &err), &err);
        CHECK(!strcmp(x.op, y.op) && !strcmp(x.node, y.node) && !strcmp(x.shapes, y.shapes) &&
              x.offset == y.offset && x.size == y.size && x.last_use == y.last_use &&
              x.support == y.support && x.flops == y.flops);
    }
    for (int64_t rows = ROWS; rows > 0; rows -= 2) { /* the state goes on */
        const results want = run(a, rows), got = run(b, rows);
        CHECK(!memcmp(&want, &got, sizeof got));
    }
}

/* ---- Good files ----------------------------------------------------------------------------- */

static void test_load(void)
{
    rlx_session *s = create(true), *loaded = NULL, *again = NULL;
    rlx_buffer *y = NULL;
    rlx_graph *g = NULL;
    CHECK_OK(rlx_session_prepare(s, &err), &err);
    CHECK_OK(rlx_session_save(s, path, &err), &err);
    CHECK_OK(rlx_session_save(s, path, &err), &err); /* over its like */
    CHECK_OK(rlx_session_load(device, path, NULL, &loaded, &err), &err);
    check_same(s, loaded);
    CHECK_FAILS(rlx_session_save(loaded, other, &err), RLX_INVALID, &err, "savable");

    const rlx_buffer_desc d = {RLX_INIT(rlx_buffer_desc), .bytes = ROWS * N * sizeof(float)};
    CHECK_OK(rlx_buffer_create(device, &d, &y, &err), &err);
    const rlx_session_desc with = {RLX_INIT(rlx_session_desc), .savable = true, .n_buffers = 1,
                                   .buffers = &(rlx_binding){RLX_LEAF_OUTPUT, "y", y}};
    CHECK_OK(rlx_session_load(device, path, &with, &again, &err), &err);
    CHECK_OK(rlx_session_set_buffer(again, RLX_LEAF_OUTPUT, "y", NULL, &err), &err);
    CHECK_OK(rlx_session_save(again, other, &err), &err); /* as good as the first */
    rlx_session_destroy(loaded);
    rlx_session_destroy(again);
    CHECK_OK(rlx_session_load(device, other, NULL, &loaded, &err), &err);
    rlx_session_destroy(s);
    s = create(false);
    check_same(s, loaded);

    rlx_leaf_info leaf;
    CHECK_OK(rlx_graph_load(path, &g, &err), &err);
    CHECK(rlx_graph_leaf(g, RLX_LEAF_OUTPUT, 1, &leaf) && !strcmp(leaf.name, "t"));
    rlx_graph_destroy(g);
    CHECK_FAILS(rlx_session_save(s, other, &err), RLX_INVALID, &err, "without "
                "rlx_session_desc.savable");
    const rlx_session_desc fast = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST};
    rlx_session *none = s;
    CHECK_FAILS(rlx_session_load(device, path, &fast, &none, &err), RLX_INVALID, &err,
                "as the graph was compiled");
    CHECK(!none);
    rlx_session_destroy(loaded);
    rlx_session_destroy(s);
    rlx_buffer_destroy(y);
}

/* ---- Other files ---------------------------------------------------------------------------- */

static unsigned char *read_file(const char *from, size_t *n)
{
    rx_file f;
    unsigned char *data = NULL;
    *n = 0;
    if (!CHECK_OK(rx_file_open(from, &f, &err), &err))
        return NULL;
    data = malloc(f.bytes + 1);
    memcpy(data, f.data, f.bytes);
    *n = f.bytes;
    rx_file_close(&f);
    return data;
}

static rlx_status load_bytes(const void *data, size_t n)
{
    rlx_session *s = NULL;
    write_bytes(other, data, n);
    rlx_status st = rlx_session_load(device, other, NULL, &s, &err);
    CHECK((st == RLX_OK) == (s != NULL));
    rlx_session_destroy(s);
    return st;
}

static bool is_refused(rlx_status st)
{
    return (st == RLX_INVALID || st == RLX_UNSUPPORTED) && err.text[0];
}

/* No file with a changed byte, and no part of one, is taken. */
static void test_damage(size_t stride)
{
    size_t n;
    unsigned char *data = read_file(path, &n);
    if (!data)
        return;
    const size_t most = n < 4096 ? n : 4096;
    for (size_t i = 0; i < most; i += stride) {
        data[i] ^= (unsigned char)(1u << i % 8);
        if (!CHECK(is_refused(load_bytes(data, n))))
            printf("    byte %zu\n", i);
        data[i] ^= (unsigned char)(1u << i % 8);
    }
    for (size_t i = 0; i < most; i += i < 16 ? 1 : 37)
        CHECK(is_refused(load_bytes(data, i)));
    data[n] = 0;
    CHECK(is_refused(load_bytes(data, n + 1)));
    CHECK(load_bytes(data, n) == RLX_OK);
    free(data);
    CHECK_FAILS(rlx_session_load(device, "no-such-folder/file", NULL, &(rlx_session *){NULL}, &err),
                RLX_IO, &err, "no-such-folder/file");
}

/* A whole file with another header. */
static rlx_status load_as(void change(rx_saved *s))
{
    rx_saved s;
    size_t n;
    unsigned char *data = read_file(path, &n);
    if (!data || !CHECK_OK(rx_saved_read(data, n, &s, &err), &err))
        return RLX_INTERNAL;
    change(&s);
    s.header.digest = rx_saved_digest(&s);
    memcpy(data, &s.header, sizeof s.header);
    rlx_status st = load_bytes(data, n);
    free(data);
    return st;
}

static void nothing(rx_saved *s) { (void)s; }
static void other_format(rx_saved *s) { s->header.format++; }
static void other_version(rx_saved *s) { memcpy(s->header.version, "9.8.7", 6); }
static void other_backend(rx_saved *s) { memcpy(s->header.backend, "magic", 6); }
static void other_driver(rx_saved *s) { memcpy(s->header.driver, "of old", 7); }
static void other_kernels(rx_saved *s) { s->header.kernels++; }
static void other_policy(rx_saved *s) { s->header.policy = 3; }
static void endless(rx_saved *s) { memset(s->header.name, 'x', sizeof s->header.name); }

static void test_others(void)
{
    CHECK(load_as(nothing) == RLX_OK);
    CHECK_FAILS(load_as(other_format), RLX_UNSUPPORTED, &err, "in format 2; this version of rlx");
    CHECK_FAILS(load_as(other_version), RLX_UNSUPPORTED, &err, "compiled by rlx 9.8.7");
    CHECK_FAILS(load_as(other_backend), RLX_UNSUPPORTED, &err, "compiled for device magic");
    CHECK_FAILS(load_as(other_driver), RLX_UNSUPPORTED, &err, "(of old)");
    CHECK_FAILS(load_as(other_kernels), RLX_UNSUPPORTED, &err, "other kernels");
    CHECK_FAILS(load_as(other_policy), RLX_INVALID, &err, "damaged");
    CHECK_FAILS(load_as(endless), RLX_INVALID, &err, "damaged");
    rlx_session *s = create(true);
    write_bytes(other, "a letter", 8);
    CHECK_FAILS(rlx_session_save(s, other, &err), RLX_INVALID, &err, "a text file");
    rlx_session_destroy(s);
}

int main(void)
{
    const char *named = getenv("RLX_TEST_DEVICE");
    const char *const all[] = {"cpu", "ref", "null"};
    snprintf(path, sizeof path, "%s/first.rlxc", temp_folder());
    snprintf(other, sizeof other, "%s/other.rlxc", temp_folder());
    choose_library();
    for (size_t i = 0; i < (named ? 1 : sizeof all / sizeof *all); i++) {
        if (rlx_device_open(named ? named : all[i], NULL, &device, &err) != RLX_OK) {
            printf("skipped: %s\n", err.text);
            return 77;
        }
        if (i)
            CHECK_FAILS(rlx_session_load(device, path, NULL, &(rlx_session *){NULL}, &err),
                        RLX_UNSUPPORTED, &err, "compiled for device");
        test_load();
        test_damage(i || named ? 11 : 1);
        test_others();
        write_bytes(other, "", 0);
        rlx_device_close(device);
    }
    return check_done();
}
