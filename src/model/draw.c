/* SPDX-License-Identifier: MIT */
/* Checks of sampling parameters; sampling on the host. */
#include "model/draw.h"

#include <math.h>
#include <stdlib.h>

#include "base/philox.h"
#include "model/model.h"

static bool in_range(double v, double lo, double hi)
{
    return v >= lo && v <= hi; /* false for NaN */
}

/* Parameters of samplers that only the host has. */
static rlx_status check_host_sampling(const rlx_sampling_desc *s, rlx_error *err)
{
    const struct {
        const char *what;
        double value, most;
    } rows[] = {
        {"typical_p", s->typical_p, 1},           {"xtc_probability", s->xtc_probability, 1},
        {"xtc_threshold", s->xtc_threshold, 1},   {"dry_multiplier", s->dry_multiplier, 1e6},
        {"dry_base", s->dry_base, 1e6},           {"mirostat_tau", s->mirostat_tau, 1e6},
        {"mirostat_eta", s->mirostat_eta, 1e6},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (!in_range(rows[i].value, 0, rows[i].most))
            return rx_fail(err, RLX_INVALID, "%s is %g; expected 0 to %g", rows[i].what,
                           rows[i].value, rows[i].most);
    if (s->dry_base != 0 && s->dry_base < 1)
        return rx_fail(err, RLX_INVALID, "dry_base is %g; expected 1 or more", s->dry_base);
    if (s->dry_allowed_length < 0 || s->dry_last < 0)
        return rx_fail(err, RLX_INVALID, "dry_allowed_length is %lld and dry_last %lld; expected 0 "
                       "or more", (long long)s->dry_allowed_length, (long long)s->dry_last);
    if (s->mirostat != 0 && s->mirostat != 2)
        return rx_fail(err, RLX_INVALID, "mirostat is %lld; expected 0 (off) or 2, its version",
                       (long long)s->mirostat);
    if (s->n_dry_breakers && !s->dry_breakers)
        return rx_fail(err, RLX_INVALID, "the pointer to %zu breakers is NULL", s->n_dry_breakers);
    return RLX_OK;
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
    return check_host_sampling(s, err);
}

/* Larger logits first, then smaller ids; NaN last. */
static int compare_candidates(const void *a, const void *b)
{
    const rx_candidate *p = a, *q = b;
    const float x = isnan(p->logit) ? -INFINITY : p->logit;
    const float y = isnan(q->logit) ? -INFINITY : q->logit;
    return x > y ? -1 : x < y ? 1 : p->token < q->token ? -1 : p->token > q->token;
}

void rx_draw_sort(rx_candidate *c, size_t n)
{
    qsort(c, n, sizeof *c, compare_candidates);
}

const rx_candidate *rx_draw_best(const rx_candidate *c, size_t n)
{
    const rx_candidate *best = &c[0];
    for (size_t i = 1; i < n; i++)
        if (compare_candidates(&c[i], best) < 0)
            best = &c[i];
    return best;
}

double rx_draw_weight(const rlx_sampling_desc *o, float logit, float first)
{
    return isnan(logit) ? 0 : logit == first ? 1 : exp(((double)logit - (double)first) /
                                                       o->temperature);
}

/* Sorts only if top-k or top-p need it. */
size_t rx_draw_cut(const rlx_sampling_desc *o, rx_candidate *c, size_t n, float first)
{
    if (o->top_k > 0 || (o->top_p > 0 && o->top_p < 1))
        rx_draw_sort(c, n);
    if (o->top_k > 0 && (size_t)o->top_k < n)
        n = (size_t)o->top_k;
    size_t kept = 0;
    double sum = 0, running = 0;
    for (size_t i = 0; i < n; i++) {
        double w = rx_draw_weight(o, c[i].logit, first);
        if (w < o->min_p)
            continue;
        sum += w;
        c[kept++] = c[i];
    }
    if (!(o->top_p > 0 && o->top_p < 1))
        return kept;
    for (size_t i = 0; i < kept; i++) {
        running += rx_draw_weight(o, c[i].logit, first);
        if (running >= sum * o->top_p)
            return i + 1;
    }
    return kept;
}

int32_t rx_draw_at(const rlx_sampling_desc *o, double mark, const rx_candidate *c, size_t n,
                   float first)
{
    double sum = 0, running = 0;
    for (size_t i = 0; i < n; i++)
        sum += rx_draw_weight(o, c[i].logit, first);
    for (size_t i = 0; i < n; i++) {
        running += rx_draw_weight(o, c[i].logit, first);
        if (running > mark * sum)
            return c[i].token;
    }
    return rx_draw_best(c, n)->token;
}

int32_t rx_draw(const rlx_sampling_desc *o, uint64_t index, rx_candidate *c, size_t n)
{
    const rx_candidate best = *rx_draw_best(c, n);
    if (!(o->temperature > 0))
        return best.token;
    n = rx_draw_cut(o, c, n, best.logit);
    const rx_philox x = rx_philox_block(o->seed, index);
    return rx_draw_at(o, ((double)x.v[0] + (double)x.v[1] * 0x1p-32) * 0x1p-32, c, n, best.logit);
}

void rx_draw_penalise(const rlx_sampling_desc *o, const int32_t *tokens, size_t n, float *logits)
{
    const float penalty = (float)o->repeat_penalty;
    size_t from = n < (size_t)o->repeat_last ? 0 : n - (size_t)o->repeat_last;
    for (size_t i = from; i < n && penalty != 1; i++) {
        bool again = false;
        for (size_t j = from; j < i && !again; j++)
            again = tokens[j] == tokens[i];
        float *l = &logits[tokens[i]];
        if (!again)
            *l = *l > 0 ? *l / penalty : *l * penalty;
    }
}
