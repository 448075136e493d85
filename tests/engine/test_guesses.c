/* SPDX-License-Identifier: MIT */
/* Speculation: guesses from repeated text; how many are worth their rows; tokens and
 * log-probabilities of requests, greedy and sampled, alone and in mixes, are bit for bit those
 * without guesses (policy `exact`), many of which are right; what is drawn has the distribution of
 * the model; ends, limits and pages. On RLX_TEST_DEVICE, or the CPU. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "engine/guess.h"
#include "rlx/rlx.h"
#include "support/share.h"

#define TOKENS 40

static rlx_error err;
static rlx_model *model, *draft; /* draft: used by make_engine, where it is set */
static bool is_gpu; /* slow in software */

/* ---- Parts ----------------------------------------------------------------------------------- */

static size_t guess(const char *text, char *out, size_t most)
{
    int32_t tokens[64], found[64];
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++)
        tokens[i] = text[i];
    const size_t k = rx_guess_from_text(tokens, n, found, most);
    for (size_t i = 0; i < k; i++)
        out[i] = (char)found[i];
    out[k] = 0;
    return k;
}

static void test_text(void)
{
    char out[64];
    CHECK(guess("the cat. the c", out, 3) == 3 && !strcmp(out, "at."));
    CHECK(guess("xbcd abce abc", out, 4) == 4 && !strcmp(out, "e ab")); /* the longest */
    CHECK(guess("abc1 abc2 abc", out, 1) == 1 && !strcmp(out, "2"));    /* the latest */
    CHECK(guess("xa ya", out, 4) == 0 && guess("a", out, 4) == 0 && guess("", out, 4) == 0);
    CHECK(guess("ababab", out, 4) == 2 && !strcmp(out, "ab"));
    CHECK(guess("abab", out, 4) == 2 && !strcmp(out, "ab"));
}

static size_t choose(const double *steps, size_t n_rows, size_t most, bool always,
                     rx_guess_share *s, size_t n)
{
    return rx_guess_choose(&(rx_guess_costs){steps, 0, always}, n_rows, most, s, n);
}

static void test_choice(void)
{
    const double flat[16] = {1, 1, 1, 1, 1.1, 2}, steep[16] = {1, 2, 4, 8, 16, 32};
    const double unknown[16] = {1}, none[16] = {0};
    rx_guess_share s[3] = {{7, 0.9, 0}, {7, 0.1, 0}, {0, 0.9, 0}};
    CHECK(choose(flat, 1, 8, false, s, 1) == 7 && s[0].take == 7);
    CHECK(choose(steep, 1, 8, false, s, 1) == 0 && s[0].take == 0);
    CHECK(choose(steep, 1, 8, true, s, 1) == 7 && s[0].take == 7);
    CHECK(choose(none, 1, 8, false, s, 1) == 0);
    CHECK(choose(unknown, 1, 8, false, s, 1) == 7); /* to learn what it costs */
    CHECK(choose(flat, 3, 8, false, s, 3) == 5 && s[0].take >= 4 && s[2].take == 0);
    CHECK(choose(steep, 3, 32, false, s, 3) == 1 && s[0].take == 1); /* padding is free */
    CHECK(choose(flat, 8, 8, true, s, 3) == 0);
    CHECK(rx_guess_choose(&(rx_guess_costs){flat, 0.2, false}, 1, 8, s, 1) == 7);
    CHECK(rx_guess_choose(&(rx_guess_costs){flat, 0.6, false}, 1, 8, s, 1) < 7);
    CHECK(rx_guess_choose(&(rx_guess_costs){flat, 2, false}, 1, 8, s, 1) == 0);
    double p = 0.6;
    for (int i = 0; i < 50; i++)
        p = rx_guess_learn(p, 4, 0);
    CHECK(p < 0.01);
    for (int i = 0; i < 500; i++)
        p = rx_guess_learn(p, 0, 0);
    CHECK(p > 0.25 && p < 0.35);
    for (int i = 0; i < 50; i++)
        p = rx_guess_learn(p, 4, 4);
    CHECK(p > 0.99);
}

/* ---- Requests -------------------------------------------------------------------------------- */

typedef struct answer {
    int32_t tokens[TOKENS];
    float log_probs[TOKENS];
    size_t n;
    rlx_request_result result;
} answer;

static const char *const prompts[] = {
    "Once upon a time there was a cat. The cat was red. The cat was red. The cat was",
    "One day, one day, one day, one", "A", "The dog and the dog and the cat and the dog"};

static rlx_engine *make_engine(int64_t guesses, rlx_engine_desc d)
{
    rlx_engine *e = NULL;
    d.struct_size = sizeof d;
    d.no_thread = true;
    d.guesses = guesses;
    d.page = 8;
    d.draft = guesses ? draft : NULL;
    CHECK_OK(rlx_engine_create(model, &d, &e, &err), &err);
    return e;
}

static rlx_request *submit(rlx_engine *e, uint64_t seed, double temperature, bool log_probs)
{
    rlx_request *r = NULL;
    const rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .temperature = temperature,
                                 .seed = seed, .repeat_penalty = seed % 3 == 2 ? 1.1 : 0};
    const char *const stop[] = {"Ben wa"}; /* right guesses may go on behind it */
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = prompts[seed % 4],
                                .stop = stop, .n_stop = seed || is_gpu ? 0 : 1,
                                .sampling = &s, .max_tokens = TOKENS - (int64_t)(seed * 7 % 25),
                                .ignore_end = true, .log_probs = log_probs,
                                .frequency_penalty = seed % 4 == 3 ? 0.2 : 0};
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    return r;
}

static void receive(rlx_request *r, answer *a)
{
    rlx_request_piece p;
    bool more = r != NULL;
    *a = (answer){.result = {RLX_INIT(rlx_request_result)}};
    while (more && CHECK_OK(rlx_request_next(r, -1, &p, &more, &err), &err))
        if (more && p.token >= 0 && a->n < TOKENS) {
            a->tokens[a->n] = p.token;
            a->log_probs[a->n++] = p.log_prob;
        }
    CHECK_OK(rlx_request_get_result(r, &a->result, &err), &err);
    rlx_request_destroy(r);
}

static bool are_equal(const answer *a, const answer *b)
{
    return a->n == b->n && a->result.finish == b->result.finish &&
           !memcmp(a->tokens, b->tokens, sizeof a->tokens) &&
           !memcmp(a->log_probs, b->log_probs, sizeof a->log_probs);
}

static void check_end(rlx_engine *e, bool guessed)
{
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
    CHECK(info.held_pages == 0 && info.running == 0);
    CHECK(!guessed || (info.guessed_tokens > 0 && info.accepted_tokens > 0 &&
                       info.accepted_tokens <= info.guessed_tokens));
    rlx_engine_destroy(e);
}

#define MOST 12

#ifdef RX_SANITIZED
#define EVERY 12
#else
#define EVERY 1
#endif

/* Whether the next part of the test is of the share. */
static bool next_part(void)
{
    static uint64_t part;
    return in_share(part++, EVERY);
}

/* Request i of test_same. */
static rlx_request *submit_same(rlx_engine *e, uint64_t i)
{
    return submit(e, i, i % 2 ? 0.7 : 0, i % 3 > 0);
}

/* So many guesses a step, also where they are a loss: alone and together. */
static void test_always(const answer *want, uint64_t n, int64_t guesses)
{
    static answer got;
    rlx_request *r[MOST];
    rlx_engine *e = make_engine(-guesses, (rlx_engine_desc){.sequences = 4});
    size_t right = 0;
    for (uint64_t i = 0; i < n; i += 1 + (uint64_t)(guesses == 8)) { /* alone */
        receive(submit_same(e, i), &got);
        CHECK(are_equal(&want[i], &got) && got.result.n_accepted <= got.result.n_guessed);
        right += got.result.n_accepted;
    }
    CHECK(right > (is_gpu ? 0 : 10));
    for (uint64_t i = 0; i < n; i++)
        r[i] = submit_same(e, i);
    for (uint64_t i = 0; i < n; i++) {
        receive(r[i], &got);
        CHECK(are_equal(&want[i], &got));
    }
    check_end(e, true);
}

/* Guesses where they are a gain. */
static void test_gain(const answer *want, uint64_t n)
{
    static answer got;
    rlx_engine *e = make_engine(7, (rlx_engine_desc){.sequences = 4});
    for (uint64_t i = 0; i < n; i++) {
        receive(submit_same(e, i), &got);
        CHECK(are_equal(&want[i], &got));
    }
    check_end(e, false);
}

static void test_same(void)
{
    static const int64_t guesses[] = {8, 1, 15, 0}; /* 0: where they are a gain */
    static answer want[MOST];
    const uint64_t n = is_gpu ? 2 : MOST;
    bool made = false;
    for (size_t k = 0; k < (is_gpu ? 1 : 4); k++) {
        if (!next_part())
            continue;
        if (!made) {
            rlx_engine *e = make_engine(0, (rlx_engine_desc){.sequences = 4});
            for (uint64_t i = 0; i < n; i++)
                receive(submit_same(e, i), &want[i]);
            check_end(e, false);
        }
        made = true;
        if (guesses[k])
            test_always(want, n, guesses[k]);
        else
            test_gain(want, n);
    }
}

/* Few pages: guesses preempt nobody, and what is full ends as it did. */
static void test_tight(void)
{
    static answer want[4], got;
    rlx_request *r[4];
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_engine *e = make_engine(0, (rlx_engine_desc){.sequences = 4, .context = 96});
    CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
    const uint64_t page_bytes = info.cache_bytes / (uint64_t)info.pages;
    for (uint64_t i = 0; i < 4; i++)
        receive(submit(e, i, 0, false), &want[i]);
    check_end(e, false);
    e = make_engine(-7, (rlx_engine_desc){.sequences = 4, .context = 96,
                                          .cache_bytes = 24 * page_bytes});
    for (uint64_t i = 0; i < 4; i++)
        r[i] = submit(e, i, 0, false);
    for (uint64_t i = 0; i < 4; i++) {
        receive(r[i], &got);
        CHECK(are_equal(&want[i], &got));
    }
    check_end(e, false);
}

/* How often each byte is the third that is drawn, against the same counts of other seeds without
 * guesses: a chi-squared test of homogeneity. The counts are of fixed seeds, so that it always
 * gives the same. */
static void test_distribution(size_t draws)
{
    static size_t count[2][288];
    for (int with = 0; with < 2; with++) {
        rlx_engine *e = make_engine(with ? -7 : 0, (rlx_engine_desc){.sequences = 8});
        for (size_t i = 0; i < draws; i++) {
            rlx_request *r = NULL;
            answer a;
            const rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .temperature = 1.3,
                                         .seed = i + (with ? 1000000 : 0)};
            const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = prompts[1],
                                        .sampling = &s, .max_tokens = 4, .ignore_end = true};
            CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
            receive(r, &a);
            count[with][a.tokens[2]]++;
        }
        check_end(e, with);
    }
    double sum = 0, freedom = -1;
    for (size_t i = 0; i < 288; i++) {
        const double a = (double)count[0][i], b = (double)count[1][i];
        if (a + b >= 10) {
            sum += (a - b) * (a - b) / (a + b);
            freedom++;
        }
    }
    printf("chi-squared %.1f with %g degrees of freedom\n", sum, freedom);
    CHECK(freedom >= 3 && sum < freedom + 4 * sqrt(2 * freedom));
}

/* Drafts: the model itself, whose guesses are all right as long as the penalties are not, which it
 * does not know; and one with other weights. */
static void test_draft(const rlx_model_desc *d, const char *path, size_t change)
{
    static char bytes[1 << 20];
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(bytes, 1, sizeof bytes, f) : 0;
    if (f)
        fclose(f);
    for (size_t i = n - n / 2; change && i < n; i += change)
        bytes[i] ^= 1;
    if (!CHECK(n > 0 && n < sizeof bytes) ||
        !CHECK_OK(rlx_model_open_memory(bytes, n, d, &draft, &err), &err))
        return;
    test_same();
    if (!is_gpu && next_part())
        test_tight();
    if (!change && next_part()) {
        answer a;
        rlx_engine *e = make_engine(-4, (rlx_engine_desc){.sequences = 2});
        for (uint64_t seed = 0; seed < 2; seed++) {
            receive(submit(e, seed, seed ? 0.9 : 0, false), &a);
            CHECK(a.result.n_guessed >= 20 && a.result.n_accepted == a.result.n_guessed);
        }
        check_end(e, true);
    }
    rlx_model_close(draft);
    draft = NULL;
}

static void test_refused(void)
{
    rlx_engine *e = NULL;
    const rlx_engine_desc d = {RLX_INIT(rlx_engine_desc), .guesses = 16};
    CHECK_FAILS(rlx_engine_create(model, &d, &e, &err), RLX_INVALID, &err, "guesses 16 tokens");
}

int main(void)
{
    const char *source = getenv("RLX_SOURCE_DIR"), *device = getenv("RLX_TEST_DEVICE");
    char path[512];
    snprintf(path, sizeof path, "%s/models/tiny-stories.gguf", source ? source : ".");
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device ? device : "cpu",
                              .threads = 1, .context = 256, .cache = RLX_F32,
                              .policy = RLX_POLICY_EXACT};
    is_gpu = device && strcmp(device, "cpu") && strcmp(device, "ref");
    test_text();
    test_choice();
    if (CHECK_OK(rlx_model_open(path, &d, &model, &err), &err)) {
        test_same();
        if (!is_gpu && next_part())
            test_tight();
        if (!is_gpu && next_part())
            test_distribution(400);
        test_draft(&d, path, 0);
        if (!is_gpu)
            test_draft(&d, path, 37);
        test_refused();
    }
    rlx_model_close(model);
    return check_done();
}
