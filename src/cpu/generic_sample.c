/* SPDX-License-Identifier: MIT */
/* sample without sorting the vocabulary, equal to cpu/ref/sample.c. Tokens are put into buckets by
 * the distance of their logit from the largest. The bucket of a cut or of the draw is found by
 * counts or sums of whole buckets, and only that bucket is sorted. */
#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "cpu/generic.h"
#include "cpu/ref/sample.h"

#define BUCKETS 2048
#define CHUNK 4096 /* tokens per work item */

typedef struct row_state {
    const rx_sampler *s;
    const float *x;
    int64_t n, best;   /* tokens; the first in order */
    float first, rate; /* its logit; buckets for a logit of 1 */
    uint64_t least;    /* weights below are cut by min-p; at least 1 */
    uint32_t *weights;
    uint16_t *buckets;
    rx_key *keys;      /* room for 2 n */
} row_state;

/* The first token in order and the range of finite logits; NaN counts as -infinity. */
static void find_first(row_state *r)
{
    float most = -INFINITY, low = INFINITY;
    for (int64_t i = 0; i < r->n; i++) {
        const float v = r->x[i];
        most = v > most ? v : most;
        low = v < low && v > -INFINITY ? v : low;
    }
    int64_t i = 0;
    while (i < r->n && most > -INFINITY && r->x[i] != most)
        i++;
    r->best = most > -INFINITY ? i : 0;
    r->first = most;
    /* Weights are 0 from 32 / log2(e) temperatures on. */
    float range = 22.3f * r->s->temperature;
    range = most - low < range ? most - low : range;
    r->rate = range > 0 && isfinite(range) ? (BUCKETS - 1) / range : 0;
}

static float logit_of(const row_state *r, int64_t i)
{
    return isnan(r->x[i]) ? -INFINITY : r->x[i];
}

static uint16_t bucket_of(const row_state *r, float v)
{
    if (v == r->first)
        return 0;
    const float place = (r->first - v) * r->rate;
    return place < BUCKETS - 1 ? (uint16_t)place : BUCKETS - 1; /* infinity times 0: the last */
}

static void fill_buckets(void *user, int64_t begin, int64_t end)
{
    const row_state *r = user;
    for (int64_t i = begin; i < end; i++)
        r->buckets[i] = bucket_of(r, logit_of(r, i));
}

static void fill_weights(void *user, int64_t begin, int64_t end)
{
    const row_state *r = user;
    fill_buckets(user, begin, end);
    for (int64_t i = begin; i < end; i++) {
        const float v = logit_of(r, i);
        uint32_t w = 0x80000000u;
        if (v != r->first)
            w = v > -INFINITY ? rx_token_weight(r->s, r->first - v) : 0;
        r->weights[i] = w >= r->least ? w : 0;
    }
}

/* The tokens of buckets first to last in order, to r->keys; returns how many. */
static int64_t sort_buckets(const row_state *r, uint16_t first, uint16_t last)
{
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++)
        if (r->buckets[i] >= first && r->buckets[i] <= last)
            r->keys[n++] = (rx_key){.f = (double)logit_of(r, i), .place = i};
    rx_sort_keys(r->keys, r->keys + n, n, true);
    return n;
}

/* With a top-k: draws from the first k in order. */
static int64_t draw_of_few(row_state *r, struct rx_pool *pool)
{
    uint32_t counts[BUCKETS] = {0};
    rx_parallel(pool, r->n, CHUNK, fill_buckets, r);
    for (int64_t i = 0; i < r->n; i++)
        counts[r->buckets[i]]++;
    int64_t sum = counts[0];
    uint16_t last = 0;
    while (sum < r->s->top_k && last < BUCKETS - 1)
        sum += counts[++last];
    return rx_draw_token(r->s, r->keys, sort_buckets(r, 0, last));
}

/* The first token in order at which the running sum of weights reaches `goal`; *sum is that sum. */
static int64_t reach(const row_state *r, const uint64_t *sums, uint64_t goal, uint64_t *sum)
{
    uint64_t running = 0;
    uint16_t b = 0;
    while (b < BUCKETS - 1 && running + sums[b] < goal)
        running += sums[b++];
    const int64_t n = sort_buckets(r, b, b);
    for (int64_t i = 0; i < n; i++) {
        running += r->weights[r->keys[i].place];
        *sum = running;
        if (running >= goal)
            return r->keys[i].place;
    }
    return r->best; /* not reached: the goal is at most the total */
}

static int64_t draw_of_all(row_state *r, struct rx_pool *pool)
{
    const rx_sampler *s = r->s;
    const uint64_t least = s->min_p > 0 ? (uint64_t)ceil((double)s->min_p * 0x1p31) : 1;
    if (least > 0x80000000u) /* only the very first is left, whatever is equal to it */
        return r->best;
    r->least = least;
    rx_parallel(pool, r->n, CHUNK, fill_weights, r);
    uint64_t sums[BUCKETS] = {0}, all = 0, rest;
    for (int64_t i = 0; i < r->n; i++)
        sums[r->buckets[i]] += r->weights[i];
    for (int b = 0; b < BUCKETS; b++)
        all += sums[b];
    if (s->top_p > 0 && s->top_p < 1) {
        uint64_t need = rx_scale_sum(all, (uint64_t)ceil((double)s->top_p * 0x1p24), 24, &rest);
        need += rest != 0;
        reach(r, sums, need ? need : 1, &all);
    }
    const uint32_t x = rx_philox_block(s->seed, s->block).v[0];
    uint64_t sum;
    return reach(r, sums, rx_scale_sum(all, x, 32, &rest) + 1, &sum);
}

static int64_t draw(row_state *r, struct rx_pool *pool)
{
    find_first(r);
    if (!(r->s->temperature >= 0x1p-126f) || r->n == 0)
        return r->best;
    if (r->s->top_k >= 1 && r->s->top_k < r->n)
        return draw_of_few(r, pool);
    return draw_of_all(r, pool);
}

rlx_status rx_generic_sample(const rx_call *c)
{
    const rx_view *x = &c->in[0], *y = &c->out[0];
    const int64_t rows = rx_view_elements(y), n = x->dim[x->rank - 1];
    if (x->dtype != RLX_F32)
        return RLX_UNSUPPORTED;
    if (c->probe)
        return RLX_OK;
    row_state r = {.n = n, .least = 1};
    if (rows > 0 && (rx_call_in(c, 2) || rx_sampler_make(c, 0).temperature >= 0x1p-126f)) {
        r.weights = rx_call_array(c, n, sizeof *r.weights);
        r.buckets = rx_call_array(c, n, sizeof *r.buckets);
        r.keys = rx_scratch_keys(c, n + 1);
        if (!r.weights || !r.buckets || !r.keys)
            return RLX_NO_MEMORY;
    }
    for (int64_t row = 0; row < rows; row++) {
        const rx_sampler s = rx_sampler_make(c, row);
        r.s = &s;
        r.x = (const float *)x->data + row * n;
        rx_store_int(y, row, draw(&r, c->pool));
    }
    return RLX_OK;
}
