/* SPDX-License-Identifier: MIT */
/* Beam search. Each beam occupies a sequence of the context. The best child of a beam inherits its
 * sequence, other children take those of dropped beams; tokens that a sequence already holds are
 * not computed again. */
#include <math.h>
#include <string.h>

#include "base/sized.h"
#include "model/model.h"

typedef struct beam {
    int32_t *tokens; /* [context]: with the prompt */
    double sum;      /* of log-probabilities after the prompt */
    size_t slot;     /* its sequence */
} beam;

typedef struct candidate {
    double sum;
    size_t parent;
    int32_t token;
} candidate;

typedef struct search {
    rlx_context *c;
    size_t width, n_prompt, n;  /* n: tokens of each beam */
    size_t limit;               /* of n */
    bool ignore_end;
    rx_arena arena;
    beam *live, *next;          /* [width] */
    size_t n_live;
    candidate *best;            /* [2 * width] */
    size_t n_best;
    float *logits;              /* [vocabulary] */
    bool *taken;                /* [width] slots */
    int32_t *result;            /* the best finished beam */
    size_t n_result, n_ended;
    double mean;
} search;

static bool alloc_search(search *s)
{
    rx_arena *a = &s->arena;
    s->live = rx_arena_array_zero(a, s->width, sizeof *s->live);
    s->next = rx_arena_array_zero(a, s->width, sizeof *s->next);
    s->best = rx_arena_array(a, 2 * s->width, sizeof *s->best);
    s->logits = rx_arena_array(a, s->c->vocabulary, sizeof *s->logits);
    s->taken = rx_arena_array(a, s->width, sizeof *s->taken);
    s->result = rx_arena_array(a, s->c->context, sizeof *s->result);
    if (!s->live || !s->next || !s->best || !s->logits || !s->taken || !s->result)
        return false;
    for (size_t i = 0; i < s->width; i++) {
        s->live[i].tokens = rx_arena_array(a, s->c->context, sizeof(int32_t));
        s->next[i].tokens = rx_arena_array(a, s->c->context, sizeof(int32_t));
        if (!s->live[i].tokens || !s->next[i].tokens)
            return false;
    }
    return true;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

/* Keeps the 2 * width largest sums, sorted; ties keep the earlier one. */
static void offer(search *s, candidate c)
{
    const size_t most = 2 * s->width;
    if (s->n_best == most && !(c.sum > s->best[most - 1].sum))
        return;
    size_t i = s->n_best < most ? s->n_best++ : most - 1;
    for (; i > 0 && c.sum > s->best[i - 1].sum; i--)
        s->best[i] = s->best[i - 1];
    s->best[i] = c;
}

static double log_sum(const float *logits, size_t n)
{
    double most = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++)
        most = logits[i] > most ? (double)logits[i] : most;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)logits[i] - most);
    return most + log(sum);
}

/* Computes pending tokens and lists the likeliest continuations by one token. */
static rlx_status list_candidates(search *s, rlx_error *err)
{
    const size_t vocabulary = s->c->vocabulary;
    s->n_best = 0;
    RLX_TRY(rlx_context_step(s->c, -1, NULL, err));
    for (size_t b = 0; b < s->n_live; b++) {
        RLX_TRY(rlx_context_logits(s->c, s->live[b].slot, s->logits, vocabulary, err));
        const double norm = log_sum(s->logits, vocabulary);
        for (size_t i = 0; i < vocabulary; i++)
            offer(s, (candidate){s->live[b].sum + (double)s->logits[i] - norm, b, (int32_t)i});
    }
    return RLX_OK;
}

/* ---- Beams ----------------------------------------------------------------------------------- */

static bool is_end(const search *s, int32_t token)
{
    const rlx_tokenizer *t = s->c->model->tokenizer;
    return !s->ignore_end && t && rlx_tokenizer_is_end(t, token);
}

/* Takes a finished (or cut off) beam of n tokens as result if it is the best so far. */
static void take_result(search *s, const int32_t *tokens, size_t n, double sum)
{
    const size_t length = n - s->n_prompt;
    const double mean = length ? sum / (double)length : 0;
    if (s->n_result && mean <= s->mean)
        return;
    memcpy(s->result, tokens + s->n_prompt, length * sizeof *tokens);
    s->n_result = length;
    s->mean = mean;
}

/* Chooses the live children; finished ones among the first `width` candidates become results. */
static void choose_children(search *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->n_best && n < s->width; i++) {
        const candidate *c = &s->best[i];
        const bool ends = is_end(s, c->token);
        if (ends && i >= s->width)
            continue;
        beam *to = &s->next[n];
        memcpy(to->tokens, s->live[c->parent].tokens, s->n * sizeof *to->tokens);
        to->tokens[s->n] = c->token;
        to->sum = c->sum;
        to->slot = c->parent; /* for now */
        if (!ends) {
            n++;
            continue;
        }
        take_result(s, to->tokens, s->n + 1, c->sum);
        s->n_ended++;
    }
    for (size_t i = 0; i < s->width; i++)
        s->taken[i] = false;
    s->n_live = n;
}

/* The first child of a beam inherits its sequence. */
static void give_slots(search *s)
{
    const size_t none = SIZE_MAX;
    size_t free_slot = 0;
    for (size_t i = 0; i < s->n_live; i++) {
        const size_t slot = s->live[s->next[i].slot].slot;
        s->next[i].slot = s->taken[slot] ? none : slot;
        s->taken[slot] = true;
    }
    for (size_t i = 0; i < s->n_live; i++) {
        if (s->next[i].slot != none)
            continue;
        while (s->taken[free_slot])
            free_slot++;
        s->next[i].slot = free_slot;
        s->taken[free_slot] = true;
    }
}

/* Sets the tokens of each sequence to its beam's. */
static rlx_status place_beams(search *s, rlx_error *err)
{
    for (size_t i = 0; i < s->width; i++)
        if (!s->taken[i])
            RLX_TRY(rlx_context_set_tokens(s->c, i, NULL, 0, err));
    for (size_t i = 0; i < s->n_live; i++)
        RLX_TRY(rlx_context_set_tokens(s->c, s->live[i].slot, s->live[i].tokens, s->n, err));
    return RLX_OK;
}

static rlx_status run_search(search *s, rlx_error *err)
{
    while (s->n_live && s->n < s->limit && s->n_ended < s->width) {
        RLX_TRY(list_candidates(s, err));
        choose_children(s);
        give_slots(s);
        s->n++;
        beam *old = s->live;
        s->live = s->next;
        s->next = old;
        if (s->n < s->limit)
            RLX_TRY(place_beams(s, err));
    }
    for (size_t i = 0; i < s->n_live && s->n_ended < s->width; i++)
        take_result(s, s->live[i].tokens, s->n, s->live[i].sum);
    return RLX_OK;
}

static rlx_status begin(search *s, const rlx_beam_desc *d, rlx_error *err)
{
    const size_t room = s->c->context;
    if (!d->n_tokens || d->n_tokens >= room)
        return rx_fail(err, RLX_INVALID, "the prompt has %zu tokens; expected 1 to %zu, one less "
                       "than the context", d->n_tokens, room - 1);
    if (d->max_tokens < 0)
        return rx_fail(err, RLX_INVALID, "max_tokens is %lld; expected 0 or more",
                       (long long)d->max_tokens);
    if (!alloc_search(s))
        return rx_fail_memory(err, "the beams of a search", s->width * room * sizeof(int32_t));
    RLX_TRY(rlx_context_set_sampling(s->c, NULL, err));
    for (size_t i = 1; i < s->width; i++)
        RLX_TRY(rlx_context_set_tokens(s->c, i, NULL, 0, err));
    RLX_TRY(rlx_context_set_tokens(s->c, 0, d->tokens, d->n_tokens, err));
    memcpy(s->live[0].tokens, d->tokens, d->n_tokens * sizeof *d->tokens);
    s->n_live = 1;
    s->n = s->n_prompt = d->n_tokens;
    s->limit = d->max_tokens && (uint64_t)d->max_tokens < room - s->n ? s->n + (size_t)d->max_tokens
                                                                      : room;
    return RLX_OK;
}

rlx_status rlx_beam_search(rlx_context *c, const rlx_beam_desc *d, int32_t *out, size_t cap,
                           size_t *n, double *mean, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_beam_search: c", err));
    RLX_TRY(rx_need(d, "rlx_beam_search: d", err));
    RLX_TRY(rx_need(n, "rlx_beam_search: n", err));
    if (cap)
        RLX_TRY(rx_need(out, "rlx_beam_search: out", err));
    rlx_beam_desc full;
    RLX_TRY(RX_DESC_READ(rlx_beam_desc, &full, d, err));
    search s = {.c = c, .width = c->n_sequences, .ignore_end = full.ignore_end};
    rlx_status st = begin(&s, &full, err);
    if (st == RLX_OK)
        st = run_search(&s, err);
    if (st == RLX_OK) {
        *n = s.n_result;
        memcpy(out, s.result, (s.n_result < cap ? s.n_result : cap) * sizeof *out);
        if (mean)
            *mean = s.mean;
    }
    rx_arena_finish(&s.arena);
    return st;
}
