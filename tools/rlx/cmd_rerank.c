/* SPDX-License-Identifier: MIT */
/* rlx rerank: lines of a file in the order of how well they answer a query. */
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lines.h"
#include "llm.h"
#include "system.h"
#include "term.h"

typedef struct options {
    cli_common common;
    model_options model;
    const char *query, *file, *instruction;
    int64_t top;
} options;

typedef struct ranked {
    size_t line;
    double score;
} ranked;

static int compare_scores(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return x->line < y->line ? -1 : 1;
}

static void print_ranks(const options *o, const lines *l, const ranked *r, size_t n)
{
    json j = {.f = stdout};
    if (!o->common.json) {
        for (size_t i = 0; i < n; i++) {
            printf("%9.4f  ", r[i].score);
            term_write(stdout, l->v[r[i].line], strlen(l->v[r[i].line]));
            putchar('\n');
        }
        return;
    }
    json_object(&j, NULL);
    json_text(&j, "query", o->query);
    json_array(&j, "results");
    for (size_t i = 0; i < n; i++) {
        json_row(&j, NULL);
        json_real(&j, "score", r[i].score);
        json_int(&j, "line", (int64_t)l->number[r[i].line]);
        json_text(&j, "text", l->v[r[i].line]);
        json_end(&j);
    }
    json_end(&j);
    json_end(&j);
}

static int run_model(const options *o, rlx_model *m, const lines *l)
{
    const rlx_rerank_desc d = {RLX_INIT(rlx_rerank_desc), .instruction = o->instruction};
    double *scores = cli_alloc_array(l->n, sizeof *scores);
    ranked *order = cli_alloc_array(l->n, sizeof *order);
    rlx_error err = {0};
    size_t n_cut = 0, top = o->top ? (size_t)o->top : l->n;
    int status = EXIT_OK;
    if (rlx_rerank(m, o->query, l->v, l->n, &d, scores, &n_cut, &err) != RLX_OK)
        status = cli_error(&err);
    if (n_cut)
        cli_warn("%zu of %zu lines were longer than the model takes and were cut", n_cut, l->n);
    for (size_t i = 0; i < l->n; i++)
        order[i] = (ranked){i, scores[i]};
    qsort(order, l->n, sizeof *order, compare_scores);
    if (status == EXIT_OK)
        print_ranks(o, l, order, top < l->n ? top : l->n);
    free(scores);
    free(order);
    return status;
}

static int run_rerank(void *record)
{
    options *o = record;
    rlx_model *m;
    lines l = {0};
    o->model.model = llm_model(&o->common, &o->model);
    const bool query_given = o->query;
    if (!o->query && o->common.args.n)
        o->query = cli_shift(&o->common);
    if (!o->query)
        return cli_usage("expected --query TEXT");
    for (size_t i = 0; i < o->common.args.n; i++)
        lines_add(&l, o->common.args.v[i], i + 1);
    if (!query_given && !l.n && !o->file)
        return cli_usage("expected --query TEXT, or the query and then documents; got only '%s'",
                         o->query);
    if (!l.n && !o->file && isatty(STDIN_FILENO))
        return cli_usage("expected documents: --file FILE, TEXT..., or lines on standard input");
    int status = o->file || !l.n ? lines_read(o->file ? o->file : "-", false, &l) : EXIT_OK;
    if (status == EXIT_OK)
        status = llm_open(&o->common, &o->model, &m, NULL);
    if (status == EXIT_OK) {
        status = run_model(o, m, &l);
        rlx_model_close(m);
    }
    lines_free(&l);
    return status;
}

static const cli_option rerank_options[] = {
    MODEL_OPTIONS(options, model),
    {"query", CLI_TEXT, offsetof(options, query), "TEXT", "what the documents shall answer"},
    {"file", CLI_TEXT, offsetof(options, file), "FILE",
     "the documents, one a line ('-': standard input)"},
    {"top", CLI_NUMBER, offsetof(options, top), "N", "show the best N (default: all)"},
    {"instruction", CLI_TEXT, offsetof(options, instruction), "TEXT",
     "to a decoder: what the query is for (default: a web search)"},
    {NULL, CLI_END, 0, NULL, NULL},
};

const cli_command cmd_rerank = {
    .name = "rerank",
    .args = "[MODEL] --query TEXT [DOCUMENT...]",
    .summary = "order texts by how well they answer a query",
    .run = run_rerank,
    .options = rerank_options,
    .record_bytes = sizeof(options),
    .max_args = -1,
    .details =
        "The model is a cross-encoder (bge-reranker and others of the BERT family with a\n"
        "classifier), which reads query and document at once: scores are its logits; or a decoder\n"
        "trained for it (Qwen3-Reranker): scores are how likely it answers \"yes\"; or a model of\n"
        "embeddings: scores are cosines, as 'rlx embed --search' gives them.",
    .examples =
        "  rlx rerank minilm --query \"I forgot my password\" --file faq.txt --top 3\n"
        "  rlx rerank --model minilm --query \"When will it arrive?\" --file faq.txt --json",
};
