/* SPDX-License-Identifier: MIT */
/* Graphs of several nodes that optest runs on the device and on the reference. */
#ifndef GRAPH_TABLE_H
#define GRAPH_TABLE_H

#include "rlx/graph.h"

typedef struct graph_test {
    const char *name;
    int n_runs;
    /* Fills of inputs that are not the default: "pos:count(0,4) ids:int(0,8)"; count(a,b) gives
     * a + b * run + index of the element. NULL: all are the default. */
    const char *fills;
    /* Values of the named dimensions, the last one for all later runs: "seq=4,2,1 batch=1". */
    const char *dims;
    const char *text; /* ir/text.h has the form */
} graph_test;

extern const graph_test graph_tests[]; /* ends with name NULL */

/* random_graph.c: a random graph; the same seed gives the same one. Owned by the caller. */
rlx_graph *ot_random_graph(uint64_t seed);
/* The same by the choices of a fuzzer: any bytes give a graph that is valid. */
rlx_graph *ot_graph_of_bytes(const uint8_t *bytes, size_t n);

#endif
