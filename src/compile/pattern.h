/* SPDX-License-Identifier: MIT */
/* Patterns of nodes, written as text in fuse.def. */
#ifndef RX_COMPILE_PATTERN_H
#define RX_COMPILE_PATTERN_H

#include "ir/graph.h"

#define RX_PATTERN_NODES 24
#define RX_PATTERN_VARS 8

typedef enum rx_pattern_kind {
    RX_PATTERN_OP, RX_PATTERN_VALUE, RX_PATTERN_NUMBER, RX_PATTERN_CAPTURE
} rx_pattern_kind;

typedef struct rx_pattern_node {
    rx_pattern_kind kind;
    rx_op op;
    bool last_axis;   /* mean: a reduction of the last axis only, which it keeps */
    int8_t name;      /* VALUE: which; OP: the name it is given, or -1 */
    uint8_t n_args, arg[4];
    double number;    /* NUMBER */
} rx_pattern_node;

/* One side of a rule. Node 0 is the root. */
typedef struct rx_pattern {
    rx_pattern_node nodes[RX_PATTERN_NODES];
    uint8_t n_nodes, n_vars;
    struct { char text[12]; } vars[RX_PATTERN_VARS];
    char capture[12]; /* name after the $ */
} rx_pattern;

/* A match. */
typedef struct rx_match {
    uint32_t var[RX_PATTERN_VARS];         /* value ids */
    uint32_t inner[RX_PATTERN_NODES];      /* inner values of the match, each once */
    uint8_t n_uses[RX_PATTERN_NODES];      /* how often the pattern uses each of them */
    uint8_t n_inner;
    double capture;
} rx_match;

/* Reads a pattern. `names` (may be NULL) is the pattern whose variables this one uses, and no
 * others. False when the text is wrong, which is a bug in fuse.def. */
bool rx_pattern_parse(rx_pattern *p, const char *text, const rx_pattern *names);
/* Matches the pattern with its root at value `id`. */
bool rx_pattern_match(const rx_pattern *p, const rlx_graph *g, uint32_t id, rx_match *m);

#endif
