/* SPDX-License-Identifier: MIT */
/* One step: the planned rows as inputs of the graph, sizes rounded up to powers of two so that
 * recordings are reused, the run, and its results for each request. */
#include <string.h>

#include "engine/engine.h"

static const char *const size_names[RX_N_SIZES] = {"rows", "outputs", "adjust", "masked", "ranked",
                                                   "adapted", "adapted_outputs"};

/* ---- Memory ---------------------------------------------------------------------------------- */

rlx_status rx_inputs_create(rlx_engine *e, rlx_error *err)
{
    rx_arena *a = &e->arena;
    rx_step_inputs *in = &e->in;
    const rx_build_desc *b = &e->build;
    const size_t n = e->max_rows, m = (size_t)b->outputs, i32 = sizeof(int32_t);
    const size_t table = (size_t)(b->sequences * ((b->context + b->page - 1) / b->page));
    int32_t **rows[] = {&in->tokens, &in->positions, &in->places, &in->sequence, &in->lengths};
    int32_t **outputs[] = {&in->outputs, &in->masked, &in->ranked, &in->targets, &e->results};
    bool ok = true;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        ok = (*rows[i] = rx_arena_array_zero(a, n, i32)) && ok;
    for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++)
        ok = (*outputs[i] = rx_arena_array_zero(a, m, i32)) && ok;
    ok = (in->pages = rx_arena_array_zero(a, table, i32)) && ok;
    ok = (in->adjust = rx_arena_array_zero(a, m * RX_ADJUST, i32)) && ok;
    ok = (in->factor = rx_arena_array_zero(a, m * RX_ADJUST, sizeof(float))) && ok;
    ok = (in->add = rx_arena_array_zero(a, m * RX_ADJUST, sizeof(float))) && ok;
    ok = (in->bits = rx_arena_array_zero(a, m * e->words, i32)) && ok;
    ok = (e->row = rx_arena_array_zero(a, m, sizeof *e->row)) && ok;
    ok = (e->best_ids = rx_arena_array_zero(a, m * RLX_MAX_BEST, i32)) && ok;
    ok = (e->best = rx_arena_array_zero(a, m * RLX_MAX_BEST, sizeof(float))) && ok;
    ok = (e->chosen = rx_arena_array_zero(a, m, sizeof(float))) && ok;
    ok = (e->lse = rx_arena_array_zero(a, m, sizeof(float))) && ok;
    ok = (in->sampling = rx_arena_array_zero(a, m, 4 * sizeof(float))) && ok;
    ok = (in->seed = rx_arena_array_zero(a, m, sizeof *in->seed)) && ok;
    ok = (e->seen = rx_arena_array_zero(a, e->vocabulary, sizeof *e->seen)) && ok;
    if (e->model->host_layers)
        ok = (e->hidden = rx_arena_array(a, n * (size_t)e->model->known.width,
                                         sizeof *e->hidden)) && ok;
    for (size_t i = 0; i < 2 && e->lora.n; i++) {
        rx_adapted_rows *r = &in->adapted[i];
        ok = (r->rows = rx_arena_array_zero(a, i ? m : n, i32)) && ok;
        ok = (r->ids = rx_arena_array_zero(a, i ? m : n, i32)) && ok;
        ok = (r->scale = rx_arena_array_zero(a, i ? m : n, sizeof(float))) && ok;
    }
    return ok ? RLX_OK : rx_fail_memory(err, "the inputs of an engine", m * RX_ADJUST * 12);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Row i of all (or of the outputs) is one of a request. */
static void add_adapted(rlx_engine *e, const rlx_request *r, bool is_output, size_t i)
{
    rx_adapted_rows *to = &e->in.adapted[is_output];
    if (r->adapter < 0)
        return;
    const size_t k = e->in.n[is_output ? RX_ADAPTED_OUTPUTS : RX_ADAPTED]++;
    to->rows[k] = (int32_t)i;
    to->ids[k] = r->adapter;
    to->scale[k] = r->adapter_scale;
}

size_t rx_inputs_add_row(rlx_engine *e, const rlx_request *r, size_t at)
{
    rx_step_inputs *in = &e->in;
    const size_t i = in->n[RX_ROWS]++, page = (size_t)e->build.page;
    in->tokens[i] = r->tokens[at];
    in->positions[i] = (int32_t)at;
    in->places[i] = (int32_t)((size_t)r->table.page[at / page] * page + at % page);
    in->sequence[i] = (int32_t)r->slot;
    in->lengths[i] = (int32_t)at + 1;
    return i;
}

static void add_row(rlx_engine *e, rlx_request *r, size_t at)
{
    rx_step_inputs *in = &e->in;
    const size_t i = rx_inputs_add_row(e, r, at);
    add_adapted(e, r, false, i);
    const bool samples = at + 1 >= r->n;
    if (!samples && (!r->log_probs || at + 1 < r->n_given))
        return;
    const size_t m = in->n[RX_OUTPUTS]++;
    in->outputs[m] = (int32_t)i;
    e->row[m] = (rx_output_row){r, at, samples, r->log_probs};
    if (at + 1 == r->n)
        r->first_output = m;
    add_adapted(e, r, true, m);
    if (!r->log_probs)
        return;
    const size_t k = in->n[RX_RANKED]++;
    in->ranked[k] = (int32_t)m;
    in->targets[k] = samples ? -1 : r->tokens[at + 1];
}

void rx_inputs_add_pages(rlx_engine *e, const rlx_request *r)
{
    const size_t width = (size_t)((e->build.context + e->build.page - 1) / e->build.page);
    memcpy(e->in.pages + r->slot * width, r->table.page, r->table.n * sizeof *r->table.page);
}

static void add_request(rlx_engine *e, rlx_request *r)
{
    if (!r->n_rows)
        return;
    rx_inputs_add_pages(e, r);
    for (size_t i = 0; i < r->n_rows; i++)
        add_row(e, r, r->computed + i);
}

static size_t power_from(size_t n)
{
    size_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* ---- Penalties and bias ---------------------------------------------------------------------- */

/* The adjusted tokens of one output row. */
typedef struct adjustment {
    int32_t *ids;
    float *factor, *add;
    uint32_t count[RX_ADJUST]; /* how often it was generated */
    size_t n;
} adjustment;

/* The entry of a token, added if missing; RX_ADJUST: no room. */
static size_t entry_of(rlx_engine *e, adjustment *a, int32_t token)
{
    if (e->seen[token])
        return e->seen[token] - 1;
    if (a->n == RX_ADJUST)
        return RX_ADJUST;
    a->ids[a->n] = token;
    a->factor[a->n] = 1;
    a->add[a->n] = 0;
    a->count[a->n] = 0;
    e->seen[token] = (uint32_t)++a->n;
    return a->n - 1;
}

/* For the token after the first n. */
static void adjust_row(rlx_engine *e, const rlx_request *r, size_t n, adjustment *a)
{
    const rlx_sampling_desc *s = &r->sampling;
    const bool repeats = s->repeat_penalty > 0 && s->repeat_penalty != 1;
    const bool counts = r->presence != 0 || r->frequency != 0;
    for (size_t i = 0; i < r->n_bias; i++)
        a->add[entry_of(e, a, r->bias[i].token)] += r->bias[i].add;
    for (size_t i = n; repeats && i-- > 0 && n - i <= (size_t)s->repeat_last;) {
        const size_t k = entry_of(e, a, r->tokens[i]);
        if (k < RX_ADJUST)
            a->factor[k] = (float)s->repeat_penalty;
    }
    for (size_t i = n; counts && i-- > r->n_prompt;) {
        const size_t k = entry_of(e, a, r->tokens[i]);
        if (k < RX_ADJUST)
            a->count[k]++;
    }
    for (size_t k = 0; k < a->n; k++) {
        if (a->count[k])
            a->add[k] -= (float)(r->presence + r->frequency * a->count[k]);
        e->seen[a->ids[k]] = 0;
    }
}

/* Pads a row to n entries: an entry is repeated; without one token 0 gets a neutral entry. */
static void pad_row(adjustment *a, size_t n)
{
    if (!a->n && n) {
        a->ids[0] = 0;
        a->factor[0] = 1;
        a->add[0] = 0;
        a->n = 1;
    }
    for (; a->n < n; a->n++) {
        a->ids[a->n] = a->ids[0];
        a->factor[a->n] = a->factor[0];
        a->add[a->n] = a->add[0];
    }
}

/* Fills adjust, factor and add [outputs, A]: rows of RX_ADJUST entries first, for the longest, then
 * rows of that length. */
static void fill_adjusted(rlx_engine *e)
{
    rx_step_inputs *in = &e->in;
    const size_t rows = in->n[RX_OUTPUTS], padded = power_from(rows);
    size_t most = 0;
    adjustment a;
    for (int pass = 0; pass < 2; pass++) {
        const size_t width = pass ? most : RX_ADJUST;
        for (size_t i = 0; i < padded && (!pass || most); i++) {
            a.ids = in->adjust + i * width;
            a.factor = in->factor + i * width;
            a.add = in->add + i * width;
            a.n = 0;
            if (i < rows && e->row[i].samples)
                adjust_row(e, e->row[i].r, e->row[i].at + 1, &a);
            if (pass)
                pad_row(&a, most);
            most = a.n > most ? a.n : most;
        }
        most = most ? power_from(most) : 0;
    }
    in->n[RX_ADJUSTED] = most;
}

/* ---- Sampling -------------------------------------------------------------------------------- */

/* A random number for token i of a request: splitmix64's mixing function. 31 bits, for devices
 * without i64. */
static int64_t token_seed(uint64_t seed, size_t i)
{
    uint64_t z = seed + ((uint64_t)i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (int64_t)((z ^ (z >> 31)) >> 33);
}

static void fill_sampling(rlx_engine *e)
{
    for (size_t i = 0; i < power_from(e->in.n[RX_OUTPUTS]); i++) {
        float *to = e->in.sampling + i * 4;
        memset(to, 0, 4 * sizeof *to);
        e->in.seed[i] = 0;
        if (i >= e->in.n[RX_OUTPUTS])
            continue;
        const rlx_request *r = e->row[i].r;
        const rlx_sampling_desc *s = &r->sampling;
        to[0] = (float)s->temperature;
        to[1] = (float)(s->top_k < 1 << 24 ? s->top_k : 0); /* exact in f32 */
        to[2] = (float)s->top_p;
        to[3] = (float)s->min_p;
        e->in.seed[i] = token_seed(s->seed, e->row[i].at + 1 - r->n_prompt);
    }
}

/* ---- Masks ----------------------------------------------------------------------------------- */

/* The tokens that the grammar of a request allows next. */
static rlx_status make_mask(rlx_request *r, rlx_error *err)
{
    bool any = false;
    RLX_TRY(rlx_grammar_mask(r->grammar, r->mask, r->n_mask, err));
    for (size_t i = 0; i < r->n_mask && i < r->e->words && !any; i++)
        any = r->mask[i] != 0;
    if (any)
        return RLX_OK;
    return rx_fail(err, RLX_UNSUPPORTED, "no token of the vocabulary continues the text under the "
                   "grammar");
}

/* Makes the masks of the step; requests whose mask fails end. */
static void make_masks(rlx_engine *e)
{
    for (size_t i = e->n_running; i-- > 0;) {
        rlx_request *r = e->running[i];
        rlx_error why = {0};
        if (!r->grammar || !r->n_rows || r->computed + r->n_rows < r->n)
            continue;
        const rlx_status st = make_mask(r, &why);
        if (st != RLX_OK)
            rx_end_running(e, r, st, RLX_FINISH_CALLER, &why);
    }
}

static void fill_masks(rlx_engine *e)
{
    rx_step_inputs *in = &e->in;
    size_t n = 0;
    for (size_t i = 0; i < in->n[RX_OUTPUTS]; i++) {
        const rlx_request *r = e->row[i].r;
        if (!e->row[i].samples || !r->grammar)
            continue;
        in->masked[n] = (int32_t)i;
        memcpy(in->bits + n++ * e->words, r->mask, e->words * sizeof *r->mask);
    }
    in->n[RX_MASKED] = n;
    for (; n && n < power_from(in->n[RX_MASKED]); n++) {
        in->masked[n] = in->masked[0];
        memcpy(in->bits + n * e->words, in->bits, e->words * sizeof *in->bits);
    }
}

/* ---- The run --------------------------------------------------------------------------------- */

/* Padding rows have length 0 and write to an unused page. */
static void pad_rows(rlx_engine *e, size_t n)
{
    rx_step_inputs *in = &e->in;
    for (size_t i = in->n[RX_ROWS]; i < n; i++) {
        in->tokens[i] = in->positions[i] = in->sequence[i] = in->lengths[i] = 0;
        in->places[i] = (int32_t)((e->build.pages - 1) * e->build.page);
    }
    for (size_t i = in->n[RX_OUTPUTS]; i < power_from(in->n[RX_OUTPUTS]); i++)
        in->outputs[i] = 0;
    for (size_t i = in->n[RX_RANKED]; i && i < power_from(in->n[RX_RANKED]); i++) {
        in->ranked[i] = in->ranked[0];
        in->targets[i] = in->targets[0];
    }
    for (size_t k = 0; k < 2; k++) {
        rx_adapted_rows *r = &in->adapted[k];
        const size_t used = in->n[k ? RX_ADAPTED_OUTPUTS : RX_ADAPTED];
        for (size_t i = used; i && i < power_from(used); i++) {
            r->rows[i] = r->rows[0];
            r->ids[i] = r->ids[0];
            r->scale[i] = r->scale[0];
        }
    }
}

void rx_inputs_clear(rlx_engine *e)
{
    memset(e->in.n, 0, sizeof e->in.n);
}

void rx_inputs_finish(rlx_engine *e)
{
    fill_sampling(e);
    pad_rows(e, power_from(e->in.n[RX_ROWS]));
}

static void fill_inputs(rlx_engine *e)
{
    rx_inputs_clear(e);
    for (size_t i = 0; i < e->n_running; i++)
        add_request(e, e->running[i]);
    fill_adjusted(e);
    fill_masks(e);
    rx_inputs_finish(e);
    e->now = e->in.n[RX_ADAPTED] ? &e->adapted : &e->plain;
}

static rlx_status bind_sizes(rlx_engine *e, rlx_error *err)
{
    rx_stepper *s = e->now;
    for (size_t i = 0; i < s->n_sizes; i++) {
        size_t n = e->in.n[i] || i < RX_ADJUSTED ? power_from(e->in.n[i]) : 0;
        if (n == s->size[i])
            continue;
        s->size[i] = SIZE_MAX;
        RLX_TRY(rlx_session_bind(s->session, size_names[i], (int64_t)n, err));
        s->size[i] = n;
    }
    return RLX_OK;
}

static rlx_status set_inputs(rlx_engine *e, rlx_error *err)
{
    const rx_step_inputs *in = &e->in;
    const size_t *size = e->now->size, m = size[RX_OUTPUTS], a = m * size[RX_ADJUSTED];
    const size_t width = (size_t)((e->build.context + e->build.page - 1) / e->build.page);
    const struct {
        const char *name;
        const void *data;
        size_t n;
    } list[] = {
        {"tokens", in->tokens, size[RX_ROWS]},     {"positions", in->positions, size[RX_ROWS]},
        {"places", in->places, size[RX_ROWS]},     {"sequence", in->sequence, size[RX_ROWS]},
        {"lengths", in->lengths, size[RX_ROWS]},   {"pages", in->pages, e->sequences * width},
        {"outputs", in->outputs, m},               {"adjust", in->adjust, a},
        {"factor", in->factor, a},                 {"add", in->add, a},
        {"masked", in->masked, size[RX_MASKED]},   {"bits", in->bits, size[RX_MASKED] * e->words},
        {"ranked", in->ranked, size[RX_RANKED]},   {"targets", in->targets, size[RX_RANKED]},
        {"sampling", in->sampling, m * 4},         {"seed", in->seed, m * 2},
        {"adapted", in->adapted[0].rows, size[RX_ADAPTED]},
        {"adapter", in->adapted[0].ids, size[RX_ADAPTED]},
        {"adapter.scale", in->adapted[0].scale, size[RX_ADAPTED]},
        {"adapted.outputs", in->adapted[1].rows, size[RX_ADAPTED_OUTPUTS]},
        {"adapter.outputs", in->adapted[1].ids, size[RX_ADAPTED_OUTPUTS]},
        {"adapter.scale.outputs", in->adapted[1].scale, size[RX_ADAPTED_OUTPUTS]},
    };
    const size_t n_list = sizeof list / sizeof list[0] - (e->now == &e->adapted ? 0 : 6);
    for (size_t i = e->now->front ? 1 : 0; i < n_list; i++)
        RLX_TRY(rlx_session_set_input(e->now->session, list[i].name, list[i].data, list[i].n * 4,
                                      err));
    return RLX_OK;
}

rlx_status rx_inputs_give(rlx_engine *e, rlx_error *err)
{
    RLX_TRY(bind_sizes(e, err));
    return set_inputs(e, err);
}

/* The first layers, where they are on the CPU. */
static rlx_status submit_front(rlx_engine *e, rlx_error *err)
{
    const rx_step_inputs *in = &e->in;
    const size_t width = (size_t)((e->build.context + e->build.page - 1) / e->build.page);
    const size_t n = power_from(in->n[RX_ROWS]), rows = n * sizeof(int32_t);
    const rlx_const_tensor list[] = {
        {"tokens", in->tokens, rows},     {"positions", in->positions, rows},
        {"places", in->places, rows},     {"sequence", in->sequence, rows},
        {"lengths", in->lengths, rows},
        {"pages", in->pages, e->sequences * width * sizeof(int32_t)},
    };
    RLX_TRY(rlx_session_bind(e->now->front, "rows", (int64_t)n, err));
    return rx_front_submit(e->now->front, list, 6, &e->ticket, err);
}

/* They are done: the rest of the step. */
static rlx_status submit_behind(rlx_engine *e, rlx_error *err)
{
    const size_t n = power_from(e->in.n[RX_ROWS]), width = (size_t)e->model->known.width;
    e->in_front = false;
    RLX_TRY(rx_front_read(e->model, e->now->front, n, e->hidden, err));
    RLX_TRY(rx_inputs_give(e, err));
    RLX_TRY(rlx_session_set_input(e->now->session, "hidden", e->hidden,
                                  n * width * sizeof *e->hidden, err));
    return rlx_session_submit(e->now->session, &e->ticket, err);
}

static rlx_status wait_parts(rlx_engine *e, int64_t timeout_ms, rlx_error *err)
{
    const int64_t deadline = rx_deadline(timeout_ms);
    if (e->in_front) {
        RLX_TRY(rlx_session_wait(e->now->front, e->ticket, timeout_ms, err));
        RLX_TRY(submit_behind(e, err));
    }
    return rlx_session_wait(e->now->session, e->ticket, rx_ms_left(deadline), err);
}

rlx_status rx_run_start(rlx_engine *e, rlx_error *err)
{
    make_masks(e);
    fill_inputs(e);
    e->run_ns = rx_now_ns();
    if (!e->in.n[RX_ROWS])
        return RLX_OK;
    if (e->now->front) {
        RLX_TRY(submit_front(e, err));
        e->active = e->in_front = true;
        return RLX_OK;
    }
    RLX_TRY(rx_inputs_give(e, err));
    RLX_TRY(rlx_session_submit(e->now->session, &e->ticket, err));
    e->active = true;
    return RLX_OK;
}

/* ---- Results --------------------------------------------------------------------------------- */

static rlx_status read_results(rlx_engine *e, rlx_error *err)
{
    const size_t m = e->now->size[RX_OUTPUTS], k = e->now->size[RX_RANKED];
    const size_t best = e->vocabulary < RLX_MAX_BEST ? e->vocabulary : RLX_MAX_BEST;
    RLX_TRY(rlx_session_read(e->now->session, "token", 0, e->results, m * 4, err));
    if (!k)
        return RLX_OK;
    RLX_TRY(rlx_session_read(e->now->session, "chosen", 0, e->chosen, k * 4, err));
    RLX_TRY(rlx_session_read(e->now->session, "lse", 0, e->lse, k * 4, err));
    RLX_TRY(rlx_session_read(e->now->session, "best", 0, e->best, k * best * 4, err));
    return rlx_session_read(e->now->session, "best_ids", 0, e->best_ids, k * best * 4, err);
}

/* Log-probabilities of the k-th row that is ranked. */
static void take_probs(const rlx_engine *e, size_t k, size_t n_best, rx_probs *p)
{
    const size_t most = e->vocabulary < RLX_MAX_BEST ? e->vocabulary : RLX_MAX_BEST;
    p->log_prob = e->chosen[k] - e->lse[k];
    for (size_t i = 0; i < n_best; i++)
        p->best[i] = (rlx_token_prob){e->best_ids[k * most + i], e->best[k * most + i] - e->lse[k]};
}

/* The token of output row m, drawn on the host: `adjusted` has penalties, bias and mask. Its
 * log-probability is that of the token too, not of the one that the graph drew. */
static rlx_status draw_on_host(rlx_engine *e, size_t m, size_t k, rlx_error *err)
{
    rlx_request *r = e->row[m].r;
    rlx_session *s = e->now->session;
    const size_t row = e->vocabulary * sizeof(float);
    float *logits = rx_sampler_logits(r->sampler);
    RLX_TRY(rlx_session_read(s, "adjusted", m * row, logits, row, err));
    e->results[m] = rx_sampler_draw(r->sampler, &r->sampled, r->n - r->n_prompt, logits,
                                    r->grammar ? r->mask : NULL, r->tokens, r->n);
    if (!r->log_probs)
        return RLX_OK;
    return rlx_session_read(s, "logits", m * row + (size_t)e->results[m] * sizeof(float),
                            &e->chosen[k], sizeof(float), err);
}

/* Tokens of a request from output row m: a known one, delivered with its probability, or a new one
 * with those it forces. */
static rlx_status take_row(rlx_engine *e, size_t m, size_t k, bool *ended, rlx_finish *finish,
                           rlx_error *err)
{
    rlx_request *r = e->row[m].r;
    rx_probs probs;
    *ended = false;
    if (e->row[m].samples && r->sampler)
        RLX_TRY(draw_on_host(e, m, k, err));
    if (e->row[m].samples)
        RLX_TRY(rx_tokens_add(r, e->results[m], err));
    if (r->log_probs) {
        take_probs(e, k, r->n_best, &probs);
        return rx_tokens_give(r, &probs, ended, finish, err);
    }
    while (r->n_given < r->n && !*ended)
        RLX_TRY(rx_tokens_give(r, NULL, ended, finish, err));
    return RLX_OK;
}

static void learn_pages(rlx_engine *e)
{
    for (size_t i = 0; i < e->n_running; i++) {
        rlx_request *r = e->running[i];
        r->computed += r->n_rows;
        if (e->shares)
            rx_pages_learn(e->pages, &r->table, r->tokens, r->computed);
    }
}

/* Delivers the results; requests that end or fail leave the running list. */
static void take_results(rlx_engine *e)
{
    const rlx_request *over = NULL; /* may be freed: only compared */
    size_t k = 0;
    rx_guess_settle(e);
    learn_pages(e);
    for (size_t m = 0; m < e->in.n[RX_OUTPUTS]; m++) {
        rlx_request *r = e->row[m].r;
        rlx_finish finish = RLX_FINISH_CALLER;
        rlx_error why = {0};
        bool ended = false;
        const size_t rank = k;
        k += e->row[m].ranked;
        if (r == over || e->row[m].at >= r->computed) /* computed: after a wrong guess */
            continue;
        rlx_status st = take_row(e, m, rank, &ended, &finish, &why);
        if (st == RLX_OK && ended)
            st = rx_tokens_flush(r, &finish, &why);
        if (st == RLX_OK && !ended)
            continue;
        over = r;
        rx_end_running(e, r, st, finish, &why);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

#define OLD_SHARE 0.8 /* weight of the old average when a new measurement is added */

static void average(double *to, double value)
{
    *to = *to > 0 ? *to * OLD_SHARE + value * (1 - OLD_SHARE) : value;
}

/* Measures the cost of steps; the first one of a size also compiles and packs and is ignored. */
static void measure(rlx_engine *e)
{
    const double seconds = (double)(rx_now_ns() - e->run_ns) * 1e-9;
    unsigned power = 0;
    while (((size_t)1 << power) < e->now->size[RX_ROWS])
        power++;
    const bool is_first = !(e->now->known_sizes & 1u << power);
    e->now->known_sizes |= 1u << power;
    if (is_first)
        return;
    if (!e->n_prompt_rows) {
        average(&e->decode_seconds, seconds);
        average(&e->decode_steps[power], seconds);
        return;
    }
    const double rest = seconds - e->decode_seconds, least = seconds * 0.1;
    average(&e->row_seconds, (rest > least ? rest : least) / (double)e->n_prompt_rows);
}

rlx_status rx_run_finish(rlx_engine *e, int64_t timeout_ms, rlx_error *err)
{
    if (!e->active)
        return RLX_OK;
    RLX_TRY(wait_parts(e, timeout_ms, err));
    e->active = false;
    RLX_TRY(read_results(e, err));
    measure(e);
    if (e->model->weights_in_file && e->info.steps < 2)
        rx_model_release_pages(e->model);
    take_results(e);
    return RLX_OK;
}
