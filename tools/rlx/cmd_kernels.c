/* SPDX-License-Identifier: MIT */
/* rlx kernels: the GPU kernels that graphs and benchmark cases use, as the driver compiles them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "json.h"
#include "term.h"
#include "work.h"

typedef struct options {
    cli_common common;
    work_options work;
    const char *only;
    bool strict;
} options;

typedef struct row {
    rlx_kernel_info k;
    const char *first; /* the graph or case that uses it first */
    size_t n_users;
} row;

typedef struct rows {
    row *list;
    size_t n, cap;
    const char *only;
    size_t n_failed;
} rows;

/* ---- What is compiled ------------------------------------------------------------------------ */

/* Beside the suite of 'rlx bench': what chooses among the kernels of products, attention and
 * convolution. */
static const char *const cases[] = {
    "matmul:f16:4096x4096x4096", "matmul:f16:512x4096x4096:trans_b=true",
    "matmul:f16:64x4096x4096:trans_b=true", "matmul:f16:8x4096x4096:trans_b=true",
    "matmul:f16:1x4096x4096:trans_b=true", "matmul:bf16:4096x4096x4096",
    "matmul:bf16:512x4096x4096:trans_b=true", "matmul:f32:4096x4096x4096",
    "matmul:f16:512x512x1000:act=gelu", "matmul:f16:509x511x505",
    "dequant_matmul:q4_0:512x4096x4096", "dequant_matmul:q8_0:512x4096x4096",
    "dequant_matmul:q4_k:512x4096x4096", "dequant_matmul:q6_k:512x4096x4096",
    "dequant_matmul:iq3_s:512x4096x4096", "dequant_matmul:q4_0:64x4096x4096",
    "dequant_matmul:q4_0:16x4096x4096", "dequant_matmul:q4_0:4x4096x4096",
    "dequant_matmul:q4_k:4x4096x4096", "dequant_matmul:q4_0:1x4096x4096",
    "attention:f16:1x32x4096x128:kv=8:causal=true", "attention:f16:1x32x512x64:causal=true",
    "attention:f16:1x12x512x32", "attention:bf16:1x32x1024x128:kv=8:causal=true",
    "attention:f32:1x32x512x64", "attention:f16:1x16x512x96", "attention:f16:1x8x512x256",
    "conv2d:f16:1x64x56x56:64x3x3", "conv2d:f16:8x256x14x14:256x3x3",
    "conv2d:f16:1x256x56x56:64x1x1", "conv2d:f16:1x3x224x224:64x7x7:stride=2:pad=3",
    "conv2d:bf16:1x64x56x56:64x3x3",
};

static const char *case_at(size_t i)
{
    return i < ARRAY_LEN(cases) ? cases[i] : bench_suite(i - ARRAY_LEN(cases));
}

static void add_kernel(rows *r, const rlx_kernel_info *k, const char *user)
{
    if (r->only && !strstr(k->name, r->only))
        return;
    for (size_t i = 0; i < r->n; i++) {
        row *x = &r->list[i];
        if (strcmp(x->k.name, k->name) || strcmp(x->k.constants, k->constants) ||
            x->k.invocations != k->invocations || !strcmp(k->name, "emitted"))
            continue;
        x->k.n_dispatches += k->n_dispatches;
        x->n_users++;
        return;
    }
    if (r->n == r->cap) {
        r->cap = r->cap ? 2 * r->cap : 64;
        r->list = cli_realloc_array(r->list, r->cap, sizeof *r->list);
    }
    r->list[r->n++] = (row){*k, user, 1};
}

/* The kernels of a session whose dimensions are bound. */
static int add_session(rows *r, rlx_session *s, const char *user)
{
    rlx_kernel_info k = {RLX_INIT(rlx_kernel_info)};
    rlx_error err = {0};
    rlx_status st = rlx_session_prepare(s, &err);
    for (size_t i = 0; st == RLX_OK; i++) {
        st = rlx_session_kernel(s, i, &k, &err);
        if (st == RLX_OK)
            add_kernel(r, &k, user);
    }
    return st == RLX_NOT_FOUND ? EXIT_OK : cli_fail("%s: %s", user, err.text);
}

static int add_case(rows *r, rlx_device *d, const char *text, bool fast)
{
    bench_case c;
    rlx_error err = {0};
    rlx_session *s = NULL;
    int status = bench_parse(&c, text);
    rlx_graph *g = status ? NULL : bench_build(&c, 1, false);
    if (!g)
        return status ? status : EXIT_FAILED;
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fold = true,
                                   .policy = fast ? RLX_POLICY_FAST : RLX_POLICY_EXACT};
    if (rlx_session_create(d, g, &desc, &s, &err) == RLX_OK)
        status = add_session(r, s, text);
    else
        status = cli_fail("%s: %s", text, err.text);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    return status;
}

static int add_graph(rows *r, const options *o, const char *path)
{
    work w;
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc)};
    int status = work_open(&w, &o->common, &o->work, path, &desc);
    if (!status)
        status = work_bind_dims(&w, &o->work);
    if (!status)
        status = add_session(r, w.session, path);
    work_close(&w);
    return status;
}

static bool is_case(const char *text)
{
    const size_t n = strcspn(text, ":");
    char op[64];
    if (!text[n] || n >= sizeof op)
        return false;
    snprintf(op, sizeof op, "%.*s", (int)n, text);
    const char *name;
    for (size_t i = 0; (name = rlx_op_name(i)) != NULL; i++)
        if (!strcmp(name, op))
            return true;
    return bench_is_model(op);
}

static int add_all(rows *r, const options *o, rlx_device *d)
{
    int worst = EXIT_OK;
    const bool fast = !strcmp(o->work.policy, "fast");
    const size_t n = o->common.args.n;
    for (size_t i = 0; n ? i < n : case_at(i) != NULL; i++) {
        const char *text = n ? o->common.args.v[i] : case_at(i);
        cli_progress("%s", text);
        int status = is_case(text) || !n ? add_case(r, d, text, fast)
                                         : add_graph(r, o, text);
        r->n_failed += status != EXIT_OK;
        worst = status > worst ? status : worst;
    }
    cli_progress_clear();
    return worst;
}

/* ---- Columns --------------------------------------------------------------------------------- */

/* Columns of the table: what drivers call the same. */
static const struct {
    const char *title, *names[4];
} columns[] = {
    {"registers", {"VGPRs", "Register Count", "GRF registers"}},
    {"spilled", {"Spilled VGPRs", "Spill count"}},
    {"scratch", {"Scratch size", "Local Memory Size", "Scratch Memory Size"}},
    {"shared", {"LDS size", "Shared Memory Size"}},
    {"occupancy", {"Subgroups per SIMD"}},
    {"instructions", {"Instructions", "Instruction Count"}},
    {"latency", {"Latency"}},
    {"cycles", {"Inverse Throughput", "Cycle Count"}},
    {"code", {"Code size", "Binary Size"}},
};

/* NAN: the driver does not say. */
static double find_stat(const rlx_kernel_info *k, size_t column)
{
    for (uint32_t i = 0; i < k->n_stats; i++)
        for (size_t n = 0; n < ARRAY_LEN(columns[column].names); n++)
            if (columns[column].names[n] && !strcmp(columns[column].names[n], k->stats[i].name))
                return fmod(k->stats[i].value, 0x1p36); /* NVIDIA adds 2^36 to local memory */
    return NAN;
}

static bool is_known(const rows *r, size_t column)
{
    for (size_t i = 0; i < r->n; i++)
        if (!isnan(find_stat(&r->list[i].k, column)))
            return true;
    return false;
}

static bool spills(const rlx_kernel_info *k)
{
    return find_stat(k, 1) > 0 || find_stat(k, 2) > 0;
}

static size_t count_spills(const rows *r)
{
    size_t n = 0;
    for (size_t i = 0; i < r->n; i++)
        n += spills(&r->list[i].k);
    return n;
}

static void print_table(const rows *r, const rlx_device_info *device)
{
    table t;
    char headings[256] = "kernel|subgroup|local", align[ARRAY_LEN(columns) + 8] = "lrr";
    bool shown[ARRAY_LEN(columns)];
    for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
        shown[c] = is_known(r, c);
        if (shown[c]) {
            strcat(strcat(headings, "|"), columns[c].title);
            strcat(align, "r");
        }
    }
    strcat(headings, "|constants|used by");
    strcat(align, "ll");
    term_line(stdout, "%s (%s), %s", device->id, device->name, device->driver);
    table_init(&t, align, headings);
    for (size_t i = 0; i < r->n; i++) {
        const row *x = &r->list[i];
        table_styled(&t, spills(&x->k) ? TERM_RED : TERM_PLAIN, "%s", x->k.name);
        table_cell(&t, x->k.subgroup ? "%u" : "-", (unsigned)x->k.subgroup);
        table_cell(&t, "%u", (unsigned)x->k.invocations);
        for (size_t c = 0; c < ARRAY_LEN(columns); c++) {
            const double v = find_stat(&x->k, c);
            if (shown[c])
                table_cell(&t, isnan(v) ? "-" : "%.0f", v);
        }
        table_cell(&t, "%s", x->k.constants);
        if (x->n_users > 1)
            table_cell(&t, "%s and %zu more", x->first, x->n_users - 1);
        else
            table_cell(&t, "%s", x->first);
    }
    table_print(&t, 2);
    printf("%zu kernels, %zu with registers in memory\n", r->n, count_spills(r));
}

static void print_json(const rows *r, const rlx_device_info *device)
{
    json j = {.f = stdout};
    json_object(&j, NULL);
    json_text(&j, "device", device->id);
    json_text(&j, "name", device->name);
    json_text(&j, "driver", device->driver);
    json_array(&j, "kernels");
    for (size_t i = 0; i < r->n; i++) {
        const row *x = &r->list[i];
        json_row(&j, NULL);
        json_text(&j, "kernel", x->k.name);
        json_text(&j, "constants", x->k.constants);
        json_int(&j, "subgroup", x->k.subgroup);
        json_int(&j, "local", x->k.invocations);
        json_int(&j, "dispatches", x->k.n_dispatches);
        json_text(&j, "used_by", x->first);
        json_bool(&j, "spills", spills(&x->k));
        json_row(&j, "statistics");
        for (uint32_t s = 0; s < x->k.n_stats; s++)
            json_real(&j, x->k.stats[s].name, x->k.stats[s].value);
        json_end(&j);
        json_end(&j);
    }
    json_end(&j);
    json_int(&j, "failed", (int64_t)r->n_failed);
    json_end(&j);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int run_kernels(void *record)
{
    options *o = record;
    const char *id;
    rows r = {.only = o->only};
    rlx_device_info info = {RLX_INIT(rlx_device_info)};
    int status = cli_one_device(&o->common, &id);
    if (status)
        return status;
    o->common.device_flags = RLX_DEVICE_COMPILE_ONLY;
    rlx_policy policy;
    if ((status = cli_policy(o->work.policy, RLX_POLICY_FAST, &policy)))
        return status;
    o->work.policy = policy == RLX_POLICY_EXACT ? "exact" : "fast";
    const char *vulkan = id && strcmp(id, "auto") ? id : "vulkan";
    if (!id)
        o->common.device = (cli_list){cli_alloc_array(1, sizeof *o->common.device.v), 1};
    o->common.device.v[0] = vulkan;
    rlx_device *d = cli_open_device(&o->common, vulkan);
    if (!d)
        return EXIT_FAILED;
    rlx_device_get_info(d, &info, NULL);
    status = add_all(&r, o, d);
    if (o->common.json)
        print_json(&r, &info);
    else if (r.n || !status)
        print_table(&r, &info);
    if (o->strict && count_spills(&r) && !status)
        status = cli_fail("%zu kernels have registers in memory", count_spills(&r));
    rlx_device_close(d);
    free(r.list);
    return status;
}

static const cli_option kernels_options[] = {
    {"kernel", CLI_TEXT, offsetof(options, only), "TEXT", "only kernels whose name has this text"},
    {"dim", CLI_LIST, offsetof(options, work.dims), "NAME=SIZE",
     "size of a named dimension of a graph (default: its bound)"},
    {"policy", CLI_TEXT, offsetof(options, work.policy), "exact|fast",
     "the kernels that compute in f32, or those that may round operands (default: fast)"},
    {"strict", CLI_FLAG, offsetof(options, strict), NULL,
     "fail when a kernel has registers in memory"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_kernels = {
    .name = "kernels",
    .args = "[GRAPH|CASE]...",
    .summary = "show GPU kernels as the driver compiles them",
    .run = run_kernels,
    .options = kernels_options,
    .record_bytes = sizeof(options),
    .max_args = -1,
    .details = "The kernels that a Vulkan device would run for graphs (.rlx, .onnx) or cases of\n"
               "'rlx bench', by default a suite of them, with their constants and what the\n"
               "driver says of the code (VK_KHR_pipeline_executable_properties; --json has all\n"
               "of it). Nothing is run and no memory of the device is used, so drivers without\n"
               "hardware will do: Mesa's RADV compiles for AMD's cards with RADV_FORCE_FAMILY.",
    .examples = "  rlx kernels                                     a suite of cases\n"
                "  rlx kernels matmul:f16:4096x4096x4096           one product\n"
                "  rlx kernels llama_8b_prompt:q4_0:512            a model with random weights\n"
                "  RADV_FORCE_FAMILY=navi31 rlx kernels --json     as on a Radeon RX 7900",
};
