/* SPDX-License-Identifier: MIT */
/* Looking at a session leaves it as it was: after runs of single steps, whole or stopped, or when
 * there was no memory for them, it has the kernels that it had and gives the same bits. On every
 * device that is there; on GPUs products compute the norms before them, too, and writes to states
 * the rotations, in single steps as in whole runs. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "webgpu/library.h"

enum { WIDTH = 256, INNER = 512, SIZE = 64, MOST = 4, MAX_STEPS = 32 };

static rlx_error err;

/* n = rms_norm(x), x [rows, WIDTH]; y = (silu(n . gate) * (n . up)) . down; x rotated goes to the
 * state `kept`, and from there to z. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("looking");
    const rlx_dim rows = rlx_dim_named(g, "rows", MOST), in[] = {rows, WIDTH};
    const rlx_dim wide[] = {INNER, WIDTH}, narrow[] = {WIDTH, INNER}, width = WIDTH;
    const rlx_dim angles[] = {MOST, SIZE / 2}, heads[] = {1, rows, WIDTH / SIZE, SIZE};
    const rlx_dim kept[] = {MOST, WIDTH / SIZE, SIZE};
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, in);
    rlx_value now = rlx_rope(g, rlx_reshape(g, x, 4, heads),
                             rlx_param(g, "cos", RLX_F32, 2, angles),
                             rlx_param(g, "sin", RLX_F32, 2, angles),
                             rlx_input(g, "at", RLX_I32, 1, &rows),
                             &(rlx_rope_desc){RLX_INIT(rlx_rope_desc), .layout = RLX_BSHD});
    now = rlx_state_write(g, rlx_state(g, "kept", RLX_F32, 3, kept),
                          rlx_reshape(g, now, 3, (rlx_dim[]){rows, WIDTH / SIZE, SIZE}),
                          rlx_scalar(g, RLX_I32, 0), 0);
    rlx_output(g, "z", rlx_neg(g, now));
    x = rlx_rms_norm(g, x, rlx_param(g, "norm", RLX_F32, 1, &width), NULL);
    rlx_value gate = rlx_dequant_matmul(g, x, rlx_param(g, "gate", RLX_Q4_0, 2, wide));
    rlx_value up = rlx_dequant_matmul(g, x, rlx_param(g, "up", RLX_Q4_0, 2, wide));
    rlx_value y = rlx_mul(g, rlx_silu(g, gate), up);
    y = rlx_dequant_matmul(g, y, rlx_param(g, "down", RLX_Q4_0, 2, narrow));
    rlx_output(g, "y", y);
    return g;
}

static void set_weights(rlx_session *s)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_PARAM, i, &info); i++) {
        const int64_t rows = info.shape.rank == 2 ? info.shape.dim[0] : 1;
        const int64_t columns = info.shape.dim[info.shape.rank - 1];
        float *data = malloc((size_t)(rows * columns) * sizeof *data);
        void *packed = malloc(info.bytes);
        for (int64_t k = 0; k < rows * columns; k++)
            data[k] = (float)(k * 7919 % 1009) / 1009 - 0.5f;
        const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                          .to = info.dtype,
                                 .src = data, .dst = packed, .n_rows = rows, .row_length = columns,
                                 .threads = 1};
        CHECK_OK(rlx_quantize_rows(&d, NULL, &err), &err);
        CHECK_OK(rlx_session_set_param(s, info.name, packed, info.bytes, RLX_COPY, &err), &err);
        free(packed);
        free(data);
    }
}

/* ---- What a session is ----------------------------------------------------------------------- */

typedef struct state {
    const char *kernels[MAX_STEPS];
    float y[MOST * WIDTH], z[MOST * WIDTH];
} state;

static void note_kernels(rlx_session *s, state *to)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    CHECK(rlx_session_n_steps(s) <= MAX_STEPS);
    for (size_t i = 0; i < MAX_STEPS; i++)
        to->kernels[i] = rlx_session_step(s, i, &step, NULL) == RLX_OK ? step.kernel : "";
}

static rlx_status run(rlx_session *s, int rows, state *to)
{
    static const int32_t at[MOST] = {3, 0, 2, 1};
    float x[MOST * WIDTH];
    for (int i = 0; i < rows * WIDTH; i++)
        x[i] = (float)(i * 31 % 97) / 97 - 0.5f;
    const size_t bytes = (size_t)rows * WIDTH * sizeof *x;
    const rlx_const_tensor in[] = {{"x", x, bytes}, {"at", at, (size_t)rows * 4}};
    const rlx_tensor out[] = {{"y", to->y, bytes}, {"z", to->z, sizeof to->z}};
    rlx_status st = rlx_session_bind(s, "rows", rows, &err);
    if (st == RLX_OK)
        st = rlx_session_state_reset(s, NULL, &err);
    return st == RLX_OK ? rlx_run(s, in, 2, out, 2, &err) : st;
}

/* The session is bound to kernels of `was`, and a run of as many rows gives the same. */
static void check_same(rlx_session *s, int rows, const state *was, const char *after)
{
    state now = {0};
    note_kernels(s, &now);
    for (size_t i = 0; i < rlx_session_n_steps(s); i++)
        if (!CHECK(!strcmp(now.kernels[i], was->kernels[i])))
            printf("    after %s step %zu has %s instead of %s\n", after, i, now.kernels[i],
                   was->kernels[i]);
    CHECK_OK(run(s, rows, &now), &err);
    if (!CHECK(!memcmp(now.y, was->y, sizeof now.y) && !memcmp(now.z, was->z, sizeof now.z)))
        printf("    after %s\n", after);
    note_kernels(s, &now);
    CHECK(!memcmp(now.kernels, was->kernels, sizeof now.kernels));
}

/* ---- Looking --------------------------------------------------------------------------------- */

typedef struct look {
    size_t n, stop_after; /* steps; 0: never */
    const state *was;
    bool bad;             /* a step with another kernel than in whole runs, or wrong results */
} look;

static bool is_merged(const char *kernel) { return !strncmp(kernel, "merged into ", 12); }

static int on_step(void *user, const rlx_step_result *r)
{
    look *l = user;
    const bool absorbed = r->computed_by != r->step;
    l->bad |= strcmp(r->kernel, l->was->kernels[r->step]) || r->computed_by < r->step ||
              absorbed != is_merged(r->kernel) ||
              (absorbed && (r->n_results || r->seconds != 0));
    return ++l->n == l->stop_after;
}

static void read_outputs(rlx_session *s, int rows, state *to)
{
    memset(to, 0, sizeof *to);
    CHECK_OK(rlx_session_read(s, "y", 0, to->y, (size_t)rows * WIDTH * sizeof *to->y, &err), &err);
    CHECK_OK(rlx_session_read(s, "z", 0, to->z, sizeof to->z, &err), &err);
}

static void look_at(rlx_session *s, int rows, const state *was)
{
    look all = {.was = was}, some = {.was = was, .stop_after = 2};
    static state steps;
    CHECK_OK(rlx_session_run_steps(s, false, on_step, &all, &err), &err);
    CHECK(all.n == rlx_session_n_steps(s) && !all.bad);
    check_same(s, rows, was, "single steps");
    all.n = 0;
    CHECK_OK(rlx_session_run_steps(s, true, on_step, &all, &err), &err);
    CHECK(all.n == rlx_session_n_steps(s) && !all.bad);
    read_outputs(s, rows, &steps);
    CHECK(!memcmp(steps.y, was->y, sizeof was->y) && !memcmp(steps.z, was->z, sizeof was->z));
    check_same(s, rows, was, "single steps with their results");
    CHECK_FAILS(rlx_session_run_steps(s, true, on_step, &some, &err), RLX_CANCELLED, &err,
                "after step 1");
    CHECK_FAILS(rlx_session_read(s, "y", 0, steps.y, sizeof *steps.y, &err), RLX_INVALID, &err,
                "has not run");
    check_same(s, rows, was, "single steps that were stopped");
}

/* No memory at the n-th allocation of a run of single steps, for each n. */
static void look_without_memory(rlx_device *d, const rlx_graph *g, const state *was)
{
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST};
    state now;
    rlx_status st = RLX_NO_MEMORY;
    for (long n = 1; st != RLX_OK && n < 1000; n++) {
        rlx_session *s = NULL;
        look l = {.was = was};
        CHECK_OK(rlx_session_create(d, g, &desc, &s, &err), &err);
        set_weights(s);
        CHECK_OK(run(s, 1, &now), &err);
        memory_fail(n, false);
        CHECK_OK_OR(st = rlx_session_run_steps(s, true, on_step, &l, &err), RLX_NO_MEMORY, &err);
        memory_fail(0, false);
        check_same(s, 1, was, "single steps without memory");
        rlx_session_destroy(s);
    }
    CHECK(st == RLX_OK);
}

/* Dimensions that come and go between looks; names of kernels before any run. */
static void test_device(const char *id)
{
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_FAST};
    static state was[MOST + 1];
    rlx_device *d = NULL;
    rlx_session *s = NULL;
    if (!CHECK_OK(rlx_device_open(id, NULL, &d, &err), &err))
        return;
    rlx_graph *g = make_graph();
    CHECK_OK(rlx_session_create(d, g, &desc, &s, &err), &err);
    static const int rows[] = {1, 4, 1, 3, 1};
    size_t n_folded = 0;
    memset(was, 0, sizeof was);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        state *w = &was[rows[i]];
        CHECK_OK(rlx_session_bind(s, "rows", rows[i], &err), &err);
        CHECK_OK(rlx_session_prepare(s, &err), &err);
        note_kernels(s, w);
        if (i == 0)
            set_weights(s);
        for (size_t k = 0; k < rlx_session_n_steps(s); k++) {
            CHECK(strcmp(w->kernels[k], "not chosen yet"));
            n_folded += is_merged(w->kernels[k]);
        }
        CHECK_OK(run(s, rows[i], w), &err);
        check_same(s, rows[i], w, "a run");
        look_at(s, rows[i], w);
    }
    printf("%s: %zu steps are done by others\n", id, n_folded);
    CHECK(n_folded || (strcmp(id, "vulkan") && strcmp(id, "webgpu")));
    rlx_session_destroy(s);
    look_without_memory(d, g, &was[1]);
    rlx_graph_destroy(g);
    rlx_device_close(d);
}

int main(void)
{
    static const char *const ids[] = {"cpu", "ref", "null", "vulkan", "webgpu"};
    choose_library();
    rlx_set_allocator(&counting);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        if (rlx_device_is_available(ids[i]))
            test_device(ids[i]);
        else
            printf("%s: not here\n", ids[i]);
    rlx_set_allocator(NULL);
    return check_done();
}
