/* SPDX-License-Identifier: MIT */
/* Steps whose tensors exceed the size limit of a binding are split into several on slices. */
#ifndef RX_GPU_SPLIT_H
#define RX_GPU_SPLIT_H

#include "gpu/gpu.h"

#define RX_SPLIT_MAX 24 /* operands and results */

/* By tensor, operands first, then results: the axis that is sliced, -1: every slice of the step
 * needs the whole tensor. Index i of result 0 corresponds to index i / unit * times of another
 * tensor; boundaries are multiples of all units and of `multiple`; 0 means 1. With halo.span, index
 * i needs indices i * step - before .. i * step - before + span - 1 of operand 0, as far as they
 * exist. */
typedef struct rx_split_cut {
    int axis[RX_SPLIT_MAX];
    int64_t unit[RX_SPLIT_MAX], times[RX_SPLIT_MAX];
    int64_t multiple;
    struct {
        int64_t step, before, span;
        int axis; /* which spatial one */
    } halo;
    int64_t counts; /* rx_gpu_call.part_first advances by this for each index; 0: unused */
    bool adjusts;  /* parts have attributes of their own: rx_split_adjust */
    bool in_place; /* slices of results are written in place, never through scratch memory */
    bool staged;   /* all parts of results go through scratch memory */
} rx_split_cut;

/* Fills the cut along axis a of result 0. False: parts would not be independent. rules.c */
bool rx_split_rule(const rx_gpu_call *c, int a, rx_split_cut *cut);
/* Changes `attr`, a copy of the record, to that of the slice first .. first + length - 1. */
void rx_split_adjust(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                     int64_t length);
/* True for operations whose kernels write from the first byte of a binding on. */
bool rx_split_is_exact(rx_op op);

/* Lowers a step with tensors that do not fit into a binding. split.c */
rlx_status rx_gpu_split(rx_gpu_build *b, const rx_gpu_call *c);

/* True when all tensors of a step fit into bindings as they are. */
bool rx_gpu_fits(const rx_gpu_call *c);

/* The bytes of its memory that a view covers: from *begin to *end. */
void rx_gpu_extent(const rx_view *v, uint64_t *begin, uint64_t *end);

#endif
