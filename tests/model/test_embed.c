/* SPDX-License-Identifier: MIT */
/* Embeddings with a tiny random encoder: texts of many lengths together give what each gives alone,
 * in the order they came; poolings, lengths, texts that are cut. */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "model/model.h"
#include "support/tiny_model.h"

#define W TINY_WIDTH
#define N_TEXTS 41

static char texts[N_TEXTS][80];
static const char *list[N_TEXTS];

static double distance(const float *a, const float *b)
{
    double worst = 0;
    for (int i = 0; i < W; i++)
        worst = fmax(worst, fabs((double)a[i] - b[i]));
    return worst;
}

static double length_of(const float *a)
{
    double sum = 0;
    for (int i = 0; i < W; i++)
        sum += (double)a[i] * a[i];
    return sqrt(sum);
}

/* Words of one to many letters; the longest has more tokens than the model takes. */
static void make_texts(void)
{
    for (int i = 0; i < N_TEXTS; i++) {
        int n = i == 7 ? 79 : 1 + i * 17 % 40;
        for (int k = 0; k < n; k++)
            texts[i][k] = k % 5 == 4 ? ' ' : (char)('a' + (i + k * k) % 26);
        list[i] = texts[i];
    }
}

static void test_batches(rlx_model *m)
{
    static float together[N_TEXTS][W], alone[W];
    rlx_error err = {0};
    size_t n_cut = 0;
    CHECK_OK(rlx_embed(m, list, N_TEXTS, NULL, together[0], &n_cut, &err), &err);
    CHECK(n_cut == 1);
    for (size_t i = 0; i < N_TEXTS; i++) {
        CHECK_OK(rlx_embed(m, &list[i], 1, NULL, alone, &n_cut, &err), &err);
        CHECK(n_cut == (i == 7));
        CHECK(distance(together[i], alone) < 1e-5);
        CHECK(fabs(length_of(alone) - 1) < 1e-5);
        CHECK(i == 0 || distance(together[i], together[i - 1]) > 1e-3);
    }
}

static void test_poolings(rlx_model *m)
{
    float mean[W], first[W], last[W], raw[W];
    rlx_error err = {0};
    rlx_embed_desc d = {RLX_INIT(rlx_embed_desc), .pooling = RLX_POOLING_FIRST};
    CHECK_OK(rlx_embed(m, list, 1, NULL, mean, NULL, &err), &err);
    CHECK_OK(rlx_embed(m, list, 1, &d, first, NULL, &err), &err);
    d.pooling = RLX_POOLING_LAST;
    CHECK_OK(rlx_embed(m, list, 1, &d, last, NULL, &err), &err);
    CHECK(distance(mean, first) > 1e-3 && distance(first, last) > 1e-3);
    d = (rlx_embed_desc){RLX_INIT(rlx_embed_desc), .pooling = RLX_POOLING_MEAN,
                         .no_normalize = true};
    CHECK_OK(rlx_embed(m, list, 1, &d, raw, NULL, &err), &err);
    double length = length_of(raw);
    CHECK(fabs(length - 1) > 1e-3);
    for (int i = 0; i < W; i++)
        CHECK(fabs(raw[i] / length - mean[i]) < 1e-5);
}

/* Steps that do not wait give what one call gives. */
static void test_steps(rlx_model *m)
{
    static float together[N_TEXTS][W], stepped[N_TEXTS][W];
    rlx_error err = {0};
    rx_embedding *e = NULL;
    bool more = true;
    size_t n_steps = 0;
    CHECK_OK(rlx_embed(m, list, N_TEXTS, NULL, together[0], NULL, &err), &err);
    CHECK_FAILS(rx_embedding_begin(m, list, 0, stepped[0], &e, &err), RLX_INVALID, &err, "no text");
    if (!CHECK_OK(rx_embedding_begin(m, list, N_TEXTS, stepped[0], &e, &err), &err))
        return;
    while (more && n_steps < 1000000) {
        rlx_status st = rx_embedding_next(e, 0, &more, &err);
        n_steps++;
        if (st != RLX_TIMEOUT && !CHECK_OK(st, &err))
            break;
    }
    CHECK(!more);
    CHECK_OK(rx_embedding_next(e, -1, &more, &err), &err);
    rx_embedding_end(e);
    for (int i = 0; i < N_TEXTS; i++)
        for (int k = 0; k < W; k++)
            CHECK(together[i][k] == stepped[i][k]);
}

static void test_wrong_calls(rlx_model *m)
{
    rlx_error err = {0};
    float out[W];
    const char *none[] = {NULL};
    rlx_context *c = NULL;
    CHECK_OK(rlx_embed(m, list, 0, NULL, NULL, NULL, &err), &err);
    CHECK_FAILS(rlx_embed(m, none, 1, NULL, out, NULL, &err), RLX_INVALID, &err, "text 0 is NULL");
    CHECK_FAILS(rlx_embed(m, list, 1, &(rlx_embed_desc){RLX_INIT(rlx_embed_desc),
                                                        .pooling = (rlx_pooling)9}, out, NULL,
                          &err), RLX_INVALID, &err, "pooling 9");
    CHECK_FAILS(rlx_context_create(m, &c, &err), RLX_INVALID, &err, "is an encoder");
    CHECK_FAILS(rlx_score(m, (int32_t[]){1}, 1, out, &err), RLX_INVALID, &err, "is an encoder");
}

int main(void)
{
    const char *device = getenv("RLX_TEST_DEVICE");
    rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = device && *device ? device : "cpu",
                        .threads = 2};
    blob file = tiny_model(TINY_BERT, 5);
    rlx_model *m = NULL;
    rlx_model_info info = {RLX_INIT(rlx_model_info)};
    rlx_error err = {0};
    make_texts();
    if (CHECK_OK(rlx_model_open_memory(file.data, file.n, &d, &m, &err), &err)) {
        rlx_model_get_info(m, &info, NULL);
        CHECK(info.embeds && !info.generates && info.embedding_width == W);
        test_batches(m);
        test_poolings(m);
        test_steps(m);
        test_wrong_calls(m);
    }
    rlx_model_close(m);
    blob_free(&file);
    return check_done();
}
