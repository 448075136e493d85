/* SPDX-License-Identifier: MIT */
/* Embeddings: texts become tokens, run through the encoder in batches of about the same length, and
 * the rows of each text are pooled to one vector. Padding is masked by the lengths. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/model.h"

typedef struct text {
    size_t index; /* of the caller */
    size_t n;     /* tokens */
    int32_t *ids;
} text;

typedef struct batch {
    rlx_model *m;
    rlx_pooling pooling;
    bool normalize;
    size_t width, max_texts, max_tokens;
    text *texts; /* longest first */
    size_t n_texts;
    int32_t *tokens, *types, *lengths;
    float *hidden; /* [max_texts, max_tokens, width] */
    float *out;
    rx_arena arena;
} batch;

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* `room` has max_tokens places. */
static rlx_status encode_one(batch *b, const char *s, int32_t *room, text *t, bool *cut,
                             rlx_error *err)
{
    rlx_token_list list = {.ids = room, .cap = b->max_tokens};
    unsigned flags = RLX_ENCODE_ADD_SPECIAL;
    RLX_TRY(rlx_tokenizer_encode(b->m->tokenizer, s, strlen(s), flags, &list, err));
    *cut = list.n > list.cap;
    if (*cut)
        RLX_TRY(rlx_tokenizer_encode(b->m->tokenizer, s, strlen(s), flags | RLX_ENCODE_TRUNCATE,
                                     &list, err));
    t->n = list.n < list.cap ? list.n : list.cap;
    if (!t->n)
        return rx_fail(err, RLX_INVALID, "text %zu has no tokens", t->index);
    t->ids = rx_arena_copy(&b->arena, room, t->n * sizeof *room);
    return t->ids ? RLX_OK : rx_fail_memory(err, "the tokens of a text", t->n * sizeof *room);
}

static int compare_lengths(const void *a, const void *b)
{
    const text *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static rlx_status encode_all(batch *b, const char *const *texts, size_t *n_cut, rlx_error *err)
{
    int32_t *room = rx_arena_alloc(&b->arena, b->max_tokens * sizeof *room);
    if (!room)
        return rx_fail_memory(err, "the tokens of a text", b->max_tokens * sizeof *room);
    for (size_t i = 0; i < b->n_texts; i++) {
        bool cut = false;
        if (!texts[i])
            return rx_fail(err, RLX_INVALID, "text %zu is NULL", i);
        b->texts[i].index = i;
        RLX_TRY(encode_one(b, texts[i], room, &b->texts[i], &cut, err));
        *n_cut += cut;
    }
    qsort(b->texts, b->n_texts, sizeof *b->texts, compare_lengths);
    return RLX_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void fill_inputs(batch *b, const text *texts, size_t n, size_t length)
{
    int32_t pad = rlx_tokenizer_special(b->m->tokenizer, RLX_SPECIAL_PAD);
    for (size_t i = 0; i < n; i++) {
        int32_t *row = b->tokens + i * length;
        memcpy(row, texts[i].ids, texts[i].n * sizeof *row);
        for (size_t k = texts[i].n; k < length; k++)
            row[k] = pad >= 0 ? pad : 0;
        b->lengths[i] = (int32_t)texts[i].n;
    }
}

/* One vector from the rows [n, width] of a text. */
static void pool_rows(const batch *b, const float *rows, size_t n, float *out)
{
    size_t w = b->width, first = b->pooling == RLX_POOL_LAST ? n - 1 : 0;
    size_t last = b->pooling == RLX_POOL_FIRST ? 0 : n - 1;
    double squares = 0;
    for (size_t j = 0; j < w; j++) {
        double sum = 0;
        for (size_t i = first; i <= last; i++)
            sum += rows[i * w + j];
        sum /= (double)(last - first + 1);
        squares += sum * sum;
        out[j] = (float)sum;
    }
    double scale = b->normalize && squares > 0 ? 1 / sqrt(squares) : 1;
    for (size_t j = 0; j < w; j++)
        out[j] = (float)(out[j] * scale);
}

static rlx_status run_batch(batch *b, const text *texts, size_t n, rlx_error *err)
{
    rlx_session *s = b->m->session;
    size_t length = texts[0].n, bytes = n * length * sizeof *b->tokens;
    fill_inputs(b, texts, n, length);
    rlx_tensor in[] = {{"tokens", b->tokens, bytes},
                       {"lengths", b->lengths, n * sizeof *b->lengths},
                       {"types", b->types, bytes}};
    rlx_tensor out = {"hidden", b->hidden, n * length * b->width * sizeof *b->hidden};
    if (b->m->build.sequences > 1)
        RLX_TRY(rlx_session_bind(s, "batch", (int64_t)n, err));
    RLX_TRY(rlx_session_bind(s, "seq", (int64_t)length, err));
    RLX_TRY(rlx_run(s, in, b->m->known.has_types ? 3 : 2, &out, 1, err));
    for (size_t i = 0; i < n; i++)
        pool_rows(b, b->hidden + i * length * b->width, texts[i].n,
                  b->out + texts[i].index * b->width);
    return RLX_OK;
}

static rlx_status run_all(batch *b, rlx_error *err)
{
    size_t rows = b->max_texts * b->texts[0].n;
    b->tokens = rx_arena_zero(&b->arena, rows * sizeof *b->tokens);
    b->types = rx_arena_zero(&b->arena, rows * sizeof *b->types);
    b->lengths = rx_arena_zero(&b->arena, b->max_texts * sizeof *b->lengths);
    b->hidden = rx_arena_alloc(&b->arena, rows * b->width * sizeof *b->hidden);
    if (!b->tokens || !b->types || !b->lengths || !b->hidden)
        return rx_fail_memory(err, "a batch of texts", rows * b->width * sizeof *b->hidden);
    rlx_status st = RLX_OK;
    rx_mutex_lock(&b->m->run_lock);
    for (size_t at = 0; at < b->n_texts && st == RLX_OK; at += b->max_texts) {
        size_t left = b->n_texts - at;
        st = run_batch(b, b->texts + at, left < b->max_texts ? left : b->max_texts, err);
    }
    if (st == RLX_OK && b->m->weights_in_file && !b->m->has_embedded)
        rx_model_release_pages(b->m); /* this run has packed the weights */
    b->m->has_embedded = true;
    rx_mutex_unlock(&b->m->run_lock);
    return st;
}

static rlx_status check_embed(const rlx_model *m, const char *const *texts, size_t n,
                              const float *out, rlx_error *err)
{
    if (m->known.is_decoder)
        return rx_fail(err, RLX_INVALID, "'%.200s' is a decoder (%s): it generates text; embeddings"
                       " need an encoder", m->path, m->known.architecture);
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer: put tokenizer.json or "
                       "vocab.txt beside it", m->path);
    if (n && (!texts || !out))
        return rx_fail(err, RLX_INVALID, "the pointer to the %s is NULL",
                       texts ? "vectors" : "texts");
    return RLX_OK;
}

rlx_status rlx_embed(rlx_model *m, const char *const *texts, size_t n, const rlx_embed_desc *d,
                     float *out, size_t *n_cut, rlx_error *err)
{
    size_t cut = 0;
    if (n_cut)
        *n_cut = 0;
    RLX_TRY(check_embed(m, texts, n, out, err));
    if (d && (unsigned)d->pooling > RLX_POOL_LAST)
        return rx_fail(err, RLX_INVALID, "pooling %d is none of mean, first and last",
                       (int)d->pooling);
    if (!n)
        return RLX_OK;
    size_t max_texts = (size_t)m->build.sequences;
    batch b = {.m = m, .pooling = d && d->pooling ? d->pooling : m->pooling,
               .normalize = !(d && d->no_normalize), .width = (size_t)m->known.embedding_width,
               .max_texts = max_texts < n ? max_texts : n, .max_tokens = (size_t)m->max_text,
               .n_texts = n, .out = out};
    b.texts = rx_arena_zero(&b.arena, n * sizeof *b.texts);
    rlx_status st = b.texts ? encode_all(&b, texts, &cut, err)
                            : rx_fail_memory(err, "the list of texts", n * sizeof *b.texts);
    if (st == RLX_OK)
        st = run_all(&b, err);
    rx_arena_finish(&b.arena);
    if (n_cut)
        *n_cut = cut;
    return st;
}
