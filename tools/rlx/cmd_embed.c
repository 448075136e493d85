/* SPDX-License-Identifier: MIT */
/* rlx embed: texts as vectors, and search by meaning with them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lines.h"
#include "llm.h"
#include "system.h"
#include "term.h"

#define DEFAULT_TOP 10

typedef struct options {
    cli_common common;
    model_options model;
    const char *search, *file, *pooling;
    int64_t top;
    bool raw;
} options;

static int read_pooling(const char *text, rlx_pooling *out)
{
    static const char *const names[] = {"default", "mean", "first", "last"};
    *out = RLX_POOLING_DEFAULT;
    if (!text)
        return EXIT_OK;
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (!strcmp(text, names[i])) {
            *out = (rlx_pooling)i;
            return EXIT_OK;
        }
    return cli_usage("--pooling expected mean, first or last, got '%s'", text);
}

/* ---- Vectors --------------------------------------------------------------------------------- */

#define CHUNK 256 /* texts between two looks at the progress */

/* The vectors of n texts, [n, width], freed with free; NULL after printing why not. */
static float *embed_texts(rlx_model *m, const rlx_embed_desc *d, const char *const *texts, size_t n,
                          size_t width)
{
    float *out = cli_alloc_array((n ? n : 1) * width, sizeof *out);
    size_t n_cut = 0;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t cut = 0, count = n - at < CHUNK ? n - at : CHUNK;
        rlx_error err = {0};
        if (n > CHUNK)
            cli_progress("%zu of %zu texts", at, n);
        if (rlx_embed(m, texts + at, count, d, out + at * width, &cut, &err) != RLX_OK) {
            cli_error(&err);
            free(out);
            return NULL;
        }
        n_cut += cut;
    }
    cli_progress_clear();
    if (n_cut)
        cli_warn("%zu of %zu texts were longer than the model takes and were cut", n_cut, n);
    return out;
}

static void json_vector(json *j, const float *v, size_t width)
{
    json_list(j, NULL);
    for (size_t i = 0; i < width; i++)
        json_real(j, NULL, v[i]);
    json_end(j);
}

static void print_vectors(const options *o, const float *v, size_t n, size_t width)
{
    json j = {.f = stdout};
    if (o->common.json) {
        json_object(&j, NULL);
        json_array(&j, "embeddings");
        for (size_t i = 0; i < n; i++)
            json_vector(&j, v + i * width, width);
        json_end(&j);
        json_end(&j);
        return;
    }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < width; k++)
            printf("%.8g%c", v[i * width + k], k + 1 < width ? ' ' : '\n');
}

/* ---- Search ---------------------------------------------------------------------------------- */

typedef struct match {
    size_t line;
    double score;
} match;

static int compare_matches(const void *a, const void *b)
{
    const match *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->line < y->line ? -1 : 1;
}

static void rank(const float *query, const float *v, size_t n, size_t width, match *out)
{
    for (size_t i = 0; i < n; i++) {
        double dot = 0, a = 0, b = 0;
        for (size_t k = 0; k < width; k++) {
            double x = query[k], y = v[i * width + k];
            dot += x * y;
            a += x * x;
            b += y * y;
        }
        out[i] = (match){i, a > 0 && b > 0 ? dot / sqrt(a * b) : 0};
    }
    qsort(out, n, sizeof *out, compare_matches);
}

static void print_matches(json *j, const char *query, const lines *l, const match *m, size_t n)
{
    if (!j->f) {
        printf("%s%s%s\n", term_style(stdout, TERM_BOLD), query, term_style(stdout, TERM_PLAIN));
        for (size_t i = 0; i < n; i++) {
            printf("  %6.4f  ", m[i].score);
            term_write(stdout, l->v[m[i].line], strlen(l->v[m[i].line]));
            putchar('\n');
        }
        return;
    }
    json_object(j, NULL);
    json_text(j, "query", query);
    json_array(j, "matches");
    for (size_t i = 0; i < n; i++) {
        json_row(j, NULL);
        json_real(j, "score", m[i].score);
        json_int(j, "line", (int64_t)l->number[m[i].line]);
        json_text(j, "text", l->v[m[i].line]);
        json_end(j);
    }
    json_end(j);
    json_end(j);
}

static int search(const options *o, const lines *asked, const lines *l, const float *queries,
                  const float *v, size_t width)
{
    size_t top = o->top ? (size_t)o->top : DEFAULT_TOP;
    match *matches = cli_alloc_array(l->n, sizeof *matches);
    json j = {.f = o->common.json ? stdout : NULL};
    if (top > l->n)
        top = l->n;
    if (j.f) {
        json_object(&j, NULL);
        json_array(&j, "results");
    }
    for (size_t q = 0; q < asked->n; q++) {
        rank(queries + q * width, v, l->n, width, matches);
        print_matches(&j, asked->v[q], l, matches, top);
    }
    if (j.f) {
        json_end(&j);
        json_end(&j);
    }
    free(matches);
    return EXIT_OK;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* The texts: the arguments, then the lines of --file, or of standard input where there is nothing
 * else. */
static int read_texts(const options *o, lines *texts)
{
    const cli_list *args = &o->common.args;
    const bool dash = args->n == 1 && !strcmp(args->v[0], "-");
    for (size_t i = 0; i < args->n && !dash; i++)
        lines_add(texts, args->v[i], i + 1);
    const char *path = o->file ? o->file : dash || !args->n ? "-" : NULL;
    return path ? lines_read(path, true, texts) : EXIT_OK;
}

static int run_model(const options *o, rlx_model *m, const rlx_embed_desc *d)
{
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    lines l = {0}, texts = {0};
    rlx_model_get_info(m, &info, NULL);
    const size_t width = (size_t)info.embedding_width;
    int status = read_texts(o, &texts);
    if (status == EXIT_OK && o->search)
        status = lines_read(o->search, false, &l);
    float *vectors = NULL, *found = NULL;
    if (status == EXIT_OK)
        vectors = embed_texts(m, d, texts.v, texts.n, width);
    if (vectors && o->search)
        found = embed_texts(m, d, l.v, l.n, width);
    if (status == EXIT_OK && (!vectors || (o->search && !found)))
        status = EXIT_FAILED;
    if (status == EXIT_OK && o->search)
        status = search(o, &texts, &l, vectors, found, width);
    else if (status == EXIT_OK)
        print_vectors(o, vectors, texts.n, width);
    free(vectors);
    free(found);
    lines_free(&texts);
    lines_free(&l);
    return status;
}

static int run_embed(void *record)
{
    options *o = record;
    rlx_embed_desc d = {RLX_INIT(rlx_embed_desc), .no_normalize = o->raw};
    rlx_model *m;
    o->model.model = llm_model(&o->common, &o->model);
    if (!o->common.args.n && !o->file && isatty(STDIN_FILENO))
        return cli_usage("expected TEXT..., --file FILE, or lines on standard input");
    if (o->top && !o->search)
        return cli_usage("--top goes with --search FILE");
    int status = read_pooling(o->pooling, &d.pooling);
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &m, NULL);
    if (status != EXIT_OK)
        return status;
    status = run_model(o, m, &d);
    rlx_model_close(m);
    return status;
}

static const cli_option embed_options[] = {
    MODEL_OPTIONS(options, model),
    {"file", CLI_TEXT, offsetof(options, file), "FILE",
     "take each line of a file ('-': standard input) as a text, too"},
    {"search", CLI_TEXT, offsetof(options, search), "FILE",
     "rank the lines of a file ('-': standard input) by nearness to each TEXT"},
    {"top", CLI_NUMBER, offsetof(options, top), "N", "lines that --search shows (default 10)"},
    {"pooling", CLI_TEXT, offsetof(options, pooling), "KIND",
     "vector of a text: mean, first or last token (default: what the model says)"},
    {"raw", CLI_FLAG, offsetof(options, raw), NULL, "do not scale vectors to length 1"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_embed = {
    .name = "embed",
    .args = "[MODEL] [TEXT...]",
    .summary = "turn texts into vectors, and search with them",
    .run = run_embed,
    .options = embed_options,
    .record_bytes = sizeof(options),
    .max_args = -1,
    .details =
        "The model is an encoder (BERT family) or a decoder trained for it (Qwen3-Embedding): a\n"
        "folder with model.safetensors, config.json and tokenizer.json, or a GGUF file. Each text\n"
        "gives one line of numbers; without TEXT the lines of standard input are the texts. Texts\n"
        "that mean about the same have vectors with a large inner product (1 for equal ones).",
    .examples =
        "  rlx embed minilm \"How are you?\" --json\n"
        "  rlx embed --model minilm --search faq.txt --top 3 \"I forgot my password\"\n"
        "  rlx embed minilm --file faq.txt > vectors.txt    one line for each of the file",
};
