/* SPDX-License-Identifier: MIT */
/* Text embeddings: texts are tokenized, run in batches of similar length, and the rows of each text
 * are pooled to one vector. The lengths input of encoders masks padding; decoders, which run
 * without a cache here, see no later tokens anyway. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/sized.h"
#include "model/model.h"

typedef struct text {
    size_t index; /* of the caller */
    size_t n;     /* tokens */
    size_t second; /* of them, where the second of two texts begins */
    int32_t *ids;
} text;

struct rx_embedding {
    rlx_model *m;
    rlx_pooling pooling;
    bool normalize;
    bool batches;  /* the session takes several texts */
    size_t width, max_texts, max_tokens;
    text *texts; /* longest first */
    size_t n_texts, done, n_cut;
    bool active;     /* a run is submitted and not yet waited for */
    uint64_t ticket; /* of that run */
    int32_t *tokens, *types, *lengths, *positions;
    rlx_session *session;
    float *hidden; /* [max_texts, max_tokens, width] */
    float *out;
    rx_arena arena;
};

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* `room` holds max_tokens tokens. */
static rlx_status encode_one(rx_embedding *b, const char *s, int32_t *room, text *t, bool *cut,
                             rlx_error *err)
{
    rlx_token_list list = {.ids = room, .cap = b->max_tokens};
    unsigned flags = RLX_ENCODE_ADD_SPECIAL;
    RLX_TRY(rlx_tokenizer_encode(b->m->tokenizer, s, strlen(s), flags, &list, err));
    *cut = list.n > list.cap;
    if (*cut)
        RLX_TRY(rlx_tokenizer_encode(b->m->tokenizer, s, strlen(s), flags | RLX_ENCODE_TRUNCATE,
                                     &list, err));
    t->n = t->second = list.n < list.cap ? list.n : list.cap;
    if (!t->n)
        return rx_fail(err, RLX_INVALID, "text %zu has no tokens", t->index);
    t->ids = rx_arena_array_copy(&b->arena, room, t->n, sizeof *room);
    return t->ids ? RLX_OK : rx_fail_memory(err, "the tokens of a text", t->n * sizeof *room);
}

static int compare_lengths(const void *a, const void *b)
{
    const text *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

static rlx_status encode_all(rx_embedding *b, const char *const *texts, rlx_error *err)
{
    int32_t *room = rx_arena_array(&b->arena, b->max_tokens, sizeof *room);
    if (!room)
        return rx_fail_memory(err, "the tokens of a text", b->max_tokens * sizeof *room);
    for (size_t i = 0; i < b->n_texts; i++) {
        bool cut = false;
        if (!texts[i])
            return rx_fail(err, RLX_INVALID, "text %zu is NULL", i);
        b->texts[i].index = i;
        RLX_TRY(encode_one(b, texts[i], room, &b->texts[i], &cut, err));
        b->n_cut += cut;
    }
    qsort(b->texts, b->n_texts, sizeof *b->texts, compare_lengths);
    return RLX_OK;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

static void fill_inputs(rx_embedding *b, const text *texts, size_t n, size_t length)
{
    int32_t pad = rlx_tokenizer_special(b->m->tokenizer, RLX_SPECIAL_PAD);
    for (size_t i = 0; i < n; i++) {
        int32_t *row = b->tokens + i * length;
        memcpy(row, texts[i].ids, texts[i].n * sizeof *row);
        for (size_t k = texts[i].n; k < length; k++)
            row[k] = pad >= 0 ? pad : 0;
        for (size_t k = 0; k < length; k++) {
            b->types[i * length + k] = k >= texts[i].second && k < texts[i].n;
            b->positions[i * length + k] = (int32_t)k;
        }
        b->lengths[i] = (int32_t)texts[i].n;
    }
}

/* One vector from the rows [n, width] of a text. */
static void pool_rows(const rx_embedding *b, const float *rows, size_t n, float *out)
{
    size_t w = b->width, first = b->pooling == RLX_POOLING_LAST ? n - 1 : 0;
    size_t last = b->pooling == RLX_POOLING_FIRST ? 0 : n - 1;
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

/* The texts of the next run: at most max_texts, the first of them the longest. */
static size_t next_texts(const rx_embedding *b)
{
    size_t left = b->n_texts - b->done;
    return left < b->max_texts ? left : b->max_texts;
}

/* Fills and binds the next run: its inputs, how many, and its output. */
static rlx_status prepare_run(rx_embedding *b, rlx_const_tensor in[3], size_t *n_in,
                              rlx_tensor *out,
                              rlx_error *err)
{
    rlx_session *s = b->session;
    const text *texts = b->texts + b->done;
    size_t n = next_texts(b), length = texts[0].n, bytes = n * length * sizeof *b->tokens;
    fill_inputs(b, texts, n, length);
    in[0] = (rlx_const_tensor){"tokens", b->tokens, bytes};
    in[1] = b->m->known.is_decoder
                ? (rlx_const_tensor){"positions", b->positions, bytes}
                : (rlx_const_tensor){"lengths", b->lengths, n * sizeof *b->lengths};
    in[2] = (rlx_const_tensor){"types", b->types, bytes};
    *n_in = b->m->known.has_types ? 3 : 2;
    *out = (rlx_tensor){"hidden", b->hidden, n * length * b->width * sizeof *b->hidden};
    if (b->batches)
        RLX_TRY(rlx_session_bind(s, "batch", (int64_t)n, err));
    return rlx_session_bind(s, "seq", (int64_t)length, err);
}

/* The run has completed and `hidden` has its rows. */
static void finish_run(rx_embedding *b)
{
    size_t n = next_texts(b), length = b->texts[b->done].n;
    for (size_t i = 0; i < n; i++) {
        const text *t = &b->texts[b->done + i];
        pool_rows(b, b->hidden + i * length * b->width, t->n, b->out + t->index * b->width);
    }
    b->done += n;
    b->active = false;
}

static rlx_status run_batch(rx_embedding *b, rlx_error *err)
{
    rlx_const_tensor in[3];
    rlx_tensor out;
    size_t n_in;
    RLX_TRY(prepare_run(b, in, &n_in, &out, err));
    RLX_TRY(rlx_run(b->session, in, n_in, &out, 1, err));
    finish_run(b);
    return RLX_OK;
}

static rlx_status run_all(rx_embedding *b, rlx_error *err)
{
    rlx_status st = RLX_OK;
    rx_mutex_lock(&b->m->run_lock);
    while (b->done < b->n_texts && st == RLX_OK)
        st = run_batch(b, err);
    if (st == RLX_OK && b->m->weights_in_file && !b->m->has_embedded)
        rx_model_release_pages(b->m); /* this run has packed the weights */
    b->m->has_embedded = true;
    rx_mutex_unlock(&b->m->run_lock);
    return st;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

rlx_status rx_check_embed(const rlx_model *m, rlx_error *err)
{
    if (!m->tokenizer)
        return rx_fail(err, RLX_INVALID, "'%.200s' has no tokenizer: put tokenizer.json or "
                       "vocab.txt beside it", m->path);
    return m->known.is_decoder ? rx_model_need_whole(m, "embedding texts", err) : RLX_OK;
}

static rlx_status check_embed(const rlx_model *m, const char *const *texts, size_t n,
                              const float *out, rlx_error *err)
{
    RLX_TRY(rx_check_embed(m, err));
    if (n && (!texts || !out))
        return rx_fail(err, RLX_INVALID, "the pointer to the %s is NULL",
                       texts ? "vectors" : "texts");
    return RLX_OK;
}

#define EMBED_TEXTS 16    /* texts in one run, */
#define EMBED_TOKENS 8192 /* if they have no more tokens than this */

int64_t rx_embed_texts(const rlx_model *m)
{
    const int64_t fitting = EMBED_TOKENS / m->max_text;
    return fitting < 1 ? 1 : fitting < EMBED_TEXTS ? fitting : EMBED_TEXTS;
}

/* Of a decoder a session of its own, without a cache. */
static rlx_status find_session(rx_embedding *b, rlx_error *err)
{
    rlx_model *m = b->m;
    rlx_status st = RLX_OK;
    b->session = m->session;
    b->batches = m->build.sequences > 1;
    if (!m->known.is_decoder)
        return RLX_OK;
    rx_build_desc build = m->build;
    build.sequences = rx_embed_texts(m);
    build.context = build.prompt_chunk = m->max_text;
    build.embed = true;
    b->batches = build.sequences > 1;
    rx_mutex_lock(&m->run_lock);
    if (!m->embedder)
        st = rx_model_make_session(m, &build, NULL, &m->embedder, err);
    rx_mutex_unlock(&m->run_lock);
    b->session = m->embedder;
    return st;
}

static rlx_status make_texts(rx_embedding *b, rlx_error *err)
{
    b->texts = rx_arena_array_zero(&b->arena, b->n_texts, sizeof *b->texts);
    return b->texts ? RLX_OK : rx_fail_memory(err, "the list of texts",
                                              b->n_texts * sizeof *b->texts);
}

/* A session, and room for a run of the texts that are there. */
static rlx_status make_room(rx_embedding *b, rlx_error *err)
{
    RLX_TRY(find_session(b, err));
    size_t rows = b->max_texts * b->texts[0].n;
    b->tokens = rx_arena_array_zero(&b->arena, rows, sizeof *b->tokens);
    b->types = rx_arena_array_zero(&b->arena, rows, sizeof *b->types);
    b->positions = rx_arena_array_zero(&b->arena, rows, sizeof *b->positions);
    b->lengths = rx_arena_array_zero(&b->arena, b->max_texts, sizeof *b->lengths);
    b->hidden = rx_arena_array(&b->arena, rows * b->width, sizeof *b->hidden);
    if (!b->tokens || !b->types || !b->positions || !b->lengths || !b->hidden)
        return rx_fail_memory(err, "a batch of texts", rows * b->width * sizeof *b->hidden);
    return RLX_OK;
}

/* Tokens of all texts and room for a run. b has its first fields; its arena is the caller's. */
static rlx_status begin(rx_embedding *b, const char *const *texts, rlx_error *err)
{
    RLX_TRY(make_texts(b, err));
    RLX_TRY(encode_all(b, texts, err));
    return make_room(b, err);
}

static rx_embedding describe(rlx_model *m, size_t n, const rlx_embed_desc *d, float *out)
{
    size_t max_texts = (size_t)(m->known.is_decoder ? rx_embed_texts(m) : m->build.sequences);
    return (rx_embedding){.m = m, .pooling = d && d->pooling ? d->pooling : m->pooling,
                          .normalize = !(d && d->no_normalize),
                          .width = (size_t)m->known.embedding_width,
                          .max_texts = max_texts < n ? max_texts : n,
                          .max_tokens = (size_t)m->max_text, .n_texts = n, .out = out};
}

rlx_status rlx_embed(rlx_model *m, const char *const *texts, size_t n, const rlx_embed_desc *d,
                     float *out, size_t *n_cut, rlx_error *err)
{
    RLX_TRY(rx_need(m, "rlx_embed: m", err));
    if (n_cut)
        *n_cut = 0;
    RLX_TRY(check_embed(m, texts, n, out, err));
    rlx_embed_desc full;
    RLX_TRY(RX_DESC_READ(rlx_embed_desc, &full, d, err));
    if ((unsigned)full.pooling > RLX_POOLING_LAST)
        return rx_fail(err, RLX_INVALID, "pooling %d is none of mean, first and last",
                       (int)full.pooling);
    if (!n)
        return RLX_OK;
    rx_embedding b = describe(m, n, &full, out);
    rlx_status st = begin(&b, texts, err);
    if (st == RLX_OK)
        st = run_all(&b, err);
    rx_arena_finish(&b.arena);
    if (n_cut)
        *n_cut = b.n_cut;
    return st;
}

rlx_status rx_pool_tokens(rlx_model *m, const rx_pooled *lists, size_t n, rlx_pooling pooling,
                          float *out, rlx_error *err)
{
    rx_embedding b = describe(m, n, NULL, out);
    b.pooling = pooling;
    b.normalize = false;
    rlx_status st = make_texts(&b, err);
    for (size_t i = 0; st == RLX_OK && i < n; i++)
        b.texts[i] = (text){.index = i, .n = lists[i].n, .second = lists[i].second,
                            .ids = lists[i].ids};
    if (st == RLX_OK) {
        qsort(b.texts, n, sizeof *b.texts, compare_lengths);
        st = make_room(&b, err);
    }
    if (st == RLX_OK)
        st = run_all(&b, err);
    rx_arena_finish(&b.arena);
    return st;
}

/* ---- Non-blocking---------------------------------------------------------------------------- */

rlx_status rx_embedding_begin(rlx_model *m, const char *const *texts, size_t n, float *out,
                              rx_embedding **result, rlx_error *err)
{
    *result = NULL;
    RLX_TRY(check_embed(m, texts, n, out, err));
    if (!n)
        return rx_fail(err, RLX_INVALID, "there is no text to embed");
    rx_embedding *b = rx_alloc(sizeof *b);
    if (!b)
        return rx_fail_memory(err, "an embedding", sizeof *b);
    *b = describe(m, n, NULL, out);
    rlx_status st = begin(b, texts, err);
    if (st == RLX_OK)
        *result = b;
    else
        rx_embedding_end(b);
    return st;
}

static rlx_status submit_batch(rx_embedding *b, rlx_error *err)
{
    rlx_session *s = b->session;
    rlx_const_tensor in[3];
    rlx_tensor out;
    size_t n_in;
    RLX_TRY(prepare_run(b, in, &n_in, &out, err));
    for (size_t i = 0; i < n_in; i++)
        RLX_TRY(rlx_session_set_input(s, in[i].name, in[i].data, in[i].bytes, err));
    RLX_TRY(rlx_session_submit(s, &b->ticket, err));
    b->active = true;
    return RLX_OK;
}

rlx_status rx_embedding_next(rx_embedding *b, int64_t timeout_ms, bool *more, rlx_error *err)
{
    rlx_session *s = b->session;
    *more = b->done < b->n_texts;
    if (!*more)
        return RLX_OK;
    if (!b->active)
        RLX_TRY(submit_batch(b, err));
    RLX_TRY(rlx_session_wait(s, b->ticket, timeout_ms, err));
    size_t rows = next_texts(b) * b->texts[b->done].n;
    RLX_TRY(rlx_session_read(s, "hidden", 0, b->hidden, rows * b->width * sizeof *b->hidden, err));
    finish_run(b);
    *more = b->done < b->n_texts;
    return RLX_OK;
}

void rx_embedding_end(rx_embedding *b)
{
    if (!b)
        return;
    rx_arena_finish(&b->arena);
    rx_free(b);
}
