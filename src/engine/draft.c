/* SPDX-License-Identifier: MIT */
/* Guesses of a draft model. Its keys and values are in pools of its own, indexed by the same page
 * numbers, so that both models share page tables. It first computes tokens of a request that it has
 * not seen, then guesses one token at a time for all requests together, with the random numbers
 * that the target model will use. Cache entries of wrong guesses are overwritten later. */
#include "engine/engine.h"

#define OLD_SHARE 0.8 /* weight of the old average */

rlx_status rx_draft_create(rlx_engine *e, rlx_model *m, rlx_error *err)
{
    rx_build_desc b = m->build;
    if (!m->known.is_decoder || m->known.recurrent || m->known.vocabulary != (int64_t)e->vocabulary)
        return rx_fail(err, RLX_INVALID, "'%.200s' cannot be the draft of '%.200s': expected a "
                       "decoder with a K/V cache and a vocabulary of %zu tokens, got %s with %lld",
                       m->path, e->model->path, e->vocabulary, m->known.architecture,
                       (long long)m->known.vocabulary);
    RLX_TRY(rx_model_need_whole(m, "a draft model", err));
    b.prompt_chunk = 1;
    b.sequences = e->build.sequences;
    b.context = e->build.context;
    b.page = e->build.page;
    b.pages = e->build.pages;
    b.rows = e->build.rows;
    b.outputs = e->build.outputs;
    rx_stepper_init(&e->draft, false);
    return rx_model_make_session(m, &b, NULL, &e->draft.session, err);
}

/* Rows that were added become tokens in e->results. */
static rlx_status run_pass(rlx_engine *e, rlx_error *err)
{
    uint64_t ticket;
    e->now = &e->draft;
    rx_inputs_finish(e);
    RLX_TRY(rx_inputs_give(e, err));
    RLX_TRY(rlx_session_submit(e->draft.session, &ticket, err));
    RLX_TRY(rlx_session_wait(e->draft.session, ticket, -1, err));
    return rlx_session_read(e->draft.session, "token", 0, e->results,
                            e->draft.size[RX_OUTPUTS] * sizeof *e->results, err);
}

/* The row of the token at a position; its result is wanted. */
static void add_wanted(rlx_engine *e, rlx_request *r, size_t at)
{
    const size_t i = rx_inputs_add_row(e, r, at), m = e->in.n[RX_OUTPUTS]++;
    e->in.outputs[m] = (int32_t)i;
    e->row[m] = (rx_output_row){r, at, true, false};
    r->first_output = m;
}

/* Computes tokens that the draft has not seen, up to the rows of a step, then the first guesses. */
static rlx_status catch_up(rlx_engine *e, bool *behind, rlx_error *err)
{
    size_t left = e->max_rows;
    *behind = false;
    rx_inputs_clear(e);
    for (size_t i = 0; i < e->n_running; i++) {
        rlx_request *r = e->running[i];
        if (!r->n_guesses)
            continue;
        *behind |= r->n - r->drafted > 2; /* of the last guess it has not seen the result */
        rx_inputs_add_pages(e, r);
        for (; r->drafted + 1 < r->n && left; r->drafted++, left--)
            rx_inputs_add_row(e, r, r->drafted);
        if (!left || r->drafted + 1 < r->n) { /* goes on in the next step */
            r->n_guesses = 0;
            continue;
        }
        add_wanted(e, r, r->drafted++);
        left--;
    }
    if (!e->in.n[RX_ROWS])
        return RLX_OK;
    return run_pass(e, err);
}

static void take_guesses(rlx_engine *e, size_t k)
{
    for (size_t i = 0; i < e->n_running; i++)
        if (e->running[i]->n_guesses > k)
            e->running[i]->tokens[e->running[i]->n + k] = e->results[e->running[i]->first_output];
}

static rlx_status next_guess(rlx_engine *e, size_t k, bool *any, rlx_error *err)
{
    *any = false;
    rx_inputs_clear(e);
    for (size_t i = 0; i < e->n_running; i++) {
        rlx_request *r = e->running[i];
        if (r->n_guesses <= k)
            continue;
        add_wanted(e, r, r->drafted++);
        *any = true;
    }
    return *any ? run_pass(e, err) : RLX_OK;
}

rlx_status rx_draft_guess(rlx_engine *e, rlx_error *err)
{
    bool behind, any = true;
    size_t n = 1;
    const int64_t begin = rx_now_ns();
    RLX_TRY(catch_up(e, &behind, err));
    take_guesses(e, 0);
    for (size_t k = 1; any; k++) {
        RLX_TRY(next_guess(e, k, &any, err));
        if (any)
            take_guesses(e, k);
        n += any;
    }
    const double each = (double)(rx_now_ns() - begin) * 1e-9 / (double)n;
    if (!behind && e->draft_runs++ > 2) /* the first ones compile and pack */
        e->pass_seconds = e->pass_seconds > 0
                              ? e->pass_seconds * OLD_SHARE + each * (1 - OLD_SHARE) : each;
    return RLX_OK;
}
