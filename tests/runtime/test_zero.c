/* SPDX-License-Identifier: MIT */
/* RLX_ZERO: a zero that is meant, where 0 is the default. Each graph gives what zero gives, and not
 * what the default gives; also after its text was read back. */
#include <math.h>

#include "check.h"
#include "rlx/rlx.h"

enum { ROWS = 3, WIDTH = 8, N = ROWS * WIDTH };

static rlx_error err;

/* The value of `made` for x = (i + 1) * scale. */
static void run_graph(const char *device, rlx_graph *g, rlx_value made, float scale, float y[N])
{
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    char *text = NULL;
    rlx_graph *again = NULL;
    float x[N];
    for (int i = 0; i < N; i++)
        x[i] = (float)(i - N / 2) * scale;
    rlx_output(g, "y", made);
    CHECK_OK(rlx_graph_print(g, &text, NULL, &err), &err);
    CHECK_OK(rlx_graph_parse(text, strlen(text), &again, &err), &err);
    CHECK_OK(rlx_device_open(device, NULL, &d, &err), &err);
    if (CHECK_OK(rlx_session_create(d, again, NULL, &s, &err), &err))
        CHECK_OK(rlx_run(s, &(rlx_const_tensor){"x", x, sizeof x}, 1,
                         &(rlx_tensor){"y", y, N * sizeof *y}, 1, &err), &err);
    rlx_session_destroy(s);
    rlx_device_close(d);
    rlx_graph_destroy(again);
    rlx_graph_destroy(g);
    rlx_free(text);
}

static rlx_graph *begin(rlx_value *x)
{
    rlx_graph *g = rlx_graph_create("zero");
    *x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){ROWS, WIDTH});
    return g;
}

static bool all_near(const float y[N], float value)
{
    bool ok = true;
    for (int i = 0; i < N; i++)
        ok &= fabsf(y[i] - value) <= 1e-5f;
    return ok;
}

static void check_slope(const char *device)
{
    float y[N];
    rlx_value x;
    rlx_graph *g = begin(&x);
    run_graph(device, g, rlx_leaky_relu(g, x, RLX_ZERO), 1, y);
    for (int i = 0; i < N; i++)
        CHECK(y[i] == (i > N / 2 ? (float)(i - N / 2) : 0));
    g = begin(&x);
    run_graph(device, g, rlx_leaky_relu(g, x, 0), 1, y);
    CHECK(y[0] < 0); /* the default slope */
}

static void check_eps(const char *device)
{
    const rlx_norm_desc zero = {RLX_INIT(rlx_norm_desc), .eps = RLX_ZERO};
    const float scale = 1e-6f; /* squares far below the default of 1e-5 */
    float y[N], squares = 0;
    rlx_value x;
    rlx_graph *g = begin(&x);
    run_graph(device, g, rlx_rms_norm(g, x, RLX_NONE, &zero), scale, y);
    for (int i = 0; i < WIDTH; i++)
        squares += y[i] * y[i];
    CHECK(fabsf(squares - WIDTH) < 1e-3f);
    g = begin(&x);
    run_graph(device, g, rlx_rms_norm(g, x, RLX_NONE, NULL), scale, y);
    CHECK(fabsf(y[0]) < 0.1f);
}

static void check_scales(const char *device)
{
    const rlx_attention_desc flat = {RLX_INIT(rlx_attention_desc), .scale = RLX_ZERO};
    const rlx_random_desc constant = {RLX_INIT(rlx_random_desc), .shape = {2, {ROWS, WIDTH}},
                                      .lo = 3, .hi = RLX_ZERO};
    const rlx_dim four[] = {1, 1, ROWS, WIDTH};
    float y[N];
    rlx_value x;
    rlx_graph *g = begin(&x);
    rlx_value q = rlx_reshape(g, x, 4, four);
    rlx_value mean = rlx_reduce(g, RLX_REDUCE_MEAN, q, (int64_t[]){2}, 1, true);
    run_graph(device, g, rlx_sub(g, rlx_attention(g, q, q, q, RLX_NONE, &flat), mean), 1, y);
    CHECK(all_near(y, 0)); /* all keys count the same */
    g = begin(&x);
    rlx_value noise = rlx_random_normal(g, RLX_NONE, &constant);
    run_graph(device, g, rlx_add(g, noise, rlx_mul(g, x, rlx_scalar(g, RLX_F32, 0))), 1, y);
    CHECK(all_near(y, 3));
}

int main(void)
{
    static const char *const devices[] = {"ref", "cpu"};
    for (size_t i = 0; i < sizeof devices / sizeof devices[0]; i++) {
        check_slope(devices[i]);
        check_eps(devices[i]);
        check_scales(devices[i]);
    }
    return check_done();
}
