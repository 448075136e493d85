/* SPDX-License-Identifier: MIT */
/* Sampling parameters, and drawing of a token on the host. */
#include "model/draw.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "model/model.h"

static bool in_range(double v, double lo, double hi)
{
    return v >= lo && v <= hi; /* false for NaN */
}

rlx_status rx_check_sampling(const rlx_sampling_desc *s, rlx_error *err)
{
    if (!in_range(s->temperature, 0, 1e6))
        return rx_fail(err, RLX_INVALID, "the temperature is %g; expected 0 to 1e6",
                       s->temperature);
    if (s->top_k < 0 || s->top_k > INT32_MAX)
        return rx_fail(err, RLX_INVALID, "top_k is %lld; expected 0 (all) or more",
                       (long long)s->top_k);
    if (!in_range(s->top_p, 0, 1) || !in_range(s->min_p, 0, 1))
        return rx_fail(err, RLX_INVALID, "top_p is %g and min_p is %g; expected 0 to 1", s->top_p,
                       s->min_p);
    if (!in_range(s->repeat_penalty, 0, 1e6))
        return rx_fail(err, RLX_INVALID, "the repeat penalty is %g; expected 0 to 1e6",
                       s->repeat_penalty);
    if (s->repeat_last < 0 || s->repeat_last > RX_RECENT)
        return rx_fail(err, RLX_INVALID, "the repeat penalty looks at %lld tokens; expected at "
                       "most %d", (long long)s->repeat_last, RX_RECENT);
    return RLX_OK;
}

/* Larger logits first, then smaller ids; NaN last. */
static int compare_candidates(const void *a, const void *b)
{
    const rx_candidate *p = a, *q = b;
    const float x = isnan(p->logit) ? -INFINITY : p->logit;
    const float y = isnan(q->logit) ? -INFINITY : q->logit;
    return x > y ? -1 : x < y ? 1 : p->token < q->token ? -1 : p->token > q->token;
}

static const rx_candidate *best_of(const rx_candidate *c, size_t n)
{
    const rx_candidate *best = &c[0];
    for (size_t i = 1; i < n; i++)
        if (compare_candidates(&c[i], best) < 0)
            best = &c[i];
    return best;
}

static double weight(const rlx_sampling_desc *o, float logit, float first)
{
    return isnan(logit) ? 0 : logit == first ? 1 : exp(((double)logit - (double)first) /
                                                       o->temperature);
}

/* The candidates that top-k, min-p and top-p leave, in order where that matters. */
static size_t cut(const rlx_sampling_desc *o, rx_candidate *c, size_t n, float first)
{
    if (o->top_k > 0 || (o->top_p > 0 && o->top_p < 1))
        qsort(c, n, sizeof *c, compare_candidates);
    if (o->top_k > 0 && (size_t)o->top_k < n)
        n = (size_t)o->top_k;
    size_t kept = 0;
    double sum = 0, running = 0;
    for (size_t i = 0; i < n; i++) {
        double w = weight(o, c[i].logit, first);
        if (w < o->min_p)
            continue;
        sum += w;
        c[kept++] = c[i];
    }
    if (!(o->top_p > 0 && o->top_p < 1))
        return kept;
    for (size_t i = 0; i < kept; i++) {
        running += weight(o, c[i].logit, first);
        if (running >= sum * o->top_p)
            return i + 1;
    }
    return kept;
}

int32_t rx_draw(const rlx_sampling_desc *o, uint64_t index, rx_candidate *c, size_t n)
{
    const rx_candidate best = *best_of(c, n);
    double sum = 0, running = 0;
    if (!(o->temperature > 0))
        return best.token;
    n = cut(o, c, n, best.logit);
    for (size_t i = 0; i < n; i++)
        sum += weight(o, c[i].logit, best.logit);
    const rx_philox x = rx_philox_block(o->seed, index);
    const double mark = sum * ((double)x.v[0] + (double)x.v[1] * 0x1p-32) * 0x1p-32;
    for (size_t i = 0; i < n; i++) {
        running += weight(o, c[i].logit, best.logit);
        if (running > mark)
            return c[i].token;
    }
    return best.token;
}
