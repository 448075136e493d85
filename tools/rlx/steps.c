/* SPDX-License-Identifier: MIT */
/* Single-step execution: dumps, search for NaN, profiles. */
#include "steps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

/* ---- Dump and NaN ---------------------------------------------------------------------------- */

typedef struct dump {
    const work *w;
    table t;
    json j;
    bool as_json, stop_at_nan;
    size_t n_bad;
} dump;

static void dump_row(dump *d, const rlx_step_info *step, const rlx_tensor_info *info,
                     const tensor_stats *s, size_t i)
{
    char type[TYPE_TEXT];
    type_text(info->dtype, &info->shape, type);
    if (d->as_json) {
        json_row(&d->j, NULL);
        json_int(&d->j, "step", (int64_t)i);
        json_text(&d->j, "node", step->node);
        json_text(&d->j, "op", step->op);
        json_text(&d->j, "type", type);
        json_stats(&d->j, s);
        json_end(&d->j);
        return;
    }
    table_cell(&d->t, "%zu", i);
    table_cell(&d->t, "%s", step->op);
    table_cell(&d->t, "%s", type);
    table_cell(&d->t, "%.5g", s->min);
    table_cell(&d->t, "%.5g", s->max);
    table_cell(&d->t, "%.5g", s->mean);
    table_cell(&d->t, "%.5g", s->max_abs);
    table_styled(&d->t, s->n_nan + s->n_inf ? TERM_RED : TERM_DIM, "%lld",
                 (long long)(s->n_nan + s->n_inf));
    table_cell(&d->t, "%s", step->node);
}

static int dump_step(void *user, const rlx_step_result *r)
{
    dump *d = user;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    bool bad = false;
    if (rlx_session_step(d->w->session, r->step, &step, NULL) != RLX_OK)
        return 0;
    for (size_t i = 0; i < r->n_results; i++) {
        const rlx_tensor_info *info = &r->infos[i];
        tensor_stats s = tensor_get_stats(info->dtype, r->data[i], tensor_elements(&info->shape));
        bool has_bad = s.n_nan || s.n_inf;
        bad |= has_bad;
        if (!d->stop_at_nan || has_bad)
            dump_row(d, &step, info, &s, r->step);
    }
    d->n_bad += bad;
    return bad && d->stop_at_nan;
}

static int run_dump(work *w, bool as_json, bool stop_at_nan, size_t *n_bad)
{
    dump d = {.w = w, .as_json = as_json, .stop_at_nan = stop_at_nan, .j = {.f = stdout}};
    rlx_error err = {0};
    if (as_json)
        json_array(&d.j, NULL);
    else
        table_init(&d.t, "rllrrrrrl", "step|op|result|min|max|mean|max abs|nan, inf|node");
    rlx_status st = rlx_session_run_steps(w->session, true, dump_step, &d, &err);
    *n_bad = d.n_bad;
    if (as_json)
        json_end(&d.j);
    else if (!stop_at_nan || d.n_bad)
        table_print(&d.t, 0);
    table_free(&d.t);
    return st == RLX_OK || (st == RLX_CANCELLED && d.n_bad) ? EXIT_OK : cli_error(&err);
}

int steps_dump(work *w, bool as_json)
{
    size_t n_bad;
    return run_dump(w, as_json, false, &n_bad);
}

int steps_find_nan(work *w, bool as_json)
{
    size_t n_bad;
    int status = run_dump(w, as_json, true, &n_bad);
    if (status)
        return status;
    if (!n_bad && !as_json)
        printf("no NaN and no infinity in the results of %zu steps\n",
               rlx_session_n_steps(w->session));
    return n_bad ? cli_fail("NaN or infinity: the step above is the first to give one") : EXIT_OK;
}

/* ---- Profile --------------------------------------------------------------------------------- */

typedef struct samples {
    double *seconds;      /* [steps, runs] */
    const char **kernels; /* by step */
    size_t runs, run;
} samples;

static int sample_step(void *user, const rlx_step_result *r)
{
    samples *s = user;
    s->seconds[r->step * s->runs + s->run] = r->seconds;
    s->kernels[r->step] = r->kernel;
    return 0;
}

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

step_time *steps_profile(work *w, size_t runs, size_t *n)
{
    *n = rlx_session_n_steps(w->session);
    samples s = {.runs = runs, .seconds = cli_alloc_array(*n * runs, sizeof(double)),
                 .kernels = cli_alloc_array(*n, sizeof *s.kernels)};
    rlx_error err = {0};
    rlx_status st = rlx_run(w->session, NULL, 0, NULL, 0, &err); /* warm-up */
    for (; s.run < runs && st == RLX_OK; s.run++) {
        cli_progress("profiling, run %zu of %zu", s.run + 1, runs);
        st = rlx_session_run_steps(w->session, false, sample_step, &s, &err);
    }
    cli_progress_clear();
    step_time *times = NULL;
    if (st == RLX_OK) {
        times = cli_alloc_array(*n, sizeof *times);
        for (size_t i = 0; i < *n; i++) {
            qsort(s.seconds + i * runs, runs, sizeof(double), compare_doubles);
            times[i] = (step_time){i, s.seconds[i * runs + runs / 2], s.kernels[i]};
        }
    } else {
        cli_error(&err);
    }
    free(s.seconds);
    free(s.kernels);
    return times;
}

static int slower_first(const void *a, const void *b)
{
    const step_time *x = a, *y = b;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? 1 : -1;
    return x->step < y->step ? -1 : 1;
}

void steps_print_profile(const work *w, const step_time *times, size_t n, size_t most)
{
    double total = 0;
    char time[SHORT_TEXT];
    step_time *sorted = cli_alloc_array(n, sizeof *sorted);
    if (n)
        memcpy(sorted, times, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, slower_first);
    for (size_t i = 0; i < n; i++)
        total += times[i].seconds;
    table t;
    table_init(&t, "rlrrrrll", "step|op|time|share|GFLOP/s|GB/s|kernel|shapes");
    for (size_t i = 0; i < n && i < most; i++) {
        rlx_step_info step = {RLX_INIT(rlx_step_info)};
        if (rlx_session_step(w->session, sorted[i].step, &step, NULL) != RLX_OK)
            continue;
        double s = fmax(sorted[i].seconds, 1e-12);
        table_cell(&t, "%zu", sorted[i].step);
        table_cell(&t, "%s", step.op);
        table_cell(&t, "%s", short_seconds(s, time));
        table_cell(&t, "%.1f %%", 100 * s / fmax(total, 1e-12));
        table_cell(&t, "%.2f", step.flops / s * 1e-9);
        table_cell(&t, "%.2f", step.bytes / s * 1e-9);
        table_cell(&t, "%s", sorted[i].kernel);
        table_cell(&t, "%s", step.shapes);
    }
    table_print(&t, 2);
    printf("  %zu steps, %s in all%s\n", n, short_seconds(total, time),
           n > most ? "; the slowest are shown" : "");
    free(sorted);
}

void steps_json_profile(json *j, const char *key, const work *w, const step_time *times, size_t n)
{
    json_array(j, key);
    for (size_t i = 0; i < n; i++) {
        rlx_step_info step = {RLX_INIT(rlx_step_info)};
        if (rlx_session_step(w->session, times[i].step, &step, NULL) != RLX_OK)
            continue;
        json_row(j, NULL);
        json_int(j, "step", (int64_t)times[i].step);
        json_text(j, "op", step.op);
        json_text(j, "node", step.node);
        json_text(j, "kernel", times[i].kernel);
        json_real(j, "ms", times[i].seconds * 1e3);
        json_end(j);
    }
    json_end(j);
}
