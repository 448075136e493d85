/* SPDX-License-Identifier: MIT */
/* Tokens under a grammar: forced ones, and those that are drawn again with the mask. */
#include "model/constrain.h"

#include "model/draw.h"

#define MAX_FORCED 64

struct rx_constraint {
    rlx_context *c;
    size_t seq;
    rlx_grammar_state *state;
    int32_t forced[MAX_FORCED]; /* pending from index n_taken on */
    size_t n_forced, n_taken;
    size_t n_words;
    uint32_t *bits;
    float *logits;              /* [vocabulary] */
    rx_candidate *candidates;   /* [vocabulary] */
};

rlx_status rx_constraint_create(rlx_context *c, size_t seq, rlx_grammar *g, rx_constraint **out,
                                rlx_error *err)
{
    const rlx_vocabulary *v;
    *out = NULL;
    RLX_TRY(rx_model_vocabulary(c->model, &v, err));
    rx_constraint *k = rx_alloc_zero(sizeof *k);
    if (!k)
        return rx_fail_memory(err, "a constraint", sizeof *k);
    k->c = c;
    k->seq = seq;
    k->n_words = rlx_vocabulary_mask_words(v);
    k->bits = rx_alloc_array(k->n_words + 1, sizeof *k->bits);
    k->logits = rx_alloc_array(c->vocabulary, sizeof *k->logits);
    k->candidates = rx_alloc_array(c->vocabulary, sizeof *k->candidates);
    rlx_status st = k->bits && k->logits && k->candidates
                        ? rlx_grammar_state_create(g, v, &k->state, err)
                        : rx_fail_memory(err, "the logits of a constraint", c->vocabulary * 12);
    if (st == RLX_OK)
        st = rlx_grammar_forced(k->state, k->forced, MAX_FORCED, &k->n_forced, err);
    if (st == RLX_OK)
        *out = k;
    else
        rx_constraint_destroy(k);
    return st;
}

void rx_constraint_destroy(rx_constraint *k)
{
    if (!k)
        return;
    rlx_grammar_state_destroy(k->state);
    rx_free(k->bits);
    rx_free(k->logits);
    rx_free(k->candidates);
    rx_free(k);
}

/* Accepts a token and asks what it forces. */
static rlx_status accept(rx_constraint *k, int32_t token, rlx_error *err)
{
    RLX_TRY(rlx_grammar_accept(k->state, token, err));
    if (k->n_taken < k->n_forced || rlx_tokenizer_is_end(k->c->model->tokenizer, token))
        return RLX_OK;
    k->n_taken = 0;
    return rlx_grammar_forced(k->state, k->forced, MAX_FORCED, &k->n_forced, err);
}

rlx_status rx_constraint_forced(rx_constraint *k, int32_t *token, rlx_error *err)
{
    *token = -1;
    if (k->n_taken == k->n_forced)
        return RLX_OK;
    *token = k->forced[k->n_taken++];
    return accept(k, *token, err);
}

bool rx_constraint_is_over(rx_constraint *k)
{
    return k->n_taken == k->n_forced && rlx_grammar_is_over(k->state);
}

/* ---- Resampling ------------------------------------------------------------------------------ */

static size_t list_allowed(rx_constraint *k)
{
    size_t n = 0;
    for (size_t w = 0; w < k->n_words; w++)
        for (uint32_t left = k->bits[w]; left; left &= left - 1) {
            size_t token = w * 32 + (size_t)__builtin_ctz(left);
            if (token < k->c->vocabulary)
                k->candidates[n++] = (rx_candidate){k->logits[token], (int32_t)token};
        }
    return n;
}

rlx_status rx_constraint_take(rx_constraint *k, rlx_error *err)
{
    rx_sequence *s = &k->c->sequences[k->seq];
    const rx_sampling *how = &k->c->samplings[s->sampling];
    if (rlx_grammar_allows(k->state, s->tokens[s->n - 1]))
        return accept(k, s->tokens[s->n - 1], err);
    RLX_TRY(rlx_grammar_mask(k->state, k->bits, k->n_words, err));
    RLX_TRY(rlx_context_logits(k->c, k->seq, k->logits, k->c->vocabulary, err));
    rx_draw_penalise(&how->options, s->tokens, s->n - 1, k->logits);
    const size_t n = list_allowed(k);
    if (!n)
        return rx_fail(err, RLX_UNSUPPORTED, "no token of the vocabulary continues the text as the "
                       "grammar wants it");
    /* Random blocks from 2^32 on; the device uses row numbers below. */
    const uint64_t block = ((uint64_t)1 << 32) + how->n_steps;
    s->sampler.mu = s->sampler.before; /* discard the update of the rejected token */
    s->tokens[s->n - 1] = how->sampler ? rx_sampler_draw(how->sampler, &s->sampler, block,
                                                         k->logits, k->bits, s->tokens, s->n - 1)
                                       : rx_draw(&how->options, block, k->candidates, n);
    return accept(k, s->tokens[s->n - 1], err);
}
