/* SPDX-License-Identifier: MIT */
/* Differentiation of graphs: what it refuses, values that do not matter, stop_gradient, second
 * derivatives and forward mode. The rules of operations are checked by optest --grad. */
#include <math.h>

#include "check.h"
#include "rlx/rlx.h"

static rlx_graph *g;
static rlx_value x, y;

static void begin(void)
{
    const rlx_dim three = 3;
    rlx_graph_destroy(g);
    g = rlx_graph_create("g");
    x = rlx_input(g, "x", RLX_F64, 1, &three);
    y = rlx_input(g, "y", RLX_F64, 1, &three);
}

static rlx_value sum(rlx_value v)
{
    return rlx_reduce(g, RLX_REDUCE_SUM, v, NULL, 0, false);
}

/* The outputs a and b of the graph, three numbers each, for x = 1, 2, 3 and y = 5, 7, 11. */
static void run(rlx_value a, rlx_value b, double out[2][3])
{
    static const double in_x[] = {1, 2, 3}, in_y[] = {5, 7, 11};
    const rlx_const_tensor in[] = {{"x", in_x, sizeof in_x}, {"y", in_y, sizeof in_y}};
    const rlx_tensor to[] = {{"a", out[0], sizeof out[0]}, {"b", out[1], sizeof out[1]}};
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    rlx_error err = {0};
    rlx_output(g, "a", a);
    rlx_output(g, "b", b);
    CHECK_OK(rlx_device_open("cpu", NULL, &d, &err), &err);
    CHECK_OK(rlx_session_create(d, g, NULL, &s, &err), &err);
    CHECK_OK(rlx_run(s, in, 2, to, 2, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(d);
    begin();
}

static bool are(const double *v, double a, double b, double c)
{
    return v[0] == a && v[1] == b && v[2] == c;
}

static void test_values(void)
{
    double out[2][3];
    rlx_value d[2], second;
    const rlx_value both[] = {x, y};
    rlx_grad(g, sum(rlx_mul(g, rlx_mul(g, x, x), x)), both, 2, d);
    run(d[0], d[1], out);
    CHECK(are(out[0], 3, 12, 27)); /* 3 x^2 */
    CHECK(are(out[1], 0, 0, 0));   /* y is not in it */

    rlx_grad(g, sum(rlx_mul(g, rlx_mul(g, x, x), y)), &x, 1, d);
    rlx_grad(g, sum(d[0]), &x, 1, &second);
    run(d[0], second, out);
    CHECK(are(out[0], 10, 28, 66)); /* 2 x y */
    CHECK(are(out[1], 10, 14, 22)); /* 2 y */

    /* of a value within the graph */
    const rlx_value inner = rlx_mul(g, x, y);
    rlx_grad(g, sum(rlx_mul(g, inner, x)), &inner, 1, d);
    run(d[0], inner, out);
    CHECK(are(out[0], 1, 2, 3));
}

static void test_stop(void)
{
    double out[2][3];
    rlx_value d[2];
    rlx_grad(g, sum(rlx_mul(g, x, rlx_stop_gradient(g, x))), &x, 1, &d[0]);
    const rlx_value half = rlx_mul(g, x, rlx_scalar(g, RLX_F64, 0.4));
    const rlx_value error = rlx_stop_gradient(g, rlx_sub(g, rlx_round(g, half), half));
    rlx_grad(g, sum(rlx_mul(g, rlx_add(g, half, error), y)), &x, 1, &d[1]);
    run(d[0], rlx_div(g, d[1], rlx_scalar(g, RLX_F64, 0.4)), out);
    CHECK(are(out[0], 1, 2, 3));
    CHECK(are(out[1], 5, 7, 11)); /* straight through the rounding */
}

static void test_forward(void)
{
    double out[2][3];
    const rlx_value wrt[] = {x, y}, along[] = {y, x};
    const rlx_value v = rlx_jvp(g, rlx_mul(g, x, y), wrt, along, 2); /* y y + x x */
    const rlx_value w = rlx_jvp(g, rlx_neg(g, x), wrt, along, 2);
    run(v, w, out);
    CHECK(are(out[0], 26, 53, 130));
    CHECK(are(out[1], -5, -7, -11));
}

/* Updates 0 and 0, 4 of two places: each gets the product of the others. */
static void test_zeros_multiplied(void)
{
    static const double off[] = {5, 7, 7};
    static const int32_t at[] = {0, 2, 2};
    const rlx_dim three = 3;
    double out[2][3];
    rlx_value d[2];
    const rlx_value index = rlx_constant(g, RLX_I32, 1, &three, at, sizeof at);
    const rlx_value u = rlx_sub(g, y, rlx_constant(g, RLX_F64, 1, &three, off, sizeof off));
    const rlx_value wrt[] = {x, u};
    rlx_grad(g, sum(rlx_scatter_elements(g, x, index, u, 0, RLX_SCATTER_MUL)), wrt, 2, d);
    run(d[0], d[1], out);
    CHECK(are(out[0], 0, 1, 0));
    CHECK(are(out[1], 1, 12, 0));
}

static void check_refused(const char *says, int line)
{
    rlx_error err = {0};
    check_that(rlx_graph_status(g, &err) != RLX_OK, "is refused", __FILE__, line);
    check_that(strstr(err.text, says) != NULL, says, __FILE__, line);
    begin();
}
#define REFUSED(says) check_refused(says, __LINE__)

static void test_refusals(void)
{
    rlx_value d;
    const rlx_value whole = rlx_cast(g, x, RLX_I32);
    CHECK(rlx_grad(g, x, &x, 1, &d) == RLX_INVALID && !d.id);
    REFUSED("rlx_grad: loss expected as one element, got f64[3]");
    rlx_grad(g, sum(x), &whole, 1, &d);
    begin();
    const rlx_value index = rlx_cast(g, x, RLX_I32);
    rlx_grad(g, sum(x), &index, 1, &d);
    REFUSED("rlx_grad: wrt[0] expected of type f32, f16, bf16 or f64, got i32[3]");
    rlx_grad(g, sum(x), &(rlx_value){1000}, 1, &d);
    REFUSED("rlx_grad: wrt[0] expected as a value of the graph");
    const rlx_value loss = sum(x), one = rlx_scalar(g, RLX_F64, 1);
    rlx_vjp(g, &x, &one, 1, &x, 1, &d);
    REFUSED("rlx_vjp: dy[0] expected as f64[3], got f64[]");
    (void)loss;
    rlx_jvp(g, x, &x, &(rlx_value){0}, 1);
    REFUSED("rlx_jvp: tangent[0] expected as a value of the graph, got none");
    const rlx_dim three = 3;
    const rlx_value state = rlx_state(g, "s", RLX_F64, 1, &three);
    const rlx_value first = rlx_scalar(g, RLX_I32, 0);
    const rlx_value after = rlx_named(g, rlx_state_write(g, state, x, first, 0), "kept");
    rlx_grad(g, sum(after), &x, 1, &d);
    REFUSED("state_write 'kept' (node 4) has no derivative");
    CHECK(rlx_grad(NULL, x, &x, 1, &d) == RLX_INVALID);
}

/* ---- Tokens of a named dimension ------------------------------------------------------------- */

enum { STEPS = 5, MAX_IN = 7, ROOM = 64 };

/* A state space model and the shapes of its operands. */
typedef struct model {
    const char *op;
    size_t n_in;
    struct { int rank; rlx_dim dim[4]; } in[MAX_IN]; /* -1: tokens */
} model;

static const model models[] = {
    {"mamba2", 7, {{4, {1, -1, 2, 2}}, {3, {1, -1, 2}}, {1, {2}}, {4, {1, -1, 1, 3}},
                   {4, {1, -1, 1, 3}}, {1, {2}}, {4, {1, 2, 2, 3}}}},
    {"selective_scan", 7, {{3, {2, -1, 3}}, {3, {2, -1, 3}}, {2, {3, 2}}, {3, {2, -1, 2}},
                           {3, {2, -1, 2}}, {1, {3}}, {3, {2, 3, 2}}}},
};

/* The derivatives of the sum of both results squared by the operands, for so many tokens. */
static void differentiate(const model *m, int64_t tokens, bool named, float out[MAX_IN][ROOM])
{
    static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g"};
    float data[MAX_IN][ROOM];
    rlx_value in[MAX_IN], results[2] = {{0}}, d[MAX_IN];
    rlx_const_tensor from[MAX_IN];
    rlx_tensor to[MAX_IN];
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_error err = {0};
    rlx_graph *graph = rlx_graph_create("scan");
    const rlx_dim seq = named ? rlx_dim_named(graph, "seq", STEPS) : tokens;
    for (size_t i = 0; i < m->n_in; i++) {
        rlx_dim dim[4];
        size_t n = 1;
        for (int k = 0; k < m->in[i].rank; k++) {
            dim[k] = m->in[i].dim[k] < 0 ? seq : m->in[i].dim[k];
            n *= (size_t)(m->in[i].dim[k] < 0 ? tokens : m->in[i].dim[k]);
        }
        for (size_t k = 0; k < n; k++)
            data[i][k] = (float)((k * 37 + i * 11) % 19) / 19 * (i == 2 ? -1 : 1);
        in[i] = rlx_input(graph, names[i], RLX_F32, m->in[i].rank, dim);
        from[i] = (rlx_const_tensor){names[i], data[i], n * sizeof(float)};
        to[i] = (rlx_tensor){names[i], out[i], n * sizeof(float)};
    }
    rlx_op(graph, m->op, in, m->n_in, "", results, 2);
    rlx_value loss = rlx_scalar(graph, RLX_F32, 0);
    for (int i = 0; i < 2; i++)
        loss = rlx_add(graph, loss, rlx_reduce(graph, RLX_REDUCE_SUM_SQUARE, results[i], NULL, 0,
                                               false));
    rlx_grad(graph, loss, in, m->n_in, d);
    for (size_t i = 0; i < m->n_in; i++)
        rlx_output(graph, names[i], d[i]);
    CHECK_OK(rlx_device_open("cpu", NULL, &device, &err), &err);
    CHECK_OK(rlx_session_create(device, graph, NULL, &s, &err), &err);
    if (named)
        CHECK_OK(rlx_session_bind(s, "seq", tokens, &err), &err);
    CHECK_OK(rlx_run(s, from, m->n_in, to, m->n_in, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(device);
    rlx_graph_destroy(graph);
}

/* As many tokens as a named dimension is bound to, none among them, give what a graph of that many
 * gives. */
static void test_named_tokens(void)
{
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++)
        for (int64_t tokens = 0; tokens <= STEPS; tokens++) {
            float fixed[MAX_IN][ROOM] = {{0}}, named[MAX_IN][ROOM] = {{0}};
            double worst = 0;
            differentiate(&models[i], tokens, false, fixed);
            differentiate(&models[i], tokens, true, named);
            for (int k = 0; k < MAX_IN; k++)
                for (int n = 0; n < ROOM; n++)
                    worst = fmax(worst, fabs((double)fixed[k][n] - named[k][n]));
            if (!CHECK(worst < 1e-4))
                printf("    %s of %lld tokens: %g\n", models[i].op, (long long)tokens, worst);
        }
}

/* ---- Attention over many keys ---------------------------------------------------------------- */

enum { HEADS = 16, MOST_TOKENS = 320, MOST = HEADS * MOST_TOKENS };

/* Causal attention of one number a head, heads of a group sharing a key, and its derivatives. */
static rlx_graph *attention_graph(rlx_graph *graph, rlx_dim tokens)
{
    const rlx_attention_desc d = {RLX_INIT(rlx_attention_desc), .causal = true};
    static const char *const names[] = {"q", "k", "v"};
    rlx_value in[3], dx[3];
    for (int i = 0; i < 3; i++)
        in[i] = rlx_input(graph, names[i], RLX_F32, 4,
                          (rlx_dim[]){1, i ? HEADS / 4 : HEADS, tokens, 1});
    const rlx_value all = rlx_attention(graph, in[0], in[1], in[2], RLX_NONE, &d);
    rlx_grad(graph, rlx_reduce(graph, RLX_REDUCE_SUM_SQUARE, all, NULL, 0, false), in, 3, dx);
    for (int i = 0; i < 3; i++)
        rlx_output(graph, names[i], dx[i]);
    return graph;
}

static rlx_session *open_attention(int64_t bound, bool named)
{
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_error err = {0};
    rlx_graph *graph = rlx_graph_create("attention");
    attention_graph(graph, named ? rlx_dim_named(graph, "tokens", bound) : bound);
    CHECK_OK(rlx_device_open("cpu", NULL, &device, &err), &err);
    CHECK_OK(rlx_session_create(device, graph, NULL, &s, &err), &err);
    rlx_device_close(device);
    rlx_graph_destroy(graph);
    return s;
}

static void run_attention(rlx_session *s, int64_t tokens, float out[3][MOST])
{
    static float data[3][MOST];
    rlx_const_tensor from[3];
    rlx_tensor to[3];
    rlx_error err = {0};
    static const char *const names[] = {"q", "k", "v"};
    for (size_t i = 0; i < 3; i++) {
        const size_t n = (size_t)(tokens * (i ? HEADS / 4 : HEADS)) * sizeof(float);
        for (size_t k = 0; k < MOST; k++)
            data[i][k] = (float)((k * 37 + i * 11) % 19) / 19;
        from[i] = (rlx_const_tensor){names[i], data[i], n};
        to[i] = (rlx_tensor){names[i], out[i], n};
    }
    CHECK_OK(rlx_run(s, from, 3, to, 3, &err), &err);
}

/* 320 tokens are computed in chunks, and so are fewer where the dimension has a name; numbers below
 * 128 are not. */
static void test_attention_chunks(void)
{
    static const int64_t lengths[] = {0, 1, 2, 3, 100, 127};
    static float chunks[3][MOST], whole[3][MOST];
    rlx_error err = {0};
    rlx_session *named = open_attention(MOST_TOKENS, true);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        double worst = 0, most = 0;
        rlx_session *fixed = open_attention(lengths[i], false);
        CHECK_OK(rlx_session_bind(named, "tokens", lengths[i], &err), &err);
        run_attention(named, lengths[i], chunks);
        run_attention(fixed, lengths[i], whole);
        for (size_t o = 0; o < 3; o++)
            for (int64_t k = 0; k < lengths[i] * (o ? HEADS / 4 : HEADS); k++) {
                worst = fmax(worst, fabs((double)chunks[o][k] - whole[o][k]));
                most = fmax(most, fabs(whole[o][k]));
            }
        if (!CHECK(worst <= 2e-6 * most))
            printf("    %lld tokens: %g\n", (long long)lengths[i], worst);
        rlx_session_destroy(fixed);
    }
    rlx_session_destroy(named);
}

static uint64_t attention_bytes(int64_t tokens)
{
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    rlx_session *s = open_attention(tokens, false);
    rlx_session_memory(s, &m, NULL);
    rlx_session_destroy(s);
    return m.arena_bytes;
}

static void test_attention_memory(void)
{
    const uint64_t some = attention_bytes(1024), twice = attention_bytes(2048);
    CHECK(twice < 2.5 * (double)some);
    CHECK(some < 1024 * 1024 * HEADS * sizeof(float)); /* all scores */
}

int main(void)
{
    begin();
    test_attention_chunks();
    test_attention_memory();
    test_named_tokens();
    test_values();
    test_stop();
    test_forward();
    test_zeros_multiplied();
    test_refusals();
    rlx_graph_destroy(g);
    return check_done();
}
