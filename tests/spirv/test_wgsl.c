/* SPDX-License-Identifier: MIT */
/* The WGSL printer: every portable kernel prints, the same each time; what reflection says of
 * bindings, push constants, sizes and features; aliases and shifts; what is refused; damaged
 * modules; memory that runs out. Whether compilers accept the texts is tested by shaders.py and
 * tint.py, what they compute by optest on the WebGPU devices. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "check.h"
#include "gpu/gpu.h"
#include "spirv/wgsl.h"

#define PORTABLE (RX_NEEDS_SUBGROUP | RX_NEEDS_F16 | RX_NEEDS_INT_DOT)

static rx_wgsl_options options_of(rx_kernel k)
{
    return (rx_wgsl_options){.name = rx_kernels[k].name, .f16 = true,
                             .subgroups = RX_WGSL_SUBGROUPS_ENABLE, .push_binding = 15};
}

static rlx_status print_kernel(rx_kernel k, const rx_wgsl_options *o, rx_wgsl_text *t,
                               rlx_error *err)
{
    size_t n = 0;
    const uint32_t *words = rx_kernel_code(k, &n);
    CHECK(words != NULL);
    return rx_wgsl_print(words, n, o, t, err);
}

/* ---- All kernels ----------------------------------------------------------------------------- */

static void check_bindings(rx_kernel k, const rx_wgsl_text *t)
{
    char line[80];
    bool writes = false;
    for (uint32_t i = 0; i < RX_WGSL_MAX_BIND; i++) {
        const rx_wgsl_binding *b = &t->binding[i];
        snprintf(line, sizeof line, "@group(0) @binding(%u) var<storage, %s> b%u:", i,
                 b->read_write ? "read_write" : "read", i);
        CHECK(b->used == (strstr(t->data, line) != NULL));
        CHECK(b->used == (b->read || b->written));
        CHECK(!b->used || i < rx_contracts[rx_kernels[k].contract].n_bind);
        writes |= b->written;
    }
    CHECK(writes && t->n_bindings <= rx_contracts[rx_kernels[k].contract].n_bind);
    CHECK((strstr(t->data, "var<uniform> push") != NULL) == (t->uniform_bytes != 0));
    CHECK(t->uniform_bytes % 16 == 0 && t->uniform_bytes >= 4 * t->push_words);
    CHECK(t->push_words <= RX_GPU_MAX_PUSH);
}

static void check_kernel(rx_kernel k)
{
    rx_wgsl_options o = options_of(k);
    rx_wgsl_text t, again;
    rlx_error err = {0};
    const uint32_t needs = rx_kernels[k].needs, local = 32;
    if (!CHECK_OK(print_kernel(k, &o, &t, &err), &err))
        return;
    check_bindings(k, &t);
    CHECK(t.n == strlen(t.data));
    CHECK(!t.uses_subgroups || (needs & RX_NEEDS_SUBGROUP));
    CHECK(!t.uses_f16 || (needs & RX_NEEDS_F16));
    CHECK(t.uses_subgroups == (strstr(t.data, "enable subgroups;") != NULL));
    CHECK_OK(print_kernel(k, &o, &again, &err), &err);
    CHECK(again.n == t.n && memcmp(again.data, t.data, t.n) == 0);
    rx_wgsl_text_finish(&again);
    rx_wgsl_text_finish(&t);

    o.spec = &local; /* constant 0 is the local size */
    o.n_spec = 1;
    o.subgroups = RX_WGSL_SUBGROUPS_PLAIN;
    o.read_only = 0xffff;
    CHECK_OK(print_kernel(k, &o, &t, &err), &err);
    CHECK(t.local[0] == local && t.local[1] == 1 && t.local[2] == 1);
    CHECK(strstr(t.data, "@workgroup_size(32, 1, 1)") && !strstr(t.data, "enable subgroups"));
    for (uint32_t i = 0; i < RX_WGSL_MAX_BIND; i++)
        CHECK(t.binding[i].read_write == (t.binding[i].used && t.binding[i].written));
    rx_wgsl_text_finish(&t);
}

static void test_kernels(void)
{
    int n = 0;
    for (int k = 0; k < RX_N_KERNELS; k++) {
        if (rx_kernels[k].needs & ~(uint32_t)PORTABLE)
            continue;
        check_kernel((rx_kernel)k);
        n++;
    }
    printf("%d kernels print\n", n);
}

/* Kernels for Vulkan alone are refused with a sentence, and so are features that are off. */
static void test_refusals(void)
{
    for (int k = 0; k < RX_N_KERNELS; k++) {
        rx_wgsl_options o = options_of((rx_kernel)k);
        rx_wgsl_text t;
        rlx_error err = {0};
        o.subgroups = RX_WGSL_SUBGROUPS_OFF;
        o.f16 = false;
        const rlx_status s = print_kernel((rx_kernel)k, &o, &t, &err);
        if (s == RLX_OK) {
            /* What packs for cooperative matrices prints, but has no readers there. */
            CHECK(!(rx_kernels[k].needs & ~(uint32_t)(RX_NEEDS_INT_DOT | RX_NEEDS_ENGINE)) ||
                  rx_kernels[k].needs & RX_NEEDS_COOPMAT);
            rx_wgsl_text_finish(&t);
            continue;
        }
        CHECK(s == RLX_UNSUPPORTED && rx_kernels[k].needs && !t.data);
        CHECK(strstr(err.text, rx_kernels[k].name) != NULL);
    }
}

/* ---- Aliases --------------------------------------------------------------------------------- */

static void test_aliases(void)
{
    rx_wgsl_options o = options_of(RX_K_transpose);
    rx_wgsl_text t;
    rlx_error err = {0};
    o.alias[1] = 1; /* binding 1 is binding 0: the same range */
    CHECK_OK(print_kernel(RX_K_transpose, &o, &t, &err), &err);
    CHECK(t.binding[0].used && t.binding[0].read_write && !t.binding[1].used);
    CHECK(t.binding[0].read && !t.binding[0].written && t.binding[1].written);
    CHECK(strstr(t.data, "binding(0)") && !strstr(t.data, "binding(1)"));
    const uint32_t words = t.push_words, bytes = t.uniform_bytes;
    CHECK(bytes == (words + 3) / 4 * 16);
    rx_wgsl_text_finish(&t);

    o.shifted = 2; /* binding 1 begins later */
    CHECK_OK(print_kernel(RX_K_transpose, &o, &t, &err), &err);
    CHECK(t.push_words == words && t.binding[1].shift_word == words);
    CHECK(t.uniform_bytes == (words + 1 + 3) / 4 * 16 && t.binding[0].shift_word == 0);
    char word[32];
    snprintf(word, sizeof word, "+ push[%u].%c]", words / 4, "xyzw"[words & 3]);
    CHECK(strstr(t.data, word) != NULL);
    rx_wgsl_text_finish(&t);

    o.alias[0] = 2; /* an alias of an alias */
    CHECK(print_kernel(RX_K_transpose, &o, &t, &err) == RLX_INVALID);
    o.alias[0] = 200;
    CHECK(print_kernel(RX_K_transpose, &o, &t, &err) == RLX_INVALID);
}

/* Vectors next to words, atomics next to plain words: all that can be is read by words. */
static void test_shared_buffers(void)
{
    for (int k = 0; k < RX_N_KERNELS; k++) {
        if (rx_kernels[k].needs & ~(uint32_t)PORTABLE)
            continue;
        rx_wgsl_options o = options_of((rx_kernel)k);
        rx_wgsl_text t;
        rlx_error err = {0};
        o.shifted = (1u << rx_contracts[rx_kernels[k].contract].n_bind) - 1;
        for (uint32_t i = 1; i < rx_contracts[rx_kernels[k].contract].n_bind; i++)
            o.alias[i] = 1;
        if (!CHECK_OK(print_kernel((rx_kernel)k, &o, &t, &err), &err))
            continue;
        CHECK(t.binding[0].used && t.binding[0].read_write);
        CHECK(strstr(t.data, "b0: array<u32>") || strstr(t.data, "b0: array<atomic<u32>>") ||
              strstr(t.data, "b0: array<atomic<i32>>"));
        for (uint32_t i = 1; i < t.n_bindings; i++)
            CHECK(!t.binding[i].used && t.binding[i].shift_word == t.push_words + i);
        rx_wgsl_text_finish(&t);
    }
}

/* ---- Unrolling ------------------------------------------------------------------------------- */

static int count_loops(const char *text)
{
    int n = 0;
    for (const char *s = strstr(text, "loop {"); s; s = strstr(s + 1, "loop {"))
        n++;
    return n;
}

static int print_and_count(rx_kernel k, size_t room, const uint32_t *spec, size_t n_spec)
{
    rx_wgsl_options o = options_of(k);
    rx_wgsl_text t;
    rlx_error err = {0};
    o.unroll_bytes = room;
    o.spec = spec;
    o.n_spec = n_spec;
    if (!CHECK_OK(print_kernel(k, &o, &t, &err), &err))
        return -1;
    const int n = count_loops(t.data);
    rx_wgsl_text_finish(&t);
    return n;
}

/* Loops that ask for it are unrolled, where there is room; all else stays. */
static void test_unrolling(void)
{
    static const size_t rooms[] = {0, 200, 131072};
    for (int k = 0; k < RX_N_KERNELS; k++) {
        if (rx_kernels[k].needs & ~(uint32_t)PORTABLE)
            continue;
        int n[3] = {0};
        for (int i = 0; i < 3; i++)
            n[i] = print_and_count((rx_kernel)k, rooms[i], NULL, 0);
        CHECK(k != RX_K_matmul_avbv || (n[1] <= n[0] && n[2] > 0 && 2 * n[2] < n[0]));
    }
}

/* True: every index of every array of the function or the invocation is a literal. */
static bool has_constant_indices(const char *text)
{
    for (const char *s = strstr(text, "var "); s; s = strstr(s + 1, "var ")) {
        char name[24];
        int id = 0, begin = 0;
        if (sscanf(s, "var v%d: array<%n", &id, &begin) != 1 || !begin)
            continue;
        snprintf(name, sizeof name, "v%d[", id);
        for (const char *use = strstr(text, name); use; use = strstr(use + 1, name)) {
            const char *index = use + strlen(name);
            const size_t digits = strspn(index, "0123456789");
            if (!digits || !strchr("ui", index[digits]) || index[digits + 1] != ']')
                return false;
        }
    }
    return true;
}

/* Loops whose end is not a plain bound keep no array in memory: halving widths and bounds made of
 * an outer counter (attention_decode), `continue` (rows), none that run at all (dot_gemv), inner
 * loops without a hint (tile4_pack), loops of a large tile (matmul). */
static void test_constant_indices(void)
{
    static const struct {
        rx_kernel kernel;
        uint32_t n, spec[20];
    } cases[] = {
        {RX_K_attention_decode, 16, {256, 1, 1, 8, 16, 64, 64, 2, 0, 8, 8, 1, 32, 1, 1, 8}},
        {RX_K_rows_v4, 13, {128, 1, 1, 1, 2, 0, 0, 1, 0, 64, 4, 128, 1}},
        {RX_K_dot_gemv, 16, {256, 1, 9, 1, 0, 0, 0, 0, 0, 2, 1, 256, 1, 0, 0, 1}},
        {RX_K_tile4_pack, 2, {64, 9}},
        {RX_K_matmul_avbv, 16, {128, 1, 1, 1, 0, 0, 0, 0, 0, 0, 128, 128, 8, 16, 8, 10}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rx_wgsl_options o = options_of(cases[i].kernel);
        rx_wgsl_text t;
        rlx_error err = {0};
        o.unroll_bytes = 131072;
        o.spec = cases[i].spec;
        o.n_spec = cases[i].n;
        if (!CHECK_OK(print_kernel(cases[i].kernel, &o, &t, &err), &err))
            continue;
        if (!CHECK(has_constant_indices(t.data)))
            printf("    %s\n", o.name);
        CHECK(t.n < 2 * o.unroll_bytes);
        rx_wgsl_text_finish(&t);
    }
    /* The loop over k of the largest tile and that over its rows at the end leave one loop. */
    const size_t last = sizeof cases / sizeof *cases - 1;
    CHECK(print_and_count(cases[last].kernel, 131072, cases[last].spec, cases[last].n) == 1);
}

/* ---- Damage ---------------------------------------------------------------------------------- */

static uint64_t state = 1;

static uint32_t below(uint32_t n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % n;
}

static void print_damaged(const uint32_t *words, size_t n)
{
    rx_wgsl_options o = options_of(RX_K_transpose);
    o.unroll_bytes = 8192;
    rx_wgsl_text t;
    rlx_error err = {0};
    const rlx_status s = rx_wgsl_print(words, n, &o, &t, &err);
    CHECK(s == RLX_OK || s == RLX_INVALID || s == RLX_UNSUPPORTED);
    CHECK((s == RLX_OK) == (t.data != NULL));
    CHECK(s == RLX_OK || err.text[0]);
    rx_wgsl_text_finish(&t);
}

/* A word, or a few, become another word of the module, a small number, or noise. */
static void damage(uint32_t *words, size_t n)
{
    for (uint32_t i = below(4) + 1; i > 0; i--) {
        uint32_t *w = &words[below((uint32_t)n)];
        switch (below(4)) {
        case 0: *w = words[below((uint32_t)n)]; break;
        case 1: *w = below(64); break;
        case 2: *w ^= 1u << below(32); break;
        default: *w = (*w & 0xffff0000u) | below(400); break;
        }
    }
}

static void test_damage(void)
{
    static const rx_kernel kernels[] = {RX_K_transpose, RX_K_matmul, RX_K_rows, RX_K_sort,
                                        RX_K_scatter, RX_K_fft, RX_K_histogram, RX_K_rows_sg};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        size_t n = 0;
        const uint32_t *words = rx_kernel_code(kernels[i], &n);
        uint32_t *copy = words ? malloc(n * sizeof *copy) : NULL;
        if (!CHECK(copy != NULL))
            return;
        for (size_t cut = 0; cut < n; cut += 1 + n / 60)
            print_damaged(words, cut);
        for (int round = 0; round < 60; round++) {
            memcpy(copy, words, n * sizeof *copy);
            damage(copy, n);
            print_damaged(copy, n);
        }
        free(copy);
    }
}

/* ---- Memory ---------------------------------------------------------------------------------- */

static long allowed; /* allocations that still succeed */

static void *counted_realloc(void *user, void *old, size_t n)
{
    (void)user;
    return allowed-- > 0 ? realloc(old, n) : NULL;
}
static void counted_free(void *user, void *p)
{
    (void)user;
    free(p);
}

static void test_memory(void)
{
    rx_wgsl_options o = options_of(RX_K_rows);
    o.unroll_bytes = 4096;
    rx_wgsl_text t;
    rlx_error err = {0};
    size_t n = 0;
    const uint32_t *words = rx_kernel_code(RX_K_rows, &n);
    const rlx_allocator limited = {.realloc = counted_realloc, .free = counted_free};
    rlx_status s = RLX_NO_MEMORY;
    for (long limit = 0; s == RLX_NO_MEMORY && limit < 100000; limit++) {
        allowed = limit;
        rlx_set_allocator(&limited);
        s = rx_wgsl_print(words, n, &o, &t, &err);
        rlx_set_allocator(NULL);
        CHECK(s == RLX_OK || (s == RLX_NO_MEMORY && !t.data));
    }
    CHECK_OK(s, &err);
    if (s == RLX_OK) {
        allowed = 0;
        rlx_set_allocator(&limited);
        rx_wgsl_text_finish(&t);
        rlx_set_allocator(NULL);
    }
}

int main(void)
{
    test_kernels();
    test_refusals();
    test_aliases();
    test_shared_buffers();
    test_unrolling();
    test_constant_indices();
    test_damage();
    test_memory();
    return check_done();
}
