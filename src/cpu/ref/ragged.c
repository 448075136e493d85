/* SPDX-License-Identifier: MIT */
/* Reference kernel of ragged_attention: each row of q over the keys of its own sequence.
 *   s[j] = cap(scale * q . k[j]) over the last `window` of lengths[i] keys
 *   y = sum_j exp(s[j]) v[j] / (sum_j exp(s[j]) + exp(sink?)) */
#include <math.h>

#include "cpu/ref/ref.h"
#include "rlx/session.h"

/* Operands, in order. */
enum { Q, K, V, SEQUENCE, LENGTHS, PAGES, SINKS };

typedef struct ragged {
    const rx_call *c;
    const rlx_ragged_attention_desc *d;
    const rx_view *q, *k, *v, *out, *sinks;
    int64_t heads, group; /* group: query heads per key head */
    int64_t n_keys, key_size, value_size;
    double *query;  /* [key_size] */
    double *row;    /* [key_size or value_size] */
    double *scores; /* [n_keys] */
    double *sum;    /* [value_size] */
} ragged;

/* The keys that a row sees: first .. end - 1 of a sequence. */
typedef struct range {
    int64_t sequence, first, end;
} range;

static range row_range(const ragged *a, int64_t i)
{
    const rx_view *lengths = &a->c->in[LENGTHS], *sequence = &a->c->in[SEQUENCE];
    const int64_t n = rx_load_int(lengths, i * lengths->stride[0]);
    range r = {.end = n < 0 ? 0 : n > a->n_keys ? a->n_keys : n};
    if (r.end != n)
        rx_call_flag(a->c, RLX_FLAG_INDEX_CLAMPED);
    if (a->d->window > 0 && r.end > a->d->window)
        r.first = r.end - a->d->window;
    r.sequence = rx_load_index(a->c, sequence, i * sequence->stride[0], a->c->in[PAGES].dim[0]);
    return r;
}

/* Loads head h of key or value j. A page table without rows counts as one of zeros. */
static void load_key(const ragged *a, const rx_view *pool, const range *r, int64_t h, int64_t j)
{
    const rx_view *pages = &a->c->in[PAGES];
    const int64_t entry = r->sequence * pages->stride[0] + j / a->d->page * pages->stride[1];
    const int64_t n_pages = pool->dim[0] / a->d->page;
    const int64_t page = pages->dim[0] ? rx_load_index(a->c, pages, entry, n_pages) : 0;
    const int64_t row = page * a->d->page + j % a->d->page;
    rx_load_row(pool, row * pool->dim[1] + h / a->group, a->row);
}

static double score(const ragged *a, const range *r, int64_t h, int64_t j)
{
    double s = 0;
    load_key(a, a->k, r, h, j);
    for (int64_t e = 0; e < a->key_size; e++)
        s += a->query[e] * a->row[e];
    s *= a->d->scale;
    return a->d->soft_cap > 0 ? a->d->soft_cap * tanh(s / a->d->soft_cap) : s;
}

/* Fills the scores of a row; returns their maximum, NaN when there is one. */
static double fill_scores(const ragged *a, const range *r, int64_t h)
{
    double max = -INFINITY;
    for (int64_t j = r->first; j < r->end; j++) {
        a->scores[j] = score(a, r, h, j);
        if (a->scores[j] > max || isnan(a->scores[j]))
            max = a->scores[j];
    }
    return max;
}

/* sum = weighted sum of the values; all zeros when no key is seen. */
static void attend(const ragged *a, const range *r, int64_t h)
{
    double max = fill_scores(a, r, h), total = 0;
    memset(a->sum, 0, (size_t)a->value_size * sizeof *a->sum);
    if (max == -INFINITY)
        return;
    if (a->sinks) {
        const double sink = rx_load(a->sinks, h * a->sinks->stride[0]);
        if (sink > max || isnan(sink))
            max = sink;
        total = exp(sink - max);
    }
    for (int64_t j = r->first; j < r->end; j++) {
        if (a->scores[j] == -INFINITY)
            continue;
        const double w = exp(a->scores[j] - max);
        total += w;
        load_key(a, a->v, r, h, j);
        for (int64_t e = 0; e < a->value_size; e++)
            a->sum[e] += w * a->row[e];
    }
    for (int64_t e = 0; e < a->value_size; e++)
        a->sum[e] /= total;
}

static rlx_status prepare(const rx_call *c, ragged *a)
{
    *a = (ragged){.c = c, .d = c->attr, .q = &c->in[Q], .k = &c->in[K], .v = &c->in[V],
                  .out = &c->out[0], .sinks = rx_call_in(c, SINKS)};
    a->heads = a->q->dim[1];
    a->group = a->heads / a->k->dim[1];
    a->n_keys = c->in[PAGES].dim[1] * a->d->page;
    a->key_size = a->q->dim[2];
    a->value_size = a->v->dim[2];
    const int64_t most = a->key_size > a->value_size ? a->key_size : a->value_size;
    a->query = rx_call_array(c, a->key_size, sizeof *a->query);
    a->row = rx_call_array(c, most, sizeof *a->row);
    a->scores = rx_call_array(c, a->n_keys, sizeof *a->scores);
    a->sum = rx_call_array(c, a->value_size, sizeof *a->sum);
    return a->query && a->row && a->scores && a->sum ? RLX_OK : RLX_NO_MEMORY;
}

rlx_status rx_ref_ragged_attention(const rx_call *c)
{
    ragged a;
    RLX_TRY(prepare(c, &a));
    for (int64_t i = 0; i < a.q->dim[0]; i++) {
        const range r = row_range(&a, i);
        for (int64_t h = 0; h < a.heads; h++) {
            rx_load_row(a.q, i * a.heads + h, a.query);
            attend(&a, &r, h);
            for (int64_t e = 0; e < a.value_size; e++)
                rx_store(a.out, (i * a.heads + h) * a.value_size + e, a.sum[e]);
        }
    }
    return RLX_OK;
}
