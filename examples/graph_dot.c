/* SPDX-License-Identifier: MIT */
/* Reads a graph node by node and prints it in the DOT language, for Graphviz:
 *
 *     graph_dot [GRAPH.rlx] | dot -Tsvg -o graph.svg
 *
 * Without a file it draws a small graph of its own. Multiply-adds of matrix products are counted,
 * as a cost model would. */
#include <stdio.h>
#include <string.h>

#include <rlx/rlx.h>

/* y = softmax(relu(x . w) . v) for up to 64 rows. */
static rlx_graph *make_graph(void)
{
    rlx_graph *g = rlx_graph_create("two layers");
    rlx_dim rows = rlx_dim_named(g, "rows", 64);
    rlx_value x = rlx_input(g, "x", RLX_F32, 2, (rlx_dim[]){rows, 8});
    rlx_value w = rlx_param(g, "w", RLX_F32, 2, (rlx_dim[]){8, 16});
    rlx_value v = rlx_param(g, "v", RLX_F32, 2, (rlx_dim[]){4, 16});
    rlx_value h = rlx_named(g, rlx_relu(g, rlx_matmul(g, x, w)), "hidden");
    const rlx_matmul_desc turned = {RLX_INIT(rlx_matmul_desc), .trans_b = true};
    rlx_value y = rlx_matmul_ex(g, h, v, RLX_NONE, RLX_NONE, &turned);
    rlx_output(g, "y", rlx_softmax(g, y, -1));
    return g;
}

static rlx_graph *read_graph(const char *path, rlx_error *err)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "rb");
    size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    rlx_graph *g = NULL;
    if (f)
        fclose(f);
    if (!n || n == sizeof text)
        snprintf(err->text, sizeof err->text, "%s: no graph of 1 byte to 1 MiB", path);
    else
        rlx_graph_parse(text, n, &g, err);
    return g;
}

/* "f32[rows,16]" */
static void print_type(const rlx_graph *g, rlx_value v)
{
    const rlx_shape shape = rlx_value_shape(g, v);
    char dim[64];
    printf("%s[", rlx_dtype_name(rlx_value_dtype(g, v)));
    for (int i = 0; i < shape.rank; i++) {
        rlx_dim_text(g, shape.dim[i], dim, sizeof dim);
        printf("%s%s", i ? "," : "", dim);
    }
    printf("]");
}

static void print_attr(const rlx_graph *g, const rlx_attr_info *a)
{
    char dim[64];
    printf("\\n%s=", a->name);
    switch (a->kind) {
    case RLX_ATTR_FLOAT: printf("%g", a->f); break;
    case RLX_ATTR_BOOL: printf("true"); break;
    case RLX_ATTR_WORD:
    case RLX_ATTR_DTYPE: printf("%s", a->text); break;
    case RLX_ATTR_DIM:
        rlx_dim_text(g, (rlx_dim)a->i, dim, sizeof dim);
        printf("%s", dim);
        break;
    case RLX_ATTR_INTS:
    case RLX_ATTR_DIMS:
        for (int i = 0; i < a->ints.n; i++)
            printf("%s%lld", i ? "," : "", (long long)a->ints.v[i]);
        break;
    case RLX_ATTR_INT: printf("%lld", (long long)a->i); break;
    default: printf("..."); break; /* kinds of later versions too */
    }
}

/* Multiply-adds of a product at the bounds of its dimensions: elements of the result times the
 * length of the sums, the last axis of the left operand. */
static double count_products(const rlx_graph *g, const rlx_node_info *n)
{
    const rlx_shape left = rlx_value_shape(g, n->in[0]), out = rlx_value_shape(g, n->out);
    double count = left.rank ? (double)rlx_dim_bound(g, left.dim[left.rank - 1]) : 1;
    for (int i = 0; i < out.rank; i++)
        count *= (double)rlx_dim_bound(g, out.dim[i]);
    return count;
}

static rlx_status print_node(const rlx_graph *g, size_t i, double *products, rlx_error *err)
{
    rlx_node_info n = {RLX_INIT(rlx_node_info)};
    rlx_attr_info a = {RLX_INIT(rlx_attr_info)};
    rlx_status st = rlx_graph_node(g, i, &n, err);
    if (st != RLX_OK)
        return st;
    printf("  n%zu [shape=%s, label=\"%s", i, n.is_leaf ? "ellipse" : "box", n.op);
    if (n.name[0])
        printf(" '%s'", n.name);
    for (size_t k = 0; k < n.n_attrs && rlx_node_attr(g, i, k, &a, err) == RLX_OK; k++)
        if (!a.is_zero)
            print_attr(g, &a);
    printf("\"];\n");
    for (size_t k = 0; k < n.n_in; k++) {
        size_t from;
        if (!n.in[k].id || rlx_value_node(g, n.in[k], &from, NULL, err) != RLX_OK)
            continue;
        printf("  n%zu -> n%zu [label=\"", from, i);
        print_type(g, n.in[k]);
        printf("\"];\n");
    }
    if (!strcmp(n.op, "matmul") || !strcmp(n.op, "dequant_matmul"))
        *products += count_products(g, &n);
    return RLX_OK;
}

int main(int argc, char **argv)
{
    rlx_error err = {0};
    rlx_graph *g = argc > 1 ? read_graph(argv[1], &err) : make_graph();
    rlx_status st = g ? rlx_graph_status(g, &err) : RLX_IO;
    double products = 0;
    rlx_leaf_info y;
    if (st == RLX_OK)
        printf("digraph \"%s\" {\n", rlx_graph_name(g));
    for (size_t i = 0; st == RLX_OK && i < rlx_graph_n_nodes(g); i++)
        st = print_node(g, i, &products, &err);
    for (size_t i = 0; st == RLX_OK && rlx_graph_leaf(g, RLX_LEAF_OUTPUT, i, &y); i++) {
        size_t node;
        st = rlx_value_node(g, y.value, &node, NULL, &err);
        printf("  y%zu [shape=ellipse, label=\"output '%s'\"];\n  n%zu -> y%zu;\n", i, y.name, node,
               i);
    }
    if (st == RLX_OK)
        printf("  // %.0f multiply-adds in matrix products, at the bounds\n}\n", products);
    else
        fprintf(stderr, "graph_dot: %s\n", err.text);
    rlx_graph_destroy(g);
    return st != RLX_OK;
}
