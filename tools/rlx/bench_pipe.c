/* SPDX-License-Identifier: MIT */
/* rlx bench --pipe: one case is open at a time and is measured as often as asked, so that a driver
 * can measure others in between. A request is a line of words, the answer a line of JSON:
 *   open CASE [fast] [copies=N]            flops and bytes of a run
 *   open prompt|decode TOKENS FILE [fast]  a language model: a prompt, or tokens one by one
 *   open sequences NxTOKENS FILE [fast]    so many steps of N sequences, after a prompt each
 *   open onnx FILE FOLDER [fast]           an ONNX model; FOLDER has NAME.npy for each input
 *   time SECONDS                           {"samples": [[wall, CPU], ...]}, seconds of a run
 *   steps                                  {"steps": [[operation, kernel, seconds], ...]}
 *   close                                  {}
 * An answer with the key "error" says why not. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"
#include "json.h"
#include "system.h"
#include "work.h"

#define MIN_SAMPLE 2e-3 /* seconds: shorter runs are put together */
#define MAX_INNER 4096
#define MAX_SAMPLES 10
#define MAX_WORDS 8
#define MANY_PROMPT 128 /* tokens of each of several sequences */
#define WARM_UP 20e-3   /* seconds: in this time a short run is seen at its best */

typedef struct open_bench {
    rlx_device *device;
    const char *id;
    uint32_t threads;
    bench_run run;        /* session: NULL when none is open */
    work onnx;            /* what the session of an ONNX model belongs to, else empty */
    size_t copies, inner;
    rlx_model *model;     /* NULL when none is open */
    rlx_context *context;
    bool decode;
    int32_t *tokens;
    size_t n_tokens, rounds;
    bench_many many;      /* model: NULL when none is open */
} open_bench;

/* ---- Answers --------------------------------------------------------------------------------- */

static json answer(void)
{
    json j = {.f = stdout};
    json_row(&j, NULL);
    return j;
}

static void finish(json *j)
{
    json_end(j);
    fflush(stdout);
}

static void refuse(const char *why)
{
    json j = answer();
    json_text(&j, "error", why);
    finish(&j);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void close_case(open_bench *s)
{
    if (s->onnx.session) {
        work_close(&s->onnx);
        s->run.session = NULL;
    }
    bench_close(&s->run);
    rlx_context_destroy(s->context);
    rlx_model_close(s->model);
    free(s->tokens);
    bench_many_close(&s->many);
    s->context = NULL;
    s->model = NULL;
    s->tokens = NULL;
}

static void answer_empty(void)
{
    json j = answer();
    finish(&j);
}

/* The answer to the opening of a model, which is closed again after a failure. */
static void answer_open(open_bench *s, rlx_status st, const rlx_error *err)
{
    if (st == RLX_OK) {
        answer_empty();
        return;
    }
    close_case(s);
    refuse(err->text);
}

/* Runs until caches, pages and clocks are as in the steady state, and sees how long a run takes. */
static rlx_status warm_up(open_bench *s, rlx_error *err)
{
    double one = 0, best = INFINITY, begin = cli_now();
    rlx_status st = RLX_OK;
    for (int i = 0; st == RLX_OK && (i < 3 || (i < 20 && cli_now() - begin < WARM_UP)); i++) {
        st = bench_sample(&s->run, 1, &one, err);
        best = fmin(best, one);
    }
    while (st == RLX_OK && cli_now() - begin < s->run.heat)
        st = bench_sample(&s->run, 8, &one, err);
    s->inner = (size_t)fmin(MAX_INNER, ceil(MIN_SAMPLE / fmax(fmin(best, one), 1e-9)));
    return st;
}

static bool has_word_after(char **words, size_t n, size_t first, const char *word)
{
    for (size_t i = first; i < n; i++)
        if (!strcmp(words[i], word))
            return true;
    return false;
}

static rlx_policy policy_after(char **words, size_t n, size_t first)
{
    return has_word_after(words, n, first, "fast") ? RLX_POLICY_FAST : RLX_POLICY_EXACT;
}

static void open_case(open_bench *s, char **words, size_t n)
{
    bench_case c;
    rlx_error err = {0};
    bench_options o = {.copies = 1, .policy = policy_after(words, n, 2)};
    for (size_t i = 2; i < n; i++)
        if (!strncmp(words[i], "copies=", 7))
            o.copies = (size_t)fmax(1, atof(words[i] + 7));
    if (bench_parse(&c, words[1]) || bench_open(s->device, &c, &o, &s->run)) {
        refuse("the case cannot be built");
        return;
    }
    s->copies = o.copies;
    if (warm_up(s, &err) != RLX_OK) {
        close_case(s);
        refuse(err.text);
        return;
    }
    json j = answer();
    json_real(&j, "flops", s->run.r.c.flops);
    json_real(&j, "bytes", s->run.r.c.bytes);
    finish(&j);
}

/* ---- An ONNX model --------------------------------------------------------------------------- */

/* "NAME=FOLDER/NAME.npy" for each such file; to be freed with free_list. */
static cli_list list_tensors(const char *folder)
{
    cli_list list = {0};
    rx_dir *d = rx_opendir(folder);
    const char *name;
    while (d && (name = rx_next_name(d))) {
        const size_t n = strlen(name);
        if (n <= 4 || strcmp(name + n - 4, ".npy"))
            continue;
        list.v = cli_realloc_array(list.v, list.n + 1, sizeof *list.v);
        list.v[list.n++] = cli_format("%.*s=%s/%s", (int)n - 4, name, folder, name);
    }
    if (d)
        rx_closedir(d);
    return list;
}

static void free_list(cli_list *list)
{
    for (size_t i = 0; i < list->n; i++)
        free((char *)list->v[i]);
    free(list->v);
}

static void open_onnx(open_bench *s, char **words, size_t n)
{
    rlx_error err = {0};
    const char *id = s->id;
    const cli_common common = {.device = {&id, id != NULL}, .threads = s->threads};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    cli_list inputs = list_tensors(words[3]);
    const work_options o = {.inputs = inputs, .random_inputs = {.given = true},
                            .policy = has_word_after(words, n, 4, "fast") ? "fast" : "exact"};
    int status = work_open(&s->onnx, &common, &o, words[2], &desc);
    if (!status)
        status = work_set_leaves(&s->onnx, &o);
    free_list(&inputs);
    s->run = (bench_run){.session = s->onnx.session};
    s->run.gpu = bench_is_gpu(&s->onnx.device_info);
    s->copies = 1;
    if (status) {
        work_close(&s->onnx);
        s->run.session = NULL;
        refuse("the model cannot be run");
        return;
    }
    answer_open(s, warm_up(s, &err), &err);
}

/* ---- A language model from a file ------------------------------------------------------------ */

/* A prompt as one step, or n_tokens steps after one token. Seconds of the prompt or of a token. */
static rlx_status run_model(open_bench *s, double sample[2], rlx_error *err)
{
    size_t prompt = s->decode ? 1 : s->n_tokens, steps = s->decode ? s->n_tokens : 1;
    s->tokens[0] = (int32_t)(1 + s->rounds++ % 64); /* so that nothing is kept from before */
    rlx_status st = rlx_context_set_tokens(s->context, 0, s->tokens, prompt, err);
    if (s->decode && st == RLX_OK)
        st = rlx_context_step(s->context, -1, NULL, err);
    double begin = cli_now();
    clock_t cpu = clock();
    for (size_t i = 0; i < steps && st == RLX_OK; i++)
        st = rlx_context_step(s->context, -1, NULL, err);
    sample[0] = (cli_now() - begin) / (double)steps;
    sample[1] = (double)(clock() - cpu) / CLOCKS_PER_SEC / (double)steps;
    return st;
}

static void open_model(open_bench *s, char **words, size_t n)
{
    rlx_error err = {0};
    double ignored[2];
    s->decode = !strcmp(words[1], "decode");
    s->n_tokens = (size_t)fmin(fmax(1, atof(words[2])), 1 << 20);
    s->tokens = cli_alloc_array(s->n_tokens, sizeof *s->tokens);
    for (size_t i = 0; i < s->n_tokens; i++)
        s->tokens[i] = (int32_t)(i * 37 % 997 + 3);
    rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = s->id, .threads = s->threads,
                        .context = (int64_t)s->n_tokens + 2,
                        .policy = policy_after(words, n, 4)};
    rlx_status st = rlx_model_open(words[3], &d, &s->model, &err);
    if (st == RLX_OK)
        st = rlx_context_create(s->model, &s->context, &err);
    if (st == RLX_OK)
        st = run_model(s, ignored, &err);
    answer_open(s, st, &err);
}

/* Steps of several sequences. Seconds of a step; CPU time is that of the prompts too, in the share
 * of the steps. */
static rlx_status run_many(open_bench *s, double sample[2], rlx_error *err)
{
    double prompt = 0;
    const clock_t cpu = clock();
    rlx_status st = bench_many_round(&s->many, s->many.most, &prompt, &sample[0], err);
    const double steps = sample[0] * (double)s->many.n_tokens;
    sample[1] = (double)(clock() - cpu) / CLOCKS_PER_SEC * sample[0] / fmax(steps + prompt, 1e-9);
    return st;
}

static void open_many(open_bench *s, char **words, size_t n)
{
    rlx_error err = {0};
    double ignored[2];
    long long sequences = 0, tokens = 0;
    if (sscanf(words[2], "%lldx%lld", &sequences, &tokens) != 2 || sequences < 1 || tokens < 1 ||
        sequences > 512 || tokens > 1 << 20) {
        refuse("expected 'open sequences NxTOKENS FILE', N up to 512");
        return;
    }
    const bench_file_options o = {.path = words[3], .device = s->id, .threads = s->threads,
                                  .prompt = MANY_PROMPT, .tokens = tokens,
                                  .policy = policy_after(words, n, 4)};
    rlx_status st = bench_many_open(&s->many, &o, sequences, &err);
    if (st == RLX_OK)
        st = run_many(s, ignored, &err);
    answer_open(s, st, &err);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static rlx_status take_sample(open_bench *s, double sample[2], rlx_error *err)
{
    if (s->model)
        return run_model(s, sample, err);
    if (s->many.model)
        return run_many(s, sample, err);
    clock_t cpu = clock();
    rlx_status st = bench_sample(&s->run, s->inner, &sample[0], err);
    double runs = (double)s->inner * (double)s->copies;
    sample[0] /= (double)s->copies;
    sample[1] = (double)(clock() - cpu) / CLOCKS_PER_SEC / runs;
    return st;
}

static void time_case(open_bench *s, double seconds)
{
    double samples[MAX_SAMPLES][2], one;
    rlx_error err = {0};
    size_t n = 0;
    /* Warm-up: others ran in between and evicted the caches. */
    const bool model = s->model || s->many.model;
    rlx_status st = model ? RLX_OK : bench_sample(&s->run, 1, &one, &err);
    double begin = cli_now();
    while (st == RLX_OK && n < MAX_SAMPLES && (n == 0 || cli_now() - begin < seconds))
        st = take_sample(s, samples[n++], &err);
    if (st != RLX_OK) {
        refuse(err.text);
        return;
    }
    json j = answer();
    json_list(&j, "samples");
    for (size_t i = 0; i < n; i++) {
        json_list(&j, NULL);
        json_real(&j, NULL, samples[i][0]);
        json_real(&j, NULL, samples[i][1]);
        json_end(&j);
    }
    json_end(&j);
    finish(&j);
}

typedef struct step_list {
    json j;
    rlx_session *s;
} step_list;

static int add_step(void *user, const rlx_step_result *r)
{
    step_list *l = user;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    if (rlx_session_step(l->s, r->step, &step, NULL) != RLX_OK)
        return 0;
    json_list(&l->j, NULL);
    json_text(&l->j, NULL, step.op);
    json_text(&l->j, NULL, step.kernel);
    json_real(&l->j, NULL, r->seconds);
    json_end(&l->j);
    return 0;
}

static void list_steps(open_bench *s)
{
    rlx_error err = {0};
    step_list l = {.j = answer(), .s = s->run.session};
    json_list(&l.j, "steps");
    rlx_status st = rlx_session_run_steps(l.s, false, add_step, &l, &err);
    json_end(&l.j);
    if (st != RLX_OK)
        json_text(&l.j, "error", err.text);
    finish(&l.j);
}

/* ---- Requests -------------------------------------------------------------------------------- */

static size_t split(char *line, char **words)
{
    size_t n = 0;
    for (char *at = strtok(line, " \n"); at && n < MAX_WORDS; at = strtok(NULL, " \n"))
        words[n++] = at;
    return n;
}

static void answer_request(open_bench *s, char **words, size_t n)
{
    bool open = s->run.session || s->model || s->many.model;
    if (!strcmp(words[0], "open") && n > 1) {
        bool model = !strcmp(words[1], "prompt") || !strcmp(words[1], "decode");
        bool many = !strcmp(words[1], "sequences"), onnx = !strcmp(words[1], "onnx");
        close_case(s);
        if ((model || many || onnx) && n < 4)
            refuse("expected 'open prompt|decode TOKENS FILE', 'open sequences NxTOKENS FILE' or "
                   "'open onnx FILE FOLDER'");
        else if (onnx)
            open_onnx(s, words, n);
        else if (many)
            open_many(s, words, n);
        else if (model)
            open_model(s, words, n);
        else
            open_case(s, words, n);
    } else if (!strcmp(words[0], "time") && n == 2 && open) {
        time_case(s, atof(words[1]));
    } else if (!strcmp(words[0], "steps") && s->run.session) {
        list_steps(s);
    } else if (!strcmp(words[0], "close")) {
        close_case(s);
        answer_empty();
    } else {
        refuse("expected open, time, steps or close; time and steps need an open case");
    }
}

int bench_pipe(rlx_device *d, const char *device, uint32_t threads)
{
    open_bench s = {.device = d, .id = device, .threads = threads};
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    char line[4096], *words[MAX_WORDS];
    rlx_device_get_info(d, &info, NULL);
    json j = answer();
    json_text(&j, "name", "rlx");
    json_text(&j, "version", rlx_version());
    json_text(&j, "device", info.name);
    finish(&j);
    while (fgets(line, sizeof line, stdin)) {
        size_t n = split(line, words);
        if (n)
            answer_request(&s, words, n);
    }
    close_case(&s);
    return EXIT_OK;
}
