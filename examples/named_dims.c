/* SPDX-License-Identifier: MIT */
/* Named dimensions: one graph, compiled once, runs with any number of rows up to a bound. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <rlx/rlx.h>

#define MAX_ROWS 64
#define COLUMNS 4

static void check(rlx_status status, const rlx_error *err)
{
    if (status == RLX_OK)
        return;
    fprintf(stderr, "named_dims: %s\n", err->text);
    exit(1);
}

/* Every row with mean 0 and deviation 1, and the mean over the rows: y [rows, 4], m [4]. */
static rlx_graph *build(void)
{
    rlx_graph *g = rlx_graph_create("named_dims");
    rlx_dim rows = rlx_dim_named(g, "rows", MAX_ROWS);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){rows, COLUMNS});
    rlx_value y = rlx_layer_norm(g, x, RLX_NONE, RLX_NONE, NULL);
    rlx_output(g, "y", y);
    rlx_output(g, "m", rlx_reduce(g, RLX_REDUCE_MEAN, x, (int64_t[]){0}, 1, false));
    return g;
}

int main(void)
{
    rlx_error err = {0};
    rlx_device *device;
    rlx_session *session;
    rlx_graph *g = build();
    check(rlx_device_open("auto", NULL, &device, &err), &err);
    check(rlx_session_create(device, g, NULL, &session, &err), &err);

    static const int64_t sizes[] = {1, 17, MAX_ROWS};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        int64_t rows = sizes[i];
        float x[MAX_ROWS * COLUMNS], y[MAX_ROWS * COLUMNS], m[COLUMNS];
        for (int64_t k = 0; k < rows * COLUMNS; k++)
            x[k] = (float)k;
        size_t bytes = (size_t)(rows * COLUMNS) * sizeof *x;
        rlx_const_tensor in = {"x", x, bytes};
        rlx_tensor out[] = {{"y", y, bytes}, {"m", m, sizeof m}};
        check(rlx_session_bind(session, "rows", rows, &err), &err);
        check(rlx_run(session, &in, 1, out, 2, &err), &err);
        printf("%2lld rows: last row %.3f %.3f %.3f %.3f, mean of column 0 is %.1f\n",
               (long long)rows, y[rows * 4 - 4], y[rows * 4 - 3], y[rows * 4 - 2], y[rows * 4 - 1],
               m[0]);
        if (fabsf(y[rows * 4 - 1] - 1.3416f) > 1e-3f || m[0] != (float)(rows - 1) * 2)
            return 1;
    }

    /* A size above the bound is an error that says so; the session goes on living. */
    rlx_status status = rlx_session_bind(session, "rows", MAX_ROWS + 1, &err);
    printf("%s: %s\n", rlx_status_name(status), err.text);
    rlx_session_destroy(session);
    rlx_device_close(device);
    rlx_graph_destroy(g);
    return status != RLX_INVALID;
}
