/* SPDX-License-Identifier: MIT */
/* Microbenchmarks of a device through sessions, as programs use it. Rates come from series of
 * growing sizes that end with the first run long enough to dominate the latencies. Noise only slows
 * a run down, so the best of several counts. */
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/thread.h"
#include "rlx/ops.h"
#include "rlx/session.h"
#include "runtime/calibrate.h"
#include "runtime/device.h"

#define N_CHAIN 48 /* tiny steps in a row */
#define MOST_RUNS 24

typedef struct meter {
    rlx_device *device;
    rlx_error *err;
    double enough;         /* seconds: a run this long is measured well */
    double budget;         /* seconds for the runs of one size */
    int64_t largest_gemm;  /* rows of a square */
    int64_t largest_bytes; /* of one tensor */
    rlx_calibration found;
} meter;

/* A session with its params and input set. */
typedef struct trial {
    rlx_session *session;
    float *room; /* host memory of the largest leaf */
    size_t room_bytes;
} trial;

static double now(void)
{
    return (double)rx_now_ns() * 1e-9;
}

/* ---- Sessions -------------------------------------------------------------------------------- */

static void end_trial(trial *t)
{
    rlx_session_destroy(t->session);
    rx_free(t->room);
    *t = (trial){0};
}

/* Small numbers, no two neighbours alike. */
static void fill(float *to, size_t n)
{
    for (size_t i = 0; i < n; i++)
        to[i] = (float)((int)(i * 37 % 101) - 50) * 0.01f;
}

static rlx_status set_leaves(trial *t, rlx_leaf kind, rlx_error *err)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(t->session, kind, i, &info); i++) {
        if (info.bytes > t->room_bytes) {
            float *room = rx_realloc(t->room, info.bytes);
            if (!room)
                return rx_fail_memory(err, "calibration", info.bytes);
            fill(room, info.bytes / sizeof *room);
            t->room = room;
            t->room_bytes = info.bytes;
        }
        rlx_status st = kind == RLX_LEAF_PARAM
            ? rlx_session_set_param(t->session, info.name, t->room, info.bytes, RLX_COPY, err)
            : rlx_session_set_input(t->session, info.name, t->room, info.bytes, err);
        if (st != RLX_OK)
            return st;
    }
    return RLX_OK;
}

/* Takes the graph. On failure *t is empty. */
static rlx_status begin_trial(meter *m, rlx_graph *g, rlx_policy policy, trial *t)
{
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = policy};
    *t = (trial){0};
    if (!g)
        return rx_fail_memory(m->err, "calibration", 0);
    rlx_status st = rlx_session_create(m->device, g, &desc, &t->session, m->err);
    rlx_graph_destroy(g);
    if (st == RLX_OK)
        st = set_leaves(t, RLX_LEAF_PARAM, m->err);
    if (st == RLX_OK)
        st = set_leaves(t, RLX_LEAF_INPUT, m->err);
    if (st != RLX_OK)
        end_trial(t);
    return st;
}

/* The shortest of some runs after a warm-up run. */
static rlx_status time_runs(meter *m, trial *t, double *seconds)
{
    const double begin = now();
    *seconds = 0;
    for (int i = 0; i < 3 || (i < MOST_RUNS && now() - begin < m->budget); i++) {
        const double start = now();
        RLX_TRY(rlx_session_submit(t->session, NULL, m->err));
        RLX_TRY(rlx_session_wait(t->session, 0, -1, m->err));
        const double took = now() - start;
        if (i == 1 || (i > 1 && took < *seconds))
            *seconds = took;
    }
    return RLX_OK;
}

/* The work of a run as the cost model counts it. */
static void sum_work(const trial *t, double *flops, double *bytes)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    *flops = *bytes = 0;
    for (size_t i = 0; rlx_session_step(t->session, i, &step, NULL) == RLX_OK; i++) {
        *flops += step.flops;
        *bytes += step.bytes;
    }
}

/* A time minus the latencies; never zero. */
static double net(const meter *m, double seconds, double steps)
{
    const double rest = seconds - m->found.submit - steps * m->found.dispatch;
    return rest > 0.1 * seconds ? rest : 0.1 * seconds;
}

/* ---- Latencies ------------------------------------------------------------------------------- */

/* n softmaxes of a few numbers one after another, which nothing fuses. */
static rlx_graph *make_chain(int n)
{
    rlx_graph *g = rlx_graph_create("calibrate_steps");
    if (!g)
        return NULL;
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){1, 16});
    for (int i = 0; i < n; i++)
        x = rlx_softmax(g, x, -1);
    rlx_output(g, "y", x);
    return g;
}

static rlx_status measure_latency(meter *m)
{
    double one, many;
    trial t;
    RLX_TRY(begin_trial(m, make_chain(1), RLX_POLICY_EXACT, &t));
    rlx_status st = time_runs(m, &t, &one);
    end_trial(&t);
    if (st != RLX_OK)
        return st;
    RLX_TRY(begin_trial(m, make_chain(1 + N_CHAIN), RLX_POLICY_EXACT, &t));
    st = time_runs(m, &t, &many);
    end_trial(&t);
    /* A short run that was disturbed may look longer than the chain. */
    const double least = 0.1 * many / (1 + N_CHAIN), step = (many - one) / N_CHAIN;
    m->found.dispatch = step > least ? step : least;
    one = (one < many ? one : many) - m->found.dispatch;
    m->found.submit = one > least ? one : least;
    return st;
}

/* ---- Rates ----------------------------------------------------------------------------------- */

/* A row of x . w . w for squares of n rows. */
static rlx_graph *make_product(int64_t n)
{
    rlx_graph *g = rlx_graph_create("calibrate_product");
    if (!g)
        return NULL;
    rlx_value x = rlx_param(g, "x", RLX_F32, 2, (rlx_dim[]){n, n});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){n, n});
    rlx_value y = rlx_matmul(g, rlx_matmul(g, x, w), w);
    rlx_output(g, "y", rlx_narrow(g, y, 0, 0, 1));
    return g;
}

/* A row of a + b. */
static rlx_graph *make_sum(int64_t n)
{
    rlx_graph *g = rlx_graph_create("calibrate_sum");
    if (!g)
        return NULL;
    const rlx_dim dims[] = {n / 256, 256};
    rlx_value a = rlx_param(g, "a", RLX_F32, 2, dims), b = rlx_param(g, "b", RLX_F32, 2, dims);
    rlx_output(g, "y", rlx_narrow(g, rlx_add(g, a, b), 0, 0, 1));
    return g;
}

typedef rlx_graph *make_fn(int64_t n);
typedef struct series {
    make_fn *make;
    int64_t first, last; /* sizes, each twice the one before */
    rlx_policy policy;
    double flops, bytes; /* the best rates, a second */
} series;

static void keep_best(const meter *m, const trial *t, double seconds, series *s)
{
    double flops, bytes;
    sum_work(t, &flops, &bytes);
    seconds = net(m, seconds, (double)rlx_session_n_steps(t->session));
    s->flops = flops / seconds > s->flops ? flops / seconds : s->flops;
    s->bytes = bytes / seconds > s->bytes ? bytes / seconds : s->bytes;
}

static rlx_status run_series(meter *m, series *s)
{
    double seconds = 0;
    for (int64_t n = s->first; n <= s->last && seconds < m->enough; n *= 2) {
        trial t;
        rlx_status st = begin_trial(m, s->make(n), s->policy, &t);
        if (st != RLX_OK && n > s->first)
            break; /* larger than the device allows */
        if (st == RLX_OK)
            st = time_runs(m, &t, &seconds);
        if (st == RLX_OK)
            keep_best(m, &t, seconds, s);
        end_trial(&t);
        if (st != RLX_OK)
            return st;
    }
    return RLX_OK;
}

static rlx_status measure_rates(meter *m)
{
    const int64_t most = m->largest_bytes / (int64_t)sizeof(float);
    series exact = {.make = make_product, .first = 128, .last = m->largest_gemm};
    series fast = {.make = make_product, .first = 128, .last = m->largest_gemm,
                   .policy = RLX_POLICY_FAST};
    series sum = {.make = make_sum, .first = most / 4, .last = most};
    RLX_TRY(run_series(m, &exact));
    RLX_TRY(run_series(m, &fast));
    RLX_TRY(run_series(m, &sum));
    m->found.gemm = exact.flops;
    m->found.gemm_fast = fast.flops;
    m->found.bandwidth = sum.bytes;
    return RLX_OK;
}

/* ---- Transfers ------------------------------------------------------------------------------- */

/* An input of n numbers; the output is all of it, or 256. */
static rlx_graph *make_transfer(int64_t n, bool all)
{
    rlx_graph *g = rlx_graph_create("calibrate_transfer");
    if (!g)
        return NULL;
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){n / 256, 256});
    rlx_output(g, "y", rlx_neg(g, all ? x : rlx_narrow(g, x, 0, 0, 1)));
    return g;
}

/* The shortest time of input, run and output. The input changes each time: one that is the same is
 * not uploaded again. */
static rlx_status time_transfer(meter *m, int64_t n, bool all, double *seconds)
{
    trial t;
    RLX_TRY(begin_trial(m, make_transfer(n, all), RLX_POLICY_EXACT, &t));
    const size_t bytes = (size_t)n * sizeof(float);
    float *y = rx_alloc_zero(bytes);
    rlx_status st = y ? RLX_OK : rx_fail_memory(m->err, "calibration", bytes);
    const double begin = now();
    for (int i = 0; st == RLX_OK && (i < 3 || (i < MOST_RUNS && now() - begin < m->budget)); i++) {
        const rlx_const_tensor in = {"x", t.room, bytes};
        const rlx_tensor out = {"y", y, all ? bytes : 256 * sizeof *y};
        t.room[0] = (float)i;
        const double start = now();
        st = rlx_run(t.session, &in, 1, &out, 1, m->err);
        const double took = now() - start;
        if (i == 1 || (i > 1 && took < *seconds))
            *seconds = took;
    }
    rx_free(y);
    end_trial(&t);
    return st;
}

static rlx_status measure_transfers(meter *m)
{
    const int64_t n = m->largest_bytes / 4 / (int64_t)sizeof(float);
    const double bytes = (double)n * sizeof(float);
    double up, both;
    RLX_TRY(time_transfer(m, n, false, &up));
    RLX_TRY(time_transfer(m, n, true, &both));
    const double work = 2 * bytes / m->found.bandwidth, down = both - up - work;
    m->found.upload = bytes / net(m, up, 1);
    m->found.download = bytes / (down > 0.1 * both ? down : 0.1 * both);
    return RLX_OK;
}

/* ---- Kernel variants ------------------------------------------------------------------------- */

/* Software devices are slow to make kernels ready, and there is one right shape for a CPU. */
static rlx_status measure_knobs(meter *m, const rlx_device_info *info)
{
    rx_knobs knobs = {{0}};
    if (!info->is_software && !info->is_test)
        RLX_TRY(rx_calibrate_knobs(m->device, m->largest_gemm, &knobs, m->err));
    else if (m->device->backend->set_knobs)
        m->device->backend->set_knobs(m->device->device, &knobs);
    rx_knobs_print(m->device->backend, &knobs, m->found.kernels, sizeof m->found.kernels);
    return RLX_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

rlx_status rx_calibration_measure(rlx_device *d, rlx_calibration *out, rlx_error *err)
{
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    rlx_device_get_info(d, &info, NULL);
    const bool is_cpu = !strcmp(info.backend, "cpu");
    meter m = {.device = d, .err = err, .enough = 0.004, .budget = 0.05, .largest_gemm = 4096,
               .largest_bytes = (int64_t)64 << 20};
    if (is_cpu) {
        m.largest_gemm = 1024;
        m.largest_bytes = (int64_t)32 << 20;
    } else if (info.is_software || info.is_test) {
        m.largest_gemm = 256;
        m.largest_bytes = (int64_t)16 << 20;
    }
    *out = (rlx_calibration){0};
    RLX_TRY(measure_knobs(&m, &info));
    RLX_TRY(measure_latency(&m));
    RLX_TRY(measure_rates(&m));
    RLX_TRY(measure_transfers(&m));
    m.found.measured = true;
    *out = m.found;
    return RLX_OK;
}
