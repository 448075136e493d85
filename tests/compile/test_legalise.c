/* SPDX-License-Identifier: MIT */
/* legalise: golden texts with targets that lack operations, and the sentences of its errors. */
#include "check.h"
#include "support/fake_target.h"

typedef struct golden {
    const char *what;
    fake_options target;
    const char *in, *out;
} golden;

static const golden cases[] = {
    {"what is native stays, views and ports need no kernel",
     {.has = " exp "},
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2 = transpose(%1) {perm=[1,0]}\n"
     "  %3 = exp(%2)\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3,2] = transpose(%1) {perm=[1,0]}\n"
     "  %3: f32[3,2] = exp(%2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"split is always narrows, which carry its name",
     {0},
     "graph \"g\" {\n"
     "  %1: f32[2,6] = input \"x\"\n"
     "  %2, %3 = split(%1) {axis=1, sizes=[2,4]} \"cut\"\n"
     "  %4 = exp(%3)\n"
     "  output \"y\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,6] = input \"x\"\n"
     "  %2: f32[2,4] = narrow(%1) {axis=1, start=2, length=4} \"cut\"\n"
     "  %3: f32[2,4] = exp(%2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"a decomposition of a decomposition",
     {.lacks = " residual_norm  rms_norm "},
     "graph \"g\" {\n"
     "  %1: f32[2,6] = input \"x\"\n"
     "  %2: f32[2,6] = input \"r\"\n"
     "  %3, %4 = residual_norm(%1, %2) {rms=true} \"norm\"\n"
     "  output \"y\" = %3\n  output \"sum\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,6] = input \"x\"\n"
     "  %2: f32[2,6] = input \"r\"\n"
     "  %3: f32[2,6] = add(%1, %2) \"norm\"\n"
     "  %4: f32[2,6] = abs(%3) \"norm\"\n"
     "  %5: f32[2,1] = reduce_max(%4) {axes=[1], keepdims=true} \"norm\"\n"
     "  %6: f32[] = constant [8.881784197001252e-16] \"norm\"\n"
     "  %7: f32[2,1] = mul(%5, %6) \"norm\"\n"
     "  %8: f32[2,1] = clamp(%7) {lo=1, hi=1.2676506002282294e+30} \"norm\"\n"
     "  %9: f32[] = constant [9.999999747378752e-06] \"norm\"\n"
     "  %10: f32[2,1] = div(%9, %8) \"norm\"\n"
     "  %11: f32[2,1] = div(%10, %8) \"norm\"\n"
     "  %12: f32[2,6] = div(%3, %8) \"norm\"\n"
     "  %13: f32[2,6] = mul(%12, %12) \"norm\"\n"
     "  %14: f32[2,1] = reduce_mean(%13) {axes=[1], keepdims=true} \"norm\"\n"
     "  %15: f32[2,1] = add(%14, %11) \"norm\"\n"
     "  %16: f32[2,1] = rsqrt(%15) \"norm\"\n"
     "  %17: f32[2,6] = mul(%12, %16) \"norm\"\n"
     "  output \"y\" = %17\n"
     "  output \"sum\" = %3\n"
     "}\n"},
    {"an epilogue that the target lacks becomes nodes",
     {.no_epilogues = true},
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5 = matmul(%1, %2, %3, %4) {act=relu, act_last=true} \"mm\"\n"
     "  %6 = matmul(%1, %2, _, %4) {act=gelu} \"mm2\"\n"
     "  output \"y\" = %5\n  output \"z\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = matmul(%1, %2) {out=f32} \"mm\"\n"
     "  %6: f32[2,4] = add(%5, %3) \"mm\"\n"
     "  %7: f32[2,4] = add(%6, %4) \"mm\"\n"
     "  %8: f32[2,4] = relu(%7) \"mm\"\n"
     "  %9: f32[2,4] = matmul(%1, %2) {out=f32} \"mm2\"\n"
     "  %10: f32[2,4] = gelu(%9) \"mm2\"\n"
     "  %11: f32[2,4] = add(%10, %4) \"mm2\"\n"
     "  output \"y\" = %8\n"
     "  output \"z\" = %11\n"
     "}\n"},
    {"the bias of a convolution is along axis 1",
     {.no_epilogues = true},
     "graph \"g\" {\n"
     "  %1: f32[1,3,8,8] = input \"x\"\n"
     "  %2: f32[4,3,1,1] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4 = conv2d(%1, %2, %3)\n"
     "  output \"y\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[1,3,8,8] = input \"x\"\n"
     "  %2: f32[4,3,1,1] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[1,4,8,8] = conv2d(%1, %2) {stride=[1,1], dilation=[1,1], "
     "pads=[0,0,0,0], groups=1}\n"
     "  %5: f32[4,1,1] = reshape(%3) {shape=[4,1,1]}\n"
     "  %6: f32[1,4,8,8] = add(%4, %5)\n"
     "  output \"y\" = %6\n"
     "}\n"},
    {"a contraction is a product",
     {.lacks = " dot_general "},
     "graph \"g\" {\n"
     "  dim n <= 7\n"
     "  %1: f32[n,3] = input \"x\"\n"
     "  %2: f32[3,4] = param \"w\"\n"
     "  %3 = dot_general(%1, %2) {contract_a=[1], contract_b=[0]} \"dot\"\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  dim n <= 7\n"
     "  %1: f32[n,3] = input \"x\"\n"
     "  %2: f32[3,4] = param \"w\"\n"
     "  %3: f32[n,4] = matmul(%1, %2) {out=f32} \"dot\"\n"
     "  output \"y\" = %3\n"
     "}\n"},
};

typedef struct failing {
    fake_options target;
    const char *in, *text;
} failing;

static const failing errors[] = {
    {{.lacks = " matmul "},
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3,4] = param \"w\"\n"
     "  %3 = matmul(%1, %2) \"proj\"\n"
     "  output \"y\" = %3\n}\n",
     "node 'proj' (matmul f32[2,4]): device fake has no kernel for it and it has no decomposition; "
     "nearest: device cpu"},
    {{.no_f16 = true},
     "graph \"g\" {\n"
     "  %1: f16[2,3] = input \"x\"\n"
     "  %2 = exp(%1)\n"
     "  output \"y\" = %2\n}\n",
     "node 'unnamed' (exp f16[2,3]): device fake has no kernel for it and it has no decomposition; "
     "nearest: the same operation on f32"},
    {{.lacks = " argmax "},
     "graph \"g\" {\n"
     "  %1: u64[2,3] = input \"x\"\n"
     "  %2 = argmax(%1)\n"
     "  output \"y\" = %2\n}\n",
     "(argmax i64[3]): device fake has no kernel for it on elements of type u64 and it has no "
     "decomposition; nearest: device cpu"},
    {{.lacks = " softmax reduce_max "}, /* a part of a decomposition */
     "graph \"g\" {\n"
     "  %1: f64[2,3] = input \"x\"\n"
     "  %2 = softmax(%1) {axis=1} \"soft\"\n"
     "  output \"y\" = %2\n}\n",
     "node 'soft' (reduce_max f64[2,1]): device fake has no kernel for it on elements of type f64"},
};

static void check_golden(const golden *c)
{
    rx_target t = fake_target(&c->target);
    char *got = run_pass(rx_legalise, &t, c->in);
    if (!CHECK(same_text(got, c->out)))
        printf("    case: %s\n", c->what);
    rlx_free(got);
}

static void check_failing(const failing *f)
{
    rx_target t = fake_target(&f->target);
    rlx_graph *g = NULL, *out = NULL;
    rlx_error err = {0};
    CHECK_OK(rlx_graph_parse(f->in, strlen(f->in), &g, &err), &err);
    CHECK_FAILS(rx_legalise(g, &t, &out, &err), RLX_UNSUPPORTED, &err, f->text);
    CHECK(!out);
    rlx_graph_destroy(g);
}

/* With a host the same graph is legal, and the step says where it runs. */
static void check_host(void)
{
    fake_options nothing = {.has = " none "};
    rx_target t = fake_target(&nothing);
    t.has_host = true;
    rlx_graph *g = NULL;
    rlx_error err = {0};
    rx_program *p = NULL;
    CHECK_OK(rlx_graph_parse(errors[0].in, strlen(errors[0].in), &g, &err), &err);
    if (CHECK_OK(rx_compile(g, &t, NULL, &p, &err), &err))
        CHECK(p->n_steps == 1 && p->steps[0].support == RLX_SUPPORT_HOST);
    rx_program_unref(p);
    rlx_graph_destroy(g);
}

int main(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_golden(&cases[i]);
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        check_failing(&errors[i]);
    check_host();
    return check_done();
}
