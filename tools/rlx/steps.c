/* SPDX-License-Identifier: MIT */
/* Running one step at a time: dumps, search for NaN, comparison of devices, profiles. */
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
    rlx_step_info step;
    bool bad = false;
    if (!rlx_session_step(d->w->session, r->step, &step))
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

/* ---- Comparison ------------------------------------------------------------------------------ */

typedef struct kept {
    const char *node, *op; /* owned by the session */
    rlx_dtype dtype;
    rlx_shape shape;
    void *data;
    size_t bytes;
    bool used;
} kept;

typedef struct comparison {
    work *w;
    kept *kept;
    size_t n_kept;
    double tolerance;
    bool as_json, diverged;
    table t;
    json j;
} comparison;

static int keep_step(void *user, const rlx_step_result *r)
{
    comparison *c = user;
    rlx_step_info step;
    if (!rlx_session_step(c->w->session, r->step, &step))
        return 0;
    c->kept = cli_realloc(c->kept, (c->n_kept + r->n_results) * sizeof *c->kept);
    for (size_t i = 0; i < r->n_results; i++) {
        kept *k = &c->kept[c->n_kept++];
        *k = (kept){step.node, step.op, r->infos[i].dtype, r->infos[i].shape,
                    cli_alloc(r->infos[i].bytes), r->infos[i].bytes, false};
        if (k->bytes)
            memcpy(k->data, r->data[i], k->bytes);
    }
    return 0;
}

/* The kept result of the same node, else (unnamed nodes) the next one of the same op; type and
 * shape must agree, since a device may run a node as several steps. */
static kept *find_kept(comparison *c, const rlx_step_info *step, const rlx_tensor_info *info)
{
    for (size_t i = 0; i < c->n_kept; i++) {
        kept *k = &c->kept[i];
        bool same = step->node[0] ? !strcmp(k->node, step->node)
                                  : !k->node[0] && !strcmp(k->op, step->op);
        if (!k->used && same && k->dtype == info->dtype && shape_equal(&k->shape, &info->shape)) {
            k->used = true;
            return k;
        }
    }
    return NULL;
}

/* Largest difference, relative to the largest magnitude; infinity when only one side is finite. */
static double largest_error(const kept *a, const void *data, double *max_abs)
{
    int64_t n = tensor_elements(&a->shape), block = rlx_dtype_block_bytes(a->dtype);
    double error = 0;
    *max_abs = 0;
    for (int64_t i = 0; i < n; i++) {
        float x = 0, y = 0;
        rlx_to_float(a->dtype, (const char *)a->data + i * block, &x, 1);
        rlx_to_float(a->dtype, (const char *)data + i * block, &y, 1);
        if (x == y || (isnan(x) && isnan(y)))
            continue;
        if (!isfinite(x) || !isfinite(y))
            return INFINITY;
        error = fmax(error, fabs((double)x - y));
    }
    tensor_stats s = tensor_get_stats(a->dtype, a->data, n);
    *max_abs = error;
    return error / fmax(s.max_abs, 1e-6);
}

static void compare_row(comparison *c, const rlx_step_info *step, const rlx_tensor_info *info,
                        size_t i, const double error[2])
{
    char type[TYPE_TEXT];
    bool bad = error[0] > c->tolerance;
    type_text(info->dtype, &info->shape, type);
    if (c->as_json) {
        json_row(&c->j, NULL);
        json_int(&c->j, "step", (int64_t)i);
        json_text(&c->j, "node", step->node);
        json_text(&c->j, "op", step->op);
        json_text(&c->j, "type", type);
        json_real(&c->j, "max_error", error[1]);
        json_real(&c->j, "relative_error", error[0]);
        json_bool(&c->j, "ok", !bad);
        json_end(&c->j);
        return;
    }
    table_cell(&c->t, "%zu", i);
    table_cell(&c->t, "%s", step->op);
    table_cell(&c->t, "%s", type);
    table_cell(&c->t, "%.3g", error[1]);
    table_cell(&c->t, "%.3g", error[0]);
    table_styled(&c->t, bad ? TERM_RED : TERM_GREEN, "%s", bad ? "DIVERGES" : "ok");
    table_cell(&c->t, "%s", step->node);
}

static int compare_step(void *user, const rlx_step_result *r)
{
    comparison *c = user;
    rlx_step_info step;
    if (!rlx_session_step(c->w->session, r->step, &step))
        return 0;
    for (size_t i = 0; i < r->n_results; i++) {
        const kept *k = find_kept(c, &step, &r->infos[i]);
        if (!k)
            continue;
        double error[2];
        error[0] = largest_error(k, r->data[i], &error[1]);
        compare_row(c, &step, &r->infos[i], r->step, error);
        c->diverged |= error[0] > c->tolerance;
    }
    return c->diverged;
}

static int finish_comparison(comparison *c, rlx_status st, const rlx_error *err, const work *other)
{
    if (c->as_json)
        json_end(&c->j);
    else
        table_print(&c->t, 0);
    for (size_t i = 0; i < c->n_kept; i++)
        free(c->kept[i].data);
    free(c->kept);
    if (c->diverged)
        return cli_fail("%s and %s part at the last step above (tolerance %g)",
                        c->w->device_info.id, other->device_info.id, c->tolerance);
    return st == RLX_OK ? EXIT_OK : cli_error(err);
}

int steps_compare(work *w, work *other, double tolerance, bool as_json)
{
    comparison c = {.w = other, .tolerance = tolerance, .as_json = as_json, .j = {.f = stdout}};
    rlx_error err = {0};
    if (as_json)
        json_array(&c.j, NULL);
    else
        table_init(&c.t, "rllrrll", "step|op|result|largest error|relative|verdict|node");
    rlx_status st = rlx_session_run_steps(other->session, true, keep_step, &c, &err);
    c.w = w;
    if (st == RLX_OK)
        st = rlx_session_run_steps(w->session, true, compare_step, &c, &err);
    return finish_comparison(&c, st, &err, other);
}

/* ---- Profile --------------------------------------------------------------------------------- */

typedef struct samples {
    double *seconds; /* [steps, runs] */
    size_t runs, run;
} samples;

static int sample_step(void *user, const rlx_step_result *r)
{
    samples *s = user;
    s->seconds[r->step * s->runs + s->run] = r->seconds;
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
    samples s = {.runs = runs, .seconds = cli_alloc(*n * runs * sizeof(double))};
    rlx_error err = {0};
    rlx_status st = rlx_run(w->session, NULL, 0, NULL, 0, &err); /* warm-up */
    for (; s.run < runs && st == RLX_OK; s.run++) {
        cli_progress("profiling, run %zu of %zu", s.run + 1, runs);
        st = rlx_session_run_steps(w->session, false, sample_step, &s, &err);
    }
    cli_progress_clear();
    step_time *times = NULL;
    if (st == RLX_OK) {
        times = cli_alloc(*n * sizeof *times);
        for (size_t i = 0; i < *n; i++) {
            qsort(s.seconds + i * runs, runs, sizeof(double), compare_doubles);
            times[i] = (step_time){i, s.seconds[i * runs + runs / 2]};
        }
    } else {
        cli_error(&err);
    }
    free(s.seconds);
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
    step_time *sorted = cli_alloc(n * sizeof *sorted);
    if (n)
        memcpy(sorted, times, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, slower_first);
    for (size_t i = 0; i < n; i++)
        total += times[i].seconds;
    table t;
    table_init(&t, "rlrrrrll", "step|op|time|share|GFLOP/s|GB/s|kernel|shapes");
    for (size_t i = 0; i < n && i < most; i++) {
        rlx_step_info step;
        if (!rlx_session_step(w->session, sorted[i].step, &step))
            continue;
        double s = fmax(sorted[i].seconds, 1e-12);
        table_cell(&t, "%zu", sorted[i].step);
        table_cell(&t, "%s", step.op);
        table_cell(&t, "%s", short_seconds(s, time));
        table_cell(&t, "%.1f %%", 100 * s / fmax(total, 1e-12));
        table_cell(&t, "%.2f", step.flops / s * 1e-9);
        table_cell(&t, "%.2f", step.bytes / s * 1e-9);
        table_cell(&t, "%s", step.kernel ? step.kernel : "-");
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
        rlx_step_info step;
        if (!rlx_session_step(w->session, times[i].step, &step))
            continue;
        json_row(j, NULL);
        json_int(j, "step", (int64_t)times[i].step);
        json_text(j, "op", step.op);
        json_text(j, "node", step.node);
        json_text(j, "kernel", step.kernel);
        json_real(j, "ms", times[i].seconds * 1e3);
        json_end(j);
    }
    json_end(j);
}
