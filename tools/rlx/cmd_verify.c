/* SPDX-License-Identifier: MIT */
/* rlx verify: runs ONNX models on stored inputs and compares the outputs with stored ones, in the
 * layout of ONNX's own test suites. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "input.h"
#include "json.h"
#include "onnx_file.h"
#include "system.h"
#include "term.h"

/* The tolerances of ONNX's suite. */
#define RTOL 1e-3
#define ATOL 1e-7

typedef struct options {
    cli_common common;
    double rtol, atol;
    const char *suite, *list;
    bool quiet;
} options;

typedef enum verdict { PASSED, FAILED, SKIPPED, N_VERDICTS } verdict;
static const char *const verdict_names[] = {"passed", "failed", "skipped"};

typedef struct job {
    const options *o;
    rlx_device *device;
    double rtol, atol; /* of the model at hand */
    size_t n[N_VERDICTS];
    json j;
} job;

/* ---- Lists of names -------------------------------------------------------------------------- */

typedef struct names {
    char **v;
    size_t n;
} names;

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void add_name(names *l, char *name)
{
    l->v = cli_realloc_array(l->v, l->n + 1, sizeof *l->v);
    l->v[l->n++] = name;
}

static void free_names(names *l)
{
    for (size_t i = 0; i < l->n; i++)
        free(l->v[i]);
    free(l->v);
    *l = (names){0};
}

/* The folders in `folder` whose names begin with `prefix`, sorted. */
static names list_folders(const char *folder, const char *prefix)
{
    names l = {0};
    rx_dir *d = rx_opendir(folder);
    for (const char *name; d && (name = rx_next_name(d));)
        if (name[0] != '.' && !strncmp(name, prefix, strlen(prefix)))
            add_name(&l, cli_format("%s", name));
    if (d)
        rx_closedir(d);
    if (l.n)
        qsort(l.v, l.n, sizeof *l.v, compare_names);
    return l;
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* Reads FOLDER/KIND_j.pb for each port of the model. RLX_NOT_FOUND: there is none for it. */
static rlx_status load_tensor(const char *folder, const char *kind, size_t j, const char *name,
                              tensor *t, rlx_error *err)
{
    rlx_npy npy;
    char *path = cli_format("%s/%s_%zu.pb", folder, kind, j);
    rlx_status st = rx_access(path, R_OK) ? RLX_NOT_FOUND : rlx_onnx_load_tensor(path, &npy, err);
    if (st == RLX_NOT_FOUND)
        snprintf(err->text, sizeof err->text, "no file '%.300s'", path);
    if (st == RLX_OK)
        *t = (tensor){cli_format("%s", name), npy.dtype, npy.shape, npy.bytes, npy.data};
    free(path);
    return st;
}

/* Numbers as doubles; exact for all but large i64, which are compared by their bytes. */
static double element(const tensor *t, int64_t i)
{
    const char *p = (const char *)t->data + i * rlx_dtype_block_bytes(t->dtype);
    int64_t wide;
    int32_t narrow;
    float f = 0;
    if (t->dtype == RLX_I64) {
        memcpy(&wide, p, sizeof wide);
        return (double)wide;
    }
    if (t->dtype == RLX_I32) {
        memcpy(&narrow, p, sizeof narrow);
        return narrow;
    }
    rlx_to_float(t->dtype, p, &f, 1);
    return (double)f;
}

static bool is_near(double got, double want, double rtol, double atol)
{
    if (isnan(want) || isnan(got))
        return isnan(want) && isnan(got);
    if (isinf(want) || isinf(got))
        return want == got;
    return fabs(got - want) <= atol + rtol * fabs(want);
}

static bool compare_tensors(const job *k, const tensor *got, const tensor *want, char *why,
                            size_t room)
{
    char a[TYPE_TEXT], b[TYPE_TEXT];
    if (got->dtype != want->dtype || !shape_equal(&got->shape, &want->shape)) {
        snprintf(why, room, "output '%.80s' is %s; expected %s", want->name,
                 type_text(got->dtype, &got->shape, a), type_text(want->dtype, &want->shape, b));
        return false;
    }
    const bool real = rlx_dtype_is_float(want->dtype);
    const int64_t n = tensor_elements(&want->shape);
    int64_t wrong = 0, first = 0;
    if (!real && !memcmp(got->data, want->data, want->bytes))
        return true;
    for (int64_t i = 0; i < n; i++) {
        const double x = element(got, i), y = element(want, i);
        if (real ? is_near(x, y, k->rtol, k->atol) : x == y)
            continue;
        first = wrong++ ? first : i;
    }
    if (wrong)
        snprintf(why, room, "output '%.80s': %lld of %lld elements differ, the first at %lld: %g; "
                 "expected %g", want->name, (long long)wrong, (long long)n, (long long)first,
                 element(got, first), element(want, first));
    return !wrong;
}

/* ---- A case ---------------------------------------------------------------------------------- */

static verdict verdict_of(rlx_status st)
{
    return st == RLX_OK ? PASSED : st == RLX_UNSUPPORTED ? SKIPPED : FAILED;
}

static rlx_status read_output(rlx_session *s, const char *name, tensor *t, rlx_error *err)
{
    rlx_tensor_info info;
    for (size_t i = 0; rlx_session_leaf(s, RLX_LEAF_OUTPUT, i, &info); i++)
        if (!strcmp(info.name, name)) {
            *t = (tensor){cli_format("%s", name), info.dtype, info.shape, info.bytes,
                          cli_alloc(info.bytes + 1)};
            return rlx_session_read(s, name, 0, t->data, t->bytes, err);
        }
    snprintf(err->text, sizeof err->text, "the graph has no output '%.80s'", name);
    return RLX_NOT_FOUND;
}

static verdict check_outputs(const job *k, const rlx_onnx *m, rlx_session *s, const char *folder,
                             rlx_error *err)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    verdict v = PASSED;
    for (size_t i = 0; v == PASSED && rlx_onnx_output(m, i, &p, NULL) == RLX_OK; i++) {
        tensor want = {0}, got = {0};
        rlx_status st = load_tensor(folder, "output", i, p.name, &want, err);
        if (st == RLX_NOT_FOUND)
            break;
        if (st == RLX_OK)
            st = read_output(s, p.name, &got, err);
        v = verdict_of(st);
        if (v == PASSED && !compare_tensors(k, &got, &want, err->text, sizeof err->text))
            v = FAILED;
        tensor_free(&want);
        tensor_free(&got);
    }
    return v;
}

static rlx_status run_graph(const job *k, rlx_onnx *m, const tensor *in, size_t n, rlx_session **s,
                            rlx_error *err)
{
    rlx_graph *g = NULL;
    const onnx_inputs inputs = {in, n, NULL, 0, k->device, true};
    rlx_status st = onnx_import(m, &inputs, &g, err);
    if (st == RLX_OK)
        st = rlx_session_create(k->device, g, NULL, s, err);
    rlx_graph_destroy(g);
    if (st == RLX_OK)
        st = onnx_set_params(m, *s, err);
    for (size_t i = 0; i < n && st == RLX_OK; i++)
        if (in[i].data)
            st = rlx_session_set_input(*s, in[i].name, in[i].data, in[i].bytes, err);
    if (st == RLX_OK)
        st = rlx_run(*s, NULL, 0, NULL, 0, err);
    return st;
}

static verdict check_folder(const job *k, rlx_onnx *m, const char *folder, rlx_error *err)
{
    rlx_onnx_port p = {RLX_INIT(rlx_onnx_port)};
    tensor *in = NULL;
    size_t n = 0;
    rlx_session *s = NULL;
    rlx_status st = RLX_OK;
    while (st == RLX_OK && rlx_onnx_input(m, n, &p, NULL) == RLX_OK) {
        in = cli_realloc_array(in, n + 1, sizeof *in);
        in[n] = (tensor){0};
        if (p.dtype == RLX_NO_TYPE) {
            snprintf(err->text, sizeof err->text, "input '%.80s' is a %s, which rlx does not have",
                     p.name, p.type_name);
            st = RLX_UNSUPPORTED;
            n++;
            break;
        }
        st = load_tensor(folder, "input", n, p.name, &in[n], err);
        n++;
    }
    if (st == RLX_OK)
        st = run_graph(k, m, in, n, &s, err);
    verdict v = st == RLX_OK ? check_outputs(k, m, s, folder, err) : verdict_of(st);
    rlx_session_destroy(s);
    for (size_t i = 0; i < n; i++)
        tensor_free(&in[i]);
    free(in);
    return v;
}

static void report_case(job *k, const char *name, verdict v, const rlx_error *err)
{
    k->n[v]++;
    if (k->o->common.json) {
        json_row(&k->j, NULL);
        json_text(&k->j, "case", name);
        json_text(&k->j, "result", verdict_names[v]);
        if (v != PASSED)
            json_text(&k->j, "reason", err->text);
        json_end(&k->j);
    } else if (v == PASSED && !k->o->quiet) {
        term_line(stdout, "passed   %s", name);
    } else if (v != PASSED) {
        term_line(stdout, "%-8s %s: %s", verdict_names[v], name, err->text);
    }
}

/* ---- A model --------------------------------------------------------------------------------- */

static double json_number(const char *text, const char *key, double absent)
{
    const char *at = text ? strstr(text, key) : NULL;
    at = at ? strchr(at, ':') : NULL;
    return at ? strtod(at + 1, NULL) : absent;
}

/* Options come first, then meta.json beside the model, then the suite's own tolerances. */
static void find_tolerances(job *k, const char *model)
{
    char *path = cli_format("%.*smeta.json", (int)rx_folder_length(model), model);
    char *text = rx_access(path, R_OK) ? NULL : input_read_text(path);
    k->rtol = k->o->rtol > 0 ? k->o->rtol : json_number(text, "\"rtol\"", RTOL);
    k->atol = k->o->atol > 0 ? k->o->atol : json_number(text, "\"atol\"", ATOL);
    free(text);
    free(path);
}

/* `title` names the cases: of a suite the name of the model's folder. */
static void check_model(job *k, const char *path, const char *title, const char *const *folders,
                        size_t n)
{
    rlx_onnx *m = NULL;
    rlx_error err = {0};
    find_tolerances(k, path);
    const rlx_status st = rlx_onnx_open(path, &m, &err);
    for (size_t i = 0; i < n; i++) {
        const verdict v = st == RLX_OK ? check_folder(k, m, folders[i], &err) : verdict_of(st);
        char *name = n == 1 && title ? cli_format("%s", title)
                     : title ? cli_format("%s/%zu", title, i) : cli_format("%s", folders[i]);
        report_case(k, name, v, &err);
        free(name);
    }
    rlx_onnx_close(m);
}

static void check_suite_model(job *k, const char *suite, const char *name)
{
    char *folder = cli_format("%s/%s", suite, name), *path = cli_format("%s/model.onnx", folder);
    names sets = list_folders(folder, "test_data_set_");
    for (size_t i = 0; i < sets.n; i++) {
        char *full = cli_format("%s/%s", folder, sets.v[i]);
        free(sets.v[i]);
        sets.v[i] = full;
    }
    if (!rx_access(path, R_OK) && sets.n)
        check_model(k, path, name, (const char *const *)sets.v, sets.n);
    free_names(&sets);
    free(path);
    free(folder);
}

/* The names of --list, one a line, or all folders of the suite. */
static names suite_names(const options *o)
{
    names l = {0};
    char *text = o->list ? input_read_text(o->list) : NULL;
    if (!o->list)
        return list_folders(o->suite, "");
    for (char *line = text ? strtok(text, "\n") : NULL; line; line = strtok(NULL, "\n"))
        add_name(&l, cli_format("%.*s", (int)strcspn(line, " \t\r"), line));
    free(text);
    return l;
}

static void check_all(job *k)
{
    const options *o = k->o;
    if (!o->suite) {
        check_model(k, o->common.args.v[0], NULL, o->common.args.v + 1, o->common.args.n - 1);
        return;
    }
    names l = suite_names(o);
    for (size_t i = 0; i < l.n; i++)
        if (*l.v[i])
            check_suite_model(k, o->suite, l.v[i]);
    free_names(&l);
}

static void print_counts(job *k)
{
    if (!k->o->common.json) {
        term_line(stdout, "%zu passed, %zu failed, %zu skipped", k->n[PASSED], k->n[FAILED],
                  k->n[SKIPPED]);
        return;
    }
    json_end(&k->j);
    for (int v = 0; v < N_VERDICTS; v++)
        json_int(&k->j, verdict_names[v], (int64_t)k->n[v]);
    json_end(&k->j);
}

static int run_verify(void *record)
{
    const options *o = record;
    const char *id;
    job k = {.o = o, .j = {.f = stdout}};
    if (o->suite ? o->common.args.n > 0 : o->common.args.n < 2)
        return cli_usage(o->suite ? "--suite takes the place of MODEL.onnx and DIR"
                                  : "expected MODEL.onnx and at least one DIR, or --suite DIR");
    int status = cli_one_device(&o->common, &id);
    if (status)
        return status;
    k.device = cli_open_device(&o->common, id ? id : "auto");
    if (!k.device)
        return EXIT_FAILED;
    if (o->common.json) {
        json_object(&k.j, NULL);
        json_array(&k.j, "cases");
    }
    check_all(&k);
    print_counts(&k);
    rlx_device_close(k.device);
    if (!k.n[PASSED] && !k.n[FAILED] && !k.n[SKIPPED])
        return cli_fail("there is nothing to verify in '%s': expected NAME/model.onnx with "
                        "NAME/test_data_set_0", o->suite);
    return k.n[FAILED] || !k.n[PASSED] ? EXIT_FAILED : EXIT_OK;
}

static const cli_option verify_options[] = {
    {"rtol", CLI_REAL, offsetof(options, rtol), "R",
     "relative tolerance (default: meta.json beside the model, else 0.001)"},
    {"atol", CLI_REAL, offsetof(options, atol), "A",
     "absolute tolerance (default: meta.json beside the model, else 1e-7)"},
    {"suite", CLI_TEXT, offsetof(options, suite), "DIR",
     "check every DIR/NAME/model.onnx with its folders test_data_set_N"},
    {"list", CLI_TEXT, offsetof(options, list), "FILE",
     "of the suite, only the names in FILE, one a line"},
    {"quiet", CLI_FLAG, offsetof(options, quiet), NULL, "no lines for cases that pass"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_verify = {
    .name = "verify",
    .args = "MODEL.onnx DIR...",
    .summary = "run an ONNX model on stored inputs and compare its outputs",
    .run = run_verify,
    .options = verify_options,
    .record_bytes = sizeof(options),
    .max_args = -1,
    .details =
        "Each DIR holds input_0.pb, input_1.pb, ... and output_0.pb, ..., tensors as ONNX's test\n"
        "suites have them. A case is skipped when the model needs what rlx does not support; the\n"
        "line says what. Exit status 0: none failed and at least one passed.",
    .examples = "  rlx verify model.onnx test_data_set_0 test_data_set_1\n"
                "  rlx verify --suite node --device vulkan --quiet",
};
