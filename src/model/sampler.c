/* SPDX-License-Identifier: MIT */
/* Samplers on the host; see sampler.h. */
#include "model/sampler.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/mem.h"
#include "base/philox.h"

/* A candidate and the distance of its surprisal from the entropy. */
typedef struct deviation {
    double far;
    uint32_t place;
} deviation;

struct rx_sampler {
    rlx_sampling_desc o;
    size_t vocabulary;
    float *logits;
    rx_candidate *candidates;
    deviation *far;      /* of typical: [vocabulary]; else NULL */
    uint8_t *breaks;     /* of DRY: [vocabulary], tokens that end a repetition; else NULL */
    size_t *matches;     /* of DRY, [tokens] */
    size_t tokens;
    uint32_t *repeats;   /* of DRY: [vocabulary], the longest repetition a token would extend */
};

static bool is_part(double p)
{
    return p > 0 && p < 1;
}

bool rx_sampling_on_host(const rlx_sampling_desc *o)
{
    return is_part(o->typical_p) || o->xtc_probability > 0 || o->dry_multiplier > 0 || o->mirostat;
}

float *rx_sampler_logits(rx_sampler *s)
{
    return s->logits;
}

/* ---- Creation -------------------------------------------------------------------------------- */

static void set_default(double *v, double dflt)
{
    if (*v == 0)
        *v = dflt;
}

static bool contains(const char *text, size_t n, const char *part)
{
    const size_t length = strlen(part);
    for (size_t i = 0; length && i + length <= n; i++)
        if (!memcmp(text + i, part, length))
            return true;
    return false;
}

/* Compares decoded tokens, since vocabularies encode bytes in various ways. */
static rlx_status find_breakers(rx_sampler *s, const rlx_tokenizer *t, rlx_error *err)
{
    static const char *const usual[] = {"\n", ":", "\"", "*"};
    const char *const *list = s->o.dry_breakers ? s->o.dry_breakers : usual;
    const size_t n = s->o.dry_breakers ? s->o.n_dry_breakers : sizeof usual / sizeof usual[0];
    const size_t known = t ? (size_t)rlx_tokenizer_n_tokens(t) : 0;
    char text[512];
    for (size_t id = 0; id < known && id < s->vocabulary; id++) {
        const int32_t one = (int32_t)id;
        rlx_text out = {.data = text, .cap = sizeof text};
        RLX_TRY(rlx_tokenizer_decode(t, &one, 1, 0, &out, err));
        const size_t length = out.n < sizeof text ? out.n : sizeof text;
        for (size_t i = 0; i < n && !s->breaks[id]; i++)
            s->breaks[id] = contains(text, length, list[i]);
    }
    return RLX_OK;
}

static rlx_status fill(rx_sampler *s, const rlx_tokenizer *t, rlx_error *err)
{
    const size_t n = s->vocabulary;
    const bool dry = s->o.dry_multiplier > 0, typical = is_part(s->o.typical_p);
    s->logits = rx_alloc_array(n, sizeof *s->logits);
    s->candidates = rx_alloc_array(n, sizeof *s->candidates);
    s->far = typical ? rx_alloc_array(n, sizeof *s->far) : NULL;
    s->breaks = dry ? rx_alloc_zero(n) : NULL;
    s->repeats = dry ? rx_alloc_array_zero(n, sizeof *s->repeats) : NULL;
    s->matches = dry ? rx_alloc_array(s->tokens, sizeof *s->matches) : NULL;
    if (!s->logits || !s->candidates || (typical && !s->far) ||
        (dry && (!s->breaks || !s->repeats || !s->matches)))
        return rx_fail_memory(err, "a sampler", n * sizeof *s->candidates);
    return dry ? find_breakers(s, t, err) : RLX_OK;
}

rlx_status rx_sampler_create(const rlx_sampling_desc *o, const rx_sampler_sizes *sizes,
                             rx_sampler **out, rlx_error *err)
{
    *out = NULL;
    if (!rx_sampling_on_host(o))
        return RLX_OK;
    rx_sampler *s = rx_alloc_zero(sizeof *s);
    if (!s)
        return rx_fail_memory(err, "a sampler", sizeof *s);
    s->o = *o;
    s->vocabulary = sizes->vocabulary;
    s->tokens = sizes->tokens + 1;
    set_default(&s->o.xtc_threshold, 0.1);
    set_default(&s->o.dry_base, 1.75);
    set_default(&s->o.mirostat_tau, 5);
    set_default(&s->o.mirostat_eta, 0.1);
    if (!s->o.dry_allowed_length)
        s->o.dry_allowed_length = 2;
    const rlx_status st = fill(s, sizes->tokenizer, err);
    s->o.dry_breakers = NULL; /* the caller's */
    if (st == RLX_OK)
        *out = s;
    else
        rx_sampler_destroy(s);
    return st;
}

void rx_sampler_destroy(rx_sampler *s)
{
    if (!s)
        return;
    rx_free(s->logits);
    rx_free(s->candidates);
    rx_free(s->far);
    rx_free(s->breaks);
    rx_free(s->repeats);
    rx_free(s->matches);
    rx_free(s);
}

/* ---- DRY ------------------------------------------------------------------------------------- */

/* The Z function of the reversed tokens: matches[i] is the length of the longest common suffix of
 * the whole text and of the text without its last i tokens. */
static void count_matches(const int32_t *last, size_t n, size_t *matches)
{
    size_t left = 0, right = 0;
    for (size_t i = 1; i < n; i++) {
        size_t same = 0;
        if (i < right)
            same = matches[i - left] < right - i ? matches[i - left] : right - i;
        while (i + same < n && last[-(ptrdiff_t)same] == last[-(ptrdiff_t)(i + same)])
            same++;
        matches[i] = same;
        if (i + same > right) {
            left = i;
            right = i + same;
        }
    }
}

/* Length of the suffix without a breaker, which bounds repetitions. */
static size_t unbroken(const rx_sampler *s, const int32_t *last, size_t n)
{
    size_t i = 0;
    while (i < n && !s->breaks[last[-(ptrdiff_t)i]])
        i++;
    return i;
}

static void take_penalty(const rx_sampler *s, float *logits, int32_t token)
{
    const double beyond = (double)s->repeats[token] - (double)s->o.dry_allowed_length;
    const double penalty = s->o.dry_multiplier * pow(s->o.dry_base, beyond);
    logits[token] = (float)((double)logits[token] - fmin(penalty, 1e30));
}

/* DRY ("don't repeat yourself"): penalises tokens that would extend a repeated suffix. */
static void penalise_repeats(rx_sampler *s, float *logits, const int32_t *tokens, size_t n)
{
    if (s->o.dry_last && n > (size_t)s->o.dry_last) {
        tokens += n - (size_t)s->o.dry_last;
        n = (size_t)s->o.dry_last;
    }
    if (n < 2 || n > s->tokens)
        return;
    const int32_t *last = tokens + n - 1;
    const size_t most = unbroken(s, last, n), least = (size_t)s->o.dry_allowed_length;
    if (most < least)
        return;
    count_matches(last, n, s->matches);
    for (size_t i = 1; i < n; i++) {
        const int32_t next = last[-(ptrdiff_t)i + 1];
        const size_t same = s->matches[i] < most ? s->matches[i] : most;
        if (same >= least && !s->breaks[next] && same > s->repeats[next])
            s->repeats[next] = (uint32_t)same;
    }
    for (size_t i = 1; i < n; i++) {
        const int32_t next = last[-(ptrdiff_t)i + 1];
        if (s->repeats[next])
            take_penalty(s, logits, next);
        s->repeats[next] = 0;
    }
}

/* ---- Typical, XTC, Mirostat ------------------------------------------------------------------ */

static double sum_of(const rx_sampler *s, size_t n, float first)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += rx_draw_weight(&s->o, s->candidates[i].logit, first);
    return sum;
}

static int compare_far(const void *a, const void *b)
{
    const deviation *p = a, *q = b;
    return p->far < q->far ? -1 : p->far > q->far ? 1 : p->place < q->place ? -1 : 1;
}

/* Meister, Pimentel, Wiher, Cotterell: "Locally typical sampling" (2022). Keeps the order of the
 * candidates. */
static size_t keep_typical(rx_sampler *s, size_t n, float first)
{
    const double sum = sum_of(s, n, first);
    double entropy = 0, kept = 0;
    size_t i = 0, k = 0;
    for (i = 0; i < n; i++) {
        const double p = rx_draw_weight(&s->o, s->candidates[i].logit, first) / sum;
        entropy -= p > 0 ? p * log(p) : 0;
    }
    for (i = 0; i < n; i++) {
        const double p = rx_draw_weight(&s->o, s->candidates[i].logit, first) / sum;
        s->far[i] = (deviation){p > 0 ? fabs(-log(p) - entropy) : INFINITY, (uint32_t)i};
    }
    qsort(s->far, n, sizeof *s->far, compare_far);
    for (i = 0; i < n && kept <= s->o.typical_p; i++)
        kept += rx_draw_weight(&s->o, s->candidates[s->far[i].place].logit, first) / sum;
    for (; i < n; i++)
        s->candidates[s->far[i].place].token = -1;
    for (i = 0; i < n; i++)
        if (s->candidates[i].token >= 0)
            s->candidates[k++] = s->candidates[i];
    return k;
}

/* XTC ("exclude top choices"): of the candidates above the threshold only the least likely one
 * stays. */
static size_t leave_out_top(rx_sampler *s, size_t n, float first)
{
    const double least = s->o.xtc_threshold * sum_of(s, n, first);
    const rx_candidate *kept = NULL;
    rx_candidate *c = s->candidates, last;
    size_t n_above = 0, k = 0;
    for (size_t i = 0; i < n; i++) {
        if (rx_draw_weight(&s->o, c[i].logit, first) < least)
            continue;
        n_above++;
        if (!kept || c[i].logit <= kept->logit)
            kept = &c[i];
    }
    if (n_above < 2)
        return n;
    last = *kept;
    for (size_t i = 0; i < n; i++)
        if (c[i].token == last.token || rx_draw_weight(&s->o, c[i].logit, first) < least)
            c[k++] = c[i];
    return k;
}

/* Basu et al.: "Mirostat: a neural text decoding algorithm that directly controls perplexity"
 * (2021), version 2: drops tokens with a surprisal above mu, and adapts mu to the token drawn. */
static int32_t draw_mirostat(rx_sampler *s, rx_sampler_state *state, double mark, size_t n,
                             rx_candidate best)
{
    rx_candidate *c = s->candidates;
    const double sum = sum_of(s, n, best.logit);
    const double mu = state->mu;
    size_t k = 0;
    for (size_t i = 0; i < n; i++) {
        const double p = rx_draw_weight(&s->o, c[i].logit, best.logit) / sum;
        if (p > 0 && -log2(p) <= mu)
            c[k++] = c[i];
    }
    if (!k)
        c[k++] = best;
    const int32_t token = rx_draw_at(&s->o, mark, c, k, best.logit);
    const double left = sum_of(s, k, best.logit);
    for (size_t i = 0; i < k; i++)
        if (c[i].token == token) {
            const double p = rx_draw_weight(&s->o, c[i].logit, best.logit) / left;
            state->mu = mu - s->o.mirostat_eta * (-log2(p) - s->o.mirostat_tau);
        }
    return token;
}

/* ---- Drawing --------------------------------------------------------------------------------- */

static size_t list_candidates(rx_sampler *s, const float *logits, const uint32_t *bits)
{
    size_t n = 0;
    for (size_t i = 0; i < s->vocabulary; i++)
        if (!bits || bits[i / 32] >> i % 32 & 1)
            s->candidates[n++] = (rx_candidate){logits[i], (int32_t)i};
    return n;
}

static double unit(uint32_t high, uint32_t low)
{
    return ((double)high + (double)low * 0x1p-32) * 0x1p-32;
}

int32_t rx_sampler_draw(rx_sampler *s, rx_sampler_state *state, uint64_t index, float *logits,
                        const uint32_t *bits, const int32_t *tokens, size_t n_tokens)
{
    rlx_sampling_desc rest = s->o; /* without top-k, which comes before typical */
    if (s->o.dry_multiplier > 0)
        penalise_repeats(s, logits, tokens, n_tokens);
    size_t n = list_candidates(s, logits, bits);
    const rx_candidate best = n ? *rx_draw_best(s->candidates, n) : (rx_candidate){0, 0};
    if (!n || !(s->o.temperature > 0))
        return best.token;
    const rx_philox x = rx_philox_block(s->o.seed, index);
    const double mark = unit(x.v[0], x.v[1]);
    if (state->mu == 0)
        state->mu = 2 * s->o.mirostat_tau;
    state->before = state->mu;
    if (s->o.mirostat)
        return draw_mirostat(s, state, mark, n, best);
    rest.top_k = 0;
    if (s->o.top_k > 0 && (size_t)s->o.top_k < n) {
        rx_draw_sort(s->candidates, n);
        n = (size_t)s->o.top_k;
    }
    if (s->far)
        n = keep_typical(s, n, best.logit);
    const float first = rx_draw_best(s->candidates, n)->logit;
    n = rx_draw_cut(&rest, s->candidates, n, first);
    if (s->o.xtc_probability > 0 && unit(x.v[2], x.v[3]) < s->o.xtc_probability)
        n = leave_out_top(s, n, first);
    return rx_draw_at(&s->o, mark, s->candidates, n, first);
}
