/* SPDX-License-Identifier: MIT */
/* Fails the n-th allocation of a compilation for n = 1, 2, 3, ...: a status each time, no leak. */
#include "check.h"
#include "support/fake_target.h"
#include "support/memory.h"
#include "support/nets.h"

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
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .on_stage = ignore_stage};
    rx_program *p = NULL;
    rlx_error err = {0};
    long before = memory_live();
    memory_fail(n, true);
    rlx_status s = rx_compile(g, t, &desc, &p, &err);
    bool failed = memory_calls() >= n;
    memory_fail(0, false);
    if (s != RLX_OK) {
        CHECK(s == RLX_NO_MEMORY && err.code == RLX_NO_MEMORY && err.text[0] && !p);
        if (s != RLX_NO_MEMORY)
            printf("    allocation %ld: %s\n", n, err.text);
    }
    rx_program_unref(p);
    CHECK(memory_live() == before);
    return failed;
}

int main(void)
{
    fake_options o = {.lacks = " rms_norm "};
    rx_target t = fake_target(&o);
    rlx_graph *g = NULL;
    rlx_error err = {0};
    rlx_set_allocator(&counting);
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    long n = 1;
    while (g && compile_failing(g, &t, n))
        n++;
    printf("%ld allocations\n", n - 1);
    CHECK(n > 100);
    rlx_graph_destroy(g);
    CHECK(memory_live() == 0);
    rlx_set_allocator(NULL);
    return check_done();
}
