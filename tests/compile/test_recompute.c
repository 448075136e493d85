/* SPDX-License-Identifier: MIT */
/* recompute: golden texts of what is duplicated, the peak that falls with the budget while no bit
 * of a result changes, budgets that nothing fits, and each allocation failing. */
#include <string.h>

#include "check.h"
#include "compile/recompute.h"
#include "rlx/rlx.h"
#include "support/fake_target.h"
#include "support/memory.h"

/* ---- Golden texts ---------------------------------------------------------------------------- */

#define KIB(n) ((uint64_t)(n) << 10)
#define HEAD \
    "graph \"g\" {\n" \
    "  %1: f32[64,64] = input \"x\"\n" \
    "  %2: f32[64,64] = param \"w\"\n"

static uint64_t budget;

static rlx_status recompute(const rlx_graph *g, const rx_target *t, rlx_graph **out, rlx_error *err)
{
    rx_recomputed info;
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .memory_budget = budget};
    return rx_recompute(g, t, &desc, out, &info, err);
}

/* 16 KiB a value. The backward pass reads %6, %4 and %3 again. */
static const char network[] = HEAD
    "  %3: f32[64,64] = matmul(%1, %2) {out=f32}\n"
    "  %4: f32[64,64] = exp(%3)\n"
    "  %5: f32[64,64] = matmul(%4, %2) {out=f32}\n"
    "  %6: f32[64,64] = exp(%5)\n"
    "  %7: f32[64,64] = matmul(%6, %2) {out=f32}\n"
    "  %8: f32[64,64] = mul(%7, %6)\n"
    "  %9: f32[64,64] = matmul(%8, %2) {out=f32}\n"
    "  %10: f32[64,64] = mul(%9, %4)\n"
    "  %11: f32[64,64] = matmul(%10, %2) {out=f32}\n"
    "  %12: f32[64,64] = mul(%11, %3)\n"
    "  output \"y\" = %12\n"
    "}\n";

/* %4 follows from %3, which is kept anyway; %6 would need %5, which is not. */
static const char cheap[] = HEAD
    "  %3: f32[64,64] = matmul(%1, %2) {out=f32}\n"
    "  %4: f32[64,64] = exp(%3)\n"
    "  %5: f32[64,64] = matmul(%4, %2) {out=f32}\n"
    "  %6: f32[64,64] = exp(%5)\n"
    "  %7: f32[64,64] = matmul(%6, %2) {out=f32}\n"
    "  %8: f32[64,64] = mul(%7, %6)\n"
    "  %9: f32[64,64] = matmul(%8, %2) {out=f32}\n"
    "  %10: f32[64,64] = exp(%3)\n"
    "  %11: f32[64,64] = mul(%9, %10)\n"
    "  %12: f32[64,64] = matmul(%11, %2) {out=f32}\n"
    "  %13: f32[64,64] = mul(%12, %3)\n"
    "  output \"y\" = %13\n"
    "}\n";

/* The backward pass reads %4, %6, %8 and %10 again, none of which follows cheaply. */
#define LAYERS HEAD \
    "  %3: f32[64,64] = matmul(%1, %2) {out=f32}\n" \
    "  %4: f32[64,64] = exp(%3)\n" \
    "  %5: f32[64,64] = matmul(%4, %2) {out=f32}\n" \
    "  %6: f32[64,64] = exp(%5)\n" \
    "  %7: f32[64,64] = matmul(%6, %2) {out=f32}\n" \
    "  %8: f32[64,64] = exp(%7)\n" \
    "  %9: f32[64,64] = matmul(%8, %2) {out=f32}\n" \
    "  %10: f32[64,64] = exp(%9)\n" \
    "  %11: f32[64,64] = matmul(%10, %2) {out=f32}\n" \
    "  %12: f32[64,64] = mul(%11, %10)\n" \
    "  %13: f32[64,64] = mul(%12, %8)\n"
static const char deep[] = LAYERS
    "  %14: f32[64,64] = mul(%13, %6)\n"
    "  %15: f32[64,64] = mul(%14, %4)\n"
    "  output \"y\" = %15\n"
    "}\n";

/* The first layer computed twice, and the first two. */
static const char one_layer[] = LAYERS
    "  %14: f32[64,64] = mul(%13, %6)\n"
    "  %15: f32[64,64] = matmul(%1, %2) {out=f32}\n"
    "  %16: f32[64,64] = exp(%15)\n"
    "  %17: f32[64,64] = mul(%14, %16)\n"
    "  output \"y\" = %17\n"
    "}\n";
static const char two_layers[] = LAYERS
    "  %14: f32[64,64] = matmul(%1, %2) {out=f32}\n"
    "  %15: f32[64,64] = exp(%14)\n"
    "  %16: f32[64,64] = matmul(%15, %2) {out=f32}\n"
    "  %17: f32[64,64] = exp(%16)\n"
    "  %18: f32[64,64] = mul(%13, %17)\n"
    "  %19: f32[64,64] = mul(%18, %15)\n"
    "  output \"y\" = %19\n"
    "}\n";

static void check_golden(const char *from, const char *want, uint64_t bytes)
{
    const fake_options all = {0};
    const rx_target t = fake_target(&all);
    budget = bytes;
    char *got = run_pass(recompute, &t, from);
    CHECK(got && same_text(got, want));
    rlx_free(got);
}

/* ---- A network on the CPU -------------------------------------------------------------------- */

enum { DEPTH = 12, WIDTH = 32, ROWS = 256 };

typedef struct network_run {
    rlx_memory_info memory;
    float weights[DEPTH][WIDTH * WIDTH], loss;
} network_run;

/* Layers tanh(x w) whose weights learn. */
static rlx_graph *network_graph(void)
{
    const rlx_optimizer_desc sgd = {RLX_INIT(rlx_optimizer_desc), .kind = RLX_SGD, .lr = 0.5};
    rlx_graph *g = rlx_graph_create("network");
    rlx_value w[DEPTH], x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){ROWS, WIDTH});
    const rlx_value target = x;
    for (int i = 0; i < DEPTH; i++) {
        char name[16];
        snprintf(name, sizeof name, "w%d", i);
        w[i] = rlx_state(g, name, RLX_F32, 2, (rlx_dim[]){WIDTH, WIDTH});
        x = rlx_tanh(g, rlx_matmul(g, x, w[i]));
    }
    const rlx_value loss = rlx_mse_loss(g, x, target);
    rlx_output(g, "loss", loss);
    rlx_optimizer(g, loss, w, DEPTH, &sgd, NULL);
    return g;
}

static float number(size_t i)
{
    return (float)(i * 7919 % 1009) / 1009 - 0.5f;
}

static rlx_status open_network(uint64_t bytes, rlx_session **s, rlx_error *err)
{
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .policy = RLX_POLICY_EXACT,
                                   .memory_budget = bytes};
    rlx_device *d = NULL;
    rlx_graph *g = network_graph();
    rlx_error opened = {0};
    CHECK_OK(rlx_device_open("cpu", NULL, &d, &opened), &opened);
    const rlx_status status = rlx_session_create(d, g, &desc, s, err);
    rlx_graph_destroy(g);
    rlx_device_close(d);
    return status;
}

/* Three steps of training within so many bytes. */
static void run_network(uint64_t bytes, network_run *out)
{
    static float x[ROWS * WIDTH];
    rlx_session *s = NULL;
    rlx_error err = {0};
    *out = (network_run){.memory = {RLX_INIT(rlx_memory_info)}};
    if (!CHECK_OK(open_network(bytes, &s, &err), &err))
        return;
    for (size_t i = 0; i < ROWS * WIDTH; i++)
        x[i] = number(i);
    const rlx_const_tensor in = {"x", x, sizeof x};
    const rlx_tensor loss = {"loss", &out->loss, sizeof out->loss};
    char name[16];
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "w%d", i);
        for (int k = 0; k < WIDTH * WIDTH; k++)
            out->weights[i][k] = number((size_t)(i * WIDTH * WIDTH + k + 5));
        CHECK_OK(rlx_session_state_write(s, name, 0, out->weights[i], sizeof out->weights[i], &err),
                 &err);
    }
    for (int step = 0; step < 3; step++)
        CHECK_OK(rlx_run(s, &in, 1, &loss, 1, &err), &err);
    for (int i = 0; i < DEPTH; i++) {
        snprintf(name, sizeof name, "w%d", i);
        CHECK_OK(rlx_session_state_read(s, name, 0, out->weights[i], sizeof out->weights[i], &err),
                 &err);
    }
    rlx_session_memory(s, &out->memory, NULL);
    rlx_session_destroy(s);
}

static uint64_t total(const rlx_memory_info *m)
{
    return m->arena_bytes + m->param_bytes + m->state_bytes + m->input_bytes + m->constant_bytes;
}

static void test_network(void)
{
    static network_run whole, less;
    run_network(0, &whole);
    const uint64_t all = total(&whole.memory), arena = whole.memory.arena_bytes;
    CHECK(whole.memory.recomputed_steps == 0 && whole.memory.kept_arena_bytes == arena);
    double flops = 0;
    for (uint64_t part = 9; part >= 5; part -= 2) {
        const uint64_t bytes = all - arena + arena * part / 10;
        run_network(bytes, &less);
        CHECK(total(&less.memory) <= bytes && less.memory.kept_arena_bytes == arena);
        CHECK(less.memory.recomputed_steps > 0 && less.memory.recomputed_flops >= flops);
        flops = less.memory.recomputed_flops;
        CHECK(less.loss == whole.loss);
        CHECK(!memcmp(less.weights, whole.weights, sizeof whole.weights));
    }
    run_network(all, &less);
    CHECK(less.memory.recomputed_steps == 0); /* it fits as it is */
}

static void test_refusal(void)
{
    rlx_session *s = NULL;
    rlx_error err = {0};
    CHECK(open_network(1000, &s, &err) == RLX_NO_MEMORY && !s);
    CHECK(strstr(err.text, "graph 'network' has a memory budget of 1000 bytes; it takes") != NULL);
}

/* ---- Allocations ----------------------------------------------------------------------------- */

static void test_no_memory(void)
{
    const fake_options all = {0};
    const rx_target t = fake_target(&all);
    const rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .memory_budget = KIB(80)};
    rlx_graph *g = NULL, *out;
    rx_recomputed info;
    rlx_error err = {0};
    bool failed = true;
    CHECK_OK(rlx_graph_parse(deep, strlen(deep), &g, &err), &err);
    for (long n = 1; failed && n < 10000; n++) {
        const long before = memory_live();
        memory_fail(n, true);
        const rlx_status s = rx_recompute(g, &t, &desc, &out, &info, &err);
        failed = memory_calls() >= n;
        memory_fail(0, false);
        CHECK(failed ? s == RLX_NO_MEMORY && !out : s == RLX_OK && out);
        rlx_graph_destroy(out);
        CHECK(memory_live() == before);
    }
    rlx_graph_destroy(g);
}

int main(void)
{
    check_golden(network, cheap, KIB(80));
    check_golden(deep, one_layer, KIB(96));
    check_golden(deep, two_layers, KIB(80));
    test_network();
    test_refusal();
    test_no_memory();
    return check_done();
}
