/* SPDX-License-Identifier: MIT */
/* rlx train: trains a model with examples. The result is a LoRA adapter, or a whole model. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "llm.h"
#include "system.h"
#include "term.h"
#include "train_plot.h"

#define DEFAULT_CONTEXT 512
#define DEFAULT_STEPS 200

#define TRY(expr)                        \
    do {                                 \
        const rlx_status st_ = (expr);   \
        if (st_ != RLX_OK)               \
            return st_;                  \
    } while (0)

typedef struct options {
    cli_common common;
    model_options model;
    const char *data, *out, *validation, *checkpoint, *schedule, *type, *merge, *peft, *plot;
    int64_t rank, steps, batch, accumulate, warmup, every, evaluate, patience;
    double alpha, rate, clip, decay, beta2, temperature, memory;
    bool full, from_scratch, pack, resume;
    cli_opt_number seed;
    rlx_dtype dtype;     /* of --type */
    char *kept;          /* path of the checkpoint */
} options;

typedef struct run {
    const options *o;
    rlx_trainer *t;
    rlx_train_kind kind;
    double begin;
    int64_t first_tokens;  /* of the steps before this process */
    int64_t best;          /* step of the best loss of the validation; 0: none */
    double best_loss;
    int64_t worse;         /* validations since then */
    bool stopped;          /* early */
} run;

static double mean(const rlx_trainer_loss *v, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += v[i].loss;
    return n ? sum / (double)n : 0;
}

/* ---- Results --------------------------------------------------------------------------------- */

static double tokens_per_s(const run *r, const rlx_trainer_info *i, double seconds)
{
    return seconds > 0 ? (double)(i->tokens - r->first_tokens) / seconds : 0;
}

static void print_losses(json *j, const run *r)
{
    size_t n, held;
    const rlx_trainer_loss *l = rlx_trainer_losses(r->t, false, &n);
    const rlx_trainer_loss *v = rlx_trainer_losses(r->t, true, &held);
    json_list(j, "loss");
    for (size_t k = 0; k < n; k++)
        json_real(j, NULL, l[k].loss);
    json_end(j);
    if (!held)
        return;
    json_array(j, "validation");
    for (size_t k = 0; k < held; k++) {
        json_row(j, NULL);
        json_int(j, "step", v[k].step);
        json_real(j, "loss", v[k].loss);
        json_end(j);
    }
    json_end(j);
    json_int(j, "best_step", r->best);
    json_bool(j, "stopped_early", r->stopped);
}

static void print_json(const run *r, const rlx_trainer_info *i, double seconds)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "out", r->o->out);
    json_int(&j, "steps", i->steps);
    print_losses(&j, r);
    json_int(&j, "examples", i->examples);
    json_int(&j, "held_out", i->held);
    json_int(&j, "cut", i->cut);
    json_int(&j, "parameters", i->parameters);
    json_int(&j, "tokens", i->tokens);
    json_int(&j, "padding", i->padding);
    json_real(&j, "seconds", seconds);
    json_real(&j, "tokens_per_s", tokens_per_s(r, i, seconds));
    json_int(&j, "peak_bytes", (int64_t)i->peak_bytes);
    json_end(&j);
}

static void print_text(const run *r, const rlx_trainer_info *i, double seconds)
{
    char memory[SHORT_TEXT];
    size_t n;
    const rlx_trainer_loss *l = rlx_trainer_losses(r->t, false, &n);
    const size_t part = n < 20 ? (n + 1) / 2 : 10;
    printf("%s: %lld steps of %lld examples, loss %.4f to %.4f, %.0f tokens/s, %s\n", r->o->out,
           (long long)i->steps, (long long)i->examples, mean(l, part),
           n ? mean(l + n - part, part) : 0, tokens_per_s(r, i, seconds),
           short_bytes((double)i->peak_bytes, memory));
    if (r->best)
        printf("%s: that of step %lld, whose validation loss %.4f is the best%s\n", r->o->out,
               (long long)r->best, r->best_loss, r->stopped ? "; stopped early" : "");
}

static int print_result(const run *r)
{
    const double seconds = cli_now() - r->begin;
    rlx_trainer_info info = {RLX_INIT(rlx_trainer_info)};
    rlx_error err = {0};
    if (rlx_trainer_get_info(r->t, &info, &err) != RLX_OK)
        return cli_error(&err);
    if (r->o->common.json)
        print_json(r, &info, seconds);
    else
        print_text(r, &info, seconds);
    return r->o->plot && !train_plot(r->o->plot, r->o->out, r->t) ? EXIT_FAILED : EXIT_OK;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static rlx_status write_results(const run *r, rlx_error *err)
{
    const options *o = r->o;
    const bool whole = r->kind == RLX_TRAIN_FULL;
    rlx_status st = whole ? rlx_trainer_save_model(r->t, o->out, o->dtype, err)
                          : rlx_trainer_save(r->t, o->out, err);
    if (st == RLX_OK && o->peft)
        st = rlx_trainer_save_peft(r->t, o->peft, err);
    if (st == RLX_OK && o->merge)
        st = rlx_trainer_save_model(r->t, o->merge, o->dtype, err);
    return st;
}

/* Before hours of training rather than after them. */
static rlx_status try_file(const char *path, rlx_error *err)
{
    rlx_gguf_writer *w = NULL;
    const size_t n = path ? strlen(path) : 0;
    const bool is_gguf = n > 5 && !strcmp(path + n - 5, ".gguf");
    const rlx_status st = is_gguf ? rlx_gguf_writer_create(path, &w, err) : RLX_OK;
    rlx_gguf_writer_destroy(w);
    return st;
}

static int64_t kept_step(const run *r)
{
    rlx_trainer_info info = {RLX_INIT(rlx_trainer_info)};
    return rlx_trainer_get_info(r->t, &info, NULL) == RLX_OK ? info.kept : 0;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* What the losses of the validation say so far. */
static void find_best(run *r)
{
    size_t n;
    const rlx_trainer_loss *v = rlx_trainer_losses(r->t, true, &n);
    r->best = r->worse = 0;
    r->best_loss = INFINITY;
    for (size_t i = 0; i < n; i++) {
        const bool better = v[i].loss < r->best_loss;
        r->best_loss = better ? v[i].loss : r->best_loss;
        r->best = better ? v[i].step : r->best;
        r->worse = better ? 0 : r->worse + 1;
    }
}

/* The result is that with the best loss of the validation: it is written whenever that falls. */
static rlx_status validate(run *r, rlx_error *err)
{
    float loss;
    TRY(rlx_trainer_evaluate(r->t, &loss, err));
    find_best(r);
    r->stopped = r->o->patience && r->worse >= r->o->patience;
    return r->worse ? RLX_OK : write_results(r, err);
}

static void show_progress(const run *r, int64_t step, int64_t first)
{
    char left[SHORT_TEXT];
    size_t n, held;
    const rlx_trainer_loss *l = rlx_trainer_losses(r->t, false, &n);
    const rlx_trainer_loss *v = rlx_trainer_losses(r->t, true, &held);
    const size_t last = n < 10 ? n : 10;
    const double each = (cli_now() - r->begin) / (double)(step - first);
    short_seconds(each * (double)(r->o->steps - step), left);
    if (held)
        cli_progress_bar((double)step, (double)r->o->steps,
                         "step %lld of %lld, loss %.4f, validation %.4f, %s left",
                         (long long)step, (long long)r->o->steps, mean(l + n - last, last),
                         v[held - 1].loss, left);
    else
        cli_progress_bar((double)step, (double)r->o->steps, "step %lld of %lld, loss %.4f, %s left",
                         (long long)step, (long long)r->o->steps, mean(l + n - last, last), left);
}

/* Ctrl-C ends it early. */
static rlx_status run_steps(run *r, int64_t first, rlx_error *err)
{
    const options *o = r->o;
    for (int64_t step = first; step < o->steps && !r->stopped && !cli_caught_signal();) {
        float loss;
        TRY(rlx_trainer_step(r->t, &loss, err));
        step++;
        const bool last = step == o->steps;
        if (o->validation && (last || step % o->evaluate == 0))
            TRY(validate(r, err));
        if (step % o->every == 0 && !last)
            TRY(rlx_trainer_checkpoint(r->t, o->kept, false, err));
        show_progress(r, step, first);
    }
    return RLX_OK;
}

/* A loss that is no number, a full disk: the sentence, and what there is of before. */
static int end_badly(run *r, const rlx_error *why)
{
    const long long kept = kept_step(r);
    rlx_error err = {0};
    cli_error(why);
    if (r->best)
        return cli_fail("'%s' is that of step %lld", r->o->out, (long long)r->best);
    if (!kept)
        return EXIT_FAILED;
    if (rlx_trainer_resume(r->t, r->o->kept, &err) != RLX_OK ||
        write_results(r, &err) != RLX_OK)
        cli_error(&err);
    else
        cli_warn("'%s' is that of step %lld", r->o->out, kept);
    return cli_fail("the checkpoint of step %lld is '%s'", kept, r->o->kept);
}

static int finish(run *r)
{
    rlx_error err = {0};
    rlx_status st = RLX_OK;
    if (!r->best)
        st = write_results(r, &err);
    if (st == RLX_OK && (cli_caught_signal() || r->o->checkpoint))
        st = rlx_trainer_checkpoint(r->t, r->o->kept, true, &err);
    if (st != RLX_OK)
        return end_badly(r, &err);
    if (!cli_caught_signal() && !r->o->checkpoint && kept_step(r))
        rlx_trainer_remove_checkpoint(r->t, r->o->kept, NULL);
    return print_result(r);
}

static rlx_status begin(run *r, int64_t *first, rlx_error *err)
{
    const options *o = r->o;
    rlx_trainer_info info = {RLX_INIT(rlx_trainer_info)};
    TRY(try_file(o->out, err));
    TRY(try_file(o->merge, err));
    if (o->resume && access(o->kept, F_OK))
        cli_warn("there is no checkpoint '%s': training begins at the first step", o->kept);
    else if (o->resume)
        TRY(rlx_trainer_resume(r->t, o->kept, err));
    TRY(rlx_trainer_get_info(r->t, &info, err));
    if (info.cut)
        cli_warn("%lld examples were longer than the context and cut (--ctx)", (long long)info.cut);
    *first = info.steps;
    r->first_tokens = info.tokens;
    r->kind = info.kind;
    find_best(r);
    return RLX_OK;
}

static int run_trainer(const options *o, rlx_trainer *t)
{
    run r = {.o = o, .t = t};
    int64_t first = 0;
    rlx_error err = {0};
    rlx_status st = begin(&r, &first, &err);
    if (st != RLX_OK)
        return cli_error(&err);
    if (r.kind == RLX_TRAIN_FULL && (o->merge || o->peft))
        return cli_usage("all weights learn: there is no adapter for %s",
                         o->merge ? "--merge" : "--peft");
    r.begin = cli_now();
    cli_catch_signals();
    st = run_steps(&r, first, &err);
    cli_progress_clear();
    return st == RLX_OK ? finish(&r) : end_badly(&r, &err);
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool is_share(const char *text, double *share)
{
    char *end;
    *share = text ? strtod(text, &end) : 0;
    return text && end != text && !*end;
}

static double default_rate(const options *o, const rlx_model *m)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_model_get_info(m, &info, NULL);
    return o->from_scratch ? 3e-3 : o->full || !info.generates ? 2e-5 : 2e-4;
}

static int read_schedule(const char *text, rlx_schedule *out)
{
    static const char *const names[] = {"constant", "linear", "cosine"};
    *out = RLX_SCHEDULE_COSINE;
    for (int i = 0; text && i < 3; i++)
        if (!strcmp(text, names[i])) {
            *out = (rlx_schedule)i;
            return EXIT_OK;
        }
    return text ? cli_usage("--schedule expected constant, linear or cosine, got '%s'", text)
                : EXIT_OK;
}

static int train(options *o, rlx_model *m, rlx_schedule schedule)
{
    const rlx_optimizer_desc optimizer = {
        RLX_INIT(rlx_optimizer_desc), .lr = o->rate > 0 ? o->rate : default_rate(o, m),
        .beta2 = o->beta2, .clip_norm = o->clip > 0 ? o->clip : 1, .weight_decay = o->decay,
        .schedule = schedule, .warmup = o->warmup ? o->warmup : o->steps / 20, .steps = o->steps,
        .lr_end = 0.1, .accumulate = o->accumulate,
    };
    rlx_trainer_desc d = {
        RLX_INIT(rlx_trainer_desc), .data = o->data, .rank = o->rank, .alpha = o->alpha,
        .batch = o->batch, .seed = (uint64_t)o->seed.value, .optimizer = &optimizer,
        .kind = o->full ? RLX_TRAIN_FULL : RLX_TRAIN_AUTO, .from_scratch = o->from_scratch,
        .temperature = o->temperature, .pack = o->pack,
        .memory_budget = cli_mib(o->memory),
    };
    if (!is_share(o->validation, &d.validation_share)) {
        d.validation_share = 0;
        d.validation = o->validation;
    }
    rlx_trainer *t;
    rlx_error err = {0};
    if (rlx_trainer_create(m, &d, &t, &err) != RLX_OK)
        return cli_error(&err);
    const int status = run_trainer(o, t);
    rlx_trainer_destroy(t);
    return status;
}

static int64_t or_default(int64_t v, int64_t dflt)
{
    return v ? v : dflt > 1 ? dflt : 1;
}

static int check_options(options *o)
{
    if (o->common.args.n)
        return cli_usage("unexpected argument '%s'", o->common.args.v[0]);
    if (!o->data)
        return cli_usage("--data is needed: a file with examples");
    if (!o->out)
        return cli_usage("--out is needed: the file for the %s",
                         o->full || o->from_scratch ? "model" : "adapter");
    o->dtype = o->type ? rlx_dtype_from_name(o->type) : RLX_NO_TYPE;
    if (o->type && !rlx_dtype_can_quantize(o->dtype))
        return cli_usage("--type '%s' is no type of weights: expected f32, f16, q8_0, ...",
                         o->type);
    if (o->patience && !o->validation)
        return cli_usage("--patience needs --validation");
    o->steps = or_default(o->steps, DEFAULT_STEPS);
    o->every = or_default(o->every, o->steps / 10);
    o->evaluate = or_default(o->evaluate, o->steps / 10);
    o->model.context = o->model.context ? o->model.context : DEFAULT_CONTEXT;
    if (o->steps > INT32_MAX)
        return cli_usage("--steps expected at most %d, got %lld", INT32_MAX, (long long)o->steps);
    return EXIT_OK;
}

/* What cannot be written is told before hours of training. */
static int check_target(const char *path)
{
    struct stat st;
    rlx_gguf_writer *w = NULL;
    rlx_error err = {0};
    if (!path || (!rx_stat(path, &st) && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return EXIT_OK; /* a pipe would end for its reader */
    if (rlx_gguf_writer_create(path, &w, &err) != RLX_OK)
        return cli_error(&err);
    rlx_gguf_writer_destroy(w);
    return EXIT_OK;
}

static int run_train(void *record)
{
    options *o = record;
    rlx_model *m;
    rlx_schedule schedule;
    o->model.model = llm_model(&o->common, &o->model);
    int status = check_options(o);
    if (status == EXIT_OK)
        status = check_target(o->out);
    if (status == EXIT_OK)
        status = check_target(o->merge);
    if (status == EXIT_OK)
        status = read_schedule(o->schedule, &schedule);
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &m, NULL);
    if (status != EXIT_OK)
        return status;
    o->kept = o->checkpoint ? cli_format("%s", o->checkpoint) : cli_format("%s.checkpoint", o->out);
    status = train(o, m, schedule);
    free(o->kept);
    rlx_model_close(m);
    return status;
}

static const cli_option train_options[] = {
    MODEL_OPTIONS(options, model),
    {"data", CLI_TEXT, offsetof(options, data), "FILE",
     "examples: FILE.jsonl with one in each line, or plain text"},
    {"out", CLI_TEXT, offsetof(options, out), "OUT.gguf",
     "the adapter, for generate --lora; with --full, from scratch and of encoders the model"},
    {"steps", CLI_NUMBER, offsetof(options, steps), "N", "updates (default 200)"},
    {"batch", CLI_NUMBER, offsetof(options, batch), "N", "examples of a run (default 4)"},
    {"accumulate", CLI_NUMBER, offsetof(options, accumulate), "N",
     "runs of which one update is made (default 1)"},
    {"ctx", CLI_NUMBER, offsetof(options, model.context), "N",
     "tokens of an example, at most (default 512)"},
    {"lr", CLI_REAL, offsetof(options, rate), "X",
     "learning rate (default 0.0002; all weights 0.00002, from scratch 0.003)"},
    {"warmup", CLI_NUMBER, offsetof(options, warmup), "N",
     "updates in which the rate rises (default: a twentieth)"},
    {"schedule", CLI_TEXT, offsetof(options, schedule), "constant|linear|cosine",
     "how it falls to a tenth afterwards (default cosine)"},
    {"clip", CLI_REAL, offsetof(options, clip), "X",
     "the norm of all derivatives is at most this (default 1)"},
    {"weight-decay", CLI_REAL, offsetof(options, decay), "X", "of AdamW (default 0)"},
    {"beta2", CLI_REAL, offsetof(options, beta2), "X", "of AdamW (default 0.999)"},
    {"rank", CLI_NUMBER, offsetof(options, rank), "R",
     "of the adapter's matrices (default 8)"},
    {"alpha", CLI_REAL, offsetof(options, alpha), "A",
     "the adapter is scaled by A over its rank (default: twice the rank)"},
    {"temperature", CLI_REAL, offsetof(options, temperature), "T",
     "encoders: similarities are divided by it (default 0.05)"},
    {"seed", CLI_SET_NUMBER, offsetof(options, seed), "N",
     "of first values and the order of the examples (default 0)"},
    {"full", CLI_FLAG, offsetof(options, full), NULL, "all weights learn, not an adapter"},
    {"from-scratch", CLI_FLAG, offsetof(options, from_scratch), NULL,
     "they begin as random numbers: sizes and tokenizer are those of the model"},
    {"pack", CLI_FLAG, offsetof(options, pack), NULL,
     "examples follow each other in rows of --ctx tokens: no padding"},
    {"memory", CLI_REAL, offsetof(options, memory), "MIB",
     "most on the device: activations are computed twice rather than kept"},
    {"type", CLI_TEXT, offsetof(options, type), "TYPE",
     "of the weights of a model that is written: f32, f16, q8_0, ... (default: as they were)"},
    {"merge", CLI_TEXT, offsetof(options, merge), "FILE.gguf",
     "also writes the model with the adapter in its weights"},
    {"peft", CLI_TEXT, offsetof(options, peft), "FOLDER",
     "also writes the adapter as PEFT reads it"},
    {"validation", CLI_TEXT, offsetof(options, validation), "FILE|SHARE",
     "examples to judge by, or which share of --data (0.1); OUT is the best so far"},
    {"evaluate", CLI_NUMBER, offsetof(options, evaluate), "N",
     "steps between two validations (default: a tenth)"},
    {"patience", CLI_NUMBER, offsetof(options, patience), "N",
     "stops after so many validations without a better one"},
    {"checkpoint", CLI_TEXT, offsetof(options, checkpoint), "FILE",
     "what --resume goes on from (default OUT.checkpoint, removed at the end)"},
    {"every", CLI_NUMBER, offsetof(options, every), "N",
     "steps between two checkpoints (default: a tenth)"},
    {"resume", CLI_FLAG, offsetof(options, resume), NULL, "goes on from the checkpoint"},
    {"plot", CLI_TEXT, offsetof(options, plot), "FILE.svg", "draws the losses"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_train = {
    .name = "train",
    .args = "[MODEL]",
    .summary = "train a model with examples (LoRA, all weights, from scratch)",
    .run = run_train,
    .options = train_options,
    .record_bytes = sizeof(options),
    .min_args = 0,
    .max_args = 1,
    .details =
        "A line of FILE.jsonl is {\"messages\": [{\"role\": \"user\", \"content\": ..}, ..]}, a\n"
        "conversation of which the assistant's tokens are learned, {\"prompt\": ..,\n"
        "\"completion\": ..} or {\"text\": ..}; for encoders {\"query\": .., \"positive\": ..}.\n"
        "Without --full the weights of the model stay as they are, packed ones too. Ctrl-C\n"
        "writes what was learned so far and a checkpoint. On one device, a seed gives the same\n"
        "result again.",
    .examples =
        "  rlx train --model smol.gguf --data chats.jsonl --out mine.gguf\n"
        "  rlx train -m smol.gguf --data book.txt --out book.gguf --steps 500 --rank 16\n"
        "  rlx train -m smol.gguf --data chats.jsonl --out mine.gguf --validation 0.1\n"
        "  rlx generate --model smol.gguf --lora mine.gguf --chat --prompt \"Who am I?\"",
};
