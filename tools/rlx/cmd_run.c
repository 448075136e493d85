/* SPDX-License-Identifier: MIT */
/* rlx run: runs a graph in text form with inputs from files or made up, and shows or stores what
 * comes out. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "steps.h"
#include "system.h"
#include "term.h"
#include "work.h"

#define PROFILE_RUNS 5
#define TOLERANCE 1e-3

typedef struct options {
    cli_common common;
    work_options work;
    cli_list outputs;
    const char *output_dir;
    int64_t repeat;
    bool dump_nodes, find_nan, profile;
    const char *compare;
    double tolerance;
} options;

/* ---- Results --------------------------------------------------------------------------------- */

typedef struct timing {
    size_t n;
    double median, best;
} timing;

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int run_repeatedly(work *w, size_t n, timing *t)
{
    double *seconds = cli_alloc_array(n, sizeof *seconds);
    rlx_error err = {0};
    rlx_status st = RLX_OK;
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        if (n > 1)
            cli_progress("run %zu of %zu", i + 1, n);
        double begin = cli_now();
        st = rlx_run(w->session, NULL, 0, NULL, 0, &err);
        seconds[i] = cli_now() - begin;
    }
    cli_progress_clear();
    qsort(seconds, n, sizeof *seconds, compare_doubles);
    *t = (timing){n, seconds[n / 2], seconds[0]};
    free(seconds);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

static void print_output(const tensor *t, const char *file)
{
    char type[TYPE_TEXT];
    char *name = term_escape(t->name, strlen(t->name), false);
    printf("%s%s%s: %s", term_style(stdout, TERM_BOLD), name, term_style(stdout, TERM_PLAIN),
           type_text(t->dtype, &t->shape, type));
    free(name);
    if (file) {
        term_line(stdout, " -> %s", file);
        return;
    }
    tensor_stats s = tensor_get_stats(t->dtype, t->data, tensor_elements(&t->shape));
    printf("%s  min %.5g, max %.5g, mean %.5g", term_style(stdout, TERM_DIM), s.min, s.max, s.mean);
    if (s.n_nan || s.n_inf)
        printf(", %lld NaN, %lld infinite", (long long)s.n_nan, (long long)s.n_inf);
    printf("%s\n", term_style(stdout, TERM_PLAIN));
    tensor_print(t);
}

static void json_output(json *j, const tensor *t, const char *file)
{
    tensor_stats s = tensor_get_stats(t->dtype, t->data, tensor_elements(&t->shape));
    json_object(j, NULL);
    json_text(j, "name", t->name);
    json_text(j, "dtype", rlx_dtype_name(t->dtype));
    json_shape(j, "shape", &t->shape);
    json_stats(j, &s);
    if (file)
        json_text(j, "file", file);
    json_end(j);
}

/* The file of an output, to be freed: of --output, else in --output-dir; NULL: none. */
static char *output_file(const options *o, const char *name)
{
    const char *file = work_find(&o->outputs, name);
    if (file || !o->output_dir)
        return file ? cli_format("%s", file) : NULL;
    char *path = cli_format("%s/%s.npy", o->output_dir, name);
    for (char *c = path + strlen(o->output_dir) + 1; *c; c++)
        if (*c == '/')
            *c = '_';
    return path;
}

/* Stores, prints or lists each output. */
static int show_outputs(work *w, const options *o, json *j)
{
    rlx_leaf_info leaf;
    if (o->output_dir && rx_mkdir(o->output_dir, 0777) && errno != EEXIST)
        return cli_fail("cannot make the folder '%s': %s", o->output_dir, strerror(errno));
    for (size_t i = 0; rlx_graph_leaf(w->graph, RLX_LEAF_OUTPUT, i, &leaf); i++) {
        char *file = output_file(o, leaf.name);
        if (o->outputs.n && !file && !j)
            continue;
        tensor t = work_read_output(w, i);
        if (!t.data) {
            free(file);
            return EXIT_FAILED;
        }
        bool ok = !file || tensor_write_npy(&t, file);
        if (ok && j)
            json_output(j, &t, file);
        else if (ok)
            print_output(&t, file);
        free(file);
        tensor_free(&t);
        if (!ok)
            return EXIT_FAILED;
    }
    return EXIT_OK;
}

static void warn_flags(work *w)
{
    static const struct {
        uint32_t flag;
        const char *text;
    } known[] = {
        {RLX_FLAG_INDEX_CLAMPED, "an index was out of range and was clamped"},
        {RLX_FLAG_STATE_RANGE, "a position outside of a state was skipped"},
        {RLX_FLAG_NARROWED, "an i64 did not fit the i32 of the device"},
    };
    uint32_t flags = rlx_session_flags(w->session);
    for (size_t i = 0; i < ARRAY_LEN(known); i++)
        if (flags & known[i].flag)
            cli_warn("%s", known[i].text);
}

static int print_results(work *w, const options *o, const timing *t)
{
    char median[SHORT_TEXT], best[SHORT_TEXT];
    if (!o->common.json) {
        int status = show_outputs(w, o, NULL);
        if (!status && t->n > 1)
            printf("%zu runs on %s: median %s, best %s\n", t->n, w->device_info.id,
                   short_seconds(t->median, median), short_seconds(t->best, best));
        return status;
    }
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "graph", rlx_graph_name(w->graph));
    json_text(&j, "device", w->device_info.id);
    json_int(&j, "runs", (int64_t)t->n);
    json_real(&j, "ms_median", t->median * 1e3);
    json_real(&j, "ms_best", t->best * 1e3);
    json_array(&j, "outputs");
    int status = show_outputs(w, o, &j);
    json_end(&j);
    json_end(&j);
    return status;
}

/* ---- The other ways to run ------------------------------------------------------------------- */

static int compare_devices(work *w, const options *o)
{
    cli_common common = o->common;
    const char *ids[] = {o->compare};
    common.device = (cli_list){ids, 1};
    work other;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fusion = true};
    int status = work_open(&other, &common, &o->work, w->path, &desc);
    if (!status)
        status = work_set_leaves(&other, &o->work);
    if (!status)
        status = steps_compare(w, &other, o->tolerance ? o->tolerance : TOLERANCE, o->common.json);
    work_close(&other);
    return status;
}

static int show_profile(work *w, const options *o)
{
    size_t n;
    step_time *times = steps_profile(w, o->repeat > 1 ? (size_t)o->repeat : PROFILE_RUNS, &n);
    if (!times)
        return EXIT_FAILED;
    if (o->common.json) {
        json j = {.f = stdout};
        steps_json_profile(&j, NULL, w, times, n);
    } else {
        steps_print_profile(w, times, n, 40);
    }
    free(times);
    return EXIT_OK;
}

static int run_opened(work *w, const options *o)
{
    timing t;
    if (o->compare)
        return compare_devices(w, o);
    if (o->dump_nodes)
        return steps_dump(w, o->common.json);
    if (o->find_nan)
        return steps_find_nan(w, o->common.json);
    if (o->profile)
        return show_profile(w, o);
    int status = run_repeatedly(w, o->repeat ? (size_t)o->repeat : 1, &t);
    if (!status)
        status = print_results(w, o, &t);
    if (!status)
        warn_flags(w);
    return status;
}

static int run_run(void *record)
{
    const options *o = record;
    work w = {0};
    int modes = (o->compare != NULL) + o->dump_nodes + o->find_nan + o->profile;
    if (modes > 1)
        return cli_usage("only one of --compare, --dump-nodes, --find-nan and --profile");
    if (modes && (o->outputs.n || o->output_dir))
        return cli_usage("--output does not go with --compare, --dump-nodes, --find-nan or "
                         "--profile");
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .keep_all = o->dump_nodes,
                             .no_fusion = o->compare != NULL};
    work_options given = o->work;
    given.once = !modes && o->repeat <= 1; /* else its time is to be that of the whole */
    int status = work_open(&w, &o->common, &given, o->common.args.v[0], &desc);
    if (!status)
        status = work_check_names(&w, &o->outputs, RLX_LEAF_OUTPUT, "output");
    if (!status)
        status = work_set_leaves(&w, &o->work);
    if (!status)
        status = run_opened(&w, o);
    work_close(&w);
    return status;
}

static const cli_option run_options[] = {
    WORK_OPTIONS(options, work),
    {"output", CLI_LIST, offsetof(options, outputs), "NAME=FILE",
     "store an output as a NumPy file (default: print a preview of all)"},
    {"output-dir", CLI_TEXT, offsetof(options, output_dir), "DIR",
     "store every output as DIR/NAME.npy ('/' in a name becomes '_'); DIR is made"},
    {"repeat", CLI_NUMBER, offsetof(options, repeat), "N",
     "run N times (state goes on from run to run) and print the times"},
    {"dump-nodes", CLI_FLAG, offsetof(options, dump_nodes), NULL,
     "print shape, min, max, mean and NaN count of each step's results"},
    {"find-nan", CLI_FLAG, offsetof(options, find_nan), NULL,
     "find the first step that gives a NaN or an infinity"},
    {"compare", CLI_TEXT, offsetof(options, compare), "DEVICE",
     "find the first step or output that differs from another device (unfused on both)"},
    {"tolerance", CLI_REAL, offsetof(options, tolerance), "T",
     "of --compare, relative to the largest magnitude (default 0.001)"},
    {"profile", CLI_FLAG, offsetof(options, profile), NULL, "print the time of each step"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_run = {
    .name = "run",
    .args = "GRAPH",
    .summary = "run a graph or an ONNX model with given or random inputs",
    .run = run_run,
    .options = run_options,
    .record_bytes = sizeof(options),
    .min_args = 1,
    .max_args = 1,
    .details = "GRAPH is the text form of a graph ('-': standard input), what 'rlx compile' has\n"
               "stored for this device, or an ONNX model (.onnx), whose weights are in its file;\n"
               "inputs that are not given are random then, and dimensions without a size are 1.\n"
               "Files are NumPy's.",
    .examples =
        "  rlx run mlp.rlx --random-params --input x=ones\n"
        "  rlx run mlp.rlx --param-dir weights --input x=x.npy --output y=y.npy\n"
        "  rlx run model.onnx --input x=x.npy --output-dir out\n"
        "  rlx run attention.rlx --random-params --random-inputs=7 --dim seq=17\n"
        "  rlx run mlp.rlx --random-params --random-inputs --device vulkan --compare ref",
};
