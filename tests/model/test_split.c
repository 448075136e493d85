/* SPDX-License-Identifier: MIT */
/* Models whose first layers are on the CPU and whose last ones are on a GPU: the tokens of the CPU
 * alone, in chunks, with several sequences, with penalties, in pieces of time, from files; scores,
 * engines, and what needs all layers in one place. Runs on the device in RLX_TEST_DEVICE, or on
 * vulkan; passes where that is not there. */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/tiny_model.h"

#define N_PROMPT 21
#define N_NEW 8

static const char *device = "vulkan";
static blob files[2];

static rlx_model *open_tiny(tiny_kind kind, const char *on, int64_t layers, int64_t sequences)
{
    rlx_model *m = NULL;
    rlx_error err = {0};
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = on, .threads = 2,
                              .policy = RLX_POLICY_EXACT, .prompt_chunk = 9,
                              .sequences = sequences, .gpu_layers = layers};
    CHECK_OK(rlx_model_open_memory(files[kind].data, files[kind].n, &d, &m, &err), &err);
    return m;
}

static rlx_context *new_context(rlx_model *m)
{
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    return c;
}

static void make_prompt(int32_t *tokens, uint32_t seed)
{
    for (uint32_t i = 0; i < N_PROMPT; i++)
        tokens[i] = (int32_t)((seed * 31 + i * i * 7 + i * 13) % 256);
}

/* Steps that may be left after any time. */
static void step(rlx_context *c, int64_t timeout_ms, int32_t *tokens)
{
    rlx_error err = {0};
    rlx_status st;
    do
        st = rlx_context_step(c, timeout_ms, tokens, &err);
    while (st == RLX_TIMEOUT);
    CHECK_OK(st, &err);
}

/* Tokens of all sequences, each with its prompt. */
static void decode(rlx_context *c, size_t sequences, int64_t timeout_ms, int32_t *out)
{
    rlx_error err = {0};
    int32_t prompt[N_PROMPT];
    for (size_t i = 0; i < sequences; i++) {
        make_prompt(prompt, (uint32_t)i + 1);
        CHECK_OK(rlx_context_set_tokens(c, i, prompt, N_PROMPT - i, &err), &err);
    }
    for (size_t i = 0; i < N_NEW; i++)
        step(c, timeout_ms, out + i * sequences);
}

static bool same(const int32_t *a, const int32_t *b, size_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void test_tokens(tiny_kind kind, size_t sequences)
{
    const rlx_sampling_desc penalised = {RLX_INIT(rlx_sampling_desc), .repeat_penalty = 1.3};
    const rlx_sampling_desc hosted = {RLX_INIT(rlx_sampling_desc), .dry_multiplier = 0.8};
    const rlx_sampling_desc *ways[] = {NULL, &penalised, &hosted};
    rlx_error err = {0};
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_model *whole = open_tiny(kind, "cpu", 0, (int64_t)sequences);
    rlx_model *split = open_tiny(kind, device, 1, (int64_t)sequences);
    CHECK_OK(rlx_model_get_info(split, &info, &err), &err);
    CHECK(info.host_layers == 1 && info.layers == 2 && info.host_weight_bytes > 0);
    CHECK(info.host_cache_bytes == info.cache_bytes);
    rlx_context *a = new_context(whole), *b = new_context(split), *clone = new_context(split);
    for (size_t i = 0; i < 3; i++) {
        int32_t want[N_NEW * 2], got[N_NEW * 2];
        CHECK_OK(rlx_context_set_sampling(a, ways[i], &err), &err);
        CHECK_OK(rlx_context_set_sampling(b, ways[i], &err), &err);
        decode(a, sequences, -1, want);
        decode(b, sequences, i == 1 ? 0 : -1, got);
        CHECK(same(want, got, N_NEW * sequences));
        CHECK_OK(rlx_context_set_tokens(b, 0, NULL, 0, &err), &err);
        CHECK_OK(rlx_context_set_tokens(a, 0, NULL, 0, &err), &err);
        if (i)
            continue;
        decode(clone, sequences, -1, got);
        CHECK(same(want, got, N_NEW * sequences));
    }
    rlx_context_destroy(a);
    rlx_context_destroy(b);
    rlx_context_destroy(clone);
    rlx_model_close(whole);
    rlx_model_close(split);
}

/* Logits are those of the step, also when the next one was computed ahead; generation goes on. */
static void test_generation(void)
{
    static float want[TINY_VOCABULARY], got[TINY_VOCABULARY];
    rlx_error err = {0};
    rlx_generate_result r[2] = {{RLX_INIT(rlx_generate_result)}, {RLX_INIT(rlx_generate_result)}};
    const rlx_generate_desc d = {RLX_INIT(rlx_generate_desc), .prompt = "a tale", .max_tokens = 20,
                                 .ignore_end = true, .shift = true};
    const rlx_sampling_desc greedy = {RLX_INIT(rlx_sampling_desc)};
    rlx_generate_desc all = d;
    all.sampling = &greedy;
    for (int i = 0; i < 2; i++) {
        rlx_model *m = open_tiny(TINY_LLAMA, i ? device : "cpu", i, 1);
        rlx_context *c = new_context(m);
        CHECK_OK(rlx_generate(c, &all, NULL, NULL, &r[i], &err), &err);
        CHECK_OK(rlx_context_logits(c, 0, i ? got : want, TINY_VOCABULARY, &err), &err);
        rlx_context_destroy(c);
        rlx_model_close(m);
    }
    CHECK(r[0].n_generated == r[1].n_generated && r[0].finish == r[1].finish);
    for (int i = 0; i < TINY_VOCABULARY; i++)
        CHECK(fabsf(want[i] - got[i]) < 2e-2f);
}

/* ---- Files ----------------------------------------------------------------------------------- */

/* A sequence saved from two devices goes on there, and where one device has all layers. */
static void test_files(tiny_kind kind)
{
    char path[64];
    rlx_error err = {0};
    int32_t want[N_NEW], got[N_NEW], token;
    snprintf(path, sizeof path, "test_split.%d.seq", (int)getpid());
    rlx_model *split = open_tiny(kind, device, 1, 1), *whole = open_tiny(kind, "cpu", 0, 1);
    rlx_context *a = new_context(split), *b = new_context(split), *c = new_context(whole);
    decode(a, 1, -1, want);
    CHECK_OK(rlx_context_save(a, 0, path, &err), &err);
    for (int i = 0; i < N_NEW; i++)
        step(a, -1, &want[i]);
    rlx_context *to[] = {b, c};
    for (int k = 0; k < 2; k++) {
        CHECK_OK(rlx_context_load(to[k], 0, path, &err), &err);
        CHECK(rlx_context_computed(to[k], 0) > 0);
        for (int i = 0; i < N_NEW; i++, got[i - 1] = token)
            step(to[k], -1, &token);
        CHECK(same(want, got, N_NEW));
    }
    unlink(path);
    rlx_context_destroy(a);
    rlx_context_destroy(b);
    rlx_context_destroy(c);
    rlx_model_close(split);
    rlx_model_close(whole);
}

/* ---- Scores, engines, refusals --------------------------------------------------------------- */

static void test_scores(tiny_kind kind)
{
    int32_t text[N_PROMPT];
    float want[N_PROMPT], got[N_PROMPT];
    rlx_error err = {0};
    rlx_model *split = open_tiny(kind, device, 1, 1), *whole = open_tiny(kind, "cpu", 0, 1);
    make_prompt(text, 5);
    for (int i = 0; i < 2; i++) { /* recurrent states begin anew */
        CHECK_OK(rlx_score(whole, text, N_PROMPT, want, &err), &err);
        CHECK_OK(rlx_score(split, text, N_PROMPT, got, &err), &err);
        for (int k = 0; k < N_PROMPT; k++)
            CHECK(fabsf(want[k] - got[k]) < 1e-2f);
    }
    rlx_model_close(split);
    rlx_model_close(whole);
}

static size_t ask(rlx_engine *e, const char *prompt, int32_t *out)
{
    rlx_error err = {0};
    rlx_request *r = NULL;
    rlx_request_piece p;
    bool more = true;
    size_t n = 0;
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .prompt = prompt, .max_tokens = N_NEW,
                                .ignore_end = true};
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    while (more && CHECK_OK(rlx_request_next(r, -1, &p, &more, &err), &err))
        if (more && p.token >= 0 && n < N_NEW)
            out[n++] = p.token;
    rlx_request_destroy(r);
    return n;
}

static void test_engine(void)
{
    int32_t tokens[2][2 * N_NEW];
    rlx_error err = {0};
    for (int i = 0; i < 2; i++) {
        rlx_model *m = open_tiny(TINY_LLAMA, i ? device : "cpu", i, 1);
        rlx_engine *e = NULL;
        const rlx_engine_desc d = {RLX_INIT(rlx_engine_desc), .sequences = 2, .page = 8,
                                   .rows = 8};
        CHECK_OK(rlx_engine_create(m, &d, &e, &err), &err);
        CHECK(ask(e, "once upon a time there", tokens[i]) == N_NEW);
        CHECK(ask(e, "once upon a time, not", tokens[i] + N_NEW) == N_NEW);
        rlx_engine_destroy(e);
        rlx_model_close(m);
    }
    CHECK(same(tokens[0], tokens[1], 2 * N_NEW));
}

static void test_refusals(void)
{
    rlx_error err = {0};
    rlx_model *m = NULL, *split = open_tiny(TINY_LLAMA, device, 1, 1);
    rlx_trainer *t = NULL;
    rlx_engine *e = NULL;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    const rlx_trainer_desc train = {RLX_INIT(rlx_trainer_desc), .data = "none.txt"};
    CHECK_FAILS(rlx_trainer_create(split, &train, &t, &err), RLX_UNSUPPORTED, &err,
                "needs all layers");
    const rlx_engine_desc drafted = {RLX_INIT(rlx_engine_desc), .sequences = 1, .draft = split};
    rlx_model *whole = open_tiny(TINY_LLAMA, device, RLX_GPU_LAYERS_NONE, 1);
    CHECK_FAILS(rlx_engine_create(whole, &drafted, &e, &err), RLX_UNSUPPORTED, &err,
                "a draft model needs all layers");
    rlx_device_info on = {RLX_INIT(rlx_device_info)};
    CHECK_OK(rlx_device_get_info(rlx_model_device(whole), &on, &err), &err);
    CHECK(!strcmp(on.id, "cpu"));
    rlx_model_close(whole);
    whole = open_tiny(TINY_LLAMA, device, 99, 1);
    CHECK_OK(rlx_model_get_info(whole, &info, &err), &err);
    CHECK(info.host_layers == 0);
    rlx_model_close(whole);
    rlx_model_close(split);
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .gpu_layers = -2};
    CHECK_FAILS(rlx_model_open_memory(files[0].data, files[0].n, &d, &m, &err), RLX_INVALID, &err,
                "gpu_layers");
}

int main(void)
{
    const char *wanted = getenv("RLX_TEST_DEVICE");
    if (wanted && *wanted)
        device = wanted;
    if (!rlx_device_is_available(device) || !strcmp(device, "cpu")) {
        printf("skipped: no %s\n", device);
        return 77;
    }
    files[TINY_LLAMA] = tiny_model(TINY_LLAMA, 1);
    files[TINY_MAMBA] = tiny_model(TINY_MAMBA, 1);
    for (int kind = 0; kind < 2; kind++) {
        test_tokens(kind, 1);
        test_files(kind);
        test_scores(kind);
    }
    test_tokens(TINY_LLAMA, 2);
    test_generation();
    test_engine();
    test_refusals();
    blob_free(&files[0]);
    blob_free(&files[1]);
    return check_done();
}
