/* SPDX-License-Identifier: MIT */
/* rlx tune: measures the kernel variants of a GPU with a graph or a model and keeps what is
 * faster. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "llm.h"
#include "term.h"
#include "work.h"

#define DEFAULT_PROMPT 512

typedef struct options {
    cli_common common;
    work_options work; /* its policy is that of the model, too */
    model_options model;
    int64_t prompt;
    bool dry_run, reset;
} options;

typedef struct trial {
    const char *run; /* "prompt", "step", or the graph */
    rlx_tune_trial t;
} trial;

typedef struct trials {
    trial *list;
    size_t n, cap;
    const char *run; /* the one that is measured now */
    char kernels[192]; /* what was found */
} trials;

/* In the order of rlx_tune_verdict. */
static const char *const verdicts[] = {"same", "slower", "faster", "wrong", "failed"};

/* ---- Measuring ------------------------------------------------------------------------------- */

static bool add_trial(void *user, const rlx_tune_trial *t)
{
    trials *all = user;
    if (all->n == all->cap) {
        all->cap = all->cap ? 2 * all->cap : 32;
        all->list = cli_realloc_array(all->list, all->cap, sizeof *all->list);
    }
    all->list[all->n++] = (trial){all->run, *t};
    cli_progress_bar((double)t->done, (double)t->total, "%s: %s=%s", all->run, t->kernel,
                     t->variant);
    return cli_caught_signal() != 0;
}

static int tune_session(const options *o, trials *all, const char *run, rlx_session *s)
{
    rlx_error err = {0};
    const rlx_tune_desc desc = {RLX_INIT(rlx_tune_desc), .dry_run = o->dry_run, .fn = add_trial,
                                .user = all};
    all->run = run;
    const rlx_status st = rlx_session_tune(s, &desc, all->kernels, &err);
    cli_progress_clear();
    return st == RLX_OK ? EXIT_OK : cli_fail("%s: %s", run, err.text);
}

static int tune_graph(const options *o, const char *path, trials *all, rlx_device_info *device)
{
    work w;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    work_options given = o->work; /* numbers do not matter: make up what is missing */
    given.random_params.given = given.random_inputs.given = true;
    int status = work_open(&w, &o->common, &given, path, &desc);
    if (!status)
        status = work_set_leaves(&w, &given);
    if (!status)
        status = tune_session(o, all, path, w.session);
    if (w.device)
        *device = w.device_info;
    work_close(&w);
    return status;
}

/* Computes what waits, which adds a token that waits then. */
static int compute(rlx_context *c)
{
    rlx_error err = {0};
    return rlx_context_step(c, -1, NULL, &err) == RLX_OK ? EXIT_OK : cli_error(&err);
}

/* The last chunk of a prompt, then a step of one token. */
static int tune_context(const options *o, trials *all, rlx_context *c, int64_t vocabulary)
{
    const size_t n = (size_t)o->prompt;
    int32_t *tokens = cli_alloc_array(n, sizeof *tokens);
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((int64_t)(i * 37 + 1) % vocabulary);
    rlx_error err = {0};
    int status = rlx_context_set_tokens(c, 0, tokens, n, &err) == RLX_OK ? compute(c)
                                                                          : cli_error(&err);
    if (!status)
        status = tune_session(o, all, "prompt", rlx_context_session(c));
    if (!status)
        status = compute(c);
    if (!status)
        status = tune_session(o, all, "step", rlx_context_session(c));
    free(tokens);
    return status;
}

static int tune_model(options *o, trials *all, rlx_device_info *device)
{
    rlx_model *m;
    rlx_context *c = NULL;
    rlx_error err = {0};
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    o->model.policy = o->work.policy;
    if (!o->model.context)
        o->model.context = o->prompt + 16;
    int status = llm_open(&o->common, &o->model, &m, NULL);
    if (status)
        return status;
    rlx_model_get_info(m, &info, NULL);
    rlx_device_get_info(rlx_model_device(m), device, NULL);
    if (rlx_context_create(m, &c, &err) != RLX_OK)
        status = cli_error(&err);
    if (!status)
        status = tune_context(o, all, c, info.vocabulary);
    rlx_context_destroy(c);
    rlx_model_close(m);
    return status;
}

/* ---- Output ---------------------------------------------------------------------------------- */

static void print_json(const options *o, const trials *all, const rlx_device_info *device)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "device", device->id);
    json_text(&j, "name", device->name);
    json_text(&j, "driver", device->driver);
    json_text(&j, "kernels", all->kernels);
    json_bool(&j, "kept", !o->dry_run);
    json_array(&j, "trials");
    for (size_t i = 0; i < all->n; i++) {
        const rlx_tune_trial *t = &all->list[i].t;
        json_row(&j, NULL);
        json_text(&j, "run", all->list[i].run);
        json_text(&j, "kernel", t->kernel);
        json_text(&j, "variant", t->variant);
        json_text(&j, "verdict", verdicts[t->verdict]);
        json_real(&j, "seconds", t->seconds);
        json_real(&j, "usual_seconds", t->usual_seconds);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

static void print_trial(table *t, const trial *x)
{
    char text[SHORT_TEXT];
    table_cell(t, "%s", x->run);
    table_cell(t, "%s", x->t.kernel);
    table_cell(t, "%s", x->t.variant);
    table_cell(t, "%s", x->t.seconds > 0 ? short_seconds(x->t.seconds, text) : "-");
    table_cell(t, "%s", x->t.seconds > 0 ? short_seconds(x->t.usual_seconds, text) : "-");
    table_styled(t, x->t.verdict == RLX_TUNE_FASTER  ? TERM_GREEN
                    : x->t.verdict == RLX_TUNE_WRONG ? TERM_RED : TERM_PLAIN,
                 "%s", verdicts[x->t.verdict]);
}

/* Variants that change nothing for the program are only counted. */
static void print_text(const options *o, const trials *all, const rlx_device_info *device)
{
    table t;
    size_t n_same = 0;
    term_line(stdout, "%s (%s), %s", device->id, device->name, device->driver);
    table_init(&t, "lllrrl", "run|kernel|variant|time|usual|result");
    for (size_t i = 0; i < all->n; i++) {
        n_same += all->list[i].t.verdict == RLX_TUNE_SAME;
        if (all->list[i].t.verdict != RLX_TUNE_SAME)
            print_trial(&t, &all->list[i]);
    }
    table_print(&t, 2);
    printf("%zu variants tried, %zu of them are not used here\n", all->n, n_same);
    if (!all->kernels[0])
        puts("the usual kernels are the fastest");
    else
        printf("%s: %s\n", o->dry_run ? "faster, not kept" : "kept", all->kernels);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int reset(const options *o)
{
    const char *id;
    rlx_error err = {0};
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    int status = cli_one_device(&o->common, &id);
    if (!status && rlx_device_calibration(id, RLX_CALIBRATE_UNTUNE, &c, &err) != RLX_OK)
        status = cli_error(&err);
    if (!status && !o->common.json)
        printf("forgotten: %s\n", c.kernels[0] ? c.kernels : "the usual kernels are used");
    return status;
}

static int run_tune(void *record)
{
    options *o = record;
    trials all = {0};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    const size_t n = o->common.args.n;
    if (o->reset)
        return n || o->model.model ? cli_usage("--reset takes no graph and no model") : reset(o);
    if (n + (o->model.model != NULL) != 1)
        return cli_usage("expected one GRAPH, or --model MODEL");
    o->prompt = o->prompt ? o->prompt : DEFAULT_PROMPT;
    cli_catch_signals();
    int status = n ? tune_graph(o, o->common.args.v[0], &all, &device)
                   : tune_model(o, &all, &device);
    if (!status && o->common.json)
        print_json(o, &all, &device);
    else if (!status)
        print_text(o, &all, &device);
    free(all.list);
    return status;
}

static const cli_option tune_options[] = {
    {"model", CLI_TEXT, offsetof(options, model.model), "MODEL",
     "a GGUF file, a folder with model.safetensors, or a name of 'rlx list'"},
    {"prompt", CLI_NUMBER, offsetof(options, prompt), "N",
     "tokens of the prompt that a model is measured with (default 512), before a step of one"},
    WORK_OPTIONS(options, work),
    {"dry-run", CLI_FLAG, offsetof(options, dry_run), NULL, "measure and keep nothing"},
    {"reset", CLI_FLAG, offsetof(options, reset), NULL, "forget what was kept for the device"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_tune = {
    .name = "tune",
    .args = "GRAPH | --model MODEL | --reset",
    .summary = "find the fastest kernels of a GPU for a graph or a model",
    .run = run_tune,
    .options = tune_options,
    .record_bytes = sizeof(options),
    .max_args = 1,
    .details =
        "Runs a graph (.rlx, .onnx), or a prompt and a step of a model, with variants of the\n"
        "kernels for products and attention: tiles, workgroups, with and without matrices. Those\n"
        "whose results differ by more than rounding are left out; what is faster is kept in the\n"
        "cache folder, for this device, driver and set of kernels, and used by every program from\n"
        "then on. Weights and inputs that are not given are random.",
    .examples = "  rlx tune --model model.gguf --device vulkan    a language model\n"
                "  rlx tune mlp.rlx --device vulkan --dry-run     a graph; only look\n"
                "  rlx tune --reset                               forget it",
};
