/* SPDX-License-Identifier: MIT */
/* Features and caches: by CPUID, and the enabled register state by XGETBV; on 64-bit Arm features
 * as the system tells them. */
#include "cpu/cpuid.h"

#include <stdbool.h>
#include <string.h>

#include "base/env.h"

#if defined(__x86_64__)
#include <cpuid.h>

typedef struct regs {
    uint32_t a, b, c, d;
} regs;

/* Zeros when the leaf does not exist. */
static regs read_leaf(uint32_t leaf, uint32_t sub)
{
    regs r = {0};
    if (!__get_cpuid_count(leaf, sub, &r.a, &r.b, &r.c, &r.d))
        r = (regs){0};
    return r;
}

static uint64_t read_xcr0(void)
{
    uint32_t lo, hi;
    __asm__("xgetbv" : "=a"(lo), "=d"(hi) : "c"(0));
    return (uint64_t)hi << 32 | lo;
}

static bool has_bits(uint64_t value, uint64_t bits)
{
    return (value & bits) == bits;
}

static uint32_t find_flags(void)
{
    const regs one = read_leaf(1, 0), seven = read_leaf(7, 0);
    const uint32_t osxsave = 1u << 27, avx = 1u << 28, fma = 1u << 12, f16c = 1u << 29;
    const uint32_t avx2 = 1u << 5, f = 1u << 16, dq = 1u << 17, bw = 1u << 30, vl = 1u << 31;
    if (!has_bits(one.c, osxsave | avx | fma | f16c) || !has_bits(seven.b, avx2))
        return 0;
    const uint64_t saved = read_xcr0();
    if (!has_bits(saved, 0x6)) /* XMM, YMM */
        return 0;
    if (!has_bits(seven.b, f | dq | bw | vl) || !has_bits(saved, 0xe6)) /* masks, ZMM */
        return RX_CPU_AVX2;
    const bool vnni = has_bits(seven.c, 1u << 11);
    return RX_CPU_AVX2 | RX_CPU_AVX512 | (vnni ? RX_CPU_VNNI : 0);
}

/* Intel's leaf 4 and AMD's 0x8000001d list the caches in the same form. */
static void find_caches(uint32_t leaf, rx_cpu_caches *out)
{
    for (uint32_t i = 0; i < 16; i++) {
        const regs r = read_leaf(leaf, i);
        const uint32_t type = r.a & 31, level = r.a >> 5 & 7;
        if (type == 0)
            return;
        if (type == 2) /* instructions */
            continue;
        const size_t ways = (r.b >> 22) + 1, parts = (r.b >> 12 & 0x3ff) + 1;
        const size_t bytes = ways * parts * ((r.b & 0xfff) + 1) * ((size_t)r.c + 1);
        if (level == 1)
            out->l1d = bytes;
        else if (level == 2)
            out->l2 = bytes;
        else if (level == 3)
            out->l3 = bytes;
    }
}

rx_cpu_caches rx_cpu_cache_sizes(void)
{
    rx_cpu_caches c = {0};
    find_caches(4, &c);
    if (!c.l1d)
        find_caches(0x8000001du, &c);
    c.l1d = c.l1d ? c.l1d : RX_COMMON_CACHES.l1d;
    c.l2 = c.l2 ? c.l2 : RX_COMMON_CACHES.l2;
    c.l3 = c.l3 ? c.l3 : c.l2;
    return c;
}

#else

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* Bits of AT_HWCAP and AT_HWCAP2, part of Linux's ABI; headers of older systems lack the second. */
#define HAS_DOTPROD (1ul << 20)
#define HAS_I8MM (1ul << 13)

static uint32_t find_arm_flags(void)
{
    const bool dot = getauxval(AT_HWCAP) & HAS_DOTPROD;
    const bool i8mm = dot && getauxval(AT_HWCAP2) & HAS_I8MM;
    return RX_CPU_NEON | (dot ? RX_CPU_DOTPROD : 0) | (i8mm ? RX_CPU_I8MM : 0);
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static bool has_feature(const char *name)
{
    int value = 0;
    size_t bytes = sizeof value;
    return sysctlbyname(name, &value, &bytes, NULL, 0) == 0 && value != 0;
}

static uint32_t find_arm_flags(void)
{
    const bool dot = has_feature("hw.optional.arm.FEAT_DotProd");
    const bool i8mm = dot && has_feature("hw.optional.arm.FEAT_I8MM");
    return RX_CPU_NEON | (dot ? RX_CPU_DOTPROD : 0) | (i8mm ? RX_CPU_I8MM : 0);
}
#elif defined(__aarch64__)
static uint32_t find_arm_flags(void)
{
    return RX_CPU_NEON;
}
#endif

static uint32_t find_flags(void)
{
#if defined(__aarch64__)
    return find_arm_flags();
#elif defined(__wasm_simd128__)
    return RX_CPU_WASM;
#else
    return 0;
#endif
}

rx_cpu_caches rx_cpu_cache_sizes(void)
{
    return RX_COMMON_CACHES;
}

#endif

static const struct {
    const char *word;
    uint32_t allowed;
} limits[] = {
    {"generic", 0},
    {"avx2", RX_CPU_AVX2},
    {"avx512", RX_CPU_AVX2 | RX_CPU_AVX512},
    {"vnni", RX_CPU_AVX2 | RX_CPU_AVX512 | RX_CPU_VNNI},
    {"neon", RX_CPU_NEON},
    {"dotprod", RX_CPU_NEON | RX_CPU_DOTPROD},
    {"i8mm", RX_CPU_NEON | RX_CPU_DOTPROD | RX_CPU_I8MM},
};

/* The index of RLX_CPU in the list of limits; -1: not set, -2: unknown. */
static int find_limit(void)
{
    const char *word = rx_env_text(RX_ENV_CPU);
    if (!word)
        return -1;
    for (int i = 0; i < (int)(sizeof limits / sizeof limits[0]); i++)
        if (!strcmp(word, limits[i].word))
            return i;
    return -2;
}

/* Levels without kernels in this build: RLX_SIMD of the build leaves them out, or the compiler
 * does not know them. */
static const uint32_t absent = 0
#ifdef RX_NO_AVX2
    | RX_CPU_AVX2
#endif
#ifdef RX_NO_AVX512
    | RX_CPU_AVX512
#endif
#ifdef RX_NO_AVX512VNNI
    | RX_CPU_VNNI
#endif
#ifdef RX_NO_NEONDOT
    | RX_CPU_DOTPROD
#endif
#ifdef RX_NO_NEONI8MM
    | RX_CPU_I8MM
#endif
    ;

uint32_t rx_cpu_flags(void)
{
    int limit = find_limit();
    return find_flags() & ~absent & (limit < 0 ? UINT32_MAX : limits[limit].allowed);
}

rlx_status rx_cpu_check_limit(rlx_error *err)
{
    if (find_limit() != -2)
        return RLX_OK;
    return rx_fail(err, RLX_INVALID, "RLX_CPU: expected generic, avx2, avx512, vnni, neon, dotprod "
                   "or i8mm, got '%s'", rx_env_text(RX_ENV_CPU));
}
