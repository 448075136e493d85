/* SPDX-License-Identifier: MIT */
/* Elementwise operations as instructions of fused regions: conversion between nodes and
 * instructions, the type rule that both share, and the builder of regions. */
#ifndef RX_OPS_REGION_H
#define RX_OPS_REGION_H

#include "ir/infer.h"

/* The types that the arguments of an elementwise operation may have (bits RX_T). The condition of
 * where is always bool and not meant here. */
uint64_t rx_elementwise_types(rx_op op);
/* The type of the result for arguments of type `arg` (where: that of a and b). cast gives `to`. */
rlx_dtype rx_elementwise_result(rx_op op, rlx_dtype arg, rlx_dtype to);
/* Checks the parameters of an instruction (finite, not NaN, whole numbers where the arguments are
 * integers). NULL, or what is wrong as the end of a sentence. */
const char *rx_instr_check(const rx_instr *in, rlx_dtype arg);

/* The instruction of operation `op` with normalised record `attr`; arg[] is left 0. */
rx_instr rx_instr_make(rx_op op, const void *attr, rlx_dtype result);

/* Large enough for the record of any elementwise operation. */
typedef union rx_instr_attr {
    rx_no_attr none;
    rx_unary_attr unary;
    rx_clamp_attr clamp;
    rx_mod_attr mod;
    rx_cast_attr cast;
} rx_instr_attr;
/* The reverse of rx_instr_make: fills in the record. */
void rx_instr_to_attr(const rx_instr *in, rx_instr_attr *attr);

/* NumPy broadcast of shapes that are known to broadcast: *to becomes that of *to and *from. */
void rx_shape_widen(rlx_shape *to, const rlx_shape *from);

/* Appends a region. The instructions are copied. Result i is rx_result(.., i). RLX_NONE on error,
 * which is recorded in the graph. */
rlx_value rx_region_build(rlx_graph *g, const rx_region *r, const rlx_value *in, size_t n_in,
                          const char *name);

#endif
