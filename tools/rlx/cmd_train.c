/* SPDX-License-Identifier: MIT */
/* rlx train: fine-tunes a model with examples; the result is a LoRA adapter. */
#include <stdlib.h>
#include <string.h>

#include "llm.h"
#include "term.h"

#define DEFAULT_CONTEXT 512
#define DEFAULT_STEPS 200
#define DEFAULT_RATE 2e-4

typedef struct options {
    cli_common common;
    model_options model;
    const char *data, *out;
    int64_t rank, steps, batch;
    double alpha, rate;
    cli_opt_number seed;
} options;

static double mean(const float *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i];
    return n ? sum / (double)n : 0;
}

/* The losses so far, smoothed a little: those of the last steps. */
static double recent_loss(const float *loss, size_t n)
{
    const size_t last = n < 10 ? n : 10;
    return mean(loss + n - last, last);
}

static void print_json(const float *loss, size_t n, const rlx_trainer_info *i, const char *out,
                       double seconds)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "out", out);
    json_int(&j, "steps", (int64_t)n);
    json_list(&j, "loss");
    for (size_t k = 0; k < n; k++)
        json_real(&j, NULL, loss[k]);
    json_end(&j);
    json_int(&j, "examples", i->examples);
    json_int(&j, "parameters", i->parameters);
    json_int(&j, "tokens", i->tokens);
    json_real(&j, "seconds", seconds);
    json_real(&j, "tokens_per_s", seconds > 0 ? (double)i->tokens / seconds : 0);
    json_int(&j, "peak_bytes", (int64_t)i->peak_bytes);
    json_end(&j);
}

static void print_result(const options *o, const float *loss, size_t n, const rlx_trainer_info *i,
                         double seconds)
{
    char memory[SHORT_TEXT];
    if (o->common.json) {
        print_json(loss, n, i, o->out, seconds);
        return;
    }
    const size_t part = n < 20 ? (n + 1) / 2 : 10;
    printf("%s: %zu steps of %lld examples, loss %.4f to %.4f, %.0f tokens/s, %s\n", o->out, n,
           (long long)i->examples, mean(loss, part), mean(loss + n - part, part),
           seconds > 0 ? (double)i->tokens / seconds : 0, short_bytes((double)i->peak_bytes,
                                                                      memory));
}

/* Before hours of training rather than after them. */
static rlx_status try_out(const char *path, rlx_error *err)
{
    rlx_gguf_writer *w;
    const rlx_status st = rlx_gguf_writer_create(path, &w, err);
    rlx_gguf_writer_destroy(w);
    return st;
}

/* Ctrl-C ends it early: the adapter is that of the steps so far. */
static int run_steps(const options *o, rlx_trainer *t)
{
    const size_t most = (size_t)o->steps;
    size_t n = 0;
    float *loss = cli_alloc_array(most, sizeof *loss);
    rlx_trainer_info info = {RLX_INIT(rlx_trainer_info)};
    rlx_error err = {0};
    rlx_status st = try_out(o->out, &err);
    const double begin = cli_now();
    cli_catch_signals();
    for (; n < most && st == RLX_OK && !cli_caught_signal(); n++) {
        st = rlx_trainer_step(t, &loss[n], &err);
        cli_progress_bar((double)n + 1, (double)most, "step %zu of %zu, loss %.4f", n + 1, most,
                         recent_loss(loss, n + 1));
    }
    const double seconds = cli_now() - begin;
    cli_progress_clear();
    if (st == RLX_OK && n)
        st = rlx_trainer_save(t, o->out, &err);
    if (st == RLX_OK)
        st = rlx_trainer_get_info(t, &info, &err);
    if (st == RLX_OK)
        print_result(o, loss, n, &info, seconds);
    free(loss);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

static int train(const options *o, rlx_model *m)
{
    const rlx_optimizer_desc optimizer = {
        RLX_INIT(rlx_optimizer_desc), .lr = o->rate, .clip_norm = 1,
        .schedule = RLX_SCHEDULE_COSINE, .warmup = o->steps / 20, .steps = o->steps, .lr_end = 0.1,
    };
    const rlx_trainer_desc d = {RLX_INIT(rlx_trainer_desc), .data = o->data, .rank = o->rank,
                                .alpha = o->alpha, .batch = o->batch,
                                .seed = (uint64_t)o->seed.value, .optimizer = &optimizer};
    rlx_trainer *t;
    rlx_error err = {0};
    if (rlx_trainer_create(m, &d, &t, &err) != RLX_OK)
        return cli_error(&err);
    const int status = run_steps(o, t);
    rlx_trainer_destroy(t);
    return status;
}

static int run_train(void *record)
{
    options *o = record;
    rlx_model *m;
    o->model.model = llm_model(&o->common, &o->model);
    if (o->common.args.n)
        return cli_usage("unexpected argument '%s'", o->common.args.v[0]);
    if (!o->data)
        return cli_usage("--data is needed: a file with examples");
    if (!o->out)
        return cli_usage("--out is needed: the file for the adapter");
    o->steps = o->steps ? o->steps : DEFAULT_STEPS;
    o->rate = o->rate > 0 ? o->rate : DEFAULT_RATE;
    o->model.context = o->model.context ? o->model.context : DEFAULT_CONTEXT;
    if (o->steps > INT32_MAX)
        return cli_usage("--steps expected at most %d, got %lld", INT32_MAX, (long long)o->steps);
    int status = llm_open(&o->common, &o->model, &m, NULL);
    if (status != EXIT_OK)
        return status;
    status = train(o, m);
    rlx_model_close(m);
    return status;
}

static const cli_option train_options[] = {
    MODEL_OPTIONS(options, model),
    {"data", CLI_TEXT, offsetof(options, data), "FILE",
     "examples: FILE.jsonl with one in each line, or plain text"},
    {"out", CLI_TEXT, offsetof(options, out), "OUT.gguf", "the adapter, for generate --lora"},
    {"steps", CLI_NUMBER, offsetof(options, steps), "N", "updates (default 200)"},
    {"batch", CLI_NUMBER, offsetof(options, batch), "N", "examples of a step (default 4)"},
    {"ctx", CLI_NUMBER, offsetof(options, model.context), "N",
     "tokens of an example, at most (default 512)"},
    {"lr", CLI_REAL, offsetof(options, rate), "X", "learning rate (default 0.0002)"},
    {"rank", CLI_NUMBER, offsetof(options, rank), "R",
     "of the adapter's matrices (default 8)"},
    {"alpha", CLI_REAL, offsetof(options, alpha), "A",
     "the adapter is scaled by A over its rank (default: twice the rank)"},
    {"seed", CLI_SET_NUMBER, offsetof(options, seed), "N",
     "of the first matrices and the order of the examples (default 0)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_train = {
    .name = "train",
    .args = "[MODEL]",
    .summary = "fine-tune a model with examples (LoRA)",
    .run = run_train,
    .options = train_options,
    .record_bytes = sizeof(options),
    .min_args = 0,
    .max_args = 1,
    .details =
        "A line of FILE.jsonl is {\"messages\": [{\"role\": \"user\", \"content\": ..}, ..]}, a\n"
        "conversation of which the assistant's tokens are learned, or {\"text\": ..}. The weights\n"
        "of the model stay as they are, packed ones too. The learning rate falls to a tenth\n"
        "along half a cosine. Ctrl-C writes the adapter of the steps so far. On one device, a\n"
        "seed gives the same adapter again.",
    .examples =
        "  rlx train --model smol.gguf --data chats.jsonl --out mine.gguf\n"
        "  rlx train --model smol.gguf --data book.txt --out book.gguf --steps 500 --rank 16\n"
        "  rlx generate --model smol.gguf --lora mine.gguf --chat --prompt \"Who am I?\"",
};
