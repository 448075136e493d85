/* SPDX-License-Identifier: MIT */
/* How well documents answer a query: by the classifier of a cross-encoder, which reads both texts
 * at once; by how likely a decoder that was trained for it answers "yes" (Qwen3-Reranker); else by
 * the cosine of their vectors. */
#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "base/str.h"
#include "model/facts.h"
#include "model/model.h"
#include "model/tok.h"

typedef struct ranking {
    rlx_model *m;
    const char *query, *instruction;
    const char *const *documents;
    size_t n, n_cut;
    double *scores;
    rx_pooled *lists; /* [n] */
    float *hidden;    /* [n, width] */
    rx_arena arena;
} ranking;

static bool has_role(const ranking *r, rx_role role, rlx_file_tensor *t)
{
    return rx_facts_tensor(r->m->facts, NULL, role, t);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

typedef struct ids {
    int32_t *list;
    size_t n;
} ids;

static rlx_status encode(ranking *r, const char *text, unsigned flags, ids *out, rlx_error *err)
{
    rlx_token_list list = {.cap = strlen(text) + 8};
    rlx_status st;
    do {
        list.cap = list.n > list.cap ? list.n : list.cap;
        list.ids = rx_arena_array(&r->arena, list.cap, sizeof *list.ids);
        if (!list.ids)
            return rx_fail_memory(err, "the tokens of a text", list.cap * sizeof *list.ids);
        st = rlx_tokenizer_encode(r->m->tokenizer, text, strlen(text), flags, &list, err);
    } while (st == RLX_OK && list.n > list.cap);
    *out = (ids){list.ids, list.n};
    return st;
}

/* Appends to a list with room for max_text tokens. */
static void append(const ranking *r, rx_pooled *list, const int32_t *from, size_t n)
{
    const size_t room = (size_t)r->m->max_text - list->n;
    n = n < room ? n : room;
    if (n)
        memcpy(list->ids + list->n, from, n * sizeof *from);
    list->n += n;
}

/* [CLS] query [SEP] document [SEP]; of RoBERTa <s> query </s></s> document </s>. Both are cut: the
 * query to half of what there is room for, the document to the rest. */
static rlx_status join(ranking *r, const ids *query, const ids *document, rx_pooled *list,
                       rlx_error *err)
{
    const rlx_tokenizer *t = r->m->tokenizer;
    const size_t twice = t->model == RX_TOK_WORDPIECE ? 1 : 2, after = t->n_after;
    const size_t around = t->n_before + after * (twice + 1), most = (size_t)r->m->max_text;
    if (most < around + 2)
        return rx_fail(err, RLX_INVALID, "'%.200s' takes %zu tokens, too few for a query with a "
                       "document", r->m->path, most);
    const size_t room = most - around;
    const size_t n_query = query->n < room / 2 ? query->n : room / 2;
    const size_t n_document = document->n < room - n_query ? document->n : room - n_query;
    list->ids = rx_arena_array(&r->arena, most, sizeof *list->ids);
    if (!list->ids)
        return rx_fail_memory(err, "the tokens of a text", most * sizeof *list->ids);
    append(r, list, t->before, t->n_before);
    append(r, list, query->list, n_query);
    for (size_t i = 0; i < twice; i++)
        append(r, list, t->after, after);
    list->second = r->m->facts->types > 1 ? list->n : most; /* tables of one type have no other */
    append(r, list, document->list, n_document);
    append(r, list, t->after, after);
    r->n_cut += n_query < query->n || n_document < document->n;
    return RLX_OK;
}

static rlx_status join_all(ranking *r, rlx_error *err)
{
    ids query, document;
    RLX_TRY(encode(r, r->query, 0, &query, err));
    for (size_t i = 0; i < r->n; i++) {
        RLX_TRY(encode(r, r->documents[i], 0, &document, err));
        RLX_TRY(join(r, &query, &document, &r->lists[i], err));
    }
    return RLX_OK;
}

/* ---- The question to a decoder --------------------------------------------------------------- */

static const char default_instruction[] =
    "Given a web search query, retrieve relevant passages that answer the query";

/* What Qwen3-Reranker was trained with; the template "rerank" of a file takes its place. */
static const char default_template[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and "
    "the Instruct provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n"
    "<|im_start|>user\n<Instruct>: {instruction}\n<Query>: {query}\n<Document>: {document}"
    "<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

typedef struct part { /* of a prompt: tokens of the template, or a text of the user */
    ids tokens;
    bool is_document;
} part;

#define MAX_PARTS 16

typedef struct prompt {
    part list[MAX_PARTS];
    size_t n, fixed; /* fixed: tokens outside of the document */
} prompt;

static rlx_status add_part(ranking *r, prompt *p, const char *text, size_t n, bool is_template,
                           rlx_error *err)
{
    if (p->n == MAX_PARTS)
        return rx_fail(err, RLX_UNSUPPORTED, "the template 'rerank' has more than %d parts",
                       MAX_PARTS);
    char *copy = rx_arena_strndup(&r->arena, text, n);
    if (!copy)
        return rx_fail_memory(err, "a prompt", n);
    part *one = &p->list[p->n++];
    RLX_TRY(encode(r, copy, is_template ? RLX_ENCODE_PARSE_SPECIAL : 0, &one->tokens, err));
    p->fixed += one->tokens.n;
    return RLX_OK;
}

/* Splits the template at {instruction}, {query} and {document}. */
static rlx_status make_prompt(ranking *r, const char *template, prompt *p, rlx_error *err)
{
    const struct {
        const char *name, *text;
    } holes[] = {{"{instruction}", r->instruction}, {"{query}", r->query}, {"{document}", NULL}};
    const char *begin = template;
    for (const char *at = template; *at;) {
        size_t k = 0;
        while (k < 3 && strncmp(at, holes[k].name, strlen(holes[k].name)) != 0)
            k++;
        if (k == 3) {
            at++;
            continue;
        }
        if (at > begin)
            RLX_TRY(add_part(r, p, begin, (size_t)(at - begin), true, err));
        RLX_TRY(add_part(r, p, holes[k].text ? holes[k].text : "",
                         holes[k].text ? strlen(holes[k].text) : 0, false, err));
        p->list[p->n - 1].is_document = !holes[k].text;
        at += strlen(holes[k].name);
        begin = at;
    }
    return *begin ? add_part(r, p, begin, strlen(begin), true, err) : RLX_OK;
}

static rlx_status fill_prompt(ranking *r, const prompt *p, const char *text, rx_pooled *list,
                              rlx_error *err)
{
    ids document;
    const size_t most = (size_t)r->m->max_text;
    RLX_TRY(encode(r, text, 0, &document, err));
    if (p->fixed >= most)
        return rx_fail(err, RLX_INVALID, "the query has too many tokens: the context holds %zu "
                       "(rlx_model_desc.context)", most);
    const size_t room = most - p->fixed;
    r->n_cut += document.n > room;
    document.n = document.n < room ? document.n : room;
    list->ids = rx_arena_array(&r->arena, most, sizeof *list->ids);
    if (!list->ids)
        return rx_fail_memory(err, "the tokens of a text", most * sizeof *list->ids);
    for (size_t i = 0; i < p->n; i++) {
        const ids *one = p->list[i].is_document ? &document : &p->list[i].tokens;
        append(r, list, one->list, one->n);
    }
    list->second = list->n;
    return RLX_OK;
}

static rlx_status ask_all(ranking *r, rlx_error *err)
{
    const char *template = rlx_tokenizer_chat_template(r->m->tokenizer, "rerank");
    prompt p = {0};
    RLX_TRY(make_prompt(r, template ? template : default_template, &p, err));
    for (size_t i = 0; i < r->n; i++)
        RLX_TRY(fill_prompt(r, &p, r->documents[i], &r->lists[i], err));
    return RLX_OK;
}

/* ---- Heads ----------------------------------------------------------------------------------- */

/* y = W x + b, of a matrix [rows, n] in floats. */
static void apply(const float *w, const float *bias, const double *x, int64_t rows, int64_t n,
                  double *y)
{
    for (int64_t i = 0; i < rows; i++) {
        y[i] = bias ? (double)bias[i] : 0;
        for (int64_t k = 0; k < n; k++)
            y[i] += (double)w[i * n + k] * x[k];
    }
}

static rlx_status load(ranking *r, rx_role role, int64_t n, const float **out, rlx_error *err)
{
    rlx_file_tensor t;
    *out = NULL;
    if (!has_role(r, role, &t))
        return RLX_OK;
    float *data = rx_arena_array(&r->arena, (uint64_t)n, sizeof *data);
    *out = data;
    return data ? rx_facts_floats(r->m->facts, &t, data, n, err)
                : rx_fail_memory(err, t.name, (uint64_t)n * sizeof *data);
}

/* The score: the only class, or (decoders: of yes and no, others: of no and yes) how likely yes
 * is. */
static double score_of(const ranking *r, const double *y, int64_t classes)
{
    if (classes == 1)
        return y[0];
    const int yes = r->m->known.is_decoder ? 0 : 1;
    return 1 / (1 + exp(y[1 - yes] - y[yes]));
}

static rlx_status classify(ranking *r, rlx_error *err)
{
    const int64_t w = r->m->known.width, classes = r->m->facts->classes;
    const float *dense, *dense_bias, *out, *out_bias;
    if (classes > 2)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' is a classifier of %lld classes; expected "
                       "one or two", r->m->path, (long long)classes);
    RLX_TRY(load(r, RX_T_RANK, w * w, &dense, err));
    RLX_TRY(load(r, RX_T_RANK_BIAS, w, &dense_bias, err));
    RLX_TRY(load(r, RX_T_RANK_OUT, classes * w, &out, err));
    RLX_TRY(load(r, RX_T_RANK_OUT_BIAS, classes, &out_bias, err));
    double *x = rx_arena_array(&r->arena, (uint64_t)(2 * w), sizeof *x), *inner = x + w, y[2];
    if (!x)
        return rx_fail_memory(err, "a classifier", (uint64_t)w * sizeof *x);
    for (size_t i = 0; i < r->n; i++) {
        for (int64_t k = 0; k < w; k++)
            inner[k] = x[k] = (double)r->hidden[(int64_t)i * w + k];
        if (dense)
            apply(dense, dense_bias, x, w, w, inner);
        for (int64_t k = 0; dense && k < w; k++)
            inner[k] = tanh(inner[k]);
        apply(out, out_bias, inner, classes, w, y);
        r->scores[i] = score_of(r, y, classes);
    }
    return RLX_OK;
}

/* The row of the output matrix that a token has. */
static rlx_status output_row(ranking *r, const char *word, float *row, rlx_error *err)
{
    const int32_t id = rlx_token_find(r->m->tokenizer, word, strlen(word));
    const int64_t w = r->m->known.width;
    rlx_file_tensor t;
    if (id < 0 || id >= r->m->known.vocabulary)
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s' has no token '%s', with which a reranker "
                       "answers", r->m->path, word);
    if (!has_role(r, RX_T_OUTPUT, &t))
        has_role(r, RX_T_EMBED, &t);
    const uint64_t elements = rx_array_bytes((uint64_t)r->m->known.vocabulary, (uint64_t)w);
    float *all = rx_alloc_array(elements, sizeof *all);
    if (!all)
        return rx_fail_memory(err, t.name, (uint64_t)w * sizeof *all);
    const rlx_status st = rx_facts_floats(r->m->facts, &t, all, r->m->known.vocabulary * w, err);
    if (st == RLX_OK)
        memcpy(row, all + (int64_t)id * w, (size_t)w * sizeof *row);
    rx_free(all);
    return st;
}

static rlx_status answer(ranking *r, rlx_error *err)
{
    const int64_t w = r->m->known.width;
    float *rows = rx_arena_array(&r->arena, (uint64_t)(2 * w), sizeof *rows);
    double *x = rx_arena_array(&r->arena, (uint64_t)w, sizeof *x), y[2];
    if (!rows || !x)
        return rx_fail_memory(err, "the answers", (uint64_t)w * sizeof *rows);
    RLX_TRY(output_row(r, "yes", rows, err));
    RLX_TRY(output_row(r, "no", rows + w, err));
    for (size_t i = 0; i < r->n; i++) {
        for (int64_t k = 0; k < w; k++)
            x[k] = (double)r->hidden[(int64_t)i * w + k];
        apply(rows, NULL, x, 2, w, y);
        r->scores[i] = score_of(r, y, 2);
    }
    return RLX_OK;
}

/* ---- By vectors ------------------------------------------------------------------------------ */

static rlx_status compare_vectors(ranking *r, rlx_error *err)
{
    const size_t w = (size_t)r->m->known.embedding_width;
    float *query = rx_arena_array(&r->arena, w, sizeof *query);
    if (!query)
        return rx_fail_memory(err, "a vector", w * sizeof *query);
    RLX_TRY(rlx_embed(r->m, &r->query, 1, NULL, query, NULL, err));
    RLX_TRY(rlx_embed(r->m, r->documents, r->n, NULL, r->hidden, &r->n_cut, err));
    for (size_t i = 0; i < r->n; i++) {
        r->scores[i] = 0;
        for (size_t k = 0; k < w; k++)
            r->scores[i] += (double)query[k] * (double)r->hidden[i * w + k];
    }
    return RLX_OK;
}

/* ---- The whole ------------------------------------------------------------------------------- */

static rlx_status rank(ranking *r, rlx_error *err)
{
    rlx_model *m = r->m;
    rlx_file_tensor t;
    const bool has_head = has_role(r, RX_T_RANK_OUT, &t);
    r->lists = rx_arena_array_zero(&r->arena, r->n, sizeof *r->lists);
    r->hidden = rx_arena_array(&r->arena, r->n * (size_t)m->known.width, sizeof *r->hidden);
    if (!r->lists || !r->hidden)
        return rx_fail_memory(err, "a ranking", r->n * (size_t)m->known.width);
    if (has_head && !strcmp(m->known.architecture, "modern-bert"))
        return rx_fail(err, RLX_UNSUPPORTED, "'%.200s': classifiers of ModernBERT are not known to "
                       "rlx", m->path);
    const bool vectors = m->known.is_decoder ? m->known.pooling != RLX_POOLING_DEFAULT : !has_head;
    if (vectors)
        return compare_vectors(r, err);
    RLX_TRY(m->known.is_decoder ? ask_all(r, err) : join_all(r, err));
    RLX_TRY(rx_pool_tokens(m, r->lists, r->n, m->known.is_decoder ? RLX_POOLING_LAST
                                                                  : RLX_POOLING_FIRST,
                           r->hidden, err));
    return has_head ? classify(r, err) : answer(r, err);
}

rlx_status rlx_rerank(rlx_model *m, const char *query, const char *const *documents, size_t n,
                      const rlx_rerank_desc *desc, double *scores, size_t *n_cut, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_rerank: m", err));
    RLX_TRY(rx_need(query, "rlx_rerank: query", err));
    rlx_rerank_desc d;
    RLX_TRY(RX_DESC_READ(rlx_rerank_desc, &d, desc, err));
    if (n_cut)
        *n_cut = 0;
    RLX_TRY(rx_check_embed(m, err));
    if (n && (!documents || !scores))
        return rx_fail(err, RLX_INVALID, "the pointer to the %s is NULL",
                       documents ? "scores" : "documents");
    for (size_t i = 0; i < n; i++)
        if (!documents[i])
            return rx_fail(err, RLX_INVALID, "document %zu is NULL", i);
    if (!n)
        return RLX_OK;
    ranking r = {.m = m, .query = query, .documents = documents, .n = n, .scores = scores,
                 .instruction = d.instruction ? d.instruction : default_instruction};
    const rlx_status st = rank(&r, err);
    rx_arena_finish(&r.arena);
    if (n_cut)
        *n_cut = r.n_cut;
    return st;
}
