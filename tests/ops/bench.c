/* SPDX-License-Identifier: MIT */
/* Times a case on the device under test: median and best of repeated runs, with the operations and
 * bytes that the compiled program says a run takes. */
#include <stdlib.h>
#include <time.h>

#include "ops/optest.h"

#define MIN_RUNS 5
#define MAX_RUNS 200
#define MAX_SECONDS 0.2

static double now_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Submits and waits; inputs stay as they are. The first run warms up and is not counted. */
static rlx_status time_runs(rlx_session *s, double *seconds, int *n, rlx_error *err)
{
    const double start = now_seconds();
    *n = -1;
    while (*n < MIN_RUNS || (*n < MAX_RUNS && now_seconds() - start < MAX_SECONDS)) {
        const double before = now_seconds();
        uint64_t ticket;
        rlx_status status = rlx_session_submit(s, &ticket, err);
        if (!status) status = rlx_session_wait(s, ticket, -1, err);
        if (status) return status;
        if (*n >= 0) seconds[*n] = now_seconds() - before;
        ++*n;
    }
    return RLX_OK;
}

static rlx_status prepare(const ot_case *c, const ot_built *b, rlx_session *s, rlx_error *err)
{
    for (size_t i = 0; i < c->n_in; i++) {
        if (c->in[i].absent || c->in[i].leaf == OT_CONST) continue;
        char name[OT_NAME];
        snprintf(name, sizeof name, "in%zu", i);
        const ot_tensor *t = ot_stored(b, i);
        rlx_status status =
            c->in[i].leaf == OT_PARAM
                ? rlx_session_set_param(s, name, t->data, t->bytes, RLX_COPY, err)
                : rlx_session_set_input(s, name, t->data, t->bytes, err);
        if (status) return status;
    }
    return RLX_OK;
}

static void report_times(rlx_session *s, double *seconds, int n, ot_report *r)
{
    double flops = 0, bytes = 0;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    for (size_t i = 0; rlx_session_step(s, i, &step, NULL) == RLX_OK; i++) {
        flops += step.flops;
        bytes += step.bytes;
    }
    qsort(seconds, (size_t)n, sizeof *seconds, compare_doubles);
    const double median = seconds[n / 2];
    r->ms_median = median * 1e3;
    r->ms_best = seconds[0] * 1e3;
    r->gflops = median > 0 ? flops / median * 1e-9 : 0;
    r->gbps = median > 0 ? bytes / median * 1e-9 : 0;
}

void ot_bench_case(ot_env *env, ot_case *c, ot_report *r)
{
    double seconds[MAX_RUNS];
    int n = 0;
    rlx_error err = {0};
    rlx_session *s = NULL;
    ot_built *b = calloc(1, sizeof *b);
    if (!b) {
        ot_fail(r, "out of memory");
        return;
    }
    for (size_t i = 0; i < c->n_dims; i++) b->bound[i] = c->dims[i].bound;
    if (c->error[0]) {
        r->verdict = OT_SKIP;
    } else if (!ot_fill_operands(c, b)) {
        ot_fail(r, "the operands are too large");
    } else {
        ot_build_graph(c, b);
        rlx_status status = rlx_session_create(env->device, b->graph, NULL, &s, &err);
        if (!status) status = prepare(c, b, s, &err);
        if (!status) status = time_runs(s, seconds, &n, &err);
        if (status) {
            ot_report_status(env, r, "bench", status, &err);
        } else {
            report_times(s, seconds, n, r);
        }
    }
    rlx_session_destroy(s);
    ot_built_finish(c, b);
    free(b);
}
