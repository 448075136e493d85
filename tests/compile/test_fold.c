/* SPDX-License-Identifier: MIT */
/* fold: golden texts. */
#include "check.h"
#include "support/fake_target.h"

typedef struct golden {
    const char *what, *in, *out;
} golden;

#define X "  %1: f32[2,3] = input \"x\"\n"

static const golden cases[] = {
    {"dead nodes go, unused ports stay",
     "graph \"g\" {\n" X
     "  %2: f32[4] = input \"unused\"\n"
     "  %3 = exp(%1)\n"
     "  %4 = tanh(%1)\n"
     "  output \"y\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[4] = input \"unused\"\n"
     "  %3: f32[2,3] = tanh(%1)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"equal nodes are shared, also through equal literals",
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [2]\n"
     "  %3: f32[] = constant [2]\n"
     "  %4 = mul(%1, %2)\n"
     "  %5 = mul(%1, %3)\n"
     "  %6 = reduce_sum(%4) {axes=[1]}\n"
     "  %7 = reduce_sum(%5) {axes=[1]}\n"
     "  %8 = reduce_sum(%5) {axes=[0]}\n"
     "  %9 = add(%6, %7)\n"
     "  output \"y\" = %9\n  output \"z\" = %8\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[] = constant [2]\n"
     "  %3: f32[2,3] = mul(%1, %2)\n"
     "  %4: f32[2] = reduce_sum(%3) {axes=[1]}\n"
     "  %5: f32[3] = reduce_sum(%3) {axes=[0]}\n"
     "  %6: f32[2] = add(%4, %4)\n"
     "  output \"y\" = %6\n"
     "  output \"z\" = %5\n"
     "}\n"},
    {"constant expressions are computed",
     "graph \"g\" {\n" X
     "  %2: f32[3] = constant [1, 2, 3]\n"
     "  %3: f32[3] = constant [10, 20, 30]\n"
     "  %4 = add(%2, %3)\n"
     "  %5 = neg(%4)\n"
     "  %6 = mul(%1, %5)\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3] = constant [-11, -22, -33]\n"
     "  %3: f32[2,3] = mul(%1, %2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"a small literal is not expanded to a large one",
     "graph \"g\" {\n"
     "  %1: f32[1024,1024] = input \"x\"\n"
     "  %2: f32[1] = constant [3]\n"
     "  %3 = expand(%2) {shape=[1024,1024]}\n"
     "  %4 = mul(%1, %3)\n"
     "  output \"y\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[1024,1024] = input \"x\"\n"
     "  %2: f32[1] = constant [3]\n"
     "  %3: f32[1024,1024] = expand(%2) {shape=[1024,1024]}\n"
     "  %4: f32[1024,1024] = mul(%1, %3)\n"
     "  output \"y\" = %4\n"
     "}\n"},
    {"neutral elements",
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [1]\n"
     "  %3: f32[] = constant [0]\n"
     "  %4: f32[] = constant [-0]\n"
     "  %5 = mul(%2, %1)\n"
     "  %6 = div(%5, %2)\n"
     "  %7 = sub(%6, %3)\n"
     "  %8 = add(%7, %4)\n"
     "  %9 = tanh(%8)\n"
     "  output \"y\" = %9\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[2,3] = tanh(%1)\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"x + 0 stays: it turns -0 into 0; x - (-0) as well",
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [0]\n"
     "  %3: f32[] = constant [-0]\n"
     "  %4 = add(%1, %2)\n"
     "  %5 = sub(%4, %3)\n"
     "  output \"y\" = %5\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[] = constant [0]\n"
     "  %3: f32[] = constant [-0]\n"
     "  %4: f32[2,3] = add(%1, %2)\n"
     "  %5: f32[2,3] = sub(%4, %3)\n"
     "  output \"y\" = %5\n"
     "}\n"},
    {"a neutral element that broadcasts the other operand stays",
     "graph \"g\" {\n" X
     "  %2: f32[4,1,1] = constant [1, 1, 1, 1]\n"
     "  %3 = mul(%1, %2)\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[4,1,1] = constant [1, 1, 1, 1]\n"
     "  %3: f32[4,2,3] = mul(%1, %2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"views that change nothing or cancel",
     "graph \"g\" {\n" X
     "  %2 = transpose(%1) {perm=[1,0]}\n"
     "  %3 = transpose(%2) {perm=[1,0]}\n"
     "  %4 = reshape(%3) {shape=[6]}\n"
     "  %5 = reshape(%4) {shape=[3,2]}\n"
     "  %6 = reshape(%5) {shape=[3,2]}\n"
     "  %7 = expand(%6) {shape=[3,2]}\n"
     "  %8 = cast(%7) {to=f32}\n"
     "  %9 = narrow(%8) {axis=0, length=3}\n"
     "  %10 = neg(%9)\n"
     "  %11 = neg(%10)\n"
     "  %12 = relu(%11)\n"
     "  %13 = relu(%12)\n"
     "  output \"y\" = %13\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3] = input \"x\"\n"
     "  %2: f32[3,2] = reshape(%1) {shape=[3,2]}\n"
     "  %3: f32[3,2] = relu(%2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"transposes are merged",
     "graph \"g\" {\n"
     "  %1: f32[2,3,4] = input \"x\"\n"
     "  %2 = transpose(%1) {perm=[1,2,0]}\n"
     "  %3 = transpose(%2) {perm=[1,0,2]}\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,3,4] = input \"x\"\n"
     "  %2: f32[4,3,2] = transpose(%1) {perm=[2,1,0]}\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"writes of state stay, and a view of an old version is not replaced by the state",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4 = reshape(%1) {shape=[4,8]}\n"
     "  %5 = state_write(%1, %2, %3)\n"
     "  %6 = exp(%4)\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4: f32[4,8] = reshape(%1) {shape=[4,8]}\n"
     "  %5: f32[4,8] = state_write(%1, %2, %3)\n"
     "  %6: f32[4,8] = exp(%4)\n"
     "  output \"y\" = %6\n"
     "}\n"},
    {"named dimensions are rebuilt",
     "graph \"g\" {\n"
     "  dim seq <= 16\n"
     "  %1: f32[seq,4] = input \"x\"\n"
     "  %2 = reshape(%1) {shape=[2,(seq*2)]}\n"
     "  %3 = reshape(%2) {shape=[(seq*4)]}\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  dim seq <= 16\n"
     "  %1: f32[seq,4] = input \"x\"\n"
     "  %2: f32[(seq*4)] = reshape(%1) {shape=[(seq*4)]}\n"
     "  output \"y\" = %2\n"
     "}\n"},
};

int main(void)
{
    fake_options all = {0};
    rx_target t = fake_target(&all);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *got = run_pass(rx_fold, &t, cases[i].in);
        if (!CHECK(same_text(got, cases[i].out)))
            printf("    case: %s\n", cases[i].what);
        rlx_free(got);
    }
    return check_done();
}
