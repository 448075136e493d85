/* SPDX-License-Identifier: MIT */
/* rlx imatrix: runs a text through a model and writes how much each column of its matrices is
 * used. */
#include <stdlib.h>

#include "cli.h"
#include "json.h"
#include "llm.h"
#include "term.h"

#define DEFAULT_WINDOW 512
#define LEAST_TOKENS 16

typedef struct options {
    cli_common common;
    model_options model;
    const char *file, *out;
    int64_t chunks;
} options;

/* The text in pieces of a context; the last one is left out where it is less than half of one. */
static int add_text(const options *o, rlx_imatrix *im, const int32_t *ids, size_t n, size_t window)
{
    const double begin = cli_now();
    size_t chunks = n / window + (n % window >= window / 2 || n < window);
    rlx_error err = {0};
    if (o->chunks && (size_t)o->chunks < chunks)
        chunks = (size_t)o->chunks;
    for (size_t i = 0; i < chunks; i++) {
        const size_t at = i * window, count = n - at < window ? n - at : window;
        const double seconds = cli_now() - begin;
        cli_progress_bar((double)i, (double)chunks, "%zu of %zu pieces, %.0f tokens/s", i, chunks,
                         seconds > 0 ? (double)at / seconds : 0);
        if (cli_caught_signal()) {
            cli_progress_clear();
            return cli_fail("stopped: '%s' was not written", o->out);
        }
        if (rlx_imatrix_add(im, ids + at, count, &err) != RLX_OK)
            return cli_error(&err);
    }
    cli_progress_clear();
    return EXIT_OK;
}

static size_t count_entries(const rlx_imatrix *im)
{
    rlx_imatrix_entry e;
    size_t n = 0;
    while (rlx_imatrix_at(im, n, &e))
        n++;
    return n;
}

static void print_result(const options *o, const rlx_imatrix *im, double seconds)
{
    char text[SHORT_TEXT];
    if (!o->common.json) {
        term_line(stdout, "%s: %zu matrices, %lld tokens, %s", o->out, count_entries(im),
                  (long long)rlx_imatrix_n_tokens(im), short_seconds(seconds, text));
        return;
    }
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "output", o->out);
    json_int(&j, "matrices", (int64_t)count_entries(im));
    json_int(&j, "tokens", rlx_imatrix_n_tokens(im));
    json_real(&j, "seconds", seconds);
    json_end(&j);
}

static int run_model(const options *o, rlx_model *m)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_imatrix *im = NULL;
    rlx_error err = {0};
    int32_t *ids = NULL;
    size_t n = 0;
    const double begin = cli_now();
    rlx_model_get_info(m, &info, NULL);
    int status = llm_read_tokens(m, o->file, &ids, &n);
    if (status == EXIT_OK && n < LEAST_TOKENS)
        status = cli_fail("'%s' has %zu tokens; expected at least %d, better some thousands",
                          o->file, n, LEAST_TOKENS);
    if (status == EXIT_OK && rlx_imatrix_create(m, &im, &err) != RLX_OK)
        status = cli_error(&err);
    if (status == EXIT_OK)
        status = add_text(o, im, ids, n, (size_t)info.context);
    if (status == EXIT_OK && rlx_imatrix_save(im, o->out, o->file, &err) != RLX_OK)
        status = cli_error(&err);
    if (status == EXIT_OK)
        print_result(o, im, cli_now() - begin);
    rlx_imatrix_destroy(im);
    free(ids);
    return status;
}

static int run_imatrix(void *record)
{
    options *o = record;
    rlx_model *m;
    o->model.model = llm_model(&o->common, &o->model);
    if (o->common.args.n)
        return cli_usage("unexpected argument '%s'", o->common.args.v[0]);
    if (!o->file || !o->out)
        return cli_usage("expected --file TEXT and --out FILE.gguf");
    if (!o->model.context)
        o->model.context = DEFAULT_WINDOW;
    int status = llm_open(&o->common, &o->model, &m, NULL);
    if (status != EXIT_OK)
        return status;
    cli_catch_signals();
    status = run_model(o, m);
    rlx_model_close(m);
    return status;
}

static const cli_option imatrix_options[] = {
    MODEL_OPTIONS(options, model),
    {"file", CLI_TEXT, offsetof(options, file), "TEXT", "a text like those the model will see"},
    {"out", CLI_TEXT, offsetof(options, out), "FILE.gguf", "where the importance matrix goes"},
    {"ctx", CLI_NUMBER, offsetof(options, model.context), "N",
     "tokens the model sees at once (default 512)"},
    {"chunks", CLI_NUMBER, offsetof(options, chunks), "N",
     "stop after so many pieces of --ctx tokens (default: all of the text)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_imatrix = {
    .name = "imatrix",
    .args = "[MODEL] --file TEXT --out FILE.gguf",
    .summary = "measure which weights matter, for 'rlx quantize'",
    .run = run_imatrix,
    .options = imatrix_options,
    .record_bytes = sizeof(options),
    .max_args = 1,
    .details =
        "Runs a text through a model that is not quantised, or little (f16, q8_0), and writes the\n"
        "mean square of what each column of its matrices is multiplied with. 'rlx quantize\n"
        "--imatrix FILE' weights the errors by it, which matters most below 5 bits. Some 50,000\n"
        "tokens of mixed text are enough. llama.cpp reads the file, and rlx reads its files.",
    .examples =
        "  rlx imatrix model-f16.gguf --file text.txt --out model.imatrix.gguf\n"
        "  rlx quantize model-f16.gguf q2.gguf --type q2_k_m --imatrix model.imatrix.gguf",
};
