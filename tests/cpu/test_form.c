/* SPDX-License-Identifier: MIT */
/* Forms of an operand: the x of several products is encoded once, and never taken for another. */
#include <string.h>

#include "check.h"
#include "cpu/scratch.h"
#include "rlx/rlx.h"

#define K 256
#define N 24

/* ---- rx_call_form ---------------------------------------------------------------------------- */

static bool is_made(rx_call *c, uint32_t x, uint64_t kind, uint64_t bytes)
{
    bool made = true;
    c->x = x;
    CHECK(rx_call_form(c, kind, bytes, &made));
    return made;
}

static void test_form(void)
{
    rx_scratch scratch = {0};
    rx_form form = {0};
    rx_call c = {.scratch = &scratch, .form = &form};
    CHECK(!is_made(&c, 7, 1, 100));
    CHECK(is_made(&c, 7, 1, 100));
    CHECK(!is_made(&c, 7, 2, 100)); /* another form */
    CHECK(!is_made(&c, 7, 1, 100)); /* which has taken its place */
    CHECK(!is_made(&c, 8, 1, 5000));
    CHECK(!is_made(&c, 0, 1, 5000)); /* nobody else reads it */
    CHECK(is_made(&c, 8, 1, 5000));
    form.x = 0; /* the next run */
    CHECK(!is_made(&c, 8, 1, 5000));
    c.form = NULL;
    CHECK(!is_made(&c, 8, 1, 5000));
    rx_form_finish(&form);
    rx_scratch_finish(&scratch);
}

/* ---- Products -------------------------------------------------------------------------------- */

static uint8_t weights[3][N * K / 32 * 34]; /* blocks of q8_0: a scale in f16 and 32 codes */

static void fill_weights(void)
{
    uint32_t seed = 1;
    for (int w = 0; w < 3; w++)
        for (size_t i = 0; i < sizeof weights[w]; i++) {
            seed = seed * 1664525u + 1013904223u;
            weights[w][i] = i % 34 == 0 ? 0 : i % 34 == 1 ? 0x20 : (uint8_t)(seed >> 24);
        }
}

/* The products of x0, x1 and x0 again with three weights, or one of them alone (`only` 0 to 2). */
static rlx_session *make_session(rlx_device *d, rlx_policy policy, int only)
{
    static const char *const names[] = {"a", "b", "c"};
    rlx_error err = {0};
    rlx_session *s = NULL;
    rlx_graph *g = rlx_graph_create("products");
    const rlx_dim m = rlx_dim_named(g, "m", 16);
    const rlx_value x[] = {rlx_input(g, "x0", RLX_F32, 2, (const rlx_dim[]){m, K}),
                           rlx_input(g, "x1", RLX_F32, 2, (const rlx_dim[]){m, K})};
    for (int i = 0; i < 3; i++)
        if (only < 0 || only == i)
            rlx_output(g, names[i],
                       rlx_dequant_matmul(g, x[i % 2], rlx_param(g, names[i], RLX_Q8_0, 2,
                                                                 (const rlx_dim[]){N, K})));
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = policy};
    CHECK(rlx_session_create(d, g, &desc, &s, &err) == RLX_OK);
    for (int i = 0; i < 3; i++)
        if (only < 0 || only == i)
            CHECK(rlx_session_set_param(s, names[i], weights[i], sizeof weights[i], RLX_COPY,
                                        &err) == RLX_OK);
    rlx_graph_destroy(g);
    return s;
}

static bool run_product(rlx_session *s, const float *x, int64_t m, int which, float *y)
{
    static const char *const names[] = {"a", "b", "c"};
    rlx_error err = {0};
    const size_t bytes = (size_t)m * K * sizeof *x;
    const rlx_const_tensor in[] = {{"x0", x, bytes}, {"x1", x + m * K, bytes}};
    const rlx_tensor out = {names[which], y, (size_t)m * N * sizeof *y};
    return rlx_session_bind(s, "m", m, &err) == RLX_OK &&
           rlx_run(s, in, 2, &out, 1, &err) == RLX_OK;
}

/* Bits are those of products that share nothing; runs with other numbers and sizes follow each
 * other. */
static void test_products(rlx_device *d, rlx_policy policy)
{
    static float x[2 * 16 * K], together[16 * N], alone[16 * N];
    static const int64_t rows[] = {1, 16, 3, 3, 1};
    rlx_session *all = make_session(d, policy, -1);
    for (int i = 0; i < 3; i++) {
        rlx_session *one = make_session(d, policy, i);
        for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
            const int64_t m = rows[r];
            for (int64_t k = 0; k < 2 * m * K; k++)
                x[k] = (float)((k * 7919 + 31 * (int64_t)r) % 1000) / 500 - 1;
            CHECK(run_product(all, x, m, i, together) && run_product(one, x, m, i, alone));
            CHECK(!memcmp(together, alone, (size_t)m * N * sizeof *alone));
        }
        rlx_session_destroy(one);
    }
    rlx_session_destroy(all);
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *d = NULL;
    test_form();
    fill_weights();
    CHECK(rlx_device_open("cpu", NULL, &d, &err) == RLX_OK);
    test_products(d, RLX_POLICY_FAST);
    test_products(d, RLX_POLICY_EXACT);
    rlx_device_close(d);
    return check_done();
}
