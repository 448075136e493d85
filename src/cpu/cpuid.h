/* SPDX-License-Identifier: MIT */
/* Features of the processor and the sizes of its caches. */
#ifndef RX_CPU_CPUID_H
#define RX_CPU_CPUID_H

#include "base/error.h"

/* Levels of kernels; each implies those before it on its architecture. */
enum {
    RX_CPU_AVX2 = 1 << 0,   /* AVX2, FMA, F16C */
    RX_CPU_AVX512 = 1 << 1, /* AVX-512 F, BW, DQ, VL */
    RX_CPU_VNNI = 1 << 2,   /* AVX-512 VNNI */
    RX_CPU_NEON = 1 << 3,   /* 64-bit Arm */
    RX_CPU_WASM = 1 << 4,   /* built with 128-bit SIMD */
    RX_CPU_DOTPROD = 1 << 5, /* NEON's dot products of bytes: Armv8.2 */
    RX_CPU_I8MM = 1 << 6    /* those of u8 and s8, and matrices: Armv8.6 */
};

/* Levels that the processor and the system support and this build has kernels for, limited by
 * RLX_CPU: generic (none); avx2, avx512, vnni; neon, dotprod, i8mm. */
uint32_t rx_cpu_flags(void);
/* RLX_INVALID when RLX_CPU is another word. */
rlx_status rx_cpu_check_limit(rlx_error *err);

/* Cache sizes as seen by one core; typical sizes where the processor does not report them. */
typedef struct rx_cpu_caches {
    size_t l1d, l2, l3;
} rx_cpu_caches;
rx_cpu_caches rx_cpu_cache_sizes(void);
#define RX_COMMON_CACHES ((rx_cpu_caches){32 << 10, 512 << 10, 2 << 20})

#endif
