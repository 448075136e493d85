/* SPDX-License-Identifier: MIT */
/* rlx perplexity: how well a model predicts a text, as exp of the mean negative log-probability of
 * its tokens, with the standard error of that mean. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "llm.h"
#include "term.h"

#define DEFAULT_WINDOW 512

typedef struct options {
    cli_common common;
    model_options model;
    int64_t stride;
} options;

/* Sums over the tokens that were scored. */
typedef struct sums {
    size_t n;
    double nll, squares;
} sums;

static double mean_nll(const sums *s)
{
    return s->n ? s->nll / (double)s->n : 0;
}

/* The standard error of the mean, as if tokens were independent. */
static double mean_error(const sums *s)
{
    if (s->n < 2)
        return 0;
    double n = (double)s->n, mean = mean_nll(s), variance = s->squares / n - mean * mean;
    return variance > 0 ? sqrt(variance / (n - 1)) : 0;
}

static void show_progress(const sums *s, size_t at, size_t n, double begin)
{
    double seconds = cli_now() - begin;
    cli_progress_bar((double)at, (double)n, "perplexity %.4f, %zu of %zu tokens, %.0f tokens/s",
                     exp(mean_nll(s)), at, n, seconds > 0 ? (double)at / seconds : 0);
}

/* Windows of `window` tokens every `stride` tokens; of each only tokens that no window before had
 * are counted. */
static int score_windows(rlx_model *m, const int32_t *ids, size_t n, size_t window, size_t stride,
                         sums *s)
{
    float *scores = cli_alloc_array(window, sizeof *scores);
    double begin = cli_now();
    rlx_status st = RLX_OK;
    rlx_error err = {0};
    for (size_t at = 0, done = 1; done < n && st == RLX_OK; at += stride) {
        size_t count = n - at < window ? n - at : window;
        show_progress(s, done, n, begin);
        st = rlx_score(m, ids + at, count, scores, &err);
        for (size_t i = done - at; i < count && st == RLX_OK; i++) {
            s->nll -= scores[i];
            s->squares += (double)scores[i] * scores[i];
            s->n++;
        }
        if (done < at + count)
            done = at + count;
    }
    cli_progress_clear();
    free(scores);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

static void print_result(const options *o, const sums *s, size_t window, size_t stride,
                         double seconds)
{
    double value = exp(mean_nll(s)), error = value * mean_error(s);
    if (!o->common.json) {
        printf("perplexity %.4f +- %.4f (%zu tokens, windows of %zu every %zu, %.1f s)\n", value,
               error, s->n, window, stride, seconds);
        return;
    }
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_real(&j, "perplexity", value);
    json_real(&j, "error", error);
    json_real(&j, "nll", mean_nll(s));
    json_real(&j, "nll_error", mean_error(s));
    json_int(&j, "tokens", (int64_t)s->n);
    json_int(&j, "window", (int64_t)window);
    json_int(&j, "stride", (int64_t)stride);
    json_real(&j, "seconds", seconds);
    json_real(&j, "tokens_per_s", seconds > 0 ? (double)s->n / seconds : 0);
    json_end(&j);
}

static int run_model(const options *o, rlx_model *m)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    int32_t *ids = NULL;
    size_t n = 0;
    sums s = {0};
    rlx_model_get_info(m, &info, NULL);
    size_t window = (size_t)info.context, stride = o->stride ? (size_t)o->stride : window;
    double begin = cli_now();
    int status = stride > window ? cli_usage("--stride expected at most --ctx (%zu), got %zu",
                                             window, stride) : EXIT_OK;
    if (status == EXIT_OK)
        status = llm_read_tokens(m, o->common.args.v[0], &ids, &n);
    if (status == EXIT_OK && n < 2)
        status = cli_fail("'%s' has %zu tokens; expected at least 2", o->common.args.v[0], n);
    /* Windows that do not overlap share one token: each scores from its second token on. */
    if (status == EXIT_OK)
        status = score_windows(m, ids, n, window, stride == window && window > 1 ? window - 1
                                                                                 : stride, &s);
    if (status == EXIT_OK)
        print_result(o, &s, window, stride, cli_now() - begin);
    free(ids);
    return status;
}

static int run_perplexity(void *record)
{
    options *o = record;
    rlx_model *m;
    o->model.model = llm_model(&o->common, &o->model);
    if (o->common.args.n != 1)
        return o->common.args.n ? cli_usage("unexpected argument '%s'", o->common.args.v[1])
                                : cli_usage("expected FILE");
    if (!o->model.context)
        o->model.context = DEFAULT_WINDOW;
    int status = llm_open(&o->common, &o->model, &m, NULL);
    if (status != EXIT_OK)
        return status;
    status = run_model(o, m);
    rlx_model_close(m);
    return status;
}

static const cli_option perplexity_options[] = {
    MODEL_OPTIONS(options, model),
    {"ctx", CLI_NUMBER, offsetof(options, model.context), "N",
     "tokens the model sees at once (default 512)"},
    {"stride", CLI_NUMBER, offsetof(options, stride), "N",
     "tokens between the starts of two windows; less than --ctx gives more context"},
    {"cache", CLI_TEXT, offsetof(options, model.cache), "TYPE",
     "type of the K/V cache: f16 (default), f32, q8_0"},
    GPU_LAYERS_OPTION(options, model.gpu_layers),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_perplexity = {
    .name = "perplexity",
    .args = "[MODEL] FILE",
    .summary = "measure how well a model predicts a text",
    .run = run_perplexity,
    .options = perplexity_options,
    .record_bytes = sizeof(options),
    .min_args = 1,
    .max_args = 2,
    .details =
        "The perplexity of a text is exp of the mean negative log-probability of its tokens: 1 if\n"
        "each token was certain. Compare models and packed types on the same text with the same\n"
        "--ctx. The error is one standard error of the mean.",
    .examples =
        "  rlx perplexity --model smol.gguf wiki.txt\n"
        "  rlx perplexity --model smol.gguf wiki.txt --ctx 1024 --stride 512 --json",
};
