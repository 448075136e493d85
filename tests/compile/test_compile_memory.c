/* SPDX-License-Identifier: MIT */
/* Fails the n-th allocation of a compilation for n = 1, 2, 3, ...: a status each time, no leak. */
#include <stdlib.h>

#include "check.h"
#include "support/fake_target.h"
#include "support/nets.h"

static long allocations_left; /* before one fails; negative: none does */
static long blocks;           /* allocated and not freed */

static void *failing_realloc(void *user, void *old, size_t n)
{
    (void)user;
    if (allocations_left == 0)
        return NULL;
    allocations_left -= allocations_left > 0;
    void *p = realloc(old, n);
    blocks += p && !old;
    return p;
}

static void counting_free(void *user, void *p)
{
    (void)user;
    blocks--;
    free(p);
}

static void ignore_stage(void *user, const char *stage, const char *text)
{
    (void)user;
    (void)stage;
    (void)text;
}

static const char text[] =
    "graph \"g\" {\n"
    "  dim seq <= 8\n"
    "  %1: f32[seq,8] = input \"x\"\n"
    "  %2: f32[8,8] = param \"w\"\n"
    "  %3: f32[8] = constant [1,2,3,4,5,6,7,8]\n"
    "  %4: f32[8,8] = state \"s\"\n"
    "  %5: i32[] = input \"p\"\n"
    "  %6 = neg(%3)\n"
    "  %7 = matmul(%1, %2)\n"
    "  %8 = add(%7, %6)\n"
    "  %9, %10 = split(%8) {axis=1, sizes=[4,4]}\n"
    "  %11 = sigmoid(%9)\n"
    "  %12 = mul(%9, %11)\n"
    "  %13 = mul(%12, %10)\n"
    "  %14 = rms_norm(%13)\n"
    "  %15 = state_write(%4, %2, %5)\n"
    "  %16 = transpose(%15) {perm=[1,0]}\n"
    "  output \"y\" = %14\n  output \"t\" = %16\n  output \"x\" = %1\n}\n";

/* Compiles with the n-th allocation failing; false when it did not come to that. */
static bool compile_failing(const rlx_graph *g, const rx_target *t, long n)
{
    rlx_session_desc desc = {.on_stage = ignore_stage};
    rx_program *p = NULL;
    rlx_error err = {0};
    long before = blocks;
    allocations_left = n;
    rlx_status s = rx_compile(g, t, &desc, &p, &err);
    bool failed = allocations_left == 0;
    allocations_left = -1;
    if (s != RLX_OK) {
        CHECK(s == RLX_NO_MEMORY && err.code == RLX_NO_MEMORY && err.text[0] && !p);
        if (s != RLX_NO_MEMORY)
            printf("    allocation %ld: %s\n", n, err.text);
    }
    rx_program_unref(p);
    CHECK(blocks == before);
    return failed;
}

int main(void)
{
    rlx_allocator a = {failing_realloc, counting_free, NULL};
    fake_options o = {.lacks = " rms_norm "};
    rx_target t = fake_target(&o);
    rlx_graph *g = NULL;
    rlx_error err = {0};
    allocations_left = -1;
    rlx_set_allocator(&a);
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    long n = 0;
    while (g && compile_failing(g, &t, n))
        n++;
    printf("%ld allocations\n", n);
    CHECK(n > 100);
    rlx_graph_destroy(g);
    CHECK(blocks == 0);
    rlx_set_allocator(NULL);
    return check_done();
}
