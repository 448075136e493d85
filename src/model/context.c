/* SPDX-License-Identifier: MIT */
/* Contexts: sequences of tokens, their cached prefixes, sampling parameters. */
#include <string.h>

#include "base/sized.h"
#include "model/adapter.h"
#include "model/draw.h"
#include "model/model.h"

#define DEFAULT_REPEAT_LAST 64

/* ---- Creation -------------------------------------------------------------------------------- */

static bool alloc_arrays(rlx_context *c)
{
    rx_arena *a = &c->arena;
    size_t n = c->n_sequences, rows = c->prompt_chunk > n ? c->prompt_chunk : n;
    c->sequences = rx_arena_array_zero(a, n, sizeof *c->sequences);
    c->samplings = rx_arena_array_zero(a, n + 1, sizeof *c->samplings);
    c->members = rx_arena_array_zero(a, n, sizeof *c->members);
    c->tokens = rx_arena_array_zero(a, rows, sizeof *c->tokens);
    c->positions = rx_arena_array_zero(a, rows, sizeof *c->positions);
    c->places = rx_arena_array_zero(a, rows, sizeof *c->places);
    c->lengths = rx_arena_array_zero(a, n, sizeof *c->lengths);
    c->slots = rx_arena_array_zero(a, n, sizeof *c->slots);
    c->results = rx_arena_array_zero(a, n, sizeof *c->results);
    c->recent = rx_arena_array(a, n * RX_RECENT, sizeof *c->recent);
    if (!c->sequences || !c->samplings || !c->members || !c->tokens || !c->positions ||
        !c->places || !c->lengths || !c->slots || !c->results || !c->recent)
        return false;
    for (size_t i = 0; i < n; i++) {
        c->sequences[i].sampled = -1;
        c->sequences[i].tokens = rx_arena_array(a, c->context, sizeof(int32_t));
        if (!c->sequences[i].tokens)
            return false;
    }
    return true;
}

static void free_lora(rx_lora *l)
{
    rx_free((void *)(uintptr_t)l->adapters);
    rx_free((void *)(uintptr_t)l->scales);
    *l = (rx_lora){0};
}

static void return_parts(rlx_context *c)
{
    rx_parts parts = {c->front, c->session};
    if (c->session)
        rx_model_return(c->model, &parts);
    c->front = c->session = NULL;
}

/* Takes ownership of the sessions. */
static rlx_status take_parts(rlx_context *c, const rx_parts *parts, rlx_error *err)
{
    const size_t n = c->n_sequences, rows = c->prompt_chunk > n ? c->prompt_chunk : n;
    return_parts(c);
    c->front = parts->front;
    c->session = parts->session;
    if (!c->front || c->hidden)
        return RLX_OK;
    c->hidden = rx_arena_array(&c->arena, rows * (size_t)c->model->known.width, sizeof(float));
    return c->hidden ? RLX_OK : rx_fail_memory(err, "the hidden states of a context", rows * 4);
}

rlx_status rlx_context_create(rlx_model *m, rlx_context **out, rlx_error *err)
{
    RLX_TRY(rx_need(out, "rlx_context_create: out", err));
    *out = NULL;
    RLX_TRY(rx_need(m, "rlx_context_create: m", err));
    if (!m->known.is_decoder)
        return rx_fail(err, RLX_INVALID, "'%.200s' is an encoder (%s): it gives embeddings and "
                       "cannot hold a context", m->path, m->known.architecture);
    rlx_context *c = rx_alloc_zero(sizeof *c);
    if (!c)
        return rx_fail_memory(err, "the context", sizeof *c);
    c->model = m;
    c->n_sequences = (size_t)m->build.sequences;
    c->context = (size_t)m->build.context;
    c->prompt_chunk = (size_t)m->build.prompt_chunk;
    c->vocabulary = (size_t)m->known.vocabulary;
    c->bound_recent = SIZE_MAX;
    atomic_init(&c->cancelled, false);
    rlx_status st = alloc_arrays(c) ? RLX_OK
                                    : rx_fail_memory(err, "the sequences of the context",
                                                     c->n_sequences * c->context * 4);
    if (st == RLX_OK)
        st = rlx_context_set_sampling(c, NULL, err);
    rx_parts parts = {0};
    if (st == RLX_OK)
        st = rx_model_lend(m, &parts, err);
    if (st == RLX_OK)
        st = take_parts(c, &parts, err);
    if (st == RLX_OK)
        *out = c;
    else
        rlx_context_destroy(c);
    return st;
}

void rlx_context_destroy(rlx_context *c)
{
    if (!c)
        return;
    return_parts(c);
    free_lora(&c->lora);
    for (size_t i = 0; c->samplings && i <= c->n_sequences; i++)
        rx_sampler_destroy(c->samplings[i].sampler);
    rx_free(c->kept_logits);
    rx_arena_finish(&c->arena);
    rx_free(c);
}

/* ---- Adapters -------------------------------------------------------------------------------- */

static rlx_status copy_uses(const rlx_model *m, const rlx_adapter_use *uses, size_t n, rx_lora *l,
                            rlx_error *err)
{
    const rlx_adapter **adapters = rx_alloc_array(n, sizeof *adapters);
    double *scales = rx_alloc_array(n, sizeof *scales);
    *l = (rx_lora){adapters, scales, n, false};
    if (!adapters || !scales)
        return rx_fail_memory(err, "the adapters of a context", n * sizeof *uses);
    for (size_t i = 0; i < n; i++) {
        RLX_TRY(rx_check_adapter(m, uses[i].adapter, uses[i].scale, err));
        adapters[i] = uses[i].adapter;
        scales[i] = uses[i].scale;
    }
    return RLX_OK;
}

/* Sessions for a set of adapters, or the model's own for none. */
static rlx_status adapted_parts(rlx_model *m, const rx_lora *l, rx_parts *out, rlx_error *err)
{
    rx_build_desc build = m->build;
    if (!l->n)
        return rx_model_lend(m, out, err);
    build.lora = l;
    return rx_model_make_parts(m, &build, out, err);
}

rlx_status rlx_context_set_adapters(rlx_context *c, const rlx_adapter_use *uses, size_t n,
                                    rlx_error *err)
{
    rx_lora l = {0};
    rx_parts parts = {0};
    RLX_TRY(rx_need(c, "rlx_context_set_adapters: c", err));
    if (n)
        RLX_TRY(rx_need(uses, "rlx_context_set_adapters: uses", err));
    RLX_TRY(rx_context_settle(c, err));
    rlx_status st = n ? copy_uses(c->model, uses, n, &l, err) : RLX_OK;
    if (st == RLX_OK)
        st = adapted_parts(c->model, &l, &parts, err);
    if (st != RLX_OK) {
        free_lora(&l);
        return st;
    }
    RLX_TRY(take_parts(c, &parts, err));
    free_lora(&c->lora);
    c->lora = l;
    rx_context_distrust_session(c);
    c->n_steady = 0;
    for (size_t i = 0; i < c->n_sequences; i++) {
        rx_sequence *q = &c->sequences[i];
        q->computed = 0;
        q->sampled = -1;
        q->has_logits = false;
    }
    return RLX_OK;
}

uint64_t rx_context_fingerprint(const rlx_context *c)
{
    uint64_t h = rx_model_fingerprint(c->model);
    for (size_t i = 0; i < c->lora.n; i++)
        h = rx_adapter_hash(c->lora.adapters[i], c->lora.scales[i], h);
    return h;
}

/* ---- Sampling -------------------------------------------------------------------------------- */

rlx_status rx_context_set_sampling(rlx_context *c, size_t seq, const rlx_sampling_desc *s,
                                   rlx_error *err)
{
    rlx_sampling_desc o;
    RLX_TRY(RX_DESC_READ(rlx_sampling_desc, &o, s, err));
    RLX_TRY(rx_check_sampling(&o, err));
    if (o.repeat_penalty == 0)
        o.repeat_penalty = 1;
    if (!o.repeat_last)
        o.repeat_last = DEFAULT_REPEAT_LAST;
    const rx_sampler_sizes sizes = {c->model->tokenizer, c->vocabulary, c->context};
    rx_sampler *sampler;
    RLX_TRY(rx_sampler_create(&o, &sizes, &sampler, err));
    o.dry_breakers = NULL; /* not owned */
    const size_t at = seq == SIZE_MAX ? 0 : seq + 1;
    rx_sampling *to = &c->samplings[at];
    rx_sampler_destroy(to->sampler);
    /* top_k as a float is exact up to 2^24. */
    *to = (rx_sampling){o, sampler, 0, (float)o.repeat_penalty,
                        {(float)o.temperature, (float)(o.top_k < 1 << 24 ? o.top_k : 0),
                         (float)o.top_p, (float)o.min_p}};
    if (c->given == to)
        c->given = NULL;
    for (size_t i = 0; i < c->n_sequences; i++) {
        if (at && i != seq)
            continue;
        c->sequences[i].sampling = at;
        c->sequences[i].sampler = (rx_sampler_state){0};
    }
    return RLX_OK;
}

rlx_status rlx_context_set_sampling(rlx_context *c, const rlx_sampling_desc *s, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_set_sampling: c", err));
    return rx_context_set_sampling(c, SIZE_MAX, s, err);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

rlx_status rx_check_sequence(const rlx_context *c, size_t seq, rlx_error *err)
{
    if (seq < c->n_sequences)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "there is no sequence %zu: the context has %zu, counted from "
                   "0 (rlx_model_desc.sequences)", seq, c->n_sequences);
}

static rlx_status check_tokens(const rlx_context *c, const int32_t *tokens, size_t n,
                               rlx_error *err)
{
    if (n && !tokens)
        return rx_fail(err, RLX_INVALID, "the pointer to %zu tokens is NULL", n);
    for (size_t i = 0; i < n; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= c->vocabulary)
            return rx_fail(err, RLX_INVALID, "token %zu is %d; expected 0 to %zu, the vocabulary "
                           "of the model", i, (int)tokens[i], c->vocabulary - 1);
    return RLX_OK;
}

static rlx_status check_room(const rlx_context *c, size_t held, size_t n, rlx_error *err)
{
    if (n <= c->context - held)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "%zu tokens do not fit behind %zu: the context holds %zu "
                   "(rlx_model_desc.context)", n, held, c->context);
}

/* Length of the common prefix of the sequence and the tokens. */
static size_t common_prefix(const rx_sequence *s, const int32_t *tokens, size_t n)
{
    size_t i = 0;
    while (i < n && i < s->n && s->tokens[i] == tokens[i])
        i++;
    return i;
}

rlx_status rlx_context_set_tokens(rlx_context *c, size_t seq, const int32_t *tokens, size_t n,
                                  rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_set_tokens: c", err));
    RLX_TRY(rx_check_sequence(c, seq, err));
    RLX_TRY(check_tokens(c, tokens, n, err));
    RLX_TRY(check_room(c, 0, n, err));
    RLX_TRY(rx_context_settle(c, err));
    rx_sequence *s = &c->sequences[seq];
    size_t kept = common_prefix(s, tokens, n);
    if (kept == n && n)
        kept = n - 1; /* the next token is sampled from the last one */
    if (s->computed > kept)
        s->computed = c->model->known.recurrent ? 0 : kept;
    if (n)
        memmove(s->tokens, tokens, n * sizeof *tokens);
    s->n = n;
    s->sampled = -1;
    s->has_logits = false;
    return RLX_OK;
}

rlx_status rlx_context_append(rlx_context *c, size_t seq, const int32_t *tokens, size_t n,
                              rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_append: c", err));
    RLX_TRY(rx_check_sequence(c, seq, err));
    RLX_TRY(check_tokens(c, tokens, n, err));
    rx_sequence *s = &c->sequences[seq];
    RLX_TRY(check_room(c, s->n, n, err));
    RLX_TRY(rx_context_settle(c, err));
    if (!n)
        return RLX_OK;
    memmove(s->tokens + s->n, tokens, n * sizeof *tokens);
    s->n += n;
    s->sampled = -1;
    return RLX_OK;
}

const int32_t *rlx_context_tokens(const rlx_context *c, size_t seq, size_t *n)
{
    const rx_sequence *s = c && seq < c->n_sequences ? &c->sequences[seq] : NULL;
    if (n)
        *n = s ? s->n : 0;
    return s ? s->tokens : NULL;
}

size_t rlx_context_computed(const rlx_context *c, size_t seq)
{
    return c && seq < c->n_sequences ? c->sequences[seq].computed : 0;
}

/* ---- States ---------------------------------------------------------------------------------- */

bool rx_context_state(rlx_context *c, size_t i, rx_state_part *out)
{
    rlx_tensor_info info;
    size_t in_front = 0;
    while (c->front && in_front <= i &&
           rlx_session_leaf(c->front, RLX_LEAF_STATE, in_front, &info))
        in_front++;
    out->session = i < in_front ? c->front : c->session;
    if (i >= in_front && !rlx_session_leaf(c->session, RLX_LEAF_STATE, i - in_front, &info))
        return false;
    size_t rows = (size_t)info.shape.dim[0];
    out->name = info.name;
    out->by_place = rows == c->n_sequences * c->context;
    out->row_bytes = rows ? info.bytes / rows : 0;
    return true;
}

rlx_status rx_context_forget(rlx_context *c, size_t seq, rlx_error *err)
{
    static const char zeros[4096];
    rx_state_part p;
    for (size_t i = 0; rx_context_state(c, i, &p); i++) {
        if (p.by_place)
            continue;
        for (size_t at = 0; at < p.row_bytes; at += sizeof zeros) {
            size_t n = p.row_bytes - at < sizeof zeros ? p.row_bytes - at : sizeof zeros;
            RLX_TRY(rlx_session_state_write(p.session, p.name, seq * p.row_bytes + at, zeros, n,
                                            err));
        }
    }
    return RLX_OK;
}

/* ---- Logits ---------------------------------------------------------------------------------- */

rlx_status rx_context_keep_logits(rlx_context *c, rlx_error *err)
{
    size_t row = c->vocabulary * sizeof(float);
    if (!c->kept_logits)
        c->kept_logits = rx_alloc_array(c->n_sequences, row);
    if (!c->kept_logits)
        return rx_fail_memory(err, "the logits of a step", c->n_sequences * row);
    for (size_t i = 0; i < c->n_sequences; i++) {
        rx_sequence *s = &c->sequences[i];
        if (!s->has_logits || s->row == RX_ROW_KEPT)
            continue;
        RLX_TRY(rlx_session_read(c->session, "logits", s->row * row,
                                 c->kept_logits + i * c->vocabulary, row, err));
        s->row = RX_ROW_KEPT;
    }
    return RLX_OK;
}

rlx_status rlx_context_logits(rlx_context *c, size_t seq, float *out, size_t n, rlx_error *err)
{
    RLX_TRY(rx_need(c, "rlx_context_logits: c", err));
    if (n)
        RLX_TRY(rx_need(out, "rlx_context_logits: out", err));
    RLX_TRY(rx_check_sequence(c, seq, err));
    const rx_sequence *s = &c->sequences[seq];
    if (n != c->vocabulary)
        return rx_fail(err, RLX_INVALID, "room for %zu logits; expected %zu, the vocabulary of the "
                       "model", n, c->vocabulary);
    if (!s->has_logits || c->stepping)
        return rx_fail(err, RLX_INVALID, "sequence %zu has no logits: it took no part in the last "
                       "step", seq);
    if (s->row == RX_ROW_LOST)
        RLX_TRY(rx_context_compute_again(c, seq, err));
    if (s->row != RX_ROW_KEPT)
        return rlx_session_read(c->session, "logits", s->row * n * sizeof *out, out,
                                n * sizeof *out, err);
    memcpy(out, c->kept_logits + seq * n, n * sizeof *out);
    return RLX_OK;
}

void rlx_context_cancel(rlx_context *c)
{
    if (c)
        atomic_store(&c->cancelled, true);
}

rlx_session *rlx_context_session(rlx_context *c)
{
    return c ? c->session : NULL;
}
