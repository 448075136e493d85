/* SPDX-License-Identifier: MIT */
/* Text generation: tokenizes the prompt, steps the context and gives the text of the tokens. */
#include <string.h>

#include "base/sized.h"
#include "model/constrain.h"
#include "model/output.h"

struct rlx_generation {
    rlx_context *c;
    size_t sequence;
    int64_t max_tokens;
    bool ignore_end, shift, prompt_only;
    bool done;              /* the last token was taken */
    bool flushed;           /* the text that was left was given */
    rx_text_output output;
    int32_t *scratch;       /* tokens of a shift, [context] */
    rx_constraint *constraint; /* NULL: none */
    rlx_generate_result result;
    int64_t begin_ns, first_ns, last_ns;
};

/* ---- Beginning ------------------------------------------------------------------------------- */

/* Whether the text already starts with BOS, as templates often write it. */
static bool has_begin(const rlx_tokenizer *t, const char *text)
{
    int32_t id = rlx_tokenizer_special(t, RLX_SPECIAL_BOS);
    size_t n = 0;
    const char *begin = id >= 0 ? rlx_token_text(t, id, &n) : NULL;
    return begin && n && !strncmp(text, begin, n);
}

rlx_status rx_encode_prompt(const rlx_tokenizer *t, const char *text, bool special, int32_t **ids,
                            size_t *n, rlx_error *err)
{
    size_t length = strlen(text);
    rlx_token_list list = {.cap = length + 8};
    unsigned flags = special ? RLX_ENCODE_PARSE_SPECIAL : 0;
    bool adds = !special || !has_begin(t, text);
    rlx_status st = RLX_OK;
    *ids = NULL;
    do {
        list.cap = list.n > list.cap ? list.n : list.cap;
        int32_t *more = rx_realloc_array(list.ids, list.cap, sizeof *list.ids);
        if (!more) {
            st = rx_fail_memory(err, "the tokens of a text", list.cap * sizeof *list.ids);
            break;
        }
        list.ids = more;
        st = rlx_tokenizer_encode(t, text, length, flags | (adds ? RLX_ENCODE_ADD_SPECIAL : 0u),
                                  &list, err);
    } while (st == RLX_OK && list.n > list.cap);
    if (st != RLX_OK) {
        rx_free(list.ids);
        return st;
    }
    /* Removes EOS: the text will be continued. */
    if (adds && rlx_tokenizer_adds_end(t) && list.n)
        list.n--;
    *ids = list.ids;
    *n = list.n;
    return RLX_OK;
}

static rlx_status set_prompt(rlx_generation *n, const int32_t *ids, size_t n_ids, rlx_error *err)
{
    if (!n_ids)
        return rx_fail(err, RLX_INVALID, "the prompt has no tokens: the model needs at least one");
    if (n_ids >= n->c->context)
        return rx_fail(err, RLX_INVALID, "the prompt has %zu tokens: the context holds %zu and "
                       "needs room for at least one more (rlx_model_desc.context)", n_ids,
                       n->c->context);
    RLX_TRY(rlx_context_set_tokens(n->c, n->sequence, ids, n_ids, err));
    n->result.n_prompt = n_ids;
    n->result.n_reused = rlx_context_computed(n->c, n->sequence);
    return RLX_OK;
}

static rlx_status encode_prompt(rlx_generation *n, const rlx_generate_desc *d, rlx_error *err)
{
    const rlx_tokenizer *t = n->c->model->tokenizer;
    int32_t *ids;
    size_t n_ids;
    if (!d->prompt)
        return set_prompt(n, d->tokens, d->n_tokens, err);
    if (!t)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer: give tokens instead of text, "
                       "or a tokenizer.json (rlx_model_desc.tokenizer)", n->c->model->path);
    RLX_TRY(rx_encode_prompt(t, d->prompt, !d->plain, &ids, &n_ids, err));
    rlx_status st = set_prompt(n, ids, n_ids, err);
    rx_free(ids);
    return st;
}

static rlx_status begin(rlx_generation *n, const rlx_generate_desc *d, rlx_error *err)
{
    rlx_context *c = n->c;
    RLX_TRY(rx_check_sequence(c, d->sequence, err));
    if (d->max_tokens < 0)
        return rx_fail(err, RLX_INVALID, "max_tokens is %lld; expected 0 or more",
                       (long long)d->max_tokens);
    RLX_TRY(rx_context_set_sampling(c, d->sequence, d->sampling, err));
    RLX_TRY(rx_text_output_init(&n->output, c->model->tokenizer, d->stop, d->n_stop, err));
    if (d->shift) {
        n->scratch = rx_alloc_array(c->context, sizeof *n->scratch);
        if (!n->scratch)
            return rx_fail_memory(err, "the tokens of a shift", c->context * sizeof *n->scratch);
    }
    if (d->grammar && !d->prompt_only)
        RLX_TRY(rx_constraint_create(c, d->sequence, d->grammar, &n->constraint, err));
    return encode_prompt(n, d, err);
}

rlx_status rlx_generation_create(rlx_context *c, const rlx_generate_desc *d, rlx_generation **out,
                                rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_generation_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(c, "rlx_generation_create: c", err));
    RLX_TRY(rx_need(d, "rlx_generation_create: d", err));
    rlx_generate_desc full;
    RLX_TRY(RX_DESC_READ(rlx_generate_desc, &full, d, err));
    rlx_generation *n = rx_alloc_zero(sizeof *n);
    if (!n)
        return rx_fail_memory(err, "the generation", sizeof *n);
    n->c = c;
    n->sequence = full.sequence;
    n->max_tokens = full.max_tokens;
    n->ignore_end = full.ignore_end;
    n->shift = full.shift;
    n->prompt_only = full.prompt_only;
    n->begin_ns = rx_now_ns();
    rlx_status st = begin(n, &full, err);
    if (st == RLX_OK)
        *out = n;
    else
        rlx_generation_destroy(n);
    return st;
}

/* ---- Text and stop strings ------------------------------------------------------------------- */

/* Returns text that is complete and cannot be part of a stop string. */
static rlx_status give_text(rlx_generation *n, int32_t token, rlx_piece *piece, rlx_error *err)
{
    rx_output_text t;
    RLX_TRY(rx_text_output_push(&n->output, token, &t, err));
    if (t.stopped) {
        n->result.finish = RLX_FINISH_STOP;
        n->done = n->flushed = true;
    }
    *piece = (rlx_piece){token, t.text, t.length};
    return RLX_OK;
}

/* Returns the held-back text at the end; false when there is none. */
static bool flush_text(rlx_generation *n, rlx_piece *piece, rlx_status *st, rlx_error *err)
{
    rx_output_text t;
    n->flushed = true;
    *st = rx_text_output_flush(&n->output, &t, err);
    if (*st != RLX_OK)
        return false;
    if (t.stopped)
        n->result.finish = RLX_FINISH_STOP;
    *piece = (rlx_piece){-1, t.text, t.length};
    return t.length > 0;
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* Context shift: keeps the first token (BOS) and the newer half. */
static rlx_status shift_context(rlx_generation *n, rlx_error *err)
{
    size_t held, half = n->c->context / 2;
    const int32_t *tokens = rlx_context_tokens(n->c, n->sequence, &held);
    n->scratch[0] = tokens[0];
    memcpy(n->scratch + 1, tokens + held - half, half * sizeof *tokens);
    return rlx_context_set_tokens(n->c, n->sequence, n->scratch, half + 1, err);
}

/* Whether another token will follow the next one, as far as known before sampling it: a grammar may
 * replace the sampled token. */
static bool goes_on(const rlx_generation *n)
{
    if (n->prompt_only || n->constraint)
        return false;
    return !n->max_tokens || n->result.n_generated + 1 < (size_t)n->max_tokens;
}

/* Whether the token that was just sampled is the last. */
static bool is_last(rlx_generation *n, int32_t token, size_t held)
{
    if (!n->ignore_end && n->c->model->tokenizer &&
        rlx_tokenizer_is_end(n->c->model->tokenizer, token)) {
        n->result.finish = RLX_FINISH_END;
        return true;
    }
    n->result.n_generated++;
    if (n->constraint && rx_constraint_is_over(n->constraint))
        n->result.finish = RLX_FINISH_END;
    else if (n->max_tokens && n->result.n_generated == (size_t)n->max_tokens)
        n->result.finish = RLX_FINISH_LENGTH;
    else if (held == n->c->context && !n->shift)
        n->result.finish = RLX_FINISH_CONTEXT;
    else
        return false;
    return true;
}

/* Ends after the prompt: drops the token sampled after it. */
static void end_prompt(rlx_generation *n)
{
    rx_sequence *s = &n->c->sequences[n->sequence];
    s->n--;
    s->sampled = -1;
    n->done = true;
    n->result.finish = RLX_FINISH_LENGTH;
}

static void take_time(rlx_generation *n)
{
    n->last_ns = rx_now_ns();
    if (!n->first_ns)
        n->first_ns = n->last_ns;
}

/* Adds a token to the sequence: one that the grammar forces, or that of a step. */
static rlx_status add_token(rlx_generation *n, int64_t timeout_ms, rlx_error *err)
{
    int32_t forced = -1;
    if (n->constraint)
        RLX_TRY(rx_constraint_forced(n->constraint, &forced, err));
    if (forced >= 0)
        return rlx_context_append(n->c, n->sequence, &forced, 1, err);
    RLX_TRY(rx_context_step(n->c, n->sequence, goes_on(n), timeout_ms, NULL, err));
    take_time(n);
    return n->constraint ? rx_constraint_take(n->constraint, err) : RLX_OK;
}

static rlx_status next_token(rlx_generation *n, int64_t timeout_ms, rlx_piece *piece,
                             rlx_error *err)
{
    rlx_context *c = n->c;
    const rx_sequence *s = &c->sequences[n->sequence];
    if (s->n == c->context)
        RLX_TRY(shift_context(n, err));
    RLX_TRY(add_token(n, timeout_ms, err));
    if (n->prompt_only) {
        end_prompt(n);
        return RLX_OK;
    }
    int32_t token = s->tokens[s->n - 1];
    size_t before = n->result.n_generated;
    n->done = is_last(n, token, s->n);
    if (n->result.n_generated == before)
        return RLX_OK; /* an end token is no piece */
    return give_text(n, token, piece, err);
}

rlx_status rlx_generation_next(rlx_generation *n, int64_t timeout_ms, rlx_piece *piece, bool *more,
                               rlx_error *err)
{
    RLX_TRY(rx_need(n, "rlx_generation_next: n", err));
    RLX_TRY(rx_need(piece, "rlx_generation_next: piece", err));
    RLX_TRY(rx_need(more, "rlx_generation_next: more", err));
    rlx_status st = RLX_OK;
    *piece = (rlx_piece){-1, "", 0};
    *more = false;
    if (!n->done) {
        size_t before = n->result.n_generated;
        st = next_token(n, timeout_ms, piece, err);
        *more = st == RLX_OK && n->result.n_generated > before;
        if (*more || st != RLX_OK)
            return st;
    }
    if (!n->flushed)
        *more = flush_text(n, piece, &st, err);
    return st;
}

rlx_status rlx_generation_get_result(const rlx_generation *n, rlx_generate_result *result,
                                     rlx_error *err)
{
    RLX_TRY(rx_need(n, "rlx_generation_get_result: n", err));
    rlx_generate_result r = n->result;
    if (n->first_ns) {
        r.prompt_seconds = (double)(n->first_ns - n->begin_ns) * 1e-9;
        r.seconds = (double)(n->last_ns - n->first_ns) * 1e-9;
    }
    return RX_INFO_WRITE(rlx_generate_result, result, &r, err);
}

void rlx_generation_destroy(rlx_generation *n)
{
    if (!n)
        return;
    rx_free(n->scratch);
    rx_constraint_destroy(n->constraint);
    rx_text_output_finish(&n->output);
    rx_free(n);
}

rlx_status rlx_generate(rlx_context *c, const rlx_generate_desc *d, rlx_piece_fn *fn, void *user,
                        rlx_generate_result *result, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_generate: c", err));
    rlx_generation *n;
    rlx_piece piece;
    bool more = true;
    if (result)
        RLX_TRY(RX_INFO_WRITE(rlx_generate_result, result, &(rlx_generate_result){0}, err));
    RLX_TRY(rlx_generation_create(c, d, &n, err));
    rlx_status st = RLX_OK;
    while (more && st == RLX_OK) {
        st = rlx_generation_next(n, -1, &piece, &more, err);
        if (st == RLX_OK && more && fn && fn(user, &piece)) {
            n->result.finish = RLX_FINISH_CALLER;
            more = false;
        }
    }
    if (result)
        rlx_generation_get_result(n, result, NULL);
    rlx_generation_destroy(n);
    return st;
}
