/* SPDX-License-Identifier: MIT */
/* rlx convert: a model of safetensors files as one GGUF file. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "quantize_mix.h"
#include "quantize_report.h"
#include "system.h"
#include "tensor.h"
#include "term.h"

typedef struct options {
    cli_common common;
    const char *out, *type, *output_type, *embedding_type, *name;
    cli_list keep;
} options;

typedef struct convert_job {
    const options *o;
    const char *in;
    mix_plan plan; /* mix NULL: f16, or bf16 where the model has that */
    quantize_report report;
} convert_job;

/* ---- Types ----------------------------------------------------------------------------------- */

static int plain_type(const char *option, const char *name, rlx_dtype *out)
{
    *out = name ? rlx_dtype_from_name(name) : RLX_NO_TYPE;
    return !name || rlx_dtype_can_quantize(*out) ? EXIT_OK : mix_unknown(option, name);
}

static int read_types(convert_job *j)
{
    const options *o = j->o;
    if (o->type && strcmp(o->type, "auto") != 0) {
        j->plan.mix = mix_find(o->type);
        if (!j->plan.mix)
            return mix_unknown("type", o->type);
    }
    int status = plain_type("output-type", o->output_type, &j->plan.output);
    if (status == EXIT_OK)
        status = plain_type("token-embedding-type", o->embedding_type, &j->plan.embedding);
    return status;
}

static bool is_kept(const options *o, const char *name)
{
    for (size_t i = 0; i < o->keep.n; i++)
        if (system_matches(o->keep.v[i], name))
            return true;
    return false;
}

static rlx_status choose_types(void *user, const rlx_file_tensor *tensors, size_t n,
                               rlx_dtype *types, rlx_error *err)
{
    convert_job *j = user;
    (void)err;
    j->plan.tied = true;
    for (size_t i = 0; i < n && !j->plan.mix; i++)
        if (tensors[i].shape.rank > 1)
            j->plan.mix = mix_find(tensors[i].dtype == RLX_BF16 ? "bf16" : "f16");
    for (size_t i = 0; i < n; i++)
        mix_study(&j->plan, tensors[i].name);
    for (size_t i = 0; i < n; i++) {
        bool fallback = false;
        if (!is_kept(j->o, tensors[i].name))
            types[i] = mix_type(&j->plan, &tensors[i], &fallback);
        j->report.n_fallbacks += fallback;
    }
    return RLX_OK;
}

static void count_tensor(void *user, const rlx_file_tensor *t, rlx_dtype type,
                         const rlx_quantize_rows_stats *stats)
{
    convert_job *j = user;
    const double bytes = (double)tensor_elements(&t->shape) *
                         (double)rlx_dtype_block_bytes(t->dtype);
    quantize_count(&j->report, t, bytes, type, stats);
}

static int show_progress(void *user, const char *name, uint64_t done, uint64_t total)
{
    (void)user;
    cli_progress_bar((double)done, (double)total, "%3.0f %%  %s",
                     total ? 100 * (double)done / (double)total : 100, name);
    return cli_caught_signal();
}

/* ---- The command ----------------------------------------------------------------------------- */

static void print_report(const convert_job *j, double seconds)
{
    char text[SHORT_TEXT];
    if (!j->o->common.json) {
        term_line(stdout, "%s: %s of '%s', %s", j->o->out, j->plan.mix->name, j->in,
                  short_seconds(seconds, text));
        quantize_print(&j->report);
        return;
    }
    json out = {.f = stdout};
    json_object(&out, NULL);
    json_text(&out, "input", j->in);
    json_text(&out, "output", j->o->out);
    json_text(&out, "type", j->plan.mix->name);
    json_real(&out, "seconds", seconds);
    json_int(&out, "fallbacks", (int64_t)j->report.n_fallbacks);
    quantize_json(&out, &j->report);
    json_end(&out);
}

static int run_convert(void *record)
{
    options *o = record;
    const double start = cli_now();
    rlx_error err = {0};
    if (o->common.args.n > 1 && !o->out)
        o->out = o->common.args.v[1];
    else if (o->common.args.n > 1)
        return cli_usage("unexpected argument '%s'", o->common.args.v[1]);
    if (!o->out)
        return cli_usage("expected --out FILE.gguf");
    char *path = cli_model_path(o->common.args.v[0]);
    convert_job j = {.o = o, .in = path};
    int status = path ? read_types(&j) : EXIT_FAILED;
    if (status == EXIT_OK) {
        const rlx_convert_desc d = {RLX_INIT(rlx_convert_desc), .types = choose_types,
                                    .done = count_tensor, .user = &j, .name = o->name,
                                    .file_type = j.plan.mix ? j.plan.mix->file_type : 0,
                                    .threads = (uint32_t)o->common.threads,
                                    .progress = show_progress};
        cli_catch_signals();
        const rlx_status st = rlx_model_convert(path, o->out, &d, &err);
        cli_progress_clear();
        if (st == RLX_CANCELLED && cli_caught_signal())
            status = cli_fail("stopped: '%s' was not written", o->out);
        else if (st != RLX_OK)
            status = cli_error(&err);
        else
            print_report(&j, cli_now() - start);
    }
    free(path);
    return status;
}

static const cli_option convert_options[] = {
    {"out", CLI_TEXT, offsetof(options, out), "FILE.gguf", "where the model goes"},
    {"type", CLI_TEXT, offsetof(options, type), "TYPE",
     "type of the matrices, as of 'rlx quantize' (default: auto, which is bf16 for a bf16 model "
     "and f16 for others)"},
    {"output-type", CLI_TEXT, offsetof(options, output_type), "TYPE",
     "type of output.weight, over the rule"},
    {"token-embedding-type", CLI_TEXT, offsetof(options, embedding_type), "TYPE",
     "type of token_embd.weight, over the rule"},
    {"keep", CLI_LIST, offsetof(options, keep), "GLOB",
     "tensors that keep their type, like '*attn_v*'; may be repeated"},
    {"name", CLI_TEXT, offsetof(options, name), "TEXT",
     "general.name of the model (default: that of the folder)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_convert = {
    .name = "convert",
    .args = "FOLDER --out FILE.gguf",
    .summary = "write a safetensors model as a GGUF file",
    .run = run_convert,
    .options = convert_options,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_DEVICE,
    .min_args = 1,
    .max_args = 2,
    .details =
        "FOLDER has model.safetensors (or its index and parts), config.json and tokenizer.json.\n"
        "Names, layouts and metadata are those of llama.cpp's files, which opens the result too;\n"
        "tokenizer, special tokens and chat template are inside. Norms, routers and small tables\n"
        "are f32. 'rlx inspect FOLDER' says whether rlx knows the architecture.\n"
        "FILE appears only when it is complete: until then, and when the command fails or is\n"
        "stopped, an older one stays. Files that are not GGUF are never replaced.",
    .examples = "  rlx convert SmolLM2-135M-Instruct --out smollm2-f16.gguf\n"
                "  rlx convert Qwen3-0.6B --out qwen3-q8.gguf --type q8_0\n"
                "  rlx convert Qwen3-0.6B --out qwen3-q4.gguf --type q4_k_m",
};
