/* SPDX-License-Identifier: MIT */
/* rlx quantize: converts the matrices of a GGUF model to smaller types. Tensors are streamed in
 * chunks, so memory does not grow with the model. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "json.h"
#include "quantize_mix.h"
#include "quantize_report.h"
#include "tensor.h"
#include "system.h"
#include "term.h"

typedef struct options {
    cli_common common;
    const char *type, *output_type, *embedding_type, *imatrix;
    cli_list keep;
} options;

typedef struct quantize_job {
    const options *o;
    const char *in, *out;
    rlx_file *file;
    rlx_gguf_writer *writer;
    mix_plan plan;
    rlx_dtype *types; /* of each tensor in the result */
    size_t n_tensors, n_repacked;
    char *buffer;
    size_t buffer_bytes;
    double done, total; /* bytes of the input */
    quantize_report report;
    rlx_imatrix *imatrix;
    size_t n_weighed;
} quantize_job;

/* Elements quantised at once: enough for many threads, small beside a model; and bytes copied
 * between two checks for signals. */
#define PIECE_ELEMENTS ((int64_t)4 << 20)
#define PIECE_BYTES ((size_t)32 << 20)

/* ---- What gets which type -------------------------------------------------------------------- */

static int plain_type(const char *option, const char *name, rlx_dtype *out)
{
    *out = RLX_NO_TYPE;
    if (!name)
        return EXIT_OK;
    *out = rlx_dtype_from_name(name);
    if (!rlx_dtype_can_quantize(*out))
        return mix_unknown(option, name);
    return EXIT_OK;
}

static int read_options(quantize_job *j)
{
    const options *o = j->o;
    const char *third = o->common.args.n > 2 ? o->common.args.v[2] : NULL;
    if (third && o->type)
        return cli_usage("unexpected argument '%s'", third);
    const char *name = o->type ? o->type : third ? third : "q4_k_m";
    j->plan.mix = mix_find(name);
    if (!j->plan.mix)
        return mix_unknown("type", name);
    int status = plain_type("output-type", o->output_type, &j->plan.output);
    if (status == EXIT_OK)
        status = plain_type("token-embedding-type", o->embedding_type, &j->plan.embedding);
    mix_study_file(&j->plan, j->file);
    return status;
}

static bool is_kept(const options *o, const char *name)
{
    for (size_t i = 0; i < o->keep.n; i++)
        if (system_matches(o->keep.v[i], name))
            return true;
    return false;
}

static int choose_types(quantize_job *j)
{
    rlx_file_tensor t;
    j->n_tensors = rlx_file_n_tensors(j->file);
    j->types = cli_alloc_array(j->n_tensors, sizeof *j->types);
    for (size_t i = 0; rlx_file_tensor_at(j->file, i, &t); i++) {
        bool fallback = false;
        if (t.dtype == RLX_NO_TYPE)
            return cli_fail("'%s': tensor '%s' has elements of %s, which rlx cannot write", j->in,
                            t.name, t.type_name);
        j->types[i] = is_kept(j->o, t.name) ? t.dtype : mix_type(&j->plan, &t, &fallback);
        j->report.n_fallbacks += fallback;
        j->n_repacked += rlx_dtype_is_packed(t.dtype) && rlx_dtype_is_packed(j->types[i]) &&
                         j->types[i] != t.dtype;
        j->total += (double)t.bytes;
    }
    if (j->n_repacked)
        cli_warn("%zu tensors are packed already and lose twice; begin with an f16, bf16 or f32 "
                 "model where there is one", j->n_repacked);
    return EXIT_OK;
}

/* ---- Writing --------------------------------------------------------------------------------- */

static rlx_status write_header(quantize_job *j, rlx_error *err)
{
    rlx_file_tensor t;
    rlx_status st = rlx_gguf_writer_create(j->out, &j->writer, err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_copy_meta(j->writer, j->file, err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_set_u32(j->writer, "general.file_type", j->plan.mix->file_type, err);
    if (st == RLX_OK)
        st = rlx_gguf_writer_set_u32(j->writer, "general.quantization_version", 2, err);
    for (size_t i = 0; st == RLX_OK && rlx_file_tensor_at(j->file, i, &t); i++)
        st = rlx_gguf_writer_add_tensor(j->writer, t.name, j->types[i], &t.shape, err);
    return st;
}

static void *get_buffer(quantize_job *j, size_t bytes)
{
    if (bytes > j->buffer_bytes) {
        j->buffer = cli_realloc(j->buffer, bytes);
        j->buffer_bytes = bytes;
    }
    return j->buffer;
}

static void show_progress(const quantize_job *j, const char *name)
{
    const double percent = j->total > 0 ? 100 * j->done / j->total : 100;
    cli_progress_bar(j->done, j->total, "%3.0f %%  %s", percent, name);
}

/* What the importance matrix says of a tensor: means [*matrices, row length]; NULL: nothing. */
static rlx_status find_importance(quantize_job *j, const rlx_file_tensor *t, rlx_dtype to,
                                  const float **out, int64_t *matrices, rlx_error *err)
{
    const int64_t length = t->shape.dim[t->shape.rank - 1], all = tensor_elements(&t->shape);
    rlx_imatrix_entry e;
    *out = NULL;
    *matrices = 1;
    if (!rlx_dtype_is_packed(to) || !rlx_imatrix_find(j->imatrix, t->name, &e) || !all)
        return RLX_OK;
    const int64_t n = e.matrices * e.columns / length, banks = t->shape.rank > 2 ? t->shape.dim[0]
                                                                                 : 1;
    if (n * length != e.matrices * e.columns || (n != 1 && n != banks)) {
        snprintf(err->text, sizeof err->text, "'%s' has the importance of %lld columns, expected "
                 "%lld of %lld matrices: it is that of another model", j->o->imatrix,
                 (long long)(e.matrices * e.columns), (long long)length, (long long)banks);
        return err->code = RLX_INVALID;
    }
    *out = e.values;
    *matrices = n;
    j->n_weighed++;
    return RLX_OK;
}

static rlx_status write_packed(quantize_job *j, const rlx_file_tensor *t, rlx_dtype to,
                               rlx_quantize_rows_stats *stats, rlx_error *err)
{
    const int64_t length = t->shape.dim[t->shape.rank - 1];
    const int64_t n_rows = length ? tensor_elements(&t->shape) / length : 0;
    const int64_t step = length && PIECE_ELEMENTS > length ? PIECE_ELEMENTS / length : 1;
    const size_t dst_row =
        (size_t)(length / rlx_dtype_block_size(to) * rlx_dtype_block_bytes(to));
    const float *importance;
    int64_t matrices, n;
    rlx_status st = find_importance(j, t, to, &importance, &matrices, err);
    const int64_t each = n_rows / matrices; /* rows of a matrix */
    for (int64_t row = 0; row < n_rows && st == RLX_OK && !cli_caught_signal(); row += n) {
        n = each - row % each < step ? each - row % each : step;
        size_t src_bytes = t->bytes / (size_t)n_rows * (size_t)n;
        rlx_quantize_rows_stats s = {0};
        rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = t->dtype, .to = to,
                                    .n_rows = n,
                           .row_length = length,
                           .src = (const char *)t->data + t->bytes / (size_t)n_rows * (size_t)row,
                           .dst = get_buffer(j, dst_row * (size_t)n),
                           .threads = (uint32_t)j->o->common.threads,
                           .importance = importance ? importance + row / each * length : NULL};
        show_progress(j, t->name);
        st = rlx_quantize_rows(&d, &s, err);
        if (st == RLX_OK)
            st = rlx_gguf_writer_write(j->writer, d.dst, dst_row * (size_t)n, err);
        stats->squares += s.squares;
        stats->error += s.error;
        j->done += (double)src_bytes;
    }
    return st;
}

/* A tensor that stays as it is. */
static rlx_status write_same(quantize_job *j, const rlx_file_tensor *t, rlx_error *err)
{
    rlx_status st = RLX_OK;
    for (size_t at = 0; at < t->bytes && st == RLX_OK && !cli_caught_signal(); at += PIECE_BYTES) {
        size_t n = t->bytes - at < PIECE_BYTES ? t->bytes - at : PIECE_BYTES;
        show_progress(j, t->name);
        st = rlx_gguf_writer_write(j->writer, (const char *)t->data + at, n, err);
        j->done += (double)n;
    }
    return st;
}

static int write_tensors(quantize_job *j)
{
    rlx_file_tensor t;
    rlx_error err = {0};
    for (size_t i = 0; rlx_file_tensor_at(j->file, i, &t); i++) {
        rlx_quantize_rows_stats stats = {0};
        rlx_status st;
        if (j->types[i] == t.dtype)
            st = write_same(j, &t, &err);
        else
            st = write_packed(j, &t, j->types[i], &stats, &err);
        if (cli_caught_signal())
            return cli_fail("stopped: '%s' was not written", j->out);
        if (st != RLX_OK)
            return cli_fail("tensor '%s': %s", t.name, err.text);
        quantize_count(&j->report, &t, (double)t.bytes, j->types[i], &stats);
    }
    return EXIT_OK;
}

/* ---- Report ---------------------------------------------------------------------------------- */

static void print_report(const quantize_job *j, double seconds)
{
    char text[SHORT_TEXT];
    term_line(stdout, "%s: %s of '%s', %s", j->out, j->plan.mix->name, j->in,
              short_seconds(seconds, text));
    if (j->imatrix)
        printf("%zu tensors weighted by '%s'\n", j->n_weighed, j->o->imatrix);
    quantize_print(&j->report);
    if (j->report.all.after > j->report.all.before)
        cli_warn("the result is larger than the input, and no better: it was quantised before");
}

static void json_report(const quantize_job *j, double seconds)
{
    json out = {.f = stdout};
    rlx_file_tensor t;
    json_object(&out, NULL);
    json_text(&out, "input", j->in);
    json_text(&out, "output", j->out);
    json_text(&out, "type", j->plan.mix->name);
    json_real(&out, "seconds", seconds);
    json_int(&out, "fallbacks", (int64_t)j->report.n_fallbacks);
    json_int(&out, "repacked", (int64_t)j->n_repacked);
    if (j->imatrix)
        json_int(&out, "weighted", (int64_t)j->n_weighed);
    quantize_json(&out, &j->report);
    json_array(&out, "tensors");
    for (size_t i = 0; rlx_file_tensor_at(j->file, i, &t); i++) {
        json_row(&out, NULL);
        json_text(&out, "name", t.name);
        json_text(&out, "from", rlx_dtype_name(t.dtype));
        json_text(&out, "to", rlx_dtype_name(j->types[i]));
        json_end(&out);
    }
    json_end(&out);
    json_end(&out);
}

/* ---- The command ----------------------------------------------------------------------------- */

static int quantize_file(quantize_job *j)
{
    rlx_error err = {0};
    const double start = cli_now();
    int status = read_options(j);
    if (status == EXIT_OK && j->o->imatrix &&
        rlx_imatrix_open(j->o->imatrix, &j->imatrix, &err) != RLX_OK)
        status = cli_error(&err);
    if (status == EXIT_OK)
        status = choose_types(j);
    if (status != EXIT_OK)
        return status;
    if (rlx_file_is_at(j->file, j->out))
        return cli_fail("'%s' is the input itself, which was not replaced; expected another OUT",
                        j->out);
    cli_catch_signals();
    if (write_header(j, &err) != RLX_OK)
        return cli_error(&err);
    status = write_tensors(j);
    if (status == EXIT_OK && rlx_gguf_writer_finish(j->writer, &err) != RLX_OK)
        status = cli_error(&err);
    cli_progress_clear();
    if (status != EXIT_OK)
        return status;
    if (j->o->common.json)
        json_report(j, cli_now() - start);
    else
        print_report(j, cli_now() - start);
    return EXIT_OK;
}

static int run_quantize(void *record)
{
    const options *o = record;
    char *path = cli_model_path(o->common.args.v[0]);
    quantize_job j = {.o = o, .in = path, .out = o->common.args.v[1]};
    rlx_error err = {0};
    if (!path)
        return EXIT_FAILED;
    struct stat st;
    if (!rx_stat(path, &st) && S_ISDIR(st.st_mode)) {
        cli_fail("'%s' is a folder; expected a GGUF file, as 'rlx convert %s --out MODEL.gguf "
                 "--type TYPE' makes one of a safetensors model", path, path);
        free(path);
        return EXIT_FAILED;
    }
    if (rlx_file_open(j.in, &j.file, &err) != RLX_OK) {
        free(path);
        return cli_error(&err);
    }
    int status = strcmp(rlx_file_format(j.file), "gguf")
                     ? cli_fail("'%s' is a %s file; expected a GGUF file, which 'rlx convert' "
                                "makes of it, also with --type", j.in, rlx_file_format(j.file))
                     : quantize_file(&j);
    rlx_gguf_writer_destroy(j.writer);
    rlx_imatrix_destroy(j.imatrix);
    rlx_file_close(j.file);
    free(j.types);
    free(j.buffer);
    free(path);
    return status;
}

static const cli_option quantize_options[] = {
    {"type", CLI_TEXT, offsetof(options, type), "TYPE", "type of the matrices (default: q4_k_m)"},
    {"output-type", CLI_TEXT, offsetof(options, output_type), "TYPE",
     "type of output.weight, over the rule"},
    {"token-embedding-type", CLI_TEXT, offsetof(options, embedding_type), "TYPE",
     "type of token_embd.weight, over the rule"},
    {"keep", CLI_LIST, offsetof(options, keep), "GLOB",
     "tensors that stay as they are, like '*attn_v*'; may be repeated"},
    {"imatrix", CLI_TEXT, offsetof(options, imatrix), "FILE",
     "importance matrix of 'rlx imatrix' or llama.cpp (GGUF or .dat): weights the errors"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_quantize = {
    .name = "quantize",
    .args = "IN.gguf OUT.gguf [TYPE]",
    .summary = "write a model again with smaller weights",
    .run = run_quantize,
    .options = quantize_options,
    .record_bytes = sizeof(options),
    .ignores = CLI_NO_DEVICE,
    .min_args = 2,
    .max_args = 3,
    .details =
        "Types: f32 f16 bf16 q8_0 q6_k q5_k q5_1 q5_0 q4_k q4_1 q4_0 iq4_nl mxfp4 q3_k q2_k pack\n"
        "all matrices alike. q5_k_m q5_k_s q4_k_m q4_k_s q3_k_l q3_k_m q3_k_s q2_k_m mix: the\n"
        "output matrix gets q6_k; with _m also attn_v and ffn_down get more bits in the first and\n"
        "last eighth of the layers and in every third between, with _l in all layers.\n"
        "Norms, biases, routers and convolutions stay as they are. Rows that are no multiple of\n"
        "256 take a type with blocks of 32, other rows f16 or f32.\n"
        "The input may be f32, f16, bf16 or packed, and split; all metadata is kept. OUT appears\n"
        "only when it is complete: until then, and when the command fails or is stopped, an older\n"
        "OUT stays. The input itself and files that are not GGUF are never replaced.",
    .examples = "  rlx quantize model-f16.gguf model-q4.gguf\n"
                "  rlx quantize model-f16.gguf model-q4.gguf --imatrix model.imatrix.gguf\n"
                "  rlx quantize model.gguf small.gguf --type q8_0 --keep 'output*'\n"
                "  rlx quantize model.gguf small.gguf --type q4_k_m --output-type q8_0 --json",
};
