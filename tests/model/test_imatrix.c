/* SPDX-License-Identifier: MIT */
/* Importance matrices. With MODEL OUT TOKENS[/TOKENS..]: collects what these do and writes the file
 * (test_imatrix.py compares it with NumPy). Without: a round trip through files, the older format,
 * files that are wrong, and that weighted errors of quantised rows are smaller. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "rlx/rlx.h"
#include "support/tiny_model.h"

/* ---- Of a given model ------------------------------------------------------------------------ */

static int collect(char **argv)
{
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "cpu", .context = 64,
                              .prompt_chunk = 16, .cache = RLX_F32, .policy = RLX_POLICY_EXACT};
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_imatrix *im = NULL;
    int32_t ids[64];
    CHECK_OK(rlx_model_open(argv[1], &d, &m, &err), &err);
    CHECK_OK(m ? rlx_imatrix_create(m, &im, &err) : RLX_INVALID, &err);
    for (char *at = argv[3]; im && *at;) {
        size_t n = 0;
        while (n < 64 && *at && *at != '/') {
            ids[n++] = (int32_t)strtol(at, &at, 10);
            at += *at == ',';
        }
        at += *at == '/';
        CHECK_OK(rlx_imatrix_add(im, ids, n, &err), &err);
    }
    if (im)
        CHECK_OK(rlx_imatrix_save(im, argv[2], "test", &err), &err);
    rlx_imatrix_destroy(im);
    rlx_model_close(m);
    return check_done();
}

/* ---- Files ----------------------------------------------------------------------------------- */

static const char path[] = "test_imatrix.tmp.gguf";

static void write_file(const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (CHECK(f != NULL)) {
        CHECK(fwrite(data, 1, n, f) == n);
        fclose(f);
    }
}

static void test_round_trip(void)
{
    blob b = tiny_model(TINY_LLAMA, 7);
    rlx_error err = {0};
    rlx_model *m = NULL;
    rlx_imatrix *im = NULL, *back = NULL;
    rlx_imatrix_entry e, f;
    const int32_t ids[] = {1, 5, 9, 3}, wrong[] = {1, 1 << 20};
    const rlx_model_desc d = {RLX_INIT(rlx_model_desc), .device = "cpu", .context = 16};
    CHECK_OK(rlx_model_open_memory(b.data, b.n, &d, &m, &err), &err);
    CHECK_OK(rlx_imatrix_create(m, &im, &err), &err);
    CHECK_FAILS(rlx_imatrix_save(im, path, NULL, &err), RLX_INVALID, &err, "no tokens");
    CHECK_FAILS(rlx_imatrix_add(im, ids, 17, &err), RLX_INVALID, &err, "1 to 16 tokens");
    CHECK_FAILS(rlx_imatrix_add(im, wrong, 2, &err), RLX_INVALID, &err, "token 1 is 1048576");
    CHECK_OK(rlx_imatrix_add(im, ids, 4, &err), &err);
    CHECK_OK(rlx_imatrix_add(im, ids, 2, &err), &err);
    CHECK(rlx_imatrix_n_tokens(im) == 6);
    CHECK_OK(rlx_imatrix_save(im, path, "a text", &err), &err);
    CHECK_OK(rlx_imatrix_open(path, &back, &err), &err);
    size_t n = 0;
    for (; rlx_imatrix_at(im, n, &e); n++) {
        if (!CHECK(rlx_imatrix_find(back, e.name, &f) && f.columns == e.columns &&
                   f.matrices == e.matrices))
            continue;
        for (int64_t i = 0; i < e.columns * e.matrices; i++)
            CHECK(e.values[i] > 0 && fabsf(e.values[i] - f.values[i]) <= 1e-6f * e.values[i]);
    }
    CHECK(n > 7 && !rlx_imatrix_at(back, n, &f) && !rlx_imatrix_find(back, "none", &f));
    CHECK_FAILS(rlx_imatrix_add(back, ids, 1, &err), RLX_INVALID, &err, "that of a file");
    rlx_imatrix_destroy(back);
    rlx_imatrix_destroy(im);
    rlx_model_close(m);
    write_file(b.data, b.n); /* a model is none */
    CHECK_FAILS(rlx_imatrix_open(path, &back, &err), RLX_INVALID, &err, "no importance matrix");
    blob_free(&b);
    b = tiny_model(TINY_BERT, 7);
    CHECK_OK(rlx_model_open_memory(b.data, b.n, NULL, &m, &err), &err);
    CHECK_FAILS(rlx_imatrix_create(m, &im, &err), RLX_INVALID, &err, "is an encoder");
    rlx_model_close(m);
    blob_free(&b);
    unlink(path);
}

/* One entry "a.weight" of two calls whose sums are 2, 6; every cut of the file is refused. */
static void test_old_format(void)
{
    const struct {
        int32_t n, length;
        char name[8];
        int32_t calls, columns;
        float sums[2];
        int32_t chunks;
    } file = {1, 8, {'a', '.', 'w', 'e', 'i', 'g', 'h', 't'}, 2, 2, {2, 6}, 3};
    rlx_error err = {0};
    rlx_imatrix *im = NULL;
    rlx_imatrix_entry e = {0};
    write_file(&file, sizeof file);
    CHECK_OK(rlx_imatrix_open(path, &im, &err), &err);
    if (CHECK(rlx_imatrix_find(im, "a.weight", &e) && e.columns == 2 && e.matrices == 1))
        CHECK(e.values[0] == 1 && e.values[1] == 3);
    rlx_imatrix_destroy(im);
    for (size_t n = 0; n < sizeof file - 4; n++) {
        write_file(&file, n);
        CHECK(rlx_imatrix_open(path, &im, &err) != RLX_OK && im == NULL);
    }
    unlink(path);
}

/* ---- Weighted errors ------------------------------------------------------------------------- */

#define N 256

static double weighted_error(rlx_dtype t, const float *x, const float *w, const float *importance)
{
    static char packed[4 * N];
    static float y[N];
    rlx_error err = {0};
    const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32, .to = t,
                                      .src = x, .dst = packed, .n_rows = 1, .row_length = N,
                                      .threads = 1, .importance = importance};
    double sum = 0;
    CHECK_OK(rlx_quantize_rows(&d, NULL, &err), &err);
    rlx_to_float(t, packed, y, N);
    for (int i = 0; i < N; i++)
        sum += (double)w[i] * (x[i] - y[i]) * (x[i] - y[i]);
    return sum;
}

static void test_weights(void)
{
    static const rlx_dtype types[] = {RLX_Q4_0, RLX_Q4_1, RLX_Q5_0, RLX_Q5_1, RLX_Q2_K, RLX_Q3_K,
                                      RLX_Q4_K, RLX_Q5_K, RLX_Q6_K, RLX_IQ4_NL, RLX_MXFP4};
    static float x[N], w[N], bad[N];
    rlx_error err = {0};
    uint32_t seed = 1;
    for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
        double with = 0, without = 0;
        for (int turn = 0; turn < 20; turn++) {
            for (int i = 0; i < N; i++) {
                seed = seed * 1664525 + 1013904223;
                x[i] = (float)(int32_t)seed / 2147483648.0f;
                seed = seed * 1664525 + 1013904223;
                w[i] = (seed >> 28) == 0 ? 100.0f : 0.1f; /* some columns are used much more */
            }
            with += weighted_error(types[t], x, w, w);
            without += weighted_error(types[t], x, w, NULL);
        }
        /* mxfp4 has only powers of two to choose from */
        if (!CHECK(with < (types[t] == RLX_MXFP4 ? 0.98 : 0.9) * without))
            printf("%s: %g with weights, %g without\n", rlx_dtype_name(types[t]), with, without);
    }
    for (int i = 0; i < N; i++)
        w[i] = 3;
    CHECK(weighted_error(RLX_Q4_0, x, w, bad) == weighted_error(RLX_Q4_0, x, w, NULL));
    bad[5] = -1;
    char out[2 * N];
    const rlx_quantize_rows_desc d = {RLX_INIT(rlx_quantize_rows_desc), .from = RLX_F32,
                                      .to = RLX_Q4_0, .src = x, .dst = out, .n_rows = 1,
                                      .row_length = N, .importance = bad};
    CHECK_FAILS(rlx_quantize_rows(&d, NULL, &err), RLX_INVALID, &err, "column 5");
}

int main(int argc, char **argv)
{
    if (argc == 4)
        return collect(argv);
    test_round_trip();
    test_old_format();
    test_weights();
    return check_done();
}
