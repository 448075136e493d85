/* SPDX-License-Identifier: MIT */
/* rlx compile: compiles a graph for a device and stores the result, which 'rlx run' takes in the
 * place of the graph. */
#include <string.h>

#include "cli.h"
#include "json.h"
#include "report.h"
#include "term.h"
#include "work.h"

typedef struct options {
    cli_common common;
    work_options work; /* dims, no_fusion and policy of it */
} options;

static void print_result(const work *w, const char *out, double seconds, bool as_json)
{
    char time[SHORT_TEXT];
    if (!as_json) {
        term_line(stdout, "%s -> %s: %zu steps for %s, compiled in %s", w->path, out,
                  rlx_session_n_steps(w->session), w->device_info.id,
                  short_seconds(seconds, time));
        return;
    }
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "graph", rlx_graph_name(w->graph));
    json_text(&j, "device", w->device_info.id);
    json_text(&j, "file", out);
    json_int(&j, "steps", (int64_t)rlx_session_n_steps(w->session));
    json_real(&j, "ms", seconds * 1e3);
    json_end(&j);
}

static int run_compile(void *record)
{
    const options *o = record;
    const char *out = o->common.args.v[1];
    work w = {0};
    rlx_error err = {0};
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .savable = true};
    int status = work_open(&w, &o->common, &o->work, o->common.args.v[0], &desc);
    if (!status)
        status = work_bind_dims(&w, &o->work);
    /* What the driver makes of the kernels goes into the file too. */
    if (!status && rlx_session_prepare(w.session, &err) != RLX_OK)
        status = cli_error(&err);
    const double seconds = cli_now() - w.compile_begin;
    if (!status && rlx_session_save(w.session, out, &err) != RLX_OK)
        status = cli_error(&err);
    if (!status)
        print_result(&w, out, seconds, o->common.json);
    work_close(&w);
    return status;
}

static const cli_option compile_options[] = {
    {"dim", CLI_LIST, offsetof(options, work.dims), "NAME=SIZE",
     "size of a named dimension for which kernels are made (default: its bound)"},
    {"no-fusion", CLI_FLAG, offsetof(options, work.no_fusion), NULL, "compile without fusion"},
    POLICY_OPTION(options, work.policy),
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_compile = {
    .name = "compile",
    .args = "GRAPH.rlx OUT.rlxc",
    .summary = "compile a graph and store the result for 'rlx run'",
    .run = run_compile,
    .options = compile_options,
    .record_bytes = sizeof(options),
    .min_args = 2,
    .max_args = 2,
    .details =
        "OUT.rlxc is for this device, driver and version of rlx; others refuse it. It holds no\n"
        "weights. On GPUs it holds what the driver made of the kernels: run only files that you\n"
        "trust. An older file is replaced only when it is of the same kind.",
    .examples = "  rlx compile mlp.rlx mlp.rlxc --device vulkan\n"
                "  rlx run mlp.rlxc --device vulkan --random-params --input x=ones",
};
