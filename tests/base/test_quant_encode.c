/* SPDX-License-Identifier: MIT */
/* Tests of the encoders of packed types: the error on fixed random numbers is below that of
 * llama.cpp's encoders (ggml 0.25.1, no importance matrix), and hard blocks stay sane. With
 * arguments it serves test_quant_encode_gguf.py: `encode TYPE` turns floats on standard input into
 * blocks on standard output, `fill NAME` writes one of the fixed sets of numbers. */
#include <math.h>
#include <stdlib.h>

#include "base/quant.h"
#include "base/quant_encode.h"
#include "check.h"

#define N 65536

/* ---- Numbers --------------------------------------------------------------------------------- */

static uint64_t state;

/* In (0, 1): splitmix64. */
static double uniform(void)
{
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return ((double)((z ^ z >> 31) >> 11) + 0.5) * 0x1p-53;
}

static double gauss(void)
{
    double r = sqrt(-2.0 * log(uniform()));
    return r * cos(6.283185307179586 * uniform());
}

static double laplace(void)
{
    double u = uniform() - 0.5;
    return copysign(-log(1.0 - 2.0 * fabs(u)), u);
}

static double outlier(void)
{
    return gauss() * (uniform() < 0.01 ? 12.0 : 1.0);
}

static double shifted(void)
{
    return gauss() + 2.0;
}

static const struct {
    const char *name;
    double (*draw)(void);
} fills[] = {{"gauss", gauss}, {"laplace", laplace}, {"outlier", outlier}, {"shifted", shifted}};
enum { N_FILLS = 4 };

static void fill(int which, float *x)
{
    state = (uint64_t)which + 1;
    for (int i = 0; i < N; i++)
        x[i] = (float)(0.02 * fills[which].draw());
}

/* ---- Errors ---------------------------------------------------------------------------------- */

static float numbers[N], decoded[N];
static unsigned char blocks[N * 4];

/* Root of the mean squared error over that of the numbers. */
static double relative_error(rlx_dtype t, const float *x)
{
    double error = 0.0, norm = 0.0;
    if (!CHECK(rx_encode_row(t, x, NULL, blocks, N) == N))
        return INFINITY;
    rlx_to_float(t, blocks, decoded, N);
    for (int i = 0; i < N; i++) {
        double e = (double)x[i] - (double)decoded[i];
        error += e * e;
        norm += (double)x[i] * (double)x[i];
    }
    return sqrt(error / norm);
}

/* The errors of llama.cpp on the same numbers. */
static const struct {
    rlx_dtype type;
    double error[N_FILLS];
} bounds[] = {
    {RLX_Q4_0, {0.085862, 0.107070, 0.150107, 0.065273}},
    {RLX_Q4_1, {0.078183, 0.091449, 0.102985, 0.035087}},
    {RLX_Q5_0, {0.042684, 0.053313, 0.077440, 0.032659}},
    {RLX_Q5_1, {0.037774, 0.044376, 0.049600, 0.016999}},
    {RLX_Q8_0, {0.005351, 0.006705, 0.009673, 0.004110}},
    {RLX_Q2_K, {0.296653, 0.342910, 0.319781, 0.144526}},
    {RLX_Q3_K, {0.150054, 0.176793, 0.187237, 0.114810}},
    {RLX_Q4_K, {0.071170, 0.084382, 0.094295, 0.033235}},
    {RLX_Q5_K, {0.036060, 0.042748, 0.047835, 0.016601}},
    {RLX_Q6_K, {0.017804, 0.021751, 0.028077, 0.013712}},
    {RLX_IQ4_NL, {0.075908, 0.087669, 0.114959, 0.064663}},
    {RLX_MXFP4, {0.114485, 0.125607, 0.157290, 0.104688}},
};

static void test_errors(void)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        for (int f = 0; f < N_FILLS; f++) {
            fill(f, numbers);
            double error = relative_error(bounds[i].type, numbers);
            if (!CHECK(error <= bounds[i].error[f]))
                printf("    %s, %s: expected at most %.6f, got %.6f\n",
                       rlx_dtype_name(bounds[i].type), fills[f].name, bounds[i].error[f], error);
        }
}

/* ---- Hard blocks ----------------------------------------------------------------------------- */

static float zero(int i) { return (void)i, 0.0f; }
static float one(int i) { return (void)i, 1.0f; }
static float minus(int i) { return (void)i, -3.0f; }
static float spike(int i) { return i % 64 == 17 ? 100.0f : 0.0f; }
static float tiny(int i) { return (float)(i % 7 - 3) * 1e-9f; }
static float huge(int i) { return i % 2 ? 3e38f : -3e38f; }
static float ramp(int i) { return (float)(i % 256) / 256.0f; }
static float subnormal(int i) { return (float)(i % 5) * 1e-44f; }

static const struct {
    const char *name;
    float (*at)(int i);
    double most; /* error relative to the numbers that every type stays below; 0: only finite */
} hard[] = {
    {"zero", zero, 0},     {"one", one, 0.13}, {"minus", minus, 0.16}, {"spike", spike, 0.5},
    {"tiny", tiny, 1.01},  {"huge", huge, 0},  {"ramp", ramp, 0.3},
    {"subnormal", subnormal, 1.01},
};

static void test_hard(void)
{
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++)
        for (size_t h = 0; h < sizeof hard / sizeof hard[0]; h++) {
            for (int k = 0; k < N; k++)
                numbers[k] = hard[h].at(k);
            double error = relative_error(bounds[i].type, numbers);
            bool ok = true;
            for (int k = 0; k < N; k++)
                ok = ok && isfinite(decoded[k]) && (hard[h].at != zero || decoded[k] == 0.0f);
            ok = ok && (hard[h].most == 0.0 || error <= hard[h].most);
            if (!CHECK(ok))
                printf("    %s, %s: error %g\n", rlx_dtype_name(bounds[i].type), hard[h].name,
                       error);
        }
}

static void test_refusals(void)
{
    fill(0, numbers);
    numbers[300] = NAN;
    CHECK(rx_encode_row(RLX_Q4_K, numbers, NULL, blocks, 512) == 300);
    numbers[300] = -INFINITY;
    CHECK(rx_encode_row(RLX_F16, numbers, NULL, blocks, 512) == 300);
    CHECK(rx_encoder(RLX_IQ2_XXS) == NULL && rx_encoder(RLX_F32) == NULL);
    CHECK(rx_encoder((rlx_dtype)1000) == NULL);
}

/* ---- For the script -------------------------------------------------------------------------- */

static int encode_stream(rlx_dtype t)
{
    const size_t size = (size_t)rlx_dtype_block_size(t);
    while (fread(numbers, sizeof(float) * size, 1, stdin) == 1) {
        rx_encode_row(t, numbers, NULL, blocks, (int64_t)size);
        fwrite(blocks, (size_t)rlx_dtype_block_bytes(t), 1, stdout);
    }
    return 0;
}

static int write_fill(const char *name)
{
    for (int f = 0; f < N_FILLS; f++)
        if (!strcmp(fills[f].name, name)) {
            fill(f, numbers);
            return fwrite(numbers, sizeof numbers, 1, stdout) != 1;
        }
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "fill"))
        return write_fill(argv[2]);
    if (argc == 3 && !strcmp(argv[1], "encode") && rx_encoder(rlx_dtype_from_name(argv[2])))
        return encode_stream(rlx_dtype_from_name(argv[2]));
    test_errors();
    test_hard();
    test_refusals();
    return check_done();
}
