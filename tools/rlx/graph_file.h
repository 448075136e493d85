/* SPDX-License-Identifier: MIT */
/* Graphs in text form: reading a file, and a listing of the nodes for looking at them. */
#ifndef GRAPH_FILE_H
#define GRAPH_FILE_H

#include "rlx/rlx.h"

/* Reads and parses a graph ("-": from standard input); NULL after printing why not. */
rlx_graph *read_graph(const char *path);

typedef struct listed_dim {
    char *name;
    int64_t bound;
} listed_dim;

typedef struct listed_node {
    char *op, *type; /* type: of the first result, as in the text form: "f32[2,seq]" */
    char *leaf;      /* name of an input, param or state; NULL for others */
} listed_node;

/* What the printed text of a graph, or of a stage of the compiler, says. */
typedef struct listing {
    listed_dim *dims;
    listed_node *nodes;
    size_t n_dims, n_nodes;
} listing;

void listing_read(listing *l, const char *text);
bool listing_of_graph(listing *l, const rlx_graph *g); /* false after printing why not */
void listing_free(listing *l);
/* The type of a leaf as the text form prints it, with the names of dimensions; "?" if unknown. */
const char *listing_leaf_type(const listing *l, const char *kind, const char *name);
/* Nodes that compute: all but leaves. */
size_t listing_n_ops(const listing *l);

/* An op and how often it occurs, most frequent first. Freed with free; the names are those of the
 * listing. */
typedef struct op_count {
    const char *op;
    size_t n;
} op_count;
op_count *listing_count_ops(const listing *l, size_t *n);

#endif
