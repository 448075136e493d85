/* SPDX-License-Identifier: MIT */
/* Tests of the element types: small floats over all their bit patterns, the table of types, plain
 * conversions, and one golden block of each packed type. With arguments it serves
 * test_quant_gguf.py: `info TYPE` prints block size, bytes and GGUF number, `decode TYPE` turns the
 * blocks on standard input into floats on standard output. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "base/half.h"
#include "base/quant.h"

static int n_passed, n_failed;

/* Counts one check; a failed one prints its sentence, the first 50 of them. */
__attribute__((format(printf, 2, 3))) static void check(bool ok, const char *fmt, ...)
{
    if (ok) {
        n_passed++;
        return;
    }
    if (++n_failed > 50) return;
    va_list ap;
    va_start(ap, fmt);
    vprintf(fmt, ap);
    va_end(ap);
    printf("\n");
}

/* ---- Small floats --------------------------------------------------------------------------- */

/* A format of 16 bits: sign, exp_bits, man_bits; the functions under test. */
typedef struct small_format {
    const char *name;
    int exp_bits, man_bits;
    float (*widen)(uint16_t);
    uint16_t (*from_f32)(float);
    uint16_t (*from_f64)(double);
} small_format;

/* The value of a pattern by the definition of the format. */
static double exact_value(const small_format *f, unsigned h)
{
    const int bias = (1 << (f->exp_bits - 1)) - 1;
    const int exp = (int)(h >> f->man_bits) & ((1 << f->exp_bits) - 1);
    const int man = (int)h & ((1 << f->man_bits) - 1);
    double mag;
    if (exp == (1 << f->exp_bits) - 1) mag = man ? NAN : INFINITY;
    else if (exp == 0) mag = ldexp(man, 1 - bias - f->man_bits);
    else mag = ldexp(man + (1 << f->man_bits), exp - bias - f->man_bits);
    return h & 0x8000 ? -mag : mag;
}

/* RISC-V's arithmetic gives one NaN, whatever those of its operands are. */
#if defined(__riscv)
#define KEEPS_NAN false
#else
#define KEEPS_NAN true
#endif

static bool is_nan_of(const small_format *f, unsigned got, unsigned want)
{
    const unsigned inf = ((1u << f->exp_bits) - 1) << f->man_bits;
    return KEEPS_NAN ? got == want : (got & 0x7fff) > inf;
}

static void check_widen(const small_format *f, unsigned h)
{
    const double want = exact_value(f, h);
    const float got = f->widen((uint16_t)h);
    if (want != want) {
        const unsigned quiet = h | 1u << (f->man_bits - 1);
        check(got != got, "%s 0x%04x: expected NaN, got %g", f->name, h, (double)got);
        check(is_nan_of(f, f->from_f32(got), quiet),
              "%s 0x%04x: NaN of f32 comes back as 0x%04x", f->name, h, f->from_f32(got));
        check(is_nan_of(f, f->from_f64((double)got), quiet),
              "%s 0x%04x: NaN of f64 comes back as 0x%04x", f->name, h, f->from_f64((double)got));
        return;
    }
    check((double)got == want && !signbit(got) == !(h & 0x8000),
          "%s 0x%04x: expected %g, got %g", f->name, h, want, (double)got);
    check(f->from_f32(got) == h, "%s 0x%04x: f32 %a comes back as 0x%04x", f->name, h, (double)got,
          f->from_f32(got));
    check(f->from_f64(want) == h, "%s 0x%04x: f64 %a comes back as 0x%04x", f->name, h, want,
          f->from_f64(want));
}

/* Around the middle between the pattern h and the next one away from zero: ties go to even, and a
 * double one step off the tie, which f32 cannot tell from it, must go to its own side. */
static void check_rounding(const small_format *f, unsigned h)
{
    const unsigned next = h + 1, even = h & 1 ? next : h;
    const double a = exact_value(f, h);
    double b = exact_value(f, next);
    if (isinf(b)) b = a + (a - exact_value(f, h - 1)); /* overflow begins half a step above */
    const double mid = (a + b) / 2;
    check(f->from_f64(mid) == even, "%s: tie %a: expected 0x%04x, got 0x%04x", f->name, mid, even,
          f->from_f64(mid));
    const uint16_t below = f->from_f64(nextafter(mid, 0)), above = f->from_f64(nextafter(mid, b));
    check(below == h, "%s: below %a: expected 0x%04x, got 0x%04x", f->name, mid, h, below);
    check(above == next, "%s: above %a: expected 0x%04x, got 0x%04x", f->name, mid, next, above);
    const float mid32 = (float)mid;
    if ((double)mid32 != mid) return; /* finer than the subnormals of f32 */
    check(f->from_f32(mid32) == even, "%s: f32 tie %a: expected 0x%04x, got 0x%04x", f->name, mid,
          even, f->from_f32(mid32));
    check(f->from_f32(nextafterf(mid32, 0)) == h, "%s: f32 below %a", f->name, mid);
    check(f->from_f32(nextafterf(mid32, (float)b)) == next, "%s: f32 above %a", f->name, mid);
}

static void test_small_floats(void)
{
    static const small_format formats[] = {
        {"f16", 5, 10, rx_f16_to_f32, rx_f32_to_f16, rx_f64_to_f16},
        {"bf16", 8, 7, rx_bf16_to_f32, rx_f32_to_bf16, rx_f64_to_bf16},
    };
    for (int k = 0; k < 2; k++) {
        const small_format *f = &formats[k];
        const unsigned inf = ((1u << f->exp_bits) - 1) << f->man_bits;
        for (unsigned h = 0; h <= 0xffff; h++) {
            check_widen(f, h);
            if ((h & 0x7fff) < inf) check_rounding(f, h);
        }
        check(f->from_f64(1e300) == inf, "%s: 1e300 is not infinity", f->name);
        check(f->from_f64(-1e300) == (inf | 0x8000), "%s: -1e300 is not -infinity", f->name);
        check(f->from_f64(-1e-300) == 0x8000, "%s: -1e-300 is not -0", f->name);
        check(f->from_f64(5e-324) == 0, "%s: the least double is not 0", f->name);
    }
    check(rx_f64_to_f32(1.0 + 0x1p-24) == 1.0f, "f32: a tie does not go to even");
    check(rx_f64_to_f32(1.0 + 0x1.000001p-24) == 1.0f + 0x1p-23f, "f32: above a tie goes down");
}

static void test_scale_formats(void)
{
    static const int fp4[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    for (unsigned i = 0; i < 16; i++) {
        check(rx_e2m1_twice(i) == fp4[i], "e2m1 %u: got %d", i, rx_e2m1_twice(i));
    }
    for (int i = 0; i < 256; i++) {
        double e8m0 = ldexp(1, i - 128);
        check((double)rx_e8m0_half_scale((uint8_t)i) == e8m0, "e8m0 %d: expected %g", i, e8m0);
        int exp = i >> 3 & 15, man = i & 7;
        double ue4m3 = exp ? ldexp(8 + man, exp - 11) : ldexp(man, -10);
        if (i == 0x7f) ue4m3 = 0;
        check((double)rx_ue4m3_half_scale((uint8_t)i) == ue4m3, "ue4m3 %d: expected %g", i, ue4m3);
    }
}

/* ---- The table and the plain types ---------------------------------------------------------- */

static void test_table(void)
{
    for (int i = 1; i < RLX_N_DTYPES; i++) {
        const rlx_dtype t = (rlx_dtype)i;
        const char *name = rlx_dtype_name(t);
        const rx_dtype_desc *d = rx_dtype_info(t);
        check(rlx_dtype_from_name(name) == t, "%s: the name gives type %d", name,
              rlx_dtype_from_name(name));
        check(rlx_dtype_is_packed(t) == (rx_decoder(t) != NULL), "%s: packed but no decoder", name);
        check(rlx_dtype_is_packed(t) == (rlx_dtype_block_size(t) > 1), "%s: block size", name);
        check(d->block_size <= RX_MAX_BLOCK, "%s: block above RX_MAX_BLOCK", name);
        check(d->gguf < 0 || rx_dtype_from_gguf((uint32_t)d->gguf) == t, "%s: GGUF number", name);
    }
    check(strcmp(rlx_dtype_name(RLX_NO_TYPE), "none") == 0, "RLX_NO_TYPE is not none");
    check(strcmp(rlx_dtype_name((rlx_dtype)999), "none") == 0, "type 999 is not none");
    check(strcmp(rlx_dtype_name(RLX_BOOL), "bool") == 0, "RLX_BOOL is not bool");
    check(rlx_dtype_from_name("none") == RLX_NO_TYPE, "the name none is a type");
    check(rlx_dtype_from_name(NULL) == RLX_NO_TYPE, "the name NULL is a type");
    check(rx_dtype_from_gguf(UINT32_MAX) == RLX_NO_TYPE, "GGUF number 2^32 - 1 is a type");
    check(rx_dtype_from_gguf(28) == RLX_F64, "GGUF number 28 is not f64");
    check(rx_dtype_from_gguf(9) == RLX_NO_TYPE, "GGUF number 9 (q8_1) is a type");
}

static void test_bytes(void)
{
    static const struct {
        rlx_dtype t;
        int64_t n;
        bool ok;
        uint64_t bytes;
    } cases[] = {
        {RLX_F32, 0, true, 0}, {RLX_F32, 3, true, 12}, {RLX_BOOL, 7, true, 7},
        {RLX_Q4_0, 64, true, 36}, {RLX_Q4_0, 33, false, 0}, {RLX_Q6_K, 512, true, 420},
        {RLX_F32, -1, false, 0}, {RLX_NO_TYPE, 1, false, 0}, {(rlx_dtype)-1, 1, false, 0},
        {RLX_I8, INT64_MAX, true, INT64_MAX}, {RLX_F16, INT64_MAX, false, 0},
        {RLX_Q8_K, INT64_MAX - 255, false, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        bool ok = rx_dtype_bytes(cases[i].t, cases[i].n, &bytes);
        check(ok == cases[i].ok && bytes == cases[i].bytes, "%lld of %s: got %d, %llu bytes",
              (long long)cases[i].n, rlx_dtype_name(cases[i].t), ok, (unsigned long long)bytes);
    }
}

static void test_plain(void)
{
    static const float x[] = {
        0, -0.9f, 1.5f, -1.5f, 200, -200, 3e9f, -3e9f, 1e20f, -1e20f, NAN, INFINITY,
    };
    enum { N = sizeof x / sizeof *x };
    static const struct {
        rlx_dtype t;
        double want[N];
    } cases[] = {
        {RLX_I8, {0, 0, 1, -1, 127, -128, 127, -128, 127, -128, 0, 127}},
        {RLX_U8, {0, 0, 1, 0, 200, 0, 255, 0, 255, 0, 0, 255}},
        {RLX_I32, {0, 0, 1, -1, 200, -200, 0x1p31, -0x1p31, 0x1p31, -0x1p31, 0, 0x1p31}},
        {RLX_I64, {0, 0, 1, -1, 200, -200, 3e9, -3e9, 0x1p63, -0x1p63, 0, 0x1p63}},
        {RLX_I16, {0, 0, 1, -1, 200, -200, 32767, -32768, 32767, -32768, 0, 32767}},
        {RLX_U16, {0, 0, 1, 0, 200, 0, 65535, 0, 65535, 0, 0, 65535}},
        {RLX_U32, {0, 0, 1, 0, 200, 0, 3e9, 0, 0x1p32, 0, 0, 0x1p32}},
        {RLX_U64, {0, 0, 1, 0, 200, 0, 3e9, 0, 0x1p64, 0, 0, 0x1p64}},
        {RLX_BOOL, {0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}},
    };
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        unsigned char raw[N * 8 + 1];
        float back[N];
        check(rlx_from_float(cases[c].t, x, raw + 1, N) == RLX_OK, "from_float fails");
        check(rlx_to_float(cases[c].t, raw + 1, back, N) == RLX_OK, "to_float fails");
        for (int i = 0; i < N; i++) {
            check((double)back[i] == cases[c].want[i], "%s from %g: expected %g, got %g",
                  rlx_dtype_name(cases[c].t), (double)x[i], cases[c].want[i], (double)back[i]);
        }
    }
    int32_t top;
    check(!rlx_from_float(RLX_I32, &x[6], &top, 1) && top == INT32_MAX, "i32 of 3e9 is %d", top);
    static const rlx_dtype floats[] = {RLX_F32, RLX_F16, RLX_BF16, RLX_F64};
    for (int k = 0; k < 4; k++) {
        unsigned char raw[8];
        float one = 1.5f, back = 0;
        check(!rlx_from_float(floats[k], &one, raw, 1) && !rlx_to_float(floats[k], raw, &back, 1) &&
              back == one, "%s of 1.5 comes back as %g", rlx_dtype_name(floats[k]), (double)back);
    }
}

static void test_refusals(void)
{
    float f[32] = {0};
    unsigned char raw[64] = {0};
    check(rlx_to_float(RLX_Q4_0, raw, f, 31) == RLX_INVALID, "31 elements of q4_0 are decoded");
    check(rlx_to_float(RLX_NO_TYPE, raw, f, 1) == RLX_INVALID, "no type is decoded");
    check(rlx_to_float(RLX_F32, NULL, f, 1) == RLX_INVALID, "NULL is decoded");
    check(rlx_to_float(RLX_F32, NULL, NULL, 0) == RLX_OK, "zero elements are refused");
    check(rlx_to_float(RLX_F32, raw, f, -1) == RLX_INVALID, "-1 elements are decoded");
    check(rlx_from_float(RLX_Q4_0, f, raw, 32) == RLX_UNSUPPORTED, "q4_0 is encoded");
    check(rlx_from_float(RLX_NO_TYPE, f, raw, 1) == RLX_INVALID, "no type is encoded");
    check(rlx_from_float(RLX_F16, f, NULL, 1) == RLX_INVALID, "NULL is written");
}

/* ---- Golden blocks -------------------------------------------------------------------------- */

/* The first and last element and the FNV-1a hash of all elements of a block filled from `seed`,
 * as the Python package gguf decodes it: rows printed by test_quant_gguf.py --golden. */
static const struct {
    rlx_dtype t;
    uint32_t seed;
    float first, last;
    uint64_t hash;
} golden[] = {
    {RLX_Q4_0, 1, -2793.0f, -1197.0f, 0x254d6f1d5bb46bbc},
    {RLX_Q4_1, 1, 4787.7188f, 3191.7185f, 0xb4aab3a204098117},
    {RLX_Q5_0, 1, 2394.0f, -5985.0f, 0xf13923c625ad04c3},
    {RLX_Q5_1, 1, 1595.7185f, 8378.719f, 0x11be20c81b804899},
    {RLX_Q8_0, 1, -50673.0f, -1995.0f, 0x3a9c465f3b730abb},
    {RLX_Q2_K, 1, -0.0010135174f, -0.029950857f, 0x501190af558b878a},
    {RLX_Q3_K, 1, -110.08594f, -566.15625f, 0x0d5582f48fb86748},
    {RLX_Q4_K, 1, 57457.125f, 154421.72f, 0x79930def648a3594},
    {RLX_Q5_K, 1, 33517.125f, 85793.73f, 0xe375af0951ed54f1},
    {RLX_Q6_K, 2, 433.98438f, -423.13477f, 0xf0a0268171074ff6},
    {RLX_Q8_K, 2, 3.1448803f, 2.1540277f, 0x9bd53c83b54fa653},
    {RLX_IQ4_NL, 1, -41496.0f, -13965.0f, 0x37654eee0dd9d183},
    {RLX_IQ4_XS, 3, -0.0046520233f, -0.50603676f, 0x80c42814270131b6},
    {RLX_MXFP4, 550, -0.00024414062f, -0.0014648438f, 0x84ec10972bce6eaa},
    {RLX_NVFP4, 1, -3.0f, 0.0f, 0x66ff6d5b039f53e5},
    {RLX_IQ1_S, 1, -49.875f, 3840.375f, 0x151b11a2d91d85a6},
    {RLX_IQ1_M, 2, 3831.1875f, 8209.6875f, 0x5d9740ae2a08eb26},
    {RLX_IQ2_XXS, 1, 8379.0f, -11571.0f, 0x15ab6c2c99b166fb},
    {RLX_IQ2_XS, 1, 1995.0f, 12369.0f, 0x530a0314e58eead4},
    {RLX_IQ2_S, 1, -9177.0f, -40747.875f, 0xf8c5f4a487f9a0be},
    {RLX_IQ3_XXS, 1, 89775.0f, 142243.5f, 0x49cd538f88f58192},
    {RLX_IQ3_S, 1, -64239.0f, 149625.0f, 0x4eb27ebb92c97a77},
    {RLX_TQ1_0, 1, -0.99365234f, 0.0f, 0x0554a5749cffe805},
    {RLX_TQ2_0, 1, 6956.0f, -6956.0f, 0x8abfad0038a75cfb},
};

static void fill_block(uint32_t seed, unsigned char *p, int n)
{
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = (unsigned char)(seed >> 24);
    }
}

static uint64_t hash_floats(const float *x, int n)
{
    uint64_t h = 0xcbf29ce484222325;
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 4; k++) {
            h = (h ^ (rx_f32_bits(x[i]) >> 8 * k & 255)) * 0x100000001b3;
        }
    }
    return h;
}

static void test_golden(void)
{
    const int n_golden = sizeof golden / sizeof *golden;
    bool seen[RLX_N_DTYPES] = {false};
    for (int i = 0; i < n_golden; i++) {
        const rlx_dtype t = golden[i].t;
        const rx_dtype_desc *d = rx_dtype_info(t);
        unsigned char raw[2 * 512 + 1];
        float x[2 * RX_MAX_BLOCK + 1];
        const int n = d->block_size;
        seen[t] = true;
        memset(raw, 0, sizeof raw);
        fill_block(golden[i].seed, raw + 1 + d->block_bytes, d->block_bytes); /* odd address */
        x[2 * n] = -1234.0f;
        check(rlx_to_float(t, raw + 1, x, 2 * n) == RLX_OK, "%s: to_float fails", d->name);
        check(x[2 * n] == -1234.0f, "%s: writes behind the end", d->name);
        check(x[n] == golden[i].first, "%s: first element: expected %g, got %g", d->name,
              (double)golden[i].first, (double)x[n]);
        check(x[2 * n - 1] == golden[i].last, "%s: last element: expected %g, got %g", d->name,
              (double)golden[i].last, (double)x[2 * n - 1]);
        const uint64_t hash = hash_floats(x + n, n);
        check(hash == golden[i].hash, "%s: hash: expected %016llx, got %016llx", d->name,
              (unsigned long long)golden[i].hash, (unsigned long long)hash);
    }
    for (int i = 0; i < RLX_N_DTYPES; i++) {
        const rlx_dtype t = (rlx_dtype)i;
        check(seen[t] == rlx_dtype_is_packed(t), "%s: no golden block", rlx_dtype_name(t));
    }
}

/* ---- For test_quant_gguf.py ----------------------------------------------------------------- */

static int print_info(rlx_dtype t)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    printf("%d %d %d\n", d->block_size, d->block_bytes, d->gguf);
    return 0;
}

static int decode_stream(rlx_dtype t)
{
    const rx_dtype_desc *d = rx_dtype_info(t);
    unsigned char raw[512 + 1];
    float x[RX_MAX_BLOCK];
    size_t got;
    while ((got = fread(raw + 1, 1, (size_t)d->block_bytes, stdin)) == (size_t)d->block_bytes) {
        if (rlx_to_float(t, raw + 1, x, d->block_size) != RLX_OK) return 1;
        if (fwrite(x, sizeof *x, (size_t)d->block_size, stdout) != (size_t)d->block_size) return 1;
    }
    if (got != 0) fprintf(stderr, "test_quant: the last block of %s is short\n", d->name);
    return got != 0;
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        rlx_dtype t = rlx_dtype_from_name(argv[2]);
        if (t != RLX_NO_TYPE && strcmp(argv[1], "info") == 0) return print_info(t);
        if (t != RLX_NO_TYPE && strcmp(argv[1], "decode") == 0) return decode_stream(t);
    }
    if (argc != 1) {
        fprintf(stderr, "usage: test_quant [info TYPE | decode TYPE]\n");
        return 2;
    }
    test_small_floats();
    test_scale_formats();
    test_table();
    test_bytes();
    test_plain();
    test_refusals();
    test_golden();
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_failed != 0;
}
