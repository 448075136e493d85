/* SPDX-License-Identifier: MIT */
/* The text form: print, parse, print is the identity for every operation of the catalogue, every
 * mistake has a place and a sentence, and no mutation or lack of memory crashes the parser. */
#include <stdlib.h>

#include "check.h"
#include "ir/graph.h"

#define TEXT_SIZE 65536

/* ---- Graphs with every operation ------------------------------------------------------------- */

static const char leaves[] =
    "graph \"leaves \\\"q\\\" \\\\ \\n\\t\\x01 \xc3\xbc\" {\n"
    "  dim batch <= 4\n"
    "  dim seq <= 512\n"
    "  %x: f32[batch,(seq+1),((seq*4)/3),(batch-seq)] = input \"a \\\"b\\\" c\"\n"
    "  %f32: f32[3] = constant [0.1, -0, inf] \"a name\"\n"
    "  %nan: f32[1] = constant 0x0000c07f\n"
    "  %f16: f16[3] = constant [1.5, 65504, -inf]\n"
    "  %bf16: bf16[2] = constant [1e30, -2]\n"
    "  %i8: i8[2] = constant [-128, 127]\n"
    "  %u8: u8[2] = constant [0, 255]\n"
    "  %i32: i32[2] = constant [-2147483648, 2147483647]\n"
    "  %i64: i64[2] = constant [-9223372036854775808, 9223372036854775807]\n"
    "  %i16: i16[2] = constant [-32768, 32767]\n"
    "  %u16: u16[2] = constant [0, 65535]\n"
    "  %u32: u32[2] = constant [0, 4294967295]\n"
    "  %u64: u64[3] = constant [0, 9223372036854775808, 18446744073709551615]\n"
    "  %f64: f64[4] = constant [0.1, 1e-310, 1.7976931348623157e+308, -inf]\n"
    "  %bool: bool[2] = constant [0, 1]\n"
    "  %odd: bool[2] = constant 0x0102\n"
    "  %scalar: f32[] = constant [2.5]\n"
    "  %none: f32[0,3] = constant []\n"
    "  %long: i8[17] = constant 0x000102030405060708090a0b0c0d0e0f10\n"
    "  %hf16: f16[1] = constant 0x007E\n"
    "  %hi64: i64[1] = constant 0x0102030405060708\n"
    "  %packed: q8_0[1,32] = constant "
    "0x003c0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20\n"
    "  %w: q4_0[2,64] = param \"w\"\n"
    "  %s: f32[8,4] = state \"kv\"\n"
    "  %u: f32[1,4] = input \"u\"\n"
    "  %at: i32[] = input \"at\"\n"
    "  %s1 = state_write(%s, %u, %at)\n"
    "  %s2 = state_write(%s1, %u, %at) {axis=-2} \"second \\\"write\\\"\"\n"
    "  output \"kv \\x7f\" = %s2\n"
    "  output \"again\" = %s2\n"
    "}\n";

static const char select_graph[] =
    "graph \"select\" {\n"
    "  %x: f32[2,3] = input \"x\"\n"
    "  %y: f32[3] = input \"y\"\n"
    "  %c: bool[2,1] = input \"c\"\n"
    "  %1 = where(%c, %x, %y)\n"
    "  %2 = clamp(%x) {lo=-inf, hi=6}\n"
    "  %3 = fma(%x, %y, %x)\n"
    "  %4 = cast(%x) {to=bf16}\n"
    "  %5, %6 = region(%x, %y, %c) {t0 = add(a0, a1): f32; t1 = clamp(t0, -1, inf): f32; "
    "t2 = elu(t1, 0.5, 0): f32; t3 = mod(t2, a1, 1): f32; t4 = where(a2, t3, t0): f32; "
    "t5 = cast(t4): f16; t6 = gt(t0, t1): bool; return t5, t6} \"fused\"\n"
    "  output \"y\" = %5\n"
    "}\n";

static const char matrix[] =
    "graph \"matrix\" {\n"
    "  %a: f32[2,3,4] = input \"a\"\n"
    "  %b: f32[4,5] = param \"b\"\n"
    "  %t: f32[5,4] = param \"t\"\n"
    "  %bias: f32[5] = param \"bias\"\n"
    "  %r: f32[2,3,5] = input \"r\"\n"
    "  %m: f32[3,4] = input \"m\"\n"
    "  %down: f32[2,4] = param \"down\"\n"
    "  %up: f32[5,2] = param \"up\"\n"
    "  %e: f32[2,4,5] = param \"e\"\n"
    "  %ids: i32[3] = input \"ids\"\n"
    "  %long: f32[3,32] = input \"long\"\n"
    "  %q: q8_0[5,32] = param \"q\"\n"
    "  %bank: q4_0[2,5,32] = param \"bank\"\n"
    "  %ia: i8[2,4] = input \"ia\"\n"
    "  %ib: i8[4,5] = param \"ib\"\n"
    "  %ibias: i32[5] = param \"ibias\"\n"
    "  %one: f32[] = constant [0.25]\n"
    "  %1 = matmul(%a, %t, %bias, %r) {trans_b=true, act=gelu, act_last=true, out=f16}\n"
    "  %2 = dot_general(%a, %b) {contract_a=[-1], contract_b=[0]}\n"
    "  %3 = lora_matmul(%a, %t, %down, %up) {scale=0.5}\n"
    "  %4 = grouped_matmul(%m, %e, %ids)\n"
    "  %5 = dequant_matmul(%long, %q, _, _, %bias) {act=silu}\n"
    "  %6 = dequant_grouped_matmul(%long, %bank, %ids)\n"
    "  %7 = dequant_moe_weights(%bank, %ids) {to=f16}\n"
    "  %8 = qmatmul(%ia, %ib, %bias, %ibias) {a_zero=3, y_zero=-4}\n"
    "  %9 = quantize(%a, %one) {to=u8}\n"
    "  %10 = dequantize(%ia, %one)\n"
    "}\n";

static const char norms[] =
    "graph \"norms\" {\n"
    "  dim n <= 7\n"
    "  %x: f32[n,6] = input \"x\"\n"
    "  %g: f32[6] = param \"g\"\n"
    "  %im: f32[1,4,3,3] = input \"im\"\n"
    "  %c: f32[4] = param \"c\"\n"
    "  %1 = layer_norm(%x, %g, %g) {eps=1e-06}\n"
    "  %2 = rms_norm(%x) {axis=-2}\n"
    "  %3 = layer_norm2d(%im, %c, %c)\n"
    "  %4 = group_norm(%im, _, %c) {groups=2}\n"
    "  %5 = instance_norm(%im)\n"
    "  %6 = batch_norm_inference(%im, _, %c, %c, %c)\n"
    "  %7 = ada_layer_norm(%x, %g, %g)\n"
    "  %8 = gated_residual(%x, %x, %g)\n"
    "  %9, %10 = residual_norm(%x, %x, %g) {rms=true}\n"
    "  %11 = swiglu(%x)\n"
    "  %12 = softmax(%x) {axis=-1}\n"
    "  %13 = log_softmax(%x)\n"
    "  %q: f32[1,4,3,8] = input \"q\"\n"
    "  %k: f32[1,2,5,8] = input \"k\"\n"
    "  %len: i32[1] = input \"len\"\n"
    "  %table: f32[16,4] = param \"table\"\n"
    "  %pos: i64[3] = input \"pos\"\n"
    "  %14 = attention(%q, %k, %k, _, %len, %c) {scale=0.3, soft_cap=30, causal=true, window=4}\n"
    "  %15 = rope(%q, %table, %table, %pos) {interleaved=true, n_rot=8, backward=true}\n"
    "  %rq: f32[n,4,8] = input \"rq\"\n"
    "  %pool: f32[12,2,8] = input \"pool\"\n"
    "  %seq: i32[n] = input \"seq\"\n"
    "  %pages: i32[2,3] = input \"pages\"\n"
    "  %16 = ragged_attention(%rq, %pool, %pool, %seq, %seq, %pages, %c) {page=4, scale=0.3, "
    "soft_cap=30, window=5}\n"
    "}\n";

static const char shapes[] =
    "graph \"shapes\" {\n"
    "  dim seq <= 16\n"
    "  %x: f32[2,seq,6] = input \"x\"\n"
    "  %t: f32[10,4] = input \"t\"\n"
    "  %i: i64[3] = input \"i\"\n"
    "  %e: i32[2,4] = input \"e\"\n"
    "  %n: i64[3,1] = input \"n\"\n"
    "  %u: f32[2,4] = input \"u\"\n"
    "  %v: f32[3,4] = input \"v\"\n"
    "  %1 = reshape(%x) {shape=[2,(seq*2),3]}\n"
    "  %2 = reshape(%x) {shape=[-1,4]}\n"
    "  %3 = transpose(%x) {perm=[2,0,1]}\n"
    "  %4 = narrow(%x) {axis=1, start=1, length=(seq-2)}\n"
    "  %5 = slice(%x) {axes=[2], starts=[5], stops=[-7], steps=[-2]}\n"
    "  %6 = expand(%x) {shape=[3,2,seq,6]}\n"
    "  %7 = copy(%x)\n"
    "  %8 = concat(%x, %x, %x) {axis=1}\n"
    "  %9, %10, %11 = split(%x) {axis=2, sizes=[1,2,3]}\n"
    "  %12 = tile(%x) {repeats=[1,3,1]}\n"
    "  %13 = pad(%x) {before=[0,0,1], after=[0,0,2], mode=reflect}\n"
    "  %14 = pad(%x) {before=[0,1,-1], after=[0,0,2], value=0.5}\n"
    "  %15 = reverse(%x) {axes=[0,-1]}\n"
    "  %16 = roll(%x) {axis=2, shift=-1}\n"
    "  %17 = trilu(%x) {upper=true, k=-1}\n"
    "  %18 = gather(%t, %i)\n"
    "  %19 = gather_elements(%t, %e)\n"
    "  %20 = gather_nd(%t, %n)\n"
    "  %21 = scatter_elements(%t, %e, %u) {mode=add}\n"
    "  %22 = scatter_nd(%t, %n, %v) {mode=max}\n"
    "  %23 = scatter_add(%t, %i, %v)\n"
    "  %24 = stop_gradient(%x)\n"
    "}\n";

static const char orders[] =
    "graph \"orders\" {\n"
    "  dim seq <= 16\n"
    "  %x: f32[2,seq,6] = input \"x\"\n"
    "  %b: bool[2,3] = input \"b\"\n"
    "  %i: i32[3] = input \"i\"\n"
    "  %any = reduce_any(%b)\n"
    "  %all = reduce_all(%b) {axes=[1]}\n"
    "  %1 = argmax(%x) {axis=1, last=true, out=i32}\n"
    "  %2 = argmin(%x) {axis=-1, keepdims=true}\n"
    "  %3 = cumsum(%x) {axis=1, exclusive=true}\n"
    "  %4 = cumprod(%x) {reverse=true}\n"
    "  %5 = cummax(%x) {axis=2}\n"
    "  %6, %7 = top_k(%x) {k=3, axis=2, smallest=true}\n"
    "  %8 = sort(%x) {axis=2, descending=true}\n"
    "  %9 = argsort(%x) {axis=1, out=i32}\n"
    "  %10 = histogram(%x) {bins=4, lo=-1, hi=1.5}\n"
    "  %11 = one_hot(%i) {depth=5, axis=-1, on=2}\n"
    "  %12 = range() {start=1, step=0.5, n=seq}\n"
    "  %13, %14 = nonzero(%x)\n"
    "  %seed: i64[] = input \"seed\"\n"
    "  %15 = random_uniform() {shape=[2,seq], seed=7, lo=-1, hi=1}\n"
    "  %16 = random_normal(%seed) {shape=[2,3], out=f16}\n"
    "  %17 = sample(%x, %seed) {temperature=0.8, top_k=3, top_p=0.9, min_p=0.05}\n"
    "}\n";

static const char convs[] =
    "graph \"convs\" {\n"
    "  dim h <= 32\n"
    "  %l: f32[1,4,9] = input \"l\"\n"
    "  %x: f32[1,4,h,9] = input \"x\"\n"
    "  %f: f32[1,4,8,9] = input \"f\"\n"
    "  %v: f32[1,4,5,5,5] = input \"v\"\n"
    "  %w1: f32[6,4,3] = param \"w1\"\n"
    "  %w2: f32[6,2,3,3] = param \"w2\"\n"
    "  %w3: f32[6,4,3,3,3] = param \"w3\"\n"
    "  %wt: f32[4,6,3,3] = param \"wt\"\n"
    "  %b: f32[6] = param \"b\"\n"
    "  %qx: u8[1,4,8,8] = input \"qx\"\n"
    "  %qw: i8[6,4,3,3] = param \"qw\"\n"
    "  %1 = conv1d(%l, %w1, %b) {stride=[2], act=relu}\n"
    "  %2 = conv2d(%x, %w2) {stride=[2,1], pads=[1,1,1,1], groups=2}\n"
    "  %3 = conv3d(%v, %w3) {dilation=[1,2,1]}\n"
    "  %4 = conv_transpose2d(%f, %wt) {stride=[2,2], output_pad=[1,0]}\n"
    "  %5 = qconv2d(%qx, %qw, %b) {x_zero=128, out=i8}\n"
    "  %6 = pool1d(%l) {kind=average, kernel=[3], pads=[1,1], count_include_pad=true}\n"
    "  %7 = pool2d(%x)\n"
    "  %8 = pool3d(%v) {kind=lp, kernel=[2,2,2], stride=[2,2,2], ceil_mode=true, p=3}\n"
    "  %9 = im2col(%f) {kernel=[3,3], pads=[1,1,1,1]}\n"
    "  %10 = resize_nearest_2x(%f)\n"
    "  %11 = resize(%f) {sizes=[1,4,16,12], mode=cubic, coord=asymmetric, cubic_a=-0.5, "
    "scale=[0,0,2,1.3]}\n"
    "}\n";

static const char recurrents[] =
    "graph \"recurrents\" {\n"
    "  dim s <= 9\n"
    "  %x: f32[s,2,3] = input \"x\"\n"
    "  %li: f32[1,16,3] = param \"li\"\n"
    "  %lh: f32[1,16,4] = param \"lh\"\n"
    "  %gi: f32[1,12,3] = param \"gi\"\n"
    "  %gh: f32[1,12,4] = param \"gh\"\n"
    "  %ri: f32[1,4,3] = param \"ri\"\n"
    "  %rh: f32[1,4,4] = param \"rh\"\n"
    "  %h0: f32[1,2,4] = input \"h0\"\n"
    "  %1, %2, %3 = lstm(%x, _, %h0, %li, %lh)\n"
    "  %4, %5 = gru(%x, %h0, %gi, %gh) {reverse=true}\n"
    "  %6, %7 = rnn(%x, _, %ri, %rh) {relu=true}\n"
    "  %d: f32[2,s,3] = input \"d\"\n"
    "  %a: f32[3,5] = param \"a\"\n"
    "  %b: f32[2,s,5] = input \"b\"\n"
    "  %8, %9 = selective_scan(%d, %d, %a, %b, %b)\n"
    "  %mx: f32[2,s,4,3] = input \"mx\"\n"
    "  %dt: f32[2,s,4] = input \"dt\"\n"
    "  %ma: f32[4] = param \"ma\"\n"
    "  %mb: f32[2,s,2,5] = input \"mb\"\n"
    "  %10, %11 = mamba2(%mx, %dt, %ma, %mb, %mb, %ma)\n"
    "  %12, %13 = gated_delta_net(%mx, %mx, %mx, %dt, %dt)\n"
    "}\n";

static const char signals[] =
    "graph \"signals\" {\n"
    "  dim t <= 64\n"
    "  %z: f32[2,8,2] = input \"z\"\n"
    "  %r: f32[2,t] = input \"r\"\n"
    "  %w: f32[8] = param \"w\"\n"
    "  %p: f32[3,5,2] = input \"p\"\n"
    "  %m: f32[4,5] = param \"m\"\n"
    "  %dist: f32[6,6] = input \"dist\"\n"
    "  %1 = fft(%z) {axis=1, norm=ortho}\n"
    "  %2 = ifft(%z) {axis=1, n=12}\n"
    "  %3 = rfft(%r) {axis=-1}\n"
    "  %4 = irfft(%z) {axis=1}\n"
    "  %5 = stft(%r, %w) {n=8, hop=2, two_sided=true}\n"
    "  %6 = log_mel(%p, %m) {peak_per_frame=true}\n"
    "  %7, %8 = welch_peaks(%p) {k=2}\n"
    "  %9, %10 = knn(%dist) {k=3}\n"
    "  %11, %12 = group_limited_gate(%dist) {groups=3, keep_groups=2, k=2, scale=1.5}\n"
    "}\n";

/* One graph with all operations of one or two operands and all plain reductions. */
static const char *elementwise(void)
{
    static char text[TEXT_SIZE];
    size_t n = (size_t)snprintf(text, sizeof text,
                                "graph \"elementwise\" {\n"
                                "  %%x: f32[2,3] = input \"x\"\n  %%y: f32[3] = input \"y\"\n"
                                "  %%i: i32[2,3] = input \"i\"\n");
    for (int op = 0; op < RX_N_OPS; op++) {
        const rx_op_info *o = &rx_ops[op];
        bool is_bits = op == RX_OP_not || op == RX_OP_and || op == RX_OP_or || op == RX_OP_xor ||
                       op == RX_OP_shl || op == RX_OP_shr;
        bool is_pair = o->family == RX_FAMILY_binary || o->family == RX_FAMILY_compare;
        bool is_reduce = o->family == RX_FAMILY_reduce && o->attr == &rx_attr_reduce &&
                         op != RX_OP_reduce_any && op != RX_OP_reduce_all;
        if (!is_pair && !is_reduce && o->family != RX_FAMILY_unary)
            continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "  %%%s = %s(%s%s)%s\n", o->name, o->name,
                              is_bits ? "%i" : "%x", !is_pair ? "" : is_bits ? ", %i" : ", %y",
                              is_reduce ? " {axes=[0], keepdims=true}"
                                        : op == RX_OP_mod ? " {floored=true}" : "");
    }
    snprintf(text + n, sizeof text - n, "  output \"y\" = %%exp\n}\n");
    return text;
}

static const char *const graphs[] = {leaves, select_graph, matrix, norms,      shapes,
                                     orders, convs,        recurrents, signals, NULL};

/* ---- Print, parse, print --------------------------------------------------------------------- */

/* Parses a copy without anything after its end, so that reading past it is seen. */
static rlx_status parse(const char *text, size_t n, rlx_graph **g, rlx_error *err)
{
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    rlx_status s = rlx_graph_parse(copy, n, g, err);
    free(copy);
    return s;
}

static void check_round_trip(const char *text, bool *seen)
{
    rlx_graph *g = NULL, *again = NULL;
    rlx_error err = {0};
    char *first = NULL, *second = NULL;
    size_t n = 0, m = 0;
    if (CHECK_OK(parse(text, strlen(text), &g, &err), &err) &&
        CHECK_OK(rlx_graph_verify(g, &err), &err) &&
        CHECK_OK(rlx_graph_print(g, &first, &n, &err), &err) &&
        CHECK_OK(parse(first, n, &again, &err), &err) &&
        CHECK_OK(rlx_graph_verify(again, &err), &err) &&
        CHECK_OK(rlx_graph_print(again, &second, &m, &err), &err)) {
        if (!CHECK(n == m && !memcmp(first, second, n)))
            printf("%s---- again\n%s", first, second);
        CHECK(g->n_nodes == again->n_nodes && g->n_values == again->n_values);
        CHECK(!strcmp(g->name, again->name));
        for (size_t i = 0; i < g->n_nodes; i++)
            seen[g->nodes[i].op] = true;
    }
    rlx_free(first);
    rlx_free(second);
    rlx_graph_destroy(g);
    rlx_graph_destroy(again);
}

static void test_round_trips(void)
{
    bool seen[RX_N_OPS] = {[RX_OP_custom] = true}; /* by runtime/test_custom.c */
    check_round_trip(elementwise(), seen);
    for (int i = 0; graphs[i]; i++)
        check_round_trip(graphs[i], seen);
    for (int op = 0; op < RX_N_OPS; op++)
        if (!check_that(seen[op], "every operation is in a graph", __FILE__, __LINE__))
            printf("    %s is not\n", rx_ops[op].name);
}

static void test_what_is_read(void)
{
    rlx_graph *g = NULL;
    rlx_error err = {0};
    if (!CHECK_OK(parse(leaves, strlen(leaves), &g, &err), &err))
        return;
    CHECK(!strcmp(rlx_graph_name(g), "leaves \"q\" \\ \n\t\x01 \xc3\xbc"));
    rlx_leaf_info info;
    CHECK(rlx_graph_leaf(g, RLX_LEAF_INPUT, 0, &info) && !strcmp(info.name, "a \"b\" c"));
    CHECK(rx_dim_bound(g, info.shape.dim[1]) == 513 && rx_dim_bound(g, info.shape.dim[2]) == 682);
    CHECK(rlx_graph_leaf(g, RLX_LEAF_OUTPUT, 0, &info) && !strcmp(info.name, "kv \x7f"));
    CHECK(!strcmp(g->nodes[1].name, "a name"));
    const rx_leaf_attr *a = g->nodes[1].attr;
    float f[3];
    memcpy(f, a->data, sizeof f);
    CHECK(a->bytes == 12 && f[0] == 0.1f && f[1] == 0 && 1 / f[1] < 0 && f[2] > 1e38f);
    CHECK(!memcmp(((const rx_leaf_attr *)g->nodes[5].attr)->data, "\x80\x7f", 2));
    rlx_graph_destroy(g);
}

/* Long names and large expressions are printed in full. */
static void test_long_dims(void)
{
    rlx_graph *g = rlx_graph_create("long"), *again = NULL;
    rlx_error err = {0};
    char name[200], *text = NULL;
    size_t n = 0;
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    rlx_dim d = rlx_dim_named(g, name, 64);
    for (int i = 0; i < 20; i++)
        d = rlx_dim_add(g, rlx_dim_div(g, d, 2), 3);
    rlx_input(g, "x", RLX_F32, 1, &d);
    if (CHECK_OK(rlx_graph_print(g, &text, &n, &err), &err) &&
        CHECK_OK(parse(text, n, &again, &err), &err))
        CHECK(again->values[1].shape.dim[0] == g->values[1].shape.dim[0]);
    rlx_free(text);
    rlx_graph_destroy(again);
    rlx_graph_destroy(g);
}

/* ---- Mistakes -------------------------------------------------------------------------------- */

typedef struct mistake {
    const char *text; /* after `head`, which is three lines; NULL ends the table */
    const char *says;
    rlx_status status;
} mistake;

static const char head[] = "graph \"g\" {\n  dim seq <= 16\n  %x: f32[2,seq] = input \"x\"\n";

static const mistake mistakes[] = {
    {"", "line 4, column 1: expected '%', got the end of the text", RLX_PARSE},
    {"} x", "line 4, column 3: expected the end of the text after '}'", RLX_PARSE},
    {"%y", "column 3: expected '=', got the end", RLX_PARSE},
    {"%y =", "column 5: expected an operation, got the end", RLX_PARSE},
    {"%y = relu", "column 10: expected '(', got the end", RLX_PARSE},
    {"%y = relu(", "column 11: expected '%', got the end", RLX_PARSE},
    {"%y = relu(%", "expected the name of a value, got the end", RLX_PARSE},
    {"%y = relu(%x", "column 13: expected ')', got the end", RLX_PARSE},
    {"%y = softmax(%x) {", "expected the name of an attribute, got the end", RLX_PARSE},
    {"%y = softmax(%x) {axis", "expected '=', got the end", RLX_PARSE},
    {"%y = softmax(%x) {axis=", "expected an integer of 64 bits, got the end", RLX_PARSE},
    {"%y = softmax(%x) {axis=1", "expected '}', got the end", RLX_PARSE},
    {"%y = relu(%x) \"name", "expected '\"' at the end of a string, got the end", RLX_PARSE},
    {"%y: f32", "expected '[', got the end", RLX_PARSE},
    {"%y: f32[", "expected a dimension, got the end", RLX_PARSE},
    {"%y: f32[2", "expected ']', got the end", RLX_PARSE},
    {"%y: f32[(seq", "expected + - * or / in a dimension, got the end", RLX_PARSE},
    {"%y: f32[(seq+1", "expected ')', got the end", RLX_PARSE},
    {"dim", "expected the name of a dimension, got the end", RLX_PARSE},
    {"dim q <", "expected '<=', got '<'", RLX_PARSE},
    {"output \"y\" = ", "expected '%', got the end", RLX_PARSE},
    {"%y = frob(%x)", "line 4, column 6: unknown operation 'frob'", RLX_PARSE},
    {"%y = softmax(%x) {axes=1}", "softmax has no attribute 'axes'; expected: axis", RLX_PARSE},
    {"%y = relu(%x) {axis=1}", "relu has no attribute 'axis'; expected: it has none", RLX_PARSE},
    {"%y = matmul(%x, %x) {act=tan}", "act expected one of none, relu, gelu", RLX_PARSE},
    {"%y = matmul(%x, %x) {trans_b=2}", "trans_b expected true or false", RLX_PARSE},
    {"%y = cast(%x) {to=f99}", "column 19: unknown type 'f99'", RLX_PARSE},
    {"%y: f65[2] = input \"y\"", "column 5: unknown type 'f65'", RLX_PARSE},
    {"%y: f32[2,n] = input \"y\"", "column 11: unknown dimension 'n'", RLX_PARSE},
    {"%y: f32[-1] = input \"y\"", "expected a dimension of 0 or more, got -1", RLX_PARSE},
    {"%y: f32[-7] = input \"y\"", "expected a dimension of 0 or more, got -7", RLX_PARSE},
    {"%y: f32[1,1,1,1,1,1,1,1,1] = input \"y\"", "expected at most 8 dimensions", RLX_PARSE},
    {"%y: f32[(seq^2)] = input \"y\"", "in a dimension, got '^2)] = input", RLX_PARSE},
    {"%y: f32[(seq/seq)] = input \"y\"", "divisor that is a number above 0, got seq", RLX_INVALID},
    {"%y: f32[(3-4)] = input \"y\"", "3 - 4 is below zero", RLX_INVALID},
    {"%y: f32[(4611686018427387000*2)] = input \"y\"", "larger than 2^62", RLX_INVALID},
    {"%y: f32[9223372036854775807] = input \"y\"", "at most 2^40 elements", RLX_INVALID},
    {"%y: f32[92233720368547758080] = input \"y\"", "expected an integer of 64 bits", RLX_PARSE},
    {"dim n <= 9999999999999", "a bound from 0 to 2^40, got bound 9999999999999", RLX_INVALID},
    {"dim seq <= 4", "dimension 'seq': has the bound 16 already, got 4", RLX_INVALID},
    {"dim a.b <= 4", "dimension 'a.b': expected a name of letters", RLX_INVALID},
    {"%y = relu(%z)", "line 4, column 12: unknown value %z", RLX_PARSE},
    {"output \"y\" = %z", "unknown value %z", RLX_PARSE},
    {"%y: f32[2,3] = relu(%x)", "%y: the text says f32[2,3], but relu gives f32[2,seq]", RLX_PARSE},
    {"%y: f16[2,seq] = relu(%x)", "the text says f16[2,seq]", RLX_PARSE},
    {"%x = relu(%x)", "%x is defined twice", RLX_PARSE},
    {"%y, %z = relu(%x)", "relu has 1 results, got 2 names", RLX_PARSE},
    {"%y: f32[2] = input \"x\"", "input 'x': the name is taken", RLX_INVALID},
    {"%y: f32[2] = input \"\"", "expected a name, got none", RLX_INVALID},
    {"output \"y\" = %x output \"y\" = %x", "output 'y': the name is taken", RLX_INVALID},
    {"%y = input \"y\"", "input needs one result with a type", RLX_PARSE},
    {"%y: f32[2] = input \"a\\qb\"", "escapes \\n \\t \\\" \\\\ \\xNN, got '\\qb", RLX_PARSE},
    {"%y: f32[2] = input \"a\\x0", "one of the escapes", RLX_PARSE},
    {"%y: f32[2] = input \"a\\x00\"", "a character that is not zero", RLX_PARSE},
    {"%y: f32[2] = input \"a\n\"", "at the end of a string, got byte 0x0a", RLX_PARSE},
    {"\xff\xfe", "line 4, column 1: expected '%', got byte 0xff", RLX_PARSE},
    {"%y\xc3\xa4 = relu(%x)", "expected '=', got byte 0xc3", RLX_PARSE},
    {"%y = relu(%x) \x80", "expected '%', got byte 0x80", RLX_PARSE},
    {"%y: u64[1] = constant [-1]", "expected a number that fits u64, got -1", RLX_PARSE},
    {"%y: u64[1] = constant [18446744073709551616]", "expected an integer of 64 bits", RLX_PARSE},
    {"%y: i16[1] = constant [32768]", "expected a number that fits i16, got 32768", RLX_PARSE},
    {"%y: f32[2] = constant [1]", "expected ',', got ']'", RLX_PARSE},
    {"%y: f32[2] = constant [1, 2, 3]", "expected ']', got ', 3]'", RLX_PARSE},
    {"%y: f32[2] = constant 1", "expected a list in brackets or 0x", RLX_PARSE},
    {"%y: f32[2] = constant 0x0000803f00", "expected 8 bytes in hexadecimal, got 5", RLX_PARSE},
    {"%y: i8[2] = constant 0x-1 2", "expected 2 bytes in hexadecimal, got 0", RLX_PARSE},
    {"%y: f32[seq] = constant [1]", "a constant needs a fixed shape", RLX_PARSE},
    {"%y: f32[1000000] = constant [1]", "whose elements are all given", RLX_PARSE},
    {"%y: q8_0[32] = constant [1]", "a packed constant is given in hexadecimal", RLX_PARSE},
    {"%y: f32[1] = constant [1e999]", "expected a number of at most", RLX_PARSE},
    {"%y: f32[1] = constant [1e39]", "column 24: expected a number that fits f32", RLX_PARSE},
    {"%y: f16[1] = constant [65520]", "expected a number that fits f16, got 65520", RLX_PARSE},
    {"%y: i8[1] = constant [128]", "expected a number that fits i8, got 128", RLX_PARSE},
    {"%y: u8[1] = constant [-1]", "expected a number that fits u8, got -1", RLX_PARSE},
    {"%y: bool[1] = constant [2]", "expected a number that fits bool, got 2", RLX_PARSE},
    {"%y: i32[1] = constant [2147483648]", "fits i32, got 2147483648", RLX_PARSE},
    {"%y: i64[1] = constant [9223372036854775808]", "expected an integer of 64", RLX_PARSE},
    {"%y: i32[1] = constant [1.5]", "expected an integer of 64 bits, got '1.5]'", RLX_PARSE},
    {"%y: f32[1] = constant [abc]", "expected a number", RLX_PARSE},
    {"%y = tile(%x) {repeats=[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}", "at most 16", RLX_PARSE},
    {"%y = relu(%x, %x)", "relu (node 1): expected 1 operands, got 2", RLX_INVALID},
    {"%y = softmax(%x) {axis=2} \"s\"", "softmax 's' (node 1): axis expected from -2 to 1, got 2",
     RLX_INVALID},
    {"%y = region(%x) {t0 = softmax(a0): f32; return t0}", "expected an elementwise", RLX_PARSE},
    {"%y = region(%x) {t0 = exp(a1): f32; return t0}", "expected an operand a0 to a0", RLX_PARSE},
    {"%y = region(%x) {t0 = exp(ax): f32; return t0}", "or an earlier t, got 'ax'", RLX_PARSE},
    {"%y = region(%x) {t0 = exp(t0): f32; return t0}", "or an earlier t, got 't0'", RLX_PARSE},
    {"%y = region(%x) {t1 = exp(a0): f32; return t1}", "expected 't0', got 't1", RLX_PARSE},
    {"%y = region(%x) {t0 = exp(a0): f32; return a0}", "of its t values", RLX_PARSE},
    {"%y = region(%x) {t0 = exp(a0): f16; return t0}", "expected result type f32", RLX_INVALID},
    {NULL, NULL, RLX_OK},
};

static void check_mistake(const mistake *m)
{
    char text[1024];
    rlx_graph *g = NULL;
    rlx_error err = {0};
    int n = snprintf(text, sizeof text, "%s%s", head, m->text);
    rlx_status s = parse(text, (size_t)n, &g, &err);
    if (!CHECK(s == m->status && err.code == s && !g && !strncmp(err.text, "line ", 5) &&
               strstr(err.text, ", column ") && strstr(err.text, m->says)))
        printf("    %s\n    expected: %s\n    got: %s, %s\n", m->text, m->says, rlx_status_name(s),
               err.text);
    CHECK(parse(text, (size_t)n, &g, NULL) == m->status); /* nobody wants the text */
    rlx_graph_destroy(g);
}

static void test_mistakes(void)
{
    for (const mistake *m = mistakes; m->text; m++)
        check_mistake(m);
    rlx_graph *g = NULL;
    rlx_error err = {0};
    CHECK_FAILS(rlx_graph_parse("", 0, &g, &err), RLX_PARSE, &err,
                "line 1, column 1: expected 'graph', got the end of the text");
    CHECK_FAILS(rlx_graph_parse("grap", 4, &g, &err), RLX_PARSE, &err, "got 'grap'");
    CHECK_FAILS(rlx_graph_parse("graph g", 7, &g, &err), RLX_PARSE, &err, "expected '\"', got 'g'");
}

/* Nesting, long words and long numbers meet a limit, not the end of the stack. */
static void test_sizes(void)
{
    enum { N = 100000 };
    char *text = malloc(N + 200);
    rlx_graph *g = NULL;
    rlx_error err = {0};
    size_t n = (size_t)sprintf(text, "%s%%y: f32[", head);
    memset(text + n, '(', N);
    CHECK_FAILS(parse(text, n + N, &g, &err), RLX_PARSE, &err, "nested more than 256 deep");
    n = (size_t)sprintf(text, "%s%%y = ", head);
    memset(text + n, 'q', N);
    CHECK_FAILS(parse(text, n + N, &g, &err), RLX_PARSE, &err, "unknown operation 'qqqq");
    n = (size_t)sprintf(text, "%s%%y: f32[1] = constant [", head);
    memset(text + n, '1', N);
    CHECK_FAILS(parse(text, n + N, &g, &err), RLX_PARSE, &err, "at most 63 characters");
    n = (size_t)sprintf(text, "%s%%y = concat(", head);
    for (size_t i = 0; i < N / 3; i++)
        memcpy(text + n + 3 * i, "%x,", 3);
    CHECK_FAILS(parse(text, n + N / 3 * 3, &g, &err), RLX_PARSE, &err, "expected '%'");
    free(text);
}

/* ---- Mutations ------------------------------------------------------------------------------- */

static uint64_t seed = 1;

static size_t pick(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

/* Changes, drops, repeats or cuts a few places. Returns the new length. */
static size_t mutate(char *text, size_t n, size_t cap)
{
    static const char *const bits[] = {"(", ")", "[", "]", "{", "}", "%", "\"", "-", "9", "0x", "e",
                                       "seq", "f16", "q4_0", "\\", "_", ",", "\xff", "inf", "=",
                                       "99999999999999", "-1", "\n", "region", "state_write"};
    for (size_t k = 1 + pick(3); k && n; k--) {
        size_t at = pick(n), length = 1 + pick(8);
        const char *bit = bits[pick(sizeof bits / sizeof bits[0])];
        switch (pick(5)) {
        case 0: text[at] = (char)pick(256); break;
        case 1:
            length = length < n - at ? length : n - at;
            memmove(text + at, text + at + length, n - at - length);
            n -= length;
            break;
        case 2: n = pick(8) ? n : at; break;
        case 3:
            length = strlen(bit);
            if (n + length > cap)
                break;
            memmove(text + at + length, text + at, n - at);
            memcpy(text + at, bit, length);
            n += length;
            break;
        default: text[at] = text[pick(n)]; break;
        }
    }
    return n;
}

static void test_mutations(void)
{
    enum { ROUNDS = 2000 };
    size_t accepted = 0;
    char *text = malloc(TEXT_SIZE);
    for (int i = 0; graphs[i]; i++) {
        for (int round = 0; round < ROUNDS; round++) {
            size_t n = strlen(graphs[i]);
            memcpy(text, graphs[i], n);
            n = mutate(text, n, TEXT_SIZE);
            rlx_graph *g = NULL;
            rlx_error err = {0};
            rlx_status s = parse(text, n, &g, &err);
            accepted += s == RLX_OK;
            if ((s == RLX_OK) != (g != NULL) || (s != RLX_OK && !err.text[0]) ||
                (g && rlx_graph_verify(g, &err) != RLX_OK) || s == RLX_INTERNAL) {
                CHECK(!"a mutation is either a graph or an error");
                printf("    %s\n%.*s\n", err.text, (int)n, text);
            }
            rlx_graph_destroy(g);
        }
    }
    free(text);
    printf("mutations of seed 1: %zu accepted\n", accepted);
    CHECK(accepted > 0);
}

/* ---- Lack of memory -------------------------------------------------------------------------- */

typedef struct meter {
    size_t left, live; /* allocations until one fails; blocks not freed */
} meter;

static void *meter_realloc(void *user, void *old, size_t n)
{
    meter *m = user;
    if (m->left == 0)
        return NULL;
    m->left--;
    void *p = realloc(old, n);
    m->live += p && !old;
    return p;
}

static void meter_free(void *user, void *p)
{
    ((meter *)user)->live--;
    free(p);
}

/* Parses and prints with the n-th allocation failing, until all succeed. */
static void check_memory(const char *text)
{
    for (size_t n = 0; n < 5000; n++) {
        meter m = {.left = n};
        rlx_allocator a = {meter_realloc, meter_free, &m};
        rlx_graph *g = NULL;
        rlx_error err = {0};
        char *out = NULL;
        rlx_set_allocator(&a);
        rlx_status s = rlx_graph_parse(text, strlen(text), &g, &err);
        if (s == RLX_OK)
            s = rlx_graph_verify(g, &err);
        if (s == RLX_OK)
            s = rlx_graph_print(g, &out, NULL, &err);
        rlx_free(out);
        rlx_graph_destroy(g);
        rlx_set_allocator(NULL);
        if (m.live != 0 || (s != RLX_OK && s != RLX_NO_MEMORY)) {
            CHECK(!"a lack of memory is reported and leaks nothing");
            printf("    allocation %zu, %zu blocks left: %s\n", n, m.live, err.text);
            return;
        }
        if (s == RLX_OK)
            return;
    }
    CHECK(!"parsing ends with enough memory");
}

static void test_memory(void)
{
    check_memory(elementwise());
    for (int i = 0; graphs[i]; i++)
        check_memory(graphs[i]);
}

int main(void)
{
    test_round_trips();
    test_what_is_read();
    test_long_dims();
    test_mistakes();
    test_sizes();
    test_mutations();
    test_memory();
    return check_done();
}
