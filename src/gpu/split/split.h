/* SPDX-License-Identifier: MIT */
/* Steps with tensors larger than a binding may be: cut into several steps on parts of them. */
#ifndef RX_GPU_SPLIT_H
#define RX_GPU_SPLIT_H

#include "gpu/gpu.h"

#define RX_SPLIT_MAX 24 /* operands and results */

/* Axes that are cut together, operands first, then results: -1 is a tensor that every part needs
 * whole. Place p of result 0 is place p / unit * times of another tensor, and cuts are at multiples
 * of all units and of `multiple`; 0 means 1. With halo.span place p needs places p * step - before
 * to p * step - before + span - 1 of operand 0, as far as there are such. */
typedef struct rx_split_cut {
    int axis[RX_SPLIT_MAX];
    int64_t unit[RX_SPLIT_MAX], times[RX_SPLIT_MAX];
    int64_t multiple;
    struct {
        int64_t step, before, span;
        int axis; /* which spatial one */
    } halo;
    int64_t counts; /* rx_gpu_call.part_first grows by this for each place; 0: it does not matter */
    bool adjusts;  /* parts have attributes of their own: rx_split_adjust */
    bool in_place; /* parts must be written where they belong */
    bool staged;   /* all parts of results go through scratch memory */
} rx_split_cut;

/* Fills the cut along axis a of result 0. False: parts would not be independent. rules.c */
bool rx_split_rule(const rx_gpu_call *c, int a, rx_split_cut *cut);
/* The attributes of the part of a step from place `first` on, `length` places: changes a copy. */
void rx_split_adjust(const rx_split_cut *cut, const rx_gpu_call *c, void *attr, int64_t first,
                     int64_t length);
/* True for operations whose kernels write from the first byte of a binding on. */
bool rx_split_is_exact(rx_op op);

/* Lowers a step some of whose tensors do not fit into a binding. split.c */
rlx_status rx_gpu_split(rx_gpu_build *b, const rx_gpu_call *c);

/* True when all tensors of a step fit into bindings as they are. */
bool rx_gpu_fits(const rx_gpu_call *c);

/* The bytes of its memory that a view touches: from *begin to *end. */
void rx_gpu_extent(const rx_view *v, uint64_t *begin, uint64_t *end);

#endif
