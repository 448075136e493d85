/* SPDX-License-Identifier: MIT */
/* ONNX models: structure, tensors in all their forms, external data, functions, values that decide
 * shapes, branches, damaged files with the sentence of each, changed files that must not crash. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/little.h"
#include "check.h"
#include "import/onnx.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/onnx_model.h"

static rlx_error err;
static char folder[] = "test_onnx_XXXXXX";
static const int64_t shape23[] = {2, 3, -1}, row3[] = {3, -1}, two[] = {2, -1};

/* ---- Running --------------------------------------------------------------------------------- */

static void run(rlx_onnx *m, const rlx_import_desc *d, const rlx_const_tensor *in, size_t n_in,
                const rlx_tensor *out)
{
    rlx_graph *g = NULL;
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_const_tensor p;
    if (CHECK_OK(rlx_graph_import(m, d, &g, &err), &err) &&
        CHECK_OK(rlx_device_open("ref", NULL, &device, &err), &err) &&
        CHECK_OK(rlx_session_create(device, g, NULL, &s, &err), &err)) {
        for (size_t i = 0; rlx_onnx_param(m, i, &p); i++)
            CHECK_OK(rlx_session_set_param(s, p.name, p.data, p.bytes, RLX_BORROW, &err), &err);
        CHECK_OK(rlx_run(s, in, n_in, out, 1, &err), &err);
    }
    rlx_session_destroy(s);
    rlx_device_close(device);
    rlx_graph_destroy(g);
}

static rlx_onnx *open_blob(blob *b)
{
    rlx_onnx *m = NULL;
    CHECK_OK(rx_onnx_from_memory(b->data, b->n, "test.onnx", &m, &err), &err);
    return m;
}

static void test_small(void)
{
    blob b = onnx_small();
    rlx_onnx *m = open_blob(&b);
    rlx_onnx_info info = {RLX_INIT(rlx_onnx_info)};
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    rlx_onnx_operator op = {RLX_INIT(rlx_onnx_operator)};
    float x[6] = {-2, 0, 1, 3, 30, -1}, y[6] = {0};
    const rlx_const_tensor in = {"x", x, sizeof x};
    const rlx_tensor out = {"y", y, sizeof y};
    CHECK_OK(rlx_onnx_get_info(m, &info, &err), &err);
    CHECK(info.opset == 17 && info.ir_version == 10 && info.n_nodes == 2 && info.n_tensors == 1);
    CHECK(!strcmp(info.producer, "test") && !strcmp(info.graph, "small"));
    CHECK_OK(rlx_onnx_input(m, 0, &p, &err), &err);
    CHECK(!strcmp(p.name, "x") && p.rank == 2 && p.dim[1] == 3);
    CHECK_FAILS(rlx_onnx_input(m, 1, &p, &err), RLX_NOT_FOUND, &err, "has no input 1; it has 1");
    CHECK_OK(rlx_onnx_output(m, 0, &p, &err), &err);
    CHECK(p.dtype == RLX_F32);
    CHECK_OK(rlx_onnx_operator_at(m, 0, &op, &err), &err);
    CHECK(!strcmp(op.name, "Add") && op.supported && !strcmp(op.domain, "ai.onnx"));
    CHECK(op.n_nodes == 1);
    CHECK_FAILS(rlx_onnx_operator_at(m, 2, &op, &err), RLX_NOT_FOUND, &err, "no operator 2");
    run(m, NULL, &in, 1, &out);
    CHECK(y[0] == 0 && y[1] == 0 && y[2] == 1.5f && y[3] == 4 && y[4] == 10 && y[5] == 0);
    rlx_onnx_close(m);
    blob_free(&b);
}

static void test_metadata(void)
{
    blob b = onnx_small(), note = {0};
    pb_text(&note, 1, "labels");
    pb_text(&note, 2, "cat\ndog");
    pb_message(&b, 14, &note);
    rlx_onnx *m = open_blob(&b);
    const char *labels = rlx_onnx_metadata(m, "labels");
    CHECK(labels && !strcmp(labels, "cat\ndog") && !rlx_onnx_metadata(m, "label"));
    rlx_onnx_close(m);
    blob_free(&b);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A model that gives the tensor, with Identity. */
static blob model_of_tensor(blob *tensor, int type, const int64_t *dims)
{
    blob g = {0}, node = onnx_node("Identity", "w", "y"), y = onnx_port("y", type, dims);
    pb_message(&g, 1, &node);
    pb_text(&g, 2, "tensor");
    pb_message(&g, 5, tensor);
    pb_message(&g, 12, &y);
    return onnx_model(&g, 17);
}

static void check_tensor(blob *tensor, int type, const int64_t *dims, const void *want, size_t n)
{
    unsigned char got[64] = {0};
    const rlx_tensor out = {"y", got, n};
    blob b = model_of_tensor(tensor, type, dims);
    rlx_onnx *m = open_blob(&b);
    run(m, NULL, NULL, 0, &out);
    CHECK(!memcmp(got, want, n));
    rlx_onnx_close(m);
    blob_free(&b);
}

static void test_typed(void)
{
    static const float f[3] = {1.5f, -2, 3};
    static const int64_t i64[3] = {-1, 1LL << 40, 7};
    static const int32_t i32[3] = {-5, 6, 7};
    static const unsigned char truth[3] = {1, 0, 1};
    char little[sizeof f];
    rx_little_copy(RLX_F32, f, little, sizeof f);
    blob t = onnx_tensor("w", 1, row3, f, sizeof f), list = {0};
    check_tensor(&t, 1, row3, f, sizeof f);
    t = onnx_tensor("w", 1, row3, NULL, 0);
    pb_bytes(&t, 4, little, sizeof f);
    check_tensor(&t, 1, row3, f, sizeof f);
    t = onnx_tensor("w", 7, row3, NULL, 0);
    for (int i = 0; i < 3; i++)
        pb_int(&t, 7, (uint64_t)i64[i]); /* not packed */
    check_tensor(&t, 7, row3, i64, sizeof i64);
    t = onnx_tensor("w", 6, row3, NULL, 0);
    for (int i = 0; i < 3; i++)
        pb_int(&t, 5, (uint64_t)(int64_t)i32[i]);
    check_tensor(&t, 6, row3, i32, sizeof i32);
    blob_add(&list, truth, 3); /* varints of one byte each, packed */
    t = onnx_tensor("w", 9, row3, NULL, 0);
    pb_message(&t, 5, &list);
    check_tensor(&t, 9, row3, truth, sizeof truth);
}

/* Elements of few bits are held one a byte: integers as they are, floats as codes. */
static void test_few_bits(void)
{
    static const unsigned char nibbles[2] = {0x8f, 0x07};
    static const signed char i4[3] = {-1, -8, 7};
    static const unsigned char u4[3] = {15, 8, 7}, crumbs[1] = {0x1b}, u2[3] = {3, 2, 1};
    static const signed char i2[3] = {-1, -2, 1};
    blob t = onnx_tensor("w", 22, row3, nibbles, 2);
    check_tensor(&t, 22, row3, i4, 3);
    t = onnx_tensor("w", 21, row3, nibbles, 2);
    check_tensor(&t, 21, row3, u4, 3);
    t = onnx_tensor("w", 21, row3, NULL, 0);
    pb_int(&t, 5, 0x8f);
    pb_int(&t, 5, 0x07);
    check_tensor(&t, 21, row3, u4, 3);
    t = onnx_tensor("w", 25, row3, crumbs, 1);
    check_tensor(&t, 25, row3, u2, 3);
    t = onnx_tensor("w", 26, row3, crumbs, 1);
    check_tensor(&t, 26, row3, i2, 3);
    t = onnx_tensor("w", 17, row3, u4, 3);
    check_tensor(&t, 17, row3, u4, 3);
}

/* Casts x [3], given as raw f32, to `type` and the result to f32 again. */
static void cast_and_back(int type, const float *x, const float *want)
{
    float y[3] = {0};
    blob g = {0}, to = onnx_node("Cast", "x", "q"), back = onnx_node("Cast", "q", "y");
    blob in = onnx_port("x", 1, row3), result = onnx_port("y", 1, row3);
    onnx_attr_int(&to, "to", type);
    onnx_attr_int(&back, "to", 1);
    pb_message(&g, 1, &to);
    pb_message(&g, 1, &back);
    pb_text(&g, 2, "cast");
    pb_message(&g, 11, &in);
    pb_message(&g, 12, &result);
    blob b = onnx_model(&g, 21);
    rlx_onnx *m = open_blob(&b);
    const rlx_const_tensor given = {"x", x, 3 * sizeof *x};
    const rlx_tensor out = {"y", y, sizeof y};
    run(m, NULL, &given, 1, &out);
    for (int i = 0; i < 3; i++)
        if (!CHECK(y[i] == want[i]))
            printf("type %d, element %d: %g, expected %g\n", type, i, (double)y[i],
                   (double)want[i]);
    rlx_onnx_close(m);
    blob_free(&b);
}

static void test_narrow_casts(void)
{
    /* Ties go to even; beyond the largest number the result is that number. */
    cast_and_back(17, (float[]){1.0625f, -1000, 0x1p-10f}, (float[]){1, -448, 0});
    cast_and_back(17, (float[]){1.1875f, 0x1.8p-9f, 447}, (float[]){1.25f, 0x1p-8f, 448});
    cast_and_back(19, (float[]){1.125f, -1e9f, 0x1p-16f}, (float[]){1, -57344, 0x1p-16f});
    cast_and_back(18, (float[]){300, -0.3f, 0x1p-10f}, (float[]){240, -0.3125f, 0x1p-10f});
    cast_and_back(23, (float[]){2.5f, -5.1f, 0.25f}, (float[]){2, -6, 0});
    cast_and_back(22, (float[]){7, -8, 1.9f}, (float[]){7, -8, 1});
    cast_and_back(25, (float[]){3, 0, 2}, (float[]){3, 0, 2});
}

static rlx_status build_tensor(blob *tensor)
{
    blob b = model_of_tensor(tensor, 1, row3);
    const rlx_status st = onnx_build_bytes(b.data, b.n, &err);
    blob_free(&b);
    return st;
}

static void test_bad_tensors(void)
{
    static const float f[4] = {0};
    blob t = onnx_tensor("w", 1, row3, f, 8);
    CHECK_FAILS(build_tensor(&t), RLX_PARSE, &err, "has 8 bytes of data; expected 12");
    t = onnx_tensor("w", 1, row3, NULL, 0);
    pb_bytes(&t, 4, f, 16);
    CHECK_FAILS(build_tensor(&t), RLX_PARSE, &err, "expected 3, by its shape");
    t = onnx_tensor("w", 99, row3, f, 12);
    CHECK_FAILS(build_tensor(&t), RLX_PARSE, &err, "element type 99");
    t = onnx_tensor("w", 8, row3, f, 12);
    CHECK_FAILS(build_tensor(&t), RLX_UNSUPPORTED, &err, "ONNX's type string");
    t = onnx_tensor("w", 1, (const int64_t[]){INT64_MAX, INT64_MAX, -1}, f, 12);
    CHECK_FAILS(build_tensor(&t), RLX_PARSE, &err, "too many elements");
    t = onnx_tensor("w", 7, (const int64_t[]){1LL << 40, -1}, NULL, 0);
    pb_int(&t, 7, 1);
    CHECK_FAILS(build_tensor(&t), RLX_PARSE, &err, "elements in");
    t = onnx_tensor("w", 1, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1, -1}, f, 4);
    CHECK_FAILS(build_tensor(&t), RLX_UNSUPPORTED, &err, "more than 8 dimensions");
}

/* ---- External data --------------------------------------------------------------------------- */

static void put_entry(blob *tensor, const char *key, const char *value)
{
    blob e = {0};
    pb_text(&e, 1, key);
    pb_text(&e, 2, value);
    pb_message(tensor, 13, &e);
}

/* Writes FOLDER/m.onnx with a tensor in `location` and builds it. */
static rlx_status build_external(const char *location, const char *offset, const char *length)
{
    char path[96];
    blob t = onnx_tensor("w", 1, row3, NULL, 0);
    rlx_onnx *m = NULL;
    rlx_graph *g = NULL;
    put_entry(&t, "location", location);
    put_entry(&t, "offset", offset);
    put_entry(&t, "length", length);
    pb_int(&t, 14, 1);
    blob b = model_of_tensor(&t, 1, row3);
    snprintf(path, sizeof path, "%s/m.onnx", folder);
    CHECK(blob_write(&b, path));
    rlx_status st = rlx_onnx_open(path, &m, &err);
    if (st == RLX_OK)
        st = rlx_graph_import(m, NULL, &g, &err);
    rlx_graph_destroy(g);
    rlx_onnx_close(m);
    unlink(path);
    blob_free(&b);
    return st;
}

static void test_external(void)
{
    char data[96], link[96], outside[] = "test_onnx_outside_XXXXXX";
    const float f[4] = {0, 1, 2, 3};
    blob b = {0};
    blob_add(&b, f, sizeof f);
    snprintf(data, sizeof data, "%s/w.bin", folder);
    snprintf(link, sizeof link, "%s/link.bin", folder);
    CHECK(blob_write(&b, data) && mkdtemp(outside));
    char secret[96], target[160], *here = realpath(".", NULL);
    snprintf(secret, sizeof secret, "%s/s.bin", outside);
    CHECK(blob_write(&b, secret) && here);
    snprintf(target, sizeof target, "../%s", secret);
    CHECK(!symlink(target, link));
    CHECK_OK(build_external("w.bin", "4", "12"), &err);
    CHECK_FAILS(build_external("w.bin", "8", "12"), RLX_PARSE, &err, "expected both within its 16");
    CHECK_FAILS(build_external("w.bin", "x", "12"), RLX_PARSE, &err, "is no number");
    CHECK_FAILS(build_external("w.bin", "0", "16"), RLX_PARSE, &err, "expected 12");
    CHECK_FAILS(build_external("../w.bin", "0", "12"), RLX_INVALID, &err, "beneath the folder");
    CHECK_FAILS(build_external("a/../../w.bin", "0", "12"), RLX_INVALID, &err, "beneath");
    CHECK_FAILS(build_external("/etc/passwd", "0", "12"), RLX_INVALID, &err, "beneath the folder");
    CHECK_FAILS(build_external("link.bin", "0", "12"), RLX_INVALID, &err, "a link that leaves");
    CHECK_FAILS(build_external("none.bin", "0", "12"), RLX_IO, &err, "none.bin");
    unlink(link);
    unlink(data);
    unlink(secret);
    rmdir(outside);
    free(here);
    blob_free(&b);
}

/* ---- Values that decide shapes --------------------------------------------------------------- */

static void test_known_values(void)
{
    blob g = {0}, node = onnx_node("Reshape", "x shape", "y");
    blob x = onnx_port("x", 1, shape23), s = onnx_port("shape", 7, two), y = onnx_port("y", 1,
                                                                                      shape23);
    pb_message(&g, 1, &node);
    pb_text(&g, 2, "shapes");
    pb_message(&g, 11, &x);
    pb_message(&g, 11, &s);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, 17);
    rlx_onnx *m = open_blob(&b);
    rlx_graph *graph = NULL;
    const int64_t to[2] = {3, -1};
    const rlx_import_value v = {"shape", RLX_I64, {1, {2}}, to};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .values = &v, .n_values = 1};
    rlx_leaf_info leaf;
    CHECK_FAILS(rlx_graph_import(m, NULL, &graph, &err), RLX_UNSUPPORTED, &err,
                "its shape must be known");
    if (CHECK_OK(rlx_graph_import(m, &d, &graph, &err), &err)) {
        CHECK(rlx_graph_leaf(graph, RLX_LEAF_OUTPUT, 0, &leaf) && leaf.shape.dim[0] == 3);
        CHECK(rlx_graph_leaf(graph, RLX_LEAF_INPUT, 1, &leaf) && !strcmp(leaf.name, "shape"));
        rlx_graph_destroy(graph);
    }
    rlx_onnx_close(m);
    blob_free(&b);
}

/* What a size in a file makes the importer compute is bounded. */
static void test_large_resize(void)
{
    const int64_t to[2] = {2, (1 << 20) + 1};
    blob g = {0}, node = onnx_node("Resize", "x sizes sizes sizes", "y"), mode = {0};
    blob x = onnx_port("x", 1, shape23), s = onnx_port("sizes", 7, two);
    blob y = onnx_port("y", 1, shape23);
    pb_text(&mode, 1, "coordinate_transformation_mode");
    pb_text(&mode, 4, "tf_half_pixel_for_nn");
    pb_int(&mode, 20, 3);
    pb_message(&node, 5, &mode);
    pb_message(&g, 1, &node);
    pb_text(&g, 2, "resize");
    pb_message(&g, 11, &x);
    pb_message(&g, 11, &s);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, 17);
    rlx_onnx *m = open_blob(&b);
    rlx_graph *graph = NULL;
    const rlx_import_value v = {"sizes", RLX_I64, {1, {2}}, to};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .values = &v, .n_values = 1};
    CHECK_FAILS(rlx_graph_import(m, &d, &graph, &err), RLX_UNSUPPORTED, &err,
                "axis 1 of size 3 becomes 1048577; expected 1 to 1048576");
    rlx_onnx_close(m);
    blob_free(&b);
}

/* Shape, Gather and Concat of a fixed shape decide a reshape; a named dimension is given a size. */
static void test_shape_code(void)
{
    static const int64_t named[] = {-2, 3, -1}, first = 0, rest = -1;
    blob g = {0}, nodes[4] = {onnx_node("Shape", "x", "s"), onnx_node("Gather", "s zero", "n"),
                              onnx_node("Concat", "n minus", "to"),
                              onnx_node("Reshape", "x to", "y")};
    blob zero = onnx_tensor("zero", 7, (const int64_t[]){1, -1}, &first, 8);
    blob minus = onnx_tensor("minus", 7, (const int64_t[]){1, -1}, &rest, 8);
    blob x = onnx_port("x", 1, named), y = onnx_port("y", 1, named);
    onnx_attr_int(&nodes[2], "axis", 0);
    for (int i = 0; i < 4; i++)
        pb_message(&g, 1, &nodes[i]);
    pb_text(&g, 2, "shape code");
    pb_message(&g, 5, &zero);
    pb_message(&g, 5, &minus);
    pb_message(&g, 11, &x);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, 17);
    rlx_onnx *m = open_blob(&b);
    rlx_graph *graph = NULL;
    const rlx_import_dim n = {"n", 5};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .dims = &n, .n_dims = 1};
    rlx_leaf_info leaf;
    if (CHECK_OK(rlx_graph_import(m, &d, &graph, &err), &err)) {
        CHECK(rlx_graph_leaf(graph, RLX_LEAF_OUTPUT, 0, &leaf) && leaf.shape.rank == 2);
        CHECK(leaf.shape.dim[0] == 5 && leaf.shape.dim[1] == 3);
        rlx_graph_destroy(graph);
    }
    rlx_onnx_close(m);
    blob_free(&b);
}

/* ---- Functions ------------------------------------------------------------------------------- */

/* f(a; k) = Concat(a, a; axis = k), called with k = 1. */
/* A batch norm after a convolution is part of its weights: one node computes both. */
static void test_conv_norm(void)
{
    static const int64_t kernel[] = {2, 1, 1, 2, -1}, image[] = {1, 1, 2, 3, -1};
    static const int64_t result[] = {1, 2, 2, 2, -1};
    static const float w[4] = {1, 2, -1, 3}, gamma[2] = {2, 0.5f}, beta[2] = {1, -1};
    static const float mean[2] = {3, -2}, var[2] = {4, 0.25f}, x[6] = {1, 2, 3, 4, 5, 6};
    static const char *const names[4] = {"gamma", "beta", "mean", "var"};
    static const float *const data[4] = {gamma, beta, mean, var};
    float y[8] = {0};
    blob g = {0}, conv = onnx_node("Conv", "x w", "t"), in = onnx_port("x", 1, image);
    blob norm = onnx_node("BatchNormalization", "t gamma beta mean var", "y");
    blob t = onnx_tensor("w", 1, kernel, w, sizeof w), out = onnx_port("y", 1, result);
    pb_message(&g, 1, &conv);
    pb_message(&g, 1, &norm);
    pb_text(&g, 2, "conv");
    pb_message(&g, 5, &t);
    for (int i = 0; i < 4; i++) {
        t = onnx_tensor(names[i], 1, two, data[i], 8);
        pb_message(&g, 5, &t);
    }
    pb_message(&g, 11, &in);
    pb_message(&g, 12, &out);
    blob b = onnx_model(&g, 17);
    rlx_onnx *m = open_blob(&b);
    rlx_graph *graph = NULL;
    size_t n_norms = 0;
    rlx_node_info node = {RLX_INIT(rlx_node_info)};
    CHECK_OK(rlx_graph_import(m, NULL, &graph, &err), &err);
    for (size_t i = 0; rlx_graph_node(graph, i, &node, NULL) == RLX_OK; i++)
        n_norms += !strcmp(node.op, "batch_norm_inference");
    CHECK(n_norms == 0);
    rlx_graph_destroy(graph);
    const rlx_const_tensor given = {"x", x, sizeof x};
    const rlx_tensor to = {"y", y, sizeof y};
    run(m, NULL, &given, 1, &to);
    for (int i = 0; i < 8; i++) {
        const int o = i / 4, at = i / 2 % 2 * 3 + i % 2;
        const float sum = x[at] * w[2 * o] + x[at + 1] * w[2 * o + 1];
        const float want = (sum - mean[o]) / sqrtf(var[o] + 1e-5f) * gamma[o] + beta[o];
        CHECK(fabsf(y[i] - want) < 1e-4f);
    }
    rlx_onnx_close(m);
    blob_free(&b);
}

/* ---- Sizes, branches and loops that come from data ------------------------------------------- */

static const int64_t scalar[] = {-1};

static void add_graph_attr(blob *node, const char *name, blob *graph)
{
    blob a = {0};
    pb_text(&a, 1, name);
    pb_int(&a, 20, 5);
    pb_message(&a, 6, graph);
    pb_message(node, 5, &a);
}

/* The model with nodes of `g`, input x f32 [2, 3] and output y of a type, run with x as an input
 * that the graph may be built by; without it the model is refused. `keeps`: results of what runs
 * while importing are kept where the graph is for this input only. */
static void run_by_data(blob *g, int type, const int64_t *dims, const float *x, void *y, size_t n,
                        bool keeps)
{
    rlx_device *device = NULL;
    rlx_const_tensor p;
    blob in = onnx_port("x", 1, shape23), result = onnx_port("y", type, dims);
    pb_text(g, 2, "data");
    pb_message(g, 11, &in);
    pb_message(g, 12, &result);
    blob b = onnx_model(g, 17);
    rlx_onnx *m = open_blob(&b);
    CHECK_OK(rlx_device_open("ref", NULL, &device, &err), &err);
    const rlx_import_value given = {"x", RLX_F32, {2, {2, 3}}, x};
    const rlx_import_desc d = {RLX_INIT(rlx_import_desc), .device = device, .inputs = &given,
                               .n_inputs = 1};
    const rlx_const_tensor input = {"x", x, 6 * sizeof *x};
    const rlx_tensor out = {"y", y, n};
    run(m, &d, &input, 1, &out);
    rlx_import_desc once = d; /* the same, and what was run is a param, which the graph outlives */
    once.once = true;
    memset(y, 0x55, n);
    run(m, &once, &input, 1, &out);
    CHECK(rlx_onnx_param(m, 0, &p) == keeps);
    rlx_graph *without = NULL;
    CHECK(rlx_graph_import(m, NULL, &without, &err) == RLX_UNSUPPORTED && !without);
    rlx_device_close(device);
    rlx_onnx_close(m);
    blob_free(&b);
}

static void test_sizes_from_data(void)
{
    static const int64_t places[] = {2, -2, -1};
    static const float few[6] = {0, 5, 0, -1, 0, 0}, all[6] = {1, 2, 3, 4, 5, 6};
    int64_t y[12];
    /* The operand of NonZero is computed, so that the graph must run for it. */
    for (int i = 0; i < 2; i++) {
        blob g = {0}, add = onnx_node("Add", "x x", "t"), node = onnx_node("NonZero", "t", "y");
        pb_message(&g, 1, &add);
        pb_message(&g, 1, &node);
        run_by_data(&g, 7, places, i ? all : few, y, i ? 96 : 32, false);
        CHECK(i ? y[5] == 1 && y[11] == 2 : y[0] == 0 && y[1] == 1 && y[2] == 1 && y[3] == 0);
    }
}

/* Doubles the sum of x while it is below 100: the number of steps comes from data. */
static void test_loop_by_data(void)
{
    static const float hundred = 100, x[6] = {1, 1, 1, 1, 1, 1}, late[6] = {60, 60, 0, 0, 0, 0};
    float y[1] = {0};
    for (int i = 0; i < 2; i++) {
        blob g = {0}, body = {0}, sum = onnx_node("ReduceSum", "x", "s");
        blob below = onnx_node("Less", "s c", "on"), loop = onnx_node("Loop", " on s", "y");
        blob add = onnx_node("Add", "v v", "w"), less = onnx_node("Less", "w c", "more");
        blob limit = onnx_tensor("c", 1, scalar, &hundred, sizeof hundred);
        blob step = onnx_port("i", 7, scalar), cond = onnx_port("on_in", 9, scalar);
        blob v = onnx_port("v", 1, scalar), more = onnx_port("more", 9, scalar);
        blob w = onnx_port("w", 1, scalar);
        onnx_attr_int(&sum, "keepdims", 0);
        pb_message(&body, 1, &add);
        pb_message(&body, 1, &less);
        pb_text(&body, 2, "body");
        pb_message(&body, 11, &step);
        pb_message(&body, 11, &cond);
        pb_message(&body, 11, &v);
        pb_message(&body, 12, &more);
        pb_message(&body, 12, &w);
        add_graph_attr(&loop, "body", &body);
        pb_message(&g, 1, &sum);
        pb_message(&g, 1, &below);
        pb_message(&g, 1, &loop);
        pb_message(&g, 5, &limit);
        run_by_data(&g, 1, scalar, i ? late : x, y, sizeof y, true);
        CHECK(y[0] == (i ? 120 : 192));
    }
}

static void test_function(void)
{
    blob g = {0}, f = {0}, set = {0}, ref = {0}, call = onnx_node("Twice", "x", "y");
    blob body = onnx_node("Concat", "a a", "b"), x = onnx_port("x", 1, shape23);
    blob y = onnx_port("y", 1, shape23);
    pb_text(&call, 7, "own");
    onnx_attr_int(&call, "k", 1);
    pb_text(&ref, 1, "axis");
    pb_int(&ref, 20, 2);
    pb_text(&ref, 21, "k");
    pb_message(&body, 5, &ref);
    pb_message(&g, 1, &call);
    pb_text(&g, 2, "calls");
    pb_message(&g, 11, &x);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, 17);
    pb_text(&f, 1, "Twice");
    pb_text(&f, 4, "a");
    pb_text(&f, 5, "b");
    pb_text(&f, 6, "k");
    pb_message(&f, 7, &body);
    pb_int(&set, 2, 17);
    pb_message(&f, 9, &set);
    pb_text(&f, 10, "own");
    pb_message(&b, 25, &f);
    float in[6] = {1, 2, 3, 4, 5, 6}, out[12] = {0};
    const rlx_const_tensor xs = {"x", in, sizeof in};
    const rlx_tensor ys = {"y", out, sizeof out};
    rlx_onnx *m = open_blob(&b);
    run(m, NULL, &xs, 1, &ys);
    CHECK(out[2] == 3 && out[3] == 1 && out[6] == 4 && out[11] == 6);
    rlx_onnx_close(m);
    blob_free(&b);
}

/* ---- Damaged and unsupported ----------------------------------------------------------------- */

static rlx_status build_node(blob *node, int64_t opset)
{
    blob g = {0}, x = onnx_port("x", 1, shape23), y = onnx_port("y", 1, shape23);
    pb_message(&g, 1, node);
    pb_text(&g, 2, "one");
    pb_message(&g, 11, &x);
    pb_message(&g, 12, &y);
    blob b = onnx_model(&g, opset);
    const rlx_status st = onnx_build_bytes(b.data, b.n, &err);
    blob_free(&b);
    return st;
}

static void test_nodes_that_fail(void)
{
    blob n = onnx_node("Frobnicate", "x", "y");
    pb_text(&n, 7, "com.example");
    CHECK_FAILS(build_node(&n, 17), RLX_UNSUPPORTED, &err,
                "operator 'Frobnicate' of domain com.example, opset 0, is not supported: node 'y' "
                "(1 node of the model uses it)");
    n = onnx_node("Gelu", "x", "y");
    CHECK_FAILS(build_node(&n, 17), RLX_UNSUPPORTED, &err, "opset 17, is not supported");
    n = onnx_node("Relu", "z", "y");
    CHECK_FAILS(build_node(&n, 17), RLX_INVALID, &err, "uses 'z', which no earlier node");
    n = onnx_node("Relu", "x", "x");
    CHECK_FAILS(build_node(&n, 17), RLX_INVALID, &err, "the name 'x' is given twice");
    n = onnx_node("Relu", "x", "z");
    CHECK_FAILS(build_node(&n, 17), RLX_INVALID, &err, "no node gives the output 'y'");
    n = onnx_node("Softmax", "x", "y");
    onnx_attr_int(&n, "axis", 5);
    CHECK_FAILS(build_node(&n, 17), RLX_INVALID, &err, "node 'y' (Softmax, opset 17)");
}

/* A sub-graph in a sub-graph in .. */
static blob nested(int depth)
{
    blob n = onnx_node("If", "x", "y"), a = {0}, g = {0};
    if (depth) {
        blob inner = nested(depth - 1);
        pb_message(&g, 1, &inner);
    }
    pb_text(&g, 2, "inner");
    pb_text(&a, 1, "then_branch");
    pb_int(&a, 20, 5);
    pb_message(&a, 6, &g);
    pb_message(&n, 5, &a);
    return n;
}

static void test_damaged(void)
{
    blob b = onnx_small(), deep = nested(40), shape = onnx_node("Shape", "x", "y");
    onnx_attr_int(&shape, "start", 66); /* past all axes: an empty result */
    CHECK_OK(build_node(&shape, 17), &err);
    CHECK_FAILS(onnx_build_bytes("", 0, &err), RLX_PARSE, &err, "expected a graph, found none");
    CHECK_FAILS(onnx_build_bytes("GGUF....", 8, &err), RLX_PARSE, &err, "no ONNX model");
    CHECK_FAILS(onnx_build_bytes(b.data, b.n - 3, &err), RLX_PARSE, &err, "not as protobuf has it");
    CHECK_FAILS(build_node(&deep, 17), RLX_UNSUPPORTED, &err, "nested more than 32 deep");
    b.data[1] = 99; /* the IR version */
    CHECK_FAILS(onnx_build_bytes(b.data, b.n, &err), RLX_UNSUPPORTED, &err, "IR version 99");
    blob_free(&b);
}

static void test_changed(void)
{
    uint64_t seed = 1;
    size_t good = 0;
    blob b = onnx_small();
    unsigned char *copy = malloc(b.n);
    for (int i = 0; i < 20000 && copy; i++) {
        rlx_error why = {0};
        size_t n = b.n;
        memcpy(copy, b.data, n);
        change_bytes(copy, &n, &seed);
        const rlx_status st = onnx_build_bytes(copy, n, &why);
        good += st == RLX_OK;
        CHECK(st == RLX_OK || why.text[0]);
    }
    printf("%zu of 20000 changed models are still good\n", good);
    CHECK(good > 0 && good < 20000);
    free(copy);
    blob_free(&b);
}

/* The first, second, ... allocation fails until none does. */
static void test_without_memory(void)
{
    blob b = onnx_small();
    rlx_status st = RLX_NO_MEMORY;
    for (long at = 1; at < 1000 && st == RLX_NO_MEMORY; at++) {
        memory_fail(at, false);
        rlx_set_allocator(&counting);
        st = onnx_build_bytes(b.data, b.n, &err);
        rlx_set_allocator(NULL);
        CHECK(!memory_live());
    }
    CHECK(st == RLX_OK);
    blob_free(&b);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    test_small();
    test_metadata();
    test_typed();
    test_few_bits();
    test_narrow_casts();
    test_bad_tensors();
    test_external();
    test_known_values();
    test_large_resize();
    test_shape_code();
    test_conv_norm();
    test_sizes_from_data();
    test_loop_by_data();
    test_function();
    test_nodes_that_fail();
    test_damaged();
    test_changed();
    test_without_memory();
    rmdir(folder);
    return check_done();
}
