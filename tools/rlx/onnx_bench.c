/* SPDX-License-Identifier: MIT */
/* rlx bench MODEL.onnx: the time of a run with random inputs. */
#include <stdlib.h>

#include "json.h"
#include "onnx_file.h"
#include "term.h"
#include "work.h"

#define WARM_RUNS 3
#define MAX_RUNS 100000

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs for `seconds` and at least five times; times are sorted. NULL after printing why not. */
static double *measure(work *w, double seconds, size_t *n)
{
    double *times = cli_alloc_array(MAX_RUNS, sizeof *times);
    rlx_error err = {0};
    double spent = 0;
    *n = 0;
    for (size_t i = 0; i < MAX_RUNS && (*n < 5 || spent < seconds); i++) {
        const double begin = cli_now();
        if (rlx_run(w->session, NULL, 0, NULL, 0, &err) != RLX_OK) {
            cli_error(&err);
            free(times);
            return NULL;
        }
        const double time = cli_now() - begin;
        spent += i >= WARM_RUNS ? time : 0;
        if (i >= WARM_RUNS)
            times[(*n)++] = time;
    }
    qsort(times, *n, sizeof *times, compare_doubles);
    return times;
}

static void report(const work *w, const double *times, size_t n, double first, bool as_json)
{
    char median[SHORT_TEXT], best[SHORT_TEXT], ready[SHORT_TEXT];
    if (!as_json) {
        term_line(stdout, "%s on %s: median %s, best %s of %zu runs; ready after %s", w->path,
                  w->device_info.id, short_seconds(times[n / 2], median),
                  short_seconds(times[0], best), n, short_seconds(first, ready));
        return;
    }
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "file", w->path);
    json_text(&j, "device", w->device_info.id);
    json_int(&j, "runs", (int64_t)n);
    json_real(&j, "ms_median", times[n / 2] * 1e3);
    json_real(&j, "ms_best", times[0] * 1e3);
    json_real(&j, "ms_ready", first * 1e3);
    json_end(&j);
}

int onnx_bench(const char *path, const cli_common *common, const cli_list *dims, const char *policy,
               double seconds)
{
    const work_options o = {.dims = *dims, .policy = policy, .random_inputs = {.given = true}};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    work w = {0};
    const double begin = cli_now();
    size_t n = 0;
    int status = work_open(&w, common, &o, path, &desc);
    if (!status)
        status = work_set_leaves(&w, &o);
    const double ready = cli_now() - begin;
    double *times = status ? NULL : measure(&w, seconds, &n);
    if (times)
        report(&w, times, n, ready, common->json);
    free(times);
    work_close(&w);
    return status ? status : times ? EXIT_OK : EXIT_FAILED;
}
