/* SPDX-License-Identifier: MIT */
/* The samplers of the host against plain references in double precision: of each the whole
 * distribution of random logits, drawn from thousands of times, the steps of Mirostat, and the
 * penalties of DRY found by looking for every repetition. Then beam search against one that
 * computes everything anew, and samplers in contexts and engines. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "model/sampler.h"
#include "rlx/rlx.h"
#include "support/tiny_model.h"

#define WORDS 37

static uint64_t noise = 88172645463325252u;

static double uniform(void)
{
    noise ^= noise << 13;
    noise ^= noise >> 7;
    noise ^= noise << 17;
    return (double)(noise >> 11) * 0x1p-53;
}

/* ---- Distributions --------------------------------------------------------------------------- */

typedef struct dist {
    double p[WORDS];
} dist;

static void normalise(dist *d)
{
    double sum = 0;
    for (int i = 0; i < WORDS; i++)
        sum += d->p[i];
    for (int i = 0; i < WORDS; i++)
        d->p[i] /= sum;
}

static dist softmax(const float *logits, double temperature)
{
    dist d;
    for (int i = 0; i < WORDS; i++)
        d.p[i] = exp((double)logits[i] / temperature);
    normalise(&d);
    return d;
}

/* How many tokens have a larger key (of equal ones: and a smaller id). */
static int rank_of(const double *key, int i)
{
    int n = 0;
    for (int j = 0; j < WORDS; j++)
        n += key[j] > key[i] || (key[j] == key[i] && j < i);
    return n;
}

static void top_k(dist *d, int k)
{
    const dist old = *d;
    for (int i = 0; i < WORDS; i++)
        if (rank_of(old.p, i) >= k)
            d->p[i] = 0;
    normalise(d);
}

/* Tokens in the order of a key until they have this probability. */
static void until(dist *d, const double *key, double most)
{
    const dist old = *d;
    for (int i = 0; i < WORDS; i++) {
        double before = 0;
        for (int j = 0; j < WORDS; j++)
            if (rank_of(key, j) < rank_of(key, i))
                before += old.p[j];
        if (before > most)
            d->p[i] = 0;
    }
    normalise(d);
}

static void typical(dist *d, double most)
{
    double entropy = 0, key[WORDS];
    for (int i = 0; i < WORDS; i++)
        entropy -= d->p[i] > 0 ? d->p[i] * log(d->p[i]) : 0;
    for (int i = 0; i < WORDS; i++)
        key[i] = d->p[i] > 0 ? -fabs(-log(d->p[i]) - entropy) : -INFINITY;
    until(d, key, most);
}

static void min_p(dist *d, double least)
{
    double most = 0;
    for (int i = 0; i < WORDS; i++)
        most = fmax(most, d->p[i]);
    for (int i = 0; i < WORDS; i++)
        if (d->p[i] < least * most)
            d->p[i] = 0;
    normalise(d);
}

/* The mean of leaving out and not. */
static void xtc(dist *d, double probability, double threshold)
{
    dist cut = *d;
    int last = -1, n = 0;
    for (int i = 0; i < WORDS; i++)
        if (d->p[i] >= threshold) {
            n++;
            if (last < 0 || rank_of(d->p, i) > rank_of(d->p, last))
                last = i;
        }
    for (int i = 0; i < WORDS && n > 1; i++)
        if (d->p[i] >= threshold && i != last)
            cut.p[i] = 0;
    normalise(&cut);
    for (int i = 0; i < WORDS; i++)
        d->p[i] = (1 - probability) * d->p[i] + probability * cut.p[i];
}

static void mirostat(dist *d, double mu)
{
    const dist old = *d;
    bool any = false;
    for (int i = 0; i < WORDS; i++) {
        const bool stays = -log2(old.p[i]) <= mu;
        any = any || stays;
        d->p[i] = stays ? old.p[i] : 0;
    }
    for (int i = 0; i < WORDS && !any; i++)
        d->p[i] = rank_of(old.p, i) == 0;
    normalise(d);
}

static dist reference(const rlx_sampling_desc *o, const float *logits)
{
    dist d = softmax(logits, o->temperature);
    if (o->mirostat) {
        mirostat(&d, 2 * o->mirostat_tau);
        return d;
    }
    if (o->top_k)
        top_k(&d, (int)o->top_k);
    if (o->typical_p > 0)
        typical(&d, o->typical_p);
    if (o->min_p > 0)
        min_p(&d, o->min_p);
    if (o->xtc_probability > 0)
        xtc(&d, o->xtc_probability, o->xtc_threshold);
    return d;
}

static rx_sampler *make(const rlx_sampling_desc *o)
{
    const rx_sampler_sizes sizes = {NULL, WORDS, 64};
    rx_sampler *s = NULL;
    rlx_error err = {0};
    CHECK_OK(rx_sampler_create(o, &sizes, &s, &err), &err);
    return s;
}

static void random_logits(float *logits, double wild)
{
    for (int i = 0; i < WORDS; i++)
        logits[i] = (float)((uniform() + uniform() + uniform() - 1.5) * wild);
}

/* Draws with one random block after the other; chi-squared of what came. */
static void check_distribution(const rlx_sampling_desc *o, const float *given)
{
    enum { DRAWS = 6000 };
    const dist want = reference(o, given);
    int count[WORDS] = {0}, kinds = 0, wrong = 0;
    double chi = 0;
    rx_sampler *s = make(o);
    for (uint64_t i = 0; i < DRAWS; i++) {
        float logits[WORDS];
        rx_sampler_state state = {0};
        memcpy(logits, given, sizeof logits);
        count[rx_sampler_draw(s, &state, i, logits, NULL, NULL, 0)]++;
    }
    for (int i = 0; i < WORDS; i++) {
        const double expected = want.p[i] * DRAWS;
        wrong += want.p[i] == 0 && count[i];
        kinds += expected > 1;
        if (expected > 1)
            chi += (count[i] - expected) * (count[i] - expected) / expected;
    }
    CHECK(!wrong);
    if (!CHECK(chi < kinds + 6 * sqrt(2.0 * kinds) + 12))
        printf("    chi-squared %g with %d kinds\n", chi, kinds);
    rx_sampler_destroy(s);
}

static void test_distributions(void)
{
    const rlx_sampling_desc all[] = {
        {.typical_p = 0.2}, {.typical_p = 0.7}, {.typical_p = 0.95, .top_k = 12},
        {.typical_p = 0.6, .min_p = 0.3}, {.xtc_probability = 1, .xtc_threshold = 0.1},
        {.xtc_probability = 0.4, .xtc_threshold = 0.05},
        {.xtc_probability = 0.5, .xtc_threshold = 0.02, .top_k = 9, .min_p = 0.01},
        {.xtc_probability = 1, .xtc_threshold = 0.9}, {.mirostat = 2, .mirostat_tau = 0.6},
        {.mirostat = 2, .mirostat_tau = 2.2}, {.mirostat = 2, .mirostat_tau = 0.01},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int k = 0; k < 3; k++) {
            float logits[WORDS];
            rlx_sampling_desc o = all[i];
            o.struct_size = sizeof o;
            o.temperature = k == 0 ? 1 : k == 1 ? 0.6 : 1.7;
            o.seed = 1000 + i;
            random_logits(logits, 4);
            check_distribution(&o, logits);
        }
}

/* ---- Mirostat from token to token ------------------------------------------------------------ */

static void test_mirostat(void)
{
    const rlx_sampling_desc o = {RLX_INIT(rlx_sampling_desc), .temperature = 1.3, .mirostat = 2,
                                 .mirostat_tau = 2.5, .mirostat_eta = 0.3, .seed = 9};
    rx_sampler_state state = {0};
    rx_sampler *s = make(&o);
    double mu = 5;
    for (uint64_t i = 0; i < 300; i++) {
        float logits[WORDS], given[WORDS];
        random_logits(given, 5);
        memcpy(logits, given, sizeof logits);
        const int32_t token = rx_sampler_draw(s, &state, i, logits, NULL, NULL, 0);
        dist d = softmax(given, o.temperature);
        mirostat(&d, mu);
        mu -= o.mirostat_eta * (-log2(d.p[token]) - o.mirostat_tau);
        CHECK(d.p[token] > 0 && fabs(state.mu - mu) < 1e-9);
        state.mu = mu;
    }
    rx_sampler_destroy(s);
}

/* ---- DRY ------------------------------------------------------------------------------------- */

/* The longest run of tokens before each place that are also the last ones. */
static void dry_reference(const rlx_sampling_desc *o, const int32_t *tokens, int n,
                          const bool *breaks, double *logits)
{
    int longest[WORDS] = {0};
    const int from = o->dry_last && n > o->dry_last ? n - (int)o->dry_last : 0;
    for (int at = from + 1; at < n; at++) {
        int same = 0;
        while (at - 1 - same >= from && tokens[at - 1 - same] == tokens[n - 1 - same] &&
               !breaks[tokens[n - 1 - same]])
            same++;
        if (same > longest[tokens[at]] && !breaks[tokens[at]])
            longest[tokens[at]] = same;
    }
    for (int i = 0; i < WORDS; i++)
        if (longest[i] >= o->dry_allowed_length)
            logits[i] -= o->dry_multiplier *
                         pow(o->dry_base, longest[i] - (double)o->dry_allowed_length);
}

static void check_dry(const rlx_sampling_desc *o, const rlx_tokenizer *t, const bool *breaks)
{
    const rx_sampler_sizes sizes = {t, WORDS, 64};
    int32_t tokens[64];
    rx_sampler *s = NULL;
    rlx_error err = {0};
    int wrong = 0;
    CHECK_OK(rx_sampler_create(o, &sizes, &s, &err), &err);
    for (int trial = 0; trial < 300; trial++) {
        const int n = (int)(uniform() * 64), kinds = 2 + trial % 5;
        float logits[WORDS];
        double want[WORDS];
        rx_sampler_state state = {0};
        int best = 0;
        random_logits(logits, 3);
        for (int i = 0; i < WORDS; i++)
            want[i] = (double)logits[i];
        for (int i = 0; i < n; i++)
            tokens[i] = 8 + (int32_t)(uniform() * kinds);
        dry_reference(o, tokens, n, breaks, want);
        const int32_t token = rx_sampler_draw(s, &state, 0, logits, NULL, tokens, (size_t)n);
        for (int i = 0; i < WORDS; i++) {
            wrong += fabs((double)logits[i] - want[i]) > 1e-6 * (1 + fabs(want[i]));
            best = want[i] > want[best] ? i : best;
        }
        wrong += token != best;
    }
    CHECK(wrong == 0);
    rx_sampler_destroy(s);
}

static void test_dry(const rlx_model *m)
{
    const bool nothing[WORDS] = {0}, newline[WORDS] = {[10] = true};
    static const char *const none[] = {""}, *const line[] = {"\n"};
    rlx_sampling_desc o = {RLX_INIT(rlx_sampling_desc), .dry_multiplier = 0.8, .dry_base = 1.75,
                           .dry_allowed_length = 2};
    check_dry(&o, NULL, nothing);
    o.dry_breakers = line;
    o.n_dry_breakers = 1;
    check_dry(&o, rlx_model_tokenizer(m), newline); /* token 10 is a newline */
    o.dry_breakers = none;
    o.dry_allowed_length = 1;
    o.dry_last = 20;
    o.dry_multiplier = 3;
    o.dry_base = 1.1;
    check_dry(&o, rlx_model_tokenizer(m), nothing);
}

/* ---- In contexts and engines ----------------------------------------------------------------- */

static const rlx_sampling_desc lively = {
    RLX_INIT(rlx_sampling_desc), .temperature = 1.2, .seed = 5, .typical_p = 0.9,
    .xtc_probability = 0.5, .dry_multiplier = 2};

static size_t generate(rlx_model *m, const rlx_sampling_desc *o, rlx_grammar *g, int32_t *out)
{
    rlx_context *c = NULL;
    rlx_error err = {0};
    size_t n = 0, prompt = strlen("abcabcabc");
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "abcabcabc",
                                 .max_tokens = 30, .sampling = o, .ignore_end = !g, .grammar = g};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_generate(c, &d, NULL, NULL, NULL, &err), &err);
    const int32_t *tokens = rlx_context_tokens(c, 0, &n);
    n = n > prompt ? n - prompt : 0;
    memcpy(out, tokens + prompt, n * sizeof *out);
    rlx_context_destroy(c);
    return n;
}

static size_t request(rlx_model *m, const rlx_sampling_desc *o, int32_t *out, float *log_probs)
{
    const rlx_engine_desc how = {RLX_INIT(rlx_engine_desc), .sequences = 2, .no_thread = true};
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = "abcabcabc",
                                .max_tokens = 30, .sampling = o, .ignore_end = true,
                                .log_probs = true};
    rlx_engine *e = NULL;
    rlx_request *r = NULL;
    rlx_error err = {0};
    rlx_request_piece p;
    size_t n = 0;
    bool more = true;
    CHECK_OK(rlx_engine_create(m, &how, &e, &err), &err);
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    while (rlx_request_next(r, -1, &p, &more, &err) == RLX_OK && more)
        if (p.token >= 0) {
            out[n] = p.token;
            log_probs[n++] = p.log_prob;
        }
    rlx_request_destroy(r);
    rlx_engine_destroy(e);
    return n;
}

/* Greedy with DRY has no random numbers: both ways give the same tokens, and others than without.
 * The log-probabilities are those of the tokens that were drawn. */
static void test_both(rlx_model *m)
{
    const rlx_sampling_desc greedy = {RLX_INIT(rlx_sampling_desc)};
    const rlx_sampling_desc dry = {RLX_INIT(rlx_sampling_desc), .dry_multiplier = 5,
                                   .dry_allowed_length = 1, .repeat_penalty = 1.1};
    int32_t a[40], b[40], plain[40], all[64];
    float log_probs[40], scores[64];
    rlx_error err = {0};
    generate(m, &greedy, NULL, plain);
    const size_t n = generate(m, &dry, NULL, a);
    CHECK(n == 30 && request(m, &dry, b, log_probs) == n && !memcmp(a, b, n * sizeof *a));
    CHECK(memcmp(a, plain, n * sizeof *a) != 0);
    CHECK(generate(m, &lively, NULL, a) == 30 && generate(m, &lively, NULL, b) == 30);
    CHECK(!memcmp(a, b, 30 * sizeof *a));
    CHECK(request(m, &lively, b, log_probs) == 30);
    for (int i = 0; i < 9; i++)
        all[i] = "abcabcabc"[i];
    memcpy(all + 9, b, 30 * sizeof *b);
    CHECK_OK(rlx_score(m, all, 39, scores, &err), &err);
    double far = 0;
    for (int i = 0; i < 30; i++)
        far = fmax(far, fabs((double)scores[9 + i] - (double)log_probs[i]));
    if (!CHECK(far < 1e-3))
        printf("    log-probabilities are off by %g\n", far);
}

static void test_grammar(rlx_model *m)
{
    rlx_grammar *g = NULL;
    rlx_error err = {0};
    int32_t out[40];
    rlx_sampling_desc o = lively;
    o.mirostat = 2;
    CHECK_OK(rlx_grammar_from_regex("[a-f]{10,30}", 12, NULL, &g, &err), &err);
    const size_t n = generate(m, &o, g, out);
    CHECK(n >= 10);
    for (size_t i = 0; i < n; i++)
        CHECK((out[i] >= 'a' && out[i] <= 'f') || out[i] == TINY_END);
    rlx_grammar_destroy(g);
}

static void test_wrong(rlx_model *m)
{
    const struct {
        rlx_sampling_desc o;
        const char *part;
    } all[] = {
        {{.typical_p = 1.5}, "typical_p is 1.5"}, {{.xtc_probability = -1}, "xtc_probability"},
        {{.mirostat = 1}, "mirostat is 1; expected 0 (off) or 2"},
        {{.dry_multiplier = 1, .dry_base = 0.5}, "dry_base is 0.5; expected 1 or more"},
        {{.dry_last = -1}, "dry_last -1"}, {{.n_dry_breakers = 2}, "2 breakers is NULL"},
    };
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        rlx_sampling_desc o = all[i].o;
        o.struct_size = sizeof o;
        CHECK_FAILS(rlx_context_set_sampling(c, &o, &err), RLX_INVALID, &err, all[i].part);
    }
    rlx_context_destroy(c);
}

/* ---- Beams ----------------------------------------------------------------------------------- */

typedef struct path {
    int32_t tokens[64];
    double sum;
} path;

/* A search that scores each continuation from the start. */
static void naive_beams(rlx_model *m, const int32_t *prompt, int n, int width, int steps, path *out)
{
    path live[8], next[8];
    int n_live = 1;
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    memcpy(live[0].tokens, prompt, (size_t)n * sizeof *prompt);
    live[0].sum = 0;
    for (int step = 0; step < steps; step++) {
        int n_next = 0;
        for (int b = 0; b < n_live; b++) {
            float logits[TINY_VOCABULARY];
            double sum = 0;
            CHECK_OK(rlx_context_set_tokens(c, 0, NULL, 0, &err), &err);
            CHECK_OK(rlx_context_set_tokens(c, 0, live[b].tokens, (size_t)(n + step), &err), &err);
            CHECK_OK(rlx_context_step(c, -1, NULL, &err), &err);
            CHECK_OK(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), &err);
            for (int i = 0; i < TINY_VOCABULARY; i++)
                sum += exp((double)logits[i]);
            for (int i = 0; i < TINY_VOCABULARY; i++) {
                path p = live[b];
                p.tokens[n + step] = i;
                p.sum += (double)logits[i] - log(sum);
                int at = n_next < width ? n_next++ : width;
                for (; at > 0 && p.sum > next[at - 1].sum; at--)
                    if (at < width)
                        next[at] = next[at - 1];
                if (at < width)
                    next[at] = p;
            }
        }
        memcpy(live, next, sizeof live);
        n_live = n_next;
    }
    *out = live[0];
    rlx_context_destroy(c);
}

static void test_beams(blob file, int width)
{
    enum { STEPS = 9 };
    const rlx_model_desc how = {RLX_INIT(rlx_model_desc), .device = "cpu", .sequences = width,
                                .cache = RLX_F32};
    const int32_t prompt[] = {'a', 'b', 'c', 'd', 'a'};
    const rlx_beam_desc d = {RLX_INIT(rlx_beam_desc), .tokens = prompt, .n_tokens = 5,
                             .max_tokens = STEPS, .ignore_end = true};
    int32_t out[STEPS];
    size_t n = 0;
    double mean = 0;
    path want;
    rlx_model *m = NULL;
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &how, &m, &err), &err);
    naive_beams(m, prompt, 5, width, STEPS, &want);
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_beam_search(c, &d, out, STEPS, &n, &mean, &err), &err);
    CHECK(n == STEPS && !memcmp(out, want.tokens + 5, sizeof out));
    if (!CHECK(fabs(mean * STEPS - want.sum) < 1e-4))
        printf("    sum %g, expected %g\n", mean * STEPS, want.sum);
    rlx_context_destroy(c);
    rlx_model_close(m);
}

int main(void)
{
    const rlx_model_desc how = {RLX_INIT(rlx_model_desc), .device = "cpu", .context = 64};
    blob file = tiny_model(TINY_LLAMA, 3);
    rlx_model *m = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &how, &m, &err), &err);
    test_distributions();
    test_mirostat();
    test_dry(m);
    test_both(m);
    test_grammar(m);
    test_wrong(m);
    rlx_model_close(m);
    for (int width = 1; width <= 6; width += width == 1 ? 2 : 3)
        test_beams(file, width);
    blob_free(&file);
    return check_done();
}
