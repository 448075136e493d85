/* SPDX-License-Identifier: MIT */
/* The graph of rows of many sequences: logits of mixed chunks and padding against those of a
 * context, penalties and bias, masks, log-probabilities. Runs on the device in RLX_TEST_DEVICE, or
 * the CPU. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "model/model.h"
#include "rlx/rlx.h"
#include "support/tiny_model.h"

#define PAGE 4
#define CONTEXT 32
#define N_PAGES 20 /* the last one for padding */
#define WIDTH (CONTEXT / PAGE)
#define ROWS 16
#define WORDS ((TINY_VOCABULARY + 31) / 32)

static const char *device = "cpu";

typedef struct batch {
    int32_t tokens[ROWS], positions[ROWS], places[ROWS], sequence[ROWS], lengths[ROWS];
    int32_t pages[3 * WIDTH], outputs[4];
    int32_t adjust[8], masked[2], bits[2 * WORDS], ranked[2], targets[2];
    float factor[8], add[8], sampling[16];
    int64_t seed[4];
    size_t n, n_outputs;
    size_t n_adjust, n_masked, n_ranked;
} batch;

static void add_row(batch *b, int32_t sequence, int32_t position, int32_t token)
{
    const size_t i = b->n++;
    b->tokens[i] = token;
    b->positions[i] = position;
    b->sequence[i] = sequence;
    b->lengths[i] = position + 1;
    b->places[i] = b->pages[sequence * WIDTH + position / PAGE] * PAGE + position % PAGE;
}

static void add_padding(batch *b, size_t n)
{
    while (b->n < n) {
        const size_t i = b->n++;
        b->tokens[i] = b->positions[i] = b->sequence[i] = b->lengths[i] = 0;
        b->places[i] = (N_PAGES - 1) * PAGE;
    }
}

static void set(rlx_session *s, const char *name, const void *data, size_t n)
{
    rlx_error err = {0};
    CHECK_OK(rlx_session_set_input(s, name, data, n * 4, &err), &err);
}

static void bind(rlx_session *s, const char *name, size_t n)
{
    rlx_error err = {0};
    CHECK_OK(rlx_session_bind(s, name, (int64_t)n, &err), &err);
}

static void run(rlx_session *s, const batch *b)
{
    rlx_error err = {0};
    bind(s, "rows", b->n);
    bind(s, "outputs", b->n_outputs);
    bind(s, "adjust", b->n_adjust);
    bind(s, "masked", b->n_masked);
    bind(s, "ranked", b->n_ranked);
    set(s, "tokens", b->tokens, b->n);
    set(s, "positions", b->positions, b->n);
    set(s, "places", b->places, b->n);
    set(s, "sequence", b->sequence, b->n);
    set(s, "lengths", b->lengths, b->n);
    set(s, "pages", b->pages, 3 * WIDTH);
    set(s, "outputs", b->outputs, b->n_outputs);
    set(s, "adjust", b->adjust, b->n_outputs * b->n_adjust);
    set(s, "factor", b->factor, b->n_outputs * b->n_adjust);
    set(s, "add", b->add, b->n_outputs * b->n_adjust);
    set(s, "sampling", b->sampling, b->n_outputs * 4);
    set(s, "seed", b->seed, b->n_outputs * 2);
    set(s, "masked", b->masked, b->n_masked);
    set(s, "bits", b->bits, b->n_masked * WORDS);
    set(s, "ranked", b->ranked, b->n_ranked);
    set(s, "targets", b->targets, b->n_ranked);
    CHECK_OK(rlx_run(s, NULL, 0, NULL, 0, &err), &err);
    CHECK(rlx_session_flags(s) == 0);
}

static void read_back(rlx_session *s, const char *name, void *to, size_t n)
{
    rlx_error err = {0};
    CHECK_OK(rlx_session_read(s, name, 0, to, n * 4, &err), &err);
}

/* Logits behind n tokens, by a context. */
static void want_logits(rlx_model *m, const int32_t *tokens, size_t n, float *out)
{
    rlx_context *c = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_context_create(m, &c, &err), &err);
    CHECK_OK(rlx_context_set_tokens(c, 0, tokens, n, &err), &err);
    CHECK_OK(rlx_context_step(c, -1, NULL, &err), &err);
    CHECK_OK(rlx_context_logits(c, 0, out, TINY_VOCABULARY, &err), &err);
    rlx_context_destroy(c);
}

static bool are_close(const float *a, const float *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabsf(a[i] - b[i]) <= 2e-4f * (1 + fabsf(b[i]))))
            return false;
    return true;
}

static size_t argmax(const float *x, size_t n)
{
    size_t best = 0;
    for (size_t i = 1; i < n; i++)
        best = x[i] > x[best] ? i : best;
    return best;
}

static float lse_of(const float *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += exp((double)x[i]);
    return (float)log(sum);
}

/* Two sequences: a chunk of the first; the rest of it with a chunk of the second; one token of both
 * with padding. */
static void test_logits(rlx_model *m, rlx_session *s, batch *b, const int32_t *a,
                        const int32_t *other)
{
    static float got[4 * TINY_VOCABULARY], want[TINY_VOCABULARY];
    *b = (batch){.n_outputs = 1};
    for (int32_t i = 0; i < 3 * WIDTH; i++) /* in no order */
        b->pages[i] = i < 2 * WIDTH ? (i * 7) % (2 * WIDTH) : 0;
    for (int32_t i = 0; i < 11; i++)
        add_row(b, 0, i, a[i]);
    add_padding(b, 16);
    run(s, b);
    b->n = 0;
    for (int32_t i = 0; i < 7; i++)
        add_row(b, 1, i, other[i]);
    add_row(b, 0, 11, a[11]);
    b->n_outputs = 2;
    b->outputs[0] = 7;
    b->outputs[1] = 6;
    run(s, b);
    read_back(s, "logits", got, 2 * TINY_VOCABULARY);
    want_logits(m, a, 12, want);
    CHECK(are_close(got, want, TINY_VOCABULARY));
    want_logits(m, other, 7, want);
    CHECK(are_close(got + TINY_VOCABULARY, want, TINY_VOCABULARY));
    b->n = 0;
    add_row(b, 1, 7, other[7]);
    add_row(b, 0, 12, a[12]);
    add_padding(b, 4);
    b->outputs[0] = 0;
    b->outputs[1] = 1;
    run(s, b);
    read_back(s, "logits", got, 2 * TINY_VOCABULARY);
    want_logits(m, other, 8, want);
    CHECK(are_close(got, want, TINY_VOCABULARY));
    want_logits(m, a, 13, want);
    CHECK(are_close(got + TINY_VOCABULARY, want, TINY_VOCABULARY));
}

static void test_adjusted(rlx_session *s, batch *b)
{
    static float before[2 * TINY_VOCABULARY], after[2 * TINY_VOCABULARY];
    int32_t token[2];
    run(s, b);
    read_back(s, "logits", before, 2 * TINY_VOCABULARY);
    read_back(s, "token", token, 2);
    const size_t best = argmax(before, TINY_VOCABULARY);
    CHECK(token[0] == (int32_t)best);
    b->n_adjust = 4;
    for (size_t i = 0; i < 8; i++) {
        b->adjust[i] = i < 4 ? 5 : 0;
        b->factor[i] = i < 4 ? 2 : 1;
        b->add[i] = i < 4 ? -3 : 0;
    }
    b->adjust[1] = (int32_t)best;
    b->add[1] = -INFINITY;
    run(s, b);
    read_back(s, "adjusted", after, 2 * TINY_VOCABULARY);
    read_back(s, "token", token, 2);
    CHECK(after[best] == -INFINITY && token[0] == (int32_t)argmax(after, TINY_VOCABULARY));
    CHECK(after[5] == (before[5] > 0 ? before[5] / 2 : before[5] * 2) - 3 || best == 5);
    for (size_t i = 0; i < 2 * TINY_VOCABULARY; i++)
        CHECK(i == 5 || i == best || before[i] == after[i]);
}

static void test_masked(rlx_session *s, batch *b)
{
    static float before[2 * TINY_VOCABULARY], after[2 * TINY_VOCABULARY];
    int32_t token[2];
    b->n_adjust = 0;
    b->n_masked = 1;
    b->masked[0] = 1;
    memset(b->bits, 0, sizeof b->bits);
    b->bits[1] = (int32_t)0x80000001u; /* tokens 32 and 63, */
    b->bits[8] = 1;                    /* 256 */
    run(s, b);
    read_back(s, "logits", before, 2 * TINY_VOCABULARY);
    read_back(s, "adjusted", after, 2 * TINY_VOCABULARY);
    read_back(s, "token", token, 2);
    CHECK(!memcmp(before, after, TINY_VOCABULARY * sizeof *after));
    for (size_t i = 0; i < TINY_VOCABULARY; i++) {
        const bool allowed = i == 32 || i == 63 || i == 256;
        const size_t at = TINY_VOCABULARY + i;
        CHECK(after[at] == (allowed ? before[at] : -INFINITY));
    }
    CHECK(token[0] == (int32_t)argmax(after, TINY_VOCABULARY));
    CHECK(token[1] == (int32_t)argmax(after + TINY_VOCABULARY, TINY_VOCABULARY));
}

static void test_ranked(rlx_session *s, batch *b)
{
    static float logits[2 * TINY_VOCABULARY];
    float chosen[2], lse[2], best[2 * RLX_MAX_BEST];
    int32_t token[2], ids[2 * RLX_MAX_BEST];
    b->n_masked = 0;
    b->n_ranked = 2;
    b->ranked[0] = 1;
    b->ranked[1] = 0;
    b->targets[0] = -1;
    b->targets[1] = 77;
    run(s, b);
    read_back(s, "logits", logits, 2 * TINY_VOCABULARY);
    read_back(s, "token", token, 2);
    read_back(s, "chosen", chosen, 2);
    read_back(s, "lse", lse, 2);
    read_back(s, "best", best, 2 * RLX_MAX_BEST);
    read_back(s, "best_ids", ids, 2 * RLX_MAX_BEST);
    CHECK(chosen[0] == logits[TINY_VOCABULARY + token[1]] && chosen[1] == logits[77]);
    CHECK(fabsf(lse[0] - lse_of(logits + TINY_VOCABULARY, TINY_VOCABULARY)) < 1e-4f);
    CHECK(fabsf(lse[1] - lse_of(logits, TINY_VOCABULARY)) < 1e-4f);
    CHECK(ids[0] == token[1] && ids[RLX_MAX_BEST] == token[0]);
    for (size_t i = 0; i < RLX_MAX_BEST; i++)
        CHECK(best[RLX_MAX_BEST + i] == logits[ids[RLX_MAX_BEST + i]]);
}

int main(void)
{
    static batch b;
    int32_t a[CONTEXT], other[CONTEXT];
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_session *s = NULL;
    if (getenv("RLX_TEST_DEVICE"))
        device = getenv("RLX_TEST_DEVICE");
    blob file = tiny_model(TINY_LLAMA, 5);
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device, .threads = 2,
                              .context = CONTEXT, .cache = RLX_F32};
    const rx_build_desc rows = {.sequences = 3, .context = CONTEXT, .prompt_chunk = 1,
                                .cache = RLX_F32, .page = PAGE, .pages = N_PAGES, .rows = ROWS,
                                .outputs = 4};
    for (int32_t i = 0; i < CONTEXT; i++) {
        a[i] = (i * 37 + 11) % TINY_VOCABULARY;
        other[i] = (i * 53 + 7) % TINY_VOCABULARY;
    }
    CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &m, &err), &err);
    if (m && CHECK_OK(rx_model_make_session(m, &rows, NULL, &s, &err), &err)) {
        test_logits(m, s, &b, a, other);
        test_adjusted(s, &b);
        test_masked(s, &b);
        test_ranked(s, &b);
    }
    rlx_session_destroy(s);
    rlx_model_close(m);
    blob_free(&file);
    return check_done();
}
