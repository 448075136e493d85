/* SPDX-License-Identifier: MIT */
/* fuse: every row of fuse.def, golden texts of the rules and of what must not be fused. */
#include "check.h"
#include "compile/fuse.h"
#include "compile/pattern.h"
#include "support/fake_target.h"

typedef struct golden {
    const char *what;
    fake_options target;
    const char *in, *out;
} golden;

#define X "  %1: f32[2,8] = input \"x\"\n"
#define MM \
    X "  %2: f32[8,4] = param \"w\"\n" \
      "  %3: f32[4] = param \"b\"\n" \
      "  %4: f32[2,4] = input \"r\"\n"

static const golden rules[] = {
    {"silu, then swiglu",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[2,8] = input \"up\"\n"
     "  %3 = sigmoid(%1)\n"
     "  %4 = mul(%3, %1)\n"
     "  %5 = mul(%4, %2) \"glu\"\n"
     "  output \"y\" = %5\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = input \"up\"\n"
     "  %3: f32[2,8] = swiglu(%1, %2) \"glu\"\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"no fusion over a value that is also an output",
     {0},
     "graph \"g\" {\n" X
     "  %2 = sigmoid(%1)\n"
     "  %3 = mul(%1, %2)\n"
     "  output \"y\" = %3\n  output \"gate\" = %2\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = sigmoid(%1)\n"
     "  %3: f32[2,8] = mul(%1, %2)\n"
     "  output \"y\" = %3\n"
     "  output \"gate\" = %2\n"
     "}\n"},
    {"no fusion to what the target lacks",
     {.lacks = " silu "},
     "graph \"g\" {\n" X
     "  %2 = sigmoid(%1)\n"
     "  %3 = mul(%1, %2)\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = sigmoid(%1)\n"
     "  %3: f32[2,8] = mul(%1, %2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"gelu as exported",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [1.4142135]\n"
     "  %3: f32[] = constant [1]\n"
     "  %4: f32[] = constant [0.5]\n"
     "  %5 = div(%1, %2)\n"
     "  %6 = erf(%5)\n"
     "  %7 = add(%6, %3)\n"
     "  %8 = mul(%1, %7)\n"
     "  %9 = mul(%8, %4) \"act\"\n"
     "  output \"y\" = %9\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = gelu(%1) \"act\"\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"gelu with the tanh approximation, its cube as a chain",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [0.044715]\n"
     "  %3: f32[] = constant [0.7978845608]\n"
     "  %4: f32[] = constant [1]\n"
     "  %5: f32[] = constant [0.5]\n"
     "  %6 = mul(%2, %1)\n"
     "  %7 = mul(%1, %6)\n"
     "  %8 = mul(%1, %7)\n"
     "  %9 = add(%1, %8)\n"
     "  %10 = mul(%3, %9)\n"
     "  %11 = tanh(%10)\n"
     "  %12 = add(%4, %11)\n"
     "  %13 = mul(%5, %12)\n"
     "  %14 = mul(%1, %13)\n"
     "  output \"y\" = %14\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = gelu_tanh(%1)\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"gelu with the tanh approximation",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [3]\n"
     "  %3: f32[] = constant [0.044715]\n"
     "  %4: f32[] = constant [0.7978845608]\n"
     "  %5: f32[] = constant [1]\n"
     "  %6: f32[] = constant [0.5]\n"
     "  %7 = pow(%1, %2)\n"
     "  %8 = mul(%3, %7)\n"
     "  %9 = add(%1, %8)\n"
     "  %10 = mul(%9, %4)\n"
     "  %11 = tanh(%10)\n"
     "  %12 = add(%11, %5)\n"
     "  %13 = mul(%6, %1)\n"
     "  %14 = mul(%13, %12)\n"
     "  output \"y\" = %14\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = gelu_tanh(%1)\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"hard swish as exported",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[] = constant [3]\n"
     "  %3: f32[] = constant [0]\n"
     "  %4: f32[] = constant [6]\n"
     "  %5 = add(%1, %2)\n"
     "  %6 = max(%5, %3)\n"
     "  %7 = min(%6, %4)\n"
     "  %8 = mul(%1, %7)\n"
     "  %9 = div(%8, %4)\n"
     "  output \"y\" = %9\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = hard_swish(%1)\n"
     "  output \"y\" = %2\n"
     "}\n"},
    {"layer norm as exported, with scale and shift",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[1,8] = param \"beta\"\n"
     "  %4: f32[] = constant [2]\n"
     "  %5: f32[] = constant [1e-6]\n"
     "  %6 = reduce_mean(%1) {axes=[1], keepdims=true}\n"
     "  %7 = sub(%1, %6)\n"
     "  %8 = pow(%7, %4)\n"
     "  %9 = reduce_mean(%8) {axes=[1], keepdims=true}\n"
     "  %10 = add(%9, %5)\n"
     "  %11 = sqrt(%10)\n"
     "  %12 = div(%7, %11)\n"
     "  %13 = mul(%12, %2)\n"
     "  %14 = add(%13, %3) \"norm\"\n"
     "  output \"y\" = %14\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[1,8] = param \"beta\"\n"
     "  %4: f32[8] = reshape(%3) {shape=[8]}\n"
     "  %5: f32[2,8] = layer_norm(%1, %2, %4) {axis=1, eps=9.999999974752427e-07} \"norm\"\n"
     "  output \"y\" = %5\n"
     "}\n"},
    {"rms norm as exported",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[] = constant [1e-6]\n"
     "  %4 = mul(%1, %1)\n"
     "  %5 = reduce_mean(%4) {axes=[1], keepdims=true}\n"
     "  %6 = add(%5, %3)\n"
     "  %7 = rsqrt(%6)\n"
     "  %8 = mul(%1, %7)\n"
     "  %9 = mul(%2, %8)\n"
     "  output \"y\" = %9\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[2,8] = rms_norm(%1, %2) {axis=1, eps=9.999999974752427e-07}\n"
     "  output \"y\" = %3\n"
     "}\n"},
    {"gamma and beta of an rms norm",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[8] = param \"beta\"\n"
     "  %4 = rms_norm(%1)\n"
     "  %5 = mul(%4, %2)\n"
     "  %6 = add(%3, %5)\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8] = param \"gamma\"\n"
     "  %3: f32[8] = param \"beta\"\n"
     "  %4: f32[2,8] = rms_norm(%1, %2, %3) {axis=1, eps=1e-05}\n"
     "  output \"y\" = %4\n"
     "}\n"},
    {"product, bias, activation, residual",
     {0},
     "graph \"g\" {\n" MM
     "  %5 = matmul(%1, %2) \"proj\"\n"
     "  %6 = add(%3, %5)\n"
     "  %7 = gelu(%6)\n"
     "  %8 = add(%7, %4)\n"
     "  output \"y\" = %8\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = matmul(%1, %2, %3, %4) {act=gelu, out=f32} \"proj\"\n"
     "  output \"y\" = %5\n"
     "}\n"},
    {"product, residual, activation last",
     {0},
     "graph \"g\" {\n" MM
     "  %5 = matmul(%1, %2)\n"
     "  %6 = add(%4, %5)\n"
     "  %7 = relu(%6)\n"
     "  output \"y\" = %7\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = matmul(%1, %2, _, %4) {act=relu, act_last=true, out=f32}\n"
     "  output \"y\" = %5\n"
     "}\n"},
    {"no epilogue when the product has another use",
     {0},
     "graph \"g\" {\n" MM
     "  %5 = matmul(%1, %2)\n"
     "  %6 = add(%5, %3)\n"
     "  output \"y\" = %6\n  output \"z\" = %5\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = matmul(%1, %2) {out=f32}\n"
     "  %6: f32[2,4] = add(%5, %3)\n"
     "  output \"y\" = %6\n"
     "  output \"z\" = %5\n"
     "}\n"},
    {"no epilogue when the target has none",
     {.no_epilogues = true},
     "graph \"g\" {\n" MM
     "  %5 = matmul(%1, %2)\n"
     "  %6 = add(%5, %3)\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8,4] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = matmul(%1, %2) {out=f32}\n"
     "  %6: f32[2,4] = add(%5, %3)\n"
     "  output \"y\" = %6\n"
     "}\n"},
    {"convolution, bias of [1,O,1,1], residual, relu",
     {0},
     "graph \"g\" {\n"
     "  %1: f32[1,3,8,8] = input \"x\"\n"
     "  %2: f32[4,3,1,1] = param \"w\"\n"
     "  %3: f32[1,4,1,1] = param \"b\"\n"
     "  %4: f32[1,4,8,8] = input \"r\"\n"
     "  %5 = conv2d(%1, %2)\n"
     "  %6 = add(%5, %3)\n"
     "  %7 = add(%6, %4)\n"
     "  %8 = relu(%7)\n"
     "  output \"y\" = %8\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[1,3,8,8] = input \"x\"\n"
     "  %2: f32[4,3,1,1] = param \"w\"\n"
     "  %3: f32[1,4,1,1] = param \"b\"\n"
     "  %4: f32[1,4,8,8] = input \"r\"\n"
     "  %5: f32[4] = reshape(%3) {shape=[4]}\n"
     "  %6: f32[1,4,8,8] = conv2d(%1, %2, %5, %4) {stride=[1,1], dilation=[1,1], "
     "pads=[0,0,0,0], groups=1, act=relu, act_last=true}\n"
     "  output \"y\" = %6\n"
     "}\n"},
    {"packed product, bias, activation, residual",
     {0},
     "graph \"g\" {\n"
     "  %1: f32[2,32] = input \"x\"\n"
     "  %2: q8_0[4,32] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5 = dequant_matmul(%1, %2)\n"
     "  %6 = add(%5, %3)\n"
     "  %7 = silu(%6)\n"
     "  %8 = add(%4, %7)\n"
     "  output \"y\" = %8\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,32] = input \"x\"\n"
     "  %2: q8_0[4,32] = param \"w\"\n"
     "  %3: f32[4] = param \"b\"\n"
     "  %4: f32[2,4] = input \"r\"\n"
     "  %5: f32[2,4] = dequant_matmul(%1, %2, _, _, %3, %4) {act=silu}\n"
     "  output \"y\" = %5\n"
     "}\n"},
    {"the other convolutions; a transposed one takes no residual",
     {0},
     "graph \"g\" {\n"
     "  %1: f32[1,3,8] = input \"x\"\n"
     "  %2: f32[4,3,1] = param \"w1\"\n"
     "  %3: f32[1,3,8,8,8] = input \"x3\"\n"
     "  %4: f32[4,3,1,1,1] = param \"w3\"\n"
     "  %5: f32[1,3,8,8] = input \"xt\"\n"
     "  %6: f32[3,4,1,1] = param \"wt\"\n"
     "  %7: f32[4,1,1] = param \"b\"\n"
     "  %8: f32[1,4,8,8] = input \"r\"\n"
     "  %9 = conv1d(%1, %2)\n"
     "  %10 = tanh(%9)\n"
     "  %11 = conv3d(%3, %4)\n"
     "  %12 = hard_swish(%11)\n"
     "  %13 = conv_transpose2d(%5, %6)\n"
     "  %14 = add(%13, %7)\n"
     "  %15 = add(%14, %8)\n"
     "  output \"a\" = %10\n  output \"b\" = %12\n  output \"c\" = %15\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[1,3,8] = input \"x\"\n"
     "  %2: f32[4,3,1] = param \"w1\"\n"
     "  %3: f32[1,3,8,8,8] = input \"x3\"\n"
     "  %4: f32[4,3,1,1,1] = param \"w3\"\n"
     "  %5: f32[1,3,8,8] = input \"xt\"\n"
     "  %6: f32[3,4,1,1] = param \"wt\"\n"
     "  %7: f32[4,1,1] = param \"b\"\n"
     "  %8: f32[1,4,8,8] = input \"r\"\n"
     "  %9: f32[1,4,8] = conv1d(%1, %2) {stride=[1], dilation=[1], pads=[0,0], groups=1, "
     "act=tanh}\n"
     "  %10: f32[1,4,8,8,8] = conv3d(%3, %4) {stride=[1,1,1], dilation=[1,1,1], "
     "pads=[0,0,0,0,0,0], groups=1, act=hard_swish}\n"
     "  %11: f32[4] = reshape(%7) {shape=[4]}\n"
     "  %12: f32[1,4,8,8] = conv_transpose2d(%5, %6, %11) {stride=[1,1], dilation=[1,1], "
     "pads=[0,0,0,0], groups=1, output_pad=[0,0]}\n"
     "  %13: f32[1,4,8,8] = add(%12, %8)\n"
     "  output \"a\" = %9\n"
     "  output \"b\" = %10\n"
     "  output \"c\" = %13\n"
     "}\n"},
    {"residual and norm; the sum is also used later",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[2,8] = input \"h\"\n"
     "  %3: f32[8] = param \"gamma\"\n"
     "  %4 = add(%1, %2)\n"
     "  %5 = rms_norm(%4, %3) {eps=1e-6} \"norm\"\n"
     "  %6 = exp(%5)\n"
     "  %7 = add(%4, %6)\n"
     "  output \"y\" = %7\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = input \"h\"\n"
     "  %3: f32[8] = param \"gamma\"\n"
     "  %4: f32[2,8], %5: f32[2,8] = residual_norm(%1, %2, %3) {rms=true, eps=1e-06} \"norm\"\n"
     "  %6: f32[2,8] = exp(%4)\n"
     "  %7: f32[2,8] = add(%5, %6)\n"
     "  output \"y\" = %7\n"
     "}\n"},
    {"no residual norm when the sum is needed before",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[2,8] = input \"h\"\n"
     "  %3 = add(%1, %2)\n"
     "  %4 = exp(%3)\n"
     "  %5 = rms_norm(%3)\n"
     "  %6 = add(%4, %5)\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = input \"h\"\n"
     "  %3: f32[2,8] = add(%1, %2)\n"
     "  %4: f32[2,8] = exp(%3)\n"
     "  %5: f32[2,8] = rms_norm(%3) {axis=1, eps=1e-05}\n"
     "  %6: f32[2,8] = add(%4, %5)\n"
     "  output \"y\" = %6\n"
     "}\n"},
};

static const golden regions[] = {
    {"a chain with broadcasts is one region",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[8] = param \"b\"\n"
     "  %3: f32[2,1] = param \"s\"\n"
     "  %4 = add(%1, %2)\n"
     "  %5 = mul(%4, %3) \"scale\"\n"
     "  %6 = leaky_relu(%5) {alpha=0.1}\n"
     "  output \"y\" = %6\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8] = param \"b\"\n"
     "  %3: f32[2,1] = param \"s\"\n"
     "  %4: f32[2,8] = region(%3, %1, %2) {t0 = add(a1, a2): f32; t1 = mul(t0, a0): f32; "
     "t2 = leaky_relu(t1, 0.1, 0): f32; return t2} \"scale\"\n"
     "  output \"y\" = %4\n"
     "}\n"},
    {"one node stays itself, a smaller tensor is not computed again for each row",
     {0},
     "graph \"g\" {\n" X
     "  %2: f32[8] = param \"b\"\n"
     "  %3 = exp(%2)\n"
     "  %4 = add(%1, %3)\n"
     "  output \"y\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[8] = param \"b\"\n"
     "  %3: f32[8] = exp(%2)\n"
     "  %4: f32[2,8] = add(%1, %3)\n"
     "  output \"y\" = %4\n"
     "}\n"},
    {"a value that is used outside is a result",
     {0},
     "graph \"g\" {\n" X
     "  %2 = tanh(%1)\n"
     "  %3 = exp(%2)\n"
     "  %4 = reduce_sum(%2) {axes=[1]}\n"
     "  output \"y\" = %3\n  output \"s\" = %4\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8], %3: f32[2,8] = region(%1) {t0 = tanh(a0): f32; "
     "t1 = exp(t0): f32; return t0, t1}\n"
     "  %4: f32[2] = reduce_sum(%2) {axes=[1]}\n"
     "  output \"y\" = %3\n"
     "  output \"s\" = %4\n"
     "}\n"},
    {"no region around a node that lies between",
     {0},
     "graph \"g\" {\n" X
     "  %2 = tanh(%1)\n"
     "  %3 = softmax(%2) {axis=1}\n"
     "  %4 = add(%2, %3)\n"
     "  %5 = exp(%4)\n"
     "  output \"y\" = %5\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = tanh(%1)\n"
     "  %3: f32[2,8] = softmax(%2) {axis=1}\n"
     "  %4: f32[2,8] = region(%2, %3) {t0 = add(a0, a1): f32; t1 = exp(t0): f32; return t1}\n"
     "  output \"y\" = %4\n"
     "}\n"},
    {"what reads a state stays before the write",
     {0},
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4 = exp(%1)\n"
     "  %5 = state_write(%1, %2, %3)\n"
     "  %6 = neg(%4)\n"
     "  %7 = tanh(%6)\n"
     "  output \"y\" = %7\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[4,8] = state \"s\"\n"
     "  %2: f32[1,8] = input \"u\"\n"
     "  %3: i32[] = input \"p\"\n"
     "  %4: f32[4,8] = exp(%1)\n"
     "  %5: f32[4,8] = state_write(%1, %2, %3)\n"
     "  %6: f32[4,8] = region(%4) {t0 = neg(a0): f32; t1 = tanh(t0): f32; return t1}\n"
     "  output \"y\" = %6\n"
     "}\n"},
    {"without a kernel for regions nothing changes",
     {.lacks = " region "},
     "graph \"g\" {\n" X
     "  %2 = tanh(%1)\n"
     "  %3 = exp(%2)\n"
     "  output \"y\" = %3\n}\n",
     "graph \"g\" {\n"
     "  %1: f32[2,8] = input \"x\"\n"
     "  %2: f32[2,8] = tanh(%1)\n"
     "  %3: f32[2,8] = exp(%2)\n"
     "  output \"y\" = %3\n"
     "}\n"},
};

static void check_golden(const golden *c, pass_fn *pass)
{
    rx_target t = fake_target(&c->target);
    char *got = run_pass(pass, &t, c->in);
    if (!CHECK(same_text(got, c->out)))
        printf("    case: %s\n", c->what);
    rlx_free(got);
}

/* ---- Every row of patterns, built from its own text "
     "-------------------------------------------- */

static const char *const patterns[][2] = {
#define PATTERN(name, pattern, result) {pattern, result},
#include "compile/fuse.def"
#undef PATTERN
};

typedef struct example {
    rlx_graph *g;
    const rx_pattern *p;
    rlx_value var[RX_PATTERN_VARS];
    bool swapped; /* operands of add and mul in the other order */
} example;

static rlx_value build_example(example *e, int index)
{
    const rx_pattern_node *n = &e->p->nodes[index];
    if (n->name >= 0 && e->var[n->name].id)
        return e->var[n->name];
    rlx_value in[4], v = RLX_NONE;
    rx_reduce_attr mean = {.axes = {1, {1}}, .keepdims = true};
    for (int i = 0; i < n->n_args; i++)
        in[i] = build_example(e, n->arg[i]);
    switch (n->kind) {
    case RX_PATTERN_NUMBER: v = rlx_scalar(e->g, RLX_F32, n->number); break;
    case RX_PATTERN_CAPTURE: v = rlx_scalar(e->g, RLX_F32, 1e-6); break;
    case RX_PATTERN_VALUE:
        v = rlx_input(e->g, e->p->vars[n->name].text, RLX_F32, 2, (const rlx_dim[]){2, 8});
        break;
    case RX_PATTERN_OP:
        if (e->swapped && (n->op == RX_OP_add || n->op == RX_OP_mul)) {
            rlx_value first = in[0];
            in[0] = in[1];
            in[1] = first;
        }
        v = rx_graph_add(e->g, n->op, in, n->n_args, n->last_axis ? &mean : NULL, NULL);
    }
    if (n->name >= 0)
        e->var[n->name] = v;
    return v;
}

static void check_pattern(const char *const texts[2], bool swapped)
{
    fake_options all = {0};
    rx_target t = fake_target(&all);
    rx_pattern pattern, result;
    rlx_error err = {0};
    rlx_graph *out = NULL;
    if (!CHECK(rx_pattern_parse(&pattern, texts[0], NULL)) ||
        !CHECK(rx_pattern_parse(&result, texts[1], &pattern)))
        return;
    example e = {.g = rlx_graph_create("pattern"), .p = &pattern, .swapped = swapped};
    rlx_output(e.g, "y", build_example(&e, 0));
    bool ok = CHECK_OK(rx_fuse_rules(e.g, &t, &out, &err), &err);
    if (ok && !CHECK(rx_value_node(out, out->outputs[0].value)->op == result.nodes[0].op))
        printf("    pattern: %s\n", texts[0]);
    rlx_graph_destroy(out);
    rlx_graph_destroy(e.g);
}

/* A long chain is cut into regions of bounded size, all of it. */
static void check_limits(void)
{
    fake_options all = {0};
    rx_target t = fake_target(&all);
    rlx_graph *g = rlx_graph_create("long"), *out = NULL;
    rlx_error err = {0};
    rlx_value x = rlx_input(g, "x", RLX_F32, 1, (const rlx_dim[]){4});
    for (int i = 0; i < 200; i++) {
        char name[] = {(char)('A' + i / 26), (char)('a' + i % 26), 0};
        rlx_value p = rlx_param(g, name, RLX_F32, 1, (const rlx_dim[]){4});
        x = rlx_add(g, rlx_tanh(g, x), p);
    }
    rlx_output(g, "y", x);
    if (CHECK_OK(rx_fuse(g, &t, &out, &err), &err)) {
        size_t n_instr = 0;
        for (size_t i = 0; i < out->n_nodes; i++) {
            const rx_node *n = &out->nodes[i];
            if (n->op != RX_OP_region)
                continue;
            const rx_region *r = n->attr;
            n_instr += r->n_instr;
            CHECK(r->n_in <= 12 && r->n_instr <= 64);
        }
        CHECK(n_instr == 400);
    }
    rlx_graph_destroy(out);
    rlx_graph_destroy(g);
}

int main(void)
{
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        check_golden(&rules[i], rx_fuse_rules);
    for (size_t i = 0; i < sizeof regions / sizeof *regions; i++)
        check_golden(&regions[i], rx_fuse);
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++)
        for (int swapped = 0; swapped < 2; swapped++)
            check_pattern(patterns[i], swapped);
    check_limits();
    return check_done();
}
