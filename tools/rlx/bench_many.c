/* SPDX-License-Identifier: MIT */
/* rlx bench --model FILE --sequences LIST: the speed of an engine against the number of sequences.
 * They all have their prompt computed first, which is one time, and then take steps together, whose
 * mean is the other. Prompts share nothing; the tokens are arbitrary, as in bench_file.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"
#include "llm.h"
#include "svg.h"
#include "term.h"

#define ROUNDS 3          /* after one that warms up; the best counts */
#define MAX_POINTS 32
#define MAX_SEQUENCES 512 /* of an engine */
#define ROWS 512          /* of a step, unless there are more sequences */
#define PAGE 32

typedef struct point {
    int64_t sequences;
    double prompt, step; /* seconds: of all prompts, of a step */
    double per_step;     /* tokens of a sequence in a step */
} point;

/* ---- One round ------------------------------------------------------------------------------- */

static int64_t power_from(int64_t n)
{
    int64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

static int count_piece(void *user, rlx_request *r, const rlx_request_piece *p)
{
    bench_stream *s = user;
    (void)r;
    s->tokens += p && p->token >= 0;
    s->ended |= !p;
    return 0;
}

rlx_status bench_many_open(bench_many *b, const bench_file_options *o, int64_t most, rlx_error *err)
{
    const int64_t rows = power_from(most > ROWS ? most : ROWS);
    /* Those whose prompt is the first to end have tokens more when the last one ends. */
    const int64_t ahead = (most * o->prompt + rows - 1) / rows + 2;
    const int64_t guesses = o->draft && !o->guesses ? 4 : o->guesses;
    const int64_t each = 1 + (guesses < 0 ? -guesses : guesses);
    const int64_t context = o->prompt + o->tokens * each + ahead;
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = o->device, .threads = o->threads,
                              .context = context, .gpu_layers = o->gpu_layers,
                              .policy = o->policy};
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    *b = (bench_many){.n_prompt = o->prompt, .n_tokens = o->tokens, .most = most};
    rlx_status st = rlx_model_open(o->path, &d, &b->model, err);
    if (st == RLX_OK)
        st = rlx_model_get_info(b->model, &info, err);
    if (st == RLX_OK && o->draft)
        st = rlx_model_open(o->draft, &d, &b->draft, err);
    if (st != RLX_OK)
        return st;
    const int64_t padded = (info.context + PAGE - 1) / PAGE * PAGE + PAGE;
    const double bytes = (double)info.cache_bytes / (double)info.context * (double)padded;
    const rlx_engine_desc e = {RLX_INIT(rlx_engine_desc), .sequences = most, .rows = rows,
                               .page = PAGE, .no_sharing = true, .no_thread = true,
                               .cache_bytes = (uint64_t)(bytes * (double)most), .step_ms = 1e6,
                               .guesses = o->guesses, .draft = b->draft};
    st = rlx_engine_create(b->model, &e, &b->engine, err);
    b->streams = cli_alloc_array((size_t)most, sizeof *b->streams);
    b->requests = cli_alloc_array((size_t)most, sizeof(rlx_request *));
    b->tokens = cli_alloc_array((size_t)o->prompt, sizeof *b->tokens);
    b->vocabulary = info.vocabulary;
    return st;
}

void bench_many_close(bench_many *b)
{
    rlx_engine_destroy(b->engine);
    rlx_model_close(b->draft);
    rlx_model_close(b->model);
    free(b->streams);
    free(b->requests);
    free(b->tokens);
    *b = (bench_many){0};
}

static rlx_status submit(bench_many *b, int64_t i, rlx_error *err)
{
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .tokens = b->tokens,
                                .n_tokens = (size_t)b->n_prompt, .ignore_end = true,
                                .fn = count_piece, .user = &b->streams[i]};
    for (int64_t k = 0; k < b->n_prompt; k++)
        b->tokens[k] = (int32_t)((k * 37 + i * 11 + 3) % (b->vocabulary < 997 ? b->vocabulary
                                                                               : 997));
    b->streams[i] = (bench_stream){0};
    return rlx_engine_submit(b->engine, &d, &b->requests[i], err);
}

/* Whether each of n sequences has so many tokens; one that has ended fails. */
static bool all_have(const bench_many *b, int64_t n, int64_t tokens, bool *failed)
{
    bool all = true;
    for (int64_t i = 0; i < n; i++) {
        all &= b->streams[i].tokens >= tokens;
        *failed |= b->streams[i].ended;
    }
    return all;
}

static int64_t count_tokens(const bench_many *b, int64_t n)
{
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += b->streams[i].tokens;
    return sum;
}

static rlx_status run_streams(bench_many *b, int64_t n, double *prompt, double *step,
                              rlx_error *err)
{
    rlx_status st = RLX_OK;
    bool failed = false;
    double begin = cli_now();
    while (st == RLX_OK && !failed && !all_have(b, n, 1, &failed))
        st = rlx_engine_step(b->engine, -1, NULL, err);
    *prompt = cli_now() - begin;
    const int64_t before = count_tokens(b, n);
    begin = cli_now();
    for (int64_t i = 0; i < b->n_tokens && st == RLX_OK && !failed; i++) {
        st = rlx_engine_step(b->engine, -1, NULL, err);
        all_have(b, n, 1, &failed);
    }
    *step = (cli_now() - begin) / (double)b->n_tokens;
    b->per_step = (double)(count_tokens(b, n) - before) / (double)(n * b->n_tokens);
    for (int64_t i = 0; i < n && failed && st == RLX_OK; i++)
        if (b->streams[i].ended) /* says why */
            st = rlx_request_wait(b->requests[i], -1, err);
    if (st != RLX_OK || !failed)
        return st;
    snprintf(err->text, sizeof err->text, "a sequence ended before it had %lld tokens: the context "
             "of the model is too short", (long long)(b->n_prompt + b->n_tokens));
    return err->code = RLX_INVALID;
}

rlx_status bench_many_round(bench_many *b, int64_t n, double *prompt, double *step, rlx_error *err)
{
    bool busy = true;
    rlx_status st = RLX_OK;
    for (int64_t i = 0; i < n && st == RLX_OK; i++)
        st = submit(b, i, err);
    if (st == RLX_OK)
        st = run_streams(b, n, prompt, step, err);
    if (st == RLX_OK && b->profile) {
        fprintf(stderr, "%lld sequences: ", (long long)n);
        llm_print_profile(rlx_engine_session(b->engine));
    }
    for (int64_t i = 0; i < n; i++)
        if (b->requests[i])
            rlx_request_cancel(b->requests[i]);
    while (busy && rlx_engine_step(b->engine, -1, &busy, NULL) == RLX_OK)
        continue;
    for (int64_t i = 0; i < n; i++) {
        rlx_request_destroy(b->requests[i]);
        b->requests[i] = NULL;
    }
    return st;
}

/* ---- All points ------------------------------------------------------------------------------ */

static int parse_points(const char *text, point *points, size_t *n)
{
    char *end = NULL;
    for (*n = 0; text; text = *end ? end + 1 : NULL) {
        const long long v = strtoll(text, &end, 10);
        if (end == text || (*end && *end != ',') || v < 1 || v > MAX_SEQUENCES || *n == MAX_POINTS)
            return cli_usage("--sequences expected up to %d numbers from 1 to %d with commas, such "
                             "as 1,2,4,8; got '%s'", MAX_POINTS, MAX_SEQUENCES, text);
        points[(*n)++] = (point){.sequences = v};
    }
    return EXIT_OK;
}

static double prompt_speed(const point *p, const bench_file_options *o)
{
    return (double)(p->sequences * o->prompt) / p->prompt;
}

static double decode_speed(const point *p)
{
    return (double)p->sequences * p->per_step / p->step;
}

static rlx_status measure_point(bench_many *b, point *p, rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (int i = 0; i <= ROUNDS && st == RLX_OK; i++) {
        double prompt = 0, step = 0;
        cli_progress("%lld sequences, round %d of %d", (long long)p->sequences, i, ROUNDS);
        st = bench_many_round(b, p->sequences, &prompt, &step, err);
        if (i == 0)
            continue;
        p->prompt = i == 1 ? prompt : fmin(p->prompt, prompt);
        if (i == 1 || b->per_step / step > p->per_step / p->step) {
            p->step = step;
            p->per_step = b->per_step;
        }
    }
    return st;
}

/* ---- Results --------------------------------------------------------------------------------- */

static void print_json(const point *points, size_t n, const bench_file_options *o)
{
    json j = {.f = stdout};
    json_array(&j, NULL);
    for (size_t i = 0; i < n; i++) {
        json_row(&j, NULL);
        json_int(&j, "sequences", points[i].sequences);
        json_real(&j, "prompt_tokens_per_s", prompt_speed(&points[i], o));
        json_real(&j, "decode_tokens_per_s", decode_speed(&points[i]));
        json_real(&j, "ms_per_step", points[i].step * 1e3);
        if (o->guesses || o->draft)
            json_real(&j, "tokens_per_step", points[i].per_step);
        json_end(&j);
    }
    json_end(&j);
}

static void print_points(const bench_many *b, const point *points, size_t n,
                         const bench_file_options *o)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    table t;
    if (o->json) {
        print_json(points, n, o);
        return;
    }
    rlx_model_get_info(b->model, &info, NULL);
    rlx_device_get_info(rlx_model_device(b->model), &device, NULL);
    term_line(stdout, "%s (%s) on %s, policy %s, prompts of %lld tokens, %lld after each",
              info.name ? info.name : "model", info.architecture, device.name,
              info.policy == RLX_POLICY_FAST ? "fast" : "exact", (long long)o->prompt,
              (long long)o->tokens);
    table_init(&t, "rrrrr", "sequences|prompt tokens/s|decode tokens/s|of each|ms a step");
    for (size_t i = 0; i < n; i++) {
        table_cell(&t, "%lld", (long long)points[i].sequences);
        table_cell(&t, "%.0f", prompt_speed(&points[i], o));
        table_styled(&t, TERM_BOLD, "%.1f", decode_speed(&points[i]));
        table_cell(&t, "%.1f", points[i].per_step / points[i].step);
        table_cell(&t, "%.3f", points[i].step * 1e3);
    }
    table_print(&t, 0);
    rlx_engine_info e = {RLX_INIT(rlx_engine_info)};
    rlx_engine_get_info(b->engine, &e, NULL);
    if (o->guesses || o->draft)
        term_line(stdout, "%llu of %llu guesses were right",
                  (unsigned long long)e.accepted_tokens, (unsigned long long)e.guessed_tokens);
}

/* ---- The curve ------------------------------------------------------------------------------- */

#define WIDTH 760.0
#define HEIGHT 460.0

static void draw_curve(svg *s, const point *points, size_t n)
{
    const svg_box box = {84, 84, WIDTH - 84 - 40, HEIGHT - 84 - 62};
    double xy[2 * MAX_POINTS], max = 0;
    for (size_t i = 0; i < n; i++)
        max = fmax(max, decode_speed(&points[i]));
    const double tick = svg_tick(max, 6), top = ceil(max * 1.06 / tick) * tick;
    for (double v = 0; v <= top * 1.0001; v += tick) {
        const double y = box.y + box.h * (1 - v / top);
        svg_line(s, v == 0 ? "axis" : "grid", box.x, y, box.x + box.w, y);
        svg_text(s, box.x - 10, y + 4, "small", "end", "%g", v);
    }
    for (size_t i = 0; i < n; i++) {
        xy[2 * i] = box.x + ((double)i + 0.5) / (double)n * box.w;
        xy[2 * i + 1] = box.y + box.h * (1 - decode_speed(&points[i]) / top);
        svg_text(s, xy[2 * i], box.y + box.h + 18, "small", "middle", "%lld",
                 (long long)points[i].sequences);
    }
    svg_text(s, box.x + box.w / 2, box.y + box.h + 42, "label", "middle", "sequences");
    svg_path(s, xy, n, svg_colour(0));
    for (size_t i = 0; i < n; i++) {
        char *tip = cli_format("%lld sequences\n%.1f tokens/s, %.3f ms a step",
                               (long long)points[i].sequences, decode_speed(&points[i]),
                               points[i].step * 1e3);
        svg_dot(s, xy[2 * i], xy[2 * i + 1], svg_colour(0), tip);
        svg_text(s, xy[2 * i], xy[2 * i + 1] - 10, "value", "middle", "%.0f",
                 decode_speed(&points[i]));
        free(tip);
    }
}

static bool plot_points(const bench_many *b, const point *points, size_t n, const char *path)
{
    svg s;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_device_info device = {RLX_INIT(rlx_device_info)};
    rlx_model_get_info(b->model, &info, NULL);
    rlx_device_get_info(rlx_model_device(b->model), &device, NULL);
    if (!svg_open(&s, path, WIDTH, HEIGHT, "rlx bench --sequences"))
        return false;
    svg_text(&s, 28, 34, "title", "start", "%s: tokens a second, all sequences together",
             info.name ? info.name : info.architecture);
    svg_text(&s, 28, 58, "label", "start", "%s, policy %s, after prompts of %lld tokens",
             device.name, info.policy == RLX_POLICY_FAST ? "fast" : "exact",
             (long long)b->n_prompt);
    draw_curve(&s, points, n);
    return svg_close(&s);
}

int bench_sequences(const bench_file_options *o, const char *list, const char *plot, bool profile)
{
    rlx_error err = {0};
    bench_many b = {0};
    point points[MAX_POINTS];
    size_t n = 0;
    int64_t most = 1;
    int status = parse_points(list, points, &n);
    if (status)
        return status;
    for (size_t i = 0; i < n; i++)
        most = points[i].sequences > most ? points[i].sequences : most;
    cli_progress("loading %s", o->path);
    rlx_status st = bench_many_open(&b, o, most, &err);
    for (size_t i = 0; i < n && st == RLX_OK; i++) {
        double ignored[2];
        st = measure_point(&b, &points[i], &err);
        cli_progress_clear();
        if (!profile || st != RLX_OK)
            continue;
        b.profile = true;
        st = bench_many_round(&b, points[i].sequences, &ignored[0], &ignored[1], &err);
        b.profile = false;
    }
    cli_progress_clear();
    if (st == RLX_OK)
        print_points(&b, points, n, o);
    if (st == RLX_OK && plot && !plot_points(&b, points, n, plot))
        status = EXIT_FAILED;
    bench_many_close(&b);
    return st == RLX_OK ? status : cli_fail("'%s': %s", o->path, err.text);
}
