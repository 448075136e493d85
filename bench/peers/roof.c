/* SPDX-License-Identifier: MIT */
/* Measures what one core can do at best: products and sums of f32 in registers (GFLOP/s), and a
 * copy between arrays larger than the caches (GB/s, read and written). bench/compare compiles this
 * for the machine it runs on (cc -O3 -march=native) and draws the result as the roof. Times are CPU
 * times, so that other work on the machine counts as little as it can. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define ROUNDS 15

#if defined(__AVX512F__)
typedef float vec __attribute__((vector_size(64)));
#elif defined(__AVX__)
typedef float vec __attribute__((vector_size(32)));
#else
typedef float vec __attribute__((vector_size(16)));
#endif

#if defined(__aarch64__)
#define VECTOR_REGISTER "w"
#else
#define VECTOR_REGISTER "x"
#endif

static double cpu_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static float sink;

/* sum = sum * scale + add, where the compiler may not drop or move it */
#define STEP(sum)                                  \
    sum = sum * scale + add;                       \
    __asm__ volatile("" : "+" VECTOR_REGISTER (sum))

static double measure_products(void)
{
    enum { STEPS = 1000000, SUMS = 10 }; /* more sums than latency times rate of any core */
    const vec scale = (vec){0} + 0.5f, add = (vec){0} + 1.0f;
    vec a = add, b = add, c = add, d = add, e = add, f = add, g = add, h = add, i = add, j = add;
    double begin = cpu_now();
    for (int n = 0; n < STEPS; n++) {
        STEP(a); STEP(b); STEP(c); STEP(d); STEP(e);
        STEP(f); STEP(g); STEP(h); STEP(i); STEP(j);
    }
    double seconds = cpu_now() - begin;
    sink += (a + b + c + d + e + f + g + h + i + j)[0];
    return 2.0 * STEPS * SUMS * sizeof(vec) / sizeof(float) / seconds * 1e-9;
}

static double measure_copy(char *to, char *from, size_t bytes)
{
    double begin = cpu_now();
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
    return 2.0 * (double)bytes / (cpu_now() - begin) * 1e-9;
}

int main(void)
{
    const size_t bytes = (size_t)128 << 20;
    char *from = malloc(bytes), *to = malloc(bytes);
    double gflops = 0, gbps = 0;
    if (!from || !to)
        return 1;
    memset(from, 1, bytes);
    memset(to, 2, bytes);
    for (int i = 0; i < ROUNDS; i++) {
        double products = measure_products(), copy = measure_copy(to, from, bytes);
        gflops = products > gflops ? products : gflops;
        gbps = copy > gbps ? copy : gbps;
    }
    printf("{\"gflops\": %.2f, \"gbps\": %.2f}\n", gflops, gbps);
    free(from);
    free(to);
    return 0;
}
