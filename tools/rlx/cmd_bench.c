/* SPDX-License-Identifier: MIT */
/* rlx bench: measures operations by name on one device or several. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"
#include "llm.h"
#include "onnx_file.h"
#include "system.h"
#include "term.h"

#define MIN_TIME 0.3

typedef struct options {
    cli_common common;
    const char *suite, *plot, *trace, *model, *sequences;
    int64_t prompt;
    int64_t tokens, guesses;
    const char *draft, *gpu_layers;
    double min_time;
    const char *policy;
    bool list, chain, pipe, profile;
    int64_t copies;
    cli_list dims;
} options;

typedef struct bench {
    bench_case *cases;
    bench_result *results;
    rlx_device **devices;
    size_t n_cases, n_results, n_devices;
} bench;

/* ---- Which cases and devices ----------------------------------------------------------------- */

static int add_case(bench *b, const char *text)
{
    b->cases = cli_realloc_array(b->cases, b->n_cases + 1, sizeof *b->cases);
    return bench_parse(&b->cases[b->n_cases++], text);
}

/* A name, or a pattern that picks from the suite. */
static int add_cases(bench *b, const char *text)
{
    if (!strpbrk(text, "*?"))
        return add_case(b, text);
    size_t before = b->n_cases;
    const char *name;
    for (size_t i = 0; (name = bench_suite(i)) != NULL; i++)
        if (system_matches(text, name)) {
            int status = add_case(b, name);
            if (status)
                return status;
        }
    return b->n_cases > before ? EXIT_OK
                               : cli_usage("'%s' matches no case of the suite ('rlx bench --list' "
                                           "shows it)", text);
}

static int choose_cases(bench *b, const options *o)
{
    bool models = o->suite && !strcmp(o->suite, "models");
    if (o->suite && !models && strcmp(o->suite, "ops"))
        return cli_usage("--suite expected ops or models, got '%s'", o->suite);
    if (!o->suite && !o->common.args.n)
        return cli_usage("expected cases such as matmul:f32:1024x1024x1024, or --suite ops");
    int status = o->suite && !models ? add_cases(b, "*") : EXIT_OK;
    for (size_t i = 0; models && !status && bench_model_suite(i); i++)
        status = add_case(b, bench_model_suite(i));
    for (size_t i = 0; i < o->common.args.n && !status; i++)
        status = add_cases(b, o->common.args.v[i]);
    return status;
}

static int open_device(bench *b, const options *o, const char *id)
{
    rlx_device *d = cli_open_device(&o->common, id);
    if (!d)
        return EXIT_FAILED;
    b->devices = cli_realloc_array(b->devices, b->n_devices + 1, sizeof(rlx_device *));
    b->devices[b->n_devices++] = d;
    return EXIT_OK;
}

/* --device may be repeated and may hold a list with commas. */
static int open_devices(bench *b, const options *o)
{
    int status = o->common.device.n ? EXIT_OK : open_device(b, o, NULL);
    for (size_t i = 0; i < o->common.device.n; i++) {
        const char *at = o->common.device.v[i];
        while (*at && !status) {
            size_t n = strcspn(at, ",");
            char *id = cli_format("%.*s", (int)n, at);
            status = open_device(b, o, id);
            free(id);
            at += n + (at[n] == ',');
        }
    }
    return status;
}

static bool is_listed(const options *o, const char *name)
{
    bool match = !o->common.args.n;
    for (size_t k = 0; k < o->common.args.n && !match; k++)
        match = system_matches(o->common.args.v[k], name);
    return match;
}

static int print_list_json(const options *o)
{
    const char *name;
    json j = {.f = stdout};
    json_array(&j, NULL);
    for (size_t i = 0; (name = bench_suite(i)) != NULL; i++) {
        if (!is_listed(o, name))
            continue;
        json_row(&j, NULL);
        json_text(&j, "case", name);
        json_end(&j);
    }
    json_end(&j);
    return EXIT_OK;
}

static int print_list(const options *o)
{
    const char *name;
    if (o->common.json)
        return print_list_json(o);
    if (!o->common.args.n) {
        bench_print_forms();
        puts("\nThe suite \"ops\":\n");
    }
    for (size_t i = 0; (name = bench_suite(i)) != NULL; i++)
        if (is_listed(o, name))
            printf("%s%s\n", o->common.args.n ? "" : "  ", name);
    return EXIT_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void print_json(const bench *b)
{
    json j = {.f = stdout};
    json_array(&j, NULL);
    for (size_t i = 0; i < b->n_results; i++) {
        const bench_result *r = &b->results[i];
        json_row(&j, NULL);
        json_text(&j, "case", r->c.name);
        json_text(&j, "device", r->device);
        json_real(&j, "ms_median", r->ms_median);
        json_real(&j, "ms_best", r->ms_best);
        json_real(&j, "gflops", r->gflops);
        json_real(&j, "gbps", r->gbps);
        json_real(&j, "spread", r->spread);
        json_int(&j, "samples", (int64_t)r->samples);
        json_int(&j, "runs_per_sample", (int64_t)r->inner);
        json_real(&j, "flops", r->c.flops);
        json_real(&j, "bytes", r->c.bytes);
        json_end(&j);
    }
    json_end(&j);
}

static void print_table(const bench *b)
{
    table t;
    char median[SHORT_TEXT], best[SHORT_TEXT];
    table_init(&t, "llrrrrr", "case|device|median|best|spread|GFLOP/s|GB/s");
    for (size_t i = 0; i < b->n_results; i++) {
        const bench_result *r = &b->results[i];
        table_cell(&t, "%s", r->c.name);
        table_cell(&t, "%s", r->device);
        table_styled(&t, TERM_BOLD, "%s", short_seconds(r->ms_median * 1e-3, median));
        table_cell(&t, "%s", short_seconds(r->ms_best * 1e-3, best));
        table_styled(&t, r->spread > 0.2 ? TERM_YELLOW : TERM_DIM, "%.0f %%", 100 * r->spread);
        table_cell(&t, "%.2f", r->gflops);
        table_cell(&t, "%.2f", r->gbps);
    }
    table_print(&t, 0);
}

/* Every case on every device; a case that fails does not stop the others. */
static int measure_all(bench *b, const options *o, rlx_policy policy)
{
    bench_options how = {.min_time = o->min_time > 0 ? o->min_time : MIN_TIME, .policy = policy,
                         .copies = o->copies > 0 ? (size_t)o->copies : 1, .chain = o->chain};
    if (o->trace && !(how.trace = bench_trace_open(o->trace)))
        return EXIT_FAILED;
    size_t total = b->n_cases * b->n_devices, done = 0;
    int status = EXIT_OK;
    b->results = cli_alloc_array(total, sizeof *b->results);
    for (size_t c = 0; c < b->n_cases; c++)
        for (size_t d = 0; d < b->n_devices; d++) {
            cli_progress("[%zu/%zu] %s", ++done, total, b->cases[c].name);
            if (bench_measure(b->devices[d], &b->cases[c], &how, &b->results[b->n_results]))
                status = EXIT_FAILED;
            else
                b->n_results++;
        }
    cli_progress_clear();
    int written = bench_trace_close(how.trace);
    return status ? status : written;
}

static int bench_model(const options *o)
{
    bench_file_options f = {.prompt = o->prompt ? o->prompt : o->sequences ? 128 : 512,
                            .tokens = o->tokens ? o->tokens : o->sequences ? 64 : 128,
                            .json = o->common.json, .threads = (uint32_t)o->common.threads};
    if (o->common.args.n)
        return cli_usage("--model expected no cases, got '%s'", o->common.args.v[0]);
    int status = cli_policy(o->policy, RLX_POLICY_AUTO, &f.policy);
    if (status)
        return status;
    status = llm_gpu_layers(o->gpu_layers, &f.gpu_layers);
    if (status >= 0)
        return status;
    f.device = o->common.device.n ? o->common.device.v[0] : NULL;
    char *path = cli_model_path(o->model);
    if (!path)
        return EXIT_FAILED;
    f.path = path;
    f.guesses = o->guesses;
    char *draft = o->draft ? cli_model_path(o->draft) : NULL;
    if (o->draft && !draft) {
        free(path);
        return EXIT_FAILED;
    }
    f.draft = draft;
    status = o->sequences ? bench_sequences(&f, o->sequences, o->plot, o->profile)
                          : bench_file(&f);
    free(path);
    free(draft);
    return status;
}

static int answer_requests(const options *o)
{
    const char *id = NULL;
    int status = cli_one_device(&o->common, &id);
    if (status)
        return status;
    rlx_device *d = cli_open_device(&o->common, id);
    status = d ? bench_pipe(d, id, (uint32_t)o->common.threads) : EXIT_FAILED;
    rlx_device_close(d);
    return status;
}

/* What is measured: options that mean nothing to it are refused. */
enum { OF_CASES = 1, OF_MODEL = 2, OF_SEQUENCES = 4, OF_ONNX = 8 };

static int check_options(const options *o, int what)
{
    const struct {
        const char *name;
        bool given;
        int with;
        const char *needs;
    } rows[] = {
        {"suite", o->suite, OF_CASES, "no model"},
        {"plot", o->plot, OF_CASES | OF_SEQUENCES, "cases, or with --model --sequences LIST"},
        {"trace", o->trace, OF_CASES, "cases"},
        {"prompt-tokens", o->prompt > 0, OF_MODEL | OF_SEQUENCES, "--model"},
        {"tokens", o->tokens > 0, OF_MODEL | OF_SEQUENCES, "--model"},
        {"sequences", o->sequences, OF_SEQUENCES, "--model"},
        {"gpu-layers", o->gpu_layers, OF_MODEL | OF_SEQUENCES, "--model"},
        {"draft", o->draft, OF_SEQUENCES, "--model --sequences LIST"},
        {"guesses", o->guesses > 0, OF_SEQUENCES, "--model --sequences LIST"},
        {"profile", o->profile, OF_SEQUENCES, "--model --sequences LIST"},
        {"min-time", o->min_time > 0, OF_CASES | OF_ONNX, "cases and ONNX models"},
        {"copies", o->copies > 0, OF_CASES, "cases"},
        {"chain", o->chain, OF_CASES, "cases"},
        {"dim", o->dims.n, OF_ONNX, "an ONNX model"},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].given && !(rows[i].with & what))
            return cli_usage("--%s has no effect here; it goes with %s", rows[i].name,
                             rows[i].needs);
    return EXIT_OK;
}

static int run_bench(void *record)
{
    options *o = record;
    bench b = {0};
    if (o->list)
        return print_list(o);
    const bool onnx = o->common.args.n == 1 && is_onnx(o->common.args.v[0]);
    if (!o->model && !onnx && o->common.args.n == 1 && cli_is_model(o->common.args.v[0]))
        o->model = cli_shift(&o->common);
    int status = check_options(o, o->model ? o->sequences ? OF_SEQUENCES : OF_MODEL
                                  : onnx   ? OF_ONNX
                                           : OF_CASES);
    if (status)
        return status;
    if (o->model)
        return bench_model(o);
    if (o->pipe)
        return answer_requests(o);
    if (onnx)
        return onnx_bench(o->common.args.v[0], &o->common, &o->dims, o->policy,
                          o->min_time > 0 ? o->min_time : MIN_TIME);
    rlx_policy policy;
    status = cli_policy(o->policy, RLX_POLICY_EXACT, &policy);
    if (!status)
        status = choose_cases(&b, o);
    if (!status)
        status = open_devices(&b, o);
    if (!status) {
        status = measure_all(&b, o, policy);
        if (o->common.json)
            print_json(&b);
        else if (b.n_results)
            print_table(&b);
        if (o->plot && b.n_results && !bench_plot(b.results, b.n_results, o->plot))
            status = EXIT_FAILED;
    }
    for (size_t i = 0; i < b.n_devices; i++)
        rlx_device_close(b.devices[i]);
    free(b.devices);
    free(b.cases);
    free(b.results);
    return status;
}

static const cli_option bench_option_table[] = {
    {"suite", CLI_TEXT, offsetof(options, suite), "NAME", "all cases of a suite: ops or models"},
    {"list", CLI_FLAG, offsetof(options, list), NULL,
     "show how cases are written, and those of the suite (that match the CASES)"},
    {"plot", CLI_TEXT, offsetof(options, plot), "FILE",
     "draw the results as SVG: speed against size or sequences, or bars"},
    {"trace", CLI_TEXT, offsetof(options, trace), "FILE",
     "write the time of each step as a trace for ui.perfetto.dev"},
    {"model", CLI_TEXT, offsetof(options, model), "FILE",
     "measure a language model: tokens a second of a prompt and after it"},
    {"prompt-tokens", CLI_NUMBER, offsetof(options, prompt), "N",
     "with --model: length of the prompt (default 512; 128 with --sequences)"},
    {"tokens", CLI_NUMBER, offsetof(options, tokens), "N",
     "with --model: tokens after it (default 128; 64 with --sequences)"},
    {"sequences", CLI_TEXT, offsetof(options, sequences), "LIST",
     "with --model: the speed of so many sequences at once, such as 1,2,4,8; --plot draws it"},
    GPU_LAYERS_OPTION(options, gpu_layers),
    {"draft", CLI_TEXT, offsetof(options, draft), "MODEL",
     "with --sequences: a smaller model with the same vocabulary makes the guesses"},
    {"guesses", CLI_NUMBER, offsetof(options, guesses), "N",
     "with --sequences: guess up to N tokens of each from what it repeats, where that is a gain"},
    {"profile", CLI_FLAG, offsetof(options, profile), NULL,
     "with --sequences: show where the time of a step goes"},
    {"min-time", CLI_REAL, offsetof(options, min_time), "SECONDS",
     "measure each case for at least this long (default 0.3)"},
    POLICY_OPTION(options, policy),
    {"copies", CLI_NUMBER, offsetof(options, copies), "N",
     "put N independent copies of the operation into a run; times are of one (default 1)"},
    {"chain", CLI_FLAG, offsetof(options, chain), NULL,
     "with --copies, products: each copy reads the result of the one before"},
    {"dim", CLI_LIST, offsetof(options, dims), "NAME=SIZE",
     "with MODEL.onnx: size of a dimension that the file leaves open (default 1)"},
    {"pipe", CLI_FLAG, offsetof(options, pipe), NULL,
     "take requests from standard input (what bench/compare uses)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_bench = {
    .name = "bench",
    .args = "CASE...|MODEL",
    .summary = "measure operations: time, GFLOP/s, GB/s",
    .run = run_bench,
    .options = bench_option_table,
    .record_bytes = sizeof(options),
    .max_args = -1,
    .details =
        "A CASE is OP:TYPE:SHAPE[:ATTRIBUTE=VALUE]..., or a pattern with * that picks from the\n"
        "suite. Inputs are on the device before the clock starts. GB/s counts each tensor once.\n"
        "--device may be repeated, or be a list with commas, to compare devices. With a language\n"
        "model (a file, or a name of 'rlx list') instead of cases: tokens a second, as with\n"
        "--model. With an ONNX model: the time of a run with random inputs.",
    .examples =
        "  rlx bench matmul:f32:1024x1024x1024            M x N x K\n"
        "  rlx bench dequant_matmul:q4_0:1x14336x4096     packed weights\n"
        "  rlx bench attention:f16:1x32x512x128:kv=8:causal=true\n"
        "  rlx bench 'softmax*' 'layer_norm*' --device cpu,vulkan --plot norms.svg\n"
        "  rlx bench --suite ops --json > results.json\n"
        "  rlx bench --suite models --trace trace.json    where the time of models goes\n"
        "  rlx bench model.gguf                           tokens a second\n"
        "  rlx bench --model model.gguf --sequences 1,4,16 --plot curve.svg\n"
        "  rlx bench model.onnx --dim batch=4             a run of a whole model\n"
        "  rlx bench --list                               how every operation is written",
};
