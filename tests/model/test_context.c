/* SPDX-License-Identifier: MIT */
/* Contexts with tiny random models: the same tokens whichever way they are computed (at once, in
 * chunks, reused, restored, with others in a batch, in pieces of time), and clear ends: full,
 * cancelled, damaged files. Runs on the device in RLX_TEST_DEVICE, or the CPU. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/map.h"
#include "check.h"
#include "model/model.h"
#include "rlx/rlx.h"
#include "support/share.h"
#include "support/temp_file.h"
#include "support/tiny_model.h"

#define MAX_NEW 24

static const char *device = "cpu";
static blob files[2];

static rlx_model *open_tiny(tiny_kind kind, rlx_model_desc d)
{
    rlx_model *m = NULL;
    rlx_error err = {0};
    d.device = device;
    d.threads = 2;
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

/* A prompt of n tokens. */
static void make_prompt(int32_t *tokens, size_t n, uint32_t seed)
{
    for (size_t i = 0; i < n; i++)
        tokens[i] = (int32_t)((seed * 31 + i * i * 7 + i * 13) % 256);
}

/* Steps one sequence n times from a prompt and lists the tokens. */
static void decode(rlx_context *c, size_t seq, const int32_t *prompt, size_t n_prompt, int32_t *out,
                   size_t n)
{
    rlx_error err = {0};
    int32_t tokens[16];
    CHECK_OK(rlx_context_set_tokens(c, seq, prompt, n_prompt, &err), &err);
    for (size_t i = 0; i < n; i++) {
        CHECK_OK(rlx_context_step(c, -1, tokens, &err), &err);
        out[i] = tokens[seq];
    }
}

static bool same(const int32_t *a, const int32_t *b, size_t n)
{
    return !memcmp(a, b, n * sizeof *a);
}

/* ---- One sequence ---------------------------------------------------------------------------- */

/* Chunks of every size, and sampling with a seed, give the same tokens each time. */
static void test_chunks(tiny_kind kind)
{
    int32_t prompt[20], want[MAX_NEW], got[MAX_NEW];
    make_prompt(prompt, 20, 1);
    for (int64_t batch = 1; batch <= 32; batch = batch * 2 + 1) {
        rlx_model *m = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc),
                                                        .prompt_chunk = batch});
        rlx_context *c = new_context(m);
        decode(c, 0, prompt, 20, batch == 1 ? want : got, 10);
        CHECK(batch == 1 || same(want, got, 10));
        rlx_context_destroy(c);
        rlx_model_close(m);
    }
}

/* Logits after a prompt of n tokens behind `before` others, and after three more steps, in chunks
 * of `chunk`. */
static void logits_of(size_t before, size_t n, int64_t chunk, float out[4][TINY_VOCABULARY])
{
    int32_t prompt[TINY_CONTEXT], token;
    rlx_error err = {0};
    rlx_tensor_info info = {0};
    rlx_model *m = open_tiny(TINY_LLAMA, (rlx_model_desc){RLX_INIT(rlx_model_desc),
                                                          .context = TINY_CONTEXT,
                                                          .prompt_chunk = chunk});
    rlx_context *c = new_context(m);
    make_prompt(prompt, before + n, 3);
    if (before) { /* the sampled token is replaced by those that follow */
        CHECK_OK(rlx_context_set_tokens(c, 0, prompt, before, &err), &err);
        CHECK_OK(rlx_context_step(c, -1, &token, &err), &err);
    }
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt, before + n, &err), &err);
    for (int i = 0; i < 4; i++) {
        CHECK_OK(rlx_context_step(c, -1, &token, &err), &err);
        CHECK_OK(rlx_context_logits(c, 0, out[i], TINY_VOCABULARY, &err), &err);
        rlx_session *s = rlx_context_session(c);
        const int64_t rows = rlx_session_round_rows(s, (int64_t)n);
        const int64_t padded = rows < chunk ? rows : chunk;
        if (!i)
            CHECK(rlx_session_leaf(s, RLX_LEAF_INPUT, 0, &info) && info.shape.dim[1] == padded);
        CHECK(rlx_session_flags(s) == 0);
    }
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* Padding in front of a prompt, so that lengths recur on GPUs, changes no bit and no row of the
 * cache: a chunk of just the prompt has none. */
static void test_padding(void)
{
    static const struct { size_t before, n; } sizes[] = {{0, 33}, {20, 40}};
    static float want[4][TINY_VOCABULARY], got[4][TINY_VOCABULARY];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        logits_of(sizes[i].before, sizes[i].n, (int64_t)sizes[i].n, want);
        logits_of(sizes[i].before, sizes[i].n, TINY_CONTEXT, got);
        CHECK(!memcmp(want, got, sizeof want));
    }
}

static void test_sampling(void)
{
    rlx_model *m = open_tiny(TINY_LLAMA, (rlx_model_desc){RLX_INIT(rlx_model_desc)});
    rlx_context *c = new_context(m);
    rlx_error err = {0};
    int32_t prompt[8], one[MAX_NEW], two[MAX_NEW], other[MAX_NEW];
    rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .temperature = 1.5, .top_k = 50,
                           .top_p = 0.95, .min_p = 0.01,
                      .repeat_penalty = 1.2, .seed = 7};
    make_prompt(prompt, 8, 2);
    CHECK_OK(rlx_context_set_sampling(c, &s, &err), &err);
    decode(c, 0, prompt, 8, one, MAX_NEW);
    CHECK_OK(rlx_context_set_sampling(c, &s, &err), &err);
    decode(c, 0, prompt, 8, two, MAX_NEW);
    CHECK(same(one, two, MAX_NEW));
    s.seed = 8;
    CHECK_OK(rlx_context_set_sampling(c, &s, &err), &err);
    decode(c, 0, prompt, 8, other, MAX_NEW);
    CHECK(!same(one, other, MAX_NEW));
    s.top_p = 2;
    CHECK_FAILS(rlx_context_set_sampling(c, &s, &err), RLX_INVALID, &err, "top_p is 2");
    s = (rlx_sampling_desc){RLX_INIT(rlx_sampling_desc), .repeat_last = 300};
    CHECK_FAILS(rlx_context_set_sampling(c, &s, &err), RLX_INVALID, &err, "at most 256");
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* A model that is read in parts gives the logits of one that is in memory. */
static void test_unmapped(tiny_kind kind)
{
    static float want[TINY_VOCABULARY], got[TINY_VOCABULARY];
    const char *path = temp_file(files[kind].data, files[kind].n);
    rlx_model *models[2] = {open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc)}), NULL};
    rlx_error err = {0};
    int32_t prompt[20];
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .no_map = true};
    make_prompt(prompt, 20, 5);
    CHECK_OK(rlx_model_open(path, &d, &models[1], &err), &err);
    CHECK(rx_model_fingerprint(models[0]) == rx_model_fingerprint(models[1]));
    for (int i = 0; i < 2; i++) {
        rlx_context *c = new_context(models[i]);
        CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 20, &err), &err);
        CHECK_OK(rlx_context_step(c, -1, NULL, &err), &err);
        CHECK_OK(rlx_context_logits(c, 0, i ? got : want, TINY_VOCABULARY, &err), &err);
        rlx_context_destroy(c);
        rlx_model_close(models[i]);
    }
    CHECK(!memcmp(want, got, sizeof want));
}

/* What is in the cache already is used, and gives what a fresh context gives. */
static void test_prefix(tiny_kind kind)
{
    rlx_model *m = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 8});
    rlx_context *c = new_context(m), *fresh = new_context(m);
    rlx_error err = {0};
    int32_t a[24], b[24], want[8], got[8];
    size_t n;
    make_prompt(a, 24, 3);
    memcpy(b, a, sizeof a);
    b[15] = (b[15] + 1) % 256;
    decode(c, 0, a, 24, got, 5);
    CHECK_OK(rlx_context_set_tokens(c, 0, b, 24, &err), &err);
    CHECK(rlx_context_computed(c, 0) == (kind == TINY_LLAMA ? 15 : 0));
    decode(c, 0, b, 24, got, 8);
    decode(fresh, 0, b, 24, want, 8);
    CHECK(same(want, got, 8));
    /* Cut back, then the same tokens again: the last one is computed anew. */
    decode(c, 0, b, 10, got, 8);
    decode(fresh, 0, b, 10, want, 8);
    CHECK(same(want, got, 8));
    CHECK_OK(rlx_context_set_tokens(c, 0, b, 10, &err), &err);
    CHECK(rlx_context_computed(c, 0) == (kind == TINY_LLAMA ? 9 : 0));
    CHECK(rlx_context_tokens(c, 0, &n) && n == 10);
    /* Appending goes on from where it was. */
    decode(c, 0, b, 10, got, 2);
    CHECK_OK(rlx_context_append(c, 0, a, 4, &err), &err);
    int32_t tokens[16];
    memcpy(tokens, rlx_context_tokens(c, 0, &n), 16 * sizeof *tokens);
    CHECK(n == 16);
    CHECK_OK(rlx_context_step(c, -1, got, &err), &err);
    decode(fresh, 0, tokens, 16, want, 1);
    CHECK(got[0] == want[0]);
    rlx_context_destroy(c);
    rlx_context_destroy(fresh);
    rlx_model_close(m);
}

static void test_wrong_calls(void)
{
    rlx_model *m = open_tiny(TINY_LLAMA, (rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 16});
    rlx_context *c = new_context(m);
    rlx_error err = {0};
    int32_t prompt[17], token;
    float logits[TINY_VOCABULARY];
    make_prompt(prompt, 17, 4);
    CHECK_FAILS(rlx_context_step(c, -1, &token, &err), RLX_INVALID, &err, "no sequence has tokens");
    CHECK_FAILS(rlx_context_set_tokens(c, 0, prompt, 17, &err), RLX_INVALID, &err,
                "the context holds 16");
    CHECK_FAILS(rlx_context_set_tokens(c, 1, prompt, 1, &err), RLX_INVALID, &err,
                "no sequence 1");
    prompt[3] = TINY_VOCABULARY;
    CHECK_FAILS(rlx_context_set_tokens(c, 0, prompt, 4, &err), RLX_INVALID, &err,
                "token 3 is 257; expected 0 to 256");
    prompt[3] = 0;
    CHECK_FAILS(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), RLX_INVALID, &err,
                "no logits");
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 15, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, &token, &err), &err);
    CHECK_FAILS(rlx_context_logits(c, 0, logits, 3, &err), RLX_INVALID, &err, "expected 257");
    CHECK_OK(rlx_context_logits(c, 0, logits, TINY_VOCABULARY, &err), &err);
    for (size_t i = 0; i < TINY_VOCABULARY; i++)
        CHECK(logits[i] <= logits[token]);
    CHECK_FAILS(rlx_context_step(c, -1, &token, &err), RLX_INVALID, &err, "sequence 0 is full");
    CHECK_OK(rlx_context_set_tokens(c, 0, NULL, 0, &err), &err);
    CHECK_FAILS(rlx_context_step(c, -1, &token, &err), RLX_INVALID, &err, "no sequence has tokens");
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Several sequences ----------------------------------------------------------------------- */

/* Prompts of different lengths together give what each gives alone; logits too. */
static void test_sequences(tiny_kind kind)
{
    enum { N = 4, STEPS = 6 };
    rlx_model *m = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc), .sequences = N,
                                                    .prompt_chunk = 8, .context = 48});
    rlx_model *single = open_tiny(kind,
                                  (rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 8,
                                                         .context = 48});
    rlx_context *c = new_context(m), *alone = new_context(single);
    rlx_error err = {0};
    int32_t prompt[32], want[N][STEPS], tokens[N];
    static float logits[2][TINY_VOCABULARY];
    size_t length[N] = {5, 1, 17, 9};
    for (size_t s = 0; s < N; s++) {
        make_prompt(prompt, length[s], (uint32_t)s + 10);
        decode(alone, 0, prompt, length[s], want[s], STEPS);
        CHECK_OK(rlx_context_set_tokens(c, s, prompt, length[s], &err), &err);
    }
    for (size_t i = 0; i < STEPS; i++) {
        CHECK_OK(rlx_context_step(c, -1, tokens, &err), &err);
        for (size_t s = 0; s < N; s++) {
            CHECK(tokens[s] == want[s][i]);
            CHECK_OK(rlx_context_logits(c, s, logits[0], TINY_VOCABULARY, &err), &err);
            CHECK(logits[0][tokens[s]] >= logits[0][(tokens[s] + 1) % 256]);
        }
    }
    /* One sequence rests, one starts anew, the others go on. */
    CHECK_OK(rlx_context_set_tokens(c, 1, NULL, 0, &err), &err);
    make_prompt(prompt, length[2], 12);
    CHECK_OK(rlx_context_set_tokens(c, 2, prompt, length[2], &err), &err);
    CHECK_OK(rlx_context_step(c, -1, tokens, &err), &err);
    CHECK(tokens[1] == -1 && tokens[0] >= 0 && tokens[2] == want[2][0] && tokens[3] >= 0);
    CHECK_FAILS(rlx_context_logits(c, 1, logits[0], TINY_VOCABULARY, &err), RLX_INVALID, &err,
                "sequence 1 has no logits");
    rlx_context_destroy(c);
    rlx_context_destroy(alone);
    rlx_model_close(m);
    rlx_model_close(single);
}

typedef struct worker {
    rlx_model *m;
    uint32_t seed;
    rlx_status status;
    int32_t got[MAX_NEW];
} worker;

/* CHECK counts without a lock, so a thread only keeps its status. */
static void *work(void *user)
{
    worker *w = user;
    rlx_context *c = NULL;
    int32_t prompt[12];
    make_prompt(prompt, 12, w->seed);
    w->status = rlx_context_create(w->m, &c, NULL);
    if (!w->status)
        w->status = rlx_context_set_tokens(c, 0, prompt, 12, NULL);
    for (size_t i = 0; i < MAX_NEW && !w->status; i++)
        w->status = rlx_context_step(c, -1, &w->got[i], NULL);
    rlx_context_destroy(c);
    return NULL;
}

/* Contexts of one model on threads of their own. */
static void test_threads(void)
{
    enum { N = 3 };
    rlx_model *m = open_tiny(TINY_LLAMA, (rlx_model_desc){RLX_INIT(rlx_model_desc)});
    worker alone[N] = {{0}}, together[N] = {{0}};
    pthread_t threads[N];
    for (uint32_t i = 0; i < N; i++) {
        alone[i] = together[i] = (worker){.m = m, .seed = i};
        work(&alone[i]);
    }
    for (size_t i = 0; i < N; i++)
        CHECK(!pthread_create(&threads[i], NULL, work, &together[i]));
    for (size_t i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        CHECK(!alone[i].status && !together[i].status);
        CHECK(same(alone[i].got, together[i].got, MAX_NEW));
    }
    rlx_model_close(m);
}

/* ---- Time and cancelling --------------------------------------------------------------------- */

static void test_timeouts(void)
{
    rlx_model *m = open_tiny(TINY_LLAMA,
                             (rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 4,
                                                          .sequences = 2});
    rlx_context *c = new_context(m);
    rlx_error err = {0};
    int32_t prompt[30], want[4][2], tokens[2];
    make_prompt(prompt, 30, 5);
    for (int pass = 0; pass < 2; pass++) {
        CHECK_OK(rlx_context_set_tokens(c, 0, NULL, 0, &err), &err);
        CHECK_OK(rlx_context_set_tokens(c, 1, NULL, 0, &err), &err);
        CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 30, &err), &err);
        CHECK_OK(rlx_context_set_tokens(c, 1, prompt + 3, 11, &err), &err);
        for (int i = 0; i < 4; i++) {
            rlx_status st = RLX_TIMEOUT;
            while (pass && (st = rlx_context_step(c, 0, tokens, &err)) == RLX_TIMEOUT)
                continue;
            if (!pass)
                st = rlx_context_step(c, -1, tokens, &err);
            CHECK_OK(st, &err);
            for (int s = 0; s < 2; s++) {
                if (!pass)
                    want[i][s] = tokens[s];
                CHECK(tokens[s] == want[i][s]);
            }
        }
    }
    /* Tokens may change while a run is under way. */
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt + 1, 20, &err), &err);
    rlx_status st = rlx_context_step(c, 0, tokens, &err);
    CHECK(st == RLX_OK || st == RLX_TIMEOUT);
    CHECK_OK(rlx_context_set_tokens(c, 1, NULL, 0, &err), &err);
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 30, &err), &err);
    CHECK_OK(rlx_context_step(c, 10000, tokens, &err), &err);
    CHECK(tokens[0] == want[0][0]);
    rlx_context_destroy(c);
    rlx_model_close(m);
}

static void *cancel_soon(void *user)
{
    usleep(2000);
    rlx_context_cancel(user);
    return NULL;
}

static void test_cancel(void)
{
    rlx_model *m = open_tiny(TINY_LLAMA,
                             (rlx_model_desc){RLX_INIT(rlx_model_desc), .prompt_chunk = 1,
                                                          .sequences = 2});
    rlx_context *c = new_context(m);
    rlx_error err = {0};
    int32_t prompt[40], want[2], tokens[2];
    make_prompt(prompt, 40, 6);
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 40, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, want, &err), &err);
    CHECK_OK(rlx_context_set_tokens(c, 0, prompt + 1, 1, &err), &err);
    rlx_context_cancel(c);
    CHECK_FAILS(rlx_context_step(c, -1, tokens, &err), RLX_CANCELLED, &err, "cancelled");
    /* It was said once: the next step works, from another thread or not. */
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        CHECK_OK(rlx_context_set_tokens(c, 0, prompt + 1, 1, &err), &err);
        CHECK_OK(rlx_context_set_tokens(c, 0, prompt, 40, &err), &err);
        CHECK(!pthread_create(&thread, NULL, cancel_soon, c));
        rlx_status st = rlx_context_step(c, i % 2 ? 10000 : -1, tokens, &err);
        CHECK(st == RLX_OK || st == RLX_CANCELLED);
        pthread_join(thread, NULL);
        if (st == RLX_OK) {
            CHECK(tokens[0] == want[0]);
            continue;
        }
        do
            st = rlx_context_step(c, -1, tokens, &err);
        while (st == RLX_CANCELLED);
        CHECK_OK(st, &err);
        CHECK(tokens[0] == want[0]);
    }
    rlx_context_destroy(c);
    rlx_model_close(m);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static blob read_blob(const char *path)
{
    blob b = {0};
    char buffer[4096];
    size_t n;
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL);
    while (f && (n = fread(buffer, 1, sizeof buffer, f)) > 0)
        blob_add(&b, buffer, n);
    if (f)
        fclose(f);
    return b;
}

/* Flips bits of a byte and cuts bytes off the end. */
static void rewrite(const char *path, size_t at, int bits, size_t cut)
{
    blob b = read_blob(path);
    if (at < b.n)
        b.data[at] ^= (unsigned char)bits;
    b.n -= cut;
    CHECK(blob_write(&b, path));
    blob_free(&b);
}

/* Flips bits behind the head (72 bytes) and makes the hash, the last number of it, right. */
static void forge(const char *path, size_t at, int bits)
{
    blob b = read_blob(path);
    b.data[at] ^= (unsigned char)bits;
    uint64_t hash = rx_hash(0, b.data + 72, b.n - 72);
    for (int i = 0; i < 8; i++)
        b.data[64 + i] = (unsigned char)(hash >> 8 * i);
    CHECK(blob_write(&b, path));
    blob_free(&b);
}

static void test_files(tiny_kind kind)
{
    const char *path = "tiny_sequence.tmp";
    rlx_model *m = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc), .sequences = 2});
    rlx_model *other = open_tiny(!kind, (rlx_model_desc){RLX_INIT(rlx_model_desc)});
    rlx_model *wide = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc), .cache = RLX_F32});
    rlx_model *less = open_tiny(kind, (rlx_model_desc){RLX_INIT(rlx_model_desc), .context = 8});
    rlx_context *c = new_context(m), *x = new_context(other), *w = new_context(wide);
    rlx_context *l = new_context(less);
    rlx_error err = {0};
    int32_t prompt[20], tokens[3], want;
    size_t n;
    make_prompt(prompt, 20, 8);
    decode(c, 0, prompt, 20, tokens, 3);
    CHECK_OK(rlx_context_save(c, 0, path, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, tokens, &err), &err);
    want = tokens[0];
    CHECK_OK(rlx_context_set_tokens(c, 0, NULL, 0, &err), &err);
    CHECK_OK(rlx_context_load(c, 1, path, &err), &err);
    CHECK(rlx_context_tokens(c, 1, &n) && n == 23 && rlx_context_computed(c, 1) == 22);
    CHECK_OK(rlx_context_step(c, -1, tokens, &err), &err);
    CHECK(tokens[0] == -1 && tokens[1] == want);
    CHECK_FAILS(rlx_context_load(x, 0, path, &err), RLX_INVALID, &err, "another model");
    CHECK_FAILS(rlx_context_load(w, 0, path, &err), RLX_INVALID, &err, "of another type");
    CHECK_FAILS(rlx_context_load(l, 0, path, &err), RLX_INVALID, &err, "the context holds 8");
    CHECK_FAILS(rlx_context_load(c, 0, "no/such/file", &err), RLX_IO, &err, "no/such/file");
    CHECK_FAILS(rlx_context_save(c, 0, "no/such/file", &err), RLX_IO, &err, "no/such/file");
    /* Every byte of the head and some of the body damaged, and cut. */
    for (size_t i = 0; i < 400; i += i < 80 ? 1 : 17) {
        rewrite(path, i, 0x40, 0);
        rlx_status st = rlx_context_load(c, 0, path, &err);
        CHECK(st == RLX_PARSE || st == RLX_INVALID);
        rewrite(path, i, 0x40, 0);
    }
    CHECK_OK(rlx_context_load(c, 0, path, &err), &err);
    /* With the right hash: a token out of range, and rows of another size. */
    forge(path, 72 + 3, 0x80);
    CHECK_FAILS(rlx_context_load(c, 0, path, &err), RLX_PARSE, &err, "token 0 is -");
    forge(path, 72 + 3, 0x80);
    forge(path, 72 + 23 * 4, 0x01);
    CHECK_FAILS(rlx_context_load(c, 0, path, &err), RLX_PARSE, &err, "rows of");
    forge(path, 72 + 23 * 4, 0x01);
    CHECK_OK(rlx_context_load(c, 0, path, &err), &err);
    rewrite(path, SIZE_MAX, 0, 1);
    CHECK_FAILS(rlx_context_load(c, 0, path, &err), RLX_PARSE, &err, "bytes for");
    rewrite(path, SIZE_MAX, 0, 300);
    CHECK(rlx_context_load(c, 0, path, &err) == RLX_PARSE);
    unlink(path);
    rlx_context_destroy(c);
    rlx_context_destroy(x);
    rlx_context_destroy(w);
    rlx_context_destroy(l);
    rlx_model_close(m);
    rlx_model_close(other);
    rlx_model_close(wide);
    rlx_model_close(less);
}

int main(void)
{
    const char *wanted = getenv("RLX_TEST_DEVICE");
    if (wanted && *wanted)
        device = wanted;
    files[TINY_LLAMA] = tiny_model(TINY_LLAMA, 1);
    files[TINY_MAMBA] = tiny_model(TINY_MAMBA, 1);
    const uint64_t every = !strcmp(device, "cpu") ? 1 : 2; /* slow on software GPUs */
    for (int kind = 0; kind < 2; kind++) {
        if (!in_share((uint64_t)kind, every))
            continue;
        test_chunks(kind);
        test_prefix(kind);
        test_sequences(kind);
        test_files(kind);
    }
    test_padding();
    test_sampling();
    test_unmapped(TINY_LLAMA);
    test_unmapped(TINY_MAMBA);
    test_wrong_calls();
    test_threads();
    test_timeouts();
    test_cancel();
    blob_free(&files[0]);
    blob_free(&files[1]);
    return check_done();
}
