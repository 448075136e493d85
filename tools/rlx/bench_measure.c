/* SPDX-License-Identifier: MIT */
/* Measures one case on one device. Inputs and weights are set before; a run is one call, on a GPU
 * one submit. Short runs are timed in batches, above the resolution of the clock. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tensor.h"

#define MIN_SAMPLE 1e-3  /* seconds: shorter runs are put together */
#define MAX_INNER 256
#define MIN_SAMPLES 5
#define MAX_SAMPLES 2000
#define HEAT 0.4         /* seconds of work until a GPU has raised its clocks */

/* Indices in no order over the whole axis: those in order, or a few, would find all in caches. */
static void fill_indices(tensor *t, int64_t limit)
{
    int32_t *data = t->data;
    for (int64_t i = 0; i < tensor_elements(&t->shape); i++)
        data[i] = (int32_t)((((uint64_t)i + 1) * 0x9e3779b97f4a7c15u >> 33) % (uint64_t)limit);
}

static void fill_leaf(const bench_case *c, tensor *t, bool param)
{
    int32_t first, *data = t->data;
    if (c->index_limit > 0 && !strncmp(t->name, "index", 5)) {
        fill_indices(t, c->index_limit);
        return;
    }
    if (param || !bench_model_counts(c, t->name, &first)) {
        tensor_fill_random(t, param ? FILL_PARAM : FILL_INPUT, 1);
        return;
    }
    for (int64_t i = 0; i < tensor_elements(&t->shape); i++)
        data[i] = first + (int32_t)i;
}

static rlx_status set_leaves(const bench_run *run, rlx_leaf kind, double *bytes, rlx_error *err)
{
    rlx_session *s = run->session;
    rlx_tensor_info info;
    rlx_status st = RLX_OK;
    for (size_t i = 0; st == RLX_OK && rlx_session_leaf(s, kind, i, &info); i++) {
        *bytes += (double)info.bytes;
        if (kind == RLX_LEAF_OUTPUT)
            continue;
        bool param = kind == RLX_LEAF_PARAM;
        tensor t = {cli_format("%s", info.name), info.dtype, info.shape, info.bytes,
                    cli_alloc(info.bytes)};
        fill_leaf(&run->r.c, &t, param);
        st = param ? rlx_session_set_param(s, t.name, t.data, t.bytes, RLX_COPY, err)
                   : rlx_session_set_input(s, t.name, t.data, t.bytes, err);
        tensor_free(&t);
    }
    return st;
}

rlx_status bench_sample(bench_run *run, size_t inner, double *seconds, rlx_error *err)
{
    rlx_status st = RLX_OK;
    double begin = cli_now();
    for (size_t i = 0; i < inner && st == RLX_OK; i++)
        st = run->gpu ? rlx_session_submit(run->session, NULL, err)
                      : rlx_run(run->session, NULL, 0, NULL, 0, err);
    if (st == RLX_OK && run->gpu)
        st = rlx_session_wait(run->session, 0, -1, err);
    *seconds = (cli_now() - begin) / (double)inner;
    return st;
}

bool bench_is_gpu(const rlx_device_info *d)
{
    bool driver = !strcmp(d->backend, "vulkan") || !strcmp(d->backend, "webgpu");
    return driver && !d->is_software;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static rlx_status take_samples(bench_run *run, const bench_options *o, rlx_error *err)
{
    bench_result *r = &run->r;
    static double samples[MAX_SAMPLES];
    double one, best = INFINITY;
    rlx_status st = RLX_OK;
    double begin = cli_now();
    for (int i = 0; i < 3 && st == RLX_OK; i++) { /* warm-up: pipelines, pages, caches */
        st = bench_sample(run, 1, &one, err);
        best = fmin(best, one);
        if (cli_now() - begin > o->min_time)
            break;
    }
    begin = cli_now();
    while (st == RLX_OK && cli_now() - begin < run->heat)
        st = bench_sample(run, 8, &one, err);
    best = fmin(best, one);
    r->inner = (size_t)fmin(MAX_INNER, fmax(1, ceil(MIN_SAMPLE / fmax(best, 1e-9))));
    size_t n = 0;
    begin = cli_now();
    while (st == RLX_OK && n < MAX_SAMPLES &&
           (n < MIN_SAMPLES || cli_now() - begin < o->min_time)) {
        st = bench_sample(run, r->inner, &samples[n], err);
        n++;
    }
    if (st != RLX_OK)
        return st;
    qsort(samples, n, sizeof *samples, compare_doubles);
    r->samples = n;
    r->ms_median = samples[n / 2] * 1e3 / (double)o->copies;
    r->ms_best = samples[0] * 1e3 / (double)o->copies;
    r->spread = (samples[n * 9 / 10] - samples[n / 10]) / fmax(samples[n / 2], 1e-12);
    return RLX_OK;
}

/* What one run does: flops of the steps and bytes of the tensors, where the case does not say. */
static void count_work(bench_run *run, double tensor_bytes, size_t copies)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    bench_case *c = &run->r.c;
    double flops = 0;
    for (size_t i = 0; rlx_session_step(run->session, i, &step, NULL) == RLX_OK; i++)
        flops += step.flops;
    c->flops = c->flops > 0 ? c->flops : flops / (double)copies;
    c->bytes = c->bytes > 0 ? c->bytes : tensor_bytes / (double)copies;
}

int bench_open(rlx_device *d, const bench_case *c, const bench_options *o, bench_run *run)
{
    rlx_error err = {0};
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    double bytes = 0;
    *run = (bench_run){.r = {.c = *c}};
    rlx_device_get_info(d, &info, NULL);
    memcpy(run->r.device, info.id, sizeof run->r.device);
    memcpy(run->r.device_name, info.name, sizeof run->r.device_name);
    run->gpu = bench_is_gpu(&info);
    run->heat = run->gpu ? HEAT : 0;
    run->graph = bench_build(&run->r.c, o->copies, o->chain);
    if (!run->graph)
        return EXIT_FAILED;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fold = true,
                             .policy = o->policy};
    rlx_status st = rlx_session_create(d, run->graph, &desc, &run->session, &err);
    static const rlx_leaf kinds[] = {RLX_LEAF_PARAM, RLX_LEAF_INPUT, RLX_LEAF_OUTPUT};
    for (size_t i = 0; i < ARRAY_LEN(kinds) && st == RLX_OK; i++)
        st = set_leaves(run, kinds[i], &bytes, &err);
    if (st == RLX_OK) {
        count_work(run, bytes, o->copies);
        return EXIT_OK;
    }
    bench_close(run);
    return cli_fail("'%s' on %s: %s", c->name, info.id, err.text);
}

void bench_close(bench_run *run)
{
    rlx_session_destroy(run->session);
    rlx_graph_destroy(run->graph);
    run->session = NULL;
    run->graph = NULL;
}

int bench_measure(rlx_device *d, const bench_case *c, const bench_options *o, bench_result *out)
{
    bench_run run;
    rlx_error err = {0};
    int status = bench_open(d, c, o, &run);
    if (status)
        return status;
    rlx_status st = take_samples(&run, o, &err);
    if (st == RLX_OK && o->trace)
        st = bench_trace_add(o->trace, run.session, c->name, &err);
    *out = run.r;
    double seconds = fmax(out->ms_median * 1e-3, 1e-12);
    out->gflops = out->c.flops / seconds * 1e-9;
    out->gbps = out->c.bytes / seconds * 1e-9;
    bench_close(&run);
    return st == RLX_OK ? EXIT_OK : cli_fail("'%s' on %s: %s", c->name, out->device, err.text);
}
