/* SPDX-License-Identifier: MIT */
/* Reading a graph node by node (rlx/nodes.h): a copy of a graph is made with the public API alone,
 * as an exporter would, and its text is that of the original. And a sentence for each mistake. */
#include "check.h"
#include "rlx/rlx.h"

static rlx_error err;

/* Operations with attributes of every kind, absent operands, several results, state. */
static const char text[] =
    "graph \"many\" {\n"
    "  dim seq <= 16\n"
    "  dim rows <= 3\n"
    "  %x: f32[2,seq,8] = input \"x\"\n"
    "  %w: f32[5,8] = param \"w\"\n"
    "  %i: f32[1,3,8,8] = input \"image\"\n"
    "  %k: f32[4,3,3,3] = param \"k\"\n"
    "  %s: f32[6,8] = state \"s\"\n"
    "  %p: i32[] = constant [2]\n"
    "  %c: f32[2] = constant [0.5, -1]\n"
    "  %m = matmul(%x, %w) {trans_b=true, act=gelu_tanh} \"product\"\n"
    "  %n = layer_norm(%m) {eps=1e-06}\n"
    "  %r = reshape(%n) {shape=[2,(seq*5)]}\n"
    "  %t, %ti = top_k(%r) {k=2, axis=1, out=i32}\n"
    "  %h = cast(%t) {to=f16}\n"
    "  %v = conv2d(%i, %k) {stride=[2,2], pads=[1,1,1,1]}\n"
    "  %z = resize(%v) {sizes=[1,4,8,8], mode=linear, scale=[1,1,2,2]}\n"
    "  %q = reshape(%x) {shape=[2,1,seq,8]}\n"
    "  %a = attention(%q, %q, %q) {scale=0.25, causal=true}\n"
    "  %u = narrow(%w) {axis=0, length=1}\n"
    "  %s2 = state_write(%s, %u, %p) {axis=0}\n"
    "  %l = leaky_relu(%c) {alpha=0.2}\n"
    "  %e = softmax(%s2) {axis=1}\n"
    "  output \"h\" = %h\n"
    "  output \"ti\" = %ti\n"
    "  output \"z\" = %z\n"
    "  output \"a\" = %a\n"
    "  output \"e\" = %e\n"
    "  output \"l\" = %l\n"
    "}\n";

typedef struct buffer {
    char text[2048];
    size_t n;
} buffer;

static void put(buffer *b, const char *s)
{
    size_t n = strlen(s);
    if (CHECK(b->n + n < sizeof b->text)) {
        memcpy(b->text + b->n, s, n + 1);
        b->n += n;
    }
}

static void put_number(buffer *b, double v)
{
    char s[40];
    snprintf(s, sizeof s, "%.17g", v);
    put(b, s);
}

static void put_dim(buffer *b, const rlx_graph *g, rlx_dim d)
{
    char s[64] = "-1";
    if (d != -1)
        CHECK(rlx_dim_text(g, d, s, sizeof s) == strlen(s));
    put(b, s);
}

static void put_attr(buffer *b, const rlx_graph *g, const rlx_attr_info *a)
{
    put(b, b->n ? ", " : "");
    put(b, a->name);
    put(b, "=");
    switch (a->kind) {
    case RLX_ATTR_INT: put_number(b, (double)a->i); break;
    case RLX_ATTR_FLOAT: put_number(b, a->f); break;
    case RLX_ATTR_BOOL: put(b, "true"); break;
    case RLX_ATTR_WORD:
    case RLX_ATTR_DTYPE: put(b, a->text); break;
    case RLX_ATTR_DIM: put_dim(b, g, a->i); break;
    case RLX_ATTR_INTS:
    case RLX_ATTR_DIMS:
        put(b, "[");
        for (int i = 0; i < a->ints.n; i++) {
            put(b, i ? "," : "");
            if (a->kind == RLX_ATTR_DIMS)
                put_dim(b, g, a->ints.v[i]);
            else
                put_number(b, (double)a->ints.v[i]);
        }
        put(b, "]");
        break;
    case RLX_ATTR_FLOATS:
        put(b, "[");
        for (size_t i = 0; i < a->n_floats; i++) {
            put(b, i ? "," : "");
            put_number(b, a->floats[i]);
        }
        put(b, "]");
        break;
    default: CHECK(!"a kind that is not known here");
    }
}

/* A leaf of the copy; its dimensions are numbers and names. */
static rlx_value copy_leaf(rlx_graph *to, const rlx_graph *g, const rlx_node_info *n)
{
    const rlx_shape shape = rlx_value_shape(g, n->out);
    const rlx_dtype t = rlx_value_dtype(g, n->out);
    rlx_dim dims[RLX_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        char name[64];
        rlx_dim_text(g, shape.dim[i], name, sizeof name);
        dims[i] = shape.dim[i] < 0 ? rlx_dim_named(to, name, rlx_dim_bound(g, shape.dim[i]))
                                   : shape.dim[i];
    }
    if (!strcmp(n->op, "constant"))
        return rlx_constant(to, t, shape.rank, dims, n->data, n->bytes);
    return (!strcmp(n->op, "input") ? rlx_input : !strcmp(n->op, "param") ? rlx_param : rlx_state)(
        to, n->name, t, shape.rank, dims);
}

static void copy_node(rlx_graph *to, const rlx_graph *g, size_t i, rlx_value *map)
{
    rlx_node_info n = {RLX_INIT(rlx_node_info)};
    rlx_attr_info a = {RLX_INIT(rlx_attr_info)};
    rlx_value in[8], out[4];
    buffer attrs = {.n = 0};
    if (!CHECK_OK(rlx_graph_node(g, i, &n, &err), &err) || !CHECK(n.n_in <= 8 && n.n_out <= 4))
        return;
    if (n.is_leaf) {
        CHECK(n.n_attrs == 0 && n.n_out == 1);
        map[n.out.id] = copy_leaf(to, g, &n);
        return;
    }
    for (size_t k = 0; k < n.n_in; k++)
        in[k] = map[n.in[k].id];
    for (size_t k = 0; k < n.n_attrs; k++)
        if (CHECK_OK(rlx_node_attr(g, i, k, &a, &err), &err) && !a.is_zero)
            put_attr(&attrs, g, &a);
    CHECK(rlx_op(to, n.op, in, n.n_in, attrs.text, out, 4) == n.n_out);
    for (size_t k = 0; k < n.n_out; k++)
        map[n.out.id + k] = out[k];
    rlx_named(to, out[0], n.name[0] ? n.name : NULL);
}

static void test_copy(void)
{
    rlx_graph *g = NULL, *copy = rlx_graph_create("many");
    rlx_value map[128] = {{0}};
    rlx_leaf_info y;
    const char *name;
    int64_t bound;
    char *want = NULL, *got = NULL;
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    for (size_t i = 0; rlx_graph_dim(g, i, &name, &bound); i++)
        rlx_dim_named(copy, name, bound);
    for (size_t i = 0; i < rlx_graph_n_nodes(g); i++)
        copy_node(copy, g, i, map);
    for (size_t i = 0; rlx_graph_leaf(g, RLX_LEAF_OUTPUT, i, &y); i++)
        rlx_output(copy, y.name, map[y.value.id]);
    CHECK_OK(rlx_graph_status(copy, &err), &err);
    CHECK_OK(rlx_graph_print(g, &want, NULL, &err), &err);
    CHECK_OK(rlx_graph_print(copy, &got, NULL, &err), &err);
    if (!CHECK(want && got && !strcmp(want, got)))
        printf("expected\n%s\ngot\n%s\n", want, got);
    rlx_free(want);
    rlx_free(got);
    rlx_graph_destroy(copy);
    rlx_graph_destroy(g);
}

static void test_looking(void)
{
    rlx_graph *g = NULL;
    rlx_leaf_info y;
    rlx_node_info n = {RLX_INIT(rlx_node_info)};
    size_t node = 0, result = 0;
    char *line = NULL, short_text[4];
    CHECK_OK(rlx_graph_parse(text, strlen(text), &g, &err), &err);
    CHECK(rlx_graph_leaf(g, RLX_LEAF_OUTPUT, 1, &y)); /* the second result of top_k */
    CHECK_OK(rlx_value_node(g, y.value, &node, &result, &err), &err);
    CHECK_OK(rlx_graph_node(g, node, &n, &err), &err);
    CHECK(!strcmp(n.op, "top_k") && result == 1 && n.n_out == 2 && n.out.id + 1 == y.value.id);
    CHECK_OK(rlx_node_text(g, node, &line, NULL, &err), &err);
    CHECK(line && strstr(line, "= top_k(%") && strstr(line, "{k=2, axis=1, out=i32}"));
    rlx_free(line);
    const rlx_dim wide = rlx_value_shape(g, (rlx_value){n.in[0].id}).dim[1];
    CHECK(rlx_dim_text(g, wide, short_text, sizeof short_text) == strlen("(seq*5)"));
    CHECK(!strcmp(short_text, "(se") && rlx_dim_bound(g, wide) == 80 && rlx_dim_bound(g, 7) == 7);
    rlx_graph_destroy(g);
}

static void test_mistakes(void)
{
    rlx_graph *g = rlx_graph_create("small");
    rlx_value x = rlx_input(g, "x", RLX_F32, 0, NULL);
    rlx_node_info n = {RLX_INIT(rlx_node_info)};
    rlx_attr_info a = {RLX_INIT(rlx_attr_info)};
    size_t node;
    char *line;
    rlx_exp(g, x);
    CHECK_FAILS(rlx_graph_node(g, 2, &n, &err), RLX_NOT_FOUND, &err, "no node 2: it has 2");
    CHECK_FAILS(rlx_node_text(g, 2, &line, NULL, &err), RLX_NOT_FOUND, &err, "no node 2");
    CHECK_FAILS(rlx_node_attr(g, 1, 0, &a, &err), RLX_NOT_FOUND, &err,
                "node 1, a exp, has no attribute 0");
    CHECK_FAILS(rlx_value_node(g, RLX_NONE, &node, NULL, &err), RLX_INVALID, &err, "value 0");
    CHECK_FAILS(rlx_value_node(g, (rlx_value){9}, &node, NULL, &err), RLX_INVALID, &err,
                "which has 1 to 2");
    CHECK(rlx_dim_text(g, -7, NULL, 0) == 0 && rlx_dim_bound(g, -7) == 0);
    rlx_graph_destroy(g);
}

int main(void)
{
    test_copy();
    test_looking();
    test_mistakes();
    return check_done();
}
