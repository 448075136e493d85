/* SPDX-License-Identifier: MIT */
/* Reading graphs from files, and listings of their nodes from the printed form. */
#include "graph_file.h"

#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "input.h"
#include "system.h"

/* Language models are no graphs in files; people who come from ollama type 'run MODEL'. */
static bool is_language_model(const char *path)
{
    return input_begins(path, "GGUF") || (rx_access(path, F_OK) && cli_is_model(path));
}

rlx_graph *read_graph(const char *path)
{
    size_t length;
    if (is_language_model(path)) {
        cli_fail("'%s' is a model and not a graph: 'rlx chat %s' talks to it, 'rlx inspect %s' "
                 "says what it is good for", path, path, path);
        return NULL;
    }
    char *text = input_read(path, &length);
    if (!text)
        return NULL;
    rlx_graph *g = NULL;
    rlx_error err = {0};
    if (rlx_graph_parse(text, length, &g, &err) != RLX_OK)
        cli_fail("%s: %s", path, err.text);
    free(text);
    if (g && rlx_graph_verify(g, &err) != RLX_OK) {
        cli_fail("%s: %s", path, err.text);
        rlx_graph_destroy(g);
        g = NULL;
    }
    return g;
}

/* ---- Listings -------------------------------------------------------------------------------- */

static char *copy_span(const char *from, size_t n)
{
    char *s = cli_alloc(n + 1);
    memcpy(s, from, n);
    return s;
}

/* "  dim seq <= 512" */
static void read_dim(listing *l, const char *at)
{
    at += strspn(at, " ");
    size_t n = strcspn(at, " ");
    const char *bound = strstr(at + n, "<=");
    l->dims = cli_realloc_array(l->dims, l->n_dims + 1, sizeof *l->dims);
    l->dims[l->n_dims++] = (listed_dim){copy_span(at, n), bound ? atoll(bound + 2) : 0};
}

/* "%4: f32[2,3], %5: i64[2] = op(...)"; `line` is one line, without its end. */
static void read_node(listing *l, const char *line)
{
    const char *op = strstr(line, " = ");
    if (!op)
        return;
    op += 3;
    listed_node node = {0};
    node.op = copy_span(op, strcspn(op, "( \""));
    const char *type = strstr(line, ": ");
    if (type && type < op) {
        type += 2;
        const char *end = strchr(type, ']');
        if (end)
            node.type = copy_span(type, (size_t)(end - type) + 1);
    }
    const char *name = op + strlen(node.op);
    if (name[0] == ' ' && name[1] == '"') {
        const char *end = strrchr(name + 2, '"');
        node.leaf = copy_span(name + 2, end ? (size_t)(end - name - 2) : 0);
    }
    if (!(l->n_nodes & (l->n_nodes - 1)))
        l->nodes = cli_realloc_array(l->nodes, l->n_nodes ? 2 * l->n_nodes : 1, sizeof *l->nodes);
    l->nodes[l->n_nodes++] = node;
}

void listing_read(listing *l, const char *text)
{
    *l = (listing){0};
    while (*text) {
        size_t n = strcspn(text, "\n");
        char *line = copy_span(text, n);
        const char *at = line + strspn(line, " ");
        if (!strncmp(at, "dim ", 4))
            read_dim(l, at + 4);
        else if (*at == '%')
            read_node(l, at);
        free(line);
        text += n + (text[n] == '\n');
    }
}

bool listing_of_graph(listing *l, const rlx_graph *g)
{
    char *text;
    size_t length;
    rlx_error err = {0};
    *l = (listing){0};
    if (rlx_graph_print(g, &text, &length, &err) != RLX_OK) {
        cli_error(&err);
        return false;
    }
    listing_read(l, text);
    rlx_free(text);
    return true;
}

void listing_free(listing *l)
{
    for (size_t i = 0; i < l->n_dims; i++)
        free(l->dims[i].name);
    for (size_t i = 0; i < l->n_nodes; i++) {
        free(l->nodes[i].op);
        free(l->nodes[i].type);
        free(l->nodes[i].leaf);
    }
    free(l->dims);
    free(l->nodes);
    *l = (listing){0};
}

const char *listing_leaf_type(const listing *l, const char *kind, const char *name)
{
    for (size_t i = 0; i < l->n_nodes; i++) {
        const listed_node *n = &l->nodes[i];
        if (n->leaf && n->type && !strcmp(n->op, kind) && !strcmp(n->leaf, name))
            return n->type;
    }
    return "?";
}

static bool is_leaf(const char *op)
{
    return !strcmp(op, "input") || !strcmp(op, "param") || !strcmp(op, "constant") ||
           !strcmp(op, "state");
}

size_t listing_n_ops(const listing *l)
{
    size_t n = 0;
    for (size_t i = 0; i < l->n_nodes; i++)
        n += !is_leaf(l->nodes[i].op);
    return n;
}

static int compare_counts(const void *a, const void *b)
{
    const op_count *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return strcmp(x->op, y->op);
}

op_count *listing_count_ops(const listing *l, size_t *n)
{
    op_count *counts = cli_alloc_array(l->n_nodes + 1, sizeof *counts);
    *n = 0;
    for (size_t i = 0; i < l->n_nodes; i++) {
        size_t k = 0;
        if (is_leaf(l->nodes[i].op))
            continue;
        while (k < *n && strcmp(counts[k].op, l->nodes[i].op))
            k++;
        if (k == *n)
            counts[(*n)++].op = l->nodes[i].op;
        counts[k].n++;
    }
    qsort(counts, *n, sizeof *counts, compare_counts);
    return counts;
}
