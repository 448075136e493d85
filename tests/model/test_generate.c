/* SPDX-License-Identifier: MIT */
/* Generation, scores and chats with tiny random models: stop strings, whole characters, ends, a
 * context that shifts, piece by piece without waiting; no allocation after the first tokens, and a
 * clean failure of each allocation. Runs on the device in RLX_TEST_DEVICE, or the CPU.
 *     test_generate --write FILE    only writes the tiny model, for the tests of the tools */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "import/json.h"
#include "rlx/rlx.h"
#include "support/memory.h"
#include "support/share.h"
#include "support/tiny_model.h"

#define MAX_TEXT 4096

static const char *device = "cpu";
static blob file;

static rlx_model *open_tiny(rlx_model_desc d)
{
    rlx_model *m = NULL;
    rlx_error err = {0};
    d.device = device;
    d.threads = 2;
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &m, &err), &err);
    return m;
}

/* What came out. */
typedef struct output {
    char text[MAX_TEXT];
    size_t n, n_tokens;
    int32_t tokens[256];
    size_t stop_after; /* tokens, 0: never */
    bool broken;       /* a piece was no valid UTF-8 */
} output;

static int take(void *user, const rlx_piece *p)
{
    output *o = user;
    if (p->token >= 0 && o->n_tokens < 256)
        o->tokens[o->n_tokens++] = p->token;
    if (o->n + p->length < MAX_TEXT)
        memcpy(o->text + o->n, p->text, p->length);
    o->n += p->length;
    o->text[o->n] = 0;
    o->broken = o->broken || !rx_utf8_valid((const unsigned char *)p->text, p->length);
    return o->stop_after && o->n_tokens == o->stop_after;
}

static rlx_generate_result generate(rlx_context *c, const rlx_generate_desc *d, output *o)
{
    rlx_generate_result r = {RLX_INIT(rlx_generate_result)};
    rlx_error err = {0};
    size_t stop_after = o->stop_after;
    *o = (output){.stop_after = stop_after};
    CHECK_OK(rlx_generate(c, d, take, o, &r, &err), &err);
    CHECK(!o->broken);
    CHECK(o->n_tokens == r.n_generated);
    return r;
}

/* Lively text of readable and other bytes. */
static const rlx_sampling_desc lively = {RLX_INIT(rlx_sampling_desc), .temperature = 2, .seed = 3};

/* ---- Ends ------------------------------------------------------------------------------------ */

/* Nothing is generated; the prompt is computed, and what follows it is the same. */
static void test_prompt_only(rlx_context *c, const rlx_generate_desc *d)
{
    static output o, want, got;
    static float logits[TINY_VOCABULARY];
    rlx_error err = {0};
    size_t n;
    rlx_generate_desc whole = *d, prompt = *d;
    rlx_generate_result r = generate(c, &whole, &want);
    CHECK_OK(rlx_context_set_tokens(c, 0, NULL, 0, &err), &err);
    prompt.prompt_only = true;
    r = generate(c, &prompt, &o);
    CHECK(r.finish == RLX_FINISH_LENGTH && r.n_prompt == 5 && r.n_generated == 0 && o.n == 0);
    CHECK(rlx_context_tokens(c, 0, &n) && n == 5 && rlx_context_computed(c, 0) == 5);
    CHECK_OK(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), &err);
    r = generate(c, &whole, &got);
    CHECK(r.n_reused == 4 && got.n_tokens == want.n_tokens);
    CHECK(got.n == want.n && !memcmp(got.text, want.text, got.n));
}

static void test_ends(void)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 48});
    rlx_context *c = NULL;
    rlx_error err = {0};
    static output o;
    size_t n;
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "Hello", .max_tokens = 10,
                           .ignore_end = true};
    rlx_generate_result r = generate(c, &d, &o);
    CHECK(r.finish == RLX_FINISH_LENGTH && r.n_prompt == 5 && r.n_generated == 10);
    CHECK(r.n_reused == 0 && r.prompt_seconds > 0 && r.seconds > 0);
    r = generate(c, &d, &o);
    CHECK(r.n_reused == 4);
    d.max_tokens = 0;
    r = generate(c, &d, &o);
    CHECK(r.finish == RLX_FINISH_CONTEXT && r.n_generated == 43);
    test_prompt_only(c, &d);
    r = generate(c, &d, &o);
    CHECK(rlx_context_tokens(c, 0, &n) && n == 48);
    o.stop_after = 3;
    r = generate(c, &d, &o);
    CHECK(r.finish == RLX_FINISH_CALLER && r.n_generated == 3);
    o.stop_after = 0;
    /* Without the limit of the context. */
    d.max_tokens = 120;
    d.shift = true;
    r = generate(c, &d, &o);
    CHECK(r.finish == RLX_FINISH_LENGTH && r.n_generated == 120);
    CHECK(rlx_context_tokens(c, 0, &n) && n <= 48 && n > 24);
    /* Tokens instead of text; an end token as soon as one is likely. */
    int32_t prompt[] = {72, 101};
    rlx_sampling_desc wild = {RLX_INIT(rlx_sampling_desc), .temperature = 50};
    d = (rlx_generate_desc){RLX_INIT(rlx_generate_desc), .tokens = prompt, .n_tokens = 2,
                            .sampling = &wild};
    for (wild.seed = 1; wild.seed < 100; wild.seed++) {
        r = generate(c, &d, &o);
        if (r.finish == RLX_FINISH_END)
            break;
    }
    CHECK(r.finish == RLX_FINISH_END);
    const int32_t *tokens = rlx_context_tokens(c, 0, &n);
    CHECK(n == 2 + r.n_generated + 1 && tokens[n - 1] == TINY_END);
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Ahead of the host ----------------------------------------------------------------------- */

enum { AHEAD_TOKENS = 24 };

static rlx_generation *begin_ahead(rlx_context *c, size_t sequence,
                                   const rlx_sampling_desc *sampling)
{
    rlx_generation *g = NULL;
    rlx_error err = {0};
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc),
                                 .prompt = sequence ? "World" : "Hello", .ignore_end = true,
                                 .max_tokens = AHEAD_TOKENS, .sequence = sequence,
                                 .sampling = sampling};
    CHECK_OK(rlx_generation_create(c, &d, &g, &err), &err);
    return g;
}

static int32_t next_ahead(rlx_generation *g)
{
    rlx_piece piece = {0};
    rlx_error err = {0};
    bool more = false;
    CHECK_OK(rlx_generation_next(g, -1, &piece, &more, &err), &err);
    CHECK(more);
    return piece.token;
}

static void get_logits(rlx_context *c, float logits[TINY_VOCABULARY])
{
    rlx_error err = {0};
    CHECK_OK(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), &err);
}

/* What generations compute ahead changes nothing: tokens and logits are those of single steps, when
 * the logits are asked for, and when the sampling is changed on the way. */
static void test_ahead_of_steps(rlx_context *c, rlx_context *steps)
{
    static float a[TINY_VOCABULARY], b[TINY_VOCABULARY];
    static const int32_t prompt[] = {'H', 'e', 'l', 'l', 'o'};
    rlx_error err = {0};
    int32_t tokens[2];
    rlx_generation *g = begin_ahead(c, 0, &lively);
    CHECK_OK(rlx_context_set_sampling(steps, &lively, &err), &err);
    CHECK_OK(rlx_context_set_tokens(steps, 0, prompt, 5, &err), &err);
    for (int i = 0; i < AHEAD_TOKENS; i++) {
        CHECK_OK(rlx_context_step(steps, -1, tokens, &err), &err);
        CHECK(next_ahead(g) == tokens[0]);
        if (i % 7 == 6) {
            get_logits(c, a);
            get_logits(steps, b);
            CHECK(!memcmp(a, b, sizeof a));
        }
        const rlx_sampling_desc other = {RLX_INIT(rlx_sampling_desc),
                                         .temperature = i == 10 ? 0 : 1, .seed = 7};
        if (i == 10 || i == 15) {
            CHECK_OK(rlx_context_set_sampling(c, &other, &err), &err);
            CHECK_OK(rlx_context_set_sampling(steps, &other, &err), &err);
        }
    }
    rlx_generation_destroy(g);
}

/* Two sequences by turns, and by themselves. */
static void test_ahead_by_turns(rlx_context *c)
{
    static const rlx_sampling_desc greedy = {RLX_INIT(rlx_sampling_desc)};
    int32_t alone[2][AHEAD_TOKENS];
    rlx_generation *g[2];
    for (size_t s = 0; s < 2; s++) {
        g[0] = begin_ahead(c, s, &greedy);
        for (int i = 0; i < AHEAD_TOKENS; i++)
            alone[s][i] = next_ahead(g[0]);
        rlx_generation_destroy(g[0]);
    }
    for (size_t s = 0; s < 2; s++)
        g[s] = begin_ahead(c, s, &greedy);
    for (int i = 0; i < 2 * AHEAD_TOKENS; i++) {
        const int s = i / 3 % 2, k = i / 6 * 3 + i % 3; /* three tokens of each */
        CHECK(next_ahead(g[s]) == alone[s][k]);
    }
    for (size_t s = 0; s < 2; s++)
        rlx_generation_destroy(g[s]);
}

static void test_ahead(void)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 48,
                                              .sequences = 2});
    rlx_context *c = NULL, *steps = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_context_create(m, &steps, &err), &err);
    test_ahead_of_steps(c, steps);
    test_ahead_by_turns(c);
    rlx_context_destroy(c);
    rlx_context_destroy(steps);
    rlx_model_close(m);
}

static void test_wrong_calls(void)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 16});
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "much longer than sixteen bytes"};
    CHECK_FAILS(rlx_generate(c, &d, NULL, NULL, NULL, &err), RLX_INVALID, &err,
                "the prompt has 30 tokens: the context holds 16");
    d.prompt = "";
    CHECK_FAILS(rlx_generate(c, &d, NULL, NULL, NULL, &err), RLX_INVALID, &err,
                "the prompt has no tokens");
    const char *stops[] = {"x", ""};
    d = (rlx_generate_desc){RLX_INIT(rlx_generate_desc), .prompt = "a", .stop = stops, .n_stop = 2};
    CHECK_FAILS(rlx_generate(c, &d, NULL, NULL, NULL, &err), RLX_INVALID, &err,
                "stop string 1 is empty");
    d = (rlx_generate_desc){RLX_INIT(rlx_generate_desc), .prompt = "a", .sequence = 1};
    CHECK_FAILS(rlx_generate(c, &d, NULL, NULL, NULL, &err), RLX_INVALID, &err, "no sequence 1");
    const rlx_sampling_desc unsized = {.temperature = 1};
    d = (rlx_generate_desc){RLX_INIT(rlx_generate_desc), .prompt = "a", .sampling = &unsized};
    CHECK_FAILS(rlx_generate(c, &d, NULL, NULL, NULL, &err), RLX_INVALID, &err,
                "rlx_sampling_desc: struct_size is 0");
    rlx_context_cancel(c);
    d = (rlx_generate_desc){RLX_INIT(rlx_generate_desc), .prompt = "a"};
    CHECK(rlx_generate(c, &d, NULL, NULL, NULL, &err) == RLX_CANCELLED);
    rlx_context_destroy(c);
    rlx_model_close(m);
    const char *texts[] = {"a"};
    float out[32];
    m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc)});
    CHECK_OK(rlx_embed(m, texts, 1, NULL, out, NULL, &err), &err);
    CHECK_FAILS(rlx_rerank(m, "a", texts, 1, NULL, NULL, NULL, &err), RLX_INVALID, &err,
                "the pointer to the scores is NULL");
    double score;
    CHECK_FAILS(rlx_rerank(m, "a", texts, 1, NULL, &score, NULL, &err), RLX_INVALID, &err,
                "too many tokens");
    rlx_model_close(m);
}

/* ---- Stop strings ---------------------------------------------------------------------------- */

/* The first place of any of the stops in a text, which may have zero bytes; its end if none is. */
static size_t first_stop(const output *o, const char *const *stops, size_t n)
{
    for (size_t at = 0; at < o->n; at++)
        for (size_t i = 0; i < n; i++) {
            size_t length = strlen(stops[i]);
            if (length <= o->n - at && !memcmp(o->text + at, stops[i], length))
                return at;
        }
    return o->n;
}

static void test_stops(void)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc)});
    rlx_context *c = NULL;
    rlx_error err = {0};
    static output whole, o;
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "abc", .max_tokens = 60,
                           .sampling = &lively, .ignore_end = true};
    generate(c, &d, &whole);
    CHECK(whole.n > 30);
    for (size_t at = 0; at + 8 < whole.n; at += 3) {
        for (size_t n = 1; n < 7; n += 2) {
            char stop[8] = {0};
            const char *stops[] = {"never in it", stop};
            memcpy(stop, whole.text + at, n);
            if (!rx_utf8_valid((unsigned char *)stop, n) || strlen(stop) < n)
                continue;
            d.stop = stops;
            d.n_stop = 2;
            rlx_generate_result r = generate(c, &d, &o);
            size_t want = first_stop(&whole, stops, 2);
            CHECK(r.finish == RLX_FINISH_STOP);
            CHECK(o.n == want && !memcmp(o.text, whole.text, want));
        }
    }
    /* A stop string that only begins at the end: its beginning comes out after all. */
    char almost[16] = {0};
    size_t tail = whole.n - 1;
    while (tail > 0 && ((unsigned char)whole.text[tail] & 0xc0) == 0x80)
        tail--;
    snprintf(almost, sizeof almost, "%s#", whole.text + tail);
    const char *stops[] = {almost};
    d.stop = stops;
    d.n_stop = 1;
    rlx_generate_result r = generate(c, &d, &o);
    if (first_stop(&whole, stops, 1) == whole.n)
        CHECK(r.finish == RLX_FINISH_LENGTH && o.n == whole.n && !memcmp(o.text, whole.text, o.n));
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Piece by piece -------------------------------------------------------------------------- */

static void test_pieces(void)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 4});
    rlx_context *c = NULL;
    rlx_generation *g = NULL;
    rlx_error err = {0};
    static output want, got;
    rlx_piece piece;
    bool more = true;
    rlx_generate_result r = {RLX_INIT(rlx_generate_result)};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "a longer prompt, in chunks",
                           .max_tokens = 20, .sampling = &lively, .ignore_end = true};
    generate(c, &d, &want);
    CHECK_OK(rlx_generation_create(c, &d, &g, &err), &err);
    while (more) {
        rlx_status st = rlx_generation_next(g, 0, &piece, &more, &err);
        if (st == RLX_TIMEOUT) {
            more = true;
            continue;
        }
        if (!CHECK_OK(st, &err))
            break;
        if (more)
            take(&got, &piece);
    }
    rlx_generation_get_result(g, &r, NULL);
    rlx_generation_destroy(g);
    CHECK(r.finish == RLX_FINISH_LENGTH && got.n == want.n && !memcmp(got.text, want.text, got.n));
    rlx_generation_destroy(NULL);
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* The scores are the log-probabilities that the logits of single steps give. */
static void test_scores(void)
{
    enum { N = 20 };
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 8,
                                              .policy = RLX_POLICY_EXACT, .cache = RLX_F32});
    rlx_context *c = NULL;
    rlx_error err = {0};
    int32_t tokens[N], next;
    float scores[N], logits[TINY_VOCABULARY];
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    for (int i = 0; i < N; i++)
        tokens[i] = (i * 37 + 11) % 256;
    CHECK_OK(rlx_score(m, tokens, N, scores, &err), &err);
    CHECK(scores[0] == 0);
    for (size_t i = 1; i < N; i++) {
        CHECK_OK(rlx_context_set_tokens(c, 0, tokens, i, &err), &err);
        CHECK_OK(rlx_context_step(c, -1, &next, &err), &err);
        CHECK_OK(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), &err);
        double sum = 0, max = logits[next];
        for (size_t k = 0; k < TINY_VOCABULARY; k++)
            sum += exp(logits[k] - max);
        CHECK(fabs(logits[tokens[i]] - max - log(sum) - scores[i]) < 1e-4);
    }
    tokens[2] = -1;
    CHECK_FAILS(rlx_score(m, tokens, N, scores, &err), RLX_INVALID, &err, "token 2 is -1");
    CHECK_FAILS(rlx_score(m, tokens, 1000, scores, &err), RLX_INVALID, &err, "1000 tokens");
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Generations at the same time ------------------------------------------------------------ */

#define AT_ONCE 3
#define EACH 24

static const rlx_sampling_desc ways[AT_ONCE] = {
    {RLX_INIT(rlx_sampling_desc), .temperature = 2, .seed = 3},
    {RLX_INIT(rlx_sampling_desc), .repeat_penalty = 1.7},
    {RLX_INIT(rlx_sampling_desc), .temperature = 1.2, .xtc_probability = 0.5, .seed = 5},
};

static rlx_generation *begin_way(rlx_context *c, size_t i)
{
    static const char *const prompts[AT_ONCE] = {"one two three", "ab", "x y z and so on"};
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = prompts[i], .sequence = i,
                                 .max_tokens = EACH, .sampling = &ways[i], .ignore_end = true};
    rlx_generation *n = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_generation_create(c, &d, &n, &err), &err);
    return n;
}

static void take_next(rlx_generation *n, int32_t *token)
{
    rlx_piece piece;
    bool more = false;
    rlx_error err = {0};
    CHECK_OK(rlx_generation_next(n, -1, &piece, &more, &err), &err);
    CHECK(more);
    *token = piece.token;
}

/* Generations of several sequences, piece by piece in turn, say what each says alone. */
static void test_generations_at_once(void)
{
    int32_t alone[AT_ONCE][EACH], together[AT_ONCE][EACH];
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .sequences = AT_ONCE});
    rlx_error err = {0};
    for (size_t i = 0; i < AT_ONCE; i++) {
        rlx_context *c = NULL;
        CHECK_OK(rlx_context_create(m, &c, &err), &err);
        rlx_generation *n = begin_way(c, i);
        for (size_t k = 0; k < EACH; k++)
            take_next(n, &alone[i][k]);
        rlx_generation_destroy(n);
        rlx_context_destroy(c);
    }
    rlx_context *c = NULL;
    rlx_generation *n[AT_ONCE];
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    for (size_t i = 0; i < AT_ONCE; i++)
        n[i] = begin_way(c, i);
    for (size_t k = 0; k < EACH; k++)
        for (size_t i = 0; i < AT_ONCE; i++)
            take_next(n[i], &together[i][k]);
    for (size_t i = 0; i < AT_ONCE; i++) {
        CHECK(!memcmp(alone[i], together[i], sizeof *alone));
        rlx_generation_destroy(n[i]);
    }
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Chats ----------------------------------------------------------------------------------- */

static void test_chat(void)
{
    const char *path = "tiny_chat.tmp";
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 256});
    rlx_chat *c = NULL, *d = NULL;
    rlx_error err = {0};
    rlx_generate_desc desc = {RLX_INIT(rlx_generate_desc), .max_tokens = 12, .sampling = &lively};
    rlx_generate_result r = {RLX_INIT(rlx_generate_result)};
    rlx_message message;
    static output one, two;
    char *text = NULL;
    rlx_message list[] = {{"system", "S"}, {"user", "U"}};
    CHECK_OK(rlx_chat_format(m, list, 2, true, &text, &err), &err);
    CHECK(text && strstr(text, "S") && strstr(text, "U"));
    rlx_free(text);
    CHECK_OK(rlx_chat_create(m, "Be brief.", &c, &err), &err);
    CHECK_OK(rlx_chat_say(c, "Hi", &desc, take, &one, &r, &err), &err);
    CHECK(rlx_chat_n_messages(c) == 3 && r.n_reused == 0);
    CHECK(rlx_chat_message(c, 2, &message) && !strcmp(message.role, "assistant") &&
          !strcmp(message.content, one.text));
    CHECK_OK(rlx_chat_save(c, path, &err), &err);
    one = (output){0};
    CHECK_OK(rlx_chat_say(c, "More", &desc, take, &one, &r, &err), &err);
    CHECK(r.n_reused > 20);
    /* Another chat goes on from the file in the same way. */
    CHECK_OK(rlx_chat_create(m, NULL, &d, &err), &err);
    CHECK_OK(rlx_chat_load(d, path, &err), &err);
    CHECK(rlx_chat_n_messages(d) == 3);
    CHECK_OK(rlx_chat_say(d, "More", &desc, take, &two, &r, &err), &err);
    CHECK(r.n_reused > 20 && !strcmp(one.text, two.text));
    /* Longer than the context: old messages are left out, not the system's. */
    for (int i = 0; i < 12; i++)
        CHECK_OK(rlx_chat_say(d, "Tell me more about it.", &desc, NULL, NULL, &r, &err), &err);
    CHECK(rlx_chat_n_messages(d) == 5 + 24 && r.n_prompt < 256);
    CHECK_OK(rlx_chat_reset(d, &err), &err);
    CHECK(rlx_chat_n_messages(d) == 1);
    rlx_context_cancel(rlx_chat_context(d));
    CHECK(rlx_chat_say(d, "Hi", &desc, NULL, NULL, &r, &err) == RLX_CANCELLED);
    CHECK(rlx_chat_n_messages(d) == 1);
    unlink(path);
    rlx_chat_destroy(c);
    rlx_chat_destroy(d);
    rlx_model_close(m);
}

static void write_text(const char *folder, const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    CHECK(f && fputs(text, f) >= 0 && !fclose(f));
}

static void remove_files(const char *folder, const char *const *names, size_t n)
{
    char path[128];
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

/* A template that refuses messages of the system: they go in front of what the user says. The
 * tokenizer is a folder. */
static void test_chat_without_system(void)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json"};
    char folder[] = "/tmp/rlx-tokenizer-XXXXXX", *text = NULL;
    rlx_error err = {0};
    rlx_model *m = NULL;
    if (!CHECK(mkdtemp(folder) != NULL))
        return;
    write_text(folder, names[0], "{\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\","
                                 "\"vocab\":{\"[UNK]\":0,\"a\":1}}}");
    write_text(folder, names[1], "{\"chat_template\":\"{% if messages[0]['role'] == 'system' %}"
                                 "{{ raise_exception('no system') }}{% endif %}"
                                 "{% for m in messages %}[{{ m['role'] }}: {{ m['content'] }}]"
                                 "{% endfor %}\"}");
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .tokenizer = folder};
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &m, &err), &err);
    rlx_message list[] = {{"system", "S"}, {"user", "U"}};
    CHECK_OK(rlx_chat_format(m, list, 2, false, &text, &err), &err);
    if (!CHECK(text && !strcmp(text, "[user: S\n\nU]")))
        printf("    %s\n", text ? text : "nothing");
    rlx_free(text);
    CHECK_FAILS(rlx_chat_format(m, list, 1, false, &text, &err), RLX_INVALID, &err, "no system");
    rlx_model_close(m);
    remove_files(folder, names, 2);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

/* Calls after the third token and at the end. */
static int note_calls(void *user, const rlx_piece *p)
{
    long *calls = user;
    (void)p;
    calls[0]++;
    if (calls[0] == 3)
        calls[1] = memory_calls();
    calls[2] = memory_calls();
    return 0;
}

/* The code of kernels stays until the process ends: those of a penalty are there from now on. */
static void load_kernels(const rlx_generate_desc *d)
{
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .sequences = 2});
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_generate(c, d, NULL, NULL, NULL, &err), &err);
    rlx_context_destroy(c);
    rlx_model_close(m);
}

static void test_steady(void)
{
    const char *stops[] = {"never"};
    rlx_sampling_desc sampling = {RLX_INIT(rlx_sampling_desc), .temperature = 1,
                                  .repeat_penalty = 1.1};
    rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "Hello", .max_tokens = 40,
                           .ignore_end = true, .stop = stops, .n_stop = 1, .sampling = &sampling};
    load_kernels(&d);
    rlx_set_allocator(&counting);
    rlx_model *m = open_tiny((rlx_model_desc){RLX_INIT(rlx_model_desc), .sequences = 2});
    rlx_context *c = NULL;
    rlx_error err = {0};
    long calls[3] = {0};
    int32_t tokens[2];
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_generate(c, &d, note_calls, calls, NULL, &err), &err);
    CHECK(calls[0] >= 40 && calls[1] == calls[2]);
    sampling.repeat_penalty = 1; /* the next token may be computed ahead */
    CHECK_OK(rlx_generate(c, &d, note_calls, memset(calls, 0, sizeof calls), NULL, &err), &err);
    CHECK(calls[0] >= 40 && calls[1] == calls[2]);
    /* The same for two sequences with a time limit. */
    CHECK_OK(rlx_context_append(c, 1, (int32_t[]){1, 2, 3}, 3, &err), &err);
    for (int i = 0; i < 10; i++) {
        CHECK_OK(rlx_context_step(c, 10000, tokens, &err), &err);
        if (i == 2)
            calls[1] = memory_calls();
    }
    CHECK(memory_calls() == calls[1]);
    rlx_context_destroy(c);
    rlx_model_close(m);
    CHECK(memory_live() == 0);
    rlx_set_allocator(NULL);
}

/* Everything once. */
static rlx_status use_all(rlx_error *err)
{
    rlx_model *m = NULL;
    rlx_context *c = NULL;
    rlx_chat *chat = NULL;
    rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 1, .context = 160,
                        .prompt_chunk = 8, .sequences = 2};
    const char *stops[] = {"never"};
    rlx_generate_desc g = {RLX_INIT(rlx_generate_desc), .prompt = "Hello", .max_tokens = 4,
                           .stop = stops, .n_stop = 1, .shift = true};
    int32_t tokens[12] = {1, 2, 3};
    float scores[12];
    rlx_status st = rlx_model_open_memory(file.data, file.n, &d, &m, err);
    if (!st)
        st = rlx_context_create(m, &c, err);
    if (!st)
        st = rlx_generate(c, &g, NULL, NULL, NULL, err);
    if (!st)
        st = rlx_context_set_tokens(c, 1, tokens, 12, err);
    if (!st)
        st = rlx_context_step(c, -1, tokens, err);
    if (!st)
        st = rlx_context_save(c, 0, "tiny_memory.tmp", err);
    if (!st)
        st = rlx_context_load(c, 1, "tiny_memory.tmp", err);
    if (!st)
        st = rlx_score(m, tokens, 3, scores, err);
    if (!st)
        st = rlx_chat_create(m, "S", &chat, err);
    if (!st)
        st = rlx_chat_say(chat, "U", &g, NULL, NULL, NULL, err);
    rlx_chat_destroy(chat);
    rlx_context_destroy(c);
    rlx_model_close(m);
    return st;
}

/* The n-th allocation fails, for many n: a status and no leak. */
static void test_no_memory(void)
{
    rlx_error err = {0};
    CHECK_OK(use_all(&err), &err); /* GPU kernels are unpacked once in a process, and kept */
    rlx_set_allocator(&counting);
    CHECK_OK(use_all(&err), &err);
    CHECK(memory_live() == 0);
    long all = 0, n_ok = 0;
    memory_fail(0, false);
    CHECK_OK(use_all(&err), &err);
    all = memory_calls();
    const uint64_t every = !strcmp(device, "cpu") ? 1 : 12; /* slow on software GPUs */
    for (long at = 1; at <= all; at += at < 300 ? 1 : 37) {
        rlx_status st;
        if (!in_share((uint64_t)at, every))
            continue;
        memory_fail(at, false);
        if (!CHECK_OK_OR(st = use_all(&err), RLX_NO_MEMORY, &err))
            printf("    allocation %ld\n", at);
        n_ok += st == RLX_OK;
        if (!CHECK(memory_live() == 0))
            break;
    }
    memory_fail(0, false);
    printf("%ld allocations, %ld failures had no effect\n", all, n_ok);
    rlx_set_allocator(NULL);
    unlink("tiny_memory.tmp");
}

int main(int argc, char **argv)
{
    const char *wanted = getenv("RLX_TEST_DEVICE");
    if (wanted && *wanted)
        device = wanted;
    file = tiny_model(TINY_LLAMA, 1);
    if (argc == 3 && !strcmp(argv[1], "--write"))
        return !blob_write(&file, argv[2]);
    test_ends();
    test_ahead();
    test_wrong_calls();
    test_stops();
    test_pieces();
    test_scores();
    test_generations_at_once();
    test_chat();
    test_chat_without_system();
    test_steady();
    test_no_memory();
    blob_free(&file);
    return check_done();
}
