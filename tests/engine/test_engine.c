/* SPDX-License-Identifier: MIT */
/* Engines with a tiny random model: the same tokens and log-probabilities alone and among others,
 * in one chunk and in many, with shared pages and without, after preemption; options of requests,
 * ends, limits. Runs on the device in RLX_TEST_DEVICE, or the CPU and the reference. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/tiny_model.h"

#define MOST 64

static const char *device = "cpu";
static blob file;
static rlx_model *model;

typedef struct answer {
    int32_t tokens[MOST];
    float log_probs[MOST];
    rlx_token_prob best[MOST][3];
    size_t n;
    char text[1024];
    size_t n_text;
    rlx_request_result result;
} answer;

static rlx_engine *make_engine(rlx_engine_desc d)
{
    rlx_engine *e = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_engine_create(model, &d, &e, &err), &err);
    return e;
}

static rlx_request *submit(rlx_engine *e, rlx_request_desc d)
{
    rlx_request *r = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    return r;
}

static void keep(answer *a, const rlx_request_piece *p)
{
    if (p->token >= 0 && a->n < MOST) {
        a->tokens[a->n] = p->token;
        a->log_probs[a->n] = p->log_prob;
        for (size_t i = 0; i < p->n_best && i < 3; i++)
            a->best[a->n][i] = p->best[i];
        a->n++;
    }
    if (a->n_text + p->length < sizeof a->text)
        memcpy(a->text + a->n_text, p->text, p->length);
    a->n_text += p->length;
}

/* Takes all pieces and destroys the request. */
static void receive(rlx_request *r, answer *a)
{
    rlx_error err = {0};
    rlx_request_piece p;
    bool more = r != NULL;
    *a = (answer){.result = {RLX_INIT(rlx_request_result)}};
    while (more && CHECK_OK(rlx_request_next(r, -1, &p, &more, &err), &err))
        if (more)
            keep(a, &p);
    if (r) {
        CHECK_OK(rlx_request_get_result(r, &a->result, &err), &err);
        CHECK(a->result.ended && a->result.n_generated == a->n);
    }
    rlx_request_destroy(r);
}

static void ask(rlx_engine *e, rlx_request_desc d, answer *a)
{
    receive(submit(e, d), a);
}

/* No sequence holds a page when all have ended. */
static void end_engine(rlx_engine *e)
{
    rlx_error err = {0};
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    for (int i = 0; i < 1000; i++) { /* its thread publishes after the last piece */
        CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
        if (!info.held_pages)
            break;
        rlx_request *r = submit(e, (rlx_request_desc){RLX_INIT(rlx_request_desc), .prompt = "x",
                                                      .max_tokens = 1});
        rlx_request_wait(r, -1, NULL);
        rlx_request_destroy(r);
    }
    CHECK(info.held_pages == 0 && info.running == 0);
    rlx_engine_destroy(e);
}

/* ---- The same answer in any company ---------------------------------------------------------- */

static const char *const story = "It was a dark and stormy night; the rain";

static rlx_request_desc lively(uint64_t seed)
{
    static rlx_sampling_desc s[64];
    s[seed % 64] = (rlx_sampling_desc){RLX_INIT(rlx_sampling_desc), .temperature = 1.5,
                                       .top_k = 40, .top_p = 0.95, .seed = seed};
    return (rlx_request_desc){RLX_INIT(rlx_request_desc), .prompt = story, .max_tokens = 16,
                              .ignore_end = true, .log_probs = true, .n_best = 3,
                              .sampling = &s[seed % 64]};
}

/* Under policy `exact` bits agree. */
static bool have_same_probs(float a, float b)
{
    return !memcmp(&a, &b, sizeof a);
}

static bool are_equal(const answer *a, const answer *b)
{
    bool same = a->n == b->n && !memcmp(a->tokens, b->tokens, sizeof a->tokens) &&
                a->n_text == b->n_text && !memcmp(a->text, b->text, sizeof a->text);
    for (size_t i = 0; i < a->n && same; i++) {
        same = have_same_probs(a->log_probs[i], b->log_probs[i]);
        for (size_t k = 0; k < 3; k++)
            same = same && have_same_probs(a->best[i][k].log_prob, b->best[i][k].log_prob);
    }
    return same;
}

/* Starts others of random lengths and options beside. */
static void start_crowd(rlx_engine *e, rlx_request **crowd, size_t n, unsigned seed)
{
    static const char *const texts[] = {"A", "Once upon a time there was", "It was a dark and",
                                        "Many years later, as he faced the squad"};
    for (size_t i = 0; i < n; i++) {
        rlx_request_desc d = lively(i + seed);
        d.prompt = texts[(i + seed) % 4];
        d.max_tokens = 1 + (int64_t)((i * 7 + seed) % 20);
        d.log_probs = i % 2;
        d.n_best = 0;
        d.presence_penalty = i % 3;
        crowd[i] = submit(e, d);
    }
}

static void test_company(void)
{
    static answer alone, other;
    rlx_request *crowd[15];
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 16,
                                                  .no_sharing = true});
    for (uint64_t seed = 0; seed < 3; seed++) {
        ask(e, lively(seed), &alone);
        CHECK(alone.n == 16 && alone.result.finish == RLX_FINISH_LENGTH);
        for (unsigned round = 0; round < 2; round++) {
            start_crowd(e, crowd, 15, round * 5);
            ask(e, lively(seed), &other);
            CHECK(are_equal(&alone, &other));
            for (size_t i = 0; i < 15; i++) {
                rlx_request_wait(crowd[i], -1, NULL);
                rlx_request_destroy(crowd[i]);
            }
        }
    }
    end_engine(e);
}

static void test_chunks_and_sharing(void)
{
    static answer want, got;
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 4,
                                                  .no_sharing = true});
    ask(e, lively(1), &want);
    CHECK(want.result.n_prompt == 40 && want.result.n_cached == 0);
    end_engine(e);
    e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 2, .rows = 4,
                                      .page = 8});
    ask(e, lively(1), &got);
    CHECK(are_equal(&want, &got) && got.result.n_cached == 0);
    ask(e, lively(1), &got);
    CHECK(are_equal(&want, &got) && got.result.n_cached == 32);
    end_engine(e);
}

/* Requests with one prefix that come together compute it once. */
static void test_prefix(void)
{
    rlx_request *r[12];
    rlx_error err = {0};
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    static answer a, first;
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 12,
                                                  .page = 8});
    for (size_t i = 0; i < 12; i++)
        r[i] = submit(e, lively(5));
    for (size_t i = 0; i < 12; i++) {
        receive(r[i], i ? &a : &first);
        CHECK(!i || are_equal(&first, &a));
    }
    CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
    CHECK(info.prompt_tokens == 12 * 40 && info.cached_tokens == 11 * 32);
    end_engine(e);
}

/* A pool that cannot hold all of them. */
static void test_preemption(void)
{
    static answer want[6], got;
    rlx_request *r[6];
    rlx_error err = {0};
    rlx_engine_info info = {RLX_INIT(rlx_engine_info)};
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_sharing = true});
    for (size_t i = 0; i < 6; i++)
        ask(e, lively(i + 10), &want[i]);
    CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
    const uint64_t page = info.cache_bytes / (uint64_t)info.pages / 32 * 8;
    end_engine(e);
    for (int shares = 0; shares < 2; shares++) {
        e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .page = 8, .sequences = 6,
                                          .cache_bytes = 14 * page, .no_sharing = !shares});
        for (size_t i = 0; i < 6; i++)
            r[i] = submit(e, lively(i + 10));
        for (size_t i = 0; i < 6; i++) {
            receive(r[i], &got);
            CHECK(are_equal(&want[i], &got));
        }
        CHECK_OK(rlx_engine_get_info(e, &info, &err), &err);
        CHECK(info.pages == 14 && (shares || info.preemptions > 0));
        end_engine(e);
    }
}

/* ---- Against a context ----------------------------------------------------------------------- */

static int take_token(void *user, const rlx_piece *p)
{
    answer *a = user;
    const rlx_request_piece q = {.token = p->token, .text = p->text, .length = p->length};
    keep(a, &q);
    return 0;
}

static void test_generate(void)
{
    static const char *const stop[] = {"zq", "e"};
    static answer want, got;
    rlx_context *c = NULL;
    rlx_error err = {0};
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true});
    CHECK_OK(rlx_context_create(model, &c, &err), &err);
    for (int i = 0; i < 3; i++) {
        const rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .repeat_penalty = i ? 1.5 : 0};
        const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = story,
                                     .max_tokens = 20, .sampling = &s, .stop = stop,
                                     .n_stop = i == 2 ? 2 : 0};
        want = (answer){0};
        rlx_generate_result result = {RLX_INIT(rlx_generate_result)};
        CHECK_OK(rlx_generate(c, &d, take_token, &want, &result, &err), &err);
        ask(e, (rlx_request_desc){RLX_INIT(rlx_request_desc), .prompt = story, .max_tokens = 20,
                                  .sampling = &s, .stop = stop, .n_stop = i == 2 ? 2 : 0}, &got);
        CHECK(want.n == got.n && !memcmp(want.tokens, got.tokens, sizeof got.tokens));
        CHECK(want.n_text == got.n_text && !memcmp(want.text, got.text, sizeof got.text));
        CHECK(result.finish == got.result.finish && result.n_generated == got.n);
    }
    rlx_context_destroy(c);
    end_engine(e);
}

/* Log-probabilities are those of rlx_score. */
static void test_scores(void)
{
    static answer a;
    int32_t tokens[64];
    float scores[64];
    rlx_error err = {0};
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 1});
    for (int32_t i = 0; i < 10; i++)
        tokens[i] = 65 + i;
    rlx_request_desc d = lively(3);
    d.prompt = NULL;
    d.tokens = tokens;
    d.n_tokens = 10;
    ask(e, d, &a);
    CHECK(a.n == 16);
    memcpy(tokens + 10, a.tokens, a.n * sizeof *tokens);
    CHECK_OK(rlx_score(model, tokens, 26, scores, &err), &err);
    for (size_t i = 0; i < a.n; i++) {
        CHECK(fabsf(a.log_probs[i] - scores[10 + i]) < 1e-4f);
        CHECK(a.best[i][0].log_prob >= a.best[i][1].log_prob);
        CHECK(a.best[i][0].log_prob >= a.log_probs[i]);
    }
    end_engine(e);
}

/* ---- Options --------------------------------------------------------------------------------- */

static void test_bias(void)
{
    static answer plain, a;
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true});
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = story, .max_tokens = 12,
                          .ignore_end = true};
    ask(e, d, &plain);
    const rlx_token_bias ban = {plain.tokens[0], -INFINITY}, want[] = {{77, 50}, {77, 50}};
    d.bias = &ban;
    d.n_bias = 1;
    ask(e, d, &a);
    for (size_t i = 0; i < a.n; i++)
        CHECK(a.tokens[i] != ban.token);
    d.bias = want;
    d.n_bias = 2;
    ask(e, d, &a);
    for (size_t i = 0; i < a.n; i++)
        CHECK(a.tokens[i] == 77);
    d.presence_penalty = 100; /* the second 77 has lost its bias */
    d.n_bias = 1;
    ask(e, d, &a);
    CHECK(a.tokens[0] == 77);
    for (size_t i = 1; i < a.n; i++)
        CHECK(a.tokens[i] != 77);
    d.presence_penalty = 0;
    d.frequency_penalty = 20; /* the bias lasts for two */
    ask(e, d, &a);
    CHECK(a.tokens[0] == 77 && a.tokens[1] == 77 && a.tokens[2] == 77 && a.tokens[4] != 77);
    end_engine(e);
}

static void test_grammar(void)
{
    static const char regex[] = "(yes|no), [0-9]{3} apples and pears";
    static answer a, b;
    rlx_grammar *g = NULL;
    rlx_error err = {0};
    bool matches;
    CHECK_OK(rlx_grammar_from_regex(regex, strlen(regex), NULL, &g, &err), &err);
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 4});
    rlx_request *beside = submit(e, lively(9));
    for (uint64_t seed = 0; seed < 4; seed++) {
        rlx_request_desc d = lively(seed);
        d.grammar = g;
        d.max_tokens = 0;
        d.ignore_end = false;
        d.prompt = "apples? ";
        ask(e, d, &a);
        CHECK_OK(rlx_grammar_matches(g, a.text, a.n_text, &matches, &err), &err);
        CHECK(matches && a.result.finish == RLX_FINISH_END);
        for (size_t i = 0; i < a.n; i++)
            CHECK(a.log_probs[i] < 0);
        d.log_probs = false;
        d.n_best = 0;
        ask(e, d, &b);
        CHECK(a.n == b.n && !memcmp(a.tokens, b.tokens, sizeof a.tokens));
    }
    receive(beside, &a);
    CHECK(a.n == 16);
    end_engine(e);
    rlx_grammar_destroy(g);
}

static void test_messages(void)
{
    static answer a, b;
    const rlx_message said[] = {{"user", "Hi"}};
    rlx_error err = {0};
    char *text = NULL;
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true});
    CHECK_OK(rlx_chat_format(model, said, 1, true, &text, &err), &err);
    ask(e, (rlx_request_desc){RLX_INIT(rlx_request_desc), .messages = said, .n_messages = 1,
                              .max_tokens = 4}, &a);
    ask(e, (rlx_request_desc){RLX_INIT(rlx_request_desc), .prompt = text, .max_tokens = 4}, &b);
    CHECK(a.result.n_prompt == b.result.n_prompt && are_equal(&a, &b));
    rlx_free(text);
    end_engine(e);
}

/* ---- Ends and limits ------------------------------------------------------------------------- */

static void test_refused(void)
{
    rlx_error err = {0};
    rlx_request *r = NULL, *waiting[2];
    int32_t tokens[64] = {0};
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true,
                                                  .queue = 2});
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .tokens = tokens, .n_tokens = 64};
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "64 tokens");
    d.n_tokens = 0;
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "no tokens");
    d.n_tokens = 3;
    d.n_best = 21;
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "at most 20");
    d.n_best = 0;
    tokens[1] = TINY_VOCABULARY;
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_INVALID, &err, "token 1 is 257");
    tokens[1] = 0;
    for (size_t i = 0; i < 2; i++)
        CHECK_OK(rlx_engine_submit(e, &d, &waiting[i], &err), &err);
    CHECK_FAILS(rlx_engine_submit(e, &d, &r, &err), RLX_TIMEOUT, &err, "queue");
    for (size_t i = 0; i < 2; i++)
        rlx_request_destroy(waiting[i]);
    CHECK_OK(rlx_engine_step(e, -1, NULL, &err), &err);
    end_engine(e);
    rlx_engine_desc bad = {RLX_INIT(rlx_engine_desc), .rows = 3};
    CHECK_FAILS(rlx_engine_create(model, &bad, &e, &err), RLX_INVALID, &err, "power of two");
    bad = (rlx_engine_desc){RLX_INIT(rlx_engine_desc), .cache_bytes = 1};
    CHECK_FAILS(rlx_engine_create(model, &bad, &e, &err), RLX_INVALID, &err, "at least one page");
}

static void test_ends(void)
{
    static answer a;
    rlx_error err = {0};
    bool busy = true, more;
    rlx_request_piece p;
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true});
    rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = story, .ignore_end = true};
    ask(e, d, &a);
    CHECK(a.result.finish == RLX_FINISH_CONTEXT && a.n == TINY_CONTEXT - 40);
    d.deadline_ms = 1;
    ask(e, d, &a);
    CHECK(a.result.finish == RLX_FINISH_DEADLINE || a.result.finish == RLX_FINISH_CONTEXT);
    d.deadline_ms = 0;
    rlx_request *r = submit(e, d);
    CHECK(rlx_request_next(r, 0, &p, &more, &err) != RLX_INVALID);
    rlx_request_cancel(r);
    receive(r, &a);
    CHECK(a.result.finish == RLX_FINISH_CALLER);
    r = submit(e, d);
    rlx_engine_destroy(e); /* with a request that has not begun */
    receive(r, &a);
    CHECK(a.result.finish == RLX_FINISH_CALLER && a.n == 0);
    e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .no_thread = true});
    CHECK_OK(rlx_engine_step(e, -1, &busy, &err), &err);
    CHECK(!busy);
    end_engine(e);
}

/* The more important request is answered first, though it came last. */
static int note_end(void *user, rlx_request *r, const rlx_request_piece *p)
{
    static int counter;
    (void)r;
    if (!p)
        *(int *)user = ++counter;
    return 0;
}

static void test_priority(void)
{
    int ends[4] = {0};
    rlx_request *r[4];
    rlx_engine *e = make_engine((rlx_engine_desc){RLX_INIT(rlx_engine_desc), .sequences = 1,
                                                  .no_thread = true});
    for (size_t i = 0; i < 4; i++) {
        rlx_request_desc d = lively(i);
        d.priority = i == 3 ? 5 : i == 2 ? -1 : 0;
        d.fn = note_end;
        d.user = &ends[i];
        r[i] = submit(e, d);
    }
    for (size_t i = 0; i < 4; i++) {
        rlx_request_wait(r[i], -1, NULL);
        rlx_request_destroy(r[i]);
    }
    CHECK(ends[3] < ends[0] && ends[0] < ends[1] && ends[1] < ends[2]);
    end_engine(e);
}

static void test_unsupported(void)
{
    rlx_model *m = NULL;
    rlx_engine *e = NULL;
    rlx_error err = {0};
    blob mamba = tiny_model(TINY_MAMBA, 1);
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device};
    CHECK_OK(rlx_model_open_memory(mamba.data, mamba.n, &d, &m, &err), &err);
    CHECK_FAILS(rlx_engine_create(m, NULL, &e, &err), RLX_UNSUPPORTED, &err, "K/V cache");
    rlx_model_close(m);
    blob_free(&mamba);
}

static void test_device(void)
{
    rlx_error err = {0};
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .cache = RLX_F32, .policy = RLX_POLICY_EXACT};
    if (!CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &model, &err), &err))
        return;
    test_generate();
    test_scores();
    test_company();
    test_chunks_and_sharing();
    test_prefix();
    test_preemption();
    test_bias();
    test_grammar();
    test_messages();
    test_refused();
    test_ends();
    test_priority();
    test_unsupported();
    rlx_model_close(model);
}

int main(void)
{
    rlx_set_allocator(&counting);
    file = tiny_model(TINY_LLAMA, 5);
    if (getenv("RLX_TEST_DEVICE")) {
        device = getenv("RLX_TEST_DEVICE");
        test_device();
    } else {
        test_device();
        device = "ref";
        test_device();
    }
    blob_free(&file);
    CHECK(memory_live() == 0 || getenv("RLX_TEST_DEVICE")); /* drivers stay loaded */
    return check_done();
}
