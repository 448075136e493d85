/* SPDX-License-Identifier: MIT */
/* Dimensions: equal expressions have equal handles; bounds, evaluation, texts, what is wrong. */
#include "check.h"
#include "ir/graph.h"

static rlx_graph *g;
static rlx_dim seq, batch;

static void begin(void)
{
    rlx_graph_destroy(g);
    g = rlx_graph_create("dims");
    batch = rlx_dim_named(g, "batch", 4);
    seq = rlx_dim_named(g, "seq", 512);
}

static bool is_text(rlx_dim d, const char *want)
{
    char text[64];
    bool ok = !strcmp(rx_dim_text(g, d, text, sizeof text), want);
    if (!ok)
        printf("    expected %s, got %s\n", want, text);
    return ok;
}

static void test_names(void)
{
    begin();
    CHECK(seq <= -2 && batch <= -2 && seq != batch);
    CHECK(rlx_dim_named(g, "seq", 512) == seq);
    CHECK(rx_dim_bound(g, seq) == 512 && rx_dim_bound(g, 7) == 7);
    CHECK(is_text(seq, "seq") && is_text(12, "12"));
}

static void test_numbers(void)
{
    begin();
    CHECK(rlx_dim_add(g, 2, 3) == 5 && rlx_dim_sub(g, 5, 3) == 2);
    CHECK(rlx_dim_mul(g, 4, 3) == 12 && rlx_dim_div(g, 7, 2) == 3);
    CHECK(rlx_dim_add(g, 0, 0) == 0 && rlx_dim_mul(g, 0, 9) == 0 && rlx_dim_sub(g, 3, 3) == 0);
    CHECK(g->n_dims == 2);
}

static void test_normal_forms(void)
{
    begin();
    /* Neutral numbers. */
    CHECK(rlx_dim_add(g, seq, 0) == seq && rlx_dim_add(g, 0, seq) == seq);
    CHECK(rlx_dim_sub(g, seq, 0) == seq && rlx_dim_sub(g, seq, seq) == 0);
    CHECK(rlx_dim_mul(g, seq, 1) == seq && rlx_dim_mul(g, 0, seq) == 0);
    CHECK(rlx_dim_div(g, seq, 1) == seq);
    CHECK(g->n_dims == 2);
    /* The order of operands. */
    rlx_dim more = rlx_dim_add(g, seq, 3);
    CHECK(rlx_dim_add(g, 3, seq) == more && is_text(more, "(seq+3)"));
    CHECK(rlx_dim_add(g, seq, batch) == rlx_dim_add(g, batch, seq));
    CHECK(rlx_dim_mul(g, seq, batch) == rlx_dim_mul(g, batch, seq));
    CHECK(rlx_dim_mul(g, 4, seq) == rlx_dim_mul(g, seq, 4));
    /* Numbers come together. */
    CHECK(rlx_dim_add(g, rlx_dim_add(g, seq, 1), 2) == more);
    CHECK(rlx_dim_sub(g, rlx_dim_add(g, seq, 5), 2) == more);
    CHECK(rlx_dim_add(g, rlx_dim_sub(g, seq, 2), 5) == more);
    CHECK(rlx_dim_sub(g, more, 3) == seq);
    CHECK(rlx_dim_sub(g, more, seq) == 3);
    CHECK(rlx_dim_sub(g, rlx_dim_sub(g, seq, 1), 2) == rlx_dim_sub(g, seq, 3));
    CHECK(rlx_dim_add(g, rlx_dim_sub(g, seq, batch), batch) == seq);
    CHECK(rlx_dim_add(g, batch, rlx_dim_sub(g, seq, batch)) == seq);
    CHECK(rlx_dim_add(g, batch, more) == rlx_dim_add(g, rlx_dim_add(g, seq, batch), 3));
    CHECK(rlx_dim_mul(g, rlx_dim_mul(g, seq, 2), 3) == rlx_dim_mul(g, seq, 6));
    CHECK(rlx_dim_div(g, rlx_dim_mul(g, seq, 6), 3) == rlx_dim_mul(g, seq, 2));
    CHECK(rlx_dim_div(g, rlx_dim_mul(g, seq, 6), 6) == seq);
    CHECK(rlx_dim_div(g, rlx_dim_div(g, seq, 2), 3) == rlx_dim_div(g, seq, 6));
    CHECK(rlx_dim_mul(g, batch, rlx_dim_mul(g, seq, 3)) ==
          rlx_dim_mul(g, rlx_dim_mul(g, batch, seq), 3));
    /* The same expression is kept once. */
    size_t n = g->n_dims;
    CHECK(rlx_dim_div(g, rlx_dim_add(g, seq, 3), 2) == rlx_dim_div(g, more, 2));
    CHECK(g->n_dims == n + 1 && !g->error.code);
}

static void test_bounds(void)
{
    begin();
    CHECK(rx_dim_bound(g, rlx_dim_add(g, seq, batch)) == 516);
    CHECK(rx_dim_bound(g, rlx_dim_mul(g, seq, batch)) == 2048);
    CHECK(rx_dim_bound(g, rlx_dim_div(g, seq, 3)) == 170);
    CHECK(rx_dim_bound(g, rlx_dim_sub(g, seq, 12)) == 500);
    CHECK(rx_dim_bound(g, rlx_dim_sub(g, seq, batch)) == 512);
    CHECK(rx_dim_bound(g, rlx_dim_sub(g, 100, batch)) == 100);
    CHECK(rx_dim_bound(g, rlx_dim_sub(g, batch, 9)) == 0);
    int64_t n;
    rlx_shape s = {.rank = 2, .dim = {seq, 2}};
    CHECK(rx_shape_elements(g, &s, &n) && n == 1024 && !rx_shape_is_fixed(&s));
    s = (rlx_shape){.rank = 2, .dim = {(int64_t)1 << 20, (int64_t)1 << 20}};
    CHECK(rx_shape_elements(g, &s, &n) && n == (int64_t)1 << 40 && rx_shape_is_fixed(&s));
    s.dim[0]++;
    CHECK(!rx_shape_elements(g, &s, &n));
    s = (rlx_shape){.rank = 2, .dim = {INT64_MAX, INT64_MAX}};
    CHECK(!rx_shape_elements(g, &s, &n));
    s = (rlx_shape){.rank = 2, .dim = {0, 5}};
    CHECK(rx_shape_elements(g, &s, &n) && n == 0);
}

static void test_values(void)
{
    begin();
    rlx_error err = {0};
    int64_t values[16];
    rlx_dim pages = rlx_dim_div(g, rlx_dim_add(g, seq, 15), 16);
    rlx_dim rest = rlx_dim_sub(g, seq, batch);
    rlx_dim area = rlx_dim_mul(g, rest, pages);
    values[0] = 3;
    values[1] = 20;
    if (!CHECK(g->n_dims <= 16) || !CHECK_OK(rx_dims_eval(g->dims, g->n_dims, values, &err), &err))
        return;
    CHECK(rx_dim_value(pages, values) == 2 && rx_dim_value(rest, values) == 17);
    CHECK(rx_dim_value(area, values) == 34 && rx_dim_value(9, values) == 9);
    values[0] = 4;
    values[1] = 1;
    CHECK_FAILS(rx_dims_eval(g->dims, g->n_dims, values, &err), RLX_INVALID, &err,
                "a size of 1 - 4 = -3, below zero");
    values[0] = values[1] = 0;
    CHECK_OK(rx_dims_eval(g->dims, g->n_dims, values, &err), &err);
    CHECK(rx_dim_value(pages, values) == 0 && rx_dim_value(area, values) == 0);
}

static void test_large_values(void)
{
    begin();
    rlx_error err = {0};
    int64_t values[16] = {0};
    rlx_dim a = rlx_dim_named(g, "a", (int64_t)1 << 40);
    rlx_dim square = rlx_dim_mul(g, a, a);
    CHECK(square < 0 && rx_dim_bound(g, square) == ((int64_t)1 << 62) - 1);
    values[-a - 2] = (int64_t)1 << 40;
    CHECK_FAILS(rx_dims_eval(g->dims, g->n_dims, values, &err), RLX_INVALID, &err, "above 2^63");
    values[-a - 2] = 3;
    CHECK_OK(rx_dims_eval(g->dims, g->n_dims, values, &err), &err);
    CHECK(rx_dim_value(square, values) == 9);
}

/* ---- What is wrong: each is recorded in a graph of its own ----------------------------------- */

static void check_wrong(rlx_dim got, const char *says, int line)
{
    rlx_error err = {0};
    check_that(got == 0, "gives 0", __FILE__, line);
    check_error(rlx_graph_status(g, &err), RLX_INVALID, &err, says, __FILE__, line);
    check_that(rlx_dim_add(g, 1, 1) == 0, "nothing works after an error", __FILE__, line);
    begin();
}
#define WRONG(call, says) check_wrong((call), (says), __LINE__)

static void test_mistakes(void)
{
    begin();
    WRONG(rlx_dim_named(g, "seq", 4), "dimension 'seq': has the bound 512 already, got 4");
    WRONG(rlx_dim_named(g, "2x", 4), "dimension '2x': expected a name of letters");
    WRONG(rlx_dim_named(g, "", 4), "expected a name of letters");
    WRONG(rlx_dim_named(g, NULL, 4), "expected a name of letters");
    WRONG(rlx_dim_named(g, "a b", 4), "dimension 'a b'");
    WRONG(rlx_dim_named(g, "n", -1), "a bound from 0 to 2^40, got bound -1");
    WRONG(rlx_dim_sub(g, 3, 5), "3 - 5 is below zero");
    WRONG(rlx_dim_div(g, seq, 0), "a divisor that is a number above 0, got 0");
    WRONG(rlx_dim_div(g, seq, batch), "above 0, got batch");
    WRONG(rlx_dim_add(g, seq, -1), "dimensions of graph 'dims', got -1");
    WRONG(rlx_dim_add(g, seq, -100), "got -100");
    WRONG(rlx_dim_mul(g, INT64_MIN, seq), "got -9223372036854775808");
    WRONG(rlx_dim_add(g, INT64_MAX, 1), "got 9223372036854775807");
    WRONG(rlx_dim_mul(g, (int64_t)1 << 40, (int64_t)1 << 40), "the result is larger than 2^62");
    WRONG(rlx_dim_add(g, (int64_t)1 << 61, (int64_t)1 << 61), "the result is larger than 2^62");
}

/* Expressions cannot grow without end, so printing one ends too. */
static void test_sizes(void)
{
    begin();
    rlx_error err = {0};
    rlx_dim d = rlx_dim_named(g, "bit", 1);
    for (int i = 0; i < 64 && d < 0; i++)
        d = rlx_dim_mul(g, d, d);
    CHECK(d == 0);
    CHECK_FAILS(rlx_graph_status(g, &err), RLX_INVALID, &err,
                "expected an expression of at most 256 parts, got 511");
    char text[8];
    begin();
    CHECK(!strcmp(rx_dim_text(g, rlx_dim_add(g, seq, batch), text, sizeof text), "(batch+"));
}

int main(void)
{
    test_names();
    test_numbers();
    test_normal_forms();
    test_bounds();
    test_values();
    test_large_values();
    test_mistakes();
    test_sizes();
    rlx_graph_destroy(g);
    return check_done();
}
