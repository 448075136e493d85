/* SPDX-License-Identifier: MIT */
/* rlx explain: the compile pipeline stage by stage, the steps, and the memory plan. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "cost.h"
#include "json.h"
#include "memory_svg.h"
#include "steps.h"
#include "term.h"
#include "work.h"

#define MAX_STAGES 16
#define PROFILE_RUNS 5

typedef struct options {
    cli_common common;
    work_options work;
    const char *dump, *memory_svg, *trace;
    double memory;
    bool profile, cost;
} options;

typedef struct stage {
    char name[24];
    char *text;
    size_t nodes, ops;
    double seconds;
} stage;

typedef struct stages {
    stage list[MAX_STAGES];
    size_t n;
    const work *w;
    double last; /* when the stage before ended */
} stages;

static void on_stage(void *user, const char *name, const char *text)
{
    stages *s = user;
    double seconds = cli_now() - (s->n ? s->last : s->w->compile_begin);
    if (s->n == MAX_STAGES)
        return;
    stage *t = &s->list[s->n++];
    listing l;
    listing_read(&l, text);
    *t = (stage){.text = cli_format("%s", text), .nodes = l.n_nodes, .ops = listing_n_ops(&l),
                 .seconds = seconds};
    snprintf(t->name, sizeof t->name, "%s", name);
    listing_free(&l);
    s->last = cli_now();
}

static int dump_stage(const stages *s, const char *name)
{
    const char *names[MAX_STAGES];
    char known[256] = "";
    for (size_t i = 0; i < s->n; i++) {
        names[i] = s->list[i].name;
        if (!strcmp(name, names[i])) {
            term_write(stdout, s->list[i].text, strlen(s->list[i].text));
            return EXIT_OK;
        }
        strcat(strcat(known, i ? ", " : ""), names[i]);
    }
    return cli_usage("--dump expected one of %s, select, order, chain; got '%s'", known, name);
}

/* ---- Text ------------------------------------------------------------------------------------ */

static void heading(const char *text)
{
    printf("\n%s%s%s\n", term_style(stdout, TERM_BOLD), text, term_style(stdout, TERM_PLAIN));
}

static const char *stage_help(const char *name)
{
    static const char *const help[][2] = {
        {"verify", "the graph as given"},
        {"fold", "constants computed, equal nodes shared, no-ops dropped"},
        {"legalise", "rewritten into what the device has"},
        {"fuse", "chains of operations joined"},
        {"recompute", "activations computed twice to fit the memory"},
        {"plan", "places in memory"},
        {"schedule", "steps in order"},
    };
    for (size_t i = 0; i < ARRAY_LEN(help); i++)
        if (!strcmp(help[i][0], name))
            return help[i][1];
    return "";
}

static void print_stages(const stages *s, size_t n_steps)
{
    table t;
    char time[SHORT_TEXT];
    heading("Stages");
    table_init(&t, "lrrrl", "stage|nodes|operations|time|what it did");
    for (size_t i = 0; i < s->n; i++) {
        const stage *g = &s->list[i];
        bool is_graph = strcmp(g->name, "plan") && strcmp(g->name, "schedule");
        table_cell(&t, "%s", g->name);
        if (is_graph)
            table_cell(&t, "%zu", g->nodes);
        else
            table_cell(&t, "-");
        if (is_graph || !strcmp(g->name, "schedule"))
            table_cell(&t, "%zu", is_graph ? g->ops : n_steps);
        else
            table_cell(&t, "-");
        table_cell(&t, "%s", short_seconds(g->seconds, time));
        table_cell(&t, "%s", stage_help(g->name));
    }
    table_print(&t, 2);
}

static void print_dispatch(const work *w)
{
    table t;
    char flops[SHORT_TEXT], bytes[SHORT_TEXT];
    double sum_flops = 0, sum_bytes = 0;
    size_t n_host = 0;
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    heading("Steps");
    table_init(&t, "rlllrrl", "step|op|kernel|runs|flop|bytes|shapes");
    for (size_t i = 0; rlx_session_step(w->session, i, &step, NULL) == RLX_OK; i++) {
        bool host = step.support == RLX_SUPPORT_HOST;
        table_cell(&t, "%zu", i);
        table_cell(&t, "%s", step.op);
        table_cell(&t, "%s", step.kernel ? step.kernel : "-");
        table_styled(&t, host ? TERM_YELLOW : TERM_GREEN, "%s", rlx_support_name(step.support));
        table_cell(&t, "%s", short_count(step.flops, flops));
        table_cell(&t, "%s", short_bytes(step.bytes, bytes));
        table_cell(&t, "%s%s%s", step.shapes, step.node[0] ? "  # " : "", step.node);
        sum_flops += step.flops;
        sum_bytes += step.bytes;
        n_host += host;
    }
    table_print(&t, 2);
    printf("  %zu steps (%zu on the host), %s flop, %s of traffic at the bounds\n",
           rlx_session_n_steps(w->session), n_host, short_count(sum_flops, flops),
           short_bytes(sum_bytes, bytes));
}

static void print_memory(const work *w)
{
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    char a[SHORT_TEXT], b[SHORT_TEXT], c[SHORT_TEXT];
    rlx_session_memory(w->session, &m, NULL);
    heading("Memory");
    printf("  arena       %s, %.3f x the least (%s: the peak of live bytes); without reuse %s\n",
           short_bytes((double)m.arena_bytes, a),
           m.arena_bound ? (double)m.arena_bytes / (double)m.arena_bound : 1.0,
           short_bytes((double)m.arena_bound, b), short_bytes((double)m.unshared_bytes, c));
    if (m.recomputed_steps)
        printf("  recomputed  %llu steps run twice, %s flop: the arena would be %s\n",
               (unsigned long long)m.recomputed_steps, short_count(m.recomputed_flops, a),
               short_bytes((double)m.kept_arena_bytes, b));
    printf("  parameters  %s\n", short_bytes((double)m.param_bytes, a));
    printf("  state       %s\n", short_bytes((double)m.state_bytes, a));
    printf("  inputs      %s\n", short_bytes((double)m.input_bytes, a));
    printf("  constants   %s\n", short_bytes((double)m.constant_bytes, a));
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void json_stages(json *j, const stages *s)
{
    json_array(j, "stages");
    for (size_t i = 0; i < s->n; i++) {
        json_row(j, NULL);
        json_text(j, "stage", s->list[i].name);
        json_int(j, "nodes", (int64_t)s->list[i].nodes);
        json_int(j, "operations", (int64_t)s->list[i].ops);
        json_real(j, "ms", s->list[i].seconds * 1e3);
        json_end(j);
    }
    json_end(j);
}

static void json_steps(json *j, const work *w, const step_time *times)
{
    rlx_step_info step = {RLX_INIT(rlx_step_info)};
    json_array(j, "steps");
    for (size_t i = 0; rlx_session_step(w->session, i, &step, NULL) == RLX_OK; i++) {
        json_row(j, NULL);
        json_int(j, "step", (int64_t)i);
        json_text(j, "node", step.node);
        json_text(j, "op", step.op);
        json_text(j, "kernel", times ? times[i].kernel : step.kernel);
        json_text(j, "support", rlx_support_name(step.support));
        json_text(j, "shapes", step.shapes);
        json_real(j, "flops", step.flops);
        json_real(j, "bytes", step.bytes);
        json_int(j, "offset", (int64_t)step.offset);
        json_int(j, "size", (int64_t)step.size);
        json_int(j, "last_use", (int64_t)step.last_use);
        if (times)
            json_real(j, "ms", times[i].seconds * 1e3);
        json_end(j);
    }
    json_end(j);
}

/* What was run besides compiling; NULL: not asked for. */
typedef struct runs {
    step_time *times;
    cost_row *costs;
    size_t n_times, n_costs;
} runs;

static void print_json(const work *w, const stages *s, const runs *r)
{
    json j = {.f = stdout};
    rlx_memory_info m = {RLX_INIT(rlx_memory_info)};
    rlx_session_memory(w->session, &m, NULL);
    json_object(&j, NULL);
    json_text(&j, "graph", rlx_graph_name(w->graph));
    json_text(&j, "device", w->device_info.id);
    json_stages(&j, s);
    json_steps(&j, w, r->times);
    if (r->costs)
        cost_json(&j, r->costs, r->n_costs);
    json_row(&j, "memory");
    json_int(&j, "arena", (int64_t)m.arena_bytes);
    json_int(&j, "bound", (int64_t)m.arena_bound);
    json_int(&j, "unshared", (int64_t)m.unshared_bytes);
    json_int(&j, "kept_arena", (int64_t)m.kept_arena_bytes);
    json_int(&j, "recomputed_steps", (int64_t)m.recomputed_steps);
    json_real(&j, "recomputed_flops", m.recomputed_flops);
    json_int(&j, "params", (int64_t)m.param_bytes);
    json_int(&j, "state", (int64_t)m.state_bytes);
    json_int(&j, "inputs", (int64_t)m.input_bytes);
    json_int(&j, "constants", (int64_t)m.constant_bytes);
    json_end(&j);
    json_end(&j);
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_text(const work *w, const options *o, const stages *s, const runs *r)
{
    rlx_calibration c = {RLX_INIT(rlx_calibration)};
    term_line(stdout, "graph \"%s\" on %s (%s)", rlx_graph_name(w->graph), w->device_info.id,
              w->device_info.name);
    if (rlx_device_calibration(w->device_info.id, 0, &c, NULL) == RLX_OK && c.kernels[0])
        printf("kernel variants, as calibrated: %s\n", c.kernels);
    print_stages(s, rlx_session_n_steps(w->session));
    print_dispatch(w);
    print_memory(w);
    if (r->costs) {
        heading("Cost");
        cost_print(r->costs, r->n_costs);
    }
    if (o->profile) {
        heading("Time");
        steps_print_profile(w, r->times, r->n_times, 40);
    }
}

/* As a run with these dimensions would. Where that fails the steps can still be shown. */
static int choose_kernels(work *w, const work_options *o)
{
    rlx_error err = {0};
    int status = work_bind_dims(w, o);
    if (!status && rlx_session_prepare(w->session, &err) != RLX_OK)
        cli_warn("the kernels are not known, a run would fail: %s", err.text);
    return status;
}

/* Stages of GPUs come after those of the compiler, at bound dimensions. */
static bool is_gpu_stage(const char *name)
{
    return !strcmp(name, "select") || !strcmp(name, "order") || !strcmp(name, "chain");
}

static int dump_gpu_stage(work *w, const options *o)
{
    rlx_error err = {0};
    char *text = NULL;
    int status = work_bind_dims(w, &o->work);
    if (!status && rlx_session_print_stage(w->session, o->dump, &text, &err) != RLX_OK)
        status = cli_fail("--dump %s: %s", o->dump, err.text);
    if (!status)
        term_write(stdout, text, strlen(text));
    rlx_free(text);
    return status;
}

static int explain_opened(work *w, const options *o, const stages *s)
{
    runs r = {0};
    int status = EXIT_OK;
    if (o->profile || o->trace) {
        work_options given = o->work; /* numbers do not matter for times: make up what is missing */
        given.random_params.given = given.random_inputs.given = true;
        status = work_set_leaves(w, &given);
        r.times = status ? NULL : steps_profile(w, PROFILE_RUNS, &r.n_times);
        if (!r.times)
            return EXIT_FAILED;
    } else {
        status = choose_kernels(w, &o->work);
        if (status)
            return status;
    }
    if (o->cost)
        r.costs = cost_measure(w, &o->common, &o->work, &r.n_costs);
    if (o->common.json)
        print_json(w, s, &r);
    else
        print_text(w, o, s, &r);
    if (o->memory_svg && !write_memory_svg(w, o->memory_svg))
        status = EXIT_FAILED;
    else if (o->memory_svg)
        term_line(stderr, "Drew the memory plan to %s.", o->memory_svg);
    if (o->trace && !write_trace(w, r.times, r.n_times, o->trace))
        status = EXIT_FAILED;
    free(r.times);
    free(r.costs);
    return status;
}

static int run_explain(void *record)
{
    const options *o = record;
    work w;
    stages s = {.w = &w};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .on_stage = on_stage, .on_stage_user = &s,
                             .memory_budget = cli_mib(o->memory)};
    int status = work_open(&w, &o->common, &o->work, o->common.args.v[0], &desc);
    if (o->dump && is_gpu_stage(o->dump))
        status = status ? status : dump_gpu_stage(&w, o);
    else if (o->dump && (!status || s.n))
        status = dump_stage(&s, o->dump); /* stages before a failure can be looked at too */
    else if (!status)
        status = explain_opened(&w, o, &s);
    for (size_t i = 0; i < s.n; i++)
        free(s.list[i].text);
    work_close(&w);
    return status;
}

static const cli_option explain_options[] = {
    {"dump", CLI_TEXT, offsetof(options, dump), "STAGE",
     "print only what verify, fold, legalise, fuse, recompute, plan, schedule left"},
    {"memory", CLI_REAL, offsetof(options, memory), "MIB",
     "most on the device: activations are computed twice rather than kept"},
    {"memory-svg", CLI_TEXT, offsetof(options, memory_svg), "FILE",
     "draw the memory plan: steps by bytes, a box for each tensor"},
    {"profile", CLI_FLAG, offsetof(options, profile), NULL,
     "run it (random numbers where none are given) and print the time of each step"},
    {"cost", CLI_FLAG, offsetof(options, cost), NULL,
     "print the time the cost model expects on each device, and the measured one"},
    {"trace", CLI_TEXT, offsetof(options, trace), "FILE",
     "run it and write a trace for Perfetto (ui.perfetto.dev) or chrome://tracing"},
    WORK_OPTIONS(options, work),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_explain = {
    .name = "explain",
    .args = "GRAPH",
    .summary = "show what the compiler did, the steps, the memory plan, the times",
    .run = run_explain,
    .options = explain_options,
    .record_bytes = sizeof(options),
    .min_args = 1,
    .max_args = 1,
    .details = "Stages (times include printing them), the steps of the program with their\n"
               "kernels, and the memory plan. GPUs have stages after schedule, at the sizes\n"
               "of --dim: --dump select, order or chain shows the dispatches.",
    .examples = "  rlx explain decoder.rlx                          everything in short\n"
                "  rlx explain decoder.rlx --dump fuse              the graph after fusion\n"
                "  rlx explain decoder.rlx --dump chain             what a GPU is given\n"
                "  rlx explain decoder.rlx --memory-svg plan.svg    a picture of the memory plan\n"
                "  rlx explain decoder.rlx --cost                   the devices compared\n"
                "  rlx explain decoder.rlx --trace trace.json       where the time goes",
};
