/* SPDX-License-Identifier: MIT */
/* Tokens of a request: those forced by a grammar, its end, and the pieces of its text. */
#include "engine/engine.h"

#define MAX_FORCED 64

static rlx_status append(rlx_request *r, int32_t token, rlx_error *err)
{
    if (!rx_grow(&r->tokens, &r->cap_tokens, r->n + 1, sizeof *r->tokens))
        return rx_fail_memory(err, "the tokens of a request", r->n * sizeof *r->tokens);
    r->tokens[r->n++] = token;
    return RLX_OK;
}

/* Tokens common to all continuations need no sampling. */
static rlx_status add_forced(rlx_request *r, rlx_error *err)
{
    int32_t forced[MAX_FORCED];
    size_t n;
    do {
        RLX_TRY(rlx_grammar_forced(r->grammar, forced, MAX_FORCED, &n, err));
        for (size_t i = 0; i < n && r->n < r->limit; i++) {
            RLX_TRY(rlx_grammar_accept(r->grammar, forced[i], err));
            RLX_TRY(append(r, forced[i], err));
        }
    } while (n && r->n < r->limit);
    return RLX_OK;
}

rlx_status rx_tokens_begin(rlx_request *r, rlx_grammar *g, rlx_error *err)
{
    const rlx_vocabulary *v;
    RLX_TRY(rx_model_vocabulary(r->e->model, &v, err));
    r->n_mask = rlx_vocabulary_mask_words(v);
    const size_t words = r->n_mask > r->e->words ? r->n_mask : r->e->words;
    r->mask = rx_alloc_array_zero(words, sizeof *r->mask);
    if (!r->mask)
        return rx_fail_memory(err, "the mask of a grammar", words * sizeof *r->mask);
    RLX_TRY(rlx_grammar_state_create(g, v, &r->grammar, err));
    return add_forced(r, err);
}

static bool is_end(const rlx_request *r, int32_t token)
{
    const rlx_tokenizer *t = r->e->model->tokenizer;
    return !r->ignore_end && t && rlx_tokenizer_is_end(t, token);
}

rlx_status rx_tokens_add(rlx_request *r, int32_t token, rlx_error *err)
{
    RLX_TRY(append(r, token, err));
    if (!r->grammar)
        return RLX_OK;
    RLX_TRY(rlx_grammar_accept(r->grammar, token, err));
    const rlx_tokenizer *t = r->e->model->tokenizer;
    return rlx_tokenizer_is_end(t, token) ? RLX_OK : add_forced(r, err);
}

/* Whether token n_given - 1 is the last one of the request. */
static bool is_last(const rlx_request *r, rlx_finish *finish)
{
    if (r->grammar && r->n_given == r->n && rlx_grammar_is_over(r->grammar))
        *finish = RLX_FINISH_END;
    else if (r->max_tokens && r->n_given - r->n_prompt == (size_t)r->max_tokens)
        *finish = RLX_FINISH_LENGTH;
    else if (r->n_given == r->limit)
        *finish = RLX_FINISH_CONTEXT;
    else
        return false;
    return true;
}

static void count_token(rlx_request *r)
{
    const int64_t now = rx_now_ns();
    rx_mutex_lock(&r->e->lock);
    r->result.n_generated++;
    r->e->info.generated_tokens++;
    if (!r->first_ns)
        r->first_ns = now;
    r->last_ns = now;
    rx_mutex_unlock(&r->e->lock);
}

rlx_status rx_tokens_give(rlx_request *r, const rx_probs *probs, bool *ended, rlx_finish *finish,
                          rlx_error *err)
{
    const int32_t token = r->tokens[r->n_given];
    rx_output_text t;
    *ended = true;
    if (is_end(r, token)) { /* no piece */
        *finish = RLX_FINISH_END;
        return RLX_OK;
    }
    r->n_given++;
    count_token(r);
    RLX_TRY(rx_text_output_push(&r->output, token, &t, err));
    const rlx_request_piece piece = {.token = token, .text = t.text, .length = t.length,
                                     .log_prob = probs ? probs->log_prob : 0,
                                     .best = probs ? probs->best : NULL,
                                     .n_best = probs ? r->n_best : 0};
    RLX_TRY(rx_request_give(r, &piece, err));
    *finish = RLX_FINISH_STOP;
    *ended = t.stopped || is_last(r, finish);
    return RLX_OK;
}

rlx_status rx_tokens_flush(rlx_request *r, rlx_finish *finish, rlx_error *err)
{
    rx_output_text t;
    if (*finish == RLX_FINISH_STOP || *finish == RLX_FINISH_CALLER)
        return RLX_OK;
    RLX_TRY(rx_text_output_flush(&r->output, &t, err));
    if (t.stopped)
        *finish = RLX_FINISH_STOP;
    if (!t.length)
        return RLX_OK;
    return rx_request_give(r, &(rlx_request_piece){.token = -1, .text = t.text,
                                                   .length = t.length}, err);
}
