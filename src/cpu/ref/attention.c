/* SPDX-License-Identifier: MIT */
/* Reference kernels of attention and rotary embedding.
 *   s[j] = cap(scale * q . k[j]) + mask[j] over the keys j that the query sees
 *   y = sum_j exp(s[j]) v[j] / (sum_j exp(s[j]) + exp(sink?))
 * Masked keys, also those with a bias of -inf, are skipped: k and v are not read there. A query
 * without visible keys gives zeros. */
#include <math.h>

#include "cpu/ref/ref.h"
#include "rlx/session.h"

/* ---- Attention ------------------------------------------------------------------------------- */

/* Operands of attention, in order. */
enum { Q, K, V, MASK, LENGTHS, SINKS, PAGES };

typedef struct attention {
    const rx_call *c;
    const rlx_attention_desc *d;
    const rx_view *q, *k, *v, *out;
    const rx_view *pages, *lengths, *sinks;
    bool has_mask;
    rx_view mask;       /* broadcast to [B, H, Sq, Sk] */
    int head, seq;      /* axis numbers in q, k and v */
    int64_t batch, heads, group; /* group: query heads per key head */
    int64_t n_queries, n_keys, key_size, value_size;
    double *query;      /* [key_size] */
    double *scores;     /* [n_keys] */
    double *sum;        /* [value_size] */
} attention;

/* One query: batch, head, row; the keys it may see and how many exist. */
typedef struct query {
    int64_t b, h, i;
    int64_t first_key, end_key;
} query;

/* Number of keys of batch b. */
static int64_t batch_length(const attention *a, int64_t b)
{
    if (!a->lengths)
        return a->n_keys;
    const int64_t n = rx_load_int(a->lengths, a->lengths->rank ? b * a->lengths->stride[0] : 0);
    if (n >= 0 && n <= a->n_keys)
        return n;
    rx_call_flag(a->c, RLX_FLAG_INDEX_CLAMPED);
    return n < 0 ? 0 : a->n_keys;
}

/* The query is at key position p = i + length - Sq and sees p - window < j <= p. */
static query make_query(const attention *a, int64_t b, int64_t h, int64_t i)
{
    const int64_t length = batch_length(a, b), p = i + length - a->n_queries;
    query r = {b, h, i, 0, length};
    if (a->d->causal && p + 1 < length)
        r.end_key = p + 1;
    if (a->d->window > 0 && p - a->d->window + 1 > 0)
        r.first_key = p - a->d->window + 1;
    return r;
}

/* Offset of the first element of key or value j, for the query's batch and head. */
static int64_t key_offset(const attention *a, const rx_view *kv, const query *r, int64_t j)
{
    const int64_t head = r->h / a->group * kv->stride[a->head];
    if (!a->pages)
        return r->b * kv->stride[0] + j * kv->stride[a->seq] + head;
    const int64_t entry = r->b * a->pages->stride[0] + j / a->d->page * a->pages->stride[1];
    const int64_t page = rx_load_index(a->c, a->pages, entry, kv->dim[0]);
    return page * kv->stride[0] + j % a->d->page * kv->stride[1] + head;
}

/* The logit of key j; -inf when it is masked. */
static double score(const attention *a, const query *r, int64_t j)
{
    const int64_t at[] = {r->b, r->h, r->i, j};
    const bool is_bool = a->has_mask && a->mask.dtype == RLX_BOOL;
    const double mask = a->has_mask ? rx_load(&a->mask, rx_offset(&a->mask, at)) : 0;
    if (is_bool ? mask == 0 : mask == -INFINITY)
        return -INFINITY;

    const int64_t key = key_offset(a, a->k, r, j);
    double s = 0;
    for (int64_t e = 0; e < a->key_size; e++)
        s += a->query[e] * rx_load(a->k, key + e * a->k->stride[3]);
    s *= a->d->scale;
    if (a->d->soft_cap > 0)
        s = a->d->soft_cap * tanh(s / a->d->soft_cap);
    return is_bool ? s : s + mask;
}

/* Fills scores for the keys the query sees and returns their maximum, NaN when there is one. */
static double fill_scores(const attention *a, const query *r)
{
    double max = -INFINITY;
    for (int64_t j = r->first_key; j < r->end_key; j++) {
        a->scores[j] = score(a, r, j);
        if (a->scores[j] > max || isnan(a->scores[j]))
            max = a->scores[j];
    }
    return max;
}

/* sum = weighted sum of the values; all zeros when no key is visible. */
static void attend(const attention *a, const query *r)
{
    double max = fill_scores(a, r), total = 0;
    for (int64_t e = 0; e < a->value_size; e++)
        a->sum[e] = 0;
    if (max == -INFINITY)
        return;
    if (a->sinks) {
        const double sink = rx_load(a->sinks, r->h * a->sinks->stride[0]);
        if (sink > max || isnan(sink))
            max = sink;
        total = exp(sink - max);
    }
    for (int64_t j = r->first_key; j < r->end_key; j++) {
        if (a->scores[j] == -INFINITY)
            continue;
        const double w = exp(a->scores[j] - max);
        const int64_t value = key_offset(a, a->v, r, j);
        total += w;
        for (int64_t e = 0; e < a->value_size; e++)
            a->sum[e] += w * rx_load(a->v, value + e * a->v->stride[3]);
    }
    for (int64_t e = 0; e < a->value_size; e++)
        a->sum[e] /= total;
}

static void attend_query(const attention *a, int64_t b, int64_t h, int64_t i)
{
    const query r = make_query(a, b, h, i);
    int64_t at[4] = {b, 0, 0, 0};
    at[a->head] = h;
    at[a->seq] = i;
    const int64_t from = rx_offset(a->q, at), to = rx_offset(a->out, at);
    for (int64_t e = 0; e < a->key_size; e++)
        a->query[e] = rx_load(a->q, from + e * a->q->stride[3]);
    attend(a, &r);
    for (int64_t e = 0; e < a->value_size; e++)
        rx_store(a->out, to + e, a->sum[e]);
}

/* Fills in operands, sizes and scratch memory; RLX_NO_MEMORY. */
static rlx_status prepare(const rx_call *c, attention *a)
{
    *a = (attention){.c = c, .d = c->attr, .q = &c->in[Q], .k = &c->in[K], .v = &c->in[V]};
    a->out = &c->out[0];
    a->pages = rx_call_in(c, PAGES);
    a->lengths = rx_call_in(c, LENGTHS);
    a->sinks = rx_call_in(c, SINKS);
    a->head = a->d->layout == RLX_BHSD ? 1 : 2;
    a->seq = 3 - a->head;
    a->batch = a->q->dim[0];
    a->heads = a->q->dim[a->head];
    a->group = a->k->dim[a->head] ? a->heads / a->k->dim[a->head] : 1;
    a->n_queries = a->q->dim[a->seq];
    a->n_keys = a->pages ? a->pages->dim[1] * a->d->page : a->k->dim[a->seq];
    a->key_size = a->q->dim[3];
    a->value_size = a->v->dim[3];

    const int64_t dims[] = {a->batch, a->heads, a->n_queries, a->n_keys};
    const rx_view *mask = rx_call_in(c, MASK);
    a->has_mask = mask != NULL;
    if (mask) {
        rx_view like = {0};
        rx_view_set_dense(&like, mask->dtype, 4, dims);
        a->mask = rx_broadcast_view(mask, &like);
    }
    a->query = rx_call_array(c, a->key_size, sizeof *a->query);
    a->scores = rx_call_array(c, a->n_keys, sizeof *a->scores);
    a->sum = rx_call_array(c, a->value_size, sizeof *a->sum);
    return a->query && a->scores && a->sum ? RLX_OK : RLX_NO_MEMORY;
}

rlx_status rx_ref_attention(const rx_call *c)
{
    attention a;
    RLX_TRY(prepare(c, &a));
    if (rx_view_elements(a.out) == 0)
        return RLX_OK;
    for (int64_t b = 0; b < a.batch; b++)
        for (int64_t h = 0; h < a.heads; h++)
            for (int64_t i = 0; i < a.n_queries; i++)
                attend_query(&a, b, h, i);
    return RLX_OK;
}

/* ---- Rotary embedding ------------------------------------------------------------------------ */

/* Operands of rope, in order. */
enum { X, COS, SIN, POSITIONS };

/* The row of the tables for element i of sequence b; outside of the tables the nearest one, -1 when
 * they have none (a named dimension of size 0). */
static int64_t table_row(const rx_call *c, int64_t b, int64_t i)
{
    const rx_view *at = rx_call_in(c, POSITIONS);
    const int64_t n_rows = c->in[COS].dim[0];
    if (at && n_rows > 0)
        return rx_load_index(c, at, at->rank == 2 ? b * at->stride[0] + i * at->stride[1]
                                                  : i * at->stride[0], n_rows);
    if (i < n_rows)
        return i;
    rx_call_flag(c, RLX_FLAG_INDEX_CLAMPED);
    return n_rows - 1;
}

/* Rotates the pairs of one head, from offset `from` of x to `to` of the result; row -1: copied
 * unchanged. */
static void rotate_head(const rx_call *c, int64_t row, int64_t from, int64_t to)
{
    const rlx_rope_desc *d = c->attr;
    const rx_view *x = &c->in[X], *co = &c->in[COS], *si = &c->in[SIN], *y = &c->out[0];
    const int64_t half = row < 0 ? 0 : d->n_rot / 2, step = x->stride[3];
    for (int64_t i = 0; i < half; i++) {
        const int64_t first = d->interleaved ? 2 * i : i;
        const int64_t second = d->interleaved ? 2 * i + 1 : i + half;
        const double a = rx_load(x, from + first * step), b = rx_load(x, from + second * step);
        const double cosine = rx_load(co, row * co->stride[0] + i * co->stride[1]);
        double sine = rx_load(si, row * si->stride[0] + i * si->stride[1]);
        if (d->backward)
            sine = -sine;
        rx_store(y, to + first, a * cosine - b * sine);
        rx_store(y, to + second, a * sine + b * cosine);
    }
    for (int64_t i = 2 * half; i < x->dim[3]; i++)
        rx_copy_element(y, to + i, x, from + i * step);
}

rlx_status rx_ref_rope(const rx_call *c)
{
    const rlx_rope_desc *d = c->attr;
    const rx_view *x = &c->in[X], *y = &c->out[0];
    if (rx_view_elements(x) == 0)
        return RLX_OK;

    const int seq = d->layout == RLX_BHSD ? 2 : 1;
    int64_t at[4] = {0};
    do
        rotate_head(c, table_row(c, at[0], at[seq]), rx_offset(x, at), rx_offset(y, at));
    while (rx_next(at, x->dim, 3));
    return RLX_OK;
}
