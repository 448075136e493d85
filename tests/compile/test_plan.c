/* SPDX-License-Identifier: MIT */
/* The memory plan: how close to the lower bound it is on real networks, what is a view, what
 * happens in place, and what states and outputs demand. */
#include <stdlib.h>

#include "check.h"
#include "compile/plan.h"
#include "support/fake_target.h"
#include "support/nets.h"

/* ---- Real networks -------------------------------------------------------------------------- */

#define SLACK ((uint64_t)64 << 20) /* of GPU targets: the most that reuse may be delayed for */

static void check_net(rlx_graph *g, bool no_fusion, uint64_t slack)
{
    fake_options all = {.slack_bytes = slack};
    rx_target t = fake_target(&all);
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .no_fusion = no_fusion};
    rx_program *p = NULL;
    rlx_error err = {0};
    if (CHECK(g != NULL) && CHECK_OK(rx_compile(g, &t, &desc, &p, &err), &err)) {
        const rlx_memory_info *m = &p->memory;
        double ratio = (double)m->arena_bytes / (double)m->arena_bound;
        printf("%-10s %-9s %5zu steps, slack %2llu, arena %9.3f MiB, %.4f of the bound, "
               "%.1f %% of unshared\n",
               rlx_graph_name(g), no_fusion ? "unfused" : "fused", p->n_steps,
               (unsigned long long)(slack >> 20), (double)m->arena_bytes / 1048576, ratio,
               100.0 * (double)m->arena_bytes / (double)m->unshared_bytes);
        CHECK(ratio <= 1.10 || m->arena_bytes <= m->arena_bound + slack);
        CHECK(ratio <= 3); /* beside small tensors too, delays are short */
        CHECK(m->arena_bytes >= m->arena_bound && m->arena_bytes <= m->unshared_bytes);
    }
    rx_program_unref(p);
    rlx_graph_destroy(g);
}

static void check_nets(void)
{
    const net_size encoder = {.layers = 6, .batch = 2, .seq = 128, .width = 384, .heads = 12,
                              .hidden = 1536};
    const net_size decoder = {.layers = 30, .seq = 2048, .width = 576, .heads = 9, .kv_heads = 3,
                              .hidden = 1536};
    const net_size texts = {.layers = 6, .batch = 32, .seq = 512, .width = 384, .heads = 12,
                            .hidden = 1536};
    const net_size prompt = {.layers = 32, .batch = 1, .seq = 512, .width = 4096, .heads = 32,
                             .hidden = 14336};
    for (int i = 0; i < 4; i++) {
        const bool no_fusion = i & 1;
        const uint64_t slack = i & 2 ? SLACK : 0;
        check_net(net_encoder(&encoder), no_fusion, slack);
        check_net(net_encoder(&texts), no_fusion, slack);
        check_net(net_encoder(&prompt), no_fusion, slack);
        check_net(net_decoder(&decoder), no_fusion, slack);
        check_net(net_resnet50(1), no_fusion, slack);
        check_net(net_resnet50(16), no_fusion, slack);
    }
}

/* ---- Small graphs --------------------------------------------------------------------------- */

/* The program of a text; NULL after printing an error. */
static rx_program *compile_text(const char *text, const fake_options *options, bool keep_all)
{
    rx_target t = fake_target(options);
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .keep_all = keep_all, .no_fusion = true};
    rlx_graph *g = NULL;
    rx_program *p = NULL;
    rlx_error err = {0};
    if (CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err))
        CHECK_OK(rx_compile(g, &t, &desc, &p, &err), &err);
    rlx_graph_destroy(g);
    return p;
}

/* The operations of the steps, as "exp copy ". */
static bool has_steps(const rx_program *p, const char *want)
{
    char got[256] = "";
    for (size_t i = 0; p && i < p->n_steps; i++) {
        size_t n = strlen(got);
        snprintf(got + n, sizeof got - n, "%s ", rx_ops[p->steps[i].op].name);
    }
    if (strcmp(got, want))
        printf("    steps: %s\n", got);
    return !strcmp(got, want);
}

typedef struct step_case {
    const char *what, *text, *steps;
    bool dense_only;
} step_case;

static const step_case step_cases[] = {
    {"strided views where kernels take them",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = transpose(%1) {perm=[1,0]}\n"
     "  %3 = narrow(%2) {axis=0, start=2, length=3}\n"
     "  %4 = exp(%3)\n"
     "  output \"y\" = %4\n}\n",
     "exp ", false},
    {"else the last view that is not dense is a step",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = transpose(%1) {perm=[1,0]}\n"
     "  %3 = exp(%2)\n"
     "  output \"y\" = %3\n}\n",
     "transpose exp ", true},
    {"dense views are always views",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = narrow(%1) {axis=0, start=1, length=2}\n"
     "  %3 = reshape(%2) {shape=[16]}\n"
     "  %4 = exp(%3)\n"
     "  output \"y\" = %4\n}\n",
     "exp ", true},
    {"an output is dense",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = exp(%1)\n"
     "  %3 = transpose(%2) {perm=[1,0]}\n"
     "  output \"y\" = %3\n}\n",
     "exp transpose ", false},
    {"an output may be a dense view",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = exp(%1)\n"
     "  %3 = reshape(%2) {shape=[32]}\n"
     "  output \"y\" = %3\n}\n",
     "exp ", true},
    {"but not of a port",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = input \"x\"\n"
     "  %2 = reshape(%1) {shape=[32]}\n"
     "  output \"y\" = %2\n  output \"x\" = %1\n}\n",
     "copy reshape ", false},
    {"heads of a joint projection: a strided view may be reshaped in its last axes",
     "graph \"g\" {\n"
     "  dim seq <= 16\n"
     "  %1: f32[1,seq,96] = input \"qkv\"\n"
     "  %2 = narrow(%1) {axis=2, start=32, length=32}\n"
     "  %3 = reshape(%2) {shape=[1,seq,4,8]}\n"
     "  %4 = transpose(%3) {perm=[0,2,1,3]}\n"
     "  %5 = softmax(%4) {axis=3}\n"
     "  output \"y\" = %5\n}\n",
     "softmax ", false},
    {"a view of a state that is read after the write is a copy",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4 = narrow(%1) {axis=0, start=1, length=1}\n"
     "  %5 = state_write(%1, %2, %3)\n"
     "  %6 = exp(%4)\n"
     "  output \"y\" = %6\n}\n",
     "narrow state_write exp ", false},
    {"also one that feeds the write",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: i32[] = input \"p\"\n"
     "  %3 = narrow(%1) {axis=0, start=1, length=1}\n"
     "  %4 = state_write(%1, %3, %2)\n"
     "  %5 = exp(%4)\n"
     "  output \"y\" = %5\n}\n",
     "narrow state_write exp ", false},
    {"a state as output is copied when it is read, in both versions",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4 = state_write(%1, %2, %3)\n"
     "  output \"before\" = %1\n  output \"after\" = %4\n}\n",
     "copy state_write copy ", false},
};

static void check_steps(void)
{
    for (size_t i = 0; i < sizeof step_cases / sizeof *step_cases; i++) {
        fake_options o = {.dense_only = step_cases[i].dense_only};
        rx_program *p = compile_text(step_cases[i].text, &o, false);
        if (!CHECK(has_steps(p, step_cases[i].steps)))
            printf("    case: %s\n", step_cases[i].what);
        rx_program_unref(p);
    }
}

/* ---- Merged steps --------------------------------------------------------------------------- */

typedef struct merge_case {
    const char *what, *text;
    const char *merges; /* "1<0": step 1 may compute step 0 as its prologue; "1>2": deferred to 2 */
    bool keep_all;
} merge_case;

#define LEAVES                                                                                \
    "graph \"g\" {\n"                                                                          \
    "  dim rows <= 8\n"                                                                       \
    "  %x: f32[rows,64] = input \"x\"\n  %p: i32[rows] = input \"p\"\n"                       \
    "  %g: f32[64] = param \"g\"\n"                                                           \
    "  %a: q4_0[64,64] = param \"a\"\n  %b: q4_0[64,64] = param \"b\"\n"                      \
    "  %cos: f32[32,16] = param \"cos\"\n  %sin: f32[32,16] = param \"sin\"\n"                \
    "  %s: f32[32,2,32] = state \"s\"\n"

static const merge_case merge_cases[] = {
    {"a norm that only products read is a prologue of each",
     LEAVES "  %n = rms_norm(%x, %g)\n  %q = dequant_matmul(%n, %a)\n"
            "  %k = dequant_matmul(%n, %b)\n"
            "  output \"q\" = %q\n  output \"k\" = %k\n}\n",
     "1<0 2<0 ", false},
    {"not one that is read as the residual too",
     LEAVES "  %n = rms_norm(%x, %g)\n  %q = dequant_matmul(%n, %a, _, _, _, %n)\n"
            "  output \"q\" = %q\n}\n",
     "", false},
    {"nor one that is an output",
     LEAVES "  %n = rms_norm(%x, %g)\n  %q = dequant_matmul(%n, %a)\n"
            "  output \"n\" = %n\n  output \"q\" = %q\n}\n",
     "", false},
    {"nor where every value is kept",
     LEAVES "  %n = rms_norm(%x, %g)\n  %q = dequant_matmul(%n, %a)\n"
            "  output \"q\" = %q\n}\n",
     "", true},
    {"a product goes with its rotation, and both with the write of the cache",
     LEAVES "  %k = dequant_matmul(%x, %a)\n  %h = reshape(%k) {shape=[1,rows,2,32]}\n"
            "  %r = rope(%h, %cos, %sin, %p) {layout=bshd}\n"
            "  %u = reshape(%r) {shape=[rows,2,32]}\n  %w = state_write(%s, %u, %p)\n"
            "  output \"w\" = %w\n}\n",
     "0>1 1>2 ", false},
    {"two products with the product of their results, which is a prologue too",
     LEAVES "  %q = dequant_matmul(%x, %a)\n  %k = dequant_matmul(%x, %b)\n"
            "  %m = mul(%q, %k)\n  %d = dequant_matmul(%m, %a)\n"
            "  output \"d\" = %d\n}\n",
     "0>2 1>2 3<2 ", false},
    {"what reads a state stays where it is",
     LEAVES "  %v = reshape(%s) {shape=[32,64]}\n  %n = rms_norm(%v, %g)\n"
            "  %q = dequant_matmul(%n, %a)\n  output \"q\" = %q\n}\n",
     "", false},
};

static void check_merge_rules(void)
{
    for (size_t i = 0; i < sizeof merge_cases / sizeof *merge_cases; i++) {
        const fake_options o = {.merges = true};
        char got[128] = "";
        rx_program *p = compile_text(merge_cases[i].text, &o, merge_cases[i].keep_all);
        for (uint32_t k = 0; p && k < p->n_steps; k++) {
            const rx_merge *m = &p->merges[k];
            const size_t n = strlen(got);
            if (m->prologue != RX_NO_STEP)
                snprintf(got + n, sizeof got - n, "%u<%u ", k, m->prologue);
            else if (m->defer_to != RX_NO_STEP)
                snprintf(got + n, sizeof got - n, "%u>%u ", k, m->defer_to);
        }
        if (!CHECK(!strcmp(got, merge_cases[i].merges)))
            printf("    case: %s: %s\n", merge_cases[i].what, got);
        rx_program_unref(p);
    }
}

/* The product m may be computed at the place of k, so what it reads stays until then; else q takes
 * the memory of f. */
static void check_held_operands(void)
{
    static const char text[] =
        LEAVES "  %e = exp(%x)\n  %f = tanh(%x)\n  %m = mul(%e, %f)\n"
               "  %q = dequant_matmul(%m, %a)\n  %r = neg(%q)\n  %k = dequant_matmul(%m, %b)\n"
               "  %y = add(%r, %k)\n  output \"y\" = %y\n}\n";
    for (int merges = 0; merges < 2; merges++) {
        const fake_options o = {.merges = merges};
        rx_program *p = compile_text(text, &o, false);
        if (!CHECK(has_steps(p, "exp tanh mul dequant_matmul neg dequant_matmul add ")))
            return;
        const rx_pvalue *e = &p->values[p->steps[0].out[0]], *f = &p->values[p->steps[1].out[0]];
        const rx_pvalue *m = &p->values[p->steps[2].out[0]], *q = &p->values[p->steps[3].out[0]];
        CHECK(f->last == (merges ? 5 : 2));
        CHECK(m->offset == e->offset); /* in place: where it is merged it writes nothing */
        CHECK((q->offset == f->offset) == !merges);
        rx_program_unref(p);
    }
}

/* ---- In place ------------------------------------------------------------------------------- */

static const char chain[] =
    "graph \"g\" {\n"
    "  %1: f32[64,64] = input \"x\"\n"
    "  %2 = exp(%1)\n"
    "  %3 = tanh(%2)\n"
    "  %4 = transpose(%3) {perm=[1,0]}\n"
    "  %5 = add(%3, %4)\n"
    "  %6 = neg(%5)\n"
    "  output \"y\" = %6\n}\n";

static void check_in_place(void)
{
    fake_options all = {0};
    rx_program *p = compile_text(chain, &all, false);
    const uint64_t one = 64 * 64 * 4;
    /* tanh in the place of exp; add not in that of tanh, which it also reads transposed. */
    CHECK(p && p->memory.arena_bytes == 2 * one && p->memory.arena_bound == 2 * one);
    CHECK(p && p->memory.unshared_bytes == 4 * one);
    rx_program_unref(p);
    p = compile_text(chain, &all, true);
    CHECK(p && p->memory.arena_bytes == 4 * one);
    rx_program_unref(p);
}

/* With slack a slot is reused some steps after its last use; a quarter of the target's slack is
 * taken for any program. The text: slots of one, two of which are live at a time. */
static void check_slack(void)
{
    static const char text[] =
        "graph \"g\" {\n"
        "  %1: f32[64,64] = input \"x\"\n"
        "  %2 = softmax(%1) {axis=-1}\n"
        "  %3 = transpose(%2) {perm=[1,0]}\n"
        "  %4 = matmul(%2, %3)\n"
        "  %5 = matmul(%4, %4)\n"
        "  %6 = matmul(%5, %5)\n"
        "  output \"y\" = %6\n}\n";
    const uint64_t one = 64 * 64 * 4, slack[] = {0, 2 * one, 4 * one, 1 << 20};
    const uint64_t want[] = {2 * one, 2 * one, 3 * one, 4 * one};
    for (size_t i = 0; i < 4; i++) {
        fake_options options = {.slack_bytes = slack[i]};
        rx_program *p = compile_text(text, &options, false);
        if (CHECK(p) && !CHECK(p->memory.arena_bytes == want[i]))
            printf("    slack of %llu bytes: arena of %llu\n", (unsigned long long)slack[i],
                   (unsigned long long)p->memory.arena_bytes);
        CHECK(p && p->memory.arena_bound == 2 * one);
        rx_program_unref(p);
    }
}

/* Results that nobody wants have no memory; ports keep their order; literals are aligned. */
static void check_program(void)
{
    fake_options all = {0};
    rx_program *p = compile_text("graph \"g\" {\n"
                                 "  %1: f32[4,8] = input \"x\"\n"
                                 "  %2: f32[3] = param \"unused\"\n"
                                 "  %3: f32[8] = constant [1,2,3,4,5,6,7,8]\n"
                                 "  %4 = add(%1, %3)\n"
                                 "  %5, %6 = top_k(%4) {k=2, axis=1}\n"
                                 "  output \"i\" = %6\n}\n",
                                 &all, false);
    if (!CHECK(p && p->n_steps == 2 && p->n_inputs == 1 && p->n_params == 1))
        return;
    const rx_step *top_k = &p->steps[1];
    CHECK(p->values[top_k->out[0]].space == RX_SPACE_NONE);
    CHECK(p->values[top_k->out[1]].space == RX_SPACE_ARENA);
    CHECK(p->values[p->outputs[0].value].last == p->n_steps);
    CHECK(p->values[p->params[0].value].space == RX_SPACE_PARAM);
    CHECK(p->n_constants == 1 && (uintptr_t)p->constants[0] % 64 == 0);
    CHECK(p->steps[0].flops == 32 && p->steps[0].bytes == 4 * (32 + 8 + 32));
    CHECK(p->memory.param_bytes == 12 && p->memory.input_bytes == 128);
    CHECK(rx_program_ref(p) == p);
    rx_program_unref(p);
    rx_program_unref(p);
}

static const char chain_program[] =
    "program: 4 steps, arena 32768 bytes\n"
    "input \"x\": %0 f32[64,64] input 0\n"
    "output \"y\": %5 f32[64,64] @16384\n"
    "0 exp: %0 f32[64,64] input 0 -> %1 f32[64,64] @0\n"
    "1 tanh: %1 f32[64,64] @0 -> %2 f32[64,64] @0\n"
    "2 add: %2 f32[64,64] @0, %3 f32[64,64] transpose of %2 @0 -> %4 f32[64,64] @16384\n"
    "3 neg: %4 f32[64,64] @16384 -> %5 f32[64,64] @16384\n";

static void check_text(void)
{
    fake_options all = {0};
    rx_program *p = compile_text(chain, &all, false);
    char *text = NULL;
    rlx_error err = {0};
    if (CHECK(p != NULL) && CHECK_OK(rx_program_print(p, &text, &err), &err))
        CHECK(same_text(text, chain_program));
    rlx_free(text);
    rx_program_unref(p);
}

/* ---- The stages as the caller sees them ----------------------------------------------------- */

static void note_stage(void *user, const char *stage, const char *text)
{
    char *all = user;
    CHECK(text && *text);
    strcat(strcat(all, stage), " ");
}

static void check_stages(void)
{
    char stages[128] = "";
    fake_options o = {0};
    rx_target t = fake_target(&o);
    rlx_session_desc desc = {RLX_INIT(rlx_session_desc), .on_stage = note_stage,
                             .on_stage_user = stages};
    rlx_graph *g = NULL;
    rx_program *p = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_graph_parse(chain, strlen(chain), &g, &err), &err);
    CHECK_OK(rx_compile(g, &t, &desc, &p, &err), &err);
    CHECK(!strcmp(stages, "verify fold legalise fuse plan schedule "));
    rx_program_unref(p);
    rlx_graph_destroy(g);
}

int main(void)
{
    check_nets();
    check_steps();
    check_merge_rules();
    check_held_operands();
    check_in_place();
    check_slack();
    check_program();
    check_text();
    check_stages();
    return check_done();
}
