/* SPDX-License-Identifier: MIT */
/* Products with packed weights at each level of kernels. Under the policy `fast` rounding x to 8
 * bits may move a result by no more than half a step of each number times its weight, and numbers
 * that are not finite give NaN; under `exact` only f32 arithmetic may move it. Results are the same
 * on one and on three threads. */
#include <math.h>
#include <stdlib.h>

#include "base/quant.h"
#include "check.h"
#include "rlx/rlx.h"

enum { MAX_M = 21, MAX_N = 71, MAX_K = 1056, MAX_BYTES = MAX_N * MAX_K * 2, EXPERTS = 3 };

typedef struct product {
    rlx_dtype type;
    int m, n, k;
    bool grouped;
    rlx_policy policy;
} product;

static float x[MAX_M * MAX_K], w[EXPERTS * MAX_N * MAX_K], y[2][MAX_M * MAX_N];
static uint8_t packed[EXPERTS * MAX_BYTES];
static int32_t ids[MAX_M];

static uint32_t next_random(void)
{
    static uint32_t state = 1;
    state = state * 1664525u + 1013904223u;
    return state >> 8;
}

/* Where the blocks of a type have f16 scales; -1: nowhere else. */
static void find_scales(rlx_dtype t, int at[2])
{
    at[0] = t == RLX_Q2_K ? 80 : t == RLX_Q3_K ? 108 : t == RLX_Q6_K ? 208 : 0;
    at[1] = t == RLX_Q2_K ? 82 : -1;
    if (t == RLX_MXFP4 || t == RLX_NVFP4)
        at[0] = -1;
    if (t == RLX_IQ1_M)
        at[0] = 54;
    if (t == RLX_Q4_1 || t == RLX_Q5_1 || t == RLX_Q4_K || t == RLX_Q5_K)
        at[1] = 2;
}

/* Random codes, scales from 2^-7 to 2^-6. Returns the bytes. */
static size_t fill_weight(const product *p)
{
    const int64_t rows = (int64_t)(p->grouped ? EXPERTS : 1) * p->n;
    const int64_t size = rlx_dtype_block_bytes(p->type);
    const int64_t n_blocks = rows * p->k / rlx_dtype_block_size(p->type);
    int at[2];
    find_scales(p->type, at);
    for (int64_t i = 0; i < n_blocks * size; i++)
        packed[i] = (uint8_t)next_random();
    for (int64_t b = 0; b < n_blocks; b++)
        for (int i = 0; i < 2 && at[i] >= 0; i++)
            packed[b * size + at[i] + 1] = (uint8_t)(0x20 | (next_random() & 3));
    for (int64_t b = 0; p->type == RLX_MXFP4 && b < n_blocks; b++)
        packed[b * size] = (uint8_t)(120 + (next_random() & 3));
    rx_decode_row(p->type, packed, w, rows * p->k);
    return (size_t)(n_blocks * size);
}

static bool run(const product *p, uint32_t threads, size_t bytes, float *to)
{
    rlx_error err;
    rlx_device *device = NULL;
    rlx_session *s = NULL;
    rlx_graph *g = rlx_graph_create("product");
    rlx_value in = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){p->m, p->k});
    if (p->grouped) {
        rlx_value bank = rlx_param(g, "w", p->type, 3, (rlx_dim[]){EXPERTS, p->n, p->k});
        rlx_value id = rlx_input(g, "ids", RLX_I32, 1, (rlx_dim[]){p->m});
        rlx_output(g, "y", rlx_dequant_grouped_matmul(g, in, bank, id));
    } else {
        rlx_value weight = rlx_param(g, "w", p->type, 2, (rlx_dim[]){p->n, p->k});
        rlx_output(g, "y", rlx_dequant_matmul(g, in, weight));
    }
    const rlx_device_desc on = {RLX_INIT(rlx_device_desc), .threads = threads};
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = p->policy};
    const rlx_const_tensor tensors[] = {{"x", x, (size_t)(p->m * p->k) * sizeof *x},
                                  {"ids", ids, (size_t)p->m * sizeof *ids}};
    rlx_tensor out = {"y", to, (size_t)(p->m * p->n) * sizeof *to};
    const bool ok =
        CHECK_OK(rlx_device_open("cpu", &on, &device, &err), &err) &&
        CHECK_OK(rlx_session_create(device, g, &desc, &s, &err), &err) &&
        CHECK_OK(rlx_session_set_param(s, "w", packed, bytes, RLX_COPY, &err), &err) &&
        CHECK_OK(rlx_run(s, tensors, p->grouped ? 2 : 1, &out, 1, &err), &err);
    rlx_session_destroy(s);
    rlx_graph_destroy(g);
    rlx_device_close(device);
    return ok;
}

/* How far a result may be off: half a step of x for each element, and f32 arithmetic. */
static bool is_near(const product *p, int m, int n)
{
    const float *row = w + ((p->grouped ? ids[m] : 0) * (int64_t)p->n + n) * p->k;
    double sum = 0, all = 0, limit = 0;
    for (int k0 = 0; k0 < p->k; k0 += 32) {
        double top = 0, weights = 0;
        for (int k = k0; k < k0 + 32; k++) {
            const double v = (double)x[m * p->k + k];
            top = fmax(top, fabs(v));
            weights += fabs((double)row[k]);
            sum += v * (double)row[k];
            all += fabs(v * (double)row[k]);
        }
        limit += top / 254 * weights;
    }
    const double got = (double)y[0][m * p->n + n];
    if (p->policy == RLX_POLICY_EXACT)
        return fabs(got - sum) <= all * 2e-6;
    return fabs(got - sum) <= limit * 1.001 + all * 1e-5;
}

static void check_product(const product *p)
{
    const size_t bytes = fill_weight(p);
    for (int i = 0; i < p->m * p->k; i++)
        x[i] = ((float)(next_random() & 0xffff) / 32768.0f - 1.0f) * (i / 32 % 5 ? 1.0f : 8.0f);
    for (int i = 0; i < p->m; i++)
        ids[i] = (int32_t)(next_random() % EXPERTS);
    if (!run(p, 1, bytes, y[0]) || !run(p, 3, bytes, y[1]))
        return;
    int bad = 0;
    for (int m = 0; m < p->m; m++)
        for (int n = 0; n < p->n; n++)
            bad += !is_near(p, m, n);
    if (!CHECK(bad == 0))
        printf("    %s %dx%dx%d %s: %d off\n", rlx_dtype_name(p->type), p->m, p->n, p->k,
               p->policy == RLX_POLICY_FAST ? "fast" : "exact", bad);
    CHECK(memcmp(y[0], y[1], (size_t)(p->m * p->n) * sizeof **y) == 0);
}

/* Rows of zeros and one 1 give the weight itself: the bits of its definition. */
static void check_decoding(rlx_dtype t, int m)
{
    const product p = {t, m, MAX_N, 512, false, RLX_POLICY_EXACT};
    const size_t bytes = fill_weight(&p);
    int at[MAX_M], bad = 0;
    memset(x, 0, sizeof x);
    for (int i = 0; i < m; i++) {
        at[i] = (int)(next_random() % 512);
        x[i * p.k + at[i]] = 1;
    }
    if (!run(&p, 1, bytes, y[0]))
        return;
    for (int i = 0; i < m * p.n; i++)
        bad += y[0][i] != w[i % p.n * p.k + at[i / p.n]];
    if (!CHECK(bad == 0))
        printf("    %s, %d rows: %d off\n", rlx_dtype_name(t), m, bad);
}

/* Numbers of very different size side by side, down to those without all bits. */
static void check_range(rlx_dtype t)
{
    const product p = {t, 2, 37, 512, false, RLX_POLICY_EXACT};
    const size_t bytes = fill_weight(&p);
    for (int i = 0; i < p.m * p.k; i++)
        x[i] = ldexpf((float)(next_random() & 0xffffff) - 8388608.0f,
                      (int)(next_random() % 20) - 40 - i / 64 * 20 % 140);
    if (!run(&p, 1, bytes, y[0]))
        return;
    for (int i = 0; i < p.m * p.n; i++)
        CHECK(is_near(&p, i / p.n, i % p.n));
}

/* Infinities under `exact` as in products of f32. */
static void check_infinite(void)
{
    const product p = {RLX_Q8_0, 3, 5, 64, false, RLX_POLICY_EXACT};
    const size_t bytes = fill_weight(&p);
    for (int i = 0; i < p.m * p.k; i++)
        x[i] = i == 70 ? INFINITY : i == 140 ? NAN : 1.0f;
    if (!run(&p, 1, bytes, y[0]))
        return;
    for (int n = 0; n < p.n; n++) {
        const float weight = w[n * p.k + 6];
        CHECK(is_near(&p, 0, n));
        CHECK(weight == 0 ? isnan(y[0][p.n + n]) : y[0][p.n + n] == weight * INFINITY);
        CHECK(isnan(y[0][2 * p.n + n]));
    }
}

static void check_not_finite(void)
{
    const product p = {RLX_Q4_0, 2, 5, 64, false, RLX_POLICY_FAST};
    const size_t bytes = fill_weight(&p);
    for (int i = 0; i < p.m * p.k; i++)
        x[i] = i == 70 ? NAN : 0.0f;
    if (!run(&p, 1, bytes, y[0]))
        return;
    for (int i = 0; i < p.n; i++) {
        CHECK(y[0][i] == 0);
        CHECK(isnan(y[0][p.n + i]));
    }
}

static void check_type(rlx_dtype t, rlx_policy policy)
{
    static const int rows[] = {1, 3, 8, 9, 21};
    const int k = rlx_dtype_block_size(t) == 32 ? 1056 : 768;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
        check_product(&(product){t, rows[r], MAX_N, k, false, policy});
    check_product(&(product){t, 5, 33, k, true, policy});
    check_product(&(product){t, 21, 40, k, true, policy});
}

static void check_level(const char *level)
{
    static const rlx_dtype types[] = {RLX_Q4_0, RLX_Q4_1, RLX_Q5_0, RLX_Q5_1, RLX_Q8_0,
                                      RLX_Q2_K, RLX_Q3_K, RLX_Q4_K, RLX_Q5_K, RLX_Q6_K,
                                      RLX_IQ4_NL, RLX_IQ4_XS, RLX_MXFP4};
    static const rlx_dtype decoded[] = {RLX_IQ1_S, RLX_IQ1_M, RLX_IQ2_XXS, RLX_IQ2_XS, RLX_IQ2_S,
                                        RLX_IQ3_XXS, RLX_IQ3_S, RLX_NVFP4};
    setenv("RLX_CPU", level, 1);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        check_type(types[i], RLX_POLICY_EXACT);
        check_type(types[i], RLX_POLICY_FAST);
        check_range(types[i]);
    }
    for (size_t i = 0; i < sizeof decoded / sizeof *decoded; i++) {
        check_decoding(decoded[i], 3);
        check_decoding(decoded[i], MAX_M);
        check_product(&(product){decoded[i], 5, 40, 768, true, RLX_POLICY_EXACT});
    }
    check_infinite();
    check_not_finite();
}

int main(void)
{
    check_level("generic");
#ifndef RX_SANITIZED /* has the kernels of one level, the highest */
    check_level("avx2");
    check_level("avx512");
#endif
    check_level("vnni");
    return check_done();
}
