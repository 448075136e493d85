/* SPDX-License-Identifier: MIT */
/* Generation by a request to an engine of one sequence. */
#include "request.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "term.h"

bool request_needed(const request_options *o)
{
    return o->presence || o->frequency || o->bias.n || o->log_probs.given;
}

/* ---- Options --------------------------------------------------------------------------------- */

static int read_penalty(const char *option, const char *text, double *out)
{
    char *end;
    *out = text ? strtod(text, &end) : 0;
    if (text && (end == text || *end || !(fabs(*out) <= 100)))
        return cli_usage("--%s expected a number from -100 to 100, got '%s'", option, text);
    return EXIT_OK;
}

/* The token of an id, or of a text that is one token. */
static int find_token(const rlx_tokenizer *t, const char *text, size_t n, int32_t *out)
{
    char *end;
    rlx_error err = {0};
    int32_t ids[2];
    rlx_token_list list = {.ids = ids, .cap = ARRAY_LEN(ids)};
    const long long id = strtoll(text, &end, 10);
    if (n && end == text + n) {
        if (id < 0 || id >= rlx_tokenizer_n_tokens(t))
            return cli_usage("--logit-bias expected a token from 0 to %d, got %lld",
                             rlx_tokenizer_n_tokens(t) - 1, id);
        *out = (int32_t)id;
        return EXIT_OK;
    }
    if (rlx_tokenizer_encode(t, text, n, 0, &list, &err) != RLX_OK)
        return cli_error(&err);
    if (list.n != 1)
        return cli_usage("--logit-bias expected the text of one token, '%.*s' is %zu; 'rlx "
                         "tokenize' shows their ids", (int)n, text, list.n);
    *out = ids[0];
    return EXIT_OK;
}

static int read_bias(const rlx_tokenizer *t, const char *text, rlx_token_bias *out)
{
    const char *sign = strrchr(text, '=');
    char *end = NULL;
    if (!t)
        return cli_fail("the model has no tokenizer; give one with --tokenizer");
    if (!sign || sign == text)
        return cli_usage("--logit-bias expected TOKEN=NUMBER, got '%s'", text);
    const double add = strcmp(sign + 1, "no") ? strtod(sign + 1, &end) : -INFINITY;
    if (end && (end == sign + 1 || *end || !(fabs(add) <= 1e6)))
        return cli_usage("--logit-bias expected a number or 'no' behind '=', got '%s'", sign + 1);
    out->add = (float)add;
    return find_token(t, text, (size_t)(sign - text), &out->token);
}

static int read_request(const request_options *o, const rlx_model *m, rlx_request_desc *d,
                        rlx_token_bias *bias)
{
    int status = read_penalty("presence-penalty", o->presence, &d->presence_penalty);
    if (!status)
        status = read_penalty("frequency-penalty", o->frequency, &d->frequency_penalty);
    if (!status && o->log_probs.value > RLX_MAX_BEST)
        return cli_usage("--logprobs expected at most %d, got %lld", RLX_MAX_BEST,
                         (long long)o->log_probs.value);
    if (!status && o->bias.n > RLX_MAX_BIAS)
        return cli_usage("--logit-bias was given %zu times; expected at most %d", o->bias.n,
                         RLX_MAX_BIAS);
    for (size_t i = 0; i < o->bias.n && !status; i++)
        status = read_bias(rlx_model_tokenizer(m), o->bias.v[i], &bias[i]);
    d->bias = bias;
    d->n_bias = o->bias.n;
    d->log_probs = o->log_probs.given;
    d->n_best = o->log_probs.value;
    return status;
}

/* ---- Generation ------------------------------------------------------------------------------ */

static void keep(request_output *out, const rlx_request_piece *p)
{
    if (p->token < 0)
        return;
    out->tokens = cli_realloc_array(out->tokens, out->n + 1, sizeof *out->tokens);
    request_token *t = &out->tokens[out->n++];
    *t = (request_token){p->token, cli_format("%.*s", (int)p->length, p->text), p->log_prob,
                         cli_alloc_array(p->n_best, sizeof *t->best), p->n_best};
    if (p->n_best)
        memcpy(t->best, p->best, p->n_best * sizeof *t->best);
}

static rlx_status take_all(rlx_request *r, rlx_piece_fn *fn, void *user, request_output *out,
                           rlx_error *err)
{
    rlx_request_piece p;
    bool more = true;
    rlx_status st = RLX_OK;
    while (more && st == RLX_OK) {
        st = rlx_request_next(r, -1, &p, &more, err);
        if (st != RLX_OK || !more)
            break;
        keep(out, &p);
        const rlx_piece piece = {.token = p.token, .text = p.text, .length = p.length};
        if (fn(user, &piece))
            rlx_request_cancel(r);
    }
    return st;
}

int request_run(const request_options *o, rlx_model *m, const rlx_generate_desc *g,
                rlx_piece_fn *fn, void *user, rlx_generate_result *result, request_output *out)
{
    const rlx_engine_desc how = {RLX_INIT(rlx_engine_desc), .sequences = 1, .no_thread = true};
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = g->prompt, .plain = g->plain,
                          .sampling = g->sampling, .max_tokens = g->max_tokens, .stop = g->stop,
                          .n_stop = g->n_stop, .ignore_end = g->ignore_end,
                          .grammar = g->grammar};
    rlx_token_bias *bias = cli_alloc_array(o->bias.n, sizeof *bias);
    rlx_request_result r = {RLX_INIT(rlx_request_result)};
    rlx_engine *e = NULL;
    rlx_request *request = NULL;
    rlx_error err = {0};
    int status = read_request(o, m, &d, bias);
    if (status) {
        free(bias);
        return status;
    }
    rlx_status st = rlx_engine_create(m, &how, &e, &err);
    if (st == RLX_OK)
        st = rlx_engine_submit(e, &d, &request, &err);
    if (st == RLX_OK)
        st = take_all(request, fn, user, out, &err);
    if (st == RLX_OK && rlx_request_get_result(request, &r, NULL) == RLX_OK) {
        result->finish = r.finish;
        result->n_prompt = r.n_prompt;
        result->n_reused = r.n_cached;
        result->n_generated = r.n_generated;
        result->prompt_seconds = r.prompt_seconds;
        result->seconds = r.seconds;
    }
    rlx_request_destroy(request);
    rlx_engine_destroy(e);
    free(bias);
    return st == RLX_OK ? EXIT_OK : cli_error(&err);
}

/* ---- What is shown --------------------------------------------------------------------------- */

void request_print(const rlx_model *m, const request_output *out)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m);
    table all;
    table_init(&all, "rrll", "logprob|id|token|most likely");
    for (size_t i = 0; i < out->n; i++) {
        const request_token *k = &out->tokens[i];
        char *best = cli_format("%s", "");
        for (size_t j = 0; j < k->n_best; j++) {
            const char *text = t ? rlx_token_text(t, k->best[j].token, NULL) : NULL;
            char *longer = cli_format("%s%s%s %.3f", best, j ? ", " : "", text ? text : "?",
                                      (double)k->best[j].log_prob);
            free(best);
            best = longer;
        }
        table_cell(&all, "%.3f", k->log_prob);
        table_cell(&all, "%d", (int)k->id);
        table_cell(&all, "'%s'", k->text);
        table_cell(&all, "%s", best);
        free(best);
    }
    table_print(&all, 0);
}

void request_json(const rlx_model *m, const request_output *out, json *j)
{
    const rlx_tokenizer *t = rlx_model_tokenizer(m);
    json_array(j, "logprobs");
    for (size_t i = 0; i < out->n; i++) {
        const request_token *k = &out->tokens[i];
        json_object(j, NULL);
        json_int(j, "token", k->id);
        json_text(j, "text", k->text);
        json_real(j, "logprob", k->log_prob);
        json_array(j, "best");
        for (size_t b = 0; b < k->n_best; b++) {
            json_row(j, NULL);
            json_int(j, "token", k->best[b].token);
            json_text(j, "text", t ? rlx_token_text(t, k->best[b].token, NULL) : NULL);
            json_real(j, "logprob", k->best[b].log_prob);
            json_end(j);
        }
        json_end(j);
        json_end(j);
    }
    json_end(j);
}

void request_free(request_output *out)
{
    for (size_t i = 0; i < out->n; i++) {
        free(out->tokens[i].text);
        free(out->tokens[i].best);
    }
    free(out->tokens);
    *out = (request_output){0};
}
