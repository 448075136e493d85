/* SPDX-License-Identifier: MIT */
/* The text form of graphs. One node a line; types of results are optional for all but leaves:
 *
 *   graph "name" {
 *     dim seq <= 512
 *     %1: f32[2,seq,8] = input "x"
 *     %2: f32[8,16] = param "w"
 *     %3: f32[2] = constant [0.5, -1]          or  constant 0x0000003f000080bf
 *     %4: f32[2,seq,16] = matmul(%1, %2) {act=relu} "node name"
 *     %5: f32[2,seq,3], %6: i64[2,seq,3] = top_k(%4) {k=3, axis=2}
 *     %7: f32[2,seq,16] = region(%4, %1) {t0 = add(a0, a1): f32; t1 = exp(t0): f32; return t1}
 *     output "y" = %7
 *   }
 *
 * "_" is an absent operand, "#" starts a comment. Dimensions may be expressions: [(seq+1),(seq*4)].
 * Attributes that are zero are not printed and need not be given. */
#ifndef RX_IR_TEXT_H
#define RX_IR_TEXT_H

#include "base/str.h"
#include "ir/graph.h"

/* Appends "{axis=1, keepdims=true}" with a space before it; nothing when all fields are zero. */
void rx_text_attr(rx_str *s, const rlx_graph *g, rx_op op, const void *attr);
/* Appends a dimension: "12", "seq", "((seq*4)+1)". */
void rx_text_dim(rx_str *s, const rlx_graph *g, rlx_dim d);
/* Appends one node as a line of the text form, without indentation and newline. */
void rx_text_node(rx_str *s, const rlx_graph *g, const rx_node *n);

/* Parses "axis=1, keepdims=true" (without braces) into a zeroed record of `op`. Strings and lists
 * are put into the graph's arena. */
rlx_status rx_text_parse_attr(rlx_graph *g, rx_op op, const char *text, void *attr, rlx_error *err);

#endif
