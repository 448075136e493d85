/* SPDX-License-Identifier: MIT */
/* Steps: the waiting tokens of sequences become the next token of each. A step is a series of
 * session runs: first sequences with several pending tokens, one by one in chunks (prefill), then
 * all sequences with one pending token together (decode). It is a state machine that can be
 * suspended at a deadline and resumed by the next call. Only the sampled tokens are read back. When
 * the same sequence will continue, the run of its next step is submitted speculatively before this
 * step's token is read, so that the device does not wait for the host. */
#include <string.h>

#include "base/env.h"
#include "model/model.h"

int64_t rx_ms_left(int64_t deadline_ns)
{
    if (deadline_ns < 0)
        return -1;
    int64_t left = deadline_ns - rx_now_ns();
    return left <= 0 ? 0 : (left + 999999) / 1000000;
}

/* ---- What to run next ------------------------------------------------------------------------ */

static size_t waiting(const rx_sequence *s)
{
    return s->n - s->computed;
}

/* Recomputes lost logits of an aborted step before this step overwrites them. */
static rlx_status recover_logits(rlx_context *c, rlx_error *err)
{
    for (size_t i = 0; i < c->n_sequences; i++) {
        const rx_sequence *s = &c->sequences[i];
        if (s->in_step && s->sampled >= 0 && s->row == RX_ROW_LOST)
            RLX_TRY(rx_context_compute_again(c, i, err));
    }
    return RLX_OK;
}

/* Sequences that sampled before the step was aborted keep that token. */
static rlx_status begin_step(rlx_context *c, size_t only, rlx_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < c->n_sequences; i++) {
        rx_sequence *s = &c->sequences[i];
        s->in_step = (only == SIZE_MAX || only == i) && (waiting(s) > 0 || s->sampled >= 0);
        n += s->in_step;
        if (s->in_step && s->n == c->context)
            return rx_fail(err, RLX_INVALID, "sequence %zu is full: it holds %zu tokens, as many "
                           "as the context (rlx_model_desc.context)", i, s->n);
    }
    if (!n)
        return rx_fail(err, RLX_INVALID, "no sequence has tokens that wait: add some before a "
                       "step");
    if (n > 1)
        RLX_TRY(recover_logits(c, err));
    for (size_t i = 0; i < c->n_sequences; i++)
        if (c->sequences[i].sampled < 0)
            c->sequences[i].has_logits = false;
    c->stepping = true;
    c->only = only;
    return RLX_OK;
}

static void end_step(rlx_context *c)
{
    c->stepping = false;
    for (size_t i = 0; i < c->n_sequences; i++)
        c->sequences[i].in_step = false;
}

static bool needs_run(const rx_sequence *s)
{
    return s->in_step && s->sampled < 0 && waiting(s) > 0;
}

/* Padding rows in front of n prompt tokens, so that sizes recur (rlx_session_round_rows). None for
 * recurrent models, whose state would absorb them. */
static size_t padding(const rlx_context *c, size_t n)
{
    const size_t rows = (size_t)rlx_session_round_rows(c->session, (int64_t)n);
    if (c->model->known.recurrent)
        return 0;
    return (rows < c->prompt_chunk ? rows : c->prompt_chunk) - n;
}

/* Chooses the members of the next run; false when the step is done. */
static bool plan_run(rlx_context *c)
{
    rx_context_run r = {.n_tokens = 1, .samples = true};
    for (size_t i = 0; i < c->n_sequences; i++) {
        const rx_sequence *s = &c->sequences[i];
        if (!needs_run(s))
            continue;
        if (waiting(s) == 1 && (!r.n_members || r.sampling == &c->samplings[s->sampling])) {
            c->members[r.n_members++] = i;
            r.sampling = &c->samplings[s->sampling];
        }
        if (waiting(s) == 1)
            continue;
        c->members[0] = i;
        r.sampling = &c->samplings[s->sampling];
        r.n_members = 1;
        r.n_tokens = waiting(s) < c->prompt_chunk ? waiting(s) : c->prompt_chunk;
        r.samples = r.n_tokens == waiting(s);
        r.padding = padding(c, r.n_tokens);
        break;
    }
    c->run = r;
    return r.n_members > 0;
}

/* ---- Inputs of a run ------------------------------------------------------------------------- */

/* Padding comes first: query positions count from the end, so padding rows attend to no key (or to
 * earlier ones), and of several writes to one cache row the last one wins, which is the first
 * token's. */
static void fill_padding(rlx_context *c)
{
    const size_t slot = c->members[0], at = c->sequences[slot].computed;
    for (size_t i = 0; i < c->run.padding; i++) {
        c->tokens[i] = c->sequences[slot].tokens[at];
        c->positions[i] = (int32_t)at;
        c->places[i] = (int32_t)(slot * c->context + at);
    }
}

/* ahead: 0 for the run, 1 for the speculative one after it, whose token is unknown. */
static void fill_tokens(rlx_context *c, size_t ahead)
{
    const rx_context_run *r = &c->run;
    size_t k = r->padding;
    fill_padding(c);
    for (size_t m = 0; m < r->n_members; m++) {
        size_t slot = c->members[m];
        const rx_sequence *s = &c->sequences[slot];
        for (size_t i = 0; i < r->n_tokens; i++, k++) {
            size_t at = s->computed + ahead + i;
            c->tokens[k] = s->tokens[at];
            c->positions[k] = (int32_t)at;
            c->places[k] = (int32_t)(slot * c->context + at);
        }
        c->lengths[m] = (int32_t)(s->computed + ahead + r->n_tokens);
        c->slots[m] = (int32_t)slot;
    }
}

static bool has_penalty(const rlx_context *c)
{
    return c->run.sampling->options.repeat_penalty != 1;
}

/* The recent tokens of each member, repeated to fill RX_RECENT entries. */
static void fill_recent(rlx_context *c)
{
    for (size_t m = 0; m < c->run.n_members; m++) {
        const rx_sequence *s = &c->sequences[c->members[m]];
        const size_t end = s->computed + c->run.n_tokens;
        const size_t last = (size_t)c->run.sampling->options.repeat_last;
        const size_t n = last < end ? last : end;
        for (size_t i = 0; i < RX_RECENT; i++)
            c->recent[m * RX_RECENT + i] = s->tokens[end - 1 - i % n];
    }
}

/* The seed of a run, by splitmix64; 31 bits, for devices without i64. Rows of a run draw different
 * blocks; runs of a step that share a sampling differ by their first member. */
static int64_t run_seed(const rlx_context *c, size_t ahead)
{
    const rx_sampling *how = c->run.sampling;
    uint64_t z = how->options.seed + (how->n_steps + ahead + 1) * 0x9e3779b97f4a7c15u +
                 (how == c->samplings ? c->members[0] : 0) * 0xd1b54a32d192ed03u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ (z >> 31)) >> 33);
}

/* Lists the inputs that changed. */
static size_t list_inputs(rlx_context *c, size_t ahead, rlx_const_tensor in[RX_MAX_RUN_INPUTS])
{
    const rx_context_run *r = &c->run;
    size_t n = 0, rows = r->n_members * (r->padding + r->n_tokens) * sizeof(int32_t);
    size_t members = r->n_members * sizeof(int32_t);
    if (c->front)
        in[n++] = (rlx_const_tensor){"hidden", c->hidden,
                                     rows * (size_t)c->model->known.width};
    else if (!ahead)
        in[n++] = (rlx_const_tensor){"tokens", c->tokens, rows};
    in[n++] = (rlx_const_tensor){"positions", c->positions, rows};
    in[n++] = (rlx_const_tensor){"places", c->places, rows};
    in[n++] = (rlx_const_tensor){"lengths", c->lengths, members};
    if (c->n_sequences > 1)
        in[n++] = (rlx_const_tensor){"slots", c->slots, members};
    if (has_penalty(c) || c->recent_given != r->n_members) {
        if (has_penalty(c))
            fill_recent(c);
        in[n++] = (rlx_const_tensor){"recent", c->recent, members * c->bound_recent};
        c->recent_given = has_penalty(c) ? 0 : r->n_members;
    }
    if (c->given != r->sampling) {
        in[n++] = (rlx_const_tensor){"penalty", &r->sampling->penalty, sizeof(float)};
        in[n++] = (rlx_const_tensor){"sampling", r->sampling->values, sizeof r->sampling->values};
    }
    if (c->given != r->sampling || r->sampling->options.temperature > 0) {
        c->seed = run_seed(c, ahead);
        in[n++] = (rlx_const_tensor){"seed", &c->seed, sizeof c->seed};
    }
    c->given = r->sampling;
    return n;
}

static rlx_status bind_run(rlx_context *c, rlx_error *err)
{
    const rx_context_run *r = &c->run;
    const size_t recent = has_penalty(c) ? RX_RECENT : 0; /* 0 skips the penalty */
    const size_t seq = r->padding + r->n_tokens;
    if (c->bound_recent != recent || c->bound_batch != r->n_members || c->bound_seq != seq)
        c->n_steady = 0;
    if (c->bound_recent != recent)
        RLX_TRY(rlx_session_bind(c->session, "recent", (int64_t)recent, err));
    if (c->n_sequences > 1 && c->bound_batch != r->n_members)
        RLX_TRY(rlx_session_bind(c->session, "batch", (int64_t)r->n_members, err));
    if (c->bound_seq != seq)
        RLX_TRY(rlx_session_bind(c->session, "seq", (int64_t)seq, err));
    c->bound_batch = r->n_members;
    c->bound_seq = seq;
    c->bound_recent = recent;
    return RLX_OK;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* After a failure the session's inputs are unknown: resends all of them. */
void rx_context_distrust_session(rlx_context *c)
{
    c->bound_batch = c->bound_seq = c->recent_given = 0;
    c->bound_recent = SIZE_MAX;
    c->given = NULL;
    c->run.active = c->run.in_front = c->ahead.active = false;
}

#define RELEASE_TOKENS 64
#define RELEASE_MS 10

/* One bit per power of two of rows: kernels are selected by size, and those of another size may
 * pack weights differently. */
static unsigned size_bit(const rlx_context *c)
{
    unsigned bit = 1;
    for (size_t rows = c->run.n_members * c->run.n_tokens; rows > 1; rows /= 2)
        bit *= 2;
    return bit;
}

/* Drops the file's pages after kernels have packed the weights in their first run. Later, only
 * embedding rows are read, whose readahead accumulates. */
static void release_pages(rlx_context *c)
{
    const unsigned bit = size_bit(c);
    c->unreleased += c->run.n_members * c->run.n_tokens;
    const bool again = c->model->policy == RLX_POLICY_FAST && c->unreleased >= RELEASE_TOKENS;
    if (!c->model->weights_in_file || (c->released & bit && !again))
        return;
    c->released |= bit;
    c->unreleased = 0;
    rx_model_release_pages(c->model);
}

/* The run has completed and its tokens are in `results`. */
static void take_results(rlx_context *c)
{
    const rx_context_run *r = &c->run;
    c->run.active = false;
    c->n_steady += r->n_tokens == 1;
    for (size_t m = 0; m < r->n_members; m++) {
        rx_sequence *s = &c->sequences[c->members[m]];
        s->computed += r->n_tokens;
        if (!r->samples)
            continue;
        s->sampled = c->results[m];
        s->has_logits = true;
        s->row = c->ahead.active ? RX_ROW_LOST : m;
    }
    if (r->samples)
        release_pages(c);
}

static rlx_status set_inputs(rlx_context *c, const rlx_const_tensor *in, size_t n, rlx_error *err)
{
    for (size_t i = 0; i < n; i++)
        RLX_TRY(rlx_session_set_input(c->session, in[i].name, in[i].data, in[i].bytes, err));
    return RLX_OK;
}

static rlx_status submit_inputs(rlx_context *c, size_t ahead, uint64_t *ticket, rlx_error *err)
{
    rlx_const_tensor in[RX_MAX_RUN_INPUTS];
    size_t n = list_inputs(c, ahead, in);
    RLX_TRY(set_inputs(c, in, n, err));
    return rlx_session_submit(c->session, ticket, err);
}

/* ---- Layers on the CPU ----------------------------------------------------------------------- */

/* Submits the CPU layers; they run without padding. */
static rlx_status submit_front(rlx_context *c, rlx_error *err)
{
    const rx_context_run *r = &c->run;
    const size_t members = r->n_members * sizeof(int32_t), rows = members * r->n_tokens;
    const bool many = c->n_sequences > 1;
    const rlx_const_tensor in[] = {
        {"tokens", c->tokens + r->padding, rows}, {"positions", c->positions + r->padding, rows},
        {"places", c->places + r->padding, rows}, {"lengths", c->lengths, members},
        {"slots", c->slots, members},
    };
    if (many)
        RLX_TRY(rlx_session_bind(c->front, "batch", (int64_t)r->n_members, err));
    RLX_TRY(rlx_session_bind(c->front, "seq", (int64_t)r->n_tokens, err));
    RLX_TRY(rx_front_submit(c->front, in, many ? 5 : 4, &c->run.ticket, err));
    c->run.in_front = true;
    return RLX_OK;
}

/* After the CPU layers: submits the device's part. Padding rows repeat the first token's. */
static rlx_status submit_behind(rlx_context *c, rlx_error *err)
{
    const rx_context_run *r = &c->run;
    const size_t width = (size_t)c->model->known.width;
    float *first = c->hidden + r->padding * width;
    c->run.in_front = false;
    RLX_TRY(rx_front_read(c->model, c->front, r->n_members * r->n_tokens, first, err));
    for (size_t i = 0; i < r->padding; i++)
        memcpy(c->hidden + i * width, first, width * sizeof *first);
    return submit_inputs(c, 0, &c->run.ticket, err);
}

static rlx_status wait_parts(rlx_context *c, int64_t timeout_ms, rlx_error *err)
{
    const int64_t deadline = rx_deadline(timeout_ms);
    if (c->run.in_front) {
        RLX_TRY(rlx_session_wait(c->front, c->run.ticket, timeout_ms, err));
        RLX_TRY(submit_behind(c, err));
    }
    return rlx_session_wait(c->session, c->run.ticket, rx_ms_left(deadline), err);
}

static rlx_status submit_parts(rlx_context *c, rlx_error *err)
{
    return c->front ? submit_front(c, err) : submit_inputs(c, 0, &c->run.ticket, err);
}

/* ---- Whole runs ------------------------------------------------------------------------------ */

/* A first run, in which kernels pack weights: drops pages of the file repeatedly meanwhile, so that
 * file and packed weights are never both fully resident. */
static rlx_status run_releasing(rlx_context *c, const rlx_tensor *out, rlx_error *err)
{
    rlx_status st;
    RLX_TRY(submit_parts(c, err));
    while ((st = wait_parts(c, RELEASE_MS, err)) == RLX_TIMEOUT)
        rx_model_release_pages(c->model);
    if (st != RLX_OK || !c->run.samples)
        return st;
    return rlx_session_read(c->session, out->name, 0, out->data, out->bytes, err);
}

static rlx_status run_parts(rlx_context *c, const rlx_tensor *out, rlx_error *err)
{
    RLX_TRY(submit_parts(c, err));
    RLX_TRY(wait_parts(c, -1, err));
    if (!c->run.samples)
        return RLX_OK;
    return rlx_session_read(c->session, out->name, 0, out->data, out->bytes, err);
}

/* Synchronous: inputs, run and results. */
static rlx_status run_whole(rlx_context *c, rlx_error *err)
{
    rlx_const_tensor in[RX_MAX_RUN_INPUTS];
    rlx_tensor out = {"token", c->results, c->run.n_members * sizeof *c->results};
    bool packs = c->model->weights_in_file && c->model->policy == RLX_POLICY_FAST &&
                 !(c->released & size_bit(c)) && !rx_env_flag(RX_ENV_DUMP_NODES);
    if (packs)
        RLX_TRY(run_releasing(c, &out, err));
    else if (c->front)
        RLX_TRY(run_parts(c, &out, err));
    else
        RLX_TRY(rlx_run(c->session, in, list_inputs(c, 0, in), &out, c->run.samples, err));
    take_results(c);
    return RLX_OK;
}

static rlx_status submit_run(rlx_context *c, rlx_error *err)
{
    RLX_TRY(submit_parts(c, err));
    c->run.active = true;
    return RLX_OK;
}

/* ---- The run ahead --------------------------------------------------------------------------- */

#define MAX_MISSES 3

/* Whether only the token of the next run is unknown, so that it can be submitted speculatively. Not
 * for recurrent models, whose state cannot be rolled back. */
static bool can_run_ahead(const rlx_context *c)
{
    const rx_context_run *r = &c->run;
    const rx_sequence *s = &c->sequences[c->members[0]];
    const bool same = c->bound_seq == 1 && c->bound_batch == 1 && c->bound_recent == 0;
    return r->n_members == 1 && r->n_tokens == 1 && same && c->n_steady > 0 &&
           s->n + 1 < c->context && !has_penalty(c) && !c->model->known.recurrent &&
           c->misses < MAX_MISSES && !r->sampling->sampler && !c->front;
}

static rlx_status submit_ahead(rlx_context *c, rlx_error *err)
{
    uint64_t ticket;
    fill_tokens(c, 1);
    RLX_TRY(rlx_session_feed(c->session, "tokens", "token", err));
    RLX_TRY(submit_inputs(c, 1, &ticket, err));
    c->ahead = (rx_ahead_run){.active = true, .sequence = c->members[0], .ticket = ticket,
                              .at = c->sequences[c->members[0]].computed + 1,
                              .step = c->run.sampling->n_steps + 1};
    return RLX_OK;
}

/* On errors: the run is submitted again when it is due, which reports them. */
static void try_ahead(rlx_context *c)
{
    if (submit_ahead(c, NULL) == RLX_OK)
        return;
    c->misses = MAX_MISSES;
    c->given = NULL;
}

/* The planned run is the one submitted speculatively. */
static bool take_ahead(rlx_context *c)
{
    const rx_ahead_run a = c->ahead;
    const rx_sequence *s = &c->sequences[a.sequence];
    c->ahead.active = false;
    if (!a.active || c->run.n_members != 1 || c->run.n_tokens != 1 ||
        c->members[0] != a.sequence || s->computed != a.at || s->n != a.at + 1 ||
        c->run.sampling->n_steps != a.step || c->given != c->run.sampling)
        return false;
    c->run.ticket = a.ticket;
    c->run.active = true;
    return true;
}

/* ---- One run --------------------------------------------------------------------------------- */

static rlx_status start_planned(rlx_context *c, bool whole, rlx_error *err)
{
    if (take_ahead(c))
        return RLX_OK;
    fill_tokens(c, 0);
    rlx_status st = bind_run(c, err);
    for (size_t m = 0; m < c->run.n_members && st == RLX_OK && c->model->known.recurrent; m++)
        if (!c->sequences[c->members[m]].computed)
            st = rx_context_forget(c, c->members[m], err);
    if (st == RLX_OK)
        st = whole ? run_whole(c, err) : submit_run(c, err);
    if (st != RLX_OK)
        rx_context_distrust_session(c);
    return st;
}

static rlx_status start_run(rlx_context *c, bool goes_on, bool whole, rlx_error *err)
{
    /* This run overwrites the logits of earlier ones. */
    for (size_t i = 0; i < c->n_sequences; i++) {
        const rx_sequence *s = &c->sequences[i];
        if (s->in_step && s->has_logits && s->row != RX_ROW_KEPT)
            RLX_TRY(rx_context_keep_logits(c, err));
    }
    goes_on = goes_on && can_run_ahead(c);
    RLX_TRY(start_planned(c, whole && !goes_on, err));
    if (goes_on && c->run.active)
        try_ahead(c);
    return RLX_OK;
}

/* Reads the tokens of a completed run. */
static rlx_status read_results(rlx_context *c, rlx_error *err)
{
    const rlx_tensor out = {"token", c->results, c->run.n_members * sizeof *c->results};
    if (c->ahead.active)
        return rlx_session_read_run(c->session, c->run.ticket, &out, err);
    return rlx_session_read(c->session, out.name, 0, out.data, out.bytes, err);
}

static rlx_status wait_run(rlx_context *c, int64_t timeout_ms, rlx_error *err)
{
    rlx_status st = wait_parts(c, timeout_ms, err);
    if (st == RLX_TIMEOUT)
        return st;
    rlx_error why = {0};
    if (st == RLX_OK && c->run.samples) {
        st = read_results(c, &why);
        if (st == RLX_UNSUPPORTED && c->ahead.active) { /* results overwritten: repeat the run */
            c->run.active = c->ahead.active = false;
            c->n_steady = 0;
            c->misses++;
            return RLX_OK;
        }
        if (st != RLX_OK)
            rx_fail(err, st, "%s", why.text);
    }
    if (st == RLX_OK)
        take_results(c);
    else
        rx_context_distrust_session(c);
    return st;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

/* First random block of host sampling; the device uses row numbers, grammars 2^32 and up. */
#define HOST_BLOCKS ((uint64_t)1 << 40)

/* Redraws the step's tokens by samplers that the graph does not have. */
static rlx_status draw_on_host(rlx_context *c, rlx_error *err)
{
    const size_t row = c->vocabulary * sizeof(float);
    for (size_t i = 0; i < c->n_sequences; i++) {
        rx_sequence *s = &c->sequences[i];
        const rx_sampling *how = &c->samplings[s->sampling];
        if (!how->sampler || !s->in_step || s->sampled < 0)
            continue;
        float *logits = rx_sampler_logits(how->sampler);
        if (s->row == RX_ROW_LOST)
            RLX_TRY(rx_context_compute_again(c, i, err));
        if (s->row == RX_ROW_KEPT)
            memcpy(logits, c->kept_logits + i * c->vocabulary, row);
        else
            RLX_TRY(rlx_session_read(c->session, "logits", s->row * row, logits, row, err));
        rx_draw_penalise(&how->options, s->tokens, s->n, logits);
        s->sampled = rx_sampler_draw(how->sampler, &s->sampler, HOST_BLOCKS + i + how->n_steps *
                                     c->n_sequences, logits, NULL, s->tokens, s->n);
    }
    return RLX_OK;
}

static void add_sampled(rlx_context *c, int32_t *tokens)
{
    bool shared = false; /* the sampling of the context was used */
    for (size_t i = 0; i < c->n_sequences; i++) {
        rx_sequence *s = &c->sequences[i];
        int32_t token = s->in_step ? s->sampled : -1;
        if (tokens)
            tokens[i] = token;
        if (token < 0)
            continue;
        s->tokens[s->n++] = token;
        s->sampled = -1;
        shared = shared || !s->sampling;
        c->samplings[s->sampling].n_steps += s->sampling > 0;
    }
    c->samplings[0].n_steps += shared;
}

rlx_status rx_context_step(rlx_context *c, size_t only, bool goes_on, int64_t timeout_ms,
                           int32_t *tokens, rlx_error *err)
{
    int64_t deadline = rx_deadline(timeout_ms);
    if (c->stepping && c->only != only)
        RLX_TRY(rx_context_settle(c, err));
    rlx_status st = c->stepping ? RLX_OK : begin_step(c, only, err);
    bool more = st == RLX_OK;
    while (more) {
        if (c->run.active)
            st = wait_run(c, rx_ms_left(deadline), err);
        if ((st == RLX_OK || st == RLX_TIMEOUT) && atomic_exchange(&c->cancelled, false))
            st = rx_fail(err, RLX_CANCELLED, "the step was cancelled");
        if (st == RLX_TIMEOUT)
            return st;
        more = st == RLX_OK && plan_run(c);
        if (more)
            st = start_run(c, goes_on, deadline < 0, err);
        more = more && st == RLX_OK;
    }
    if (st == RLX_OK)
        st = draw_on_host(c, err);
    if (st == RLX_OK)
        add_sampled(c, tokens);
    if (!c->run.active)
        end_step(c);
    return st;
}

rlx_status rlx_context_step(rlx_context *c, int64_t timeout_ms, int32_t *tokens, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_step: c", err));
    return rx_context_step(c, SIZE_MAX, false, timeout_ms, tokens, err);
}

rlx_status rx_context_compute_again(rlx_context *c, size_t seq, rlx_error *err)
{
    rx_sequence *s = &c->sequences[seq];
    const int32_t sampled = s->sampled;
    c->ahead.active = false;
    c->members[0] = seq;
    c->run = (rx_context_run){.n_members = 1, .n_tokens = 1, .samples = true,
                              .sampling = &c->samplings[s->sampling]};
    s->computed--;
    s->has_logits = false;
    fill_tokens(c, 0);
    rlx_status st = bind_run(c, err);
    if (st == RLX_OK)
        st = run_whole(c, err);
    if (st != RLX_OK)
        rx_context_distrust_session(c);
    s->sampled = sampled;
    return st;
}

rlx_status rx_context_settle(rlx_context *c, rlx_error *err)
{
    rlx_status st = c->run.active ? wait_run(c, -1, err) : RLX_OK;
    c->ahead.active = false;
    end_step(c);
    return st;
}
