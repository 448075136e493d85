/* SPDX-License-Identifier: MIT */
/* Batch invariance of engines under policy `exact`: tokens and log-probabilities of a request have
 * the same bits alone and in random mixes of others, with its prompt in chunks of any size, with
 * shared pages and without. A model with weights of several types, on the device in RLX_TEST_DEVICE
 * or the CPU with each of its instruction sets. */
#include <stdlib.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/share.h"

#define TOKENS 12
#define MIXES 4
#define CROWD 24
#define PROMPT 75

static uint32_t state = 7;

static uint32_t draw(uint32_t n)
{
    state = state * 1664525u + 1013904223u;
    return (state >> 8) % n;
}

/* ---- A model in another type ----------------------------------------------------------------- */

static bool copy_tensor(rlx_gguf_writer *w, const rlx_file_tensor *t, rlx_dtype to, rlx_error *err)
{
    const int64_t columns = t->shape.dim[t->shape.rank - 1];
    const int64_t rows = t->shape.rank > 1 ? t->shape.dim[0] : 1;
    const size_t bytes = (size_t)(rows * columns / rlx_dtype_block_size(to) *
                                  rlx_dtype_block_bytes(to));
    char *data = malloc(bytes);
    const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = t->dtype, .to = to,
                                      .src = t->data, .dst = data, .row_length = columns,
                                      .n_rows = rows, .threads = 1};
    const bool ok = CHECK_OK(rlx_quantize_rows(&d, NULL, err), err) &&
                    CHECK_OK(rlx_gguf_writer_write(w, data, bytes, err), err);
    free(data);
    return ok;
}

static bool write_model(const char *from, rlx_dtype type, const char *path)
{
    rlx_error err = {0};
    rlx_file *f = NULL;
    rlx_gguf_writer *w = NULL;
    rlx_file_tensor t;
    bool ok = CHECK_OK(rlx_file_open(from, &f, &err), &err) &&
              CHECK_OK(rlx_gguf_writer_create(path, &w, &err), &err) &&
              CHECK_OK(rlx_gguf_writer_copy_meta(w, f, &err), &err);
    for (size_t i = 0; ok && rlx_file_tensor_at(f, i, &t); i++)
        ok = CHECK_OK(rlx_gguf_writer_add_tensor(w, t.name, t.shape.rank > 1 ? type : RLX_F32,
                                                 &t.shape, &err), &err);
    for (size_t i = 0; ok && rlx_file_tensor_at(f, i, &t); i++)
        ok = copy_tensor(w, &t, t.shape.rank > 1 ? type : RLX_F32, &err);
    ok = ok && CHECK_OK(rlx_gguf_writer_finish(w, &err), &err);
    rlx_gguf_writer_destroy(w);
    rlx_file_close(f);
    return ok;
}

/* ---- Answers --------------------------------------------------------------------------------- */

typedef struct answer {
    int32_t tokens[TOKENS];
    float log_probs[TOKENS];
    size_t n;
} answer;

static rlx_request *submit(rlx_engine *e, uint32_t seed, size_t n_prompt, int64_t max_tokens)
{
    int32_t tokens[2 * PROMPT];
    rlx_error err = {0};
    rlx_request *r = NULL;
    for (size_t i = 0; i < n_prompt; i++) /* some begin alike */
        tokens[i] = (int32_t)((i < 40 ? i * 7 : i * 7 + seed * 13) % 250);
    const rlx_sampling_desc s = {RLX_INIT(rlx_sampling_desc), .temperature = seed % 2 ? 0.9 : 0,
                                 .seed = seed};
    const rlx_request_desc d = {RLX_INIT(rlx_request_desc), .tokens = tokens, .n_tokens = n_prompt,
                                .max_tokens = max_tokens, .ignore_end = true, .log_probs = true,
                                .sampling = &s};
    CHECK_OK(rlx_engine_submit(e, &d, &r, &err), &err);
    return r;
}

static void receive(rlx_request *r, answer *a)
{
    rlx_error err = {0};
    rlx_request_piece p;
    bool more = r != NULL;
    *a = (answer){0};
    while (more && CHECK_OK(rlx_request_next(r, -1, &p, &more, &err), &err))
        if (more && p.token >= 0 && a->n < TOKENS) {
            a->tokens[a->n] = p.token;
            a->log_probs[a->n++] = p.log_prob;
        }
    rlx_request_destroy(r);
}

static rlx_engine *make_engine(rlx_model *m, rlx_engine_desc d)
{
    rlx_engine *e = NULL;
    rlx_error err = {0};
    d.struct_size = sizeof d;
    CHECK_OK(rlx_engine_create(m, &d, &e, &err), &err);
    return e;
}

/* The answer to `seed` in some company. */
static void ask_in_mix(rlx_model *m, uint32_t seed, answer *a)
{
    static const int64_t rows[] = {16, 64, 512}, page[] = {8, 16, 32};
    rlx_request *crowd[CROWD];
    const size_t n = draw(CROWD + 1), before = draw((uint32_t)n + 1);
    const int64_t most = rows[draw(3)];
    rlx_engine *e = make_engine(m, (rlx_engine_desc){.sequences = 1 + draw(16), .rows = most,
                                                     .page = page[draw(3)], .no_thread = true,
                                                     .no_sharing = draw(2)});
    for (size_t i = 0; i < n; i++) {
        if (i == before) /* some have begun */
            for (uint32_t k = draw(6); k > 0; k--)
                rlx_engine_step(e, -1, NULL, NULL);
        crowd[i] = submit(e, 100 + draw(9), 1 + draw(PROMPT), 1 + draw(TOKENS));
    }
    receive(submit(e, seed, PROMPT, TOKENS), a);
    for (size_t i = 0; i < n; i++)
        rlx_request_destroy(crowd[i]);
    rlx_engine_destroy(e);
}

static void test_model(const char *path, const char *device, rlx_dtype cache)
{
    rlx_error err = {0};
    rlx_model *m = NULL;
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .context = 256, .cache = cache, .policy = RLX_POLICY_EXACT};
    if (!CHECK_OK(rlx_model_open(path, &d, &m, &err), &err))
        return;
    for (uint32_t seed = 0; seed < 2; seed++) {
        static answer alone, mixed;
        rlx_engine *e = make_engine(m, (rlx_engine_desc){.sequences = 1, .no_thread = true});
        receive(submit(e, seed, PROMPT, TOKENS), &alone);
        CHECK(alone.n == TOKENS);
        rlx_engine_destroy(e);
        for (int i = 0; i < MIXES; i++) {
            ask_in_mix(m, seed, &mixed);
            CHECK(!memcmp(&alone, &mixed, sizeof alone));
        }
    }
    rlx_model_close(m);
}

#ifdef RX_SANITIZED
#define EVERY 10
#else
#define EVERY 3
#endif

int main(void)
{
    static const rlx_dtype types[] = {RLX_Q8_0, RLX_Q4_0, RLX_F16, RLX_F32, RLX_IQ4_NL};
    static const char *const levels[] = {"generic", "avx2", "avx512", "vnni"};
    const char *source = getenv("RLX_SOURCE_DIR"), *device = getenv("RLX_TEST_DEVICE");
    const size_t n_levels = device ? 1 : sizeof levels / sizeof *levels;
    const size_t n_types = device ? 2 : sizeof types / sizeof *types;
    char from[512], path[64];
    snprintf(from, sizeof from, "%s/models/tiny-stories.gguf", source ? source : ".");
    snprintf(path, sizeof path, "/tmp/rlx-invariance-%ld.gguf", (long)getpid());
    for (size_t i = 0; i < n_types; i++) {
        if (!write_model(from, types[i], path))
            break;
        for (size_t k = 0; k < n_levels; k++) {
            if (!device && !in_share(i * n_levels + k, EVERY))
                continue;
            if (!device)
                setenv("RLX_CPU", levels[k], 1);
            test_model(path, device ? device : "cpu", i % 2 ? RLX_F16 : RLX_F32);
        }
    }
    unlink(path);
    return check_done();
}
