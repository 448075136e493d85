/* SPDX-License-Identifier: MIT */
/* Writes the steps of benchmarks as a trace in the JSON form that Perfetto (ui.perfetto.dev) and
 * chrome://tracing read: a row for each case, a slice for each step. */
#include <stdlib.h>

#include "bench.h"
#include "trace.h"

struct bench_trace {
    report file;
    json j;
    int n_rows;
};

typedef struct recording {
    bench_trace *t;
    rlx_session *s;
    double at; /* microseconds */
} recording;

bench_trace *bench_trace_open(const char *path)
{
    bench_trace *t = cli_alloc(sizeof *t);
    if (!trace_begin(&t->file, path, "ns", &t->j)) {
        free(t);
        return NULL;
    }
    return t;
}

static void begin_event(json *j, const char *name, const char *phase, int row)
{
    json_row(j, NULL);
    json_text(j, "name", name);
    json_text(j, "ph", phase);
    json_int(j, "pid", 1);
    json_int(j, "tid", row);
}

static int add_step(void *user, const rlx_step_result *r)
{
    recording *rec = user;
    json *j = &rec->t->j;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    if (rlx_session_step(rec->s, r->step, &step, NULL) != RLX_OK)
        return 0;
    begin_event(j, step.op, "X", rec->t->n_rows);
    json_real(j, "ts", rec->at);
    json_real(j, "dur", r->seconds * 1e6);
    json_row(j, "args");
    json_text(j, "node", step.node);
    json_text(j, "kernel", step.kernel);
    json_text(j, "shapes", step.shapes);
    json_real(j, "gflops", step.flops / (r->seconds > 0 ? r->seconds : 1) * 1e-9);
    json_real(j, "gbps", step.bytes / (r->seconds > 0 ? r->seconds : 1) * 1e-9);
    json_end(j);
    json_end(j);
    rec->at += r->seconds * 1e6;
    return 0;
}

rlx_status bench_trace_add(bench_trace *t, rlx_session *s, const char *name, rlx_error *err)
{
    recording rec = {.t = t, .s = s};
    t->n_rows++;
    begin_event(&t->j, "thread_name", "M", t->n_rows);
    json_row(&t->j, "args");
    json_text(&t->j, "name", name);
    json_end(&t->j);
    json_end(&t->j);
    return rlx_session_run_steps(s, false, add_step, &rec, err);
}

int bench_trace_close(bench_trace *t)
{
    if (!t)
        return EXIT_OK;
    int status = trace_end(&t->file, &t->j) ? EXIT_OK : EXIT_FAILED;
    free(t);
    return status;
}
